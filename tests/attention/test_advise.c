/* Advice: the reported statistics, the candidates and their order, and "none" if no candidate reaches the target. */
#include <bochner/attention.h>
#include "attention/gate.h"
#include "advice.h"
#include "base/counting.h"

/* ---- statistics of the data -------------------------------------------------------------------------------------- */

/* 1200 and 600 rows of 16 coordinates: the relative deviation of a mean square is √(2/9600) = 1.5%, and eigenvalues are
 * within (1 ± √(16/450))² λ (Marchenko and Pastur; 900 rows of each side on average, at least 450 pooled pairs). */
static void statistics_of_the_data(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.8);
    bo_attention_advice *a = advise(context, d, false, 0, 64);
    double lambda = 0.64 / DIM, spread = sqrt(16 / 450.0);
    assert_close(a->query_norm, 0.8, 0.03);
    assert_close(a->key_norm, 0.8, 0.03);
    assert_true(a->largest > lambda && a->largest < lambda * (1 + spread) * (1 + spread));
    assert_true(a->smallest < lambda && a->smallest > lambda * (1 - spread) * (1 - spread));
    assert_true(a->effective > 0.9 * DIM && a->effective <= DIM);
    assert_true(a->entropy_share > 0.9 && a->entropy_share < 1 && a->entropy < log(TOKENS));
    assert_close(a->target, 0.1, 0);

    memset(d->q, 0, sizeof d->q); /* equal weights: the entropy is the log of the number of keys */
    bo_attention_advice_destroy(a);
    a = advise(context, d, false, 0, 64);
    assert_close(a->entropy, log(TOKENS), 1e-12);
    assert_close(a->entropy_share, 1, 1e-12);
    bo_attention_advice_destroy(a);
    a = advise(context, d, true, 0, 64);
    assert_close(a->entropy_share, 1, 1e-12);
    assert_true(a->entropy < log(TOKENS));
    bo_attention_advice_destroy(a);
    free(d);

    d = make_data(20); /* one key has nearly all of the weight */
    a = advise(context, d, false, 0, 64);
    assert_true(a->entropy_share < 0.1);
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/* Norms of a million: candidates that overflow come last and are never recommended. For values of 0 no error is
 * predicted. */
static void overflowing_candidates_are_not_recommended(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1e6);
    bo_attention_advice *a = advise(context, d, true, 0.1, 32);
    assert_false(a->reachable);
    assert_null(strstr(a->reason, "nan"));
    assert_null(strstr(a->reason, "inf "));
    for (size_t i = 0; i < a->map_count; i++)
        assert_true(i == 0 || a->maps[i - 1].error <= a->maps[i].error); /* false for NaN */
    memset(d->v, 0, sizeof d->v);
    bo_attention_advice_destroy(a);
    a = advise(context, d, true, 0.1, 32);
    for (size_t i = 0; i < a->map_count; i++) assert_true(a->maps[i].error == 0 || a->maps[i].error == INFINITY);
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

static double state_size(const bo_attention_advice *a, size_t i)
{
    const bo_attention_desc *d = &a->maps[i].desc;
    return (double)a->maps[i].features * (VALUES + 1) + (double)d->window * (DIM + VALUES);
}

static void best_map_is_first(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1);
    bo_attention_advice *a = advise(context, d, true, 0.1, 512);
    assert_true(a->maps[0].features > 0);
    bool differ = false;
    for (size_t i = 1; i < a->map_count; i++) {
        size_t before = a->maps[i - 1].features, now = a->maps[i].features;
        assert_true(before || !now);
        if (before && now) assert_true(state_size(a, i - 1) <= state_size(a, i));
        differ |= before != now;
        if (!before || (now && state_size(a, i - 1) == state_size(a, i)))
            assert_true(a->maps[i - 1].error <= a->maps[i].error);
        assert_true(a->maps[i].max_features <= 512);
    }
    assert_true(differ); /* the errors differ, so the order is tested */
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

