/* Plans of Fourier transforms: the stages for a length, and their roots of unity. The transforms themselves are compute
 * kernels. */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include "../device/cpu/kernels.h"
#include "fft.h"

/* Invariants: both arrays hold the same shape.roots numbers in two precisions; they do not change after creation. */
struct bo_fft_plan {
    bo_fft_shape shape;
    const bo_fft_kernels *kernels;
    float *roots;
    double *roots64;
};

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Returns the radix of the next stage for the remaining factor `rest`. Small radices come first because later stages
 * have longer loops. 0: a prime factor is too large. */
static size_t next_radix(size_t rest)
{
    if (rest % 4 == 0) return 4;
    for (size_t radix = 2; radix <= BO_FFT_RADIX; radix += radix == 2 ? 1 : 2)
        if (rest % radix == 0) return radix;
    return 0;
}

static bool has_codelet(size_t radix)
{
    return radix <= 5;
}

/* Chooses the stages for a complex transform of n > 1 numbers. False: n has a prime factor that is too large. */
static bool make_stages(size_t n, bo_fft_shape *shape)
{
    size_t rest = n, stride = 1;
    shape->count = shape->roots = 0;
    while (rest > 1) {
        size_t radix = next_radix(rest);
        if (!radix) return false;
        rest /= radix;
        shape->stages[shape->count++] = (bo_fft_stage){radix, rest, stride, shape->roots};
        shape->roots += 2 * (radix - 1) * rest + (has_codelet(radix) ? 0 : 2 * radix);
        stride *= radix;
    }
    return true;
}

static size_t reserve(bo_fft_shape *shape, size_t complex_numbers)
{
    size_t first = shape->roots;
    shape->roots += 2 * complex_numbers;
    return first;
}

/* True if multiplication by a matrix is faster than stages (measured for float). Prime factors other than 2, 3 and 5
 * cost more. */
static bool is_short(size_t n)
{
    enum { SHORT = 32, AWKWARD = 64 };
    size_t rest = n;
    for (size_t radix = 2; radix <= 5; radix++)
        while (rest % radix == 0) rest /= radix;
    return n < SHORT || (n < AWKWARD && rest > 1);
}

static void make_shape(size_t n, bo_fft_shape *shape)
{
    /* vectors start at multiples of LINE and are longer than powers of two, to avoid conflicts in the cache */
    enum { LINE = 16 };
    assert(n > 0);
    *shape = (bo_fft_shape){.n = n, .length = n % 2 ? n : n / 2};
    if (is_short(n)) {
        shape->forward = reserve(shape, n * (n / 2 + 1));
        shape->inverse = reserve(shape, n * (n / 2 + 1));
        return;
    }
    size_t vector = shape->length + 1; /* one more element: the first number is also stored after the last one */
    if (!make_stages(shape->length, shape)) {
        shape->chirp = 1;
        while (shape->chirp < 2 * shape->length - 1) shape->chirp *= 2;
        make_stages(shape->chirp, shape);
        shape->chirps = reserve(shape, shape->length);
        shape->response = reserve(shape, shape->chirp);
        vector = shape->chirp;
    }
    if (n % 2 == 0) shape->tangle = reserve(shape, shape->length);
    shape->span = (vector + LINE - 1) / LINE * LINE + LINE;
}

/* ---- roots of unity ---------------------------------------------------------------------------------------------- */

/* Computes exp(-2πi k / n) to about one ulp: the angle is reduced to an eighth of the circle in integers. */
static void root(size_t k, size_t n, double *re, double *im)
{
    k %= n;
    bool below = 2 * k <= n; /* the imaginary part is negative */
    if (!below) k = n - k;
    bool left = 4 * k > n;
    size_t quarters = left ? 2 * n - 4 * k : 4 * k; /* the angle is π/2 quarters / n, at most π/2 */
    bool steep = 2 * quarters > n;
    double angle = 1.57079632679489661923 * (double)(steep ? n - quarters : quarters) / (double)n;
    double c = steep ? sin(angle) : cos(angle), s = steep ? cos(angle) : sin(angle);
    *re = left ? -c : c;
    *im = below ? -s : s;
}

/* Fills exp(-2πi k factor / n) for k < count: real parts, then imaginary parts. */
static void fill(size_t count, size_t factor, size_t n, double *roots)
{
    for (size_t k = 0; k < count; k++) root(k * factor, n, &roots[k], &roots[count + k]);
}

static void fill_stage(const bo_fft_stage *t, double *roots)
{
    for (size_t k = 1; k < t->radix; k++, roots += 2 * t->parts) fill(t->parts, k, t->radix * t->parts, roots);
    if (has_codelet(t->radix)) return;
    fill(t->radix, 1, t->radix, roots);
    for (size_t k = 0; k < t->radix; k++) roots[t->radix + k] *= -1; /* sin(2πk / radix) */
}

/* Fills the matrix of the forward transform (spectra of unit vectors) and that of the inverse transform, which includes
 * the weights of a bin and its conjugate. */
static void fill_matrices(const bo_fft_shape *shape, double *roots)
{
    size_t n = shape->n, columns = 2 * (n / 2 + 1);
    double *forward = roots + shape->forward, *inverse = roots + shape->inverse;
    for (size_t t = 0; t < n; t++)
        for (size_t f = 0; f <= n / 2; f++) {
            bool single = f == 0 || 2 * f == n;
            double re, im, weight = (single ? 1.0 : 2.0) / (double)n;
            root(f * t, n, &re, &im);
            if (single) im = 0; /* the exact value is zero; only the sign of zero may differ */
            forward[t * columns + 2 * f] = re, forward[t * columns + 2 * f + 1] = im;
            inverse[2 * f * n + t] = weight * re, inverse[(2 * f + 1) * n + t] = weight * im;
        }
}

