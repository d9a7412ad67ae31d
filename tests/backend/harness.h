/* The checks that every operation must pass, case by case. */
#ifndef BO_TEST_BACKEND_HARNESS_H
#define BO_TEST_BACKEND_HARNESS_H

#include "bench.h"

enum { HARNESS_THREADS = 3 };

typedef struct harness {
    bo_device *device;
    bo_context *contexts[HARNESS_THREADS];
    counting counted; /* counts the allocations of the first context */
    size_t cases;
} harness;

static inline void harness_begin(harness *h)
{
    *h = (harness){0};
    h->contexts[0] = counting_context(&h->counted, 2);
    h->contexts[1] = test_context(1);
    h->contexts[2] = test_context(5);
    const char *device = getenv("BOCHNER_TEST_DEVICE");
    for (size_t i = 0; device && i < HARNESS_THREADS; i++)
        assert_ok(h->contexts[i], bo_context_use_device(h->contexts[i], device));
    h->device = bo_device_of(h->contexts[0]);
}

static inline void harness_end(harness *h)
{
    for (size_t i = 0; i < HARNESS_THREADS; i++) bo_context_destroy(h->contexts[i]);
}

/* ---- comparison with the reference ------------------------------------------------------------------------------- */

static inline void harness_outputs(const bench *b, const op_truth *t, const char *when)
{
    for (size_t o = 0; o < t->outputs; o++) {
        const truth_array *a = &t->out[o];
        const float *found = (const float *)b->out[o].data;
        for (size_t i = 0; i < a->rows * a->columns; i++) {
            double tolerance = b->c->exact ? 0 : a->tolerance[i],
                   expected = b->c->exact ? (double)(float)a->value[i] : a->value[i];
            if (!(fabs((double)found[i] - expected) <= tolerance))
                fail_msg("%s: output %zu, row %zu, column %zu %s: found %.9g, expected %.9g within %.3g", b->c->name, o,
                         i / a->columns, i % a->columns, when, (double)found[i], expected, tolerance);
        }
    }
}

/* The initial value that gradient k is added to: of similar size, or 0. */
static inline double harness_before(const op_truth *t, size_t k, size_t i, bool added)
{
    double size = t->size[k] > 0 ? t->size[k] : 1;
    return added ? (double)(float)(size * (1 + (double)(i % 5)) * (i % 2 ? -0.5 : 0.25)) : 0;
}

static inline void harness_gradient_elements(const bench *b, const op_truth *t, size_t k, bool added, unsigned given,
                                             const char *when)
{
    const float *found = (const float *)b->din[k].data;
    size_t columns = t->gradient[0][k].columns;
    for (size_t i = 0; i < t->gradient[0][k].rows * columns; i++) {
        double before = harness_before(t, k, i, added), expected = before, tolerance = 0x1p-22 * fabs(before);
        for (size_t o = 0; o < t->outputs; o++)
            if (given >> o & 1) expected += t->gradient[o][k].value[i], tolerance += t->gradient[o][k].tolerance[i];
        if (isnan(expected) ? !isfinite(found[i]) : !(fabs((double)found[i] - expected) <= tolerance))
            fail_msg("%s: gradient of input %zu, row %zu, column %zu %s: found %.9g, expected %.9g within %.3g",
                     b->c->name, k, i / columns, i % columns, when, (double)found[i], expected, tolerance);
    }
}

static inline void harness_gradient_directions(const bench *b, const op_truth *t, size_t k, bool added, unsigned given,
                                               const char *when)
{
    const float *found = (const float *)b->din[k].data;
    for (size_t d = 0; d < t->directions; d++) {
        const truth_direction *direction = &t->direction[k][d];
        double sum = 0, expected = 0, tolerance = 0, rounding = 0;
        for (size_t i = 0; i < t->gradient[0][k].rows * t->gradient[0][k].columns; i++) {
            double before = harness_before(t, k, i, added);
            sum += direction->u[i] * ((double)found[i] - before);
            rounding += pow(0x1p-22 * direction->u[i] * before, 2);
        }
        for (size_t o = 0; o < t->outputs; o++)
            if (given >> o & 1) expected += direction->along[o].value[0], tolerance += direction->along[o].tolerance[0];
        tolerance += 4 * sqrt(rounding);
        if (!(fabs(sum - expected) <= tolerance))
            fail_msg("%s: gradient of input %zu along direction %zu %s: found %.9g, expected %.9g within %.3g",
                     b->c->name, k, d, when, sum, expected, tolerance);
    }
}

