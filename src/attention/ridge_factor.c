/* The factor of H + Λ, which takes tokens in by Givens rotations: recursive least squares by QR, which never
 * subtracts and so keeps what double has for any number of tokens. The rows of [U T] and a token √β [k v] are
 * rotated into one another until the token's first dim numbers are 0:
 *
 *     UᵀU + β k kᵀ = U'ᵀU'        UᵀT + β k vᵀ = U'ᵀT'
 *
 * Tokens are taken in blocks, row by row: the lengths of a row after each token of the block are roots of sums of
 * squares, so that all rotations of a row are known at once. */
#include <math.h>
#include <string.h>
#include "ridge.h"

/* Columns before the diagonal's group of LANES are not there. */
enum { LANES = 8 };

static size_t first_column(size_t row)
{
    return row / LANES * LANES;
}

size_t bo_ridge_width(size_t dim, size_t tail)
{
    return (dim + tail + LANES - 1) / LANES * LANES;
}

/* Where row i begins: before it are i rows, less the first columns of all groups of rows before. */
static size_t row_start(size_t width, size_t i)
{
    size_t group = i / LANES;
    return i * width - LANES * group * (LANES * (group - (group > 0)) / 2 + i % LANES);
}

size_t bo_ridge_factor_numbers(size_t dim, size_t width)
{
    return row_start(width, dim);
}

/* Column j of row i at [j]. */
static double *row_at(bo_ridge_factor factor, size_t i)
{
    return factor.rows + row_start(factor.width, i) - first_column(i);
}

/* ---- from sums ------------------------------------------------------------------------------------------------- */

/* H + Λ and M, the diagonal of H raised by a share of itself. */
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

/* Row i, ready, is taken from the rows below, which lie at equal distances within a group. */
static void eliminate(bo_ridge_factor factor, const bo_ridge_exact *exact, const bo_kernels *kernels, size_t i)
{
    static const double one = 1, zero = 0;
    double *row = row_at(factor, i);
    for (size_t j = i + 1, end; j < factor.dim; j = end) {
        size_t first = first_column(j), width = factor.width - first;
        end = bo_least(first + LANES, factor.dim);
        kernels->rotate(width, 1, &one, &zero, row + first, exact->zeros, 0, end - j, row + j,
                        row_at(factor, j) + first, width);
    }
}

/* Rows that begin_rows left become the factor. False: a pivot was less than that of Λ alone, which no H >= 0 can do. */
static bool factorize(bo_ridge_factor factor, const bo_ridge_exact *exact, const bo_kernels *kernels,
                      const float *lambda)
{
    bool definite = true;
    for (size_t i = 0; i < factor.dim; i++) {
        double *row = row_at(factor, i), least = (double)lambda[i];
        definite = definite && row[i] >= least / 2;
        double pivot = sqrt(fmax(row[i], least));
        row[i] = pivot;
        for (size_t j = first_column(i); j < i; j++) row[j] = 0;
        for (size_t j = i + 1; j < factor.width; j++) row[j] *= 1 / pivot;
        eliminate(factor, exact, kernels, i);
    }
    return definite;
}

/* Rounding to float32 moves H by no more than dim 2^-24 of its diagonal, as a quadratic form: where that made H + Λ
 * indefinite, as much is given back. */
void bo_ridge_factor_fit(bo_ridge_factor factor, size_t values, const bo_ridge_exact *exact, const bo_kernels *kernels,
                         const float *lambda)
{
    double raise = 0;
    do {
        begin_rows(factor, values, exact, lambda, raise);
        if (factorize(factor, exact, kernels, lambda)) return;
        raise = raise > 0 ? 4 * raise : (double)factor.dim * 0x1p-24;
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

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

bo_ridge_block bo_ridge_block_make(size_t width, size_t sides, bo_carver *carver)
{
    bo_ridge_block block = {.width = width, .sides = sides};
    block.tokens = bo_carve(carver, BO_RIDGE_BLOCK * width, sizeof(double));
    block.asked = bo_carve(carver, BO_RIDGE_BLOCK * sides * width, sizeof(double));
    block.c = bo_carve(carver, BO_RIDGE_BLOCK, sizeof(double));
    block.s = bo_carve(carver, BO_RIDGE_BLOCK, sizeof(double));
    block.z = bo_carve(carver, BO_RIDGE_BLOCK * sides, sizeof(double));
    return block;
}

/* c, s and z of row i for every token of the block; returns the length of its first number afterwards. A token
 * that is 0 there leaves every bit of the row as it was. */
static double turn(const bo_ridge_block *block, size_t count, size_t i, double length)
{
    size_t width = block->width, sides = block->sides;
    double squares = length * length, inverse = 1 / length;
    for (size_t t = 0; t < count; t++) {
        double x = block->tokens[t * width + i];
        block->c[t] = 1, block->s[t] = 0;
        if (x != 0) {
            double before = length;
            squares += x * x;
            length = sqrt(squares);
            inverse = 1 / length;
            block->c[t] = before * inverse;
            block->s[t] = x * inverse;
        }
        for (size_t a = t * sides; a < (t + 1) * sides; a++) block->z[a] = block->asked[a * width + i] * inverse;
    }
    return length;
}

void bo_ridge_factor_take(bo_ridge_factor factor, const bo_kernels *kernels, const bo_ridge_block *block, size_t count)
{
    for (size_t i = 0; i < factor.dim; i++) {
        size_t first = first_column(i);
        double *row = row_at(factor, i), length = turn(block, count, i, row[i]);
        kernels->rotate(factor.width - first, count, block->c, block->s, row + first, block->tokens + first,
                        block->width, block->sides, block->z, block->asked + first, block->width);
        row[i] = length;
    }
}
