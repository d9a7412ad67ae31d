/* Rotary and sinusoidal positions (2104.09864, 1706.03762). Memory-bound: with bfloat16, 4 bytes per element. A thread
 * computes the angles of four pairs of one row once and uses them for all heads.
 *
 * Frequencies are in turns per position, in two parts (backend/cpu/angles.h): the product of a position and `high` is
 * exact in double, so whole turns are removed without rounding. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum { ROPE_THREADS = 128, PAIRS = 4 };

/* ---- frequencies ------------------------------------------------------------------------------------------------- */

__global__ void turns_kernel(bo_gpu_turns a)
{
    for (size_t i = threadIdx.x; i < a.count; i += blockDim.x) a.to[i] = a.numbers[i];
}

bo_gpu_error turns(bo_gpu *cuda, const bo_gpu_turns *a)
{
    return launch(cuda, dim3(1), dim3(WARP), 0, turns_kernel, *a);
}

/* ---- angles ------------------------------------------------------------------------------------------------------ */

__device__ inline void turn_by(double high, double low, int32_t position, float *sine, float *cosine)
{
    const double exact = (double)position * high, turns = (exact - rint(exact)) + (double)position * low;
    sincosf((float)((turns - rint(turns)) * 6.283185307179586476925), sine, cosine);
}

/* ---- rope -------------------------------------------------------------------------------------------------------- */

/* Elements of a head in pair order: pairs first … first + 3, i.e. four elements and their partners. One instruction
 * loads or stores four elements if rows and pairs are aligned. */
template <typename T> struct rope_quads {
    pack<T, PAIRS> a, b; /* halves: firsts, seconds; neighbors: pairs 0 and 1, pairs 2 and 3 */
};

template <typename T>
__device__ inline void rope_read(const T *head, const bo_gpu_rope &r, size_t first, int valid, bool whole,
                                 float (&a)[PAIRS], float (&b)[PAIRS])
{
    if (!whole) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const size_t at = (first + (size_t)i) * r.step;
            if (i < valid) a[i] = to_float(head[at]), b[i] = to_float(head[at + r.partner]);
        }
        return;
    }
    rope_quads<T> q;
    q.a = *reinterpret_cast<const pack<T, PAIRS> *>(head + first * r.step);
    q.b = *reinterpret_cast<const pack<T, PAIRS> *>(head + first * r.step + (r.step == 1 ? r.partner : (size_t)PAIRS));
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const pack<T, PAIRS> &from = i < PAIRS / 2 ? q.a : q.b;
        a[i] = to_float(r.step == 1 ? q.a.at[i] : from.at[i % 2 * 2]);
        b[i] = to_float(r.step == 1 ? q.b.at[i] : from.at[i % 2 * 2 + 1]);
    }
}

template <typename T>
__device__ inline void rope_write(T *head, const bo_gpu_rope &r, size_t first, int valid, bool whole, bool add,
                                  float (&a)[PAIRS], float (&b)[PAIRS])
{
    if (add) {
        float a0[PAIRS], b0[PAIRS];
        rope_read(head, r, first, valid, whole, a0, b0);
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            if (i < valid) a[i] += a0[i], b[i] += b0[i];
    }
    if (!whole) {
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            const size_t at = (first + (size_t)i) * r.step;
            if (i < valid) head[at] = from_float<T>(a[i]), head[at + r.partner] = from_float<T>(b[i]);
        }
        return;
    }
    rope_quads<T> q;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        pack<T, PAIRS> &to = i < PAIRS / 2 ? q.a : q.b;
        (r.step == 1 ? q.a.at[i] : to.at[i % 2 * 2]) = from_float<T>(a[i]);
        (r.step == 1 ? q.b.at[i] : to.at[i % 2 * 2 + 1]) = from_float<T>(b[i]);
    }
    *reinterpret_cast<pack<T, PAIRS> *>(head + first * r.step) = q.a;
    *reinterpret_cast<pack<T, PAIRS> *>(head + first * r.step + (r.step == 1 ? r.partner : (size_t)PAIRS)) = q.b;
}

