/* Cross-entropy over a vocabulary compared with loops in double: rows without a target, a scale, a teacher, several
 * blocks of rows, logits that overflow a plain exponential, gradients that add or overwrite; bitwise equal results for
 * any number of threads; no allocation. */
#include "direct.h"

typedef struct problem {
    size_t rows, width, vocabulary;
    double scale, size; /* scale of the logits; size of x */
    int without;        /* one of this many rows has no target; 0: all have one */
    double teacher;     /* weight of a teacher; 0: no teacher */
    double apart;       /* its distance from the student */
} problem;

static const problem problems[] = {
    {1, 1, 1, 0, 1, 0, 0, 0},         {5, 3, 2, 0, 1, 0, 0, 0},         {33, 17, 257, 0.5, 1, 3, 0, 0},
    {130, 40, 1031, 0, 1, 5, 0, 0},   {200, 8, 50021, 1, 1, 2, 0, 0},   {7, 64, 300, 2, 40, 0, 0, 0},
    {4, 5, 6, 0, 1, 1, 0, 0},         {2049, 3, 5, 0, 1, 0, 0, 0},      {1, 1, 1, 0, 1, 0, 1, 1},
    {33, 17, 257, 0.5, 1, 3, 0.3, 1}, {130, 40, 1031, 0, 1, 5, 1, 0.1}, {200, 8, 50021, 1, 1, 2, 0.6, 2},
    {7, 64, 300, 2, 40, 0, 0.3, 40},  {2049, 3, 5, 0, 1, 0, 1, 1},
};

typedef struct run {
    bo_cross_entropy_attributes attributes;
    bo_op_call call;
    float dmean, *dlosses; /* gradients of the mean and of the losses per row */
} run;

static void prepare(run *r, const problem *p)
{
    *r = (run){.attributes = {.scale = p->scale, .teacher = p->teacher}, .dmean = 0.75f};
    bo_op_call *call = &r->call;
    call->inputs = 3, call->outputs = 2;
    call->in[0] = direct_operand(p->rows, p->width, 1);
    call->in[1] = direct_operand(p->vocabulary, p->width, 2);
    call->in[2] = (bo_tensor){direct_floats(p->rows, 3), BO_ELEMENT_INT32, p->rows, 1};
    float *x = call->in[0].data;
    for (size_t i = 0; i < p->rows * p->width; i++) x[i] *= (float)p->size;
    if (p->teacher > 0) {
        call->in[call->inputs++] = direct_operand(p->rows, p->width, 9);
        float *teacher = call->in[3].data;
        for (size_t i = 0; i < p->rows * p->width; i++) teacher[i] = x[i] + (float)p->apart * teacher[i];
    }
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
    for (size_t i = 0; i < r->call.inputs; i++) free(r->call.in[i].data);
    for (size_t i = 0; i < 2; i++) free(r->call.out[i].data), free(r->call.din[i]);
}

typedef struct truth {
    double mean, *losses, *dx, *dw;
} truth;

static double logit(const run *r, const problem *p, size_t input, size_t i, size_t j)
{
    const float *x = (const float *)r->call.in[input].data + i * p->width;
    const float *w = (const float *)r->call.in[1].data + j * p->width;
    double sum = 0;
    for (size_t c = 0; c < p->width; c++) sum += (double)x[c] * (double)w[c];
    return sum * (p->scale != 0 ? p->scale : 1);
}

/* The logits of row i of an input: x or the teacher's. Returns log Σ exp. */
static double find_logits(const run *r, const problem *p, size_t input, size_t i, double *logits)
{
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < p->vocabulary; j++) {
        logits[j] = logit(r, p, input, i, j);
        largest = fmax(largest, logits[j]);
    }
    for (size_t j = 0; j < p->vocabulary; j++) sum += exp(logits[j] - largest);
    return log(sum) + largest;
}

