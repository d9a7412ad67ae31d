/* The gradients of one chunk of attention with features: linear_backward.h. */
#include <math.h>
#include <string.h>
#include "linear_backward.h"

/* The window of the hybrid may have a weight of e^-100 relative to the sums. This limit keeps factors finite if the
 * sums have no matching term. */
static const float max_exponent = 69.0f;

/* Columns of a triangular right factor processed together: two vectors of the widest instruction set. */
enum { COLUMNS = BO_SIZE(32, 4) };

/* Allocates the gradients of features, for a chunk or a panel. */
static void carve_derivatives(bo_linear_back *back, bo_carver *carver)
{
    bo_linear *work = &back->linear;
    size_t chunk = work->chunk, width = work->depth;
    back->dfq = back->dfk = bo_carve_floats(carver, work->panel * work->count);
    if (!work->closed.used) {
        back->dfk = bo_carve_floats(carver, chunk * work->count);
        return;
    }
    work->derivatives = bo_carve_floats(carver, chunk * chunk);
    back->ft = bo_carve_floats(carver, work->count * work->panel);
    back->direct = bo_carve_floats(carver, chunk * width);
    back->dtk = bo_carve_floats(carver, chunk * width);
}

bo_linear_back bo_linear_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                   size_t chunk, bo_carver *carver)
{
    size_t count = attention->count, values = attention->desc.value_dim, wide = values + 1;
    bo_linear_back back = {.linear = bo_linear_make(attention, in, key_head, chunk, carver), .wide = wide};
    back.linear.no_factors = true;
    if (back.linear.weighted) back.linear.factored = 0;
    back.gt = bo_carve_floats(carver, wide * count);
    back.dn = bo_carve_floats(carver, chunk * wide);
    back.carried = bo_carve_floats(carver, chunk * wide);
    back.vt = bo_carve_floats(carver, wide * chunk);
    back.vw = bo_carve_floats(carver, chunk * wide);
    back.p = bo_carve_floats(carver, chunk * chunk);
    carve_derivatives(&back, carver);
    back.dvt = bo_carve_floats(carver, values * chunk);
    back.dt = bo_carve_floats(carver, chunk * back.linear.mapper.transform.width);
    back.dx = bo_carve_floats(carver, chunk * attention->desc.dim);
    back.dv = bo_carve_floats(carver, chunk * values);
    back.flow = bo_carve(carver, chunk, sizeof(double));
    back.key_flow = bo_carve(carver, chunk, sizeof(double));
    return back;
}

void bo_sums_widen(const bo_linear_back *back, bo_sums sums, float *st)
{
    size_t count = back->linear.count, values = back->linear.value_dim;
    back->linear.kernels->transpose(count, values, sums.s, values, st, count);
    memcpy(st + values * count, sums.z, count * sizeof *st);
}

void bo_linear_advance(const bo_linear_back *back, const float *st, float *next)
{
    const bo_linear *work = &back->linear;
    size_t count = work->count;
    work->kernels->scale(back->wide * count, work->remains[work->lag + work->keys], st, next);
    for (size_t first = 0; first < work->keys; first += work->panel) {
        size_t rows = bo_min(work->panel, work->keys - first);
        bo_multiply(&work->products, back->wide, count, rows, back->vw + first * back->wide, 1, back->wide,
                    bo_linear_features(work, work->fk, first, rows), count, true, next, count);
    }
}

void bo_linear_back_values(bo_linear_back *back, const bo_key_rows *rows)
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
static void add_flow(const bo_linear *work, size_t rows, const float *features, const float *gradients, double *flow)
{
    size_t count = work->count;
    for (size_t i = 0; work->attention->desc.gate != BO_GATE_NONE && i < rows; i++)
        flow[i] += work->kernels->dot(count, features + i * count, gradients + i * count);
}

/* Closed: processes a panel of keys down to dt. */
static void sums_panel(bo_linear_back *back, size_t first, size_t rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, wide = back->wide, depth = work->depth;
    const float *features = bo_linear_features(work, work->fk, first, rows);
    bo_multiply(&work->products, rows, count, wide, back->vw + first * wide, wide, 1, back->gt, count, false, back->dfk,
                count);
    add_flow(work, rows, features, back->dfk, back->key_flow + first);
    bo_features_block_backward(work->mapper.map, rows, work->fk + first * depth, depth, features, count, back->dfk,
                               count, back->dtk + first * depth, depth, work->mapper.block);
    kernels->transpose(rows, count, features, count, back->ft, rows);
    bo_multiply(&work->products, work->value_dim, rows, count, back->gt, count, 1, back->ft, rows, false,
                back->dvt + first, work->chunk);
}

