/* Kernels over 16 channels side by side: linear systems, and Fourier transforms to convolve with. A row is 16 floats, a
 * complex row 16 real parts and then 16 imaginary ones; lane l of all of them is channel l, and lanes never meet. */
#ifndef BO_KERNELS_CHANNELS_H
#define BO_KERNELS_CHANNELS_H

#include <stddef.h>
#include <stdbool.h>

enum { BO_CHANNELS = 16, BO_COMPLEX_ROW = 2 * BO_CHANNELS };

/* s' = s + μ s + P (Qᵀ s) + b u, y = Re(c s'), states of `size` complex numbers; μ = A - 1, so that slow modes keep their
 * digits. mu, b, c: `size` complex rows; p, q: `rank` of them for each state. rank 0: no p and q, and b is 1 (NULL). */
typedef struct bo_systems {
    size_t size, rank; /* rank <= BO_SYSTEMS_RANK */
    const float *mu, *c, *b, *p, *q;
} bo_systems;
enum { BO_SYSTEMS_RANK = 16 };

/* Of a real function by z = x + iy: its derivative by x and i times that by y. As bo_systems. */
typedef struct bo_systems_gradients {
    float *mu, *c, *b, *p, *q;
} bo_systems_gradients;

typedef struct bo_channels {
    /* u, y: `tokens` rows; y += the systems' answer; s goes on from where it is. */
    void (*run)(const bo_systems *systems, size_t tokens, float *s, const float *u, float *y);
    /* s: before the first token; g: the gradient of the state after the last one, left as that of s. Adds to d and, from dy, to
     * du. work: tokens * size complex rows. */
    void (*run_back)(const bo_systems *systems, size_t tokens, const float *s, const float *u, const float *dy,
                     float *g, float *work, const bo_systems_gradients *d, float *du);
    /* y_t += Re(c s_t) of `tokens` states. */
    void (*read)(size_t size, const float *c, size_t tokens, const float *s, float *y);
    /* x: n complex rows, n a power of two, into its discrete Fourier transform, whose rows lie in an order that only n decides;
     * and from there back to n times x. roots: 3n/4 pairs (cos, -sin)(2πk / n). */
    void (*fourier)(size_t n, const float *roots, float *x);
    void (*fourier_back)(size_t n, const float *roots, float *x);
    /* z = a b, or z = a conj(b), of complex rows; `add`: z += */
    void (*multiply)(size_t rows, const float *a, const float *b, bool conjugate, bool add, float *z);
} bo_channels;

extern const bo_channels bo_ref_channels;
#if defined(__x86_64__)
extern const bo_channels bo_avx2_channels, bo_avx512_channels;
#elif defined(__aarch64__)
extern const bo_channels bo_neon_channels;
#endif

#endif
