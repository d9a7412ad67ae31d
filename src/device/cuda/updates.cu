/* Updates of weights, and sums over gradients, for lists of vectors: one launch per list.
 *
 * Bytes per weight: AdamW 28 (reads g, m, v, w, writes m, v, w), SGD and sign with momentum 20, without 12; copies 8,
 * averages 12, exchanges 16; sums 4. Sums are float64, in two stages of fixed order. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, EACH = 4, TILE = THREADS * EACH };

/* The first block of each vector. Invariant: first[i] is the number of blocks from i = count on. */
struct list_blocks {
    unsigned first[BO_GPU_LIST + 1];
};

/* The vector of this block: the last one that starts at or before it. Empty vectors have no blocks. */
__device__ inline int vector_of_block(const list_blocks &blocks)
{
    int low = 0, high = BO_GPU_LIST; /* first[low] <= blockIdx.x < first[high] */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (blockIdx.x >= blocks.first[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- updates ----------------------------------------------------------------------------------------------------- */

/* The shared arguments of a list of vectors, without the list. */
struct rule_numbers {
    float scale, momentum, rest;
    bool nesterov;
    float beta1, rest1, beta2, rest2, correction, epsilon;
};

__device__ inline float sign_of(float x)
{
    return (float)((x > 0) - (x < 0));
}

/* Updates one element; only some rules use m and v. */
template <int RULE>
__device__ inline void update_number(const rule_numbers &k, float rate, float keep, bool has_m, float g, float &m,
                                     float &v, float &w)
{
    if (RULE == BO_GPU_RULE_COPY) {
        w = g;
    } else if (RULE == BO_GPU_RULE_APPROACH) {
        w += k.scale * (g - w);
    } else if (RULE == BO_GPU_RULE_SWAP) {
        const float previous = m;
        m = w, w = previous;
    } else if (RULE == BO_GPU_RULE_SGD) {
        const float slope = k.scale * g;
        if (has_m) m = k.momentum * m + slope;
        w = keep * w - rate * (!has_m ? slope : k.nesterov ? slope + k.momentum * m : m);
    } else if (RULE == BO_GPU_RULE_SIGN) {
        if (has_m) m = k.momentum * m + k.rest * k.scale * g;
        w = keep * w - rate * sign_of(has_m ? m : g);
    } else {
        const float slope = k.scale * g;
        m = k.beta1 * m + k.rest1 * slope;
        v = k.beta2 * v + k.rest2 * slope * slope;
        w = keep * w - rate * (m / (sqrtf(v) * k.correction + k.epsilon));
    }
}

struct update_list {
    bo_gpu_vector at[BO_GPU_LIST];
};

template <int RULE> __global__ void update_kernel(rule_numbers k, update_list list, list_blocks blocks)
{
    const bool reads_g = RULE != BO_GPU_RULE_SWAP, has_v = RULE == BO_GPU_RULE_ADAMW,
               reads_w = RULE != BO_GPU_RULE_COPY;
    const int at = vector_of_block(blocks);
    const bo_gpu_vector &u = list.at[at];
    const bool has_m = RULE >= BO_GPU_RULE_SWAP && u.m;
    const size_t first = (size_t)(blockIdx.x - blocks.first[at]) * TILE + (size_t)threadIdx.x * EACH;
    if (first + EACH <= u.count) {
        pack<float, EACH> g = {}, m = {}, v = {}, w = {};
        if (reads_g) g = *reinterpret_cast<const pack<float, EACH> *>(u.g + first);
        if (has_m) m = *reinterpret_cast<const pack<float, EACH> *>(u.m + first);
        if (has_v) v = *reinterpret_cast<const pack<float, EACH> *>(u.v + first);
        if (reads_w) w = *reinterpret_cast<const pack<float, EACH> *>(u.w + first);
        for (int i = 0; i < EACH; i++)
            update_number<RULE>(k, u.rate, u.keep, has_m, g.at[i], m.at[i], v.at[i], w.at[i]);
        if (has_m) *reinterpret_cast<pack<float, EACH> *>(u.m + first) = m;
        if (has_v) *reinterpret_cast<pack<float, EACH> *>(u.v + first) = v;
        *reinterpret_cast<pack<float, EACH> *>(u.w + first) = w;
        return;
    }
    for (size_t i = first; i < u.count; i++) {
        float none = 0;
        update_number<RULE>(k, u.rate, u.keep, has_m, reads_g ? u.g[i] : 0, has_m ? u.m[i] : none,
                            has_v ? u.v[i] : none, u.w[i]);
    }
}

bo_gpu_error update(bo_gpu *cuda, const bo_gpu_update *a)
{
    static void (*const kernels[])(rule_numbers, update_list, list_blocks) = {
        update_kernel<BO_GPU_RULE_COPY>, update_kernel<BO_GPU_RULE_APPROACH>, update_kernel<BO_GPU_RULE_SWAP>,
        update_kernel<BO_GPU_RULE_SGD>,  update_kernel<BO_GPU_RULE_SIGN>,     update_kernel<BO_GPU_RULE_ADAMW>,
    };
    const rule_numbers k = {a->scale, a->momentum, a->rest,  a->nesterov,   a->beta1,
                            a->rest1, a->beta2,    a->rest2, a->correction, a->epsilon};
    update_list list = {};
    list_blocks blocks = {};
    for (size_t i = 0; i < BO_GPU_LIST; i++) {
        if (i < a->count) list.at[i] = a->list[i];
        blocks.first[i + 1] = blocks.first[i] + (unsigned)ceil_div(list.at[i].count, TILE);
    }
    return launch(cuda, dim3(blocks.first[BO_GPU_LIST]), dim3(THREADS), 0, kernels[a->rule], k, list, blocks);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

struct sum_list {
    const float *x[BO_GPU_LIST];
    size_t length[BO_GPU_LIST];
};

/* Block: one piece of a vector. */
template <bool SIZES> __global__ void sum_pieces_kernel(sum_list list, list_blocks blocks, double *partial)
{
    __shared__ double smem[WARP];
    const int at = vector_of_block(blocks);
    const float *x = list.x[at];
    const size_t length = list.length[at], first = (size_t)(blockIdx.x - blocks.first[at]) * BO_GPU_SUM_VECTOR,
                 end = first + BO_GPU_SUM_VECTOR < length ? first + BO_GPU_SUM_VECTOR : length;
    double sum = 0;
    for (size_t i = first + (size_t)threadIdx.x * EACH; i < end; i += TILE) {
        float values[EACH] = {};
        if (i + EACH <= end) {
            const pack<float, EACH> in = *reinterpret_cast<const pack<float, EACH> *>(x + i);
            for (int j = 0; j < EACH; j++) values[j] = in.at[j];
        } else {
            for (int j = 0; j < EACH; j++) values[j] = i + j < end ? x[i + j] : 0.0f;
        }
        for (int j = 0; j < EACH; j++) sum += SIZES ? fabs((double)values[j]) : (double)values[j] * (double)values[j];
    }
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/* Block: one vector. */
__global__ void sum_partials_kernel(list_blocks blocks, const double *partial, double *out)
{
    __shared__ double smem[WARP];
    double sum = 0;
    for (size_t i = blocks.first[blockIdx.x] + threadIdx.x; i < blocks.first[blockIdx.x + 1]; i += blockDim.x)
        sum += partial[i];
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

bo_gpu_error sum_vectors(bo_gpu *cuda, const bo_gpu_sum_vectors *a)
{
    sum_list list = {};
    list_blocks blocks = {};
    size_t max_pieces = 0;
    for (size_t i = 0; i < BO_GPU_LIST; i++) {
        if (i < a->count) list.x[i] = a->x[i], list.length[i] = a->length[i];
        const size_t pieces = bo_gpu_sum_pieces(list.length[i]);
        blocks.first[i + 1] = blocks.first[i] + (unsigned)pieces;
        if (pieces > max_pieces) max_pieces = pieces;
    }
    if (bo_gpu_error error =
            launch(cuda, dim3(blocks.first[BO_GPU_LIST]), dim3(THREADS), 0,
                   a->sizes ? sum_pieces_kernel<true> : sum_pieces_kernel<false>, list, blocks, a->partial))
        return error;
    return launch(cuda, dim3((unsigned)a->count), dim3(max_pieces <= 256 ? 1u * WARP : 1u * THREADS), 0,
                  sum_partials_kernel, blocks, (const double *)a->partial, a->out);
}

} // namespace bo
