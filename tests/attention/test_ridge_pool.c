/* Ridge attention that is not causal: W = (H + Λ)⁻¹ G of one pool of keys and values, o = Wᵀq for every query. The
 * reference solves each system from scratch in double, by the primal form (d x d) or by the dual form (n x n). */
#include "attention/attention.h"
#include "../../src/base/rng.h"
#include "testing.h"

/* ---- a problem --------------------------------------------------------------------------------------------------- */

typedef struct problem {
    const char *name;
    size_t heads, key_heads, dim, values, queries, keys;
    double lambda; /* 0: one for each dimension, from 0.2 to 2 */
    bool weighed;  /* β is given */
    size_t zeros;  /* number of keys that are 0 */
    size_t chunk;
} problem;

enum { Q, K, V, BETA, LAMBDA, ARRAYS };

/* One sequence, in layout HEADS_FIRST. Numbers are floats that are stored as doubles. */
typedef struct data {
    const problem *p;
    size_t count[ARRAYS], outs;
    double *in[ARRAYS], *dout;
} data;

static double *doubles_of(size_t count)
{
    double *out = calloc(count + 1, sizeof *out);
    assert_non_null(out);
    return out;
}

static float *floats_of(size_t count, const double *from)
{
    float *out = calloc(count + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; from && i < count; i++) out[i] = (float)from[i];
    return out;
}

static data make_data(const problem *p, uint64_t seed)
{
    data d = {.p = p, .outs = p->heads * p->queries * p->values};
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.ridge-pool", 0));
    d.count[Q] = p->heads * p->queries * p->dim;
    d.count[K] = p->key_heads * p->keys * p->dim;
    d.count[V] = p->key_heads * p->keys * p->values;
    d.count[BETA] = p->weighed ? p->key_heads * p->keys : 0;
    d.count[LAMBDA] = p->key_heads * p->dim;
    for (int a = 0; a < ARRAYS; a++) {
        d.in[a] = doubles_of(d.count[a]);
        for (size_t i = 0; i < d.count[a]; i++)
            d.in[a][i] = a < BETA ? bo_rng_normal(&rng) : 0.2 + 1.8 * bo_rng_uniform(&rng);
    }
    for (size_t i = 0; p->lambda > 0 && i < d.count[LAMBDA]; i++) d.in[LAMBDA][i] = p->lambda;
    for (size_t i = 0; i < p->zeros * p->dim; i++) d.in[K][i] = 0;
    d.dout = doubles_of(d.outs);
    for (size_t i = 0; i < d.outs; i++) d.dout[i] = (double)(float)bo_rng_normal(&rng);
    for (int a = 0; a < ARRAYS; a++)
        for (size_t i = 0; i < d.count[a]; i++) d.in[a][i] = (double)(float)d.in[a][i];
    return d;
}

static void discard(data *d)
{
    for (int a = 0; a < ARRAYS; a++) free(d->in[a]);
    free(d->dout);
}

/* ---- references -------------------------------------------------------------------------------------------------- */

/* Solves a x = b (n x n, `columns` right-hand sides, overwritten) by elimination with partial pivoting. */
static void eliminate(size_t n, size_t columns, double *a, double *b)
{
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if (fabs(a[i * n + c]) > fabs(a[pivot * n + c])) pivot = i;
        for (size_t j = 0; j < n; j++) {
            double saved = a[c * n + j];
            a[c * n + j] = a[pivot * n + j], a[pivot * n + j] = saved;
        }
        for (size_t j = 0; j < columns; j++) {
            double saved = b[c * columns + j];
            b[c * columns + j] = b[pivot * columns + j], b[pivot * columns + j] = saved;
        }
        for (size_t i = 0; i < n; i++) {
            if (i == c) continue;
            double factor = a[i * n + c] / a[c * n + c];
            for (size_t j = c; j < n; j++) a[i * n + j] -= factor * a[c * n + j];
            for (size_t j = 0; j < columns; j++) b[i * columns + j] -= factor * b[c * columns + j];
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < columns; j++) b[i * columns + j] /= a[i * n + i];
}

/* W = (Λ + Aᵀ diag(β) A)⁻¹ Aᵀ diag(β) B of one key head. */
static void primal(const data *d, size_t head, double *w)
{
    const problem *p = d->p;
    size_t dim = p->dim, values = p->values;
    double *h = doubles_of(dim * dim);
    memset(w, 0, dim * values * sizeof *w);
    for (size_t i = 0; i < dim; i++) h[i * dim + i] = d->in[LAMBDA][head * dim + i];
    for (size_t t = 0; t < p->keys; t++) {
        const double *k = d->in[K] + (head * p->keys + t) * dim, *v = d->in[V] + (head * p->keys + t) * values;
        double beta = p->weighed ? d->in[BETA][head * p->keys + t] : 1;
        for (size_t i = 0; i < dim; i++) {
            for (size_t j = 0; j < dim; j++) h[i * dim + j] += beta * k[i] * k[j];
            for (size_t j = 0; j < values; j++) w[i * values + j] += beta * k[i] * v[j];
        }
    }
    eliminate(dim, values, h, w);
    free(h);
}

