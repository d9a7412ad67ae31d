/* Solvers of the systems of ridge attention: a factor that is updated with each token, conjugate gradients, and direct
 * solves. */
#include <math.h>
#include <string.h>
#include "ridge.h"

/* ---- the factor -------------------------------------------------------------------------------------------------- */

/* The factor of H + Λ, which is updated by Givens rotations: recursive least squares by QR. It never subtracts, so
 * double precision is preserved for any number of tokens. The rows of [U T] and a token √β [k v] are rotated into each
 * other until the token's first dim numbers are 0:
 *
 *     UᵀU + β k kᵀ = U'ᵀU'        UᵀT + β k vᵀ = U'ᵀT'
 *
 * Tokens are processed in blocks, row by row: the lengths of a row after each token of the block are roots of sums of
 * squares, so that all rotations of a row are computed together. */

/* Columns before the diagonal's group of LANES are not stored. */
enum { LANES = 8 };

static size_t first_column(size_t row)
{
    return row / LANES * LANES;
}

size_t bo_ridge_width(size_t dim, size_t tail)
{
    return (dim + tail + LANES - 1) / LANES * LANES;
}

/* Returns the index at which row i starts: i rows, minus the omitted columns of all earlier groups of rows. */
static size_t row_start(size_t width, size_t i)
{
    size_t group = i / LANES;
    return i * width - LANES * group * (LANES * (group - (group > 0)) / 2 + i % LANES);
}

size_t bo_ridge_factor_numbers(size_t dim, size_t width)
{
    return row_start(width, dim);
}

/* Returns a pointer such that column j of row i is at [j]. */
static double *row_at(bo_ridge_factor factor, size_t i)
{
    return factor.rows + row_start(factor.width, i) - first_column(i);
}

/* ---- from sums --------------------------------------------------------------------------------------------------- */

/* Writes H + Λ and M, with the diagonal of H increased by a fraction. */
static void begin_rows(bo_ridge_factor factor, size_t values, const bo_ridge_exact *exact, const float *lambda,
                       double raise)
{
    size_t dim = factor.dim;
    memset(factor.rows, 0, bo_ridge_factor_numbers(dim, factor.width) * sizeof *factor.rows);
    for (size_t i = 0; i < dim; i++) {
        double *row = row_at(factor, i);
        memcpy(row + i, exact->sums + i * exact->width + i, (dim - i) * sizeof *row);
        row[i] += (double)lambda[i] + raise * fabs(row[i]);
        memcpy(row + dim, exact->sums + i * exact->width + dim, values * sizeof *row);
    }
}

/* Subtracts the finished row i from the rows below, which have equal strides within a group. */
static void eliminate(bo_ridge_factor factor, const bo_ridge_exact *exact, const bo_kernels *kernels, size_t i)
{
    static const double one = 1, zero = 0;
    double *row = row_at(factor, i);
    for (size_t j = i + 1, end; j < factor.dim; j = end) {
        size_t first = first_column(j), width = factor.width - first;
        end = bo_min(first + LANES, factor.dim);
        kernels->rotate(width, 1, &one, &zero, row + first, exact->zeros, 0, end - j, row + j,
                        row_at(factor, j) + first, width);
    }
}

/* Turns the rows from begin_rows into the factor. False: a pivot was less than the diagonal of Λ, which is impossible
 * for H >= 0. */
static bool factorize(bo_ridge_factor factor, const bo_ridge_exact *exact, const bo_kernels *kernels,
                      const float *lambda)
{
    bool definite = true;
    for (size_t i = 0; i < factor.dim; i++) {
        double *row = row_at(factor, i), min_pivot = (double)lambda[i];
        definite = definite && row[i] >= min_pivot / 2;
        double pivot = sqrt(fmax(row[i], min_pivot));
        row[i] = pivot;
        for (size_t j = first_column(i); j < i; j++) row[j] = 0;
        for (size_t j = i + 1; j < factor.width; j++) row[j] *= 1 / pivot;
        eliminate(factor, exact, kernels, i);
    }
    return definite;
}

/* Rounding changes H, as a quadratic form, by at most dim times the rounding error of its diagonal. If that made H + Λ
 * indefinite, the same amount is added back. */
void bo_ridge_factor_fit(bo_ridge_factor factor, size_t values, const bo_ridge_exact *exact, const bo_kernels *kernels,
                         const float *lambda)
{
    double raise = 0;
    do {
        begin_rows(factor, values, exact, lambda, raise);
        if (factorize(factor, exact, kernels, lambda)) return;
        raise = raise > 0 ? 4 * raise : (double)factor.dim * exact->rounding;
    } while (raise < 1);
}

