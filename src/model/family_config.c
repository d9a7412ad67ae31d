/* config.json of families of pretrained models: reading, writing, and the family of a model. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "../nn/enums.h"
#include "family_table.h"
#include "internal.h"

#define COUNT(list)              (sizeof(list) / sizeof *(list))
#define FIELD(key, sort, member) BO_FIELD_PLAIN(bo_model_desc, key, sort, member)

/* ====================================================================================================================
 * Reading. */

typedef struct reader {
    bo_context *context;
    const char *where;
    const bo_family_row *row;
    const bo_json *json;
    bo_model_desc *out;
    double *local_base; /* RoPE base of layers with a window; 0: as in all layers */
} reader;

/* Returns a member that is present and not null, or NULL. */
static const bo_json *get(const bo_json *json, const char *name)
{
    const bo_json *item = json ? bo_json_member(json, name) : NULL;
    return bo_json_is(item, BO_JSON_NULL) ? NULL : item;
}

/* Reads one member; null means zero, false or automatic. */
static bo_status read_field(const reader *r, const bo_json *json, const bo_field *field, void *object)
{
    const bo_json *item = bo_json_member(json, field->name);
    if (bo_json_is(item, BO_JSON_NULL) && !field->required) {
        bo_field_clear(field, object);
        return BO_OK;
    }
    return bo_fields_read(r->context, r->where, field, 1, json, object);
}

static bo_status read_real(const reader *r, const bo_json *json, const char *name, double *out)
{
    const bo_field field = {.name = name, .type = BO_FIELD_REAL};
    return get(json, name) ? bo_fields_read(r->context, r->where, &field, 1, json, out) : BO_OK;
}

static bo_status check_demands(const reader *r)
{
    static const char *const values[] = {"false", "true", "null"};
    for (size_t i = 0; i < COUNT(r->row->required) && r->row->required[i].name; i++) {
        const bo_family_requirement *d = &r->row->required[i];
        const bo_json *item = get(r->json, d->name);
        if (!item || (d->value == BO_VALUE_FALSE && bo_json_is(item, BO_JSON_FALSE)) ||
            (d->value == BO_VALUE_TRUE && bo_json_is(item, BO_JSON_TRUE)))
            continue;
        return bo_fail(r->context, BO_UNSUPPORTED,
                       "%s: \"%s\" should be %s: other models of the family %s are not supported", r->where, d->name,
                       values[d->value], r->row->type);
    }
    if (bo_json_is(get(r->json, "is_causal"), BO_JSON_FALSE))
        return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"is_causal\" should be true: attention is causal", r->where);
    if (!get(r->json, "quantization_config")) return BO_OK;
    return bo_fail(r->context, BO_UNSUPPORTED,
                   "%s: \"quantization_config\": quantized weights are not supported: use the model in float16, "
                   "bfloat16 or float32",
                   r->where);
}

static bo_status read_act(const reader *r)
{
    const bo_family_row *f = r->row;
    const bo_json *item = get(r->json, f->act);
    const char *act = item ? bo_json_text_or_null(item) : f->default_act;
    const int mlp = act ? bo_family_mlp(f, act) : BO_FAMILY_NO_MLP;
    char names[256];
    if (mlp != BO_FAMILY_NO_MLP) {
        r->out->block.mlp = (bo_mlp)mlp;
        return BO_OK;
    }
    bo_family_acts(f, names, sizeof names);
    return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"%s\" should be one of %s, found %.60s", r->where, f->act, names,
                   act ? act : "something else");
}

/* ---- RoPE -------------------------------------------------------------------------------------------------------- */

