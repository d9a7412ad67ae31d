/* Products along the tokens, computed directly: a thread computes one element of y or dx, a warp one element of dW,
 * over the tokens in order. Neighboring threads have neighboring columns and share the row of W. Per element of y: one
 * multiply-add per visible token. */
#include "arrays.cuh"
#include "launches.cuh"
#include "sequences.cuh"

namespace bo {

enum { MIX_THREADS = 256 };

__device__ inline char *mix_state(const bo_gpu_mix &m, int sequence)
{
    return m.states ? (char *)m.states[sequence] + m.offset : nullptr;
}

/* The number of tokens of the state before this call. */
__device__ inline size_t tokens_before(const bo_gpu_mix &m, const sequence_span &s)
{
    const char *state = mix_state(m, s.index);
    if (!state) return 0;
    const size_t stored = *(const uint32_t *)state, length = s.end - s.first;
    return !m.again ? stored : stored < length ? 0 : stored - length;
}

/* Appends rows to the state; tokens beyond the matrix are not kept. */
__global__ void mix_append_kernel(bo_gpu_mix m)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / m.columns,
                 column = item % m.columns;
    if (row >= m.sequences.rows) return;
    const sequence_span s = sequence_with(m.sequences, row);
    const size_t token = tokens_before(m, s) + row - s.first;
    if (token >= m.max_tokens) return;
    float *rows = (float *)(mix_state(m, s.index) + m.head);
    rows[token * m.columns + column] = read_one(m.x, item);
}

__global__ void mix_count_kernel(bo_gpu_mix m)
{
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)m.sequences.sequences) return;
    const sequence_span s = sequence_number(m.sequences, (int)index);
    *(uint32_t *)mix_state(m, s.index) += (uint32_t)(s.end - s.first);
}

/* Tokens beyond the matrix produce NaNs. */
__global__ void mix_kernel(bo_gpu_mix m)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / m.columns,
                 column = item % m.columns, head = column / (m.columns / m.heads);
    if (row >= m.sequences.rows) return;
    const sequence_span s = sequence_with(m.sequences, row);
    const size_t token = tokens_before(m, s) + row - s.first, end = m.causal ? token + 1 : s.end - s.first;
    const char *state = mix_state(m, s.index);
    const bo_gpu_source x = state ? bo_gpu_source{state + m.head, BO_ELEMENT_FLOAT32} : m.x;
    const size_t first = state ? 0 : s.first;
    const bool fits = token < m.max_tokens && end <= m.max_tokens;
    float sum = fits ? 0 : NAN;
    for (size_t t = 0; fits && t < end; t++)
        sum += read_one(m.weight, (head * m.max_tokens + token) * m.max_tokens + t) *
               read_one(x, (first + t) * m.columns + column);
    write_one(m.y, item, sum);
}

bo_gpu_error mix(bo_gpu *cuda, const bo_gpu_mix *m)
{
    const dim3 grid((unsigned)ceil_div(m->sequences.rows * m->columns, MIX_THREADS)), block(MIX_THREADS);
    const bool appends = m->states && !m->again;
    if (appends)
        if (bo_gpu_error error = launch(cuda, grid, block, 0, mix_append_kernel, *m)) return error;
    if (bo_gpu_error error = launch(cuda, grid, block, 0, mix_kernel, *m)) return error;
    if (!appends) return nullptr;
    return launch(cuda, dim3((unsigned)ceil_div((size_t)m->sequences.sequences, MIX_THREADS)), block, 0,
                  mix_count_kernel, *m);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dx_s = Σ_t W[t, s] dy_t */
__global__ void mix_input_kernel(bo_gpu_mix_back a)
{
    const bo_gpu_mix &m = a.of;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / m.columns,
                 column = item % m.columns, head = column / (m.columns / m.heads);
    if (row >= m.sequences.rows) return;
    const sequence_span s = sequence_with(m.sequences, row);
    const size_t token = row - s.first, length = s.end - s.first;
    float sum = length <= m.max_tokens ? 0 : NAN;
    for (size_t t = m.causal ? token : 0; t < length && length <= m.max_tokens; t++)
        sum += read_one(m.weight, (head * m.max_tokens + t) * m.max_tokens + token) *
               read_one(a.dy, (s.first + t) * m.columns + column);
    write_one(a.dx, item, sum);
}

/* dW[t, s] = Σ dy_t x_sᵀ over the sequences: one warp per element. */
__global__ void mix_weight_kernel(bo_gpu_mix_back a)
{
    const bo_gpu_mix &m = a.of;
    const size_t item = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP,
                 head = item / (m.max_tokens * m.max_tokens), t = item / m.max_tokens % m.max_tokens,
                 s = item % m.max_tokens, dim = m.columns / m.heads;
    if (head >= m.heads) return;
    float sum = 0;
    for (int i = 0; i < m.sequences.sequences && (!m.causal || s <= t); i++) {
        const sequence_span span = sequence_number(m.sequences, i);
        if (span.end - span.first <= t || span.end - span.first <= s) continue;
        for (size_t c = threadIdx.x % WARP; c < dim; c += WARP)
            sum += read_one(a.dy, (span.first + t) * m.columns + head * dim + c) *
                   read_one(m.x, (span.first + s) * m.columns + head * dim + c);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) write_one(a.dweight, item, sum);
}

bo_gpu_error mix_back(bo_gpu *cuda, const bo_gpu_mix_back *a)
{
    const bo_gpu_mix &m = a->of;
    const size_t items = m.sequences.rows * m.columns, warps = m.heads * m.max_tokens * m.max_tokens;
    if (a->dx.at)
        if (bo_gpu_error error =
                launch(cuda, dim3((unsigned)ceil_div(items, MIX_THREADS)), dim3(MIX_THREADS), 0, mix_input_kernel, *a))
            return error;
    if (!a->dweight.at) return nullptr;
    return launch(cuda, dim3((unsigned)ceil_div(warps * WARP, MIX_THREADS)), dim3(MIX_THREADS), 0, mix_weight_kernel,
                  *a);
}

} // namespace bo
