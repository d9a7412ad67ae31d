/* Compares the results of a model with the results of an earlier version. */
#ifndef BO_TEST_FROZEN_RESULTS_H
#define BO_TEST_FROZEN_RESULTS_H

#include <dirent.h>
#include "testing.h"
#include "frozen.h"

static inline void frozen_path(char path[1024], const char *directory, const char *name, const char *ending)
{
    const char *source = getenv("BOCHNER_SOURCE");
    if (!source) fail_msg("BOCHNER_SOURCE is not set");
    snprintf(path, 1024, "%s/tests/frozen/d78e7484/%s/%s%s", source, directory, name, ending);
}

static inline bool frozen_exists(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

static inline frozen *frozen_expected(const char *directory, const char *name)
{
    char path[1024];
    frozen *out = calloc(1, sizeof *out);
    frozen_path(path, directory, name, ".expected");
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    out->size = fread(out->bytes, 1, sizeof out->bytes, file);
    fclose(file);
    return out;
}

/* The call succeeded, or its error is printed, so that one test lists all models that fail. */
static inline bool frozen_done(bo_context *context, bo_status status, const char *path)
{
    if (status != BO_OK) print_message("%s: %s: %s\n", path, bo_status_string(status), bo_context_error(context));
    return status == BO_OK;
}

/* Checks that the last bytes of `expected` equal `found`, and prints the first number that differs. The plain C kernels
 * sum in a fixed order without fused multiply-add, so that the bits do not depend on the processor. */
static inline int frozen_differ(const char *directory, const char *name, const char *what, const frozen *expected,
                                const frozen *found)
{
    if (found->size > expected->size || !found->size) {
        print_message("%s/%s, %s: %zu bytes, expected %zu\n", directory, name, what, found->size, expected->size);
        return 1;
    }
    const char *reference = expected->bytes + expected->size - found->size;
    for (size_t i = 0; i < found->size; i += sizeof(float)) {
        float a, b;
        memcpy(&a, found->bytes + i, sizeof a);
        memcpy(&b, reference + i, sizeof b);
        if (memcmp(&a, &b, sizeof a) == 0) continue;
        print_message("%s/%s, %s: number %zu of %zu is %.9g, expected %.9g\n", directory, name, what, i / sizeof a,
                      found->size / sizeof a, (double)a, (double)b);
        return 1;
    }
    return 0;
}

/* Calls `check` for every NAME.expected of the directory; returns their number. */
static inline size_t frozen_each(const char *directory, int (*check)(const char *directory, const char *name),
                                 int *wrong)
{
    char path[1024];
    size_t count = 0;
    frozen_path(path, directory, "", "");
    DIR *entries = opendir(path);
    if (!entries) fail_msg("%s cannot be opened", path);
    for (const struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        char name[256];
        char *end;
        snprintf(name, sizeof name, "%.255s", entry->d_name);
        end = strstr(name, ".expected");
        if (!end) continue;
        *end = 0;
        *wrong += check(directory, name);
        count++;
    }
    closedir(entries);
    return count;
}

#endif
