/* Ridge attention that is not causal: all queries of a sequence read one pool of keys and values, of the same or
 * another sequence. The sums and the products with them are computed in double.
 *
 *     H = Σ_j β_j k_j k_jᵀ        G = Σ_j β_j k_j v_jᵀ        W = (H + Λ)⁻¹ G        o = Wᵀq
 *
 * This requires one Gram matrix, one Cholesky factor and one product per query. The gradients, with C = Σ q doutᵀ over
 * the queries and P = (H + Λ)⁻¹ C:
 *
 *     dq = W dout        dG = P        dH = -W Pᵀ        dΛ = the diagonal of dH        R = [dG, dHᵀ]
 *     u = R [v, k]        w = Rᵀk        dβ = k·u        dk = β (u + w_k)        dv = β w_v
 *
 * Forming H squares the condition number of the keys. If Λ is too small for that, or if the pool continues a state, the
 * factor is updated with each key instead, as in the causal form. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "parameters.h"
#include "ridge.h"

/* The smallest Λ for which H is formed, relative to the largest diagonal element of H: W then has errors of about dim
 * 2^-53 / 2^-26, less than the rounding of outputs to float32. */
static const double min_ridge = 0x1p-26;

typedef struct pool_work {
    bo_attention_ridge ridge;
    size_t wide;           /* value_dim + dim */
    double *pairs;         /* rows of a chunk: [k, v], [v, k] or dout; chunk x wide */
    double *rows;          /* β k, k or q: chunk x dim */
    double *products;      /* outputs, dq or w: chunk x wide */
    double *weights;       /* W: dim x value_dim */
    void *product_scratch; /* scratch memory of the products */
    double *c, *r, *u;     /* backward: C, then P: dim x value_dim; R: dim x wide; chunk x dim */
    float *slope;          /* backward: gradients of transformed rows: chunk x dim */
    double *square;        /* backward: P Wᵀ: dim x dim */
    const bo_call *call;   /* the call and the task */
    size_t sequence, key_head;
} pool_work;

static pool_work pool_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                           bool backward, bo_carver *carver)
{
    size_t dim = attention->desc.dim, values = attention->desc.value_dim, wide = dim + values,
           rows = bo_max(chunk, dim);
    pool_work work = {.ridge = bo_ridge_make(attention, in, key_head, chunk, attention->group, carver),
                      .wide = wide,
                      .key_head = key_head};
    work.pairs = bo_carve(carver, chunk * wide, sizeof(double));
    work.rows = bo_carve(carver, chunk * dim, sizeof(double));
    work.products = bo_carve(carver, chunk * wide, sizeof(double));
    work.weights = bo_carve(carver, dim * values, sizeof(double));
    work.product_scratch = bo_carve(carver, bo_product64_bytes(attention->kernels, rows, wide, bo_max(rows, wide)), 1);
    if (!backward) return work;
    work.c = bo_carve(carver, dim * values, sizeof(double));
    work.r = bo_carve(carver, dim * wide, sizeof(double));
    work.u = bo_carve(carver, chunk * dim, sizeof(double));
    work.square = bo_carve(carver, dim * dim, sizeof(double));
    work.slope = bo_carve_floats(carver, chunk * dim);
    work.ridge.measures = false;
    return work;
}

size_t bo_ridge_pool_bytes(const bo_attention *attention, const bo_attention_cost *plan, bool backward)
{
    bo_carver carver = {0};
    pool_make(attention, NULL, 0, plan->chunk, backward, &carver);
    return carver.bytes;
}

static pool_work pool_begin(const bo_call *call, size_t sequence, size_t key_head, bool backward, void *scratch)
{
    bo_carver carver = {.at = scratch};
    pool_work work = pool_make(call->attention, call->in, key_head, call->plan.chunk, backward, &carver);
    work.call = call;
    work.sequence = sequence;
    return work;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Writes rows of floats as doubles. */
static void widen(size_t rows, size_t width, const float *from, size_t stride, double *to, size_t ldt)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++) to[i * ldt + j] = (double)from[i * stride + j];
}

