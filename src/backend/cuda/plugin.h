/* The interface between the library and its CUDA plugin (libbochner_cuda.so), which the library opens when a GPU is
 * asked for. Only plain data crosses it: the plugin needs no symbol of the library, and the library none of CUDA.
 *
 * The library (the C files of this folder) checks calls and describes them; the plugin (device/) launches kernels.
 * Addresses in the arguments of launches are those of the device. Every function returns NULL, or a text that describes
 * the error; the text is valid until the next call. Launches are asynchronous, in order. They never allocate. */
#ifndef BO_CUDA_PLUGIN_H
#define BO_CUDA_PLUGIN_H

#include <bochner/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device that is in use: its stream, and handles of libraries. One per process. */
typedef struct bo_cuda bo_cuda;
typedef const char *bo_cuda_error;

enum { BO_CUDA_RANK_ID = 128 };

/* The type of the numbers of a tensor: F32 or BF16, whose sums are computed in float32. Fits of kernel machines also use
 * F64, and products of I8, whose sums are I32. */
typedef enum bo_cuda_type {
    BO_CUDA_F32 = 0,
    BO_CUDA_BF16 = 1,
    BO_CUDA_F64 = 2,
    BO_CUDA_I8 = 3,
    BO_CUDA_I32 = 4
} bo_cuda_type;

typedef struct bo_cuda_properties {
    char name[128];
    int major, minor, processors; /* compute capability, number of multiprocessors */
    size_t bytes, free_bytes;     /* memory */
    size_t shared_bytes;          /* maximum shared memory of a block */
    bool emulated;                /* no GPU: kernels run on the CPU, for tests */
} bo_cuda_properties;

/* The settings of a run that kernels read when they run, so that a recorded run can be repeated with other settings. */
typedef struct bo_cuda_pass {
    uint64_t seed;
    const int32_t *starts;        /* first row of each sequence, and the number of rows; NULL: equal lengths */
    const int32_t *source_starts; /* the same for the source */
    void *const *states;          /* states[layer * sequences + s]; NULL: none */
    int32_t sequences;
    int32_t training;
} bo_cuda_pass;

#include "arguments.h"

/* Launches: a name and the struct of its arguments (arguments.h lists them by file of device/). */
typedef struct bo_cuda_functions {
    size_t bytes; /* sizeof(bo_cuda_functions), to detect a plugin of another version before its members are read */
    const char *version;  /* BO_VERSION_STRING: only a plugin of the same version is used */
    int (*devices)(void); /* number of GPUs; 0: none, or no driver */
    bo_cuda_error (*properties)(int device, bo_cuda_properties *out);
    bo_cuda_error (*open)(int device, bo_cuda **out);
    void (*close)(bo_cuda *cuda);
    /* Memory of the device. `read` waits for all launches before it. */
    bo_cuda_error (*allocate)(bo_cuda *cuda, size_t bytes, void **out); /* not filled */
    void (*release)(bo_cuda *cuda, void *memory);
    bo_cuda_error (*write)(bo_cuda *cuda, void *to, const void *host, size_t bytes);
    bo_cuda_error (*read)(bo_cuda *cuda, void *host, const void *from, size_t bytes);
    bo_cuda_error (*fill)(bo_cuda *cuda, void *to, int byte, size_t bytes);
    bo_cuda_error (*copy)(bo_cuda *cuda, void *to, const void *from, size_t bytes);
    bo_cuda_error (*wait)(bo_cuda *cuda);
    /* Recordings: launches between begin and end are not executed; `replay` executes all of them. */
    bo_cuda_error (*record_begin)(bo_cuda *cuda);
    bo_cuda_error (*record_end)(bo_cuda *cuda, void **recording);
    bo_cuda_error (*replay)(bo_cuda *cuda, void *recording);
    void (*forget)(bo_cuda *cuda, void *recording);
    /* Marks for timing: the seconds of the device between two marks (0 to 3). */
    bo_cuda_error (*mark)(bo_cuda *cuda, int mark);
    bo_cuda_error (*elapsed)(bo_cuda *cuda, int from, int to, double *seconds);
    /* Sums over processes with one GPU each, by NCCL. rank_id: rank 0 makes an id, which all ranks join with. `sum`
     * replaces numbers by their sums over the ranks, in a fixed order. */
    bo_cuda_error (*rank_id)(bo_cuda *cuda, unsigned char id[BO_CUDA_RANK_ID]);
    bo_cuda_error (*join)(bo_cuda *cuda, const unsigned char id[BO_CUDA_RANK_ID], int rank, int size);
    bo_cuda_error (*sum)(bo_cuda *cuda, float *numbers, size_t count);
#define BO_CUDA_MEMBER(name, arguments) bo_cuda_error (*name)(bo_cuda * cuda, const arguments *a);
    BO_CUDA_LAUNCHES(BO_CUDA_MEMBER)
#undef BO_CUDA_MEMBER
} bo_cuda_functions;

/* The only symbol of the plugin. */
const bo_cuda_functions *bo_cuda_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
