/* The functions of the plugin that are not kernels, with memory of the host: the counterpart of
 * src/device/cuda/runtime.cu and gemm.cu. */
#include "emulator.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "device/cuda/launches.cuh"

typedef std::vector<std::function<void()>> recording_list;

/* ---- the current device ------------------------------------------------------------------------------------------ */

/* As with CUDA, each thread has a stack of contexts, here the addresses of these bytes. The caller uses the stack
 * through functions of the driver API. */
static char primary[bo::MAX_DEVICES];
static thread_local std::vector<void *> contexts;

namespace bo {

current_device::current_device(const bo_gpu *gpu)
{
    contexts.push_back(primary + gpu->device);
}

current_device::~current_device()
{
    contexts.pop_back();
}

bool device_is_current(int device)
{
    return !contexts.empty() && contexts.back() == primary + device;
}

} // namespace bo

#define DRIVER extern "C" __attribute__((visibility("default"))) int
DRIVER cuCtxGetCurrent(void **out)
{
    *out = contexts.empty() ? nullptr : contexts.back();
    return 0;
}

DRIVER cuCtxSetCurrent(void *context)
{
    if (!contexts.empty()) contexts.pop_back();
    if (context) contexts.push_back(context);
    return 0;
}

DRIVER cuDevicePrimaryCtxRetain(void **out, int device)
{
    const bool exists = device >= 0 && device < bo::MAX_DEVICES;
    *out = exists ? primary + device : nullptr;
    return exists ? 0 : 101; /* CUDA_ERROR_INVALID_DEVICE */
}
#undef DRIVER

/* ---- devices, memory, streams, recordings ------------------------------------------------------------------------ */

/* Tests with several GPUs set BOCHNER_EMULATED_GPUS. */
static int devices(void)
{
    const char *number = getenv("BOCHNER_EMULATED_GPUS");
    return number && *number ? atoi(number) : 1;
}

static bo_gpu_error properties(int device, bo_gpu_properties *out)
{
    if (device >= devices()) return "there is no such emulated device";
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "emulated GPU (for tests)");
    out->major = 9, out->processors = 4;
    out->bytes = out->free_bytes = (size_t)4 << 30;
    out->shared_bytes = 227 * 1024;
    out->emulated = true;
    return nullptr;
}

static bo_gpu_error open_device(int device, bo_gpu **out)
{
    if (device >= devices() || device >= bo::MAX_DEVICES) return "there is no such emulated device";
    *out = new bo_gpu();
    (*out)->device = device;
    return nullptr;
}

/* All memory must have been released. */
static void close_device(bo_gpu *gpu)
{
    if (bo::device_used(gpu->device)) abort();
    delete gpu;
}

static int locate(bo_gpu *, const void *address)
{
    return bo::device_locate(address);
}

static bo_gpu_error allocate(bo_gpu *gpu, size_t bytes, void **out)
{
    *out = bo::device_allocate(gpu->device, bytes);
    return *out ? nullptr : "memory of the device: out of memory";
}

static void release(bo_gpu *gpu, void *memory)
{
    bo::device_release(gpu->device, memory);
}

static bo_gpu_error submit(bo_gpu *gpu, const std::function<void()> &work)
{
    gpu->foreign += gpu->stream != nullptr;
    if (gpu->recording) {
        gpu->recorded->push_back(work);
    } else {
        bo::device_access access(gpu->device);
        work();
    }
    return nullptr;
}

static bo_gpu_error write(bo_gpu *gpu, void *to, const void *host, size_t bytes)
{
    if (gpu->recording) return "a copy from the host in a recording";
    bo::device_access access(gpu->device);
    memcpy(to, host, bytes);
    return nullptr;
}

static bo_gpu_error fill(bo_gpu *gpu, void *to, int byte, size_t bytes)
{
    return submit(gpu, [=] { memset(to, byte, bytes); });
}

static bo_gpu_error copy(bo_gpu *gpu, void *to, const void *from, size_t bytes)
{
    return submit(gpu, [=] { memcpy(to, from, bytes); });
}

static bo_gpu_error fence(bo_gpu *gpu, void **out)
{
    *out = nullptr;
    if (gpu->recording) return "a wait in a recording";
    *out = new int(gpu->device);
    return nullptr;
}