/* W = Aᵀ (A Aᵀ + λI)⁻¹ B: the same for one λ and without β. */
static void dual(const data *d, size_t head, double *w)
{
    const problem *p = d->p;
    size_t dim = p->dim, values = p->values, n = p->keys;
    const double *a = d->in[K] + head * n * dim;
    double *gram = doubles_of(n * n), *x = doubles_of(n * values);
    for (size_t s = 0; s < n; s++)
        for (size_t t = 0; t < n; t++) {
            gram[s * n + t] = s == t ? d->in[LAMBDA][0] : 0;
            for (size_t i = 0; i < dim; i++) gram[s * n + t] += a[s * dim + i] * a[t * dim + i];
        }
    memcpy(x, d->in[V] + head * n * values, n * values * sizeof *x);
    eliminate(n, values, gram, x);
    memset(w, 0, dim * values * sizeof *w);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < dim; i++)
            for (size_t j = 0; j < values; j++) w[i * values + j] += a[t * dim + i] * x[t * values + j];
    free(gram), free(x);
}

typedef void reference(const data *d, size_t head, double *w);

static double *expected(const data *d, reference *weights)
{
    const problem *p = d->p;
    size_t group = p->heads / p->key_heads;
    double *w = doubles_of(p->dim * p->values), *out = doubles_of(d->outs);
    for (size_t head = 0; head < p->heads; head++) {
        if (head % group == 0) weights(d, head / group, w);
        for (size_t t = 0; t < p->queries; t++)
            for (size_t j = 0; j < p->values; j++)
                for (size_t i = 0; i < p->dim; i++)
                    out[(head * p->queries + t) * p->values + j] +=
                        w[i * p->values + j] * d->in[Q][(head * p->queries + t) * p->dim + i];
    }
    free(w);
    return out;
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

typedef struct run {
    bo_attention *attention;
    bo_attention_shape shape;
    bo_attention_inputs inputs;
    float *in[ARRAYS], *out;
    void *tape;
    bo_solves solves;
} run;

static run *run_open(bo_context *context, const data *d, bool causal)
{
    const problem *p = d->p;
    run *r = calloc(1, sizeof *r);
    bo_attention_desc desc = {.kind = BO_ATTENTION_RIDGE,
                              .heads = p->heads,
                              .key_heads = p->key_heads,
                              .dim = p->dim,
                              .value_dim = p->values,
                              .causal = causal,
                              .chunk = p->chunk};
    assert_ok(context, bo_attention_create(context, &desc, &r->attention));
    r->shape = (bo_attention_shape){.sequences = 1, .tokens = p->queries, .key_tokens = p->keys};
    for (int a = 0; a < ARRAYS; a++) r->in[a] = floats_of(d->count[a], d->in[a]);
    r->inputs = (bo_attention_inputs){.q = r->in[Q],
                                      .k = r->in[K],
                                      .v = r->in[V],
                                      .beta = p->weighed ? r->in[BETA] : NULL,
                                      .lambda = r->in[LAMBDA],
                                      .solves = &r->solves};
    r->out = floats_of(d->outs, NULL);
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, r->attention, &r->shape, &bytes));
    r->tape = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(context,
              bo_attention_forward_arrays(context, r->attention, &r->shape, &r->inputs, NULL, NULL, r->out, r->tape));
    return r;
}

static void run_close(run *r)
{
    bo_attention_destroy(r->attention);
    for (int a = 0; a < ARRAYS; a++) free(r->in[a]);
    free(r->out), free(r->tape), free(r);
}

/* Compares with a tolerance relative to the largest number. */
static void compare(const char *name, const char *what, size_t count, const float *found, const double *correct,
                    double tolerance)
{
    double largest = 0, off = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(correct[i]));
        off = fmax(off, fabs((double)found[i] - correct[i]));
    }
    if (!(off <= tolerance * largest)) fail_msg("%s: %s is off by %g of %g", name, what, off, largest);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* Sums and products are in double, so that the error is the rounding of outputs to float32: 2^-24 of each number. */
