/* The front. RFA (Peng et al. 2021): t = σ ∘ x / (|x| + e), e = 1e-3; the temperature is part of the map's γ. DARK
 * (2603.04127): t = M x. */
#include <math.h>
#include <string.h>
#include "front.h"

static const double least_norm = 1e-3; /* e: a zero row stays zero */

bo_front bo_front_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, bo_carver *carver)
{
    const bo_attention_desc *desc = &attention->desc;
    bool dark = desc->kind == BO_ATTENTION_DARK;
    bo_front front = {
        .kind = desc->kind, .kernels = attention->kernels, .dim = desc->dim, .width = dark ? desc->rank : desc->dim};
    if (dark) front.mt = bo_carve_floats(carver, desc->rank * desc->dim);
    if (!carver->at) return front;
    if (desc->kind == BO_ATTENTION_RFA && in->sigma) front.sigma = in->sigma + key_head * desc->dim;
    if (dark && in->m) {
        front.m = in->m + key_head * desc->rank * desc->dim;
        front.kernels->transpose(desc->rank, desc->dim, front.m, desc->dim, front.mt, desc->rank);
    }
    return front;
}

size_t bo_front_parameters(const bo_attention *attention)
{
    const bo_attention_desc *desc = &attention->desc;
    if (desc->kind == BO_ATTENTION_RFA) return desc->dim;
    return desc->kind == BO_ATTENTION_DARK ? desc->rank * desc->dim : 0;
}

static double norm(const bo_front *front, const float *x)
{
    return sqrt(front->kernels->dot(front->dim, x, x));
}

const float *bo_front_forward(const bo_front *front, size_t rows, const float *x, size_t ldx, float *t, size_t *ldt)
{
    *ldt = front->width;
    if (front->kind == BO_ATTENTION_RFA) {
        for (size_t r = 0; r < rows; r++) {
            float *row = t + r * front->dim;
            front->kernels->scale(front->dim, (float)(1 / (norm(front, x + r * ldx) + least_norm)), x + r * ldx, row);
            for (size_t j = 0; front->sigma && j < front->dim; j++) row[j] *= front->sigma[j];
        }
        return t;
    }
    if (front->m) {
        front->kernels->multiply(rows, front->width, front->dim, x, ldx, 1, front->mt, front->width, false, t,
                                 front->width);
        return t;
    }
    *ldt = ldx;
    return x;
}

/* y = x / (n + e): dx = dy / (n + e) - x (x·dy) / (n (n + e)²) */
static void backward_unit(const bo_front *front, const float *x, const float *dt, float *dx, float *dsigma)
{
    double n = norm(front, x), factor = 1 / (n + least_norm), inner = 0;
    for (size_t j = 0; j < front->dim; j++) {
        double s = front->sigma ? (double)front->sigma[j] : 1;
        inner += (double)x[j] * s * (double)dt[j];
        if (dsigma) dsigma[j] += (float)((double)dt[j] * (double)x[j] * factor);
    }
    double along = n > 0 ? inner * factor * factor / n : 0;
    for (size_t j = 0; j < front->dim; j++) {
        double s = front->sigma ? (double)front->sigma[j] : 1;
        dx[j] = (float)(s * (double)dt[j] * factor - (double)x[j] * along);
    }
}

void bo_front_backward(const bo_front *front, size_t rows, const float *x, size_t ldx, const float *dt, float *dx,
                       size_t lddx, float *parameters)
{
    size_t dim = front->dim, width = front->width;
    if (front->kind == BO_ATTENTION_RFA) {
        for (size_t r = 0; r < rows; r++) backward_unit(front, x + r * ldx, dt + r * width, dx + r * lddx, parameters);
        return;
    }
    if (front->kind == BO_ATTENTION_DARK && parameters)
        front->kernels->multiply(width, dim, rows, dt, 1, width, x, ldx, true, parameters, dim);
    if (front->m) {
        front->kernels->multiply(rows, dim, width, dt, width, 1, front->m, dim, false, dx, lddx);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        memcpy(dx + r * lddx, dt + r * width, width * sizeof *dx);
        memset(dx + r * lddx + width, 0, (dim - width) * sizeof *dx);
    }
}
