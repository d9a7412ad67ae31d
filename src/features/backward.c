/* Gradients, in both precisions from one source. With t = factor ∘ x, u = s w·t and the function's du and dt:
 *   dt += s du W,   dx = factor ∘ dt,   dℓ_j = -Σ dt_j t_j / ℓ_j (since t_j ~ 1/ℓ_j),   dw = s duᵀ t,
 * plus 2A w_i Σ du_i if A|w|² is part of the exponent (OPRF). Rows are processed in chunks, so that the size of the
 * scratch memory does not depend on their number. */
#ifdef REAL

typedef struct R(gradient) {
    const bo_features *features;
    size_t rows, lddz; /* rows of the chunk; stride of dz */
    const REAL *dz;
    REAL *w, *t, *u, *dt, *du; /* w: dense frequencies; t, dt: chunk x dim; u, du: chunk x m */
    double *length;            /* dim sums of dt t */
    char *scratch;
    size_t per_worker;
} R(gradient);

static void R(gradient_task)(void *arg, size_t index, int worker)
{
    const R(gradient) *g = arg;
    const bo_features *f = g->features;
    size_t m = f->frequencies, dim = f->desc.dim, first = index * BO_BLOCK_ROWS;
    size_t rows = g->rows - first < BO_BLOCK_ROWS ? g->rows - first : BO_BLOCK_ROWS;
    f->function->R(backward)(f, rows, g->u + first * m, g->t + first * dim, g->dz + first * g->lddz, g->lddz,
                             g->du + first * m, g->dt + first * dim, g->scratch + (size_t)worker * g->per_worker);
}

/* Computes t and u, then du and dt, for g->rows rows from x. */
static bo_status R(differentiate)(bo_context *context, R(gradient) * g, const REAL *x, size_t ldx)
{
    const bo_features *f = g->features;
    size_t m = f->frequencies, dim = f->desc.dim;
    for (size_t r = 0; r < g->rows; r++)
        for (size_t j = 0; j < dim; j++) {
            g->t[r * dim + j] = x[r * ldx + j] * (REAL)f->factor[j];
            g->dt[r * dim + j] = 0;
        }
    REAL scale = (REAL)f->u_scale;
    if (m) BO_TRY(R(bo_gemm)(context, false, true, g->rows, m, dim, scale, g->t, dim, g->w, dim, 0, g->u, m));
    bo_parallel(context, (g->rows + BO_BLOCK_ROWS - 1) / BO_BLOCK_ROWS, R(gradient_task), g);
    if (m) BO_TRY(R(bo_gemm)(context, false, false, g->rows, dim, m, scale, g->du, m, g->w, dim, 1, g->dt, dim));
    return BO_OK;
}

/* Adds the chunk to the gradients that are sums over rows, and writes its rows of dx. */
static bo_status R(collect)(bo_context *context, const R(gradient) * g, REAL *dx, size_t lddx, REAL *dfrequencies)
{
    const bo_features *f = g->features;
    size_t m = f->frequencies, dim = f->desc.dim;
    for (size_t r = 0; r < g->rows; r++)
        for (size_t j = 0; j < dim; j++) {
            if (dx) dx[r * lddx + j] = g->dt[r * dim + j] * (REAL)f->factor[j];
            g->length[j] += (double)g->dt[r * dim + j] * (double)g->t[r * dim + j];
        }
    if (!dfrequencies) return BO_OK;
    double per = 1 / f->input_scale; /* the caller's w includes √γ */
    BO_TRY(R(bo_gemm)(context, true, false, m, dim, g->rows, (REAL)(f->u_scale * per), g->du, m, g->t, dim, 1,
                      dfrequencies, dim));
    for (size_t i = 0; f->oprf_a != 0 && i < m; i++) {
        REAL sum = 0;
        for (size_t r = 0; r < g->rows; r++) sum += g->du[r * m + i];
        for (size_t j = 0; j < dim; j++)
            dfrequencies[i * dim + j] += (REAL)(2 * f->oprf_a * per) * sum * g->w[i * dim + j];
    }
    return BO_OK;
}

static bo_status R(all_chunks)(bo_context *context, R(gradient) * g, size_t rows, size_t chunk, const REAL *x,
                               size_t ldx, const REAL *dz, REAL *dx, size_t lddx, REAL *dlength_scales,
                               REAL *dfrequencies)
{
    const bo_features *f = g->features;
    size_t dim = f->desc.dim;
    if (f->frequencies) BO_TRY(R(bo_features_dense)(context, f, g->w));
    for (size_t i = 0; dfrequencies && i < f->frequencies * dim; i++) dfrequencies[i] = 0;
    for (size_t first = 0; first < rows; first += chunk) {
        g->rows = rows - first < chunk ? rows - first : chunk;
        g->dz = dz + first * g->lddz;
        BO_TRY(R(differentiate)(context, g, x + first * ldx, ldx));
        BO_TRY(R(collect)(context, g, dx ? dx + first * lddx : NULL, lddx, dfrequencies));
    }
    for (size_t j = 0; dlength_scales && j < dim; j++)
        dlength_scales[j] = (REAL)(-g->length[j] / (f->length_scales ? (double)f->length_scales[j] : 1));
    return BO_OK;
}

