/* Devices, memory, recordings. */
#include "runtime.cuh"
#include <stdio.h>
#include <string.h>

namespace bo {

bo_cuda_error describe(bo_cuda *cuda, const char *what, cudaError_t status)
{
    if (status == cudaSuccess) return nullptr;
    cudaGetLastError(); /* otherwise the next launch would report it again */
    static thread_local char without[256];
    char *text = cuda ? cuda->error : without;
    snprintf(text, cuda ? sizeof cuda->error : sizeof without, "%s: %s", what, cudaGetErrorString(status));
    return text;
}

bo_cuda_error use_device(bo_cuda *cuda)
{
    static thread_local int current = -1;
    if (current == cuda->device) return nullptr;
    const cudaError_t status = cudaSetDevice(cuda->device);
    if (status == cudaSuccess) current = cuda->device;
    return describe(cuda, "the device", status);
}

} // namespace bo

using bo::describe;

#define TRY(what, call)                                                                                                \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) return describe(cuda, what, status_);                                              \
    } while (0)

static int devices(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static bo_cuda_error properties(int device, bo_cuda_properties *out)
{
    bo_cuda *cuda = nullptr;
    cudaDeviceProp found;
    TRY("properties of the device", cudaGetDeviceProperties(&found, device));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", found.name);
    out->major = found.major, out->minor = found.minor, out->processors = found.multiProcessorCount;
    out->shared_bytes = found.sharedMemPerBlockOptin;
    int before = 0;
    cudaGetDevice(&before);
    TRY("the device", cudaSetDevice(device));
    cudaError_t status = cudaMemGetInfo(&out->free_bytes, &out->bytes);
    cudaSetDevice(before);
    return describe(nullptr, "free memory of the device", status);
}

enum { WORKSPACE = 64 << 20 };

static bo_cuda_error begin(bo_cuda *cuda)
{
    TRY("the device", cudaSetDevice(cuda->device));
    TRY("a stream", cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking));
    for (cudaEvent_t &mark : cuda->marks) TRY("an event", cudaEventCreate(&mark));
    cuda->workspace_bytes = WORKSPACE;
    TRY("the workspace of cuBLASLt", cudaMalloc(&cuda->workspace, cuda->workspace_bytes));
    if (cublasLtCreate(&cuda->lt) != CUBLAS_STATUS_SUCCESS) return "cuBLASLt cannot be started";
    return bo::plans_create(cuda);
}

static void close_device(bo_cuda *cuda)
{
    if (!cuda) return;
    if (cuda->stream) cudaStreamSynchronize(cuda->stream);
    bo::ranks_leave(cuda);
    bo::plans_destroy(cuda);
    if (cuda->lt) cublasLtDestroy(cuda->lt);
    cudaFree(cuda->workspace);
    for (cudaEvent_t mark : cuda->marks)
        if (mark) cudaEventDestroy(mark);
    if (cuda->stream) cudaStreamDestroy(cuda->stream);
    delete cuda;
}

static bo_cuda_error open_device(int device, bo_cuda **out)
{
    static char text[512];
    *out = new bo_cuda();
    (*out)->device = device;
    bo_cuda_error error = begin(*out);
    if (!error) return nullptr;
    snprintf(text, sizeof text, "%s", error);
    close_device(*out);
    *out = nullptr;
    return text;
}

static bo_cuda_error select(bo_cuda *cuda)
{
    return bo::use_device(cuda);
}

static bo_cuda_error allocate(bo_cuda *cuda, size_t bytes, void **out)
{
    if (bo_cuda_error error = select(cuda)) return error;
    *out = nullptr;
    cudaError_t status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) cudaGetLastError(); /* not an error of later calls */
    return describe(cuda, "memory of the device", status);
}

static void release(bo_cuda *cuda, void *memory)
{
    cudaStreamSynchronize(cuda->stream);
    cudaFree(memory);
}

static bo_cuda_error write(bo_cuda *cuda, void *to, const void *host, size_t bytes)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("a copy to the device", cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, cuda->stream));
    return nullptr;
}

static bo_cuda_error wait(bo_cuda *cuda)
{
    TRY("a kernel", cudaStreamSynchronize(cuda->stream));
    return nullptr;
}

static bo_cuda_error read(bo_cuda *cuda, void *host, const void *from, size_t bytes)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("a copy from the device", cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, cuda->stream));
    return wait(cuda);
}

static bo_cuda_error fill(bo_cuda *cuda, void *to, int byte, size_t bytes)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("memory of the device", cudaMemsetAsync(to, byte, bytes, cuda->stream));
    return nullptr;
}

static bo_cuda_error copy(bo_cuda *cuda, void *to, const void *from, size_t bytes)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("a copy on the device", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda->stream));
    return nullptr;
}

static bo_cuda_error record_begin(bo_cuda *cuda)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("a recording", cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal));
    return nullptr;
}

static bo_cuda_error record_end(bo_cuda *cuda, void **recording)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    *recording = nullptr;
    TRY("a recording", cudaStreamEndCapture(cuda->stream, &graph));
    cudaError_t status = cudaGraphInstantiate(&run, graph, 0);
    cudaGraphDestroy(graph);
    if (status == cudaSuccess) *recording = run;
    return describe(cuda, "a recording", status);
}

static bo_cuda_error replay(bo_cuda *cuda, void *recording)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("a recorded run", cudaGraphLaunch((cudaGraphExec_t)recording, cuda->stream));
    return nullptr;
}

static void forget(bo_cuda *cuda, void *recording)
{
    cudaStreamSynchronize(cuda->stream);
    cudaGraphExecDestroy((cudaGraphExec_t)recording);
}

static bo_cuda_error mark(bo_cuda *cuda, int index)
{
    if (bo_cuda_error error = select(cuda)) return error;
    TRY("an event", cudaEventRecord(cuda->marks[index], cuda->stream));
    return nullptr;
}

static bo_cuda_error elapsed(bo_cuda *cuda, int from, int to, double *seconds)
{
    float milliseconds = 0;
    TRY("an event", cudaEventSynchronize(cuda->marks[to]));
    TRY("an event", cudaEventElapsedTime(&milliseconds, cuda->marks[from], cuda->marks[to]));
    *seconds = milliseconds * 1e-3;
    return nullptr;
}

#include "launches.cuh"

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
