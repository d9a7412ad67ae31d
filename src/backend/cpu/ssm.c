/* State-space systems as an operation: selection of the form, and the location of states. */
#include "ssm.h"
#include <math.h>
#include <string.h>
#include "cpu.h"
#include "../shapes.h"

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* Returns the number of tasks that the sequences are divided into if there are too few groups of channels. */
static size_t parts_of(size_t groups, size_t sequences)
{
    enum { TASKS = 64 };
    size_t parts = bo_block_count(TASKS, groups ? groups : 1);
    return sequences < parts ? (sequences ? sequences : 1) : parts;
}

bo_ssm_view bo_ssm_view_of(bo_context *context, const bo_op_call *call)
{
    const bo_ssm_attributes *a = call->attributes;
    size_t rank = a->rank ? a->rank : 1;
    bo_ssm_view view = {.call = call, .attributes = a, .kernels = bo_context_kernels(context)->channels};
    view.channels = call->in[0].columns;
    view.groups = bo_block_count(view.channels, BO_CHANNELS);
    view.rank = a->kind == BO_SSM_DIAGONAL ? 0 : rank;
    view.size = a->kind == BO_SSM_CLOSED ? rank + 1 : a->size;
    view.state = view.size * BO_COMPLEX_ROW;
    view.floats = (view.rank ? 3 + 2 * view.rank : 2) * view.state + BO_CHANNELS;
    view.parts = parts_of(view.groups, bo_spans_max_count(call, &a->sequences));
    return view;
}

bo_ssm_group bo_ssm_group_at(const bo_ssm_view *view, float *floats)
{
    bo_ssm_group g = {.mu = floats, .c = floats + view->state, .d = floats + view->floats - BO_CHANNELS};
    if (!view->rank) return g;
    g.b = g.c + view->state;
    g.p = g.b + view->state;
    g.q = g.p + view->rank * view->state;
    return g;
}

bo_systems bo_ssm_systems_of(const bo_ssm_view *view, const bo_ssm_group *g)
{
    return (bo_systems){
        .size = view->size, .rank = view->rank, .mu = g->mu, .c = g->c, .b = g->b, .p = g->p, .q = g->q};
}

bo_systems_gradients bo_ssm_gradients_of(const bo_ssm_group *g)
{
    return (bo_systems_gradients){.mu = g->mu, .c = g->c, .b = g->b, .p = g->p, .q = g->q};
}

void bo_ssm_gather(const bo_ssm_view *view, size_t group, const float *rows, size_t tokens, float *out)
{
    size_t lanes = bo_ssm_lanes(view, group);
    rows += group * BO_CHANNELS;
    for (size_t t = 0; t < tokens; t++, rows += view->channels, out += BO_CHANNELS) {
        if (lanes == BO_CHANNELS) {
            memcpy(out, rows, BO_CHANNELS * sizeof *out);
            continue;
        }
        for (size_t l = 0; l < BO_CHANNELS; l++) out[l] = l < lanes ? rows[l] : 0;
    }
}

