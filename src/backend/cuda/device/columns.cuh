/* Sums of rows, in a fixed order: the second stage of sums over blocks. */
#ifndef BO_CUDA_COLUMNS_CUH
#define BO_CUDA_COLUMNS_CUH

#include "arrays.cuh"

namespace bo {

/* to[j] = Σ_i from[i apart + j] for `columns` columns; zeros if there are no rows. Does nothing if to.at is NULL. */
bo_cuda_error add_rows(bo_cuda *cuda, const float *from, size_t rows, size_t columns, size_t apart, bo_cuda_target to);

} // namespace bo

#endif
