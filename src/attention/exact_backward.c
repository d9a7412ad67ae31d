/* The gradient of softmax over explicit keys, from the tape's denominator: softmax.h has the formulas. */
#include "exact.h"
#include "parameters.h"
#include <math.h>
#include <string.h>

/* HYBRID's weight of exact keys; 1 for EXACT. */
static float mix_of(const bo_call *call, size_t head)
{
    return call->in->mix ? call->in->mix[head] : 1.0f;
}

/* Nothing in dO / sum and δ / sum may leave float further on. */
static bool slope_fits(const bo_kernels *kernels, size_t width, const float *dout, float delta)
{
    double square = kernels->dot(width, dout, dout);
    return fabsf(delta) <= BO_MOST_SLOPE && square <= (double)BO_MOST_SLOPE * (double)BO_MOST_SLOPE;
}

/* top, dO / sum and δ / sum of the tile's rows. A denominator that was clamped is a constant: δ = 0. */
static void begin_slope(bo_exact *work, size_t head, size_t first)
{
    const bo_call *call = work->call;
    const bo_kernels *kernels = call->kernels;
    const bo_softmax_tile *tile = &work->tile;
    size_t width = tile->value_dim, at = bo_exact_tape(work, head, first);
    float log_mix = logf(mix_of(call, head));
    bo_rows out = bo_exact_rows(work, call->out, width, head, first);
    bo_rows dout = bo_exact_rows(work, call->dout, width, head, first);
    for (size_t r = 0; r < tile->rows; r++) {
        const float *row = dout.at + r * dout.stride;
        float sum = call->tape.sum[at + r], inverse = 1.0f / fabsf(sum);
        tile->top[r] = call->tape.top[at + r] - log_mix;
        float *scaled = work->slope.dout + r * width, *delta = &work->slope.delta[r];
        kernels->scale(width, inverse, row, scaled);
        *delta = sum > 0.0f ? (float)kernels->dot(width, row, out.at + r * out.stride) * inverse : 0.0f;
        if (slope_fits(kernels, width, scaled, *delta)) continue;
        memset(scaled, 0, width * sizeof *scaled);
        *delta = 0.0f;
    }
    bo_exact_note(call, bo_rows_finite(kernels, tile->rows, width, dout.at, dout.stride));
}

static void zero_rows(bo_rows rows, size_t count, size_t width)
{
    for (size_t r = 0; rows.at && r < count; r++) memset(rows.at + r * rows.stride, 0, width * sizeof *rows.at);
}

static void scale_rows(const bo_kernels *kernels, bo_rows rows, size_t count, size_t width, double factor)
{
    for (size_t r = 0; rows.at && r < count; r++) {
        float *row = rows.at + r * rows.stride;
        kernels->scale(width, (float)factor, row, row);
    }
}

/* Queries first … end - 1 of a head; adds Σ dS to *total. */
static void backward_tile(bo_exact *work, size_t head, size_t first, size_t end, double *total)
{
    const bo_call *call = work->call;
    const bo_attention_desc *desc = &call->attention->desc;
    bo_softmax_slope *slope = &work->slope;
    slope->dq = bo_exact_rows(work, call->gradients->q, desc->dim, head, first);
    slope->total = total;
    zero_rows(slope->dq, end - first, desc->dim);
    if (!call->dout) return;
    bo_exact_fill(work, head, first, end);
    begin_slope(work, head, first);
    bo_softmax_add_keys_slope(&work->tile, slope, &work->keys);
    scale_rows(call->kernels, slope->dq, end - first, desc->dim, desc->scale);
}

void bo_exact_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    size_t group = call->attention->group, queries = call->sequences[sequence].queries;
    size_t mix = bo_parameter_offset(call->attention, BO_PARAMETER_MIX);
    bool mixes = call->gradients->mix != NULL;
    bo_exact work = bo_exact_begin(call, sequence, key_head, BO_SOFTMAX_TILE, true, scratch);
    bo_softmax_begin_slopes(&work.keys);
    for (size_t first = 0, end; first < queries; first = end) {
        end = bo_softmax_tile_end(work.keys.old, first, queries);
        if (bo_pass_stops(call->watch, end - first)) return;
        bo_exact_load(&work, end);
        for (size_t g = 0; g < group; g++) {
            size_t head = key_head * group + g;
            double total = 0.0;
            backward_tile(&work, head, first, end, mixes ? &total : NULL);
            if (mixes) parameters[mix + g] += (float)(total / (double)mix_of(call, head));
        }
    }
}
