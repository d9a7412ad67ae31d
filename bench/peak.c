/* The peak of the CPU for products of bfloat16 numbers: a loop of the product instruction on registers only, on all
 * threads in parallel. The loops are assembly, because the compiler would remove unused sums. */
#include <string.h>
#include "reference.h"
#include "../cli/shared/rates.h"
#include "../src/base/base.h"
#include "../src/device/cpu/kernels.h"
#include "../src/math/linalg.h"

#if defined(__x86_64__)
enum { ROUNDS = 1 << 20 };

/* Operations per round of a loop. */
static const double TILE_OPERATIONS = 4 * 2.0 * 16 * 16 * 32, LANE_OPERATIONS = 14 * 2.0 * 32;

/* Four products of tiles of 16 x 32 and 32 x 16 numbers. The kernels' `prepare` has shaped the tiles. */
static void multiply_tiles(void)
{
    __asm__ volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
                     "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
    for (int i = 0; i < ROUNDS / 4; i++)
        __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
                         "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
}

#define LANES                                                                                                          \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15"

/* Fourteen products of vectors of 32 numbers. VZEROALL clears the sixteen registers. */
static void multiply_lanes(void)
{
    __asm__ volatile("vzeroall" : : : LANES);
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile("vdpbf16ps %%zmm14, %%zmm15, %%zmm0\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm1\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm2\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm3\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm4\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm5\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm6\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm7\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm8\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm9\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm10\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm11\n\t"
                         "vdpbf16ps %%zmm14, %%zmm15, %%zmm12\n\tvdpbf16ps %%zmm14, %%zmm15, %%zmm13"
                         :
                         :
                         : LANES);
}

typedef struct peak_job {
    const bo_micro_bf16 *micro;
    bool tiles;
} peak_job;

static void peak_task(void *arg, size_t index, int worker)
{
    const peak_job *job = arg;
    (void)index;
    (void)worker;
    if (job->micro->prepare) job->micro->prepare();
    if (job->tiles)
        multiply_tiles();
    else
        multiply_lanes();
}

/* GFLOP/s of all threads, the best of the repeats; 0: the instruction set has no such instruction. */
static double measure_peak(bo_context *context, int repeats, const char **instruction)
{
    const char *isa = bo_context_describe(context)->isa;
    const peak_job job = {bo_context_kernels(context)->bf16, strcmp(isa, "amx") == 0};
    const size_t tasks = (size_t)bo_context_describe(context)->threads;
    double best = 0;
    *instruction = job.tiles ? "TDPBF16PS" : "VDPBF16PS";
    if (!job.tiles && strcmp(isa, "avx512bf16") != 0) return 0;
    for (int r = 0; r < repeats; r++) {
        const double start = bo_seconds();
        bo_parallel(context, tasks, peak_task, (void *)(uintptr_t)&job);
        const double operations = job.tiles ? TILE_OPERATIONS * (ROUNDS / 4) : LANE_OPERATIONS * ROUNDS;
        const double rate = 1e-9 * operations * (double)tasks / (bo_seconds() - start);
        if (rate > best) best = rate;
    }
    return best;
}
#else
static double measure_peak(bo_context *context, int repeats, const char **instruction)
{
    (void)context;
    (void)repeats;
    *instruction = "none";
    return 0;
}
#endif

bo_status bo_reference_narrow_gemm(bo_context *context, size_t n, int repeats, bo_narrow_reference *out)
{
    *out = (bo_narrow_reference){.n = n ? n : 2048};
    n = out->n;
    if (repeats < 1 || n > 32768) return bo_fail(context, BO_INVALID, "reference: size %zu, %d repeats", n, repeats);
    float *matrices = bo_alloc(context, 3 * n * n, sizeof *matrices, "the reference matrices");
    void *workspace = bo_alloc_raw(context, bo_gemm_bytes(context, BO_PRECISION_BFLOAT16, n, n, n), 1, "a workspace");
    if (!matrices || !workspace) {
        bo_free(matrices);
        bo_free(workspace);
        return BO_MEMORY;
    }
    bo_rate_fill(2 * n * n, matrices);
    for (int r = -1; r < repeats; r++) { /* the first round is a warmup */
        const double peak = measure_peak(context, 1, &out->instruction), start = bo_seconds();
        bo_gemm_in(context, BO_PRECISION_BFLOAT16, false, false, n, n, n, 1.0f, matrices, n, matrices + n * n, n, 0.0f,
                   matrices + 2 * n * n, n, workspace);
        const double rate = 2e-9 * (double)n * (double)n * (double)n / (bo_seconds() - start);
        if (r >= 0 && rate > out->gflops) out->gflops = rate;
        if (peak > out->peak_gflops) out->peak_gflops = peak;
    }
    bo_free(matrices);
    bo_free(workspace);
    return BO_OK;
}