static bo_status R(backward)(bo_context *context, const bo_features *f, size_t rows, const REAL *x, size_t ldx,
                             const REAL *dz, size_t lddz, REAL *dx, size_t lddx, REAL *dlength_scales,
                             REAL *dfrequencies)
{
    size_t m = f->frequencies, dim = f->desc.dim, chunk = rows < CHUNK ? rows : CHUNK;
    R(gradient) g = {.features = f, .lddz = lddz};
    g.per_worker = f->function->scratch ? bo_padded_bytes(f->function->scratch(f)) : 0;
    g.w = bo_alloc_raw(context, m * dim, sizeof(REAL), "frequencies for gradients");
    g.t = bo_alloc_raw(context, chunk * (dim + m), 2 * sizeof(REAL), "gradients of features");
    g.length = bo_alloc(context, dim, sizeof(double), "gradients of length scales");
    g.scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context), g.per_worker, "gradients of features");
    bo_status status = g.w && g.t && g.length && g.scratch ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        g.dt = g.t + chunk * dim;
        g.u = g.dt + chunk * dim;
        g.du = g.u + chunk * m;
        status = R(all_chunks)(context, &g, rows, chunk, x, ldx, dz, dx, lddx, dlength_scales, dfrequencies);
    }
    bo_free(g.w);
    bo_free(g.t);
    bo_free(g.length);
    bo_free(g.scratch);
    return status;
}

#else
#include "enums.h"
#include "facts.h"
#include "inputs.h"
#include "internal.h"

enum { CHUNK = BO_SIZE(256, 4) };

#define bo_gemm_f32 bo_gemm
#define bo_gemm_f64 bo_gemm64
#define BO_TEMPLATE "backward.c"
#include "both_precisions.h"

static bo_status check_gradients(bo_context *context, const bo_features *f, bool known, size_t ldx, size_t lddz,
                                 bool has_dx, size_t lddx, bool has_scales, bool has_frequencies)
{
    size_t dim = f->desc.dim;
    if (!known)
        return bo_fail(context, BO_UNSUPPORTED, "function %s has no gradient%s", f->function->name,
                       f->desc.function == BO_FUNCTION_CUSTOM ? " (custom_backward is NULL, or float64 was requested)"
                                                              : "");
    if (ldx < dim || (has_dx && lddx < dim) || lddz < f->desc.features)
        return bo_fail(context, BO_INVALID,
                       "gradients of features: strides of x and dx must be at least dim = %zu, found %zu and %zu; "
                       "the stride of dz must be at least features = %zu, found %zu",
                       dim, ldx, lddx, f->desc.features, lddz);
    if (has_scales && f->landmarks)
        return bo_fail(context, BO_UNSUPPORTED,
                       "gradients with respect to length scales are not available for function landmarks: they would "
                       "change the kernel matrix of the landmarks");
    if (has_frequencies && !f->w)
        return bo_fail(context, BO_UNSUPPORTED,
                       "gradients with respect to frequencies are not available for function %s, draw %s",
                       f->function->name, bo_draw_name(f->desc.draw));
    if (has_frequencies && f->proposal)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "gradients with respect to frequencies are not available with a proposal, whose weights depend on them");
    return BO_OK;
}

bo_status bo_features_backward(bo_context *context, const bo_features *features, const bo_inputs *inputs,
                               const float *dz, size_t lddz, float *dx, size_t lddx, float *dlength_scales,
                               float *dfrequencies)
{
    BO_REQUIRE(context, features, inputs);
    BO_REQUIRE_IF(context, bo_inputs_rows(inputs) > 0, dz);
    const size_t dim = features->desc.dim, ldx = bo_inputs_stride(inputs, dim);
    BO_TRY(bo_check_inputs(context, inputs, dim, ""));
    if (inputs->sparse) return bo_fail(context, BO_UNSUPPORTED, "gradients: expected dense rows, found sparse ones");
    bool known = features->function->backward_f32 != NULL;
    if (features->desc.function == BO_FUNCTION_CUSTOM) known = features->desc.custom_backward != NULL;
    BO_TRY(check_gradients(context, features, known, ldx, lddz, dx != NULL, lddx, dlength_scales != NULL,
                           dfrequencies != NULL));
    return backward_f32(context, features, inputs->rows, inputs->x, ldx, dz, lddz, dx, lddx, dlength_scales,
                        dfrequencies);
}

bo_status bo_features_backward_f64(bo_context *context, const bo_features *features, size_t rows, const double *x,
                                   size_t ldx, const double *dz, size_t lddz, double *dx, size_t lddx,
                                   double *dlength_scales, double *dfrequencies)
{
    BO_REQUIRE(context, features);
    BO_REQUIRE_IF(context, rows > 0, x, dz);
    bool known = features->function->backward_f64 != NULL;
    BO_TRY(check_gradients(context, features, known, ldx, lddz, dx != NULL, lddx, dlength_scales != NULL,
                           dfrequencies != NULL));
    return backward_f64(context, features, rows, x, ldx, dz, lddz, dx, lddx, dlength_scales, dfrequencies);
}
#endif
