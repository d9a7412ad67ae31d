/* The context, an argument of every call. */
#include "enums.h"
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *bo_version(void)
{
    return BO_VERSION_STRING;
}

const char *bo_status_string(bo_status status)
{
    switch (status) {
#define BO_STATUS_CASE(name, number, text)                                                                             \
    case BO_##name:                                                                                                    \
        return text;
        BO_STATUS_LIST(BO_STATUS_CASE)
#undef BO_STATUS_CASE
    }
    return "unknown status";
}

int bo_available_cpus(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

static const double default_progress_interval = 0.05;

static bo_status start_threads(bo_context *context)
{
    BO_TRY(bo_pool_create(context, context->threads, &context->pool));
    context->threads = bo_pool_threads(context->pool);
    if (context->threads == 1) { /* no thread could be started */
        bo_pool_destroy(context->pool);
        context->pool = NULL;
    }
    return BO_OK;
}

bo_status bo_context_make(const bo_context_desc *desc, const struct bo_kernels *kernels, bo_context **out)
{
    const char *trace = desc->trace ? desc->trace : getenv("BOCHNER_TRACE");
    bo_context minimal = {.allocator = desc->allocator};
    bo_context *context = bo_alloc(&minimal, 1, sizeof *context, "the context");
    if (!context) return BO_MEMORY;
    context->threads = desc->threads > 0 ? desc->threads : bo_available_cpus();
    context->log = desc->log;
    context->progress = desc->progress;
    context->progress_interval = default_progress_interval;
    context->user = desc->user;
    context->allocator = desc->allocator;
    context->kernels = kernels;
    context->precision = desc->precision;
    bo_status status = context->threads > 1 ? start_threads(context) : BO_OK;
    if (status == BO_OK && trace && *trace) status = bo_trace_open(context, trace);
    if (status != BO_OK) {
        const int error = errno; /* error of opening the trace file */
        bo_context_destroy(context);
        errno = error;
        return status;
    }
    assert(context->kernels && (context->pool != NULL) == (context->threads > 1));
    *out = context;
    return BO_OK;
}

bo_status bo_context_branch(bo_context *context, bo_context **out)
{
    *out = bo_alloc(context, 1, sizeof **out, "a context");
    if (!*out) return BO_MEMORY;
    **out = (bo_context){.threads = 1,
                         .progress_interval = context->progress_interval,
                         .allocator = context->allocator,
                         .kernels = context->kernels,
                         .precision = context->precision,
                         .device = context->device};
    const bo_status status = bo_trace_share(context, *out);
    if (status != BO_OK) {
        bo_free(*out);
        *out = NULL;
    }
    return status;
}

void bo_context_watch(bo_context *branch, bo_progress_fn progress, void *user)
{
    branch->progress = progress;
    branch->user = user;
}

void bo_context_destroy(bo_context *context)
{
    if (!context) return;
    bo_context_attach(context, NULL, NULL);
    bo_pool_destroy(context->pool);
    bo_trace_close(context);
    bo_free(context);
}

double bo_context_progress_interval(const bo_context *context)
{
    return context->progress_interval;
}

void bo_context_set_progress_interval(bo_context *context, double seconds)
{
    context->progress_interval = seconds;
}

const char *bo_context_error(const bo_context *context)
{
    return context ? context->error : "";
}

int bo_context_threads(const bo_context *context)
{
    return context ? context->threads : 0;
}

bo_precision bo_context_precision(const bo_context *context)
{
    return context ? context->precision : BO_PRECISION_FLOAT32;
}

bo_context_info *bo_context_update_info(const bo_context *context)
{
    bo_context *described = (bo_context *)(uintptr_t)context; /* only its description changes */
    described->info.threads = context->threads;
    described->info.precision = context->precision;
    described->info.trace = bo_context_trace(context);
    return &described->info;
}

static const char *const precision_names[] = {"float32", "bfloat16"};
BO_NAMED(precision, bo_precision, precision_names)

struct bo_device *bo_context_attached(const bo_context *context)
{
    return context->device;
}

void bo_context_attach(bo_context *context, struct bo_device *device, void (*release)(struct bo_device *device))
{
    if (context->device && context->release_device) context->release_device(context->device);
    context->device = device;
    context->release_device = release;
}

const struct bo_kernels *bo_context_kernels(const bo_context *context)
{
    return context->kernels;
}

bo_status bo_fail(bo_context *context, bo_status status, const char *format, ...)
{
    /* The arguments may point into the old message, so the new message is built in a separate buffer. */
    char message[sizeof context->error];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    memcpy(context->error, message, sizeof message);
    return status;
}

/* The name number `index` of a list "a, b->c, d". */
static const char *name_at(const char *names, size_t index)
{
    for (; index; index--) names = strchr(names, ',') + 1;
    return names + strspn(names, " ");
}

bo_status bo_refuse_null(bo_context *context, const char *function, const char *names, const void *const *pointers)
{
    if (!context) return BO_INVALID;
    size_t missing = 0;
    while (pointers[missing]) missing++;
    const char *name = name_at(names, missing);
    return bo_fail(context, BO_INVALID, "%s: argument '%.*s' is NULL", function, (int)strcspn(name, ","), name);
}

bo_status bo_check_zeros(bo_context *context, const char *name, const uint64_t *reserved, size_t count)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) bits |= reserved[i];
    if (!bits) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "%s: its reserved members are not zero; initialize the struct with {0}, or use the library version "
                   "that the program was compiled for (this is " BO_VERSION_STRING ")",
                   name);
}

bo_status bo_context_fail(bo_context *context, bo_status status, const char *format, ...)
{
    BO_REQUIRE(context, format);
    char message[sizeof context->error];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return bo_fail(context, status, "%s", message);
}

void bo_context_forget_error(bo_context *context)
{
    context->error[0] = 0;
}

void bo_log(bo_context *context, bo_log_level level, const char *format, ...)
{
    if (!context->log) return;
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    context->log(context->user, level, message);
}

bo_status bo_progress(bo_context *context, const char *what, double done, double total)
{
    if (!context->progress || context->progress(context->user, what, done, total)) return BO_OK;
    return bo_fail(context, BO_CANCELED, "%s was canceled", what);
}

double bo_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
