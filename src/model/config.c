/* config.json: the model under the member names of Hugging Face, with attention in a separate object. Models that are one
 * of the families of families.h are written as such. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/input.h"
#include "config.h"
#include "families.h"

/* ====================================================================================================================
 * Tables of the fields of bo_model_desc. */

/* Defines the name and parse functions of an enum with plain integers. */
#define NAMED(type, word)                                                                                              \
    static const char *word##_text(unsigned value)                                                                     \
    {                                                                                                                  \
        return bo_##word##_name((type)value);                                                                          \
    }                                                                                                                  \
    static bool word##_parse(const char *text, unsigned *out)                                                          \
    {                                                                                                                  \
        type value;                                                                                                    \
        bool found = bo_##word##_parse(text, &value);                                                                  \
        if (found) *out = (unsigned)value;                                                                             \
        return found;                                                                                                  \
    }

#define PLAIN(key, sort, member)                                                                                       \
    {                                                                                                                  \
        .name = key, .type = sort, .offset = offsetof(bo_model_desc, member)                                           \
    }
#define NEEDED(key, member)                                                                                            \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_SIZE, .offset = offsetof(bo_model_desc, member), .required = true               \
    }
#define ENUM(key, member, word)                                                                                        \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_NAME, .offset = offsetof(bo_model_desc, member), .text = word##_text,           \
        .parse = word##_parse                                                                                          \
    }
#define COUNT(fields) (sizeof fields / sizeof *fields)

/* ====================================================================================================================
 * The task in config.json. Classes are stored as in Hugging Face's files, in "id2label" and "label2id". */

NAMED(bo_model_task, model_task)
NAMED(bo_pooling, pooling)
NAMED(bo_cross, cross)

static const bo_config_field task_fields[] = {ENUM("task", task, model_task)};
static const bo_config_field label_fields[] = {ENUM("pooling", pooling, pooling),
                                               PLAIN("forward", BO_CONFIG_BOOL, forward)};
static const bo_config_field translate_fields[] = {PLAIN("encoder_layers", BO_CONFIG_SIZE, encoder_layers),
                                                   ENUM("cross", cross, cross)};

static bool labels(bo_model_task task)
{
    return task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
}

static const char *architecture_of(bo_model_task task)
{
    static const char *const names[BO_MODEL_TASK_COUNT] = {"BochnerForCausalLM", "BochnerForSequenceClassification",
                                                           "BochnerForTextMatching", "BochnerForTranslation"};
    return names[task];
}

void bo_config_free(bo_config *config)
{
    bo_labels_free(config->labels, config->desc.classes);
    bo_free(config->custom);
    config->labels = NULL;
    config->custom = NULL;
    config->desc.labels = NULL;
    config->desc.custom_mlp.name = NULL;
}

/* ---- writing a task ---------------------------------------------------------------------------------------------- */

/* Writes a member "key": value; one of the two is the label, the other its number. */
static void write_class(bo_json_text *text, size_t index, const char *label, bool by_label)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    bo_json_raw(text, index ? ",\n    " : "\n    ");
    bo_json_string(text, by_label ? label : number);
    bo_json_raw(text, ": ");
    if (by_label)
        bo_json_whole(text, index);
    else
        bo_json_string(text, label);
}

static void write_labels(bo_json_text *text, const bo_model_desc *desc)
{
    for (int by_label = 0; by_label < 2; by_label++) {
        bo_json_raw(text, by_label ? ",\n  \"label2id\": {" : ",\n  \"id2label\": {");
        for (size_t i = 0; i < desc->classes; i++) write_class(text, i, desc->labels[i], by_label);
        bo_json_raw(text, "\n  }");
    }
}

static void write_fields(bo_json_text *text, const bo_config_field *fields, size_t count, const bo_model_desc *desc)
{
    bo_json_raw(text, ",");
    bo_config_fields_write(text, fields, count, desc, "  ");
}

