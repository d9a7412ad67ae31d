/* The backward pass of attention with features. */
#include <math.h>
#include <string.h>
#include "linear_backward.h"
#include "parameters.h"

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* The window of the hybrid may have a weight of e^-100 in the units of the sums. This limit keeps factors finite when
 * the sums have no matching term. */
static const float most_exponent = 69.0f;

/* Columns of a triangular right factor processed together: two vectors of the widest instruction set. */
enum { COLUMNS = BO_SIZE(32, 4) };

/* Allocates the gradients of features, for a chunk or a panel. */
static void carve_slopes(bo_linear_back *back, bo_carver *carver)
{
    bo_linear *work = &back->linear;
    size_t chunk = work->chunk, width = work->depth;
    back->dfq = back->dfk = bo_carve_floats(carver, work->panel * work->count);
    if (!work->closed.used) {
        back->dfk = bo_carve_floats(carver, chunk * work->count);
        return;
    }
    work->slopes = bo_carve_floats(carver, chunk * chunk);
    back->ft = bo_carve_floats(carver, work->count * work->panel);
    back->direct = bo_carve_floats(carver, chunk * width);
    back->dtk = bo_carve_floats(carver, chunk * width);
}

static bo_linear_back linear_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                       size_t chunk, bo_carver *carver)
{
    size_t count = attention->count, values = attention->desc.value_dim, wide = values + 1;
    bo_linear_back back = {.linear = bo_linear_make(attention, in, key_head, chunk, carver), .wide = wide};
    back.linear.whole = true;
    if (back.linear.weighted) back.linear.mild = 0;
    back.gt = bo_carve_floats(carver, wide * count);
    back.dn = bo_carve_floats(carver, chunk * wide);
    back.carried = bo_carve_floats(carver, chunk * wide);
    back.vt = bo_carve_floats(carver, wide * chunk);
    back.vw = bo_carve_floats(carver, chunk * wide);
    back.p = bo_carve_floats(carver, chunk * chunk);
    carve_slopes(&back, carver);
    back.dvt = bo_carve_floats(carver, values * chunk);
    back.dt = bo_carve_floats(carver, chunk * back.linear.mapper.transform.width);
    back.dx = bo_carve_floats(carver, chunk * attention->desc.dim);
    back.dv = bo_carve_floats(carver, chunk * values);
    back.flow = bo_carve(carver, chunk, sizeof(double));
    back.own = bo_carve(carver, chunk, sizeof(double));
    return back;
}

/* Copies the sums, transposed and augmented. */
static void sums_widen(const bo_linear_back *back, bo_sums sums, float *st)
{
    size_t count = back->linear.count, values = back->linear.value_dim;
    back->linear.kernels->transpose(count, values, sums.s, values, st, count);
    memcpy(st + values * count, sums.z, count * sizeof *st);
}

/* Computes next = S~ᵀ after the current chunk (fk, weights, vw). */
static void linear_advance(const bo_linear_back *back, const float *st, float *next)
{
    const bo_linear *work = &back->linear;
    size_t count = work->count;
    work->kernels->scale(back->wide * count, work->remains[work->lag + work->keys], st, next);
    for (size_t first = 0; first < work->keys; first += work->panel) {
        size_t rows = bo_min(work->panel, work->keys - first);
        work->kernels->multiply(back->wide, count, rows, back->vw + first * back->wide, 1, back->wide,
                                bo_linear_features(work, work->fk, first, rows), count, true, next, count);
    }
}

/* Computes w_j v~_j of the chunk's keys: vw. */
static void linear_back_values(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    size_t values = work->value_dim;
    for (size_t j = 0; j < rows->keys; j++) {
        float weight = work->weights[j];
        work->kernels->scale(values, weight, rows->v + j * rows->ldv, back->vw + j * back->wide);
        back->vw[j * back->wide + values] = weight;
    }
}

/* Adds f_i·df_i of some rows, for the gates' gradients. */
static void add_flow(const bo_linear *work, size_t rows, const float *features, const float *slopes, double *flow)
{
    size_t count = work->count;
    for (size_t i = 0; work->attention->desc.gate != BO_GATE_NONE && i < rows; i++)
        flow[i] += work->kernels->dot(count, features + i * count, slopes + i * count);
}

