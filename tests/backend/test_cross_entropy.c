/* Cross-entropy over a vocabulary compared with loops in double: rows without a target, a scale, several blocks of
 * rows, logits that overflow a plain exponential, gradients that add or overwrite; the same bits for any number of
 * threads; no allocation. */
#include "direct.h"
#include "backend/cpu/cpu.h"

typedef struct problem {
    size_t rows, width, vocabulary;
    double scale, size; /* scale of the logits; size of x */
    int without;        /* one of this many rows has no target; 0: all have one */
} problem;

static const problem problems[] = {
    {1, 1, 1, 0, 1, 0},       {5, 3, 2, 0, 1, 0},     {33, 17, 257, 0.5, 1, 3}, {130, 40, 1031, 0, 1, 5},
    {200, 8, 50021, 1, 1, 2}, {7, 64, 300, 2, 40, 0}, {4, 5, 6, 0, 1, 1},       {2049, 3, 5, 0, 1, 0},
};

typedef struct run {
    bo_cross_entropy_attributes attributes;
    bo_op_call call;
    float dmean, *dlosses; /* gradients of the mean and of the losses per row */
} run;

static void prepare(run *r, const problem *p)
{
    *r = (run){.attributes = {.scale = p->scale}, .dmean = 0.75f};
    bo_op_call *call = &r->call;
    call->inputs = 3, call->outputs = 2;
    call->in[0] = direct_operand(p->rows, p->width, 1);
    call->in[1] = direct_operand(p->vocabulary, p->width, 2);
    call->in[2] = (bo_tensor){direct_floats(p->rows, 3), BO_ELEMENT_INT32, p->rows, 1};
    float *x = call->in[0].data;
    for (size_t i = 0; i < p->rows * p->width; i++) x[i] *= (float)p->size;
    int32_t *targets = call->in[2].data;
    for (size_t i = 0; i < p->rows; i++) {
        targets[i] = (int32_t)(i * 7919 % p->vocabulary);
        if (p->without && i % (size_t)p->without == 0) targets[i] = -1;
    }
    call->out[0] = direct_operand(1, 1, 4);
    call->out[1] = direct_operand(p->rows, 1, 5);
    r->dlosses = direct_floats(p->rows, 8);
    call->din[0] = direct_floats(p->rows * p->width, 6);
    call->din[1] = direct_floats(p->vocabulary * p->width, 7);
}

/* Sets pointers into the run, after it has its final address. */
static void connect(run *r, bool backward)
{
    r->call.attributes = &r->attributes;
    r->call.dout[0] = backward ? &r->dmean : NULL;
    r->call.dout[1] = backward ? r->dlosses : NULL;
}

static void clear(run *r)
{
    free(r->dlosses);
    for (size_t i = 0; i < 3; i++) free(r->call.in[i].data);
    for (size_t i = 0; i < 2; i++) free(r->call.out[i].data), free(r->call.din[i]);
}

typedef struct truth {
    double mean, *losses, *dx, *dw;
} truth;

static double logit(const run *r, const problem *p, size_t i, size_t j)
{
    const float *x = (const float *)r->call.in[0].data + i * p->width;
    const float *w = (const float *)r->call.in[1].data + j * p->width;
    double sum = 0;
    for (size_t c = 0; c < p->width; c++) sum += (double)x[c] * (double)w[c];
    return sum * (p->scale != 0 ? p->scale : 1);
}

static truth solve(const run *r, const problem *p)
{
    truth t = {.losses = calloc(p->rows, sizeof(double)), .dx = calloc(p->rows * p->width, sizeof(double))};
    t.dw = calloc(p->vocabulary * p->width, sizeof(double));
    const float *x = r->call.in[0].data, *w = r->call.in[1].data;
    const int32_t *targets = r->call.in[2].data;
    double *logits = calloc(p->vocabulary, sizeof *logits), scale = p->scale != 0 ? p->scale : 1, count = 0;
    for (size_t i = 0; i < p->rows; i++) count += targets[i] >= 0;
    for (size_t i = 0; i < p->rows; i++) {
        if (targets[i] < 0) continue;
        double largest = -INFINITY, sum = 0;
        for (size_t j = 0; j < p->vocabulary; j++) {
            logits[j] = logit(r, p, i, j);
            if (logits[j] > largest) largest = logits[j];
        }
        for (size_t j = 0; j < p->vocabulary; j++) sum += exp(logits[j] - largest);
        t.losses[i] = log(sum) + largest - logits[targets[i]];
        t.mean += t.losses[i] / count;
        for (size_t j = 0; j < p->vocabulary; j++) {
            double g = exp(logits[j] - largest) / sum - (j == (size_t)targets[i]);
            g *= scale * ((double)r->dmean / count + (double)r->dlosses[i]);
            for (size_t c = 0; c < p->width; c++) {
                t.dx[i * p->width + c] += g * (double)w[j * p->width + c];
                t.dw[j * p->width + c] += g * (double)x[i * p->width + c];
            }
        }
    }
    free(logits);
    return t;
}