static const problem problems[] = {
    {"one token", 1, 1, 1, 1, 1, 1, .lambda = 1},
    {"fewer keys than dimensions", 2, 2, 17, 9, 5, 3, .lambda = 0.3},
    {"fewer queries than keys", 2, 1, 7, 5, 3, 131, .lambda = 2},
    {"odd sizes, chunks", 6, 2, 13, 11, 37, 71, .chunk = 7, .weighed = true},
    {"a lambda for each dimension", 3, 3, 33, 31, 70, 65, .weighed = true},
    {"keys of zero", 2, 2, 8, 8, 9, 20, .lambda = 0.5, .zeros = 20},
    {"no key but zero", 1, 1, 6, 4, 5, 12, .lambda = 0.5, .zeros = 12},
    {"a tiny lambda", 2, 1, 16, 8, 40, 100, .lambda = 1e-8},
    {"a tiny lambda, fewer keys than dimensions", 1, 1, 40, 8, 10, 12, .lambda = 1e-9},
    {"a large lambda", 1, 1, 16, 8, 40, 100, .lambda = 1e6},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static void outputs_match_a_dense_solve(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < PROBLEMS; i++) {
        const problem *p = &problems[i];
        data d = make_data(p, i + 1);
        run *r = run_open(context, &d, false);
        /* The normal equations of the primal reference square the condition number of the keys; the dual form of few
         * keys does not. */
        bool few = p->keys < p->dim && !p->weighed && p->lambda > 0;
        double *correct = expected(&d, few ? dual : primal);
        compare(p->name, "out", d.outs, r->out, correct, p->lambda > 0 && p->lambda < 1e-6 ? 1e-6 : 2e-7);
        assert_int_equal(r->solves.systems, p->key_heads * p->values);
        assert_int_equal(r->solves.iterations + r->solves.refactored, 0);
        free(correct);
        run_close(r);
        discard(&d);
    }
    bo_context_destroy(context);
}

/* (λI + AᵀA)⁻¹AᵀB = Aᵀ(AAᵀ + λI)⁻¹B, for more and for fewer keys than dimensions. */
static void outputs_match_the_dual(void **state)
{
    (void)state;
    static const problem both[] = {{"more keys", 2, 1, 9, 6, 20, 45, .lambda = 0.4},
                                   {"fewer keys", 2, 2, 45, 6, 20, 9, .lambda = 0.4}};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2; i++) {
        data d = make_data(&both[i], i + 20);
        run *r = run_open(context, &d, false);
        double *of_dual = expected(&d, dual), *of_primal = expected(&d, primal);
        for (size_t j = 0; j < d.outs; j++) assert_close(of_dual[j], of_primal[j], 1e-10);
        compare(both[i].name, "out", d.outs, r->out, of_dual, 2e-7);
        free(of_dual), free(of_primal);
        run_close(r);
        discard(&d);
    }
    bo_context_destroy(context);
}

/* The output of the last query of the pool of the first t tokens equals the output of token t of the causal form. */
static void the_last_token_matches_the_causal_form(void **state)
{
    (void)state;
    enum { TOKENS = 21 };
    problem p = {"prefix", 1, 1, 5, 4, TOKENS, TOKENS, .weighed = true};
    bo_context *context = test_context(1);
    data d = make_data(&p, 30);
    run *causal = run_open(context, &d, true), *pool = run_open(context, &d, false);
    double row[4];
    for (size_t t = 1; t <= TOKENS; t++) {
        pool->shape.tokens = pool->shape.key_tokens = t;
        assert_ok(context, bo_attention_forward_arrays(context, pool->attention, &pool->shape, &pool->inputs, NULL,
                                                       NULL, pool->out, NULL));
        for (size_t j = 0; j < p.values; j++) row[j] = (double)causal->out[(t - 1) * p.values + j];
        compare(p.name, "the last row", p.values, pool->out + (t - 1) * p.values, row, 1e-6);
    }
    run_close(causal), run_close(pool);
    discard(&d);
    bo_context_destroy(context);
}

static void the_order_of_the_pairs_does_not_matter(void **state)
{
    (void)state;
    static const problem p = {"permuted", 1, 1, 12, 7, 30, 101, .weighed = true, .chunk = 16};
    bo_context *context = test_context(1);
    data d = make_data(&p, 40);
    run *r = run_open(context, &d, false);
    double *before = doubles_of(d.outs);
    for (size_t i = 0; i < d.outs; i++) before[i] = (double)r->out[i];
    for (size_t t = 0; t < p.keys; t++) { /* 37 is prime to 101 */
        size_t from = (37 * t + 5) % p.keys;
        for (size_t i = 0; i < p.dim; i++) r->in[K][t * p.dim + i] = (float)d.in[K][from * p.dim + i];
        for (size_t i = 0; i < p.values; i++) r->in[V][t * p.values + i] = (float)d.in[V][from * p.values + i];
        r->in[BETA][t] = (float)d.in[BETA][from];
    }
    assert_ok(context,
              bo_attention_forward_arrays(context, r->attention, &r->shape, &r->inputs, NULL, NULL, r->out, NULL));
    compare(p.name, "out", d.outs, r->out, before, 2e-7);
    free(before);
    run_close(r);
    discard(&d);
    bo_context_destroy(context);
}

