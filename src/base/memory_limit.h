/* The parts of bo_process_memory, for src/base and its tests. */
#ifndef BO_BASE_MEMORY_LIMIT_H
#define BO_BASE_MEMORY_LIMIT_H

#include <bochner/base.h>

/* The limits of the memory of a process, in bytes. SIZE_MAX: no limit. */
typedef struct bo_memory_info {
    size_t physical;            /* 0: not known */
    size_t cgroup;              /* the smallest limit of the groups that the process is in */
    size_t address_space, data; /* resource limits */
    size_t mapped, mapped_data; /* the part that the process uses */
} bo_memory_info;

/* The smallest of these limits. */
bo_memory_bound bo_memory_bound_of(const bo_memory_info *info);
/* The smallest memory limit of the cgroups, versions 1 and 2, of the process whose root directory is `root` ("" for the
 * real root). <root>/proc/self/cgroup names the groups, <root>/sys/fs/cgroup has their limits. SIZE_MAX: no limit. */
size_t bo_cgroup_limit(const char *root);

#endif
