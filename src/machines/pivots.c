/* Partial Cholesky factorization of A = √w K √w with random pivots, as a preconditioner of A + λ I (Díaz, Epperly,
 * Frangella, Tropp and Webber, "Robust, randomized preconditioning for kernel ridge regression", arXiv 2304.12465).
 *
 * A pivot i is drawn with a probability proportional to the diagonal of the residual A - F Fᵀ. Pivots are proposed in
 * blocks from the diagonal at the start of the block. A proposal whose diagonal the accepted ones of the block have
 * reduced from d to d' is accepted with probability d'/d, so that accepted pivots are distributed like pivots drawn one
 * by one (Epperly, Tropp and Webber, arXiv 2410.03969). By the Woodbury identity
 *
 *     P⁻¹ v = (v - F (FᵀF + λ I)⁻¹ Fᵀ v) / λ.
 */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/sizes.h"
#include "../device/cpu/kernels.h"
#include "../features/kernel_block.h"
#include "../features/sections.h"
#include "../math/linalg.h"
#include "pivots.h"
#include "row_map.h"

#include <math.h>
#include <string.h>

enum { PROPOSED = BO_SIZE(128, 4), MAX_RANK = BO_SIZE(2048, 24), ROW_BLOCK = BO_SIZE(512, 8), LINES = BO_SIZE(16, 2) };
static const double min_pivot = 1e-4; /* relative to the diagonal of A: below, rounding of F in float32 matters */

size_t bo_pivots_max_rank(size_t rows)
{
    return bo_max(bo_min(rows, PROPOSED), bo_min(rows / 16, MAX_RANK));
}

void bo_pivots_free(bo_pivots *pivots)
{
    void *blocks[] = {pivots->f,       pivots->gram,    pivots->factor, pivots->v,
                      pivots->partial, pivots->against, pivots->sum};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    *pivots = (bo_pivots){0};
}

/* ---- random pivots ----------------------------------------------------------------------------------------------- */

typedef struct draw {
    bo_pivots *pivots;
    const bo_features_desc *map;
    const float *x;
    const double *root;
    bo_rng rng;
    double *diagonal, *left; /* rows: of A, and of A - F Fᵀ */
    size_t proposed, accepted, index[PROPOSED];
    float *chosen;                 /* proposed x dim */
    float *lines;                  /* proposed x rank: rows of F */
    float *square;                 /* proposed x proposed */
    double *lower, *inverse;       /* proposed x proposed: the factor of the square and its inverse */
    float *columns, *inverse_rows; /* rows x proposed, proposed x proposed */
} draw;

static void draw_free(draw *d)
{
    void *blocks[] = {d->diagonal, d->left,    d->chosen,  d->lines,       d->square,
                      d->lower,    d->inverse, d->columns, d->inverse_rows};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status draw_create(bo_pivots *pivots, const bo_features *phi, const double *root, uint64_t seed, draw *d)
{
    bo_context *context = pivots->context;
    const char *label = "the preconditioner";
    const bo_features_desc *map = bo_features_describe(phi);
    size_t n = pivots->rows;
    *d = (draw){.pivots = pivots, .map = map, .x = bo_sections_rows(phi), .root = root};
    d->rng = bo_rng_make(seed, bo_rng_stream("machines.pivots", 0));
    d->diagonal = bo_alloc_raw(context, n, sizeof(double), label);
    d->left = bo_alloc_raw(context, n, sizeof(double), label);
    d->chosen = bo_alloc_raw(context, PROPOSED * map->dim, sizeof(float), label);
    d->lines = bo_alloc_raw(context, PROPOSED * pivots->max_rank, sizeof(float), label);
    d->square = bo_alloc_raw(context, PROPOSED * PROPOSED, sizeof(float), label);
    d->lower = bo_alloc_raw(context, PROPOSED * PROPOSED, sizeof(double), label);
    d->inverse = bo_alloc_raw(context, PROPOSED * PROPOSED, sizeof(double), label);
    d->inverse_rows = bo_alloc_raw(context, PROPOSED * PROPOSED, sizeof(float), label);
    d->columns = bo_alloc_raw(context, n * PROPOSED, sizeof(float), label);
    if (!d->diagonal || !d->left || !d->chosen || !d->lines || !d->square || !d->lower || !d->inverse ||
        !d->inverse_rows || !d->columns)
        return BO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        d->left[i] = d->diagonal[i] = root[i] * root[i] * bo_sections_diagonal(phi, d->x + i * map->dim);
        pivots->trace += d->left[i];
    }
    return BO_OK;
}

