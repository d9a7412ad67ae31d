/* A network in memory: loaded if its description is small, used for prediction, written and read again. */
#include <stdlib.h>
#include "container.h"
#include "networks.h"
#include "io/tensors.h"

static bool describes_little(bo_context *context, const uint8_t *image, size_t size)
{
    bo_tensors *file;
    bo_json *json;
    if (!fuzz_ok(context, bo_tensors_open_memory(context, "fuzz", image, size, &file))) return false;
    const char *text = bo_tensors_meta(file, "config.json");
    if (!text) text = bo_tensors_meta(file, "network.json"); /* of an earlier version */
    bool small = text && fuzz_ok(context, bo_json_parse(context, "fuzz", text, strlen(text), 24, &json));
    if (small) {
        small = fuzz_is_small(json);
        bo_json_delete(json);
    }
    bo_tensors_close(file);
    return small;
}

static void predict(bo_context *context, const bo_model *network)
{
    static float x[FUZZ_APPLIED_ROWS * FUZZ_MAX_DIM], out[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS];
    const bo_network_info *info = bo_model_report(network)->network;
    bo_examples *examples;
    if (info->dim > FUZZ_MAX_DIM || info->outputs > FUZZ_MAX_OUTPUTS) return;
    fuzz_inputs(FUZZ_APPLIED_ROWS * info->dim, x);
    const bo_examples_arrays arrays = {.rows = FUZZ_APPLIED_ROWS, .dim = info->dim, .x = x};
    if (!fuzz_ok(context, bo_examples_create(context, &arrays, &examples))) abort();
    fuzz_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, out));
    bo_examples_destroy(examples);
}

static void use(bo_context *context, const bo_model *network)
{
    bo_model *again;
    void *bytes;
    size_t written;
    for (size_t i = 0; i < bo_model_report(network)->network->layers; i++)
        if (!*bo_model_report(network)->network->layer[i].shape) abort();
    predict(context, network);
    if (!fuzz_ok(context, bo_model_save(context, network, &(bo_sink){.bytes = &bytes, .size = &written}))) abort();
    if (!fuzz_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = written}, NULL, &again))) abort();
    bo_free(bytes);
    bo_model_destroy(again);
}

/* A text model is for fuzz_model. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_model *model;
    uint8_t *image = fuzz_image(data, size);
    if (describes_little(context, image, size) &&
        fuzz_ok(context, bo_model_load(context, &(bo_source){.bytes = image, .size = size}, NULL, &model))) {
        if (bo_model_report(model)->network) use(context, model);
        bo_model_destroy(model);
    }
    free(image);
    return 0;
}
