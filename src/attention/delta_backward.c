/* The backward pass of the delta rule. */
#include <string.h>
#include "delta.h"

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

static bo_delta_back delta_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                     size_t chunk, bo_carver *carver)
{
    bo_delta_back back = {.delta = bo_delta_make(attention, in, key_head, chunk, carver)};
    size_t dim = back.delta.dim, values = back.delta.values;
    back.g = bo_carve_floats(carver, dim * values);
    back.st = bo_carve_floats(carver, values * dim);
    back.gt = bo_carve_floats(carver, values * dim);
    back.ut = bo_carve_floats(carver, values * chunk);
    back.du = bo_carve_floats(carver, chunk * values);
    back.y = bo_carve_floats(carver, chunk * values);
    back.carried = bo_carve_floats(carver, chunk * values);
    back.pairs = bo_carve_floats(carver, chunk * chunk);
    back.z = bo_carve_floats(carver, back.delta.gated ? chunk * chunk : 0);
    back.from_s = bo_carve(carver, chunk, sizeof(double));
    back.to_s = bo_carve(carver, chunk, sizeof(double));
    back.dq = bo_carve_floats(carver, chunk * dim);
    back.dk = bo_carve_floats(carver, chunk * dim);
    return back;
}

/* ---- the memory -------------------------------------------------------------------------------------------------- */

/* Computes Gᵀk_j and G u_j with weights, and their part of the gates' gradients. */
static void back_learned(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    kernels->transpose(dim, values, back->g, values, back->gt, dim);
    kernels->transpose(keys, values, work->u, values, back->ut, work->chunk);
    kernels->multiply(keys, values, dim, work->k, work->ldk, 1, back->g, values, false, back->du, values);
    kernels->multiply(keys, dim, values, work->u, values, 1, back->gt, dim, false, back->dk, dim);
    for (size_t j = 0; work->gated && j < keys; j++) {
        float *du = back->du + j * values, *dk = back->dk + j * dim;
        kernels->scale(values, work->weights[j], du, du);
        kernels->scale(dim, work->weights[j], dk, dk);
        back->to_s[j] = kernels->dot(values, work->u + j * values, du);
    }
}

/* Computes the gradients through the memory after the chunk. G is propagated to the start of the chunk, without the
 * contributions of queries and keys that read S. Without keys: prepares for the queries. */
static void delta_back_memory(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    kernels->transpose(dim, values, work->s, values, back->st, dim);
    if (keys == 0) return;
    back_learned(back);
    if (!work->gated) return;
    float remains = work->remains[keys - 1];
    back->through = (double)remains * kernels->dot(dim * values, work->s, back->g);
    kernels->scale(dim * values, remains, back->g, back->g);
    memset(back->z, 0, work->chunk * work->chunk * sizeof *back->z);
    memset(back->from_s, 0, work->chunk * sizeof *back->from_s);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* Computes dx (rows x dim) += pairs k, and dk += pairsᵀ x. */
static void through_pairs(bo_delta_back *back, const float *x, size_t ldx, float *dx)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, chunk = work->chunk, keys = work->keys;
    for (size_t first = 0; first < keys; first += BO_DELTA_BAND) {
        size_t end = bo_delta_reach(work, first);
        const float *square = back->pairs + first * chunk;
        kernels->multiply(end - first, dim, end, square, chunk, 1, work->k, work->ldk, true, dx + first * dim, dim);
        kernels->multiply(end - first, dim, keys - first, square + first, 1, chunk, x + first * ldx, ldx, true,
                          back->dk + first * dim, dim);
    }
}

/* Adds the gates' part of row i of `pairs` before decay: products with A or -P. */
static void note_pairs(bo_delta_back *back, size_t i, const float *decayed)
{
    const bo_delta *work = &back->delta;
    const float *row = back->pairs + i * work->chunk;
    for (size_t j = 0; work->gated && j < i; j++) back->z[i * work->chunk + j] += decayed[j] * row[j];
}

/* Computes the gradients between queries and keys of the chunk. */
static void within_chunk(bo_delta_back *back, const float *dout, size_t lddout)
{
    const bo_delta *work = &back->delta;
    size_t values = work->values, chunk = work->chunk, keys = work->keys;
    for (size_t first = 0; first < keys; first += BO_DELTA_BAND)
        work->kernels->multiply(bo_delta_reach(work, first) - first, values, keys - first,
                                work->scores + first * chunk + first, 1, chunk, dout + first * lddout, lddout, true,
                                back->du + first * values, values);
    bo_delta_triangle(work, keys, values, dout, lddout, back->ut, back->pairs);
    for (size_t i = 0; i < keys; i++) {
        note_pairs(back, i, work->scores + i * chunk);
        bo_delta_decay_row(work, i, i + 1, 1, back->pairs + i * chunk);
    }
    through_pairs(back, work->q, work->dim, back->dq);
}

