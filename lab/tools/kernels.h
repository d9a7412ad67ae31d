/* Kernels on rows of numbers, and errors of feature maps. */
#ifndef BO_LAB_TOOLS_KERNELS_H
#define BO_LAB_TOOLS_KERNELS_H

#include "../measurement.h"
#include <bochner/features.h>

/* estimate (rows x rows): φ(x_i)·φ(x_j) for features z, rows x features. */
bo_status lab_products(bo_context *context, size_t rows, size_t features, const float *z, float *estimate);
/* The same for the feature map `desc`. x: rows x desc->dim. */
bo_status lab_estimate_kernel(bo_context *context, const bo_features_desc *desc, size_t rows, const float *x,
                              float *estimate);
/* Mean of (estimate - kernel)² over count numbers. */
double lab_squared_error(size_t count, const float *estimate, const double *kernel);

double lab_argument_scale(const bo_features *map); /* the factor of x in the arguments of the frequencies */

/* Exact kernel ridge regression, f(x) = Σ_i α_i k(x, x_i) with α = (K + λI)⁻¹ y, evaluated at other rows. */
typedef struct lab_kernel_ridge {
    const bo_features_desc *kernel; /* includes dim */
    size_t rows, other_rows;
    const float *x, *other; /* rows x dim, other_rows x dim */
    const double *y;        /* rows */
    double lambda;
} lab_kernel_ridge;
bo_status lab_kernel_ridge_predict(bo_context *context, const lab_kernel_ridge *ridge, double *prediction);

#endif
