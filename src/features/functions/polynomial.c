/* Every monomial of degree <= p with the root of its multinomial coefficient: φ(x)·φ(y) = (1 + t·t')^p
 * exactly, since (1 + s)^p = Σ p!/(k₀! k₁! … k_d!) Π (t_j t'_j)^{k_j} over k₀ + k₁ + … + k_d = p. C(d + p, p)
 * features. */
#ifdef REAL

static void R(monomials)(const bo_features *f, const REAL *t, REAL *mono)
{
    mono[0] = 1;
    for (size_t i = 1; i < f->desc.features; i++) mono[i] = mono[f->monomials[i].parent] * t[f->monomials[i].variable];
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    REAL *mono = scratch;
    (void)u;
    for (size_t r = 0; r < rows; r++) {
        R(monomials)(f, t + r * f->desc.dim, mono);
        for (size_t i = 0; i < f->desc.features; i++) z[r * ldz + i] = (REAL)f->monomials[i].coefficient * mono[i];
    }
}

/* Backwards through the products: a monomial's gradient is complete when its children, which all come later,
 * are. */
static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t count = f->desc.features, dim = f->desc.dim;
    REAL *mono = scratch, *grad = mono + count;
    (void)u, (void)du;
    for (size_t r = 0; r < rows; r++) {
        R(monomials)(f, t + r * dim, mono);
        for (size_t i = 0; i < count; i++) grad[i] = (REAL)f->monomials[i].coefficient * dz[r * lddz + i];
        for (size_t i = count - 1; i > 0; i--) {
            size_t parent = f->monomials[i].parent, variable = f->monomials[i].variable;
            grad[parent] += grad[i] * t[r * dim + variable];
            dt[r * dim + variable] += grad[i] * mono[parent];
        }
    }
}

#else
#include "common.h"

#define BO_TEMPLATE "functions/polynomial.c"
#include "../twice.h"

static size_t scratch(const bo_features *f)
{
    return 2 * f->desc.features * sizeof(double);
}

/* C(d + p, p) */
static bo_status count(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    const double limit = BO_EXACT_MOST;
    double total = 1;
    for (int k = 1; k <= desc->degree; k++) {
        total = total * ((double)desc->dim + k) / k;
        if (total > limit)
            return bo_fail(context, BO_INVALID,
                           "the exact polynomial of degree %d in dim %zu has more than %.0f features; use tensorsketch",
                           desc->degree, desc->dim, limit);
    }
    *features = (size_t)(total + 0.5);
    return BO_OK;
}

/* Degree by degree, variables in ascending order: each monomial is made once, from its first variables. The
 * squared coefficient of multiplying by a variable for the n-th time at total degree k is (p - k + 1) / n. */
static bo_status derive(bo_context *context, bo_features *f)
{
    size_t dim = f->desc.dim, total = f->desc.features, made = 1, first = 0;
    f->monomials = bo_alloc(context, total, sizeof *f->monomials, "the table of monomials");
    unsigned *repeats = bo_alloc(context, total, sizeof *repeats, "the table of monomials");
    if (!f->monomials || !repeats) {
        bo_free(repeats);
        return BO_MEMORY;
    }
    f->monomials[0] = (bo_monomial){.coefficient = 1};
    for (int k = 1; k <= f->desc.degree; k++) {
        size_t end = made;
        for (size_t parent = first; parent < end; parent++) {
            bo_monomial from = f->monomials[parent];
            for (size_t j = from.variable; j < dim; j++, made++) {
                repeats[made] = k > 1 && j == from.variable ? repeats[parent] + 1 : 1;
                double ratio = (double)(f->desc.degree - k + 1) / repeats[made];
                f->monomials[made] = (bo_monomial){(uint32_t)parent, (uint32_t)j, from.coefficient * ratio};
            }
        }
        first = end;
    }
    for (size_t i = 0; i < total; i++) f->monomials[i].coefficient = sqrt(f->monomials[i].coefficient);
    bo_free(repeats);
    return BO_OK;
}

const bo_function_definition bo_function_polynomial = {
    .name = "polynomial",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_POLYNOMIAL),
    .exact = true,
    .count = count,
    .derive = derive,
    .scratch = scratch,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
