/* Advice: the statistics it reports, recommendations that hold in real attention, and "none" where nothing helps. */
#include <bochner/attention.h>
#include "advice.h"
#include "base/counting.h"

static bo_attention_advice advise(bo_context *context, const data *d, bool causal, double target, size_t most)
{
    bo_attention_desc desc = desc_of(causal);
    bo_attention_advice advice;
    assert_ok(context, bo_attention_advise(context, &desc, &whole, d->q, d->k, d->v, target, most, &advice));
    assert_int_equal(advice.map_count, BO_ADVICE_MAPS);
    return advice;
}

/* ---- what the data is like ------------------------------------------------------------------------------------- */

/* 1200 and 600 rows of 16 coordinates: a mean square scatters by √(2/9600) = 1.5%, eigenvalues lie within
 * (1 ± √(16/450))² λ (Marchenko and Pastur; 900 rows of either on average, pooled 450 pairs at the least). */
static void statistics_of_the_data(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.8);
    bo_attention_advice a = advise(context, d, false, 0, 64);
    double lambda = 0.64 / DIM, spread = sqrt(16 / 450.0);
    assert_close(a.query_norm, 0.8, 0.03);
    assert_close(a.key_norm, 0.8, 0.03);
    assert_true(a.largest > lambda && a.largest < lambda * (1 + spread) * (1 + spread));
    assert_true(a.smallest < lambda && a.smallest > lambda * (1 - spread) * (1 - spread));
    assert_true(a.effective > 0.9 * DIM && a.effective <= DIM);
    assert_true(a.entropy_share > 0.9 && a.entropy_share < 1 && a.entropy < log(TOKENS));
    assert_close(a.target, 0.1, 0);

    memset(d->q, 0, sizeof d->q); /* the same weight for every key: log of their number */
    a = advise(context, d, false, 0, 64);
    assert_close(a.entropy, log(TOKENS), 1e-12);
    assert_close(a.entropy_share, 1, 1e-12);
    a = advise(context, d, true, 0, 64);
    assert_close(a.entropy_share, 1, 1e-12);
    assert_true(a.entropy < log(TOKENS));
    free(d);

    d = make_data(20); /* one key takes all */
    assert_true(advise(context, d, false, 0, 64).entropy_share < 0.1);
    free(d);
    bo_context_destroy(context);
}

/* ---- advice ---------------------------------------------------------------------------------------------------- */

/* Output of an attention over all of the data */
static float *forward(bo_context *context, const bo_attention *attention, const data *d)
{
    float *out = malloc(HEADS * TOKENS * VALUES * sizeof *out);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    assert_ok(context, bo_attention_forward(context, attention, &whole, &in, NULL, NULL, out, NULL));
    return out;
}

static double relative_distance(const float *out, const float *exact)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < HEADS * TOKENS * VALUES; i++) {
        error += pow((double)out[i] - (double)exact[i], 2);
        norm += pow((double)exact[i], 2);
    }
    return sqrt(error / norm);
}

/* A recommended map with another seed, as real attention over every query: its error against `exact`. */
static double follow(bo_context *context, const data *d, bool causal, const bo_attention_advice *a, size_t map,
                     uint64_t seed, const float *exact)
{
    bo_attention_desc desc = desc_of(causal);
    bo_attention *attention;
    desc.kind = a->maps[map].kind;
    desc.features.function = a->maps[map].function;
    desc.features.features = a->maps[map].features;
    desc.features.seed = seed;
    if (desc.features.function == BO_FUNCTION_OPRF) desc.features.pair_norm = 2 * 0.81;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    if (desc.kind == BO_ATTENTION_DARK)
        assert_ok(context, bo_dark_propose(context, attention, &whole, d->q, d->k, NULL));
    float *out = forward(context, attention, d);
    double error = relative_distance(out, exact);
    free(out);
    bo_attention_destroy(attention);
    return error;
}

