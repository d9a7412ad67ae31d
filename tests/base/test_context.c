/* The context: kernels chosen by name, messages, log, progress. */
#include "testing.h"
#include "base/base.h"
#include "device/cpu/kernels.h"

/* ---- choice of kernels ------------------------------------------------------------------------------------------- */

static void test_defaults(void **state)
{
    (void)state;
    unsetenv("BOCHNER_ISA");
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(NULL, &context), BO_OK);
    assert_true(bo_context_describe(context)->threads >= 1);
    const char *isa = bo_context_describe(context)->isa;
    assert_non_null(bo_kernels_find(isa));
    assert_string_equal(bo_kernels_find(isa)->isa, isa);
    assert_string_equal(bo_context_error(context), "");
    assert_non_null(bo_context_kernels(context));
    bo_context_destroy(context);
    bo_context_destroy(NULL);
}

static void test_isa_by_name(void **state)
{
    (void)state;
    unsetenv("BOCHNER_ISA");
    bo_context_desc desc = {.threads = 3, .isa = "ref"};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    assert_string_equal(bo_context_describe(context)->isa, "ref");
    assert_int_equal(bo_context_describe(context)->threads, 3);
    bo_context_destroy(context);
}

static void test_isa_by_environment(void **state)
{
    (void)state;
    bo_context *context = NULL;
    setenv("BOCHNER_ISA", "ref", 1);
    assert_int_equal(bo_context_create(NULL, &context), BO_OK);
    assert_string_equal(bo_context_describe(context)->isa, "ref");
    bo_context_destroy(context);

    setenv("BOCHNER_ISA", "", 1); /* empty means unset */
    assert_int_equal(bo_context_create(NULL, &context), BO_OK);
    bo_context_destroy(context);

    setenv("BOCHNER_ISA", "no such thing", 1); /* the descriptor has precedence */
    bo_context_desc desc = {.isa = "ref"};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    bo_context_destroy(context);
    assert_int_equal(bo_context_create(NULL, &context), BO_UNSUPPORTED);
    assert_null(context);
    unsetenv("BOCHNER_ISA");
}

/* Each element of `reserved` of a descriptor is checked. */
static void test_reserved_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        bo_context *context = (bo_context *)&i;
        bo_context_desc desc = {.threads = 1};
        desc.reserved[i] = UINT64_C(1) << 63;
        assert_int_equal(bo_context_create(&desc, &context), BO_INVALID);
        assert_null(context);
        assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1}, &context), BO_OK);
        assert_int_equal(bo_check_reserved(context, "bo_context_desc", (uint64_t[4]){0}), BO_OK);
        assert_fails(context, BO_INVALID, "bo_context_desc: its reserved members",
                     bo_check_reserved(context, "bo_context_desc", desc.reserved));
        bo_context_destroy(context);
    }
}

