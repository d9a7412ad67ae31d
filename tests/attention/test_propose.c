/* A proposal applies to all key heads or, on failure, to none, and its report covers all key heads. */
#include "attention/attention.h"
#include "base/counting.h"

enum { KEY_HEADS = 3, TOKENS = 64, DIM = 4 };

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

static bo_attention *make_attention(bo_context *context)
{
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = KEY_HEADS, .dim = DIM, .scale = 1};
    desc.features.features = 8;
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

/* Rows alternate between ± size e_j: key head h has sizes[h] in the first large[h] coordinates and 0.1 in the others,
 * so Λ is diagonal with size² / DIM. */
static void fill(const double *sizes, const size_t *large, float *x)
{
    memset(x, 0, KEY_HEADS * TOKENS * DIM * sizeof *x);
    for (size_t h = 0; h < KEY_HEADS; h++)
        for (size_t n = 0; n < TOKENS; n++) {
            size_t j = n % DIM;
            x[(h * TOKENS + n) * DIM + j] = (float)((n / DIM % 2 ? -1 : 1) * (j < large[h] ? sizes[h] : 0.1));
        }
}

/* The best proposal clips eigenvalues above 0.45: sizes are 3, 4 or 5, so λ is at least 9/4. */
static void clipped_eigenvalues_of_all_heads_are_counted(void **state)
{
    (void)state;
    const double sizes[][KEY_HEADS] = {{3, 4, 5}, {5, 4, 3}, {3, 5, 4}};
    const size_t large[KEY_HEADS] = {1, 3, 2}, worst[] = {2, 0, 1};
    bo_context *context = test_context(1);
    float x[KEY_HEADS * TOKENS * DIM];
    for (size_t i = 0; i < 3; i++) {
        bo_attention *attention = make_attention(context);
        bo_proposal_report report;
        fill(sizes[i], large, x);
        assert_ok(context, bo_attention_propose_arrays(context, attention, &one_sequence, x, x, &report));
        assert_int_equal(report.clipped, 1 + 3 + 2);
        assert_int_equal(report.key_head, worst[i]);
        assert_close(report.largest, 25.0 / DIM, 1e-6);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

/* If any allocation fails, the frequencies do not change: an earlier state still matches. Tested with standard
 * frequencies and with an earlier proposal. */
static void failures_change_no_head(void **state)
{
    (void)state;
    const double small[KEY_HEADS] = {0.5, 0.7, 0.9}, other[KEY_HEADS] = {0.8, 0.6, 0.4};
    const size_t large[KEY_HEADS] = {1, 3, 2};
    counting c = {.once = true};
    bo_context *context = counting_context(&c, 1);
    float x[KEY_HEADS * TOKENS * DIM], y[KEY_HEADS * TOKENS * DIM];
    fill(small, large, x);
    fill(other, large, y);
    bo_attention *attention = make_attention(context);
    void *bytes = malloc(bo_attention_state_bytes(attention));
    for (int proposed = 0; proposed < 2; proposed++) {
        size_t failed = 0;
        if (proposed) assert_ok(context, bo_attention_propose_arrays(context, attention, &one_sequence, y, y, NULL));
        assert_ok(context, bo_attention_state_init(context, attention, bytes));
        for (size_t at = 1;; at++, failed++) {
            c.calls = 0;
            c.fail_at = at;
            bo_status status = bo_attention_propose_arrays(context, attention, &one_sequence, x, x, NULL);
            c.fail_at = 0;
            if (status == BO_OK) break;
            assert_int_equal(status, BO_MEMORY);
            if (bo_attention_state_check(context, attention, bytes) != BO_OK)
                fail_msg("allocation %zu failing changes frequencies", at);
        }
        assert_true(failed > 60);
        assert_int_equal(bo_attention_state_check(context, attention, bytes), BO_INVALID);
    }
    free(bytes);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

static void nothing_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[KEY_HEADS * TOKENS * DIM] = {0}, m[DIM * DIM];
    bo_attention *attention = make_attention(context);
    bo_attention_inputs in = {.q = x, .k = x, .v = x};
    assert_fails(context, BO_INVALID, "argument 'attention' is NULL",
                 bo_attention_propose_arrays(context, NULL, &one_sequence, x, x, NULL));
    assert_fails(context, BO_INVALID, "argument 'attention' is NULL",
                 bo_attention_whiten_arrays(context, NULL, &one_sequence, x, x, 0, m));
    bo_attention_accuracy error;
    assert_fails(context, BO_INVALID, "argument 'attention' is NULL",
                 bo_attention_measure_arrays(context, NULL, &one_sequence, &in, NULL, 0, &error));
    assert_fails(context, BO_INVALID, "argument 'error' is NULL",
                 bo_attention_measure_arrays(context, attention, &one_sequence, &in, NULL, 0, NULL));
    assert_fails(
        context, BO_INVALID, "argument 'out' is NULL",
        bo_attention_advise_arrays(context, bo_attention_describe(attention), &one_sequence, x, x, NULL, 0, 0, NULL));
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clipped_eigenvalues_of_all_heads_are_counted),
        cmocka_unit_test(failures_change_no_head),
        cmocka_unit_test(nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
