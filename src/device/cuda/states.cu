/* Headers of the states of attention, and constants. Few bytes: the time of a launch. */
#include "attention.cuh"
#include "launches.cuh"

namespace bo {
namespace {

enum { CLEAR_THREADS = 256 };

/* One block per 4096 bytes of a state (x) and per sequence (y). */
__global__ void states_clear_kernel(bo_gpu_states a, size_t bytes)
{
    const size_t each = a.sums_bytes + a.kept_bytes, at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 16;
    if (at >= bytes) return;
    unsigned char *state = static_cast<unsigned char *>(a.states[blockIdx.y]);
    uint2 zero = make_uint2(0, 0), values[2] = {zero, zero};
    if (at < sizeof a.header)
        memcpy(values, reinterpret_cast<const unsigned char *>(&a.header) + at, sizeof values);
    else if (a.scaled && each && (at - sizeof a.header) % each == 0)
        values[0].x = __float_as_uint(-INFINITY);
    uint2 *to = reinterpret_cast<uint2 *>(state + at); /* states are aligned to 8 bytes */
    to[0] = values[0], to[1] = values[1];
}

__global__ void states_count_kernel(bo_gpu_states a)
{
    const int s = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (s >= a.keys.sequences) return;
    bo_state_header *header = static_cast<bo_state_header *>(a.states[s]);
    header->tokens += (uint64_t)(rows_before(a.keys, s + 1) - rows_before(a.keys, s));
}

__global__ void constants_kernel(bo_gpu_constants a)
{
    if ((int)threadIdx.x < a.count) a.to[threadIdx.x] = a.values[threadIdx.x];
}

__global__ void addresses_kernel(bo_gpu_addresses a)
{
    if ((int)threadIdx.x < a.count) a.to[threadIdx.x] = a.values[threadIdx.x];
}

} // namespace

bo_gpu_error states_clear(bo_gpu *cuda, const bo_gpu_states *a)
{
    const size_t bytes = sizeof a->header + (size_t)a->key_heads * (a->sums_bytes + a->kept_bytes);
    return launch(cuda, dim3((unsigned)ceil_div(bytes, CLEAR_THREADS * 16), (unsigned)a->keys.sequences),
                  dim3(CLEAR_THREADS), 0, states_clear_kernel, *a, bytes);
}

bo_gpu_error states_count(bo_gpu *cuda, const bo_gpu_states *a)
{
    return launch(cuda, dim3((unsigned)ceil_div((size_t)a->keys.sequences, 64)), dim3(64), 0, states_count_kernel, *a);
}

bo_gpu_error constants(bo_gpu *cuda, const bo_gpu_constants *a)
{
    return launch(cuda, dim3(1), dim3(BO_GPU_CONSTANTS), 0, constants_kernel, *a);
}

bo_gpu_error addresses(bo_gpu *cuda, const bo_gpu_addresses *a)
{
    return launch(cuda, dim3(1), dim3(BO_GPU_ADDRESSES), 0, addresses_kernel, *a);
}

} // namespace bo
