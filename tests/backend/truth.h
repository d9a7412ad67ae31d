/* Reference results of an operation and their float32 tolerances.
 *
 * Gradients are fourth-order central differences of the reference (the error of a step h is h⁴/30 of the fifth
 * derivative), with dout of one output at a time, so any dout may be absent.
 *
 * Tolerances are computed: the reference is evaluated again with every input changed by a random relative 2⁻²³, two
 * units of float32 rounding. The library may differ by the change of the result, times SLACK because there are few
 * perturbations, plus the rounding of sums with as many terms as a side of an operand. */
#ifndef BO_TEST_BACKEND_TRUTH_H
#define BO_TEST_BACKEND_TRUTH_H

#include "case.h"

#define TRUTH_NOISE 0x1p-23
enum { TRUTH_SLACK = 12, TRUTH_SHAKES = 2, TRUTH_DIRECTIONS = 3, TRUTH_PLACES = 5 };

/* An array of reference values by rows, and the tolerance of each. NAN: not computed. */
typedef struct truth_array {
    size_t rows, columns;
    double *value, *shaken[TRUTH_SHAKES], *tolerance;
} truth_array;

/* u: a direction in the input; value[0]: <dout, derivative of the output along u>. */
typedef struct truth_direction {
    double *u;
    truth_array along[BO_OP_OUTPUTS];
} truth_direction;

typedef struct op_truth {
    size_t inputs, outputs;
    bool has[BO_OP_INPUTS];    /* the input has a gradient … */
    double size[BO_OP_INPUTS]; /* … with this largest value */
    truth_array out[BO_OP_OUTPUTS], gradient[BO_OP_OUTPUTS][BO_OP_INPUTS];
    size_t directions;
    truth_direction direction[BO_OP_INPUTS][TRUTH_DIRECTIONS];
    double *dout[BO_OP_OUTPUTS];
} op_truth;

static inline truth_array truth_array_make(size_t rows, size_t columns)
{
    size_t count = rows * columns;
    truth_array a = {.rows = rows, .columns = columns, .value = plain_zeros(count), .tolerance = plain_zeros(count)};
    for (size_t s = 0; s < TRUTH_SHAKES; s++) a.shaken[s] = plain_zeros(count);
    for (size_t i = 0; i < count; i++) a.value[i] = NAN;
    return a;
}

static inline void truth_array_drop(truth_array *a)
{
    free(a->value);
    free(a->tolerance);
    for (size_t s = 0; s < TRUTH_SHAKES; s++) free(a->shaken[s]);
}

/* Tolerance per row: the change of this row under perturbation, or a quarter of the largest change of any row; plus the
 * rounding of results that are sums of `terms` terms. fmax ignores NAN. */
static inline void truth_tolerance(truth_array *a, size_t terms, double canceling)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a->rows * a->columns; i++) {
        for (size_t s = 0; s < TRUTH_SHAKES; s++) worst = fmax(worst, fabs(a->shaken[s][i] - a->value[i]));
        largest = fmax(largest, fabs(a->value[i]));
    }
    for (size_t row = 0; row < a->rows; row++) {
        double error = 0;
        for (size_t i = row * a->columns; i < (row + 1) * a->columns; i++)
            for (size_t s = 0; s < TRUTH_SHAKES; s++) error = fmax(error, fabs(a->shaken[s][i] - a->value[i]));
        for (size_t i = row * a->columns; i < (row + 1) * a->columns; i++)
            a->tolerance[i] = TRUTH_SLACK * fmax(error, 0.25 * worst) +
                              0x1p-23 * fmax(largest, canceling) * (4 + sqrt((double)terms)) + 1e-36;
    }
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

/* All outputs, concatenated. */
static inline void truth_outputs(plain_op *op, double *out)
{
    plain_forward_of(op->kind)(op);
    for (size_t o = 0; o < op->outputs; o++) {
        memcpy(out, op->out[o].x, plain_count(&op->out[o]) * sizeof *out);
        out += plain_count(&op->out[o]);
    }
}

/* The derivative along `u`, or along element `at` if u is NULL, multiplied by dout, for each output: the reference at x
 * + h u for four values of h. */
