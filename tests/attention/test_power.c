/* Powers |s q·k|^p compared with direct sums in double: fractional and large p, products that are 0, windows, states,
 * and gradients by central differences. */
#include "attention/attention.h"
#include "testing.h"
#include "base/rng.h"

enum { HEADS = 2, TOKENS = 37, DIM = 5, VALUES = 3, QK = HEADS * TOKENS * DIM, V = HEADS * TOKENS * VALUES };

typedef struct problem {
    double q[QK], k[QK], v[V];
    double power, scale;
    size_t window;
} problem;

static void fill(problem *p, double power, size_t window)
{
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.power", (uint64_t)(power * 16) + window));
    *p = (problem){.power = power, .scale = 0.4, .window = window};
    for (size_t i = 0; i < QK; i++) p->q[i] = (double)(float)bo_rng_normal(&rng);
    for (size_t i = 0; i < QK; i++) p->k[i] = (double)(float)bo_rng_normal(&rng);
    for (size_t i = 0; i < V; i++) p->v[i] = (double)(float)bo_rng_normal(&rng);
    for (size_t j = 0; j < DIM; j++) p->k[3 * DIM + j] = p->q[7 * DIM + j] = p->k[j] = 0; /* weights of 0 */
}

/* Causal, (heads, tokens, …). */
static void plain(const problem *p, double *out)
{
    for (size_t row = 0; row < HEADS * TOKENS; row++) {
        size_t head = row / TOKENS, i = row % TOKENS, first = p->window && i + 1 > p->window ? i + 1 - p->window : 0;
        double sum = 0, n[VALUES] = {0};
        for (size_t j = first; j <= i; j++) {
            double x = 0;
            for (size_t c = 0; c < DIM; c++) x += p->q[row * DIM + c] * p->k[(head * TOKENS + j) * DIM + c];
            double a = x == 0 ? 0 : pow(fabs(p->scale * x), p->power);
            sum += a;
            for (size_t c = 0; c < VALUES; c++) n[c] += a * p->v[(head * TOKENS + j) * VALUES + c];
        }
        for (size_t c = 0; c < VALUES; c++) out[row * VALUES + c] = sum > 0 ? n[c] / sum : 0;
    }
}

static void to_float(size_t n, const double *from, float *to)
{
    for (size_t i = 0; i < n; i++) to[i] = (float)from[i];
}

typedef struct trial {
    bo_context *context;
    bo_attention *attention;
    float q[QK], k[QK], v[V], out[V];
} trial;

static trial *begin(const problem *p)
{
    trial *t = calloc(1, sizeof *t);
    t->context = test_context(2);
    bo_attention_desc desc = {.kind = BO_ATTENTION_POWER,
                              .heads = HEADS,
                              .dim = DIM,
                              .value_dim = VALUES,
                              .causal = true,
                              .scale = p->scale,
                              .power = p->power,
                              .window = p->window};
    assert_ok(t->context, bo_attention_create(t->context, &desc, &t->attention));
    to_float(QK, p->q, t->q), to_float(QK, p->k, t->k), to_float(V, p->v, t->v);
    return t;
}

static void end(trial *t)
{
    bo_attention_destroy(t->attention);
    bo_context_destroy(t->context);
    free(t);
}

static const bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS};
static const double powers[] = {0.5, 1, 2, 2.5, 3, 8};

static void outputs_are_weighted_means(void **state)
{
    (void)state;
    for (size_t i = 0; i < 12; i++) {
        problem p;
        double expected[V];
        fill(&p, powers[i / 2], i % 2 * 9);
        plain(&p, expected);
        trial *t = begin(&p);
        bo_attention_inputs in = {.q = t->q, .k = t->k, .v = t->v};
        assert_ok(t->context,
                  bo_attention_forward_arrays(t->context, t->attention, &shape, &in, NULL, NULL, t->out, NULL));
        for (size_t c = 0; c < V; c++) assert_close(t->out[c], expected[c], 1e-5);
        end(t);
    }
}

static void steps_agree_with_the_forward_pass(void **state)
{
    (void)state;
    problem p;
    double expected[V];
    fill(&p, 2.5, 0);
    plain(&p, expected);
    trial *t = begin(&p);
    void *memory = malloc(bo_attention_state_bytes(t->attention));
    assert_ok(t->context, bo_attention_state_init(t->context, t->attention, memory));
    for (size_t i = 0; i < TOKENS; i++) {
        float q[HEADS * DIM], k[HEADS * DIM], v[HEADS * VALUES], out[HEADS * VALUES];
        for (size_t h = 0; h < HEADS; h++) {
            memcpy(q + h * DIM, t->q + (h * TOKENS + i) * DIM, DIM * sizeof *q);
            memcpy(k + h * DIM, t->k + (h * TOKENS + i) * DIM, DIM * sizeof *k);
            memcpy(v + h * VALUES, t->v + (h * TOKENS + i) * VALUES, VALUES * sizeof *v);
        }
        bo_attention_inputs in = {.q = q, .k = k, .v = v};
        assert_ok(t->context, bo_attention_step(t->context, t->attention, 1, &in, &memory, out));
        for (size_t c = 0; c < HEADS * VALUES; c++)
            assert_close(out[c], expected[(c / VALUES * TOKENS + i) * VALUES + c % VALUES], 1e-5);
    }
    free(memory);
    end(t);
}

/* L = Σ c·out, and its derivative with respect to one number of the problem. */
static double slope(problem *p, double *number, const float *c)
{
    double h = 1e-5, at = *number, above[V], below[V], sum = 0;
    *number = at + h, plain(p, above);
    *number = at - h, plain(p, below);
    *number = at;
    for (size_t i = 0; i < V; i++) sum += (double)c[i] * (above[i] - below[i]) / (2 * h);
    return sum;
}

static void gradients_are_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        problem p;
        fill(&p, powers[2 + i / 2], i % 2 * 9); /* for p < 2 the derivative at 0 does not exist or is one-sided */
        trial *t = begin(&p);
        bo_attention_inputs in = {.q = t->q, .k = t->k, .v = t->v};
        float c[V], dq[QK], dk[QK], dv[V];
        bo_rng rng = bo_rng_make(4, 5);
        for (size_t j = 0; j < V; j++) c[j] = (float)bo_rng_normal(&rng);
        size_t bytes;
        assert_ok(t->context, bo_attention_tape_bytes(t->context, t->attention, &shape, &bytes));
        void *tape = malloc(bytes);
        assert_ok(t->context,
                  bo_attention_forward_arrays(t->context, t->attention, &shape, &in, NULL, NULL, t->out, tape));
        bo_attention_gradients g = {.q = dq, .k = dk, .v = dv};
        assert_ok(t->context,
                  bo_attention_backward_arrays(t->context, t->attention, &shape, &in, NULL, t->out, tape, c, NULL, &g));
        for (size_t j = 0; j < QK; j++) {
            if (j / DIM == 7) continue; /* a zero query: all weights are 0, but not after a small change */
            assert_close(dq[j], slope(&p, &p.q[j], c), 1e-3);
            /* the first token has only key 0, whose weight cancels */
            if (j / DIM != 0) assert_close(dk[j], slope(&p, &p.k[j], c), 1e-3);
        }
        for (size_t j = 0; j < V; j++) assert_close(dv[j], slope(&p, &p.v[j], c), 1e-4);
        for (size_t j = 7 * DIM; j < 8 * DIM; j++) assert_true(dq[j] == 0);
        free(tape);
        end(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_weighted_means),
        cmocka_unit_test(steps_agree_with_the_forward_pass),
        cmocka_unit_test(gradients_are_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
