/* config.json: the model under the member names of Hugging Face, with attention in a separate object. Models that are one
 * of the families of families.h are written as such. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/input.h"
#include "config.h"
#include "families.h"
#include "internal.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)

enum { FORMAT = 3, DEPTH = 16 };

/* Returns the format of a model's file: 1; 2 if its encoder has a memory that is not causal (ridge attention), which in
 * format 1 read forward and backward in turn, with the same weights; 3 if it has a second attention. */
static size_t format_of(const bo_model_desc *d)
{
    if (bo_model_has_kept(d)) return 3;
    const bo_model_part part = d->task == BO_MODEL_TASK_TRANSLATE ? BO_MODEL_PART_ENCODER : BO_MODEL_PART_LAYERS;
    const bool memory = bo_model_attends(d, part) && bo_attention_has(bo_model_kind(d, part), BO_TRAIT_MEMORY);
    return memory && !bo_model_is_causal(d, part) ? 2 : 1;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

BO_CONFIG_NAMED(bo_attention_kind, attention_kind)
BO_CONFIG_NAMED(bo_gate, gate)
BO_CONFIG_NAMED(bo_proposal, proposal)
BO_CONFIG_NAMED(bo_kernel, kernel)
BO_CONFIG_NAMED(bo_function, function)
BO_CONFIG_NAMED(bo_draw, draw)
BO_CONFIG_NAMED(bo_sampling, sampling)
BO_CONFIG_NAMED(bo_norm, norm)
static const char *positions_text(unsigned value)
{
    return bo_positions_name((bo_positions)value);
}

static bool positions_parse(const char *text, unsigned *out)
{
    bo_positions value;
    bool former = strcmp(text, "rope-neighbours") == 0; /* the name that earlier versions wrote */
    bool found = bo_positions_parse(former ? bo_positions_name(BO_POSITIONS_ROPE_NEIGHBORS) : text, &value);
    if (found) *out = (unsigned)value;
    return found;
}
BO_CONFIG_NAMED(bo_mixer, mixer)
BO_CONFIG_NAMED(bo_block, block)
BO_CONFIG_NAMED(bo_rope_scaling_kind, rope_scaling_kind)
BO_CONFIG_NAMED(bo_ssm, ssm)
BO_CONFIG_NAMED(bo_parametrization, parametrization)
BO_CONFIG_NAMED(bo_storage, storage)

/* Finds a text in a list of names. */
static bool find(const char *text, const char *const *names, int count, unsigned *out)
{
    int found = bo_find_name(text, names, count);
    if (found >= 0) *out = (unsigned)found;
    return found >= 0;
}

/* Hugging Face's names of the activation of an MLP; silu means a gated MLP. */
static const char *const acts[BO_MLP_COUNT] = {"relu2",           "gelu",     "silu",       "none",     "gelu_new",
                                               "random-features", "degree-2", "degree-3",   "degree-4", "degree-e",
                                               "quadratic",       "geglu",    "geglu_tanh", "relu",     "swish"};

static const char custom_act[] = "custom";

static const char *act_text(unsigned value)
{
    if (value == BO_MLP_CUSTOM) return custom_act;
    return value < BO_MLP_COUNT ? acts[value] : NULL;
}

static bool act_parse(const char *text, unsigned *out)
{
    if (strcmp(text, custom_act) != 0) return find(text, acts, BO_MLP_COUNT, out);
    *out = BO_MLP_CUSTOM;
    return true;
}

static const char *const normalizers[BO_NORMALIZER_COUNT] = {"sum", "none"};

static const char *normalizer_text(unsigned value)
{
    return value < BO_NORMALIZER_COUNT ? normalizers[value] : NULL;
}

static bool normalizer_parse(const char *text, unsigned *out)
{
    return find(text, normalizers, BO_NORMALIZER_COUNT, out);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static const bo_config_field model_fields[] = {
    BO_CONFIG_NEEDED("vocab_size", vocab),
    BO_CONFIG_NEEDED("hidden_size", width),
    BO_CONFIG_NEEDED("num_hidden_layers", layers),
    BO_CONFIG_NEEDED("num_attention_heads", heads),
    BO_CONFIG_NEEDED("max_position_embeddings", context),
    BO_CONFIG_PLAIN("num_key_value_heads", BO_CONFIG_SIZE, key_heads),
    BO_CONFIG_PLAIN("head_dim", BO_CONFIG_SIZE, head_dim),
    BO_CONFIG_PLAIN("intermediate_size", BO_CONFIG_SIZE, hidden),
    BO_CONFIG_ENUM("hidden_act", mlp, act),
    BO_CONFIG_ENUM("norm", norm, norm),
    BO_CONFIG_PLAIN("rms_norm_eps", BO_CONFIG_REAL, norm_epsilon),
    BO_CONFIG_ENUM("position_embedding_type", positions, positions),
    BO_CONFIG_PLAIN("rope_theta", BO_CONFIG_REAL, rope_base),
    BO_CONFIG_PLAIN("query_norm", BO_CONFIG_CHOICE, query_norm),
    BO_CONFIG_PLAIN("output_norm", BO_CONFIG_CHOICE, output_norm),
    BO_CONFIG_PLAIN("sigma", BO_CONFIG_REAL, sigma),
    BO_CONFIG_PLAIN("gate_first", BO_CONFIG_REAL, gate_first),
    BO_CONFIG_PLAIN("gate_last", BO_CONFIG_REAL, gate_last),
    BO_CONFIG_PLAIN("tie_word_embeddings", BO_CONFIG_NOT, untied),
    BO_CONFIG_PLAIN("use_bias", BO_CONFIG_BOOL, bias),
    BO_CONFIG_PLAIN("dropout", BO_CONFIG_REAL, dropout),
    BO_CONFIG_PLAIN("seed", BO_CONFIG_SEED, seed),
};

/* Written only if they differ from usual_options. */
static const bo_config_field option_fields[] = {
    BO_CONFIG_ENUM("block", block, block),
    BO_CONFIG_PLAIN("head_bias", BO_CONFIG_BOOL, head_bias),
    BO_CONFIG_PLAIN("embedding_scale", BO_CONFIG_REAL, embedding_scale),
    BO_CONFIG_PLAIN("residual_scale", BO_CONFIG_REAL, residual_scale),
    BO_CONFIG_PLAIN("logit_scale", BO_CONFIG_REAL, logit_scale),
    BO_CONFIG_PLAIN("joint_norm", BO_CONFIG_BOOL, joint_norm),
    BO_CONFIG_PLAIN("local_rope_theta", BO_CONFIG_REAL, local_rope_base),
    BO_CONFIG_PLAIN("rotated_columns", BO_CONFIG_SIZE, rotated),
    BO_CONFIG_ENUM("rope_scaling_type", rope_scaling.kind, rope_scaling_kind),
    BO_CONFIG_PLAIN("rope_scaling_factor", BO_CONFIG_REAL, rope_scaling.factor),
    BO_CONFIG_PLAIN("rope_scaling_low", BO_CONFIG_REAL, rope_scaling.low),
    BO_CONFIG_PLAIN("rope_scaling_high", BO_CONFIG_REAL, rope_scaling.high),
    BO_CONFIG_PLAIN("rope_scaling_original", BO_CONFIG_REAL, rope_scaling.original),
    BO_CONFIG_PLAIN("window_first", BO_CONFIG_SIZE, window_first),
    BO_CONFIG_PLAIN("window_period", BO_CONFIG_SIZE, window_period),
};
static const bo_model_desc usual_options = {.embedding_scale = 1, .residual_scale = 1, .logit_scale = 1};

/* Written only if they are not all equal to "use_bias". */
static const bo_config_field bias_fields[] = {BO_CONFIG_PLAIN("attention_bias", BO_CONFIG_CHOICE, attention_bias),
                                              BO_CONFIG_PLAIN("output_bias", BO_CONFIG_CHOICE, output_bias),
                                              BO_CONFIG_PLAIN("mlp_bias", BO_CONFIG_CHOICE, mlp_bias)};

/* Written only if they differ from the defaults. */
static const bo_config_field parametrization_fields[] = {
    BO_CONFIG_ENUM("parametrization", parametrization, parametrization),
    BO_CONFIG_PLAIN("base_width", BO_CONFIG_SIZE, base_width)};
static const bo_config_field storage_fields[] = {BO_CONFIG_ENUM("storage", storage, storage)};

/* The fields of mixers other than attention. */
static const bo_config_field mixer_fields[] = {BO_CONFIG_ENUM("mixer", mixer, mixer)};
static const bo_config_field ssm_fields[] = {BO_CONFIG_ENUM("ssm", ssm, ssm),
                                             BO_CONFIG_PLAIN("state_size", BO_CONFIG_SIZE, state_size),
                                             BO_CONFIG_PLAIN("state_rank", BO_CONFIG_SIZE, state_rank)};
static const bo_config_field kernel_fields[] = {BO_CONFIG_PLAIN("conv_kernel", BO_CONFIG_SIZE, kernel)};

static const bo_config_field attention_fields[] = {
    {.name = "kind",
     .type = BO_CONFIG_NAME,
     .offset = offsetof(bo_model_desc, attention.kind),
     .required = true,
     .text = attention_kind_text,
     .parse = attention_kind_parse},
    BO_CONFIG_ENUM("gate", attention.gate, gate),
    {.name = "normalizer",
     .former = "normaliser",
     .type = BO_CONFIG_NAME,
     .offset = offsetof(bo_model_desc, attention.normalizer),
     .text = normalizer_text,
     .parse = normalizer_parse},
    BO_CONFIG_ENUM("proposal", attention.proposal, proposal),
    BO_CONFIG_PLAIN("scale", BO_CONFIG_REAL, attention.scale),
    BO_CONFIG_PLAIN("one_draw", BO_CONFIG_BOOL, attention.one_draw),
    BO_CONFIG_PLAIN("window", BO_CONFIG_SIZE, attention.window),
    BO_CONFIG_PLAIN("clamp", BO_CONFIG_REAL, attention.clamp),
    BO_CONFIG_PLAIN("temperature", BO_CONFIG_REAL, attention.temperature),
    BO_CONFIG_PLAIN("rank", BO_CONFIG_SIZE, attention.rank),
    BO_CONFIG_PLAIN("power", BO_CONFIG_REAL, attention.power),
    BO_CONFIG_PLAIN("unit", BO_CONFIG_BOOL, attention.unit),
    BO_CONFIG_PLAIN("iterations", BO_CONFIG_SIZE, attention.iterations),
    BO_CONFIG_PLAIN("tolerance", BO_CONFIG_REAL, attention.tolerance),
    BO_CONFIG_PLAIN("capacity", BO_CONFIG_SIZE, attention.capacity),
    BO_CONFIG_PLAIN("chunk", BO_CONFIG_SIZE, attention.chunk),
};

static const bo_config_field feature_fields[] = {
    BO_CONFIG_ENUM("kernel", attention.features.kernel, kernel),
    BO_CONFIG_ENUM("function", attention.features.function, function),
    BO_CONFIG_ENUM("draw", attention.features.draw, draw),
    BO_CONFIG_ENUM("sampling", attention.features.sampling, sampling),
    BO_CONFIG_PLAIN("features", BO_CONFIG_SIZE, attention.features.features),
    BO_CONFIG_PLAIN("gamma", BO_CONFIG_REAL, attention.features.gamma),
    BO_CONFIG_PLAIN("alpha", BO_CONFIG_REAL, attention.features.alpha),
    BO_CONFIG_PLAIN("degree", BO_CONFIG_INT, attention.features.degree),
    BO_CONFIG_PLAIN("pair_norm", BO_CONFIG_REAL, attention.features.pair_norm),
    BO_CONFIG_PLAIN("candidates", BO_CONFIG_SIZE, attention.features.candidates),
    BO_CONFIG_PLAIN("seed", BO_CONFIG_SEED, attention.features.seed),
};

static const bo_config_field degree_fields[] = {BO_CONFIG_PLAIN("degree_heads", BO_CONFIG_SIZE, degree_heads)};

static const bo_config_field mlp_fields[] = {
    BO_CONFIG_ENUM("kernel", mlp_features.kernel, kernel),
    BO_CONFIG_ENUM("function", mlp_features.function, function),
    BO_CONFIG_ENUM("draw", mlp_features.draw, draw),
    BO_CONFIG_PLAIN("gamma", BO_CONFIG_REAL, mlp_features.gamma),
    BO_CONFIG_PLAIN("alpha", BO_CONFIG_REAL, mlp_features.alpha),
    BO_CONFIG_PLAIN("degree", BO_CONFIG_INT, mlp_features.degree),
    BO_CONFIG_PLAIN("seed", BO_CONFIG_SEED, mlp_features.seed),
};

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* The fields of softmax attention that change its output. */
static const bo_config_field softmax_fields[] = {BO_CONFIG_PLAIN("scale", BO_CONFIG_REAL, attention.scale),
                                                 BO_CONFIG_PLAIN("window", BO_CONFIG_SIZE, attention.window)};

/* Fields that only matter for initial values, training, or other kinds of attention. */
static bool is_neutral(const char *name)
{
    static const char *const names[] = {"sigma", "gate_first", "gate_last", "use_bias", "dropout", "seed"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

static bool same_fields(const bo_config_field *fields, size_t count, const bo_model_desc *a, const bo_model_desc *b)
{
    for (size_t i = 0; i < count; i++)
        if (!is_neutral(fields[i].name) && !bo_config_field_same(&fields[i], a, b)) return false;
    return true;
}

bool bo_config_same(const bo_model_desc *a, const bo_model_desc *b)
{
    const bo_model_biases x = bo_model_biases_of(a), y = bo_model_biases_of(b);
    return x.attention == y.attention && x.output == y.output && x.mlp == y.mlp &&
           same_fields(model_fields, COUNT(model_fields), a, b) &&
           same_fields(option_fields, COUNT(option_fields), a, b) &&
           same_fields(softmax_fields, COUNT(softmax_fields), a, b);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_more(bo_json_text *text, const bo_config_field *fields, size_t count, const bo_model_desc *desc)
{
    bo_json_raw(text, ",");
    bo_config_fields_write(text, fields, count, desc, "  ");
}

static void write_mixer(bo_json_text *text, const bo_model_desc *desc)
{
    if (desc->mixer == BO_MIXER_ATTENTION) return;
    write_more(text, mixer_fields, COUNT(mixer_fields), desc);
    if (desc->mixer == BO_MIXER_SSM) write_more(text, ssm_fields, COUNT(ssm_fields), desc);
    if (desc->kernel) write_more(text, kernel_fields, COUNT(kernel_fields), desc);
}

static void write_numbers(bo_json_text *text, const bo_model_desc *desc)
{
    if (desc->parametrization != BO_PARAMETRIZATION_STANDARD)
        write_more(text, parametrization_fields, COUNT(parametrization_fields), desc);
    if (desc->storage != BO_STORAGE_FLOAT32) write_more(text, storage_fields, COUNT(storage_fields), desc);
}

static void write_options(bo_json_text *text, const bo_model_desc *desc)
{
    for (size_t i = 0; i < COUNT(option_fields); i++)
        if (!bo_config_field_same(&option_fields[i], desc, &usual_options))
            write_more(text, &option_fields[i], 1, desc);
    const bo_model_biases have = bo_model_biases_of(desc);
    if (have.attention == have.output && have.attention == have.mlp && have.mlp == desc->bias) return;
    bo_model_desc stated = {.attention_bias = have.attention ? BO_CHOICE_YES : BO_CHOICE_NO,
                            .output_bias = have.output ? BO_CHOICE_YES : BO_CHOICE_NO,
                            .mlp_bias = have.mlp ? BO_CHOICE_YES : BO_CHOICE_NO};
    write_more(text, bias_fields, COUNT(bias_fields), &stated);
}

static void write_mlp(bo_json_text *text, const bo_model_desc *desc)
{
    if (desc->degree_heads) write_more(text, degree_fields, COUNT(degree_fields), desc);
    if (desc->mlp == BO_MLP_CUSTOM) {
        bo_json_raw(text, ",\n  \"custom_mlp\": ");
        bo_json_string(text, desc->custom_mlp.name);
    }
    if (desc->mlp != BO_MLP_RANDOM_FEATURES) return;
    bo_json_raw(text, ",\n  \"mlp_features\": {");
    bo_config_fields_write(text, mlp_fields, COUNT(mlp_fields), desc, "    ");
    bo_json_raw(text, "\n  }");
}

/* The attentions of a descriptor: those of its parts, and the second attention of its layers. */
enum { KEPT = BO_MODEL_PART_END, ATTENTIONS };

/* Returns the offset from the fields of `attention` to those of another attention in bo_model_desc. */
static size_t shift_of(int which)
{
    static const size_t fields[ATTENTIONS] = {
        offsetof(bo_model_desc, attention), offsetof(bo_model_desc, cross_attention),
        offsetof(bo_model_desc, encoder_attention), offsetof(bo_model_desc, kept_attention)};
    return fields[which] - fields[BO_MODEL_PART_LAYERS];
}

static const char *name_of(int which)
{
    static const char *const names[ATTENTIONS] = {"attention", "cross_attention", "encoder_attention",
                                                  "kept_attention"};
    return names[which];
}

/* True if the encoder has attention of its own. */
static bool has_encoder(const bo_model_desc *desc)
{
    return bo_model_kind(desc, BO_MODEL_PART_ENCODER) == &desc->encoder_attention;
}

static void write_attention(bo_json_text *text, const bo_model_desc *model, int which)
{
    const char *desc = (const char *)model + shift_of(which);
    bo_json_raw(text, ",\n  ");
    bo_json_string(text, name_of(which));
    bo_json_raw(text, ": {");
    bo_config_fields_write(text, attention_fields, COUNT(attention_fields), desc, "    ");
    if (bo_attention_has(&((const bo_model_desc *)(const void *)desc)->attention, BO_TRAIT_FEATURES)) {
        bo_json_raw(text, ",\n    \"features\": {");
        bo_config_fields_write(text, feature_fields, COUNT(feature_fields), desc, "      ");
        bo_json_raw(text, "\n    }");
    }
    bo_json_raw(text, "\n  }");
}

static void write_attentions(bo_json_text *text, const bo_model_desc *d)
{
    for (int part = BO_MODEL_PART_LAYERS; part <= BO_MODEL_PART_CROSS; part++)
        if (bo_model_attends(d, (bo_model_part)part)) write_attention(text, d, part);
    if (has_encoder(d)) write_attention(text, d, BO_MODEL_PART_ENCODER);
    if (!bo_model_has_kept(d)) return;
    write_attention(text, d, KEPT);
    bo_json_raw(text, ",\n  \"kept_layers\": ");
    bo_json_string(text, d->kept_layers ? d->kept_layers : "");
}

static void write_fingerprint(bo_json_text *text, const bo_model *model)
{
    char number[32];
    bo_json_raw(text, "\"tokenizer_fingerprint\": ");
    if (!model->tokenizer) {
        bo_json_raw(text, "null");
        return;
    }
    snprintf(number, sizeof number, "%016llx", (unsigned long long)bo_tokenizer_fingerprint(model->tokenizer));
    bo_json_string(text, number);
}

static void write_own(bo_json_text *text, const bo_model *model)
{
    bo_json_raw(text, "\n  \"architectures\": [");
    bo_json_string(text, bo_config_architecture(model->desc.task));
    bo_json_raw(text, "],\n  \"model_type\": \"bochner\",\n  \"bochner_format\": ");
    bo_json_whole(text, format_of(&model->desc));
    bo_json_raw(text, ",\n  \"bochner_version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n  \"dtype\": \"float32\",\n  ");
    write_fingerprint(text, model);
    bo_json_raw(text, ",");
    bo_config_fields_write(text, model_fields, COUNT(model_fields), &model->desc, "  ");
    write_options(text, &model->desc);
    write_mixer(text, &model->desc);
    write_mlp(text, &model->desc);
    write_numbers(text, &model->desc);
    bo_config_task_write(text, &model->desc);
    write_attentions(text, &model->desc);
}

/* Fields of a model of another family that do not change its outputs. They are the member "bochner", which other
 * programs ignore. */
static const bo_config_field extra_fields[] = {
    BO_CONFIG_PLAIN("dropout", BO_CONFIG_REAL, dropout),
    BO_CONFIG_PLAIN("seed", BO_CONFIG_SEED, seed),
    BO_CONFIG_PLAIN("sigma", BO_CONFIG_REAL, sigma),
    BO_CONFIG_PLAIN("gate_first", BO_CONFIG_REAL, gate_first),
    BO_CONFIG_PLAIN("gate_last", BO_CONFIG_REAL, gate_last),
    BO_CONFIG_PLAIN("capacity", BO_CONFIG_SIZE, attention.capacity),
    BO_CONFIG_PLAIN("chunk", BO_CONFIG_SIZE, attention.chunk),
};

static void write_family(bo_json_text *text, const bo_model *model, bo_family family)
{
    bo_family_write(text, family, &model->desc);
    bo_json_raw(text, ",\n  \"dtype\": ");
    bo_json_string(text, bo_storage_name(bo_model_storage(model)));
    bo_json_raw(text, ",\n  \"bochner\": {\n    \"version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n    ");
    write_fingerprint(text, model);
    bo_json_raw(text, ",");
    bo_config_fields_write(text, extra_fields, COUNT(extra_fields), &model->desc, "    ");
    bo_json_raw(text, "\n  }");
}

bo_status bo_config_write(bo_context *context, const bo_model *model, char **json)
{
    bo_json_text text = {.context = context};
    bo_family family;
    BO_TRY(bo_family_of(context, model, &family));
    bo_json_raw(&text, "{");
    if (family == BO_FAMILY_BOCHNER)
        write_own(&text, model);
    else
        write_family(&text, model, family);
    bo_specials_write_members(&text, model);
    bo_json_raw(&text, "\n}\n");
    *json = text.bytes;
    return text.failed ? BO_MEMORY : BO_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status read_mixer(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    BO_TRY(bo_config_fields_read(context, where, mixer_fields, COUNT(mixer_fields), false, NULL, json, out));
    BO_TRY(bo_config_fields_read(context, where, ssm_fields, COUNT(ssm_fields), false, NULL, json, out));
    return bo_config_fields_read(context, where, kernel_fields, COUNT(kernel_fields), false, NULL, json, out);
}

static bo_status read_numbers(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    BO_TRY(bo_config_fields_read(context, where, parametrization_fields, COUNT(parametrization_fields), false, NULL,
                                 json, out));
    return bo_config_fields_read(context, where, storage_fields, COUNT(storage_fields), false, NULL, json, out);
}

static bo_status read_mlp(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    char place[300];
    const cJSON *features = cJSON_GetObjectItemCaseSensitive(json, "mlp_features");
    BO_TRY(bo_config_fields_read(context, where, degree_fields, COUNT(degree_fields), false, NULL, json, out));
    if (out->mlp != BO_MLP_RANDOM_FEATURES) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"mlp_features\"", where);
    return bo_config_fields_read(context, place, mlp_fields, COUNT(mlp_fields), true, NULL, features, out);
}

static bo_status read_custom(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "custom_mlp"));
    if (!name || !*name)
        return bo_fail(context, BO_FORMAT, "%s: \"custom_mlp\" should be the name of the custom layer", where);
    out->custom = bo_strdup(context, name);
    out->desc.custom_mlp.name = out->custom;
    return out->custom ? BO_OK : BO_MEMORY;
}

static bo_status read_attention(bo_context *context, const char *where, const cJSON *json, int which,
                                bo_model_desc *out)
{
    char place[300];
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(json, name_of(which));
    const cJSON *features = cJSON_GetObjectItemCaseSensitive(attention, "features");
    char *desc = (char *)out + shift_of(which);
    if (which != KEPT && !bo_model_attends(out, (bo_model_part)which)) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"%s\"", where, name_of(which));
    BO_TRY(bo_config_fields_read(context, place, attention_fields, COUNT(attention_fields), true, "features", attention,
                                 desc));
    /* marks it as given, also if it is softmax attention */
    if (which == BO_MODEL_PART_CROSS) out->cross_attention.heads = out->heads;
    if (which == BO_MODEL_PART_ENCODER) out->encoder_attention.heads = out->heads;
    if (which == KEPT) out->kept_attention.heads = out->heads;
    if (!features) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"%s\": \"features\"", where, name_of(which));
    return bo_config_fields_read(context, place, feature_fields, COUNT(feature_fields), true, NULL, features, desc);
}

/* Earlier versions of Bochner did not write the attention of the encoder, which was that of the decoder. */
static bo_status read_encoder(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    if (cJSON_HasObjectItem(json, name_of(BO_MODEL_PART_ENCODER)))
        return read_attention(context, where, json, BO_MODEL_PART_ENCODER, out);
    out->encoder_attention = out->attention;
    return BO_OK;
}

static bo_status read_kept(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    if (!cJSON_HasObjectItem(json, name_of(KEPT))) return BO_OK;
    const char *layers = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "kept_layers"));
    if (!layers)
        return bo_fail(context, BO_FORMAT, "%s: \"kept_layers\" should be a list of layers such as \"0,5-7\"", where);
    BO_TRY(read_attention(context, where, json, KEPT, &out->desc));
    out->kept_layers = bo_strdup(context, layers);
    out->desc.kept_layers = out->kept_layers;
    return out->kept_layers ? BO_OK : BO_MEMORY;
}

