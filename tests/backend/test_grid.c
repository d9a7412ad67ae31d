/* Operations on grids beyond outputs and gradients: convolution in pieces, ties in pooling, running statistics of batch
 * norms. */
#include "direct.h"
#include "backend/shapes.h"

/* ---- causal convolution in pieces -------------------------------------------------------------------------------- */

enum { SEQUENCES = 3, LAYERS = 2, LAYER = 1, CHANNELS = 5, KERNEL = 4, OFFSET = 8, MAX = 40 };

/* Tokens of each sequence in each piece: single tokens, sequences that pause, pieces shorter and longer than the
 * state. */
static const size_t pieces[][SEQUENCES] = {{1, 0, 5}, {1, 2, 1}, {0, 1, 0}, {7, 1, 2}, {1, 1, 1}};
enum { PIECES = sizeof pieces / sizeof *pieces };

typedef struct stream {
    bo_context *context;
    direct_arena arena;
    bo_convolution_attributes attributes;
    bo_tensor weight, bias;
    size_t out;
} stream;

static void convolve(stream *s, const bo_graph_pass *pass, size_t rows, float *x, float *y)
{
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_CONVOLUTION];
    bo_op_call call = {.attributes = &s->attributes, .inputs = 3, .pass = pass};
    call.in[0] = (bo_tensor){x, BO_ELEMENT_FLOAT32, rows, CHANNELS};
    call.in[1] = s->weight, call.in[2] = s->bias;
    assert_ok(s->context, op->shape(s->context, &call));
    call.out[0].data = y;
    assert_ok(s->context, direct_run(s->context, &s->arena, op, &call, false));
}

/* Row `token` of sequence q in the whole. */
static size_t row_of(size_t q, size_t token)
{
    size_t row = token;
    for (size_t s = 0; s < q; s++)
        for (size_t p = 0; p < PIECES; p++) row += pieces[p][s];
    return row;
}

/* Every piece continues from the states, which are at an offset in larger blocks. */
static void run_pieces(stream *s, const float *x, float *y)
{
    char *memory[LAYERS * SEQUENCES];
    size_t done[SEQUENCES] = {0}, bytes = OFFSET + bo_convolution_state_bytes(&s->attributes, CHANNELS);
    for (size_t i = 0; i < LAYERS * SEQUENCES; i++) memory[i] = calloc(1, bytes + OFFSET);
    for (size_t p = 0; p < PIECES; p++) {
        float from[MAX * CHANNELS], to[MAX * CHANNELS];
        size_t rows = 0;
        for (size_t q = 0; q < SEQUENCES; q++)
            for (size_t t = 0; t < pieces[p][q]; t++, rows++)
                memcpy(from + rows * CHANNELS, x + row_of(q, done[q] + t) * CHANNELS, CHANNELS * sizeof *x);
        bo_graph_pass pass = {.sequences = SEQUENCES, .lengths = pieces[p], .states = (void *const *)memory};
        convolve(s, &pass, rows, from, to);
        rows = 0;
        for (size_t q = 0; q < SEQUENCES; q++)
            for (size_t t = 0; t < pieces[p][q]; t++, rows++)
                memcpy(y + row_of(q, done[q]++) * s->out, to + rows * s->out, s->out * sizeof *y);
    }
    for (size_t i = 0; i < LAYERS * SEQUENCES; i++) { /* other layers and surrounding memory do not change */
        for (size_t b = 0; b < bytes + OFFSET; b++)
            if (i < LAYER * SEQUENCES || b < OFFSET || b >= bytes) assert_int_equal(memory[i][b], 0);
        free(memory[i]);
    }
}

static void pieces_are_the_whole(void **state)
{
    (void)state;
    for (size_t groups = 1; groups <= CHANNELS; groups += CHANNELS - 1) {
        stream s = {.out = groups == 1 ? 3 : CHANNELS};
        s.context = direct_context(2, NULL, &s.arena);
        s.attributes = (bo_convolution_attributes){
            .windows = {.height = {.size = 1, .kernel = 1}, .width = {.kernel = KERNEL, .before = KERNEL - 1}},
            .groups = groups,
            .bias = true,
            .sequences = {.max_sequences = SEQUENCES, .layer = LAYER, .offset = OFFSET}};
        s.weight = direct_operand(s.out, KERNEL * CHANNELS / groups, 1), s.bias = direct_operand(1, s.out, 2);
        size_t lengths[SEQUENCES] = {0}, rows = row_of(SEQUENCES, 0);
        for (size_t q = 0; q < SEQUENCES; q++) lengths[q] = row_of(q + 1, 0) - row_of(q, 0);
        float *x = direct_floats(rows * CHANNELS, 3), whole[MAX * CHANNELS], found[MAX * CHANNELS];
        convolve(&s, &(bo_graph_pass){.sequences = SEQUENCES, .lengths = lengths}, rows, x, whole);
        run_pieces(&s, x, found);
        /* sums of at most 21 terms of size about 1, rounded in another order */
        for (size_t i = 0; i < rows * s.out; i++) assert_close(found[i], whole[i], 21 * 0x1p-23 * 8);
        free(x), free(s.weight.data), free(s.bias.data);
        bo_context_destroy(s.context);
    }
}

