/* Muon (Jordan et al. 2024): momentum that is approximately orthogonalized by Newton-Schulz iterations. Matrices with
 * the same sides follow each other in the list; they are processed as one batch, transposed so that X has no more rows
 * than columns. An iteration is three products: A = XXᵀ, B = cA² + bA, Y = BX + aX.
 *
 * In float32 all products are float32. In bfloat16 the last two iterations are bfloat16; an iteration multiplies small
 * singular values and earlier rounding errors by 3.4, so the earlier products round their factors to 11 bits (TF32) and
 * do not round their results. */
#include "updates.h"

enum { BATCH_BYTES = 1 << 30, NARROW_STEPS = 2 };

/* Scratch memory of a batch. */
typedef struct layout {
    size_t small, large;
    size_t batch;          /* matrices */
    size_t stride, square; /* floats between two matrices X, and two matrices A */
    double *squares, *partial;
    float *x, *y, *a, *b;
    size_t bytes;
} layout;

static size_t smaller(const bo_muon_matrix *m)
{
    return bo_min(m->rows, m->columns);
}

static size_t larger(const bo_muon_matrix *m)
{
    return bo_max(m->rows, m->columns);
}

/* The number of leading matrices of the list with equal shapes. */
static size_t group_of(size_t count, const bo_muon_matrix *matrices)
{
    size_t n = 1;
    while (n < count && smaller(&matrices[n]) == smaller(matrices) && larger(&matrices[n]) == larger(matrices)) n++;
    return n;
}

static layout plan(const bo_muon_matrix *first, size_t group, void *scratch)
{
    layout l = {.small = smaller(first), .large = larger(first)};
    l.stride = bo_round_up(l.small * l.large, 16);
    l.square = bo_round_up(l.small * l.small, 16);
    const size_t each = 2 * (l.stride + l.square) * sizeof(float);
    l.batch = bo_min(bo_min(group, BO_GPU_LIST), bo_max(BATCH_BYTES / each, 1));
    bo_carver carver = {scratch, 0};
    l.squares = bo_carve(&carver, l.batch, sizeof *l.squares);
    l.partial = bo_carve(&carver, l.batch * bo_gpu_sum_pieces(l.small * l.large), sizeof *l.partial);
    l.x = bo_carve_floats(&carver, l.batch * l.stride);
    l.y = bo_carve_floats(&carver, l.batch * l.stride);
    l.a = bo_carve_floats(&carver, l.batch * l.square);
    l.b = bo_carve_floats(&carver, l.batch * l.square);
    l.bytes = carver.bytes;
    return l;
}

size_t bo_gpu_muon_bytes(size_t count, const bo_muon_matrix *matrices)
{
    size_t max_bytes = 0;
    for (size_t first = 0, group; first < count; first += group) {
        group = group_of(count - first, matrices + first);
        max_bytes = bo_max(max_bytes, plan(&matrices[first], group, NULL).bytes);
    }
    return max_bytes;
}

/* ---- one batch --------------------------------------------------------------------------------------------------- */

/* D = alpha left op(right) + beta C, for matrices of `small` rows; left has `depth` columns, and D `width`. */
static bo_status multiply(bo_context *context, const layout *l, bo_gpu_gemm product, size_t width, size_t depth)
{
    product.m = l->small, product.n = width, product.k = depth;
    product.lda = depth, product.ldb = product.tb ? depth : width, product.ldc = product.ldd = width;
    product.stride_a = depth == l->small ? l->square : l->stride;
    product.stride_b = product.stride_c = product.stride_d = l->stride;
    if (width == l->small) product.stride_c = product.stride_d = l->square;
    if (width == l->small && !product.tb) product.stride_b = l->square;
    return BO_LAUNCH(context, gemm, &product);
}