static bo_status read_scaling(const reader *r, const bo_json *rope)
{
    bo_rope_scaling *s = &r->out->block.rope_scaling;
    const bo_json *item = get(rope, "rope_type") ? get(rope, "rope_type") : get(rope, "type");
    const char *kind = item ? bo_json_text_or_null(item) : "default";
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

static bo_status check_rope(const reader *r, const bo_json *rope)
{
    if (!rope || bo_json_is(rope, BO_JSON_OBJECT)) return BO_OK;
    return bo_fail(r->context, BO_FORMAT, "%s: \"%s\" should be an object", r->where, rope->key);
}

/* Reads the RoPE base of layers with a window. In such a family, "rope_parameters" has an object per type of layer.
 * *rope is set to the object of the other layers. */
static bo_status read_local(const reader *r, const bo_json **rope)
{
    const bo_json *local = get(*rope, "sliding_attention"), *global = get(*rope, "full_attention");
    const char *kind = bo_json_text_or_null(get(local, "rope_type"));
    if (!r->row->local) return BO_OK;
    BO_TRY(read_real(r, r->json, r->row->local, r->local_base));
    BO_TRY(check_rope(r, local));
    BO_TRY(check_rope(r, global));
    BO_TRY(read_real(r, local, "rope_theta", r->local_base));
    if (local || global) *rope = global;
    if (!kind || strcmp(kind, "default") == 0) return BO_OK;
    return bo_fail(r->context, BO_UNSUPPORTED,
                   "%s: RoPE of layers with a window should have the type default, found %.60s", r->where, kind);
}

/* Members of "rope_scaling" or "rope_parameters" take precedence over members of the configuration. */
static bo_status read_rope(const reader *r)
{
    const bo_family_row *f = r->row;
    bo_block *b = &r->out->block;
    const bo_json *rope = get(r->json, "rope_scaling") ? get(r->json, "rope_scaling") : get(r->json, "rope_parameters");
    double share = f->default_share;
    if (!f->theta) return BO_OK;
    BO_TRY(check_rope(r, rope));
    BO_TRY(read_local(r, &rope));
    BO_TRY(read_real(r, r->json, f->theta, &b->rope_base));
    BO_TRY(read_real(r, rope, "rope_theta", &b->rope_base));
    if (!(b->rope_base >= 1) || (f->local && !(*r->local_base >= 1)))
        return bo_fail(r->context, BO_FORMAT, "%s: the base of RoPE should be at least 1, found %g", r->where,
                       b->rope_base >= 1 ? *r->local_base : b->rope_base);
    if (rope) BO_TRY(read_scaling(r, rope));
    if (!f->share) return BO_OK;
    BO_TRY(read_real(r, r->json, f->share, &share));
    BO_TRY(read_real(r, rope, "partial_rotary_factor", &share));
    const double width = (double)r->out->width;
    const double dim = b->head_dim ? (double)b->head_dim : b->heads ? floor(width / (double)b->heads) : 0;
    if (!(share > 0 && share <= 1) || floor(dim * share) < 2 || fmod(floor(dim * share), 2) != 0)
        return bo_fail(r->context, BO_UNSUPPORTED,
                       "%s: the rotated share %g of heads of %.0f columns should be an even number of columns",
                       r->where, share, dim);
    b->rotated = (size_t)(dim * share);
    return BO_OK;
}

/* ---- layers that differ ------------------------------------------------------------------------------------------ */

/* Properties of a layer; both may be set. */
enum { WINDOWED = 1, NOPE = 2, LAYER_KINDS = 4 };

/* Reads "layer_types". */
static bo_status read_types(const reader *r, const bo_json *types, size_t *which)
{
    size_t i = 0;
    if (!bo_json_is(types, BO_JSON_ARRAY) || (size_t)bo_json_count(types) != r->out->layers)
        return bo_fail(r->context, BO_FORMAT, "%s: \"layer_types\" should be a list of %zu types", r->where,
                       r->out->layers);
    for (const bo_json *item = types->child; item; item = item->next, i++) {
        const char *type = bo_json_text_or_null(item);
        const bool windowed = type && strcmp(type, "sliding_attention") == 0;
        which[i] = (which[i] & NOPE) | (windowed ? WINDOWED : 0);
        if (!windowed && !(type && strcmp(type, "full_attention") == 0))
            return bo_fail(r->context, BO_UNSUPPORTED,
                           "%s: \"layer_types\" should be full_attention or sliding_attention, found %.60s", r->where,
                           type ? type : "something else");
    }
    return BO_OK;
}

/* Reads "no_rope_layers", in which 1 means a layer with RoPE and 0 a layer without, or "no_rope_layer_interval". */
static bo_status read_nope(const reader *r, size_t *which)
{
    size_t interval = r->row->default_nope, i = 0;
    const bo_field field = {.name = "no_rope_layer_interval", .type = BO_FIELD_SIZE};
    const bo_json *list = get(r->json, "no_rope_layers");
    BO_TRY(read_field(r, r->json, &field, &interval));
    if (!list && !interval)
        return bo_fail(r->context, BO_FORMAT, "%s: \"no_rope_layer_interval\" should be positive, found 0", r->where);
    for (size_t l = 0; !list && l < r->out->layers; l++) which[l] = (l + 1) % interval == 0 ? NOPE : 0;
    if (!list) return BO_OK;
    if (!bo_json_is(list, BO_JSON_ARRAY) || (size_t)bo_json_count(list) < r->out->layers)
        return bo_fail(r->context, BO_FORMAT, "%s: \"no_rope_layers\" should be a list of %zu numbers", r->where,
                       r->out->layers);
    for (const bo_json *item = list->child; i < r->out->layers; item = item->next, i++) {
        if (!bo_json_is(item, BO_JSON_NUMBER) || (item->number != 0 && item->number != 1))
            return bo_fail(r->context, BO_FORMAT, "%s: \"no_rope_layers\" should contain only 0 and 1", r->where);
        which[i] = item->number == 0 ? NOPE : 0;
    }
    return BO_OK;
}

/* Sets the blocks of the layers. Layers with a window have a separate RoPE base if the family has one. */
static bo_status arrange(const reader *r, size_t window, const size_t *which)
{
    bo_block kinds[LAYER_KINDS];
    for (size_t k = 0; k < LAYER_KINDS; k++) {
        bo_block *b = &kinds[k];
        *b = r->out->block;
        if (k & WINDOWED) b->attention.window = window;
        if (k & WINDOWED && *r->local_base > 0) b->rope_base = *r->local_base, b->rope_scaling = (bo_rope_scaling){0};
        if (k & NOPE) b->positions = BO_POSITIONS_NONE;
    }
    return bo_blocks_arrange(r->context, r->out, BO_MODEL_PART_LAYERS, kinds, which);
}

typedef struct windows {
    size_t size, first, period;
} windows;

/* Reads the members that state a pattern; a size of 0: no layer has a window. */
static bo_status read_pattern(const reader *r, windows *out)
{
    static const bo_field size[] = {BO_FIELD_PLAIN(windows, "sliding_window", SIZE, size)},
                          first[] = {BO_FIELD_PLAIN(windows, "max_window_layers", SIZE, first)},
                          period[] = {BO_FIELD_PLAIN(windows, "sliding_window_pattern", SIZE, period)};
    const bo_family_windows kind = r->row->windows;
    const bool has_switch = kind == BO_WINDOWS_LAYERS || kind == BO_WINDOWS_NOPE;
    *out = (windows){.size = r->row->default_window};
    if (kind == BO_WINDOWS_NONE || (has_switch && !bo_json_is(get(r->json, "use_sliding_window"), BO_JSON_TRUE))) {
        out->size = 0;
        return BO_OK;
    }
    if (kind == BO_WINDOWS_LAYERS) *out = (windows){.size = 4096, .first = 28}; /* the defaults of Qwen2 and Qwen3 */
    BO_TRY(read_field(r, r->json, size, out));
    if (kind == BO_WINDOWS_LAYERS) BO_TRY(read_field(r, r->json, first, out));
    if (kind == BO_WINDOWS_PERIOD) out->period = 6; /* the default of Gemma 3 */
    return kind == BO_WINDOWS_PERIOD ? read_field(r, r->json, period, out) : BO_OK;
}

static bo_status read_windows(const reader *r, const windows *w, size_t *which)
{
    const bo_json *types = r->row->windows == BO_WINDOWS_MEMBER ? NULL : get(r->json, "layer_types");
    if (!w->size) return BO_OK;
    for (size_t i = 0; i < r->out->layers; i++) {
        const bool windowed = r->row->windows == BO_WINDOWS_NOPE
                                  ? which[i] & NOPE
                                  : i >= w->first && !(w->period && (i + 1) % w->period == 0);
        if (windowed) which[i] |= WINDOWED;
    }
    return types ? read_types(r, types, which) : BO_OK;
}

static bo_status read_layers(const reader *r)
{
    const size_t layers = r->out->layers;
    windows w;
    BO_TRY(read_pattern(r, &w));
    if (!w.size && !r->row->default_nope) return BO_OK;
    if (!layers || layers > BO_MAX_BLOCKS)
        return bo_fail(r->context, BO_FORMAT, "%s: the number of layers should be 1 to %d, found %zu", r->where,
                       BO_MAX_BLOCKS, layers);
    size_t *which = bo_alloc(r->context, layers, sizeof *which, "a list of layers");
    if (!which) return BO_MEMORY;
    bo_status status = r->row->default_nope ? read_nope(r, which) : BO_OK;
    if (status == BO_OK) status = read_windows(r, &w, which);
    if (status == BO_OK) status = arrange(r, w.size, which);
    bo_free(which);
    return status;
}

/* ---- all members ------------------------------------------------------------------------------------------------- */

static bo_status read_block(const reader *r)
{
    const char *name = r->row->parallel;
    const bo_json *item = name ? get(r->json, name) : NULL;
    if (!item) return BO_OK;
    if (!bo_json_is_bool(item))
        return bo_fail(r->context, BO_FORMAT, "%s: \"%s\" should be true or false", r->where, name);
    r->out->block.residual = bo_json_is(item, BO_JSON_TRUE) ? r->row->parallel_residual : BO_RESIDUAL_SEQUENTIAL;
    return BO_OK;
}

/* A zero would mean the default in a descriptor. */
static bo_status check_zeros(const reader *r)
{
    const bo_field window[] = {{.name = "sliding_window", .type = BO_FIELD_SIZE}};
    for (size_t i = 0; i <= r->row->count; i++) {
        const bo_field *field = i < r->row->count ? &r->row->fields[i] : window;
        const bo_json *item = get(r->json, field->name);
        if (field->type != BO_FIELD_SIZE && field->offset != offsetof(bo_model_desc, block.norm_epsilon)) continue;
        if (bo_json_is(item, BO_JSON_NUMBER) && item->number == 0)
            return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"%s\" should be positive, found 0", r->where, field->name);
    }
    return BO_OK;
}

