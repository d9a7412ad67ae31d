/* Sums over processes by NCCL, which is opened when the first rank joins: the plugin works without it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "launches.cuh"
#include "runtime.cuh"

/* The part of NCCL's interface that is used; its numbers have not changed since version 2.0. */
struct nccl_id {
    char bytes[BO_CUDA_RANK_ID];
};
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

static struct {
    int (*make_id)(nccl_id *);
    int (*join)(void **, int, nccl_id, int);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, cudaStream_t);
    int (*leave)(void *);
    const char *(*text)(int);
} nccl;

static bo_cuda_error load(bo_cuda *cuda)
{
    if (nccl.make_id) return nullptr;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(cuda->error, sizeof cuda->error, "NCCL cannot be opened: %s", dlerror());
        return cuda->error;
    }
    *(void **)&nccl.join = dlsym(library, "ncclCommInitRank");
    *(void **)&nccl.all_reduce = dlsym(library, "ncclAllReduce");
    *(void **)&nccl.leave = dlsym(library, "ncclCommDestroy");
    *(void **)&nccl.text = dlsym(library, "ncclGetErrorString");
    *(void **)&nccl.make_id = dlsym(library, "ncclGetUniqueId");
    const bool complete = nccl.make_id && nccl.join && nccl.all_reduce && nccl.leave && nccl.text;
    if (!complete) nccl.make_id = nullptr;
    return complete ? nullptr : "NCCL lacks a function";
}

static bo_cuda_error check(bo_cuda *cuda, int status)
{
    if (status == 0) return nullptr;
    snprintf(cuda->error, sizeof cuda->error, "NCCL: %s", nccl.text(status));
    return cuda->error;
}

namespace bo {

bo_cuda_error rank_id(bo_cuda *cuda, unsigned char id[BO_CUDA_RANK_ID])
{
    nccl_id made;
    if (bo_cuda_error error = load(cuda)) return error;
    if (bo_cuda_error error = check(cuda, nccl.make_id(&made))) return error;
    memcpy(id, made.bytes, sizeof made.bytes);
    return nullptr;
}

bo_cuda_error join(bo_cuda *cuda, const unsigned char id[BO_CUDA_RANK_ID], int rank, int size)
{
    nccl_id given;
    if (bo_cuda_error error = load(cuda)) return error;
    memcpy(given.bytes, id, sizeof given.bytes);
    if (bo_cuda_error error = use_device(cuda)) return error;
    ranks_leave(cuda);
    return check(cuda, nccl.join(&cuda->ranks, size, given, rank));
}

bo_cuda_error sum(bo_cuda *cuda, float *numbers, size_t count)
{
    if (!cuda->ranks) return "NCCL: the ranks have not joined";
    return check(cuda, nccl.all_reduce(numbers, numbers, count, NCCL_FLOAT, NCCL_SUM, cuda->ranks, cuda->stream));
}

void ranks_leave(bo_cuda *cuda)
{
    if (cuda->ranks) nccl.leave(cuda->ranks);
    cuda->ranks = nullptr;
}

} // namespace bo