/* Writes the task; nothing for a language model. */
static void write_task(bo_json_text *text, const bo_model_desc *desc)
{
    if (desc->task == BO_MODEL_TASK_LANGUAGE) return;
    write_fields(text, task_fields, COUNT(task_fields), desc);
    if (desc->task == BO_MODEL_TASK_TRANSLATE) write_fields(text, translate_fields, COUNT(translate_fields), desc);
    if (!labels(desc->task)) return;
    write_fields(text, label_fields, COUNT(label_fields), desc);
    write_labels(text, desc);
}

/* ---- reading a task ---------------------------------------------------------------------------------------------- */

/* Reads one member of "id2label". Members may be in any order, each number once. */
static bo_status read_label(bo_context *context, const char *where, const cJSON *item, bo_config *out)
{
    const char *label = cJSON_GetStringValue(item), *key = item->string;
    const bool whole = *key && strlen(key) <= 9 && strspn(key, "0123456789") == strlen(key);
    const size_t index = whole ? strtoul(key, NULL, 10) : SIZE_MAX;
    if (index >= out->desc.classes || out->labels[index])
        return bo_fail(context, BO_FORMAT, "%s: \"id2label\" should number its %zu classes from 0, found \"%.60s\"%s",
                       where, out->desc.classes, key, index < out->desc.classes ? " twice" : "");
    if (!label || !*label) return bo_fail(context, BO_FORMAT, "%s: \"id2label\": \"%s\" should be a label", where, key);
    out->labels[index] = bo_alloc(context, strlen(label) + 1, 1, "a label");
    if (!out->labels[index]) return BO_MEMORY;
    strcpy(out->labels[index], label);
    return BO_OK;
}

/* Checks that "label2id", if present, is the inverse of "id2label". */
static bo_status check_numbers(bo_context *context, const char *where, const cJSON *numbers, const bo_config *out)
{
    if (!numbers) return BO_OK;
    if (!cJSON_IsObject(numbers) || (size_t)cJSON_GetArraySize(numbers) != out->desc.classes)
        return bo_fail(context, BO_FORMAT, "%s: \"label2id\" should be an object with the %zu labels of \"id2label\"",
                       where, out->desc.classes);
    for (const cJSON *item = numbers->child; item; item = item->next) {
        size_t index = 0;
        if (!bo_json_size(item, &index) || index >= out->desc.classes || strcmp(item->string, out->labels[index]) != 0)
            return bo_fail(context, BO_FORMAT, "%s: \"label2id\": \"%.60s\" contradicts \"id2label\"", where,
                           item->string);
    }
    return BO_OK;
}

static bo_status read_labels(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "id2label");
    if (!cJSON_IsObject(names) || !names->child)
        return bo_fail(context, BO_FORMAT, "%s: \"id2label\" should be an object with the label of each class", where);
    out->desc.classes = (size_t)cJSON_GetArraySize(names);
    out->labels = bo_alloc(context, out->desc.classes, sizeof *out->labels, "labels");
    if (!out->labels) return BO_MEMORY;
    for (const cJSON *item = names->child; item; item = item->next) BO_TRY(read_label(context, where, item, out));
    out->desc.labels = (const char *const *)out->labels;
    return check_numbers(context, where, cJSON_GetObjectItemCaseSensitive(json, "label2id"), out);
}

static bo_status read_task(bo_context *context, const char *where, const cJSON *json, bo_config *out)
{
    BO_TRY(bo_config_fields_read(context, where, task_fields, COUNT(task_fields), false, NULL, json, &out->desc));
    if (out->desc.task == BO_MODEL_TASK_TRANSLATE)
        return bo_config_fields_read(context, where, translate_fields, COUNT(translate_fields), false, NULL, json,
                                     &out->desc);
    if (!labels(out->desc.task)) return BO_OK;
    BO_TRY(bo_config_fields_read(context, where, label_fields, COUNT(label_fields), false, NULL, json, &out->desc));
    return read_labels(context, where, json, out);
}

/* ====================================================================================================================
 * config.json of Bochner's models: the model under the member names of Hugging Face, attention in a separate object. */

enum { FORMAT = 2, DEPTH = 16 };

/* Returns the format of a model's file: 1, or 2 if its encoder has a memory that is not causal (ridge attention). In
 * format 1 such an encoder read forward and backward in turn, with the same weights. */
