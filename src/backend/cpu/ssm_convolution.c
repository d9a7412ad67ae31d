/* Convolution of sequences with the kernels of systems: y = K * u for whole sequences, by Fourier transforms of at
 * least twice their length.
 *
 * K is real, so two sequences of a channel share one transform, as real and imaginary part: (u_1 + i u_2) * K contains
 * both results. For gradients, du is the correlation of dy with K, and dK is the sum over sequences of the correlations
 * of u with dy: the real part of the inverse transform of Σ conj(U) dY: the mixed terms of a pair are imaginary. */
#include <math.h>
#include <string.h>
#include "ssm.h"

typedef struct job {
    const bo_ssm_view *view;
    size_t tokens, length; /* length of the longest sequence, and of transforms */
    size_t parts;
    float *systems, *sums;    /* systems, and their gradients */
    float *kernels, *spectra; /* spectra per group; per part and group */
    float *roots, *workspaces;
    size_t workspace_floats; /* floats per worker */
} job;

/* Returns a power of two in which the convolution of two sequences of `tokens` does not wrap around. */
static size_t length_for(size_t tokens)
{
    size_t length = 1;
    while (length + 1 < 2 * tokens) length *= 2;
    return length;
}

/* Returns 1 if there are enough groups of channels to use as tasks, else the number of parts of the pairs of
 * sequences. */
static size_t parts_of(const bo_ssm_view *view)
{
    enum { TASKS = 16 };
    size_t pairs = (bo_spans_max_count(view->call, &view->attributes->sequences) + 1) / 2;
    size_t parts = bo_block_count(TASKS, view->groups ? view->groups : 1);
    return pairs < parts ? (pairs ? pairs : 1) : parts;
}

static void fill_roots(size_t length, float *roots)
{
    const double turn = 2 * 3.14159265358979323846 / (double)length;
    for (size_t k = 0; k < 3 * length / 4; k++) {
        roots[2 * k] = (float)cos(turn * (double)k);
        roots[2 * k + 1] = (float)-sin(turn * (double)k);
    }
}

/* ---- sequences in transforms ------------------------------------------------------------------------------------- */

/* Copies a group's columns of a sequence into or out of real (part 0) or imaginary parts (part 1). */
typedef struct sequence_rows {
    size_t first, tokens; /* rows; 0: the sequence does not exist */
} sequence_rows;

static sequence_rows sequence_rows_of(const bo_ssm_view *view, size_t sequence)
{
    sequence_rows s = {0};
    if (sequence >= view->spans.count) return s;
    for (size_t i = 0; i < sequence; i++) s.first += bo_span_length(&view->spans, i);
    s.tokens = bo_span_length(&view->spans, sequence);
    return s;
}

static void pack_rows(const job *j, size_t group, sequence_rows s, const void *tensor, size_t part, float *z)
{
    const bo_ssm_view *view = j->view;
    const float *rows = (const float *)tensor + s.first * view->channels + group * BO_CHANNELS;
    size_t lanes = bo_ssm_lanes(view, group);
    z += part * BO_CHANNELS;
    for (size_t t = 0; t < j->length; t++, z += BO_COMPLEX_ROW) {
        if (t >= s.tokens) {
            memset(z, 0, BO_CHANNELS * sizeof *z);
            continue;
        }
        for (size_t l = 0; l < BO_CHANNELS; l++) z[l] = l < lanes ? rows[t * view->channels + l] : 0;
    }
}

static void unpack_rows(const job *j, size_t group, sequence_rows s, const float *z, size_t part, bool add,
                        void *tensor)
{
    const bo_ssm_view *view = j->view;
    float *rows = (float *)tensor + s.first * view->channels + group * BO_CHANNELS;
    size_t lanes = bo_ssm_lanes(view, group);
    z += part * BO_CHANNELS;
    for (size_t t = 0; t < s.tokens; t++, z += BO_COMPLEX_ROW)
        for (size_t l = 0; l < lanes; l++) bo_store(&rows[t * view->channels + l], add, z[l]);
}

