/* Systems token by token, in chunks: forward saves the states between chunks; backward runs each chunk again and then
 * in reverse. O(tokens · channels · states). Every pass with states uses this form. */
#include <string.h>
#include "ssm.h"

typedef struct job {
    const bo_ssm_view *view;
    float *systems, *sums, *workspaces;
    size_t workspace_floats; /* floats per worker */
    bool keep;               /* save states between chunks */
} job;

/* A sequence among the rows. `kept` states between chunks precede it. */
typedef struct place {
    size_t sequence, first, tokens, kept;
} place;

static size_t chunks_of(size_t tokens)
{
    return bo_block_count(tokens, BO_SSM_CHUNK);
}

static place place_at(const bo_ssm_view *view, place p)
{
    p.tokens = p.sequence < view->spans.count ? bo_span_length(&view->spans, p.sequence) : 0;
    return p;
}

static place next_place(const bo_ssm_view *view, place p)
{
    size_t kept = p.tokens ? chunks_of(p.tokens) - 1 : 0;
    return place_at(view, (place){.sequence = p.sequence + 1, .first = p.first + p.tokens, .kept = p.kept + kept});
}

/* Returns the first sequence of a part, or the end. */
static place part_begins(const bo_ssm_view *view, size_t part)
{
    size_t first = view->spans.count * part / view->parts;
    place p = place_at(view, (place){0});
    while (p.sequence < first) p = next_place(view, p);
    return p;
}

/* Returns the state before chunk k > 0. */
static float *kept_state(const bo_ssm_view *view, const place *p, size_t group, size_t chunk)
{
    return (float *)view->call->saved + ((p->kept + chunk - 1) * view->groups + group) * view->state;
}

static size_t chunk_tokens(const place *p, size_t chunk)
{
    size_t left = p->tokens - chunk * BO_SSM_CHUNK;
    return left < BO_SSM_CHUNK ? left : BO_SSM_CHUNK;
}

static float *rows_of(const bo_ssm_view *view, const place *p, size_t chunk, const void *tensor)
{
    return (float *)(uintptr_t)tensor + (p->first + chunk * BO_SSM_CHUNK) * view->channels;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void run_chunk(const bo_ssm_view *view, const place *p, size_t group, size_t chunk, const bo_ssm_group *g,
                      float *state)
{
    _Alignas(64) float u[BO_SSM_CHUNK * BO_CHANNELS], y[BO_SSM_CHUNK * BO_CHANNELS];
    const bo_op_call *call = view->call;
    size_t tokens = chunk_tokens(p, chunk);
    bo_systems systems = bo_ssm_systems_of(view, g);
    bo_ssm_gather(view, group, rows_of(view, p, chunk, call->in[0].data), tokens, u);
    for (size_t i = 0; i < tokens * BO_CHANNELS; i++) y[i] = g->d[i % BO_CHANNELS] * u[i];
    view->kernels->run(&systems, tokens, state, u, y);
    bo_ssm_scatter(view, group, y, tokens, false, rows_of(view, p, chunk, call->out[0].data));
}

static void run_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_ssm_view *view = j->view;
    size_t group = index % view->groups, part = index / view->groups, bytes = view->state * sizeof(float);
    size_t end = view->spans.count * (part + 1) / view->parts;
    float *state = j->workspaces + (size_t)worker * j->workspace_floats;
    bo_ssm_group g = bo_ssm_group_at(view, j->systems + group * view->floats);
    for (place p = part_begins(view, part); p.sequence < end; p = next_place(view, p)) {
        char *memory = bo_span_state(view->call, &view->attributes->sequences, &view->spans, p.sequence);
        memset(state, 0, bytes);
        if (memory) memcpy(state, memory + group * bytes, bytes);
        for (size_t chunk = 0; chunk < chunks_of(p.tokens); chunk++) {
            if (chunk && j->keep) memcpy(kept_state(view, &p, group, chunk), state, bytes);
            run_chunk(view, &p, group, chunk, &g, state);
        }
        if (memory && !view->call->again) memcpy(memory + group * bytes, state, bytes);
    }
}

