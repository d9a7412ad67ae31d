/* network.json with its description: read, built if it describes something small, and written and read again. */
#include "fuzz.h"
#include "networks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_network *network, *again;
    cJSON *json;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_json_parse(context, "fuzz", text, size, 24, &json))) {
        const bool small = fuzz_is_small(json);
        cJSON_Delete(json);
        if (small && fuzz_ok(context, bo_network_parse(context, "fuzz", text, size, &network))) {
            const bo_network_facts *info = bo_network_report(network);
            const bo_network_desc desc = {.model = network->text, .width_multiplier = info->width_multiplier};
            for (size_t i = 0; i < bo_network_layers(network); i++)
                if (!bo_network_layer(network, i)->name) abort();
            /* without the file it may lack information about data; otherwise it is the same network */
            if (fuzz_ok(context, bo_network_create(context, &desc, &again))) {
                if (bo_network_report(again)->outputs != info->outputs) abort();
                bo_network_destroy(again);
            }
            bo_network_destroy(network);
        }
    }
    free(text);
    return 0;
}
