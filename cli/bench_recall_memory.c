/* Kinds of attention as memories: pairs are written a token each, then asked for through the state. */
#include "bench_recall.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 512,       /* tokens written at a time */
    ASKED = 64,        /* most questions of a lane at a time */
    ENDS = 16,         /* times at which distances are asked for: of the short ones there are few pairs at a time … */
    ASKED_AT_END = 8,  /* … and of the long ones only some are asked for */
    PILOT_LANES = 4,   /* on which a knob is chosen */
    CALIBRATION = 1024 /* rows of keys and questions that data-aware frequencies are drawn from */
};

#define SHARP                                                                                                          \
    {                                                                                                                  \
        1, 2, 4, 8, 16                                                                                                 \
    }
static const recall_kind kinds[] = {
    {.name = "exact", .preset = "exact", .size = RECALL_ALL, .knob = RECALL_SCALE, .tried = {4, 8, 16, 32}},
    {.name = "exact-norms",
     .preset = "exact",
     .size = RECALL_ALL,
     .knob = RECALL_SCALE,
     .tried = {4, 8, 16, 32},
     .norms = true},
    {.name = "power", .preset = "power", .size = RECALL_ALL, .knob = RECALL_POWER, .tried = {2, 4, 8, 16}},
    {.name = "window", .preset = "exact", .size = RECALL_WINDOW, .knob = RECALL_SCALE, .tried = {16}},
    {.name = "identity", .preset = "retention", .size = RECALL_DIM, .plain = true},
    {.name = "elu",
     .preset = "linear",
     .size = RECALL_DIM,
     .knob = RECALL_SCALE,
     .tried = {16, 256, 1024, 16384, 262144}},
    {.name = "poly", .preset = "poly", .size = RECALL_DIM, .knob = RECALL_SCALE, .tried = {4, 16, 64, 256}, .most = 64},
    {.name = "favor", .preset = "favor", .knob = RECALL_SCALE, .tried = SHARP},
    {.name = "favor-norms", .preset = "favor", .knob = RECALL_SCALE, .tried = SHARP, .norms = true},
    {.name = "favor++", .preset = "favor++", .knob = RECALL_SCALE, .tried = SHARP},
    {.name = "trig", .preset = "favor", .knob = RECALL_SCALE, .tried = SHARP, .function = BO_FUNCTION_SINCOS},
    {.name = "trig-norms",
     .preset = "favor",
     .knob = RECALL_SCALE,
     .tried = SHARP,
     .function = BO_FUNCTION_SINCOS,
     .norms = true},
    {.name = "rfa", .preset = "rfa", .knob = RECALL_SCALE, .tried = SHARP},
    {.name = "rfa-norms", .preset = "rfa", .knob = RECALL_SCALE, .tried = SHARP, .norms = true},
    {.name = "rfa-gate", .preset = "rfa-gate", .knob = RECALL_SCALE, .tried = SHARP},
    {.name = "hybrid", .preset = "hybrid", .knob = RECALL_SCALE, .tried = SHARP},
    {.name = "hybrid-trig", .preset = "hybrid", .knob = RECALL_SCALE, .tried = SHARP, .function = BO_FUNCTION_SINCOS},
    {.name = "retention", .preset = "retention", .size = RECALL_DIM},
    {.name = "gla", .preset = "gla", .size = RECALL_DIM},
    {.name = "delta",
     .preset = "delta",
     .size = RECALL_DIM,
     .knob = RECALL_BETA,
     .tried = {0.0625, 0.125, 0.25, 0.5, 1}},
    {.name = "gated-delta",
     .preset = "gated-delta",
     .size = RECALL_DIM,
     .knob = RECALL_BETA,
     .tried = {0.0625, 0.125, 0.25, 0.5, 1}},
    {.name = "ridge",
     .preset = "ridge",
     .size = RECALL_DIM,
     .knob = RECALL_LAMBDA,
     .tried = {0.001, 0.01, 0.1, 1},
     .most = 256},
};