static void narrow(size_t rows, size_t width, const double *from, float *to, size_t stride)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++) to[i * stride + j] = (float)from[i * width + j];
}

/* Returns the rows of an array of a query head of the group. */
static bo_rows query_rows(const pool_work *work, const float *array, size_t width, size_t member)
{
    const bo_attention *attention = work->call->attention;
    return bo_rows_at(work->call, array, attention->desc.heads, width, false, work->sequence,
                      work->key_head * attention->group + member);
}

/* Loads the chunk of queries that starts at `first`. False: a value is NaN or infinite. */
static bool load_queries(pool_work *work, size_t member, size_t first, size_t rows)
{
    bo_attention_ridge *ridge = &work->ridge;
    bo_rows q = bo_rows_from(query_rows(work, work->call->in->q, ridge->dim, member), first);
    if (!bo_ridge_rows(ridge, BO_OF_QUERIES, rows, q, ridge->q)) return false;
    widen(rows, ridge->dim, ridge->q, ridge->dim, work->rows, ridge->dim);
    return true;
}

/* Loads the chunk of keys and values that starts at `first`: k to work->rows, v and k to work->pairs, starting at the
 * given columns. False: a value is NaN or infinite. */
static bool load_keys(pool_work *work, const bo_token_rows *at, size_t first, size_t rows, size_t of_v, size_t of_k)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    bo_rows v = bo_rows_from(at->v, first), beta = bo_rows_from(at->beta, first);
    if (!bo_ridge_rows(ridge, BO_OF_KEYS, rows, bo_rows_from(at->k, first), ridge->k) ||
        !bo_rows_finite(ridge->kernels, rows, values, v.at, v.stride))
        return false;
    for (size_t j = 0; j < rows; j++) ridge->beta[j] = beta.at ? beta.at[j * beta.stride] : 1;
    widen(rows, dim, ridge->k, dim, work->rows, dim);
    widen(rows, dim, ridge->k, dim, work->pairs + of_k, work->wide);
    widen(rows, values, v.at, v.stride, work->pairs + of_v, work->wide);
    return true;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Adds a chunk to the sums. */
static bool sum_chunk(pool_work *work, const bo_token_rows *at, size_t first, size_t rows)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim;
    if (!load_keys(work, at, first, rows, dim, 0)) return false;
    for (size_t j = 0; j < rows; j++)
        for (size_t i = 0; i < dim; i++) work->rows[j * dim + i] *= (double)ridge->beta[j];
    bo_product64 product = {.ta = true,
                            .upper = true,
                            .add = true,
                            .m = dim,
                            .n = work->wide,
                            .k = rows,
                            .a = work->rows,
                            .lda = dim,
                            .b = work->pairs,
                            .ldb = work->wide,
                            .c = ridge->exact.sums,
                            .ldc = ridge->exact.width};
    bo_product64_run(ridge->kernels, &product, work->product_scratch);
    return true;
}

/* Updates the factor with a chunk. */
static bool rotate_chunk(pool_work *work, const bo_token_rows *at, size_t first, size_t rows)
{
    if (!bo_ridge_keys(&work->ridge, at, first, rows)) return false;
    bo_ridge_absorb_keys(&work->ridge);
    return true;
}

/* Passes the keys to `use`, chunk by chunk. False: canceled, or a value is NaN or infinite. */
static bool each_chunk(pool_work *work, bool counted,
                       bool (*use)(pool_work *work, const bo_token_rows *at, size_t first, size_t rows))
{
    const bo_call *call = work->call;
    bo_token_rows at = bo_token_rows_at(call, work->sequence, work->key_head);
    size_t keys = call->sequences[work->sequence].keys, chunk = work->ridge.chunk;
    for (size_t first = 0; first < keys; first += chunk) {
        size_t rows = bo_min(chunk, keys - first);
        if (bo_pass_stops(call->watch, counted ? rows : 0) || !use(work, &at, first, rows)) return false;
    }
    return true;
}

