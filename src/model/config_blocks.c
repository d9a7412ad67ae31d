/* Blocks in config.json and in descriptions that people write. */
#include <stdio.h>
#include <string.h>
#include "../nn/enums.h"
#include "../features/enums.h"
#include "../attention/enums.h"
#include "../attention/attention.h"
#include "../nn/nn.h"
#include "config.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)

/* ---- names ------------------------------------------------------------------------------------------------------- */

BO_FIELD_NAMES(bo_attention_kind, attention_kind)
BO_FIELD_NAMES(bo_gate, gate)
BO_FIELD_NAMES(bo_proposal, proposal)
BO_FIELD_NAMES(bo_kernel, kernel)
BO_FIELD_NAMES(bo_function, function)
BO_FIELD_NAMES(bo_draw, draw)
BO_FIELD_NAMES(bo_sampling, sampling)
BO_FIELD_NAMES(bo_norm, norm)
BO_FIELD_NAMES(bo_mixer, mixer)
BO_FIELD_NAMES(bo_residual, residual)
BO_FIELD_NAMES(bo_rope_scaling_kind, rope_scaling_kind)
BO_FIELD_NAMES(bo_ssm, ssm)
BO_FIELD_NAMES(bo_positions, positions)
BO_FIELD_NAMES(bo_mlp, mlp)

/* ---- fields ------------------------------------------------------------------------------------------------------ */