static size_t format_of(const bo_model_desc *d)
{
    const bo_model_part part = d->task == BO_MODEL_TASK_TRANSLATE ? BO_MODEL_PART_ENCODER : BO_MODEL_PART_LAYERS;
    const bool memory = bo_model_attends(d, part) && bo_attention_has(bo_model_kind(d, part), BO_TRAIT_MEMORY);
    return memory && !bo_model_is_causal(d, part) ? 2 : 1;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

NAMED(bo_attention_kind, attention_kind)
NAMED(bo_gate, gate)
NAMED(bo_proposal, proposal)
NAMED(bo_kernel, kernel)
NAMED(bo_function, function)
NAMED(bo_draw, draw)
NAMED(bo_sampling, sampling)
NAMED(bo_norm, norm)
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
NAMED(bo_mixer, mixer)
NAMED(bo_block, block)
NAMED(bo_rope_scaling_kind, rope_scaling_kind)
NAMED(bo_ssm, ssm)
NAMED(bo_parametrization, parametrization)
NAMED(bo_storage, storage)

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
    NEEDED("vocab_size", vocab),
    NEEDED("hidden_size", width),
    NEEDED("num_hidden_layers", layers),
    NEEDED("num_attention_heads", heads),
    NEEDED("max_position_embeddings", context),
    PLAIN("num_key_value_heads", BO_CONFIG_SIZE, key_heads),
    PLAIN("head_dim", BO_CONFIG_SIZE, head_dim),
    PLAIN("intermediate_size", BO_CONFIG_SIZE, hidden),
    ENUM("hidden_act", mlp, act),
    ENUM("norm", norm, norm),
    PLAIN("rms_norm_eps", BO_CONFIG_REAL, norm_epsilon),
    ENUM("position_embedding_type", positions, positions),
    PLAIN("rope_theta", BO_CONFIG_REAL, rope_base),
    PLAIN("query_norm", BO_CONFIG_CHOICE, query_norm),
    PLAIN("output_norm", BO_CONFIG_CHOICE, output_norm),
    PLAIN("sigma", BO_CONFIG_REAL, sigma),
    PLAIN("gate_first", BO_CONFIG_REAL, gate_first),
    PLAIN("gate_last", BO_CONFIG_REAL, gate_last),
    PLAIN("tie_word_embeddings", BO_CONFIG_NOT, untied),
    PLAIN("use_bias", BO_CONFIG_BOOL, bias),
    PLAIN("dropout", BO_CONFIG_REAL, dropout),
    PLAIN("seed", BO_CONFIG_SEED, seed),
};

/* Written only if they differ from usual_options. */
static const bo_config_field option_fields[] = {
    ENUM("block", block, block),
    PLAIN("head_bias", BO_CONFIG_BOOL, head_bias),
    PLAIN("embedding_scale", BO_CONFIG_REAL, embedding_scale),
    PLAIN("residual_scale", BO_CONFIG_REAL, residual_scale),
    PLAIN("logit_scale", BO_CONFIG_REAL, logit_scale),
    PLAIN("rotated_columns", BO_CONFIG_SIZE, rotated),
    ENUM("rope_scaling_type", rope_scaling.kind, rope_scaling_kind),
    PLAIN("rope_scaling_factor", BO_CONFIG_REAL, rope_scaling.factor),
    PLAIN("rope_scaling_low", BO_CONFIG_REAL, rope_scaling.low),
    PLAIN("rope_scaling_high", BO_CONFIG_REAL, rope_scaling.high),
    PLAIN("rope_scaling_original", BO_CONFIG_REAL, rope_scaling.original),
    PLAIN("window_first", BO_CONFIG_SIZE, window_first),
    PLAIN("window_period", BO_CONFIG_SIZE, window_period),
};
static const bo_model_desc usual_options = {.embedding_scale = 1, .residual_scale = 1, .logit_scale = 1};

/* Written only if they are not all equal to "use_bias". */
static const bo_config_field bias_fields[] = {PLAIN("attention_bias", BO_CONFIG_CHOICE, attention_bias),
                                              PLAIN("output_bias", BO_CONFIG_CHOICE, output_bias),
                                              PLAIN("mlp_bias", BO_CONFIG_CHOICE, mlp_bias)};

