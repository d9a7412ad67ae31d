/* Kernels over 16 independent channels: linear systems, and Fourier transforms for convolution. A row is 16 floats; a
 * complex row is 16 real parts followed by 16 imaginary parts. Lane l always holds channel l; lanes do not interact. */
#ifndef BO_KERNELS_CHANNELS_H
#define BO_KERNELS_CHANNELS_H

#include <stddef.h>
#include <stdbool.h>

enum { BO_CHANNELS = 16, BO_COMPLEX_ROW = 2 * BO_CHANNELS };

/* A linear system s' = s + μ s + P (Qᵀ s) + b u, y = Re(c s') with states of `size` complex values. μ = A - 1, which
 * keeps slow modes accurate. mu, b, c: `size` complex rows; p, q: `rank` complex rows per state. rank 0: no p and q,
 * and b is 1 (NULL). */
typedef struct bo_systems {
    size_t size, rank; /* rank <= BO_SYSTEMS_RANK */
    const float *mu, *c, *b, *p, *q;
} bo_systems;
enum { BO_SYSTEMS_RANK = 16 };

/* Gradients, with the layout of bo_systems. The gradient of a real function with respect to z = x + iy is its
 * derivative with respect to x plus i times its derivative with respect to y. */
typedef struct bo_systems_gradients {
    float *mu, *c, *b, *p, *q;
} bo_systems_gradients;

typedef struct bo_channels {
    /* Runs the systems over `tokens` rows of u, adds their outputs to y, and updates the state s. */
    void (*run)(const bo_systems *systems, size_t tokens, float *s, const float *u, float *y);
    /* Backward pass. s: the state before the first token; g: the gradient of the state after the last token, replaced
     * by the gradient of s. Adds to d and, from dy, to du. work: tokens * size complex rows. */
    void (*run_back)(const bo_systems *systems, size_t tokens, const float *s, const float *u, const float *dy,
                     float *g, float *work, const bo_systems_gradients *d, float *du);
    /* Computes y_t += Re(c s_t) for `tokens` states. */
    void (*read)(size_t size, const float *c, size_t tokens, const float *s, float *y);
    /* Discrete Fourier transform of x in place: n complex rows, n a power of two. The order of the transformed rows
     * depends only on n; the inverse expects that order and returns n times x. roots: 3n/4 pairs (cos, -sin)(2πk /
     * n). */
    void (*fourier)(size_t n, const float *roots, float *x);
    void (*fourier_back)(size_t n, const float *roots, float *x);
    /* z = a b, or z = a conj(b), for complex rows; add: z is added to */
    void (*multiply)(size_t rows, const float *a, const float *b, bool conjugate, bool add, float *z);
} bo_channels;

extern const bo_channels bo_ref_channels;
#if defined(__x86_64__)
extern const bo_channels bo_avx2_channels, bo_avx512_channels;
#elif defined(__aarch64__)
extern const bo_channels bo_neon_channels;
#endif

#endif
