/* Kinds of attention as memories: pairs are written, one per token, and then queried through the state. */
#include "recall_internal.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = 512,            /* tokens per write */
    MAX_QUERIES = 64,       /* maximum number of queries per lane and call */
    ENDS = 16,              /* number of positions where distances are queried: few pairs have short distances … */
    MAX_QUERIES_AT_END = 8, /* … and only some of the pairs at long distances are queried */
    PILOT_LANES = 4,        /* for choosing a parameter */
    CALIBRATION = 1024      /* rows of keys and queries for data-adapted frequencies */
};

#define SHARP {1, 2, 4, 8, 16}
static const bo_recall_kind kinds[] = {
    {.name = "softmax", .preset = "softmax", .size = BO_RECALL_ALL, .knob = BO_RECALL_SCALE, .tried = {4, 8, 16, 32}},
    {.name = "softmax-norms",
     .preset = "softmax",
     .size = BO_RECALL_ALL,
     .knob = BO_RECALL_SCALE,
     .tried = {4, 8, 16, 32},
     .norms = true},
    {.name = "power", .preset = "power", .size = BO_RECALL_ALL, .knob = BO_RECALL_POWER, .tried = {2, 4, 8, 16}},
    {.name = "window", .preset = "softmax", .size = BO_RECALL_WINDOW, .knob = BO_RECALL_SCALE, .tried = {16}},
    {.name = "identity", .preset = "retention", .size = BO_RECALL_DIM, .plain = true},
    {.name = "elu",
     .preset = "linear",
     .size = BO_RECALL_DIM,
     .knob = BO_RECALL_SCALE,
     .tried = {16, 256, 1024, 16384, 262144}},
    {.name = "poly",
     .preset = "poly",
     .size = BO_RECALL_DIM,
     .knob = BO_RECALL_SCALE,
     .tried = {4, 16, 64, 256},
     .max_size = 64},
    {.name = "favor", .preset = "favor", .knob = BO_RECALL_SCALE, .tried = SHARP},
    {.name = "favor-norms", .preset = "favor", .knob = BO_RECALL_SCALE, .tried = SHARP, .norms = true},
    {.name = "favor++", .preset = "favor++", .knob = BO_RECALL_SCALE, .tried = SHARP},
    {.name = "trig", .preset = "favor", .knob = BO_RECALL_SCALE, .tried = SHARP, .function = BO_FUNCTION_SINCOS},
    {.name = "trig-norms",
     .preset = "favor",
     .knob = BO_RECALL_SCALE,
     .tried = SHARP,
     .function = BO_FUNCTION_SINCOS,
     .norms = true},
    {.name = "rfa", .preset = "rfa", .knob = BO_RECALL_SCALE, .tried = SHARP},
    {.name = "rfa-norms", .preset = "rfa", .knob = BO_RECALL_SCALE, .tried = SHARP, .norms = true},
    {.name = "rfa-gate", .preset = "rfa-gate", .knob = BO_RECALL_SCALE, .tried = SHARP},
    {.name = "hybrid", .preset = "hybrid", .knob = BO_RECALL_SCALE, .tried = SHARP},
    {.name = "hybrid-trig",
     .preset = "hybrid",
     .knob = BO_RECALL_SCALE,
     .tried = SHARP,
     .function = BO_FUNCTION_SINCOS},
    {.name = "retention", .preset = "retention", .size = BO_RECALL_DIM},
    {.name = "gla", .preset = "gla", .size = BO_RECALL_DIM},
    {.name = "delta",
     .preset = "delta",
     .size = BO_RECALL_DIM,
     .knob = BO_RECALL_BETA,
     .tried = {0.0625, 0.125, 0.25, 0.5, 1}},
    {.name = "gated-delta",
     .preset = "gated-delta",
     .size = BO_RECALL_DIM,
     .knob = BO_RECALL_BETA,
     .tried = {0.0625, 0.125, 0.25, 0.5, 1}},
    {.name = "ridge",
     .preset = "ridge",
     .size = BO_RECALL_DIM,
     .knob = BO_RECALL_LAMBDA,
     .tried = {0.001, 0.01, 0.1, 1},
     .max_size = 256},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

const bo_recall_kind *bo_recall_at(size_t index)
{
    return index < KINDS ? &kinds[index] : NULL;
}

const bo_recall_kind *bo_recall_find(const char *name)
{
    for (size_t i = 0; i < KINDS; i++)
        if (bo_same_name(name, kinds[i].name)) return &kinds[i];
    return NULL;
}

/* ---- memories ---------------------------------------------------------------------------------------------------- */

/* Lanes are key heads: each has a separate draw of features and separate pairs. */
typedef struct memory {
    bo_context *context;
    const bo_recall_pairs *pairs;
    bo_attention *attention;
    void *state;
    size_t written;
    float *q, *k, *v, *out;                      /* buffers for a block of every lane */
    float *log_gate, *beta, *lambda, *log_decay; /* NULL: the kind does not use it */
} memory;

static bo_attention_desc describe(const bo_recall_options *o, const bo_recall_kind *kind, size_t size, double knob,
                                  const bo_recall_pairs *pairs)
{
    bo_attention_desc desc = {.heads = pairs->lanes, .dim = pairs->dim, .value_dim = pairs->width, .causal = true};
    bo_attention_preset(kind->preset, &desc);
    desc.features.features = kind->size == BO_RECALL_FEATURES ? size : 0;
    desc.features.seed = pairs->seed + 1;
    if (kind->function) desc.features.function = kind->function;
    if (kind->plain) desc.gate = BO_GATE_NONE;
    if (kind->size == BO_RECALL_WINDOW) desc.window = size;
    if (kind->size == BO_RECALL_ALL) desc.capacity = o->tokens;
    if (bo_attention_has(&desc, BO_TRAIT_MIX)) desc.window = o->window;
    const bool tempered = bo_attention_has(&desc, BO_TRAIT_TEMPERATURE);
    if (kind->knob == BO_RECALL_SCALE && tempered) desc.temperature = 1 / sqrt(knob);
    if (kind->knob == BO_RECALL_SCALE && !tempered) desc.scale = knob;
    if (kind->knob == BO_RECALL_NO_KNOB) desc.scale = 1;
    if (kind->knob == BO_RECALL_POWER) desc.power = knob;
    if (desc.kind == BO_ATTENTION_DELTA || desc.kind == BO_ATTENTION_POWER) desc.scale = 1;
    return desc;
}

/* Draws frequencies adapted to keys and queries of such pairs, if the kind requires it. */
static bo_status calibrate(memory *m)
{
    const bo_recall_pairs *pairs = m->pairs;
    if (bo_attention_describe(m->attention)->proposal == BO_PROPOSAL_NONE) return BO_OK;
    const size_t dim = pairs->dim, rows = CALIBRATION, all = pairs->lanes * rows;
    float *q = bo_alloc_raw(m->context, 2 * all, dim * sizeof *q, "keys");
    if (!q) return BO_MEMORY;
    float *k = q + all * dim;
    for (size_t i = 0; i < all; i++) {
        bo_recall_question(pairs, i / rows, 2 * (i % rows), q + i * dim);
        bo_recall_key(pairs, i / rows, 2 * (i % rows) + 1, k + i * dim);
    }
    const bo_attention_call call = {.sequences = 1, .tokens = rows, .q = {q}, .k = {k}};
    bo_calibration *calibration = NULL;
    bo_status status = bo_calibration_create(m->context, m->attention, 0, &calibration);
    if (status == BO_OK) status = bo_calibration_add(m->context, calibration, &call);
    if (status == BO_OK) status = bo_calibration_apply(m->context, calibration, m->attention, 0, NULL);
    bo_calibration_destroy(calibration);
    bo_free(q);
    return status;
}

/* Returns false if out of memory. */
static bool allocate_rows(memory *m, size_t rows, size_t columns, float **out)
{
    *out = bo_alloc_raw(m->context, rows, columns * sizeof **out, "a memory's arrays");
    return *out != NULL;
}

static bool allocate_constant(memory *m, bool required, size_t count, double value, float **out)
{
    if (!required) return true;
    if (!allocate_rows(m, count, 1, out)) return false;
    for (size_t i = 0; i < count; i++) (*out)[i] = (float)value;
    return true;
}

static bo_status allocate(memory *m, const bo_recall_options *o, const bo_recall_kind *kind, double knob)
{
    const bo_attention_desc *d = bo_attention_describe(m->attention);
    const size_t lanes = m->pairs->lanes, rows = lanes * BLOCK;
    const double log_gate = -1 / (double)o->horizon;
    const bool channels = bo_attention_has(d, BO_TRAIT_CHANNELS),
               gated = d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY;
    m->state = bo_alloc(m->context, bo_attention_state_bytes(m->attention), 1, "a state");
    return m->state && allocate_rows(m, rows, d->dim, &m->q) && allocate_rows(m, rows, d->dim, &m->k) &&
                   allocate_rows(m, rows, d->value_dim, &m->v) && allocate_rows(m, rows, d->value_dim, &m->out) &&
                   allocate_constant(m, channels || gated, channels ? rows * d->dim : rows, log_gate, &m->log_gate) &&
                   allocate_constant(m, d->gate == BO_GATE_FIXED, lanes, log_gate, &m->log_decay) &&
                   allocate_constant(m, kind->knob == BO_RECALL_BETA, rows, knob, &m->beta) &&
                   allocate_constant(m, kind->knob == BO_RECALL_LAMBDA, lanes * d->dim, knob, &m->lambda)
               ? BO_OK
               : BO_MEMORY;
}

static bo_status open_memory(bo_context *context, const bo_recall_options *o, const bo_recall_kind *kind, size_t size,
                             double knob, const bo_recall_pairs *pairs, memory *out)
{
    const bo_attention_desc desc = describe(o, kind, size, knob, pairs);
    *out = (memory){.context = context, .pairs = pairs};
    BO_TRY(bo_attention_create(context, &desc, &out->attention));
    BO_TRY(allocate(out, o, kind, knob));
    BO_TRY(calibrate(out));
    return bo_attention_state_init(context, out->attention, out->state);
}

static void close_memory(memory *m)
{
    float *const arrays[] = {m->q, m->k, m->v, m->out, m->log_gate, m->beta, m->lambda, m->log_decay};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) bo_free(arrays[i]);
    bo_free(m->state);
    bo_attention_destroy(m->attention);
}