/* Closed: processes a panel of keys down to dt. */
static void sums_panel(bo_linear_back *back, size_t first, size_t rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, wide = back->wide, depth = work->depth;
    const float *features = bo_linear_features(work, work->fk, first, rows);
    kernels->multiply(rows, count, wide, back->vw + first * wide, wide, 1, back->gt, count, false, back->dfk, count);
    add_flow(work, rows, features, back->dfk, back->own + first);
    bo_features_block_backward(work->mapper.map, rows, work->fk + first * depth, depth, features, count, back->dfk,
                               count, back->dtk + first * depth, depth, work->mapper.block);
    kernels->transpose(rows, count, features, count, back->ft, rows);
    kernels->multiply(work->value_dim, rows, count, back->gt, count, 1, back->ft, rows, false, back->dvt + first,
                      work->chunk);
}

/* Computes the parts of df_j (dt_j if closed) and dv_j that come through the sums after the chunk; also computes fkt
 * and vt. */
static void linear_back_sums(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim, keys = rows->keys, chunk = work->chunk, wide = back->wide;
    memset(back->own, 0, keys * sizeof *back->own);
    bo_linear_transpose(work);
    kernels->transpose(keys, values, rows->v, rows->ldv, back->vt, chunk);
    for (size_t j = 0; j < keys; j++) back->vt[values * chunk + j] = 1;
    linear_back_values(back, rows);
    if (work->closed.used) {
        memset(back->direct, 0, keys * work->depth * sizeof *back->direct);
        for (size_t first = 0; first < keys; first += work->panel)
            sums_panel(back, first, bo_min(work->panel, keys - first));
    } else {
        kernels->multiply(keys, count, wide, back->vw, wide, 1, back->gt, count, false, back->dfk, count);
        kernels->multiply(values, keys, count, back->gt, count, 1, work->fkt, chunk, false, back->dvt, chunk);
    }
    for (size_t i = 0; work->weighted && i < values; i++)
        for (size_t j = 0; j < keys; j++) back->dvt[i * chunk + j] *= work->weights[j];
}

/* The same; then Gᵀ is propagated to the start of the chunk, ready for the queries. */
static void linear_back_keys(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    memset(back->flow, 0, work->chunk * sizeof *back->flow);
    if (rows->keys) linear_back_sums(back, rows);
    float remains = work->remains[rows->lag + rows->keys];
    if (remains != 1) work->kernels->scale(back->wide * work->count, remains, back->gt, back->gt);
}

/* Computes dn~ of one row: o = n / denominator, denominator = exp(top) |sum| (internal.h). `own` is the log scale of
 * n. */
static void output_gradient(const bo_linear *work, const float *dout, const float *out, float own, float top, float sum,
                            float *dn)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->value_dim;
    float factor = 0;
    if (isfinite(sum) && isfinite(top)) factor = expf(fminf(own - top, most_exponent)) / fabsf(sum);
    kernels->scale(values, factor, dout, dn);
    dn[values] = sum > 0 && factor > 0 ? -factor * (float)kernels->dot(values, dout, out) : 0;
    for (size_t j = 0; j <= values; j++) {
        if (fabsf(dn[j]) <= BO_MOST_SLOPE) continue;
        memset(dn, 0, (values + 1) * sizeof *dn);
        return;
    }
}

/* Computes dn~ and ρ dn~ of each row. */
static void output_gradients(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    size_t wide = back->wide;
    for (size_t i = 0; i < rows->rows; i++) {
        size_t u = bo_elapsed(work, i);
        float *dn = back->dn + i * wide;
        output_gradient(work, rows->dout + i * rows->lddout, rows->out + i * rows->ldout, work->lq[i] + work->r[u],
                        rows->top[i], rows->sum[i], dn);
        work->kernels->scale(wide, work->remains[u], dn, back->carried + i * wide);
    }
}

/* Gates with closed scores: the contribution of row i to f_i·df_i and to f_j·df_j within the chunk is dn~_i·v~_j
 * A_ij. */
static void share_flow(bo_linear_back *back, size_t row, size_t t, const float *products)
{
    const float *scores = back->linear.scores + row * back->linear.chunk;
    for (size_t j = 0; j < t; j++) {
        double flow = (double)products[j] * (double)scores[j];
        back->flow[row] += flow;
        back->own[j] += flow;
    }
}

