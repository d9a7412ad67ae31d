/* Folds of rows: sizes, classes and groups. */
#include "base/rng.h"
#include "base/counting.h"
#include <bochner/data.h>

enum { ROWS = 1003, FOLDS = 7, CLASSES = 3, GROUPS = 60 };

typedef struct table {
    double classes[ROWS];
    uint64_t groups[ROWS];
    size_t folds[ROWS];
} table;

/* Groups of uneven sizes and arbitrary numbers; rare classes; the class depends on the group. */
static void fill(table *t)
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.folds", 0));
    for (size_t i = 0; i < ROWS; i++) {
        const double u = 0.2 + 0.8 * bo_rng_uniform(&rng);
        const uint64_t group = (uint64_t)(u * u * GROUPS);
        t->groups[i] = bo_hash(5, group);
        t->classes[i] = bo_rng_uniform(&rng) < 0.05 ? 2 : (double)(group % 2);
    }
}

static void count(const table *t, size_t counts[FOLDS][CLASSES + 1])
{
    memset(counts, 0, sizeof(size_t) * FOLDS * (CLASSES + 1));
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(t->folds[i] < FOLDS);
        counts[t->folds[i]][(size_t)t->classes[i]]++;
        counts[t->folds[i]][CLASSES]++;
    }
}

static void test_classes(void **state)
{
    (void)state;
    static table t, other;
    bo_context *context = test_context(1);
    fill(&t);
    size_t counts[FOLDS][CLASSES + 1];
    assert_ok(context, bo_split_folds(context, &(bo_folds_desc){.folds = FOLDS, .seed = 3, .classes = t.classes}, ROWS,
                                      t.folds));
    count(&t, counts);
    for (size_t c = 0; c <= CLASSES; c++)
        for (size_t f = 0; f < FOLDS; f++)
            for (size_t g = 0; g < FOLDS; g++) assert_true(counts[f][c] <= counts[g][c] + 1);
    /* without classes the sizes are even, and another seed gives other folds: rows agree with probability 1/7 */
    size_t same = 0;
    assert_ok(context, bo_split_folds(context, &(bo_folds_desc){.folds = FOLDS, .seed = 3}, ROWS, t.folds));
    assert_ok(context, bo_split_folds(context, &(bo_folds_desc){.folds = FOLDS, .seed = 4}, ROWS, other.folds));
    count(&t, counts);
    for (size_t f = 0; f < FOLDS; f++) assert_true(counts[f][CLASSES] == ROWS / FOLDS + (f < ROWS % FOLDS));
    for (size_t i = 0; i < ROWS; i++) same += t.folds[i] == other.folds[i];
    assert_close((double)same, ROWS / 7.0, 5 * sqrt(ROWS * 6.0 / 49));
    bo_context_destroy(context);
}

/* No group is in two folds. The classes follow the groups, of which each has at most about 40 rows. A fold has 1/7 of
 * the rows of a class, about 70, and the last groups are the smallest, with about 10 rows: the folds are within a
 * quarter of even shares. */
static void test_groups(void **state)
{
    (void)state;
    static table t;
    bo_context *context = test_context(1);
    fill(&t);
    size_t counts[FOLDS][CLASSES + 1];
    const bo_folds_desc desc = {.folds = FOLDS, .seed = 3, .classes = t.classes, .groups = t.groups};
    assert_ok(context, bo_split_folds(context, &desc, ROWS, t.folds));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < i; j++) assert_true(t.groups[i] != t.groups[j] || t.folds[i] == t.folds[j]);
    count(&t, counts);
    size_t all[CLASSES + 1] = {0};
    for (size_t f = 0; f < FOLDS; f++)
        for (size_t c = 0; c <= CLASSES; c++) all[c] += counts[f][c];
    for (size_t f = 0; f < FOLDS; f++)
        for (size_t c = 0; c <= CLASSES; c++)
            if (c != 2) assert_close((double)counts[f][c] * FOLDS / (double)all[c], 1, 0.25);
    bo_context_destroy(context);
}

typedef struct job {
    bo_context *context;
    table *t;
} job;

static bo_status assign(void *what)
{
    const job *j = what;
    const bo_folds_desc desc = {.folds = FOLDS, .classes = j->t->classes, .groups = j->t->groups};
    return bo_split_folds(j->context, &desc, ROWS, j->t->folds);
}

static void test_memory(void **state)
{
    (void)state;
    static table t;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    fill(&t);
    job j = {context, &t};
    counting_inject(&(injection){&c, context, assign, &j, .all = 100, .stride = 1});
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double wrong[][2] = {{0, -1}, {0.5, 0}, {0, (double)NAN}, {1e300, 0}};
    const uint64_t groups[] = {7, 7};
    size_t folds[2];
    assert_fails(context, BO_INVALID, "expected 2 to 2 folds, the number of rows, found 1",
                 bo_split_folds(context, &(bo_folds_desc){.folds = 1}, 2, folds));
    assert_fails(context, BO_INVALID, "expected 2 to 2 folds, the number of rows, found 3",
                 bo_split_folds(context, &(bo_folds_desc){.folds = 3}, 2, folds));
    assert_fails(context, BO_INVALID, "as many groups as folds, found 1 and 2",
                 bo_split_folds(context, &(bo_folds_desc){.folds = 2, .groups = groups}, 2, folds));
    for (size_t i = 0; i < 4; i++)
        assert_fails(context, BO_INVALID, "expected a class index",
                     bo_split_folds(context, &(bo_folds_desc){.folds = 2, .classes = wrong[i]}, 2, folds));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("io.folds", tests, NULL, NULL);
}