/* Computes Y from X with GEMMs of this type. */
static bo_status iterate(bo_context *context, const layout *l, bo_newton_schulz iteration, size_t batch,
                         const bo_gpu_gemm *kind, const void *x, void *y)
{
    const bool quintic = iteration == BO_NEWTON_SCHULZ_QUINTIC;
    bo_gpu_gemm gram = *kind, polynomial = *kind, next = *kind;
    gram.batch = polynomial.batch = next.batch = batch;
    gram.a = gram.b = x, gram.tb = true, gram.d = l->a, gram.alpha = 1;
    BO_TRY(multiply(context, l, gram, l->small, l->large));
    polynomial.a = polynomial.b = polynomial.c = l->a, polynomial.d = l->b;
    polynomial.alpha = 2.0315f, polynomial.beta = -4.7750f;
    if (quintic) BO_TRY(multiply(context, l, polynomial, l->small, l->small));
    next.a = quintic ? l->b : l->a, next.b = next.c = x, next.d = y;
    next.alpha = quintic ? 1 : -0.5f, next.beta = quintic ? 3.4445f : 1.5f;
    return multiply(context, l, next, l->large, l->small);
}

/* Orthogonalizes the matrices at x, with y as workspace. *out: the address of the result, of type *type. */
static bo_status orthogonalize(bo_context *context, const layout *l, bo_newton_schulz iteration, size_t steps,
                               size_t batch, void **out, bo_element *type)
{
    const bool narrow = bo_context_precision(context) == BO_PRECISION_BFLOAT16;
    bo_gpu_gemm kind = {.factors = BO_ELEMENT_FLOAT32, .result = BO_ELEMENT_FLOAT32, .tf32 = narrow};
    void *x = l->x, *y = l->y;
    for (size_t step = 0; step < steps; step++) {
        if (narrow && kind.factors == BO_ELEMENT_FLOAT32 && step + NARROW_STEPS >= steps) {
            const bo_gpu_convert convert = {.count = batch * l->stride,
                                            .from_type = BO_ELEMENT_FLOAT32,
                                            .to_type = BO_ELEMENT_BFLOAT16,
                                            .from = x,
                                            .to = y};
            BO_TRY(BO_LAUNCH(context, convert, &convert));
            kind = (bo_gpu_gemm){.factors = BO_ELEMENT_BFLOAT16, .result = BO_ELEMENT_BFLOAT16};
            void *previous = x;
            x = y, y = previous;
        }
        BO_TRY(iterate(context, l, iteration, batch, &kind, x, y));
        void *previous = x;
        x = y, y = previous;
    }
    *out = x, *type = kind.result;
    return BO_OK;
}

static bo_status sum_squares(bo_context *context, const layout *l, size_t batch, const float *u)
{
    bo_gpu_sum_vectors sums = {.count = batch, .partial = l->partial, .out = l->squares};
    for (size_t i = 0; i < batch; i++) sums.x[i] = u + i * l->stride, sums.length[i] = l->small * l->large;
    return BO_LAUNCH(context, sum_vectors, &sums);
}

static bo_status update_batch(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps,
                              const layout *l, size_t batch, const bo_muon_matrix *matrices)
{
    bo_gpu_muon_list list = {
        .count = batch,
        .small = l->small,
        .large = l->large,
        .stride = l->stride,
        .scale = (float)rule->scale,
        .momentum = (float)rule->momentum,
        .rest = (float)(1 - rule->momentum),
        .nesterov = rule->nesterov,
        .squares = l->squares,
        .u = l->y,
        .x = l->x,
        .type = BO_ELEMENT_FLOAT32,
    };
    for (size_t i = 0; i < batch; i++) {
        const bo_muon_matrix *m = &matrices[i];
        list.g[i] = m->g, list.m[i] = m->m, list.w[i] = m->w;
        list.rate[i] = (float)bo_rates_rate(rule, &m->rates), list.keep[i] = (float)bo_rates_keep(rule, &m->rates);
        list.tall[i] = m->rows > m->columns;
    }
    BO_TRY(BO_LAUNCH(context, muon_direction, &list));
    BO_TRY(sum_squares(context, l, batch, list.u));
    BO_TRY(BO_LAUNCH(context, muon_load, &list));
    BO_TRY(orthogonalize(context, l, iteration, steps, batch, &list.x, &list.type));
    return BO_LAUNCH(context, muon_store, &list);
}

bo_status bo_gpu_muon(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch)
{
    bo_status status = BO_OK;
    for (size_t first = 0, group; status == BO_OK && first < count; first += group) {
        group = group_of(count - first, matrices + first);
        const layout l = plan(&matrices[first], group, scratch);
        for (size_t i = 0; status == BO_OK && i < group; i += l.batch)
            status =
                update_batch(context, rule, iteration, steps, &l, bo_min(l.batch, group - i), &matrices[first + i]);
    }
    return status;
}