static truth solve(const run *r, const problem *p)
{
    truth t = {.losses = calloc(p->rows, sizeof(double)), .dx = calloc(p->rows * p->width, sizeof(double))};
    t.dw = calloc(p->vocabulary * p->width, sizeof(double));
    const float *x = r->call.in[0].data, *w = r->call.in[1].data;
    const int32_t *targets = r->call.in[2].data;
    double *logits = calloc(p->vocabulary, sizeof *logits), *taught = calloc(p->vocabulary, sizeof *taught);
    double scale = p->scale != 0 ? p->scale : 1, count = 0;
    for (size_t i = 0; i < p->rows; i++) count += targets[i] >= 0;
    for (size_t i = 0; i < p->rows; i++) {
        if (targets[i] < 0) continue;
        double total = find_logits(r, p, 0, i, logits),
               teacher_sum = p->teacher > 0 ? find_logits(r, p, 3, i, taught) : 0;
        t.losses[i] = (1 - p->teacher) * (total - logits[targets[i]]);
        for (size_t j = 0; p->teacher > 0 && j < p->vocabulary; j++)
            t.losses[i] +=
                p->teacher * exp(taught[j] - teacher_sum) * ((taught[j] - teacher_sum) - (logits[j] - total));
        t.mean += t.losses[i] / count;
        for (size_t j = 0; j < p->vocabulary; j++) {
            double g = exp(logits[j] - total) - (1 - p->teacher) * (j == (size_t)targets[i]);
            if (p->teacher > 0) g -= p->teacher * exp(taught[j] - teacher_sum);
            g *= scale * ((double)r->dmean / count + (double)r->dlosses[i]);
            for (size_t c = 0; c < p->width; c++) {
                t.dx[i * p->width + c] += g * (double)w[j * p->width + c];
                t.dw[j * p->width + c] += g * (double)x[i * p->width + c];
            }
        }
    }
    free(logits), free(taught);
    return t;
}

/* The error of a logit is about width u |x||w|, and exponentials have the same relative error; the tolerance is far
 * larger. canceling: the size of terms of p and p' whose difference is the gradient. */
static void check_gradient(size_t count, const float *found, const double *expected, const float *before,
                           double tolerance, double canceling)
{
    double largest = canceling;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        double old = before ? (double)before[i] : 0;
        assert_close(found[i], expected[i] + old, tolerance * (largest + fabs(old)) + 1e-12);
    }
}

static void check(bo_context *context, direct_arena *arena, const problem *p, bool add)
{
    run r;
    prepare(&r, p);
    truth t = solve(&r, p);
    double tolerance = 4e-6 * fmax(p->size + p->apart, 1);
    for (int backward = 0; backward < 2; backward++) {
        connect(&r, backward);
        r.call.add[0] = r.call.add[1] = add;
        assert_ok(context,
                  direct_run(context, arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, backward));
        assert_close(*(float *)r.call.out[0].data, t.mean, tolerance * (1 + t.mean));
        for (size_t i = 0; i < p->rows; i++)
            assert_close(((float *)r.call.out[1].data)[i], t.losses[i], tolerance * (1 + t.losses[i]));
    }
    const double canceling =
        p->teacher > 0 ? 3 * p->size : 0; /* the weight gradient of a large loss gradient times x */
    float *dx = direct_floats(p->rows * p->width, 6), *dw = direct_floats(p->vocabulary * p->width, 7);
    check_gradient(p->rows * p->width, r.call.din[0], t.dx, add ? dx : NULL, tolerance, canceling);
    check_gradient(p->vocabulary * p->width, r.call.din[1], t.dw, add ? dw : NULL, tolerance, canceling);
    free(dx), free(dw), free(t.losses), free(t.dx), free(t.dw);
    clear(&r);
}

static void losses_and_gradients_match_loops(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) check(context, &arena, &problems[i], i % 2);
    bo_context_destroy(context);
}

static void targets_beyond_the_vocabulary_are_refused(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(1, NULL, &arena);
    run r;
    prepare(&r, &problems[1]);
    connect(&r, false);
    ((int32_t *)r.call.in[2].data)[3] = 2;
    if (bo_context_is_on_gpu(context)) { /* a device finds it while it computes */
        assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, false));
        assert_true(isnan(*(float *)r.call.out[0].data) && isnan(((float *)r.call.out[1].data)[3]));
        clear(&r);
        bo_context_destroy(context);
        return;
    }
    assert_fails(context, BO_INVALID, "target 3 is 2, expected a number below 2",
                 direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, false));
    clear(&r);
    bo_context_destroy(context);
}

