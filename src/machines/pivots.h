/* A preconditioner of kernel systems: pivots.c. */
#ifndef BO_MACHINES_PIVOTS_H
#define BO_MACHINES_PIVOTS_H

#include <bochner/features.h>

/* P = F Fᵀ + λ I with F Fᵀ ≈ √w K √w, for the kernel K of a map of sections. */
typedef struct bo_pivots {
    bo_context *context;
    size_t rows, outputs, rank, max_rank; /* rank <= max_rank */
    double lambda;
    double trace;                 /* of √w K √w - F Fᵀ */
    float *f;                     /* rows x max_rank; the first `rank` columns are set */
    double *gram;                 /* rank x rank: FᵀF, upper triangle */
    double *factor;               /* of FᵀF + λ I */
    float *v, *partial, *against; /* outputs x rows, blocks x outputs x rank, outputs x rank */
    double *sum;                  /* rank x outputs */
} bo_pivots;

/* The largest rank for this number of rows. */
size_t bo_pivots_max_rank(size_t rows);
/* Computes F for rows of weight root_i², seeded. Vectors have at most `outputs` columns. */
bo_status bo_pivots_create(bo_context *context, const bo_features *phi, const double *root, double lambda,
                           size_t outputs, uint64_t seed, bo_pivots *out);
void bo_pivots_free(bo_pivots *pivots);
/* Gives these rows the weight 0. */
bo_status bo_pivots_drop(bo_pivots *pivots, size_t count, const size_t *index);
/* out = P⁻¹ v for `count` vectors (count x rows). */
bo_status bo_pivots_solve(bo_pivots *pivots, size_t count, const double *v, double *out);

#endif
