/* config.json: read, resolved, and if it describes a small model built, written and read again. */
#include "fuzz.h"
#include "model/config.h"

static bool is_small(const bo_model_desc *d)
{
    return d->layers <= 3 && d->width <= 64 && d->vocab <= 512 && d->heads <= 8 && d->head_dim <= 64 &&
           d->hidden <= 256 && d->context <= 4096 && d->attention.features.features <= 256 &&
           d->attention.features.degree <= 3 && d->attention.window <= 4096 && d->attention.capacity <= 4096 &&
           d->encoder_layers <= 3 && d->cross_attention.features.features <= 256 &&
           d->cross_attention.features.degree <= 3 && d->cross_attention.capacity <= 4096 &&
           d->encoder_attention.features.features <= 256 && d->encoder_attention.features.degree <= 3 &&
           d->encoder_attention.window <= 4096 && d->encoder_attention.capacity <= 4096;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_config config;
    bo_model_desc resolved;
    bo_model *model;
    char *json, *again;
    if (!fuzz_ok(context, bo_config_read(context, "fuzz", (const char *)data, size, &config))) return 0;
    bool fits = fuzz_ok(context, bo_model_resolve(context, &config.desc, NULL, &resolved)) && is_small(&resolved) &&
                fuzz_ok(context, bo_model_build(context, &config.desc, NULL, &model));
    bo_config_free(&config);
    if (!fits) return 0;
    if (!fuzz_ok(context, bo_config_write(context, model, &json))) abort();
    bo_model_destroy(model);
    if (!fuzz_ok(context, bo_config_read(context, "again", json, strlen(json), &config))) abort();
    if (!fuzz_ok(context, bo_model_build(context, &config.desc, NULL, &model))) abort();
    bo_config_free(&config);
    if (!fuzz_ok(context, bo_config_write(context, model, &again)) || strcmp(json, again) != 0) abort();
    bo_model_destroy(model);
    bo_free(json);
    bo_free(again);
    return 0;
}
