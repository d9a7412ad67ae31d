/* The upper triangle of a symmetric matrix copied onto the lower, from one source for both precisions. */
#include "linalg.h"
#include "panel.h"

typedef struct mirror_job {
    size_t n, ld;
    void *matrix;
} mirror_job;

/* Lines of a block: two of them fit in any first-level cache. */
#define BLOCK(TYPE) (256 / sizeof(TYPE))

/* TASK: the blocks right of the diagonal in one row of blocks, transposed to below it. */
#define MIRROR(TYPE, TASK, NAME)                                                                                       \
    static void TASK(void *arg, size_t index, int worker)                                                              \
    {                                                                                                                  \
        (void)worker;                                                                                                  \
        const mirror_job *job = arg;                                                                                   \
        TYPE *a = job->matrix;                                                                                         \
        size_t i0 = index * BLOCK(TYPE), i1 = bo_smaller(i0 + BLOCK(TYPE), job->n);                                    \
        for (size_t j0 = i0; j0 < job->n; j0 += BLOCK(TYPE)) {                                                         \
            size_t j1 = bo_smaller(j0 + BLOCK(TYPE), job->n);                                                          \
            for (size_t j = j0; j < j1; j++) {                                                                         \
                for (size_t i = i0; i < i1 && i < j; i++) a[j * job->ld + i] = a[i * job->ld + j];                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    void NAME(bo_context *context, size_t n, TYPE *a, size_t lda)                                                      \
    {                                                                                                                  \
        mirror_job job = {n, lda, a};                                                                                  \
        bo_parallel(context, bo_ceil_div(n, BLOCK(TYPE)), TASK, &job);                                                 \
    }

MIRROR(double, mirror_task64, bo_symmetrize)
MIRROR(float, mirror_task32, bo_symmetrize32)
