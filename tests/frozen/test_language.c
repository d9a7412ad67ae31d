/* Language models that an earlier version saved load, and compute the same bits: losses, logits of a text, logits
 * token by token, and after a saved state. */
#include "results.h"

static void path_of(const char *directory, const char *name, char path[1024])
{
    frozen_path(path, directory, name, ".safetensors");
    if (strcmp(directory, "families") == 0)
        snprintf(path, 1024, "%s/tests/data/families/%s", getenv("BOCHNER_SOURCE"), name);
    else if (!frozen_exists(path))
        frozen_path(path, directory, name, "");
}

/* Returns the number of results that differ. */
static int compare(bo_context *context, const bo_model *model, const char *directory, const char *name, frozen *found)
{
    char state[1024];
    int wrong = 0;
    frozen *expected = frozen_expected(directory, name);
    const size_t vocab = frozen_vocab(expected->size);
    frozen_path(state, directory, name, ".state");
    found->size = 0;
    if (frozen_done(context, frozen_language(context, model, vocab, NULL, found), name)) {
        assert_int_equal(found->size, expected->size);
        wrong += frozen_differ(directory, name, "numbers", expected, found);
    } else
        wrong++;
    if (frozen_exists(state)) {
        found->size = 0;
        if (frozen_done(context, frozen_continue(context, model, vocab, state, found), state))
            wrong += frozen_differ(directory, name, "numbers after a saved state", expected, found);
        else
            wrong++;
    }
    free(expected);
    return wrong;
}

static int check(const char *directory, const char *name)
{
    char path[1024];
    int wrong = 0;
    frozen *found = calloc(1, sizeof *found);
    path_of(directory, name, path);
    for (int threads = 1; threads <= 2; threads++) {
        bo_context *context = frozen_context(threads);
        bo_model *model;
        wrong += frozen_done(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model), path)
                     ? compare(context, model, directory, name, found)
                     : 1;
        bo_model_destroy(model);
        bo_context_destroy(context);
    }
    free(found);
    return wrong;
}

static void models(void **state)
{
    (void)state;
    int wrong = 0;
    assert_int_equal(frozen_each("language", check, &wrong), 109);
    assert_int_equal(wrong, 0);
}

/* Files of transformers, which tests/model compares with the logits of transformers. */
static void families(void **state)
{
    (void)state;
    int wrong = 0;
    assert_int_equal(frozen_each("families", check, &wrong), 26);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
