/* Fourier transforms of one real vector. src/math/fft.c chooses the stages of a transform and computes its roots; these
 * kernels execute it. (channels.h has transforms of 16 independent channels.) */
#ifndef BO_KERNELS_FFT_H
#define BO_KERNELS_FFT_H

#include <stddef.h>

enum {
    BO_FFT_RADIX = 31,  /* the largest radix of a stage; 2 to 5 have specialized code */
    BO_FFT_STAGES = 32, /* more stages than any length below 2^33 has */
};

/* A stage of the Stockham algorithm, decimation in frequency: with ω = exp(-2πi / (radix parts)),
 *
 *   y[q + stride (radix p + k)] = ω^pk Σ_j x[q + stride (p + parts j)] exp(-2πi jk / radix)
 *
 * for p < parts, q < stride, k < radix. radix * parts * stride is equal in all stages, and stride is the product of
 * the radices of the earlier stages. Its roots: for k = 1, 2, …, the real parts of ω^pk for all p, then the imaginary
 * parts; for a radix without specialized code, then cos(2πk / radix) for all k, and then sin(2πk / radix). */
typedef struct bo_fft_stage {
    size_t radix, parts, stride;
    size_t roots; /* index of the first root of this stage */
} bo_fft_stage;

/* A transform of n real values. count = 0: a product with a matrix. Else it uses a complex transform of `length`
 * elements: pairs of neighbors for even n (length = n / 2), single values for odd n (length = n).
 *
 * chirp = 0: the stages transform `length` elements. Else they transform `chirp` >= 2 length - 1 elements, and the
 * transform is a convolution (Bluestein): with c[j] = exp(-πi j² / length), X[k] = c[k] Σ_j (x[j] c[j]) conj(c[k - j]).
 *
 * The members from tangle to inverse are the start indices of these roots in the array of all roots. */
typedef struct bo_fft_shape {
    size_t n, length, chirp;
    size_t span;     /* a complex vector in memory has `span` real parts, then `span` imaginary parts */
    size_t tangle;   /* n even: exp(-2πi k / n) for k < length; real parts, then imaginary parts */
    size_t chirps;   /* c[j] for j < length, in this layout */
    size_t response; /* the transform of conj(c), divided by chirp, in this layout */
    size_t forward;  /* n rows: the spectra of the unit vectors */
    size_t inverse;  /* one row of n values per value of a spectrum */
    size_t roots;    /* length of the array of roots */
    size_t count;    /* number of stages */
    bo_fft_stage stages[BO_FFT_STAGES];
} bo_fft_shape;

/* workspace: 4 * span elements, faster if aligned to 64 bytes. x and spectrum must not overlap each other or the
 * workspace. */
typedef struct bo_fft_kernels {
    /* spectrum: n / 2 + 1 pairs (real, imaginary) */
    void (*forward_f32)(const bo_fft_shape *shape, const float *roots, const float *x, float *spectrum,
                        float *workspace);
    void (*forward_f64)(const bo_fft_shape *shape, const double *roots, const double *x, double *spectrum,
                        double *workspace);
    /* The inverse, including the factor 1 / n. */
    void (*inverse_f32)(const bo_fft_shape *shape, const float *roots, const float *spectrum, float *x,
                        float *workspace);
    void (*inverse_f64)(const bo_fft_shape *shape, const double *roots, const double *spectrum, double *x,
                        double *workspace);
} bo_fft_kernels;

extern const bo_fft_kernels bo_ref_fft;
#if defined(__x86_64__)
extern const bo_fft_kernels bo_avx2_fft;
#elif defined(__aarch64__)
extern const bo_fft_kernels bo_neon_fft;
#endif

#endif
