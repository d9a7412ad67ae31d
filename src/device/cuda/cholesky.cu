/* Cholesky factorization: the blocks on the diagonal. The rest are products of matrices (cholesky.c). */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { N = BO_GPU_CHOLESKY, STRIDE = N + 1, THREADS = 256, PACK_THREADS = 256, MAX_ROWS = 32768 };

/* UᵀU = A in shared memory, one row of U at a time (Golub and Van Loan, 4.2.6). Returns n, or the index of the first
 * nonpositive pivot, which stays in place. */
__device__ inline int factorize(int n, double (*a)[STRIDE])
{
    for (int p = 0; p < n; p++) {
        const double pivot = a[p][p];
        if (!(pivot > 0 && pivot < HUGE_VAL)) return p;
        __syncthreads();
        const double root = sqrt(pivot), inverse = 1 / root;
        for (int j = p + (int)threadIdx.x; j < n; j += THREADS) a[p][j] = j == p ? root : a[p][j] * inverse;
        __syncthreads();
        const int rest = n - p - 1;
        for (int k = (int)threadIdx.x; k < rest * rest; k += THREADS) {
            const int i = p + 1 + k / rest, j = p + 1 + k % rest;
            if (j >= i) a[i][j] -= a[p][i] * a[p][j];
        }
        __syncthreads();
    }
    return n;
}

/* Column j of the inverse V of U by substitution: V[i][j] = -(Σ_{i < k <= j} U[i][k] V[k][j]) / U[i][i]. A thread
 * computes a column. */
__device__ inline void invert(int n, const double (*u)[STRIDE], double (*v)[STRIDE])
{
    const int j = (int)threadIdx.x;
    if (j >= n) return;
    for (int i = n - 1; i > j; i--) v[i][j] = 0;
    v[j][j] = 1 / u[j][j];
    for (int i = j - 1; i >= 0; i--) {
        double sum = 0;
        for (int k = i + 1; k <= j; k++) sum += u[i][k] * v[k][j];
        v[i][j] = -sum / u[i][i];
    }
}

/* One block of threads; 66 KB of shared memory. About n (3 barriers) + n²/2 dependent operations: 0.1 ms. */
__global__ void cholesky_block_kernel(bo_gpu_cholesky_block a)
{
    BO_SHARED(memory);
    double (*u)[STRIDE] = (double (*)[STRIDE])memory, (*v)[STRIDE] = u + N;
    const int n = (int)a.n;
    if (a.pivot->place != 0) return;
    for (int k = (int)threadIdx.x; k < n * n; k += THREADS) {
        const int i = k / n, j = k % n;
        u[i][j] = j >= i ? a.a[(size_t)i * a.lda + (size_t)j] : 0;
    }
    __syncthreads();
    const int done = factorize(n, u);
    if (done < n) {
        if (threadIdx.x == 0) {
            a.pivot->value = u[done][done];
            a.pivot->place = (int64_t)a.first + done + 1;
        }
        return;
    }
    invert(n, u, v);
    __syncthreads();
    for (int k = (int)threadIdx.x; k < n * n; k += THREADS) {
        const int i = k / n, j = k % n;
        a.u[(size_t)i * a.ldu + (size_t)j] = u[i][j];
        a.inverse[i * N + j] = v[i][j];
    }
}

bo_gpu_error cholesky_block(bo_gpu *cuda, const bo_gpu_cholesky_block *a)
{
    return launch(cuda, dim3(1), dim3(THREADS), 2 * N * STRIDE * sizeof(double), cholesky_block_kernel, *a);
}

/* ---- the packed factor ------------------------------------------------------------------------------------------- */

/* Reads columns of U: rows of L. Reads 8 bytes and writes 4 bytes per element. */
__global__ void factor_pack_kernel(bo_gpu_factor_pack a)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.n) return;
    for (size_t j = blockIdx.y; j <= i; j += gridDim.y) a.packed[i * (i + 1) / 2 + j] = (float)a.u[j * a.ldu + i];
}

bo_gpu_error factor_pack(bo_gpu *cuda, const bo_gpu_factor_pack *a)
{
    const dim3 grid((unsigned)ceil_div(a->n, PACK_THREADS), (unsigned)min(a->n, (size_t)MAX_ROWS));
    return launch(cuda, grid, dim3(PACK_THREADS), 0, factor_pack_kernel, *a);
}

} // namespace bo
