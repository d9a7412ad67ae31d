/* Tests of the reference: its features are those of features.h, and its gradients are the derivatives of its
 * outputs. */
#include "oracle.h"

enum { GROUP = 2, QUERIES = 4, PAST = 2, DIM = 3, VALUE = 2, COUNT = 16 };

typedef struct case_of {
    const char *name;
    bo_attention_kind kind;
    bo_kernel kernel;
    bo_function function;
    bo_gate gate;
    bo_normalizer normalizer;
    bool causal, initial;
    double clamp;
    size_t window, rank, past;
    double power;
    bool one_map; /* keys share W and b with the queries */
} case_of;

static const case_of cases[] = {
    {.name = "softmax", .kind = BO_ATTENTION_SOFTMAX},
    {.name = "softmax causal", .kind = BO_ATTENTION_SOFTMAX, .causal = true, .past = PAST},
    {.name = "softmax window", .kind = BO_ATTENTION_SOFTMAX, .causal = true, .window = 2, .past = PAST},
    {"favor", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .causal = true, .initial = true},
    {"favor both ways", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .initial = true},
    {"hyperbolic", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC, .causal = true},
    {"oprf", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_OPRF, BO_GATE_DECAY, .causal = true, .initial = true},
    {"sin/cos of softmax", BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, .causal = true},
    {"rfa", BO_ATTENTION_RFA, BO_KERNEL_RBF, BO_FUNCTION_SINCOS, .causal = true},
    {"rfa-gate", BO_ATTENTION_RFA, BO_KERNEL_RBF, BO_FUNCTION_SINCOS, BO_GATE_CONVEX, .causal = true, .initial = true},
    {"rfa arc-cosine", BO_ATTENTION_RFA, BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, BO_GATE_DECAY, .causal = true},
    {"dark", BO_ATTENTION_DARK, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .causal = true, .rank = DIM},
    {"dark low rank", BO_ATTENTION_DARK, BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC, BO_GATE_CONVEX, .causal = true,
     .initial = true, .rank = 2},
    {"linear elu", BO_ATTENTION_LINEAR, BO_KERNEL_ELU, BO_FUNCTION_ELU, .causal = true, .initial = true},
    {"linear taylor, not divided", BO_ATTENTION_LINEAR, BO_KERNEL_TAYLOR, BO_FUNCTION_TAYLOR, BO_GATE_DECAY,
     BO_NORMALIZER_NONE, .causal = true, .initial = true},
    {"linear relu, clamped", BO_ATTENTION_LINEAR, BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, .causal = true, .clamp = 0.3},
    {"hybrid", BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .causal = true, .window = 2, .past = PAST,
     .initial = true},
    {"hybrid with M", BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .causal = true, .window = 2,
     .past = PAST, .initial = true, .rank = DIM},
    {"hybrid, decay", BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_GATE_DECAY, .causal = true,
     .window = 2, .past = PAST, .initial = true},
    {"hybrid, convex", BO_ATTENTION_HYBRID, BO_KERNEL_ELU, BO_FUNCTION_ELU, BO_GATE_CONVEX, .causal = true, .window = 2,
     .past = PAST, .initial = true},
    {"hybrid with M of low rank", BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, .causal = true,
     .window = 1, .rank = 2},
    {.name = "power", .kind = BO_ATTENTION_POWER, .power = 2},
    {.name = "power, causal", .kind = BO_ATTENTION_POWER, .power = 3.3, .causal = true, .past = PAST},
    {.name = "power, window", .kind = BO_ATTENTION_POWER, .power = 1.6, .causal = true, .window = 2},
    {"linear cosh", BO_ATTENTION_LINEAR, BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL, .causal = true, .initial = true},
    {"hedgehog", BO_ATTENTION_LEARNED, BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL, BO_GATE_CONVEX, .causal = true,
     .initial = true, .rank = DIM},
    {"hedgehog, one map", BO_ATTENTION_LEARNED, BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL, .rank = 2, .one_map = true},
    {"hedgehog by softmax", BO_ATTENTION_LEARNED, BO_KERNEL_HEDGEHOG, BO_FUNCTION_HEDGEHOG, .causal = true,
     .rank = DIM},
    {"t2r", BO_ATTENTION_LEARNED, BO_KERNEL_RECTIFIER, BO_FUNCTION_RECTIFIER, .causal = true, .rank = DIM},
    {"t2r, not divided", BO_ATTENTION_LEARNED, BO_KERNEL_RECTIFIER, BO_FUNCTION_RECTIFIER, BO_GATE_DECAY,
     BO_NORMALIZER_NONE, .causal = true, .rank = 2, .one_map = true},
    {"hybrid of hedgehog", BO_ATTENTION_HYBRID, BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL, .causal = true, .window = 2,
     .past = PAST, .initial = true, .rank = DIM},
    {"hybrid of t2r", BO_ATTENTION_HYBRID, BO_KERNEL_RECTIFIER, BO_FUNCTION_RECTIFIER, .causal = true, .window = 1,
     .rank = 2},
    {"hybrid of another kernel", BO_ATTENTION_HYBRID, BO_KERNEL_ELU, BO_FUNCTION_ELU, .causal = true, .window = 1},
};