size_t recall_kind_count(void)
{
    return CLI_COUNT_OF(kinds);
}

const recall_kind *recall_kind_at(size_t index)
{
    return &kinds[index];
}

/* ---- a memory ----------------------------------------------------------------------------------------------------------- */

/* Lanes are key heads: each has its own draw of features and its own pairs. */
typedef struct memory {
    bo_context *context;
    const recall_pairs *pairs;
    bo_attention *attention;
    void *state;
    size_t written;
    float *q, *k, *v, *out;                      /* room for a block of every lane */
    float *log_gate, *beta, *lambda, *log_decay; /* NULL: the kind has none */
} memory;

static bo_attention_desc describe(const recall_options *o, const recall_kind *kind, size_t size, double knob,
                                  const recall_pairs *pairs)
{
    bo_attention_desc desc = {.heads = pairs->lanes, .dim = pairs->dim, .value_dim = pairs->width, .causal = true};
    bo_attention_preset(kind->preset, &desc);
    desc.features.features = kind->size == RECALL_FEATURES ? size : 0;
    desc.features.seed = pairs->seed + 1;
    if (kind->function) desc.features.function = kind->function;
    if (kind->plain) desc.gate = BO_GATE_NONE;
    if (kind->size == RECALL_WINDOW) desc.window = size;
    if (kind->size == RECALL_ALL) desc.capacity = o->tokens;
    if (desc.kind == BO_ATTENTION_HYBRID) desc.window = o->window;
    if (kind->knob == RECALL_SCALE && desc.kind == BO_ATTENTION_RFA) desc.temperature = 1 / sqrt(knob);
    if (kind->knob == RECALL_SCALE && desc.kind != BO_ATTENTION_RFA) desc.scale = knob;
    if (kind->knob == RECALL_NOTHING) desc.scale = 1;
    if (kind->knob == RECALL_POWER) desc.power = knob;
    if (desc.kind == BO_ATTENTION_DELTA || desc.kind == BO_ATTENTION_POWER) desc.scale = 1;
    return desc;
}

static float *constant(size_t count, double value)
{
    float *out = cli_allocate(count, sizeof *out, "parameters");
    for (size_t i = 0; i < count; i++) out[i] = (float)value;
    return out;
}

/* Frequencies drawn for keys and questions of such pairs, where the kind asks for that. */
static bo_status calibrate(memory *m, const recall_pairs *pairs)
{
    const bo_attention_desc *d = bo_attention_describe(m->attention);
    if (d->proposal == BO_PROPOSAL_NONE) return BO_OK;
    const size_t dim = pairs->dim, rows = CALIBRATION;
    float *q = cli_allocate(2 * pairs->lanes * rows * dim, sizeof *q, "keys"), *k = q + pairs->lanes * rows * dim;
    for (size_t i = 0; i < pairs->lanes * rows; i++) {
        recall_question(pairs, i / rows, 2 * (i % rows), q + i * dim);
        recall_key(pairs, i / rows, 2 * (i % rows) + 1, k + i * dim);
    }
    const bo_attention_shape shape = {.sequences = 1, .tokens = rows};
    const bo_attention_inputs in = {.q = q, .k = k};
    bo_calibration *seen = NULL;
    bo_status status = bo_calibration_create(m->context, m->attention, 0, &seen);
    if (status == BO_OK) status = bo_calibration_add(m->context, seen, &shape, &in);
    if (status == BO_OK) status = bo_calibration_apply(m->context, seen, m->attention, 0, NULL);
    bo_calibration_destroy(seen);
    free(q);
    return status;
}