/* One backward call and a check of everything that it should have written; bit masks as in bench_backward. */
static inline void harness_backward(bench *b, const op_truth *t, unsigned requested, unsigned added, unsigned given,
                                    const char *when)
{
    for (size_t k = 0; k < t->inputs; k++)
        for (size_t i = 0; i < b->din[k].bytes / sizeof(float); i++)
            ((float *)b->din[k].data)[i] = added >> k & 1 ? (float)harness_before(t, k, i, true) : NAN;
    bench_backward(b, requested, added, given);
    for (size_t k = 0; k < t->inputs; k++) {
        if (!t->has[k] || !(requested >> k & 1)) continue;
        harness_gradient_elements(b, t, k, added >> k & 1, given, when);
        harness_gradient_directions(b, t, k, added >> k & 1, given, when);
    }
    if (b->op->forward_in_backward) harness_outputs(b, t, when);
}

/* ---- checks of a case -------------------------------------------------------------------------------------------- */

static inline unsigned harness_all(const op_truth *t)
{
    unsigned all = 0;
    for (size_t k = 0; k < BO_OP_INPUTS; k++) all |= (unsigned)t->has[k] << k;
    return all;
}

/* Subsets of gradients that a graph may request: all, one alone, all but one, added or not; and subsets of output
 * gradients. */
static inline void harness_subsets(bench *b, const op_truth *t)
{
    unsigned all = harness_all(t), outputs = (1U << t->outputs) - 1;
    harness_backward(b, t, all, all, outputs, "added");
    for (size_t k = 0; k < t->inputs; k++) {
        if (!t->has[k]) continue;
        harness_backward(b, t, 1U << k, 0, outputs, "alone");
        harness_backward(b, t, 1U << k, 1U << k, outputs, "alone and added");
        if (all & ~(1U << k)) harness_backward(b, t, all & ~(1U << k), 0x5, outputs, "without another");
    }
    for (size_t o = 0; o < t->outputs; o++) {
        if (t->outputs > 1) harness_backward(b, t, all, 0, outputs & ~(1U << o), "without the gradient of an output");
        if (t->outputs > 2) harness_backward(b, t, all, all, 1U << o, "of one output, added");
    }
    harness_backward(b, t, all, 0, 0, "of nothing");
    harness_backward(b, t, all, all, 0, "of nothing, added");
}

static inline void harness_same_bits(const block *a, const block *b, const char *name, const char *what)
{
    if (a->bytes && memcmp(a->data, b->data, a->bytes)) fail_msg("%s: %s", name, what);
}

/* Results are bitwise equal for another number of threads and other garbage in the workspace. */
static inline void harness_threads(const bench *first, bo_context *context, const plain_op *plain, const op_truth *t)
{
    bench b = bench_make(context, first->op, first->c, plain, t, 0x3C);
    bench_forward(&b, true);
    for (size_t o = 0; o < t->outputs; o++)
        harness_same_bits(&b.out[o], &first->out[o], b.c->name, "outputs depend on threads or scratch");
    harness_backward(&b, t, harness_all(t), 0, (1U << t->outputs) - 1, "with other threads");
    for (size_t k = 0; k < t->inputs; k++)
        harness_same_bits(&b.din[k], &first->din[k], b.c->name, "gradients depend on threads or scratch");
    bench_drop(&b);
}