/* Transforms a pair of sequences. */
static void transform_pair(const job *j, size_t group, const sequence_rows pair[2], const void *tensor, float *z)
{
    for (size_t part = 0; part < 2; part++) pack_rows(j, group, pair[part], tensor, part, z);
    j->view->kernels->fourier(j->length, j->roots, z);
}

static void transform_back(const job *j, size_t group, const sequence_rows pair[2], float *z, bool add, void *tensor)
{
    j->view->kernels->fourier_back(j->length, j->roots, z);
    for (size_t part = 0; part < 2; part++) unpack_rows(j, group, pair[part], z, part, add, tensor);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* The spectra of all kernels come first, one task per group; then pairs of sequences, one task per part of a group;
 * then, in backward, the gradients of the kernels. */
typedef struct task {
    size_t group, part, pair, end;
    bo_ssm_group systems;
    float *kernel, *sum;                /* stored spectra: of the kernel, and of its gradient per part */
    float *x, *dy;                      /* spectra of a pair */
    float *rows, *workspace, *gradient; /* a kernel or its gradient; its workspace; gradients of the systems */
} task;

/* Returns the floats per worker. The last two parts are never used at the same time as the first. */
static size_t worker_floats(const bo_ssm_view *view, size_t tokens)
{
    size_t pairs = 2 * length_for(tokens) * BO_COMPLEX_ROW;
    size_t kernel = tokens * BO_CHANNELS + bo_ssm_kernel_workspace(view, tokens);
    return pairs > kernel ? pairs : kernel;
}

static task task_of(const job *j, size_t index, int worker)
{
    const bo_ssm_view *view = j->view;
    size_t pairs = (view->spans.count + 1) / 2, spectrum = j->length * BO_COMPLEX_ROW;
    task t = {.group = index % view->groups, .part = index / view->groups};
    t.pair = pairs * t.part / j->parts, t.end = pairs * (t.part + 1) / j->parts;
    t.systems = bo_ssm_group_at(view, j->systems + t.group * view->floats);
    t.kernel = j->kernels + t.group * spectrum;
    t.sum = j->spectra ? j->spectra + index * spectrum : NULL;
    t.gradient = j->sums ? j->sums + t.group * view->floats : NULL;
    t.x = t.rows = j->workspaces + (size_t)worker * j->workspace_floats;
    t.dy = t.x + spectrum;
    t.workspace = t.rows + j->tokens * BO_CHANNELS;
    return t;
}

/* Transforms the kernel of a group, with the factor 1 / length of the forward and inverse transforms. */
static void kernel_task(void *arg, size_t group, int worker)
{
    const job *j = arg;
    task t = task_of(j, group, worker);
    float factor = 1.0f / (float)j->length; /* a power of two: exact */
    bo_ssm_kernel(j->view, &t.systems, j->tokens, t.workspace, t.rows);
    memset(t.kernel, 0, j->length * BO_COMPLEX_ROW * sizeof *t.kernel);
    for (size_t i = 0; i < j->tokens; i++)
        for (size_t l = 0; l < BO_CHANNELS; l++)
            t.kernel[i * BO_COMPLEX_ROW + l] = factor * t.rows[i * BO_CHANNELS + l];
    j->view->kernels->fourier(j->length, j->roots, t.kernel);
}

static void convolve_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_op_call *call = j->view->call;
    for (task t = task_of(j, index, worker); t.pair < t.end; t.pair++) {
        sequence_rows pair[2] = {sequence_rows_of(j->view, 2 * t.pair), sequence_rows_of(j->view, 2 * t.pair + 1)};
        transform_pair(j, t.group, pair, call->in[0].data, t.x);
        j->view->kernels->multiply(j->length, t.x, t.kernel, false, false, t.x);
        transform_back(j, t.group, pair, t.x, false, call->out[0].data);
    }
}

