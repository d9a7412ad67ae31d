/* Fourier transforms of real vectors of one length, for circular convolution (the tensor sketch multiplies spectra).
 * A plan is immutable and may be executed by many threads at once. */
#ifndef BO_MATH_FFT_H
#define BO_MATH_FFT_H

#include "../base/base.h"

typedef struct bo_fft_plan bo_fft_plan;

/* For vectors of n >= 1 numbers, in both precisions. */
bo_status bo_fft_plan_create(bo_context *context, size_t n, bo_fft_plan **out);
void bo_fft_plan_destroy(bo_fft_plan *plan); /* NULL is fine */
size_t bo_fft_bins(const bo_fft_plan *plan); /* n / 2 + 1 complex numbers make a spectrum */

/* spectrum (bins pairs: real, imaginary) = sum over t of x[t] exp(-2πi f t / n). No alignment is needed; input and output
 * must not overlap; neither call allocates. */
void bo_fft_forward(const bo_fft_plan *plan, const float *x, float *spectrum);
void bo_fft_forward64(const bo_fft_plan *plan, const double *x, double *spectrum);
/* The inverse, with its factor 1/n: inverse(forward(x)) = x. */
void bo_fft_inverse(const bo_fft_plan *plan, const float *spectrum, float *x);
void bo_fft_inverse64(const bo_fft_plan *plan, const double *spectrum, double *x);

#endif
