/* Times of kernel matrices in float32 (bo_kernel_block) and of gradients of kernel expansions (bo_kernel_gradient),
 * relative to the same matrix in float64 (bo_kernel_matrix). Usage: bench_pairs [rows] [dim] [repeats] [threads] */
#include <bochner/names.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/features/kernel_block.h"

enum { WIDE_ROWS = 512 }; /* rows of the matrix in float64, whose time is extrapolated */

typedef struct inputs {
    bo_context *context;
    size_t rows, dim;
    int repeats;
    float *x, *copy, *k, *alpha, *gradient;
    double *wide;
} inputs;

typedef bo_status (*measured)(const inputs *in, const bo_features_desc *desc);

/* Returns the minimum time: load of other programs only increases times. */
static bo_status best_time(const inputs *in, const bo_features_desc *desc, measured run, double *seconds)
{
    *seconds = INFINITY;
    for (int r = 0; r < in->repeats; r++) {
        double start = bo_seconds();
        BO_TRY(run(in, desc));
        *seconds = fmin(*seconds, bo_seconds() - start);
    }
    return BO_OK;
}

static bo_status run_matrix(const inputs *in, const bo_features_desc *desc)
{
    size_t rows = in->rows < WIDE_ROWS ? in->rows : WIDE_ROWS;
    return bo_kernel_matrix(in->context, desc, rows, in->x, in->dim, in->rows, in->x, in->dim, in->wide, in->rows);
}

static bo_status run_block(const inputs *in, const bo_features_desc *desc)
{
    return bo_kernel_block(in->context, desc, in->rows, in->x, in->dim, in->rows, in->copy, in->dim, in->k, in->rows);
}

static bo_status run_mirrored(const inputs *in, const bo_features_desc *desc)
{
    return bo_kernel_block(in->context, desc, in->rows, in->x, in->dim, in->rows, in->x, in->dim, in->k, in->rows);
}

static bo_status run_gradient(const inputs *in, const bo_features_desc *desc)
{
    return bo_kernel_gradient(in->context, desc, in->rows, in->x, in->dim, in->rows, in->x, in->dim, 1, in->alpha,
                              in->gradient);
}

static bo_status compare(const inputs *in)
{
    static const bo_kernel kernels[] = {BO_KERNEL_RBF,      BO_KERNEL_MATERN12, BO_KERNEL_MATERN32,
                                        BO_KERNEL_MATERN52, BO_KERNEL_CAUCHY,   BO_KERNEL_RATIONAL_QUADRATIC,
                                        BO_KERNEL_LAPLACIAN};
    double part = (double)(in->rows < WIDE_ROWS ? in->rows : WIDE_ROWS) / (double)in->rows;
    printf("%-20s %10s %10s %10s %10s\n", "seconds", "float64", "float32", "mirrored", "gradient");
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        bo_features_desc desc = {.kernel = kernels[i], .dim = in->dim, .gamma = 0.5, .alpha = 1.5};
        double wide = 0, block = 0, mirrored = 0, gradient = 0;
        BO_TRY(best_time(in, &desc, run_matrix, &wide));
        BO_TRY(best_time(in, &desc, run_block, &block));
        BO_TRY(best_time(in, &desc, run_mirrored, &mirrored));
        BO_TRY(best_time(in, &desc, run_gradient, &gradient));
        printf("%-20s %10.3f %10.3f %10.3f %10.3f\n", bo_enum_name(BO_ENUM_KERNEL, kernels[i]), wide / part, block,
               mirrored, gradient);
    }
    return BO_OK;
}

int main(int argc, char **argv)
{
    int rows = argc > 1 ? atoi(argv[1]) : 10000, dim = argc > 2 ? atoi(argv[2]) : 10;
    inputs in = {.repeats = argc > 3 ? atoi(argv[3]) : 3};
    if (rows < 1 || dim < 1 || in.repeats < 1) return 2;
    in.rows = (size_t)rows, in.dim = (size_t)dim;
    if (bo_context_create(&(bo_context_desc){.threads = argc > 4 ? atoi(argv[4]) : 0}, &in.context) != BO_OK) return 1;
    size_t numbers = in.rows * in.dim;
    in.x = malloc(numbers * sizeof *in.x), in.copy = malloc(numbers * sizeof *in.copy);
    in.alpha = malloc(in.rows * sizeof *in.alpha), in.gradient = malloc(numbers * sizeof *in.gradient);
    in.k = malloc(in.rows * in.rows * sizeof *in.k), in.wide = malloc(WIDE_ROWS * in.rows * sizeof *in.wide);
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < numbers; i++) in.x[i] = in.copy[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < in.rows; i++) in.alpha[i] = (float)bo_rng_normal(&rng);
    printf("%zu x %zu, dim %zu, %d threads, %s\n", in.rows, in.rows, in.dim, bo_context_describe(in.context)->threads,
           bo_context_describe(in.context)->isa);
    bo_status status = compare(&in);
    if (status != BO_OK) fprintf(stderr, "%s\n", bo_context_error(in.context));
    free(in.x), free(in.copy), free(in.alpha), free(in.gradient), free(in.k), free(in.wide);
    bo_context_destroy(in.context);
    return status == BO_OK ? 0 : 1;
}
