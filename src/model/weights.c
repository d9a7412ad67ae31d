/* Weights of a model: reading by name, a digest, and copying from another model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/numbers.h"
#include "../kernels/kernels.h"
#include "files.h"
#include "internal.h"

/* ====================================================================================================================
 * Reading weights from a file: those of Bochner and Llama by their names, those of GPT-2 from its layout. */

/* The location of a weight in a file: a whole tensor, or one of several adjacent parts, possibly transposed. */
typedef struct place {
    char tensor[256];
    bool transposed; /* in x out instead of out x in */
    size_t part, parts;
} place;

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The Conv1D of GPT-2 stores matrices transposed, and q, k and v in one matrix. */
static const struct {
    const char *ours, *theirs;
    size_t part, parts;
    bool matrix;
} gpt2_names[] = {
    {".input_layernorm", ".ln_1", 0, 1, false},        {".post_attention_layernorm", ".ln_2", 0, 1, false},
    {".self_attn.q_proj", ".attn.c_attn", 0, 3, true}, {".self_attn.k_proj", ".attn.c_attn", 1, 3, true},
    {".self_attn.v_proj", ".attn.c_attn", 2, 3, true}, {".self_attn.o_proj", ".attn.c_proj", 0, 1, true},
    {".mlp.up_proj", ".mlp.c_fc", 0, 1, true},         {".mlp.down_proj", ".mlp.c_proj", 0, 1, true},
};

static void place_in_gpt2(const bo_weight *weight, const char *root, place *out)
{
    static const struct {
        const char *ours, *theirs;
    } ends[] = {{"model.embed_tokens", "wte"}, {"model.embed_positions", "wpe"}, {"model.norm", "ln_f"}};
    const char *name = weight->name, *kind = strrchr(name, '.'); /* ".weight" or ".bias" */
    char *rest;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strncmp(name, ends[i].ours, strlen(ends[i].ours)) == 0)
            snprintf(out->tensor, sizeof out->tensor, "%s%s%s", root, ends[i].theirs, kind);
    if (strncmp(name, "model.layers.", 13) != 0) return;
    unsigned long layer = strtoul(name + 13, &rest, 10);
    for (size_t i = 0; i < sizeof gpt2_names / sizeof *gpt2_names; i++) {
        if (strncmp(rest, gpt2_names[i].ours, strlen(gpt2_names[i].ours)) != 0) continue;
        snprintf(out->tensor, sizeof out->tensor, "%sh.%lu%s%s", root, layer, gpt2_names[i].theirs, kind);
        out->part = gpt2_names[i].part;
        out->parts = gpt2_names[i].parts;
        out->transposed = gpt2_names[i].matrix && weight->rank == 2;
    }
}

static place place_of(const bo_weight *weight, bo_family family, const bo_tensors *file)
{
    place out = {.parts = 1};
    snprintf(out.tensor, sizeof out.tensor, "%s", weight->name);
    if (family == BO_FAMILY_GPT2) /* files written before 2020 have no root */
        place_in_gpt2(weight, bo_tensors_find(file, "transformer.wte.weight") ? "transformer." : "", &out);
    return out;
}

/* True for tensors that other programs store beside the weights: masks, and values that follow from the
 * configuration. */
static bool needless(const char *name, bo_family family, bool untied)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
    size_t length = strlen(name);
    if (family == BO_FAMILY_BOCHNER) return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0) return true;
    return !untied && strcmp(name, "lm_head.weight") == 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static float number_at(const bo_file_tensor *tensor, size_t index)
{
    const uint16_t *half = tensor->data;
    const uint32_t bits = tensor->dtype == BO_BF16 ? (uint32_t)half[index] << 16 : 0;
    float value;
    if (tensor->dtype == BO_F32) return ((const float *)tensor->data)[index];
    if (tensor->dtype == BO_F16) return bo_half_to_float(half[index]);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bo_status find_tensor(bo_context *context, const bo_tensors *file, const bo_weight *weight, const place *at,
                             const bo_file_tensor **out)
{
    const bo_file_tensor *tensor = bo_tensors_find(file, at->tensor);
    bo_dtype dtype = tensor ? tensor->dtype : BO_F32;
    size_t shape[4];
    memcpy(shape, weight->shape, sizeof shape);
    if (at->transposed) {
        shape[0] = weight->shape[1];
        shape[1] = weight->shape[0] * at->parts;
    } else {
        shape[0] *= at->parts;
    }
    if (dtype != BO_F16 && dtype != BO_BF16) dtype = BO_F32;
    return bo_tensors_require(context, file, at->tensor, dtype, weight->rank, shape, out);
}

static void gather(const bo_file_tensor *tensor, const bo_weight *weight, const place *at, float *out)
{
    size_t rows = weight->shape[0], count = weight->rows * weight->columns, columns = count / rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            size_t row = at->part * rows + r;
            out[r * columns + c] = number_at(tensor, at->transposed ? c * rows * at->parts + row : row * columns + c);
        }
}

static bo_status read_weight(bo_context *context, const bo_tensors *file, const bo_backend *backend,
                             const bo_weight *weight, const place *at)
{
    const bo_file_tensor *tensor;
    size_t count = weight->rows * weight->columns;
    float *copy = NULL;
    BO_TRY(find_tensor(context, file, weight, at, &tensor));
    const float *values = tensor->data;
    if (tensor->dtype != BO_F32 || at->transposed || at->parts > 1) {
        values = copy = bo_alloc_raw(context, count, sizeof *copy, weight->name);
        if (!copy) return BO_MEMORY;
        gather(tensor, weight, at, copy);
    }
    bo_status status = BO_OK;
    if (!bo_context_kernels(context)->finite(count, values))
        status = bo_fail(context, BO_FORMAT, "%s: tensor '%s' holds a number that is not finite", bo_tensors_path(file),
                         at->tensor);
    if (status == BO_OK) status = backend->write(context, weight->data, values, count * sizeof *values);
    bo_free(copy);
    return status;
}