/* All values that the loss depends on, concatenated so that they can be perturbed by index. */
typedef struct numbers {
    double q[GROUP * QUERIES * DIM], k[(QUERIES + PAST) * DIM], v[(QUERIES + PAST) * VALUE], log_gate[QUERIES + PAST];
    double sigma[DIM], m[DIM * DIM], mix[GROUP], s0[16 * VALUE], z0[16], m_k[DIM * DIM], bias[DIM], bias_k[DIM];
} numbers;

typedef struct problem {
    oracle_head head;
    bo_attention_desc desc;
    bo_features *features;
    numbers in, gradient;
    double out[GROUP * QUERIES * VALUE], dout[GROUP * QUERIES * VALUE];
    double s_final[16 * VALUE], z_final[16], ds_final[16 * VALUE], dz_final[16];
} problem;

static void fill(bo_rng *rng, double *array, size_t count, double mean, double deviation)
{
    for (size_t i = 0; i < count; i++) array[i] = mean + deviation * bo_rng_normal(rng);
}

static void fill_problem(problem *p)
{
    bo_rng rng = bo_rng_make(7, bo_rng_stream("test.oracle", 0));
    numbers *in = &p->in;
    fill(&rng, in->q, GROUP * QUERIES * DIM, 0, 0.5);
    fill(&rng, in->k, (QUERIES + PAST) * DIM, 0, 0.5);
    fill(&rng, in->v, (QUERIES + PAST) * VALUE, 0, 1);
    for (size_t i = 0; i < QUERIES + PAST; i++) in->log_gate[i] = -0.05 - 0.6 * bo_rng_uniform(&rng);
    fill(&rng, in->sigma, DIM, 1, 0.2);
    fill(&rng, in->m, DIM * DIM, 0.1, 0.6);
    for (size_t i = 0; i < GROUP; i++) in->mix[i] = 0.5 + (double)i;
    fill(&rng, in->s0, 16 * VALUE, 0, 0.4);
    for (size_t i = 0; i < 16; i++) in->z0[i] = 0.2 + 0.3 * bo_rng_uniform(&rng);
    fill(&rng, in->m_k, DIM * DIM, 0.2, 0.6);
    fill(&rng, in->bias, DIM, 0.4, 0.3);
    fill(&rng, in->bias_k, DIM, 0.4, 0.3);
    fill(&rng, p->dout, GROUP * QUERIES * VALUE, 0, 1);
    fill(&rng, p->ds_final, 16 * VALUE, 0, 0.3);
    fill(&rng, p->dz_final, 16, 0, 0.3);
}

static void point_head(problem *p, const case_of *c)
{
    numbers *in = &p->in, *d = &p->gradient;
    bool sums = p->features != NULL, past = c->initial, learned = oracle_learned(&p->desc);
    p->head = (oracle_head){.desc = &p->desc,
                            .features = p->features,
                            .group = GROUP,
                            .queries = QUERIES,
                            .keys = QUERIES + c->past,
                            .kept = c->past,
                            .q = in->q,
                            .k = in->k,
                            .v = in->v,
                            .log_gate = c->gate ? in->log_gate : NULL,
                            .sigma = in->sigma,
                            .m = in->m,
                            .mix = in->mix,
                            .bias = learned ? in->bias : NULL,
                            .m_k = learned && !c->one_map ? in->m_k : NULL,
                            .bias_k = learned && !c->one_map ? in->bias_k : NULL,
                            .s0 = past ? in->s0 : NULL,
                            .z0 = past ? in->z0 : NULL,
                            .log0 = 0.2,
                            .out = p->out,
                            .log_final = 0.3,
                            .dout = p->dout,
                            .dq = d->q,
                            .dk = d->k,
                            .dv = d->v,
                            .dlog_gate = d->log_gate,
                            .dsigma = d->sigma,
                            .dm = d->m,
                            .dmix = d->mix,
                            .dbias = learned ? d->bias : NULL,
                            .dm_k = d->m_k,
                            .dbias_k = d->bias_k,
                            .ds0 = past ? d->s0 : NULL,
                            .dz0 = past ? d->z0 : NULL};
    if (!sums) return;
    p->head.s_final = p->s_final, p->head.z_final = p->z_final;
    p->head.ds_final = p->ds_final, p->head.dz_final = p->dz_final;
}

