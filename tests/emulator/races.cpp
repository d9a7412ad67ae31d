/* The detector of races (tests/cuda/emulator/races.h) finds planted races, and none in kernels without them. */
#include <stdio.h>
#include "device/cuda/device.cuh"
#include "races.h"

using namespace bo;

enum { WARPS = 2, THREADS = WARPS * WARP };

extern float input[THREADS * 8], output[THREADS * 8]; /* not static: the compiler must assume that others read them */
float input[THREADS * 8], output[THREADS * 8];

namespace {

/* The barriers that a kernel has: races remain without them. */
struct barriers {
    bool block, warp, wait, commit;
};

typedef void (*kernel)(barriers);

int thread()
{
    return (int)threadIdx.x;
}

int lane()
{
    return thread() % WARP;
}

void barrier(bool present)
{
    if (present) __syncthreads();
}

void warp_barrier(bool present)
{
    if (present) __syncwarp();
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* All warps write the same values to the same place, or each to its own. */
__global__ void same_values(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared) + (b.block ? thread() / WARP * WARP : 0);
    x[lane()] = (float)lane();
    __syncwarp();
    output[thread()] = x[WARP - 1 - lane()];
}

__global__ void other_warp_reads(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    x[thread()] = input[thread()];
    barrier(b.block);
    output[thread()] = x[THREADS - 1 - thread()];
}

__global__ void other_warp_overwrites(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    x[thread()] = input[thread()];
    __syncthreads();
    const float y = x[THREADS - 1 - thread()];
    barrier(b.block);
    x[thread()] = 2 * y;
}

__global__ void other_lane_reads(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    x[thread()] = input[thread()];
    warp_barrier(b.warp);
    output[thread()] = x[thread() ^ 1];
}

/* Shuffles do not order accesses of memory. */
__global__ void other_lane_reads_after_shuffle(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    x[thread()] = input[thread()];
    const float sum = warp_sum(input[thread()]);
    warp_barrier(b.warp);
    output[thread()] = sum + x[thread() ^ 1];
}

__global__ void other_lane_overwrites(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    x[thread()] = input[thread()];
    __syncwarp();
    const float y = x[thread() ^ 1];
    warp_barrier(b.warp);
    x[thread()] = y;
}

__global__ void all_read_one_overwrites(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    if (thread() == 0) x[0] = 1;
    __syncthreads();
    output[thread()] = x[0];
    barrier(b.block);
    if (thread() == 37) x[0] = 2;
}

__global__ void matrix_of_other_lanes(barriers b)
{
    BO_SHARED(shared);
    bf16 *x = reinterpret_cast<bf16 *>(shared) + thread() / WARP * 512;
    uint32_t r[4];
    for (int i = 0; i < 8; i++) x[lane() * 8 + i] = __float2bfloat16(input[thread()]);
    warp_barrier(b.warp);
    ldmatrix(r, x + lane() * 8);
    memcpy(&output[thread() * 4], r, sizeof r);
}

__global__ void packs(barriers b)
{
    BO_SHARED(shared);
    pack<float, 4> *x = reinterpret_cast<pack<float, 4> *>(shared);
    x[thread()] = reinterpret_cast<const pack<float, 4> *>(input)[thread()];
    barrier(b.block);
    reinterpret_cast<pack<float, 4> *>(output)[thread()] = x[THREADS - 1 - thread()];
}

__global__ void bytes(barriers b)
{
    BO_SHARED(shared);
    shared[thread()] = (unsigned char)thread(); /* neighbors write different bytes of a word */
    barrier(b.block);
    output[thread()] = shared[(thread() + WARP) % THREADS];
}

__global__ void call_of_memcpy(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    if (thread() == 0) memcpy(x, input, sizeof(float) * (gridDim.x + THREADS - 1));
    barrier(b.block);
    output[thread()] = x[thread()];
}

__global__ void static_memory(barriers b)
{
    __shared__ float x[THREADS];
    x[thread()] = input[thread()];
    barrier(b.block);
    output[thread()] = x[THREADS - 1 - thread()];
    __syncthreads();
}

__global__ void sum_of_the_block(barriers b)
{
    __shared__ float smem[WARP];
    const float sum = block_sum(input[thread()], smem);
    if (!b.block) smem[0] = 0; /* every thread */
    output[thread()] = sum + block_max(input[thread()], smem);
}

__global__ void own_copy(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared) + thread() * 4;
    copy_async(x, input + thread() * 4);
    if (b.commit) copy_commit();
    if (b.wait) copy_wait<0>();
    output[thread()] = x[0];
}