static void read_fingerprint(const cJSON *json, bo_config *out)
{
    const cJSON *tokenizer = cJSON_GetObjectItemCaseSensitive(json, "tokenizer_fingerprint");
    const char *fingerprint = cJSON_GetStringValue(tokenizer);
    out->no_tokenizer = cJSON_IsNull(tokenizer);
    out->knows_tokenizer = fingerprint != NULL;
    out->tokenizer_fingerprint = fingerprint ? strtoull(fingerprint, NULL, 16) : 0;
}

static bo_status read_own(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    size_t format = 0;
    if (!bo_json_size(cJSON_GetObjectItemCaseSensitive(json, "bochner_format"), &format) || format < 1)
        return bo_fail(context, BO_FORMAT, "%s: \"bochner_format\" should be a whole number", where);
    if (format > FORMAT)
        return bo_fail(context, BO_VERSION, "%s: the model has format %zu, but Bochner %s reads formats up to %d",
                       where, format, bo_version(), FORMAT);
    BO_TRY(bo_config_fields_read(context, where, model_fields, COUNT(model_fields), false, NULL, json, &out->desc));
    BO_TRY(bo_config_fields_read(context, where, option_fields, COUNT(option_fields), false, NULL, json, &out->desc));
    BO_TRY(bo_config_fields_read(context, where, bias_fields, COUNT(bias_fields), false, NULL, json, &out->desc));
    BO_TRY(read_mixer(context, where, json, &out->desc));
    BO_TRY(read_numbers(context, where, json, &out->desc));
    BO_TRY(read_mlp(context, where, json, &out->desc));
    if (out->desc.mlp == BO_MLP_CUSTOM) BO_TRY(read_custom(context, where, json, out));
    BO_TRY(bo_config_task_read(context, where, json, out));
    BO_TRY(read_attention(context, where, json, BO_MODEL_PART_LAYERS, &out->desc));
    BO_TRY(read_attention(context, where, json, BO_MODEL_PART_CROSS, &out->desc));
    if (has_encoder(&out->desc)) BO_TRY(read_encoder(context, where, json, &out->desc));
    BO_TRY(read_kept(context, where, json, out));
    if (format < 2 && format_of(&out->desc) == 2)
        return bo_fail(
            context, BO_VERSION,
            "%s: the model has format %zu, in which encoders with ridge attention read forward and backward in "
            "turn; this version attends to the whole text at once: train the model again",
            where, format);
    read_fingerprint(json, out);
    return BO_OK;
}