/* Writes pairs until every lane has `tokens` pairs. */
static bo_status write_until(memory *m, size_t tokens)
{
    const bo_recall_pairs *p = m->pairs;
    bo_status status = BO_OK;
    while (status == BO_OK && m->written < tokens) {
        const size_t count = tokens - m->written < BLOCK ? tokens - m->written : BLOCK;
        for (size_t i = 0; i < p->lanes * count; i++) {
            const size_t lane = i / count, token = m->written + i % count;
            bo_recall_key(p, lane, token, m->k + i * p->dim);
            memcpy(m->v + i * p->width, p->book + bo_recall_code(p, lane, token) * p->width, p->width * sizeof *m->v);
        }
        const bo_attention_call call = {.sequences = 1,
                                        .tokens = count,
                                        .q = {m->k},
                                        .k = {m->k},
                                        .v = {m->v},
                                        .out = {m->out},
                                        .initial = &m->state,
                                        .final = &m->state,
                                        .log_gate = {m->log_gate},
                                        .beta = {m->beta},
                                        .log_decay = m->log_decay,
                                        .lambda = m->lambda};
        status = bo_attention_forward(m->context, m->attention, &call);
        m->written += count;
    }
    return status;
}

/* The fraction of pairs first … last - 1 that are recalled, at most `limit` of them per lane. */
static bo_status query_range(memory *m, size_t first, size_t last, size_t limit, double *fraction)
{
    const bo_recall_pairs *p = m->pairs;
    const size_t count = last - first < limit ? last - first : limit;
    for (size_t i = 0; i < p->lanes * count; i++)
        bo_recall_question(p, i / count, first + i % count * (last - first) / count, m->q + i * p->dim);
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = count,
                                    .q = {m->q},
                                    .out = {m->out},
                                    .initial = &m->state,
                                    .log_decay = m->log_decay,
                                    .lambda = m->lambda,
                                    .no_keys = true};
    bo_status status = bo_attention_forward(m->context, m->attention, &call);
    size_t right = 0;
    for (size_t i = 0; status == BO_OK && i < p->lanes * count; i++)
        right += bo_recall_nearest(m->context, p, m->out + i * p->width) ==
                 bo_recall_code(p, i / count, first + i % count * (last - first) / count);
    *fraction = (double)right / (double)(p->lanes * count);
    return status;
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

