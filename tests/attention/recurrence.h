/* Attention that updates a state token by token, in float64: random problems, gradients by central differences, the
 * same computed by the library, and comparisons. The header of a kind includes this header and defines the
 * kind-dependent functions (below). */
#ifndef BO_TEST_ATTENTION_RECURRENCE_H
#define BO_TEST_ATTENTION_RECURRENCE_H

#include "attention/attention.h"
#include "../testing.h"

enum { Q, K, V, GATE, BETA, LAMBDA, START, ARRAYS, MAX_SEQUENCES = 3, MAX_DIM = 64 };
static const char *const names[ARRAYS] = {"q", "k", "v", "log_gate", "beta", "lambda", "initial"};

typedef struct problem {
    const char *name;
    size_t heads, key_heads, dim, values;
    size_t sequences, lengths[MAX_SEQUENCES];
    /* carried: with initial states and gradients of final states */
    bool packed, tokens_first, gated, weighed, unit, carried;
    size_t chunk;
    double gates; /* largest value of -log g */
    double norm;  /* norm of the keys; 0: 1 */
    double tilt;  /* common component of keys and queries, in units of their standard deviation */
    /* only for RIDGE */
    double lambda; /* their median; 0: not given */
    size_t iterations;
    double tolerance;
} problem;

/* All arrays in float64, in the layout of the library. Arrays with count 0 are absent. */
typedef struct data {
    const problem *p;
    size_t start[MAX_SEQUENCES], total, count[ARRAYS], outs, states;
    double *in[ARRAYS], *dout, *dfinal;
    double *out, *final; /* results of the recurrence */
} data;

/* ---- functions that the kind defines ----------------------------------------------------------------------------- */

static inline bo_attention_kind kind(void);

/* Floats of the state of one key head: dim x values, then z if the kind has it. */
static inline size_t head_floats(const problem *p);

/* Fills a state with values that tokens could have produced. */
static inline void fill_memory(bo_rng *rng, const problem *p, double *s);

/* `learn` updates the state of a key head with one token; `compute_output` computes the output of a query head from
 * it. */
static inline void learn(const data *d, size_t sequence, size_t head, size_t token, double *s);
static inline void compute_output(const data *d, size_t sequence, size_t head, size_t token, const double *s);

/* ---- problems ---------------------------------------------------------------------------------------------------- */

/* The row of a token in an array of `heads` heads. */
static inline size_t row_of(const data *d, size_t heads, size_t sequence, size_t head, size_t token)
{
    const problem *p = d->p;
    size_t start = d->start[sequence];
    if (p->tokens_first) return (start + token) * heads + head;
    if (p->packed) return head * d->total + start + token;
    return start * heads + head * p->lengths[sequence] + token;
}