static void make_problem(bo_context *context, const case_of *c, problem *p)
{
    memset(p, 0, sizeof *p);
    p->desc = (bo_attention_desc){.kind = c->kind,
                                  .heads = GROUP,
                                  .key_heads = 1,
                                  .dim = DIM,
                                  .value_dim = VALUE,
                                  .causal = c->causal,
                                  .scale = 0.6,
                                  .gate = c->gate,
                                  .window = c->window,
                                  .normalizer = c->normalizer,
                                  .clamp = c->clamp,
                                  .temperature = 0.8,
                                  .rank = c->rank,
                                  .power = c->power,
                                  .features = {.kernel = c->kernel}};
    if (p->desc.clamp == 0) p->desc.clamp = 1e-30;
    bool exact =
        c->function == BO_FUNCTION_ELU || c->function == BO_FUNCTION_TAYLOR || c->function >= BO_FUNCTION_IDENTITY;
    bo_features_desc map = {.kernel = c->kernel,
                            .function = c->function,
                            .dim = c->rank ? c->rank : DIM,
                            .features = exact ? 0 : COUNT,
                            .gamma = 0.6,
                            .pair_norm = 1.5,
                            .seed = 3};
    if (!oracle_explicit(&p->desc)) assert_ok(context, bo_features_create(context, &map, &p->features));
    fill_problem(p);
    point_head(p, c);
    p->head.context = context;
}

static double loss(problem *p)
{
    oracle_head forward = p->head;
    forward.dq = NULL;
    oracle_compute(&forward);
    double sum = oracle_dot(GROUP * QUERIES * VALUE, p->out, p->dout);
    if (!p->features) return sum;
    size_t count = bo_features_describe(p->features)->features;
    sum += oracle_dot(count * VALUE, p->s_final, p->ds_final);
    return sum + oracle_dot(count, p->z_final, p->dz_final);
}

/* Central differences with h = 1e-5: h² f'''/6 and 1e-16/h of rounding are both near 1e-10 for values of order one. */
static void check_case(bo_context *context, const case_of *c)
{
    problem *p = malloc(sizeof *p);
    make_problem(context, c, p);
    oracle_compute(&p->head);
    numbers gradient = p->gradient;
    double *x = (double *)&p->in, *g = (double *)&gradient;
    size_t used = 0;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(double); i++) {
        double at = x[i], h = 1e-5;
        x[i] = at + h;
        double above = loss(p);
        x[i] = at - h;
        double below = loss(p), slope = (above - below) / (2 * h);
        x[i] = at;
        used += slope != 0;
        if (!(fabs(slope - g[i]) <= 1e-7 * (1 + fabs(slope))))
            fail_msg("%s: number %zu has slope %.12g, gradient %.12g", c->name, i, slope, g[i]);
    }
    assert_true(used > GROUP * QUERIES * DIM);
    bo_features_destroy(p->features);
    free(p);
}

static void gradients_are_derivatives(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(context, &cases[i]);
    bo_context_destroy(context);
}

/* exp(c) z compared with the features module, for inputs small enough for both. */
static void features_match_the_header(void **state)
{
    (void)state;
    enum { ROWS = 5, WIDE = 4, FEATURES = 12 };
    static const bo_function functions[] = {BO_FUNCTION_POSITIVE, BO_FUNCTION_HYPERBOLIC, BO_FUNCTION_OPRF,
                                            BO_FUNCTION_SINCOS};
    bo_context *context = test_context(1);
    double x[ROWS * WIDE], c[ROWS], z[ROWS * FEATURES], expected[ROWS * FEATURES];
    float lengths[WIDE] = {1, 2, 0.5F, 1.5F}, sample[ROWS * WIDE];
    bo_rng rng = bo_rng_make(5, 5);
    fill(&rng, x, ROWS * WIDE, 0, 0.8);
    for (size_t i = 0; i < ROWS * WIDE; i++) sample[i] = (float)x[i];
    for (size_t i = 0; i < 8; i++) {
        bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX,
                                 .function = functions[i % 4],
                                 .dim = WIDE,
                                 .features = FEATURES,
                                 .gamma = 0.4,
                                 .length_scales = lengths,
                                 .pair_norm = 2,
                                 .sampling = i < 4 ? BO_SAMPLING_DRAWN : BO_SAMPLING_LEVERAGE,
                                 .sample = sample,
                                 .sample_rows = ROWS,
                                 .sample_stride = WIDE,
                                 .seed = i};
        bo_features *features;
        assert_ok(context, bo_features_create(context, &desc, &features));
        oracle_map map = oracle_map_make(context, features);
        oracle_noise none = {0};
        oracle_phi(&map, ROWS, x, c, z, &none);
        assert_ok(context, bo_features_apply_f64(context, features, ROWS, x, WIDE, expected, FEATURES));
        for (size_t j = 0; j < ROWS * FEATURES; j++) /* frequencies multiplied by γ are float32 */
            assert_close(exp(c[j / FEATURES]) * z[j], expected[j], 1e-5 * (fabs(expected[j]) + 0.1));
        oracle_map_drop(&map);
        bo_features_destroy(features);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_match_the_header),
        cmocka_unit_test(gradients_are_derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
