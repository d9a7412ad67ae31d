/* Eigenvalues of matrices that are not symmetric: reduction to Hessenberg form, then QR with double shifts (Golub and
 * Van Loan, 7.4 and 7.5). */
#include <float.h>
#include <math.h>
#include "linalg.h"
#include "reflect.h"
#include "scaling.h"

enum { MAX_STEPS = 60, EXCEPTION = 10 }; /* per eigenvalue or pair; two or three are typical */

/* Multiplies rows [row, row + m) from the left by the reflector (v, tau), in columns [begin, end). */
static void reflect_rows(size_t n, double *h, size_t m, const double *v, double tau, size_t row, size_t begin,
                         size_t end)
{
    for (size_t j = begin; j < end; j++) {
        double sum = 0;
        for (size_t i = 0; i < m; i++) sum += v[i] * h[(row + i) * n + j];
        for (size_t i = 0; i < m; i++) h[(row + i) * n + j] -= tau * sum * v[i];
    }
}

/* Multiplies columns [column, column + m) from the right, in rows [begin, end). */
static void reflect_columns(size_t n, double *h, size_t m, const double *v, double tau, size_t column, size_t begin,
                            size_t end)
{
    for (size_t i = begin; i < end; i++) {
        double *row = h + i * n + column, sum = 0;
        for (size_t j = 0; j < m; j++) sum += v[j] * row[j];
        for (size_t j = 0; j < m; j++) row[j] -= tau * sum * v[j];
    }
}

/* Makes all numbers below the first subdiagonal zero. v: n numbers. */
static void make_hessenberg(const bo_context *context, size_t n, double *h, double *v)
{
    for (size_t k = 0; k + 2 < n; k++) {
        size_t m = n - k - 1;
        double tau;
        for (size_t i = 0; i < m; i++) v[i] = h[(k + 1 + i) * n + k];
        bo_reflector(context, m, v, &tau);
        reflect_rows(n, h, m, v, tau, k + 1, k, n);
        reflect_columns(n, h, m, v, tau, k + 1, 0, n);
        for (size_t i = k + 2; i < n; i++) h[i * n + k] = 0;
    }
}

/* Two shifts as the eigenvalues of (y · ; · x) with the product w of the two numbers off the diagonal. */
typedef struct shifts {
    double x, y, w;
} shifts;

/* One step on rows low … high (three at least). The first column of (H - a)(H - b) for shifts a and b is computed from
 * differences, as in EISPACK's hqr: if all eigenvalues are nearly equal, a sum of products would be rounding error
 * only. */
static void francis_step(const bo_context *context, size_t n, double *h, size_t low, size_t high, const shifts *shift)
{
    const double *top = h + low * n + low, *next = top + n;
    const double r = shift->x - top[0], s = shift->y - top[0];
    double v[3] = {r * s - shift->w + top[1] * next[0], next[0] * (next[1] - top[0] - r - s),
                   next[0] * h[(low + 2) * n + low + 1]};
    for (size_t k = low; k < high; k++) {
        size_t m = bo_min(3, high - k + 1);
        double tau;
        if (k > low) {
            for (size_t i = 0; i < m; i++) v[i] = h[(k + i) * n + k - 1];
        }
        double beta = bo_reflector(context, m, v, &tau);
        if (k > low) {
            h[k * n + k - 1] = beta;
            for (size_t i = 1; i < m; i++) h[(k + i) * n + k - 1] = 0;
        }
        reflect_rows(n, h, m, v, tau, k, k, high + 1);
        reflect_columns(n, h, m, v, tau, k, low, bo_min(k + 3, high) + 1);
    }
}

/* The eigenvalues of (a b; c d). */
static void solve_pair(double a, double b, double c, double d, double *real, double *imaginary)
{
    double p = (a - d) / 2, square = p * p + b * c;
    if (square < 0) {
        real[0] = real[1] = d + p;
        imaginary[0] = sqrt(-square);
        imaginary[1] = -imaginary[0];
        return;
    }
    double z = p + copysign(sqrt(square), p);
    real[0] = d + z;
    real[1] = z != 0 ? d - b * c / z : d;
    imaginary[0] = imaginary[1] = 0;
}

/* Returns the first row of the last block whose subdiagonal is not negligible, compared with its neighbors or with the
 * largest number of the matrix, which is about 1. */
static size_t block_begin(size_t n, const double *h, size_t high)
{
    size_t low = high;
    for (; low > 0; low--) {
        const double *corner = h + (low - 1) * n + low - 1;
        if (fabs(corner[n]) <= DBL_EPSILON * fmax(fabs(corner[0]) + fabs(corner[n + 1]), 1)) break;
    }
    return low;
}

static bool iterate(const bo_context *context, size_t n, double *h, double *real, double *imaginary)
{
    int steps = 0;
    for (size_t end = n; end > 0;) {
        size_t high = end - 1, low = block_begin(n, h, high);
        double *corner = h + high * n + high; /* the last number; those before it are the last 2 x 2 block */
        if (low == high) {
            real[high] = *corner;
            imaginary[high] = 0;
        } else if (low + 1 == high) {
            const double *first = h + low * n + low;
            solve_pair(first[0], first[1], first[n], first[n + 1], real + low, imaginary + low);
        } else {
            if (++steps > MAX_STEPS) return false;
            const double *first = corner - n - 1;
            shifts shift = {first[n + 1], first[0], first[1] * first[n]};
            /* exceptional shifts as in LAPACK's dlahqr, in case the standard shifts cycle */
            if (steps % EXCEPTION == 0) {
                double size = fabs(first[n]) + fabs(first[-1]);
                shift.x = shift.y = *corner + 0.75 * size;
                shift.w = -0.4375 * size * size;
            }
            francis_step(context, n, h, low, high, &shift);
            continue;
        }
        end = low;
        steps = 0;
    }
    return true;
}

bo_status bo_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary)
{
    double largest = 0;
    if (n == 0) return BO_OK;
    if (!bo_largest(n * n, a, &largest))
        return bo_fail(context, BO_NUMERIC, "eigenvalues: a %zu x %zu matrix is not finite", n, n);
    double *v = bo_alloc_raw(context, n, sizeof *v, "eigenvalues");
    if (!v) return BO_MEMORY;
    int exponent = bo_exponent(largest);
    bo_scale_by(n * n, -exponent, a);
    make_hessenberg(context, n, a, v);
    bool found = iterate(context, n, a, real, imaginary);
    bo_free(v);
    if (!found) return bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix did not converge", n, n);
    bo_scale_by(n, exponent, real);
    bo_scale_by(n, exponent, imaginary);
    double max_abs = 0;
    if (!bo_largest(n, real, &max_abs) || !bo_largest(n, imaginary, &max_abs))
        return bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix exceed the largest number", n, n);
    return BO_OK;
}