/* True if the sums may be factored. */
static bool well_conditioned(const bo_attention_ridge *ridge)
{
    const bo_ridge_exact *exact = &ridge->exact;
    double largest = 0, min_lambda = (double)ridge->lambda[0];
    for (size_t i = 0; i < ridge->dim; i++) {
        largest = fmax(largest, exact->sums[i * exact->width + i]);
        min_lambda = fmin(min_lambda, (double)ridge->lambda[i]);
    }
    return min_lambda >= min_ridge * largest;
}

/* Computes the memory after the keys. */
static bool gather(pool_work *work)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    void *initial = call->initial ? (void *)call->initial[work->sequence] : NULL;
    bool from_zero = !initial && call->sequences[work->sequence].keys;
    if (from_zero) {
        memset(ridge->exact.sums, 0, ridge->dim * ridge->exact.width * sizeof *ridge->exact.sums);
        memset(ridge->exact.zeros, 0, ridge->exact.width * sizeof *ridge->exact.zeros);
        ridge->exact.rounding = 0x1p-50;
        if (!each_chunk(work, true, sum_chunk)) return false;
        if (well_conditioned(ridge)) {
            bo_ridge_fit(ridge);
            return true;
        }
    }
    ridge->exact.rounding = 0x1p-24;
    bo_ridge_begin(ridge, initial ? bo_state_memory(call->attention, initial, work->key_head) : NULL);
    return each_chunk(work, !from_zero, rotate_chunk);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void find_weights(pool_work *work)
{
    bo_attention_ridge *ridge = &work->ridge;
    bo_ridge_factor_weights(bo_ridge_factor_of(ridge), ridge->kernels, ridge->value_dim, work->weights,
                            ridge->exact.side);
}

/* Measures the residual of the columns of W in the systems with the state's H and G. */
static void measure_weights(pool_work *work)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    const float *g = ridge->memory, *h = bo_ridge_h(ridge);
    for (size_t c = 0; c < values; c++) {
        double residual = 0, norm = 0;
        for (size_t i = 0; i < dim; i++) {
            double side = (double)g[i * values + c],
                   left = (double)ridge->lambda[i] * work->weights[i * values + c] - side;
            for (size_t j = 0; j < dim; j++) left += (double)h[i * dim + j] * work->weights[j * values + c];
            residual += left * left;
            norm += side * side;
        }
        if (norm > 0) ridge->solves.largest_residual = fmax(ridge->solves.largest_residual, sqrt(residual / norm));
    }
}

/* Computes o = Wᵀq of a chunk. False: a value is NaN or infinite. */
static bool output_chunk(pool_work *work, size_t member, size_t first, size_t rows)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    bo_rows out = bo_rows_from(query_rows(work, work->call->out, values, member), first);
    if (!load_queries(work, member, first, rows)) return false;
    bo_product64 product = {.m = rows,
                            .n = values,
                            .k = dim,
                            .a = work->rows,
                            .lda = dim,
                            .b = work->weights,
                            .ldb = values,
                            .c = work->products,
                            .ldc = values};
    bo_product64_run(ridge->kernels, &product, work->product_scratch);
    narrow(rows, values, work->products, out.at, out.stride);
    return bo_rows_finite(ridge->kernels, rows, values, out.at, out.stride);
}

static bool compute_outputs(pool_work *work)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    size_t queries = call->sequences[work->sequence].queries, chunk = ridge->chunk;
    if (!queries) return true;
    find_weights(work);
    ridge->solves.systems += ridge->value_dim;
    if (ridge->measures) measure_weights(work);
    for (size_t first = 0; first < queries; first += chunk) {
        size_t rows = bo_min(chunk, queries - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        for (size_t g = 0; g < call->attention->group; g++)
            if (!output_chunk(work, g, first, rows)) return false;
    }
    return true;
}

void bo_ridge_pool_forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    pool_work work = pool_begin(call, sequence, key_head, false, scratch);
    size_t bytes = bo_ridge_memory(attention) * sizeof(float);
    if (!gather(&work) || !bo_ridge_finite(&work.ridge) || !compute_outputs(&work)) {
        bo_note_stop(call);
        return;
    }
    if (call->tape.top) memcpy(bo_tape_memory(call, sequence, key_head, 0), work.ridge.memory, bytes);
    if (call->final && call->sequences[sequence].keys) /* a state that was only read does not change */
        memcpy(bo_state_memory(attention, call->final[sequence], key_head), work.ridge.memory, bytes);
    bo_ridge_report(call->in->solves, &work.ridge.solves);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Adds the chunk's queries to C and computes their gradients. False: a value is NaN or infinite. */
