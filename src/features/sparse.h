/* Features and kernel matrices of sparse rows. */
#ifndef BO_FEATURES_SPARSE_H
#define BO_FEATURES_SPARSE_H

#include <bochner/features.h>

/* bo_features_apply for sparse rows, which are checked. */
bo_status bo_features_apply_sparse(bo_context *context, const bo_features *features, const bo_sparse *x, float *z,
                                   size_t ldz);
/* The kernel matrix of sparse rows (rows x rows), for shift-invariant kernels. */
bo_status bo_kernel_matrix_sparse(bo_context *context, const bo_features_desc *desc, const bo_sparse *x, double *k);

#endif
