/* The laws that frequencies of positive features are drawn from, after the data has been seen. With f(w, x) = D exp(wᵀA
 * w + wᵀB x - |x|²/2), w ~ N(0, I), B = (I - 4A)^½ and D = |I - 4A|^¼ the estimate of exp(x·y) is unbiased for every
 * symmetric A < I/8 (Likhosherstov et al., arXiv 2205.15317 and 2302.00787). That is drawing w' = B w ~ N(0, I - 4A)
 * with the weight √(p/q)(w') = |B|^½ exp((|w|² - |w'|²)/4) = D exp(wᵀA w): a proposal with R = B. */
#include <math.h>
#include <string.h>
#include "dark.h"

/* The A that is best in `d` dimensions where |x + y|² has the mean z2 over them: never positive. */
static double best_a(double d, double z2)
{
    return (d - 2 * z2 - sqrt((2 * z2 + d) * (2 * z2 + d) + 8 * d * z2)) / (16 * d);
}

/* FAVOR++: one number for all directions. */
static void oprf_root(size_t dim, const bo_second_moments *q, const bo_second_moments *k, double *root)
{
    double b = sqrt(1 - 4 * best_a((double)dim, fmax(0, bo_second_moments_pair_norm(dim, q, k))));
    memset(root, 0, dim * dim * sizeof *root);
    for (size_t j = 0; j < dim; j++) root[j * dim + j] = b;
}

/* FAVOR#: one for each principal direction of x + y, E (x + y)(x + y)ᵀ = Λ_q + Λ_k + μ_q μ_kᵀ + μ_k μ_qᵀ. */
static bo_status sderf_root(bo_context *context, size_t dim, const bo_second_moments *q, const bo_second_moments *k,
                            double *root)
{
    double *vectors = bo_alloc_raw(context, dim * (dim + 1), sizeof *vectors, "the directions of a proposal");
    if (!vectors) return BO_MEMORY;
    double *values = vectors + dim * dim;
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++)
            root[i * dim + j] =
                q->second[i * dim + j] + k->second[i * dim + j] + q->mean[i] * k->mean[j] + k->mean[i] * q->mean[j];
    bo_status status = bo_eigen_of(context, dim, root, vectors, values);
    for (size_t i = 0; status == BO_OK && i < dim; i++) values[i] = sqrt(1 - 4 * best_a(1, fmax(0, values[i])));
    if (status == BO_OK) bo_eigen_compose(dim, vectors, values, root);
    bo_free(vectors);
    return status;
}

bo_status bo_proposal_root(bo_context *context, bo_proposal proposal, size_t dim, const bo_second_moments *q,
                           const bo_second_moments *k, double *root)
{
    bo_law law;
    switch (proposal) {
    case BO_PROPOSAL_OPRF:
        oprf_root(dim, q, k, root);
        return BO_OK;
    case BO_PROPOSAL_SDERF:
        return sderf_root(context, dim, q, k, root);
    default:
        BO_TRY(bo_law_make(context, dim, q->second, k->second, &law));
        memcpy(root, law.root, dim * dim * sizeof *root);
        bo_law_free(&law);
        return BO_OK;
    }
}
