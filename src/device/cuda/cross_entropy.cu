/* Losses of softmax distributions over many classes, one block per row of logits.
 *
 * softmax_loss reads a row once and writes it once: 4 bytes of memory traffic and two exponentials per logit in
 * bfloat16. The row stays in shared memory for the maximum, the sum of exponentials and the gradients. A multiprocessor
 * has capacity for the blocks of two rows, so one row is read while the other is computed. Rows that do not fit and
 * float32 rows are read twice (maximum and sum in one pass), the second time from the L2 cache. With a teacher, both
 * rows are read three times. Sums are float32 for logits in bfloat16, and float64 for logits in float32 and with a
 * teacher, since the divergence is a difference of sums. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { MANY = 512 }; /* maximum number of threads of a block */

/* Threads of a block that sums `count` elements: 1, 4 or 16 warps. */
static unsigned threads_for(size_t count)
{
    return (unsigned)(count <= 512 ? (int)WARP : count <= 8192 ? 4 * WARP : (int)MANY);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The exponential. For logits in bfloat16, the hardware exponential is accurate enough. */
template <typename T> __device__ inline float exponential(float x)
{
    return expf(x);
}
template <> __device__ inline float exponential<bf16>(float x)
{
    return __expf(x);
}

template <typename T> struct vector_of {
    enum { EACH = 16 / sizeof(T) };
    float at[EACH];

    /* Elements first … of a row; -INFINITY after `columns`. */
    __device__ vector_of(const T *row, size_t first, size_t columns)
    {
        const pack<T, EACH> in = *reinterpret_cast<const pack<T, EACH> *>(row + first);
        for (int i = 0; i < EACH; i++) at[i] = first + i < columns ? to_float(in.at[i]) : -INFINITY;
    }
};

/* The maximum x, and the sum of exp(x - top). Invariant: sum is 0 while top is -INFINITY. */
template <typename S> struct soft_sum {
    float top;
    S sum;
};

template <typename T, typename S> __device__ inline void soft_add(soft_sum<S> &s, const vector_of<T> &v)
{
    float top = s.top;
    for (int i = 0; i < vector_of<T>::EACH; i++) top = fmaxf(top, v.at[i]);
    if (top == -INFINITY) return;
    if (top > s.top) s.sum *= exponential<T>(s.top - top), s.top = top;
    for (int i = 0; i < vector_of<T>::EACH; i++) s.sum += exponential<T>(v.at[i] - top);
}

template <typename T, typename S> __device__ inline soft_sum<S> soft_combine(const soft_sum<S> &s, float *tops, S *sums)
{
    const float top = block_max(s.top, tops);
    const S partial = s.top == -INFINITY ? (S)0 : s.sum * (S)exponential<T>(s.top - top);
    return {top, block_total(partial, sums)};
}

/* The weight of a row in the loss. */
__device__ inline double row_factor(const bo_gpu_softmax_loss &a, size_t row)
{
    double factor = a.dmean ? (double)*a.dmean / (double)*a.counted : 0;
    return a.dlosses ? factor + (double)a.dlosses[row] : factor;
}

/* Handles rows without a target, and targets beyond the classes. */
template <typename T> __device__ inline bool row_is_counted(const bo_gpu_softmax_loss &a, size_t row, T *logits)
{
    const int32_t target = a.targets[row];
    if (target >= 0 && (size_t)target < a.columns) return true;
    if (threadIdx.x == 0) a.losses[row] = target < 0 ? 0.0f : NAN;
    for (size_t i = threadIdx.x; a.gradients && i < a.ld; i += blockDim.x) logits[i] = from_float<T>(0);
    return false;
}

/* Σ_j t_j l_j from the logit of the target and, with smoothing, the sum of all logits. */
__device__ inline double expected_logit(const bo_gpu_softmax_loss &a, double chosen, double total)
{
    return (1 - a.smoothing) * chosen + (a.smoothing > 0 ? a.smoothing * total / (double)a.columns : 0);
}

/* Loss: log Σ exp(l_j - top) + top - Σ_j t_j l_j. */
template <typename T, typename S> __global__ void __launch_bounds__(MANY, 3) softmax_loss_kernel(bo_gpu_softmax_loss a)
{
    enum { EACH = vector_of<T>::EACH };
    __shared__ float tops[WARP];
    __shared__ S sums[WARP];
    const size_t row = blockIdx.x, step = (size_t)blockDim.x * EACH;
    T *logits = static_cast<T *>(a.logits) + row * a.ld;
    if (!row_is_counted(a, row, logits)) return;
    const int32_t target = a.targets[row];
    const float chosen = to_float(logits[target]);
    soft_sum<S> partial = {-INFINITY, 0};
    S total = 0;
    for (size_t i = threadIdx.x * EACH; i < a.columns; i += step) {
        const vector_of<T> v(logits, i, a.columns);
        soft_add<T, S>(partial, v);
        for (int j = 0; a.smoothing > 0 && j < EACH; j++) total += i + j < a.columns ? v.at[j] : 0.0f;
    }
    const soft_sum<S> all = soft_combine<T, S>(partial, tops, sums);
    if (a.smoothing > 0) total = block_total(total, sums);
    if (threadIdx.x == 0) {
        const double expected = expected_logit(a, (double)chosen, (double)total);
        a.losses[row] = (float)(log((double)all.sum) + ((double)all.top - expected));
    }
    if (!a.gradients) return;
    const double factor = row_factor(a, row);
    const float each = (float)(factor / (double)all.sum), target_share = (float)((1 - a.smoothing) * factor),
                rest = (float)(a.smoothing / (double)a.columns * factor);
    for (size_t i = threadIdx.x * EACH; i < a.ld; i += step) {
        const vector_of<T> v(logits, i, a.columns);
        pack<T, EACH> out;
        for (int j = 0; j < EACH; j++) {
            float g = each * exponential<T>(v.at[j] - all.top);
            if (i + j == (size_t)target) g -= target_share;
            out.at[j] = from_float<T>(i + j < a.columns ? g - rest : 0.0f);
        }
        *reinterpret_cast<pack<T, EACH> *>(logits + i) = out;
    }
}

/* A variant that keeps a bfloat16 row in shared memory. A thread reads only elements that it copied, except for the
 * logit of the target. */
enum { SHARED_ROW_BYTES = 110 * 1024 }; /* of a row; a multiprocessor has capacity for two rows */

__global__ void __launch_bounds__(MANY, 2) shared_row_softmax_loss_kernel(bo_gpu_softmax_loss a)
{
    BO_SHARED(shared);
    __shared__ float tops[WARP], sums[WARP];
    const size_t row = blockIdx.x, octets = a.ld / 8, whole = a.columns / 8, used = ceil_div(a.columns, (size_t)8);
    bf16 *logits = static_cast<bf16 *>(a.logits) + row * a.ld;
    uint4 *row_octets = reinterpret_cast<uint4 *>(shared); /* octets of elements */
    for (size_t o = threadIdx.x; o < used; o += blockDim.x) copy_async(row_octets + o, logits + o * 8);
    copy_commit();
    const bool counted = row_is_counted(a, row, logits);
    const double factor = a.gradients ? row_factor(a, row) : 0;
    copy_wait<0>();
    if (!counted) return;
    const size_t target = (size_t)a.targets[row];
    if (whole < used && threadIdx.x == whole % blockDim.x) /* elements after the last column are ignored */
        for (size_t i = a.columns; i < used * 8; i++) reinterpret_cast<bf16 *>(shared)[i] = from_float<bf16>(-INFINITY);

    float x[8], top = -INFINITY, sum[2] = {}, total = 0;
    for (size_t o = threadIdx.x; o < used; o += blockDim.x) {
        widen_bf16(row_octets[o], x);
#pragma unroll
        for (int i = 0; i < 8; i++) top = fmaxf(top, x[i]);
    }
    top = block_max(top, tops);
    const float shift = -top * LOG2_E;
    for (size_t o = threadIdx.x; o < used; o += blockDim.x) {
        widen_bf16(row_octets[o], x);
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i % 2] += exp2_fast(fmaf(x[i], LOG2_E, shift));
        for (int i = 0; a.smoothing > 0 && i < 8; i++) total += o * 8 + (size_t)i < a.columns ? x[i] : 0.0f;
    }
    const float all = block_sum(sum[0] + sum[1], sums);
    if (a.smoothing > 0) total = block_sum(total, sums);
    if (threadIdx.x == 0) {
        const double chosen = (double)to_float(reinterpret_cast<const bf16 *>(shared)[target]);
        a.losses[row] = (float)(log((double)all) + ((double)top - expected_logit(a, chosen, (double)total)));
    }
    if (!a.gradients) return;
    const float each = (float)(factor / (double)all), target_share = (float)((1 - a.smoothing) * factor),
                rest = (float)(a.smoothing / (double)a.columns * factor);
    for (size_t o = threadIdx.x; o < octets; o += blockDim.x) {
        pack<bf16, 8> out;
        widen_bf16(row_octets[o], x);
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = fmaf(each, exp2_fast(fmaf(x[i], LOG2_E, shift)), -rest);
        if (o == target / 8 || o >= whole)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                if (o * 8 + (size_t)i == target) x[i] -= target_share;
                if (o * 8 + (size_t)i >= a.columns) x[i] = 0;
            }
#pragma unroll
        for (int i = 0; i < 8; i++) out.at[i] = from_float<bf16>(x[i]);
        *reinterpret_cast<pack<bf16, 8> *>(logits + o * 8) = out;
    }
}

