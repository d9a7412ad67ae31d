/* config.json of families of pretrained models: reading, writing, and the family of a model. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "family_table.h"
#include "internal.h"

#define COUNT(list)              (sizeof(list) / sizeof *(list))
#define FIELD(key, sort, member) BO_CONFIG_PLAIN(key, BO_CONFIG_##sort, member)

/* ====================================================================================================================
 * Reading. */

typedef struct reader {
    bo_context *context;
    const char *where;
    const bo_family_row *row;
    const cJSON *json;
    bo_model_desc *out;
} reader;

/* Returns a member that is present and not null, or NULL. */
static const cJSON *get(const cJSON *json, const char *name)
{
    const cJSON *item = json ? cJSON_GetObjectItemCaseSensitive(json, name) : NULL;
    return cJSON_IsNull(item) ? NULL : item;
}

/* Reads one member; null means zero, false or automatic. */
static bo_status read_field(const reader *r, const cJSON *json, const bo_config_field *field, void *object)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, field->name);
    if (cJSON_IsNull(item) && !field->required) {
        bo_config_field_clear(field, object);
        return BO_OK;
    }
    return bo_config_fields_read(r->context, r->where, field, 1, false, NULL, json, object);
}

static bo_status read_real(const reader *r, const cJSON *json, const char *name, double *out)
{
    const bo_config_field field = {.name = name, .type = BO_CONFIG_REAL};
    return get(json, name) ? bo_config_fields_read(r->context, r->where, &field, 1, false, NULL, json, out) : BO_OK;
}

static bo_status check_demands(const reader *r)
{
    static const char *const values[] = {"false", "true", "null"};
    for (size_t i = 0; i < COUNT(r->row->demands) && r->row->demands[i].name; i++) {
        const bo_family_demand *d = &r->row->demands[i];
        const cJSON *item = get(r->json, d->name);
        if (!item || (d->value == BO_VALUE_FALSE && cJSON_IsFalse(item)) ||
            (d->value == BO_VALUE_TRUE && cJSON_IsTrue(item)))
            continue;
        return bo_fail(r->context, BO_UNSUPPORTED,
                       "%s: \"%s\" should be %s: other models of the family %s are not supported", r->where, d->name,
                       values[d->value], r->row->type);
    }
    if (cJSON_IsFalse(get(r->json, "is_causal")))
        return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"is_causal\" should be true: attention is causal", r->where);
    if (!get(r->json, "quantization_config")) return BO_OK;
    return bo_fail(
        r->context, BO_UNSUPPORTED,
        "%s: \"quantization_config\": quantized weights are not supported: use the model in float16, bfloat16 or float32",
        r->where);
}

static bo_status read_act(const reader *r)
{
    const bo_family_row *f = r->row;
    const cJSON *item = get(r->json, f->act);
    const char *act = item ? cJSON_GetStringValue(item) : f->usual_act;
    const int mlp = act ? bo_family_mlp(f, act) : BO_FAMILY_NO_MLP;
    char names[256];
    if (mlp != BO_FAMILY_NO_MLP) {
        r->out->mlp = (bo_mlp)mlp;
        return BO_OK;
    }
    bo_family_acts(f, names, sizeof names);
    return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"%s\" should be one of %s, found %.60s", r->where, f->act, names,
                   act ? act : "something else");
}

/* ---- RoPE -------------------------------------------------------------------------------------------------------- */

static bo_status read_scaling(const reader *r, const cJSON *rope)
{
    bo_rope_scaling *s = &r->out->rope_scaling;
    const cJSON *item = get(rope, "rope_type") ? get(rope, "rope_type") : get(rope, "type");
    const char *kind = item ? cJSON_GetStringValue(item) : "default";
    if (kind && strcmp(kind, "default") == 0) return BO_OK;
    if (kind && strcmp(kind, "linear") == 0)
        s->kind = BO_ROPE_SCALING_KIND_LINEAR;
    else if (kind && strcmp(kind, "llama3") == 0)
        s->kind = BO_ROPE_SCALING_KIND_LLAMA3;
    else
        return bo_fail(r->context, BO_UNSUPPORTED,
                       "%s: the type of RoPE scaling should be default, linear or llama3, found %.60s", r->where,
                       kind ? kind : "something else");
    s->original = (double)r->out->context;
    BO_TRY(read_real(r, rope, "factor", &s->factor));
    BO_TRY(read_real(r, rope, "low_freq_factor", &s->low));
    BO_TRY(read_real(r, rope, "high_freq_factor", &s->high));
    return read_real(r, rope, "original_max_position_embeddings", &s->original);
}

