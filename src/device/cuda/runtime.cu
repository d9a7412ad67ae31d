/* Devices, memory, recordings. */
#include "runtime.cuh"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <mutex>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

namespace bo {

bo_gpu_error complain(const char *format, ...)
{
    static thread_local char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

bo_gpu_error describe(const char *what, cudaError_t status)
{
    if (status == cudaSuccess) return nullptr;
    cudaGetLastError(); /* else the next launch would report it again */
    return complain("%s: %s", what, cudaGetErrorString(status));
}

} // namespace bo

using bo::current_device;
using bo::describe;

#define TRY(what, call)                                                                                                \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) return describe(what, status_);                                                    \
    } while (0)

/* ---- the driver -------------------------------------------------------------------------------------------------- */

/* Functions of the driver, which the runtime finds, so that the plugin needs no library of the driver. */
static struct driver_functions {
    CUresult (*push)(CUcontext);
    CUresult (*pop)(CUcontext *);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*release)(CUdevice);
    bool complete;
} driver;
static std::once_flag driver_found;

static bool find_function(const char *name, void *function)
{
    cudaDriverEntryPointQueryResult found;
    return cudaGetDriverEntryPointByVersion(name, (void **)function, 12000, cudaEnableDefault, &found) == cudaSuccess &&
           found == cudaDriverEntryPointSuccess;
}

static const driver_functions &functions_of_driver()
{
    std::call_once(driver_found, [] {
        driver.complete = find_function("cuCtxPushCurrent", &driver.push) &&
                          find_function("cuCtxPopCurrent", &driver.pop) &&
                          find_function("cuDevicePrimaryCtxRetain", &driver.retain) &&
                          find_function("cuDevicePrimaryCtxRelease", &driver.release);
    });
    return driver;
}

