/* The device, timing, and references. */
#include "call.h"
#include <bochner/devices.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SAMPLE_SECONDS = 0.02;
enum { MAX_CALLS = 1000 };

const cli_option device_rows[] = {
    SECTION("GPU"),
    DEVICE(device_options),
    TEXT("kinds", "LIST", device_options, kinds, "with --device cuda: kinds of attention",
         .default_text = "those of the benchmark"),
    END_OF_OPTIONS,
};

bool device_requested(const device_options *options)
{
    return options->device && strcmp(options->device, "cpu") != 0;
}

bool device_ok(device_bench *bench, bo_status status)
{
    const char *message = bench->context ? bo_context_error(bench->context) : "";
    if (status != BO_OK) cli_fail(bench->run->session, "%s", *message ? message : bo_status_string(status));
    return status == BO_OK;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static size_t number_of(const char *device)
{
    const char *colon = strchr(device, ':');
    return colon ? strtoul(colon + 1, NULL, 10) : 0;
}

/* Checks that every item of --kinds is a kind of attention. */
static bool kinds_known(device_bench *bench, const char *kind, void *unused)
{
    bo_attention_desc desc = {0};
    (void)unused;
    if (bo_attention_preset(kind, &desc)) return true;
    cli_fail(bench->run->session, "--kinds: there is no attention '%s'", kind);
    return false;
}

bool device_open(bench_run *run, const device_options *options, bo_precision precision, size_t repeats,
                 device_bench *out)
{
    *out = (device_bench){.run = run, .repeats = repeats < DEVICE_REPEATS ? repeats : DEVICE_REPEATS};
    const bo_context_desc desc = {.threads = bo_context_describe(run->session->context)->threads,
                                  .isa = bo_context_describe(run->session->context)->isa,
                                  .precision = precision};
    bo_device_info described;
    if (!device_each_kind(out, options->kinds, kinds_known, NULL)) return false;
    if (!device_ok(out, bo_context_create(&desc, &out->context)) ||
        !device_ok(out, bo_context_use_device(out->context, options->device)))
        return false;
    out->device = bo_device_of(out->context);
    if (!bo_device_is_gpu(out->device)) {
        cli_fail(run->session, "--device %s: there is no GPU", options->device);
        return false;
    }
    if (!device_ok(out, bo_device_describe(out->context, number_of(options->device), &described))) return false;
    snprintf(out->name, sizeof out->name, "%s", described.name);
    out->storage = bo_backend_storage(out->context, out->device);
    out->emulated = described.processors == 0 || strstr(described.name, "emulat") != NULL;
    cli_note(run->session, "%s, %s", out->name, bo_enum_name(BO_ENUM_PRECISION, precision));
    return true;
}

void device_close(device_bench *bench)
{
    bo_context_destroy(bench->context);
    *bench = (device_bench){0};
}

double device_used(device_bench *bench)
{
    bo_device_info described;
    if (bo_device_describe(bench->context, 0, &described) != BO_OK) return NAN;
    return (double)(described.bytes - described.free_bytes);
}

bool device_each_kind(device_bench *bench, const char *kinds,
                      bool (*use)(device_bench *bench, const char *kind, void *of), void *of)
{
    for (const char *at = kinds; at && *at;) {
        char item[32];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, ","), at);
        if (cli_interrupted() || !use(bench, item, of)) return false;
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    }
    return true;
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static bo_status time_replays(device_bench *bench, void *recording, size_t calls, double *seconds)
{
    BO_TRY(bo_device_mark(bench->context, bench->device, 0));
    for (size_t i = 0; i < calls; i++) BO_TRY(bo_device_replay(bench->context, bench->device, recording));
    BO_TRY(bo_device_mark(bench->context, bench->device, 1));
    BO_TRY(bo_device_elapsed(bench->context, bench->device, 0, 1, seconds));
    *seconds /= (double)calls;
    return BO_OK;
}

