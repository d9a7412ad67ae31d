/* Tests of the reference for GLA, DELTA and RIDGE: its gradients are the derivatives of its outputs, and ridge
 * attention is ridge regression. */
#include "oracle_memory.h"

enum { GROUP = 2, TOKENS = 5, DIM = 3, VALUE = 2 };

typedef struct case_of {
    const char *name;
    bo_attention_kind kind;
    bool gate, unit, plain, read_only; /* plain: beta and lambda are not given */
} case_of;

static const case_of cases[] = {
    {"gla", BO_ATTENTION_GLA, .gate = true},
    {"gla of unit keys", BO_ATTENTION_GLA, .gate = true, .unit = true},
    {"gla read only", BO_ATTENTION_GLA, .gate = true, .read_only = true},
    {.name = "delta", .kind = BO_ATTENTION_DELTA},
    {"delta of unit keys", BO_ATTENTION_DELTA, .unit = true, .plain = true},
    {"gated delta", BO_ATTENTION_DELTA, .gate = true, .unit = true},
    {.name = "ridge", .kind = BO_ATTENTION_RIDGE},
    {"ridge, plain", BO_ATTENTION_RIDGE, .plain = true},
    {"ridge read only", BO_ATTENTION_RIDGE, .read_only = true},
    {"gated ridge", BO_ATTENTION_RIDGE, .gate = true},
    {"gated ridge of unit keys", BO_ATTENTION_RIDGE, .gate = true, .unit = true},
};

/* All values that the loss depends on, concatenated so that they can be perturbed by index. */
typedef struct numbers {
    double q[GROUP * TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * VALUE], log_gate[TOKENS * DIM], beta[TOKENS];
    double lambda[DIM], s0[DIM * VALUE], h0[DIM * DIM];
} numbers;

typedef struct problem {
    memory_head head;
    bo_attention_desc desc;
    numbers in, gradient;
    double out[GROUP * TOKENS * VALUE], dout[GROUP * TOKENS * VALUE];
    double s_final[DIM * VALUE], h_final[DIM * DIM], ds_final[DIM * VALUE], dh_final[DIM * DIM];
} problem;

static void fill(bo_rng *rng, double *array, size_t count, double mean, double deviation)
{
    for (size_t i = 0; i < count; i++) array[i] = mean + deviation * bo_rng_normal(rng);
}

static void fill_problem(problem *p)
{
    bo_rng rng = bo_rng_make(7, bo_rng_stream("test.oracle.memory", 0));
    numbers *in = &p->in;
    fill(&rng, in->q, GROUP * TOKENS * DIM, 0, 0.7);
    fill(&rng, in->k, TOKENS * DIM, 0, 0.7);
    fill(&rng, in->v, TOKENS * VALUE, 0, 1);
    for (size_t i = 0; i < TOKENS * DIM; i++) in->log_gate[i] = -0.05 - 0.6 * bo_rng_uniform(&rng);
    for (size_t i = 0; i < TOKENS; i++) in->beta[i] = 0.2 + bo_rng_uniform(&rng);
    for (size_t i = 0; i < DIM; i++) in->lambda[i] = 0.3 + bo_rng_uniform(&rng);
    fill(&rng, in->s0, DIM * VALUE, 0, 0.4);
    fill(&rng, in->h0, DIM * DIM, 0, 0.1);
    for (size_t i = 0; i < DIM; i++) in->h0[i * DIM + i] += 1;
    fill(&rng, p->dout, GROUP * TOKENS * VALUE, 0, 1);
    fill(&rng, p->ds_final, DIM * VALUE, 0, 0.3);
    fill(&rng, p->dh_final, DIM * DIM, 0, 0.3);
}

static void make_problem(const case_of *c, problem *p)
{
    memset(p, 0, sizeof *p);
    fill_problem(p);
    p->desc = (bo_attention_desc){
        .kind = c->kind, .heads = GROUP, .key_heads = 1, .dim = DIM, .value_dim = VALUE, .scale = 0.6, .unit = c->unit};
    bool beta = !c->plain && c->kind != BO_ATTENTION_GLA, ridge = c->kind == BO_ATTENTION_RIDGE;
    numbers *in = &p->in, *d = &p->gradient;
    p->head = (memory_head){.desc = &p->desc,
                            .group = GROUP,
                            .queries = TOKENS,
                            .keys = c->read_only ? 0 : TOKENS,
                            .q = in->q,
                            .k = in->k,
                            .v = in->v,
                            .log_gate = c->gate ? in->log_gate : NULL,
                            .beta = beta ? in->beta : NULL,
                            .lambda = ridge && !c->plain ? in->lambda : NULL,
                            .s0 = in->s0,
                            .h0 = in->h0,
                            .out = p->out,
                            .s_final = p->s_final,
                            .h_final = ridge ? p->h_final : NULL,
                            .dout = p->dout,
                            .ds_final = p->ds_final,
                            .dh_final = ridge ? p->dh_final : NULL,
                            .dq = d->q,
                            .dk = d->k,
                            .dv = d->v,
                            .dlog_gate = c->gate ? d->log_gate : NULL,
                            .dbeta = beta ? d->beta : NULL,
                            .dlambda = ridge && !c->plain ? d->lambda : NULL,
                            .ds0 = d->s0,
                            .dh0 = ridge ? d->h0 : NULL};
}

