/* Weights out of a file: ours and Llama's under their own names, GPT-2's from where it keeps them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/numbers.h"
#include "../kernels/kernels.h"
#include "files.h"

/* Where a weight lies in a file: the whole of a tensor, or one of several parts side by side, perhaps transposed. */
typedef struct place {
    char tensor[256];
    bool transposed; /* in x out instead of out x in */
    size_t part, parts;
} place;

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* GPT-2's Conv1D keeps matrices transposed, and q, k, v in one. */
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
    if (family == BO_FAMILY_GPT2) /* files of before 2020 have no root */
        place_in_gpt2(weight, bo_tensors_find(file, "transformer.wte.weight") ? "transformer." : "", &out);
    return out;
}

/* What others store beside weights: masks, and what follows from the configuration. */
static bool needless(const char *name, bo_family family, bool untied)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"};
    size_t length = strlen(name);
    if (family == BO_FAMILY_BOCHNER) return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0) return true;
    return !untied && strcmp(name, "lm_head.weight") == 0;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

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

/* ---- all of them -------------------------------------------------------------------------------------------------- */

/* Every weight is there with its shape, and nothing is there that is none: a configuration that promises less than the
 * file holds lies too. */
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
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' is none of the model that config.json describes",
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
