/* Models that an earlier version saved classify, match and translate texts with the same bits: probabilities, losses,
 * translations and their scores. */
#include "results.h"

static bo_status compute(bo_context *context, const bo_model *model, const char *directory, frozen *out)
{
    if (strcmp(directory, "translate") == 0) return frozen_translations(context, model, out);
    return frozen_labels(context, model, strcmp(directory, "match") == 0, out);
}

static int check(const char *directory, const char *name)
{
    char path[1024];
    int wrong = 0;
    frozen *expected = frozen_expected(directory, name), *found = calloc(1, sizeof *found);
    frozen_path(path, directory, name, ".safetensors");
    for (int threads = 1; threads <= 2; threads++) {
        bo_context *context = frozen_context(threads);
        bo_model *model;
        found->size = 0;
        if (frozen_done(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model), path) &&
            frozen_done(context, compute(context, model, directory, found), path))
            wrong += found->size != expected->size || frozen_differ(directory, name, "results", expected, found);
        else
            wrong++;
        bo_model_destroy(model);
        bo_context_destroy(context);
    }
    free(expected);
    free(found);
    return wrong;
}

static void expect_all(const char *directory, size_t count)
{
    int wrong = 0;
    assert_int_equal(frozen_each(directory, check, &wrong), count);
    assert_int_equal(wrong, 0);
}

static void labels(void **state)
{
    (void)state;
    expect_all("classify", 7);
}

static void matches(void **state)
{
    (void)state;
    expect_all("match", 2);
}

static void translations(void **state)
{
    (void)state;
    expect_all("translate", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels),
        cmocka_unit_test(matches),
        cmocka_unit_test(translations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