static inline void truth_derivative(plain_op *op, double *const *dout, double h, size_t k, size_t at, const double *u,
                                    double *out)
{
    static const double steps[4] = {-2, -1, 1, 2};
    plain_tensor *t = &op->in[k];
    size_t count = plain_count(t), numbers = 0;
    for (size_t o = 0; o < op->outputs; o++) numbers += plain_count(&op->out[o]);
    double *x = t->x, *moved = plain_zeros(count), *all = plain_zeros(4 * numbers);
    t->x = moved;
    op->still[k] = x;
    op->smooth = true;
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < count; j++) moved[j] = x[j] + steps[i] * h * (u ? u[j] : j == at);
        truth_outputs(op, all + i * numbers);
    }
    const double *y = all;
    for (size_t o = 0; o < op->outputs; o++) {
        out[o] = 0;
        for (size_t j = 0; j < plain_count(&op->out[o]); j++, y++)
            out[o] += dout[o][j] * (8 * (y[2 * numbers] - y[numbers]) - (y[3 * numbers] - y[0])) / (12 * h);
    }
    t->x = x;
    op->still[k] = NULL;
    op->smooth = false;
    free(moved);
    free(all);
}

/* The elements of an input for which the reference is differentiated: all, or for large cases the corners and a few
 * more. */
static inline bool truth_has_gradient(const op_case *c, const plain_tensor *t, size_t j)
{
    size_t last = plain_count(t) - 1;
    return !c->large || j == 0 || j == last || j == t->columns - 1 || j % (last / TRUTH_PLACES + 1) == 1;
}

/* The array to fill: the reference values, or the values of a perturbed evaluation. */
static inline double *truth_slot(truth_array *a, size_t shake)
{
    return shake ? a->shaken[shake - 1] : a->value;
}

static inline void truth_input_gradients(const op_case *c, plain_op *op, double *const *dout, op_truth *t, size_t k,
                                         size_t shake)
{
    double h = c->step > 0 ? c->step : 1e-3, found[BO_OP_OUTPUTS];
    for (size_t j = 0; j < plain_count(&op->in[k]); j++) {
        if (!truth_has_gradient(c, &op->in[k], j)) continue;
        truth_derivative(op, dout, h, k, j, NULL, found);
        for (size_t o = 0; o < op->outputs; o++) truth_slot(&t->gradient[o][k], shake)[j] = found[o];
    }
    for (size_t d = 0; d < t->directions; d++) {
        truth_direction *direction = &t->direction[k][d];
        truth_derivative(op, dout, h, k, SIZE_MAX, direction->u, found);
        for (size_t o = 0; o < op->outputs; o++) truth_slot(&direction->along[o], shake)[0] = found[o];
    }
}

/* Computes all values for these operands. */
static inline void truth_gradients(const op_case *c, plain_op *op, double *const *dout, op_truth *t, size_t shake)
{
    plain_forward_of(op->kind)(op);
    for (size_t o = 0; o < op->outputs; o++)
        memcpy(truth_slot(&t->out[o], shake), op->out[o].x, plain_count(&op->out[o]) * sizeof(double));
    for (size_t k = 0; k < op->inputs; k++)
        if (t->has[k]) truth_input_gradients(c, op, dout, t, k, shake);
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

static inline void truth_fill_normal(double *x, size_t count, uint64_t seed, uint64_t number)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.backend.truth", number));
    for (size_t i = 0; i < count; i++) x[i] = (double)(float)bo_rng_normal(&rng);
}

/* Operands with memory for every result, gradients of floats, and a random dout. */
static inline op_truth truth_begin(const op_case *c, const plain_op *op)
{
    op_truth t = {.inputs = op->inputs, .outputs = op->outputs, .directions = c->large ? TRUTH_DIRECTIONS : 0};
    for (size_t o = 0; o < op->outputs; o++) {
        t.out[o] = truth_array_make(op->out[o].rows, op->out[o].columns);
        t.dout[o] = plain_zeros(plain_count(&op->out[o]));
        truth_fill_normal(t.dout[o], plain_count(&op->out[o]), c->seed, o);
    }
    for (size_t k = 0; k < op->inputs; k++) {
        t.has[k] = op->in[k].element == BO_ELEMENT_FLOAT32 && !((c->moved | c->constants) >> k & 1);
        if (!t.has[k]) continue;
        for (size_t o = 0; o < op->outputs; o++) t.gradient[o][k] = truth_array_make(op->in[k].rows, op->in[k].columns);
        for (size_t d = 0; d < t.directions; d++) {
            truth_direction *direction = &t.direction[k][d];
            direction->u = plain_zeros(plain_count(&op->in[k]));
            truth_fill_normal(direction->u, plain_count(&op->in[k]), c->seed, 100 + k * TRUTH_DIRECTIONS + d);
            for (size_t o = 0; o < op->outputs; o++) direction->along[o] = truth_array_make(1, 1);
        }
    }
    return t;
}