/* (a cos - b sin, a sin + b cos) for the pairs of one thread in all heads of a row; then the columns that stay. */
template <typename T, typename U> __global__ void rope_kernel(bo_gpu_rope r, size_t quads, bool aligned)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / quads;
    if (row >= r.rows) return;
    const size_t pairs = r.rotated / 2, first = item % quads * PAIRS;
    const int valid = pairs - first < PAIRS ? (int)(pairs - first) : PAIRS;
    const T *x = (const T *)r.x.at + row * r.heads * r.dim;
    U *y = (U *)r.y.at + row * r.heads * r.dim;
    const int32_t position = r.position[row];
    float sine[PAIRS], cosine[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        if (i >= valid) continue;
        const size_t pair = first + (size_t)i;
        turn_by(r.high ? r.high[pair] : r.few_high[pair], r.low ? r.low[pair] : r.few_low[pair], position, &sine[i],
                &cosine[i]);
        sine[i] *= r.sign;
    }
#pragma unroll 2
    for (size_t h = 0; h < r.heads; h++) {
        float a[PAIRS], b[PAIRS];
        rope_read(x + h * r.dim, r, first, valid, aligned, a, b);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            if (i >= valid) continue;
            const float turned = a[i] * cosine[i] - b[i] * sine[i];
            b[i] = a[i] * sine[i] + b[i] * cosine[i];
            a[i] = turned;
        }
        rope_write(y + h * r.dim, r, first, valid, aligned, r.y.add, a, b);
    }
    const size_t rest = r.dim - r.rotated;
    for (size_t j = item % quads; j < r.heads * rest; j += quads) {
        const size_t at = j / rest * r.dim + r.rotated + j % rest;
        write_one(r.y, row * r.heads * r.dim + at, to_float(x[at]));
    }
}

template <typename T, typename U> static bo_gpu_error rope_typed(bo_gpu *cuda, const bo_gpu_rope *r)
{
    const size_t pairs = r->rotated / 2, quads = ceil_div(pairs, PAIRS);
    const bool aligned = r->dim % (2 * PAIRS) == 0 && pairs % PAIRS == 0;
    return launch(cuda, dim3((unsigned)ceil_div(r->rows * quads, ROPE_THREADS)), dim3(ROPE_THREADS), 0,
                  rope_kernel<T, U>, *r, quads, aligned);
}

bo_gpu_error rope(bo_gpu *cuda, const bo_gpu_rope *r)
{
    if (r->x.type == BO_ELEMENT_BFLOAT16)
        return r->y.type == BO_ELEMENT_BFLOAT16 ? rope_typed<bf16, bf16>(cuda, r) : rope_typed<bf16, float>(cuda, r);
    return r->y.type == BO_ELEMENT_BFLOAT16 ? rope_typed<float, bf16>(cuda, r) : rope_typed<float, float>(cuda, r);
}

/* ---- sinusoids --------------------------------------------------------------------------------------------------- */

__global__ void sinusoids_kernel(bo_gpu_sinusoids a, size_t octets)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / octets;
    if (row >= a.rows) return;
    const size_t column = item % octets * OCTET;
    const int valid = a.columns - column < OCTET ? (int)(a.columns - column) : OCTET;
    const bool whole = a.columns % OCTET == 0;
    float x[OCTET];
    read_octet(a.x, row * a.columns + column, valid, whole, x);
#pragma unroll
    for (int i = 0; i < OCTET; i += 2) {
        if (i >= valid) continue;
        const size_t pair = (column + (size_t)i) / 2;
        float sine, cosine;
        turn_by(a.high[pair], a.low[pair], a.position[row], &sine, &cosine);
        x[i] += sine, x[i + 1] += cosine;
    }
    write_octet(a.y, row * a.columns + column, valid, whole, x);
}

bo_gpu_error sinusoids(bo_gpu *cuda, const bo_gpu_sinusoids *a)
{
    const size_t octets = ceil_div(a->columns, OCTET);
    return launch(cuda, dim3((unsigned)ceil_div(a->rows * octets, ROPE_THREADS)), dim3(ROPE_THREADS), 0,
                  sinusoids_kernel, *a, octets);
}

} // namespace bo
