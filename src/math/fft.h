/* Fourier transforms of real vectors of one length, for circular convolution (the tensor sketch multiplies spectra). A
 * plan is immutable; many threads may execute it concurrently, each with its own workspace. */
#ifndef BO_MATH_FFT_H
#define BO_MATH_FFT_H

#include "../base/base.h"

typedef struct bo_fft_plan bo_fft_plan;

/* Creates a plan for vectors of n >= 1 numbers, in both precisions. Time is O(n log n) and memory O(n) for every n.
 * Lengths with no prime factors other than 2, 3 and 5 are fastest; lengths with a prime factor above 31 are slowest. */
bo_status bo_fft_plan_create(bo_context *context, size_t n, bo_fft_plan **out);
void bo_fft_plan_destroy(bo_fft_plan *plan);      /* NULL is allowed */
size_t bo_fft_memory(size_t n);                   /* bytes of a plan for length n */
size_t bo_fft_bins(const bo_fft_plan *plan);      /* complex numbers of a spectrum: n / 2 + 1 */
size_t bo_fft_workspace(const bo_fft_plan *plan); /* workspace length of a call, in numbers */

/* Computes spectrum (bins pairs: real, imaginary) = sum over t of x[t] exp(-2πi f t / n). No alignment is required (64
 * bytes is best for the workspace). Input, output and workspace must not overlap. No call allocates. */
void bo_fft_forward(const bo_fft_plan *plan, const float *x, float *spectrum, float *workspace);
void bo_fft_forward64(const bo_fft_plan *plan, const double *x, double *spectrum, double *workspace);
/* Computes the inverse, including the factor 1/n: inverse(forward(x)) = x. The imaginary parts of bin 0 and, for even
 * n, bin n / 2 are treated as zero. */
void bo_fft_inverse(const bo_fft_plan *plan, const float *spectrum, float *x, float *workspace);
void bo_fft_inverse64(const bo_fft_plan *plan, const double *spectrum, double *x, double *workspace);

#endif