void bo_ridge_factor_invert(bo_ridge_factor factor, bo_ridge_factor from)
{
    size_t dim = factor.dim;
    memset(factor.rows, 0, bo_ridge_factor_numbers(dim, factor.width) * sizeof *factor.rows);
    for (size_t i = 0; i < dim; i++) {
        memcpy(row_at(factor, i) + i, row_at(from, i) + i, (dim - i) * sizeof(double));
        row_at(factor, i)[dim + i] = 1;
    }
    for (size_t i = 0; i < dim; i++) {
        double *row = row_at(factor, i);
        for (size_t c = dim; c < factor.width; c++) row[c] /= row[i];
        for (size_t j = i + 1; j < dim; j++)
            for (size_t c = dim; c < factor.width; c++) row_at(factor, j)[c] -= row[j] * row[c];
    }
}

void bo_ridge_factor_solve(bo_ridge_factor factor, double *x)
{
    for (size_t i = 0; i < factor.dim; i++) {
        const double *row = row_at(factor, i);
        x[i] /= row[i];
        for (size_t j = i + 1; j < factor.dim; j++) x[j] -= x[i] * row[j];
    }
    for (size_t i = factor.dim; i-- > 0;) {
        const double *row = row_at(factor, i);
        for (size_t j = i + 1; j < factor.dim; j++) x[i] -= row[j] * x[j];
        x[i] /= row[i];
    }
}

/* Replaces x (dim x columns) by U⁻¹x, row by row from the last. scratch stores a row of -U. */
static void back_substitute(bo_ridge_factor factor, const bo_kernels *kernels, size_t columns, double *x,
                            double *scratch)
{
    size_t dim = factor.dim;
    for (size_t i = dim; i-- > 0;) {
        const double *row = row_at(factor, i);
        double *to = x + i * columns;
        for (size_t j = i + 1; j < dim; j++) scratch[j] = -row[j];
        kernels->combine64(dim - i - 1, columns, to + columns, columns, scratch + i + 1, to);
        for (size_t c = 0; c < columns; c++) to[c] /= row[i];
    }
}

void bo_ridge_factor_solve_columns(bo_ridge_factor factor, const bo_kernels *kernels, size_t columns, double *x,
                                   double *scratch)
{
    for (size_t i = 0; i < factor.dim; i++) {
        double *to = x + i * columns;
        for (size_t j = 0; j < i; j++) scratch[j] = -row_at(factor, j)[i];
        kernels->combine64(i, columns, x, columns, scratch, to);
        for (size_t c = 0; c < columns; c++) to[c] /= row_at(factor, i)[i];
    }
    back_substitute(factor, kernels, columns, x, scratch);
}

