/* A description, and config.json of a network with its description: read, built if it describes something small, and
 * written and read again. */
#include <stdlib.h>
#include "fuzz.h"
#include "model/internal.h"
#include "networks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_network *parsed;
    bo_model *network, *again;
    bo_json *json;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_json_parse(context, "fuzz", text, size, 24, &json))) {
        const bool small = fuzz_is_small(json);
        bo_json_delete(json);
        /* a bare description, of layers or of blocks */
        if (small && fuzz_ok(context, bo_model_create_described(context, &(bo_description){.text = text}, &again)))
            bo_model_destroy(again);
        if (small && fuzz_ok(context, bo_network_parse(context, "fuzz", text, size, &parsed)) &&
            fuzz_ok(context, bo_model_of_network(context, parsed, &network))) {
            const bo_network_info *info = bo_model_report(network)->network;
            const bo_description desc = {.text = network->network->text, .width_multiplier = info->width_multiplier};
            for (size_t i = 0; i < bo_model_report(network)->network->layers; i++)
                if (!bo_model_report(network)->network->layer[i].name) abort();
            /* without the file it may lack information about data; otherwise it is the same network */
            if (fuzz_ok(context, bo_model_create_described(context, &desc, &again))) {
                if (bo_model_report(again)->network->outputs != info->outputs) abort();
                bo_model_destroy(again);
            }
            bo_model_destroy(network);
        }
    }
    free(text);
    return 0;
}