static bo_status create(bo_context *context, size_t n, bo_fft_plan **out);

/* Fills c[j] = exp(-πi j² / length) and the transform of its conjugate, wrapped around. The sequence is even in j, so
 * its transform is even too, and half of it, from real transforms of the real and imaginary parts, is enough. */
static bo_status fill_chirp(bo_context *context, const bo_fft_shape *shape, double *roots)
{
    size_t n = shape->length, m = shape->chirp;
    double *chirps = roots + shape->chirps, *response = roots + shape->response;
    for (size_t j = 0; j < n; j++) root(j * j % (2 * n), 2 * n, &chirps[j], &chirps[n + j]);
    bo_fft_plan *plan;
    BO_TRY(create(context, m, &plan));
    size_t bins = 2 * bo_fft_bins(plan);
    double *work = bo_alloc(context, m + 2 * bins + bo_fft_workspace(plan), sizeof *work, "a Fourier transform");
    if (work) {
        double *wave = work, *re = wave + m, *im = re + bins, *workspace = im + bins;
        wave[0] = chirps[0];
        for (size_t j = 1; j < n; j++) wave[j] = wave[m - j] = chirps[j];
        bo_fft_forward64(plan, wave, re, workspace);
        wave[0] = -chirps[n];
        for (size_t j = 1; j < n; j++) wave[j] = wave[m - j] = -chirps[n + j];
        bo_fft_forward64(plan, wave, im, workspace);
        double factor = 1.0 / (double)m; /* a power of two, so the products are exact */
        for (size_t k = 0; k < m; k++) {
            size_t bin = k <= m / 2 ? k : m - k;
            response[k] = factor * (re[2 * bin] - im[2 * bin + 1]);
            response[m + k] = factor * (re[2 * bin + 1] + im[2 * bin]);
        }
    }
    bo_free(work);
    bo_fft_plan_destroy(plan);
    return work ? BO_OK : BO_MEMORY;
}

static bo_status fill_roots(bo_context *context, bo_fft_plan *plan)
{
    const bo_fft_shape *shape = &plan->shape;
    if (!shape->count) fill_matrices(shape, plan->roots64);
    for (size_t i = 0; i < shape->count; i++) fill_stage(&shape->stages[i], plan->roots64 + shape->stages[i].roots);
    if (shape->count && shape->n % 2 == 0) fill(shape->length, 1, shape->n, plan->roots64 + shape->tangle);
    if (shape->chirp) BO_TRY(fill_chirp(context, shape, plan->roots64));
    for (size_t i = 0; i < shape->roots; i++) plan->roots[i] = (float)plan->roots64[i];
    return BO_OK;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static bo_status create(bo_context *context, size_t n, bo_fft_plan **out)
{
    bo_fft_plan *plan = bo_alloc(context, 1, sizeof *plan, "a Fourier transform");
    if (!plan) return BO_MEMORY;
    make_shape(n, &plan->shape);
    plan->kernels = bo_context_kernels(context)->fft;
    plan->roots = bo_alloc_raw(context, plan->shape.roots, sizeof *plan->roots, "a Fourier transform");
    plan->roots64 = bo_alloc_raw(context, plan->shape.roots, sizeof *plan->roots64, "a Fourier transform");
    bo_status status = plan->roots && plan->roots64 ? fill_roots(context, plan) : BO_MEMORY;
    if (status != BO_OK) {
        bo_fft_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return BO_OK;
}

bo_status bo_fft_plan_create(bo_context *context, size_t n, bo_fft_plan **out)
{
    *out = NULL;
    if (n == 0 || n > INT_MAX)
        return bo_fail(context, BO_INVALID, "Fourier transform: length %zu, expected 1 to %d", n, INT_MAX);
    return create(context, n, out);
}

void bo_fft_plan_destroy(bo_fft_plan *plan)
{
    if (!plan) return;
    bo_free(plan->roots);
    bo_free(plan->roots64);
    bo_free(plan);
}

size_t bo_fft_memory(size_t n)
{
    bo_fft_shape shape;
    make_shape(n, &shape);
    return sizeof(bo_fft_plan) + shape.roots * (sizeof(float) + sizeof(double));
}

size_t bo_fft_bins(const bo_fft_plan *plan)
{
    return plan->shape.n / 2 + 1;
}

size_t bo_fft_workspace(const bo_fft_plan *plan)
{
    return 4 * plan->shape.span;
}

void bo_fft_forward(const bo_fft_plan *plan, const float *x, float *spectrum, float *workspace)
{
    plan->kernels->forward_f32(&plan->shape, plan->roots, x, spectrum, workspace);
}

void bo_fft_forward64(const bo_fft_plan *plan, const double *x, double *spectrum, double *workspace)
{
    plan->kernels->forward_f64(&plan->shape, plan->roots64, x, spectrum, workspace);
}

void bo_fft_inverse(const bo_fft_plan *plan, const float *spectrum, float *x, float *workspace)
{
    plan->kernels->inverse_f32(&plan->shape, plan->roots, spectrum, x, workspace);
}

void bo_fft_inverse64(const bo_fft_plan *plan, const double *spectrum, double *x, double *workspace)
{
    plan->kernels->inverse_f64(&plan->shape, plan->roots64, spectrum, x, workspace);
}
