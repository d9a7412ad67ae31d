/* The time of loading grows in proportion to the file: a file with four times as many entries takes about four times as
 * long, and not sixteen times, as it would if every entry were compared with all others. */
#include "files.h"
#include "io/tensors.h"
#include <time.h>

/* A file with n entries of one kind, and the function that loads it. */
typedef struct loader {
    const char *name;
    size_t n;
    void (*make)(FILE *out, size_t n);
    bo_status (*load)(bo_context *context, const char *bytes, size_t size);
} loader;

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

/* `header` is the header of a file without data. */
static bo_status load_tensors(bo_context *context, const char *header, size_t size)
{
    bo_tensors *file;
    char *bytes = malloc(8 + size);
    for (int i = 0; i < 8; i++) bytes[i] = (char)((uint64_t)size >> 8 * i);
    memcpy(bytes + 8, header, size);
    const bo_status status = bo_tensors_open_memory(context, "test", bytes, 8 + size, &file);
    bo_tensors_close(file);
    free(bytes);
    return status;
}

static void make_tensors(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s\"t%zu\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i);
    fputs("}", out);
}

static void make_metadata(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"k%zu\":\"v\"", i ? "," : "{\"__metadata__\":{", i);
    fputs("}}", out);
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

/* Other processes do not count in the time of the thread; the cache and the clock of the core do, hence the minimum. */
static double measure(bo_context *context, const loader *from, size_t n)
{
    enum { TIMES = 3 };
    char *bytes;
    size_t size;
    FILE *out = open_memstream(&bytes, &size);
    from->make(out, n);
    fclose(out);
    double least = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        assert_ok(context, from->load(context, bytes, size));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        least = fmin(least, (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
        if (least > 1) break;
    }
    free(bytes);
    return least;
}

/* n log n, and a cache that is too small for the larger file, take less than eight times as long. The sizes are such
 * that comparing all pairs of 4n entries takes seconds. */
static void linear_time(void **state)
{
    enum { MOST_RATIO = 8 };
    const double floor = 0.05; /* seconds */
    test_folder *f = *state;
    static const loader loaders[] = {
        {"tensors of a safetensors file", 5000, make_tensors, load_tensors},
        {"metadata of a safetensors file", 10000, make_metadata, load_tensors},
    };
    int slow = 0;
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        const size_t n = loaders[i].n;
        const double small = measure(f->context, &loaders[i], n), large = measure(f->context, &loaders[i], 4 * n);
        const bool fine = large < MOST_RATIO * small + floor;
        printf("%-40s %8zu: %6.1f ms %8zu: %7.1f ms%s\n", loaders[i].name, n, 1e3 * small, 4 * n, 1e3 * large,
               fine ? "" : "  too slow");
        slow += !fine;
    }
    assert_int_equal(slow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linear_time)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