static double loss(problem *p)
{
    memory_head forward = p->head;
    forward.dq = NULL;
    memory_compute(&forward);
    return oracle_dot(GROUP * TOKENS * VALUE, p->out, p->dout) + oracle_dot(DIM * VALUE, p->s_final, p->ds_final) +
           oracle_dot(DIM * DIM, p->h_final, p->dh_final);
}

/* Central differences with h = 1e-5: h² f'''/6 and 1e-16/h of rounding are both near 1e-10 for values of order one. */
static void gradients_are_derivatives(void **state)
{
    (void)state;
    problem *p = malloc(sizeof *p);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        make_problem(&cases[n], p);
        memory_compute(&p->head);
        double *x = (double *)&p->in, *g = (double *)&p->gradient;
        size_t used = 0;
        for (size_t i = 0; i < sizeof(numbers) / sizeof(double); i++) {
            double at = x[i], h = 1e-5;
            x[i] = at + h;
            double above = loss(p);
            x[i] = at - h;
            double slope = (above - loss(p)) / (2 * h);
            x[i] = at;
            used += slope != 0;
            if (!(fabs(slope - g[i]) <= 1e-7 * (1 + fabs(slope))))
                fail_msg("%s: number %zu has slope %.12g, gradient %.12g", cases[n].name, i, slope, g[i]);
        }
        assert_true(used >= GROUP * TOKENS * DIM);
    }
    free(p);
}

/* Without a gate o_t = Wᵀq with the W that minimizes Σ β_j |v_j - Wᵀk_j|² + Σ_i λ_i |W_i|²: its gradient there is 0. */
static void ridge_minimizes_its_objective(void **state)
{
    (void)state;
    problem *p = malloc(sizeof *p);
    make_problem(&cases[6], p);
    memset(p->in.s0, 0, sizeof p->in.s0);
    memset(p->in.h0, 0, sizeof p->in.h0);
    double w[DIM * VALUE];
    for (size_t i = 0; i < DIM; i++) { /* the last query reads each row of W in turn */
        memory_head last = p->head;
        for (size_t c = 0; c < DIM; c++) p->in.q[(TOKENS - 1) * DIM + c] = i == c;
        last.dq = NULL;
        memory_compute(&last);
        for (size_t c = 0; c < VALUE; c++) w[i * VALUE + c] = p->out[(TOKENS - 1) * VALUE + c];
    }
    for (size_t i = 0; i < DIM; i++)
        for (size_t c = 0; c < VALUE; c++) {
            double slope = p->in.lambda[i] * w[i * VALUE + c];
            for (size_t t = 0; t < TOKENS; t++) {
                double error = -p->in.v[t * VALUE + c];
                for (size_t j = 0; j < DIM; j++) error += p->in.k[t * DIM + j] * w[j * VALUE + c];
                slope += p->in.beta[t] * p->in.k[t * DIM + i] * error;
            }
            assert_close(slope, 0, 1e-12);
        }
    free(p);
}

/* With β = 1 and |k| = 1 the key of the last token retrieves its value, for any earlier state. */
static void delta_stores_the_given_values(void **state)
{
    (void)state;
    problem *p = malloc(sizeof *p);
    make_problem(&cases[3], p);
    for (size_t t = 0; t < TOKENS; t++) {
        double *k = p->in.k + t * DIM, norm = sqrt(oracle_dot(DIM, k, k));
        p->in.beta[t] = 1;
        for (size_t i = 0; i < DIM; i++) p->in.q[t * DIM + i] = k[i] /= norm;
    }
    memory_compute(&p->head);
    for (size_t i = 0; i < TOKENS * VALUE; i++) assert_close(p->out[i], 0.6 * p->in.v[i], 1e-12);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives),
        cmocka_unit_test(ridge_minimizes_its_objective),
        cmocka_unit_test(delta_stores_the_given_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
