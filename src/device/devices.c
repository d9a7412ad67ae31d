/* The device of a context, and memory of devices, for programs: <bochner/devices.h>. */
#include <bochner/devices.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include "gpu/load.h"
#include "gpu/launch.h"
#include "internal.h"

bo_status bo_device_count(bo_context *context, size_t *count, const char **plugin)
{
    if (count) *count = 0;
    if (plugin) *plugin = NULL;
    BO_REQUIRE(context, count);
    const bo_gpu_functions *functions = bo_gpu_load(context);
    if (!functions) return BO_OK;
    if (plugin) *plugin = bo_gpu_plugin_path(context);
    const int found = functions->devices();
    if (found <= 0) bo_fail(context, BO_UNSUPPORTED, "no GPU was found, or its driver is older than CUDA 13");
    *count = found > 0 ? (size_t)found : 0;
    return BO_OK;
}

bo_status bo_device_describe(bo_context *context, size_t index, bo_device_info *out)
{
    BO_REQUIRE(context, out);
    memset(out, 0, sizeof *out);
    const bo_gpu_functions *functions = bo_gpu_load(context);
    if (!functions) return BO_UNSUPPORTED;
    const int count = functions->devices();
    if (count < 0 || index >= (size_t)count)
        return bo_fail(context, BO_INVALID, "GPU %zu does not exist: this host has %d", index, count);
    bo_gpu_properties p;
    BO_TRY(bo_gpu_check(context, functions->properties((int)index, &p)));
    snprintf(out->name, sizeof out->name, "%s", p.name);
    out->major = p.major, out->minor = p.minor, out->processors = p.processors;
    out->bytes = p.bytes, out->free_bytes = p.free_bytes;
    return BO_OK;
}

/* Reads "cuda" or "cuda:N". */
static bool parse_gpu(const char *name, int *index)
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
    if (automatic) BO_TRY(bo_device_count(context, &count, NULL));
    if (strcmp(name, "cpu") == 0 || (automatic && count == 0)) {
        bo_context_forget_error(context);
        bo_context_attach(context, NULL, NULL);
        return BO_OK;
    }
    if (!automatic && !parse_gpu(name, &index))
        return bo_fail(context, BO_INVALID, "device %.60s is unknown: expected cpu, cuda, cuda:N or auto", name);
    bo_device *device;
    BO_TRY(bo_device_open(context, index, &device));
    bo_context_attach(context, device, bo_device_release);
    return BO_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bo_status bo_device_allocate(bo_context *context, size_t bytes, void **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    bo_device *device = bo_device_of(context);
    *out = bo_buffer_allocate(context, device, bytes, "memory of the caller");
    return *out ? bo_device_wait(context, device)
                : BO_MEMORY; /* other streams do not wait for the stream of the device */
}

void bo_device_free(bo_context *context, void *memory)
{
    if (context) bo_buffer_release(bo_device_of(context), memory);
}

bo_status bo_device_write(bo_context *context, void *to, const void *from, size_t bytes)
{
    BO_REQUIRE_IF(context, bytes > 0, to, from);
    if (bytes) BO_TRY(bo_buffer_write(context, bo_device_of(context), to, from, bytes));
    return bo_device_wait(context, bo_device_of(context));
}

bo_status bo_device_read(bo_context *context, void *to, const void *from, size_t bytes)
{
    BO_REQUIRE_IF(context, bytes > 0, to, from);
    return bytes ? bo_buffer_read(context, bo_device_of(context), to, from, bytes) : BO_OK;
}

bo_status bo_device_copy(bo_context *context, void *to, const void *from, size_t bytes)
{
    BO_REQUIRE_IF(context, bytes > 0, to, from);
    if (bytes) BO_TRY(bo_buffer_copy(context, bo_device_of(context), to, from, bytes));
    return bo_device_wait(context, bo_device_of(context));
}

bo_status bo_device_synchronize(bo_context *context)
{
    if (!context) return BO_INVALID;
    return bo_device_wait(context, bo_device_of(context));
}