/* Computes P, with zeros for keys that are not seen; P_ij f'(s_ij) if closed. The scores must be computed before. */
static void value_products(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    bool gated = work->closed.used && work->attention->desc.gate != BO_GATE_NONE;
    for (size_t first = 0; first < rows->rows; first += BO_BAND) {
        size_t band = bo_min(BO_BAND, rows->rows - first), width = bo_visible(work, first + band - 1);
        kernels->multiply(band, width, back->wide, back->dn + first * back->wide, back->wide, 1, back->vt, work->chunk,
                          false, back->p + first * work->chunk, work->chunk);
        for (size_t i = first; i < first + band; i++) {
            size_t t = bo_visible(work, i);
            float *row = back->p + i * work->chunk;
            memset(row + t, 0, (work->keys - t) * sizeof *row);
            if (gated) share_flow(back, i, t, row);
            if (work->weighted) bo_linear_weigh(work, t, row);
            for (size_t j = 0; work->closed.used && j < t; j++) row[j] *= work->slopes[i * work->chunk + j];
        }
    }
}

/* Keys from j on are seen by rows from j + lag on: adds Pᵀ fq to the gradients of the keys (`to`), and Aᵀ dn to dv. */
static void give_keys(bo_linear_back *back, const bo_query_rows *rows, float *to)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t depth = work->depth, keys = work->keys, chunk = work->chunk;
    for (size_t j = 0; j < keys; j += COLUMNS) {
        size_t columns = bo_min(COLUMNS, keys - j), from = j + work->lag, seen = rows->rows - from;
        kernels->multiply(columns, depth, seen, back->p + from * chunk + j, 1, chunk, work->fq + from * depth, depth,
                          true, to + j * depth, depth);
        kernels->multiply(work->value_dim, columns, seen, back->dn + from * back->wide, 1, back->wide,
                          work->scores + from * chunk + j, chunk, true, back->dvt + j, chunk);
    }
}

/* Adds P fk to the gradients of the queries, or overwrites them. */
static void give_queries(bo_linear_back *back, const bo_query_rows *rows, bool add, float *to)
{
    const bo_linear *work = &back->linear;
    size_t depth = work->depth, chunk = work->chunk;
    for (size_t first = 0; first < rows->rows; first += BO_BAND) {
        size_t band = bo_min(BO_BAND, rows->rows - first), width = bo_visible(work, first + band - 1);
        work->kernels->multiply(band, depth, width, back->p + first * chunk, chunk, 1, work->fk, depth, add,
                                to + first * depth, depth);
    }
}

/* Computes dt += factor ∘ direct. */
static void add_direct(const bo_linear *work, size_t rows, const float *direct, float *dt)
{
    size_t depth = work->depth;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < depth; j++) dt[r * depth + j] += work->closed.factor[j] * direct[r * depth + j];
}

/* Computes the gradients between queries and keys of the chunk: df_i, df_j (dt_i, dt_j if closed) and dv_j through P
 * and A. */
static void within_chunk(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    bool closed = work->closed.used;
    bo_linear_scores(work, rows->rows, NULL);
    value_products(back, rows);
    give_keys(back, rows, closed ? back->direct : back->dfk);
    if (!closed) {
        give_queries(back, rows, true, back->dfq);
        return;
    }
    give_queries(back, rows, false, work->mapper.t);
    add_direct(work, rows->rows, work->mapper.t, back->dt);
}

/* Computes dt from the features in `features`, through the map; t: the rows after the transform. */
static void through_map(bo_linear_back *back, size_t rows, const float *t, size_t ldt, const float *features,
                        const float *slopes, float *dt, size_t lddt)
{
    const bo_mapper *mapper = &back->linear.mapper;
    bo_features_block_backward(mapper->map, rows, t, ldt, features, mapper->count, slopes, mapper->count, dt, lddt,
                               mapper->block);
}

/* Not closed: computes the gradients of the inputs of the features in `features`, through map and transform. */
static void through_transform(bo_linear_back *back, bo_role role, size_t rows, const float *x, size_t ldx,
                              const float *features, const float *slopes, float *dx, size_t lddx, float *parameters)
{
    const bo_mapper *mapper = &back->linear.mapper;
    size_t ldt;
    const float *t = bo_row_transform_forward(&mapper->transform, role, rows, x, ldx, mapper->t, &ldt);
    if (bo_row_transform_is_none(&mapper->transform)) {
        through_map(back, rows, t, ldt, features, slopes, dx, lddx);
        return;
    }
    through_map(back, rows, t, ldt, features, slopes, back->dt, mapper->transform.width);
    bo_row_transform_backward(&mapper->transform, role, rows, x, ldx, back->dt, dx, lddx, parameters);
}

