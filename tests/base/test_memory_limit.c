/* The memory that a process may use: the smallest of the limits, their sources, and checks of plans. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/memory_limit.h"
#include "testing.h"

/* The default memory limit of a task is between half and all of the memory of the process. */
static void test_machine(void **state)
{
    (void)state;
    const bo_memory_bound limit = bo_default_memory();
    bo_memory_bound all;
    bo_context_memory(NULL, &all);
    assert_true(all.bytes > (size_t)1 << 20 && all.bytes < SIZE_MAX);
    assert_true(limit.bytes > all.bytes / 2 && limit.bytes < all.bytes);
    assert_non_null(strstr(limit.source, "three quarters of"));
}

static void assert_bound(bo_memory_info info, size_t bytes, const char *source)
{
    const bo_memory_bound found = bo_memory_bound_of(&info);
    assert_int_equal(found.bytes, bytes);
    assert_string_equal(found.source, source);
}

static void test_smallest_limit(void **state)
{
    (void)state;
    const bo_memory_info all = {.physical = 8000, .cgroup = 7000, .address_space = 9000, .data = 9500, .mapped = 1000};
    bo_memory_info info = all;
    assert_bound(info, 7000, "cgroup memory limit");
    info.cgroup = SIZE_MAX;
    assert_bound(info, 8000, "physical memory");
    info.mapped = 2500;
    assert_bound(info, 6500, "address-space limit (ulimit -v)");
    info.mapped = 9001;
    assert_bound(info, 0, "address-space limit (ulimit -v)");
    info.address_space = SIZE_MAX;
    info.mapped_data = 2000;
    assert_bound(info, 7500, "data limit (ulimit -d)");
    info = (bo_memory_info){.cgroup = SIZE_MAX, .address_space = SIZE_MAX, .data = SIZE_MAX};
    assert_bound(info, SIZE_MAX, "physical memory");
}

/* Writes <root>/<path> with its directories. */
static void put_file(const char *root, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define V2 "sys/fs/cgroup/"
#define V1 "sys/fs/cgroup/memory/"

static void test_cgroup_limits(void **state)
{
    (void)state;
    char root[] = "cgroups.XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_int_equal(bo_cgroup_limit(root), SIZE_MAX); /* no cgroups */
    put_file(root, "proc/self/cgroup", "0::/batch.slice/job 7/step\n");
    put_file(root, V2 "batch.slice/job 7/step/memory.max", "max\n");
    assert_int_equal(bo_cgroup_limit(root), SIZE_MAX);
    put_file(root, V2 "batch.slice/memory.max", "5000000\n"); /* of a group that contains it */
    assert_int_equal(bo_cgroup_limit(root), 5000000);
    put_file(root, V2 "batch.slice/job 7/step/memory.max", "4000000\n");
    assert_int_equal(bo_cgroup_limit(root), 4000000);
    put_file(root, "proc/self/cgroup", "0::/elsewhere\n"); /* a container: only the root is visible */
    put_file(root, V2 "memory.max", "3000000\n");
    assert_int_equal(bo_cgroup_limit(root), 3000000);
    put_file(root, "proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/1\n3:memory2:/x\n");
    assert_int_equal(bo_cgroup_limit(root), SIZE_MAX);
    put_file(root, V1 "docker/1/memory.limit_in_bytes", "9223372036854771712\n");
    put_file(root, V1 "memory.limit_in_bytes", "2000000\n");
    assert_int_equal(bo_cgroup_limit(root), 2000000);
    put_file(root, V1 "memory.limit_in_bytes", "99999999999999999999999\n");
    assert_int_equal(bo_cgroup_limit(root), 9223372036854771712u);
    put_file(root, "proc/self/cgroup", "no colons\n0:\n");
    assert_int_equal(bo_cgroup_limit(root), SIZE_MAX);
}

/* A limit of the address space is effective immediately, minus the memory that is already mapped. */
static void test_address_space_limit(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {(rlim_t)3 << 40, (rlim_t)3 << 40};
        const struct rlimit small = {(rlim_t)1 << 30, (rlim_t)3 << 40};
        setrlimit(RLIMIT_AS, &limit);
        if (strncmp(bo_process_memory().source, "address", 7) == 0) _exit(1);
        setrlimit(RLIMIT_AS, &small);
        const bo_memory_bound bound = bo_process_memory();
        _exit(strncmp(bound.source, "address", 7) != 0 || bound.bytes >= (size_t)1 << 30 || bound.bytes == 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#if !defined(BO_SANITIZE_ADDRESS) && !defined(BO_SANITIZE_THREAD) /* they map terabytes */
    assert_int_equal(status, 0);
#endif
}

static void test_check(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_memory_bound limit = {2000000, "cgroup memory limit"};
    assert_ok(context, bo_check_memory(context, "a plan", 2e6, limit, "do less"));
    assert_fails(context, BO_MEMORY, "a plan needs 3.5 GB of memory, but the limit is 2.0 MB (cgroup memory limit); do",
                 bo_check_memory(context, "a plan", 3.5e9, limit, "do less"));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),       cmocka_unit_test(test_smallest_limit),
        cmocka_unit_test(test_cgroup_limits), cmocka_unit_test(test_address_space_limit),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests_name("base.memory_limit", tests, NULL, NULL);
}