/* Packed sequences, one without keys: each is bit-identical to a separate call. */
static void sequences_do_not_mix(void **state)
{
    (void)state;
    static const size_t queries[3] = {9, 4, 20}, keys[3] = {30, 0, 3};
    problem p = {"packed", 1, 1, 6, 5, 33, 33, .lambda = 0.7};
    bo_context *context = test_context(3);
    data d = make_data(&p, 50);
    run *r = run_open(context, &d, false);
    float *together = floats_of(d.outs, NULL);
    bo_attention_shape packed = {.sequences = 3, .lengths = queries, .key_lengths = keys};
    assert_ok(context,
              bo_attention_forward_arrays(context, r->attention, &packed, &r->inputs, NULL, NULL, together, NULL));
    for (size_t s = 0, q = 0, k = 0; s < 3; q += queries[s], k += keys[s], s++) {
        bo_attention_shape separate = {.sequences = 1, .lengths = queries + s, .key_lengths = keys + s};
        bo_attention_inputs in = {.q = r->in[Q] + q * p.dim,
                                  .k = r->in[K] + k * p.dim,
                                  .v = r->in[V] + k * p.values,
                                  .lambda = r->in[LAMBDA]};
        assert_ok(context,
                  bo_attention_forward_arrays(context, r->attention, &separate, &in, NULL, NULL, r->out, NULL));
        assert_memory_equal(r->out, together + q * p.values, queries[s] * p.values * sizeof *together);
        for (size_t i = 0; keys[s] == 0 && i < queries[s] * p.values; i++) assert_true(r->out[i] == 0);
    }
    free(together);
    run_close(r);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static double loss(const data *d)
{
    double sum = 0, *out = expected(d, primal);
    for (size_t i = 0; i < d->outs; i++) sum += d->dout[i] * out[i];
    free(out);
    return sum;
}

/* Central differences of the reference: the error is h² times a third derivative, and 1e-16 of the loss over h = 1e-5.
 */
static void gradients_are_differences(void **state)
{
    (void)state;
    static const problem small[] = {{"self", 4, 2, 5, 3, 8, 8, .weighed = true, .chunk = 3},
                                    {"cross", 2, 1, 4, 6, 3, 11, .weighed = true},
                                    {"few keys", 1, 1, 7, 2, 6, 2, .weighed = true}};
    static const char *const names[] = {"dq", "dk", "dv", "dbeta", "dlambda"};
    const double h = 1e-5;
    bo_context *context = test_context(2);
    for (size_t n = 0; n < sizeof small / sizeof *small; n++) {
        data d = make_data(&small[n], n + 60);
        run *r = run_open(context, &d, false);
        float *dout = floats_of(d.outs, d.dout), *found[ARRAYS];
        for (int a = 0; a < ARRAYS; a++) found[a] = floats_of(d.count[a], NULL);
        bo_attention_gradients to = {
            .q = found[Q], .k = found[K], .v = found[V], .beta = found[BETA], .lambda = found[LAMBDA]};
        assert_ok(context, bo_attention_backward_arrays(context, r->attention, &r->shape, &r->inputs, NULL, r->out,
                                                        r->tape, dout, NULL, &to));
        for (int a = 0; a < ARRAYS; a++) {
            double *correct = doubles_of(d.count[a]);
            for (size_t i = 0; i < d.count[a]; i++) {
                double saved = d.in[a][i], above;
                d.in[a][i] = saved + h, above = loss(&d);
                d.in[a][i] = saved - h, correct[i] = (above - loss(&d)) / (2 * h);
                d.in[a][i] = saved;
            }
            compare(small[n].name, names[a], d.count[a], found[a], correct, 1e-6);
            free(correct), free(found[a]);
        }
        free(dout);
        run_close(r);
        discard(&d);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_match_a_dense_solve),
        cmocka_unit_test(outputs_match_the_dual),
        cmocka_unit_test(the_last_token_matches_the_causal_form),
        cmocka_unit_test(the_order_of_the_pairs_does_not_matter),
        cmocka_unit_test(sequences_do_not_mix),
        cmocka_unit_test(gradients_are_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
