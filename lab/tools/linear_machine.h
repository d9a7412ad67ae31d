/* Kernel machines with the linear kernel: ridge regression of the library, for comparison with closed forms. */
#ifndef BO_LAB_TOOLS_LINEAR_MACHINE_H
#define BO_LAB_TOOLS_LINEAR_MACHINE_H

#include "least_squares.h"

typedef struct lab_linear_machine {
    double lambda; /* positive; otherwise the kernel machine chooses λ */
    double noise, dropout;
} lab_linear_machine;

/* Fits the problem without intercept or scaling and predicts `rows` rows of x. */
bo_status lab_machine_predict(bo_context *context, const lab_least_squares *problem, const lab_linear_machine *machine,
                              size_t rows, const float *x, double *out);
/* Largest |prediction - x·w| over these rows divided by the root mean square of x·w. */
bo_status lab_machine_gap(bo_context *context, const lab_least_squares *problem, const lab_linear_machine *machine,
                          size_t rows, const float *x, const double *w, double *out);

#endif
