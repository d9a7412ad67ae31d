/* The rotary position encoding of a GGUF model, with its scaling for longer contexts. */
#include "import_gguf.h"
#include <math.h>
#include <string.h>

/* The JSON type of an encoding without scaling. */
static const char PLAIN[] = "\"rope_type\": \"default\"";

static const double PI = 3.14159265358979323846;

/* The frequencies of pair i are divided by factors[i]. */
typedef struct factors {
    float *items;
    size_t count;
} factors;

static bo_status read_factors(bo_context *context, const bo_import_model *m, const char *name, factors *out)
{
    const bo_gguf_tensor *tensor = bo_gguf_tensor_find(m->file, name);
    *out = (factors){0};
    if (!tensor) return BO_OK;
    if (tensor->rank != 1 || tensor->shape[0] != m->rotated / 2 || tensor->format->number != BO_BLOCK_F32)
        return bo_fail(context, BO_FORMAT, "%s: tensor '%s': expected %zu numbers of type F32, found %zu of type %s",
                       bo_gguf_path(m->file), name, m->rotated / 2, tensor->shape[0], tensor->format->name);
    out->items = bo_alloc_raw(context, tensor->shape[0], sizeof *out->items, name);
    if (!out->items) return BO_MEMORY;
    out->count = tensor->shape[0];
    bo_blocks_decode(tensor->format, tensor->data, out->count, out->items);
    for (size_t i = 0; i < out->count; i++)
        if (!(out->items[i] > 0) || !(out->items[i] - out->items[i] == 0)) {
            const double found = out->items[i];
            bo_free(out->items);
            *out = (factors){0};
            return bo_fail(context, BO_FORMAT, "%s: tensor '%s': expected positive numbers, found %g",
                           bo_gguf_path(m->file), name, found);
        }
    return BO_OK;
}

/* ---- Llama 3 ----------------------------------------------------------------------------------------------------- */

/* The scaling of Llama 3: wavelengths below context / high are kept, wavelengths above context / low are multiplied by
 * `factor`, and 1 / multiplier is linear in the frequency between. Multiplying context, low and high by the same number
 * changes nothing, so `low` is 1. */
typedef struct llama3 {
    double factor, high, context;
} llama3;

static double wavelength(const bo_import_model *m, size_t pair)
{
    return 2 * PI * pow(m->rope_base, 2 * (double)pair / (double)m->rotated);
}

static double multiplier(const llama3 *s, double length)
{
    if (length < s->context / s->high) return 1;
    if (length > s->context) return s->factor;
    const double smooth = (s->context / length - 1) / (s->high - 1);
    return 1 / ((1 - smooth) / s->factor + smooth);
}

static bool explains(const bo_import_model *m, const factors *f, const llama3 *s)
{
    if (!(s->high > 1) || !(s->context > 0)) return false;
    for (size_t i = 0; i < f->count; i++) {
        const double expected = multiplier(s, wavelength(m, i));
        if (fabs(expected - f->items[i]) > 1e-4 * expected) return false;
    }
    return true;
}

/* The factors are float32, and the differences below lose digits. */
static double near_whole(double value, double tolerance)
{
    const double whole = nearbyint(value);
    return fabs(value - whole) <= tolerance * fabs(value) ? whole : value;
}

/* smooth = a / wavelength + b at two pairs between the extremes, with a = context / (high - 1), b = -1 / (high - 1). */
static bool fit_llama3(const bo_import_model *m, const factors *f, llama3 *out)
{
    size_t first = SIZE_MAX, last = 0;
    double largest = 1;
    for (size_t i = 0; i < f->count; i++) largest = f->items[i] > largest ? f->items[i] : largest;
    *out = (llama3){.factor = near_whole(largest, 1e-5), .high = 4, .context = 8192}; /* of Llama 3.1 */
    if (explains(m, f, out)) return true;
    for (size_t i = 0; i < f->count; i++) {
        if (f->items[i] <= 1 + 1e-4 || f->items[i] >= largest * (1 - 1e-4)) continue;
        if (first == SIZE_MAX) first = i;
        last = i;
    }
    if (first == SIZE_MAX || first == last) return false;
    double x[2], y[2];
    for (int k = 0; k < 2; k++) {
        const size_t pair = k ? last : first;
        x[k] = 1 / wavelength(m, pair);
        y[k] = (1 / (double)f->items[pair] - 1 / largest) / (1 - 1 / largest);
    }
    const double a = (y[1] - y[0]) / (x[1] - x[0]), b = y[0] - a * x[0];
    out->high = near_whole(1 - 1 / b, 1e-3);
    out->context = near_whole(a * (out->high - 1), 1e-3);
    return explains(m, f, out);
}