/* Processes a panel of queries: df_i through the sums before the chunk, and their part of G. Closed: down to dt. */
static void query_panel(bo_linear_back *back, size_t first, size_t rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, wide = back->wide, depth = work->depth;
    const float *features = bo_linear_features(work, work->fq, first, rows), *carried = back->carried + first * wide;
    kernels->multiply(rows, count, wide, carried, wide, 1, back->st, count, false, back->dfq, count);
    kernels->multiply(wide, count, rows, carried, 1, wide, features, count, true, back->gt, count);
    if (!work->closed.used) return;
    add_flow(work, rows, features, back->dfq, back->flow + first);
    through_map(back, rows, work->fq + first * depth, depth, features, back->dfq, back->dt + first * depth, depth);
}

static void linear_back_queries(bo_linear_back *back, const bo_query_rows *rows, float *parameters)
{
    bo_linear *work = &back->linear;
    const bo_row_transform *transform = &work->mapper.transform;
    size_t dim = transform->dim;
    bo_linear_map_queries(work, rows->rows, rows->q, rows->ldq);
    output_gradients(back, rows);
    for (size_t first = 0; first < rows->rows; first += work->panel)
        query_panel(back, first, bo_min(work->panel, rows->rows - first));
    if (work->keys) within_chunk(back, rows);
    if (!work->closed.used) add_flow(work, rows->rows, work->fq, back->dfq, back->flow);
    if (!rows->dq && !parameters) return;
    float *dq = rows->dq && !rows->add ? rows->dq : back->dx;
    size_t lddq = rows->dq && !rows->add ? rows->lddq : dim;
    if (work->closed.used)
        bo_row_transform_backward(transform, BO_OF_QUERIES, rows->rows, rows->q, rows->ldq, back->dt, dq, lddq,
                                  parameters);
    else
        through_transform(back, BO_OF_QUERIES, rows->rows, rows->q, rows->ldq, work->fq, back->dfq, dq, lddq,
                          parameters);
    for (size_t i = 0; rows->dq && rows->add && i < rows->rows; i++)
        work->kernels->axpy(dim, 1, back->dx + i * dim, rows->dq + i * rows->lddq);
}

/* Called after all query heads: computes dk and dv of the chunk's keys, to back->dx and back->dv. */
static void linear_back_finish(bo_linear_back *back, const bo_key_rows *rows, float *parameters)
{
    bo_linear *work = &back->linear;
    const bo_row_transform *transform = &work->mapper.transform;
    size_t dim = transform->dim, values = work->value_dim;
    if (work->closed.used) {
        add_direct(work, rows->keys, back->direct, back->dtk);
        bo_row_transform_backward(transform, BO_OF_KEYS, rows->keys, rows->k, rows->ldk, back->dtk, back->dx, dim,
                                  parameters);
    } else {
        add_flow(work, rows->keys, work->fk, back->dfk, back->own);
        through_transform(back, BO_OF_KEYS, rows->keys, rows->k, rows->ldk, work->fk, back->dfk, back->dx, dim,
                          parameters);
    }
    work->kernels->transpose(values, rows->keys, back->dvt, work->chunk, back->dv, values);
}

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The backward pass of a sequence. Causal: the tape has the sums at the start of each segment. Segments are processed
 * from the last to the first: for each, a forward pass recomputes the sums before each chunk, then a backward pass
 * computes the gradients. The work memory is therefore that of √N states. Bidirectional: queries first, which
 * accumulate the gradient of the sums, then keys. */

