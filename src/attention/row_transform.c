/* The transform. RFA (Peng et al. 2021): t = σ ∘ x / (|x| + e), e = 1e-3; the temperature is part of the map's γ. DARK
 * and HYBRID with a rank (arXiv 2603.04127): t = M x. Learned maps: t = W x + b for queries, W' x + b' for keys
 * (default: W and b). */
#include "row_transform.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "parameters.h"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

bo_row_transform_type bo_row_transform_type_of(const bo_attention_desc *desc)
{
    if (bo_attention_has(desc, BO_TRAIT_AFFINE)) return BO_ROW_TRANSFORM_AFFINE;
    if (bo_attention_has(desc, BO_TRAIT_MATRIX)) return BO_ROW_TRANSFORM_MATRIX;
    return bo_attention_has(desc, BO_TRAIT_UNIT_ROWS) || desc->unit ? BO_ROW_TRANSFORM_UNIT : BO_ROW_TRANSFORM_NONE;
}

/* Returns one side with the parameters `m` and `bias` of one key head. */
static bo_affine affine_of(const bo_row_transform *transform, const bo_attention *attention, const float *m,
                           const float *bias, size_t key_head, bo_parameter of_m, bo_parameter of_bias, float *mt)
{
    bo_affine side = {
        .mt = mt, .dm = bo_parameter_offset(attention, of_m), .dbias = bo_parameter_offset(attention, of_bias)};
    if (m) side.m = m + key_head * transform->width * transform->dim;
    if (bias) side.bias = bias + key_head * transform->width;
    return side;
}

static void transpose_matrix(const bo_row_transform *transform, const bo_affine *side)
{
    if (side->m)
        transform->kernels->transpose(transform->width, transform->dim, side->m, transform->dim, side->mt,
                                      transform->width);
}

/* Sets both sides: parameters that are not given for the keys are those of the queries, including gradients. */
static void make_sides(bo_row_transform *transform, const bo_attention *attention, const bo_attention_inputs *in,
                       size_t key_head, float *mt, float *mt_k)
{
    bo_parameter m_k = in->m_k ? BO_PARAMETER_M_K : BO_PARAMETER_M,
                 bias_k = in->bias_k ? BO_PARAMETER_BIAS_K : BO_PARAMETER_BIAS;
    bo_affine *queries = &transform->sides[BO_OF_QUERIES], *keys = &transform->sides[BO_OF_KEYS];
    *queries = affine_of(transform, attention, in->m, in->bias, key_head, BO_PARAMETER_M, BO_PARAMETER_BIAS, mt);
    *keys = affine_of(transform, attention, in->m_k ? in->m_k : in->m, in->bias_k ? in->bias_k : in->bias, key_head,
                      m_k, bias_k, in->m_k ? mt_k : mt);
    transpose_matrix(transform, queries);
    if (in->m_k) transpose_matrix(transform, keys);
}

bo_row_transform bo_row_transform_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                       bo_carver *carver)
{
    const bo_attention_desc *desc = &attention->desc;
    bo_row_transform transform = {.type = bo_row_transform_type_of(desc),
                                  .kernels = attention->kernels,
                                  .dim = desc->dim,
                                  .width = desc->rank ? desc->rank : desc->dim,
                                  .has_sigma = attention->traits & BO_TRAIT_SIGMA};
    if (desc->rank) transform.products = bo_multiplier_make(attention->kernels, attention->precision, carver);
    size_t matrix = transform.width * transform.dim;
    float *mt = bo_carve_floats(carver, desc->rank ? matrix : 0);
    float *mt_k = bo_carve_floats(carver, transform.type == BO_ROW_TRANSFORM_AFFINE ? matrix : 0);
    assert(transform.width == (attention->traits & BO_TRAIT_FEATURES ? desc->features.dim : desc->dim));
    if (!carver->at) return transform;
    if (transform.has_sigma && in->sigma) transform.sigma = in->sigma + key_head * desc->dim;
    if (desc->rank) make_sides(&transform, attention, in, key_head, mt, mt_k);
    return transform;
}