/* Proposes rows in ascending order with probabilities proportional to `left`: sorted uniform numbers are made from sums
 * of exponential ones. */
static void propose(draw *d)
{
    size_t n = d->pivots->rows, count = bo_min(PROPOSED, d->pivots->max_rank - d->pivots->rank);
    double at[PROPOSED + 1], total = 0, sum = 0;
    for (size_t k = 0; k <= count; k++) at[k] = total -= log(bo_rng_uniform(&d->rng));
    d->proposed = 0;
    for (size_t i = 0; i < n && d->proposed < count; i++) {
        sum += d->left[i];
        for (; d->proposed < count && at[d->proposed] / total * d->pivots->trace < sum; d->proposed++)
            d->index[d->proposed] = i;
    }
    for (size_t k = d->proposed; k > 1; k--) { /* the order matters for acceptance */
        size_t other = (size_t)bo_rng_below(&d->rng, k), swap = d->index[other];
        d->index[other] = d->index[k - 1], d->index[k - 1] = swap;
    }
}

/* Copies the chosen rows and their rows of F. */
static void gather(draw *d, size_t count)
{
    size_t dim = d->map->dim, rank = d->pivots->rank;
    for (size_t k = 0; k < count; k++) {
        memcpy(d->chosen + k * dim, d->x + d->index[k] * dim, dim * sizeof *d->chosen);
        memcpy(d->lines + k * rank, d->pivots->f + d->index[k] * d->pivots->max_rank, rank * sizeof *d->lines);
    }
}

/* Factorizes A - F Fᵀ for the proposed rows and keeps those that are accepted in `index`. */
static bo_status accept(draw *d)
{
    bo_context *context = d->pivots->context;
    size_t count = d->proposed, dim = d->map->dim, rank = d->pivots->rank, kept = 0;
    gather(d, count);
    BO_TRY(bo_kernel_block(context, d->map, count, d->chosen, dim, count, d->chosen, dim, d->square, count));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            d->square[i * count + j] *= (float)(d->root[d->index[i]] * d->root[d->index[j]]);
    if (rank > 0)
        BO_TRY(
            bo_gemm(context, false, true, count, count, rank, -1, d->lines, rank, d->lines, rank, 1, d->square, count));
    size_t column[PROPOSED];
    for (size_t i = 0; i < count; i++) {
        double *row = d->lower + kept * PROPOSED, left = (double)d->square[i * count + i], full = left;
        for (size_t j = 0; j < kept; j++) {
            const double *other = d->lower + j * PROPOSED;
            double sum = (double)d->square[i * count + column[j]];
            for (size_t k = 0; k < j; k++) sum -= row[k] * other[k];
            row[j] = sum / other[j];
            left -= row[j] * row[j];
        }
        bool large_enough = left > min_pivot * d->diagonal[d->index[i]];
        if (!(bo_rng_uniform(&d->rng) * full < left) || !large_enough) continue;
        row[kept] = sqrt(left);
        d->index[kept] = d->index[i];
        column[kept++] = i;
    }
    d->accepted = kept;
    return BO_OK;
}

static void invert(draw *d)
{
    size_t count = d->accepted;
    memset(d->inverse_rows, 0, count * count * sizeof *d->inverse_rows);
    for (size_t j = 0; j < count; j++)
        for (size_t i = j; i < count; i++) {
            double sum = i == j;
            for (size_t k = j; k < i; k++) sum -= d->lower[i * PROPOSED + k] * d->inverse[k * PROPOSED + j];
            d->inverse[i * PROPOSED + j] = sum / d->lower[i * PROPOSED + i];
            d->inverse_rows[i * count + j] = (float)d->inverse[i * PROPOSED + j];
        }
}

