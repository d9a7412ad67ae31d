/* Features of a block of rows on the calling thread. This is the only float implementation of φ: bo_features_apply runs
 * it in its tasks, and attention calls it inside its own tasks. Raw inputs are never scaled: the factors are part of
 * the packed frequencies, and enter the gradient as two vectors:
 *   dx = factor ∘ (s du W + push t),   t = factor ∘ x,
 * where push is the factor of t in the gradient of ±|t|²/2 in the exponent of a scaled function. */
#include <string.h>
#include "../base/carver.h"
#include "block.h"
#include "../math/block.h"
#include "internal.h"

bool bo_features_scaled(const bo_features *features)
{
    return bo_kernel_find(features->desc.kernel)->scaled && !features->landmarks;
}

bool bo_features_nonnegative(const bo_features *features)
{
    return features->function->nonnegative;
}

bool bo_features_closed(const bo_features *features)
{
    bo_function function = features->desc.function;
    return function == BO_FUNCTION_POLYNOMIAL || function == BO_FUNCTION_TAYLOR || function == BO_FUNCTION_IDENTITY;
}

bool bo_features_differentiable(const bo_features *features)
{
    return features->desc.function != BO_FUNCTION_CUSTOM || features->desc.custom_backward;
}

double bo_features_argument_scale(const bo_features *features)
{
    return features->u_scale;
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

/* Rows are processed BO_BLOCK_ROWS at a time, which limits the scratch memory. NULL: not needed. */
typedef struct buffers {
    float *project; /* buffer of the structured transform */
    float *t, *u;   /* rows x dim and rows x m, for functions that are not evaluated in place */
    float *du, *dt; /* gradients of u and t */
    float *push;    /* one number per row */
    void *scratch;  /* scratch memory of the function */
    bo_multiplier products;
} buffers;

/* Lays out the buffers in `scratch` (NULL: only counts) and returns their size in bytes. */
static size_t carve(const bo_features *f, size_t rows, bool backward, char *scratch, buffers *b)
{
    bo_carver carver = {scratch, 0};
    size_t m = f->frequencies, dim = f->desc.dim;
    bool in_place = backward ? f->function->fast_backward != NULL : f->function->fast != NULL;
    if (rows > BO_BLOCK_ROWS) rows = BO_BLOCK_ROWS;
    *b = (buffers){0};
    if (f->hadamard.padded) b->project = bo_carve_floats(&carver, f->hadamard.padded);
    if (backward) b->products = bo_multiplier_make(f->kernels, f->precision, &carver);
    if (backward) b->du = bo_carve_floats(&carver, rows * m);
    if (backward && m && bo_features_scaled(f)) b->push = bo_carve_floats(&carver, rows);
    if (in_place) return carver.bytes;
    b->t = bo_carve_floats(&carver, rows * dim);
    b->u = bo_carve_floats(&carver, rows * m);
    if (backward) b->dt = bo_carve_floats(&carver, rows * dim);
    if (f->function->scratch) b->scratch = bo_carve(&carver, f->function->scratch(f), 1);
    return carver.bytes;
}

size_t bo_features_forward_bytes(const bo_features *features, size_t rows)
{
    buffers unused;
    return carve(features, rows, false, NULL, &unused);
}

size_t bo_features_block_bytes(const bo_features *features, size_t rows)
{
    buffers unused;
    size_t forward = carve(features, rows, false, NULL, &unused), backward = carve(features, rows, true, NULL, &unused);
    return forward > backward ? forward : backward;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* For maps of sparse rows, which have no packed factor. */
static void project_directly(const bo_features *f, size_t rows, const float *x, size_t ldx, float *u, size_t ldu)
{
    for (size_t i = 0; i < f->frequencies; i++)
        for (size_t r = 0; r < rows; r++) {
            const float *w = f->w + i * f->desc.dim, *row = x + r * ldx;
            double sum = 0;
            for (size_t j = 0; j < f->desc.dim; j++) sum += (double)w[j] * (double)(row[j] * f->slope[j]);
            u[r * ldu + i] = (float)sum;
        }
}

static void project(const bo_features *f, size_t rows, const float *x, size_t ldx, float *u, size_t ldu, float *buffer)
{
    if (f->packed)
        bo_packed_multiply(f->packed, rows, x, ldx, u, ldu);
    else if (f->w)
        project_directly(f, rows, x, ldx, u, ldu);
    else if (f->hadamard.padded)
        bo_hadamard_project(f, rows, x, ldx, u, ldu, buffer);
}

static void scale_inputs(const bo_features *f, size_t rows, const float *x, size_t ldx, float *t)
{
    size_t dim = f->desc.dim;
    for (size_t r = 0; r < rows; r++)
        if (!f->length_scales)
            f->kernels->scale(dim, (float)f->input_scale, x + r * ldx, t + r * dim);
        else
            for (size_t j = 0; j < dim; j++) t[r * dim + j] = x[r * ldx + j] * (float)f->factor[j];
}

static void forward_rows(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale, const buffers *b)
{
    if (f->function->fast) {
        project(f, rows, x, ldx, z, ldz, b->project);
        f->function->fast(f, rows, x, ldx, z, ldz, log_scale);
    } else {
        scale_inputs(f, rows, x, ldx, b->t);
        project(f, rows, x, ldx, b->u, f->frequencies, b->project);
        f->function->forward_f32(f, rows, b->u, b->t, z, ldz, b->scratch);
    }
}

void bo_features_forward(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale, void *scratch)
{
    buffers b;
    carve(features, rows, false, scratch, &b);
    for (size_t r = 0; r < rows; r += BO_BLOCK_ROWS) {
        size_t count = rows - r < BO_BLOCK_ROWS ? rows - r : BO_BLOCK_ROWS;
        forward_rows(features, count, x + r * ldx, ldx, z + r * ldz, ldz, log_scale ? log_scale + r : NULL, &b);
    }
}

void bo_features_block(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                       float *log_scale, void *scratch)
{
    bool scaled = bo_features_scaled(features);
    if (!scaled) memset(log_scale, 0, rows * sizeof *log_scale);
    bo_features_forward(features, rows, x, ldx, z, ldz, scaled ? log_scale : NULL, scratch);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes dx = du W, without factors. */
static void project_back(const bo_features *f, size_t rows, const float *du, float *dx, size_t lddx, const buffers *b)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    if (f->hadamard.padded)
        bo_hadamard_project_back(f, rows, du, m, dx, lddx, b->project);
    else if (f->w)
        bo_multiply(&b->products, rows, dim, m, du, m, 1, f->w, dim, false, dx, lddx);
}

static void add_push(const bo_features *f, size_t rows, const float *x, size_t ldx, const float *push, float *dx,
                     size_t lddx)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < f->desc.dim; j++)
            dx[r * lddx + j] = f->slope[j] * dx[r * lddx + j] + push[r] * (f->square[j] * x[r * ldx + j]);
}

