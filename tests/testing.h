/* What every test program starts with: CMocka in its required order, a context, and how close two numbers are. */
#ifndef BO_TESTING_H
#define BO_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <bochner/devices.h>
#include "base/enums.h"
#include "base/base.h"
#include "base/rng.h"

/* The precision of test_context: FLOAT32, unless a test is repeated with BOCHNER_TEST_PRECISION=bfloat16. */
static inline bo_precision test_precision(void)
{
    bo_precision precision = BO_PRECISION_FLOAT32;
    const char *name = getenv("BOCHNER_TEST_PRECISION");
    if (name && !bo_precision_parse(name, &precision)) fail_msg("unknown precision %s", name);
    return precision;
}

/* A context with this many threads (0: default), or the test fails. Models of it are on the CPU, unless a test is
 * repeated with BOCHNER_TEST_CONTEXTS=cuda. */
static inline bo_context *test_context(int threads)
{
    bo_context_desc desc = {.threads = threads, .precision = test_precision()};
    bo_context *context = NULL;
    const char *device = getenv("BOCHNER_TEST_CONTEXTS");
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    if (device && bo_context_use_device(context, device) != BO_OK) fail_msg("%s", bo_context_error(context));
    return context;
}

#define assert_ok(context, expression)                                                                                 \
    do {                                                                                                               \
        bo_status status_ = (expression);                                                                              \
        if (status_ != BO_OK) fail_msg("%s: %s", bo_status_string(status_), bo_context_error(context));                \
    } while (0)

/* The call fails with this status and its message contains `text`. */
#define assert_fails(context, expected, text, expression)                                                              \
    do {                                                                                                               \
        bo_status status_ = (expression);                                                                              \
        assert_int_equal(status_, expected);                                                                           \
        if (!strstr(bo_context_error(context), text))                                                                  \
            fail_msg("message '%s' lacks '%s'", bo_context_error(context), text);                                      \
    } while (0)

#define assert_close(actual, expected, tolerance)                                                                      \
    do {                                                                                                               \
        double actual_ = (actual), expected_ = (expected), tolerance_ = (tolerance);                                   \
        if (!(fabs(actual_ - expected_) <= tolerance_))                                                                \
            fail_msg("%s = %.9g, expected %.9g within %.3g", #actual, actual_, expected_, tolerance_);                 \
    } while (0)

/* The file consists of these bytes. */
static inline void assert_file_equal(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    char *found = malloc(size + 1);
    const size_t count = fread(found, 1, size + 1, file);
    fclose(file);
    assert_int_equal(count, size);
    assert_memory_equal(found, bytes, size);
    free(found);
}

#endif