static bo_status time_recording(device_bench *bench, void *recording, double *median)
{
    double samples[DEVICE_REPEATS], once;
    BO_TRY(time_replays(bench, recording, 2, &once)); /* the first replay of a recording uploads it */
    BO_TRY(time_replays(bench, recording, 2, &once));
    const double calls_needed = ceil(SAMPLE_SECONDS / fmax(once, 1e-7));
    const size_t calls = calls_needed > MAX_CALLS ? MAX_CALLS : (size_t)calls_needed;
    for (size_t i = 0; i < bench->repeats; i++) BO_TRY(time_replays(bench, recording, calls, &samples[i]));
    *median = bench_median(samples, bench->repeats);
    return BO_OK;
}

static bo_status record(device_bench *bench, device_work work, void *what, void **recording)
{
    BO_TRY(work(bench->context, what));
    BO_TRY(bo_device_wait(bench->context, bench->device));
    BO_TRY(bo_device_record_begin(bench->context, bench->device));
    const bo_status status = work(bench->context, what),
                    ended = bo_device_record_end(bench->context, bench->device, recording);
    return status == BO_OK ? ended : status;
}

bo_status device_time(device_bench *bench, device_work work, void *what, double *seconds)
{
    void *recording = NULL;
    bo_device_lock(bench->device);
    bo_status status = record(bench, work, what, &recording);
    if (status == BO_OK) status = time_recording(bench, recording, seconds);
    if (recording) bo_device_forget(bench->device, recording);
    bo_device_unlock(bench->device);
    return status;
}

bool device_time_steps(device_bench *bench, size_t warmups, device_step step, void *what, double *seconds)
{
    double samples[DEVICE_REPEATS], ignored;
    for (size_t i = 0; i < warmups; i++)
        if (!step(bench, what, &ignored)) return false;
    for (size_t i = 0; i < bench->repeats; i++)
        if (cli_interrupted() || !step(bench, what, &samples[i])) return false;
    *seconds = bench_median(samples, bench->repeats);
    return true;
}

/* ---- references -------------------------------------------------------------------------------------------------- */

/* An operation that reads and writes every number once. */
static bo_status measure_copy(device_bench *bench)
{
    const size_t n = bench->emulated ? 64 : 16384;
    const bo_unary_attributes attributes = {.function = BO_UNARY_IDENTITY};
    const device_input in[1] = {{n, 2 * n, bench->storage, 0, 1, INFINITY}};
    const double bytes = 2 * (double)n * (double)n * (bench->storage == BO_ELEMENT_BFLOAT16 ? 2 : 4);
    device_call call;
    double seconds = NAN;
    bo_status status = device_call_open(bench, BO_OPERATION_UNARY, &attributes, 1, 1, in, &call);
    if (status == BO_OK) status = device_time(bench, device_call_forward, &call, &seconds);
    device_call_close(bench, &call);
    if (status != BO_OK) return status;
    bench->copied = 2 * bytes / seconds;
    bench_add(bench->run, "copy on the device", 1e-9 * bench->copied, "GB/s", NAN, false,
              "%s, read and written, %s; %s", cli_bytes(bytes).s, bench->name,
              bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(bench->context)->precision));
    return BO_OK;
}

static bo_status measure_product(device_bench *bench)
{
    const size_t n = bench->emulated ? 64 : 8192;
    const bo_linear_attributes attributes = {.weights = 1};
    const device_input in[2] = {{n, n, bench->storage, 0, 1, INFINITY}, {n, n, bench->storage, 0, 1, INFINITY}};
    device_call call;
    double seconds = NAN;
    bo_status status = device_call_open(bench, BO_OPERATION_LINEAR, &attributes, 1, 2, in, &call);
    if (status == BO_OK) status = device_time(bench, device_call_forward, &call, &seconds);
    device_call_close(bench, &call);
    if (status != BO_OK) return status;
    const double side = (double)n;
    bench->product = 2 * side * side * side / seconds;
    bench_add(bench->run, "matrix product on the device", 1e-12 * bench->product, "TFLOP/s", NAN, false,
              "%zu x %zu x %zu, %s, float32 sums", n, n, n,
              bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(bench->context)->precision));
    return BO_OK;
}

bool device_references(device_bench *bench)
{
    return device_ok(bench, measure_copy(bench)) && device_ok(bench, measure_product(bench));
}
