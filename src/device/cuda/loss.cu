/* Mean losses of a prediction p against a target t (LOSS). Elementwise losses are memory-bound: 4 bytes per element
 * forward, 8 backward with one gradient. KL reads the rows three times, from caches if they fit. Sums are in double:
 * per thread, then per block, then over the blocks in order. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum { LOSS_THREADS = 256 };

/* ---- losses per element ------------------------------------------------------------------------------------------ */

/* BCE is log(1 + exp(p)) - p t = max(p, 0) - p t + log(1 + exp(-|p|)). */
__device__ inline double element_loss(bo_loss_kind kind, float p, float t)
{
    const float rest = p - t;
    switch (kind) {
    case BO_LOSS_KIND_L1:
        return (double)fabsf(rest);
    case BO_LOSS_KIND_BCE:
        return (double)log1pf(expf(-fabsf(p))) + (0.5 * ((double)p + fabs((double)p)) - (double)p * (double)t);
    default:
        return (double)rest * (double)rest;
    }
}

__global__ void loss_elements_kernel(bo_gpu_loss a)
{
    __shared__ double smem[WARP];
    const size_t step = (size_t)gridDim.x * blockDim.x * OCTET;
    double sum = 0, size = 0;
    for (size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * OCTET; first < a.items; first += step) {
        const bool whole = first + OCTET <= a.items;
        const int valid = whole ? OCTET : (int)(a.items - first);
        float p[OCTET], t[OCTET];
        read_octet(a.p, first, valid, whole, p);
        read_octet(a.t, first, valid, whole, t);
        for (int i = 0; i < valid; i++) {
            sum += element_loss(a.kind, p[i], t[i]);
            if (a.kind == BO_LOSS_KIND_RELATIVE) size += (double)t[i] * (double)t[i];
        }
    }
    sum = block_total(sum, smem);
    size = block_total(size, smem);
    if (threadIdx.x) return;
    a.partial[blockIdx.x] = sum;
    a.partial[BO_GPU_LOSS_BLOCKS + blockIdx.x] = size;
}

/* dL/dp, except for a factor. */
__device__ inline float element_slope(bo_loss_kind kind, float p, float t)
{
    switch (kind) {
    case BO_LOSS_KIND_L1:
        return (float)((p > t) - (p < t));
    case BO_LOSS_KIND_BCE:
        return 1.0f / (1.0f + expf(-p)) - t;
    default:
        return 2 * (p - t);
    }
}

/* dL/dt of RELATIVE, for sums e = Σ (p - t)² and s = Σ t², is 2 (t - p) / s - 2 t e / s². In double, because both terms
 * nearly cancel for a small p. */
struct loss_gradients_map {
    bo_loss_kind kind;
    size_t items;
    const float *dloss;
    const double *totals;
    __device__ void operator()(const float (&x)[2][OCTET], float (&d)[2][OCTET], size_t) const
    {
        const double divisor = totals ? totals[1] : (double)items;
        const double factor = divisor == 0 ? 0 : (double)*dloss / divisor;
        const float scale = (float)factor;
        for (int i = 0; i < OCTET; i++) {
            const float p = x[0][i], t = x[1][i], dp = divisor == 0 ? 0 : element_slope(kind, p, t);
            d[0][i] = scale * dp;
            d[1][i] = -scale * (kind == BO_LOSS_KIND_BCE ? p : dp);
            if (totals && divisor != 0)
                d[1][i] = (float)(2 * factor * ((double)t - (double)p - (double)t * (totals[0] / divisor)));
        }
    }
};

/* ---- divergence per row ------------------------------------------------------------------------------------------ */

/* KL(softmax(t) | softmax(p)) of a row = Σ q (log q - log s), q = softmax(t), s = softmax(p). In double, since a small
 * divergence is small compared with its terms. Tokens with q = 0 count 0, even if log s is infinite. */
struct row_divergence {
    double p_total, t_total, value; /* log Σ exp of p and of t */
};

__device__ inline double weigh(double q, double difference)
{
    return q == 0 ? 0 : q * difference;
}

__device__ inline double log_total(const bo_gpu_source &x, size_t first, size_t columns, double *smem, float *tops)
{
    float top = -INFINITY;
    double sum = 0;
    for (size_t j = threadIdx.x; j < columns; j += blockDim.x) top = fmaxf(top, read_one(x, first + j));
    top = block_max(top, tops);
    for (size_t j = threadIdx.x; j < columns; j += blockDim.x) sum += exp((double)read_one(x, first + j) - (double)top);
    return (double)top + log(block_total(sum, smem));
}