/* Every map that is said to reach the target does, within the scatter of a draw, with seeds that advice has not seen.
 * Values with a mean make the target easy, but not the denominators of signed features: one that comes near 0 spoils
 * all, and does so for single queries of some draws. */
static void promises_are_kept(void **state)
{
    (void)state;
    enum { SEEDS = 8 };
    bo_context *context = test_context(2);
    data *d = make_data(0.9);
    for (int with_mean = 0; with_mean < 2; with_mean++) {
        for (size_t i = 0; with_mean && i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] += 2;
        for (int causal = 0; causal < 2; causal++) {
            bo_attention_desc desc = desc_of(causal);
            bo_attention *softmax;
            assert_ok(context, bo_attention_create(context, &desc, &softmax));
            float *exact = forward(context, softmax, d);
            bo_attention_advice a = advise(context, d, causal, 0.15, 4096);
            size_t kept = 0;
            for (size_t i = 0; i < a.map_count; i++) {
                for (uint64_t seed = 99; a.maps[i].features && seed < 99 + SEEDS; seed++) {
                    double found = follow(context, d, causal, &a, i, seed, exact);
                    if (!(found < 1.5 * a.target))
                        fail_msg("%s %s: promised %g with %zu features, found %g", bo_attention_name(a.maps[i].kind),
                                 bo_function_name(a.maps[i].function), a.maps[i].error, a.maps[i].features, found);
                }
                assert_true(!a.maps[i].features || a.maps[i].error <= a.target);
                kept += a.maps[i].features != 0;
            }
            assert_true(a.reachable && a.maps[0].features > 0 && kept >= 4);
            assert_null(strstr(a.reason, "none"));
            assert_non_null(strstr(a.reason, "features"));
            free(exact);
            bo_attention_destroy(softmax);
        }
    }
    free(d);
    bo_context_destroy(context);
}

/* The error is the largest of three draws over every query there is. With a key head for each head, advice tries the
 * very maps that real attention has with its seed and the two after. */
static void errors_are_the_worst_of_three_draws(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.9);
    bo_attention_desc desc = {.heads = KEY_HEADS, .dim = DIM, .value_dim = VALUES, .causal = true};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_advice a;
    const uint64_t first = 4;
    desc.features.seed = first;
    assert_ok(context, bo_attention_advise(context, &desc, &whole, d->q, d->k, d->v, 0.15, 4096, &a));
    size_t looked_at = 0, later = 0;
    for (size_t i = 0; i < a.map_count; i++) {
        double worst = 0;
        if (!a.maps[i].features || a.maps[i].function == BO_FUNCTION_OPRF)
            continue; /* whose pair_norm is advice's own */
        for (uint64_t seed = first; seed < first + 3; seed++) {
            bo_attention *attention;
            bo_attention_error error;
            desc.kind = a.maps[i].kind;
            desc.features =
                (bo_features_desc){.function = a.maps[i].function, .features = a.maps[i].features, .seed = seed};
            assert_ok(context, bo_attention_create(context, &desc, &attention));
            if (desc.kind == BO_ATTENTION_DARK)
                assert_ok(context, bo_dark_propose(context, attention, &whole, d->q, d->k, NULL));
            assert_ok(context, bo_attention_compare(context, attention, &whole, &in, NULL, TOKENS, &error));
            later += seed > first && error.against_softmax > worst;
            worst = fmax(worst, error.against_softmax);
            bo_attention_destroy(attention);
        }
        assert_close(a.maps[i].error, worst, 1e-4 * worst);
        looked_at++;
    }
    assert_true(looked_at >= 4 && later > 0); /* the first draw alone would not do */
    free(d);
    bo_context_destroy(context);
}