static inline double *doubles(size_t count)
{
    double *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

static inline float *floats_of(size_t count, const double *from)
{
    float *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    for (size_t i = 0; from && i < count; i++) array[i] = (float)from[i];
    return array;
}

/* Fills an array with numbers that are exact in float32. */
static inline void fill(bo_rng *rng, double *array, size_t count, double deviation, double mean)
{
    for (size_t i = 0; i < count; i++) array[i] = (double)(float)(deviation * (mean + bo_rng_normal(rng)));
}

static inline void measure(data *d)
{
    const problem *p = d->p;
    for (size_t s = 0; s < p->sequences; s++) {
        d->start[s] = d->total;
        d->total += p->lengths[s];
    }
    size_t keys = d->total * p->key_heads;
    d->outs = d->total * p->heads * p->values;
    d->states = p->sequences * p->key_heads * head_floats(p);
    d->count[Q] = d->total * p->heads * p->dim;
    d->count[K] = keys * p->dim;
    d->count[V] = keys * p->values;
    d->count[GATE] = p->gated ? keys : 0;
    d->count[BETA] = p->weighed ? keys : 0;
    d->count[LAMBDA] = p->lambda > 0 ? p->key_heads * p->dim : 0;
    d->count[START] = p->carried ? d->states : 0;
}

static inline data make_data(const problem *p)
{
    data d = {.p = p};
    bo_rng rng = bo_rng_make(7, bo_rng_stream(p->name, 0));
    measure(&d);
    for (int a = 0; a < ARRAYS; a++) d.in[a] = doubles(d.count[a]);
    fill(&rng, d.in[Q], d.count[Q], 1, p->tilt);
    fill(&rng, d.in[K], d.count[K], (p->norm > 0 ? p->norm : 1) / sqrt((double)p->dim), p->tilt);
    fill(&rng, d.in[V], d.count[V], 1, 0);
    for (size_t i = 0; i < d.count[GATE]; i++)
        d.in[GATE][i] = i % 10 ? (double)(float)(-p->gates * bo_rng_uniform(&rng)) : 0;
    for (size_t i = 0; i < d.count[BETA]; i++) d.in[BETA][i] = i % 11 ? (double)(float)(1.2 * bo_rng_uniform(&rng)) : 0;
    for (size_t i = 0; i < d.count[LAMBDA]; i++)
        d.in[LAMBDA][i] = (double)(float)(p->lambda * exp(bo_rng_normal(&rng) / 2));
    for (size_t i = 0; i < d.count[START]; i += head_floats(p)) fill_memory(&rng, p, d.in[START] + i);
    d.dout = doubles(d.outs), d.out = doubles(d.outs);
    d.dfinal = doubles(d.states), d.final = doubles(d.states);
    fill(&rng, d.dout, d.outs, 1, 0);
    if (p->carried) fill(&rng, d.dfinal, d.states, 0.1, 0);
    return d;
}

static inline void discard(data *d)
{
    for (int a = 0; a < ARRAYS; a++) free(d->in[a]);
    free(d->dout), free(d->out), free(d->dfinal), free(d->final);
}

/* ---- the recurrence ---------------------------------------------------------------------------------------------- */

static inline void unit_row(const problem *p, const double *x, double *to)
{
    double square = 0;
    for (size_t i = 0; i < p->dim; i++) square += x[i] * x[i];
    double factor = p->unit ? 1 / (sqrt(square) + 1e-3) : 1;
    for (size_t i = 0; i < p->dim; i++) to[i] = factor * x[i];
}

/* Computes the outputs of every `stride`-th token and of the last one; the others keep their values. */
static inline void recur(const data *d, size_t stride)
{
    const problem *p = d->p;
    size_t group = p->heads / p->key_heads, floats = head_floats(p);
    for (size_t n = 0; n < p->sequences * p->key_heads; n++) {
        size_t sequence = n / p->key_heads, head = n % p->key_heads, tokens = p->lengths[sequence];
        double *s = d->final + n * floats;
        memset(s, 0, floats * sizeof *s);
        if (p->carried) memcpy(s, d->in[START] + n * floats, floats * sizeof *s);
        for (size_t t = 0; t < tokens; t++) {
            learn(d, sequence, head, t, s);
            for (size_t g = 0; (t % stride == 0 || t + 1 == tokens) && g < group; g++)
                compute_output(d, sequence, head * group + g, t, s);
        }
    }
}

/* ⟨dout, out⟩ + ⟨dfinal, final⟩ */
static inline double loss(const data *d)
{
    double sum = 0;
    recur(d, 1);
    for (size_t i = 0; i < d->outs; i++) sum += d->dout[i] * d->out[i];
    for (size_t i = 0; i < d->states; i++) sum += d->dfinal[i] * d->final[i];
    return sum;
}

static inline double difference(const data *d, int array, size_t index)
{
    double *at = d->in[array] + index, saved = *at, step = 1e-5 * (array == LAMBDA ? saved : 1);
    *at = saved + step;
    double after = loss(d);
    *at = saved - step;
    double before = loss(d);
    *at = saved;
    return (after - before) / (2 * step);
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

/* A problem in float32, in the layout of the library. Arrays that the problem does not have are NULL, like their
 * gradients; gradients of initial states are always requested. */
typedef struct run {
    const data *d;
    bo_context *context;
    bo_attention *attention;
    bo_attention_shape shape;
    bo_attention_inputs inputs;
    bo_solves solves;
    float *in[ARRAYS], *out, *gradient[ARRAYS], *dout, *dfinal;
    void *initial[MAX_SEQUENCES], *final[MAX_SEQUENCES], *tape;
    const void *const *past; /* the initial states if the problem has them, else NULL */
} run;

static inline bo_attention *attention_of(bo_context *context, const problem *p)
{
    bo_attention_desc desc = {.kind = kind(),
                              .heads = p->heads,
                              .key_heads = p->key_heads,
                              .dim = p->dim,
                              .value_dim = p->values,
                              .causal = true,
                              .gate = p->gated ? BO_GATE_DECAY : BO_GATE_NONE,
                              .unit = p->unit,
                              .iterations = p->iterations,
                              .tolerance = p->tolerance,
                              .chunk = p->chunk};
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static inline bo_attention_shape shape_of(const problem *p)
{
    return (bo_attention_shape){.sequences = p->sequences,
                                .tokens = p->lengths[0],
                                .lengths = p->packed ? p->lengths : NULL,
                                .layout = p->tokens_first ? BO_LAYOUT_TOKENS_FIRST : BO_LAYOUT_HEADS_FIRST};
}

static inline void *state_of(const run *r)
{
    void *state = malloc(bo_attention_state_bytes(r->attention));
    assert_non_null(state);
    assert_ok(r->context, bo_attention_state_init(r->context, r->attention, state));
    return state;
}

/* The position of z in the state of a head. */
static inline float *z_of(const problem *p, float *s)
{
    return head_floats(p) > p->dim * p->values ? s + p->dim * p->values : NULL;
}

static inline void make_states(run *r)
{
    const problem *p = r->d->p;
    for (size_t s = 0; s < p->sequences; s++) r->initial[s] = state_of(r), r->final[s] = state_of(r);
    r->past = p->carried ? (const void *const *)r->initial : NULL;
    for (size_t n = 0; p->carried && n < p->sequences * p->key_heads; n++) {
        float *s = r->in[START] + n * head_floats(p);
        assert_ok(r->context, bo_attention_state_set(r->context, r->attention, r->initial[n / p->key_heads],
                                                     n % p->key_heads, s, z_of(p, s), 0));
    }
}

static inline run *run_make(bo_context *context, const data *d)
{
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->d = d, r->context = context;
    r->attention = attention_of(context, d->p), r->shape = shape_of(d->p);
    assert_int_equal(bo_attention_state_gradient_floats(r->attention), d->p->key_heads * head_floats(d->p));
    for (int a = 0; a < ARRAYS; a++) {
        size_t gradient_count = a == START ? d->states : d->count[a];
        r->in[a] = d->count[a] ? floats_of(d->count[a], d->in[a]) : NULL;
        r->gradient[a] = gradient_count ? floats_of(gradient_count, NULL) : NULL;
    }
    r->inputs = (bo_attention_inputs){.q = r->in[Q],
                                      .k = r->in[K],
                                      .v = r->in[V],
                                      .log_gate = r->in[GATE],
                                      .beta = r->in[BETA],
                                      .lambda = r->in[LAMBDA],
                                      .solves = kind() == BO_ATTENTION_RIDGE ? &r->solves : NULL};
    r->out = floats_of(d->outs, NULL), r->dout = floats_of(d->outs, d->dout);
    r->dfinal = floats_of(d->states, d->dfinal);
    make_states(r);
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, r->attention, &r->shape, &bytes));
    r->tape = malloc(bytes ? bytes : 1);
    assert_non_null(r->tape);
    return r;
}

static inline void run_free(run *r)
{
    for (int a = 0; a < ARRAYS; a++) free(r->in[a]), free(r->gradient[a]);
    for (size_t s = 0; s < MAX_SEQUENCES; s++) free(r->initial[s]), free(r->final[s]);
    bo_attention_destroy(r->attention);
    free(r->out), free(r->dout), free(r->dfinal), free(r->tape);
    free(r);
}

/* Opens a run with a separate context and data; run_close frees them. */
static inline run *run_open(int threads, const problem *p)
{
    data *d = malloc(sizeof *d);
    assert_non_null(d);
    *d = make_data(p);
    return run_make(test_context(threads), d);
}

static inline void run_close(run *r)
{
    data *d = (data *)r->d;
    bo_context *context = r->context;
    run_free(r);
    discard(d);
    free(d);
    bo_context_destroy(context);
}

static inline bo_status try_forward(run *r, void *tape)
{
    return bo_attention_forward_arrays(r->context, r->attention, &r->shape, &r->inputs, r->past, r->final, r->out,
                                       tape);
}

static inline void run_forward(run *r, void *tape)
{
    assert_ok(r->context, try_forward(r, tape));
}

static inline bo_status try_backward(run *r)
{
    const problem *p = r->d->p;
    float *initial[MAX_SEQUENCES];
    const float *final[MAX_SEQUENCES];
    for (size_t s = 0; s < p->sequences; s++) {
        size_t at = s * p->key_heads * head_floats(p);
        initial[s] = r->gradient[START] + at, final[s] = r->dfinal + at;
    }
    bo_attention_gradients to = {.q = r->gradient[Q],
                                 .k = r->gradient[K],
                                 .v = r->gradient[V],
                                 .log_gate = r->gradient[GATE],
                                 .beta = r->gradient[BETA],
                                 .lambda = r->gradient[LAMBDA],
                                 .initial = initial};
    return bo_attention_backward_arrays(r->context, r->attention, &r->shape, &r->inputs, r->past, r->out, r->tape,
                                        r->dout, p->carried ? final : NULL, &to);
}

/* Inputs from token `first` on, for one sequence in layout TOKENS_FIRST. */
static inline bo_attention_inputs inputs_from(const run *r, size_t first)
{
    const problem *p = r->d->p;
    bo_attention_inputs in = r->inputs;
    in.q += first * p->heads * p->dim;
    in.k += first * p->key_heads * p->dim;
    in.v += first * p->key_heads * p->values;
    if (in.log_gate) in.log_gate += first * p->key_heads;
    if (in.beta) in.beta += first * p->key_heads;
    return in;
}

/* Adds tokens [first, first + count) to final[0], as a block or, with `steps`, one by one. */
static inline void advance(run *r, size_t first, size_t count, bool steps)
{
    size_t row = r->d->p->heads * r->d->p->values;
    for (size_t t = first; t < first + count; t += steps ? 1 : count) {
        bo_attention_inputs in = inputs_from(r, t);
        bo_attention_shape shape = r->shape;
        shape.tokens = count;
        if (steps)
            assert_ok(r->context, bo_attention_step(r->context, r->attention, 1, &in, r->final, r->out + t * row));
        else
            assert_ok(r->context,
                      bo_attention_extend(r->context, r->attention, &shape, &in, r->final, r->out + t * row));
    }
}

/* ---- comparison with the recurrence ------------------------------------------------------------------------------ */

/* Checks that every element is within `tolerance` times the largest element of the array. */
static inline void compare(const char *name, const char *what, size_t count, const float *found, const double *expected,
                           double tolerance)
{
    double largest = 1e-30, worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - expected[i]);
        if (!(error <= worst)) worst = error, where = i;
    }
    if (!(worst <= tolerance * largest))
        fail_msg("%s: %s[%zu] = %.9g, expected %.9g within %.3g", name, what, where, (double)found[where],
                 expected[where], tolerance * largest);
}