static void allocate(memory *m, const recall_options *o, const recall_kind *kind, double knob)
{
    const bo_attention_desc *d = bo_attention_describe(m->attention);
    const size_t lanes = m->pairs->lanes, rows = lanes * BLOCK;
    const double log_gate = -1 / (double)o->horizon;
    m->state = cli_allocate(bo_attention_state_bytes(m->attention), 1, "a state");
    m->q = cli_allocate(rows * d->dim, sizeof *m->q, "questions");
    m->k = cli_allocate(rows * d->dim, sizeof *m->k, "keys");
    m->v = cli_allocate(rows * d->value_dim, sizeof *m->v, "values");
    m->out = cli_allocate(rows * d->value_dim, sizeof *m->out, "outputs");
    if (d->kind == BO_ATTENTION_GLA) m->log_gate = constant(rows * d->dim, log_gate);
    if (d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY) m->log_gate = constant(rows, log_gate);
    if (d->gate == BO_GATE_FIXED) m->log_decay = constant(lanes, log_gate);
    if (kind->knob == RECALL_BETA) m->beta = constant(rows, knob);
    if (kind->knob == RECALL_LAMBDA) m->lambda = constant(lanes * d->dim, knob);
}

static bo_status open_memory(bo_context *context, const recall_options *o, const recall_kind *kind, size_t size,
                             double knob, const recall_pairs *pairs, memory *out)
{
    const bo_attention_desc desc = describe(o, kind, size, knob, pairs);
    *out = (memory){.context = context, .pairs = pairs};
    bo_status status = bo_attention_create(context, &desc, &out->attention);
    if (status != BO_OK) return status;
    allocate(out, o, kind, knob);
    status = calibrate(out, pairs);
    return status == BO_OK ? bo_attention_state_begin(context, out->attention, out->state) : status;
}

static void close_memory(memory *m)
{
    float *const arrays[] = {m->q, m->k, m->v, m->out, m->log_gate, m->beta, m->lambda, m->log_decay};
    for (size_t i = 0; i < CLI_COUNT_OF(arrays); i++) free(arrays[i]);
    free(m->state);
    bo_attention_destroy(m->attention);
}

/* Pairs are written until there are `tokens` of them in every lane. */
static bo_status write_until(memory *m, size_t tokens)
{
    const recall_pairs *p = m->pairs;
    bo_status status = BO_OK;
    while (status == BO_OK && m->written < tokens) {
        const size_t count = tokens - m->written < BLOCK ? tokens - m->written : BLOCK;
        for (size_t i = 0; i < p->lanes * count; i++) {
            const size_t lane = i / count, token = m->written + i % count;
            recall_key(p, lane, token, m->k + i * p->dim);
            memcpy(m->v + i * p->width, p->book + recall_code(p, lane, token) * p->width, p->width * sizeof *m->v);
        }
        const bo_attention_shape shape = {.sequences = 1, .tokens = count};
        const bo_attention_inputs in = {.q = m->k,
                                        .k = m->k,
                                        .v = m->v,
                                        .log_gate = m->log_gate,
                                        .beta = m->beta,
                                        .lambda = m->lambda,
                                        .log_decay = m->log_decay};
        status = bo_attention_extend(m->context, m->attention, &shape, &in, &m->state, m->out);
        m->written += count;
    }
    return status;
}

/* The fraction of pairs first … last - 1 that come back, up to `most` of them in each lane. */
static bo_status ask(memory *m, size_t first, size_t last, size_t most, double *fraction)
{
    const recall_pairs *p = m->pairs;
    const size_t count = last - first < most ? last - first : most;
    for (size_t i = 0; i < p->lanes * count; i++)
        recall_question(p, i / count, first + i % count * (last - first) / count, m->q + i * p->dim);
    const bo_attention_shape shape = {.sequences = 1, .tokens = count, .no_keys = true};
    const bo_attention_inputs in = {.q = m->q, .lambda = m->lambda, .log_decay = m->log_decay};
    bo_status status =
        bo_attention_forward(m->context, m->attention, &shape, &in, (const void *[]){m->state}, NULL, m->out, NULL);
    size_t right = 0;
    for (size_t i = 0; status == BO_OK && i < p->lanes * count; i++)
        right += recall_nearest(p, m->out + i * p->width) ==
                 recall_code(p, i / count, first + i % count * (last - first) / count);
    *fraction = (double)right / (double)(p->lanes * count);
    return status;
}

