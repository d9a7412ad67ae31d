/* k(x_i, y_j) for whole matrices: tiles of inner products by GEMM in float64, then the closed form for each element.
 * Kernels of coordinate-wise distances use direct loops. The tile size limits the memory. */
#include <math.h>
#include "internal.h"

/* Rows of a tile: at most TILE_ROWS, fewer if they would exceed TILE_BYTES, at least one. */
enum { TILE_ROWS = BO_SIZE(512, 4), TILE_BYTES = BO_SIZE(4 << 20, 256) };

typedef struct facts {
    double norm, sum; /* the members of bo_pair that depend on one row */
} facts;

typedef struct side {
    size_t rows, stride;
    size_t tile; /* rows of a tile */
    const float *x;
    double *t;   /* tile x columns: scaled and lifted rows of the current tile */
    facts *fact; /* one per row of t */
} side;

typedef struct matrix_job {
    const bo_features_desc *desc;
    const bo_kernel_definition *kernel;
    const double *factor, *center;
    size_t columns; /* columns of a lifted row */
    side *left, *right, *filling;
    size_t first_left, first_right, count_right;
    double *k; /* the whole matrix */
    size_t ldk;
} matrix_job;

/* ---- kernels of inner products and distances --------------------------------------------------------------------- */

/* Distances do not change if both sides are centered, and centering reduces cancellation. */
static void scale_task(void *arg, size_t row, int worker)
{
    const matrix_job *job = arg;
    const side *s = job->filling;
    size_t dim = job->desc->dim, first = s == job->left ? job->first_left : job->first_right;
    const float *x = s->x + (first + row) * s->stride;
    double *t = s->t + row * job->columns, other, top = 0;
    facts fact = {0};
    (void)worker;
    for (size_t j = 0; j < dim; j++) {
        t[j] = ((double)x[j] - job->center[j]) * job->factor[j];
        top = fmax(top, fabs(t[j]));
    }
    for (size_t j = 0; j < dim; j++) {
        t[j] = bo_lift(job->kernel->form, t[j], top, &other);
        if (job->columns > dim) t[dim + j] = other;
        fact.norm += t[j] * t[j];
        fact.sum += t[j] + other;
    }
    s->fact[row] = fact;
}