/* Families without the member "head_dim" have heads of width / heads columns. */
static bo_status check_head(const reader *r)
{
    const bo_json *item = get(r->json, "head_dim");
    const double heads = (double)r->out->block.heads, expected = heads > 0 ? (double)r->out->width / heads : 0;
    for (size_t i = 0; i < r->row->count; i++)
        if (strcmp(r->row->fields[i].name, "head_dim") == 0) return BO_OK;
    if (!r->row->theta || !bo_json_is(item, BO_JSON_NUMBER) || item->number == expected) return BO_OK;
    return bo_fail(r->context, BO_UNSUPPORTED, "%s: \"head_dim\" should be %.10g, found %.10g", r->where, expected,
                   item->number);
}

bo_status bo_family_read(bo_context *context, const char *where, bo_family family, const bo_json *json,
                         bo_model_desc *out)
{
    double local_base = bo_family_row_of(family)->default_local;
    const reader r = {context, where, bo_family_row_of(family), json, out, &local_base};
    *out = r.row->defaults;
    for (size_t i = 0; i < r.row->count; i++) BO_TRY(read_field(&r, json, &r.row->fields[i], out));
    BO_TRY(check_zeros(&r));
    BO_TRY(check_head(&r));
    BO_TRY(check_demands(&r));
    BO_TRY(read_act(&r));
    BO_TRY(read_rope(&r));
    BO_TRY(read_block(&r));
    /* as transformers multiplies, in float32 */
    if (r.row->scaled) out->embedding_scale = (double)(float)sqrt((double)out->width);
    return read_layers(&r);
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
static double share_of(const bo_block *b)
{
    const double dim = (double)b->head_dim, rotated = b->rotated ? (double)b->rotated : dim;
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

static void write_parameters(bo_json_text *text, const bo_family_row *f, const bo_block *b)
{
    bo_json_raw(text, "{");
    write_scaling(text, &b->rope_scaling);
    write_member(text, "rope_theta", b->rope_base);
    if (f->share) write_member(text, "partial_rotary_factor", share_of(b));
    bo_json_raw(text, "}");
}

/* Writes the members of transformers 5 and of earlier versions. local: a block with a window. */
static void write_rope(bo_json_text *text, const bo_family_row *f, const bo_block *b, const bo_block *local)
{
    if (!f->theta) return;
    write_name(text, f->theta);
    bo_json_number(text, b->rope_base);
    if (f->share) {
        write_name(text, f->share);
        bo_json_number(text, share_of(b));
    }
    if (f->local) {
        write_name(text, f->local);
        bo_json_number(text, local->rope_base);
    }
    write_name(text, "rope_parameters");
    if (f->local) {
        bo_json_raw(text, "{\"sliding_attention\": {\"rope_type\": \"default\"");
        write_member(text, "rope_theta", local->rope_base);
        bo_json_raw(text, "}, \"full_attention\": ");
    }
    write_parameters(text, f, b);
    if (f->local) bo_json_raw(text, "}");
    if (b->rope_scaling.kind == BO_ROPE_SCALING_KIND_NONE) return;
    write_name(text, "rope_scaling");
    write_parameters(text, f, b);
}

static bool has_window(const bo_model_desc *d, size_t layer)
{
    return bo_model_block(d, layer)->attention.window != 0;
}

static void write_windows(bo_json_text *text, const bo_family_row *f, const bo_model_desc *d, size_t window)
{
    size_t first = 0, count = 0;
    if (f->windows == BO_WINDOWS_NONE) return;
    for (size_t i = 0; i < d->layers; i++) count += has_window(d, i);
    while (first < d->layers && !has_window(d, first)) first++;
    write_name(text, "sliding_window");
    if (window)
        bo_json_whole(text, window);
    else
        bo_json_raw(text, "null");
    if (f->windows == BO_WINDOWS_MEMBER) return;
    if (f->windows == BO_WINDOWS_LAYERS || f->windows == BO_WINDOWS_NOPE) {
        write_name(text, "use_sliding_window");
        bo_json_raw(text, window ? "true" : "false");
    }
    if (f->windows == BO_WINDOWS_LAYERS) {
        write_name(text, "max_window_layers");
        bo_json_whole(text, first);
    }
    if (f->windows == BO_WINDOWS_TYPES && (count == 0 || count == d->layers)) return;
    write_name(text, "layer_types");
    for (size_t i = 0; i < d->layers; i++) {
        bo_json_raw(text, i ? ", " : "[");
        bo_json_string(text, has_window(d, i) ? "sliding_attention" : "full_attention");
    }
    bo_json_raw(text, "]");
}

static bool has_rope(const bo_model_desc *d, size_t layer)
{
    return bo_model_block(d, layer)->positions != BO_POSITIONS_NONE;
}

static void write_nope(bo_json_text *text, const bo_model_desc *d)
{
    write_name(text, "no_rope_layers");
    for (size_t i = 0; i < d->layers; i++) bo_json_raw(text, has_rope(d, i) ? i ? ", 1" : "[1" : i ? ", 0" : "[0");
    bo_json_raw(text, "]");
}

/* Returns the first block with (or without) a window. Default: the first block. */
static const bo_block *find_block(const bo_model_desc *d, bool window)
{
    for (size_t i = 0; i < d->layers; i++)
        if (has_window(d, i) == window) return bo_model_block(d, i);
    return &d->block;
}

/* States every bias, which a block may leave to `bias`, and the number of rotated columns. */
static void state_defaults(bo_block *b)
{
    if (!b->rotated) b->rotated = b->head_dim;
    const bo_block_biases have = bo_block_biases_of(b);
    b->attention_bias = have.attention ? BO_CHOICE_YES : BO_CHOICE_NO;
    b->output_bias = have.output ? BO_CHOICE_YES : BO_CHOICE_NO;
    b->mlp_bias = have.mlp ? BO_CHOICE_YES : BO_CHOICE_NO;
}

/* Takes RoPE from the first block that has it. */
static void state_rope(const bo_model_desc *d, bo_block *b)
{
    size_t i = 0;
    while (i < d->layers && !has_rope(d, i)) i++;
    if (b->positions != BO_POSITIONS_NONE || i == d->layers) return;
    const bo_block *from = bo_model_block(d, i);
    b->positions = from->positions;
    b->rope_base = from->rope_base;
    b->rotated = from->rotated;
    b->rope_scaling = from->rope_scaling;
}

/* Blocks of a family differ in window and RoPE alone, which bo_family_of checks. */
void bo_family_write(bo_json_text *text, bo_family family, const bo_model_desc *desc)
{
    const bo_family_row *f = bo_family_row_of(family);
    const bo_block *local = find_block(desc, true);
    bo_model_desc d = *desc;
    d.block = *find_block(desc, false);
    if (f->default_nope) state_rope(desc, &d.block);
    state_defaults(&d.block);
    bo_json_raw(text, "\n  \"architectures\": [");
    bo_json_string(text, f->architecture);
    bo_json_raw(text, "]");
    write_name(text, "model_type");
    bo_json_string(text, f->type);
    bo_json_raw(text, ",");
    bo_fields_write(text, f->fields, f->count, &d, "  ");
    write_name(text, f->act);
    bo_json_string(text, bo_family_act(f, d.block.mlp));
    if (f->parallel) {
        write_name(text, f->parallel);
        bo_json_raw(text, d.block.residual == f->parallel_residual ? "true" : "false");
    }
    write_rope(text, f, &d.block, local);
    write_windows(text, f, desc, local->attention.window);
    if (f->default_nope) write_nope(text, desc);
}

/* ---- the family of a model --------------------------------------------------------------------------------------- */

/* True if the block fits any family. */
static bool is_plain_block(const bo_block *b)
{
    const bo_attention_desc *a = &b->attention;
    return b->mixer == BO_MIXER_ATTENTION && a->kind == BO_ATTENTION_SOFTMAX && !bo_block_replaces(b) &&
           a->gate == BO_GATE_NONE && a->normalizer == BO_NORMALIZER_SUM && !a->unit;
}

static bool is_plain(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    bool plain = d->task == BO_MODEL_TASK_LANGUAGE && d->storage == BO_STORAGE_FLOAT32 &&
                 d->parametrization == BO_PARAMETRIZATION_STANDARD;
    for (size_t i = 0; i < list.count; i++) plain = plain && is_plain_block(&list.blocks[i]);
    return plain;
}

/* Attention has this scale if its descriptor has none. */
static void state_scales(bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++)
        if (list.blocks[i].attention.scale == 0)
            list.blocks[i].attention.scale = 1 / sqrt((double)list.blocks[i].head_dim);
}

/* True if a model fits a family: its written members, read again, describe the same function of the weights. */
static bo_status fits(bo_context *context, const bo_model *model, bo_family family, bool *out)
{
    const bo_family_row *f = bo_family_row_of(family);
    const bo_model_desc *d = &model->desc;
    bo_json_text text = {.context = context};
    bo_model_desc read, resolved;
    bo_json *json;
    *out = false;
    const bo_block *full = find_block(d, false); /* the one that is written */
    if ((f->divides && d->width % full->heads) || !bo_family_act(f, full->mlp)) return BO_OK;
    bo_json_raw(&text, "{");
    bo_family_write(&text, family, d);
    bo_json_raw(&text, "}");
    if (text.failed) return BO_MEMORY;
    bo_status status = bo_json_parse(context, "config.json", text.bytes, text.length, 16, &json);
    bo_free(text.bytes);
    BO_TRY(status);
    status = bo_family_read(context, "config.json", family, json, &read);
    bo_json_delete(json);
    if (status == BO_OK) status = bo_model_resolve(context, &read, NULL, &resolved);
    bo_model_desc_release(&read);
    if (status == BO_OK) {
        state_scales(&resolved);
        *out = bo_config_same(d, &resolved);
        bo_model_desc_release(&resolved);
    }
    if (status == BO_OK || status == BO_MEMORY) return status;
    bo_context_forget_error(context); /* the family does not have such models */
    return BO_OK;
}

bo_status bo_family_of(bo_context *context, const bo_model *model, bo_family *out)
{
    bool found = false;
    *out = BO_FAMILY_BOCHNER;
    if (model->network || !is_plain(&model->desc)) return BO_OK;
    if (model->family != BO_FAMILY_BOCHNER) BO_TRY(fits(context, model, model->family, &found));
    if (found) *out = model->family;
    for (int i = BO_FAMILY_BOCHNER + 1; i < BO_FAMILY_COUNT && !found; i++) {
        BO_TRY(fits(context, model, (bo_family)i, &found));
        if (found) *out = (bo_family)i;
    }
    return BO_OK;
}
