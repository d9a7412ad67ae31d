/* A device that is in use (not in the emulator). */
#ifndef BO_CUDA_RUNTIME_CUH
#define BO_CUDA_RUNTIME_CUH

#include <cublasLt.h>
#include <cuda_runtime.h>
#include "../plugin.h"

struct bo_cuda {
    int device;
    cudaStream_t stream;
    cublasLtHandle_t lt;
    void *workspace; /* of cuBLASLt */
    size_t workspace_bytes;
    struct bo_cuda_plans *plans; /* gemm.cu: the algorithms that were chosen */
    void *ranks; /* ranks.cu: the communicator of NCCL; NULL: not joined */
    cudaEvent_t marks[4];
    char error[512];
};

namespace bo {

/* NULL for success, else a text. */
bo_cuda_error describe(bo_cuda *cuda, const char *what, cudaError_t status);
/* Makes the device current in this thread: threads other than the one that opened it have another one. */
bo_cuda_error use_device(bo_cuda *cuda);
bo_cuda_error plans_create(bo_cuda *cuda);
void plans_destroy(bo_cuda *cuda);
void ranks_leave(bo_cuda *cuda);

} // namespace bo

#endif
