/* A detector of races in shared memory, for kernels that were compiled with -fsanitize=thread (BO_EMULATOR_RACES). The
 * compiler calls functions of races.cpp before all loads and stores of kernels. Two accesses of different threads to
 * one byte, one of them a write, are a race without __syncthreads between them, or, in one warp, __syncwarp; the order
 * in which warps run does not matter, nor that both write the same value. A copy writes its bytes from its start to the
 * copy_wait of its thread; all other accesses to them between are races. Every pair of places in the source is reported
 * once. A process with races ends with status 66. */
#ifndef BO_GPU_RACES_H
#define BO_GPU_RACES_H

#include <stddef.h>
#include <stdint.h>

namespace bo {

enum race_kind { RACE_WRITE_WRITE, RACE_READ_WRITE, RACE_WRITE_READ, RACE_COPY, RACE_KINDS };

#ifdef BO_EMULATOR_RACES
void race_grid(const unsigned char *shared, size_t bytes, const void *kernel);
void race_block_barrier();
void race_warp_barrier(int warp);
/* The accesses that follow are those of this thread of the block; -1: of the host. */
void race_thread(int thread);
/* ldmatrix: all lanes of the warp of the thread read. */
void race_read_by_warp(const void *at, size_t bytes, const void *caller);
void race_copy_begins(const void *at, size_t bytes, const void *caller);
void race_copy_ends(const void *at, size_t bytes, const void *caller);
size_t races_found(race_kind kind);
void races_forget(); /* also allows that they are reported again */
#else
inline void race_grid(const unsigned char *, size_t, const void *)
{
}
inline void race_block_barrier()
{
}
inline void race_warp_barrier(int)
{
}
inline void race_thread(int)
{
}
inline void race_read_by_warp(const void *, size_t, const void *)
{
}
inline void race_copy_begins(const void *, size_t, const void *)
{
}
inline void race_copy_ends(const void *, size_t, const void *)
{
}
#endif

} // namespace bo

#endif
