/* Kernels shared by GLA and DELTA: queries that read a memory, and steps.
 *
 * memory_read: o = s Sᵀq for all queries of a sequence, after its last token. Used if all keys are read before the
 * queries (cross attention), and if only states are read. For n queries and heads of dim = value_dim = d: n (2 d)
 * elements are read and written, with 2 n d² operations; backward costs twice as much.
 *
 * memory_step: a token reads and writes 8 d² bytes of its state, and computes 6 d² operations (GLA: 4 d²). */
#include "launches.cuh"
#include "memory_fast.cuh"

namespace bo {
namespace reading {

enum { READ_ROWS = 32, READ_SLICE = 64 };

template <typename T> struct read_smem {
    T *q;       /* rows x dim */
    T *s;       /* dim x columns */
    T *dout;    /* rows x columns */
    float *out; /* rows x columns */
    float *dq;  /* rows x dim */
    float *dS;  /* dim x columns */
    __host__ __device__ explicit read_smem(smem_carver *carver, int dim)
    {
        q = carver->tile<T>(READ_ROWS, dim);
        s = carver->tile<T>(dim, READ_SLICE);
        dout = carver->tile<T>(READ_ROWS, READ_SLICE);
        out = carver->tile<float>(READ_ROWS, READ_SLICE);
        dq = carver->tile<float>(READ_ROWS, dim);
        dS = (float *)s; /* of another kernel */
        if (sizeof(T) != sizeof(float)) dS = carver->tile<float>(dim, READ_SLICE);
    }
};

__device__ inline const float *end_of(const bo_gpu_memory &a, int sequence, int key_head)
{
    if (!a.ends) return state_memory(a.call, sequence, key_head);
    return chunk_memory(a.ends, a.call, sequence, key_head);
}

template <typename T> __global__ void __launch_bounds__(TILE_THREADS) read_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int head = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const int stride = tile_stride(dim), across = tile_stride(READ_SLICE), rows = tile_pad(dim);
    const chunk at = chunk_of(call.queries, READ_ROWS, (int)blockIdx.x);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const read_smem<T> smem(&carver, dim);
    const float *s = end_of(a, at.sequence, head / (call.heads / call.key_heads));
    const bo_gpu_attention_strides &by = call.strides;
    T *out = numbers_at((T *)call.out, by.out, at.sequence, at.row, head);
    unit_load(smem.q, stride, READ_ROWS, at.tokens, dim, numbers_at((const T *)call.q, by.q, at.sequence, at.row, head),
              by.q.row, a.unit, [&](int) { return call.scale; });
    for (int first = 0; first < values; first += READ_SLICE) {
        const int columns = min((int)READ_SLICE, values - first);
        tile_load(smem.s, across, rows, dim, columns, s + first, (size_t)values);
        __syncthreads();
        tile_product(READ_ROWS, tile_pad(columns), rows, plain(smem.q, stride), plain(smem.s, across),
                     [&](int i, int j, float x) { smem.out[i * across + j] = x; });
        __syncthreads();
        tile_store(smem.out, across, at.tokens, columns, out + first, by.out.row);
    }
}

/* dq = S do, for the scaled queries */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) read_dq_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int head = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const int stride = tile_stride(dim), across = tile_stride(READ_SLICE), rows = tile_pad(dim);
    const chunk at = chunk_of(call.queries, READ_ROWS, (int)blockIdx.x);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const read_smem<T> smem(&carver, dim);
    const float *s = end_of(a, at.sequence, head / (call.heads / call.key_heads));
    const bo_gpu_attention_strides &by = call.strides;
    const T *dout = numbers_at((const T *)call.dout, by.dout, at.sequence, at.row, head);
    for (int first = 0; first < values; first += READ_SLICE) {
        const int columns = min((int)READ_SLICE, values - first);
        tile_load(smem.s, across, rows, dim, columns, s + first, (size_t)values);
        tile_load(smem.dout, across, READ_ROWS, at.tokens, columns, dout + first, by.dout.row);
        __syncthreads();
        tile_product(READ_ROWS, rows, tile_pad(columns), plain(smem.dout, across), transposed(smem.s, across),
                     [&](int i, int j, float x) {
                         float *to = smem.dq + i * stride + j;
                         *to = first ? *to + x : x;
                     });
        __syncthreads();
    }
    unit_store(smem.dq, stride, at.tokens, dim, a.unit, call.scale,
               numbers_at((const T *)call.q, by.q, at.sequence, at.row, head), by.q.row,
               numbers_at((T *)call.dq, by.dq, at.sequence, at.row, head), by.dq.row);
}

