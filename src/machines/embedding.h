/* An embedding, shared by embedding.c, which computes it, and embedding_file.c, which saves and loads it. */
#ifndef BO_MACHINES_EMBEDDING_H
#define BO_MACHINES_EMBEDDING_H

#include <bochner/embedding.h>
#include "scaler.h"

/* R = features, K = components, d = dim. */
struct bo_embedding {
    bo_embedding_report report;
    bo_scaler scaler; /* limit is 0 */
    bo_features *phi;
    double *vectors;  /* K x R: v_k */
    double *center;   /* R: μ */
    double *variance; /* K: λ_k */
    double *decoder;  /* K x d: the scaled inputs are mean + cᵀ decoder */
    double *mean;     /* d: mean of the scaled inputs */
};

/* A fit in progress: a member of bo_fitting. */
typedef struct bo_embedding_sums bo_embedding_sums;
void bo_embedding_sums_destroy(bo_embedding_sums *sums);
bo_status bo_embedding_sums_add(bo_context *context, bo_embedding_sums *sums, const bo_samples *rows);

/* Completes the report of an embedding that has its arrays. */
void bo_embedding_report_arrays(bo_embedding *embedding);

#endif
