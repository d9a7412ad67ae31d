/* Recurrent layers. A block runs one sequence from token to token, with its state in shared memory; every step reads U
 * (from the second-level cache) once: a warp multiplies a row of it with h. Per token 2 gates size² operations forward
 * and backward; the gradient of U is a product of matrices after it (recurrent.c). Formulas: backend/cpu/cells.c. */
#include "activations.cuh"
#include "arrays.cuh"
#include "launches.cuh"
#include "sequences.cuh"

namespace bo {

enum { RECURRENT_THREADS = 512 };

/* Saved values per token, divided by the size. */
__device__ inline size_t kept_numbers(bo_recurrence cell)
{
    return cell == BO_RECURRENCE_GRU ? 4 : cell == BO_RECURRENCE_LSTM ? 5 : 0;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* product = U h: a warp per row. */
__device__ inline void multiply_state(const bo_gpu_recurrent &a, const float *h, float *product)
{
    const size_t warps = blockDim.x / WARP, lane = threadIdx.x % WARP;
    for (size_t j = threadIdx.x / WARP; j < a.gates * a.size; j += warps) {
        float sum = 0;
        for (size_t i = lane; i < a.size; i += WARP) sum += read_one(a.weight, j * a.size + i) * h[i];
        sum = warp_sum(sum);
        if (lane == 0) product[j] = sum;
    }
}

/* Element j of the new state from U h, in `product`. `x`, `b`: gate g at g size + j. */
__device__ inline void step_cell(const bo_gpu_recurrent &a, size_t row, size_t j, const float *product, float *h,
                                 float *c)
{
    const size_t n = a.size;
    float z[4] = {}, keep[5] = {};
    for (size_t g = 0; g < a.gates; g++) {
        const float x = read_one(a.x, (row * a.gates + g) * n + j), b = read_one(a.bias, g * n + j);
        z[g] = a.cell == BO_RECURRENCE_GRU && g == 2 ? x : product[g * n + j] + (x + b);
    }
    if (a.cell == BO_RECURRENCE_RNN) {
        h[j] = tanhf(z[0]);
    } else if (a.cell == BO_RECURRENCE_GRU) {
        keep[0] = sigmoid<false>(z[0]), keep[1] = sigmoid<false>(z[1]);
        keep[3] = product[2 * n + j] + read_one(a.bias, 2 * n + j);
        keep[2] = tanhf(z[2] + keep[0] * keep[3]);
        h[j] = keep[2] + keep[1] * (h[j] - keep[2]);
    } else {
        keep[0] = sigmoid<false>(z[0]), keep[1] = sigmoid<false>(z[1]), keep[2] = tanhf(z[2]);
        keep[3] = sigmoid<false>(z[3]);
        keep[4] = c[j] = keep[1] * c[j] + keep[0] * keep[2];
        h[j] = keep[3] * tanhf(c[j]);
    }
    write_one(a.y, row * n + j, h[j]);
    const size_t kept = kept_numbers(a.cell);
#pragma unroll
    for (size_t k = 0; k < 5; k++)
        if (a.kept && k < kept) a.kept[(row * kept + k) * n + j] = keep[k];
}

__global__ void recurrent_kernel(bo_gpu_recurrent a)
{
    BO_SHARED(shared);
    float *h = (float *)shared, *c = h + a.size, *product = c + a.size;
    const sequence_span s = sequence_number(a.sequences, (int)blockIdx.x);
    float *state = a.states ? (float *)((char *)a.states[s.index] + a.offset) : nullptr;
    const bool second = a.cell == BO_RECURRENCE_LSTM;
    for (size_t j = threadIdx.x; j < a.size; j += blockDim.x) {
        h[j] = state ? state[j] : 0.0f;
        c[j] = state && second ? state[a.size + j] : 0.0f;
    }
    for (size_t row = s.first; row < s.end; row++) {
        __syncthreads();
        multiply_state(a, h, product);
        __syncthreads();
        for (size_t j = threadIdx.x; j < a.size; j += blockDim.x) step_cell(a, row, j, product, h, c);
    }
    for (size_t j = threadIdx.x; a.update && j < a.size; j += blockDim.x) {
        state[j] = h[j];
        if (second) state[a.size + j] = c[j];
    }
}

bo_gpu_error recurrent(bo_gpu *cuda, const bo_gpu_recurrent *a)
{
    return launch(cuda, dim3((unsigned)a->sequences.sequences), dim3(RECURRENT_THREADS),
                  (2 + a->gates) * a->size * sizeof(float), recurrent_kernel, *a);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* The gradients of element j of a token: of U h + b to dproduct[g size + j], of x to dx. `back`: gradient of h through
 * U from the next token; carry: the other gradients from the next token, replaced by those for the previous token. */
__device__ inline void back_cell(const bo_gpu_recurrent_back &a, size_t row, bool first, size_t j, const float *back,
                                 float *carry, float *dproduct)
{
    const size_t n = a.size, kept = kept_numbers(a.cell);
    const float h = read_one(a.y, row * n + j), before = first ? 0.0f : read_one(a.y, (row - 1) * n + j),
                dh = read_one(a.dy, row * n + j) + back[j];
    float k[5] = {}, d[4] = {}, dx[4] = {};
#pragma unroll
    for (size_t i = 0; i < 5; i++)
        if (i < kept) k[i] = a.kept[(row * kept + i) * n + j];
    if (a.cell == BO_RECURRENCE_RNN) {
        dx[0] = d[0] = dh * (1 - h * h);
    } else if (a.cell == BO_RECURRENCE_GRU) {
        const float all = dh + carry[j], dn = all * (1 - k[1]) * (1 - k[2] * k[2]);
        carry[j] = all * k[1];
        dx[0] = d[0] = dn * k[3] * k[0] * (1 - k[0]);
        dx[1] = d[1] = all * (before - k[2]) * k[1] * (1 - k[1]);
        dx[2] = dn, d[2] = dn * k[0];
    } else {
        const float top = tanhf(k[4]), dc = carry[j] + dh * k[3] * (1 - top * top),
                    c_before = first ? 0.0f : a.kept[((row - 1) * kept + 4) * n + j];
        dx[0] = d[0] = dc * k[2] * k[0] * (1 - k[0]);
        dx[1] = d[1] = dc * c_before * k[1] * (1 - k[1]);
        dx[2] = d[2] = dc * k[0] * (1 - k[2] * k[2]);
        dx[3] = d[3] = dh * top * k[3] * (1 - k[3]);
        carry[j] = dc * k[1];
    }
#pragma unroll
    for (size_t g = 0; g < 4; g++) {
        if (g >= a.gates) continue;
        dproduct[g * n + j] = d[g];
        if (a.dproduct) a.dproduct[(row * a.gates + g) * n + j] = d[g];
        if (a.dx.at) write_one(a.dx, (row * a.gates + g) * n + j, dx[g]);
    }
    if (a.before) a.before[row * n + j] = before;
}

__global__ void recurrent_back_kernel(bo_gpu_recurrent_back a)
{
    BO_SHARED(shared);
    float *back = (float *)shared, *carry = back + a.size, *dproduct = carry + a.size;
    const sequence_span s = sequence_number(a.sequences, (int)blockIdx.x);
    for (size_t j = threadIdx.x; j < a.size; j += blockDim.x) back[j] = carry[j] = 0;
    for (size_t row = s.end; row-- > s.first;) {
        __syncthreads();
        for (size_t j = threadIdx.x; j < a.size; j += blockDim.x)
            back_cell(a, row, row == s.first, j, back, carry, dproduct);
        __syncthreads();
        for (size_t j = threadIdx.x; j < a.size; j += blockDim.x) {
            float sum = 0;
            for (size_t k = 0; k < a.gates * a.size; k++) sum += read_one(a.weight, k * a.size + j) * dproduct[k];
            back[j] = sum;
        }
    }
}

bo_gpu_error recurrent_back(bo_gpu *cuda, const bo_gpu_recurrent_back *a)
{
    enum { AHEAD = 4 }; /* floats after dproduct, which the compiled loop over k may load and discard */
    return launch(cuda, dim3((unsigned)a->sequences.sequences), dim3(RECURRENT_THREADS),
                  ((2 + a->gates) * a->size + AHEAD) * sizeof(float), recurrent_back_kernel, *a);
}

} // namespace bo