static inline size_t truth_terms(const plain_op *op)
{
    size_t max_count = 1;
    for (size_t k = 0; k < op->inputs; k++) {
        if (op->in[k].rows > max_count) max_count = op->in[k].rows;
        if (op->in[k].columns > max_count) max_count = op->in[k].columns;
    }
    return max_count;
}

/* The directions of an input share one tolerance, because a single direction may change little by chance. */
static inline void truth_direction_tolerances(op_truth *t, size_t k, size_t terms)
{
    for (size_t o = 0; o < t->outputs; o++) {
        truth_array all = truth_array_make(1, t->directions);
        for (size_t d = 0; d < t->directions; d++) {
            all.value[d] = t->direction[k][d].along[o].value[0];
            for (size_t s = 0; s < TRUTH_SHAKES; s++) all.shaken[s][d] = t->direction[k][d].along[o].shaken[s][0];
        }
        truth_tolerance(&all, terms, 0);
        for (size_t d = 0; d < t->directions; d++) t->direction[k][d].along[o].tolerance[0] = all.tolerance[d];
        truth_array_drop(&all);
    }
}

static inline void truth_tolerances(op_truth *t, size_t terms, double canceling)
{
    for (size_t o = 0; o < t->outputs; o++) {
        truth_tolerance(&t->out[o], terms, 0);
        for (size_t k = 0; k < t->inputs; k++) {
            if (!t->has[k]) continue;
            truth_array *a = &t->gradient[o][k];
            truth_tolerance(a, terms, canceling);
            for (size_t i = 0; i < a->rows * a->columns; i++) t->size[k] = fmax(t->size[k], fabs(a->value[i]));
        }
    }
    for (size_t k = 0; k < t->inputs; k++)
        if (t->has[k] && t->directions) truth_direction_tolerances(t, k, terms);
}

static inline void truth_shake(double *x, size_t count, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.backend.shake", 0));
    for (size_t i = 0; i < count; i++) x[i] *= 1 + TRUTH_NOISE * sqrt(3) * (2 * bo_rng_uniform(&rng) - 1);
}

/* By the reference, for every operation except attention. */
static inline op_truth truth_make(const op_case *c, const double *mask)
{
    plain_op op = op_make(c);
    op.mask = mask;
    op_truth t = truth_begin(c, &op);
    truth_gradients(c, &op, t.dout, &t, 0);
    op_drop(&op);
    for (size_t s = 1; s <= TRUTH_SHAKES; s++) {
        double *dout[BO_OP_OUTPUTS];
        op = op_make(c);
        op.mask = mask;
        for (size_t k = 0; k < op.inputs; k++)
            if (t.has[k] || c->constants >> k & 1) truth_shake(op.in[k].x, plain_count(&op.in[k]), 10 * s + k);
        for (size_t o = 0; o < op.outputs; o++) {
            dout[o] = plain_zeros(plain_count(&op.out[o]));
            memcpy(dout[o], t.dout[o], plain_count(&op.out[o]) * sizeof(double));
            truth_shake(dout[o], plain_count(&op.out[o]), 1000 * s + o);
        }
        truth_gradients(c, &op, dout, &t, s);
        for (size_t o = 0; o < op.outputs; o++) free(dout[o]);
        if (s == TRUTH_SHAKES) truth_tolerances(&t, truth_terms(&op), c->canceling);
        op_drop(&op);
    }
    return t;
}

static inline void truth_drop(op_truth *t)
{
    for (size_t o = 0; o < t->outputs; o++) {
        truth_array_drop(&t->out[o]);
        free(t->dout[o]);
        for (size_t k = 0; k < t->inputs; k++) truth_array_drop(&t->gradient[o][k]);
    }
    for (size_t k = 0; k < t->inputs; k++)
        for (size_t d = 0; d < t->directions; d++) {
            free(t->direction[k][d].u);
            for (size_t o = 0; o < t->outputs; o++) truth_array_drop(&t->direction[k][d].along[o]);
        }
}

#endif
