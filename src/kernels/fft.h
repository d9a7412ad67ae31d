/* Fourier transforms of one real vector. src/math/fft.c decides the shape of a transform and makes its roots; the kernels
 * here follow it. (Transforms of 16 channels side by side: channels.h.) */
#ifndef BO_KERNELS_FFT_H
#define BO_KERNELS_FFT_H

#include <stddef.h>

enum {
    BO_FFT_RADIX = 31,  /* the largest radix of a stage; 2 to 5 have code of their own */
    BO_FFT_STAGES = 32, /* more than any length below 2^33 has */
};

/* A stage of the Stockham algorithm, decimation in frequency: with ω = exp(-2πi / (radix parts)),
 *
 *     y[q + stride (radix p + k)] = ω^pk Σ_j x[q + stride (p + parts j)] exp(-2πi jk / radix)
 *
 * for p < parts, q < stride, k < radix. radix * parts * stride is the same in each stage, and stride is the product of the
 * radices of the stages before. Its roots: for k = 1, 2, …, the real parts of ω^pk for all p, then the imaginary parts; for a
 * radix without code of its own, then cos(2πk / radix) for all k, and sin. */
typedef struct bo_fft_stage {
    size_t radix, parts, stride;
    size_t roots; /* where they begin among all roots */
} bo_fft_stage;

/* A transform of n real numbers. count = 0: by its matrix and that of the inverse. Else by a complex one of `length` numbers: pairs of neighbors for even n (length = n / 2), the
 * numbers themselves for odd n (length = n).
 *
 * chirp = 0: the stages transform `length` numbers. Else they transform `chirp` >= 2 length - 1 numbers, and the transform is
 * a convolution (Bluestein): with c[j] = exp(-πi j² / length), X[k] = c[k] Σ_j (x[j] c[j]) conj(c[k - j]).
 *
 * The numbers named below say where those roots begin among all. */
typedef struct bo_fft_shape {
    size_t n, length, chirp;
    size_t span;     /* a complex vector in memory: `span` real parts, then as many imaginary parts */
    size_t tangle;   /* n even: exp(-2πi k / n) for k < length; real parts, then imaginary parts */
    size_t chirps;   /* c[j] for j < length, the same way */
    size_t response; /* the transform of conj(c), divided by chirp, the same way */
    size_t forward;  /* n rows of the spectra of unit vectors */
    size_t inverse;  /* a row of n numbers for each number of a spectrum */
    size_t roots;    /* how many numbers all of them are */
    size_t count;    /* of stages */
    bo_fft_stage stages[BO_FFT_STAGES];
} bo_fft_shape;

/* room: 4 * span numbers, faster where aligned to 64 bytes. Neither x nor spectrum overlaps anything. */
typedef struct bo_fft_kernels {
    /* spectrum: n / 2 + 1 pairs (real, imaginary) */
    void (*forward_f32)(const bo_fft_shape *shape, const float *roots, const float *x, float *spectrum, float *room);
    void (*forward_f64)(const bo_fft_shape *shape, const double *roots, const double *x, double *spectrum,
                        double *room);
    /* The inverse, with its factor 1 / n. */
    void (*inverse_f32)(const bo_fft_shape *shape, const float *roots, const float *spectrum, float *x, float *room);
    void (*inverse_f64)(const bo_fft_shape *shape, const double *roots, const double *spectrum, double *x,
                        double *room);
} bo_fft_kernels;

extern const bo_fft_kernels bo_ref_fft;
#if defined(__x86_64__)
extern const bo_fft_kernels bo_avx2_fft;
#elif defined(__aarch64__)
extern const bo_fft_kernels bo_neon_fft;
#endif

#endif