static double direct_distance2(const double *a, const double *b, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

static void value_task(void *arg, size_t row, int worker)
{
    const matrix_job *job = arg;
    size_t dim = job->desc->dim;
    const double *t = job->left->t + row * job->columns;
    double *k = job->k + (job->first_left + row) * job->ldk + job->first_right;
    (void)worker;
    const facts x = job->left->fact[row];
    for (size_t j = 0; j < job->count_right; j++) {
        const facts y = job->right->fact[j];
        bo_pair pair = {.dot = k[j], .norm_x = x.norm, .norm_y = y.norm, .sum_x = x.sum, .sum_y = y.sum};
        if (job->kernel->form == BO_FORM_DISTANCE || job->kernel->form == BO_FORM_BOTH) {
            /* close pairs are recomputed term by term: exactly 0 for equal rows, without cancellation */
            pair.distance2 = pair.norm_x + pair.norm_y - 2 * pair.dot;
            if (pair.distance2 < 1e-6 * (pair.norm_x + pair.norm_y))
                pair.distance2 = direct_distance2(t, job->right->t + j * dim, dim);
        }
        k[j] = job->kernel->value(job->desc, &pair);
    }
}

/* The rows of the tile that starts at row `first`. */
static size_t tile_rows(const side *s, size_t first)
{
    return s->rows - first < s->tile ? s->rows - first : s->tile;
}

static bo_status gram_tiles(bo_context *context, matrix_job *job)
{
    size_t columns = job->columns;
    for (job->first_left = 0; job->first_left < job->left->rows; job->first_left += job->left->tile) {
        size_t left = tile_rows(job->left, job->first_left);
        job->filling = job->left;
        bo_parallel(context, left, scale_task, job);
        for (job->first_right = 0; job->first_right < job->right->rows; job->first_right += job->right->tile) {
            size_t right = job->count_right = tile_rows(job->right, job->first_right);
            job->filling = job->right;
            bo_parallel(context, right, scale_task, job);
            BO_TRY(bo_gemm64(context, false, true, left, right, columns, 1, job->left->t, columns, job->right->t,
                             columns, 0, job->k + job->first_left * job->ldk + job->first_right, job->ldk));
            bo_parallel(context, left, value_task, job);
        }
    }
    return BO_OK;
}

/* ---- kernels of coordinates -------------------------------------------------------------------------------------- */

enum { LANES = 8 };

/* Returns Σ |x - y| factor. A difference of floats is exact to its last digit, so float is enough for the terms; sums
 * of 64 terms are added in double. */
static double distance1(const float *x, const float *y, const float *factor, size_t dim)
{
    double total = 0;
    for (size_t j = 0; j < dim; j += 64) {
        size_t end = j + 64 < dim ? j + 64 : dim, i = j;
        float lanes[LANES] = {0};
        for (; i + LANES <= end; i += LANES)
            for (size_t l = 0; l < LANES; l++) lanes[l] += fabsf(x[i + l] - y[i + l]) * factor[i + l];
        for (; i < end; i++) lanes[0] += fabsf(x[i] - y[i]) * factor[i];
        for (size_t l = 0; l < LANES; l++) total += (double)lanes[l];
    }
    return total;
}

static double product(const float *x, const float *y, const double *factor, double gamma, size_t dim)
{
    double lanes[4] = {1, 1, 1, 1};
    size_t i = 0;
    for (; i + 4 <= dim; i += 4)
        for (size_t l = 0; l < 4; l++) {
            double d = ((double)x[i + l] - (double)y[i + l]) * factor[i + l] * gamma;
            lanes[l] *= 1 + d * d;
        }
    for (; i < dim; i++) {
        double d = ((double)x[i] - (double)y[i]) * factor[i] * gamma;
        lanes[0] *= 1 + d * d;
    }
    return lanes[0] * lanes[1] * lanes[2] * lanes[3];
}

/* Does not use features: their exponents may be out of range when the sum is not. */
static double cosh_sum(const float *x, const float *y, const double *factor, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += 2 * cosh(((double)x[j] + (double)y[j]) * factor[j]);
    return sum;
}

typedef struct direct_job {
    const matrix_job *job;
    const float *factor;
} direct_job;

static void direct_task(void *arg, size_t row, int worker)
{
    const direct_job *direct = arg;
    const matrix_job *job = direct->job;
    const bo_features_desc *desc = job->desc;
    const float *x = job->left->x + row * job->left->stride;
    (void)worker;
    for (size_t j = 0; j < job->right->rows; j++) {
        const float *y = job->right->x + j * job->right->stride;
        bo_pair pair = {0};
        if (job->kernel->form == BO_FORM_L1)
            pair.distance1 = distance1(x, y, direct->factor, desc->dim);
        else if (job->kernel->form == BO_FORM_COSH)
            pair.dot = cosh_sum(x, y, job->factor, desc->dim);
        else
            pair.product = product(x, y, job->factor, desc->gamma, desc->dim);
        job->k[row * job->ldk + j] = job->kernel->value(desc, &pair);
    }
}

static bo_status direct_rows(bo_context *context, matrix_job *job)
{
    float *factor = bo_alloc_raw(context, job->desc->dim, sizeof *factor, "a kernel matrix");
    if (!factor) return BO_MEMORY;
    for (size_t j = 0; j < job->desc->dim; j++) factor[j] = (float)job->factor[j];
    direct_job direct = {job, factor};
    bo_parallel(context, job->left->rows, direct_task, &direct);
    bo_free(factor);
    return BO_OK;
}

/* ---- all kernels ------------------------------------------------------------------------------------------------- */

static void find_center(const matrix_job *job, double *center)
{
    size_t rows = job->right->rows < TILE_ROWS ? job->right->rows : TILE_ROWS;
    for (size_t j = 0; j < job->desc->dim; j++) {
        double sum = 0;
        for (size_t i = 0; job->kernel->form == BO_FORM_DISTANCE && i < rows; i++)
            sum += (double)job->right->x[i * job->right->stride + j];
        center[j] = sum / (double)rows;
    }
}

/* Allocates the tile of one side. */
static bo_status make_tile(bo_context *context, size_t columns, side *s)
{
    size_t max_rows = TILE_BYTES / sizeof(double) / columns;
    s->tile = max_rows < 1 ? 1 : max_rows > TILE_ROWS ? TILE_ROWS : max_rows;
    if (s->tile > s->rows) s->tile = s->rows;
    s->t = bo_alloc_raw(context, s->tile * columns, sizeof *s->t, "tiles of a kernel matrix");
    s->fact = bo_alloc_raw(context, s->tile, sizeof *s->fact, "tiles of a kernel matrix");
    return s->t && s->fact ? BO_OK : BO_MEMORY;
}

static void free_tile(side *s)
{
    bo_free(s->t);
    bo_free(s->fact);
}

static bo_status fill_matrix(bo_context *context, matrix_job *job)
{
    bo_form form = job->kernel->form;
    if (form == BO_FORM_L1 || form == BO_FORM_PRODUCT || form == BO_FORM_COSH) return direct_rows(context, job);
    job->columns = bo_lifted_columns(form, job->desc->dim);
    bo_status status = make_tile(context, job->columns, job->left);
    if (status == BO_OK) status = make_tile(context, job->columns, job->right);
    if (status == BO_OK) status = gram_tiles(context, job);
    free_tile(job->left);
    free_tile(job->right);
    return status;
}

static bo_status run_matrix(bo_context *context, matrix_job *job)
{
    size_t dim = job->desc->dim;
    double *vectors = bo_alloc_raw(context, 2 * dim, sizeof(double), "a kernel matrix");
    bo_status status = vectors ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        double *factor = vectors, *center = vectors + dim;
        bo_input_factors(job->desc, factor);
        find_center(job, center);
        job->factor = factor;
        job->center = center;
        status = fill_matrix(context, job);
    }
    bo_free(vectors);
    return status;
}

