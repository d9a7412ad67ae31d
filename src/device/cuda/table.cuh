/* The table of the plugin: every function of an open device sets it as the current device and restores the previous
 * one. Included once, after the functions, by runtime.cu and by the emulator. */
#ifndef BO_CUDA_TABLE_CUH
#define BO_CUDA_TABLE_CUH

#include "launches.cuh"

template <typename TYPE, TYPE FUNCTION> struct on_device;
template <typename R, typename... P, R (*FUNCTION)(bo_gpu *, P...)> struct on_device<R (*)(bo_gpu *, P...), FUNCTION> {
    static R call(bo_gpu *gpu, P... arguments)
    {
        bo::current_device current(gpu);
        return FUNCTION(gpu, arguments...);
    }
};

extern "C" __attribute__((visibility("default"))) const bo_gpu_functions *bo_cuda_plugin(void)
{
#define ON_DEVICE(member, function) on_device<decltype(bo_gpu_functions::member), function>::call
    /* Opening starts and closing ends without a device, so they set the current device explicitly. */
    static const bo_gpu_functions functions = {sizeof(bo_gpu_functions),
                                               BO_VERSION_STRING,
                                               devices,
                                               properties,
                                               open_device,
                                               close_device,
                                               ON_DEVICE(locate, locate),
                                               ON_DEVICE(allocate, allocate),
                                               ON_DEVICE(release, release),
                                               ON_DEVICE(write, write),
                                               ON_DEVICE(fill, fill),
                                               ON_DEVICE(copy, copy),
                                               ON_DEVICE(fence, fence),
                                               ON_DEVICE(read, read),
                                               ON_DEVICE(wait_for, wait_for),
                                               ON_DEVICE(use_stream, use_stream),
                                               ON_DEVICE(record_begin, record_begin),
                                               ON_DEVICE(record_end, record_end),
                                               ON_DEVICE(replay, replay),
                                               ON_DEVICE(forget, forget),
                                               ON_DEVICE(mark, mark),
                                               ON_DEVICE(elapsed, elapsed),
                                               ON_DEVICE(rank_id, bo::rank_id),
                                               ON_DEVICE(join, bo::join),
                                               ON_DEVICE(sum, bo::sum),
#define BO_GPU_POINTER(name, arguments) ON_DEVICE(name, bo::name),
                                               BO_GPU_LAUNCHES(BO_GPU_POINTER)
#undef BO_GPU_POINTER
    };
#undef ON_DEVICE
    return &functions;
}

#endif
