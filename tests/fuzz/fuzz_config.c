/* config.json and descriptions of text models: read, resolved, and if they describe a small model built, written and
 * read again. The config.json that Bochner writes for its models describes them. */
#include <stdlib.h>
#include "fuzz.h"
#include "model/config.h"
#include "networks.h"

static bool is_small_attention(const bo_attention_desc *a)
{
    return a->features.features <= 256 && a->features.degree <= 3 && a->window <= 4096 && a->capacity <= 4096;
}

static bool are_small_layers(const char *layers)
{
    bo_json *json = layers ? bo_json_read(layers, strlen(layers), NULL) : NULL;
    const bool small = fuzz_is_small(json);
    bo_json_delete(json);
    return small;
}

static bool are_small(const bo_block_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const bo_block *b = &list->blocks[i];
        if (b->heads > 8 || b->head_dim > 64 || b->hidden > 256 || !is_small_attention(&b->attention) ||
            !is_small_attention(&b->cross_attention) || !is_small_attention(&b->replaced) ||
            !are_small_layers(b->layers))
            return false;
    }
    return true;
}

static bool is_small(const bo_model_desc *d)
{
    const bo_block_list layers = bo_blocks_of(d, BO_MODEL_PART_LAYERS),
                        encoder = bo_blocks_of(d, BO_MODEL_PART_ENCODER);
    return d->layers <= 3 && d->width <= 64 && d->vocab <= 512 && d->context <= 4096 && d->encoder_layers <= 3 &&
           are_small(&layers) && are_small(&encoder);
}

/* NULL: the model is not small, or cannot be built. */
static bo_model *build(bo_context *context, const bo_model_desc *desc)
{
    bo_model_desc resolved;
    bo_model *model = NULL;
    if (!fuzz_ok(context, bo_model_resolve(context, desc, NULL, &resolved))) return NULL;
    if (is_small(&resolved) && !fuzz_ok(context, bo_model_build(context, desc, NULL, &model))) model = NULL;
    bo_model_desc_release(&resolved);
    return model;
}

static void write_again(bo_context *context, const bo_model *model, const char *json)
{
    char *again;
    if (!fuzz_ok(context, bo_config_write(context, model, &again)) || strcmp(json, again) != 0) abort();
    bo_free(again);
}

static void check(bo_context *context, const bo_model *model)
{
    bo_config config;
    bo_model_desc described;
    bo_model *same;
    char *json;
    if (!fuzz_ok(context, bo_config_write(context, model, &json))) abort();
    if (!fuzz_ok(context, bo_config_read(context, "again", json, strlen(json), &config))) abort();
    if (!fuzz_ok(context, bo_model_build(context, &config.desc, NULL, &same))) abort();
    write_again(context, same, json);
    const bool is_bochner = config.family == BO_FAMILY_BOCHNER;
    if (is_bochner && bo_model_fingerprint(model) != bo_model_fingerprint(same)) abort();
    bo_model_destroy(same);
    if (is_bochner) {
        if (!fuzz_ok(context, bo_description_read(context, json, NULL, &described))) abort();
        if (!fuzz_ok(context, bo_model_build(context, &described, NULL, &same))) abort();
        bo_model_desc_release(&described);
        write_again(context, same, json);
        bo_model_destroy(same);
    }
    bo_config_free(&config);
    bo_free(json);
}

static void describe(bo_context *context, const uint8_t *data, size_t size)
{
    bo_model_desc desc;
    bo_model *model = NULL;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_description_read(context, text, "fuzz", &desc))) {
        model = build(context, &desc);
        bo_model_desc_release(&desc);
    }
    free(text);
    if (model) check(context, model);
    bo_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_config config;
    describe(context, data, size);
    if (!fuzz_ok(context, bo_config_read(context, "fuzz", (const char *)data, size, &config))) return 0;
    bo_model *model = build(context, &config.desc);
    bo_config_free(&config);
    if (model) check(context, model);
    bo_model_destroy(model);
    return 0;
}