/* dS = Σ s q doᵀ: one block for some columns of one key head of one sequence */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) read_dS_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, h = (int)blockIdx.y, first = (int)blockIdx.z * READ_SLICE;
    const int dim = call.dim, values = call.value_dim, group = call.heads / call.key_heads;
    const int stride = tile_stride(dim), across = tile_stride(READ_SLICE), rows = tile_pad(dim);
    const int columns = min((int)READ_SLICE, values - first);
    const int start = rows_before(call.queries, sequence), end = rows_before(call.queries, sequence + 1);
    smem_carver carver = {shared, 0};
    const read_smem<T> smem(&carver, dim);
    const bo_gpu_attention_strides &by = call.strides;
    tile_clear(smem.dS, across, rows, columns);
    for (int row = start; row < end; row += READ_ROWS)
        for (int head = h * group; head < (h + 1) * group; head++) {
            const int tokens = min((int)READ_ROWS, end - row);
            unit_load(smem.q, stride, READ_ROWS, tokens, dim,
                      numbers_at((const T *)call.q, by.q, sequence, (size_t)row, head), by.q.row, a.unit,
                      [&](int) { return call.scale; });
            tile_load(smem.dout, across, READ_ROWS, tokens, columns,
                      numbers_at((const T *)call.dout, by.dout, sequence, (size_t)row, head) + first, by.dout.row);
            __syncthreads();
            tile_product(rows, tile_pad(columns), READ_ROWS, transposed(smem.q, stride), plain(smem.dout, across),
                         [&](int i, int j, float x) { smem.dS[i * across + j] += x; });
            __syncthreads();
        }
    __syncthreads();
    tile_store(smem.dS, across, dim, columns, chunk_memory(a.end_gradients, call, sequence, h) + first, (size_t)values);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

enum { STEP_DIM = 256, STEP_ROWS = STEP_DIM / TILE_WARPS };

/* A row of q or k after its normalization, times `factor`, in shared memory. */
template <typename T>
__device__ inline void step_row(const bo_gpu_memory &a, const T *x, float factor, float *to, float *sums)
{
    const int c = (int)threadIdx.x;
    const float x_c = c < a.call.dim ? to_float(x[c]) : 0.0f;
    if (a.unit) factor /= sqrtf(block_sum(x_c * x_c, sums)) + BO_UNIT_EPSILON;
    __syncthreads();
    if (c < a.call.dim) to[c] = x_c * factor;
    __syncthreads();
}

/* Σ_r x_r S_r for the column of this lane: warp w has the rows w, w + TILE_WARPS, … of S. */
__device__ inline float step_read(const float *x, const float (&s)[STEP_ROWS], int dim, float (*parts)[WARP])
{
    const int warp = (int)(threadIdx.x / WARP), lane = (int)(threadIdx.x % WARP);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++)
        if (warp + i * TILE_WARPS < dim) sum = fmaf(x[warp + i * TILE_WARPS], s[i], sum);
    __syncthreads();
    parts[warp][lane] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < TILE_WARPS; w++) sum += parts[w][lane];
    return sum;
}

/* Tokens one by one, with 32 columns of S of one key head of one sequence in registers: for passes of about one token
 * per sequence, which read and write the states once. */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) step_kernel(bo_gpu_memory a)
{
    __shared__ float k[STEP_DIM], q[STEP_DIM], g[STEP_DIM], sums[WARP], parts[TILE_WARPS][WARP];
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, h = (int)blockIdx.y, group = call.heads / call.key_heads;
    const int warp = (int)(threadIdx.x / WARP), c = (int)threadIdx.x, dim = call.dim, values = call.value_dim;
    const int column = (int)(blockIdx.z * WARP + threadIdx.x % WARP);
    const bool present = column < values;
    const bo_gpu_attention_strides &by = call.strides;
    const size_t end = (size_t)rows_before(call.keys, sequence + 1);
    float *state = state_memory(call, sequence, h), s[STEP_ROWS];
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        const int r = warp + i * TILE_WARPS;
        s[i] = present && r < dim ? state[r * values + column] : 0.0f;
    }
    for (size_t row = (size_t)rows_before(call.keys, sequence); row < end; row++) {
        const T *gate = numbers_if_any((const T *)call.log_gate, by.log_gate, sequence, row, h);
        const T *beta = numbers_if_any((const T *)call.beta, by.beta, sequence, row, h);
        if (c < dim) g[c] = gate ? expf(clamp_gate(to_float(gate[a.delta ? 0 : c]))) : 1.0f;
        step_row(a, numbers_at((const T *)call.k, by.k, sequence, row, h), 1.0f, k, sums);
        float u = present ? to_float(numbers_at((const T *)call.v, by.v, sequence, row, h)[column]) : 0.0f;
        if (a.delta) u = (beta ? to_float(*beta) : 1.0f) * (u - g[0] * step_read(k, s, dim, parts));
#pragma unroll
        for (int i = 0; i < STEP_ROWS; i++) {
            const int r = warp + i * TILE_WARPS;
            if (r < dim) s[i] = fmaf(k[r], u, g[r] * s[i]);
        }
        for (int head = h * group; head < (h + 1) * group; head++) {
            step_row(a, numbers_at((const T *)call.q, by.q, sequence, row, head), call.scale, q, sums);
            const float sum = step_read(q, s, dim, parts);
            if (warp == 0 && present)
                numbers_at((T *)call.out, by.out, sequence, row, head)[column] = from_float<T>(sum);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        const int r = warp + i * TILE_WARPS;
        if (present && r < dim) state[r * values + column] = s[i];
    }
}

