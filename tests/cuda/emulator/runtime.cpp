/* The functions of the plugin that are not kernels, with memory of the host: the counterpart of device/runtime.cu and
 * device/gemm.cu. */
#include "emulator.h"
#include <stdio.h>
#include <time.h>
#include "backend/cuda/plugin.h"
#include "backend/cuda/device/launches.cuh"

typedef std::vector<std::function<void()>> recording_list;

static int devices(void)
{
    return 1;
}

static bo_cuda_error properties(int device, bo_cuda_properties *out)
{
    if (device != 0) return "there is one emulated device";
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "emulated GPU (for tests)");
    out->major = 9, out->processors = 4;
    out->bytes = out->free_bytes = (size_t)4 << 30;
    out->shared_bytes = 227 * 1024;
    out->emulated = true;
    return nullptr;
}

static bo_cuda_error open_device(int device, bo_cuda **out)
{
    if (device != 0) return "there is one emulated device";
    *out = new bo_cuda();
    return nullptr;
}

static void close_device(bo_cuda *cuda)
{
    delete cuda;
}

static bo_cuda_error allocate(bo_cuda *cuda, size_t bytes, void **out)
{
    (void)cuda;
    *out = bo::device_allocate(bytes);
    return *out ? nullptr : "memory of the device: out of memory";
}

static void release(bo_cuda *cuda, void *memory)
{
    (void)cuda;
    bo::device_release(memory);
}

static bo_cuda_error submit(bo_cuda *cuda, const std::function<void()> &work)
{
    if (cuda->recording) {
        cuda->recorded->push_back(work);
    } else {
        bo::device_access access;
        work();
    }
    return nullptr;
}

static bo_cuda_error write(bo_cuda *cuda, void *to, const void *host, size_t bytes)
{
    if (cuda->recording) return "a copy from the host in a recording";
    bo::device_access access;
    memcpy(to, host, bytes);
    return nullptr;
}

static bo_cuda_error read(bo_cuda *cuda, void *host, const void *from, size_t bytes)
{
    if (cuda->recording) return "a copy to the host in a recording";
    bo::device_access access;
    memcpy(host, from, bytes);
    return nullptr;
}

static bo_cuda_error fill(bo_cuda *cuda, void *to, int byte, size_t bytes)
{
    return submit(cuda, [=] { memset(to, byte, bytes); });
}

static bo_cuda_error copy(bo_cuda *cuda, void *to, const void *from, size_t bytes)
{
    return submit(cuda, [=] { memcpy(to, from, bytes); });
}

static bo_cuda_error wait(bo_cuda *cuda)
{
    return cuda->recording ? "a wait in a recording" : nullptr;
}

static bo_cuda_error record_begin(bo_cuda *cuda)
{
    if (cuda->recording) return "a recording in a recording";
    cuda->recording = true;
    cuda->recorded = new recording_list();
    return nullptr;
}

static bo_cuda_error record_end(bo_cuda *cuda, void **recording)
{
    *recording = cuda->recorded;
    cuda->recording = false;
    cuda->recorded = nullptr;
    return nullptr;
}

static bo_cuda_error replay(bo_cuda *cuda, void *recording)
{
    (void)cuda;
    bo::device_access access;
    for (const std::function<void()> &work : *(recording_list *)recording) work();
    return nullptr;
}

static void forget(bo_cuda *cuda, void *recording)
{
    (void)cuda;
    delete (recording_list *)recording;
}

static double marks[4];

static bo_cuda_error mark(bo_cuda *cuda, int index)
{
    (void)cuda;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    marks[index] = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    return nullptr;
}

static bo_cuda_error elapsed(bo_cuda *cuda, int from, int to, double *seconds)
{
    (void)cuda;
    *seconds = marks[to] - marks[from];
    return nullptr;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static double number(const void *at, bo_cuda_type type, size_t i)
{
    switch (type) {
    case BO_CUDA_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)at)[i]);
    case BO_CUDA_F64:
        return ((const double *)at)[i];
    case BO_CUDA_I8:
        return ((const int8_t *)at)[i];
    case BO_CUDA_I32:
        return ((const int32_t *)at)[i];
    default:
        return ((const float *)at)[i];
    }
}

