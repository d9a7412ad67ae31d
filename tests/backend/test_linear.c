/* Linear layers compared with loops in double: odd sizes, several weights, bias and residual, gradients that add or
 * overwrite, few rows; bitwise equal results for any number of threads; no allocation. */
#include "direct.h"

enum { MAX = 4 };

typedef struct layer {
    size_t rows, in, weights, out[MAX];
    bool bias, residual;
} layer;

static const layer layers[] = {
    {1, 1, 1, {1}, false, false},
    {1, 37, 3, {5, 1, 64}, true, false},
    {1, 384, 1, {1536}, true, true},
    {3, 449, 2, {129, 31}, true, false},
    {8, 100, 1, {67}, false, true},
    {9, 64, 4, {64, 32, 32, 4}, false, false},
    {130, 65, 3, {70, 300, 7}, true, false},
    {257, 450, 1, {33}, true, true},
    {300, 40, 1, {6}, true, true},
    {64, 1, 1, {3}, false, false},
};

typedef struct run {
    bo_linear_attributes attributes;
    bo_op_call call;
    float *dy[MAX], *before[BO_OP_INPUTS];
    size_t residual; /* index of the input */
} run;

static void prepare(run *r, const layer *l)
{
    *r = (run){.attributes = {.weights = l->weights, .bias = l->bias, .residual = l->residual}};
    bo_op_call *call = &r->call;
    call->in[call->inputs++] = direct_operand(l->rows, l->in, 1);
    for (size_t i = 0; i < l->weights; i++) call->in[call->inputs++] = direct_operand(l->out[i], l->in, 2 + i);
    for (size_t i = 0; l->bias && i < l->weights; i++) call->in[call->inputs++] = direct_operand(1, l->out[i], 8 + i);
    r->residual = call->inputs;
    if (l->residual) call->in[call->inputs++] = direct_operand(l->rows, l->out[0], 20);
    call->outputs = l->weights;
    for (size_t i = 0; i < l->weights; i++) {
        call->out[i] = direct_operand(l->rows, l->out[i], 30 + i);
        r->dy[i] = direct_floats(l->rows * l->out[i], 40 + i);
        call->dout[i] = r->dy[i];
    }
    for (size_t i = 0; i < call->inputs; i++) {
        call->din[i] = direct_floats(call->in[i].rows * call->in[i].columns, 50 + i);
        r->before[i] = direct_floats(call->in[i].rows * call->in[i].columns, 50 + i);
    }
}

static void clear(run *r)
{
    for (size_t i = 0; i < r->call.inputs; i++) {
        free(r->call.in[i].data), free(r->call.din[i]), free(r->before[i]);
    }
    for (size_t i = 0; i < r->call.outputs; i++) free(r->call.out[i].data), free(r->dy[i]);
}

static const float *floats(const bo_tensor *operand)
{
    return operand->data;
}

/* The error of a float32 sum of k products is at most about k u times the sum of their magnitudes (Higham, 3.1). */
static double bound(size_t terms, double total)
{
    /* in bfloat16 both factors of a product are rounded, each by at most 2^-8; no more than two units of sums each */
    double factors = test_precision() == BO_PRECISION_BFLOAT16 ? 0x1.02p-7 : 0, sums = factors > 0 ? 0x1p-23 : 0x1p-24;
    return ((double)(terms + 4) * sums + factors) * total;
}

static void check_forward(const run *r, const layer *l)
{
    const bo_op_call *call = &r->call;
    const float *x = call->in[0].data;
    for (size_t w = 0; w < l->weights; w++) {
        const float *weight = call->in[1 + w].data, *y = call->out[w].data;
        for (size_t i = 0; i < l->rows; i++) {
            for (size_t j = 0; j < l->out[w]; j++) {
                double sum = 0, total = 0;
                for (size_t p = 0; p < l->in; p++) {
                    double product = (double)x[i * l->in + p] * (double)weight[j * l->in + p];
                    sum += product, total += fabs(product);
                }
                double bias = l->bias ? (double)floats(&call->in[1 + l->weights + w])[j] : 0;
                double residual = l->residual ? (double)floats(&call->in[r->residual])[i * l->out[w] + j] : 0;
                assert_close(y[i * l->out[w] + j], sum + bias + residual,
                             bound(l->in, total + fabs(bias) + fabs(residual)));
            }
        }
    }
}

/* The previous value of a gradient that is added to. */
static double before(const run *r, size_t place, size_t at)
{
    return r->call.add[place] ? (double)r->before[place][at] : 0;
}

