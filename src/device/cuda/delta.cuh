/* Helpers of the kernels of the delta rule: gates and β of a chunk. */
#ifndef BO_CUDA_DELTA_CUH
#define BO_CUDA_DELTA_CUH

#include "memory.cuh"

namespace bo {
namespace delta {

/* Gates and β of the tokens of a chunk. */
template <int C> struct token_weights {
    double *b; /* sums of log gates; after the last token its sum */
    float *beta;
    __device__ float between(int i, int j) const
    {
        return expf((float)(b[i] - b[j]));
    }
    __device__ float before(int i) const
    {
        return expf((float)b[i]);
    }
    __device__ float after(int j) const
    {
        return between(C - 1, j);
    }
    __device__ float whole() const
    {
        return before(C - 1);
    }
};

template <int C> __host__ __device__ inline token_weights<C> carve_weights(smem_carver *carver)
{
    token_weights<C> out;
    out.b = carver->array<double>(C);
    out.beta = carver->array<float>(C);
    return out;
}

/* Called by all threads; complete after the next barrier. */
template <typename T, int C>
__device__ inline void load_weights(const bo_gpu_attention &call, chunk at, int key_head, token_weights<C> to)
{
    const bo_gpu_strides &gates = call.strides.log_gate, &betas = call.strides.beta;
    const T *gate = numbers_if_any((const T *)call.log_gate, gates, at.sequence, at.row, key_head);
    const T *beta = numbers_if_any((const T *)call.beta, betas, at.sequence, at.row, key_head);
    if (threadIdx.x >= WARP) return;
    double before = 0;
    for (int first = 0; first < C; first += WARP) {
        const int t = first + (int)threadIdx.x;
        const bool present = t < at.tokens;
        double sum = gate && present ? (double)clamp_gate(to_float(gate[(size_t)t * gates.row])) : 0.0;
        for (int step = 1; step < WARP; step *= 2) {
            const double other = __shfl_up_sync(0xFFFFFFFFu, sum, (unsigned)step);
            if ((int)threadIdx.x >= step) sum += other;
        }
        sum += before;
        before = __shfl_sync(0xFFFFFFFFu, sum, WARP - 1);
        if (t >= C) continue;
        to.b[t] = sum;
        to.beta[t] = !present ? 0.0f : beta ? to_float(beta[(size_t)t * betas.row]) : 1.0f;
    }
}

} // namespace delta
} // namespace bo

#endif
