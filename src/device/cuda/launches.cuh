/* Declarations of all launches: functions of the namespace bo with the names of arguments.h. */
#ifndef BO_CUDA_LAUNCHES_CUH
#define BO_CUDA_LAUNCHES_CUH

#include "../gpu/plugin.h"

namespace bo {
bo_gpu_error rank_id(bo_gpu *cuda, unsigned char id[BO_RANK_ID]);
bo_gpu_error join(bo_gpu *cuda, const unsigned char id[BO_RANK_ID], int rank, int size);
bo_gpu_error sum(bo_gpu *cuda, float *numbers, size_t count);
#define BO_GPU_DECLARE(name, arguments) bo_gpu_error name(bo_gpu *cuda, const arguments *a);
BO_GPU_LAUNCHES(BO_GPU_DECLARE)
#undef BO_GPU_DECLARE
} // namespace bo

#endif