static bo_status check_rope(const reader *r, const cJSON *rope)
{
    if (!rope || cJSON_IsObject(rope)) return BO_OK;
    return bo_fail(r->context, BO_FORMAT, "%s: \"%s\" should be an object", r->where, rope->string);
}

/* Reads the base of layers with a window. "rope_parameters" of such a family are those of each type of layer; *rope
 * becomes those of the other layers. */
static bo_status read_local(const reader *r, const cJSON **rope)
{
    const cJSON *local = get(*rope, "sliding_attention"), *global = get(*rope, "full_attention");
    const char *kind = cJSON_GetStringValue(get(local, "rope_type"));
    if (!r->row->local) return BO_OK;
    BO_TRY(read_real(r, r->json, r->row->local, &r->out->local_rope_base));
    BO_TRY(check_rope(r, local));
    BO_TRY(check_rope(r, global));
    BO_TRY(read_real(r, local, "rope_theta", &r->out->local_rope_base));
    if (local || global) *rope = global;
    if (!kind || strcmp(kind, "default") == 0) return BO_OK;
    return bo_fail(r->context, BO_UNSUPPORTED,
                   "%s: RoPE of layers with a window should have the type default, found %.60s", r->where, kind);
}

/* The members of "rope_scaling" or "rope_parameters" precede those of the configuration itself. */
static bo_status read_rope(const reader *r)
{
    const bo_family_row *f = r->row;
    bo_model_desc *d = r->out;
    const cJSON *rope = get(r->json, "rope_scaling") ? get(r->json, "rope_scaling") : get(r->json, "rope_parameters");
    double share = f->usual_share;
    if (!f->theta) return BO_OK;
    BO_TRY(check_rope(r, rope));
    BO_TRY(read_local(r, &rope));
    BO_TRY(read_real(r, r->json, f->theta, &d->rope_base));
    BO_TRY(read_real(r, rope, "rope_theta", &d->rope_base));
    if (!(d->rope_base >= 1) || (f->local && !(d->local_rope_base >= 1)))
        return bo_fail(r->context, BO_FORMAT, "%s: the base of RoPE should be at least 1, found %g", r->where,
                       d->rope_base >= 1 ? d->local_rope_base : d->rope_base);
    if (rope) BO_TRY(read_scaling(r, rope));
    if (!f->share) return BO_OK;
    BO_TRY(read_real(r, r->json, f->share, &share));
    BO_TRY(read_real(r, rope, "partial_rotary_factor", &share));
    const double dim = d->head_dim ? (double)d->head_dim : d->heads ? floor((double)d->width / (double)d->heads) : 0;
    if (!(share > 0 && share <= 1) || floor(dim * share) < 2 || fmod(floor(dim * share), 2) != 0)
        return bo_fail(r->context, BO_UNSUPPORTED,
                       "%s: the rotated share %g of heads of %.0f columns should be an even number of columns",
                       r->where, share, dim);
    d->rotated = (size_t)(dim * share);
    return BO_OK;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static bool fits_types(const bo_model_desc *d, const bool *full)
{
    for (size_t i = 0; i < d->layers; i++)
        if (full[i] == bo_model_has_window(d, i)) return false;
    return true;
}

/* Finds window_first and window_period for a list of layers that see all keys. */
static bo_status find_pattern(const reader *r, const bool *full)
{
    bo_model_desc *d = r->out;
    size_t first = 0;
    while (first < d->layers && full[first]) first++;
    if (first == d->layers) {
        d->attention.window = 0;
        return BO_OK;
    }
    for (size_t period = 0; period <= d->layers; period++)
        for (int from = 0; from < 2; from++) {
            d->window_period = period;
            d->window_first = from ? first : 0;
            if (period != 1 && fits_types(d, full)) return BO_OK;
        }
    return bo_fail(
        r->context, BO_UNSUPPORTED,
        "%s: \"layer_types\": layers with a window should follow the first layers, or alternate with a fixed period",
        r->where);
}

static bo_status read_types(const reader *r, const cJSON *types)
{
    enum { MOST = 4096 }; /* the search for a pattern takes quadratic time */
    const size_t layers = r->out->layers;
    if (!cJSON_IsArray(types) || layers > MOST || (size_t)cJSON_GetArraySize(types) != layers)
        return bo_fail(r->context, BO_FORMAT, "%s: \"layer_types\" should be a list of %zu types, at most %d", r->where,
                       layers, MOST);
    bool *full = bo_alloc(r->context, layers, sizeof *full, "a list of layers");
    if (!full) return BO_MEMORY;
    bo_status status = BO_OK;
    size_t i = 0;
    for (const cJSON *item = types->child; item && status == BO_OK; item = item->next, i++) {
        const char *type = cJSON_GetStringValue(item);
        full[i] = type && strcmp(type, "full_attention") == 0;
        if (!full[i] && !(type && strcmp(type, "sliding_attention") == 0))
            status = bo_fail(r->context, BO_UNSUPPORTED,
                             "%s: \"layer_types\" should be full_attention or sliding_attention, found %.60s", r->where,
                             type ? type : "something else");
    }
    if (status == BO_OK) status = find_pattern(r, full);
    bo_free(full);
    return status;
}

static bo_status read_windows(const reader *r)
{
    static const bo_config_field width[] = {FIELD("sliding_window", SIZE, attention.window)},
                                 first[] = {FIELD("max_window_layers", SIZE, window_first)},
                                 period[] = {FIELD("sliding_window_pattern", SIZE, window_period)};
    bo_model_desc *d = r->out;
    if (r->row->windows == BO_WINDOWS_NONE) return BO_OK;
    if (r->row->windows == BO_WINDOWS_LAYERS) {
        if (!cJSON_IsTrue(get(r->json, "use_sliding_window"))) return BO_OK;
        d->attention.window = 4096; /* the defaults of Qwen2 and Qwen3 */
        d->window_first = 28;
    }
    BO_TRY(read_field(r, r->json, width, d));
    if (r->row->windows == BO_WINDOWS_MEMBER) return BO_OK;
    if (r->row->windows == BO_WINDOWS_PERIOD) d->window_period = 6; /* the default of Gemma 3 */
    if (r->row->windows != BO_WINDOWS_TYPES)
        BO_TRY(read_field(r, r->json, r->row->windows == BO_WINDOWS_PERIOD ? period : first, d));
    if (d->attention.window && get(r->json, "layer_types")) BO_TRY(read_types(r, get(r->json, "layer_types")));
    if (d->window_first >= d->layers) d->attention.window = 0;
    if (!d->attention.window) d->window_first = d->window_period = 0;
    return BO_OK;
}

/* ---- all members ------------------------------------------------------------------------------------------------- */

static bo_status read_block(const reader *r)
{
    const char *name = r->row->parallel;
    const cJSON *item = name ? get(r->json, name) : NULL;
    if (!item) return BO_OK;
    if (!cJSON_IsBool(item))
        return bo_fail(r->context, BO_FORMAT, "%s: \"%s\" should be true or false", r->where, name);
    r->out->block = cJSON_IsTrue(item) ? r->row->parallel_block : BO_BLOCK_SEQUENTIAL;
    return BO_OK;
}

/* A zero would mean the default in a descriptor. */
static bo_status check_zeros(const reader *r)
{
    static const char *const names[] = {
        "vocab_size",   "num_key_value_heads", "head_dim",           "intermediate_size", "sliding_window",
        "rms_norm_eps", "layer_norm_eps",      "layer_norm_epsilon", "norm_epsilon",      "n_inner"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const cJSON *item = get(r->json, names[i]);
        if (cJSON_IsNumber(item) && item->valuedouble == 0)
            return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"%s\" should be positive, found 0", r->where, names[i]);
    }
    return BO_OK;
}

