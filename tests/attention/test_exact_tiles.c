/* The tiles of softmax attention at their boundaries: tiles, blocks, panels, windows, ring buffers that wrap, states of
 * any length, and all gradients. The reference is the definition in float64. */
#include "attention/attention.h"
#include "testing.h"

typedef struct problem {
    size_t heads, key_heads, dim, value_dim;
    bool causal;
    size_t window;
    size_t old, fresh; /* tokens in the initial state; tokens of the call */
    size_t queries;    /* 0: equal to `fresh` */
    float size;        /* scale of q and k */
} problem;

static const problem problems[] = {
    {1, 1, 64, 64, true, 0, 0, 1, 0, 1}, /* sizes around the block (32), the panel (64) and the tile (128) */
    {1, 1, 64, 64, true, 0, 0, 31, 0, 1},
    {1, 1, 64, 64, true, 0, 0, 65, 0, 1},
    {2, 1, 64, 64, true, 0, 0, 129, 0, 1},
    {1, 1, 64, 64, true, 0, 0, 300, 0, 10},
    {1, 1, 7, 5, true, 0, 0, 131, 0, 3},
    {4, 2, 80, 3, true, 0, 37, 150, 0, 1},
    {2, 2, 1, 1, true, 0, 64, 64, 0, 1},
    {3, 1, 17, 200, false, 0, 0, 70, 129, 2}, /* cross attention */
    {2, 1, 16, 16, false, 0, 67, 70, 33, 2},
    {2, 2, 16, 16, false, 0, 67, 0, 33, 2}, /* queries of a state without new keys */
    {2, 1, 16, 16, true, 0, 67, 0, 33, 2},
    {1, 1, 16, 16, true, 1, 0, 70, 0, 2}, /* windows */
    {2, 1, 16, 16, true, 5, 0, 140, 0, 2},
    {2, 1, 16, 8, true, 64, 0, 400, 0, 2},
    {2, 1, 16, 8, true, 100, 0, 400, 0, 2},
    {2, 1, 16, 8, true, 100, 41, 30, 0, 2}, /* … with fewer tokens in the state, … */
    {2, 1, 16, 8, true, 100, 321, 3, 0, 2}, /* … with a ring buffer that has wrapped, … */
    {2, 1, 16, 8, true, 100, 321, 500, 0, 2},
    {2, 1, 16, 8, true, 70, 150, 0, 9, 2}, /* … or with all tokens visible */
};
enum { CAPACITY = 300 };

/* ---- reference --------------------------------------------------------------------------------------------------- */

/* There are old + fresh keys and values, and `queries` queries; all arrays are (heads, tokens, width). */
typedef struct arrays {
    size_t keys, queries, cached_keys;
    float *q, *k, *v, *dout, *d_final;
    double *out, *dq, *dk, *dv;
} arrays;

static float *noise(bo_rng *rng, size_t count, float size)
{
    float *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = size * (float)bo_rng_normal(rng);
    return x;
}

