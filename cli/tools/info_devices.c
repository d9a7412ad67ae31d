/* bochner info --devices. */
#include "info.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void device_json(cli_json *json, size_t index, const bo_device_info *device)
{
    char name[32], capability[32];
    snprintf(name, sizeof name, "cuda:%zu", index);
    snprintf(capability, sizeof capability, "%d.%d", device->major, device->minor);
    cli_json_object(json, NULL);
    cli_json_add_text(json, "device", name);
    cli_json_add_text(json, "name", device->name);
    cli_json_add_text(json, "compute_capability", capability);
    cli_json_add_count(json, "processors", (size_t)device->processors);
    cli_json_add_count(json, "memory", (size_t)device->bytes);
    cli_json_add_count(json, "free_memory", (size_t)device->free_bytes);
    cli_json_end(json);
}

static void device_print(size_t index, const bo_device_info *device)
{
    printf("cuda:%-6zu %s, compute capability %d.%d, %d multiprocessors, %s of memory, %s free\n", index, device->name,
           device->major, device->minor, device->processors, cli_bytes((double)device->bytes).s,
           cli_bytes((double)device->free_bytes).s);
}

/* `why` is the reason if there are no GPUs. */
static void devices_begin(const cli_session *session, cli_json *json, const char *plugin, const char *why)
{
    if (session->common.json) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "plugin", plugin);
        if (why) cli_json_add_text(json, "reason", why);
        cli_json_array(json, "devices");
        return;
    }
    printf("Plugin      %s\n", plugin ? plugin : "none");
    if (why) printf("GPUs        none: %s\n", why);
}

int cli_info_devices(cli_session *session)
{
    size_t count = 0;
    const char *plugin = NULL;
    cli_json json = {.out = stdout};
    bo_status status = bo_device_count(session->context, &count, &plugin);
    char *why = count ? NULL : strdup(bo_context_error(session->context));
    devices_begin(session, &json, plugin, why);
    free(why);
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        bo_device_info device;
        status = bo_device_describe(session->context, i, &device);
        if (status != BO_OK) break;
        if (session->common.json)
            device_json(&json, i, &device);
        else
            device_print(i, &device);
    }
    if (session->common.json) {
        cli_json_end(&json);
        cli_json_end(&json);
    }
    return status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
}