#define ENUM(object, key, member, word) BO_FIELD_ENUM(object, key, member, word)
#define ALWAYS(object, key, member, word)                                                                              \
    {.name = key, .type = BO_FIELD_NAME, .offset = offsetof(object, member), .always = true, .names = word##_names}
#define OBJECT(object, key, member, list)                                                                              \
    {.name = key, .type = BO_FIELD_OBJECT, .offset = offsetof(object, member), .fields = list, .count = COUNT(list)}

#define FEATURE(key, sort, member) BO_FIELD_PLAIN(bo_features_desc, key, sort, member)
static const bo_field feature_fields[] = {
    ALWAYS(bo_features_desc, "kernel", kernel, kernel),
    ENUM(bo_features_desc, "function", function, function),
    ENUM(bo_features_desc, "draw", draw, draw),
    ENUM(bo_features_desc, "sampling", sampling, sampling),
    FEATURE("features", SIZE, features),
    FEATURE("gamma", REAL, gamma),
    FEATURE("alpha", REAL, alpha),
    FEATURE("degree", INT, degree),
    FEATURE("pair_norm", REAL, pair_norm),
    FEATURE("candidates", SIZE, candidates),
    FEATURE("seed", SEED, seed),
};

#define ATTENTION(key, sort, member) BO_FIELD_PLAIN(bo_attention_desc, key, sort, member)
static const bo_field attention_fields[] = {
    {.name = "kind",
     .type = BO_FIELD_NAME,
     .offset = offsetof(bo_attention_desc, kind),
     .always = true,
     .names = attention_kind_names,
     .alias = bo_attention_preset_find},
    ENUM(bo_attention_desc, "gate", gate, gate),
    {.name = "normalizer",
     .former = "normaliser",
     .type = BO_FIELD_NAME,
     .offset = offsetof(bo_attention_desc, normalizer),
     BO_FIELD_LIST("sum", "none")},
    ENUM(bo_attention_desc, "proposal", proposal, proposal),
    ATTENTION("scale", REAL, scale),
    ATTENTION("one_draw", BOOL, one_draw),
    ATTENTION("window", SIZE, window),
    ATTENTION("clamp", REAL, clamp),
    ATTENTION("temperature", REAL, temperature),
    ATTENTION("rank", SIZE, rank),
    ATTENTION("power", REAL, power),
    ATTENTION("unit", BOOL, unit),
    ATTENTION("iterations", SIZE, iterations),
    ATTENTION("tolerance", REAL, tolerance),
    ATTENTION("capacity", SIZE, capacity),
    ATTENTION("chunk", SIZE, chunk),
    {.name = "features",
     .type = BO_FIELD_OBJECT,
     .offset = offsetof(bo_attention_desc, features),
     .fields = feature_fields,
     .count = COUNT(feature_fields),
     .number = "features"},
};

static bool attention_preset(const char *name, void *object)
{
    return bo_attention_preset(name, object);
}

#define KIND_OF_ATTENTION(key, member)                                                                                 \
    {.name = key,                                                                                                      \
     .type = BO_FIELD_OBJECT,                                                                                          \
     .offset = offsetof(bo_block, member),                                                                             \
     .fields = attention_fields,                                                                                       \
     .count = COUNT(attention_fields),                                                                                 \
     .preset = attention_preset}

#define SCALING(key, sort, member) BO_FIELD_PLAIN(bo_rope_scaling, key, sort, member)
static const bo_field scaling_fields[] = {
    ENUM(bo_rope_scaling, "kind", kind, rope_scaling_kind),
    SCALING("factor", REAL, factor),
    SCALING("low", REAL, low),
    SCALING("high", REAL, high),
    SCALING("original", REAL, original),
};

/* FORMER: with the name of formats 1 to 3. */
#define BLOCK(key, sort, member) BO_FIELD_PLAIN(bo_block, key, sort, member)
#define FORMER(key, old, sort, member)                                                                                 \
    {.name = key, .former = old, .type = BO_FIELD_##sort, .offset = offsetof(bo_block, member)}
#define NAMED(key, old, member, word)                                                                                  \
    .name = key, .former = old, .type = BO_FIELD_NAME, .offset = offsetof(bo_block, member), .always = true,           \
    .names = word##_names
static const bo_field block_fields[] = {
    BLOCK("repeat", SIZE, repeat),
    {NAMED("residual", "block", residual, residual)},
    BLOCK("residual_scale", REAL, residual_scale),
    ALWAYS(bo_block, "norm", norm, norm),
    FORMER("norm_epsilon", "rms_norm_eps", REAL, norm_epsilon),
    FORMER("bias", "use_bias", BOOL, bias),
    ALWAYS(bo_block, "mixer", mixer, mixer),
    FORMER("heads", "num_attention_heads", SIZE, heads),
    FORMER("key_heads", "num_key_value_heads", SIZE, key_heads),
    BLOCK("head_dim", SIZE, head_dim),
    KIND_OF_ATTENTION("attention", attention),
    KIND_OF_ATTENTION("cross_attention", cross_attention),
    KIND_OF_ATTENTION("replaced", replaced),
    BLOCK("query_norm", CHOICE, query_norm),
    BLOCK("output_norm", CHOICE, output_norm),
    BLOCK("joint_norm", BOOL, joint_norm),
    BLOCK("sigma", REAL, sigma),
    BLOCK("gate_first", REAL, gate_first),
    BLOCK("gate_last", REAL, gate_last),
    BLOCK("attention_bias", CHOICE, attention_bias),
    BLOCK("output_bias", CHOICE, output_bias),
    {NAMED("positions", "position_embedding_type", positions, positions),
     .more = {{"rope-neighbours", BO_POSITIONS_ROPE_NEIGHBORS}}},
    FORMER("rope_base", "rope_theta", REAL, rope_base),
    FORMER("rotated", "rotated_columns", SIZE, rotated),
    OBJECT(bo_block, "rope_scaling", rope_scaling, scaling_fields),
    ENUM(bo_block, "ssm", ssm, ssm),
    BLOCK("state_size", SIZE, state_size),
    BLOCK("state_rank", SIZE, state_rank),
    FORMER("kernel", "conv_kernel", SIZE, kernel),
    {NAMED("mlp", NULL, mlp, mlp), .more = {{"layers", BO_MLP_LAYERS}, {"custom", BO_MLP_CUSTOM}}},
    FORMER("hidden", "intermediate_size", SIZE, hidden),
    BLOCK("mlp_bias", CHOICE, mlp_bias),
    BLOCK("degree_heads", SIZE, degree_heads),
    BLOCK("custom_mlp", TEXT, custom_mlp.name),
    BLOCK("layers", JSON, layers),
    OBJECT(bo_block, "mlp_features", mlp_features, feature_fields),
};

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* Fields that only affect initial values, training or other kinds of attention, or that are compared separately. */
static bool is_neutral(const char *name)
{
    static const char *const names[] = {"repeat",         "sigma",       "gate_first", "gate_last", "bias",
                                        "attention_bias", "output_bias", "mlp_bias",   "attention", "custom_mlp"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

bool bo_config_same_block(const bo_block *a, const bo_block *b)
{
    static const bo_field softmax_fields[] = {ATTENTION("scale", REAL, scale), ATTENTION("window", SIZE, window)};
    const bo_block_biases x = bo_block_biases_of(a), y = bo_block_biases_of(b);
    if (x.attention != y.attention || x.output != y.output || x.mlp != y.mlp) return false;
    for (size_t i = 0; i < COUNT(block_fields); i++)
        if (!is_neutral(block_fields[i].name) && !bo_field_same(&block_fields[i], a, b)) return false;
    for (size_t i = 0; i < COUNT(softmax_fields); i++)
        if (!bo_field_same(&softmax_fields[i], &a->attention, &b->attention)) return false;
    return true;
}

const bo_field *bo_config_block_differs(const bo_block *a, const bo_block *b, const void **x, const void **y)
{
    static const char *const ignored[] = {"repeat",     "heads", "key_heads", "head_dim", "hidden", "rank",
                                          "iterations", "scale", "seed",      "features", "gamma",  NULL};
    *x = a;
    *y = b;
    return bo_fields_differ(block_fields, COUNT(block_fields), ignored, x, y);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The seed of other kinds of attention is not used. */
static void clear_unused(bo_attention_desc *a)
{
    if (!bo_attention_has(a, BO_TRAIT_FEATURES)) a->features = (bo_features_desc){0};
}

static void write_list(bo_json_text *text, const char *name, const bo_block_list *list)
{
    bo_json_raw(text, ",\n  ");
    bo_json_string(text, name);
    bo_json_raw(text, ": [");
    for (size_t i = 0; i < list->count; i++) {
        bo_block b = list->blocks[i];
        clear_unused(&b.attention);
        clear_unused(&b.cross_attention);
        clear_unused(&b.replaced);
        if (list->count == 1) b.repeat = 0;
        bo_json_raw(text, i ? ", " : "");
        bo_object_write(text, block_fields, COUNT(block_fields), &b, 1);
    }
    bo_json_raw(text, "]");
}

void bo_config_blocks_write(bo_json_text *text, const bo_model_desc *d)
{
    const bo_block_list layers = bo_blocks_of(d, BO_MODEL_PART_LAYERS),
                        encoder = bo_blocks_of(d, BO_MODEL_PART_ENCODER);
    write_list(text, "blocks", &layers);
    if (d->task == BO_MODEL_TASK_TRANSLATE) write_list(text, "encoder_blocks", &encoder);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bo_status bo_config_former_block(bo_context *context, const char *where, const bo_json *json, bo_block *out)
{
    return bo_fields_read(context, where, block_fields, COUNT(block_fields), json, out);
}

bo_status bo_config_attention_read(bo_context *context, const char *where, const char *name, const bo_json *json,
                                   bo_attention_desc *out)
{
    const bo_field field = {
        .name = name, .type = BO_FIELD_OBJECT, .fields = attention_fields, .count = COUNT(attention_fields)};
    return bo_fields_read(context, where, &field, 1, json, out);
}

static bo_status read_members(bo_context *context, const char *where, const bo_json *json, bo_block *out)
{
    BO_TRY(bo_object_read(context, where, block_fields, COUNT(block_fields), json, out));
    /* marks them as set, even if they are softmax attention and the heads follow later */
    if (bo_json_member(json, "cross_attention") != NULL) out->cross_attention.heads = 1;
    if (bo_json_member(json, "replaced") != NULL) out->replaced.heads = 1;
    return BO_OK;
}

/* An MLP replaces layers that all blocks share, and layers replace their MLP. */
static void resolve_mlp(const bo_json *json, bo_block *out)
{
    const bool layers = bo_json_member(json, "layers") != NULL, mlp = bo_json_member(json, "mlp") != NULL;
    if (layers && !mlp) out->mlp = BO_MLP_LAYERS;
    if (layers || !mlp || out->mlp == BO_MLP_LAYERS) return;
    bo_free((void *)(uintptr_t)out->layers);
    out->layers = NULL;
}

/* Reads the members that all blocks share, and then those of one block. */
static bo_status read_block(bo_context *context, const char *where, const bo_json *shared, const bo_json *json,
                            bo_block *out)
{
    char place[300];
    snprintf(place, sizeof place, "%.250s: \"block\"", where);
    if (shared) BO_TRY(read_members(context, place, shared, out));
    if (shared) resolve_mlp(shared, out);
    BO_TRY(read_members(context, where, json, out));
    resolve_mlp(json, out);
    if (out->cross_attention.heads) out->cross_attention.heads = out->heads;
    if (out->replaced.heads) out->replaced.heads = out->heads;
    if (out->heads) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: \"heads\" is missing", where);
}

bo_status bo_config_block_read(bo_context *context, const char *where, const bo_json *json, bo_block *out)
{
    return read_block(context, where, NULL, json, out);
}

static bo_status read_items(bo_context *context, const char *where, const bo_json *shared, const bo_json *list,
                            bo_block *blocks)
{
    size_t i = 0;
    for (const bo_json *item = list->child; item; item = item->next, i++) {
        char place[300];
        snprintf(place, sizeof place, "%.200s: block %zu of \"%.30s\"", where, i, list->key);
        BO_TRY(read_block(context, place, shared, item, &blocks[i]));
    }
    return BO_OK;
}

static bo_status read_list(bo_context *context, const char *where, const bo_json *json, const char *name,
                           const bo_block **list, size_t *count)
{
    const bo_json *shared = bo_json_member(json, "block");
    const bo_json *items = bo_json_member(json, name);
    const size_t size = bo_json_is(items, BO_JSON_ARRAY) ? (size_t)bo_json_count(items) : 0;
    if (size < 1 || size > BO_MAX_BLOCKS)
        return bo_fail(context, BO_FORMAT, "%s: \"%s\" should be a list of 1 to %d blocks", where, name, BO_MAX_BLOCKS);
    bo_block *blocks = bo_alloc(context, size, sizeof *blocks, "a list of blocks");
    if (!blocks) return BO_MEMORY;
    *list = blocks;
    *count = size;
    return read_items(context, where, shared, items, blocks);
}

static bo_status read_lists(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out)
{
    BO_TRY(read_list(context, where, json, "blocks", &out->blocks, &out->block_count));
    if (!bo_json_member(json, "encoder_blocks")) return BO_OK;
    return read_list(context, where, json, "encoder_blocks", &out->encoder_blocks, &out->encoder_block_count);
}

bo_status bo_config_blocks_read(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out)
{
    BO_TRY(read_lists(context, where, json, out));
    bo_blocks_mirror(out);
    return BO_OK;
}
