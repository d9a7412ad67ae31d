/* Arrays and parameters that do not fit the kind or are out of range: the message names them and states what was
 * expected. */
#include "refusals.h"

/* A value out of range: the array, the position, the description of the expected range. */
typedef struct bad_number {
    bo_attention_desc desc;
    trial_array which;
    size_t at;
    float value;
    bo_status status;
    const char *one, *two;
} bad_number;

#define GATED_RIDGE RIDGE_(GOOD, .gate = BO_GATE_DECAY)
#define RETENTION   LINEAR_(GOOD, .causal = true, .gate = BO_GATE_FIXED)

static const bad_number bad_numbers[] = {
    {RIDGE_(GOOD), LAMBDA, 9, 0, BO_INVALID, "lambda[9] is 0", "positive"},
    {RIDGE_(GOOD), LAMBDA, 31, -2, BO_INVALID, "lambda[31] is -2", "positive"},
    {RIDGE_(GOOD), LAMBDA, 0, NAN, BO_NUMERIC, "lambda[0] is nan", "finite"},
    {GATED_RIDGE, LAMBDA, 0, INFINITY, BO_NUMERIC, "lambda[0] is inf", "finite"},
    {RETENTION, LOG_DECAY, 1, 0.1F, BO_INVALID, "log_decay[1] is 0.1", "at most 0"},
    {RETENTION, LOG_DECAY, 3, NAN, BO_NUMERIC, "log_decay[3] is nan", "finite"},
    {RETENTION, LOG_DECAY, 3, -INFINITY, BO_NUMERIC, "log_decay[3] is -inf", "finite"},
    {DELTA_(GOOD), BETA, 7, -0.5F, BO_INVALID, "beta", "-0.5"},
    {DELTA_(GOOD), BETA, 7, NAN, BO_NUMERIC, "beta is nan", "sequence 0, head 1, token 2"},
    {GATED_RIDGE, BETA, 27, INFINITY, BO_NUMERIC, "beta is inf", "sequence 1, head 1, token 2"},
    {GATED_RIDGE, LOG_GATE, 7, 0.25F, BO_INVALID, "log_gate", "0.25"},
    {GLA_(GOOD), LOG_GATE, 7 * 8 + 3, 0.25F, BO_INVALID, "log_gate", "0.25"},
    {GLA_(GOOD), LOG_GATE, 7 * 8 + 3, NAN, BO_NUMERIC, "log_gate is nan", "sequence 0, head 1, token 2"},
    {GLA_(GOOD), LOG_GATE, 27 * 8 + 7, -INFINITY, BO_NUMERIC, "log_gate is -inf", "sequence 1, head 1, token 2"},
    {LEARNED_(GOOD, .rank = 3), M, 4 * 3 * 8 - 1, NAN, BO_NUMERIC, "m[95]", "finite"},
    {LEARNED_(GOOD, .rank = 3), M_K, 5, INFINITY, BO_NUMERIC, "m_k[5]", "finite"},
    {LEARNED_(GOOD, .rank = 3), BIAS, 11, NAN, BO_NUMERIC, "bias[11]", "finite"},
    {LEARNED_(GOOD), BIAS_K, 31, -INFINITY, BO_NUMERIC, "bias_k[31]", "finite"},
};

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof bad_numbers / sizeof *bad_numbers; i++) {
        const bad_number *bad = &bad_numbers[i];
        trial t = make_trial(context, bad->desc, 0);
        bo_attention_inputs in = trial_inputs(&t);
        assert_true(bad->at < t.count[bad->which]);
        float kept = t.array[bad->which][bad->at];
        t.array[bad->which][bad->at] = bad->value;
        refuse(&t, &in, bad->status, bad->one, bad->two);
        t.array[bad->which][bad->at] = kept;
        assert_ok(context, bo_attention_forward_arrays(context, t.attention, &t.desc.shape, &in, NULL, NULL,
                                                       t.array[OUT], NULL));
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- arrays of other kinds --------------------------------------------------------------------------------------- */

static const bo_attention_desc kinds_to_try[] = {
    EXACT_(GOOD),   LINEAR_(GOOD),
    RFA_(GOOD),     FAVOR_(GOOD),
    DARK_(GOOD),    HYBRID_(GOOD, .causal = true),
    LEARNED_(GOOD), POWER_(GOOD),
    GLA_(GOOD),     DELTA_(GOOD),
    RIDGE_(GOOD),   RETENTION,
    GATED_RIDGE,    LINEAR_(GOOD, .causal = true, .gate = BO_GATE_CONVEX),
};

static const float **input_at(bo_attention_inputs *in, trial_array which)
{
    const float **at[] = {&in->q,   &in->k,    &in->v,      &in->log_gate, &in->beta,      &in->sigma, &in->m,
                          &in->m_k, &in->bias, &in->bias_k, &in->mix,      &in->log_decay, &in->lambda};
    return at[which];
}

/* Every array is passed to every kind. If the kind does not accept the array, it is refused by name, also as a
 * gradient. */
static void arrays_of_other_kinds_are_refused(void **state)
{
    (void)state;
    static const float number[64 * 64] = {0};
    bo_context *context = test_context(1);
    size_t refused = 0;
    for (size_t i = 0; i < sizeof kinds_to_try / sizeof *kinds_to_try; i++) {
        trial t = make_trial(context, kinds_to_try[i], 0);
        trial_forward(&t);
        for (size_t which = LOG_GATE; which < OUT; which++) {
            if (trial_accepts(t.d, (trial_array)which)) continue;
            bo_attention_inputs in = trial_inputs(&t);
            *input_at(&in, (trial_array)which) = number;
            refuse(&t, &in, BO_INVALID, trial_names[which], "");
            float *requested[TRIAL_ARRAYS] = {NULL};
            requested[which] = t.gradient[Q];
            bo_attention_gradients g = trial_gradients(requested, NULL);
            in = trial_inputs(&t);
            assert_fails(context, BO_INVALID, trial_names[which],
                         bo_attention_backward_arrays(context, t.attention, &t.desc.shape, &in, NULL, t.array[OUT],
                                                      t.tape, t.gradient[OUT], NULL, &g));
            refused++;
        }
        bo_attention_inputs in = trial_inputs(&t);
        bo_solves solves;
        in.solves = &solves;
        if (t.d->kind != BO_ATTENTION_RIDGE) refuse(&t, &in, BO_INVALID, "solves", "ridge");
        trial_drop(&t);
    }
    assert_int_equal(refused, 14 * 10 - 16);
    bo_context_destroy(context);
}

/* Gates have no default. */
static void missing_gates_are_refused(void **state)
{
    (void)state;
    static const bo_attention_desc descs[] = {GLA_(GOOD), GATED_RIDGE, DELTA_(GOOD, .gate = BO_GATE_DECAY)};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 3; i++) {
        trial t = make_trial(context, descs[i], 0);
        bo_attention_inputs in = trial_inputs(&t);
        in.log_gate = NULL;
        refuse(&t, &in, BO_INVALID, "log_gate", "NULL");
        assert_fails(context, BO_INVALID, "log_gate",
                     bo_attention_step(context, t.attention, 2, &in, t.final, t.array[OUT]));
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- frequencies that need data ---------------------------------------------------------------------------------- */

static void uncalibrated_attention_is_refused(void **state)
{
    (void)state;
    static const bo_attention_desc descs[] = {
        FAVOR_(GOOD, .causal = true, .proposal = BO_PROPOSAL_OPRF),
        DARK_(GOOD, .causal = true, .proposal = BO_PROPOSAL_SDERF),
        HYBRID_(GOOD, .causal = true, .proposal = BO_PROPOSAL_GAUSSIAN),
        FAVOR_(GOOD, .causal = true, .features.sampling = BO_SAMPLING_OPTIMAL),
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        trial t = make_trial(context, descs[i], 0); /* calibrated */
        bo_attention_inputs in = trial_inputs(&t);
        bo_attention *fresh;
        assert_ok(context, bo_attention_create(context, &descs[i], &fresh));
        assert_fails(context, BO_INVALID, "calibrat",
                     bo_attention_forward_arrays(context, fresh, &t.desc.shape, &in, NULL, NULL, t.array[OUT], NULL));
        void *states = aligned_alloc(64, bo_attention_state_bytes(fresh) / 64 * 64 + 64);
        if (bo_attention_state_init(context, fresh, states) == BO_OK)
            assert_fails(context, BO_INVALID, "calibrat",
                         bo_attention_step(context, fresh, 1, &in, &states, t.array[OUT]));
        bo_calibration *calibration;
        assert_ok(context, bo_calibration_create(context, fresh, 0, &calibration));
        assert_fails(context, BO_INVALID, "row", bo_calibration_apply(context, calibration, fresh, 0, NULL));
        t.array[Q][5] = NAN;
        assert_int_equal(bo_calibration_add_arrays(context, calibration, &t.desc.shape, &in), BO_NUMERIC);
        assert_fails(context, BO_INVALID, "row", bo_calibration_apply(context, calibration, fresh, 0, NULL));
        bo_calibration_destroy(calibration);
        assert_fails(context, BO_INVALID, "momentum", bo_calibration_create(context, fresh, 1, &calibration));
        assert_fails(context, BO_INVALID, "momentum", bo_calibration_create(context, fresh, NAN, &calibration));
        assert_fails(context, BO_INVALID, "NULL", bo_calibration_create(context, NULL, 0, &calibration));
        free(states);
        bo_attention_destroy(fresh);
        trial_drop(&t);
    }
    bo_calibration_destroy(NULL);
    bo_context_destroy(context);
}

/* ---- reserved fields --------------------------------------------------------------------------------------------- */

static void assert_zero(const uint64_t reserved[4])
{
    for (size_t i = 0; i < 4; i++) assert_true(reserved[i] == 0);
}

/* Calibrates an attention of the same shape whose frequencies are drawn from data. */
static bo_calibration *make_calibration(bo_context *context, bo_attention **attention)
{
    const bo_attention_desc desc = FAVOR_(GOOD, .causal = true, .proposal = BO_PROPOSAL_GAUSSIAN);
    bo_calibration *calibration;
    assert_ok(context, bo_attention_create(context, &desc, attention));
    assert_ok(context, bo_calibration_create(context, *attention, 0, &calibration));
    return calibration;
}

/* Reserved fields of input structs are refused if they are not zero, in every field and by every call. */
static void reserved_words_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), 0);
    const bo_attention_inputs good = trial_inputs(&t);
    const bo_attention_shape shape = t.desc.shape;
    float *out = t.array[OUT], *dq = t.gradient[Q];
    bo_attention_cost cost;
    bo_attention_accuracy accuracy;
    bo_attention *calibrated;
    bo_calibration *calibration = make_calibration(context, &calibrated);
    size_t bytes;
    for (size_t index = 0; index < 4; index++) {
        bo_attention_desc desc = t.desc.attention;
        bo_attention_inputs in = good;
        bo_attention_shape wrong = shape;
        bo_attention_gradients gradients = {.q = dq};
        bo_attention *attention = (bo_attention *)&desc;
        desc.reserved[index] = in.reserved[index] = wrong.reserved[index] = gradients.reserved[index] = 1;
        assert_fails(context, BO_INVALID, "bo_attention_desc", bo_attention_create(context, &desc, &attention));
        assert_null(attention);
        refuse(&t, &in, BO_INVALID, "bo_attention_inputs", "reserved");
        assert_fails(context, BO_INVALID, "bo_attention_inputs",
                     bo_attention_step(context, t.attention, 1, &in, t.final, out));
        assert_fails(context, BO_INVALID, "bo_attention_inputs",
                     bo_attention_extend(context, t.attention, &shape, &in, t.final, out));
        assert_fails(context, BO_INVALID, "bo_attention_inputs",
                     bo_attention_measure_arrays(context, t.attention, &shape, &in, out, 0, &accuracy));
        assert_fails(context, BO_INVALID, "bo_attention_inputs",
                     bo_calibration_add_arrays(context, calibration, &shape, &in));
        assert_fails(context, BO_INVALID, "bo_attention_shape",
                     bo_attention_forward_arrays(context, t.attention, &wrong, &good, NULL, NULL, out, NULL));
        assert_fails(context, BO_INVALID, "bo_attention_shape",
                     bo_attention_tape_bytes(context, t.attention, &wrong, &bytes));
        assert_fails(context, BO_INVALID, "bo_attention_shape",
                     bo_attention_estimate_arrays(context, t.attention, &wrong, &cost));
        assert_fails(context, BO_INVALID, "bo_attention_shape",
                     bo_calibration_add_arrays(context, calibration, &wrong, &good));
        assert_fails(
            context, BO_INVALID, "bo_attention_gradients",
            bo_attention_backward_arrays(context, t.attention, &shape, &good, NULL, out, out, NULL, NULL, &gradients));
    }
    bo_calibration_destroy(calibration);
    bo_attention_destroy(calibrated);
    trial_drop(&t);
    bo_context_destroy(context);
}