static double capacity_of(const bo_recall_result *r)
{
    const double enough = 0.9;
    if (r->by_length[0] < enough) return 0;
    size_t last = 0;
    while (last + 1 < r->points && r->by_length[last + 1] >= enough) last++;
    if (last + 1 == r->points) return exp2((double)last);
    const double above = r->by_length[last] - enough, below = enough - r->by_length[last + 1];
    return exp2((double)last + above / (above + below));
}

/* Lengths 1, 2, 4, … up to `tokens`, starting at *next. */
static bo_status recall_lengths(memory *m, size_t tokens, size_t *next, double *by_length)
{
    bo_status status = BO_OK;
    for (; status == BO_OK && (size_t)1 << *next <= tokens; ++*next) {
        const size_t length = (size_t)1 << *next;
        status = write_until(m, length);
        if (status == BO_OK) status = query_range(m, 0, length, MAX_QUERIES, &by_length[*next]);
    }
    return status;
}

static bo_status recall_distances(memory *m, size_t points, double *by_distance)
{
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < points; i++) {
        const size_t distance = (size_t)1 << i;
        double fraction = 0;
        status = query_range(m, distance < m->written ? m->written - distance : 0, m->written - distance / 2,
                             MAX_QUERIES_AT_END, &fraction);
        by_distance[i] += fraction / ENDS;
    }
    return status;
}