/* Appends columns to F: (A - F Fᵀ)(:, S) L⁻ᵀ for the accepted rows S. */
static bo_status extend(draw *d)
{
    bo_pivots *p = d->pivots;
    size_t n = p->rows, count = d->accepted, dim = d->map->dim;
    gather(d, count);
    invert(d);
    BO_TRY(bo_kernel_block(p->context, d->map, n, d->x, dim, count, d->chosen, dim, d->columns, count));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < count; j++) d->columns[i * count + j] *= (float)(d->root[i] * d->root[d->index[j]]);
    if (p->rank > 0)
        BO_TRY(bo_gemm(p->context, false, true, n, count, p->rank, -1, p->f, p->max_rank, d->lines, p->rank, 1,
                       d->columns, count));
    float *to = p->f + p->rank;
    BO_TRY(bo_gemm(p->context, false, true, n, count, count, 1, d->columns, count, d->inverse_rows, count, 0, to,
                   p->max_rank));
    p->trace = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < count; j++)
            d->left[i] -= (double)to[i * p->max_rank + j] * (double)to[i * p->max_rank + j];
        if (d->left[i] < min_pivot * d->diagonal[i]) d->left[i] = 0;
        p->trace += d->left[i];
    }
    for (size_t j = 0; j < count; j++) p->trace -= d->left[d->index[j]], d->left[d->index[j]] = 0;
    p->rank += count;
    return BO_OK;
}

/* The condition number of P⁻¹(A + λ I) is at most 1 + trace/λ. */
static bo_status choose(bo_pivots *p, const bo_features *phi, const double *root, uint64_t seed)
{
    draw d;
    bo_status status = draw_create(p, phi, root, seed, &d);
    while (status == BO_OK && p->rank < p->max_rank && p->trace > (p->rank ? p->lambda : 0)) {
        status = bo_progress(p->context, "preconditioning", (double)p->rank, (double)p->max_rank);
        propose(&d);
        if (status == BO_OK) status = accept(&d);
        if (status != BO_OK || d.accepted == 0) break;
        status = extend(&d);
    }
    draw_free(&d);
    return status;
}

/* ---- the preconditioner ------------------------------------------------------------------------------------------ */

static bo_status factorize(bo_pivots *p)
{
    if (p->rank == 0) return BO_OK; /* the kernel is 0 */
    memcpy(p->factor, p->gram, p->rank * p->rank * sizeof *p->factor);
    for (size_t i = 0; i < p->rank; i++) p->factor[i * p->rank + i] += p->lambda;
    return bo_cholesky(p->context, p->rank, p->factor, p->rank, NULL);
}

static bo_status prepare(bo_pivots *p)
{
    const char *label = "the preconditioner";
    size_t square = p->rank * p->rank, blocks = bo_ceil_div(p->rows, ROW_BLOCK);
    p->gram = bo_alloc(p->context, square, sizeof(double), label);
    p->factor = bo_alloc_raw(p->context, square, sizeof(double), label);
    p->v = bo_alloc_raw(p->context, p->outputs * p->rows, sizeof(float), label);
    p->partial = bo_alloc_raw(p->context, blocks * p->outputs * p->rank, sizeof(float), label);
    p->against = bo_alloc_raw(p->context, p->outputs * p->rank, sizeof(float), label);
    p->sum = bo_alloc_raw(p->context, p->outputs * p->rank, sizeof(double), label);
    if (!p->gram || !p->factor || !p->v || !p->partial || !p->against || !p->sum) return BO_MEMORY;
    double largest = 0; /* at most: |F|² */
    for (size_t i = 0; i < p->rows; i++)
        for (size_t j = 0; j < p->rank; j++)
            largest += (double)p->f[i * p->max_rank + j] * (double)p->f[i * p->max_rank + j];
    if (p->rank == 0) return BO_OK;
    BO_TRY(bo_gram(p->context, p->rank, p->rows, p->f, p->max_rank, p->gram, p->rank,
                   bo_needs_precision(p->lambda, largest)));
    return factorize(p);
}

bo_status bo_pivots_create(bo_context *context, const bo_features *phi, const double *root, double lambda,
                           size_t outputs, uint64_t seed, bo_pivots *out)
{
    const size_t rows = bo_features_describe(phi)->features;
    *out = (bo_pivots){
        .context = context, .rows = rows, .outputs = outputs, .max_rank = bo_pivots_max_rank(rows), .lambda = lambda};
    out->f = bo_alloc_raw(context, rows * out->max_rank, sizeof(float), "the preconditioner");
    bo_status status = out->f ? choose(out, phi, root, seed) : BO_MEMORY;
    if (status == BO_OK) status = prepare(out);
    if (status != BO_OK) bo_pivots_free(out);
    return status;
}

