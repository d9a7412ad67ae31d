/* Models and maps that another program saved without a schema: columns have no names, and classes are numbers. */
#include "io/output.h"
#include "program.h"
#include <bochner/bochner.h>

enum { ROWS = 60, DIM = 2, CLASSES = 3 };

/* Rows of class c are near (4c, -4c), far enough apart that every prediction is right. */
static void make_rows(float *x, double *y)
{
    for (size_t i = 0; i < ROWS; i++) {
        size_t c = i % CLASSES;
        x[DIM * i] = 4.0f * (float)c + 0.01f * (float)(i % 7);
        x[DIM * i + 1] = -4.0f * (float)c + 0.02f * (float)(i % 5);
        y[i] = (double)c;
    }
}

static int make_models(void **state)
{
    char *directory = strdup("/tmp/bochner-bare-XXXXXX"), path[256];
    if (!mkdtemp(directory)) return -1;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    double y[ROWS];
    make_rows(x, y);
    snprintf(path, sizeof path, "%s/rows.npy", directory);
    assert_ok(context, bo_npy_save_f32(context, path, ROWS, DIM, x));
    snprintf(path, sizeof path, "%s/rows.csv", directory);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < ROWS; i++) fprintf(file, "%g,%g\n", (double)x[DIM * i], (double)x[DIM * i + 1]);
    fclose(file);
    bo_machine_desc desc = {.features = {.features = 64, .gamma = 0.5}, .lambda = 0.01};
    for (size_t classes = 0; classes <= CLASSES; classes += CLASSES) {
        bo_samples samples = {.rows = ROWS, .dim = DIM, .targets = 1, .x = x, .y = y, .classes = classes};
        bo_machine *machine = NULL;
        assert_ok(context, bo_machine_fit(context, &desc, &samples, &machine));
        snprintf(path, sizeof path, "%s/%s.model", directory, classes ? "classes" : "numbers");
        assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.path = path}));
        bo_machine_destroy(machine);
    }
    bo_context_destroy(context);
    *state = directory;
    return 0;
}

static char *printed(const char *directory, bool succeeds, const char *arguments)
{
    return program_prints(directory, succeeds ? 0 : 1, arguments, NULL);
}

static void expect_text(const char *directory, const char *arguments, const char *expected)
{
    char *text = printed(directory, true, arguments);
    if (strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("bochner %s prints '%.100s', expected '%s'", arguments, text, expected);
    free(text);
}

static void classes_without_names_are_numbers(void **state)
{
    expect_text(*state, "predict classes.model rows.csv", "prediction\n0\n1\n2\n0\n");
    expect_text(*state, "predict classes.model rows.npy", "prediction\n0\n1\n2\n0\n");
    expect_text(*state, "predict classes.model rows.csv --proba", "prediction,0,1,2\n0,");
    char *text = printed(*state, true, "predict classes.model rows.csv --json --proba");
    assert_non_null(strstr(text, "\"0\""));
    assert_non_null(strstr(text, "\"2\""));
    free(text);
}

static void classes_without_names_go_into_an_array(void **state)
{
    free(printed(*state, true, "predict classes.model rows.csv --out predicted.npy"));
    char path[256];
    snprintf(path, sizeof path, "%s/predicted.npy", (char *)*state);
    bo_context *context = test_context(1);
    bo_data_desc desc = {.path = path, .no_target = true};
    bo_data *data = NULL;
    assert_ok(context, bo_data_load(context, &desc, NULL, &data));
    assert_int_equal(data->rows, ROWS);
    for (size_t i = 0; i < ROWS; i++) assert_close((double)data->x[i], (double)(i % CLASSES), 0);
    bo_data_destroy(data);
    bo_context_destroy(context);
}

static void numbers_and_info_need_no_names(void **state)
{
    expect_text(*state, "predict numbers.model rows.csv --std", "mean,std,low95,high95\n");
    free(printed(*state, true, "info classes.model"));
    free(printed(*state, true, "info classes.model --json"));
    free(printed(*state, true, "info numbers.model"));
    char *text = printed(*state, false, "predict classes.model rows.csv --plot picture.svg");
    assert_non_null(strstr(text, "the target column, which the plot needs"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_without_names_are_numbers),
        cmocka_unit_test(classes_without_names_go_into_an_array),
        cmocka_unit_test(numbers_and_info_need_no_names),
    };
    return cmocka_run_group_tests(tests, make_models, remove_directory);
}