static bo_status read_family(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    char place[300];
    const cJSON *extra = cJSON_GetObjectItemCaseSensitive(json, "bochner");
    BO_TRY(bo_family_read(context, where, out->family, json, &out->desc));
    if (!extra) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"bochner\"", where);
    BO_TRY(bo_config_fields_read(context, place, extra_fields, COUNT(extra_fields), false, NULL, extra, &out->desc));
    read_fingerprint(extra, out);
    return BO_OK;
}

static bo_status read_any(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model_type"));
    if (!type)
        return bo_fail(context, BO_FORMAT, "%s: not the configuration of a model: \"model_type\" is missing", where);
    if (strcmp(type, "bochner") == 0) return read_own(context, where, json, out);
    out->family = bo_family_find(type);
    if (out->family != BO_FAMILY_BOCHNER) return read_family(context, where, json, out);
    char names[256];
    bo_family_list(names, sizeof names);
    return bo_fail(context, BO_UNSUPPORTED, "%s: \"model_type\" should be bochner or one of %s, found %.60s", where,
                   names, type);
}

void bo_config_free(bo_config *config)
{
    bo_labels_free(config->labels, config->desc.classes);
    bo_free(config->custom);
    bo_free(config->kept_layers);
    config->labels = NULL;
    config->custom = NULL;
    config->kept_layers = NULL;
    config->desc.kept_layers = NULL;
    config->desc.labels = NULL;
    config->desc.custom_mlp.name = NULL;
}

bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out)
{
    cJSON *root;
    *out = (bo_config){0};
    if (length > bo_limits_config.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_config.bytes);
    BO_TRY(bo_json_parse(context, where, json, length, DEPTH, &root));
    bo_status status =
        bo_json_has_nul(json, length)
            ? bo_fail(context, BO_FORMAT, "%s: contains \\u0000, which is not allowed in names and labels", where)
            : read_any(context, where, root, out);
    cJSON_Delete(root);
    if (status != BO_OK) bo_config_free(out);
    return status;
}
