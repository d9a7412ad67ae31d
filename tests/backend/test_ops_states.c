/* Attention in pieces: passes with states have the result of the whole sequence; a calibrating run draws from its
 * data. */
#include <bochner/names.h>
#include "cases_attention.h"

enum { SEQUENCES = 3, PIECES = 5, LAYER = 1, LAYERS = 3 };

/* Tokens of each sequence in each piece: any split, single tokens, sequences that pause, and a number of sequences that
 * equals the rows although some have no token. */
static const size_t pieces[PIECES][SEQUENCES] = {{3, 0, 2}, {1, 1, 1}, {0, 2, 1}, {3, 0, 0}, {0, 1, 9}};
static const size_t totals[SEQUENCES] = {7, 4, 13};

typedef struct pieced {
    harness *h;
    const trial *t;
    const plain_op *whole;
    const op_truth *truth;
    bo_attention_attributes attributes;
    void *states[LAYERS * SEQUENCES];
    size_t done[SEQUENCES]; /* tokens so far */
} pieced;

static size_t row_of(const pieced *p, size_t sequence, size_t token)
{
    return p->t->query_start[sequence] + p->done[sequence] + token;
}

/* The rows of a piece, input by input; parameters are unchanged. */
static plain_op cut(const pieced *p, const size_t *lengths)
{
    plain_op op = *p->whole;
    size_t rows = 0, at = 0;
    for (size_t s = 0; s < SEQUENCES; s++) rows += lengths[s];
    for (size_t k = 0; k < op.inputs; k++) {
        const plain_tensor *from = &p->whole->in[k];
        bool tokens = from->rows == p->t->queries_total;
        op.in[k].rows = tokens ? rows : from->rows;
        op.in[k].x = plain_zeros(plain_count(&op.in[k]));
        if (!tokens) memcpy(op.in[k].x, from->x, plain_count(from) * sizeof(double));
    }
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t i = 0; i < lengths[s]; i++, at++)
            for (size_t k = 0; k < op.inputs; k++) {
                const plain_tensor *from = &p->whole->in[k];
                size_t width = from->columns;
                if (from->rows == p->t->queries_total)
                    memcpy(op.in[k].x + at * width, from->x + row_of(p, s, i) * width, width * sizeof(double));
            }
    op.out[0].rows = rows, op.out[0].x = plain_zeros(plain_count(&op.out[0]));
    return op;
}

/* Twice the tolerance of a whole run: for the sums of the run, and for sums that were rounded in states. */
static void compare(const pieced *p, const size_t *lengths, const float *found)
{
    const truth_array *a = &p->truth->out[0];
    for (size_t s = 0, at = 0; s < SEQUENCES; s++)
        for (size_t i = 0; i < lengths[s]; i++)
            for (size_t c = 0; c < a->columns; c++, at++) {
                size_t from = row_of(p, s, i) * a->columns + c;
                if (!(fabs((double)found[at] - a->value[from]) <= 2 * a->tolerance[from]))
                    fail_msg("%s: sequence %zu, token %zu, column %zu: found %.9g, expected %.9g within %.3g",
                             p->t->desc.name, s, p->done[s] + i, c, (double)found[at], a->value[from],
                             2 * a->tolerance[from]);
            }
}

static void run_piece(pieced *p, const size_t *lengths)
{
    op_case c = {.name = p->t->desc.name, .op = BO_OPERATION_ATTENTION, .attributes = &p->attributes};
    c.pass = (bo_graph_pass){.sequences = SEQUENCES, .lengths = lengths, .states = p->states};
    plain_op op = cut(p, lengths);
    op_truth nothing = truth_begin(&c, &op);
    bench b = bench_make(p->h->contexts[0], bo_backend_of(p->h->device)->ops[BO_OPERATION_ATTENTION], &c, &op, &nothing,
                         0xFF);
    b.counted = &p->h->counted, b.state_bytes = bo_attention_state_bytes(p->t->attention);
    bench_forward(&b, false);
    compare(p, lengths, (const float *)b.out[0].data);
    for (size_t s = 0; s < SEQUENCES; s++) p->done[s] += lengths[s];
    bench_drop(&b);
    truth_drop(&nothing);
    op_drop(&op);
}

