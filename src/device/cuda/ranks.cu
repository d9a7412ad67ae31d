/* Sums over processes by NCCL, which is opened when the first rank joins: the plugin works without it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <mutex>
#include "launches.cuh"
#include "runtime.cuh"

/* The part of the NCCL API that is used; its constants have not changed since version 2.0. */
struct nccl_id {
    char bytes[BO_RANK_ID];
};
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

/* Filled once, with the lock; a device that has joined only reads it. */
static struct {
    int (*create_id)(nccl_id *);
    int (*join)(void **, int, nccl_id, int);
    int (*all_reduce)(const void *, void *, size_t, int, int, void *, cudaStream_t);
    int (*leave)(void *);
    const char *(*text)(int);
} nccl;
static std::mutex nccl_lock;

static bo_gpu_error load()
{
    std::lock_guard<std::mutex> lock(nccl_lock);
    if (nccl.create_id) return nullptr;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return bo::complain("NCCL cannot be opened: %s", dlerror());
    *(void **)&nccl.join = dlsym(library, "ncclCommInitRank");
    *(void **)&nccl.all_reduce = dlsym(library, "ncclAllReduce");
    *(void **)&nccl.leave = dlsym(library, "ncclCommDestroy");
    *(void **)&nccl.text = dlsym(library, "ncclGetErrorString");
    *(void **)&nccl.create_id = dlsym(library, "ncclGetUniqueId");
    const bool complete = nccl.create_id && nccl.join && nccl.all_reduce && nccl.leave && nccl.text;
    if (!complete) nccl.create_id = nullptr;
    return complete ? nullptr : "NCCL lacks a function";
}

static bo_gpu_error check(int status)
{
    return status == 0 ? nullptr : bo::complain("NCCL: %s", nccl.text(status));
}

namespace bo {

bo_gpu_error rank_id(bo_gpu *, unsigned char id[BO_RANK_ID])
{
    nccl_id made;
    if (bo_gpu_error error = load()) return error;
    if (bo_gpu_error error = check(nccl.create_id(&made))) return error;
    memcpy(id, made.bytes, sizeof made.bytes);
    return nullptr;
}

bo_gpu_error join(bo_gpu *cuda, const unsigned char id[BO_RANK_ID], int rank, int size)
{
    nccl_id rank_id;
    if (bo_gpu_error error = load()) return error;
    memcpy(rank_id.bytes, id, sizeof rank_id.bytes);
    ranks_leave(cuda);
    return check(nccl.join(&cuda->ranks, size, rank_id, rank));
}

bo_gpu_error sum(bo_gpu *cuda, float *numbers, size_t count)
{
    if (!cuda->ranks) return "NCCL: the ranks have not joined";
    return check(nccl.all_reduce(numbers, numbers, count, NCCL_FLOAT, NCCL_SUM, cuda->ranks, cuda->stream));
}

void ranks_leave(bo_gpu *cuda)
{
    if (cuda->ranks) nccl.leave(cuda->ranks);
    cuda->ranks = nullptr;
}

} // namespace bo
