/* Helpers of the linear-attention kernels: segments of rows, sums, gates, exponents. Formulas: src/attention/linear.h
 * and linear_backward.h. */
#ifndef BO_CUDA_FEATURES_CUH
#define BO_CUDA_FEATURES_CUH

#include "attention.cuh"

namespace bo {
namespace features {

typedef bo_gpu_linear_attention arguments;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The rows of a segment: rows [first, first + count) of all rows. */
struct span {
    int sequence, count;
    size_t first;
};

/* False: the segment has no rows. */
__device__ inline bool find_segment(const arguments &a, const bo_gpu_rows &rows, size_t index, span &out)
{
    row_tile tile;
    if (!find_tile(rows, a.segment, (int)index, &tile)) return false;
    out = {tile.sequence, min(tile.length - tile.first, a.segment), (size_t)(tile.start + tile.first)};
    return true;
}

__device__ inline size_t first_row(const bo_gpu_rows &rows, int sequence)
{
    return (size_t)rows_before(rows, sequence);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

__host__ __device__ inline size_t padded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}
__host__ __device__ inline size_t sums_z()
{
    return 16;
}
__host__ __device__ inline size_t sums_s(const arguments &a)
{
    return 16 + padded((size_t)a.map.features);
}
/* Element e of z followed by S. */
__device__ inline size_t sums_number(const arguments &a, size_t e)
{
    return e < (size_t)a.map.features ? sums_z() + e : sums_s(a) + e - (size_t)a.map.features;
}
/* Column v of S~ = [S, z] at feature i. */
__device__ inline size_t sums_wide(const arguments &a, int i, int v)
{
    return v < a.call.value_dim ? sums_s(a) + (size_t)i * (size_t)a.call.value_dim + (size_t)v : sums_z() + (size_t)i;
}
__device__ inline size_t sums_at(const arguments &a, size_t index, int key_head)
{
    return (index * (size_t)a.call.key_heads + (size_t)key_head) * a.sums_floats;
}
__device__ inline double &sums_gates(float *sums)
{
    return *reinterpret_cast<double *>(sums + 2);
}
__device__ inline float *state_sums(const arguments &a, int sequence, int key_head)
{
    char *state = static_cast<char *>(a.call.states[sequence]);
    size_t each = a.call.sums_bytes + a.call.kept_bytes;
    return reinterpret_cast<float *>(state + 64 + (size_t)key_head * each);
}

/* ---- gates and exponents ----------------------------------------------------------------------------------------- */

/* The log gate of a row, at least -1e8 (segments.c of src/attention). */
template <typename T> __device__ inline float log_gate(const arguments &a, int sequence, size_t row, int key_head)
{
    if (!a.gated) return 0;
    const T *at =
        numbers_if_any(static_cast<const T *>(a.call.log_gate), a.call.strides.log_gate, sequence, row, key_head);
    return fmaxf(at ? to_float(*at) : a.call.log_decay[key_head], -1e8f);
}

/* The logarithm of the weight with which a key enters. */
__device__ inline float log_input(const arguments &a, float gate)
{
    return a.convex ? logf(fmaxf(-expm1f(gate), 1e-30f)) : 0.0f;
}

/* A variant for the key of a row. */
__device__ inline float log_entry(const arguments &a, size_t row, int key_head, float gate)
{
    return a.entries ? a.entries[row * (size_t)a.call.key_heads + (size_t)key_head] : log_input(a, gate);
}

/* True if keys have weights other than 1. */
__device__ inline bool has_weights(const arguments &a)
{
    return a.gated || a.map.scaled || a.entries;
}

/* exp(before + gates - after), where empty sums (-∞) may have any factor. */
__device__ inline float remaining(float before, double gates, float after)
{
    if (isinf(after)) return isinf(before) ? 1.0f : 0.0f;
    return isinf(before) ? 0.0f : (float)exp((double)before + gates - (double)after);
}

__device__ inline float empty_scale(const arguments &a)
{
    return a.map.scaled ? -INFINITY : 0.0f;
}

/* The value of the denominator for backward, and the factor of the numerator (bo_normalize). */
__device__ inline float normalize(const arguments &a, float denominator, float &factor)
{
    factor = 1;
    if (!a.divides) return -1;
    float clamped = denominator > a.clamp ? denominator : a.clamp;
    factor = 0;
    if (!(clamped > 1.17549435e-38f)) return INFINITY;
    factor = 1 / clamped;
    return denominator > a.clamp ? clamped : -clamped;
}

/* The log scale of the sums before the chunk of 64 rows at row `first` of a segment, as the fast kernels save it. */
__device__ inline float &chunk_scale(const arguments &a, size_t index, int key_head, int first)
{
    return a.chunk_scales[(index * (size_t)a.call.key_heads + (size_t)key_head) * (size_t)(a.segment / 64) +
                          (size_t)first / 64];
}

/* Launches that both sets of kernels share (features_scan.cu). */
bo_gpu_error scan(bo_gpu *cuda, const arguments *a);
bo_gpu_error scan_back(bo_gpu *cuda, const arguments *a);
bo_gpu_error reduce_gate_gradients(bo_gpu *cuda, const arguments *a);
bo_gpu_error reduce_parameter_gradients(bo_gpu *cuda, const arguments *a);
/* The kernels for bfloat16 (features_fast.cu, features_fast_back.cu). */
bo_gpu_error fast_forward(bo_gpu *cuda, const arguments *a);
bo_gpu_error fast_backward(bo_gpu *cuda, const arguments *a);
/* The kernels with features in memory (features_rows.cu, features_stored.cu, features_stored_back.cu). */
bo_gpu_error map_rows(bo_gpu *cuda, const arguments *a, bool keys);
bo_gpu_error map_rows_back(bo_gpu *cuda, const arguments *a, bool keys);
unsigned map_rows_blocks(const arguments *a, bool keys); /* of map_rows_back, for each head */
bo_gpu_error stored_sums(bo_gpu *cuda, const arguments *a, bool keys);
bo_gpu_error stored_values(bo_gpu *cuda, const arguments *a, bool keys);
int gradient_columns(const arguments *a);
bo_gpu_error stored_forward(bo_gpu *cuda, const arguments *a);
bo_gpu_error stored_backward(bo_gpu *cuda, const arguments *a);

} // namespace features
} // namespace bo

#endif