__global__ void copy_of_other_thread(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    copy_async_float(x + thread(), input + thread(), thread() % 3 != 0);
    copy_commit();
    copy_wait<0>();
    barrier(b.block);
    output[thread()] = x[THREADS - 1 - thread()];
}

/* Two buffers: the second copy must not be waited for. */
__global__ void first_of_two_copies(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    copy_async(x + thread() * 4, input + thread() * 4);
    copy_commit();
    copy_async(x + (THREADS + thread()) * 4, input + thread() * 4);
    copy_commit();
    if (b.wait)
        copy_wait<1>();
    else
        copy_wait<2>();
    __syncthreads();
    output[thread()] = x[(THREADS - 1 - thread()) * 4];
}

__global__ void copy_to_memory_in_use(barriers b)
{
    BO_SHARED(shared);
    float *x = reinterpret_cast<float *>(shared);
    for (int round = 0; round < 3; round++) {
        copy_async(x + thread() * 4, input + thread() * 4);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        output[thread()] = x[(THREADS - 1 - thread()) * 4];
        barrier(b.block);
    }
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

struct trial {
    const char *name;
    kernel run;
    barriers without;
    race_kind kind;
};
#define TRIAL(name, without, kind) {#name, name, without, kind}
const barriers all = {true, true, true, true}, no_block = {false, true, true, true},
               no_warp = {true, false, true, true}, no_wait = {true, true, false, true},
               no_commit = {true, true, true, false};
const trial trials[] = {
    TRIAL(same_values, no_block, RACE_WRITE_WRITE),
    TRIAL(other_warp_reads, no_block, RACE_WRITE_READ),
    TRIAL(other_warp_overwrites, no_block, RACE_READ_WRITE),
    TRIAL(other_lane_reads, no_warp, RACE_WRITE_READ),
    TRIAL(other_lane_reads_after_shuffle, no_warp, RACE_WRITE_READ),
    TRIAL(other_lane_overwrites, no_warp, RACE_READ_WRITE),
    TRIAL(all_read_one_overwrites, no_block, RACE_READ_WRITE),
    TRIAL(matrix_of_other_lanes, no_warp, RACE_WRITE_READ),
    TRIAL(packs, no_block, RACE_WRITE_READ),
    TRIAL(bytes, no_block, RACE_WRITE_READ),
    TRIAL(call_of_memcpy, no_block, RACE_WRITE_READ),
    TRIAL(static_memory, no_block, RACE_WRITE_READ),
    TRIAL(sum_of_the_block, no_block, RACE_WRITE_WRITE),
    TRIAL(own_copy, no_wait, RACE_COPY),
    TRIAL(own_copy, no_commit, RACE_COPY),
    TRIAL(copy_of_other_thread, no_block, RACE_WRITE_READ),
    TRIAL(first_of_two_copies, no_wait, RACE_COPY),
    TRIAL(copy_to_memory_in_use, no_block, RACE_READ_WRITE),
};

/* Races of all kinds. */
size_t races_of(const trial &t, barriers b)
{
    size_t sum = 0;
    races_forget();
    emulate_grid(dim3(2), dim3(THREADS), 8192, (const void *)t.run, [=] { t.run(b); });
    for (int kind = 0; kind < RACE_KINDS; kind++) sum += races_found((race_kind)kind);
    return sum;
}

} // namespace

int main()
{
    int failures = 0;
    for (const trial &t : trials) {
        const size_t none = races_of(t, all), some = races_of(t, t.without), found = races_found(t.kind);
        const bool passed = none == 0 && found > 0;
        printf("%s: %s: %zu races with all barriers, %zu without one, of which %zu of the expected kind\n",
               passed ? "passed" : "FAILED", t.name, none, some, found);
        failures += !passed;
    }
    races_forget();
    return failures != 0;
}
