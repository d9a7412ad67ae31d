/* Weights of a model: a digest, and copying from another model. */
#include "../text/facts.h"
#include <string.h>
#include "../device/cpu/kernels.h"
#include "files.h"
#include "internal.h"

/* ====================================================================================================================
 * A digest of the weights. Saved states contain it, because different models can have the same shapes. */

enum { BLOCK_FLOATS = 1 << 16, BLOCKS = 16, LANES = 4 }; /* 256 KiB per block; blocks read and hashed at a time */

typedef struct round_of_blocks {
    const float *floats;
    size_t count;
    uint64_t hashes[BLOCKS];
} round_of_blocks;

/* A bijection in `hash` and in `word`, so that a single changed word always changes the result. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash << 29 | hash >> 35;
}

/* Several lanes make the multiplications independent. */
static void hash_block(void *arg, size_t index, int worker)
{
    round_of_blocks *round = arg;
    const float *floats = round->floats + index * BLOCK_FLOATS;
    const size_t left = round->count - index * BLOCK_FLOATS, count = left < BLOCK_FLOATS ? left : BLOCK_FLOATS;
    uint64_t lanes[LANES] = {1, 2, 3, 4}, words[LANES], hash = count;
    size_t at = 0;
    (void)worker;
    for (; at + 2 * LANES <= count; at += 2 * LANES) {
        memcpy(words, floats + at, sizeof words);
        for (int l = 0; l < LANES; l++) lanes[l] = mix(lanes[l], words[l]);
    }
    for (; at < count; at++) {
        uint32_t word;
        memcpy(&word, floats + at, sizeof word);
        hash = mix(hash, word);
    }
    for (int l = 0; l < LANES; l++) hash = mix(hash, lanes[l]);
    round->hashes[index] = hash;
}

bo_status bo_model_digest(bo_context *context, const bo_model *model, uint64_t *out)
{
    bo_device *device = bo_weights_device(model->weights);
    /* in its stored form: with fewer bits it is a different model */
    const char *data = bo_weights_memory(model->weights);
    const size_t all = bo_weights_describe(model->weights)->bytes / sizeof(float);
    float *floats = bo_alloc_raw(context, (size_t)BLOCKS * BLOCK_FLOATS, sizeof *floats, "weights to be compared");
    bo_status status = floats ? BO_OK : BO_MEMORY;
    uint64_t hash = all;
    for (size_t at = 0; at < all && status == BO_OK; at += (size_t)BLOCKS * BLOCK_FLOATS) {
        const size_t max_floats = (size_t)BLOCKS * BLOCK_FLOATS;
        round_of_blocks round = {.floats = floats, .count = all - at < max_floats ? all - at : max_floats};
        const size_t blocks = (round.count + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
        status = bo_buffer_read(context, device, floats, data + at * sizeof *floats, round.count * sizeof *floats);
        if (status == BO_OK) bo_parallel(context, blocks, hash_block, &round);
        for (size_t b = 0; b < blocks && status == BO_OK; b++) hash = mix(hash, round.hashes[b]);
    }
    bo_free(floats);
    *out = hash;
    return status;
}

/* ====================================================================================================================
 * Copying from another model: weights of the same name and shape, and the feature maps of attentions of the same
 * form. */

static bool same_shape(const bo_weight *a, const bo_weight *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* True if the tokenizers differ. The rows of an embedding and of an output matrix belong to tokens. */
static bool has_other_tokenizer(const bo_model *model, const bo_model *from)
{
    return model->tokenizer && from->tokenizer &&
           bo_tokenizer_fingerprint(model->tokenizer) != bo_tokenizer_fingerprint(from->tokenizer);
}

static bool holds_tokens(const bo_weight *weight)
{
    return strcmp(weight->name, "model.embed_tokens.weight") == 0 || strcmp(weight->name, "lm_head.weight") == 0;
}

static bo_status adopt_maps(bo_context *context, bo_model *model, const bo_model *from)
{
    static const char *const parts[] = {"layer", "cross attention of layer", "encoder layer"};
    for (size_t i = 0; i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++) {
        const bo_model_part part = bo_model_part_of(&model->desc, i);
        const size_t layer = i - bo_model_place(&model->desc, part);
        bool copied;
        BO_TRY(bo_maps_adopt(context, model, from, i, &copied));
        if (!copied && model->attentions[i] && bo_attention_features(model->attentions[i], 0))
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies are newly sampled", parts[part], layer);
        BO_TRY(bo_mlp_map_adopt(context, model, from, i, &copied));
        if (!copied)
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies of the MLP are newly sampled", parts[part], layer);
    }
    return BO_OK;
}

/* Copies a weight of another model as float32. */
static bo_status adopt_weight(bo_context *context, const bo_model *model, const bo_weight *weight, const bo_model *from,
                              const bo_weight *source)
{
    bo_device *device = bo_weights_device(model->weights);
    if (device == bo_weights_device(from->weights))
        return bo_backend_of(device)->widen(context, source->element, weight->rows, weight->columns, source->data,
                                            weight->data);
    float *host = bo_alloc_raw(context, weight->rows * weight->columns, sizeof *host, "a weight of another device");
    if (!host) return BO_MEMORY;
    bo_status status = bo_weights_get(context, from->weights, source->name, host, NULL);
    if (status == BO_OK) status = bo_weights_set(context, model->weights, weight->name, host);
    bo_free(host);
    return status;
}

bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *copied)
{
    BO_REQUIRE(context, model, from);
    BO_TRY(bo_model_require_text(context, model, "adopting weights"));
    BO_TRY(bo_model_require_text(context, from, "adopting weights"));
    BO_TRY(bo_device_check(context, bo_weights_device(model->weights), "a model"));
    const bool other_tokens = has_other_tokenizer(model, from);
    size_t count = 0;
    if (other_tokens)
        bo_log(context, BO_LOG_WARNING,
               "the tokenizer differs from that of the initial model: embedding and output are newly initialized, "
               "because their rows belong to other tokens");
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i),
                        *source = bo_weights_find(from->weights, weight->name);
        if (!source || !same_shape(weight, source)) {
            bo_log(context, BO_LOG_INFO, "%s: %s", weight->name,
                   source ? "newly initialized: its shape differs" : "new");
            continue;
        }
        if (other_tokens && holds_tokens(weight)) {
            bo_log(context, BO_LOG_INFO, "%s: newly initialized: its rows belong to tokens of another tokenizer",
                   weight->name);
            continue;
        }
        if (weight->element != BO_ELEMENT_FLOAT32)
            return bo_fail(context, BO_INVALID, "model: weight '%s' is stored in fewer bits, for inference only",
                           weight->name);
        BO_TRY(adopt_weight(context, model, weight, from, source));
        count++;
    }
    for (size_t i = 0; i < bo_weights_count(from->weights); i++) {
        const char *name = bo_weights_at(from->weights, i)->name;
        if (!bo_weights_find(model->weights, name)) bo_log(context, BO_LOG_INFO, "%s: not used", name);
    }
    if (copied) *copied = count;
    BO_TRY(bo_specials_adopt(context, model, from));
    return adopt_maps(context, model, from);
}
