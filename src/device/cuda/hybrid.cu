/* Softmax attention in a window and linear attention for older keys, with one denominator (src/attention/hybrid.c): the
 * kernels between the two parts, which other kernels compute. All kernels are memory-bound: one warp per row and head.
 * For n rows of heads with d columns and t bytes per element: hybrid_leave reads and writes 2 n d t, hybrid_merge (3 t
 * + 4) n d (4 t + 4 if backward follows), hybrid_split 4 n d t, hybrid_return 5 n d t bytes. */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace hybrid {

enum { WARPS = 8, THREADS = WARPS * WARP };

/* Gates below this close: nothing before them enters the sums later (src/attention/stream.h). */
#define BO_CLOSED_GATE (-1e5f)

/* Finds the row of this warp. */
__device__ inline bool find_row(const bo_gpu_rows &rows, row_tile *out)
{
    if (!find_tile(rows, WARPS, (int)blockIdx.x, out)) return false;
    out->first += (int)(threadIdx.x / WARP);
    return out->first < out->length;
}

__device__ inline float *kept_gates(const bo_gpu_hybrid &a, int sequence, int key_head)
{
    const char *kept = reinterpret_cast<const char *>(kept_of(a.exact, sequence, key_head).keys);
    return reinterpret_cast<float *>(const_cast<char *>(kept) + a.gates_at);
}

/* ---- keys that leave the window ---------------------------------------------------------------------------------- */

/* The log gate at a position: of the call, of a state, or constant. */
template <typename T>
__device__ inline float gate_at(const bo_gpu_hybrid &a, const exact_keys &keys, int sequence, int key_head,
                                int position)
{
    const bo_gpu_attention &call = a.exact.at;
    if (!call.log_gate) return call.log_decay[key_head];
    if (position < keys.old) return kept_gates(a, sequence, key_head)[position % a.exact.capacity];
    const size_t row = (size_t)(keys.start + position - keys.old);
    return to_float(*numbers_at(static_cast<const T *>(call.log_gate), call.strides.log_gate, sequence, row, key_head));
}

/* The log weight with which the key at a position enters, `window` positions later: all lanes of a warp. */
template <typename T>
__device__ inline float entry_of(const bo_gpu_hybrid &a, const exact_keys &keys, int sequence, int key_head,
                                 int position)
{
    double sum = 0;
    bool closed = false;
    if (!a.gated) return 0.0f;
    for (int i = 1 + (int)(threadIdx.x % WARP); i <= a.exact.window; i += WARP) {
        const float gate = gate_at<T>(a, keys, sequence, key_head, position + i);
        closed |= gate < BO_CLOSED_GATE;
        sum += (double)gate;
    }
    for (int step = WARP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (__any_sync(0xFFFFFFFFu, closed)) return -INFINITY;
    if (a.convex) {
        const float gate = fmaxf(gate_at<T>(a, keys, sequence, key_head, position), -1e8f);
        sum += (double)logf(fmaxf(-expm1f(gate), 1e-30f));
    }
    return (float)sum;
}

template <typename T> __global__ void leave_kernel(bo_gpu_hybrid a)
{
    const bo_gpu_attention &call = a.exact.at;
    const int key_head = (int)blockIdx.y, lane = (int)(threadIdx.x % WARP), dim = call.dim, values = call.value_dim;
    row_tile at;
    if (!find_row(call.keys, &at)) return;
    const exact_keys keys = keys_of(a.exact, at.sequence);
    const int position = keys.old + at.first - a.exact.window;
    const size_t to = (size_t)(at.start + at.first) * (size_t)call.key_heads + (size_t)key_head;
    T *k = static_cast<T *>(a.k) + to * (size_t)dim, *v = static_cast<T *>(a.v) + to * (size_t)values;
    const float entry = position >= 0 ? entry_of<T>(a, keys, at.sequence, key_head, position) : -INFINITY;
    if (lane == 0) a.entries[to] = entry;
    if (position >= keys.old) {
        const size_t row = (size_t)(keys.start + position - keys.old);
        const T *from = numbers_at(static_cast<const T *>(call.k), call.strides.k, at.sequence, row, key_head);
        for (int i = lane; i < dim; i += WARP) k[i] = from[i];
        from = numbers_at(static_cast<const T *>(call.v), call.strides.v, at.sequence, row, key_head);
        for (int i = lane; i < values; i += WARP) v[i] = from[i];
    } else if (position >= 0) {
        const kept_keys kept = kept_of(a.exact, at.sequence, key_head);
        const int slot = position % kept.ring;
        for (int i = lane; i < dim; i += WARP) k[i] = from_float<T>(kept.keys[kept_key_at(kept, slot, i)]);
        for (int i = lane; i < values; i += WARP)
            v[i] = from_float<T>(kept.values[(size_t)slot * (size_t)values + (size_t)i]);
    } else {
        for (int i = lane; i < dim; i += WARP) k[i] = from_float<T>(0.0f);
        for (int i = lane; i < values; i += WARP) v[i] = from_float<T>(0.0f);
    }
}

/* Stores the gates of the latest keys: one thread per token. */
template <typename T> __global__ void keep_kernel(bo_gpu_hybrid a)
{
    const bo_gpu_attention &call = a.exact.at;
    const int key_head = (int)blockIdx.y;
    row_tile at;
    if (!find_tile(call.keys, THREADS, (int)blockIdx.x, &at)) return;
    const int i = at.first + (int)threadIdx.x;
    if (i >= at.length || at.length - i > a.exact.capacity) return;
    const exact_keys keys = keys_of(a.exact, at.sequence);
    const T *gate = numbers_at(static_cast<const T *>(call.log_gate), call.strides.log_gate, at.sequence,
                               (size_t)(at.start + i), key_head);
    kept_gates(a, at.sequence, key_head)[(keys.old + i) % a.exact.capacity] = to_float(*gate);
}

/* ---- both parts -------------------------------------------------------------------------------------------------- */

__device__ inline float relative(float top, float reference)
{
    return top > -INFINITY ? expf(top - reference) : 0.0f;
}

/* The gradient of log mix at a row is share dO·(near - out): out is not subtracted from near, which are nearly equal if
 * the weight 1 - share of the past is small. Instead near - out = factor past_share (denominator near - numerator),
 * which replaces near. */
template <typename T> __global__ void merge_kernel(bo_gpu_hybrid a)
{
    const bo_gpu_attention &call = a.exact.at;
    const int head = (int)blockIdx.y, lane = (int)(threadIdx.x % WARP), values = call.value_dim;
    row_tile at;
    if (!find_row(call.queries, &at)) return;
    const int row = at.start + at.first;
    const size_t place = (size_t)row * (size_t)call.heads + (size_t)head, tape = tape_at(a.exact, head, row);
    const float log_mix = call.mix ? logf(call.mix[head]) : 0.0f, denominator = a.norms[place];
    const float far = denominator == 0.0f ? -INFINITY : a.tops[place];
    const float near = (a.log2 ? a.exact.top[tape] / LOG2_E : a.exact.top[tape] + logf(a.exact.sum[tape])) + log_mix;
    const float top = fmaxf(far, near), past_share = relative(far, top), window_share = relative(near, top);
    const float sum = past_share * denominator + window_share, clamped = fmaxf(sum, a.clamp);
    const bool present = clamped > 1.17549435e-38f;
    const float factor = present ? 1 / clamped : 0.0f;
    const float *from = a.numerators + place * (size_t)values;
    const float past_factor = factor * past_share;
    const bool subtracts = a.shares && sum > a.clamp; /* a clamped denominator is a constant */
    T *window = static_cast<T *>(a.near) + place * (size_t)values;
    T *out = numbers_at(static_cast<T *>(call.out), call.strides.out, at.sequence, (size_t)row, head);
    for (int i = lane; i < values; i += WARP) {
        const float past = past_share > 0 ? past_share * from[i] : 0.0f, near_one = to_float(window[i]);
        out[i] = from_float<T>(factor * fmaf(window_share, near_one, past));
        if (subtracts)
            window[i] = from_float<T>(past_share > 0 ? past_factor * fmaf(denominator, near_one, -from[i]) : 0.0f);
    }
    __syncwarp();
    if (lane) return;
    a.norms[place] = !present || past_share == 0 ? INFINITY : (sum > a.clamp ? clamped : -clamped) / past_share;
    a.exact.top[tape] = !present ? INFINITY : a.log2 ? (top - log_mix + logf(clamped)) * LOG2_E : top - log_mix;
    if (!a.log2) a.exact.sum[tape] = present ? clamped : INFINITY;
    if (a.shares) a.shares[place] = factor * window_share;
}

/* A warp reads every WARPS mix_blocks-th row of a head. */
template <typename T> __global__ void split_kernel(bo_gpu_hybrid a)
{
    __shared__ float smem[WARP];
    const bo_gpu_attention &call = a.exact.at;
    const int head = (int)blockIdx.y, lane = (int)(threadIdx.x % WARP), values = call.value_dim;
    float sum = 0;
    for (size_t row = blockIdx.x * WARPS + threadIdx.x / WARP; row < call.queries.rows; row += gridDim.x * WARPS) {
        const size_t place = row * (size_t)call.heads + (size_t)head, at = place * (size_t)values;
        const bool clamped = a.norms[place] < 0;
        const bo_gpu_strides &outs = call.strides.out, &douts = call.strides.dout;
        const T *near = static_cast<const T *>(a.near) + at,
                *out =
                    numbers_at(static_cast<const T *>(call.out), outs, sequence_in(call.queries, outs, row), row, head),
                *dout = numbers_at(static_cast<const T *>(call.dout), douts, sequence_in(call.queries, douts, row), row,
                                   head);
        T *to = static_cast<T *>(a.out) + at;
        float inner = 0;
        for (int i = lane; i < values; i += WARP) {
            const float o = clamped ? 0.0f : to_float(out[i]);
            to[i] = from_float<T>(o);
            if (a.shares) inner = fmaf(to_float(dout[i]), to_float(near[i]), inner);
        }
        if (a.shares) sum = fmaf(a.shares[place], inner, sum);
    }
    sum = block_sum(sum, smem);
    if (a.shares && threadIdx.x == 0) a.mix_parts[blockIdx.x * (unsigned)call.heads + blockIdx.y] = sum;
}

__global__ void mix_kernel(bo_gpu_hybrid a)
{
    const int head = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (head >= a.exact.at.heads) return;
    double sum = 0;
    for (int i = 0; i < a.mix_blocks; i++) sum += (double)a.mix_parts[i * a.exact.at.heads + head];
    a.exact.at.dmix[head] = (float)(sum / (double)a.exact.at.mix[head]);
}

/* y += row `number` of `from`. */
template <typename T> __device__ inline void add_row(T *y, const void *from, size_t number, int width, int lane)
{
    const T *x = static_cast<const T *>(from) + number * (size_t)width;
    for (int i = lane; i < width; i += WARP) y[i] = from_float<T>(to_float(y[i]) + to_float(x[i]));
}

template <typename T> __global__ void return_kernel(bo_gpu_hybrid a)
{
    const bo_gpu_attention &call = a.exact.at;
    const int lane = (int)(threadIdx.x % WARP);
    row_tile at;
    if (!find_row(call.keys, &at) || at.first + a.exact.window >= at.length) return;
    const int key_head = (int)blockIdx.y;
    const size_t row = (size_t)(at.start + at.first),
                 later = (row + (size_t)a.exact.window) * (size_t)call.key_heads + (size_t)key_head;
    if (a.dk)
        add_row(numbers_at(static_cast<T *>(call.dk), call.strides.dk, at.sequence, row, key_head), a.dk, later,
                call.dim, lane);
    if (a.dv)
        add_row(numbers_at(static_cast<T *>(call.dv), call.strides.dv, at.sequence, row, key_head), a.dv, later,
                call.value_dim, lane);
}

template <typename T> __global__ void return_queries_kernel(bo_gpu_hybrid a)
{
    const bo_gpu_attention &call = a.exact.at;
    const int head = (int)blockIdx.y, lane = (int)(threadIdx.x % WARP);
    row_tile at;
    if (!find_row(call.queries, &at)) return;
    const size_t row = (size_t)(at.start + at.first);
    add_row(numbers_at(static_cast<T *>(call.dq), call.strides.dq, at.sequence, row, head), a.dq,
            row * (size_t)call.heads + (size_t)head, call.dim, lane);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

typedef void (*code)(bo_gpu_hybrid);

static bo_gpu_error run(bo_gpu *cuda, const bo_gpu_hybrid *a, dim3 grid, code floats, code rounded)
{
    return launch(cuda, grid, dim3(THREADS), 0, a->exact.at.type == BO_ELEMENT_FLOAT32 ? floats : rounded, *a);
}

} // namespace hybrid

bo_gpu_error hybrid_leave(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const bo_gpu_attention &call = a->exact.at;
    return hybrid::run(cuda, a, dim3(tiles_of(call.keys, hybrid::WARPS), (unsigned)call.key_heads),
                       hybrid::leave_kernel<float>, hybrid::leave_kernel<bf16>);
}

bo_gpu_error hybrid_keep(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const bo_gpu_attention &call = a->exact.at;
    return hybrid::run(cuda, a, dim3(tiles_of(call.keys, hybrid::THREADS), (unsigned)call.key_heads),
                       hybrid::keep_kernel<float>, hybrid::keep_kernel<bf16>);
}

bo_gpu_error hybrid_merge(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const bo_gpu_attention &call = a->exact.at;
    return hybrid::run(cuda, a, dim3(tiles_of(call.queries, hybrid::WARPS), (unsigned)call.heads),
                       hybrid::merge_kernel<float>, hybrid::merge_kernel<bf16>);
}

bo_gpu_error hybrid_split(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const unsigned heads = (unsigned)a->exact.at.heads;
    bo_gpu_error error = hybrid::run(cuda, a, dim3((unsigned)a->mix_blocks, heads), hybrid::split_kernel<float>,
                                     hybrid::split_kernel<bf16>);
    if (error || !a->exact.at.dmix) return error;
    return launch(cuda, dim3((unsigned)ceil_div(heads, WARP)), dim3(WARP), 0, hybrid::mix_kernel, *a);
}

/* A contiguous and aligned dq uses the faster elementwise sum. */
static bo_gpu_error return_queries(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const bo_gpu_attention &call = a->exact.at;
    const bo_gpu_strides whole = bo_gpu_tokens_first(call.heads, call.dim), &by = call.strides.dq;
    const bool gaps = by.row != whole.row || (by.head != whole.head && call.heads > 1) || by.sequence != 0;
    if (gaps || (uintptr_t)call.dq % 16)
        return hybrid::run(cuda, a, dim3(tiles_of(call.queries, hybrid::WARPS), (unsigned)call.heads),
                           hybrid::return_queries_kernel<float>, hybrid::return_queries_kernel<bf16>);
    const bo_gpu_add sum = {call.type, call.queries.rows * whole.row, a->dq, nullptr, call.dq, true};
    return add(cuda, &sum);
}

bo_gpu_error hybrid_return(bo_gpu *cuda, const bo_gpu_hybrid *a)
{
    const bo_gpu_attention &call = a->exact.at;
    if (call.dq) {
        bo_gpu_error error = return_queries(cuda, a);
        if (error) return error;
    }
    if (!a->dk && !a->dv) return nullptr;
    return hybrid::run(cuda, a, dim3(tiles_of(call.keys, hybrid::WARPS), (unsigned)call.key_heads),
                       hybrid::return_kernel<float>, hybrid::return_kernel<bf16>);
}

} // namespace bo
