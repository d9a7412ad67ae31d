/* Declarations of all launches: functions of the namespace bo with the names of arguments.h. */
#ifndef BO_CUDA_LAUNCHES_CUH
#define BO_CUDA_LAUNCHES_CUH

#include "../plugin.h"

namespace bo {
bo_cuda_error rank_id(bo_cuda *cuda, unsigned char id[BO_CUDA_RANK_ID]);
bo_cuda_error join(bo_cuda *cuda, const unsigned char id[BO_CUDA_RANK_ID], int rank, int size);
bo_cuda_error sum(bo_cuda *cuda, float *numbers, size_t count);
#define BO_CUDA_DECLARE(name, arguments) bo_cuda_error name(bo_cuda *cuda, const arguments *a);
BO_CUDA_LAUNCHES(BO_CUDA_DECLARE)
#undef BO_CUDA_DECLARE
} // namespace bo

#endif
