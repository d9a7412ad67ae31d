/* Convolution of images and sequences: y = Σ W(pixel) x(pixel) + b over the pixels of a window, by groups of channels.
 *
 * Forward is a correlation of x with the kernel. The gradient of x is a correlation of dy with the reversed kernel: one
 * per pixel modulo the stride, since only every stride-th tap of the kernel applies to it. */
#include <assert.h>
#include "convolution.h"
#include <string.h>
#include "blocks.h"
#include "columns.h"
#include "cpu.h"
#include "../shapes.h"
#include "../../device/cpu/kernels.h"
#include "../../math/panel.h"

/* ---- calls and their parts --------------------------------------------------------------------------------------- */

static bool is_causal(const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    return !a->windows.width.size;
}

/* True for kernels of one tap. They do not depend on the images, so all rows are treated as one image. */
static bool is_place_by_place(const bo_grid *w)
{
    for (size_t i = 0; i < 2; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->before[i] || w->after[i]) return false;
    return true;
}

/* Returns the whole call with all sequences, if the pass does not specify sequences. */
static bo_convolving whole_of(const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    size_t rows = call->in[0].rows;
    bo_convolving c = {.windows = bo_grid_of(&a->windows), .groups = a->groups ? a->groups : 1};
    size_t *size = c.windows.size;
    if (is_causal(call)) size[0] = 1, size[1] = a->sequences.tokens ? a->sequences.tokens : rows;
    if (is_place_by_place(&c.windows)) size[0] = 1, size[1] = rows;
    c.images = size[1] ? rows / (size[0] * size[1]) : 0;
    for (size_t i = 0; i < 2; i++) c.places[i] = bo_grid_count(&c.windows, i);
    c.in = call->in[0].columns / c.groups, c.out = call->in[1].rows / c.groups;
    c.taps = c.windows.kernel[0] * c.windows.kernel[1];
    assert(c.taps && c.windows.stride[0] && c.windows.stride[1]);
    c.x = call->in[0].data, c.weight = call->in[1].data, c.bias = a->bias ? call->in[2].data : NULL;
    c.y = call->out[0].data, c.dy = call->dout[0], c.dx = call->din[0], c.add = call->add[0];
    c.scale = (float)(a->scale != 0 ? a->scale : 1);
    c.blocks = bo_weight_gradient_blocks(&c, call->out[0].rows);
    return c;
}

/* Returns the longest possible part: for a causal call, all rows. */
static bo_convolving longest_of(const bo_op_call *call)
{
    bo_convolving c = whole_of(call);
    if (!is_causal(call)) return c;
    c.images = 1;
    c.places[1] = c.windows.size[1] = call->in[0].rows;
    return c;
}

/* True if the pass has lengths or states. */
static bool goes_by_sequence(const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    if (!is_causal(call) || !call->pass) return false;
    return (a->sequences.source ? call->pass->source_lengths : call->pass->lengths) ||
           bo_spans_have_states(call, &a->sequences);
}

/* A call is processed in parts: all of it, or one sequence at a time. */
typedef struct parts {
    bo_convolving whole;
    bo_spans spans;
    size_t count;
} parts;

static bo_status parts_of(bo_context *context, const bo_op_call *call, parts *out)
{
    const bo_convolution_attributes *a = call->attributes;
    *out = (parts){.whole = whole_of(call), .count = 1};
    if (!is_causal(call)) return BO_OK;
    BO_TRY(bo_spans_of(context, call, &a->sequences, "convolution", &out->spans));
    if (goes_by_sequence(call)) out->count = out->spans.count;
    return BO_OK;
}

/* Returns part s, which starts at row `row`. */
static bo_convolving part_at(const bo_op_call *call, const parts *p, size_t s, size_t row)
{
    const bo_convolution_attributes *a = call->attributes;
    bo_convolving c = p->whole;
    if (!goes_by_sequence(call)) {
        assert(c.images * c.windows.size[0] * c.windows.size[1] == call->in[0].rows);
        return c;
    }
    size_t in = row * c.groups * c.in, out = row * c.groups * c.out;
    c.images = 1;
    c.places[1] = c.windows.size[1] = bo_span_length(&p->spans, s);
    c.memory = bo_span_state(call, &a->sequences, &p->spans, s);
    c.x += in, c.y = c.y ? c.y + out : NULL;
    c.dx = c.dx ? c.dx + in : NULL, c.dy = c.dy ? c.dy + out : NULL;
    return c;
}

