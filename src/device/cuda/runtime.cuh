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
    cudaStream_t stream; /* current stream: the default stream, or a stream of the caller */
    cudaStream_t default_stream;
    cudaStream_t copies; /* stream for reading results, concurrent with submitted work */
    cublasLtHandle_t lt;
    void *workspace; /* of cuBLASLt, for work on the default stream */
    size_t workspace_bytes;
    struct bo_gpu_plans *plans; /* gemm.cu: the algorithms that were chosen */
    void *ranks;                /* ranks.cu: the communicator of NCCL; NULL: not joined */
    cudaEvent_t marks[4];
};

namespace bo {

/* Returns a text, in memory of the calling thread. */
__attribute__((format(printf, 1, 2))) bo_gpu_error complain(const char *format, ...);
/* NULL on success, else an error text. */
bo_gpu_error describe(const char *what, cudaError_t status);

/* Sets the current device of this thread, and restores the previous one at the end. The context is pushed, since
 * cudaSetDevice would create a context on the restored device. */
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