/* A run with gradients for problem p on two threads. */
static run finish(const problem *p, double teacher)
{
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    run r;
    prepare(&r, p);
    connect(&r, true);
    r.attributes.teacher = teacher;
    if (teacher == 0) free(r.call.in[--r.call.inputs].data);
    assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, true));
    bo_context_destroy(context);
    r.call.attributes = NULL; /* the run moves */
    return r;
}

/* If the teacher is the student, the divergence is exactly 0, and the gradient of p - (1 - α) e - α p' is (1 - α) times
 * the gradient p - e. Twice the number of rows may use a different kernel, so logits of about 20 differ by rounding. */
static void check_equal(size_t rows, size_t vocabulary)
{
    const problem p = {.rows = rows, .width = 24, .vocabulary = vocabulary, .size = 1, .without = 5, .teacher = 1};
    run plain = finish(&p, 0), half = finish(&p, 0.25), all = finish(&p, 1);
    double size = 1; /* of the terms of p and e */
    for (size_t i = 0; i < p.rows * p.width; i++) size = fmax(size, fabs((double)((float *)plain.call.din[0])[i]));
    for (size_t i = 0; i < p.rows; i++) {
        const double loss = (double)((float *)plain.call.out[1].data)[i];
        assert_close(((float *)half.call.out[1].data)[i], 0.75 * loss, 0x1p-18 * (1 + loss));
        assert_true(((float *)all.call.out[1].data)[i] == 0);
    }
    assert_true(*(float *)all.call.out[0].data == 0);
    for (size_t i = 0; i < p.rows * p.width; i++) {
        assert_close(((float *)half.call.din[0])[i], 0.75 * (double)((float *)plain.call.din[0])[i], 0x1p-18 * size);
        assert_close(((float *)all.call.din[0])[i], 0, 0x1p-18 * size);
    }
    clear(&plain), clear(&half), clear(&all);
}

static void a_teacher_equal_to_the_student_leaves_the_targets(void **state)
{
    (void)state;
    static const size_t rows[] = {2, 3, 4, 7, 70, 301}, vocabularies[] = {1, 9, 1031};
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 3; j++) check_equal(rows[i], vocabularies[j]);
}

/* Small divergences. A relative error of a sum of exponentials is an absolute error of its logarithm: the relative
 * error of an exponential is at most 2e-7, and two sums have independent roundings. An error d of the logits changes a
 * divergence D by at most Σ |p - p'| d <= √(2 D) d (Pinsker), with d = 2e-6 for logits of about 20. */
static void small_divergences_are_accurate(void **state)
{
    (void)state;
    static const double distances[] = {0.3, 0.03, 0.003, 3e-4, 3e-5, 3e-6};
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
        const problem p = {.rows = 40, .width = 16, .vocabulary = 3000, .size = 1, .teacher = 1, .apart = distances[d]};
        run r = finish(&p, 1);
        truth t = solve(&r, &p);
        for (size_t i = 0; i < p.rows; i++) {
            const double found = (double)((float *)r.call.out[1].data)[i];
            assert_true(found >= 0);
            assert_close(found, t.losses[i], 4e-7 + 2e-6 * sqrt(2 * t.losses[i]));
        }
        free(t.losses), free(t.dx), free(t.dw);
        clear(&r);
    }
}

/* The teacher has no gradient: zeros, or nothing is added. A frozen weight does not change the gradient of x. */
static void a_teacher_is_a_constant(void **state)
{
    (void)state;
    const problem p = {.rows = 9, .width = 5, .vocabulary = 33, .size = 1, .teacher = 0.5, .apart = 1};
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    run first = finish(&p, 0.5);
    for (int add = 0; add < 2; add++) {
        run r;
        prepare(&r, &p);
        connect(&r, true);
        float *din = direct_floats(p.rows * p.width, 12), *before = direct_floats(p.rows * p.width, 12),
              *dw = r.call.din[1];
        r.call.din[3] = din, r.call.add[3] = add, r.call.din[1] = NULL;
        assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, true));
        for (size_t i = 0; i < p.rows * p.width; i++) assert_true(din[i] == (add ? before[i] : 0));
        assert_memory_equal(r.call.din[0], first.call.din[0], p.rows * p.width * sizeof(float));
        r.call.din[1] = dw;
        free(din), free(before);
        clear(&r);
    }
    clear(&first);
    bo_context_destroy(context);
}

