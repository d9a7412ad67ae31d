/* Random masks (DROPOUT, NOISE) and additive noise. With bfloat16, 4 bytes per element. Masks need a quarter of a
 * Philox block (25 instructions) per element, since a thread handles the four elements that share a block. */
#include "arrays.cuh"
#include "launches.cuh"
#include "random.cuh"

namespace bo {

enum { MASK_THREADS = 256, BITS_PER_BLOCK = 4, HALF = 2 };

/* A thread handles half of a group of 64: elements 8 h … 8 h + 7 (h = 0, 1) of each of the four rows of 16. These share
 * the blocks 8 h … 8 h + 7 of the group. */
__global__ void mask_kernel(bo_gpu_mask a)
{
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x, group = thread / HALF;
    const int half = (int)(thread % HALF);
    if (group * RANDOM_GROUP >= a.count) return;
    const uint64_t seed = a.pass->seed;
    uint32_t kept = 0; /* bit 8 w + i: value w of block i */
    for (int i = 0; i < OCTET; i++) {
        const random_u32x4 bits = random_block(seed, a.stream, group * RANDOM_BLOCKS + (size_t)(half * OCTET + i));
#pragma unroll
        for (int w = 0; w < BITS_PER_BLOCK; w++) kept |= (uint32_t)(bits.at[w] >= a.threshold) << (OCTET * w + i);
    }
#pragma unroll
    for (int w = 0; w < BITS_PER_BLOCK; w++) {
        const size_t first = group * RANDOM_GROUP + (size_t)(w * RANDOM_BLOCKS + half * OCTET);
        if (first >= a.count) return;
        const bool whole = first + OCTET <= a.count;
        const int valid = whole ? OCTET : (int)(a.count - first);
        float x[OCTET];
        read_octet(a.x, first, valid, whole, x);
#pragma unroll
        for (int i = 0; i < OCTET; i++) x[i] = x[i] * (kept >> (OCTET * w + i) & 1 ? a.factor : 0.0f);
        write_octet(a.y, first, valid, whole, x);
    }
}

/* One random value per row. Removed rows are 0 even if they contain NaNs or infinities. */
struct row_mask_map {
    const bo_gpu_pass *pass;
    uint64_t stream;
    uint32_t threshold;
    float factor;
    size_t columns;
    __device__ void operator()(const float (&x)[1][OCTET], float (&y)[1][OCTET], size_t first) const
    {
        const uint64_t seed = pass->seed;
        size_t row = first / columns, next = (row + 1) * columns;
        bool kept = random_u32(seed, stream, row) >= threshold;
        for (int i = 0; i < OCTET; i++) {
            if (first + (size_t)i == next) {
                row++, next += columns;
                kept = random_u32(seed, stream, row) >= threshold;
            }
            y[0][i] = kept ? factor * x[0][i] : 0.0f;
        }
    }
};

bo_gpu_error mask(bo_gpu *cuda, const bo_gpu_mask *a)
{
    if (a->row_columns)
        return map_numbers(cuda, a->count, sources<1>{{a->x}}, targets<1>{{a->y}},
                           row_mask_map{a->pass, a->stream, a->threshold, a->factor, a->row_columns});
    const size_t threads = ceil_div(a->count, RANDOM_GROUP) * HALF;
    return launch(cuda, dim3((unsigned)ceil_div(threads, MASK_THREADS)), dim3(MASK_THREADS), 0, mask_kernel, *a);
}

/* Elements 2 i and 2 i + 1 are computed from random values 2 i and 2 i + 1 (Box-Muller), with u in (0, 1]. */
struct normal_map {
    const bo_gpu_pass *pass;
    uint64_t stream;
    float amount;
    __device__ void operator()(const float (&x)[1][OCTET], float (&y)[1][OCTET], size_t first) const
    {
        const uint64_t seed = pass->seed;
        for (int i = 0; i < OCTET; i += 2) {
            const uint32_t a = random_u32(seed, stream, first + (size_t)i),
                           b = random_u32(seed, stream, first + (size_t)i + 1);
            const float u = ((float)(a >> 8) + 1) * 0x1p-24f, turn = (float)(b >> 8) * 0x1p-24f;
            const float radius = sqrtf(-2 * logf(u)), angle = 6.2831853071795865f * turn;
            y[0][i] = x[0][i] + amount * (radius * cosf(angle));
            y[0][i + 1] = x[0][i + 1] + amount * (radius * sinf(angle));
        }
    }
};

bo_gpu_error normal_noise(bo_gpu *cuda, const bo_gpu_normal_noise *a)
{
    return map_numbers(cuda, a->count, sources<1>{{a->x}}, targets<1>{{a->y}},
                       normal_map{a->pass, a->stream, a->amount});
}

} // namespace bo