/* Reserved fields of output structs are set to zero. */
static void reserved_words_are_filled_in(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), 0);
    bo_attention_inputs in = trial_inputs(&t);
    bo_attention_cost cost;
    bo_attention_accuracy accuracy;
    bo_proposal_report proposal;
    bo_calibration_report report;
    bo_attention *calibrated;
    bo_calibration *calibration = make_calibration(context, &calibrated);
    bo_solves solves;
    memset(&cost, 0xff, sizeof cost);
    memset(&accuracy, 0xff, sizeof accuracy);
    memset(&proposal, 0xff, sizeof proposal);
    memset(&report, 0xff, sizeof report);
    memset(&solves, 0xff, sizeof solves);
    assert_zero(bo_attention_describe(t.attention)->reserved);
    assert_ok(context, bo_attention_estimate_arrays(context, t.attention, &t.desc.shape, &cost));
    assert_ok(context, bo_attention_measure_arrays(context, t.attention, &t.desc.shape, &in, NULL, 0, &accuracy));
    assert_ok(context, bo_calibration_add_arrays(context, calibration, &t.desc.shape, &in));
    assert_ok(context, bo_calibration_apply(context, calibration, calibrated, 0, &report));
    assert_ok(context, bo_attention_propose_arrays(context, t.attention, &t.desc.shape, in.q, in.k, &proposal));
    bo_calibration_destroy(calibration);
    bo_attention_destroy(calibrated);
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)RIDGE_(GOOD), 0);
    in = trial_inputs(&t);
    in.solves = &solves;
    assert_ok(context,
              bo_attention_forward_arrays(context, t.attention, &t.desc.shape, &in, NULL, NULL, t.array[OUT], NULL));
    trial_drop(&t);
    assert_zero(cost.reserved);
    assert_zero(accuracy.reserved);
    assert_zero(proposal.reserved);
    assert_zero(report.reserved);
    assert_zero(solves.reserved);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range_are_refused), cmocka_unit_test(arrays_of_other_kinds_are_refused),
        cmocka_unit_test(missing_gates_are_refused),        cmocka_unit_test(uncalibrated_attention_is_refused),
        cmocka_unit_test(reserved_words_are_refused),       cmocka_unit_test(reserved_words_are_filled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