bo_status bo_pivots_drop(bo_pivots *pivots, size_t count, const size_t *index)
{
    size_t rank = pivots->rank;
    float *rows = bo_alloc_raw(pivots->context, count * rank, sizeof *rows, "the preconditioner");
    double *without = bo_alloc(pivots->context, rank * rank, sizeof *without, "the preconditioner");
    bo_status status = rows && without ? BO_OK : BO_MEMORY;
    for (size_t k = 0; status == BO_OK && k < count; k++) {
        float *row = pivots->f + index[k] * pivots->max_rank;
        memcpy(rows + k * rank, row, rank * sizeof *rows);
        memset(row, 0, rank * sizeof *row);
    }
    if (status == BO_OK && rank > 0) status = bo_gram(pivots->context, rank, count, rows, rank, without, rank, true);
    for (size_t k = 0; status == BO_OK && k < rank * rank; k++) pivots->gram[k] -= without[k];
    bo_free(rows);
    bo_free(without);
    return status == BO_OK ? factorize(pivots) : status;
}

typedef struct apply_job {
    const bo_pivots *pivots;
    const bo_kernels *kernels;
    size_t count;
    const double *v;
    double *out;
} apply_job;

/* Fᵀv of one block of rows. */
static void gather_task(void *arg, size_t block, int worker)
{
    const apply_job *job = arg;
    const bo_pivots *p = job->pivots;
    size_t first = block * ROW_BLOCK, rows = bo_min(ROW_BLOCK, p->rows - first);
    float *to = p->partial + block * job->count * p->rank;
    (void)worker;
    for (size_t t = 0; t < job->count; t++)
        for (size_t i = first; i < first + rows; i++) p->v[t * p->rows + i] = (float)job->v[t * p->rows + i];
    for (size_t i = first; i < first + rows; i += LINES)
        job->kernels->multiply(job->count, p->rank, bo_min(LINES, first + rows - i), p->v + i, p->rows, 1,
                               p->f + i * p->max_rank, p->max_rank, i > first, to, p->rank);
}

/* (v - F u) / λ of one block of rows. */
static void scatter_task(void *arg, size_t block, int worker)
{
    const apply_job *job = arg;
    const bo_pivots *p = job->pivots;
    size_t first = block * ROW_BLOCK, rows = bo_min(ROW_BLOCK, p->rows - first);
    (void)worker;
    job->kernels->dots(rows, job->count, p->rank, p->f + first * p->max_rank, p->max_rank, p->against, p->rank,
                       p->v + first, p->rows);
    for (size_t t = 0; t < job->count; t++)
        for (size_t i = t * p->rows + first; i < t * p->rows + first + rows; i++)
            job->out[i] = (job->v[i] - (double)p->v[i]) / p->lambda;
}

bo_status bo_pivots_solve(bo_pivots *pivots, size_t count, const double *v, double *out)
{
    size_t rank = pivots->rank, blocks = bo_ceil_div(pivots->rows, ROW_BLOCK);
    apply_job job = {pivots, bo_context_kernels(pivots->context), count, v, out};
    for (size_t i = 0; rank == 0 && i < count * pivots->rows; i++) out[i] = v[i] / pivots->lambda;
    if (rank == 0) return BO_OK;
    bo_parallel(pivots->context, blocks, gather_task, &job);
    memset(pivots->sum, 0, count * rank * sizeof *pivots->sum);
    for (size_t block = 0; block < blocks; block++)
        for (size_t t = 0; t < count; t++)
            for (size_t k = 0; k < rank; k++)
                pivots->sum[k * count + t] += (double)pivots->partial[(block * count + t) * rank + k];
    BO_TRY(bo_solve_lower(pivots->context, rank, count, pivots->factor, rank, pivots->sum, count));
    BO_TRY(bo_solve_lower_t(pivots->context, rank, count, pivots->factor, rank, pivots->sum, count));
    for (size_t t = 0; t < count; t++)
        for (size_t k = 0; k < rank; k++) pivots->against[t * rank + k] = (float)pivots->sum[k * count + t];
    bo_parallel(pivots->context, blocks, scatter_task, &job);
    return BO_OK;
}
