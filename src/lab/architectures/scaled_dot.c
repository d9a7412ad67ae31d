/* scaled-dot: why attention divides by √d. */
#include "../lab.h"
#include "../statistics.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "variance",
     .statement = "The inner product of two vectors with d independent entries of variance 1 has variance d.",
     .number = "exponent of the variance in d",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05},
};

static const bo_lab_table tables[] = {
    {.name = "variance",
     .title = "Variance of q·k",
     .rows = "d",
     .values = "variance",
     .log_x = true,
     .log_y = true,
     .theory = "d"},
};

static double variance_of_dot(bo_rng *rng, size_t dim, size_t pairs)
{
    double sum = 0;
    for (size_t p = 0; p < pairs; p++) {
        double dot = 0;
        for (size_t i = 0; i < dim; i++) dot += bo_rng_normal(rng) * bo_rng_normal(rng);
        sum += dot * dot;
    }
    return sum / (double)pairs;
}

static bo_status measure(lab_run *run)
{
    enum { DIMS = 7 };
    double dims[DIMS], variances[DIMS];
    bo_rng rng = lab_rng(run, "lab.scaled-dot");
    for (size_t i = 0; i < DIMS; i++) {
        const size_t dim = (size_t)4 << i;
        dims[i] = (double)dim;
        variances[i] = variance_of_dot(&rng, dim, lab_size(run, 20000, 2000));
        lab_point(run, "variance", "measured", dims[i], variances[i]);
        lab_point(run, "variance", "d", dims[i], dims[i]);
    }
    lab_claim(run, "variance", lab_exponent(dims, variances, DIMS));
    return BO_OK;
}

const lab_experiment lab_scaled_dot = {{.name = "scaled-dot",
                                        .group = LAB_ARCHITECTURES,
                                        .title = "Inner products of queries and keys grow with √d",
                                        LAB_CLAIMS(claims),
                                        LAB_TABLES(tables)},
                                       measure};