/* Features and sums of a segment. */
typedef struct back_work {
    bo_linear_back back;
    float *fk, *log_scales;       /* features and log scales of a segment's keys: segment x depth, segment */
    float *states, *state_scales; /* S~ᵀ before each of its chunks, and after the last; their log scales */
    float *k, *v;                 /* buffers of the stream: chunk x dim, chunk x value_dim */
    double *entry;                /* likewise: chunk */
    double carried;               /* gradient of the log gates after the current chunk */
    double decay;                 /* gradient of a fixed log gate: the sum over tokens */
    float *transform;             /* the task's parameters if a gradient of the transform is requested, else NULL */
} back_work;

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    size_t chunk = plan->chunk, chunks = attention->desc.causal ? plan->segment / chunk : 1;
    back_work work = {.back = linear_back_make(attention, in, key_head, chunk, carver)};
    work.fk = bo_carve_floats(carver, chunks * chunk * work.back.linear.depth);
    work.log_scales = bo_carve_floats(carver, chunks * chunk);
    work.states = bo_carve_floats(carver, (chunks + 1) * work.back.wide * attention->count);
    work.state_scales = bo_carve_floats(carver, chunks + 1);
    work.k = bo_carve_floats(carver, chunk * attention->desc.dim);
    work.v = bo_carve_floats(carver, chunk * attention->desc.value_dim);
    work.entry = bo_carve(carver, chunk, sizeof(double));
    return work;
}

size_t bo_linear_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* Processes every query head of the group, rows [first, first + rows). */
static bool back_queries(const bo_linear_reverse *at, back_work *work, size_t first, size_t rows)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    for (size_t g = 0; call->dout && g < attention->group; g++) {
        size_t head = at->key_head * attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows dout = bo_rows_at(call, call->dout, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows dq = bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, at->sequence, head);
        size_t tape = head * call->queries_total + call->sequences[at->sequence].query_start + first;
        bo_query_rows query = {.rows = rows,
                               .q = bo_rows_from(q, first).at,
                               .dout = bo_rows_from(dout, first).at,
                               .out = bo_rows_from(out, first).at,
                               .ldq = q.stride,
                               .lddout = dout.stride,
                               .ldout = out.stride,
                               .top = call->tape.top + tape,
                               .sum = call->tape.sum + tape,
                               .dq = bo_rows_from(dq, first).at,
                               .lddq = dq.stride,
                               .add = at->add};
        if (!bo_rows_finite(call->kernels, rows, d->value_dim, query.dout, dout.stride)) return false;
        linear_back_queries(&work->back, &query, work->transform);
    }
    return true;
}

/* ---- gradients of the sums at both ends -------------------------------------------------------------------------- */

static void begin_gradient(const bo_linear_reverse *at, back_work *work)
{
    const bo_attention *attention = at->call->attention;
    bo_linear_back *back = &work->back;
    size_t count = attention->count;
    if (at->call->d_final)
        attention->kernels->transpose(count, back->wide,
                                      bo_sums_gradient(attention, at->call->d_final[at->sequence], at->key_head),
                                      back->wide, back->gt, count);
    else
        memset(back->gt, 0, back->wide * count * sizeof(float));
}

static void end_gradient(const bo_linear_reverse *at, const back_work *work)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_linear_back *back = &work->back;
    if (!call->gradients->initial) return;
    float *gradient = bo_sums_gradient(attention, call->gradients->initial[at->sequence], at->key_head);
    const void *initial = call->initial ? call->initial[at->sequence] : NULL;
    float log_scale = initial ? *bo_state_sums(attention, (void *)initial, at->key_head).log_scale : -INFINITY;
    if (attention->scaled && isinf(log_scale)) /* exp(-∞) S is 0 for every S */
        memset(gradient, 0, back->wide * attention->count * sizeof *gradient);
    else
        attention->kernels->transpose(back->wide, attention->count, back->gt, attention->count, gradient, back->wide);
}

/* ---- causal ------------------------------------------------------------------------------------------------------ */

/* Restores a chunk's keys: features and log scales from the segment's arrays; exponents are recomputed. */
static void restore_chunk(back_work *work, const bo_key_rows *rows, size_t index)
{
    bo_linear *linear = &work->back.linear;
    size_t local = index * linear->chunk;
    linear->fk = work->fk + local * linear->depth;
    linear->lk = work->log_scales + local;
    *linear->sums.log_scale = work->state_scales[index];
    linear->r[0] = work->state_scales[index];
    bo_linear_take(linear, rows);
}

static bo_key_rows take(const bo_linear_reverse *at, back_work *work, size_t first, size_t rows)
{
    return bo_stream_take(at->call->attention, &at->keys, first, rows, work->k, work->v, work->entry);
}