/* ---- query heads ------------------------------------------------------------------------------------------------- */

/* The sums of the parts of the query heads of each key head: rows x heads x width. */
__global__ void __launch_bounds__(TILE_THREADS)
    add_heads_kernel(bo_gpu_attention call, const float *parts, bf16 *to, bo_gpu_strides by, int width)
{
    const size_t index = (size_t)blockIdx.x * TILE_THREADS + threadIdx.x, columns = (size_t)(call.key_heads * width);
    if (index >= call.keys.rows * columns) return;
    const size_t row = index / columns;
    const int h = (int)(index % columns) / width, c = (int)(index % columns) % width,
              group = call.heads / call.key_heads;
    const float *from = parts + (row * (size_t)call.heads + (size_t)(h * group)) * (size_t)width + (size_t)c;
    float sum = 0.0f;
    for (int g = 0; g < group; g++) sum += from[(size_t)(g * width)];
    numbers_at(to, by, sequence_in(call.keys, by, row), row, h)[c] = from_float<bf16>(sum);
}

static bo_gpu_error add_heads(bo_gpu *cuda, const bo_gpu_memory *a, const float *parts, void *to,
                              const bo_gpu_strides &by, int width)
{
    if (!to) return nullptr;
    const size_t count = a->call.keys.rows * (size_t)(a->call.key_heads * width);
    return launch(cuda, dim3((unsigned)ceil_div(count, TILE_THREADS)), dim3(TILE_THREADS), 0, add_heads_kernel, a->call,
                  parts, (bf16 *)to, by, width);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <typename T> static bo_gpu_error step_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const dim3 grid((unsigned)a->call.keys.sequences, (unsigned)a->call.key_heads,
                    (unsigned)ceil_div((size_t)a->call.value_dim, WARP));
    return launch(cuda, grid, dim3(TILE_THREADS), 0, step_kernel<T>, *a);
}

template <typename T> static bo_gpu_error read_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)read_smem<T>(&carver, a->call.dim);
    return launch(cuda, dim3(tiles_of(a->call.queries, READ_ROWS), (unsigned)a->call.heads), dim3(TILE_THREADS),
                  carver.bytes, read_kernel<T>, *a);
}

template <typename T> static bo_gpu_error read_gradients_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bo_gpu_attention &call = a->call;
    const dim3 scans((unsigned)call.queries.sequences, (unsigned)call.key_heads,
                     (unsigned)ceil_div((size_t)call.value_dim, READ_SLICE));
    smem_carver carver = {};
    (void)read_smem<T>(&carver, call.dim);
    bo_gpu_error error = nullptr;
    if (call.dq)
        error = launch(cuda, dim3(tiles_of(call.queries, READ_ROWS), (unsigned)call.heads), dim3(TILE_THREADS),
                       carver.bytes, read_dq_kernel<T>, *a);
    return error ? error : launch(cuda, scans, dim3(TILE_THREADS), carver.bytes, read_dS_kernel<T>, *a);
}

} // namespace reading

bo_gpu_error add_query_heads(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bo_gpu_attention &call = a->call;
    const bo_gpu_attention_strides &by = call.strides;
    if (!a->dk_parts) return nullptr;
    bo_gpu_error error = reading::add_heads(cuda, a, a->dk_parts, call.dk, by.dk, call.dim);
    if (!error) error = reading::add_heads(cuda, a, a->dv_parts, call.dv, by.dv, call.value_dim);
    if (!error)
        error = reading::add_heads(cuda, a, a->dlog_parts, call.dlog_gate, by.dlog_gate, a->delta ? 1 : call.dim);
    return error ? error : reading::add_heads(cuda, a, a->dbeta_parts, call.dbeta, by.dbeta, 1);
}

bo_gpu_error memory_read(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->call.type == BO_ELEMENT_FLOAT32 ? reading::read_typed<float>(cuda, a)
                                              : reading::read_typed<bf16>(cuda, a);
}

bo_gpu_error memory_read_gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->call.type == BO_ELEMENT_FLOAT32 ? reading::read_gradients_typed<float>(cuda, a)
                                              : reading::read_gradients_typed<bf16>(cuda, a);
}

bo_gpu_error memory_step(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->call.type == BO_ELEMENT_FLOAT32 ? reading::step_typed<float>(cuda, a)
                                              : reading::step_typed<bf16>(cuda, a);
}

} // namespace bo
