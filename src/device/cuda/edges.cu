/* Sums, means and maxima over the neighbors of nodes. A thread computes one column of a node, in the order of the
 * edges; neighboring threads have neighboring columns, so that rows are read as a whole. Backward finds the edges of a
 * source in the sorted list of sources. Reads 2 or 4 bytes per edge and column. */
#include "arrays.cuh"
#include "launches.cuh"
#include "random.cuh"

namespace bo {

enum { EDGE_THREADS = 256 };

/* The edges of a target: *begin … *end - 1, within the list of edges. */
__device__ inline void edges_of(const bo_gpu_edges &g, size_t target, size_t *begin, size_t *end)
{
    const int32_t first = g.first[target], last = g.first[target + 1];
    *begin = first < 0 ? 0 : (size_t)first < g.edges ? (size_t)first : g.edges;
    *end = last < 0 ? 0 : (size_t)last < g.edges ? (size_t)last : g.edges;
}

__device__ inline bool is_node(const bo_gpu_edges &g, int32_t node)
{
    return node >= 0 && (size_t)node < g.nodes;
}

__global__ void edge_weights_kernel(bo_gpu_edge_weights a)
{
    const size_t e = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const bo_gpu_edges &g = a.graph;
    if (e >= g.edges) return;
    const bool kept = !a.dropping || random_u32(a.pass->seed, a.stream, e) >= a.threshold;
    g.weight[e] = kept ? a.factor : 0.0f;
    if (a.keys) a.keys[e] = (int32_t)e < g.first[g.targets] ? g.neighbors[e] : (int32_t)g.nodes;
}

/* Weights of a mean, and the target of each edge. */
__global__ void edge_targets_kernel(bo_gpu_edge_weights a)
{
    const size_t target = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (target >= a.graph.targets) return;
    size_t begin, end;
    float total = 0;
    edges_of(a.graph, target, &begin, &end);
    for (size_t e = begin; e < end; e++) total += a.graph.weight[e];
    for (size_t e = begin; e < end; e++) {
        if (a.mean) a.graph.weight[e] /= total > 0 ? total : 1;
        if (a.into) a.into[e] = (int32_t)target;
    }
}

bo_gpu_error edge_weights(bo_gpu *cuda, const bo_gpu_edge_weights *a)
{
    if (bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(a->graph.edges, EDGE_THREADS)), dim3(EDGE_THREADS), 0,
                                    edge_weights_kernel, *a))
        return error;
    if (!a->mean && !a->into) return nullptr;
    return launch(cuda, dim3((unsigned)ceil_div(a->graph.targets, EDGE_THREADS)), dim3(EDGE_THREADS), 0,
                  edge_targets_kernel, *a);
}

/* The result is NaN if an edge refers to a missing node. */
__global__ void aggregate_kernel(bo_gpu_aggregate a)
{
    const bo_gpu_edges &g = a.graph;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, target = item / g.columns,
                 column = item % g.columns;
    if (target >= g.targets) return;
    size_t begin, end;
    float value = 0;
    int32_t which = -1;
    edges_of(g, target, &begin, &end);
    for (size_t e = begin; e < end; e++) {
        const float weight = g.weight[e];
        const int32_t node = g.neighbors[e];
        if (weight == 0) continue;
        const float x_e = is_node(g, node) ? read_one(a.x, (size_t)node * g.columns + column) : NAN;
        if (!a.largest) {
            value += weight * x_e;
        } else if (which < 0 || x_e > value || x_e != x_e) {
            value = x_e, which = (int32_t)e;
        }
    }
    write_one(a.y, item, value);
    if (a.which) a.which[item] = which;
}

bo_gpu_error aggregate(bo_gpu *cuda, const bo_gpu_aggregate *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->graph.targets * a->graph.columns, EDGE_THREADS)), dim3(EDGE_THREADS),
                  0, aggregate_kernel, *a);
}

/* The first index of the sorted list with a key >= `key`. */
__device__ inline size_t first_place(const int32_t *sorted, size_t count, int32_t key)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

__global__ void aggregate_back_kernel(bo_gpu_aggregate_back a)
{
    const bo_gpu_edges &g = a.graph;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, node = item / g.columns,
                 column = item % g.columns;
    if (node >= g.nodes) return;
    float sum = 0;
    for (size_t p = first_place(a.sorted, g.edges, (int32_t)node); p < g.edges && a.sorted[p] == (int32_t)node; p++) {
        const int32_t e = a.order[p];
        const size_t at = (size_t)a.into[e] * g.columns + column;
        if (a.which)
            sum += a.which[at] == e ? read_one(a.dy, at) : 0.0f;
        else if (g.weight[e] != 0)
            sum += g.weight[e] * read_one(a.dy, at);
    }
    write_one(a.dx, item, sum);
}

bo_gpu_error aggregate_back(bo_gpu *cuda, const bo_gpu_aggregate_back *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->graph.nodes * a->graph.columns, EDGE_THREADS)), dim3(EDGE_THREADS),
                  0, aggregate_back_kernel, *a);
}

} // namespace bo
