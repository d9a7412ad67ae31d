/* Prints the instruction sets of Bochner's kernels that this CPU runs, best first, as a CMake list. */
#include <stdio.h>

int main(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        fputs("avx512;", stdout);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fputs("avx2;", stdout);
#elif defined(__aarch64__)
    fputs("neon;", stdout);
#endif
    fputs("ref", stdout);
    return 0;
}
