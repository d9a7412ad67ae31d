#include "matricization.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const lab_function *f)
{
    if (f->left && f->right && f->left + f->right <= LAB_INPUTS) return BO_OK;
    return bo_fail(context, BO_INVALID, "expected two halves with at most %d inputs in total, found %zu and %zu",
                   LAB_INPUTS, f->left, f->right);
}

static void fill_exact(const lab_function *f, size_t settings, const uint32_t *left, const uint32_t *right,
                       uint32_t *out)
{
    uint32_t x[LAB_INPUTS];
    for (size_t i = 0; i < settings; i++) {
        memcpy(x, left + i * f->left, f->left * sizeof *x);
        for (size_t j = 0; j < settings; j++) {
            memcpy(x + f->left, right + j * f->right, f->right * sizeof *x);
            out[i * settings + j] = f->exact(f->user, x);
        }
    }
}

static void fill_real(const lab_function *f, size_t rows, size_t columns, const double *left, const double *right,
                      double *out)
{
    double x[LAB_INPUTS];
    for (size_t i = 0; i < rows; i++) {
        memcpy(x, left + i * f->left, f->left * sizeof *x);
        for (size_t j = 0; j < columns; j++) {
            memcpy(x + f->left, right + j * f->right, f->right * sizeof *x);
            out[i * columns + j] = f->real(f->user, x);
        }
    }
}

bo_status lab_exact_rank(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, size_t *rank)
{
    BO_TRY(check(context, f));
    const size_t inputs = f->left + f->right;
    uint32_t *points = bo_alloc_raw(context, settings * inputs, sizeof *points, "settings of a matricization");
    uint32_t *matrix = bo_alloc_raw(context, settings * settings, sizeof *matrix, "a matricization");
    if (points && matrix) {
        for (size_t i = 0; i < settings * inputs; i++) points[i] = lab_mod_random(rng);
        fill_exact(f, settings, points, points + settings * f->left, matrix);
        *rank = lab_mod_rank(matrix, settings, settings);
    }
    const bo_status status = points && matrix ? BO_OK : BO_MEMORY;
    bo_free(points);
    bo_free(matrix);
    return status;
}

bo_status lab_matricize(bo_context *context, const lab_function *f, size_t settings, bo_rng *rng, double *out)
{
    BO_TRY(check(context, f));
    const size_t inputs = f->left + f->right;
    double *points = bo_alloc_raw(context, settings * inputs, sizeof *points, "settings of a matricization");
    if (!points) return BO_MEMORY;
    for (size_t i = 0; i < settings * inputs; i++) points[i] = bo_rng_normal(rng);
    fill_real(f, settings, settings, points, points + settings * f->left, out);
    bo_free(points);
    return BO_OK;
}

/* All combinations of `count` templates in `inputs` positions; returns their number. */
static size_t combinations(size_t count, const double *templates, size_t inputs, double *out)
{
    size_t all = 1;
    for (size_t i = 0; i < inputs; i++) all *= count;
    for (size_t c = 0; c < all && out; c++) {
        size_t digits = c;
        for (size_t i = inputs; i-- > 0; digits /= count) out[c * inputs + i] = templates[digits % count];
    }
    return all;
}

bo_status lab_matricize_grid(bo_context *context, const lab_function *f, size_t count, const double *templates,
                             double *out)
{
    BO_TRY(check(context, f));
    const size_t rows = combinations(count, templates, f->left, NULL);
    const size_t columns = combinations(count, templates, f->right, NULL);
    double *points =
        bo_alloc_raw(context, rows * f->left + columns * f->right, sizeof *points, "the grid of a matricization");
    if (!points) return BO_MEMORY;
    combinations(count, templates, f->left, points);
    combinations(count, templates, f->right, points + rows * f->left);
    fill_real(f, rows, columns, points, points + rows * f->left, out);
    bo_free(points);
    return BO_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

size_t lab_numerical_rank(const double *values, size_t count, double tolerance)
{
    if (tolerance == 0) tolerance = (double)count * DBL_EPSILON;
    size_t rank = 0;
    while (rank < count && values[rank] > tolerance * values[0]) rank++;
    return rank;
}

/* ---- distances --------------------------------------------------------------------------------------------------- */

lab_sizes lab_matrix_sizes(const double *matrix, size_t count)
{
    double sum = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const double size = fabs(matrix[i]);
        sum += size;
        squares += size * size;
        largest = fmax(largest, size);
    }
    return (lab_sizes){sum / (double)count, sqrt(squares / (double)count), largest};
}

static void subtract_outer(size_t rows, size_t columns, double scale, const double *u, size_t stride, const double *v,
                           double *matrix)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) matrix[i * columns + j] -= scale * u[i * stride] * v[j];
}

bo_status lab_truncation_errors(bo_context *context, size_t rows, size_t columns, const double *matrix,
                                lab_sizes *errors)
{
    bo_singular s;
    const bo_status status = bo_singular_open(context, rows, columns, matrix, &s);
    if (status == BO_OK) {
        memcpy(s.copy, matrix, rows * columns * sizeof *matrix); /* from here on the error of the truncation */
        errors[0] = lab_matrix_sizes(s.copy, rows * columns);
        for (size_t r = 0; r < s.count; r++) {
            subtract_outer(rows, columns, s.values[r], s.u + r, s.count, s.vt + r * columns, s.copy);
            errors[r + 1] = lab_matrix_sizes(s.copy, rows * columns);
        }
    }
    bo_singular_close(&s);
    return status;
}

lab_epsilon_ranks lab_epsilon_rank(const lab_sizes *errors, size_t count, double epsilon)
{
    const double allowed = epsilon * errors[0].square;
    lab_epsilon_ranks ranks = {count, count, count};
    for (size_t r = count + 1; r-- > 0;) {
        if (errors[r].mean <= allowed) ranks.mean = r;
        if (errors[r].square <= allowed) ranks.square = r;
        if (errors[r].largest <= allowed) ranks.largest = r;
    }
    return ranks;
}