/* ---- measuring ---------------------------------------------------------------------------------------------------------- */

static double capacity_of(const recall_result *r)
{
    const double enough = 0.9;
    if (r->by_length[0] < enough) return 0;
    size_t last = 0;
    while (last + 1 < r->points && r->by_length[last + 1] >= enough) last++;
    if (last + 1 == r->points) return exp2((double)last);
    const double above = r->by_length[last] - enough, below = enough - r->by_length[last + 1];
    return exp2((double)last + above / (above + below));
}

/* Lengths 1, 2, 4, … as far as `tokens`, from the one that is next. */
static bo_status recall_lengths(memory *m, size_t tokens, size_t *next, double *by_length)
{
    bo_status status = BO_OK;
    for (; status == BO_OK && (size_t)1 << *next <= tokens; ++*next) {
        const size_t length = (size_t)1 << *next;
        status = write_until(m, length);
        if (status == BO_OK) status = ask(m, 0, length, ASKED, &by_length[*next]);
    }
    return status;
}

static bo_status recall_distances(memory *m, size_t points, double *by_distance)
{
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < points; i++) {
        const size_t distance = (size_t)1 << i;
        double fraction = 0;
        status = ask(m, distance < m->written ? m->written - distance : 0, m->written - distance / 2, ASKED_AT_END,
                     &fraction);
        by_distance[i] += fraction / ENDS;
    }
    return status;
}

/* Distances are asked for now and then during the last quarter. */
static bo_status recall_all(memory *m, size_t tokens, recall_result *out)
{
    bo_status status = BO_OK;
    size_t next = 0;
    *out = (recall_result){.points = 1};
    while (out->points < RECALL_POINTS && (size_t)1 << out->points <= tokens) out->points++;
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

static bo_status measure(bo_context *context, const recall_options *o, const recall_kind *kind, size_t size,
                         double knob, uint64_t seed, size_t lanes, recall_result *out)
{
    recall_pairs pairs = {.seed = seed,
                          .lanes = lanes,
                          .dim = kind->size == RECALL_DIM ? size : o->width,
                          .width = o->width,
                          .codes = o->codes,
                          .norms = kind->norms,
                          .noise = o->noise};
    memory m;
    recall_pairs_open(&pairs);
    bo_status status = open_memory(context, o, kind, size, knob, &pairs, &m);
    if (status == BO_OK) status = recall_all(&m, o->tokens, out);
    if (status == BO_OK) out->bytes = bo_attention_state_bytes(m.attention) / lanes;
    close_memory(&m);
    recall_pairs_close(&pairs);
    return status;
}

bool recall_measure(cli_session *session, const recall_options *o, const recall_kind *kind, size_t size,
                    recall_result *out)
{
    const uint64_t seed = 2 * session->common.seed;
    const size_t few = o->lanes < PILOT_LANES ? o->lanes : PILOT_LANES;
    bo_status status = BO_OK;
    double knob = kind->tried[0], most = -1;
    for (size_t i = 0; kind->tried[1] > 0 && status == BO_OK && i < RECALL_TRIED && kind->tried[i] > 0; i++) {
        status = measure(session->context, o, kind, size, kind->tried[i], seed + 1, few, out);
        if (status == BO_OK && out->mean > most) most = out->mean, knob = kind->tried[i];
        if (status == BO_NUMERIC) status = BO_OK; /* it overflows there: not the one */
    }
    if (status == BO_OK) status = measure(session->context, o, kind, size, knob, seed, o->lanes, out);
    out->knob = kind->knob == RECALL_NOTHING ? NAN : knob;
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK && !cli_interrupted();
}