/* With a teacher: KL(p' | p) = Σ_j p'_j (t_j - l_j) - log Σ exp(t_j) + log Σ exp(l_j), with the maxima subtracted from
 * t and l first. A class of probability 0 counts as 0, even if both logits are -INFINITY. */
template <typename T> __global__ void __launch_bounds__(MANY, 2) taught_loss_kernel(bo_gpu_softmax_loss a)
{
    enum { EACH = vector_of<T>::EACH };
    __shared__ float tops[WARP];
    __shared__ double sums[WARP];
    const size_t row = blockIdx.x, step = (size_t)blockDim.x * EACH;
    T *logits = static_cast<T *>(a.logits) + row * a.ld;
    const T *teacher = static_cast<const T *>(a.teacher) + row * a.ld;
    if (!row_is_counted(a, row, logits)) return;
    const int32_t target = a.targets[row];
    const float chosen = to_float(logits[target]);
    soft_sum<double> partial = {-INFINITY, 0}, his = {-INFINITY, 0};
    for (size_t i = threadIdx.x * EACH; i < a.columns; i += step) {
        soft_add<T, double>(partial, vector_of<T>(logits, i, a.columns));
        soft_add<T, double>(his, vector_of<T>(teacher, i, a.columns));
    }
    const soft_sum<double> p = soft_combine<T, double>(partial, tops, sums),
                           q = soft_combine<T, double>(his, tops, sums);
    double along = 0;
    for (size_t i = threadIdx.x * EACH; i < a.columns; i += step) {
        const vector_of<T> l(logits, i, a.columns), t(teacher, i, a.columns);
        for (int j = 0; j < EACH; j++) {
            const float e = exponential<T>(t.at[j] - q.top);
            if (e > 0) along += (double)e * (double)((t.at[j] - q.top) - (l.at[j] - p.top));
        }
    }
    along = block_total(along, sums);
    if (threadIdx.x == 0) {
        const double entropy = log(p.sum) + ((double)p.top - (double)chosen);
        double divergence = along / q.sum - log(q.sum / p.sum);
        if (divergence < 0) divergence = 0; /* rounding */
        /* the weight 0 excludes a target of probability 0 */
        a.losses[row] = (float)((a.alpha < 1 ? (1 - a.alpha) * entropy : 0) + a.alpha * divergence);
    }
    if (!a.gradients) return;
    const double factor = row_factor(a, row);
    const float each = (float)(factor / p.sum), taught = (float)(a.alpha * factor / q.sum),
                target_share = (float)((1 - a.alpha) * factor);
    for (size_t i = threadIdx.x * EACH; i < a.ld; i += step) {
        const vector_of<T> l(logits, i, a.columns), t(teacher, i, a.columns);
        pack<T, EACH> out;
        for (int j = 0; j < EACH; j++) {
            float g = each * exponential<T>(l.at[j] - p.top) - taught * exponential<T>(t.at[j] - q.top);
            if (i + j == (size_t)target) g -= target_share;
            out.at[j] = from_float<T>(i + j < a.columns ? g : 0.0f);
        }
        *reinterpret_cast<pack<T, EACH> *>(logits + i) = out;
    }
}