/* A gradient that is declared equal to dout[0] is equal. */
static inline void harness_passes(const bench *b, const op_truth *t)
{
    unsigned bits = b->op->passes ? b->op->passes(&b->call) : 0;
    for (size_t k = 0; k < t->inputs; k++) {
        const truth_array *a = &t->gradient[0][k];
        for (size_t i = 0; bits >> k & 1 && i < a->rows * a->columns; i++)
            if (fabs(a->value[i] - t->dout[0][i]) > 1e-6)
                fail_msg("%s: the gradient of input %zu is not that of the output", b->c->name, k);
    }
}

static inline void harness_compare(harness *h, const bo_op *op, const op_case *c, const plain_op *plain,
                                   const op_truth *t)
{
    unsigned all = harness_all(t), outputs = (1U << t->outputs) - 1;
    bench b = bench_make(h->contexts[0], op, c, plain, t, 0xFF);
    if (op->operations && !(op->operations(b.context, &b.call) > 0)) fail_msg("%s: counts no operations", c->name);
    b.counted = &h->counted;
    harness_passes(&b, t);
    bench_forward(&b, false);
    harness_outputs(&b, t, "without gradients");
    for (size_t o = 0; o < t->outputs; o++) block_remember(&b.out[o]);
    bench_forward(&b, true);
    for (size_t o = 0; o < t->outputs; o++)
        block_same(&b.out[o], c->name, "an output, after gradients were requested,");
    harness_outputs(&b, t, "with gradients");
    harness_subsets(&b, t);
    harness_backward(&b, t, all, 0, outputs, "overwritten");
    for (size_t i = 1; i < HARNESS_THREADS; i++) harness_threads(&b, h->contexts[i], plain, t);
    bench_drop(&b);
}

/* Random values are implementation-defined: masks are recovered from inputs of ones, additive noise from zeros. */
static inline double *harness_mask(harness *h, const bo_op *op, const op_case *c)
{
    size_t count = c->in[0].rows * c->in[0].columns;
    double *mask = plain_zeros(count);
    bool added = c->op == BO_OPERATION_NOISE && ((const bo_noise_attributes *)c->attributes)->kind == BO_NOISE_NORMAL;
    op_case probe = *c;
    probe.in[0].law = LAW_UNIFORM, probe.in[0].a = probe.in[0].b = added ? 0 : 1;
    plain_op plain = op_make(&probe);
    op_truth t = truth_begin(&probe, &plain);
    bench b = bench_make(h->contexts[0], op, &probe, &plain, &t, 0xFF);
    bench_forward(&b, false);
    for (size_t i = 0; i < count; i++) {
        double found = (double)((const float *)b.out[0].data)[i];
        mask[i] = added ? found : found != 0;
    }
    bench_drop(&b);
    truth_drop(&t);
    op_drop(&plain);
    return mask;
}

/* Returns false if the backend does not support a case; devices lack some kinds. */
static inline bool harness_supports(bo_context *context, const bo_op *op, const plain_op *plain)
{
    bo_op_call call = {.attributes = plain->attributes, .inputs = plain->inputs};
    for (size_t k = 0; k < plain->inputs; k++)
        call.in[k] = (bo_tensor){NULL, plain->in[k].element, plain->in[k].rows, plain->in[k].columns};
    return !bo_context_is_on_gpu(context) || op->shape(context, &call) != BO_UNSUPPORTED;
}

static inline void harness_run(harness *h, const bo_op *op, const op_case *c, const plain_op *plain)
{
    bool draws = (c->op == BO_OPERATION_DROPOUT || c->op == BO_OPERATION_NOISE) && c->pass.training;
    double *mask = draws ? harness_mask(h, op, c) : NULL;
    op_truth t = truth_make(c, mask);
    harness_compare(h, op, c, plain, &t);
    truth_drop(&t);
    free(mask);
    h->cases++;
}

/* A visitor. test_ops_all.c reports operations that the backend lacks. */
static inline void harness_check(void *user, const op_case *c)
{
    harness *h = user;
    const bo_op *op = bo_backend_of(h->device)->ops[c->op];
    if (!op) return;
    plain_op plain = op_make(c);
    if (harness_supports(h->contexts[0], op, &plain)) harness_run(h, op, c, &plain);
    op_drop(&plain);
}

#endif
