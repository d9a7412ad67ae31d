/* Declarations of all launches: functions of the namespace bo with the names of arguments.h. */
#ifndef BO_CUDA_LAUNCHES_CUH
#define BO_CUDA_LAUNCHES_CUH

#include "../plugin.h"

namespace bo {
#define BO_CUDA_DECLARE(name, arguments) bo_cuda_error name(bo_cuda *cuda, const arguments *a);
BO_CUDA_LAUNCHES(BO_CUDA_DECLARE)
#undef BO_CUDA_DECLARE
} // namespace bo

#endif
