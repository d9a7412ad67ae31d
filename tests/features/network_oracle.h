/* Reference for the kernels of infinitely wide networks: the recursion of features.h as it is written there, on
 * covariances, in long double. */
#ifndef BO_TEST_NETWORK_ORACLE_H
#define BO_TEST_NETWORK_ORACLE_H

#include <math.h>
#include <bochner/features.h>

typedef struct oracle_layer {
    long double xx, xy, yy; /* Σ */
} oracle_layer;

static inline long double oracle_mean(bo_hidden_activation activation, long double a, long double c, long double b)
{
    const long double pi = acosl(-1.0L), root = sqrtl(a * b);
    if (activation == BO_HIDDEN_ERF) return 2 / pi * asinl(2 * c / sqrtl((1 + 2 * a) * (1 + 2 * b)));
    if (root == 0) return 0;
    const long double cosine = fminl(1, fmaxl(-1, c / root)), theta = acosl(cosine);
    return root * (sinl(theta) + (pi - theta) * cosine) / (2 * pi);
}

static inline long double oracle_slope(bo_hidden_activation activation, oracle_layer s)
{
    const long double pi = acosl(-1.0L);
    if (activation == BO_HIDDEN_ERF) return 4 / pi / sqrtl((1 + 2 * s.xx) * (1 + 2 * s.yy) - 4 * s.xy * s.xy);
    if (s.xx * s.yy == 0) return 0.25L;
    return (pi - acosl(fminl(1, fmaxl(-1, s.xy / sqrtl(s.xx * s.yy))))) / (2 * pi);
}

/* x and y after the length scales; gamma, depth and weight_variance must be set. */
static inline double oracle_network(const bo_features_desc *desc, const double *x, const double *y)
{
    const long double b = (long double)desc->bias_variance, w = (long double)desc->weight_variance;
    oracle_layer s = {b, b, b};
    for (size_t j = 0; j < desc->dim; j++) {
        const long double scale = w * (long double)desc->gamma;
        s.xx += scale * (long double)x[j] * (long double)x[j];
        s.xy += scale * (long double)x[j] * (long double)y[j];
        s.yy += scale * (long double)y[j] * (long double)y[j];
    }
    long double theta = s.xy;
    for (int l = 0; l < desc->depth; l++) {
        const long double slope = oracle_slope(desc->activation, s);
        s = (oracle_layer){b + w * oracle_mean(desc->activation, s.xx, s.xx, s.xx),
                           b + w * oracle_mean(desc->activation, s.xx, s.xy, s.yy),
                           b + w * oracle_mean(desc->activation, s.yy, s.yy, s.yy)};
        theta = s.xy + w * slope * theta;
    }
    return (double)(desc->kernel == BO_KERNEL_NTK ? theta : s.xy);
}

#endif