/* Norms of a million: what overflows comes last and is never the nearest. Values of 0 have no error to promise. */
static void numbers_out_of_bounds_promise_nothing(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1e6);
    bo_attention_advice a = advise(context, d, true, 0.1, 32);
    assert_false(a.reachable);
    assert_null(strstr(a.reason, "nan"));
    assert_null(strstr(a.reason, "inf "));
    for (size_t i = 0; i < a.map_count; i++)
        assert_true(i == 0 || a.maps[i - 1].error <= a.maps[i].error); /* false of NaN */
    memset(d->v, 0, sizeof d->v);
    a = advise(context, d, true, 0.1, 32);
    for (size_t i = 0; i < a.map_count; i++) assert_true(a.maps[i].error == 0 || a.maps[i].error == INFINITY);
    free(d);
    bo_context_destroy(context);
}

static void best_comes_first(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1);
    bo_attention_advice a = advise(context, d, true, 0.1, 2048);
    assert_true(a.maps[0].features > 0);
    bool differ = false;
    for (size_t i = 1; i < a.map_count; i++) {
        size_t before = a.maps[i - 1].features, now = a.maps[i].features;
        assert_true(before ? !now || before <= now : !now);
        differ |= now > before;
        if (before == now) assert_true(a.maps[i - 1].error <= a.maps[i].error);
        assert_int_equal(a.maps[i].most, 2048);
    }
    assert_true(differ); /* there was something to sort */
    free(d);
    bo_context_destroy(context);
}

/* Norms of 6 in 16 dimensions: Λ = 36/16, beyond 1/6 and beyond 1/2. Unit norm is another function. */
static void none_is_said_plainly(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(6);
    bo_attention_advice a = advise(context, d, true, 0.1, 1000);
    assert_false(a.reachable);
    assert_true(a.largest > 1 / 6.0);
    assert_int_equal(strncmp(a.reason, "none", 4), 0);
    assert_non_null(strstr(a.reason, "1/6"));
    assert_non_null(strstr(a.reason, "norm"));
    assert_non_null(strstr(a.reason, "few keys"));
    assert_true(strlen(a.reason) < sizeof a.reason - 1 && a.reason[strlen(a.reason) - 1] == '.'); /* it fits */
    for (size_t i = 0; i < a.map_count; i++) {
        assert_int_equal(a.maps[i].features, 0);
        assert_int_equal(a.maps[i].most, 512); /* a power of two */
        assert_true(a.maps[i].error > 0.1);
        assert_true(isfinite(a.maps[i].error) || a.maps[i].function == BO_FUNCTION_SINCOS); /* denominators near 0 */
        assert_true(a.maps[i].predicted > 512);
        if (a.maps[i].kind == BO_ATTENTION_RFA) assert_true(a.maps[i].predicted == INFINITY);
    }
    assert_null(strstr(advise(context, d, false, 0.1, 64).reason, "window")); /* which causal attention alone has */
    free(d);
    d = make_data(1.2); /* too few features, but a finite variance: another reason */
    a = advise(context, d, true, 0.02, 16);
    assert_false(a.reachable);
    assert_null(strstr(a.reason, "1/6"));
    /* Eigenvalues as large, but of a mean that is the same for all: no variance is infinite, and nothing says so. */
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] += 3;
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] -= 3;
    a = advise(context, d, true, 0.02, 16);
    assert_true(a.largest > 1);
    assert_null(strstr(a.reason, "1/6"));
    free(d);
    bo_context_destroy(context);
}

/* The error of HYBRID attention that the reason names; INFINITY: it names none. */
static double promised_window(const bo_attention_advice *a)
{
    const char *words = strstr(a->reason, "has an error of ");
    return words ? strtod(words + strlen("has an error of "), NULL) : INFINITY;
}

/* A window is advised with the error it has, and only where that is much less than the maps': for sharp attention to
 * any key it is not, for attention to the keys just before it is. Another draw scatters. */
