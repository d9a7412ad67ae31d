/* Linear attention: scans over segments, gate gradients, sums of parameter gradients. Memory-bound: scans read and
 * write the sums of every segment once, with one thread per element. */
#include "features.cuh"

namespace bo {
namespace features {

enum { SCAN_THREADS = 128, BATCH = 8, EACH = 8 }; /* segments, and rows of a thread, at a time */

__device__ inline int count_segments(const bo_gpu_rows &rows, int segment, int sequence)
{
    return (int)((first_row(rows, sequence + 1) - first_row(rows, sequence) + (size_t)segment - 1) / (size_t)segment);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The factors of consecutive segments: sums after segment i = keep[i] * sums before it + add[i] * sums of the segment.
 * Lane i of every warp holds those of segment i. */
struct segment_factors {
    float keep, add, before, after; /* before, after: log scales */
};

/* Computes the factors of `count` segments from segment `index` on. `scale`: the log scale before the first; receives
 * that after the last. */
__device__ inline segment_factors find_factors(const arguments &a, size_t index, int count, int key_head, float &scale)
{
    const int lane = (int)threadIdx.x % WARP;
    segment_factors f = {1, 1, scale, scale};
    double gates = 0;
    float own = 0;
    if (!a.gated && !a.map.scaled) return f;
    if (lane < count) {
        float *segment_sums = a.sums + sums_at(a, index + (size_t)lane, key_head);
        gates = a.gated ? sums_gates(segment_sums) : 0, own = segment_sums[0];
    }
    for (int i = 0; i < count; i++) {
        const double more = __shfl_sync(0xFFFFFFFFu, gates, i);
        const float local = __shfl_sync(0xFFFFFFFFu, own, i);
        const float next = a.map.scaled ? fmaxf((float)((double)scale + more), local) : 0.0f;
        if (i == lane) f.before = scale, f.after = next;
        scale = next;
    }
    f.keep = remaining(f.before, gates, f.after);
    f.add = a.map.scaled ? remaining(own, 0, f.after) : 1.0f;
    return f;
}

/* Element e of z followed by S, in wide sums with features in memory. */
__device__ inline void write_wide(const arguments &a, void *wide, size_t index, int key_head, size_t e, float x,
                                  bool gradient)
{
    const size_t features = (size_t)a.map.features, values = (size_t)a.call.value_dim;
    const size_t first = (index * (size_t)a.call.key_heads + (size_t)key_head) * features;
    bf16 *to = static_cast<bf16 *>(wide);
    if (e >= features) {
        e -= features;
        to[(first + e / values) * (values + 8) + e % values] = from_float<bf16>(x);
        return;
    }
    pack<uint32_t, 4> last = {{0, 0, 0, 0}};
    const float high = to_float(from_float<bf16>(x)), low = isfinite(high) ? x - high : 0.0f;
    last.at[0] = pack_bf16(high, gradient ? low : high);
    if (!gradient) last.at[1] = pack_bf16(low, 0);
    *reinterpret_cast<pack<uint32_t, 4> *>(to + (first + e) * (values + 8) + values) = last;
}

/* Replaces the sums of each segment by the sums over all earlier keys, starting from the states. Grid: sequences x key
 * heads, elements. */
__global__ void scan_kernel(arguments a)
{
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads);
    const size_t e = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    const bool present = e < (size_t)a.map.features * (size_t)(a.call.value_dim + 1);
    const size_t at = present ? sums_number(a, e) : sums_z();
    const int segments = a.call.k ? count_segments(a.call.keys, a.segment, sequence) : 0;
    const size_t slot = (size_t)first_tile(a.call.keys, a.segment, sequence);
    float *state = a.call.states ? state_sums(a, sequence, key_head) : nullptr;
    const bool ends = a.call.states || !a.call.causal; /* the sums after the last segment are read */
    float scale = state ? state[0] : empty_scale(a), sum = state ? state[at] : 0.0f;
    for (int first = 0; first < segments; first += BATCH) {
        const int count = min(segments - first, (int)BATCH);
        const size_t index = slot + (size_t)first;
        float local[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            local[i] = i < count && (ends || first + i + 1 < segments)
                           ? a.sums[sums_at(a, index + (size_t)i, key_head) + at]
                           : 0.0f;
        const segment_factors f = find_factors(a, index, count, key_head, scale);
        if (e < (size_t)count) {
            const size_t number = (index + e) * (size_t)a.call.key_heads + (size_t)key_head;
            a.begins[number] = f.before, a.ends[number] = f.after;
            if (a.stored) a.kept[number] = f.keep;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (i >= count) break;
            if (present && a.stored)
                write_wide(a, a.before, index + (size_t)i, key_head, e, sum, false);
            else if (present)
                a.sums[sums_at(a, index + (size_t)i, key_head) + at] = sum;
            const float keep = __shfl_sync(0xFFFFFFFFu, f.keep, i), add = __shfl_sync(0xFFFFFFFFu, f.add, i);
            sum = sum * keep + local[i] * add;
        }
    }
    if (!present) return;
    if (a.stored && !a.call.causal) write_wide(a, a.all, (size_t)sequence, key_head, e, sum, false);
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

bo_gpu_error scan(bo_gpu *cuda, const arguments *a)
{
    bo_gpu_error error = launch(cuda, scan_grid(a), dim3(SCAN_THREADS), 0, scan_kernel, *a);
    if (error || !a->call.states || !a->call.k) return error;
    const size_t count = (size_t)a->call.keys.sequences * (size_t)a->call.key_heads;
    return launch(cuda, dim3((unsigned)ceil_div(count, SCAN_THREADS)), dim3(SCAN_THREADS), 0, state_scales_kernel, *a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The gradient of all sums by all queries of a sequence. */
__device__ inline float sum_gradients(const arguments &a, int sequence, int key_head, size_t at)
{
    const size_t slot = (size_t)first_tile(a.call.queries, a.segment, sequence);
    const int segments = count_segments(a.call.queries, a.segment, sequence);
    float sum = 0;
    for (int i = 0; i < segments; i++) sum += a.gradients[sums_at(a, slot + (size_t)i, key_head) + at];
    return sum;
}

/* Causal: replaces the gradient from the queries of each segment by the gradient of the sums after it. Else sums the
 * gradients from all queries. Segments of keys receive the gradient of the sums after them. */
__global__ void scan_back_kernel(arguments a)
{
    __shared__ float keep[BATCH];
    const int sequence = (int)(blockIdx.x / (unsigned)a.call.key_heads),
              key_head = (int)(blockIdx.x % (unsigned)a.call.key_heads), thread = (int)threadIdx.x;
    const size_t e = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    const bool present = e < (size_t)a.map.features * (size_t)(a.call.value_dim + 1);
    const size_t at = present ? sums_number(a, e) : sums_z();
    const size_t slot = (size_t)first_tile(a.call.keys, a.segment, sequence);
    float sum = a.call.causal ? 0.0f : sum_gradients(a, sequence, key_head, at);
    for (int end = count_segments(a.call.keys, a.segment, sequence); end > 0; end -= BATCH) { /* from the last one */
        const int count = min(end, (int)BATCH);
        float local[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) /* the gradient of the first sums is not needed */
            local[i] = a.call.causal && i < count && end - 1 - i > 0
                           ? a.gradients[sums_at(a, slot + (size_t)(end - 1 - i), key_head) + at]
                           : 0.0f;
        __syncthreads();
        if (thread < count) {
            const size_t index = slot + (size_t)(end - 1 - thread);
            const size_t scale = index * (size_t)a.call.key_heads + (size_t)key_head;
            if (a.stored) {
                keep[thread] = a.kept[scale];
            } else {
                const double gates = a.gated ? sums_gates(a.sums + sums_at(a, index, key_head)) : 0;
                keep[thread] = remaining(a.begins[scale], gates, a.ends[scale]);
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (i >= count) break;
            const size_t index = slot + (size_t)(end - 1 - i);
            if (present && a.stored)
                write_wide(a, a.later, index, key_head, e, sum, true);
            else if (present)
                a.after[sums_at(a, index, key_head) + at] = sum;
            sum = sum * keep[i] + local[i];
        }
    }
}

bo_gpu_error scan_back(bo_gpu *cuda, const arguments *a)
{
    return launch(cuda, scan_grid(a), dim3(SCAN_THREADS), 0, scan_back_kernel, *a);
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* Suffix sums over this and later threads; `all` receives the sum over all threads. smem: one element per warp. */
__device__ inline double sum_after(double x, double *smem, double &all)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    for (int step = 1; step < WARP; step *= 2) {
        const double more = __shfl_down_sync(0xFFFFFFFFu, x, (unsigned)step);
        if (lane + step < WARP) x += more;
    }
    if (lane == 0) smem[warp] = x;
    __syncthreads();
    all = 0;
    for (int w = SCAN_THREADS / WARP - 1; w >= 0; w--) {
        if (w == warp) x += all;
        all += smem[w];
    }
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

/* The change of (flow of queries - flow of keys) at the rows of a segment of keys, which start at `first`. If all
 * queries come after the keys, only the keys count. */
__device__ inline double change_at(const arguments &a, const span &at, int row, int key_head, double &key_flow)
{
    const size_t entered = at.first + (size_t)row + (size_t)a.delay, end = first_row(a.call.keys, at.sequence + 1);
    const bool present = row < at.count;
    key_flow = present && entered < end ? a.key_flow[entered * (size_t)a.call.key_heads + (size_t)key_head] : 0;
    return (present && a.call.causal ? flow_of(a, at.first + (size_t)row, key_head) : 0) - key_flow;
}

/* The totals of a segment lie before its sums, which backward has read: a change of flow, a part of the gradient of the
 * fixed gate. */
__device__ inline double &total_change(const arguments &a, size_t index, int key_head)
{
    return sums_gates(a.after + sums_at(a, index, key_head));
}
__device__ inline double &total_decay(const arguments &a, size_t index, int key_head)
{
    return *(&total_change(a, index, key_head) + 1);
}
__device__ inline double &total_flow(const arguments &a, size_t index, int key_head)
{
    return sums_gates(a.gradients + sums_at(a, index, key_head));
}

/* Changes of each segment of keys. Grid: segments, key heads. */
__global__ void changes_kernel(arguments a)
{
    __shared__ double smem[WARP];
    const int key_head = (int)blockIdx.y;
    span at;
    double key_flow, sum = 0;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) return;
#pragma unroll 4
    for (int row = (int)threadIdx.x; row < at.count; row += SCAN_THREADS)
        sum += change_at(a, at, row, key_head, key_flow);
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) total_change(a, blockIdx.x, key_head) = sum;
}

/* The flow of each segment of queries. Grid: segments, key heads. */
__global__ void flows_kernel(arguments a)
{
    __shared__ double smem[WARP];
    span at;
    double sum = 0;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    for (int row = (int)threadIdx.x; row < at.count; row += SCAN_THREADS)
        sum += flow_of(a, at.first + (size_t)row, (int)blockIdx.y);
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) total_flow(a, blockIdx.x, (int)blockIdx.y) = sum;
}

/* The contribution of the rows after a segment of keys to the gradients of its gates. */
__device__ inline double carried_to(const arguments &a, size_t index, int sequence, int key_head, double *smem)
{
    const size_t end =
        (size_t)first_tile(a.call.keys, a.segment, sequence) + (size_t)count_segments(a.call.keys, a.segment, sequence);
    double sum = 0;
    for (size_t i = index + 1 + threadIdx.x; i < end; i += SCAN_THREADS) sum += total_change(a, i, key_head);
    if (!a.call.causal) {
        const int segments = count_segments(a.call.queries, a.segment, sequence);
        const size_t slot = (size_t)first_tile(a.call.queries, a.segment, sequence);
        for (int i = (int)threadIdx.x; i < segments; i += SCAN_THREADS)
            sum += total_flow(a, slot + (size_t)i, key_head);
    }
    return block_total(sum, smem);
}

/* dL/d log g_t = Σ_{s >= t} (flow_s - own_s), with a convex gate also through the weight 1 - g. If queries come after
 * all keys, their whole flow counts for every key. Grid: segments of keys, key heads. */
template <typename T> __global__ void gates_kernel(arguments a)
{
    __shared__ double smem[WARP];
    const int key_head = (int)blockIdx.y, thread = (int)threadIdx.x;
    span at;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) return;
    const bo_gpu_strides &by = a.call.strides.dlog_gate;
    T *to = numbers_if_any(static_cast<T *>(a.call.dlog_gate), by, at.sequence, at.first, key_head);
    double carried = carried_to(a, blockIdx.x, at.sequence, key_head, smem), decay = 0, all;
    for (int stop = at.count; stop > 0;) {
        const int rows = min(stop, (int)(SCAN_THREADS * EACH));
        stop -= rows;
        double key_flow[EACH], change[EACH], total = 0;
        float gate[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int row = thread * EACH + i < rows ? stop + thread * EACH + i : at.count;
            change[i] = change_at(a, at, row, key_head, key_flow[i]);
            gate[i] = row < at.count ? log_gate<T>(a, at.sequence, at.first + (size_t)row, key_head) : 0.0f;
        }
        for (int i = 0; i < EACH; i++) total += change[i];
        double gradient = carried + sum_after(total, smem, all) - total;
#pragma unroll
        for (int i = EACH - 1; i >= 0; i--) {
            const int row = thread * EACH + i;
            gradient += change[i];
            if (row >= rows) continue;
            decay += gradient;
            if (!to) continue;
            const float input = -expm1f(gate[i]);
            const double through = a.convex && input > 1e-30f ? -key_flow[i] * (double)(expf(gate[i]) / input) : 0;
            to[(size_t)(stop + row) * by.row] = from_float<T>((float)(gradient + through));
        }
        carried += all;
    }
    decay = block_total(decay, smem);
    if (thread == 0) total_decay(a, blockIdx.x, key_head) = decay;
}

/* Grid: key heads. */
__global__ void decay_kernel(arguments a, int segments)
{
    __shared__ double smem[WARP];
    const int key_head = (int)blockIdx.x;
    span at;
    double sum = 0;
    for (int i = (int)threadIdx.x; i < segments; i += SCAN_THREADS)
        if (find_segment(a, a.call.keys, (size_t)i, at)) sum += total_decay(a, (size_t)i, key_head);
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) a.call.dlog_decay[key_head] = (float)sum;
}

bo_gpu_error reduce_gate_gradients(bo_gpu *cuda, const arguments *a)
{
    if (!a->flow) return nullptr;
    const unsigned heads = (unsigned)a->call.key_heads, segments = tiles_of(a->call.keys, a->segment);
    const dim3 grid(segments, heads);
    bo_gpu_error error = launch(cuda, grid, dim3(SCAN_THREADS), 0, changes_kernel, *a);
    if (!error && !a->call.causal)
        error =
            launch(cuda, dim3(tiles_of(a->call.queries, a->segment), heads), dim3(SCAN_THREADS), 0, flows_kernel, *a);
    if (!error)
        error = launch(cuda, grid, dim3(SCAN_THREADS), 0,
                       a->call.type == BO_ELEMENT_FLOAT32 ? gates_kernel<float> : gates_kernel<bf16>, *a);
    if (error || !a->call.dlog_decay) return error;
    return launch(cuda, dim3(heads), dim3(SCAN_THREADS), 0, decay_kernel, *a, (int)segments);
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* to[h size + i] = Σ over blocks of element first + i of key head h. */
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

bo_gpu_error reduce_parameter_gradients(bo_gpu *cuda, const arguments *a)
{
    const size_t matrix = (size_t)a->map.dim * (size_t)a->call.dim;
    float *const to[] = {a->call.dsigma, a->call.dm, a->call.dm_k, a->call.dbias, a->call.dbias_k};
    const size_t sizes[] = {(size_t)a->call.dim, matrix, matrix, (size_t)a->map.dim, (size_t)a->map.dim};
    size_t first = 0;
    for (int i = 0; i < 5; i++) {
        if (!to[i]) continue;
        const dim3 grid((unsigned)ceil_div(sizes[i], SCAN_THREADS), (unsigned)a->call.key_heads);
        bo_gpu_error error = launch(cuda, grid, dim3(SCAN_THREADS), 0, parameters_kernel, *a, first, sizes[i], to[i]);
        if (error) return error;
        first += sizes[i];
    }
    return nullptr;
}

} // namespace features
} // namespace bo