void bo_ssm_scatter(const bo_ssm_view *view, size_t group, const float *in, size_t tokens, bool add, float *rows)
{
    size_t lanes = bo_ssm_lanes(view, group);
    rows += group * BO_CHANNELS;
    for (size_t t = 0; t < tokens; t++, rows += view->channels, in += BO_CHANNELS)
        for (size_t l = 0; l < lanes; l++) bo_store(&rows[l], add, in[l]);
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* Returns the planned maximum number of tokens of a convolution. */
static size_t planned_tokens(const bo_ssm_view *view)
{
    size_t tokens = view->attributes->sequences.tokens;
    return tokens ? tokens : view->call->in[0].rows;
}

/* Compares nanoseconds per token and channel for both directions, measured on one core with AVX-512 (only the ratio
 * matters). The states dominate the cost of a scan. The cost of a convolution consists of the transforms of pairs of
 * sequences and of the kernel, which costs more than two scans of one sequence. */
static bool convolution_is_faster(const bo_ssm_view *view)
{
    size_t tokens = planned_tokens(view), sequences = tokens ? view->call->in[0].rows / tokens : 0;
    if (tokens < BO_SSM_CHUNK || !sequences) return false;
    double states = (double)view->size * (view->rank ? 1.4 + 1.1 * (double)view->rank : 0.5);
    double pairs = (double)((sequences + 1) / 2), transforms = log2(2 * (double)tokens);
    return (2 * pairs * transforms + 2.4 * states) / (double)sequences < 4 + states;
}

/* Depends only on attributes and shapes, so that forward and backward agree. */
static bool convolves(const bo_ssm_view *view)
{
    if (view->attributes->form != BO_SSM_FORM_AUTO) return view->attributes->form == BO_SSM_FORM_CONVOLUTION;
    return convolution_is_faster(view);
}

static size_t longest(const bo_ssm_view *view)
{
    size_t tokens = 0;
    for (size_t s = 0; s < view->spans.count; s++)
        if (bo_span_length(&view->spans, s) > tokens) tokens = bo_span_length(&view->spans, s);
    return tokens;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static size_t systems_floats(const bo_ssm_view *view)
{
    return view->groups * view->floats;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_ssm_view view = bo_ssm_view_of(context, call);
    BO_TRY(bo_spans_of(context, call, &view.attributes->sequences, "ssm", &view.spans));
    size_t tokens = longest(&view);
    bool states = bo_spans_have_states(call, &view.attributes->sequences);
    float *systems = call->scratch, *workspace = systems + systems_floats(&view);
    bo_ssm_transition(context, &view, systems);
    bool whole = convolves(&view);
    if (whole && !states && tokens <= planned_tokens(&view))
        bo_ssm_convolve(context, &view, tokens, systems, workspace);
    /* a convolution saves nothing, see sizes */
    else
        bo_ssm_scan(context, &view, !whole, systems, workspace);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bo_ssm_view view = bo_ssm_view_of(context, call);
    if (bo_backward_is_zero(call)) return BO_OK;
    BO_TRY(bo_spans_refuse_states(context, call, &view.attributes->sequences, "ssm"));
    BO_TRY(bo_spans_of(context, call, &view.attributes->sequences, "ssm", &view.spans));
    size_t tokens = longest(&view), planned = planned_tokens(&view);
    if (convolves(&view) && tokens > planned)
        return bo_fail(
            context, BO_INVALID,
            "ssm: a sequence of the pass has %zu tokens, but the convolution with gradients was planned for %zu",
            tokens, planned);
    float *systems = call->scratch, *workspace = systems + systems_floats(&view);
    bo_ssm_transition(context, &view, systems);
    if (convolves(&view))
        bo_ssm_convolve_back(context, &view, tokens, systems, workspace);
    else
        bo_ssm_scan_back(context, &view, systems, workspace);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    bo_ssm_view view = bo_ssm_view_of(context, call);
    size_t workers = (size_t)bo_context_threads(context), scan, convolution = 0;
    bool backward = call->dout[0] != NULL, whole = convolves(&view);
    scan = whole && backward ? 0 : bo_ssm_scan_workspace(&view, workers, backward);
    if (whole) convolution = bo_ssm_convolution_workspace(&view, workers, planned_tokens(&view), backward);
    *saved = gradients && !whole ? bo_ssm_scan_saved(&view) * sizeof(float) : 0;
    *scratch = (systems_floats(&view) + (scan > convolution ? scan : convolution)) * sizeof(float);
    return BO_OK;
}

/* Per token: μ s and Re(c s), one and a half complex products; P, Qᵀ and b. */
static double operations(bo_context *context, const bo_op_call *call)
{
    bo_ssm_view view = bo_ssm_view_of(context, call);
    double state = view.rank ? 16 + 16 * (double)view.rank : 12;
    return (double)call->in[0].rows * (double)view.channels * ((double)view.size * state + 2);
}

const bo_op bo_cpu_ssm = {
    .name = "ssm",
    .attributes = sizeof(bo_ssm_attributes),
    .reads_inputs = (1u << BO_OP_INPUTS) - 1,
    .shape = bo_shape_ssm,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