/* All candidates are tested; polynomials only if the feature limit permits. */
static void every_kind_is_tested(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    for (int i = 0; i < 2; i++) {
        bo_attention_advice *a = advise(context, d, true, 0.3, i ? 8192 : 128); /* 153 and 4845 monomials */
        size_t proposals[BO_PROPOSAL_COUNT] = {0}, kinds[BO_ATTENTION_COUNT] = {0}, chosen = 0, degrees[5] = {0};
        for (size_t m = 0; m < a->map_count; m++) {
            const bo_attention_desc *desc = &a->maps[m].desc;
            proposals[desc->proposal]++;
            kinds[desc->kind]++;
            chosen += desc->features.sampling == BO_SAMPLING_OPTIMAL;
            degrees[desc->features.degree] += desc->kind == BO_ATTENTION_LINEAR;
        }
        for (int p = 0; p < BO_PROPOSAL_COUNT; p++) assert_true(proposals[p] > 0);
        assert_true(chosen >= 1 && kinds[BO_ATTENTION_RFA] == 1 && kinds[BO_ATTENTION_HYBRID] == 3);
        assert_int_equal(kinds[BO_ATTENTION_LINEAR], i ? 3 : 0);
        if (i) assert_true(degrees[0] == 1 && degrees[2] == 1 && degrees[4] == 1);
        bo_attention_advice_destroy(a);
    }
    free(d);
    bo_context_destroy(context);
}

/* Norms of 6 in 16 dimensions: Λ = 36/16, beyond 1/6 and beyond 1/2. Unit norm gives a different function. */
static void unreachable_targets_are_reported(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(6);
    bo_attention_advice *a = advise(context, d, true, 0.1, 1000);
    assert_false(a->reachable);
    assert_true(a->largest > 1 / 6.0);
    assert_int_equal(strncmp(a->reason, "none", 4), 0);
    assert_non_null(strstr(a->reason, "1/6"));
    assert_non_null(strstr(a->reason, "norm"));
    assert_non_null(strstr(a->reason, "few keys"));
    assert_true(strlen(a->reason) < 511 && a->reason[strlen(a->reason) - 1] == '.'); /* the reason is not truncated */
    for (size_t i = 0; i < a->map_count; i++) {
        const bo_attention_desc *desc = &a->maps[i].desc;
        assert_int_equal(a->maps[i].features, 0);
        assert_int_equal(a->maps[i].max_features,
                         desc->features.degree || desc->features.kernel == BO_KERNEL_TAYLOR ? 153 : 512);
        assert_true(a->maps[i].error > 0.1);
        /* denominators near 0 */
        assert_true(isfinite(a->maps[i].error) || desc->features.function == BO_FUNCTION_SINCOS);
        assert_true(isnan(a->maps[i].predicted) || a->maps[i].predicted > 512);
        if (desc->kind == BO_ATTENTION_RFA) assert_true(a->maps[i].predicted == INFINITY);
    }
    bo_attention_advice_destroy(a);
    a = advise(context, d, false, 0.1, 64);
    assert_null(strstr(a->reason, "window")); /* windows need causal attention */
    free(d);
    d = make_data(1.2); /* too few features, but a finite variance: a different reason */
    bo_attention_advice_destroy(a);
    a = advise(context, d, true, 0.02, 16);
    assert_false(a->reachable);
    assert_null(strstr(a->reason, "1/6"));
    /* Eigenvalues as large, but because of a common mean: no variance is infinite, and the reason does not claim it. */
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] += 3;
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] -= 3;
    bo_attention_advice_destroy(a);
    a = advise(context, d, true, 0.02, 16);
    assert_true(a->largest > 1);
    assert_null(strstr(a->reason, "1/6"));
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

/* The smallest error of the rows with HYBRID attention, or of the other rows. */
static double min_error(const bo_attention_advice *a, bool hybrid)
{
    double min_error = INFINITY;
    for (size_t i = 0; i < a->map_count; i++)
        if ((a->maps[i].desc.kind == BO_ATTENTION_HYBRID) == hybrid) min_error = fmin(min_error, a->maps[i].error);
    return min_error;
}

/* A window helps if attention goes to the most recent keys, and its row reports its measured error. */
static void windows_are_measured(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(2.2);
    bo_attention_advice *a = advise(context, d, true, 0.02, 64);
    assert_true(!a->reachable && min_error(a, true) > 0.5 * min_error(a, false));
    for (size_t n = 0; n < TOKENS; n++) /* one large coordinate rotates with time, so neighbors are similar */
        for (size_t h = 0; h < HEADS; h++)
            for (size_t j = 0; j < 2; j++) {
                float turned = (float)(8 * cos((double)n / 60 - (double)j * 1.5707963));
                d->q[(h * TOKENS + n) * DIM + j] = turned;
                if (h < KEY_HEADS) d->k[(h * TOKENS + n) * DIM + j] = turned;
            }
    bo_attention_advice_destroy(a);
    a = advise(context, d, true, 0.02, 64);
    float *exact = softmax_of(context, d, true);
    assert_int_equal(a->maps[0].desc.kind, BO_ATTENTION_HYBRID);
    double found = follow(context, d, d, &a->maps[0].desc, exact);
    if (!(min_error(a, true) < 0.5 * min_error(a, false) && fabs(a->maps[0].error - found) < 0.4 * found))
        fail_msg("a window has an error of %g, found %g; %s", a->maps[0].error, found, a->reason);
    assert_non_null(strstr(a->reason, "hybrid"));
    bo_attention_advice_destroy(a);
    free(exact);
    free(d);
    bo_context_destroy(context);
}

