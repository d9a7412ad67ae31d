/* Features of a block of rows in float64 on the calling thread, row by row: the reference of block.c.
 *   t = factor ∘ x,   u = s W t,   dx = factor ∘ (s Wᵀ du + dt),
 * where dt is the function's own part; for a function with log scales it is push t. */
#include <string.h>
#include "../base/carver.h"
#include "../math/plain.h"
#include "block.h"
#include "internal.h"

typedef struct row {
    double *t, *u, *dt, *du;
    void *scratch; /* scratch memory of the function */
} row;

/* Lays out the buffers of one row in `scratch` (NULL: only counts) and returns their size in bytes. */
static size_t carve(const bo_features *f, char *scratch, row *out)
{
    bo_carver carver = {scratch, 0};
    out->t = bo_carve(&carver, f->desc.dim, sizeof(double));
    out->u = bo_carve(&carver, f->frequencies, sizeof(double));
    out->dt = bo_carve(&carver, f->desc.dim, sizeof(double));
    out->du = bo_carve(&carver, f->frequencies, sizeof(double));
    out->scratch = bo_carve(&carver, f->function->scratch ? f->function->scratch(f) : 0, 1);
    return carver.bytes;
}

bool bo_features_has_f64(const bo_features *features)
{
    return features->function->forward_f64 != NULL;
}

size_t bo_features_block_f64_bytes(const bo_features *features)
{
    row unused;
    return carve(features, NULL, &unused);
}

static void project(const bo_features *f, const double *w, const double *x, const row *at)
{
    size_t dim = f->desc.dim;
    for (size_t j = 0; j < dim; j++) at->t[j] = f->factor[j] * x[j];
    for (size_t i = 0; i < f->frequencies; i++) at->u[i] = f->u_scale * bo_dot_f64(dim, w + i * dim, at->t);
}

void bo_features_block_f64(const bo_features *features, const double *w, size_t rows, const double *x, double *z,
                           double *log_scale, void *scratch)
{
    const bo_function_definition *function = features->function;
    size_t count = features->desc.features;
    row at;
    carve(features, scratch, &at);
    for (size_t r = 0; r < rows; r++) {
        project(features, w, x + r * features->desc.dim, &at);
        log_scale[r] = 0;
        if (bo_features_scaled(features))
            function->scaled_f64(features, at.u, at.t, z + r * count, &log_scale[r]);
        else
            function->forward_f64(features, 1, at.u, at.t, z + r * count, count, at.scratch);
    }
}

/* Computes du and dt. Functions without frequencies write dt. */
static void differentiate(const bo_features *f, const double *z, const double *dz, const row *at)
{
    size_t dim = f->desc.dim;
    double push = 0;
    memset(at->dt, 0, dim * sizeof *at->dt);
    if (!bo_features_scaled(f)) {
        f->function->backward_f64(f, 1, at->u, at->t, dz, f->desc.features, at->du, at->dt, at->scratch);
        return;
    }
    f->function->scaled_backward_f64(f, z, dz, f->frequencies ? at->du : at->dt, &push);
    for (size_t j = 0; j < dim; j++) at->dt[j] += push * at->t[j];
}

void bo_features_block_backward_f64(const bo_features *features, const double *w, size_t rows, const double *x,
                                    const double *z, const double *dz, double *dx, void *scratch)
{
    size_t dim = features->desc.dim, count = features->desc.features;
    row at;
    carve(features, scratch, &at);
    for (size_t r = 0; r < rows; r++) {
        project(features, w, x + r * dim, &at);
        differentiate(features, z + r * count, dz + r * count, &at);
        for (size_t i = 0; i < features->frequencies; i++)
            bo_axpy_f64(dim, features->u_scale * at.du[i], w + i * dim, at.dt);
        for (size_t j = 0; j < dim; j++) dx[r * dim + j] = features->factor[j] * at.dt[j];
    }
}