namespace bo {

current_device::current_device(CUcontext context)
{
    pushed = context && functions_of_driver().push(context) == CUDA_SUCCESS;
}

current_device::~current_device()
{
    CUcontext popped;
    if (pushed) driver.pop(&popped);
}

} // namespace bo

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static int devices(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static bo_gpu_error retain(int device, CUcontext *out)
{
    *out = nullptr;
    if (!functions_of_driver().complete) return "the CUDA driver is older than CUDA 12";
    /* the runtime and the driver use the same device indices */
    const CUresult status = driver.retain(out, device);
    return status == CUDA_SUCCESS ? nullptr : bo::complain("CUDA driver: error %d", (int)status);
}

static bo_gpu_error properties(int device, bo_gpu_properties *out)
{
    cudaDeviceProp found;
    CUcontext context;
    TRY("properties of the device", cudaGetDeviceProperties(&found, device));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", found.name);
    out->major = found.major, out->minor = found.minor, out->processors = found.multiProcessorCount;
    out->shared_bytes = found.sharedMemPerBlockOptin;
    if (bo_gpu_error error = retain(device, &context)) return error;
    cudaError_t status;
    {
        current_device current(context);
        status = cudaMemGetInfo(&out->free_bytes, &out->bytes);
    }
    driver.release(device);
    return describe("free memory of the device", status);
}

enum { WORKSPACE = 64 << 20 };

static bo_gpu_error begin(bo_gpu *gpu)
{
    if (bo_gpu_error error = retain(gpu->device, &gpu->context)) return error;
    current_device current(gpu);
    TRY("a stream", cudaStreamCreateWithFlags(&gpu->default_stream, cudaStreamNonBlocking));
    TRY("a stream", cudaStreamCreateWithFlags(&gpu->copies, cudaStreamNonBlocking));
    gpu->stream = gpu->default_stream;
    for (cudaEvent_t &mark : gpu->marks) TRY("an event", cudaEventCreate(&mark));
    gpu->workspace_bytes = WORKSPACE;
    TRY("the workspace of cuBLASLt", cudaMalloc(&gpu->workspace, gpu->workspace_bytes));
    if (cublasLtCreate(&gpu->lt) != CUBLAS_STATUS_SUCCESS) return "cuBLASLt cannot be started";
    return bo::plans_create(gpu);
}

static void end(bo_gpu *gpu)
{
    current_device current(gpu);
    if (gpu->default_stream) cudaStreamSynchronize(gpu->default_stream);
    bo::ranks_leave(gpu);
    bo::plans_destroy(gpu);
    if (gpu->lt) cublasLtDestroy(gpu->lt);
    cudaFree(gpu->workspace);
    for (cudaEvent_t mark : gpu->marks)
        if (mark) cudaEventDestroy(mark);
    for (cudaStream_t stream : {gpu->default_stream, gpu->copies})
        if (stream) cudaStreamDestroy(stream);
}

static void close_device(bo_gpu *gpu)
{
    if (!gpu) return;
    if (gpu->context) {
        end(gpu);
        driver.release(gpu->device);
    }
    delete gpu;
}

static bo_gpu_error open_device(int device, bo_gpu **out)
{
    *out = new bo_gpu();
    (*out)->device = device;
    bo_gpu_error error = begin(*out);
    if (!error) return nullptr;
    close_device(*out); /* keeps the text */
    *out = nullptr;
    return error;
}

static int locate(bo_gpu *gpu, const void *address)
{
    cudaPointerAttributes found; /* of the current device; without one, the runtime would use the first */
    if (cudaPointerGetAttributes(&found, address) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? found.device : -1;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_gpu_error allocate(bo_gpu *gpu, size_t bytes, void **out)
{
    *out = nullptr;
    cudaError_t status = cudaMalloc(out, bytes ? bytes : 1);
    return describe("memory of the device", status);
}

static void release(bo_gpu *gpu, void *memory)
{
    cudaStreamSynchronize(gpu->default_stream);
    cudaFree(memory);
}

static bo_gpu_error write(bo_gpu *gpu, void *to, const void *host, size_t bytes)
{
    TRY("a copy to the device", cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, gpu->stream));
    return nullptr;
}

static bo_gpu_error fill(bo_gpu *gpu, void *to, int byte, size_t bytes)
{
    TRY("memory of the device", cudaMemsetAsync(to, byte, bytes, gpu->stream));
    return nullptr;
}

static bo_gpu_error copy(bo_gpu *gpu, void *to, const void *from, size_t bytes)
{
    TRY("a copy on the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu->stream));
    return nullptr;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static bo_gpu_error fence(bo_gpu *gpu, void **out)
{
    cudaEvent_t event = nullptr;
    *out = nullptr;
    TRY("an event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaError_t status = cudaEventRecord(event, gpu->stream);
    if (status == cudaSuccess)
        *out = event;
    else
        cudaEventDestroy(event);
    return describe("an event", status);
}

static cudaError_t wait_and_destroy(void *fence)
{
    cudaError_t status = cudaEventSynchronize((cudaEvent_t)fence);
    cudaEventDestroy((cudaEvent_t)fence);
    return status;
}

static bo_gpu_error wait_for(bo_gpu *gpu, void *fence)
{
    TRY("a kernel", wait_and_destroy(fence));
    return nullptr;
}

static bo_gpu_error read(bo_gpu *gpu, void *fence, void *host, const void *from, size_t bytes)
{
    TRY("a kernel", wait_and_destroy(fence));
    TRY("a copy from the device", cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, gpu->copies));
    TRY("a copy from the device", cudaStreamSynchronize(gpu->copies));
    return nullptr;
}

static bo_gpu_error use_stream(bo_gpu *gpu, void *stream)
{
    gpu->stream = stream ? (cudaStream_t)stream : gpu->default_stream;
    return nullptr;
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static bo_gpu_error record_begin(bo_gpu *gpu)
{
    TRY("a recording", cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal));
    return nullptr;
}

static bo_gpu_error record_end(bo_gpu *gpu, void **recording)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    *recording = nullptr;
    TRY("a recording", cudaStreamEndCapture(gpu->stream, &graph));
    cudaError_t status = cudaGraphInstantiate(&run, graph, 0);
    cudaGraphDestroy(graph);
    if (status == cudaSuccess) *recording = run;
    return describe("a recording", status);
}

static bo_gpu_error replay(bo_gpu *gpu, void *recording)
{
    TRY("a recorded run", cudaGraphLaunch((cudaGraphExec_t)recording, gpu->stream));
    return nullptr;
}

static void forget(bo_gpu *gpu, void *recording)
{
    cudaStreamSynchronize(gpu->default_stream);
    cudaGraphExecDestroy((cudaGraphExec_t)recording);
}

static bo_gpu_error mark(bo_gpu *gpu, int index)
{
    TRY("an event", cudaEventRecord(gpu->marks[index], gpu->stream));
    return nullptr;
}

static bo_gpu_error elapsed(bo_gpu *gpu, int from, int to, double *seconds)
{
    float milliseconds = 0;
    TRY("an event", cudaEventSynchronize(gpu->marks[to]));
    TRY("an event", cudaEventElapsedTime(&milliseconds, gpu->marks[from], gpu->marks[to]));
    *seconds = milliseconds * 1e-3;
    return nullptr;
}

#include "table.cuh"