static bo_gpu_error wait_for(bo_gpu *gpu, void *fence)
{
    const bool same_device = *(int *)fence == gpu->device;
    delete (int *)fence;
    return same_device ? nullptr : "a fence of another device";
}

static bo_gpu_error read(bo_gpu *gpu, void *fence, void *host, const void *from, size_t bytes)
{
    if (bo_gpu_error error = wait_for(gpu, fence)) return error;
    const char *wait = getenv("BOCHNER_EMULATED_READ_MS"); /* a test hook for concurrent work */
    if (wait && *wait) usleep((useconds_t)atoi(wait) * 1000);
    bo::device_access access(gpu->device);
    memcpy(host, from, bytes);
    return nullptr;
}

/* A stream of a caller is the address of a counter of the work that is submitted to it. */
static bo_gpu_error use_stream(bo_gpu *gpu, void *stream)
{
    if (gpu->stream) *(size_t *)gpu->stream += gpu->foreign;
    gpu->stream = stream;
    gpu->foreign = 0;
    return nullptr;
}

static bo_gpu_error record_begin(bo_gpu *gpu)
{
    if (gpu->recording) return "a recording in a recording";
    gpu->recording = true;
    gpu->recorded = new recording_list();
    return nullptr;
}

static bo_gpu_error record_end(bo_gpu *gpu, void **recording)
{
    *recording = gpu->recorded;
    gpu->recording = false;
    gpu->recorded = nullptr;
    return nullptr;
}

static bo_gpu_error replay(bo_gpu *gpu, void *recording)
{
    bo::device_access access(gpu->device);
    for (const std::function<void()> &work : *(recording_list *)recording) work();
    return nullptr;
}

static void forget(bo_gpu *, void *recording)
{
    delete (recording_list *)recording;
}

static bo_gpu_error mark(bo_gpu *gpu, int index)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    gpu->marks[index] = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    return nullptr;
}

static bo_gpu_error elapsed(bo_gpu *gpu, int from, int to, double *seconds)
{
    *seconds = gpu->marks[to] - gpu->marks[from];
    return nullptr;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static double number(const void *at, bo_element type, size_t i)
{
    switch (type) {
    case BO_ELEMENT_BFLOAT16:
        return __bfloat162float(((const __nv_bfloat16 *)at)[i]);
    case BO_ELEMENT_FLOAT64:
        return ((const double *)at)[i];
    case BO_ELEMENT_INT8:
        return ((const int8_t *)at)[i];
    case BO_ELEMENT_INT32:
        return ((const int32_t *)at)[i];
    default:
        return ((const float *)at)[i];
    }
}

static void store(void *at, bo_element type, size_t i, double value)
{
    if (type == BO_ELEMENT_BFLOAT16)
        ((__nv_bfloat16 *)at)[i] = __float2bfloat16((float)value);
    else if (type == BO_ELEMENT_FLOAT64)
        ((double *)at)[i] = value;
    else if (type == BO_ELEMENT_INT32)
        ((int32_t *)at)[i] = (int32_t)value;
    else
        ((float *)at)[i] = (float)value;
}

static void product(const bo_gpu_gemm *g, size_t batch)
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

bo_gpu_error rank_id(bo_gpu *, unsigned char[BO_RANK_ID])
{
    return no_ranks;
}

bo_gpu_error join(bo_gpu *, const unsigned char[BO_RANK_ID], int, int)
{
    return no_ranks;
}

bo_gpu_error sum(bo_gpu *, float *, size_t)
{
    return no_ranks;
}

bo_gpu_error gemm(bo_gpu *cuda, const bo_gpu_gemm *a)
{
    bo_gpu_gemm g = *a;
    if ((g.factors == BO_ELEMENT_FLOAT64) != (g.result == BO_ELEMENT_FLOAT64) ||
        (g.factors == BO_ELEMENT_INT8) != (g.result == BO_ELEMENT_INT32))
        return "a product: these types cannot be combined";
    if (g.factors == BO_ELEMENT_INT8 && (g.ta || !g.tb || g.bias || (g.m | g.n | g.k | g.lda | g.ldb | g.ldd) % 16))
        return "a product of integers: sizes, strides or options are not supported";
    return submit(cuda, [=] {
        for (size_t b = 0; b < (g.batch ? g.batch : 1); b++) product(&g, b);
    });
}

} // namespace bo

#include "device/cuda/table.cuh"