__device__ inline row_divergence divergence_of(const bo_gpu_source &p, const bo_gpu_source &t, size_t first,
                                               size_t columns, double *smem, float *tops)
{
    row_divergence d = {log_total(p, first, columns, smem, tops), log_total(t, first, columns, smem, tops), 0};
    double sum = 0;
    for (size_t j = threadIdx.x; j < columns; j += blockDim.x) {
        const double log_q = (double)read_one(t, first + j) - d.t_total,
                     log_s = (double)read_one(p, first + j) - d.p_total;
        sum += weigh(exp(log_q), log_q - log_s);
    }
    d.value = block_total(sum, smem);
    return d;
}

__global__ void loss_rows_kernel(bo_gpu_loss a)
{
    __shared__ double smem[WARP];
    __shared__ float tops[WARP];
    double sum = 0;
    for (size_t r = blockIdx.x; r < a.items; r += gridDim.x)
        sum += divergence_of(a.p, a.t, r * a.columns, a.columns, smem, tops).value;
    if (threadIdx.x == 0) a.partial[blockIdx.x] = sum;
}

/* dp = s - q, dt = q (log q - log s - KL). */
__global__ void loss_rows_back_kernel(bo_gpu_loss_back a)
{
    __shared__ double smem[WARP];
    __shared__ float tops[WARP];
    const double scale = (double)*a.dloss / (double)a.items;
    const size_t first = (size_t)blockIdx.x * a.columns;
    const row_divergence d = divergence_of(a.p, a.t, first, a.columns, smem, tops);
    for (size_t j = threadIdx.x; j < a.columns; j += blockDim.x) {
        const double log_q = (double)read_one(a.t, first + j) - d.t_total,
                     log_s = (double)read_one(a.p, first + j) - d.p_total, q = exp(log_q);
        if (a.dp.at) write_one(a.dp, first + j, (float)(scale * (exp(log_s) - q)));
        if (a.dt.at) write_one(a.dt, first + j, (float)(scale * weigh(q, log_q - log_s - d.value)));
    }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

__global__ void loss_total_kernel(bo_gpu_loss a, size_t blocks)
{
    __shared__ double smem[WARP];
    double sum = 0, size = 0;
    for (size_t b = threadIdx.x; b < blocks; b += blockDim.x) {
        sum += a.partial[b];
        if (a.kind == BO_LOSS_KIND_RELATIVE) size += a.partial[BO_GPU_LOSS_BLOCKS + b];
    }
    sum = block_total(sum, smem);
    size = block_total(size, smem);
    const double divisor = a.kind == BO_LOSS_KIND_RELATIVE ? size : (double)a.items;
    if (threadIdx.x) return;
    *a.loss = (float)(divisor == 0 ? 0 : sum / divisor);
    if (a.totals) a.totals[0] = sum, a.totals[1] = divisor;
}

bo_gpu_error loss(bo_gpu *cuda, const bo_gpu_loss *a)
{
    const bool rows = a->kind == BO_LOSS_KIND_KL;
    const size_t needed = rows ? a->items : ceil_div(a->items, LOSS_THREADS * OCTET),
                 blocks = needed < BO_GPU_LOSS_BLOCKS ? needed : (size_t)BO_GPU_LOSS_BLOCKS;
    if (bo_gpu_error error = launch(cuda, dim3((unsigned)blocks), dim3(LOSS_THREADS), 0,
                                    rows ? loss_rows_kernel : loss_elements_kernel, *a))
        return error;
    return launch(cuda, dim3(1), dim3(LOSS_THREADS), 0, loss_total_kernel, *a, blocks);
}

bo_gpu_error loss_back(bo_gpu *cuda, const bo_gpu_loss_back *a)
{
    if (a->kind == BO_LOSS_KIND_KL)
        return launch(cuda, dim3((unsigned)a->items), dim3(LOSS_THREADS), 0, loss_rows_back_kernel, *a);
    return map_numbers(cuda, a->items, sources<2>{{a->p, a->t}}, targets<2>{{a->dp, a->dt}},
                       loss_gradients_map{a->kind, a->items, a->dloss, a->totals});
}

} // namespace bo