void bo_ridge_factor_weights(bo_ridge_factor factor, const bo_kernels *kernels, size_t columns, double *w,
                             double *scratch)
{
    for (size_t i = 0; i < factor.dim; i++)
        memcpy(w + i * columns, row_at(factor, i) + factor.dim, columns * sizeof *w);
    back_substitute(factor, kernels, columns, w, scratch);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

bo_ridge_block bo_ridge_block_make(size_t width, size_t sides, bo_carver *carver)
{
    bo_ridge_block block = {.width = width, .sides = sides};
    block.tokens = bo_carve(carver, BO_RIDGE_BLOCK * width, sizeof(double));
    block.rhs = bo_carve(carver, BO_RIDGE_BLOCK * sides * width, sizeof(double));
    block.c = bo_carve(carver, BO_RIDGE_BLOCK, sizeof(double));
    block.s = bo_carve(carver, BO_RIDGE_BLOCK, sizeof(double));
    block.z = bo_carve(carver, BO_RIDGE_BLOCK * sides, sizeof(double));
    return block;
}

/* Computes c, s and z of row i for every token of the block. Returns the new diagonal element of the row. A token that
 * is 0 in this column leaves all bits of the row unchanged. Roots and quotients are computed in loops that compilers
 * vectorize. */
static double turn(const bo_ridge_block *block, size_t count, size_t i, double length)
{
    size_t width = block->width, sides = block->sides;
    double x[BO_RIDGE_BLOCK], squares = length * length;
    double lengths[BO_RIDGE_BLOCK + 1], inverses[BO_RIDGE_BLOCK]; /* lengths[t]: before token t */
    for (size_t t = 0; t < BO_RIDGE_BLOCK; t++) {
        x[t] = t < count ? block->tokens[t * width + i] : 0;
        squares += x[t] * x[t];
        lengths[t + 1] = squares;
    }
    lengths[0] = length;
    for (size_t t = 1; t <= BO_RIDGE_BLOCK; t++) lengths[t] = sqrt(lengths[t]);
    for (size_t t = 0; t < BO_RIDGE_BLOCK; t++) lengths[t + 1] = x[t] != 0 ? lengths[t + 1] : lengths[t];
    for (size_t t = 0; t < BO_RIDGE_BLOCK; t++) inverses[t] = 1 / lengths[t + 1];
    for (size_t t = 0; t < count; t++) {
        block->c[t] = x[t] != 0 ? lengths[t] * inverses[t] : 1;
        block->s[t] = x[t] != 0 ? x[t] * inverses[t] : 0;
        for (size_t a = t * sides; a < (t + 1) * sides; a++) block->z[a] = block->rhs[a * width + i] * inverses[t];
    }
    return lengths[count];
}

void bo_ridge_factor_update(bo_ridge_factor factor, const bo_kernels *kernels, const bo_ridge_block *block,
                            size_t count)
{
    for (size_t i = 0; i < factor.dim; i++) {
        size_t first = first_column(i);
        double *row = row_at(factor, i), length = turn(block, count, i, row[i]);
        kernels->rotate(factor.width - first, count, block->c, block->s, row + first, block->tokens + first,
                        block->width, block->sides, block->z, block->rhs + first, block->width);
        row[i] = length;
    }
}

/* ---- conjugate gradients ----------------------------------------------------------------------------------------- */

/* Conjugate gradients for all systems (H_i + Λ) x_i = q_i of a chunk together: step sizes are per row, but the products
 * H_i p_i are matrix products. The preconditioner is the diagonal. The iteration starts at x = 0; its first step is the
 * best multiple of q / diagonal. The bits of a row do not depend on the other rows. */

static const double min_diagonal = 1e-30; /* its inverse is finite in float */

/* Factor of the tolerance by which rounding may increase the true residual over that of the recurrence. */
enum { SLACK = 10 };

void bo_ridge_precondition(bo_attention_ridge *work)
{
    size_t dim = work->dim;
    const float *h = bo_ridge_h(work);
    work->absorbed = 0;
    for (size_t j = 0; j < dim; j++) work->diagonal[j] = (double)h[j * dim + j];
    for (size_t i = 0; i < work->rows; i++) {
        double gate = exp(work->b[i + 1] - work->b[i]);
        for (size_t j = 0; j < dim; j++) {
            size_t at = i * dim + j;
            if (i < work->keys)
                work->diagonal[j] = gate * work->diagonal[j] + (double)work->kb[at] * (double)work->k[at];
            work->inverse[at] = (float)(1 / fmax(work->diagonal[j] + (double)work->lambda[j], min_diagonal));
        }
    }
}

/* Computes hp = (H_i + Λ) p_i for the rows in `active`. */
static void apply(const bo_attention_ridge *work, size_t count, const float *p)
{
    bo_ridge_sums sums = {
        .m = bo_ridge_h(work), .at = work->kt, .c = work->kb, .width = work->dim, .out_width = work->dim};
    bo_ridge_product(work, &sums, count, work->active, p, work->hp, work->dim);
    for (size_t s = 0; s < count; s++)
        for (size_t j = 0; j < work->dim; j++) work->hp[s * work->dim + j] += work->lambda[j] * p[s * work->dim + j];
}

/* Computes z = r / diagonal and returns r·z. */
static double precondition(const bo_attention_ridge *work, size_t row)
{
    const float *r = work->r + row * work->dim, *inverse = work->inverse + row * work->dim;
    for (size_t j = 0; j < work->dim; j++) work->z[j] = inverse[j] * r[j];
    return work->kernels->dot(work->dim, r, work->z);
}

/* Computes the first direction of every row that has not converged yet. Returns their number. */
static size_t begin(bo_attention_ridge *work, const float *q, float *x)
{
    size_t dim = work->dim, count = 0;
    double tolerance = work->attention->desc.tolerance;
    memset(x, 0, work->rows * dim * sizeof *x);
    memcpy(work->r, q, work->rows * dim * sizeof *q);
    for (size_t i = 0; i < work->rows; i++) {
        double norm = work->kernels->dot(dim, q + i * dim, q + i * dim);
        work->goal[i] = tolerance * tolerance * norm;
        if (norm == 0) continue;
        work->rz[i] = precondition(work, i);
        memcpy(work->p + count * dim, work->z, dim * sizeof *work->z);
        work->active[count++] = i;
    }
    return count;
}

/* Performs one step of the row in slot s. True: the row continues. */
static bool step_row(bo_attention_ridge *work, size_t s, float *x)
{
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, i = work->active[s];
    float *p = work->p + s * dim, *r = work->r + i * dim;
    const float *hp = work->hp + s * dim;
    double curvature = kernels->dot(dim, p, hp);
    if (!(curvature > 0)) return false;
    double length = work->rz[i] / curvature;
    kernels->axpy(dim, (float)length, p, x + i * dim);
    kernels->axpy(dim, (float)-length, hp, r);
    if (kernels->dot(dim, r, r) <= work->goal[i]) return false;
    double rz = precondition(work, i);
    float turn = (float)(rz / work->rz[i]);
    for (size_t j = 0; j < dim; j++) p[j] = work->z[j] + turn * p[j];
    work->rz[i] = rz;
    return true;
}

/* Computes the residual of x, |(H + Λ)x - q| / |q|, which differs from the recurrence by rounding. Rows that have not
 * converged are marked in `left`, including those still `active`. */
static void check(bo_attention_ridge *work, size_t active, const float *q, const float *x, bool *left)
{
    size_t dim = work->dim;
    double limit = SLACK * work->attention->desc.tolerance;
    memset(left, 0, work->chunk * sizeof *left);
    for (size_t s = 0; s < active; s++) left[work->active[s]] = true;
    for (size_t i = 0; i < work->rows; i++) work->active[i] = i;
    apply(work, work->rows, x);
    for (size_t i = 0; i < work->rows; i++) {
        double squares = 0, norm = work->kernels->dot(dim, q + i * dim, q + i * dim);
        for (size_t j = 0; j < dim; j++) {
            double difference = (double)work->hp[i * dim + j] - (double)q[i * dim + j];
            squares += difference * difference;
        }
        double residual = norm > 0 ? sqrt(squares / norm) : 0;
        left[i] = left[i] || !(residual <= limit);
        if (!left[i]) work->solves.largest_residual = fmax(work->solves.largest_residual, residual);
    }
}

void bo_ridge_iterate(bo_attention_ridge *work, size_t side, const float *q, float *x)
{
    size_t dim = work->dim, count = begin(work, q, x);
    work->solves.systems += work->rows;
    for (size_t step = 0; count && step < work->attention->desc.iterations; step++) {
        size_t continues = 0;
        apply(work, count, work->p);
        work->solves.iterations += count;
        for (size_t s = 0; s < count; s++) {
            if (!step_row(work, s, x)) continue;
            if (continues != s) memcpy(work->p + continues * dim, work->p + s * dim, dim * sizeof *work->p);
            work->active[continues++] = work->active[s];
        }
        count = continues;
    }
    check(work, count, q, x, work->left + side * work->chunk);
}

/* ---- direct solves ----------------------------------------------------------------------------------------------- */

/* Systems with a gate for which conjugate gradients do not converge, because H + Λ is too ill-conditioned for float32:
 * H_i and G_i of the row are computed in double from the start of the chunk, and H_i + Λ is factored again. The bits of
 * a row do not depend on which other rows are solved directly. */

bo_ridge_exact bo_ridge_exact_make(size_t dim, size_t values, bo_carver *carver)
{
    bo_ridge_exact exact = {.dim = dim, .values = values, .width = bo_ridge_width(dim, values), .rounding = 0x1p-24};
    exact.sums = bo_carve(carver, dim * exact.width, sizeof(double));
    exact.token = bo_carve(carver, exact.width, sizeof(double));
    exact.zeros = bo_carve(carver, exact.width, sizeof(double));
    exact.side = bo_carve(carver, dim, sizeof(double));
    exact.x = bo_carve(carver, dim, sizeof(double));
    return exact;
}

void bo_ridge_exact_load(const bo_ridge_exact *exact, const float *g, const float *h)
{
    size_t dim = exact->dim, values = exact->values;
    memset(exact->zeros, 0, exact->width * sizeof *exact->zeros);
    memset(exact->token, 0, exact->width * sizeof *exact->token);
    memset(exact->sums, 0, dim * exact->width * sizeof *exact->sums);
    for (size_t i = 0; i < dim; i++) {
        double *row = exact->sums + i * exact->width;
        for (size_t j = 0; j < dim; j++) row[j] = ((double)h[i * dim + j] + (double)h[j * dim + i]) / 2;
        for (size_t j = 0; j < values; j++) row[dim + j] = (double)g[i * values + j];
    }
}

/* Computes [H, G] = g [H, G] + β k [k, v]ᵀ; side is used for -β k. */
static void absorb_token(const bo_attention_ridge *work, size_t i)
{
    const bo_ridge_exact *exact = &work->exact;
    static const double one = 1, zero = 0;
    size_t dim = work->dim, values = work->value_dim, width = exact->width;
    double gate = exp(work->b[i + 1] - work->b[i]), beta = (double)work->beta[i];
    for (size_t j = 0; j < dim; j++) {
        exact->token[j] = (double)work->k[i * dim + j];
        exact->side[j] = -beta * exact->token[j];
    }
    for (size_t j = 0; j < values; j++) exact->token[dim + j] = (double)work->v[i * values + j];
    for (size_t n = 0; gate != 1 && n < dim * width; n++) exact->sums[n] *= gate;
    work->kernels->rotate(width, 1, &one, &zero, exact->token, exact->zeros, 0, dim, exact->side, exact->sums, width);
}

static bool row_is_left(const bo_attention_ridge *work, size_t sides, size_t i)
{
    for (size_t a = 0; a < sides; a++)
        if (work->left[a * work->chunk + i]) return true;
    return false;
}

size_t bo_ridge_direct_next(bo_attention_ridge *work, size_t sides, size_t i)
{
    size_t next = i;
    while (next < work->rows && !row_is_left(work, sides, next)) next++;
    if (next == work->rows) return next;
    if (work->absorbed == 0) bo_ridge_exact_load(&work->exact, work->memory, bo_ridge_h(work));
    for (; work->absorbed <= next; work->absorbed++)
        if (work->absorbed < work->keys) absorb_token(work, work->absorbed);
    bo_ridge_factor_fit(work->direct, 0, &work->exact, work->kernels, work->lambda);
    return next;
}

/* Returns |(H + Λ)x - side| / |side|. */
static double residual(const bo_attention_ridge *work)
{
    const bo_ridge_exact *exact = &work->exact;
    double squares = 0, norm = 0;
    for (size_t i = 0; i < work->dim; i++) {
        double left = (double)work->lambda[i] * exact->x[i] - exact->side[i];
        for (size_t j = 0; j < work->dim; j++) left += exact->sums[i * exact->width + j] * exact->x[j];
        squares += left * left;
        norm += exact->side[i] * exact->side[i];
    }
    return norm > 0 ? sqrt(squares / norm) : 0;
}

/* Solves for x with the right-hand side in `side`. */
static void solve(bo_attention_ridge *work)
{
    const bo_ridge_exact *exact = &work->exact;
    memcpy(exact->x, exact->side, work->dim * sizeof *exact->x);
    bo_ridge_factor_solve(work->direct, exact->x);
    work->solves.refactored++;
    if (work->measures) work->solves.largest_residual = fmax(work->solves.largest_residual, residual(work));
}

void bo_ridge_direct_query(bo_attention_ridge *work, const float *q)
{
    for (size_t j = 0; j < work->dim; j++) work->exact.side[j] = (double)q[j];
    solve(work);
}

void bo_ridge_direct_pull(bo_attention_ridge *work, const float *dout)
{
    const bo_ridge_exact *exact = &work->exact;
    for (size_t i = 0; i < work->dim; i++) {
        const double *g = exact->sums + i * exact->width + work->dim;
        double sum = 0;
        for (size_t j = 0; j < work->value_dim; j++) sum += g[j] * (double)dout[j];
        exact->side[i] = sum;
    }
    solve(work);
}

void bo_ridge_direct_output(const bo_attention_ridge *work, float *out)
{
    const bo_ridge_exact *exact = &work->exact;
    double *sum = exact->token;
    memset(sum, 0, work->value_dim * sizeof *sum);
    for (size_t i = 0; i < work->dim; i++) {
        const double *g = exact->sums + i * exact->width + work->dim;
        for (size_t j = 0; j < work->value_dim; j++) sum[j] += exact->x[i] * g[j];
    }
    for (size_t j = 0; j < work->value_dim; j++) out[j] = (float)sum[j];
}
