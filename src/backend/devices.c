/* The device of a context. */
#include <bochner/devices.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend.h"
#include "cuda/cuda.h"

const bo_backend *bo_backend_of(const bo_context *context)
{
    const bo_backend *backend = bo_context_backend(context);
    return backend ? backend : bo_backend_cpu();
}

bo_status bo_device_count(bo_context *context, size_t *count)
{
    if (count) *count = 0;
    BO_REQUIRE(context, count);
    const bo_cuda_functions *functions = bo_cuda_load(context);
    if (!functions) return BO_OK;
    const int found = functions->devices();
    if (found <= 0) bo_fail(context, BO_UNSUPPORTED, "no GPU was found, or its driver is older than CUDA 13");
    *count = found > 0 ? (size_t)found : 0;
    return BO_OK;
}

const char *bo_device_plugin(bo_context *context)
{
    return context ? bo_cuda_plugin_path(context) : NULL;
}

bo_status bo_device_describe(bo_context *context, size_t index, bo_device *out)
{
    BO_REQUIRE(context, out);
    memset(out, 0, sizeof *out);
    const bo_cuda_functions *functions = bo_cuda_load(context);
    if (!functions) return BO_UNSUPPORTED;
    const int count = functions->devices();
    if (count < 0 || index >= (size_t)count)
        return bo_fail(context, BO_INVALID, "GPU %zu does not exist: this machine has %d", index, count);
    bo_cuda_properties p;
    BO_TRY(bo_cuda_check(context, functions->properties((int)index, &p)));
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->major = p.major, out->minor = p.minor, out->processors = p.processors;
    out->bytes = p.bytes, out->free_bytes = p.free_bytes;
    return BO_OK;
}

/* Reads "cuda" or "cuda:N". */
static bool parse_cuda(const char *name, int *index)
{
    *index = 0;
    if (strcmp(name, "cuda") == 0) return true;
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
    char *end;
    const long number = strtol(name + 5, &end, 10);
    if (*end || number > 1023) return false;
    *index = (int)number;
    return true;
}

bo_status bo_context_use_device(bo_context *context, const char *name)
{
    BO_REQUIRE(context, name);
    int index = 0;
    const bool automatic = strcmp(name, "auto") == 0;
    size_t count = 0;
    if (automatic) BO_TRY(bo_device_count(context, &count));
    if (strcmp(name, "cpu") == 0 || (automatic && count == 0)) {
        bo_context_forget_error(context);
        bo_context_set_backend(context, NULL, NULL);
        return BO_OK;
    }
    if (!automatic && !parse_cuda(name, &index))
        return bo_fail(context, BO_INVALID, "device %.60s is unknown: expected cpu, cuda, cuda:N or auto", name);
    const bo_backend *backend;
    BO_TRY(bo_cuda_open(context, index, &backend));
    bo_context_set_backend(context, backend, backend->fits);
    return BO_OK;
}

bo_memory_bound bo_backend_memory(const bo_backend *backend)
{
    if (!backend->runs) return bo_process_memory();
    return (bo_memory_bound){backend->runs->free_bytes(), "free memory of the GPU"};
}

void bo_context_memory(const bo_context *context, bo_memory_bound *out)
{
    if (context && out) *out = bo_backend_memory(bo_backend_of(context));
}

const char *bo_context_device(const bo_context *context)
{
    return context ? bo_backend_of(context)->name : NULL;
}