/* Processes one query head, whose q and A are in delta: adds the contributions of dout (queries x values) to all
 * gradients. dq is then the gradient with respect to s q after the transform. */
static void delta_back_queries(bo_delta_back *back, size_t queries, const float *dout, size_t lddout)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values;
    const float *carried = dout;
    size_t stride = lddout;
    if (work->gated && work->keys) {
        for (size_t i = 0; i < queries; i++)
            kernels->scale(values, work->remains[i], dout + i * lddout, back->carried + i * values);
        carried = back->carried;
        stride = values;
    }
    kernels->multiply(queries, dim, values, carried, stride, 1, back->st, dim, false, back->dq, dim);
    kernels->multiply(dim, values, queries, work->q, 1, dim, carried, stride, true, back->g, values);
    for (size_t i = 0; work->gated && i < work->keys; i++)
        back->from_s[i] += kernels->dot(dim, work->q + i * dim, back->dq + i * dim);
    if (work->keys) within_chunk(back, dout, lddout);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Computes du and y from the last row to the first. */
static void solve(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t values = work->values, chunk = work->chunk, keys = work->keys;
    for (size_t bands = (keys + BO_DELTA_BAND - 1) / BO_DELTA_BAND; bands-- > 0;) {
        size_t first = bands * BO_DELTA_BAND, end = bo_delta_reach(work, first);
        kernels->multiply(end - first, values, keys - end, work->products + end * chunk + first, 1, chunk,
                          back->y + end * values, values, true, back->du + first * values, values);
        for (size_t i = end; i-- > first;) {
            float *du = back->du + i * values;
            if (i + 1 < end)
                kernels->multiply(1, values, end - i - 1, work->products + (i + 1) * chunk + i, 1, chunk,
                                  back->y + (i + 1) * values, values, true, du, values);
            kernels->scale(values, bo_delta_beta(work, i), du, back->y + i * values);
        }
    }
}

/* Adds the contributions of Sᵀk_i to G and dk. */
static void back_wrong(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    float *part = back->dq; /* no longer used by the queries */
    for (size_t i = 0; i < keys; i++)
        kernels->scale(values, -work->remains[i], back->y + i * values, back->carried + i * values);
    kernels->multiply(dim, values, keys, work->k, 1, work->ldk, back->carried, values, true, back->g, values);
    kernels->multiply(keys, dim, values, back->carried, values, 1, back->st, dim, false, part, dim);
    for (size_t i = 0; i < keys; i++) {
        if (work->gated) back->from_s[i] += kernels->dot(dim, work->k + i * work->ldk, part + i * dim);
        kernels->axpy(dim, 1, part + i * dim, back->dk + i * dim);
    }
}

/* Called after all query heads: computes y (which is dv), dk with respect to k after the transform, and G before the
 * chunk. */
static void delta_back_keys(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    size_t chunk = work->chunk;
    solve(back);
    back_wrong(back);
    bo_delta_triangle(work, work->keys, work->values, back->y, work->values, back->ut, back->pairs);
    for (size_t i = 0; i < work->keys; i++) {
        note_pairs(back, i, work->products + i * chunk);
        bo_delta_decay_row(work, i, i, -1, back->pairs + i * chunk);
    }
    through_pairs(back, work->k, work->ldk, back->dk);
}

/* ---- β and gates ------------------------------------------------------------------------------------------------- */

/* Computes dβ of the chunk's tokens, with stride `stride`. */
static void delta_back_beta(const bo_delta_back *back, float *dbeta, size_t stride)
{
    size_t values = back->delta.values;
    for (size_t i = 0; i < back->delta.keys; i++)
        dbeta[i * stride] = (float)back->delta.kernels->dot(values, back->du + i * values, back->delta.x + i * values);
}

/* Computes da of the chunk's tokens, with stride `stride`. */
static void delta_back_gates(bo_delta_back *back, float *dgate, size_t stride)
{
    double *from = back->to_s, from_s = back->through; /* Σ_{i>=t} Z_ij for every j, and from S */
    for (size_t t = back->delta.keys; t-- > 0;) {
        const float *row = back->z + t * back->delta.chunk;
        double sum = from_s += back->from_s[t];
        for (size_t j = 0; j < t; j++) sum += from[j] += (double)row[j];
        dgate[t * stride] = (float)sum;
    }
}

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The backward pass of a sequence. The tape has the memory at the start of each segment. Segments are processed from
 * the last to the first: for each, a forward pass recomputes the memory before each chunk and x, then a backward pass
 * computes the gradients. The workspace therefore stores √N states. */