static void windows_are_measured(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(2.2);
    bo_attention_advice a = advise(context, d, true, 0.02, 64);
    bo_attention_desc desc = desc_of(true), hybrid = desc;
    bo_attention *attention, *softmax;
    assert_true(!a.reachable && promised_window(&a) == INFINITY);
    for (size_t n = 0; n < TOKENS; n++) /* one large coordinate turns with time: neighbours are alike */
        for (size_t h = 0; h < HEADS; h++)
            for (size_t j = 0; j < 2; j++) {
                float turned = (float)(8 * cos((double)n / 60 - (double)j * 1.5707963));
                d->q[(h * TOKENS + n) * DIM + j] = turned;
                if (h < KEY_HEADS) d->k[(h * TOKENS + n) * DIM + j] = turned;
            }
    a = advise(context, d, true, 0.02, 64);
    hybrid.kind = BO_ATTENTION_HYBRID;
    hybrid.features.features = 64;
    assert_ok(context, bo_attention_create(context, &desc, &softmax));
    assert_ok(context, bo_attention_create(context, &hybrid, &attention));
    float *exact = forward(context, softmax, d), *out = forward(context, attention, d);
    double found = relative_distance(out, exact);
    if (!(promised_window(&a) <= 0.5 * a.maps[0].error && fabs(promised_window(&a) - found) < 0.4 * found))
        fail_msg("a window has an error of %g, found %g; %s", promised_window(&a), found, a.reason);
    free(exact);
    free(out);
    bo_attention_destroy(softmax);
    bo_attention_destroy(attention);
    free(d);
    bo_context_destroy(context);
}

/* Two large directions among small ones: the proposal needs a fraction of what isotropic features need. */
static void the_proposal_helps_where_it_should(void **state)
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
    bo_attention_advice a = advise(context, d, false, 0.1, 2048);
    double plain = 0, proposed = 0;
    for (size_t i = 0; i < a.map_count; i++) {
        if (a.maps[i].kind == BO_ATTENTION_DARK) proposed = a.maps[i].predicted;
        if (a.maps[i].kind == BO_ATTENTION_FAVOR && a.maps[i].function == BO_FUNCTION_POSITIVE)
            plain = a.maps[i].predicted;
    }
    assert_true(a.largest > 0.2 && proposed > 0 && plain > 5 * proposed);
    free(d);
    bo_context_destroy(context);
}