/* Distances are queried at intervals during the last quarter. */
static bo_status recall_all(memory *m, size_t tokens, bo_recall_result *out)
{
    bo_status status = BO_OK;
    size_t next = 0;
    *out = (bo_recall_result){.points = 1};
    while (out->points < BO_RECALL_POINTS && (size_t)1 << out->points <= tokens) out->points++;
    for (size_t e = 1; status == BO_OK && e <= ENDS; e++) {
        const size_t end = tokens - (ENDS - e) * (tokens / (4 * ENDS));
        status = recall_lengths(m, end, &next, out->by_length);
        if (status == BO_OK) status = write_until(m, end);
        if (status == BO_OK) status = recall_distances(m, out->points, out->by_distance);
    }
    for (size_t i = 0; i < out->points; i++) out->mean += out->by_length[i] / (double)out->points;
    out->capacity = capacity_of(out);
    return status;
}

static bo_status measure(bo_context *context, const bo_recall_options *o, const bo_recall_kind *kind, size_t size,
                         double knob, uint64_t seed, size_t lanes, bo_recall_result *out)
{
    bo_recall_pairs pairs = {.seed = seed,
                             .lanes = lanes,
                             .dim = kind->size == BO_RECALL_DIM ? size : o->width,
                             .width = o->width,
                             .codes = o->codes,
                             .norms = kind->norms,
                             .noise = o->noise};
    memory m = {0};
    bo_status status = bo_recall_pairs_open(context, &pairs);
    if (status == BO_OK) status = open_memory(context, o, kind, size, knob, &pairs, &m);
    if (status == BO_OK) status = recall_all(&m, o->tokens, out);
    if (status == BO_OK) out->bytes = bo_attention_state_bytes(m.attention) / lanes;
    close_memory(&m);
    bo_recall_pairs_close(&pairs);
    return status;
}

static bo_recall_options with_defaults(const bo_recall_options *requested)
{
    bo_recall_options o = requested ? *requested : (bo_recall_options){.noise = 0.1};
    if (!o.tokens) o.tokens = 16384;
    if (!o.lanes) o.lanes = 16;
    if (!o.width) o.width = 64;
    if (!o.codes) o.codes = 256;
    if (!o.window) o.window = 64;
    if (!o.horizon) o.horizon = 256;
    return o;
}

/* Returns the parameter with the best recall on separate pairs. */
static bo_status choose_knob(bo_context *context, const bo_recall_options *o, const bo_recall_kind *kind, size_t size,
                             double *knob)
{
    const size_t few = o->lanes < PILOT_LANES ? o->lanes : PILOT_LANES;
    double best_mean = -1;
    *knob = kind->tried[0];
    if (!(kind->tried[1] > 0)) return BO_OK;
    for (size_t i = 0; i < BO_RECALL_TRIED && kind->tried[i] > 0; i++) {
        bo_recall_result result;
        const bo_status status = measure(context, o, kind, size, kind->tried[i], 2 * o->seed + 1, few, &result);
        if (status == BO_NUMERIC) continue; /* overflows with this value: not chosen */
        BO_TRY(status);
        if (result.mean > best_mean) best_mean = result.mean, *knob = kind->tried[i];
    }
    return BO_OK;
}

static bo_status check_options(bo_context *context, const bo_recall_kind *kind, size_t size, const bo_recall_options *o)
{
    static const size_t max_tokens = (size_t)1 << (BO_RECALL_POINTS - 1), wide = (size_t)1 << 20;
    if (!kind) return bo_fail(context, BO_INVALID, "recall: unknown kind of memory");
    if ((size == 0) != (kind->size == BO_RECALL_ALL) || size > wide)
        return bo_fail(context, BO_INVALID, "recall: %s: expected %s, found size %zu", kind->name,
                       kind->size == BO_RECALL_ALL ? "size 0, because it keeps everything" : "a size from 1 to 2^20",
                       size);
    if (o->tokens > max_tokens)
        return bo_fail(context, BO_INVALID, "recall: %zu tokens: expected at most %zu", o->tokens, max_tokens);
    if (o->lanes > wide || o->width > wide || o->codes > wide)
        return bo_fail(context, BO_INVALID, "recall: lanes, width and codes: expected at most %zu", wide);
    if (!(o->noise >= 0 && isfinite(o->noise)))
        return bo_fail(context, BO_INVALID, "recall: noise: expected a nonnegative length, found %g", o->noise);
    return BO_OK;
}

bo_status bo_recall_measure(bo_context *context, const bo_recall_kind *kind, size_t size,
                            const bo_recall_options *options, bo_recall_result *out)
{
    const bo_recall_options o = with_defaults(options);
    double knob;
    BO_TRY(check_options(context, kind, size, &o));
    BO_TRY(choose_knob(context, &o, kind, size, &knob));
    BO_TRY(measure(context, &o, kind, size, knob, 2 * o.seed, o.lanes, out));
    out->knob = kind->knob == BO_RECALL_NO_KNOB ? NAN : knob;
    return BO_OK;
}