static void check_preset(harness *h, const char *preset, size_t number)
{
    bo_attention_desc shape = {.heads = 4, .key_heads = 2, .dim = 6, .value_dim = 5};
    trial_desc desc = {.name = preset,
                       .attention = attention_preset(h->contexts[1], preset, shape),
                       .shape = {SEQUENCES, .lengths = totals, .layout = BO_LAYOUT_TOKENS_FIRST},
                       .seed = number};
    trial t = trial_make(h->contexts[1], &desc);
    pieced p = {.h = h, .t = &t, .attributes = {.attention = t.attention, .given = attention_bits(&t), .layer = LAYER}};
    p.attributes.max_sequences = SEQUENCES;
    op_case c = {.name = preset, .op = BO_OPERATION_ATTENTION, .attributes = &p.attributes};
    plain_op whole = attention_plain(&t, &p.attributes);
    if (!harness_supports(h->contexts[0], bo_backend_of(h->device)->ops[BO_OPERATION_ATTENTION], &whole)) {
        op_drop(&whole);
        trial_drop(&t);
        return;
    }
    op_truth truth = attention_truth(&c, &t, &whole);
    p.whole = &whole, p.truth = &truth;
    for (size_t s = 0; s < SEQUENCES; s++)
        p.states[LAYER * SEQUENCES + s] = t.final[s]; /* the states of other layers are NULL */
    for (size_t i = 0; i < PIECES; i++) run_piece(&p, pieces[i]);
    for (size_t s = 0; s < SEQUENCES; s++) assert_int_equal(bo_attention_state_tokens(t.final[s]), totals[s]);
    truth_drop(&truth);
    op_drop(&whole);
    trial_drop(&t);
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    const char *preset;
    for (size_t i = 0; (preset = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++) check_preset(&h, preset, i);
    harness_end(&h);
}

/* ---- calibrations ------------------------------------------------------------------------------------------------ */

/* Copies a block to memory of the backend. */
static void *place(const harness *h, const block *of)
{
    void *at = bo_buffer_allocate(h->contexts[0], h->device, of->bytes, "an input");
    assert_non_null(at);
    assert_ok(h->contexts[0], bo_buffer_write(h->contexts[0], h->device, at, of->data, of->bytes));
    return at;
}

/* One forward pass of an attention that requires data first, in a run with these calibrations. */
static void run_calibrated(harness *h, const trial *t, bo_attention *attention, bo_calibration *const *calibrations,
                           bool again, float *out)
{
    bo_attention_attributes attributes = {.attention = attention, .given = attention_bits(t), .layer = LAYER};
    op_case c = {.name = t->desc.name, .op = BO_OPERATION_ATTENTION, .attributes = &attributes};
    plain_op op = attention_plain(t, &attributes);
    op_truth nothing = truth_begin(&c, &op);
    bench b =
        bench_make(h->contexts[0], bo_backend_of(h->device)->ops[BO_OPERATION_ATTENTION], &c, &op, &nothing, 0xFF);
    const bo_calibrating calibrating = {calibrations, (bo_attention *[LAYERS]){[LAYER] = attention}};
    b.call.again = again;
    for (size_t k = 0; k < b.call.inputs; k++) b.call.in[k].data = place(h, &b.in[k]);
    assert_ok(h->contexts[0], b.op->calibrate(h->contexts[0], &b.call, &calibrating));
    for (size_t k = 0; k < b.call.inputs; k++) bo_buffer_release(h->device, b.call.in[k].data);
    bench_forward(&b, true);
    memcpy(out, b.out[0].data, b.out[0].bytes);
    bench_drop(&b);
    truth_drop(&nothing);
    op_drop(&op);
}

static void check_calibration(harness *h, const char *preset)
{
    bo_context *context = h->contexts[0];
    bo_attention_desc shape = {.heads = 2, .dim = 5};
    trial_desc desc = {.name = preset,
                       .attention = attention_preset(context, preset, shape),
                       .shape = {1, .tokens = 30, .layout = BO_LAYOUT_TOKENS_FIRST}};
    if (!desc.attention.proposal) desc.attention.features.sampling = BO_SAMPLING_OPTIMAL;
    trial t = trial_make(context, &desc);
    bo_attention_attributes attributes = {.attention = t.attention, .given = attention_bits(&t)};
    plain_op plain = attention_plain(&t, &attributes);
    const bool supported = harness_supports(context, bo_backend_of(h->device)->ops[BO_OPERATION_ATTENTION], &plain);
    op_drop(&plain);
    if (!supported) {
        trial_drop(&t);
        return;
    }
    bo_attention *fresh = NULL, *other = NULL;
    bo_calibration *calibration = NULL, *by_hand = NULL;
    bo_attention_inputs in = trial_inputs(&t);
    assert_ok(context, bo_attention_create(context, &desc.attention, &fresh));
    assert_ok(context, bo_attention_create(context, &desc.attention, &other));
    assert_ok(context, bo_calibration_create(context, fresh, 0, &calibration));
    assert_ok(context, bo_calibration_create(context, other, 0, &by_hand));
    assert_ok(context, bo_calibration_add_arrays(context, by_hand, &desc.shape, &in));
    assert_ok(context, bo_calibration_apply(context, by_hand, other, 0, NULL));
    float *first = trial_floats(t.count[OUT]), *second = trial_floats(t.count[OUT]);
    run_calibrated(h, &t, fresh, (bo_calibration *[LAYERS]){[LAYER] = calibration}, false, first);
    run_calibrated(h, &t, other, (bo_calibration *[LAYERS]){NULL}, false, second);
    if (memcmp(first, second, t.count[OUT] * sizeof *first)) fail_msg("%s: calibrated by a run, else drawn", preset);
    bo_calibration_report report;
    run_calibrated(h, &t, fresh, (bo_calibration *[LAYERS]){[LAYER] = calibration}, true, first);
    assert_ok(context, bo_calibration_apply(context, calibration, fresh, 0, &report));
    assert_int_equal(report.rows, 2 * 2 * 30); /* recomputed ones do not count */
    free(first);
    free(second);
    bo_calibration_destroy(calibration);
    bo_calibration_destroy(by_hand);
    bo_attention_destroy(fresh);
    bo_attention_destroy(other);
    trial_drop(&t);
}

static void passes_calibrate(void **state)
{
    (void)state;
    static const char *const names[] = {"favor", "favor++", "favor#", "dark"};
    harness h;
    harness_begin(&h);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_calibration(&h, names[i]);
    harness_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_whole),
        cmocka_unit_test(passes_calibrate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
