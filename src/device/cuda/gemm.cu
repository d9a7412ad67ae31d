/* GEMM by cuBLASLt. Its heuristic chooses the algorithm of each shape once, so equal shapes have bitwise equal results.
 * cuBLASLt expects column-major matrices, so it computes Dᵀ = op(B)ᵀ op(A)ᵀ. */
#include <string.h>
#include <stdio.h>
#include <map>
#include <string>
#include "launches.cuh"
#include "runtime.cuh"

/* An algorithm and the descriptors that it was chosen for. */
struct plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulAlgo_t algorithm;
};

struct bo_gpu_plans {
    std::map<std::string, plan> chosen;
};

namespace bo {

bo_gpu_error plans_create(bo_gpu *cuda)
{
    cuda->plans = new bo_gpu_plans();
    return nullptr;
}

/* The workspace is for one stream; products on a stream of the caller have no workspace. */
static size_t workspace_of(const bo_gpu *cuda)
{
    return cuda->stream == cuda->default_stream ? cuda->workspace_bytes : 0;
}

static void plan_destroy(plan *p)
{
    if (p->product) cublasLtMatmulDescDestroy(p->product);
    for (cublasLtMatrixLayout_t layout : {p->a, p->b, p->c, p->d})
        if (layout) cublasLtMatrixLayoutDestroy(layout);
}

void plans_destroy(bo_gpu *cuda)
{
    if (!cuda->plans) return;
    for (auto &each : cuda->plans->chosen) plan_destroy(&each.second);
    delete cuda->plans;
}

/* Alignment of an address, at most 256: a requirement of algorithms. */
static unsigned alignment(const void *address)
{
    uintptr_t bits = (uintptr_t)address | 256;
    return (unsigned)(bits & -bits);
}

static bool layout_create(cublasLtMatrixLayout_t *out, cudaDataType_t type, size_t rows, size_t columns, size_t ld,
                          size_t batch, size_t stride)
{
    int count = (int)batch;
    int64_t apart = (int64_t)stride;
    /* row-major rows x columns is column-major columns x rows */
    if (cublasLtMatrixLayoutCreate(out, type, columns, rows, (int64_t)ld) != CUBLAS_STATUS_SUCCESS) return false;
    if (batch <= 1) return true;
    return cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart) ==
               CUBLAS_STATUS_SUCCESS;
}

static cudaDataType_t data_type(bo_element type)
{
    switch (type) {
    case BO_ELEMENT_BFLOAT16:
        return CUDA_R_16BF;
    case BO_ELEMENT_FLOAT64:
        return CUDA_R_64F;
    case BO_ELEMENT_INT8:
        return CUDA_R_8I;
    case BO_ELEMENT_INT32:
        return CUDA_R_32I;
    default:
        return CUDA_R_32F;
    }
}