static void apply_slope(const bo_features *f, size_t rows, float *dx, size_t lddx)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < f->desc.dim; j++) dx[r * lddx + j] *= f->slope[j];
}

static void backward_in_place(const bo_features *f, size_t rows, const float *x, size_t ldx, const float *z, size_t ldz,
                              const float *dz, size_t lddz, float *dx, size_t lddx, const buffers *b)
{
    size_t m = f->frequencies;
    f->function->fast_backward(f, rows, z, ldz, dz, lddz, m ? b->du : dx, m ? m : lddx, b->push);
    project_back(f, rows, b->du, dx, lddx, b);
    if (b->push)
        add_push(f, rows, x, ldx, b->push, dx, lddx);
    else
        apply_slope(f, rows, dx, lddx);
}

/* Computes the gradient by definition; u and t are recomputed. */
static void backward_again(const bo_features *f, size_t rows, const float *x, size_t ldx, const float *dz, size_t lddz,
                           float *dx, size_t lddx, const buffers *b)
{
    size_t dim = f->desc.dim;
    scale_inputs(f, rows, x, ldx, b->t);
    project(f, rows, x, ldx, b->u, f->frequencies, b->project);
    memset(b->dt, 0, rows * dim * sizeof(float));
    f->function->backward_f32(f, rows, b->u, b->t, dz, lddz, b->du, b->dt, b->scratch);
    if (!f->frequencies)
        for (size_t r = 0; r < rows; r++) memset(dx + r * lddx, 0, dim * sizeof(float));
    project_back(f, rows, b->du, dx, lddx, b);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++)
            dx[r * lddx + j] = f->slope[j] * dx[r * lddx + j] + (float)f->factor[j] * b->dt[r * dim + j];
}

void bo_features_block_backward(const bo_features *features, size_t rows, const float *x, size_t ldx, const float *z,
                                size_t ldz, const float *dz, size_t lddz, float *dx, size_t lddx, void *scratch)
{
    buffers b;
    carve(features, rows, true, scratch, &b);
    for (size_t r = 0; r < rows; r += BO_BLOCK_ROWS) {
        size_t count = rows - r < BO_BLOCK_ROWS ? rows - r : BO_BLOCK_ROWS;
        if (features->function->fast_backward)
            backward_in_place(features, count, x + r * ldx, ldx, z + r * ldz, ldz, dz + r * lddz, lddz, dx + r * lddx,
                              lddx, &b);
        else
            backward_again(features, count, x + r * ldx, ldx, dz + r * lddz, lddz, dx + r * lddx, lddx, &b);
    }
}