/* A bias of -INFINITY removes a class from both distributions. */
static void removed_classes_do_not_count(void **state)
{
    (void)state;
    const problem p = {.rows = 9, .width = 5, .vocabulary = 33, .size = 1, .teacher = 0.5, .apart = 1},
                  fewer = {.rows = 9, .width = 5, .vocabulary = 30, .size = 1, .teacher = 0.5, .apart = 1};
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    run r, expected;
    prepare(&r, &p), prepare(&expected, &fewer);
    connect(&r, true), connect(&expected, true);
    memcpy(r.call.in[2].data, expected.call.in[2].data, p.rows * sizeof(int32_t));
    float bias[33] = {[30] = -INFINITY, [31] = -INFINITY, [32] = -INFINITY};
    r.attributes.bias = true;
    r.call.in[4] = r.call.in[3];
    r.call.in[3] = (bo_tensor){bias, BO_ELEMENT_FLOAT32, 1, p.vocabulary};
    r.call.inputs = 5;
    assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, true));
    assert_ok(context,
              direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &expected.call, true));
    for (size_t i = 0; i < p.rows; i++)
        assert_close(((float *)r.call.out[1].data)[i], ((float *)expected.call.out[1].data)[i], 1e-6);
    for (size_t i = 0; i < p.rows * p.width; i++)
        assert_close(((float *)r.call.din[0])[i], ((float *)expected.call.din[0])[i], 1e-5);
    r.call.in[3] = r.call.in[4], r.call.inputs = 4;
    clear(&r), clear(&expected);
    bo_context_destroy(context);
}

/* The logits of all rows never exist at the same time. */
static void scratch_is_bounded(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    bo_cross_entropy_attributes attributes = {0};
    bo_op_call call = {.attributes = &attributes, .inputs = 3, .outputs = 2};
    call.in[0] = (bo_tensor){NULL, BO_ELEMENT_FLOAT32, 1 << 16, 384};
    call.in[1] = (bo_tensor){NULL, BO_ELEMENT_FLOAT32, 8192, 384};
    call.in[2] = (bo_tensor){NULL, BO_ELEMENT_INT32, 1 << 16, 1};
    size_t saved, scratch;
    const bo_op *op = direct_op(context, BO_OPERATION_CROSS_ENTROPY);
    const size_t max_bytes = (size_t)(bo_context_is_on_gpu(context) ? 520 : 32) << 20; /* a device has larger chunks */
    assert_ok(context, op->sizes(context, &call, true, &saved, &scratch));
    assert_true(scratch < max_bytes);
    attributes.teacher = 0.5, call.in[call.inputs++] = call.in[0];
    assert_ok(context, op->sizes(context, &call, true, &saved, &scratch));
    assert_true(scratch < 2 * max_bytes);
    bo_context_destroy(context);
}

static void check_threads(const problem *p)
{
    run first = {0};
    for (int threads = 1; threads <= 3; threads++) {
        direct_arena arena;
        bo_context *context = direct_context(threads, NULL, &arena);
        run r;
        prepare(&r, p);
        connect(&r, true);
        assert_ok(context, direct_run(context, &arena, direct_op(context, BO_OPERATION_CROSS_ENTROPY), &r.call, true));
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

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    check_threads(&problems[3]);
    check_threads(&problems[10]);
    check_threads(&problems[11]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_match_loops),
        cmocka_unit_test(targets_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(a_teacher_equal_to_the_student_leaves_the_targets),
        cmocka_unit_test(small_divergences_are_accurate),
        cmocka_unit_test(a_teacher_is_a_constant),
        cmocka_unit_test(removed_classes_do_not_count),
        cmocka_unit_test(scratch_is_bounded),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
