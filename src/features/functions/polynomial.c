/* Every monomial of degree <= p, times the square root of its multinomial coefficient: φ(x)·φ(y) = (1 + t·t')^p without
 * error, since (1 + s)^p = Σ p!/(k₀! k₁! … k_d!) Π (t_j t'_j)^{k_j} over k₀ + k₁ + … + k_d = p. There are C(d + p, p)
 * features.
 *
 * Features are ordered by degree, with variables in ascending order: a feature is its parent, a feature of one degree
 * less, times the last of its variables. The squared coefficient of multiplying by a variable for the n-th time at
 * total degree k is (p - k + 1) / n. The children v·t_j, v·t_{j+1}, … of one feature v are adjacent, and so are their
 * children: a run consists of these products of two times n numbers without repeats. There is one run for each monomial
 * of degree <= p - 2. */
#ifdef REAL

/* Computes the features up to run `end` from the features of degree 0 and 1. */
static void R(monomials)(const bo_features *f, size_t end, const REAL *t, REAL *z)
{
    const REAL root = (REAL)sqrt((double)f->desc.degree);
    z[0] = 1;
    for (size_t j = 0; j < f->desc.dim; j++) z[1 + j] = root * t[j];
    for (size_t q = 0; q < end; q++) {
        bo_polynomial_run run = f->runs[q];
        size_t n = f->desc.dim - run.variable;
        R(bo_products)(f, n, z + run.parents, t + run.variable, run.factors, z + run.children);
    }
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t runs = bo_polynomial_runs(&f->desc);
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++) R(monomials)(f, runs, t + r * f->desc.dim, z + r * ldz);
}

/* Propagates gradients backward through the products. The gradient of a parent is complete when the gradients of its
 * children, which all come later, are complete. Features of the highest degree have no children. */
static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim, runs = bo_polynomial_runs(&f->desc);
    size_t inner = inner_runs(&f->desc), lower = parents(&f->desc);
    const REAL root = (REAL)sqrt((double)f->desc.degree);
    REAL *mono = scratch, *grad = mono + lower;
    (void)u, (void)du;
    for (size_t r = 0; r < rows; r++, t += dim, dz += lddz, dt += dim) {
        R(monomials)(f, inner, t, mono);
        memcpy(grad, dz, lower * sizeof *grad);
        for (size_t q = runs; q-- > 0;) {
            bo_polynomial_run run = f->runs[q];
            size_t n = dim - run.variable, p = run.parents, v = run.variable;
            const REAL *in = (run.children < lower ? grad : dz) + run.children;
            R(bo_products_back)(f, n, mono + p, t + v, run.factors, in, grad + p, dt + v);
        }
        for (size_t j = 0; j < dim; j++) dt[j] += root * grad[1 + j];
    }
}

#else
#include <math.h>
#include <string.h>
#include "common.h"
#include "products.h"

/* Returns C(dim + degree, degree), exact for all values that are used here; 0 for a negative degree. */
static double monomials_up_to(size_t dim, int degree)
{
    double total = degree < 0 ? 0 : 1;
    for (int k = 1; k <= degree; k++) total = total * ((double)dim + k) / k;
    return floor(total + 0.5);
}

size_t bo_polynomial_runs(const bo_features_desc *desc)
{
    return (size_t)monomials_up_to(desc->dim, desc->degree - 2);
}

/* Returns the number of runs whose children have children. */
static size_t inner_runs(const bo_features_desc *desc)
{
    return (size_t)monomials_up_to(desc->dim, desc->degree - 3);
}

/* Returns the number of features below the highest degree, including degree 1, which R(monomials) always
 * writes. */
static size_t parents(const bo_features_desc *desc)
{
    return (size_t)monomials_up_to(desc->dim, desc->degree > 1 ? desc->degree - 1 : 1);
}

#define BO_TEMPLATE "functions/polynomial.c"
#include "../both_precisions.h"

static size_t scratch(const bo_features *f)
{
    return 2 * parents(&f->desc) * sizeof(double);
}

static bo_status count(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    double total = monomials_up_to(desc->dim, desc->degree);
    if (total > BO_EXACT_MAX_SIZE)
        return bo_fail(
            context, BO_INVALID,
            "function polynomial of degree %d in dim %zu has %.4g features, but at most %d are supported; use "
            "tensorsketch or selftensor",
            desc->degree, desc->dim, total, (int)BO_EXACT_MAX_SIZE);
    *features = (size_t)total;
    return BO_OK;
}

/* The first monomial of a run: its last variable, the exponent of that variable, the degree. */
typedef struct monomial {
    uint32_t variable, repeats, degree;
} monomial;

static void fill_runs(const bo_features *f, size_t runs, monomial *of)
{
    size_t dim = f->desc.dim, child = 1, grandchild = 1 + dim;
    of[0] = (monomial){0};
    for (size_t q = 0; q < runs; q++) {
        size_t n = dim - of[q].variable;
        /* p - k + 1, where k is the degree of the grandchildren */
        double left = (double)f->desc.degree - of[q].degree - 1;
        bo_factors factors = {sqrt(left / (of[q].repeats + 2)), sqrt(left / 2), sqrt(left)};
        f->runs[q] = (bo_polynomial_run){(uint32_t)child, (uint32_t)grandchild, of[q].variable, factors};
        for (size_t j = 0; j < n && child + j < runs; j++)
            of[child + j] = (monomial){of[q].variable + (uint32_t)j, j ? 1 : of[q].repeats + 1, of[q].degree + 1};
        child += n;
        grandchild += n * (n + 1) / 2;
    }
}

static bo_status derive(bo_context *context, bo_features *f)
{
    size_t runs = bo_polynomial_runs(&f->desc);
    if (runs == 0) return BO_OK;
    f->runs = bo_alloc_raw(context, runs, sizeof *f->runs, "the table of monomials");
    monomial *of = bo_alloc_raw(context, runs, sizeof *of, "the table of monomials");
    if (f->runs && of) fill_runs(f, runs, of);
    bo_free(of);
    return f->runs && of ? BO_OK : BO_MEMORY;
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
