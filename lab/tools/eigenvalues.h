/* Eigenvalues of matrices that are not symmetric. */
#ifndef BO_LAB_TOOLS_EIGENVALUES_H
#define BO_LAB_TOOLS_EIGENVALUES_H

#include <bochner/base.h>

/* Computes the eigenvalues of any square matrix (n x n, overwritten); conjugate pairs are adjacent. Meant for some
 * hundred rows at most: the loops are plain. */
bo_status lab_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary);

#endif
