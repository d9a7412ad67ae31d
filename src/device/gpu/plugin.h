/* The interface between the library and its plugin for GPUs (libbochner_cuda.so, src/device/cuda), which the library
 * opens when a GPU is used for the first time. Only plain data crosses it: the plugin needs no symbol of the library,
 * and the library none of CUDA.
 *
 * The library describes calls; the plugin launches kernels. Addresses in the arguments of launches are those of the
 * device. Every function returns NULL, or a text that describes the error, which is valid until the next call of the
 * same thread. Launches are asynchronous, in order. They never allocate. The device that is current for CUDA in the
 * calling thread is the same before and after every call. One thread at a time calls the functions of a GPU that submit
 * work. */
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

/* A GPU that is in use: its stream, and handles of libraries. */
typedef struct bo_gpu bo_gpu;
typedef const char *bo_gpu_error;

enum { BO_RANK_ID = 128 };

typedef struct bo_gpu_properties {
    char name[128];
    int major, minor, processors; /* compute capability, number of multiprocessors */
    size_t bytes, free_bytes;     /* memory */
    size_t shared_bytes;          /* maximum shared memory of a block */
    bool emulated;                /* no GPU: kernels run on the CPU, for tests */
} bo_gpu_properties;

/* The settings of a run that kernels read when they run, so that a recorded run can be repeated with other settings. */
typedef struct bo_gpu_pass {
    uint64_t seed;
    const int32_t *starts;        /* first row of each sequence, and the number of rows; NULL: equal lengths */
    const int32_t *source_starts; /* the same for the source */
    void *const *states;          /* states[layer * sequences + s]; NULL: none */
    int32_t sequences;
    int32_t training;
} bo_gpu_pass;

#include "launches.h"

/* Launches: a name and the struct of its arguments (launches.h lists them by file of cuda/). */
typedef struct bo_gpu_functions {
    size_t bytes; /* sizeof(bo_gpu_functions), to detect a plugin of another version before its members are read */
    const char *version;  /* BO_VERSION_STRING: only a plugin of the same version is used */
    int (*devices)(void); /* number of GPUs; 0: none, or no driver */
    bo_gpu_error (*properties)(int device, bo_gpu_properties *out);
    bo_gpu_error (*open)(int device, bo_gpu **out);
    void (*close)(bo_gpu *gpu);
    /* The number of the GPU in whose memory an address is; -1: it is not in the memory of a GPU. */
    int (*locate)(bo_gpu *gpu, const void *address);
    /* Memory of the device. */
    bo_gpu_error (*allocate)(bo_gpu *gpu, size_t bytes, void **out); /* not filled */
    void (*release)(bo_gpu *gpu, void *memory);
    bo_gpu_error (*write)(bo_gpu *gpu, void *to, const void *host, size_t bytes);
    bo_gpu_error (*fill)(bo_gpu *gpu, void *to, int byte, size_t bytes);
    bo_gpu_error (*copy)(bo_gpu *gpu, void *to, const void *from, size_t bytes);
    /* fence: marks the work that has been submitted. read: waits for a fence, destroys it, and copies to the host;
     * wait_for does the same without a copy. These two may be called while another thread submits work. */
    bo_gpu_error (*fence)(bo_gpu *gpu, void **out);
    bo_gpu_error (*read)(bo_gpu *gpu, void *fence, void *host, const void *from, size_t bytes);
    bo_gpu_error (*wait_for)(bo_gpu *gpu, void *fence);
    /* Work is submitted to a stream of the caller (a cudaStream_t); NULL: to that of the GPU. */
    bo_gpu_error (*use_stream)(bo_gpu *gpu, void *stream);
    /* Recordings: launches between begin and end are not executed; `replay` executes all of them. */
    bo_gpu_error (*record_begin)(bo_gpu *gpu);
    bo_gpu_error (*record_end)(bo_gpu *gpu, void **recording);
    bo_gpu_error (*replay)(bo_gpu *gpu, void *recording);
    void (*forget)(bo_gpu *gpu, void *recording);
    /* Marks for timing: the seconds of the device between two marks (0 to 3). */
    bo_gpu_error (*mark)(bo_gpu *gpu, int mark);
    bo_gpu_error (*elapsed)(bo_gpu *gpu, int from, int to, double *seconds);
    /* Sums over processes with one GPU each, by NCCL. rank_id: rank 0 makes an id, which all ranks join with. `sum`
     * replaces numbers by their sums over the ranks, in a fixed order. */
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
