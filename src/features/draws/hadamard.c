/* Structured frequencies (SORF, Yu et al. 2016): W = norms ∘ H D₁ H D₂ H D₃ with Walsh-Hadamard matrix H and random
 * signs D; dim is padded to a power of two P. Applying W takes O(P log P) time, storing it O(P) memory. Rows have the
 * norms of a radial spectrum in P dimensions; only their directions are not exactly uniform. For constant norms the
 * bias of trigonometric features at distance z is at most 6z/√P (Yu et al., Theorem 3). Averaging over norms
 * distributed as χ(P) changes that bound by E e^{-z²χ²/2P} - e^{-z²/2} <= 0.55/P. The measured bias is far smaller,
 * since the signs give the directions the fourth moments of the sphere. */
#include <math.h>
#include "../internal.h"

bo_status bo_hadamard_prepare(bo_context *context, const bo_draw_request *request, bo_hadamard *hadamard)
{
    size_t padded = 1;
    while (padded < request->dim) padded *= 2;
    hadamard->padded = padded;
    hadamard->blocks = (request->count + padded - 1) / padded;
    size_t signs = hadamard->blocks * 3 * padded;
    hadamard->signs = bo_alloc_raw(context, signs, sizeof(float), "the signs of structured frequencies");
    hadamard->norms = bo_alloc_raw(context, request->count, sizeof(float), "the norms of structured frequencies");
    if (!hadamard->signs || !hadamard->norms) return BO_MEMORY;
    bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.hadamard", 0));
    for (size_t i = 0; i < signs;) {
        uint64_t bits = bo_rng_bits(&rng);
        for (int b = 0; b < 64 && i < signs; b++, i++) hadamard->signs[i] = bits >> b & 1 ? 1.0f : -1.0f;
    }
    /* three unnormalized transforms scale by P^{3/2} */
    double size = pow((double)padded, -1.5);
    for (size_t i = 0; i < request->count; i++) {
        bo_rng stream = bo_rng_make(request->seed, bo_rng_stream("features.norms", i));
        hadamard->norms[i] = (float)(size * bo_radial_norm(request, padded, &stream));
    }
    return BO_OK;
}

static void transform_block(const bo_features *features, const float *signs, float *buffer)
{
    size_t padded = features->hadamard.padded;
    for (int stage = 0; stage < 3; stage++) {
        if (stage)
            for (size_t j = 0; j < padded; j++) buffer[j] *= signs[(size_t)stage * padded + j];
        features->kernels->hadamard(padded, buffer);
    }
}

void bo_hadamard_project(const bo_features *features, size_t rows, const float *x, size_t ldx, float *u, size_t ldu,
                         float *buffer)
{
    const bo_hadamard *hadamard = &features->hadamard;
    size_t padded = hadamard->padded, dim = features->desc.dim, m = features->frequencies;
    float scale = (float)features->u_scale;
    for (size_t r = 0; r < rows; r++)
        for (size_t block = 0; block < hadamard->blocks; block++) {
            const float *signs = hadamard->signs + block * 3 * padded;
            size_t first = block * padded, count = m - first < padded ? m - first : padded;
            for (size_t j = 0; j < dim; j++) buffer[j] = x[r * ldx + j] * (float)features->factor[j] * signs[j];
            for (size_t j = dim; j < padded; j++) buffer[j] = 0;
            transform_block(features, signs, buffer);
            for (size_t i = 0; i < count; i++)
                u[r * ldu + first + i] = buffer[i] * (scale * hadamard->norms[first + i]);
        }
}

/* Wᵀ = Σ over blocks of D₃ H D₂ H D₁ H norms */
void bo_hadamard_project_back(const bo_features *features, size_t rows, const float *du, size_t lddu, float *dx,
                              size_t lddx, float *buffer)
{
    const bo_hadamard *hadamard = &features->hadamard;
    size_t padded = hadamard->padded, dim = features->desc.dim, m = features->frequencies;
    for (size_t r = 0; r < rows; r++)
        for (size_t block = 0; block < hadamard->blocks; block++) {
            const float *signs = hadamard->signs + block * 3 * padded;
            size_t first = block * padded, count = m - first < padded ? m - first : padded;
            for (size_t i = 0; i < count; i++) buffer[i] = du[r * lddu + first + i] * hadamard->norms[first + i];
            for (size_t i = count; i < padded; i++) buffer[i] = 0;
            for (size_t stage = 3; stage-- > 0;) {
                features->kernels->hadamard(padded, buffer);
                for (size_t j = 0; j < padded; j++) buffer[j] *= signs[stage * padded + j];
            }
            for (size_t j = 0; j < dim; j++) dx[r * lddx + j] = (block ? dx[r * lddx + j] : 0) + buffer[j];
        }
}

/* Transforms in place, without normalization, in double; for tests and gradients. */
static void hadamard_f64(size_t n, double *x)
{
    for (size_t half = 1; half < n; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t j = i; j < i + half; j++) {
                double a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
}

bo_status bo_hadamard_dense(bo_context *context, const bo_features *features, float *w, double *wide)
{
    const bo_hadamard *hadamard = &features->hadamard;
    size_t padded = hadamard->padded, dim = features->desc.dim, m = features->frequencies;
    double *column = bo_alloc_raw(context, padded, sizeof *column, "a column of structured frequencies");
    if (!column) return BO_MEMORY;
    for (size_t block = 0; block < hadamard->blocks; block++) {
        const float *signs = hadamard->signs + block * 3 * padded;
        for (size_t j = 0; j < dim; j++) {
            for (size_t i = 0; i < padded; i++) column[i] = i == j ? 1 : 0;
            for (size_t stage = 0; stage < 3; stage++) {
                for (size_t i = 0; i < padded; i++) column[i] *= (double)signs[stage * padded + i];
                hadamard_f64(padded, column);
            }
            for (size_t i = 0, row = block * padded; i < padded && row < m; i++, row++) {
                double value = column[i] * (double)hadamard->norms[row];
                if (w) w[row * dim + j] = (float)value;
                if (wide) wide[row * dim + j] = value;
            }
        }
    }
    bo_free(column);
    return BO_OK;
}

const bo_draw_definition bo_draw_hadamard = {.name = "hadamard", .needs_rotation = true, .structured = true};
