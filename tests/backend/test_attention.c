/* Attention as an operation, every preset with every supported input: packed sequences have the results of single ones,
 * states carry a sequence from pass to pass, any split fits into the planned tape and workspace, and nothing is
 * allocated. */
#include <bochner/names.h>
#include "calls.h"
#include "attention/calibration.h"
#include "attention/parameters.h"
#include "base/counting.h"

enum { HEADS = 4, KEY_HEADS = 2, DIM = 6, ROWS = 150, GIVEN = 10 };

/* An attention with its inputs for ROWS tokens. */
typedef struct subject {
    bo_attention *attention;
    bo_attention_attributes attributes;
    size_t inputs, width[BO_OP_INPUTS]; /* floats per token; for parameters the total */
    bool by_token[BO_OP_INPUTS];
    float *data[BO_OP_INPUTS];
} subject;

static const bo_parameter parameter_of[GIVEN] = {
    [1] = BO_PARAMETER_SIGMA,  [2] = BO_PARAMETER_M,   [3] = BO_PARAMETER_MIX,  [5] = BO_PARAMETER_LOG_DECAY,
    [6] = BO_PARAMETER_LAMBDA, [7] = BO_PARAMETER_M_K, [8] = BO_PARAMETER_BIAS, [9] = BO_PARAMETER_BIAS_K,
};

static void subject_add(subject *s, size_t width, bool by_token, float low, float high)
{
    size_t count = by_token ? ROWS * width : width;
    float *x = test_floats(count, 0);
    bo_rng rng = bo_rng_make(5, s->inputs);
    for (size_t i = 0; i < count; i++) x[i] = low + (high - low) * (float)bo_rng_uniform(&rng);
    s->width[s->inputs] = width;
    s->by_token[s->inputs] = by_token;
    s->data[s->inputs++] = x;
}

/* Adds all inputs that this attention supports. */
static void subject_add_input(subject *s, unsigned bit)
{
    const bo_attention_desc *d = bo_attention_describe(s->attention);
    bool beta = d->kind == BO_ATTENTION_DELTA || d->kind == BO_ATTENTION_RIDGE;
    size_t token = bit == 0 ? bo_gate_width(d) * KEY_HEADS : bit == 4 && beta ? KEY_HEADS : 0;
    size_t whole = bit == 0 || bit == 4 ? 0 : KEY_HEADS * bo_parameter_size(s->attention, parameter_of[bit]);
    if (!token && !whole) return;
    s->attributes.given |= 1u << bit;
    bool negative = bit == 0 || bit == 5;
    subject_add(s, token ? token : whole, token != 0, negative ? -0.4f : 0.2f, negative ? -0.01f : 1.0f);
}

static void calibrate(bo_context *context, subject *s)
{
    bo_calibration *calibration;
    bo_attention_shape shape = {.sequences = 1, .tokens = ROWS, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention_inputs in = {.q = s->data[0], .k = s->data[1]};
    assert_ok(context, bo_calibration_create(context, s->attention, 0, &calibration));
    assert_ok(context, bo_calibration_add_arrays(context, calibration, &shape, &in));
    assert_ok(context, bo_calibration_apply(context, calibration, s->attention, 0, NULL));
    bo_calibration_destroy(calibration);
}

static subject subject_make(bo_context *context, const char *name)
{
    subject s = {0};
    bo_attention_desc desc = {.heads = HEADS,
                              .key_heads = KEY_HEADS,
                              .dim = DIM,
                              .causal = true,
                              .chunk = 4, /* so that few tokens have many segments */
                              .features = {.features = 8, .seed = 3}};
    assert_true(bo_attention_preset(name, &desc));
    bool drawn = bo_attention_create(context, &desc, &s.attention) == BO_OK;
    desc.features.features = 0; /* for maps with a fixed number */
    if (!drawn) assert_ok(context, bo_attention_create(context, &desc, &s.attention));
    s.attributes = (bo_attention_attributes){.attention = s.attention};
    subject_add(&s, HEADS * DIM, true, -1, 1);
    subject_add(&s, KEY_HEADS * DIM, true, -1, 1);
    subject_add(&s, KEY_HEADS * DIM, true, -1, 1);
    for (unsigned bit = 0; bit < GIVEN; bit++) subject_add_input(&s, bit);
    if (!s.attention->ready) calibrate(context, &s);
    return s;
}

static void subject_drop(subject *s)
{
    for (size_t i = 0; i < s->inputs; i++) free(s->data[i]);
    bo_attention_destroy(s->attention);
}

#define FOR_EACH_PRESET(name)                                                                                          \
    const char *name;                                                                                                  \
    for (size_t preset_ = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)preset_)); preset_++)