static void store(void *at, bo_cuda_type type, size_t i, double value)
{
    if (type == BO_CUDA_BF16)
        ((__nv_bfloat16 *)at)[i] = __float2bfloat16((float)value);
    else if (type == BO_CUDA_F64)
        ((double *)at)[i] = value;
    else if (type == BO_CUDA_I32)
        ((int32_t *)at)[i] = (int32_t)value;
    else
        ((float *)at)[i] = (float)value;
}

static void product(const bo_cuda_gemm *g, size_t batch)
{
    const void *c = g->c ? g->c : g->d;
    const size_t ldc = g->c ? g->ldc : g->ldd, stride_c = g->c ? g->stride_c : g->stride_d;
    std::vector<double> row(g->n), b(g->k * g->n); /* b: op(B) */
    for (size_t p = 0; p < g->k; p++)
        for (size_t j = 0; j < g->n; j++)
            b[p * g->n + j] = number(g->b, g->factors, batch * g->stride_b + (g->tb ? j * g->ldb + p : p * g->ldb + j));
    for (size_t i = 0; i < g->m; i++) {
        for (double &x : row) x = 0;
        for (size_t p = 0; p < g->k; p++) {
            const double a = number(g->a, g->factors, batch * g->stride_a + (g->ta ? p * g->lda + i : i * g->lda + p));
            const double *line = b.data() + p * g->n;
            for (size_t j = 0; j < g->n; j++) row[j] += a * line[j];
        }
        for (size_t j = 0; j < g->n; j++) {
            double sum = (double)g->alpha * row[j];
            if (g->beta != 0) sum += (double)g->beta * number(c, g->result, batch * stride_c + i * ldc + j);
            if (g->bias) sum += number(g->bias, g->result, j);
            store(g->d, g->result, batch * g->stride_d + i * g->ldd + j, sum);
        }
    }
}

namespace bo {

static const char *const no_ranks = "NCCL is not emulated";

bo_cuda_error rank_id(bo_cuda *, unsigned char[BO_CUDA_RANK_ID])
{
    return no_ranks;
}

bo_cuda_error join(bo_cuda *, const unsigned char[BO_CUDA_RANK_ID], int, int)
{
    return no_ranks;
}

bo_cuda_error sum(bo_cuda *, float *, size_t)
{
    return no_ranks;
}

bo_cuda_error gemm(bo_cuda *cuda, const bo_cuda_gemm *a)
{
    bo_cuda_gemm g = *a;
    if ((g.factors == BO_CUDA_F64) != (g.result == BO_CUDA_F64) || (g.factors == BO_CUDA_I8) != (g.result == BO_CUDA_I32))
        return "a product: these types cannot be combined";
    if (g.factors == BO_CUDA_I8 && (g.ta || !g.tb || g.bias || (g.m | g.n | g.k | g.lda | g.ldb | g.ldd) % 16))
        return "a product of integers: sizes, strides or options are not supported";
    return submit(cuda, [=] {
        for (size_t b = 0; b < (g.batch ? g.batch : 1); b++) product(&g, b);
    });
}

} // namespace bo

extern "C" __attribute__((visibility("default"))) const bo_cuda_functions *bo_cuda_plugin(void)
{
    static const bo_cuda_functions functions = {
        sizeof(bo_cuda_functions), BO_VERSION_STRING, devices, properties, open_device, close_device, allocate, release, write, read,
        fill,                      copy,         wait,       record_begin, record_end,  replay,   forget,  mark,  elapsed,
        bo::rank_id,               bo::join,     bo::sum,
#define BO_CUDA_POINTER(name, arguments) bo::name,
        BO_CUDA_LAUNCHES(BO_CUDA_POINTER)
#undef BO_CUDA_POINTER
    };
    return &functions;
}
