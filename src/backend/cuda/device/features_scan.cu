/* Attention with features: scans over segments, gradients of gates, sums of the gradients of parameters. Memory-bound:
 * scans read and write the sums of every segment once, one thread per number. */
#include "features.cuh"

namespace bo {
namespace features {

enum { SCAN_THREADS = 128, BATCH = 8 };

__device__ inline int count_segments(const bo_cuda_rows &rows, int segment, int sequence)
{
    return (int)((first_row(rows, sequence + 1) - first_row(rows, sequence) + (size_t)segment - 1) / (size_t)segment);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Replaces the sums of each segment by those of all keys before it, starting from the states. Grid: sequences x key
 * heads, numbers. */
__global__ void scan_kernel(arguments a)
{
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads);
    const size_t e = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    if (e >= (size_t)a.map.features * (size_t)(a.call.value_dim + 1)) return;
    const size_t at = sums_number(a, e);
    const int segments = a.call.k ? count_segments(a.call.keys, a.segment, sequence) : 0;
    const size_t slot = (size_t)first_tile(a.call.keys, a.segment, sequence);
    float *state = a.call.states ? state_sums(a, sequence, key_head) : nullptr;
    float scale = state ? state[0] : empty_scale(a), sum = state ? state[at] : 0.0f;
    for (int first = 0; first < segments; first += BATCH) {
        const int count = min(segments - first, (int)BATCH);
        float *own[BATCH], local[BATCH], local_scale[BATCH];
        double gates[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) { /* loads first, so that they overlap */
            if (i >= count) break;
            own[i] = a.sums + sums_at(a, slot + (size_t)(first + i), key_head);
            local[i] = own[i][at], local_scale[i] = own[i][0], gates[i] = a.gated ? sums_gates(own[i]) : 0;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (i >= count) break;
            const size_t index = (slot + (size_t)(first + i)) * (size_t)a.call.key_heads + (size_t)key_head;
            const float next = a.map.scaled ? fmaxf((float)((double)scale + gates[i]), local_scale[i]) : 0.0f;
            own[i][at] = sum;
            if (e == 0) a.begins[index] = scale, a.ends[index] = next;
            sum = sum * remaining(scale, gates[i], next) +
                  local[i] * (a.map.scaled ? remaining(local_scale[i], 0, next) : 1.0f);
            scale = next;
        }
    }
    a.totals[sums_at(a, (size_t)sequence, key_head) + at] = sum;
    if (e == 0) a.total_scales[(size_t)sequence * (size_t)a.call.key_heads + (size_t)key_head] = scale;
    if (state && a.call.k) state[at] = sum;
}

/* The log scales of the states, which scan_kernel reads in all of its blocks. */
__global__ void state_scales_kernel(arguments a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= a.call.keys.sequences * a.call.key_heads) return;
    *state_sums(a, i / a.call.key_heads, i % a.call.key_heads) = a.total_scales[i];
}

static dim3 scan_grid(const arguments *a)
{
    const size_t numbers = (size_t)a->map.features * (size_t)(a->call.value_dim + 1);
    return dim3((unsigned)(a->call.keys.sequences * a->call.key_heads), (unsigned)ceil_div(numbers, SCAN_THREADS));
}

bo_cuda_error scan(bo_cuda *cuda, const arguments *a)
{
    bo_cuda_error error = launch(cuda, scan_grid(a), dim3(SCAN_THREADS), 0, scan_kernel, *a);
    if (error || !a->call.states || !a->call.k) return error;
    const size_t count = (size_t)a->call.keys.sequences * (size_t)a->call.key_heads;
    return launch(cuda, dim3((unsigned)ceil_div(count, SCAN_THREADS)), dim3(SCAN_THREADS), 0, state_scales_kernel, *a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Causal: replaces the gradient by the queries of each segment by that of the sums after it. Else sums those of all
 * queries; segments of keys receive the gradient of the sums after them. */
__global__ void scan_back_kernel(arguments a)
{
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads);
    const size_t e = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    if (e >= (size_t)a.map.features * (size_t)(a.call.value_dim + 1)) return;
    const size_t at = sums_number(a, e);
    float sum = 0;
    if (!a.call.causal) {
        const size_t slot = (size_t)first_tile(a.call.queries, a.segment, sequence);
        const int segments = count_segments(a.call.queries, a.segment, sequence);
        for (int i = 0; i < segments; i++) sum += a.slopes[sums_at(a, slot + (size_t)i, key_head) + at];
    }
    const size_t slot = (size_t)first_tile(a.call.keys, a.segment, sequence);
    for (int i = count_segments(a.call.keys, a.segment, sequence) - 1; i >= 0; i--) {
        const size_t index = slot + (size_t)i, scale = index * (size_t)a.call.key_heads + (size_t)key_head;
        float *own = a.after + sums_at(a, index, key_head) + at;
        const double gates = a.gated ? sums_gates(a.sums + sums_at(a, index, key_head)) : 0;
        const float local = a.call.causal ? *own : 0.0f;
        *own = sum;
        sum = sum * remaining(a.begins[scale], gates, a.ends[scale]) + local;
    }
}

bo_cuda_error scan_back(bo_cuda *cuda, const arguments *a)
{
    return launch(cuda, scan_grid(a), dim3(SCAN_THREADS), 0, scan_back_kernel, *a);
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* Sums over this thread and those after it; `all` receives the sum over all threads. */
__device__ inline double sum_after(double x, double *room, double &all)
{
    const int thread = (int)threadIdx.x;
    room[thread] = x;
    for (int step = 1; step < (int)blockDim.x; step *= 2) {
        __syncthreads();
        const double more = thread + step < (int)blockDim.x ? room[thread + step] : 0;
        __syncthreads();
        room[thread] += more;
    }
    __syncthreads();
    all = room[0];
    x = room[thread];
    __syncthreads();
    return x;
}

/* The flow of a row over the query heads of a group. */
__device__ inline double flow_of(const arguments &a, size_t row, int key_head)
{
    const int group = a.call.heads / a.call.key_heads;
    double sum = 0;
    for (int g = 0; g < group; g++) sum += a.flow[row * (size_t)a.call.heads + (size_t)(key_head * group + g)];
    return sum;
}

/* dL/d log g_t = Σ_{s >= t} (flow_s - own_s), with a convex gate also through the weight 1 - g. If queries come after
 * all keys, their whole flow counts for every key. Grid: sequences x key heads. */
template <typename T> __global__ void gates_kernel(arguments a)
{
    __shared__ double room[SCAN_THREADS];
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads), thread = (int)threadIdx.x;
    const size_t heads = (size_t)a.call.key_heads, head = (size_t)key_head;
    const size_t first = first_row(a.call.keys, sequence), end = first_row(a.call.keys, sequence + 1);
    double carried = 0, decay = 0, all;
    if (!a.call.causal) {
        double mine = 0;
        const size_t last = first_row(a.call.queries, sequence + 1);
        for (size_t row = first_row(a.call.queries, sequence) + (size_t)thread; row < last; row += SCAN_THREADS)
            mine += flow_of(a, row, key_head);
        sum_after(mine, room, carried);
    }
    for (size_t stop = end; stop > first; stop -= min(stop - first, (size_t)SCAN_THREADS)) {
        const size_t rows = min(stop - first, (size_t)SCAN_THREADS), row = stop - rows + (size_t)thread;
        const bool present = (size_t)thread < rows;
        const size_t entered = row + (size_t)a.delay;
        const double own = present && entered < end ? a.own[entered * heads + head] : 0;
        const double flow = present && a.call.causal ? flow_of(a, row, key_head) : 0;
        const double slope = carried + sum_after(flow - own, room, all);
        if (present) {
            decay += slope;
            const double gate = (double)log_gate<T>(a, row, key_head), input = -expm1(gate);
            const double through = a.convex && input > 1e-30 ? -own * exp(gate) / input : 0;
            if (a.call.dlog_gate)
                static_cast<T *>(a.call.dlog_gate)[row * heads + head] = from_float<T>((float)(slope + through));
        }
        carried += all;
    }
    sum_after(decay, room, all);
    if (thread == 0) a.decays[blockIdx.x] = all;
}

__global__ void decay_kernel(arguments a)
{
    const int key_head = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (key_head >= a.call.key_heads) return;
    double sum = 0;
    for (int s = 0; s < a.call.keys.sequences; s++) sum += a.decays[s * a.call.key_heads + key_head];
    a.call.dlog_decay[key_head] = (float)sum;
}

bo_cuda_error give_gates(bo_cuda *cuda, const arguments *a)
{
    if (!a->flow) return nullptr;
    const dim3 grid((unsigned)(a->call.keys.sequences * a->call.key_heads));
    bo_cuda_error error = launch(cuda, grid, dim3(SCAN_THREADS), 0,
                                 a->call.type == BO_CUDA_F32 ? gates_kernel<float> : gates_kernel<bf16>, *a);
    if (error || !a->call.dlog_decay) return error;
    return launch(cuda, dim3((unsigned)ceil_div((size_t)a->call.key_heads, SCAN_THREADS)), dim3(SCAN_THREADS), 0,
                  decay_kernel, *a);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* to[h size + i] = Σ over blocks of their number first + i of key head h. */
__global__ void parameters_kernel(arguments a, size_t first, size_t size, float *to)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    double sum = 0;
    for (int block = 0; block < a.blocks; block++)
        sum +=
            (double)a.partials[((size_t)block * (size_t)a.call.key_heads + blockIdx.y) * a.partial_floats + first + i];
    to[blockIdx.y * size + i] = (float)sum;
}

bo_cuda_error give_parameters(bo_cuda *cuda, const arguments *a)
{
    const size_t matrix = (size_t)a->map.dim * (size_t)a->call.dim;
    float *const to[] = {a->call.dsigma, a->call.dm, a->call.dm_k, a->call.dbias, a->call.dbias_k};
    const size_t sizes[] = {(size_t)a->call.dim, matrix, matrix, (size_t)a->map.dim, (size_t)a->map.dim};
    size_t first = 0;
    for (int i = 0; i < 5; i++) {
        if (!to[i]) continue;
        const dim3 grid((unsigned)ceil_div(sizes[i], SCAN_THREADS), (unsigned)a->call.key_heads);
        bo_cuda_error error = launch(cuda, grid, dim3(SCAN_THREADS), 0, parameters_kernel, *a, first, sizes[i], to[i]);
        if (error) return error;
        first += sizes[i];
    }
    return nullptr;
}

} // namespace features
} // namespace bo