/* ---- all weights ------------------------------------------------------------------------------------------------- */

/* Checks that every weight is present with its shape, and that the file has no other tensors: a configuration smaller
 * than the file is wrong, too. */
static bo_status check_weights(bo_context *context, const bo_model *model, bo_family family, const bo_tensors *file,
                               bool *used)
{
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        place at = place_of(weight, family, file);
        const bo_file_tensor *tensor;
        BO_TRY(find_tensor(context, file, weight, &at, &tensor));
        used[tensor - bo_tensors_at(file, 0)] = true;
    }
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const char *name = bo_tensors_at(file, i)->name;
        if (!used[i] && !needless(name, family, model->desc.untied))
            return bo_fail(context, BO_FORMAT,
                           "%s: tensor '%.100s' is not part of the model that config.json describes",
                           bo_tensors_path(file), name);
    }
    return BO_OK;
}

bo_status bo_model_fill(bo_context *context, bo_model *model, bo_family family, const bo_tensors *file)
{
    const bo_backend *backend = bo_weights_backend(model->weights);
    bool *used = bo_alloc(context, bo_tensors_count(file), sizeof *used, "a list of tensors");
    if (!used) return BO_MEMORY;
    bo_status status = BO_OK;
    if (family == BO_FAMILY_BOCHNER) status = bo_maps_read(context, model, file, used);
    if (status == BO_OK) status = check_weights(context, model, family, file, used);
    if (status == BO_OK && !bo_weights_data(model->weights))
        status = bo_weights_allocate(context, model->weights, false);
    for (size_t i = 0; status == BO_OK && i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        place at = place_of(weight, family, file);
        status = read_weight(context, file, backend, weight, &at);
    }
    bo_free(used);
    return status;
}

/* ====================================================================================================================
 * A digest of the weights. A saved state needs it, since different models can have the same shapes. */

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
    const bo_backend *backend = bo_weights_backend(model->weights);
    /* in its stored form: with fewer bits it is a different model */
    const char *data = bo_weights_memory(model->weights);
    const size_t all = bo_weights_bytes(model->weights) / sizeof(float);
    float *floats = bo_alloc_raw(context, (size_t)BLOCKS * BLOCK_FLOATS, sizeof *floats, "weights to be compared");
    bo_status status = floats ? BO_OK : BO_MEMORY;
    uint64_t hash = all;
    for (size_t at = 0; at < all && status == BO_OK; at += (size_t)BLOCKS * BLOCK_FLOATS) {
        const size_t most = (size_t)BLOCKS * BLOCK_FLOATS;
        round_of_blocks round = {.floats = floats, .count = all - at < most ? all - at : most};
        const size_t blocks = (round.count + BLOCK_FLOATS - 1) / BLOCK_FLOATS;
        status = backend->read(context, floats, data + at * sizeof *floats, round.count * sizeof *floats);
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
static bool speaks_otherwise(const bo_model *model, const bo_model *from)
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
        bool taken;
        BO_TRY(bo_maps_adopt(context, model, from, i, &taken));
        if (!taken && model->attentions[i] && bo_attention_features(model->attentions[i], 0))
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies are newly sampled", parts[part], layer);
        BO_TRY(bo_mlp_map_adopt(context, model, from, i, &taken));
        if (!taken && model->mlp_maps && model->mlp_maps[i])
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies of the MLP are newly sampled", parts[part], layer);
    }
    return BO_OK;
}

bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *taken)
{
    BO_REQUIRE(context, model, from);
    const bo_backend *backend = bo_weights_backend(model->weights);
    const bool other_tokens = speaks_otherwise(model, from);
    size_t count = 0;
    if (other_tokens)
        bo_log(
            context, BO_LOG_WARNING,
            "the tokenizer differs from that of the initial model: embedding and output are newly initialized, since their rows belong to other tokens");
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *mine = bo_weights_at(model->weights, i), *theirs = bo_weights_find(from->weights, mine->name);
        if (!theirs || !same_shape(mine, theirs)) {
            bo_log(context, BO_LOG_INFO, "%s: %s", mine->name, theirs ? "newly initialized: its shape differs" : "new");
            continue;
        }
        if (other_tokens && holds_tokens(mine)) {
            bo_log(context, BO_LOG_INFO, "%s: newly initialized: its rows belong to tokens of another tokenizer",
                   mine->name);
            continue;
        }
        if (mine->element != BO_ELEMENT_FLOAT32)
            return bo_fail(context, BO_INVALID, "model: weight '%s' is stored in fewer bits, for inference only",
                           mine->name);
        BO_TRY(backend->widen(context, theirs->element, mine->rows, mine->columns, theirs->data, mine->data));
        count++;
    }
    for (size_t i = 0; i < bo_weights_count(from->weights); i++) {
        const char *name = bo_weights_at(from->weights, i)->name;
        if (!bo_weights_find(model->weights, name)) bo_log(context, BO_LOG_INFO, "%s: not used", name);
    }
    if (taken) *taken = count;
    return adopt_maps(context, model, from);
}