static double *zeros(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static arrays arrays_of(const problem *p)
{
    bo_rng rng = bo_rng_make(7, p->fresh * 1000 + p->old);
    arrays a = {.keys = p->old + p->fresh, .queries = p->queries ? p->queries : p->fresh};
    a.cached_keys = p->window ? p->window : CAPACITY;
    size_t q = p->heads * a.queries, k = p->key_heads * a.keys;
    a.q = noise(&rng, q * p->dim, p->size);
    a.k = noise(&rng, k * p->dim, p->size);
    a.v = noise(&rng, k * p->value_dim, 1.0f);
    a.dout = noise(&rng, q * p->value_dim, 1.0f);
    a.d_final = noise(&rng, p->key_heads * a.cached_keys * (p->dim + p->value_dim), 1.0f);
    a.out = zeros(q * p->value_dim);
    a.dq = zeros(q * p->dim);
    a.dk = zeros(k * p->dim);
    a.dv = zeros(k * p->value_dim);
    return a;
}

static void release(arrays *a)
{
    float *floats[] = {a->q, a->k, a->v, a->dout, a->d_final};
    double *doubles[] = {a->out, a->dq, a->dk, a->dv};
    for (size_t i = 0; i < 5; i++) free(floats[i]);
    for (size_t i = 0; i < 4; i++) free(doubles[i]);
}

static double dot(size_t n, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* o = Σ p_j v_j; dp_j = dO·v_j; ds_j = p_j (dp_j - Σ p dp) */
static void oracle_row(const problem *p, const arrays *a, size_t head, size_t row)
{
    size_t d = p->dim, e = p->value_dim, at = head * a->queries + row;
    size_t base = head / (p->heads / p->key_heads) * a->keys;
    size_t end = p->causal && p->fresh ? p->old + row + 1 : a->keys;
    size_t from = p->window && end > p->window ? end - p->window : 0;
    double *weight = zeros(end), *slope = zeros(end), top = -INFINITY, sum = 0, mean = 0, scale = 1 / sqrt((double)d);
    for (size_t j = from; j < end; j++) {
        weight[j] = scale * dot(d, a->q + at * d, a->k + (base + j) * d);
        slope[j] = dot(e, a->dout + at * e, a->v + (base + j) * e);
        top = fmax(top, weight[j]);
    }
    for (size_t j = from; j < end; j++) sum += weight[j] = exp(weight[j] - top);
    for (size_t j = from; j < end; j++) mean += (weight[j] /= sum) * slope[j];
    for (size_t j = from; j < end; j++) {
        double ds = scale * weight[j] * (slope[j] - mean);
        for (size_t i = 0; i < e; i++) a->out[at * e + i] += weight[j] * (double)a->v[(base + j) * e + i];
        for (size_t i = 0; i < e; i++) a->dv[(base + j) * e + i] += weight[j] * (double)a->dout[at * e + i];
        for (size_t i = 0; i < d; i++) a->dq[at * d + i] += ds * (double)a->k[(base + j) * d + i];
        for (size_t i = 0; i < d; i++) a->dk[(base + j) * d + i] += ds * (double)a->q[at * d + i];
    }
    free(weight);
    free(slope);
}

/* Gradient of the final state: row r belongs to the r-th oldest key in it. */
static void oracle_final(const problem *p, const arrays *a)
{
    size_t width = p->dim + p->value_dim, first = a->keys > a->cached_keys ? a->keys - a->cached_keys : 0;
    for (size_t h = 0; h < p->key_heads; h++) {
        for (size_t j = first; j < a->keys; j++) {
            const float *row = a->d_final + (h * a->cached_keys + j - first) * width;
            for (size_t i = 0; i < p->dim; i++) a->dk[(h * a->keys + j) * p->dim + i] += (double)row[i];
            for (size_t i = 0; i < p->value_dim; i++)
                a->dv[(h * a->keys + j) * p->value_dim + i] += (double)row[p->dim + i];
        }
    }
}

static void oracle(const problem *p, const arrays *a)
{
    for (size_t h = 0; h < p->heads; h++) {
        for (size_t i = 0; i < a->queries; i++) oracle_row(p, a, h, i);
    }
    oracle_final(p, a);
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

static bo_attention *attention_of(bo_context *context, const problem *p)
{
    bo_attention_desc desc = {.heads = p->heads,
                              .key_heads = p->key_heads,
                              .dim = p->dim,
                              .value_dim = p->value_dim,
                              .causal = p->causal,
                              .window = p->window,
                              .capacity = CAPACITY};
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

/* Tokens first … first + count - 1 of (heads, tokens, width). */
static float *cut(const float *x, size_t heads, size_t tokens, size_t width, size_t first, size_t count)
{
    float *part = calloc(heads * count * width + 1, sizeof *part);
    for (size_t h = 0; h < heads; h++)
        memcpy(part + h * count * width, x + (h * tokens + first) * width, count * width * sizeof *part);
    return part;
}

static void *new_state(bo_context *context, const bo_attention *attention)
{
    size_t bytes = bo_attention_state_bytes(attention);
    void *state = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(context, bo_attention_state_init(context, attention, state));
    return state;
}

/* A state that has absorbed the old tokens, 50 at a time; the outputs do not matter. */
static void *old_state(bo_context *context, const bo_attention *attention, const problem *p, const arrays *a)
{
    void *state = new_state(context, attention);
    for (size_t first = 0, count; first < p->old; first += count) {
        count = p->old - first < 50 ? p->old - first : 50;
        float *k = cut(a->k, p->key_heads, a->keys, p->dim, first, count);
        float *v = cut(a->v, p->key_heads, a->keys, p->value_dim, first, count);
        float *q = calloc(p->heads * count * p->dim, sizeof *q),
              *out = calloc(p->heads * count * p->value_dim, sizeof *out);
        bo_attention_shape shape = {.sequences = 1, .tokens = count};
        bo_attention_inputs in = {.q = q, .k = k, .v = v};
        assert_ok(context, bo_attention_extend(context, attention, &shape, &in, &state, out));
        free(k), free(v), free(q), free(out);
    }
    assert_int_equal(bo_attention_state_tokens(state), p->old);
    return state;
}

static void compare(const char *what, size_t heads, size_t count, const float *found, const double *expected,
                    size_t stride, size_t skipped, double size)
{
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < count; i++) {
            double error = fabs((double)found[h * count + i] - expected[h * stride + skipped + i]);
            if (!(error <= 4e-6 * size))
                fail_msg("%s, head %zu, number %zu: %.9g, expected %.9g within %.3g", what, h, i,
                         (double)found[h * count + i], expected[h * stride + skipped + i], 4e-6 * size);
        }
    }
}

/* Rounding: a score of size² √dim has an error of a few times 2^-24 of its size, which is the relative error of a
 * weight; sums of N(0, 1) values and gradients keep it. */
static double tolerance(const problem *p)
{
    double score = (double)p->size * (double)p->size * sqrt((double)p->dim);
    return (1 + score) * sqrt((double)(p->fresh + p->old));
}

static void check_problem(bo_context *context, const problem *p)
{
    arrays a = arrays_of(p);
    oracle(p, &a);
    bo_attention *attention = attention_of(context, p);
    void *initial = old_state(context, attention, p, &a), *final = new_state(context, attention);
    size_t d = p->dim, e = p->value_dim, gradient = bo_attention_state_gradient_floats(attention), tape_bytes;
    float *k = cut(a.k, p->key_heads, a.keys, d, p->old, p->fresh),
          *v = cut(a.v, p->key_heads, a.keys, e, p->old, p->fresh);
    float *out = calloc(p->heads * a.queries * e, sizeof *out), *dq = calloc(p->heads * a.queries * d, sizeof *dq);
    float *dk = calloc(p->key_heads * p->fresh * d + 1, sizeof *dk),
          *dv = calloc(p->key_heads * p->fresh * e + 1, sizeof *dv);
    float *d_initial = calloc(gradient, sizeof *d_initial);
    bo_attention_shape shape = {.sequences = 1, .tokens = a.queries, .key_tokens = p->fresh, .no_keys = !p->fresh};
    bo_attention_inputs in = {.q = a.q, .k = p->fresh ? k : NULL, .v = p->fresh ? v : NULL};
    assert_int_equal(gradient, p->key_heads * a.cached_keys * (d + e));
    assert_ok(context, bo_attention_tape_bytes(context, attention, &shape, &tape_bytes));
    void *tape = aligned_alloc(64, (tape_bytes + 63) / 64 * 64);
    const void *initials[] = {initial};
    void *finals[] = {final};
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, initials, finals, out, tape));
    double size = tolerance(p);
    compare("out", 1, p->heads * a.queries * e, out, a.out, 0, 0, size);

    bo_attention_gradients gradients = {.q = dq, .k = dk, .v = dv, .initial = &d_initial};
    const float *d_finals[] = {a.d_final};
    assert_ok(context, bo_attention_backward_arrays(context, attention, &shape, &in, initials, out, tape, a.dout,
                                                    d_finals, &gradients));
    compare("dq", 1, p->heads * a.queries * d, dq, a.dq, 0, 0, size * (double)p->size);
    compare("dk", p->key_heads, p->fresh * d, dk, a.dk, a.keys * d, p->old * d, size * (double)p->size);
    compare("dv", p->key_heads, p->fresh * e, dv, a.dv, a.keys * e, p->old * e, size);
    size_t first = p->old > a.cached_keys ? p->old - a.cached_keys : 0;
    for (size_t h = 0; h < p->key_heads; h++) {
        for (size_t r = 0; r < a.cached_keys; r++) {
            const float *row = d_initial + (h * a.cached_keys + r) * (d + e);
            double none[256] = {0};
            bool holds = first + r < p->old;
            size_t j = h * a.keys + first + r;
            compare("d initial key", 1, d, row, holds ? a.dk + j * d : none, 0, 0, size * (double)p->size);
            compare("d initial value", 1, e, row + d, holds ? a.dv + j * e : none, 0, 0, size);
        }
    }
    free(k), free(v), free(out), free(dq), free(dk), free(dv), free(d_initial), free(tape), free(initial), free(final);
    release(&a);
    bo_attention_destroy(attention);
}