static void passes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_CONVOLUTION];
    bo_convolution_attributes a = {.windows = {.height = {.kernel = 1}, .width = {.kernel = 2, .before = 1}},
                                   .sequences = {.max_sequences = 2}};
    static const size_t few[] = {1, 2}, many[] = {3, 2}, three[] = {1, 1, 2};
    static const struct {
        size_t count;
        const size_t *lengths;
        const char *message;
    } cases[] = {{2, few, "convolution: 1 of the pass's 4 rows belong to no sequence"},
                 {2, many, "convolution: sequence 1 of the pass has 2 tokens, but of its 4 rows only 1 are left"},
                 {3, three, "convolution: the pass has 3 sequences, but the plan allows at most 2"}};
    for (size_t i = 0; i < 3; i++) {
        bo_graph_pass pass = {.sequences = cases[i].count, .lengths = cases[i].lengths};
        bo_op_call call = {.attributes = &a, .inputs = 2, .pass = &pass};
        call.in[0] = (bo_tensor){.rows = 4, .columns = 1}, call.in[1] = (bo_tensor){.rows = 1, .columns = 2};
        assert_ok(context, op->shape(context, &call));
        assert_int_equal(op->forward(context, &call), BO_INVALID);
        assert_non_null(strstr(bo_context_error(context), cases[i].message));
    }
    bo_context_destroy(context);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

/* The first of equal maxima gets the gradient; NaN is larger than all numbers. */
static void ties_go_to_the_first(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_POOL];
    bo_pool_attributes a = {.windows = {.height = {.size = 2, .kernel = 2}, .width = {.size = 3, .kernel = 2}}};
    float x[6] = {1, 5, 5, 1, 5, NAN}, y[2], dy[2] = {3, 4}, dx[6];
    int32_t chosen[2];
    bo_op_call call = {.attributes = &a, .inputs = 1, .pass = &(bo_graph_pass){0}, .saved = chosen};
    call.in[0] = (bo_tensor){x, BO_ELEMENT_FLOAT32, 6, 1};
    assert_ok(context, op->shape(context, &call));
    call.out[0].data = y;
    assert_ok(context, op->forward(context, &call));
    assert_true(y[0] == 5 && isnan(y[1]));
    call.dout[0] = dy, call.din[0] = dx;
    assert_ok(context, op->backward(context, &call));
    assert_memory_equal(dx, ((float[]){0, 3, 0, 0, 0, 4}), sizeof dx);
    bo_context_destroy(context);
}

/* ---- batch norm -------------------------------------------------------------------------------------------------- */

enum { ROWS = 6, COLUMNS = 2 };

typedef struct norm {
    bo_context *context;
    bo_batch_norm_attributes attributes;
    float x[ROWS * COLUMNS], gain[COLUMNS], bias[COLUMNS], mean[COLUMNS], variance[COLUMNS], y[ROWS * COLUMNS];
} norm;

static bo_status normalize(norm *n, size_t rows, bool training, bool again)
{
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_BATCH_NORM];
    bo_op_call call = {.attributes = &n->attributes, .inputs = 5, .again = again};
    float *const data[] = {n->x, n->gain, n->bias, n->mean, n->variance};
    size_t saved, scratch;
    for (size_t i = 0; i < 5; i++) call.in[i] = (bo_tensor){data[i], BO_ELEMENT_FLOAT32, i ? 1 : rows, COLUMNS};
    call.pass = &(bo_graph_pass){.training = training};
    assert_ok(n->context, op->shape(n->context, &call));
    assert_ok(n->context, op->sizes(n->context, &call, false, &saved, &scratch));
    call.out[0].data = n->y, call.scratch = malloc(scratch);
    bo_status status = op->forward(n->context, &call);
    free(call.scratch);
    return status;
}

static void training_updates_running_statistics(void **state)
{
    (void)state;
    norm n = {.context = test_context(1), .attributes = {.momentum = 0.25}};
    double mean[COLUMNS] = {0}, variance[COLUMNS] = {0};
    for (size_t i = 0; i < ROWS * COLUMNS; i++) n.x[i] = (float)(1000 * (i % COLUMNS) + i * i % 7);
    for (size_t j = 0; j < COLUMNS; j++) n.gain[j] = 1, n.mean[j] = (float)(8 * j), n.variance[j] = 4;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) mean[i % COLUMNS] += (double)n.x[i] / ROWS;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) variance[i % COLUMNS] += pow((double)n.x[i] - mean[i % COLUMNS], 2);
    assert_ok(n.context, normalize(&n, ROWS, false, false)); /* evaluation does not change them */
    assert_ok(n.context, normalize(&n, ROWS, true, true));   /* nor does recomputation */
    for (size_t j = 0; j < COLUMNS; j++) assert_true(n.mean[j] == (float)(8 * j) && n.variance[j] == 4);
    assert_ok(n.context, normalize(&n, ROWS, true, false));
    for (size_t j = 0; j < COLUMNS; j++) { /* the unbiased variance; each has one rounding error */
        assert_close(n.mean[j], 0.75 * 8 * (double)j + 0.25 * mean[j], 0x1p-23 * fabs(mean[j]));
        assert_close(n.variance[j], 0.75 * 4 + 0.25 * variance[j] / (ROWS - 1), 0x1p-22 * variance[j]);
    }
    bo_context_destroy(n.context);
}

static void one_row_has_no_variance(void **state)
{
    (void)state;
    norm n = {.context = test_context(1), .variance = {1, 1}};
    assert_int_equal(normalize(&n, 1, true, false), BO_INVALID);
    assert_non_null(strstr(bo_context_error(n.context), "a batch of 1 rows has no variance, expected at least 2 rows"));
    assert_ok(n.context, normalize(&n, 1, false, false));
    bo_context_destroy(n.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_the_whole),    cmocka_unit_test(passes_that_do_not_fit_are_refused),
        cmocka_unit_test(ties_go_to_the_first),    cmocka_unit_test(training_updates_running_statistics),
        cmocka_unit_test(one_row_has_no_variance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