/* The operation over rows first … first + rows - 1. */
static test_call call_of(const subject *s, size_t first, size_t rows, const bo_graph_pass *pass)
{
    test_call t = test_begin(BO_OPERATION_ATTENTION, &s->attributes);
    t.call.pass = pass;
    for (size_t i = 0; i < s->inputs; i++) {
        size_t skip = s->by_token[i] ? first * s->width[i] : 0;
        test_input(&t, s->data[i] + skip, BO_ELEMENT_FLOAT32, s->by_token[i] ? rows : 1, s->width[i]);
    }
    return t;
}

/* Sums over other groups of sequences or other splits: equal up to rounding, or for RIDGE up to its tolerance. */
static void assert_alike(const char *name, size_t count, const float *found, const float *expected)
{
    double size = 0;
    for (size_t i = 0; i < count; i++) size = fmax(size, fabs((double)expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= 2e-4 * size))
            fail_msg("%s: %zu is %.9g, expected %.9g", name, i, (double)found[i], (double)expected[i]);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {37, 1, 0, 70, 42};
enum { SEQUENCES = sizeof lengths / sizeof *lengths };

static void packed_sequences_equal_separate_ones(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const bo_graph_pass pass = {.sequences = SEQUENCES, .lengths = lengths};
    FOR_EACH_PRESET(name)
    {
        subject s = subject_make(context, name);
        s.attributes.max_sequences = SEQUENCES;
        float *dout = test_normals(ROWS * HEADS * DIM, 1), *sums[BO_OP_INPUTS];
        test_call all = call_of(&s, 0, ROWS, &pass);
        test_forward(context, &all, true);
        test_backward(context, &all, dout, false);
        for (size_t i = 0; i < s.inputs; i++) sums[i] = test_floats(s.width[i], 0);
        for (size_t q = 0, first = 0; q < SEQUENCES; first += lengths[q++]) {
            if (!lengths[q]) continue;
            s.attributes.max_sequences = 0;
            test_call one = call_of(&s, first, lengths[q], &no_pass);
            test_forward(context, &one, true);
            test_backward(context, &one, dout + first * HEADS * DIM, false);
            assert_alike(name, lengths[q] * HEADS * DIM, test_out(&all) + first * HEADS * DIM, test_out(&one));
            for (size_t i = 0; i < s.inputs; i++) {
                const float *found = all.call.din[i], *alone = one.call.din[i];
                if (s.by_token[i])
                    assert_alike(name, lengths[q] * s.width[i], found + first * s.width[i], alone);
                else
                    for (size_t j = 0; j < s.width[i]; j++) sums[i][j] += alone[j];
            }
            test_end(&one);
        }
        for (size_t i = 0; i < s.inputs; i++) {
            if (!s.by_token[i]) assert_alike(name, s.width[i], all.call.din[i], sums[i]);
            free(sums[i]);
        }
        free(dout);
        test_end(&all);
        subject_drop(&s);
    }
    bo_context_destroy(context);
}

/* Rows defined by attributes: tokens per sequence. */
static void tokens_are_lengths(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const size_t halves[] = {ROWS / 2, ROWS / 2};
    const bo_graph_pass pass = {.sequences = 2, .lengths = halves};
    subject s = subject_make(context, "rfa-gate");
    s.attributes.tokens = ROWS / 2;
    test_call plain = call_of(&s, 0, ROWS, &no_pass), packed = call_of(&s, 0, ROWS, &pass);
    test_forward(context, &plain, false);
    test_forward(context, &packed, false);
    assert_memory_equal(test_out(&plain), test_out(&packed), test_out_bytes(&plain));
    test_end(&plain);
    test_end(&packed);
    subject_drop(&s);
    bo_context_destroy(context);
}

static void states_continue(void **state)
{
    (void)state;
    enum { SPLIT = 61 };
    bo_context *context = test_context(2);
    FOR_EACH_PRESET(name)
    {
        subject s = subject_make(context, name);
        void *memory = test_allocate(bo_attention_state_bytes(s.attention));
        void *states[] = {NULL, memory}; /* of layer 1 */
        s.attributes.layer = 1;
        const bo_graph_pass pass = {.sequences = 1, .states = states};
        assert_ok(context, bo_attention_state_init(context, s.attention, memory));
        test_call all = call_of(&s, 0, ROWS, &no_pass);
        test_forward(context, &all, false);
        for (size_t first = 0, rows; first < ROWS; first += rows) {
            rows = first == 0 ? SPLIT : first == SPLIT ? 20 : 1; /* two blocks, then token by token */
            test_call part = call_of(&s, first, rows, &pass);
            test_forward(context, &part, false);
            assert_alike(name, rows * HEADS * DIM, test_out(&part), test_out(&all) + first * HEADS * DIM);
            test_end(&part);
        }
        assert_int_equal(bo_attention_state_tokens(memory), ROWS);
        test_end(&all);
        test_leave(memory);
        subject_drop(&s);
    }
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* At most `max_count` lengths, some of them 0, with the sum ROWS. */
static size_t random_lengths(bo_rng *rng, size_t max_count, size_t *out)
{
    size_t count = 1 + (size_t)bo_rng_below(rng, max_count), left = ROWS;
    bool even = bo_rng_below(rng, 2);
    for (size_t i = 0; i < count; i++) {
        out[i] = i + 1 == count ? left : even ? ROWS / count : (size_t)bo_rng_below(rng, left + 1);
        left -= out[i];
    }
    return count;
}

/* Each call checks its guards (tests/backend/calls.h), and the context counts allocations. */
static void any_split_fits(void **state)
{
    (void)state;
    enum { MAX = 40, ROUNDS = 12 };
    counting counted = {0};
    const int threads[] = {1, 2, 9};
    for (size_t c = 0; c < 3; c++) {
        bo_context *context = counting_context(&counted, threads[c]);
        FOR_EACH_PRESET(name)
        {
            subject s = subject_make(context, name);
            bo_rng rng = bo_rng_make(23, c);
            for (size_t round = 0; round < ROUNDS; round++) {
                size_t split[MAX], max_count = round % 3 == 0 ? MAX : 3, saved, scratch, tape;
                size_t count = random_lengths(&rng, max_count, split);
                s.attributes.max_sequences = max_count;
                const bo_graph_pass pass = {.sequences = count, .lengths = split};
                bo_attention_shape shape = {.sequences = count, .lengths = split, .layout = BO_LAYOUT_TOKENS_FIRST};
                test_call t = call_of(&s, 0, ROWS, &pass);
                assert_ok(context, t.op->sizes(context, &t.call, true, &saved, &scratch));
                assert_ok(context, bo_attention_tape_bytes(context, s.attention, &shape, &tape));
                assert_true(tape <= saved);
                size_t before = atomic_load(&counted.calls);
                test_forward(context, &t, true);
                test_backward(context, &t, NULL, round % 2);
                assert_int_equal(atomic_load(&counted.calls), before);
                test_end(&t);
            }
            subject_drop(&s);
        }
        bo_context_destroy(context);
    }
}

static void gradients_are_added(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    FOR_EACH_PRESET(name)
    {
        subject s = subject_make(context, name);
        test_call written = call_of(&s, 0, ROWS, &no_pass), added = call_of(&s, 0, ROWS, &no_pass);
        test_forward(context, &written, true);
        test_forward(context, &added, true);
        test_backward(context, &written, NULL, false);
        test_backward(context, &added, NULL, true);
        for (size_t i = 0; i < s.inputs; i++)
            for (size_t j = 0; j < (s.by_token[i] ? ROWS : 1) * s.width[i]; j++) {
                const float *a = added.call.din[i], *w = written.call.din[i];
                assert_true(a[j] == 1 + w[j]);
            }
        test_end(&written);
        test_end(&added);
        subject_drop(&s);
    }
    bo_context_destroy(context);
}

/* ---- calibration and refusals ------------------------------------------------------------------------------------ */

static void data_is_collected_once_before_use(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    subject s = subject_make(context, "favor#");
    bo_attention_desc desc = *bo_attention_describe(s.attention);
    bo_attention *fresh;
    assert_ok(context, bo_attention_create(context, &desc, &fresh));
    bo_calibration *calibrations[1];
    assert_ok(context, bo_calibration_create(context, fresh, 0, &calibrations[0]));
    const bo_calibrating calibrating = {calibrations, &fresh};
    subject other = s;
    other.attributes.attention = fresh;
    test_call t = call_of(&other, 0, ROWS, &no_pass), expected = call_of(&s, 0, ROWS, &no_pass);
    test_forward(context, &expected, false);
    assert_ok(context, t.op->calibrate(context, &t.call, &calibrating));
    test_forward(context, &t, false); /* draws from the same rows as subject_make */
    assert_memory_equal(test_out(&t), test_out(&expected), test_out_bytes(&t));
    assert_int_equal(calibrations[0]->sides[0].rows, ROWS * HEADS / KEY_HEADS);
    test_end(&t);
    t = call_of(&other, 0, ROWS, &no_pass);
    t.call.again = true;
    assert_ok(context, t.op->calibrate(context, &t.call, &calibrating));
    test_forward(context, &t, false);
    assert_int_equal(calibrations[0]->sides[0].rows, ROWS * HEADS / KEY_HEADS);
    test_end(&t);
    test_end(&expected);
    bo_calibration_destroy(calibrations[0]);
    bo_attention_destroy(fresh);
    subject_drop(&s);
    bo_context_destroy(context);
}

/* Frequencies that were drawn for other data are drawn again: recalibrating equals calibrating. */
static void frequencies_follow_the_data(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    subject s = subject_make(context, "favor#");
    bo_calibration *calibrations[1];
    const bo_calibrating calibrating = {calibrations, &s.attention};
    for (size_t i = 0; i < ROWS * HEADS * DIM; i++) s.data[0][i] *= i % DIM ? 0.3f : 2.0f;
    assert_ok(context, bo_calibration_create(context, s.attention, 0, &calibrations[0]));
    test_call before = call_of(&s, 0, ROWS, &no_pass), found = call_of(&s, 0, ROWS, &no_pass);
    test_forward(context, &before, false);
    assert_ok(context, found.op->calibrate(context, &found.call, &calibrating));
    test_forward(context, &found, false);
    calibrate(context, &s);
    test_call expected = call_of(&s, 0, ROWS, &no_pass);
    test_forward(context, &expected, false);
    assert_memory_not_equal(test_out(&found), test_out(&before), test_out_bytes(&found));
    assert_memory_equal(test_out(&found), test_out(&expected), test_out_bytes(&found));
    test_end(&before);
    test_end(&found);
    test_end(&expected);
    bo_calibration_destroy(calibrations[0]);
    subject_drop(&s);
    bo_context_destroy(context);
}

static void refuses_lengths_that_do_not_fit(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    subject s = subject_make(context, "softmax");
    s.attributes.max_sequences = 2;
    const size_t many[] = {ROWS - 1, 1, 0}, few[] = {ROWS - 2, 1}, long_ones[] = {1, ROWS},
                 huge[] = {SIZE_MAX, ROWS + 1};
    const struct {
        bo_graph_pass pass;
        const char *message;
    } cases[] = {{{.sequences = 3, .lengths = many}, "allows at most 2"},
                 {{.sequences = 2, .lengths = few}, "belong to no sequence"},
                 {{.sequences = 2, .lengths = long_ones}, "are left"},
                 {{.sequences = 2, .lengths = huge}, "are left"}};
    for (size_t i = 0; i < 4; i++) {
        test_call t = call_of(&s, 0, ROWS, &no_pass);
        test_forward(context, &t, false);
        t.call.pass = &cases[i].pass;
        assert_fails(context, BO_INVALID, cases[i].message, t.op->forward(context, &t.call));
        test_end(&t);
    }
    subject_drop(&s);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_sequences_equal_separate_ones),
        cmocka_unit_test(tokens_are_lengths),
        cmocka_unit_test(states_continue),
        cmocka_unit_test(any_split_fits),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(data_is_collected_once_before_use),
        cmocka_unit_test(frequencies_follow_the_data),
        cmocka_unit_test(refuses_lengths_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