/* Iteration over the parts: for (walk w = {0}; next_part(call, &p, &w);) … w.c …. The index of the part is w.count -
 * 1. */
typedef struct walk {
    size_t count, row;
    bo_convolving c;
} walk;

static bool next_part(const bo_op_call *call, const parts *p, walk *w)
{
    if (w->count == p->count) return false;
    w->c = part_at(call, p, w->count++, w->row);
    w->row += w->c.windows.size[1];
    return true;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Returns the correlation of one group; `panels` will hold its kernel. */
static bo_correlation forward_of(const bo_convolving *c, size_t group, const float *panels)
{
    size_t in = c->groups * c->in, out = c->groups * c->out;
    bo_correlation f = {.from = {.images = c->images, .channels = c->in, .pitch = in}, .panels = panels};
    f.columns = c->out, f.place = out, f.row = c->places[1] * out, f.image = c->places[0] * f.row;
    for (size_t i = 0; i < 2; i++) {
        f.from.size[i] = c->windows.size[i];
        f.first[i] = -(ptrdiff_t)c->windows.before[i];
        f.step[i] = c->windows.stride[i], f.taps[i] = c->windows.kernel[i], f.places[i] = c->places[i];
    }
    f.from.x = c->x ? c->x + group * c->in : NULL;
    f.from.memory = c->memory ? c->memory + group * c->in : NULL, f.from.remembered = c->windows.before[1];
    f.y = c->y ? c->y + group * c->out : NULL;
    f.bias = c->bias ? c->bias + group * c->out : NULL;
    return f;
}

typedef struct pack_job {
    const bo_convolving *c;
    const bo_kernels *kernels;
    size_t group;
    float *panels;
    size_t phase[2], taps[2]; /* for the gradient of x */
} pack_job;

/* Task: packs columns of the kernel, which are rows of the weight. */
static void pack_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const bo_convolving *c = job->c;
    size_t depth = c->taps * c->in, first = index * BO_PANEL, columns = bo_min(BO_PANEL, c->out - first);
    float *panel = job->panels + first * depth;
    job->kernels->transpose(columns, depth, c->weight + (job->group * c->out + first) * depth, depth, panel, BO_PANEL);
    for (size_t i = 0; c->scale != 1 && i < depth; i++)
        job->kernels->scale(columns, c->scale, panel + i * BO_PANEL, panel + i * BO_PANEL);
}

static void turn_depthwise(bo_context *context, const bo_convolving *c, float *turned)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    kernels->transpose(c->groups, c->taps, c->weight, c->taps, turned, c->groups);
    if (c->scale != 1) kernels->scale(bo_weight_floats(c), c->scale, turned, turned);
}

/* Stores the last rows of a sequence in its state. */
static void remember(const bo_convolving *c, float *memory)
{
    size_t width = c->groups * c->in, rows = c->windows.before[1], length = c->windows.size[1];
    size_t fresh = bo_min(rows, length), kept = rows - fresh;
    memmove(memory, memory + fresh * width, kept * width * sizeof *memory);
    memcpy(memory + kept * width, c->x + (length - fresh) * width, fresh * width * sizeof *memory);
}

/* Returns the floats of the shared workspace, which precedes the workspaces of the threads. */
static size_t panels_of(const bo_convolving *c)
{
    return bo_is_depthwise(c) ? bo_round_up(bo_weight_floats(c), 16) : bo_panel_floats(c->taps * c->in, c->out);
}

static void forward_group(bo_context *context, const bo_op_call *call, const parts *p, size_t group, float *scratch)
{
    const bo_convolving *whole = &p->whole;
    float *workspaces = scratch + panels_of(whole);
    pack_job job = {.c = whole, .kernels = bo_context_kernels(context), .group = group, .panels = scratch};
    bo_parallel(context, bo_ceil_div(whole->out, BO_PANEL), pack_task, &job);
    for (walk w = {0}; next_part(call, p, &w);) {
        bo_correlation f = forward_of(&w.c, group, scratch);
        bo_correlate(context, &f, workspaces);
    }
}