void bo_ssm_scan(bo_context *context, const bo_ssm_view *view, bool keep, float *systems, float *workspace)
{
    job j = {.view = view,
             .systems = systems,
             .workspaces = workspace,
             .workspace_floats = view->state,
             .keep = keep && view->call->saved};
    bo_parallel(context, view->groups * view->parts, run_task, &j);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void back_chunk(const bo_ssm_view *view, const place *p, size_t group, size_t chunk, const bo_ssm_group *g,
                       const bo_ssm_group *sums, const float *state, float *flow, float *work)
{
    _Alignas(64) float u[BO_SSM_CHUNK * BO_CHANNELS], dy[BO_SSM_CHUNK * BO_CHANNELS], du[BO_SSM_CHUNK * BO_CHANNELS];
    const bo_op_call *call = view->call;
    size_t tokens = chunk_tokens(p, chunk);
    bo_systems systems = bo_ssm_systems_of(view, g);
    bo_systems_gradients gradients = bo_ssm_gradients_of(sums);
    bo_ssm_gather(view, group, rows_of(view, p, chunk, call->in[0].data), tokens, u);
    bo_ssm_gather(view, group, rows_of(view, p, chunk, call->dout[0]), tokens, dy);
    for (size_t i = 0; i < tokens * BO_CHANNELS; i++) {
        du[i] = g->d[i % BO_CHANNELS] * dy[i];
        sums->d[i % BO_CHANNELS] += u[i] * dy[i];
    }
    view->kernels->run_back(&systems, tokens, state, u, dy, flow, work, &gradients, du);
    if (call->din[0]) bo_ssm_scatter(view, group, du, tokens, call->add[0], rows_of(view, p, chunk, call->din[0]));
}

static void back_task(void *arg, size_t index, int worker)
{
    const job *j = arg;
    const bo_ssm_view *view = j->view;
    size_t group = index % view->groups, part = index / view->groups, bytes = view->state * sizeof(float);
    size_t end = view->spans.count * (part + 1) / view->parts;
    float *nothing = j->workspaces + (size_t)worker * j->workspace_floats, *flow = nothing + view->state,
          *work = flow + view->state;
    float *sums = j->sums + index * view->floats;
    bo_ssm_group g = bo_ssm_group_at(view, j->systems + group * view->floats), s = bo_ssm_group_at(view, sums);
    memset(sums, 0, view->floats * sizeof *sums);
    memset(nothing, 0, bytes);
    for (place p = part_begins(view, part); p.sequence < end; p = next_place(view, p)) {
        memset(flow, 0, bytes);
        for (size_t chunk = chunks_of(p.tokens); chunk-- > 0;)
            back_chunk(view, &p, group, chunk, &g, &s, chunk ? kept_state(view, &p, group, chunk) : nothing, flow,
                       work);
    }
}

void bo_ssm_scan_back(bo_context *context, const bo_ssm_view *view, float *systems, float *workspace)
{
    size_t sums = view->groups * view->parts * view->floats;
    job j = {.view = view, .systems = systems, .sums = workspace, .workspaces = workspace + sums};
    j.workspace_floats = (2 + BO_SSM_CHUNK) * view->state;
    bo_parallel(context, view->groups * view->parts, back_task, &j);
    bo_ssm_transition_back(context, view, view->parts, workspace);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

size_t bo_ssm_scan_workspace(const bo_ssm_view *view, size_t workers, bool backward)
{
    if (!backward) return workers * view->state;
    return view->groups * view->parts * view->floats + workers * (2 + BO_SSM_CHUNK) * view->state;
}

/* A sequence of t tokens has at most t / CHUNK states between chunks. */
size_t bo_ssm_scan_saved(const bo_ssm_view *view)
{
    return view->call->in[0].rows / BO_SSM_CHUNK * view->groups * view->state;
}