/* How sums are computed, and the type of alpha and beta. */
static cublasComputeType_t compute_type(const bo_gpu_gemm *g, cudaDataType_t *scale)
{
    *scale = g->factors == BO_ELEMENT_FLOAT64 ? CUDA_R_64F : g->factors == BO_ELEMENT_INT8 ? CUDA_R_32I : CUDA_R_32F;
    if (g->factors == BO_ELEMENT_FLOAT64) return CUBLAS_COMPUTE_64F;
    if (g->factors == BO_ELEMENT_INT8) return CUBLAS_COMPUTE_32I;
    return g->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* A factor in the type returned by compute_type(). */
union scalar {
    float f32;
    double f64;
    int32_t i32;
};

static scalar scalar_of(bo_element factors, float value)
{
    scalar out;
    if (factors == BO_ELEMENT_FLOAT64)
        out.f64 = (double)value;
    else if (factors == BO_ELEMENT_INT8)
        out.i32 = (int32_t)value;
    else
        out.f32 = value;
    return out;
}

static bo_gpu_error plan_create(bo_gpu *cuda, const bo_gpu_gemm *g, const void *c, plan *p)
{
    const cudaDataType_t factors = data_type(g->factors), result = data_type(g->result);
    cudaDataType_t scale;
    const cublasComputeType_t compute = compute_type(g, &scale);
    const cublasOperation_t first = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N, second = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (cublasLtMatmulDescCreate(&p->product, compute, scale) != CUBLAS_STATUS_SUCCESS)
        return "cuBLASLt: a product cannot be described";
    cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (g->bias) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &result, sizeof result);
        cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    }
    if (!layout_create(&p->b, factors, g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g->batch, g->stride_b) ||
        !layout_create(&p->a, factors, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, g->batch, g->stride_a) ||
        !layout_create(&p->c, result, g->m, g->n, g->c ? g->ldc : g->ldd, g->batch, g->c ? g->stride_c : g->stride_d) ||
        !layout_create(&p->d, result, g->m, g->n, g->ldd, g->batch, g->stride_d))
        return "cuBLASLt: a matrix cannot be described";
    cublasLtMatmulPreference_t preference;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return "cuBLASLt: no preference";
    const size_t workspace = workspace_of(cuda);
    const uint32_t aligned[4] = {alignment(g->b), alignment(g->a), alignment(c), alignment(g->d)};
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned[0], 4);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned[1], 4);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned[2], 4);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned[3], 4);
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(cuda->lt, p->product, p->b, p->a, p->c, p->d, preference, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) return "cuBLASLt has no algorithm for a product";
    p->algorithm = best.algo;
    return nullptr;
}

bo_gpu_error gemm(bo_gpu *cuda, const bo_gpu_gemm *g)
{
    const void *c = g->c ? g->c : g->d;
    if (g->m == 0 || g->n == 0) return nullptr;
    struct key {
        size_t numbers[12];
        unsigned bits[4];
    } key;
    memset(&key, 0, sizeof key);
    const size_t numbers[] = {g->m,
                              g->n,
                              g->k,
                              g->lda,
                              g->ldb,
                              g->c ? g->ldc : g->ldd,
                              g->ldd,
                              g->batch,
                              g->stride_a,
                              g->stride_b,
                              g->c ? g->stride_c : g->stride_d,
                              g->stride_d};
    memcpy(key.numbers, numbers, sizeof numbers);
    key.bits[0] = alignment(g->a) << 16 | alignment(g->b), key.bits[1] = alignment(c) << 16 | alignment(g->d);
    key.bits[2] = (unsigned)g->ta | (unsigned)g->tb << 1 | (unsigned)!!g->bias << 2 | (unsigned)g->factors << 3 |
                  (unsigned)g->result << 6 | (unsigned)(g->beta != 0) << 9 | (unsigned)(c == g->d) << 10 |
                  (unsigned)g->tf32 << 11 | (unsigned)(workspace_of(cuda) == 0) << 12;
    std::string name((const char *)&key, sizeof key);
    auto at = cuda->plans->chosen.find(name);
    if (at == cuda->plans->chosen.end()) {
        plan made = {};
        if (bo_gpu_error error = plan_create(cuda, g, c, &made)) {
            plan_destroy(&made);
            return complain("%s (%zu x %zu x %zu)", error, g->m, g->n, g->k);
        }
        at = cuda->plans->chosen.emplace(name, made).first;
    }
    plan *p = &at->second;
    if (g->bias)
        cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    const scalar alpha = scalar_of(g->factors, g->alpha), beta = scalar_of(g->factors, g->beta);
    cublasStatus_t status = cublasLtMatmul(cuda->lt, p->product, &alpha, g->b, p->b, g->a, p->a, &beta, c, p->c, g->d,
                                           p->d, &p->algorithm, cuda->workspace, workspace_of(cuda), cuda->stream);
    if (status == CUBLAS_STATUS_SUCCESS) return nullptr;
    return complain("cuBLASLt: product of %zu x %zu x %zu: status %d", g->m, g->n, g->k, (int)status);
}

} // namespace bo
