/* The memory that a process may use, and checks of plans against it. */
#include "memory_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base.h"

enum { PATH_SIZE = 4096, TEXT_SIZE = 8192 };

/* Reads a small system file without allocating, truncated to the buffer. False: it cannot be read. */
static bool read_text(const char *path, char text[TEXT_SIZE])
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    size_t length = 0;
    ssize_t got;
    do {
        got = read(file, text + length, TEXT_SIZE - 1 - length);
        if (got > 0) length += (size_t)got;
    } while (got > 0 && length < TEXT_SIZE - 1);
    close(file);
    text[length] = 0;
    return length > 0;
}

/* ---- cgroups ----------------------------------------------------------------------------------------------------- */

/* The number in a file; "max" and text that is not a number mean no limit. */
static size_t limit_in(const char *path)
{
    char text[TEXT_SIZE], *end;
    if (!read_text(path, text)) return SIZE_MAX;
    errno = 0;
    const unsigned long long bytes = strtoull(text, &end, 10);
    return end == text || errno || bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

/* The smallest limit of `group` and of the groups that contain it. In a container the directory of the group may be
 * missing, because the container sees its own group as the root of the hierarchy: the walk up ends there. */
static size_t limit_of_group(const char *hierarchy, const char *group, const char *name)
{
    char path[PATH_SIZE], within[PATH_SIZE];
    size_t min_limit = SIZE_MAX;
    if ((size_t)snprintf(within, sizeof within, "%s", group) >= sizeof within) within[0] = 0;
    for (;;) {
        if ((size_t)snprintf(path, sizeof path, "%s%s/%s", hierarchy, within, name) < sizeof path) {
            const size_t limit = limit_in(path);
            if (limit < min_limit) min_limit = limit;
        }
        char *slash = strrchr(within, '/');
        if (!slash) return min_limit;
        *slash = 0;
    }
}

/* True if `controllers`, separated by commas and ended by a colon, contain "memory". */
static bool has_memory(const char *controllers)
{
    const char controller[] = "memory";
    for (const char *at = controllers;;) {
        const size_t length = strcspn(at, ",:");
        if (length == sizeof controller - 1 && memcmp(at, controller, length) == 0) return true;
        if (at[length] != ',') return false;
        at += length + 1;
    }
}

/* A line is "number:controllers:/group"; version 2 has number 0 and no controllers. */
size_t bo_cgroup_limit(const char *root)
{
    char path[PATH_SIZE], text[TEXT_SIZE], *rest = text;
    size_t min_limit = SIZE_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text)) return min_limit;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        const bool second = controllers[1] == ':';
        if (!second && !has_memory(controllers + 1)) continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, second ? "" : "/memory");
        const char *within = strcmp(group + 1, "/") == 0 ? "" : group + 1;
        const size_t limit = limit_of_group(path, within, second ? "memory.max" : "memory.limit_in_bytes");
        if (limit < min_limit) min_limit = limit;
    }
    return min_limit;
}

/* ---- all limits -------------------------------------------------------------------------------------------------- */

static size_t left_of(size_t limit, size_t used)
{
    if (limit == SIZE_MAX) return SIZE_MAX;
    return limit > used ? limit - used : 0;
}

enum { PHYSICAL, CGROUP, ADDRESS_SPACE, DATA, SOURCES };

static const char *const sources[SOURCES] = {"physical memory", "cgroup memory limit",
                                             "address-space limit (ulimit -v)", "data limit (ulimit -d)"};

bo_memory_bound bo_memory_bound_of(const bo_memory_info *info)
{
    const size_t bytes[SOURCES] = {
        [PHYSICAL] = info->physical ? info->physical : SIZE_MAX,
        [CGROUP] = info->cgroup,
        [ADDRESS_SPACE] = left_of(info->address_space, info->mapped),
        [DATA] = left_of(info->data, info->mapped_data),
    };
    bo_memory_bound tightest = {bytes[0], sources[0]};
    for (size_t i = 1; i < SOURCES; i++)
        if (bytes[i] < tightest.bytes) tightest = (bo_memory_bound){bytes[i], sources[i]};
    return tightest;
}

static size_t resource_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > SIZE_MAX)
        return SIZE_MAX;
    return (size_t)limit.rlim_cur;
}

/* /proc/self/statm counts pages: size, resident, shared, text, lib, data and stack. */
static void measure_use(size_t page, bo_memory_info *info)
{
    char text[TEXT_SIZE];
    size_t size, data;
    if (!read_text("/proc/self/statm", text)) return;
    if (sscanf(text, "%zu %*u %*u %*u %*u %zu", &size, &data) != 2) return;
    info->mapped = size * page;
    info->mapped_data = data * page;
}

static bo_memory_info memory_info_of_process(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bo_memory_info info = {.physical = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0,
                           .cgroup = bo_cgroup_limit(""),
                           .address_space = resource_limit(RLIMIT_AS),
                           .data = resource_limit(RLIMIT_DATA)};
    if (page > 0) measure_use((size_t)page, &info);
    return info;
}

bo_memory_bound bo_process_memory(void)
{
    const bo_memory_info info = memory_info_of_process();
    return bo_memory_bound_of(&info);
}

bo_memory_bound bo_process_address_space(void)
{
    bo_memory_info info = memory_info_of_process();
    info.physical = 0;
    info.cgroup = SIZE_MAX;
    return bo_memory_bound_of(&info);
}

bo_memory_bound bo_process_physical_memory(void)
{
    bo_memory_info info = memory_info_of_process();
    info.address_space = info.data = SIZE_MAX;
    return bo_memory_bound_of(&info);
}

bo_memory_bound bo_default_memory(void)
{
    static const char *const parts[SOURCES] = {"three quarters of the physical memory",
                                               "three quarters of the cgroup memory limit",
                                               "three quarters of what the address-space limit, ulimit -v, leaves",
                                               "three quarters of what the data limit, ulimit -d, leaves"};
    const bo_memory_bound all = bo_process_memory();
    bo_memory_bound bound = {all.bytes == SIZE_MAX ? (size_t)4 << 30 : all.bytes / 4 * 3, all.source};
    for (size_t i = 0; i < SOURCES; i++)
        if (all.source == sources[i]) bound.source = parts[i];
    return bound;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* "1.5 GB". */
static const char *bytes_text(double bytes, char text[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;
    for (; bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++) bytes /= 1000;
    snprintf(text, 32, bytes < 99.95 && unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

bo_status bo_check_memory(bo_context *context, const char *what, double bytes, bo_memory_bound limit,
                          const char *advice)
{
    char needed[32], allowed[32];
    if (bytes <= (double)limit.bytes) return BO_OK;
    return bo_fail(context, BO_MEMORY, "%s needs %s of memory, but the limit is %s (%s); %s", what,
                   bytes_text(bytes, needed), bytes_text((double)limit.bytes, allowed), limit.source, advice);
}