static bool back_queries(pool_work *work, size_t member, size_t first, size_t rows)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    bo_rows q = bo_rows_from(query_rows(work, call->in->q, dim, member), first),
            dq = bo_rows_from(query_rows(work, call->gradients->q, dim, member), first),
            dout = bo_rows_from(query_rows(work, call->dout, values, member), first);
    if (!load_queries(work, member, first, rows) || !bo_rows_finite(ridge->kernels, rows, values, dout.at, dout.stride))
        return false;
    widen(rows, values, dout.at, dout.stride, work->pairs, values);
    bo_product64 sum = {.ta = true,
                        .add = true,
                        .m = dim,
                        .n = values,
                        .k = rows,
                        .a = work->rows,
                        .lda = dim,
                        .b = work->pairs,
                        .ldb = values,
                        .c = work->c,
                        .ldc = values};
    bo_product64_run(ridge->kernels, &sum, work->product_scratch);
    if (!dq.at) return true;
    bo_product64 pull = {.tb = true,
                         .m = rows,
                         .n = dim,
                         .k = values,
                         .a = work->pairs,
                         .lda = values,
                         .b = work->weights,
                         .ldb = values,
                         .c = work->products,
                         .ldc = dim};
    bo_product64_run(ridge->kernels, &pull, work->product_scratch);
    narrow(rows, dim, work->products, work->slope, dim);
    bo_row_transform_backward(&ridge->transform, BO_OF_QUERIES, rows, q.at, q.stride, work->slope, dq.at, dq.stride,
                              NULL);
    return true;
}

/* Computes R of the queries, and adds to dΛ. */
static void pull_sums(pool_work *work, float *dlambda)
{
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    bo_ridge_factor_solve_columns(bo_ridge_factor_of(ridge), ridge->kernels, values, work->c, ridge->exact.side);
    bo_product64 product = {.tb = true,
                            .m = dim,
                            .n = dim,
                            .k = values,
                            .a = work->c,
                            .lda = values,
                            .b = work->weights,
                            .ldb = values,
                            .c = work->square,
                            .ldc = dim};
    bo_product64_run(ridge->kernels, &product, work->product_scratch);
    for (size_t i = 0; i < dim; i++) {
        double *r = work->r + i * work->wide;
        for (size_t j = 0; j < values; j++) r[j] += work->c[i * values + j];
        for (size_t j = 0; j < dim; j++) r[values + j] -= work->square[i * dim + j];
        dlambda[i] -= (float)work->square[i * dim + i];
    }
}

