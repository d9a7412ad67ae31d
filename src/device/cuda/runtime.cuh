/* A device that is in use (not in the emulator). */
#ifndef BO_CUDA_RUNTIME_CUH
#define BO_CUDA_RUNTIME_CUH

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include "../gpu/plugin.h"

struct bo_gpu {
    int device;
    CUcontext context;   /* the primary context of the device */
    cudaStream_t stream; /* in use: own, or one of the caller */
    cudaStream_t default_stream;
    cudaStream_t copies; /* reads of results, beside the work that is submitted */
    cublasLtHandle_t lt;
    void *workspace; /* of cuBLASLt, for work on the own stream */
    size_t workspace_bytes;
    struct bo_gpu_plans *plans; /* gemm.cu: the algorithms that were chosen */
    void *ranks;                /* ranks.cu: the communicator of NCCL; NULL: not joined */
    cudaEvent_t marks[4];
};

namespace bo {

/* Returns a text, in memory of the calling thread. */
__attribute__((format(printf, 1, 2))) bo_gpu_error complain(const char *format, ...);
/* NULL for success, else a text. */
bo_gpu_error describe(const char *what, cudaError_t status);

/* Makes a device current in this thread, and restores what was current at the end. The context is pushed, since
 * cudaSetDevice would create one on the device that it restores. */
class current_device {
    bool pushed;

  public:
    explicit current_device(const bo_gpu *gpu) : current_device(gpu->context)
    {
    }
    explicit current_device(CUcontext context);
    ~current_device();
    current_device(const current_device &) = delete;
    current_device &operator=(const current_device &) = delete;
};

bo_gpu_error plans_create(bo_gpu *gpu);
void plans_destroy(bo_gpu *gpu);
void ranks_leave(bo_gpu *gpu);

} // namespace bo

#endif
