/* Loads OpenBLAS. */
#include "openblas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static bool address_space_is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Copies the address of a function. C has no conversion from an object pointer to a function pointer; POSIX
 * guarantees the same representation. */
static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address;
}

/* The type of the core in the names of OpenBLAS, or NULL. These types have the fastest sgemm of their instruction
 * sets. */
static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return "SKYLAKEX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return __builtin_cpu_is("amd") ? "ZEN" : "HASWELL";
#endif
    return NULL;
}

/* OpenBLAS mistakes some virtual CPUs for old ones, so this sets the core type unless the user has set it. The variable
 * is removed afterwards, because child processes should detect the core type. */
static void *open_library(void)
{
    static const char variable[] = "OPENBLAS_CORETYPE";
    const char *core = getenv(variable) ? NULL : core_type();
    if (core) setenv(variable, core, 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (core) unsetenv(variable);
    return library;
}

static bool load(bo_openblas *out, const char **reason)
{
    if (address_space_is_limited()) {
        *reason = "OpenBLAS is not used under a limit of the address space";
        return false;
    }
    void *library = open_library();
    if (!library) {
        *reason = "OpenBLAS is not installed";
        return false;
    }
    *reason = "this OpenBLAS lacks a function";
    return find(library, "cblas_sgemm", &out->sgemm) && find(library, "dsyevd_", &out->dsyevd) &&
           find(library, "dgesdd_", &out->dgesdd) && find(library, "openblas_get_config", &out->config) &&
           find(library, "openblas_get_corename", &out->core) &&
           find(library, "openblas_get_num_threads", &out->threads);
}

const bo_openblas *bo_openblas_load(const char **reason)
{
    static bo_openblas loaded;
    static bool found;
    if (!found) found = load(&loaded, reason);
    return found ? &loaded : NULL;
}