static void random_values_and_other_shapes(void **state)
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
        bo_attention_advice a;
        assert_ok(context, bo_attention_advise(context, &desc, &shapes[i], d->q, d->k, NULL, 0.3, 512, &a));
        assert_true(a.reachable);
    }
    free(d);
    bo_context_destroy(context);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    data *d = make_data(0.9);
    bo_attention_advice a[2];
    memset(a, 0, sizeof a);
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 3 : 1);
        a[i] = advise(context, d, true, 0.1, 256);
        bo_context_destroy(context);
    }
    assert_memory_equal(&a[0], &a[1], sizeof a[0]);
    free(d);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(0.9);
    bo_attention_desc desc = desc_of(true), wrong = desc;
    bo_attention_advice a;
    bo_attention_shape none = {.sequences = 1}, no_keys = {.sequences = 1, .tokens = 5, .no_keys = true},
                       cross = {.sequences = 1, .tokens = 5, .key_tokens = 7};
    assert_fails(context, BO_INVALID, "descriptor",
                 bo_attention_advise(context, NULL, &whole, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "shape", bo_attention_advise(context, &desc, NULL, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "queries",
                 bo_attention_advise(context, &desc, &whole, NULL, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "keys", bo_attention_advise(context, &desc, &whole, d->q, NULL, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "target",
                 bo_attention_advise(context, &desc, &whole, d->q, d->k, NULL, -1, 0, &a));
    assert_fails(context, BO_INVALID, "target",
                 bo_attention_advise(context, &desc, &whole, d->q, d->k, NULL, NAN, 0, &a));
    assert_fails(context, BO_INVALID, "found 8",
                 bo_attention_advise(context, &desc, &whole, d->q, d->k, NULL, 0, 8, &a));
    assert_fails(context, BO_INVALID, "no rows",
                 bo_attention_advise(context, &desc, &none, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "keys",
                 bo_attention_advise(context, &desc, &no_keys, d->q, d->k, NULL, 0, 0, &a));
    assert_fails(context, BO_INVALID, "5 queries and 7 keys",
                 bo_attention_advise(context, &desc, &cross, d->q, d->k, NULL, 0, 0, &a));
    wrong.key_heads = 3;
    assert_fails(context, BO_INVALID, "key_heads",
                 bo_attention_advise(context, &wrong, &whole, d->q, d->k, NULL, 0, 0, &a));
    d->v[3] = INFINITY;
    assert_fails(context, BO_NUMERIC, "v is inf at sequence 0, head 0, token 0, column 3",
                 bo_attention_advise(context, &desc, &whole, d->q, d->k, d->v, 0, 0, &a));
    d->q[TOKENS * DIM * 3 + 5] = NAN;
    assert_fails(context, BO_NUMERIC, "q is nan at sequence 0, head 3, token 0, column 5",
                 bo_attention_advise(context, &desc, &whole, d->q, d->k, NULL, 0, 0, &a));
    free(d);
    bo_context_destroy(context);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

enum { PARTS = 4, FEW = 6 };

/* What learns from data or judges it, one part at a time, of one head and few tokens: every allocation of a part fails
 * once, so that its time grows with their square. */
static bo_status use(bo_context *context, const data *d, int part)
{
    bo_attention_shape shape = {.sequences = 1, .tokens = FEW};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = {.heads = 1, .dim = DIM, .value_dim = VALUES, .causal = true};
    bo_attention *attention = NULL;
    bo_attention_error error;
    bo_attention_advice advice;
    float m[DIM * DIM], log_gate[FEW];
    if (part == 0) return bo_attention_advise(context, &desc, &shape, d->q, d->k, NULL, 1, 32, &advice);
    if (part == 1) {
        BO_TRY(bo_gate_forward(context, FEW, DIM, 1, d->q, d->k, NULL, log_gate));
        return bo_gate_backward(context, FEW, DIM, 1, d->q, d->k, log_gate, d->v, NULL, m, NULL);
    }
    desc.kind = part == 2 ? BO_ATTENTION_DARK : BO_ATTENTION_LINEAR;
    desc.features.features = 16;
    BO_TRY(bo_attention_create(context, &desc, &attention));
    bo_status status = BO_OK;
    if (part == 2) status = bo_dark_whiten(context, attention, &shape, d->q, d->k, 0, m);
    if (part == 2 && status == BO_OK) status = bo_dark_propose(context, attention, &shape, d->q, d->k, NULL);
    if (status == BO_OK) status = bo_attention_compare(context, attention, &shape, &in, NULL, 0, &error);
    bo_attention_destroy(attention);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {.once = true};
    bo_context *context = counting_context(&c, 1);
    data *d = make_data(0.5);
    const size_t before = c.live, fewest[PARTS] = {200, 1, 50, 15};
    for (int part = 0; part < PARTS; part++) {
        size_t failed = 0;
        for (size_t at = 1;; at++) {
            c.calls = 0;
            c.fail_at = at;
            bo_status status = use(context, d, part);
            if (c.live != before) fail_msg("allocation %zu failing leaks %zu blocks", at, c.live - before);
            if (status == BO_OK) break;
            if (status != BO_MEMORY) fail_msg("allocation %zu failing: %s", at, bo_context_error(context));
            failed++;
        }
        if (failed < fewest[part]) fail_msg("part %d: %zu allocations failed", part, failed);
    }
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_the_data),
        cmocka_unit_test(promises_are_kept),
        cmocka_unit_test(errors_are_the_worst_of_three_draws),
        cmocka_unit_test(numbers_out_of_bounds_promise_nothing),
        cmocka_unit_test(best_comes_first),
        cmocka_unit_test(none_is_said_plainly),
        cmocka_unit_test(windows_are_measured),
        cmocka_unit_test(the_proposal_helps_where_it_should),
        cmocka_unit_test(random_values_and_other_shapes),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