/* Two large directions among small ones: the proposal needs a fraction of the isotropic features. */
static void the_proposal_reduces_the_features(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.3);
    bo_rng rng = bo_rng_make(23, 0);
    double each = sqrt(0.3) * pow(DIM, 0.25); /* λ = 0.3 */
    for (size_t r = 0; r < HEADS * TOKENS; r++)
        for (size_t j = 0; j < 2; j++) d->q[r * DIM + j] = (float)(each * bo_rng_normal(&rng));
    for (size_t r = 0; r < KEY_HEADS * TOKENS; r++)
        for (size_t j = 0; j < 2; j++) d->k[r * DIM + j] = (float)(each * bo_rng_normal(&rng));
    bo_attention_advice *a = advise(context, d, false, 0.1, 256);
    double plain = 0, proposed = 0;
    for (size_t i = 0; i < a->map_count; i++) {
        const bo_attention_desc *desc = &a->maps[i].desc;
        if (desc->features.function != BO_FUNCTION_POSITIVE || isnan(a->maps[i].predicted)) continue;
        if (desc->proposal == BO_PROPOSAL_GAUSSIAN) proposed = a->maps[i].predicted;
        if (desc->proposal == BO_PROPOSAL_NONE) plain = a->maps[i].predicted;
    }
    assert_true(a->largest > 0.2 && proposed > 0 && plain > 5 * proposed);
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

static void random_values_and_more_shapes(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    size_t lengths[] = {0, 1, 140, TOKENS - 141};
    bo_attention_shape shapes[] = {{.sequences = 4, .lengths = lengths, .layout = BO_LAYOUT_TOKENS_FIRST},
                                   {.sequences = 3, .tokens = TOKENS / 3},
                                   {.sequences = 1, .tokens = 20, .key_tokens = TOKENS},
                                   {.sequences = 1, .tokens = 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bo_attention_desc desc = desc_of(!shapes[i].key_tokens);
        bo_attention_advice *a;
        assert_ok(context, bo_attention_advise_arrays(context, &desc, &shapes[i], d->q, d->k, NULL, 0.3, 512, &a));
        assert_true(a->reachable);
        bo_attention_advice_destroy(a);
    }
    free(d);
    bo_context_destroy(context);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    data *d = make_data(0.9);
    bo_attention_advice *a[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 3 : 1);
        a[i] = advise(context, d, true, 0.1, 256);
        bo_context_destroy(context);
    }
    assert_string_equal(a[0]->reason, a[1]->reason);
    assert_int_equal(a[0]->map_count, a[1]->map_count);
    for (size_t i = 0; i < a[0]->map_count; i++) {
        assert_int_equal(a[0]->maps[i].features, a[1]->maps[i].features);
        assert_memory_equal(&a[0]->maps[i].error, &a[1]->maps[i].error, sizeof(double));
        assert_memory_equal(&a[0]->maps[i].predicted, &a[1]->maps[i].predicted, sizeof(double));
    }
    for (int i = 0; i < 2; i++) bo_attention_advice_destroy(a[i]); /* after its context was destroyed */
    free(d);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(0.9);
    bo_attention_desc desc = desc_of(true), wrong = desc;
    bo_attention_advice *a = (bo_attention_advice *)d;
    bo_attention_shape none = {.sequences = 1}, no_keys = {.sequences = 1, .tokens = 5, .no_keys = true},
                       cross = {.sequences = 1, .tokens = 5, .key_tokens = 7};
    assert_fails(context, BO_INVALID, "argument 'desc' is NULL",
                 bo_attention_advise_arrays(context, NULL, &one_sequence, d->q, d->k, NULL, 0, 0, &a));
    assert_null(a);
    bo_attention_advice_destroy(a);
    assert_fails(context, BO_INVALID, "shape",
                 bo_attention_advise_arrays(context, &desc, NULL, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "argument 'q' is NULL",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, NULL, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "argument 'k' is NULL",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, NULL, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "target",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, NULL, -1, 0, &a));
    assert_fails(context, BO_INVALID, "target",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, NULL, NAN, 0, &a));
    assert_fails(context, BO_INVALID, "found 8",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, NULL, 0, 8, &a));
    assert_fails(context, BO_INVALID, "no rows",
                 bo_attention_advise_arrays(context, &desc, &none, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "keys",
                 bo_attention_advise_arrays(context, &desc, &no_keys, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "5 queries and 7 keys",
                 bo_attention_advise_arrays(context, &desc, &cross, d->q, d->k, NULL, 0, 0, &a));
    wrong.key_heads = 3;
    assert_fails(context, BO_INVALID, "key_heads",
                 bo_attention_advise_arrays(context, &wrong, &one_sequence, d->q, d->k, NULL, 0, 0, &a));
    wrong = desc, wrong.reserved[1] = 1;
    assert_fails(context, BO_INVALID, "bo_attention_desc",
                 bo_attention_advise_arrays(context, &wrong, &one_sequence, d->q, d->k, NULL, 0, 0, &a));
    d->v[3] = INFINITY;
    assert_fails(context, BO_NUMERIC, "v is inf at sequence 0, head 0, token 0, column 3",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, d->v, 0, 0, &a));
    d->q[TOKENS * DIM * 3 + 5] = NAN;
    assert_fails(context, BO_NUMERIC, "q is nan at sequence 0, head 3, token 0, column 5",
                 bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, NULL, 0, 0, &a));
    free(d);
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { PARTS = 4, FEW_TOKENS = 6 };