/* Recomputes the sums before each chunk of the segment [first, end) and, if `whole`, after the last. */
static void replay(const bo_linear_reverse *at, back_work *work, size_t first, size_t end, bool whole)
{
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    size_t chunk = linear->chunk, size = back->wide * linear->count;
    sums_widen(back, linear->sums, work->states);
    work->state_scales[0] = *linear->sums.log_scale;
    for (size_t at_token = first, index = 0; at_token < end; at_token += chunk, index++) {
        bo_key_rows rows = take(at, work, at_token, bo_min(chunk, end - at_token));
        float *st = work->states + index * size;
        linear->fk = work->fk + index * chunk * linear->depth;
        linear->lk = work->log_scales + index * chunk;
        bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, linear->fk, linear->lk);
        restore_chunk(work, &rows, index);
        if (at_token + chunk >= end && !whole) return;
        linear_back_values(back, &rows);
        linear_advance(back, st, st + size);
        work->state_scales[index + 1] = linear->weighted ? linear->r[rows.lag + rows.keys] : work->state_scales[index];
    }
}

/* Gates: dL/d log g_t = Σ_{s>=t} (f·df of queries s - f·df of keys s) + ⟨S_T, dS_T⟩, each key at the position of its
 * own token; with a convex gate also through the input weight 1 - g, d log(1 - g) / d log g = -g / (1 - g). */

/* Returns f·df of the key of the token whose key is row `row` of the stream. Keys that are still in the window at the
 * end have none. */
static double own_of(const bo_linear_reverse *at, const back_work *work, size_t first, size_t row)
{
    if (!at->pending) return work->back.own[row - first];
    return row < at->call->sequences[at->sequence].keys ? at->pending[row % at->pending_count] : 0;
}

/* Goes back over one token, whose log gate is `gate`. Returns the gradient of that. */
static double give_gate(const bo_linear_reverse *at, back_work *work, double flow, double own, float gate)
{
    work->carried += flow - own;
    work->decay += work->carried;
    return work->carried + (at->call->attention->desc.gate == BO_GATE_CONVEX ? own * bo_input_slope(gate) : 0);
}

/* Processes the tokens of a chunk. */
static void give_gates(const bo_linear_reverse *at, back_work *work, size_t first, size_t tokens,
                       const bo_key_rows *rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    bo_rows dgate = bo_rows_at(call, call->gradients->log_gate, d->key_heads, 1, true, at->sequence, at->key_head);
    for (size_t j = 0; at->pending && j < rows->keys; j++)
        at->pending[(first + rows->lag + j) % at->pending_count] = work->back.own[j];
    for (size_t t = tokens; t-- > 0;) {
        double own = own_of(at, work, first, first + t + at->keys.delay);
        double slope = give_gate(at, work, work->back.flow[t], own, rows->gate[t * rows->gate_stride]);
        if (dgate.at) dgate.at[(first + t) * dgate.stride] = (float)slope;
    }
}

/* Processes the tokens before the call, whose keys were in the window: their gates have become weights of these keys,
 * but the sums do not depend on them any more. */
static void give_early_gates(const bo_linear_reverse *at, back_work *work)
{
    const bo_key_stream *keys = &at->keys;
    const bo_linear_back *back = &work->back;
    work->carried -= back->linear.kernels->dot(back->wide * back->linear.count, work->states, back->gt);
    for (size_t p = keys->early; p-- > 0;) {
        double own = own_of(at, work, 0, keys->delay - keys->early + p);
        double slope = give_gate(at, work, 0, own, keys->early_gate ? keys->early_gate[p] : 0);
        if (at->d_early_gate) at->d_early_gate[p] = (float)slope;
    }
}

static bool back_chunk(const bo_linear_reverse *at, back_work *work, size_t first, size_t count, size_t index)
{
    bo_linear_back *back = &work->back;
    if (bo_pass_stops(at->call->watch, count)) return false;
    bo_key_rows rows = take(at, work, first, count);
    restore_chunk(work, &rows, index);
    back->st = work->states + index * back->wide * back->linear.count;
    linear_back_keys(back, &rows);
    if (!back_queries(at, work, first, count)) return false;
    if (rows.keys) {
        linear_back_finish(back, &rows, work->transform);
        bo_stream_give(at->call->attention, &at->d_keys, first + rows.lag, rows.keys, back->dx, back->dv);
    }
    if (at->call->attention->desc.gate != BO_GATE_NONE) give_gates(at, work, first, count, &rows);
    return true;
}