void bo_linear_back_sums(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim, keys = rows->keys, chunk = work->chunk, wide = back->wide;
    memset(back->key_flow, 0, keys * sizeof *back->key_flow);
    bo_linear_transpose(work);
    kernels->transpose(keys, values, rows->v, rows->ldv, back->vt, chunk);
    for (size_t j = 0; j < keys; j++) back->vt[values * chunk + j] = 1;
    bo_linear_back_values(back, rows);
    if (work->closed.used) {
        memset(back->direct, 0, keys * work->depth * sizeof *back->direct);
        for (size_t first = 0; first < keys; first += work->panel)
            sums_panel(back, first, bo_min(work->panel, keys - first));
    } else {
        bo_multiply(&work->products, keys, count, wide, back->vw, wide, 1, back->gt, count, false, back->dfk, count);
        bo_multiply(&work->products, values, keys, count, back->gt, count, 1, work->fkt, chunk, false, back->dvt,
                    chunk);
    }
    for (size_t i = 0; work->weighted && i < values; i++)
        for (size_t j = 0; j < keys; j++) back->dvt[i * chunk + j] *= work->weights[j];
}

void bo_linear_back_keys(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    memset(back->flow, 0, work->chunk * sizeof *back->flow);
    if (rows->keys) bo_linear_back_sums(back, rows);
    if (!back->ahead) bo_linear_back_decay(back);
}

/* Computes dn~ of one row: o = n / denominator, denominator = exp(top) |sum| (internal.h). `log_query` is the log scale
 * of n. */
static void output_gradient(const bo_linear *work, const float *dout, const float *out, float log_query, float top,
                            float sum, float *dn)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->value_dim;
    float factor = 0;
    if (isfinite(sum) && isfinite(top)) factor = expf(fminf(log_query - top, max_exponent)) / fabsf(sum);
    kernels->scale(values, factor, dout, dn);
    dn[values] = sum > 0 && factor > 0 ? -factor * (float)kernels->dot(values, dout, out) : 0;
    for (size_t j = 0; j <= values; j++) {
        if (fabsf(dn[j]) <= BO_MAX_GRADIENT) continue;
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
        back->key_flow[j] += flow;
    }
}

/* Computes P, with zeros for invisible keys; P_ij f'(s_ij) if closed. Requires the scores. */
static void value_products(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    bool gated = work->closed.used && work->attention->desc.gate != BO_GATE_NONE;
    for (size_t first = 0; first < rows->rows; first += work->band) {
        size_t band = bo_min(work->band, rows->rows - first), width = bo_visible(work, first + band - 1);
        bo_multiply(&work->products, band, width, back->wide, back->dn + first * back->wide, back->wide, 1, back->vt,
                    work->chunk, false, back->p + first * work->chunk, work->chunk);
        for (size_t i = first; i < first + band; i++) {
            size_t t = bo_visible(work, i);
            float *row = back->p + i * work->chunk;
            memset(row + t, 0, (work->keys - t) * sizeof *row);
            if (gated) share_flow(back, i, t, row);
            if (work->weighted) bo_linear_weigh(work, t, row);
            for (size_t j = 0; work->closed.used && j < t; j++) row[j] *= work->derivatives[i * work->chunk + j];
        }
    }
}

/* Adds Pᵀ fq to the gradients of the keys (`to`), and Aᵀ dn to dv. Rows from j + lag on see the keys from j on. */
static void add_key_gradients(bo_linear_back *back, const bo_query_rows *rows, float *to)
{
    const bo_linear *work = &back->linear;
    size_t depth = work->depth, keys = work->keys, chunk = work->chunk;
    const size_t together = bo_multiplier_rounds(&work->products) ? keys : COLUMNS;
    for (size_t j = 0; j < keys; j += together) {
        size_t columns = bo_min(together, keys - j), from = j + work->lag, visible = rows->rows - from;
        bo_multiply(&work->products, columns, depth, visible, back->p + from * chunk + j, 1, chunk,
                    work->fq + from * depth, depth, true, to + j * depth, depth);
        bo_multiply(&work->products, work->value_dim, columns, visible, back->dn + from * back->wide, 1, back->wide,
                    work->scores + from * chunk + j, chunk, true, back->dvt + j, chunk);
    }
}