static void test_unknown_isa(void **state)
{
    (void)state;
    static const char *const names[] = {"avx1024", "AVX2", "re", "reference", " ref"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bo_context_desc desc = {.isa = names[i]};
        bo_context *context = (bo_context *)&desc;
        assert_int_equal(bo_context_create(&desc, &context), BO_UNSUPPORTED);
        assert_null(context);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void test_messages(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_int_equal(bo_fail(context, BO_FORMAT, "line %d: %s", 7, "ragged"), BO_FORMAT);
    assert_string_equal(bo_context_error(context), "line 7: ragged");
    /* the previous message as an argument of the new one */
    bo_fail(context, BO_IO, "while reading: %s", bo_context_error(context));
    assert_string_equal(bo_context_error(context), "while reading: line 7: ragged");
    char *endless = malloc(100000);
    memset(endless, 'x', 99999);
    endless[99999] = 0;
    bo_fail(context, BO_IO, "%s", endless);
    size_t length = strlen(bo_context_error(context));
    assert_true(length > 100 && length < 99999);
    free(endless);
    bo_context_destroy(context);
}

typedef struct rows {
    const float *x;
    size_t count;
} rows;

static bo_status require_rows(bo_context *context, const char *name, const rows *desc)
{
    BO_REQUIRE(context, name, desc);
    BO_REQUIRE_IF(context, desc->count > 0, desc->x);
    return BO_OK;
}

/* The message names the function and the argument, and an empty array may be NULL. */
static void test_null_arguments(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_ok(context, require_rows(context, "a", &(rows){NULL, 0}));
    assert_fails(context, BO_INVALID, "require_rows: argument 'name' is NULL", require_rows(context, NULL, NULL));
    assert_fails(context, BO_INVALID, "require_rows: argument 'desc' is NULL", require_rows(context, "a", NULL));
    assert_fails(context, BO_INVALID, "require_rows: argument 'desc->x' is NULL",
                 require_rows(context, "a", &(rows){NULL, 2}));
    assert_int_equal(require_rows(NULL, "a", NULL), BO_INVALID);
    bo_context_destroy(context);
}

static void test_status_strings(void **state)
{
    (void)state;
    for (int i = 0; i <= 8; i++) {
        assert_non_null(bo_status_string((bo_status)i));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(bo_status_string((bo_status)i), bo_status_string((bo_status)j));
    }
    assert_string_equal(bo_status_string((bo_status)1000), "unknown status");
    assert_string_equal(bo_version(), BO_VERSION_STRING);
    char numbers[32];
    snprintf(numbers, sizeof numbers, "%d.%d.%d", BO_VERSION_MAJOR, BO_VERSION_MINOR, BO_VERSION_PATCH);
    assert_string_equal(numbers, BO_VERSION_STRING);
}

/* ---- log and progress -------------------------------------------------------------------------------------------- */

typedef struct events {
    char message[256];
    bo_log_level level;
    double done, total;
    int calls;
    bool go_on;
} events;

static void record_log(void *user, bo_log_level level, const char *message)
{
    events *h = user;
    h->level = level;
    h->calls++;
    snprintf(h->message, sizeof h->message, "%s", message);
}

static bool record_progress(void *user, const char *what, double done, double total)
{
    events *h = user;
    h->done = done;
    h->total = total;
    snprintf(h->message, sizeof h->message, "%s", what);
    return h->go_on;
}

static void test_log_and_progress(void **state)
{
    (void)state;
    events h = {.go_on = true};
    bo_context_desc desc = {.threads = 1, .log = record_log, .progress = record_progress, .user = &h};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    bo_log(context, BO_LOG_WARNING, "%d columns", 3);
    assert_string_equal(h.message, "3 columns");
    assert_int_equal(h.level, BO_LOG_WARNING);
    assert_ok(context, bo_progress(context, "fitting", 3, 10));
    assert_string_equal(h.message, "fitting");
    assert_true(h.done == 3 && h.total == 10);
    h.go_on = false;
    assert_fails(context, BO_CANCELED, "fitting", bo_progress(context, "fitting", 4, 10));
    bo_context_destroy(context);

    context = test_context(1); /* without callbacks nothing is called */
    bo_log(context, BO_LOG_INFO, "unheard");
    assert_ok(context, bo_progress(context, "unseen", 1, 2));
    bo_context_destroy(context);
}

static void test_clock(void **state)
{
    (void)state;
    double before = bo_seconds(), now = before;
    for (int i = 0; i < 1000; i++) {
        double next = bo_seconds();
        assert_true(next >= now);
        now = next;
    }
    assert_true(now - before < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),           cmocka_unit_test(test_isa_by_name),
        cmocka_unit_test(test_isa_by_environment), cmocka_unit_test(test_reserved_words),
        cmocka_unit_test(test_unknown_isa),        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_null_arguments),     cmocka_unit_test(test_status_strings),
        cmocka_unit_test(test_log_and_progress),   cmocka_unit_test(test_clock),
    };
    return cmocka_run_group_tests_name("base.context", tests, NULL, NULL);
}