static void forward_depthwise(bo_context *context, const bo_op_call *call, const parts *p, float *scratch)
{
    turn_depthwise(context, &p->whole, scratch);
    for (walk w = {0}; next_part(call, p, &w);) bo_depthwise_forward(context, &w.c, scratch);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    parts p;
    BO_TRY(parts_of(context, call, &p));
    if (bo_is_depthwise(&p.whole))
        forward_depthwise(context, call, &p, call->scratch);
    else
        for (size_t g = 0; g < p.whole.groups; g++) forward_group(context, call, &p, g, call->scratch);
    bool remembers = is_causal(call) && bo_spans_have_states(call, &a->sequences) && !call->again;
    for (walk w = {0}; remembers && next_part(call, &p, &w);)
        remember(&w.c, bo_span_state(call, &a->sequences, &p.spans, w.count - 1));
    return BO_OK;
}

/* ---- gradient of x ----------------------------------------------------------------------------------------------- */

/* Returns the correlation for the pixels that are `phase` modulo the stride. Pixel phase + stride i is read by tap k0 +
 * stride t of window i + (phase + before - k0) / stride - t, with k0 = (phase + before) mod stride. The taps are
 * reversed, so that windows advance. */
static bo_correlation phase_of(const bo_convolving *c, size_t group, const size_t phase[2], const float *panels)
{
    const bo_grid *w = &c->windows;
    size_t in = c->groups * c->in;
    bo_correlation g = {.from = {.images = c->images, .channels = c->out, .pitch = c->groups * c->out}};
    g.panels = panels, g.columns = c->in, g.add = c->add;
    for (size_t i = 0; i < 2; i++) {
        size_t from = phase[i] + w->before[i], tap = from % w->stride[i];
        g.taps[i] = tap < w->kernel[i] ? (w->kernel[i] - 1 - tap) / w->stride[i] + 1 : 0;
        g.first[i] = (ptrdiff_t)(from / w->stride[i]) - (ptrdiff_t)g.taps[i] + 1;
        g.step[i] = 1;
        g.places[i] = phase[i] < w->size[i] ? (w->size[i] - 1 - phase[i]) / w->stride[i] + 1 : 0;
        g.from.size[i] = c->places[i];
    }
    g.from.x = c->dy ? c->dy + group * c->out : NULL;
    g.y = c->dx ? c->dx + (phase[0] * w->size[1] + phase[1]) * in + group * c->in : NULL;
    g.place = w->stride[1] * in, g.row = w->stride[0] * w->size[1] * in, g.image = w->size[0] * w->size[1] * in;
    return g;
}

/* Task: packs tap (u, v) of a phase; each of its lines is a part of a row of the weight. */
static void pack_phase_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    const bo_convolving *c = job->c;
    size_t tap[2] = {index / job->taps[1], index % job->taps[1]}, lines = job->taps[0] * job->taps[1] * c->out;
    for (size_t i = 0; i < 2; i++) {
        size_t stride = c->windows.stride[i];
        tap[i] = (job->phase[i] + c->windows.before[i]) % stride + stride * (job->taps[i] - 1 - tap[i]);
    }
    const float *from = c->weight + (job->group * c->out * c->taps + tap[0] * c->windows.kernel[1] + tap[1]) * c->in;
    for (size_t o = 0; o < c->out; o++, from += c->taps * c->in)
        for (size_t j = 0; j < c->in; j += BO_PANEL)
            job->kernels->scale(bo_min(BO_PANEL, c->in - j), c->scale, from + j,
                                job->panels + j * lines + (index * c->out + o) * BO_PANEL);
}

static size_t phase_panels_of(const bo_convolving *c)
{
    return bo_is_depthwise(c) ? panels_of(c) : bo_panel_floats(c->taps * c->out, c->in);
}

