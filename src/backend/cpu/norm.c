/* Normalization of groups of `width` columns: RMSNorm (1910.07467), x r with r = 1 / √(mean x² + ε), and LayerNorm
 * (1607.06450), (x - mean) r with r = 1 / √(variance + ε); then times a gain plus a bias.
 *
 * With x̂ the normalized x and g = gain ∘ dy: dx = r (g - mean g [LayerNorm] - x̂ mean(g ∘ x̂)); dgain = Σ dy ∘ x̂ and
 * dbias = Σ dy over the groups. Blocks sum them in workspace, and the sums of the blocks are added in order. */
#include "cpu.h"
#include <math.h>
#include <string.h>
#include "blocks.h"
#include "../shapes.h"

/* A call. Items are groups. */
typedef struct norm {
    const bo_norm_attributes *attributes;
    size_t width, groups, each;
    const float *x, *gain, *bias; /* gain, bias: may be NULL */
    float *rate, *mean;           /* saved: r and, for LayerNorm, the mean of each group */
} norm;

static norm norm_of(const bo_op_call *call)
{
    const bo_norm_attributes *a = call->attributes;
    norm n = {.attributes = a, .width = a->width, .groups = bo_operand_floats(&call->in[0]) / a->width};
    n.each = bo_block_rows(a->width);
    n.x = call->in[0].data;
    n.gain = a->gain ? call->in[1].data : NULL;
    n.bias = a->bias ? call->in[1 + a->gain].data : NULL;
    n.rate = call->saved;
    n.mean = n.rate && a->kind == BO_NORM_LAYER ? n.rate + n.groups : NULL;
    return n;
}

/* Returns the index of the gain or bias input, or 0 if it does not exist. */
static size_t gain_input(const norm *n)
{
    return n->attributes->gain ? 1 : 0;
}

static size_t bias_input(const norm *n)
{
    return n->attributes->bias ? 1 + n->attributes->gain : 0;
}