/* Written only if they differ from the defaults. */
static const bo_config_field parametrization_fields[] = {ENUM("parametrization", parametrization, parametrization),
                                                         PLAIN("base_width", BO_CONFIG_SIZE, base_width)};
static const bo_config_field storage_fields[] = {ENUM("storage", storage, storage)};

/* The fields of mixers other than attention. */
static const bo_config_field mixer_fields[] = {ENUM("mixer", mixer, mixer)};
static const bo_config_field ssm_fields[] = {ENUM("ssm", ssm, ssm), PLAIN("state_size", BO_CONFIG_SIZE, state_size),
                                             PLAIN("state_rank", BO_CONFIG_SIZE, state_rank)};
static const bo_config_field kernel_fields[] = {PLAIN("conv_kernel", BO_CONFIG_SIZE, kernel)};

static const bo_config_field attention_fields[] = {
    {.name = "kind",
     .type = BO_CONFIG_NAME,
     .offset = offsetof(bo_model_desc, attention.kind),
     .required = true,
     .text = attention_kind_text,
     .parse = attention_kind_parse},
    ENUM("gate", attention.gate, gate),
    {.name = "normalizer",
     .former = "normaliser",
     .type = BO_CONFIG_NAME,
     .offset = offsetof(bo_model_desc, attention.normalizer),
     .text = normalizer_text,
     .parse = normalizer_parse},
    ENUM("proposal", attention.proposal, proposal),
    PLAIN("scale", BO_CONFIG_REAL, attention.scale),
    PLAIN("one_draw", BO_CONFIG_BOOL, attention.one_draw),
    PLAIN("window", BO_CONFIG_SIZE, attention.window),
    PLAIN("clamp", BO_CONFIG_REAL, attention.clamp),
    PLAIN("temperature", BO_CONFIG_REAL, attention.temperature),
    PLAIN("rank", BO_CONFIG_SIZE, attention.rank),
    PLAIN("power", BO_CONFIG_REAL, attention.power),
    PLAIN("unit", BO_CONFIG_BOOL, attention.unit),
    PLAIN("iterations", BO_CONFIG_SIZE, attention.iterations),
    PLAIN("tolerance", BO_CONFIG_REAL, attention.tolerance),
    PLAIN("capacity", BO_CONFIG_SIZE, attention.capacity),
    PLAIN("chunk", BO_CONFIG_SIZE, attention.chunk),
};

static const bo_config_field feature_fields[] = {
    ENUM("kernel", attention.features.kernel, kernel),
    ENUM("function", attention.features.function, function),
    ENUM("draw", attention.features.draw, draw),
    ENUM("sampling", attention.features.sampling, sampling),
    PLAIN("features", BO_CONFIG_SIZE, attention.features.features),
    PLAIN("gamma", BO_CONFIG_REAL, attention.features.gamma),
    PLAIN("alpha", BO_CONFIG_REAL, attention.features.alpha),
    PLAIN("degree", BO_CONFIG_INT, attention.features.degree),
    PLAIN("pair_norm", BO_CONFIG_REAL, attention.features.pair_norm),
    PLAIN("candidates", BO_CONFIG_SIZE, attention.features.candidates),
    PLAIN("seed", BO_CONFIG_SEED, attention.features.seed),
};

static const bo_config_field degree_fields[] = {PLAIN("degree_heads", BO_CONFIG_SIZE, degree_heads)};

static const bo_config_field mlp_fields[] = {
    ENUM("kernel", mlp_features.kernel, kernel),
    ENUM("function", mlp_features.function, function),
    ENUM("draw", mlp_features.draw, draw),
    PLAIN("gamma", BO_CONFIG_REAL, mlp_features.gamma),
    PLAIN("alpha", BO_CONFIG_REAL, mlp_features.alpha),
    PLAIN("degree", BO_CONFIG_INT, mlp_features.degree),
    PLAIN("seed", BO_CONFIG_SEED, mlp_features.seed),
};

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* The fields of softmax attention that change its output. */
static const bo_config_field softmax_fields[] = {PLAIN("scale", BO_CONFIG_REAL, attention.scale),
                                                 PLAIN("window", BO_CONFIG_SIZE, attention.window)};

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