static bo_status write_llama3(bo_context *context, const bo_import_model *m, const factors *f, bo_json_text *text)
{
    llama3 s;
    if (!fit_llama3(m, f, &s))
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: tensor 'rope_freqs.weight': the factors do not match the scaling 'llama3', and config.json "
                       "cannot express other factors",
                       bo_gguf_path(m->file));
    bo_json_raw(text, "\"rope_type\": \"llama3\", \"factor\": ");
    bo_json_number(text, s.factor);
    bo_json_raw(text, ", \"low_freq_factor\": 1.0, \"high_freq_factor\": ");
    bo_json_number(text, s.high);
    bo_json_raw(text, ", \"original_max_position_embeddings\": ");
    bo_json_number(text, s.context);
    return BO_OK;
}

/* ---- other scalings ---------------------------------------------------------------------------------------------- */

static void write_factors(bo_json_text *text, const char *name, const factors *f)
{
    bo_json_raw(text, ", \"");
    bo_json_raw(text, name);
    bo_json_raw(text, "\": [");
    for (size_t i = 0; i < f->count; i++) {
        if (i) bo_json_raw(text, ", ");
        bo_json_number(text, bo_import_round(f->items[i]));
    }
    bo_json_raw(text, "]");
}

static bo_status write_original(bo_context *context, const bo_import_model *m, bo_json_text *text)
{
    size_t original;
    BO_TRY(bo_import_size(context, m, "rope.scaling.original_context_length", m->context, &original));
    bo_json_raw(text, ", \"original_max_position_embeddings\": ");
    bo_json_whole(text, original);
    return BO_OK;
}

static bo_status write_long(bo_context *context, const bo_import_model *m, const factors *far, const factors *near,
                            bo_json_text *text)
{
    bo_json_raw(text, "\"rope_type\": \"longrope\"");
    write_factors(text, "long_factor", far);
    write_factors(text, "short_factor", near);
    return write_original(context, m, text);
}

/* Settings of yarn that differ from its defaults. */
static bo_status write_yarn(bo_context *context, const bo_import_model *m, bo_json_text *text)
{
    static const struct {
        const char *key, *member;
    } settings[] = {{"rope.scaling.yarn_beta_fast", "beta_fast"},
                    {"rope.scaling.yarn_beta_slow", "beta_slow"},
                    {"rope.scaling.yarn_attn_factor", "attention_factor"}};
    double value;
    BO_TRY(bo_import_real(context, m, "rope.scaling.yarn_ext_factor", 1, &value));
    if (value != 1)
        return bo_fail(context, BO_UNSUPPORTED, "%s: metadata '%s.rope.scaling.yarn_ext_factor': expected 1, found %g",
                       bo_gguf_path(m->file), m->name, value);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!bo_import_setting(m, settings[i].key)) continue;
        BO_TRY(bo_import_real(context, m, settings[i].key, 1, &value));
        bo_json_raw(text, ", \"");
        bo_json_raw(text, settings[i].member);
        bo_json_raw(text, "\": ");
        bo_json_number(text, value);
    }
    return write_original(context, m, text);
}

static bo_status write_scaled(bo_context *context, const bo_import_model *m, const char *type, bo_json_text *text)
{
    double factor;
    BO_TRY(bo_import_real(context, m, "rope.scaling.factor", 1, &factor));
    bo_json_raw(text, "\"rope_type\": ");
    bo_json_string(text, type);
    bo_json_raw(text, ", \"factor\": ");
    bo_json_number(text, factor);
    return strcmp(type, "yarn") == 0 ? write_yarn(context, m, text) : BO_OK;
}

/* The scaling that the metadata name: NULL: none. */
static bo_status find_scaling(bo_context *context, const bo_import_model *m, const char **out)
{
    static const char *const known[] = {"linear", "yarn", "longrope"};
    const bo_gguf_entry *entry = bo_import_setting(m, "rope.scaling.type");
    const char *type;
    size_t length, at = 0;
    *out = bo_import_setting(m, "rope.scale_linear") ? "scale_linear" : NULL; /* the key of early files */
    if (!entry || !bo_gguf_next_text(entry, &at, &type, &length)) return BO_OK;
    *out = NULL;
    if (length == 4 && memcmp(type, "none", 4) == 0) return BO_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == length && memcmp(known[i], type, length) == 0) {
            *out = known[i];
            return BO_OK;
        }
    return bo_fail(context, BO_UNSUPPORTED,
                   "%s: metadata '%s.rope.scaling.type': expected none, linear, yarn or longrope, found '%.*s'",
                   bo_gguf_path(m->file), m->name, (int)bo_min(length, 60), type);
}

