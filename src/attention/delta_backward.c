/* The backward pass of a sequence: the tape has the memory at the segments' beginnings; segments are taken from the
 * last to the first, the memory before each chunk of one and what was learned in it made again on the way forward, the
 * gradient on the way back. So memory is that of √N states. */
#include <string.h>
#include "delta_gradient.h"

typedef struct back_work {
    bo_delta_back back;
    float *states; /* the memory before each chunk of a segment: dim x values each */
    float *wrong;  /* x of a segment: segment x values */
} back_work;

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_plan *plan, bo_carver *carver)
{
    size_t values = attention->desc.value_dim, chunks = plan->segment / plan->chunk;
    back_work work = {.back = bo_delta_back_make(attention, in, key_head, plan->chunk, carver)};
    work.states = bo_carve_floats(carver, chunks * attention->desc.dim * values);
    work.wrong = bo_carve_floats(carver, plan->segment * values);
    return work;
}

size_t bo_delta_backward_bytes(const bo_attention *attention, const bo_attention_plan *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* The work space is at chunk `index` of its segment. */
static void go_to(back_work *work, size_t index)
{
    bo_delta *delta = &work->back.delta;
    delta->s = work->states + index * delta->dim * delta->values;
    delta->x = work->wrong + index * delta->chunk * delta->values;
}

/* ---- a chunk ---------------------------------------------------------------------------------------------------- */

/* dx of some rows from dt, with respect to rows after the front. */
static void give_rows(const bo_delta *delta, bo_role role, size_t first, size_t rows, bo_rows x, const float *dt,
                      bo_rows dx)
{
    if (!dx.at) return;
    x = bo_rows_from(x, first);
    dx = bo_rows_from(dx, first);
    bo_row_transform_backward(&delta->front, role, rows, x.at, x.stride, dt, dx.at, dx.stride, NULL);
}

static bool back_queries(const bo_delta_task *at, bo_delta_back *back, size_t first, size_t rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    for (size_t g = 0; call->dout && g < call->attention->group; g++) {
        size_t head = at->key_head * call->attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows dq = bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows all = bo_rows_at(call, call->dout, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows dout = bo_rows_from(all, first);
        if (!bo_rows_finite(call->kernels, rows, d->value_dim, dout.at, dout.stride)) return false;
        bo_delta_queries(&back->delta, rows, bo_rows_from(q, first).at, q.stride);
        bo_delta_back_queries(back, rows, dout.at, dout.stride);
        call->kernels->scale(rows * d->dim, (float)d->scale, back->dq, back->dq);
        give_rows(&back->delta, BO_OF_QUERIES, first, rows, q, back->dq, dq);
    }
    return true;
}

static void give_keys(const bo_delta_task *at, bo_delta_back *back, size_t first, size_t keys)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *to = call->gradients;
    size_t s = at->sequence, h = at->key_head, values = d->value_dim;
    bo_rows dk = bo_rows_at(call, to->k, d->key_heads, d->dim, true, s, h);
    bo_rows dv = bo_rows_from(bo_rows_at(call, to->v, d->key_heads, values, true, s, h), first);
    bo_rows dbeta = bo_rows_from(bo_rows_at(call, to->beta, d->key_heads, 1, true, s, h), first);
    bo_rows dgate = bo_rows_from(bo_rows_at(call, to->log_gate, d->key_heads, 1, true, s, h), first);
    give_rows(&back->delta, BO_OF_KEYS, first, keys, at->rows.k, back->dk, dk);
    for (size_t i = 0; dv.at && i < keys; i++)
        memcpy(dv.at + i * dv.stride, back->y + i * values, values * sizeof *dv.at);
    if (dbeta.at) bo_delta_back_beta(back, dbeta.at, dbeta.stride);
    if (dgate.at) bo_delta_back_gates(back, dgate.at, dgate.stride);
}

static bool back_chunk(const bo_delta_task *at, back_work *work, size_t first, size_t rows, size_t index)
{
    bo_delta_back *back = &work->back;
    size_t keys = at->at->keys ? rows : 0;
    if (bo_pass_stops(at->call->watch, rows)) return false;
    go_to(work, index);
    bo_delta_keys(&back->delta, at, first, keys);
    bo_delta_weigh(&back->delta);
    bo_delta_back_memory(back);
    if (!back_queries(at, back, first, rows)) return false;
    if (keys == 0) return true;
    bo_delta_back_keys(back);
    give_keys(at, back, first, keys);
    return true;
}

/* ---- a sequence ------------------------------------------------------------------------------------------------- */

/* The memory before each chunk of the segment [first, end), and x. */
static void replay(const bo_delta_task *at, back_work *work, size_t first, size_t end)
{
    const bo_call *call = at->call;
    bo_delta *delta = &work->back.delta;
    size_t chunk = delta->chunk, size = delta->dim * delta->values;
    go_to(work, 0);
    if (first)
        memcpy(delta->s, bo_tape_memory(call, at->sequence, at->key_head, first / call->plan.segment - 1),
               size * sizeof(float));
    else
        bo_delta_begin(delta, call->initial ? call->initial[at->sequence] : NULL, at->key_head);
    for (size_t index = 0; at->at->keys && first < end; first += chunk, index++) {
        go_to(work, index);
        bo_delta_keys(delta, at, first, bo_least(chunk, end - first));
        bo_delta_solve(delta, bo_rows_from(at->rows.v, first).at, at->rows.v.stride);
        if (first + chunk < end) bo_delta_absorb(delta, delta->s + size);
    }
}

/* Without keys the memory stays what it was: every chunk of queries is the first of its own segment. */
static bool reverse(const bo_delta_task *at, back_work *work)
{
    size_t chunk = work->back.delta.chunk, tokens = at->at->keys ? at->at->keys : at->at->queries,
           segment = at->at->keys ? at->call->plan.segment : chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_least(first + segment, tokens);
        replay(at, work, at->at->keys ? first : 0, end);
        for (size_t index = (end - first + chunk - 1) / chunk; index-- > 0;) {
            size_t start = first + index * chunk;
            if (!back_chunk(at, work, start, bo_least(chunk, end - start), index)) return false;
        }
    }
    return true;
}

void bo_delta_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    (void)parameters;
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    back_work work = back_make(attention, call->in, key_head, &call->plan, &carver);
    bo_delta_task at = bo_delta_task_make(call, sequence, key_head);
    size_t floats = attention->desc.dim * attention->desc.value_dim;
    float *g = work.back.g;
    if (call->d_final)
        memcpy(g, bo_memory_gradient(attention, call->d_final[sequence], key_head), floats * sizeof *g);
    else
        memset(g, 0, floats * sizeof *g);
    if (!reverse(&at, &work)) {
        bo_note_stop(call);
        return;
    }
    if (call->gradients->initial)
        memcpy(bo_memory_gradient(attention, call->gradients->initial[sequence], key_head), g, floats * sizeof *g);
}