/* Families without the member "head_dim" have heads of width / heads columns. */
static bo_status check_head(const reader *r)
{
    const cJSON *item = get(r->json, "head_dim");
    const double expected = r->out->heads ? (double)r->out->width / (double)r->out->heads : 0;
    for (size_t i = 0; i < r->row->count; i++)
        if (strcmp(r->row->fields[i].name, "head_dim") == 0) return BO_OK;
    if (!r->row->theta || !cJSON_IsNumber(item) || item->valuedouble == expected) return BO_OK;
    return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"head_dim\" should be %.10g, found %.10g", r->where, expected,
                   item->valuedouble);
}

bo_status bo_family_read(bo_context *context, const char *where, bo_family family, const cJSON *json,
                         bo_model_desc *out)
{
    const reader r = {context, where, bo_family_row_of(family), json, out};
    *out = r.row->usual;
    for (size_t i = 0; i < r.row->count; i++) BO_TRY(read_field(&r, json, &r.row->fields[i], out));
    BO_TRY(check_zeros(&r));
    BO_TRY(check_head(&r));
    BO_TRY(check_demands(&r));
    BO_TRY(read_act(&r));
    BO_TRY(read_rope(&r));
    BO_TRY(read_block(&r));
    /* as transformers multiplies, in float32 */
    if (r.row->scaled) out->embedding_scale = (double)(float)sqrt((double)out->width);
    return read_windows(&r);
}