static bo_status write_early(bo_context *context, const bo_import_model *m, bo_json_text *text)
{
    double factor;
    BO_TRY(bo_import_real(context, m, "rope.scale_linear", 1, &factor));
    bo_json_raw(text, factor == 1 ? PLAIN : "\"rope_type\": \"linear\", \"factor\": ");
    if (factor != 1) bo_json_number(text, factor);
    return BO_OK;
}

static bo_status write_type(bo_context *context, const bo_import_model *m, const factors *divisors, const factors *far,
                            const factors *near, bo_json_text *text)
{
    const char *type;
    BO_TRY(find_scaling(context, m, &type));
    if (far->count && near->count) return write_long(context, m, far, near, text);
    if (far->count || near->count || (type && strcmp(type, "longrope") == 0))
        return bo_fail(context, BO_FORMAT,
                       "%s: the scaling longrope needs both tensors, rope_factors_long.weight and "
                       "rope_factors_short.weight",
                       bo_gguf_path(m->file));
    if (divisors->count) return write_llama3(context, m, divisors, text);
    if (!type) bo_json_raw(text, PLAIN);
    if (!type) return BO_OK;
    return strcmp(type, "scale_linear") == 0 ? write_early(context, m, text) : write_scaled(context, m, type, text);
}

static bool only_ones(const factors *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->items[i] != 1) return false;
    return true;
}

/* "rope_theta" and "rope_scaling" are for earlier versions of transformers, "rope_parameters" is for later ones. */
static void write_members(const bo_import_model *m, const char *type, bo_json_text *text)
{
    bo_json_raw(text, "  \"rope_theta\": ");
    bo_json_number(text, m->rope_base);
    if (strcmp(type, PLAIN) != 0) {
        bo_json_raw(text, ",\n  \"rope_scaling\": {");
        bo_json_raw(text, type);
        bo_json_raw(text, "}");
    }
    bo_json_raw(text, ",\n  \"rope_parameters\": {");
    if (m->window_period) { /* layers with a window have a separate base and no scaling */
        bo_json_raw(text, "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": ");
        bo_json_number(text, m->local_rope_base);
        bo_json_raw(text, "}, \"full_attention\": {");
    }
    bo_json_raw(text, "\"rope_theta\": ");
    bo_json_number(text, m->rope_base);
    if (m->rotated != m->head_dim) {
        bo_json_raw(text, ", \"partial_rotary_factor\": ");
        bo_json_number(text, (double)m->rotated / (double)m->head_dim);
    }
    bo_json_raw(text, ", ");
    bo_json_raw(text, type);
    bo_json_raw(text, m->window_period ? "}},\n" : "},\n");
}

/* Phi-3 also has the original context as a separate member. */
static bo_status write_all(bo_context *context, const bo_import_model *m, const factors *divisors, const factors *far,
                           const factors *near, bo_json_text *text)
{
    bo_json_text type = {.context = context};
    size_t original = 0;
    bo_status status = write_type(context, m, divisors, far, near, &type);
    if (status == BO_OK && type.failed) status = BO_MEMORY;
    if (status == BO_OK) write_members(m, type.bytes, text);
    if (status == BO_OK && far->count) {
        status = bo_import_size(context, m, "rope.scaling.original_context_length", m->context, &original);
        bo_json_raw(text, "  \"original_max_position_embeddings\": ");
        bo_json_whole(text, original);
        bo_json_raw(text, ",\n");
    }
    bo_free(type.bytes);
    return status;
}

bo_status bo_import_gguf_rope(bo_context *context, const bo_import_model *m, bo_json_text *text)
{
    factors divisors = {0}, far = {0}, near = {0};
    bo_status status = read_factors(context, m, "rope_freqs.weight", &divisors);
    if (status == BO_OK) status = read_factors(context, m, "rope_factors_long.weight", &far);
    if (status == BO_OK) status = read_factors(context, m, "rope_factors_short.weight", &near);
    if (only_ones(&divisors)) divisors.count = 0;
    if (status == BO_OK) status = write_all(context, m, &divisors, &far, &near, text);
    bo_free(divisors.items);
    bo_free(far.items);
    bo_free(near.items);
    return status;
}
