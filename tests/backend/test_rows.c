/* Operations over rows with sizes of many blocks: bitwise equal results for any number of threads, large positions,
 * very large and small values, invalid indices. */
#include "calls.h"

enum { ROWS = 700, COLUMNS = 192, TABLE = 50 };

static int32_t *indices(size_t count, int32_t first, int32_t step, int32_t bound)
{
    int32_t *x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = first + (int32_t)i * step % bound;
    return x;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct arrays {
    float *x, *y, *table, *gain;
    int32_t *index;
} arrays;

static test_call operation(const arrays *a, size_t which)
{
    static const bo_norm_attributes rms = {.width = COLUMNS, .epsilon = 1e-6, .gain = true},
                                    heads = {.kind = BO_NORM_LAYER, .width = 32, .gain = true, .bias = true};
    static const bo_rope_attributes rope = {.dim = 64, .rotated = 48};
    static const bo_position_attributes learned = {BO_POSITION_KIND_LEARNED}, waves = {BO_POSITION_KIND_SINUSOIDAL};
    static const bo_unary_attributes gelu = {.factor = 0.5};
    static const bo_loss_attributes losses[] = {{BO_LOSS_KIND_MSE}, {BO_LOSS_KIND_KL}};
    static const bo_dropout_attributes dropout = {.rate = 0.3};
    static const bo_graph_pass training = {.training = true, .seed = 5};
    const struct {
        bo_operation kind;
        const void *attributes;
    } list[] = {{BO_OPERATION_EMBED, NULL},      {BO_OPERATION_POSITION, &learned}, {BO_OPERATION_POSITION, &waves},
                {BO_OPERATION_NORM, &rms},       {BO_OPERATION_NORM, &heads},       {BO_OPERATION_ROPE, &rope},
                {BO_OPERATION_UNARY, &gelu},     {BO_OPERATION_GLU, &gelu},         {BO_OPERATION_ADD, NULL},
                {BO_OPERATION_LOSS, &losses[0]}, {BO_OPERATION_LOSS, &losses[1]},   {BO_OPERATION_DROPOUT, &dropout}};
    if (which >= sizeof list / sizeof *list) return (test_call){0};
    test_call t = test_begin(list[which].kind, list[which].attributes);
    t.call.pass = &training;
    if (list[which].kind != BO_OPERATION_EMBED) test_input(&t, a->x, BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    switch (list[which].kind) {
    case BO_OPERATION_EMBED:
    case BO_OPERATION_POSITION:
    case BO_OPERATION_ROPE:
        test_input(&t, a->index, BO_ELEMENT_INT32, ROWS, 1);
        if (which < 2) test_input(&t, a->table, BO_ELEMENT_FLOAT32, TABLE, COLUMNS);
        break;
    case BO_OPERATION_NORM:
        for (size_t i = 0; i < (which == 3 ? 1 : 2); i++)
            test_input(&t, a->gain, BO_ELEMENT_FLOAT32, 1, which == 3 ? COLUMNS : 32);
        break;
    case BO_OPERATION_GLU:
    case BO_OPERATION_ADD:
    case BO_OPERATION_LOSS:
        test_input(&t, a->y, BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
        break;
    default:
        break;
    }
    return t;
}

static void threads_do_not_show(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *many = test_context(5);
    arrays a = {test_normals(ROWS * COLUMNS, 1), test_normals(ROWS * COLUMNS, 2), test_normals(TABLE * COLUMNS, 3),
                test_normals(COLUMNS, 4), indices(ROWS, 0, 7, TABLE)};
    float *dout = test_normals(ROWS * COLUMNS, 5);
    for (size_t which = 0; operation(&a, which).op; which++) {
        test_call first = operation(&a, which), second = operation(&a, which);
        test_forward(one, &first, true);
        test_forward(many, &second, true);
        assert_memory_equal(test_out(&first), test_out(&second), test_out_bytes(&first));
        for (size_t i = 0; i < test_out_bytes(&first) / sizeof(float); i++) /* every element was written */
            assert_true(isfinite(test_out(&first)[i]));
        test_backward(one, &first, dout, true);
        test_backward(many, &second, dout, true);
        for (size_t i = 0; i < first.call.inputs; i++)
            if (first.call.din[i])
                assert_memory_equal(first.call.din[i], second.call.din[i],
                                    first.call.in[i].rows * first.call.in[i].columns * sizeof(float));
        test_end(&first);
        test_end(&second);
    }
    free(a.x), free(a.y), free(a.table), free(a.gain), free(a.index), free(dout);
    bo_context_destroy(one);
    bo_context_destroy(many);
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* For the vector (1, 0) in every pair the results are cosine and sine. A float angle below π has an error of at most
 * 2^-23, and the kernel adds 2e-7. */
static void angles_of_far_positions(void **state)
{
    (void)state;
    enum { DIM = 64, FAR = 9 };
    bo_context *context = test_context(1);
    int32_t positions[FAR] = {0, 1, 1000, 999999, 1000000, 1 << 24, (1 << 24) + 1, 2000000011, 2147483647};
    float x[FAR * DIM];
    for (size_t layout = 0; layout < 2; layout++) {
        bo_rope_attributes a = {.dim = DIM, .base = 500000, .layout = (bo_rope_layout)layout};
        for (size_t i = 0; i < FAR * DIM; i++) x[i] = layout ? i % 2 == 0 : i % DIM < DIM / 2;
        test_call t = test_begin(BO_OPERATION_ROPE, &a);
        test_input(&t, x, BO_ELEMENT_FLOAT32, FAR, DIM);
        test_input(&t, positions, BO_ELEMENT_INT32, FAR, 1);
        test_forward(context, &t, false);
        for (size_t r = 0; r < FAR; r++)
            for (size_t i = 0; i < DIM / 2; i++) {
                long double angle = (long double)positions[r] * powl(500000, -2 * (long double)i / DIM);
                const float *row = test_out(&t) + r * DIM;
                assert_close((double)row[layout ? 2 * i : i], (double)cosl(angle), 5e-7);
                assert_close((double)row[layout ? 2 * i + 1 : i + DIM / 2], (double)sinl(angle), 5e-7);
            }
        test_end(&t);
    }
    bo_context_destroy(context);
}

/* ---- large and small values ------------------------------------------------------------------------------------- */

/* RMSNorm does not depend on the scale, because squares are summed in double; LayerNorm does not depend on a mean that
 * float32 can represent. */
static void norms_of_large_and_small(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float *x = test_normals(COLUMNS, 8), scaled[COLUMNS];
    const struct {
        bo_norm kind;
        float scale, shift, tolerance;
    } cases[] = {{BO_NORM_RMS, 0x1p100f, 0, 1e-6f},
                 {BO_NORM_RMS, 0x1p-60f, 0, 1e-6f},
                 {BO_NORM_LAYER, 0x1p100f, 0, 1e-5f},
                 {BO_NORM_LAYER, 1, 4096, 2e-3f}}; /* x + 4096 is rounded to 2^-12 */
    for (size_t c = 0; c < 4; c++) {
        bo_norm_attributes a = {.kind = cases[c].kind, .width = COLUMNS};
        for (size_t i = 0; i < COLUMNS; i++) scaled[i] = x[i] * cases[c].scale + cases[c].shift;
        test_call plain = test_begin(BO_OPERATION_NORM, &a), far = test_begin(BO_OPERATION_NORM, &a);
        test_input(&plain, x, BO_ELEMENT_FLOAT32, 1, COLUMNS);
        test_input(&far, scaled, BO_ELEMENT_FLOAT32, 1, COLUMNS);
        test_forward(context, &plain, false);
        test_forward(context, &far, false);
        for (size_t i = 0; i < COLUMNS; i++)
            assert_close((double)test_out(&far)[i], (double)test_out(&plain)[i], (double)cases[c].tolerance);
        test_end(&plain);
        test_end(&far);
    }
    free(x);
    bo_context_destroy(context);
}

static void losses_of_certain_predictions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_loss_attributes a = {BO_LOSS_KIND_BCE};
    const float cases[][3] = {{200, 1, 0}, {-200, 0, 0}, {200, 0, 200}, {-200, 1, 200}, {0, 0.5f, 0.693147180f}};
    for (size_t c = 0; c < 5; c++) {
        float p = cases[c][0], target = cases[c][1];
        test_call t = test_begin(BO_OPERATION_LOSS, &a);
        test_input(&t, &p, BO_ELEMENT_FLOAT32, 1, 1);
        test_input(&t, &target, BO_ELEMENT_FLOAT32, 1, 1);
        test_forward(context, &t, true);
        assert_close((double)test_out(&t)[0], (double)cases[c][2], 1e-6);
        test_backward(context, &t, NULL, false);
        assert_close((double)*(float *)t.call.din[0], 1 / (1 + exp(-(double)p)) - (double)target, 1e-6);
        test_end(&t);
    }
    bo_context_destroy(context);
}

/* Classes with teacher probability 0 add no loss for any student logits, and their gradient reduces the student
 * probability. */
static void zero_probability_classes_add_no_loss(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_loss_attributes a = {BO_LOSS_KIND_KL};
    float p[4] = {0, 0, -INFINITY, 0}, target[4] = {0, 0, -INFINITY, -INFINITY};
    const double third = 1.0 / 3, expected[4] = {third - 0.5, third - 0.5, 0, third};
    test_call t = test_begin(BO_OPERATION_LOSS, &a);
    test_input(&t, p, BO_ELEMENT_FLOAT32, 1, 4);
    test_input(&t, target, BO_ELEMENT_FLOAT32, 1, 4);
    test_forward(context, &t, true);
    assert_close((double)test_out(&t)[0], log(1.5), 1e-6);
    test_backward(context, &t, NULL, false);
    for (size_t i = 0; i < 4; i++) {
        assert_close((double)((float *)t.call.din[0])[i], expected[i], 1e-6);
        assert_close((double)((float *)t.call.din[1])[i], 0, 1e-6);
    }
    test_end(&t);
    bo_context_destroy(context);
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

static void refuses_indices_that_do_not_exist(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    int32_t index[2] = {1, 0};
    float table[6] = {1, 2, 3, 4, 5, 6}, x[4] = {0};
    bo_position_attributes learned = {BO_POSITION_KIND_LEARNED};
    test_call e = test_begin(BO_OPERATION_EMBED, NULL), p = test_begin(BO_OPERATION_POSITION, &learned);
    test_input(&p, x, BO_ELEMENT_FLOAT32, 2, 2);
    for (test_call *t = &e; t; t = t == &e ? &p : NULL) {
        test_input(t, index, BO_ELEMENT_INT32, 2, 1);
        test_input(t, table, BO_ELEMENT_FLOAT32, 3, 2);
        index[1] = 2;
        test_forward(context, t, false);
        index[1] = 3;
        assert_fails(context, BO_INVALID, "1 is 3, expected 0 to 2", t->op->forward(context, &t->call));
        index[1] = -1;
        assert_fails(context, BO_INVALID, "1 is -1", t->op->forward(context, &t->call));
        test_end(t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(angles_of_far_positions),
        cmocka_unit_test(norms_of_large_and_small),
        cmocka_unit_test(losses_of_certain_predictions),
        cmocka_unit_test(zero_probability_classes_add_no_loss),
        cmocka_unit_test(refuses_indices_that_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