/* Adds P fk to the gradients of the queries, or overwrites them. */
static void write_query_gradients(bo_linear_back *back, const bo_query_rows *rows, bool add, float *to)
{
    const bo_linear *work = &back->linear;
    size_t depth = work->depth, chunk = work->chunk;
    for (size_t first = 0; first < rows->rows; first += work->band) {
        size_t band = bo_min(work->band, rows->rows - first), width = bo_visible(work, first + band - 1);
        bo_multiply(&work->products, band, depth, width, back->p + first * chunk, chunk, 1, work->fk, depth, add,
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
    add_key_gradients(back, rows, closed ? back->direct : back->dfk);
    if (!closed) {
        write_query_gradients(back, rows, true, back->dfq);
        return;
    }
    write_query_gradients(back, rows, false, work->mapper.t);
    add_direct(work, rows->rows, work->mapper.t, back->dt);
}

/* Computes dt from the features in `features`, through the map; t: the rows after the transform. */
static void through_map(bo_linear_back *back, size_t rows, const float *t, size_t ldt, const float *features,
                        const float *gradients, float *dt, size_t lddt)
{
    const bo_mapper *mapper = &back->linear.mapper;
    bo_features_block_backward(mapper->map, rows, t, ldt, features, mapper->count, gradients, mapper->count, dt, lddt,
                               mapper->block);
}

/* Not closed: computes the gradients of the inputs of the features in `features`, through map and transform. */
static void through_transform(bo_linear_back *back, bo_role role, size_t rows, const float *x, size_t ldx,
                              const float *features, const float *gradients, float *dx, size_t lddx, float *parameters)
{
    const bo_mapper *mapper = &back->linear.mapper;
    size_t ldt;
    const float *t = bo_row_transform_forward(&mapper->transform, role, rows, x, ldx, mapper->t, &ldt);
    if (bo_row_transform_is_none(&mapper->transform)) {
        through_map(back, rows, t, ldt, features, gradients, dx, lddx);
        return;
    }
    through_map(back, rows, t, ldt, features, gradients, back->dt, mapper->transform.width);
    bo_row_transform_backward(&mapper->transform, role, rows, x, ldx, back->dt, dx, lddx, parameters);
}

/* Adds the part of a panel of queries to G. */
static void carry_panel(bo_linear_back *back, size_t first, size_t rows, const float *features)
{
    size_t count = back->linear.count, wide = back->wide;
    bo_multiply(&back->linear.products, wide, count, rows, back->carried + first * wide, 1, wide, features, count, true,
                back->gt, count);
}

void bo_linear_back_outputs(bo_linear_back *back, const bo_query_rows *rows)
{
    bo_linear_map_queries(&back->linear, rows->rows, rows->q, rows->ldq);
    output_gradients(back, rows);
}

void bo_linear_back_decay(bo_linear_back *back)
{
    const bo_linear *work = &back->linear;
    float remains = work->remains[work->lag + work->keys];
    if (remains != 1) work->kernels->scale(back->wide * work->count, remains, back->gt, back->gt);
}

void bo_linear_back_carry(bo_linear_back *back, size_t queries)
{
    const bo_linear *work = &back->linear;
    for (size_t first = 0; first < queries; first += work->panel) {
        size_t rows = bo_min(work->panel, queries - first);
        carry_panel(back, first, rows, bo_linear_features(work, work->fq, first, rows));
    }
}

/* Processes a panel of queries: df_i through the sums before the chunk, and their part of G. Closed: down to dt. */
static void query_panel(bo_linear_back *back, size_t first, size_t rows)
{
    const bo_linear *work = &back->linear;
    size_t count = work->count, wide = back->wide, depth = work->depth;
    const float *features = bo_linear_features(work, work->fq, first, rows), *carried = back->carried + first * wide;
    bo_multiply(&work->products, rows, count, wide, carried, wide, 1, back->st, count, false, back->dfq, count);
    if (!back->ahead) carry_panel(back, first, rows, features);
    if (!work->closed.used) return;
    add_flow(work, rows, features, back->dfq, back->flow + first);
    through_map(back, rows, work->fq + first * depth, depth, features, back->dfq, back->dt + first * depth, depth);
}

void bo_linear_back_queries(bo_linear_back *back, const bo_query_rows *rows, float *parameters)
{
    bo_linear *work = &back->linear;
    const bo_row_transform *transform = &work->mapper.transform;
    size_t dim = transform->dim;
    if (!back->ahead) bo_linear_back_outputs(back, rows);
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

void bo_linear_back_finish(bo_linear_back *back, const bo_key_rows *rows, float *parameters)
{
    bo_linear *work = &back->linear;
    const bo_row_transform *transform = &work->mapper.transform;
    size_t dim = transform->dim, values = work->value_dim;
    if (work->closed.used) {
        add_direct(work, rows->keys, back->direct, back->dtk);
        bo_row_transform_backward(transform, BO_OF_KEYS, rows->keys, rows->k, rows->ldk, back->dtk, back->dx, dim,
                                  parameters);
    } else {
        add_flow(work, rows->keys, work->fk, back->dfk, back->key_flow);
        through_transform(back, BO_OF_KEYS, rows->keys, rows->k, rows->ldk, work->fk, back->dfk, back->dx, dim,
                          parameters);
    }
    work->kernels->transpose(values, rows->keys, back->dvt, work->chunk, back->dv, values);
}