static bool back_all_queries(pool_work *work, float *parameters)
{
    const bo_call *call = work->call;
    bo_attention_ridge *ridge = &work->ridge;
    size_t queries = call->sequences[work->sequence].queries, chunk = ridge->chunk;
    if (!call->dout || !queries) return true;
    ridge->memory = bo_tape_memory(call, work->sequence, work->key_head, 0);
    find_weights(work);
    memset(work->c, 0, ridge->dim * ridge->value_dim * sizeof *work->c);
    for (size_t first = 0; first < queries; first += chunk) {
        size_t rows = bo_min(chunk, queries - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        for (size_t g = 0; g < call->attention->group; g++)
            if (!back_queries(work, g, first, rows)) return false;
    }
    pull_sums(work, parameters + bo_parameter_offset(call->attention, BO_PARAMETER_LAMBDA));
    return true;
}

/* Computes u and w of a chunk of keys. */
static void pull_keys(pool_work *work, size_t rows)
{
    const bo_kernels *kernels = work->ridge.kernels;
    size_t dim = work->ridge.dim, wide = work->wide;
    bo_product64 u = {.tb = true,
                      .m = rows,
                      .n = dim,
                      .k = wide,
                      .a = work->pairs,
                      .lda = wide,
                      .b = work->r,
                      .ldb = wide,
                      .c = work->u,
                      .ldc = dim};
    bo_product64 w = {.m = rows,
                      .n = wide,
                      .k = dim,
                      .a = work->rows,
                      .lda = dim,
                      .b = work->r,
                      .ldb = wide,
                      .c = work->products,
                      .ldc = wide};
    bo_product64_run(kernels, &u, work->product_scratch);
    bo_product64_run(kernels, &w, work->product_scratch);
}

/* Computes the gradients of a chunk of keys from u and w. */
static void write_key_gradients(pool_work *work, const bo_token_rows *at, size_t first, size_t rows)
{
    const bo_call *call = work->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *to = call->gradients;
    bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim, sequence = work->sequence, head = work->key_head;
    bo_rows dk = bo_rows_from(bo_rows_at(call, to->k, d->key_heads, dim, true, sequence, head), first);
    bo_rows dv = bo_rows_from(bo_rows_at(call, to->v, d->key_heads, values, true, sequence, head), first);
    bo_rows dbeta = bo_rows_from(bo_rows_at(call, to->beta, d->key_heads, 1, true, sequence, head), first);
    for (size_t j = 0; j < rows; j++) {
        const double *u = work->u + j * dim, *w = work->products + j * work->wide, *k = work->rows + j * dim;
        double beta = (double)ridge->beta[j], along = 0;
        for (size_t i = 0; i < dim; i++) {
            along += k[i] * u[i];
            work->slope[j * dim + i] = (float)(beta * (u[i] + w[values + i]));
        }
        if (dbeta.at) dbeta.at[j * dbeta.stride] = (float)along;
        for (size_t i = 0; dv.at && i < values; i++) dv.at[j * dv.stride + i] = (float)(beta * w[i]);
    }
    bo_rows k = bo_rows_from(at->k, first);
    if (dk.at)
        bo_row_transform_backward(&ridge->transform, BO_OF_KEYS, rows, k.at, k.stride, work->slope, dk.at, dk.stride,
                                  NULL);
}

static bool back_chunk(pool_work *work, const bo_token_rows *at, size_t first, size_t rows)
{
    if (!load_keys(work, at, first, rows, 0, work->ridge.value_dim)) return false;
    pull_keys(work, rows);
    write_key_gradients(work, at, first, rows);
    return true;
}

/* Sets R to the gradient of the final state. */
static void begin_gradient(pool_work *work)
{
    const bo_call *call = work->call;
    const bo_attention_ridge *ridge = &work->ridge;
    size_t dim = ridge->dim, values = ridge->value_dim;
    memset(work->r, 0, dim * work->wide * sizeof *work->r);
    if (!call->d_final) return;
    const float *from = bo_memory_gradient(call->attention, call->d_final[work->sequence], work->key_head);
    for (size_t i = 0; i < dim; i++) {
        double *r = work->r + i * work->wide;
        for (size_t j = 0; j < values; j++) r[j] = (double)from[i * values + j];
        for (size_t j = 0; j < dim; j++) r[values + j] = (double)from[dim * values + j * dim + i];
    }
}

static void write_initial_gradients(const pool_work *work)
{
    const bo_call *call = work->call;
    size_t dim = work->ridge.dim, values = work->ridge.value_dim;
    if (!call->gradients->initial) return;
    float *to = bo_memory_gradient(call->attention, call->gradients->initial[work->sequence], work->key_head);
    for (size_t i = 0; i < dim; i++) {
        const double *r = work->r + i * work->wide;
        for (size_t j = 0; j < values; j++) to[i * values + j] = (float)r[j];
        for (size_t j = 0; j < dim; j++) to[dim * values + j * dim + i] = (float)r[values + j];
    }
}

void bo_ridge_pool_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    pool_work work = pool_begin(call, sequence, key_head, true, scratch);
    begin_gradient(&work);
    if (!back_all_queries(&work, parameters) || !each_chunk(&work, true, back_chunk)) bo_note_stop(call);
    write_initial_gradients(&work);
}