static inline void check_finals(const run *r, const char *what, double tolerance)
{
    const problem *p = r->d->p;
    size_t floats = head_floats(p);
    float *s = floats_of(floats, NULL);
    for (size_t n = 0; n < p->sequences * p->key_heads; n++) {
        assert_ok(r->context, bo_attention_state_get(r->context, r->attention, r->final[n / p->key_heads],
                                                     n % p->key_heads, s, z_of(p, s), NULL));
        compare(p->name, what, floats, s, r->d->final + n * floats, tolerance);
    }
    free(s);
}

static inline void check_gradients(const run *r, double tolerance)
{
    const data *d = r->d;
    for (int a = 0; a < ARRAYS; a++) {
        double *expected = doubles(d->count[a]);
        for (size_t i = 0; i < d->count[a]; i++) expected[i] = difference(d, a, i);
        compare(d->p->name, names[a], d->count[a], r->gradient[a], expected, tolerance);
        free(expected);
    }
}

/* Checks outputs, final states and all gradients. New, empty states are equivalent to no states. */
static inline void check(run *r, double tolerance)
{
    const data *d = r->d;
    const void *const *pasts[] = {(const void *const *)r->initial, r->past};
    recur(d, 1);
    for (int i = 0; i < 2; i++) {
        r->past = pasts[i];
        run_forward(r, r->tape);
        compare(d->p->name, "out", d->outs, r->out, d->out, tolerance);
        check_finals(r, "final", tolerance);
    }
    assert_ok(r->context, try_backward(r));
    check_gradients(r, tolerance);
}

static inline void check_outputs(bo_context *context, const data *d, const char *what, double tolerance)
{
    run *r = run_make(context, d);
    run_forward(r, NULL);
    recur(d, 1);
    compare(d->p->name, what, d->outs, r->out, d->out, tolerance);
    run_free(r);
}

#endif