bool bo_row_transform_gradients_requested(const bo_attention_gradients *gradients)
{
    return gradients->sigma || gradients->m || gradients->m_k || gradients->bias || gradients->bias_k;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static double norm(const bo_row_transform *transform, const float *x)
{
    return sqrt(transform->kernels->dot(transform->dim, x, x));
}

static void forward_unit(const bo_row_transform *transform, const float *x, float *t)
{
    transform->kernels->scale(transform->dim, (float)(1 / (norm(transform, x) + BO_NORM_EPSILON)), x, t);
    for (size_t j = 0; transform->sigma && j < transform->dim; j++) t[j] *= transform->sigma[j];
}

static void forward_affine(const bo_row_transform *transform, const bo_affine *side, size_t rows, const float *x,
                           size_t ldx, float *t)
{
    size_t width = transform->width;
    for (size_t r = 0; side->bias && r < rows; r++) memcpy(t + r * width, side->bias, width * sizeof *t);
    if (side->m)
        bo_multiply(&transform->products, rows, width, transform->dim, x, ldx, 1, side->mt, width, side->bias != NULL,
                    t, width);
    for (size_t r = 0; !side->m && r < rows; r++) transform->kernels->axpy(width, 1, x + r * ldx, t + r * width);
}

const float *bo_row_transform_forward(const bo_row_transform *transform, bo_role role, size_t rows, const float *x,
                                      size_t ldx, float *t, size_t *ldt)
{
    const bo_affine *affine = &transform->sides[role];
    *ldt = transform->width;
    if (transform->type == BO_ROW_TRANSFORM_UNIT) {
        for (size_t r = 0; r < rows; r++) forward_unit(transform, x + r * ldx, t + r * transform->width);
        return t;
    }
    if (affine->m || affine->bias) {
        forward_affine(transform, affine, rows, x, ldx, t);
        return t;
    }
    *ldt = ldx;
    return x;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* y = x / (n + e): dx = dy / (n + e) - x (x·dy) / (n (n + e)²) */
static void backward_unit(const bo_row_transform *transform, const float *x, const float *dt, float *dx, float *dsigma)
{
    double n = norm(transform, x), factor = 1 / (n + BO_NORM_EPSILON), inner = 0;
    for (size_t j = 0; j < transform->dim; j++) {
        double s = transform->sigma ? (double)transform->sigma[j] : 1;
        inner += (double)x[j] * s * (double)dt[j];
        if (dsigma) dsigma[j] += (float)((double)dt[j] * (double)x[j] * factor);
    }
    double along = n > 0 ? inner * factor * factor / n : 0;
    for (size_t j = 0; j < transform->dim; j++) {
        double s = transform->sigma ? (double)transform->sigma[j] : 1;
        dx[j] = (float)(s * (double)dt[j] * factor - (double)x[j] * along);
    }
}

/* Computes dM += dtᵀ x, db += Σ dt. */
static void affine_parameters(const bo_row_transform *transform, const bo_affine *side, size_t rows, const float *x,
                              size_t ldx, const float *dt, float *parameters)
{
    size_t dim = transform->dim, width = transform->width;
    bo_multiply(&transform->products, width, dim, rows, dt, 1, width, x, ldx, true, parameters + side->dm, dim);
    for (size_t r = 0; transform->type == BO_ROW_TRANSFORM_AFFINE && r < rows; r++)
        transform->kernels->axpy(width, 1, dt + r * width, parameters + side->dbias);
}

static void backward_affine(const bo_row_transform *transform, const bo_affine *side, size_t rows, const float *dt,
                            float *dx, size_t lddx)
{
    size_t dim = transform->dim, width = transform->width;
    if (side->m) {
        bo_multiply(&transform->products, rows, dim, width, dt, width, 1, side->m, dim, false, dx, lddx);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        memmove(dx + r * lddx, dt + r * width, width * sizeof *dx);
        memset(dx + r * lddx + width, 0, (dim - width) * sizeof *dx);
    }
}

void bo_row_transform_backward(const bo_row_transform *transform, bo_role role, size_t rows, const float *x, size_t ldx,
                               const float *dt, float *dx, size_t lddx, float *parameters)
{
    const bo_affine *affine = &transform->sides[role];
    if (transform->type == BO_ROW_TRANSFORM_UNIT) {
        float *dsigma = transform->has_sigma ? parameters : NULL; /* σ is the first parameter */
        for (size_t r = 0; r < rows; r++)
            backward_unit(transform, x + r * ldx, dt + r * transform->width, dx + r * lddx, dsigma);
        return;
    }
    bool ranked = transform->type == BO_ROW_TRANSFORM_MATRIX || transform->type == BO_ROW_TRANSFORM_AFFINE;
    if (ranked && parameters) affine_parameters(transform, affine, rows, x, ldx, dt, parameters);
    backward_affine(transform, affine, rows, dt, dx, lddx);
}