static void convolve_back_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_channels *kernels = j->view->kernels;
    const bo_op_call *call = j->view->call;
    task t = task_of(j, index, worker);
    memset(t.sum, 0, j->length * BO_COMPLEX_ROW * sizeof *t.sum);
    for (; t.pair < t.end; t.pair++) {
        sequence_rows pair[2] = {sequence_rows_of(j->view, 2 * t.pair), sequence_rows_of(j->view, 2 * t.pair + 1)};
        transform_pair(j, t.group, pair, call->in[0].data, t.x);
        transform_pair(j, t.group, pair, call->dout[0], t.dy);
        kernels->multiply(j->length, t.dy, t.x, true, true, t.sum);
        if (!call->din[0]) continue;
        kernels->multiply(j->length, t.dy, t.kernel, true, false, t.dy);
        transform_back(j, t.group, pair, t.dy, call->add[0], call->din[0]);
    }
}

static void kernel_back_task(void *arg, size_t group, int worker)
{
    const job *j = arg;
    const bo_ssm_view *view = j->view;
    task t = task_of(j, group, worker);
    size_t spectrum = j->length * BO_COMPLEX_ROW;
    float factor = 1.0f / (float)j->length;
    bo_ssm_group sums = bo_ssm_group_at(view, t.gradient);
    for (size_t part = 1; part < j->parts; part++) {
        const float *more = t.sum + part * view->groups * spectrum;
        for (size_t i = 0; i < spectrum; i++) t.sum[i] += more[i];
    }
    view->kernels->fourier_back(j->length, j->roots, t.sum);
    for (size_t i = 0; i < j->tokens * BO_CHANNELS; i++)
        t.rows[i] = factor * t.sum[i / BO_CHANNELS * BO_COMPLEX_ROW + i % BO_CHANNELS];
    bo_ssm_kernel_back(view, &t.systems, j->tokens, t.rows, t.workspace, &sums);
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

static size_t roots_floats(size_t tokens)
{
    return (2 * length_for(tokens) + BO_CHANNELS) / BO_CHANNELS * BO_CHANNELS; /* keeps the following memory aligned */
}

static size_t spectra_floats(const bo_ssm_view *view, size_t tokens)
{
    return view->groups * length_for(tokens) * BO_COMPLEX_ROW;
}

size_t bo_ssm_convolution_workspace(const bo_ssm_view *view, size_t workers, size_t tokens, bool backward)
{
    size_t spectra = 1 + (backward ? parts_of(view) : 0), sums = backward ? view->groups * view->floats : 0;
    return roots_floats(tokens) + spectra * spectra_floats(view, tokens) + sums + workers * worker_floats(view, tokens);
}

static job job_of(const bo_ssm_view *view, size_t tokens, float *systems, float *workspace, bool backward)
{
    job j = {.view = view, .tokens = tokens, .length = length_for(tokens), .parts = parts_of(view), .systems = systems};
    j.roots = workspace;
    j.kernels = j.roots + roots_floats(tokens);
    j.workspaces = j.kernels + spectra_floats(view, tokens);
    j.workspace_floats = worker_floats(view, tokens);
    fill_roots(j.length, j.roots);
    if (!backward) return j;
    j.spectra = j.workspaces;
    j.sums = j.spectra + j.parts * spectra_floats(view, tokens);
    j.workspaces = j.sums + view->groups * view->floats;
    return j;
}

void bo_ssm_convolve(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems, float *workspace)
{
    job j = job_of(view, tokens, systems, workspace, false);
    bo_parallel(context, view->groups, kernel_task, &j);
    bo_parallel(context, view->groups * j.parts, convolve_task, &j);
}

void bo_ssm_convolve_back(bo_context *context, const bo_ssm_view *view, size_t tokens, float *systems, float *workspace)
{
    job j = job_of(view, tokens, systems, workspace, true);
    if (view->call->din[0]) bo_parallel(context, view->groups, kernel_task, &j);
    bo_parallel(context, view->groups * j.parts, convolve_back_task, &j);
    bo_parallel(context, view->groups, kernel_back_task, &j);
    bo_ssm_transition_back(context, view, 1, j.sums);
}
