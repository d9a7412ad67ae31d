/* What keys weigh: gates and running log scales of a chunk. linear.h has the formulas. */
#include <math.h>
#include <string.h>
#include "linear.h"

/* Least input weight 1 - g: its logarithm stays finite, and so does the gradient of a gate of exactly 1. */
static const float least_input = 1e-30f;

/* Log gates below this count as this: sums of them leave double its digits, and nothing is left of the past anyway. */
static const float least_gate = -1e8f;

float bo_log_gate(const float *log_gate)
{
    if (!log_gate) return 0;
    return *log_gate > least_gate ? *log_gate : least_gate;
}

float bo_log_input(const bo_attention *attention, float log_gate)
{
    return attention->desc.gate == BO_GATE_CONVEX ? logf(fmaxf(-expm1f(log_gate), least_input)) : 0;
}

double bo_input_slope(float log_gate)
{
    return -exp((double)log_gate) / fmax(-expm1((double)log_gate), (double)least_input);
}

/* Sums of gates may be far larger than any exponent that counts, so they cancel in double. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row)
{
    const bo_kernels *kernels = work->kernels;
    if (work->powers) return kernels->exp_weigh(t, work->powers + work->chunk - t, 0, row);
    if (work->attention->desc.gate == BO_GATE_NONE) return kernels->exp_weigh(t, work->lk, -work->r[t], row);
    double after = work->b[t] - (double)work->r[t];
    for (size_t j = 0; j < t; j++) work->exponents[j] = (float)(work->c[j] + after);
    return kernels->exp_weigh(t, work->exponents, 0, row);
}

/* The same for every chunk: log g^(chunk - 1 - i), and what remains. */
void bo_linear_fix_powers(bo_linear *work, const float *log_gate)
{
    double gate = (double)bo_log_gate(log_gate);
    for (size_t i = 0; i < work->chunk; i++) work->powers[i] = (float)((double)(work->chunk - 1 - i) * gate);
    for (size_t t = 0; t <= work->chunk; t++) work->remains[t] = (float)exp((double)t * gate);
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
    if (!work->powers) {
        work->b[0] = 0;
        work->r[0] = *work->sums.log_scale;
        find_exponents(work, log_gate, gate_stride);
        find_remains(work);
    }
    for (size_t j = 0; j < keys; j++) work->weights[j] = 1;
    bo_linear_weigh(work, keys, work->weights);
}