/* The error of a logit is about width u |x||w|, and exponentials have the same relative error; the tolerance is far
 * larger. */
static void check_gradient(size_t count, const float *found, const double *expected, const float *before, double room)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        double old = before ? (double)before[i] : 0;
        assert_close(found[i], expected[i] + old, room * (largest + fabs(old)) + 1e-12);
    }
}

static void check(bo_context *context, direct_purse *purse, const problem *p, bool add)
{
    run r;
    prepare(&r, p);
    truth t = solve(&r, p);
    double room = 4e-6 * fmax(p->size, 1);
    for (int backward = 0; backward < 2; backward++) {
        connect(&r, backward);
        r.call.add[0] = r.call.add[1] = add;
        assert_ok(context, direct_run(context, purse, &bo_cpu_cross_entropy, &r.call, backward));
        assert_close(*(float *)r.call.out[0].data, t.mean, room * (1 + t.mean));
        for (size_t i = 0; i < p->rows; i++)
            assert_close(((float *)r.call.out[1].data)[i], t.losses[i], room * (1 + t.losses[i]));
    }
    float *dx = direct_floats(p->rows * p->width, 6), *dw = direct_floats(p->vocabulary * p->width, 7);
    check_gradient(p->rows * p->width, r.call.din[0], t.dx, add ? dx : NULL, room);
    check_gradient(p->vocabulary * p->width, r.call.din[1], t.dw, add ? dw : NULL, room);
    free(dx), free(dw), free(t.losses), free(t.dx), free(t.dw);
    clear(&r);
}

static void losses_and_gradients_match_loops(void **state)
{
    (void)state;
    direct_purse purse;
    bo_context *context = direct_context(2, NULL, &purse);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) check(context, &purse, &problems[i], i % 2);
    bo_context_destroy(context);
}

static void targets_beyond_the_vocabulary_are_refused(void **state)
{
    (void)state;
    direct_purse purse;
    bo_context *context = direct_context(1, NULL, &purse);
    run r;
    prepare(&r, &problems[1]);
    connect(&r, false);
    ((int32_t *)r.call.in[2].data)[3] = 2;
    assert_fails(context, BO_INVALID, "target 3 is 2, expected a number below 2",
                 direct_run(context, &purse, &bo_cpu_cross_entropy, &r.call, false));
    clear(&r);
    bo_context_destroy(context);
}

/* The logits of all rows never exist at once. */
static void scratch_is_bounded(void **state)
{
    (void)state;
    direct_purse purse;
    bo_context *context = direct_context(2, NULL, &purse);
    bo_cross_entropy_attributes attributes = {0};
    bo_op_call call = {.attributes = &attributes, .inputs = 3, .outputs = 2};
    call.in[0] = (bo_tensor){NULL, BO_ELEMENT_FLOAT32, 1 << 16, 384};
    call.in[1] = (bo_tensor){NULL, BO_ELEMENT_FLOAT32, 8192, 384};
    call.in[2] = (bo_tensor){NULL, BO_ELEMENT_INT32, 1 << 16, 1};
    size_t saved, scratch;
    assert_ok(context, bo_cpu_cross_entropy.sizes(context, &call, true, &saved, &scratch));
    assert_true(scratch < (size_t)32 << 20);
    bo_context_destroy(context);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    const problem *p = &problems[3];
    run first = {0};
    for (int threads = 1; threads <= 3; threads++) {
        direct_purse purse;
        bo_context *context = direct_context(threads, NULL, &purse);
        run r;
        prepare(&r, p);
        connect(&r, true);
        assert_ok(context, direct_run(context, &purse, &bo_cpu_cross_entropy, &r.call, true));
        bo_context_destroy(context);
        if (threads == 1) {
            first = r;
            continue;
        }
        assert_memory_equal(r.call.out[0].data, first.call.out[0].data, sizeof(float));
        assert_memory_equal(r.call.out[1].data, first.call.out[1].data, p->rows * sizeof(float));
        assert_memory_equal(r.call.din[0], first.call.din[0], p->rows * p->width * sizeof(float));
        assert_memory_equal(r.call.din[1], first.call.din[1], p->vocabulary * p->width * sizeof(float));
        clear(&r);
    }
    clear(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_match_loops),
        cmocka_unit_test(targets_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(scratch_is_bounded),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
