/* Invalid input of calibration, and unchanged objects when memory runs out. */
#include "base/counting.h"
#include "calibrations.h"

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(1, 1);
    bo_attention_inputs in = inputs_of(d), no_k = {.q = d->q};
    bo_attention_shape none = {.sequences = 1}, no_keys = {.sequences = 1, .tokens = 3, .no_keys = true};
    bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN);
    bo_attention *attention = create_attention(context, &desc);
    bo_calibration *c, *unused;
    const double wrong[] = {-0.1, 1, 2, NAN};
    for (size_t i = 0; i < 4; i++)
        assert_fails(context, BO_INVALID, "momentum", bo_calibration_create(context, attention, wrong[i], &unused));
    assert_fails(context, BO_INVALID, "argument 'attention' is NULL", bo_calibration_create(context, NULL, 0, &unused));
    assert_null(unused);
    assert_ok(context, bo_calibration_create(context, attention, 0, &c));
    assert_fails(context, BO_INVALID, "calibration: no rows of q",
                 bo_calibration_apply(context, c, attention, 0, NULL));
    assert_ok(context, bo_calibration_add_arrays(context, c, &none, &in)); /* no rows: nothing changes */
    assert_fails(context, BO_INVALID, "calibration: no rows", bo_calibration_apply(context, c, attention, 0, NULL));
    assert_fails(context, BO_INVALID, "argument 'shape' is NULL", bo_calibration_add_arrays(context, c, NULL, &in));
    assert_fails(context, BO_INVALID, "argument 'inputs' is NULL",
                 bo_calibration_add_arrays(context, c, &one_sequence, NULL));
    assert_fails(context, BO_INVALID, "argument 'inputs->k' is NULL",
                 bo_calibration_add_arrays(context, c, &one_sequence, &no_k));
    assert_fails(context, BO_INVALID, "needs keys", bo_calibration_add_arrays(context, c, &no_keys, &in));
    assert_fails(context, BO_INVALID, "NULL", bo_calibration_add_arrays(context, NULL, &one_sequence, &in));
    assert_fails(context, BO_INVALID, "NULL", bo_calibration_apply(context, NULL, attention, 0, NULL));
    assert_fails(context, BO_INVALID, "NULL", bo_calibration_apply(context, c, NULL, 0, NULL));
    in.sigma = d->q;
    assert_fails(context, BO_INVALID, "sigma", bo_calibration_add_arrays(context, c, &one_sequence, &in));
    in.sigma = NULL;
    d->k[TOKENS * DIM + 7 * DIM + 2] = INFINITY;
    assert_fails(context, BO_NUMERIC, "k is inf at sequence 0, head 1, token 7, column 2",
                 bo_calibration_add_arrays(context, c, &one_sequence, &in));
    for (size_t i = 0; i < 2 * KEY_HEADS; i++) assert_int_equal(c->sides[i].rows, 0); /* unchanged */
    d->k[TOKENS * DIM + 7 * DIM + 2] = 1;
    assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));

    const struct {
        bo_attention_kind kind;
        size_t heads, key_heads, dim;
        bool one_draw;
        const char *message;
    } mismatches[] = {
        {BO_ATTENTION_HYBRID, HEADS, KEY_HEADS, DIM, false, "kind favor, but the attention has kind hybrid"},
        {BO_ATTENTION_FAVOR, 2, 2, DIM, false, "heads = 4, but the attention has 2"},
        {BO_ATTENTION_FAVOR, HEADS, 1, DIM, false, "key_heads = 2, but the attention has 1"},
        {BO_ATTENTION_FAVOR, HEADS, KEY_HEADS, 6, false, "dim = 5, but the attention has 6"},
        {BO_ATTENTION_FAVOR, HEADS, KEY_HEADS, DIM, true, "one_draw = 0, but the attention has 1"}};
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        bo_attention_desc mismatch = desc_of(mismatches[i].kind, BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN);
        mismatch.heads = mismatches[i].heads, mismatch.key_heads = mismatches[i].key_heads,
        mismatch.dim = mismatches[i].dim;
        mismatch.one_draw = mismatches[i].one_draw;
        bo_attention *b = create_attention(context, &mismatch);
        assert_fails(context, BO_INVALID, mismatches[i].message, bo_calibration_apply(context, c, b, 0, NULL));
        bo_attention_destroy(b);
    }
    bo_calibration_destroy(c);
    bo_attention_destroy(attention);

    desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_NONE, BO_SAMPLING_DRAWN);
    attention = create_attention(context, &desc);
    assert_fails(context, BO_INVALID, "do not depend on data", bo_calibration_create(context, attention, 0, &c));
    bo_attention_destroy(attention);
    desc = (bo_attention_desc){.heads = 1, .dim = DIM};
    attention = create_attention(context, &desc);
    assert_fails(context, BO_INVALID, "(kind softmax) has no frequencies",
                 bo_calibration_create(context, attention, 0, &c));
    bo_attention_destroy(attention);

    desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN);
    desc.features.draw = BO_DRAW_HADAMARD;
    assert_fails(context, BO_UNSUPPORTED, "hadamard", bo_attention_create(context, &desc, &attention));
    desc = desc_of(BO_ATTENTION_LINEAR, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL);
    desc.features.kernel = BO_KERNEL_TAYLOR;
    desc.features.features = 0;
    assert_fails(context, BO_UNSUPPORTED, "no frequencies", bo_attention_create(context, &desc, &attention));
    desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL);
    desc.features.candidates = 8;
    assert_fails(context, BO_INVALID, "number of frequencies, 16", bo_attention_create(context, &desc, &attention));
    bo_attention_destroy(NULL);
    bo_calibration_destroy(NULL);
    free(d);
    bo_context_destroy(context);
}

/* If any allocation fails, nothing leaks, and earlier states still match. */
static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting counter = {.once = true};
    bo_context *context = counting_context(&counter, 1);
    data *d = make_data(1, 0.8);
    bo_attention_inputs in = inputs_of(d);
    bo_attention_shape few = {.sequences = 1, .tokens = 4};
    bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_SDERF, BO_SAMPLING_OPTIMAL);
    desc.one_draw = true;
    size_t before = counter.live;
    bo_attention *attention = create_attention(context, &desc);
    void *bytes = malloc(bo_attention_state_bytes(attention));
    assert_ok(context, bo_attention_state_init(context, attention, bytes));
    for (size_t at = 1, failed = 0;; at++, failed++) {
        bo_calibration *c = NULL;
        bo_calibration_report report;
        size_t live = counter.live;
        counter.calls = 0;
        counter.fail_at = at;
        bo_status status = bo_calibration_create(context, attention, 0, &c);
        if (status == BO_OK) status = bo_calibration_add_arrays(context, c, &few, &in);
        if (status == BO_OK) status = bo_calibration_apply(context, c, attention, 0, &report);
        counter.fail_at = 0;
        bo_calibration_destroy(c);
        if (status == BO_OK) {
            assert_true(failed > 80);
            break;
        }
        assert_int_equal(status, BO_MEMORY);
        assert_int_equal(counter.live, live);
        assert_ok(context, bo_attention_state_check(context, attention, bytes));
    }
    assert_int_equal(bo_attention_state_check(context, attention, bytes), BO_INVALID);
    free(bytes);
    bo_attention_destroy(attention);
    assert_int_equal(counter.live, before);
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