/* Calibration and measurement functions, one part at a time, with one head and few tokens: every allocation of a part
 * fails once, so the time is quadratic in the number of allocations. */
static bo_status use(bo_context *context, const data *d, int part)
{
    bo_attention_shape shape = {.sequences = 1, .tokens = FEW_TOKENS};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = {.heads = 1, .dim = DIM, .value_dim = VALUES, .causal = true};
    bo_attention *attention = NULL;
    bo_attention_accuracy error;
    bo_attention_advice *advice;
    float m[DIM * DIM], log_gate[FEW_TOKENS];
    if (part == 0) {
        BO_TRY(bo_attention_advise_arrays(context, &desc, &shape, d->q, d->k, NULL, 1, 16, &advice));
        bo_attention_advice_destroy(advice);
        return BO_OK;
    }
    if (part == 1) {
        BO_TRY(bo_gate_forward(context, FEW_TOKENS, DIM, 1, d->q, d->k, NULL, log_gate));
        return bo_gate_backward(context, FEW_TOKENS, DIM, 1, d->q, d->k, log_gate, d->v, NULL, m, NULL);
    }
    desc.kind = part == 2 ? BO_ATTENTION_DARK : BO_ATTENTION_LINEAR;
    desc.features.features = 16;
    BO_TRY(bo_attention_create(context, &desc, &attention));
    bo_status status = BO_OK;
    if (part == 2) status = bo_attention_whiten_arrays(context, attention, &shape, d->q, d->k, 0, m);
    if (part == 2 && status == BO_OK)
        status = bo_attention_propose_arrays(context, attention, &shape, d->q, d->k, NULL);
    if (status == BO_OK) status = bo_attention_measure_arrays(context, attention, &shape, &in, NULL, 0, &error);
    bo_attention_destroy(attention);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {.once = true};
    bo_context *context = counting_context(&c, 1);
    data *d = make_data(0.5);
    const size_t before = c.live, min_failures[PARTS] = {60, 1, 50, 15};
    for (int part = 0; part < PARTS; part++) {
        size_t failed = 0;
        for (size_t at = 1;; at += part ? 1 : 31) { /* advice makes thousands of allocations; only some are tested */
            c.calls = 0;
            c.fail_at = at;
            bo_status status = use(context, d, part);
            if (c.live != before) fail_msg("allocation %zu failing leaks %zu blocks", at, c.live - before);
            if (status == BO_OK) break;
            if (status != BO_MEMORY) fail_msg("allocation %zu failing: %s", at, bo_context_error(context));
            failed++;
        }
        if (failed < min_failures[part]) fail_msg("part %d: %zu allocations failed", part, failed);
    }
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_the_data),
        cmocka_unit_test(overflowing_candidates_are_not_recommended),
        cmocka_unit_test(best_map_is_first),
        cmocka_unit_test(every_kind_is_tested),
        cmocka_unit_test(unreachable_targets_are_reported),
        cmocka_unit_test(windows_are_measured),
        cmocka_unit_test(the_proposal_reduces_the_features),
        cmocka_unit_test(random_values_and_more_shapes),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
