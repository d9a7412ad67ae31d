/* What keys weigh: gates and running log scales of a chunk. linear.h has the formulas. */
#include <math.h>
#include <string.h>
#include "linear.h"

/* Least input weight 1 - g, so that its logarithm stays finite; where it is this, it does not depend on g. */
static const float least_input = 1e-30f;

float bo_log_input(const bo_attention *attention, float log_gate)
{
    return attention->desc.gate == BO_GATE_CONVEX ? logf(fmaxf(-expm1f(log_gate), least_input)) : 0;
}

double bo_input_slope(float log_gate)
{
    double input = -expm1((double)log_gate);
    return input > (double)least_input ? -exp((double)log_gate) / input : 0;
}

/* Sums of gates may be far larger than any exponent that counts, so they cancel in double. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row)
{
    if (work->attention->desc.gate == BO_GATE_NONE) return work->kernels->exp_weigh(t, work->lk, -work->r[t], row);
    return work->kernels->exp_weigh_wide(t, work->c, work->b[t] - (double)work->r[t], row);
}

/* How many of the first keys leave enough of what was before, a rule that asks no later key; exp(c) of those. */
static void find_apart(bo_linear *work, size_t keys)
{
    const double least = -8; /* exponents of this size cost float no more than three of its bits */
    work->mild = 0;
    if (work->attention->scaled || work->whole) return;
    while (work->mild < keys && work->b[work->mild + 1] >= least) work->mild++;
    for (size_t j = 0; j < work->mild; j++) work->apart[j] = (float)work->c[j];
    work->kernels->exp_shift(work->mild, work->apart, 0, work->apart);
}

void bo_linear_settle(bo_linear *work, const float *log_gate)
{
    double gate = (double)bo_log_gate(log_gate);
    work->settled = true;
    for (size_t t = 0; t <= work->chunk; t++) {
        work->b[t] = (double)t * gate;
        work->remains[t] = (float)exp(work->b[t]);
    }
    for (size_t j = 0; j < work->chunk; j++) work->c[j] = -work->b[j + 1];
    find_apart(work, work->chunk);
}

/* What is left of the sums after t keys, for the queries as exp_below has it. What the sums themselves are multiplied
 * with is as exact as float can say, for it goes on from chunk to chunk. */
static void find_remains(bo_linear *work)
{
    size_t keys = work->keys;
    double before = (double)work->r[0];
    for (size_t t = 1; t < keys; t++) work->remains[t] = (float)(before + work->b[t] - (double)work->r[t]);
    work->kernels->exp_below(keys - 1, work->remains + 1, 0, work->remains + 1);
    work->remains[keys] = (float)exp(before + work->b[keys] - (double)work->r[keys]);
}

/* b, r and c of the chunk's keys, from lk and the sums' log scale. */
static void find_exponents(bo_linear *work, const float *log_gate, size_t stride)
{
    bool scaled = work->attention->scaled;
    for (size_t j = 0; j < work->keys; j++) {
        float gate = bo_log_gate(log_gate ? log_gate + j * stride : NULL), kept = work->r[j] + gate;
        double own = (double)work->lk[j] + (double)bo_log_input(work->attention, gate);
        work->b[j + 1] = work->b[j] + (double)gate;
        if (scaled) work->r[j + 1] = kept > (float)own ? kept : (float)own;
        work->c[j] = own - work->b[j + 1];
    }
}

void bo_linear_take(bo_linear *work, size_t keys, const float *log_gate, size_t gate_stride)
{
    work->keys = keys;
    if (!work->weighted || keys == 0) return;
    if (!work->settled) {
        work->b[0] = 0;
        work->r[0] = *work->sums.log_scale;
        find_exponents(work, log_gate, gate_stride);
        find_remains(work);
        find_apart(work, keys);
    }
    if (keys <= work->mild) {
        work->kernels->scale(keys, work->remains[keys], work->apart, work->weights);
        return;
    }
    for (size_t j = 0; j < keys; j++) work->weights[j] = 1;
    bo_linear_weigh(work, keys, work->weights);
}