bo_status bo_kernel_matrix(bo_context *context, const bo_features_desc *desc, size_t rows_x, const float *x, size_t ldx,
                           size_t rows_y, const float *y, size_t ldy, double *k, size_t ldk)
{
    BO_REQUIRE(context, desc);
    BO_REQUIRE_IF(context, rows_x > 0 && rows_y > 0, x, y, k);
    bo_features_desc resolved;
    BO_TRY(bo_kernel_resolve(context, desc, &resolved));
    const bo_kernel_definition *kernel = bo_kernel_find(resolved.kernel);
    if (kernel->form == BO_FORM_NONE)
        return bo_fail(context, BO_UNSUPPORTED, "kernel %s has no closed form: it is defined only by its features",
                       kernel->name);
    if (rows_x == 0 || rows_y == 0) return BO_OK;
    if (ldx < resolved.dim || ldy < resolved.dim || ldk < rows_y)
        return bo_fail(
            context, BO_INVALID,
            "kernel matrix: ldx, ldy and ldk are %zu, %zu and %zu; expected at least dim = %zu for ldx and ldy and "
            "rows_y = %zu for ldk",
            ldx, ldy, ldk, resolved.dim, rows_y);
    side left = {.rows = rows_x, .stride = ldx, .x = x}, right = {.rows = rows_y, .stride = ldy, .x = y};
    matrix_job job = {.desc = &resolved, .kernel = kernel, .left = &left, .right = &right, .k = k, .ldk = ldk};
    return run_matrix(context, &job);
}