/* ====================================================================================================================
 * Writing. */

static void write_name(bo_json_text *text, const char *name)
{
    bo_json_raw(text, ",\n  ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
}

static void write_member(bo_json_text *text, const char *name, double number)
{
    bo_json_raw(text, ", ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
    bo_json_number(text, number);
}

/* Returns the share of a head that is rotated, so that its product with the columns is not less than their number. */
static double share_of(const bo_model_desc *d)
{
    const double dim = (double)d->head_dim, rotated = d->rotated ? (double)d->rotated : dim;
    double share = rotated / dim;
    while (dim * share < rotated) share = nextafter(share, 2);
    return share;
}

static void write_scaling(bo_json_text *text, const bo_rope_scaling *s)
{
    bo_json_raw(text, "\"rope_type\": ");
    bo_json_string(text, s->kind == BO_ROPE_SCALING_KIND_NONE ? "default" : bo_rope_scaling_kind_name(s->kind));
    if (s->kind == BO_ROPE_SCALING_KIND_NONE) return;
    write_member(text, "factor", s->factor);
    if (s->kind != BO_ROPE_SCALING_KIND_LLAMA3) return;
    write_member(text, "low_freq_factor", s->low);
    write_member(text, "high_freq_factor", s->high);
    write_member(text, "original_max_position_embeddings", s->original);
}

static void write_parameters(bo_json_text *text, const bo_family_row *f, const bo_model_desc *d)
{
    bo_json_raw(text, "{");
    write_scaling(text, &d->rope_scaling);
    write_member(text, "rope_theta", d->rope_base);
    if (f->share) write_member(text, "partial_rotary_factor", share_of(d));
    bo_json_raw(text, "}");
}

/* Returns the base of layers with a window. */
static double local_base(const bo_model_desc *d)
{
    return d->local_rope_base > 0 ? d->local_rope_base : d->rope_base;
}

/* Writes the members of version 5 of transformers and those of earlier versions. */
static void write_rope(bo_json_text *text, const bo_family_row *f, const bo_model_desc *d)
{
    if (!f->theta) return;
    write_name(text, f->theta);
    bo_json_number(text, d->rope_base);
    if (f->share) {
        write_name(text, f->share);
        bo_json_number(text, share_of(d));
    }
    if (f->local) {
        write_name(text, f->local);
        bo_json_number(text, local_base(d));
    }
    write_name(text, "rope_parameters");
    if (f->local) {
        bo_json_raw(text, "{\"sliding_attention\": {\"rope_type\": \"default\"");
        write_member(text, "rope_theta", local_base(d));
        bo_json_raw(text, "}, \"full_attention\": ");
    }
    write_parameters(text, f, d);
    if (f->local) bo_json_raw(text, "}");
    if (d->rope_scaling.kind == BO_ROPE_SCALING_KIND_NONE) return;
    write_name(text, "rope_scaling");
    write_parameters(text, f, d);
}

static void write_windows(bo_json_text *text, const bo_family_row *f, const bo_model_desc *d)
{
    const size_t window = d->attention.window;
    if (f->windows == BO_WINDOWS_NONE) return;
    write_name(text, "sliding_window");
    if (window)
        bo_json_whole(text, window);
    else
        bo_json_raw(text, "null");
    if (f->windows == BO_WINDOWS_MEMBER) return;
    if (f->windows == BO_WINDOWS_LAYERS) {
        write_name(text, "use_sliding_window");
        bo_json_raw(text, window ? "true" : "false");
        write_name(text, "max_window_layers");
        bo_json_whole(text, window ? d->window_first : d->layers);
    }
    if (f->windows == BO_WINDOWS_TYPES && !d->window_first && !d->window_period) return;
    write_name(text, "layer_types");
    for (size_t i = 0; i < d->layers; i++) {
        bo_json_raw(text, i ? ", " : "[");
        bo_json_string(text, window && bo_model_has_window(d, i) ? "sliding_attention" : "full_attention");
    }
    bo_json_raw(text, "]");
}

/* States every bias, which a descriptor may leave to `bias`, and the number of rotated columns. */
static void state_defaults(bo_model_desc *d)
{
    if (!d->rotated) d->rotated = d->head_dim;
    const bo_model_biases have = bo_model_biases_of(d);
    d->attention_bias = have.attention ? BO_CHOICE_YES : BO_CHOICE_NO;
    d->output_bias = have.output ? BO_CHOICE_YES : BO_CHOICE_NO;
    d->mlp_bias = have.mlp ? BO_CHOICE_YES : BO_CHOICE_NO;
}

void bo_family_write(bo_json_text *text, bo_family family, const bo_model_desc *desc)
{
    const bo_family_row *f = bo_family_row_of(family);
    bo_model_desc d = *desc;
    state_defaults(&d);
    bo_json_raw(text, "\n  \"architectures\": [");
    bo_json_string(text, f->architecture);
    bo_json_raw(text, "]");
    write_name(text, "model_type");
    bo_json_string(text, f->type);
    bo_json_raw(text, ",");
    bo_config_fields_write(text, f->fields, f->count, &d, "  ");
    write_name(text, f->act);
    bo_json_string(text, bo_family_act(f, d.mlp));
    if (f->parallel) {
        write_name(text, f->parallel);
        bo_json_raw(text, d.block == f->parallel_block ? "true" : "false");
    }
    write_rope(text, f, &d);
    write_windows(text, f, &d);
}

/* ---- the family of a model --------------------------------------------------------------------------------------- */

/* True if a model can be that of any family. */
static bool is_plain(const bo_model_desc *d)
{
    const bo_attention_desc *a = &d->attention;
    return d->task == BO_MODEL_TASK_LANGUAGE && d->mixer == BO_MIXER_ATTENTION && a->kind == BO_ATTENTION_SOFTMAX &&
           !bo_model_has_kept(d) && a->gate == BO_GATE_NONE && a->normalizer == BO_NORMALIZER_SUM && !a->unit &&
           d->storage == BO_STORAGE_FLOAT32 && d->parametrization == BO_PARAMETRIZATION_STANDARD;
}

/* True if a model fits a family: its members, read again, describe the same function of the weights. */
static bo_status fits(bo_context *context, const bo_model *model, bo_family family, bool *out)
{
    const bo_family_row *f = bo_family_row_of(family);
    const bo_model_desc *d = &model->desc;
    bo_json_text text = {.context = context};
    bo_model_desc read, resolved;
    cJSON *json;
    *out = false;
    if ((f->divides && d->width % d->heads) || !bo_family_act(f, d->mlp)) return BO_OK;
    bo_json_raw(&text, "{");
    bo_family_write(&text, family, d);
    bo_json_raw(&text, "}");
    if (text.failed) return BO_MEMORY;
    bo_status status = bo_json_parse(context, "config.json", text.bytes, text.length, 16, &json);
    bo_free(text.bytes);
    BO_TRY(status);
    status = bo_family_read(context, "config.json", family, json, &read);
    cJSON_Delete(json);
    if (status == BO_OK) status = bo_model_resolve(context, &read, NULL, &resolved);
    if (status == BO_OK && resolved.attention.scale == 0)
        resolved.attention.scale = 1 / sqrt((double)resolved.head_dim);
    if (status == BO_OK) *out = bo_config_same(d, &resolved);
    if (status == BO_OK || status == BO_MEMORY) return status;
    bo_context_forget_error(context); /* the family does not have such models */
    return BO_OK;
}

bo_status bo_family_of(bo_context *context, const bo_model *model, bo_family *out)
{
    bool found = false;
    *out = BO_FAMILY_BOCHNER;
    if (!is_plain(&model->desc)) return BO_OK;
    if (model->family != BO_FAMILY_BOCHNER) BO_TRY(fits(context, model, model->family, &found));
    if (found) *out = model->family;
    for (int i = BO_FAMILY_BOCHNER + 1; i < BO_FAMILY_COUNT && !found; i++) {
        BO_TRY(fits(context, model, (bo_family)i, &found));
        if (found) *out = (bo_family)i;
    }
    return BO_OK;
}