static void check_dx(const run *r, const layer *l)
{
    for (size_t at = 0; at < l->rows * l->in; at += 7) {
        double sum = before(r, 0, at), total = fabs(sum);
        size_t terms = 0;
        for (size_t w = 0; w < l->weights; w++, terms += l->out[w - 1]) {
            for (size_t j = 0; r->call.dout[w] && j < l->out[w]; j++) {
                double product = (double)r->dy[w][at / l->in * l->out[w] + j] *
                                 (double)floats(&r->call.in[1 + w])[j * l->in + at % l->in];
                sum += product, total += fabs(product);
            }
        }
        assert_close(((float *)r->call.din[0])[at], sum, bound(terms, total));
    }
}

static void check_dw(const run *r, const layer *l, size_t w)
{
    for (size_t at = 0; at < l->out[w] * l->in; at += 7) {
        double sum = before(r, 1 + w, at), total = fabs(sum);
        for (size_t i = 0; r->call.dout[w] && i < l->rows; i++) {
            double product =
                (double)r->dy[w][i * l->out[w] + at / l->in] * (double)floats(&r->call.in[0])[i * l->in + at % l->in];
            sum += product, total += fabs(product);
        }
        assert_close(((float *)r->call.din[1 + w])[at], sum, bound(l->rows, total));
    }
}

static void check_db(const run *r, const layer *l, size_t w)
{
    size_t place = 1 + l->weights + w;
    for (size_t j = 0; j < l->out[w]; j++) {
        double sum = before(r, place, j), total = fabs(sum);
        for (size_t i = 0; r->call.dout[w] && i < l->rows; i++) {
            double term = (double)r->dy[w][i * l->out[w] + j];
            sum += term, total += fabs(term);
        }
        assert_close(((float *)r->call.din[place])[j], sum, bound(l->rows, total));
    }
}

static void check_backward(const run *r, const layer *l)
{
    if (r->call.din[0]) check_dx(r, l);
    for (size_t w = 0; w < l->weights; w++) {
        if (r->call.din[1 + w]) check_dw(r, l, w);
        if (l->bias) check_db(r, l, w);
    }
    for (size_t i = 0; l->residual && i < l->rows * l->out[0]; i++) {
        double sum = before(r, r->residual, i) + (double)r->dy[0][i];
        assert_close(((float *)r->call.din[r->residual])[i], sum, 0x1p-24 * (fabs(sum) + 1e-30));
    }
}

static void check(bo_context *context, direct_arena *arena, const layer *l, unsigned add, bool second_is_zero)
{
    run r;
    prepare(&r, l);
    r.call.attributes = &r.attributes;
    assert_ok(context, direct_run(context, arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, false));
    check_forward(&r, l);
    for (size_t i = 0; i < r.call.inputs; i++) r.call.add[i] = add >> i & 1;
    if (second_is_zero && l->weights > 1) r.call.dout[1] = NULL;
    assert_ok(context, direct_run(context, arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, true));
    check_backward(&r, l);
    clear(&r);
}

static void products_match_loops(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        check(context, &arena, &layers[i], 0, false);
        check(context, &arena, &layers[i], ~0u, false);
        check(context, &arena, &layers[i], 0x5, true);
    }
    bo_context_destroy(context);
}

static void gradients_may_be_left_out(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    const layer *l = &layers[6];
    run r;
    prepare(&r, l);
    r.call.attributes = &r.attributes;
    void *dx = r.call.din[0], *dw = r.call.din[2];
    r.call.din[0] = r.call.din[2] = NULL;
    assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, true));
    check_backward(&r, l);
    r.call.din[0] = dx, r.call.din[2] = dw;
    /* no output gradients: zeros, and gradients that are added to do not change */
    for (size_t i = 0; i < MAX; i++) r.call.dout[i] = NULL;
    assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, true));
    check_dx(&r, l);
    check_dw(&r, l, 1);
    clear(&r);
    bo_context_destroy(context);
}

/* A single row and the same row among other rows are bitwise equal, for any number of threads. */
static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        run first = {0};
        for (int threads = 1; threads <= 3; threads++) {
            direct_arena arena;
            bo_context *context = direct_context(threads, NULL, &arena);
            run r;
            prepare(&r, &layers[i]);
            r.call.attributes = &r.attributes;
            assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, false));
            assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_LINEAR), &r.call, true));
            bo_context_destroy(context);
            if (threads == 1) {
                first = r;
                continue;
            }
            for (size_t o = 0; o < r.call.outputs; o++)
                assert_memory_equal(r.call.out[o].data, first.call.out[o].data,
                                    r.call.out[o].rows * r.call.out[o].columns * sizeof(float));
            for (size_t o = 0; o < r.call.inputs; o++)
                assert_memory_equal(r.call.din[o], first.call.din[o],
                                    r.call.in[o].rows * r.call.in[o].columns * sizeof(float));
            clear(&r);
        }
        clear(&first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_loops),
        cmocka_unit_test(gradients_may_be_left_out),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