static void input_phase(bo_context *context, const bo_op_call *call, const parts *p, size_t group,
                        const size_t phase[2])
{
    float *panels = call->scratch, *workspaces = panels + phase_panels_of(&p->whole);
    bo_correlation first = phase_of(&p->whole, group, phase, panels);
    pack_job job = {.c = &p->whole, .kernels = bo_context_kernels(context), .group = group, .panels = panels};
    for (size_t i = 0; i < 2; i++) job.phase[i] = phase[i], job.taps[i] = first.taps[i];
    bo_parallel(context, first.taps[0] * first.taps[1], pack_phase_task, &job);
    for (walk w = {0}; next_part(call, p, &w);) {
        bo_correlation g = phase_of(&w.c, group, phase, panels);
        bo_correlate(context, &g, workspaces);
    }
}

static void input_gradient(bo_context *context, const bo_op_call *call, const parts *p)
{
    const size_t *stride = p->whole.windows.stride;
    if (bo_is_depthwise(&p->whole)) {
        turn_depthwise(context, &p->whole, call->scratch);
        for (walk w = {0}; next_part(call, p, &w);) bo_depthwise_input_gradient(context, &w.c, call->scratch);
        return;
    }
    for (size_t g = 0; g < p->whole.groups; g++)
        for (size_t y = 0; y < stride[0]; y++)
            for (size_t x = 0; x < stride[1]; x++) input_phase(context, call, p, g, (size_t[]){y, x});
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static size_t sums_of(const bo_convolving *c)
{
    return bo_round_up(c->blocks * bo_weight_floats(c), 16);
}

static void weight_gradient(bo_context *context, const bo_op_call *call, const parts *p)
{
    float *sums = call->scratch, *workspaces = sums + sums_of(&p->whole);
    if (!p->count) memset(sums, 0, sums_of(&p->whole) * sizeof *sums);
    for (walk w = {0}; next_part(call, p, &w);) bo_weight_gradient_add(context, &w.c, w.count > 1, sums, workspaces);
    bo_weight_gradient_end(context, &p->whole, sums, call->add[1], call->din[1]);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_convolution_attributes *a = call->attributes;
    parts p;
    if (bo_backward_is_zero(call)) return BO_OK;
    BO_TRY(parts_of(context, call, &p));
    if (is_causal(call)) BO_TRY(bo_spans_refuse_states(context, call, &a->sequences, "convolution"));
    if (call->din[0]) input_gradient(context, call, &p);
    if (call->din[1]) weight_gradient(context, call, &p);
    if (call->din[2])
        bo_sum_columns(context, call->out[0].rows, call->out[0].columns, call->dout[0], call->add[2], call->din[2]);
    return BO_OK;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)gradients;
    bo_convolving c = longest_of(call);
    size_t threads = (size_t)bo_context_threads(context), floats = 0;
    bool dense = !bo_is_depthwise(&c), backward = call->dout[0] != NULL;
    if (!backward) {
        bo_correlation f = forward_of(&c, 0, NULL);
        floats = panels_of(&c) + (dense ? threads * bo_correlation_workspace(&f) : 0);
    }
    for (size_t i = 0; call->din[0] && i < c.windows.stride[0] * c.windows.stride[1]; i++) {
        bo_correlation g = phase_of(&c, 0, (size_t[]){i / c.windows.stride[1], i % c.windows.stride[1]}, NULL);
        floats = bo_max(floats, phase_panels_of(&c) + (dense ? threads * bo_correlation_workspace(&g) : 0));
    }
    bo_convolving whole = whole_of(call); /* many short sequences may need more memory than a long one */
    size_t workspaces = bo_max(bo_weight_gradient_workspace(&c), bo_weight_gradient_workspace(&whole));
    if (call->din[1]) floats = bo_max(floats, sums_of(&c) + threads * workspaces);
    *saved = 0;
    *scratch = floats * sizeof(float);
    return BO_OK;
}

/* Two FLOPs per element of a window. */
static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    bo_convolving c = whole_of(call);
    return 2.0 * (double)bo_operand_floats(&call->out[0]) * (double)(c.taps * c.in);
}

const bo_op bo_cpu_convolution = {
    .name = "convolution",
    .attributes = sizeof(bo_convolution_attributes),
    .reads_inputs = 1 << 0 | 1 << 1, /* x and the weight */
    .shape = bo_shape_convolution,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