/* Returns ⟨S_T, dS_T⟩ at the end of the sequence. */
static double final_product(const back_work *work, size_t chunks)
{
    size_t size = work->back.wide * work->back.linear.count;
    return work->back.linear.kernels->dot(size, work->states + chunks * size, work->back.gt);
}

static bool reverse_causal(const bo_linear_reverse *at, back_work *work, const void *initial)
{
    const bo_call *call = at->call;
    bo_linear *linear = &work->back.linear;
    size_t tokens = call->sequences[at->sequence].keys, segment = call->plan.segment, chunk = linear->chunk;
    for (size_t segments = (tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, tokens),
               chunks = (end - first + chunk - 1) / chunk;
        if (segments)
            bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, segments - 1));
        else
            bo_linear_begin(linear, initial, at->key_head);
        bool final = end == tokens && call->d_final && call->attention->desc.gate != BO_GATE_NONE;
        replay(at, work, first, end, final);
        if (final) work->carried = final_product(work, chunks);
        for (size_t index = chunks; index-- > 0;) {
            size_t start = first + index * chunk;
            if (!back_chunk(at, work, start, bo_min(chunk, end - start), index)) return false;
        }
    }
    if (at->pending) give_early_gates(at, work);
    return true;
}

/* ---- bidirectional ----------------------------------------------------------------------------------------------- */

static bool reverse_bidirectional(const bo_linear_reverse *at, back_work *work, const void *initial)
{
    const bo_call *call = at->call;
    bo_linear_back *back = &work->back;
    bo_linear *linear = &back->linear;
    const bo_sequence *sequence = &call->sequences[at->sequence];
    size_t chunk = linear->chunk;
    bo_linear_begin(linear, initial, at->key_head);
    float before = *linear->sums.log_scale;
    bo_sums_copy(call->attention, linear->sums, bo_tape_sums(call, at->sequence, at->key_head, 0));
    float after = *linear->sums.log_scale;
    linear->r[0] = after;
    sums_widen(back, linear->sums, work->states);
    back->st = work->states;
    for (size_t first = 0; first < sequence->queries; first += chunk) {
        size_t rows = bo_min(chunk, sequence->queries - first);
        if (bo_pass_stops(call->watch, rows) || !back_queries(at, work, first, rows)) return false;
    }
    for (size_t first = 0; first < sequence->keys; first += chunk) {
        bo_key_rows rows = take(at, work, first, bo_min(chunk, sequence->keys - first));
        if (bo_pass_stops(call->watch, rows.keys)) return false;
        bo_linear_map(linear, BO_OF_KEYS, rows.keys, rows.k, rows.ldk, linear->fk, linear->lk);
        linear->keys = rows.keys;
        if (linear->weighted) linear->kernels->exp_shift(rows.keys, linear->lk, -after, linear->weights);
        linear_back_sums(back, &rows);
        linear_back_finish(back, &rows, work->transform);
        bo_stream_give(call->attention, &at->d_keys, first, rows.keys, back->dx, back->dv);
    }
    /* The initial sums have the weight exp(before - after) in the final sums. */
    if (linear->weighted && before != after)
        linear->kernels->scale(back->wide * linear->count, expf(before - after), back->gt, back->gt);
    return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

void bo_linear_reverse_run(const bo_linear_reverse *at, void *scratch)
{
    const bo_call *call = at->call;
    bo_carver carver = {.at = scratch};
    back_work work = back_make(call->attention, call->in, at->key_head, &call->plan, &carver);
    const void *initial = call->initial ? call->initial[at->sequence] : NULL;
    if (bo_row_transform_wanted(call->gradients)) work.transform = at->parameters;
    begin_gradient(at, &work);
    bool finite = (bo_linear_sweeps(call, at->sequence) ? reverse_causal : reverse_bidirectional)(at, &work, initial);
    if (!finite) bo_note_stop(call);
    end_gradient(at, &work);
    if (call->attention->desc.gate == BO_GATE_FIXED)
        at->parameters[bo_parameter_offset(call->attention, BO_PARAMETER_LOG_DECAY)] += (float)work.decay;
}

void bo_linear_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    bo_linear_reverse reverse = {.call = call,
                                 .sequence = sequence,
                                 .key_head = key_head,
                                 .keys = bo_stream_of(call, sequence, key_head),
                                 .d_keys = bo_gradient_stream_of(call, sequence, key_head),
                                 .parameters = parameters};
    bo_linear_reverse_run(&reverse, scratch);
}