/* Returns the offset from the fields of `attention` to those of the part's attention in bo_model_desc. */
static size_t shift_of(bo_model_part part)
{
    static const size_t fields[] = {offsetof(bo_model_desc, attention), offsetof(bo_model_desc, cross_attention),
                                    offsetof(bo_model_desc, encoder_attention)};
    return fields[part] - fields[BO_MODEL_PART_LAYERS];
}

static const char *name_of(bo_model_part part)
{
    static const char *const names[] = {"attention", "cross_attention", "encoder_attention"};
    return names[part];
}

/* True if the encoder has attention of its own. */
static bool has_encoder(const bo_model_desc *desc)
{
    return bo_model_kind(desc, BO_MODEL_PART_ENCODER) == &desc->encoder_attention;
}

static void write_attention(bo_json_text *text, const bo_model *model, bo_model_part part)
{
    const char *desc = (const char *)&model->desc + shift_of(part);
    if (!bo_model_attends(&model->desc, part)) return;
    bo_json_raw(text, ",\n  ");
    bo_json_string(text, name_of(part));
    bo_json_raw(text, ": {");
    bo_config_fields_write(text, attention_fields, COUNT(attention_fields), desc, "    ");
    if (bo_attention_features(model->attentions[bo_model_place(&model->desc, part)], 0)) {
        bo_json_raw(text, ",\n    \"features\": {");
        bo_config_fields_write(text, feature_fields, COUNT(feature_fields), desc, "      ");
        bo_json_raw(text, "\n    }");
    }
    bo_json_raw(text, "\n  }");
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
    bo_json_string(text, architecture_of(model->desc.task));
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
    write_task(text, &model->desc);
    write_attention(text, model, BO_MODEL_PART_LAYERS);
    write_attention(text, model, BO_MODEL_PART_CROSS);
    if (has_encoder(&model->desc)) write_attention(text, model, BO_MODEL_PART_ENCODER);
}

/* Fields of a model of another family that do not change its outputs. They are the member "bochner", which other
 * programs ignore. */
static const bo_config_field extra_fields[] = {
    PLAIN("dropout", BO_CONFIG_REAL, dropout),       PLAIN("seed", BO_CONFIG_SEED, seed),
    PLAIN("sigma", BO_CONFIG_REAL, sigma),           PLAIN("gate_first", BO_CONFIG_REAL, gate_first),
    PLAIN("gate_last", BO_CONFIG_REAL, gate_last),   PLAIN("capacity", BO_CONFIG_SIZE, attention.capacity),
    PLAIN("chunk", BO_CONFIG_SIZE, attention.chunk),
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

static bo_status read_attention(bo_context *context, const char *where, const cJSON *json, bo_model_part part,
                                bo_model_desc *out)
{
    char place[300];
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(json, name_of(part));
    const cJSON *features = cJSON_GetObjectItemCaseSensitive(attention, "features");
    char *desc = (char *)out + shift_of(part);
    if (!bo_model_attends(out, part)) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"%s\"", where, name_of(part));
    BO_TRY(bo_config_fields_read(context, place, attention_fields, COUNT(attention_fields), true, "features", attention,
                                 desc));
    /* marks it as given, also if it is softmax attention */
    if (part == BO_MODEL_PART_CROSS) out->cross_attention.heads = out->heads;
    if (part == BO_MODEL_PART_ENCODER) out->encoder_attention.heads = out->heads;
    if (!features) return BO_OK;
    snprintf(place, sizeof place, "%.250s: \"%s\": \"features\"", where, name_of(part));
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
    BO_TRY(read_task(context, where, json, out));
    BO_TRY(read_attention(context, where, json, BO_MODEL_PART_LAYERS, &out->desc));
    BO_TRY(read_attention(context, where, json, BO_MODEL_PART_CROSS, &out->desc));
    if (has_encoder(&out->desc)) BO_TRY(read_encoder(context, where, json, &out->desc));
    if (format < format_of(&out->desc))
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