typedef struct back_work {
    bo_delta_back back;
    float *states; /* the memory before each chunk of a segment: dim x values each */
    float *wrong;  /* x of a segment: segment x values */
} back_work;

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    size_t values = attention->desc.value_dim, chunks = plan->segment / plan->chunk;
    back_work work = {.back = delta_back_make(attention, in, key_head, plan->chunk, carver)};
    work.states = bo_carve_floats(carver, chunks * attention->desc.dim * values);
    work.wrong = bo_carve_floats(carver, plan->segment * values);
    return work;
}

size_t bo_delta_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* Sets the workspace to chunk `index` of its segment. */
static void go_to(back_work *work, size_t index)
{
    bo_delta *delta = &work->back.delta;
    delta->s = work->states + index * delta->dim * delta->values;
    delta->x = work->wrong + index * delta->chunk * delta->values;
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* Computes dx of some rows from dt, the gradient with respect to rows after the transform. */
static void write_rows(const bo_delta *delta, bo_role role, size_t first, size_t rows, bo_rows x, const float *dt,
                       bo_rows dx)
{
    if (!dx.at) return;
    x = bo_rows_from(x, first);
    dx = bo_rows_from(dx, first);
    bo_row_transform_backward(&delta->transform, role, rows, x.at, x.stride, dt, dx.at, dx.stride, NULL);
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
        delta_back_queries(back, rows, dout.at, dout.stride);
        call->kernels->scale(rows * d->dim, (float)d->scale, back->dq, back->dq);
        write_rows(&back->delta, BO_OF_QUERIES, first, rows, q, back->dq, dq);
    }
    return true;
}

static void write_key_gradients(const bo_delta_task *at, bo_delta_back *back, size_t first, size_t keys)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *to = call->gradients;
    size_t s = at->sequence, h = at->key_head, values = d->value_dim;
    bo_rows dk = bo_rows_at(call, to->k, d->key_heads, d->dim, true, s, h);
    bo_rows dv = bo_rows_from(bo_rows_at(call, to->v, d->key_heads, values, true, s, h), first);
    bo_rows dbeta = bo_rows_from(bo_rows_at(call, to->beta, d->key_heads, 1, true, s, h), first);
    bo_rows dgate = bo_rows_from(bo_rows_at(call, to->log_gate, d->key_heads, 1, true, s, h), first);
    write_rows(&back->delta, BO_OF_KEYS, first, keys, at->rows.k, back->dk, dk);
    for (size_t i = 0; dv.at && i < keys; i++)
        memcpy(dv.at + i * dv.stride, back->y + i * values, values * sizeof *dv.at);
    if (dbeta.at) delta_back_beta(back, dbeta.at, dbeta.stride);
    if (dgate.at) delta_back_gates(back, dgate.at, dgate.stride);
}

static bool back_chunk(const bo_delta_task *at, back_work *work, size_t first, size_t rows, size_t index)
{
    bo_delta_back *back = &work->back;
    size_t keys = at->at->keys ? rows : 0;
    if (bo_pass_stops(at->call->watch, rows)) return false;
    go_to(work, index);
    bo_delta_keys(&back->delta, at, first, keys);
    bo_delta_weigh(&back->delta);
    delta_back_memory(back);
    if (!back_queries(at, back, first, rows)) return false;
    if (keys == 0) return true;
    delta_back_keys(back);
    write_key_gradients(at, back, first, keys);
    return true;
}

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* Recomputes the memory before each chunk of the segment [first, end), and x. */
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
        bo_delta_keys(delta, at, first, bo_min(chunk, end - first));
        bo_delta_solve(delta, bo_rows_from(at->rows.v, first).at, at->rows.v.stride);
        if (first + chunk < end) bo_delta_absorb(delta, delta->s + size);
    }
}

/* Without keys the memory does not change: every chunk of queries starts a segment. */
static bool reverse(const bo_delta_task *at, back_work *work)
{
    size_t chunk = work->back.delta.chunk, tokens = at->at->keys ? at->at->keys : at->at->queries,
           segment = at->at->keys ? at->call->plan.segment : chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, tokens);
        replay(at, work, at->at->keys ? first : 0, end);
        for (size_t index = (end - first + chunk - 1) / chunk; index-- > 0;) {
            size_t start = first + index * chunk;
            if (!back_chunk(at, work, start, bo_min(chunk, end - start), index)) return false;
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