bo_gpu_error softmax_loss(bo_gpu *cuda, const bo_gpu_softmax_loss *a)
{
    const dim3 grid((unsigned)a->rows), block(threads_for(a->columns));
    const bool floats = a->type == BO_ELEMENT_FLOAT32;
    if (a->teacher)
        return launch(cuda, grid, block, 0, floats ? taught_loss_kernel<float> : taught_loss_kernel<bf16>, *a);
    if (!floats && a->ld * sizeof(bf16) <= SHARED_ROW_BYTES)
        return launch(cuda, grid, block, a->ld * sizeof(bf16), shared_row_softmax_loss_kernel, *a);
    return launch(cuda, grid, block, 0, floats ? softmax_loss_kernel<float, double> : softmax_loss_kernel<bf16, float>,
                  *a);
}

/* ---- all rows ---------------------------------------------------------------------------------------------------- */

__global__ void count_targets_kernel(size_t rows, const int32_t *targets, float *counted)
{
    __shared__ double smem[WARP];
    double partial = 0;
    for (size_t i = threadIdx.x; i < rows; i += blockDim.x) partial += targets[i] >= 0;
    const double all = block_total(partial, smem);
    if (threadIdx.x == 0) *counted = (float)all;
}

bo_gpu_error count_targets(bo_gpu *cuda, const bo_gpu_count_targets *a)
{
    return launch(cuda, dim3(1), dim3(threads_for(a->rows)), 0, count_targets_kernel, a->rows, a->targets, a->counted);
}

__global__ void mean_loss_kernel(size_t rows, const float *losses, const float *counted, float *mean)
{
    __shared__ double smem[WARP];
    double partial = 0;
    for (size_t i = threadIdx.x; i < rows; i += blockDim.x) partial += (double)losses[i];
    const double all = block_total(partial, smem);
    if (threadIdx.x == 0) *mean = *counted > 0 ? (float)(all / (double)*counted) : 0.0f;
}

bo_gpu_error mean_loss(bo_gpu *cuda, const bo_gpu_mean_loss *a)
{
    return launch(cuda, dim3(1), dim3(threads_for(a->rows)), 0, mean_loss_kernel, a->rows, a->losses, a->counted,
                  a->mean);
}

} // namespace bo