static float *gradient_of(const bo_op_call *call, size_t input)
{
    return input ? call->din[input] : NULL;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Computes y = x̂. The mean of the group, if used, is subtracted before squares are summed. */
static void normalize(const norm *n, const bo_kernels *kernels, size_t group, const float *x, float *y)
{
    float mean = 0;
    if (n->attributes->kind == BO_NORM_LAYER) {
        mean = (float)(kernels->sum(n->width, x) / (double)n->width);
        for (size_t j = 0; j < n->width; j++) y[j] = x[j] - mean;
        x = y;
    }
    double square = kernels->dot(n->width, x, x) / (double)n->width;
    float rate = (float)(1 / sqrt(square + n->attributes->epsilon));
    kernels->scale(n->width, rate, x, y);
    if (n->rate) n->rate[group] = rate;
    if (n->mean) n->mean[group] = mean;
}

static void forward_block(const bo_cpu_block *block)
{
    norm n = norm_of(block->call);
    float *out = block->call->out[0].data;
    for (size_t g = block->first; g < block->end; g++) {
        float *y = out + g * n.width;
        normalize(&n, block->kernels, g, n.x + g * n.width, y);
        if (n.gain) block->kernels->product(n.width, y, n.gain, false, y);
        if (n.bias) block->kernels->axpy(n.width, 1.0f, n.bias, y);
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    norm n = norm_of(call);
    bo_blocks(context, call, n.groups, n.each, forward_block);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

enum { STRIP = BO_SIZE(1024, 8) };

/* Sums of g and g ∘ x over a group, with g = gain ∘ dy one strip at a time: x̂ is (x - mean) r. */
typedef struct group_sums {
    double level, along;
} group_sums;

static const float *strip_of(const norm *n, const bo_kernels *kernels, const float *dy, size_t first, size_t count,
                             float buffer[STRIP])
{
    if (!n->gain) return dy + first;
    kernels->product(count, dy + first, n->gain + first, false, buffer);
    return buffer;
}

static group_sums sums_of(const norm *n, const bo_kernels *kernels, const float *x, const float *dy)
{
    group_sums sums = {0};
    float buffer[STRIP];
    for (size_t first = 0; first < n->width; first += STRIP) {
        size_t count = n->width - first < STRIP ? n->width - first : STRIP;
        const float *g = strip_of(n, kernels, dy, first, count, buffer);
        sums.along += kernels->dot(count, g, x + first);
        if (n->mean) sums.level += kernels->sum(count, g);
    }
    return sums;
}

static void backward_group(const norm *n, const bo_cpu_block *block, size_t group, float *dgain, float *dbias)
{
    const bo_op_call *call = block->call;
    size_t width = n->width, at = group * width;
    const float *x = n->x + at, *dy = (const float *)call->dout[0] + at;
    float *dx = call->din[0] ? (float *)call->din[0] + at : NULL;
    bo_norm_row row = {.mean = n->mean ? n->mean[group] : 0, .rate = n->rate[group]};
    if (dx) {
        group_sums sums = sums_of(n, block->kernels, x, dy);
        double along = (sums.along - (double)row.mean * sums.level) * (double)row.rate; /* Σ g ∘ x̂ */
        row.shift = (float)(sums.level / (double)width);
        row.slope = (float)(along / (double)width * (double)row.rate);
    }
    block->kernels->norm_back(width, &row, x, dy, n->gain, call->add[0], dx, dgain, dbias);
}

/* True if a gradient of the gain or of the bias is needed. */
static bool has_sums(const bo_op_call *call)
{
    return call->din[1] || call->din[2];
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    norm n = norm_of(call);
    float *dgain = NULL, *dbias = NULL;
    if (has_sums(call)) {
        float *sums = (float *)call->scratch + block->index * 2 * n.width;
        memset(sums, 0, 2 * n.width * sizeof *sums);
        dgain = gradient_of(call, gain_input(&n)) ? sums : NULL;
        dbias = gradient_of(call, bias_input(&n)) ? sums + n.width : NULL;
    }
    for (size_t g = block->first; g < block->end; g++) backward_group(&n, block, g, dgain, dbias);
}

/* Adds the sums of the blocks for the gain (part 0) or the bias (part 1), some columns at a time, so that memory is
 * read along its rows. */
static void add_blocks(const bo_op_call *call, const norm *n, size_t input, size_t part)
{
    enum { COLUMNS = BO_SIZE(64, 4) };
    float *out = gradient_of(call, input);
    size_t blocks = bo_block_count(n->groups, n->each);
    for (size_t first = 0; out && first < n->width; first += COLUMNS) {
        const float *sums = (const float *)call->scratch + part * n->width + first;
        size_t count = n->width - first < COLUMNS ? n->width - first : COLUMNS;
        double total[COLUMNS] = {0};
        for (size_t b = 0; b < blocks; b++, sums += 2 * n->width)
            for (size_t j = 0; j < count; j++) total[j] += (double)sums[j];
        for (size_t j = 0; j < count; j++) bo_store(&out[first + j], call->add[input], (float)total[j]);
    }
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    norm n = norm_of(call);
    bo_blocks(context, call, n.groups, n.each, backward_block);
    add_blocks(call, &n, gain_input(&n), 0);
    add_blocks(call, &n, bias_input(&n), 1);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    norm n = norm_of(call);
    size_t numbers = n.attributes->kind == BO_NORM_LAYER ? 2 : 1;
    *saved = gradients ? numbers * n.groups * sizeof(float) : 0;
    *scratch = has_sums(call) ? bo_block_count(n.groups, n.each) * 2 * n.width * sizeof(float) : 0;
    return BO_OK;
}

const bo_op bo_cpu_norm = {
    .name = "norm",
    .attributes = sizeof(bo_norm_attributes),
    .reads_inputs = 1 << 0 | 1 << 1, /* x and the gain */
    .shape = bo_shape_norm,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
