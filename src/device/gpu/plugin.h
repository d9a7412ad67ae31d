/* The interface between the library and its GPU plugin (libbochner_cuda.so, src/device/cuda), which the library opens
 * on first use of a GPU. Only plain data crosses it: the plugin links no symbol of the library, and the library links
 * no symbol of CUDA.
 *
 * The library describes calls; the plugin launches kernels. Addresses in launch arguments are device addresses. Every
 * function returns NULL on success, else an error text that is valid until the next call of the same thread. Launches
 * are asynchronous, in order, and never allocate. Every call preserves the current CUDA device of the calling thread.
 * One thread at a time calls the functions of a GPU that submit work. */
#ifndef BO_DEVICE_GPU_PLUGIN_H
#define BO_DEVICE_GPU_PLUGIN_H

#include <bochner/base.h>
#include <bochner/kinds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open GPU: its stream and library handles. */
typedef struct bo_gpu bo_gpu;
typedef const char *bo_gpu_error;

enum { BO_RANK_ID = 128 };

typedef struct bo_gpu_properties {
    char name[128];
    int major, minor, processors; /* compute capability, number of multiprocessors */
    size_t bytes, free_bytes;     /* memory */
    size_t shared_bytes;          /* maximum shared memory of a block */
    bool emulated;                /* no GPU: an emulator runs kernels on the CPU, for tests */
} bo_gpu_properties;

/* The settings of a run that kernels read at execution time, so a recording can be replayed with other settings. */
typedef struct bo_gpu_pass {
    uint64_t seed;
    const int32_t *starts;        /* first row of each sequence, then the number of rows; NULL: equal lengths */
    const int32_t *source_starts; /* first rows of the source sequences */
    void *const *states;          /* states[layer * sequences + s]; NULL: absent */
    int32_t sequences;
    int32_t training;
} bo_gpu_pass;

#include "launches.h"

/* Launches: a name and the struct of its arguments (launches.h lists them by file of cuda/). */
typedef struct bo_gpu_functions {
    size_t bytes; /* sizeof(bo_gpu_functions), to detect a plugin of another version before its members are read */
    const char *version;  /* BO_VERSION_STRING: only a plugin of the same version is used */
    int (*devices)(void); /* number of GPUs; 0: no GPU or no driver */
    bo_gpu_error (*properties)(int device, bo_gpu_properties *out);
    bo_gpu_error (*open)(int device, bo_gpu **out);
    void (*close)(bo_gpu *gpu);
    /* The index of the GPU that owns an address; -1: not GPU memory. */
    int (*locate)(bo_gpu *gpu, const void *address);
    /* Device memory. */
    bo_gpu_error (*allocate)(bo_gpu *gpu, size_t bytes, void **out); /* not filled */
    void (*release)(bo_gpu *gpu, void *memory);
    bo_gpu_error (*write)(bo_gpu *gpu, void *to, const void *host, size_t bytes);
    bo_gpu_error (*fill)(bo_gpu *gpu, void *to, int byte, size_t bytes);
    bo_gpu_error (*copy)(bo_gpu *gpu, void *to, const void *from, size_t bytes);
    /* fence: marks the work submitted so far. read: waits for a fence, destroys it, and copies to the host. wait_for:
     * the same without a copy. read and wait_for may be called while another thread submits work. */
    bo_gpu_error (*fence)(bo_gpu *gpu, void **out);
    bo_gpu_error (*read)(bo_gpu *gpu, void *fence, void *host, const void *from, size_t bytes);
    bo_gpu_error (*wait_for)(bo_gpu *gpu, void *fence);
    /* Work is submitted to a stream of the caller (a cudaStream_t); NULL: to the stream of the GPU. */
    bo_gpu_error (*use_stream)(bo_gpu *gpu, void *stream);
    /* Recordings: launches between begin and end are not executed; `replay` executes all of them. */
    bo_gpu_error (*record_begin)(bo_gpu *gpu);
    bo_gpu_error (*record_end)(bo_gpu *gpu, void **recording);
    bo_gpu_error (*replay)(bo_gpu *gpu, void *recording);
    void (*forget)(bo_gpu *gpu, void *recording);
    /* Timing marks: the device time between two marks (0 to 3) in seconds. */
    bo_gpu_error (*mark)(bo_gpu *gpu, int mark);
    bo_gpu_error (*elapsed)(bo_gpu *gpu, int from, int to, double *seconds);
    /* NCCL all-reduce over processes with one GPU each. rank_id: rank 0 creates an id, which all ranks pass to join.
     * `sum` replaces values by their sums over the ranks, in a fixed order. */
    bo_gpu_error (*rank_id)(bo_gpu *gpu, unsigned char id[BO_RANK_ID]);
    bo_gpu_error (*join)(bo_gpu *gpu, const unsigned char id[BO_RANK_ID], int rank, int size);
    bo_gpu_error (*sum)(bo_gpu *gpu, float *numbers, size_t count);
#define BO_GPU_MEMBER(name, arguments) bo_gpu_error (*name)(bo_gpu * gpu, const arguments *a);
    BO_GPU_LAUNCHES(BO_GPU_MEMBER)
#undef BO_GPU_MEMBER
} bo_gpu_functions;

/* The only symbol of the plugin. */
const bo_gpu_functions *bo_cuda_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
