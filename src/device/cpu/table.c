/* Selects a table of kernels for this CPU. */
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif
#include "kernels.h"
#include "tables.h"

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void)
{
    return has_avx512_vnni() && __builtin_cpu_supports("avx512bf16");
}

/* On Linux, a process must request permission for the tile registers; threads that start later inherit it. If the
 * kernel has no AMX support or a system-call filter denies the request, the CPU is treated as one without AMX. */
static bool may_use_tiles(void)
{
#if defined(__linux__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static bool has_amx(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24 }; /* bits of CPUID 7.0, EDX: only recent compilers define their names */
    unsigned a, b, c, d = 0;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) && may_use_tiles();
}
#endif

static bool always(void)
{
    return true;
}

/* The fastest is first. */
static const struct {
    const bo_kernels *table;
    bool (*is_supported)(void);
} candidates[] = {
#if defined(__x86_64__)
    {&bo_kernels_amx, has_amx},
    {&bo_kernels_avx512bf16, has_avx512bf16},
    {&bo_kernels_avx512_vnni, has_avx512_vnni},
    {&bo_kernels_avx512, has_avx512},
    {&bo_kernels_avx2, has_avx2},
#elif defined(__aarch64__)
    {&bo_kernels_neon, always}, /* part of the architecture */
#endif
    {&bo_kernels_ref, always},
};

const bo_kernels *bo_kernels_find(const char *isa)
{
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (isa && strcmp(isa, candidates[i].table->isa) != 0) continue;
        if (candidates[i].is_supported()) return candidates[i].table;
    }
    return NULL;
}

const char *bo_kernels_isa(const bo_kernels *kernels)
{
    return kernels->isa;
}