static void test_edges_of_tiles_windows_and_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        print_message("problem %zu\n", i);
        check_problem(context, &problems[i]);
    }
    bo_context_destroy(context);
}

/* The last token as a step from the state before it. */
static void test_steps_match_the_definition(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        problem p = problems[i];
        if (!p.causal || !p.fresh || p.old + p.fresh > CAPACITY) continue;
        arrays a = arrays_of(&p);
        oracle(&p, &a);
        problem before = p;
        before.old = p.old + p.fresh - 1;
        bo_attention *attention = attention_of(context, &p);
        void *token = old_state(context, attention, &before, &a);
        float *q = cut(a.q, p.heads, a.queries, p.dim, a.queries - 1, 1);
        float *k = cut(a.k, p.key_heads, a.keys, p.dim, a.keys - 1, 1);
        float *v = cut(a.v, p.key_heads, a.keys, p.value_dim, a.keys - 1, 1);
        float *out = calloc(2 * p.heads * p.value_dim, sizeof *out), *again = out + p.heads * p.value_dim;
        bo_attention_inputs in = {.q = q, .k = k, .v = v}, query_only = {.q = q};
        assert_ok(context, bo_attention_step(context, attention, 1, &in, &token, out));
        assert_int_equal(bo_attention_state_tokens(token), a.keys);
        compare("step", p.heads, p.value_dim, out, a.out, a.queries * p.value_dim, (a.queries - 1) * p.value_dim,
                tolerance(&p));
        assert_ok(context, bo_attention_step(context, attention, 1, &query_only, &token, again));
        assert_memory_equal(out, again, p.heads * p.value_dim * sizeof *out);
        free(q), free(k), free(v), free(out), free(token);
        release(&a);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

/* Changing token t changes no bit of earlier outputs. */
static void test_later_tokens_change_no_bit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const size_t windows[] = {0, 50};
    for (size_t w = 0; w < 2; w++) {
        problem p = {.heads = 2,
                     .key_heads = 1,
                     .dim = 24,
                     .value_dim = 20,
                     .causal = true,
                     .window = windows[w],
                     .fresh = 290,
                     .size = 2};
        arrays a = arrays_of(&p);
        bo_attention *attention = attention_of(context, &p);
        size_t floats = p.heads * a.queries * p.value_dim;
        float *out = calloc(2 * floats, sizeof *out), *second = out + floats;
        bo_attention_shape shape = {.sequences = 1, .tokens = p.fresh};
        bo_attention_inputs in = {.q = a.q, .k = a.k, .v = a.v};
        assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
        for (size_t t = 0; t < p.fresh; t += 17) {
            for (size_t i = 0; i < p.dim; i++) a.k[t * p.dim + i] *= -20.0f;
            for (size_t i = 0; i < p.value_dim; i++) a.v[t * p.value_dim + i] += 1e6f;
        }
        for (size_t t = 0; t < p.fresh; t += 17) { /* undo the changes one by one */
            assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, second, NULL));
            for (size_t h = 0; h < p.heads; h++)
                assert_memory_equal(out + h * p.fresh * p.value_dim, second + h * p.fresh * p.value_dim,
                                    t * p.value_dim * sizeof *out);
            arrays fresh = arrays_of(&p);
            memcpy(a.k + t * p.dim, fresh.k + t * p.dim, p.dim * sizeof *a.k);
            memcpy(a.v + t * p.value_dim, fresh.v + t * p.value_dim, p.value_dim * sizeof *a.v);
            release(&fresh);
        }
        free(out);
        release(&a);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges_of_tiles_windows_and_states),
        cmocka_unit_test(test_steps_match_the_definition),
        cmocka_unit_test(test_later_tokens_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
