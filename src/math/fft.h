/* Fourier transforms of real vectors of one length, for circular convolution (the tensor sketch multiplies spectra).
 * A plan is immutable and may be executed by many threads at once, each with room of its own. */
#ifndef BO_MATH_FFT_H
#define BO_MATH_FFT_H

#include "../base/base.h"

typedef struct bo_fft_plan bo_fft_plan;

/* For vectors of n >= 1 numbers, in both precisions. Time and memory are O(n log n) and O(n) for every n; fastest where n has
 * no prime factors but 2, 3 and 5, slowest where it has one above 31. */
bo_status bo_fft_plan_create(bo_context *context, size_t n, bo_fft_plan **out);
void bo_fft_plan_destroy(bo_fft_plan *plan); /* NULL is fine */
size_t bo_fft_memory(size_t n);              /* bytes of a plan */
size_t bo_fft_bins(const bo_fft_plan *plan); /* n / 2 + 1 complex numbers make a spectrum */
size_t bo_fft_room(const bo_fft_plan *plan); /* numbers of room that a call wants */

/* spectrum (bins pairs: real, imaginary) = sum over t of x[t] exp(-2πi f t / n). No alignment is needed (64 bytes are best for
 * the room); input, output and room must not overlap; no call allocates. */
void bo_fft_forward(const bo_fft_plan *plan, const float *x, float *spectrum, float *room);
void bo_fft_forward64(const bo_fft_plan *plan, const double *x, double *spectrum, double *room);
/* The inverse, with its factor 1/n: inverse(forward(x)) = x. Imaginary parts of the bins 0 and, for even n, n / 2 count as
 * zero. */
void bo_fft_inverse(const bo_fft_plan *plan, const float *spectrum, float *x, float *room);
void bo_fft_inverse64(const bo_fft_plan *plan, const double *spectrum, double *x, double *room);

#endif
