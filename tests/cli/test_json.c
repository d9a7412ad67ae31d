/* The output with --json is one JSON object, read by an independent parser, with the documented fields. */
#include <stdlib.h>
#include "testing.h"
#include "cli/common/json.h"
#include "io/json_tree.h"
#include <sys/wait.h>
#include <unistd.h>

/* ---- the writer -------------------------------------------------------------------------------------------------- */

static bo_json *written(void (*write)(cli_json *json))
{
    char *text = NULL;
    size_t size = 0;
    cli_json json = {.out = open_memstream(&text, &size)};
    write(&json);
    fclose(json.out);
    bo_json *parsed = bo_json_read(text, strlen(text), NULL);
    if (!parsed) fail_msg("not JSON: %s", text);
    free(text);
    return parsed;
}

static void write_special_texts(cli_json *json)
{
    cli_json_object(json, NULL);
    cli_json_add_text(json, "escapes", "a\"b\\c\nd\te\x01\x7f");
    cli_json_add_text(json, "utf8", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xb2");
    cli_json_add_text(json, "not utf8", "x\xff\xc3(\xed\xa0\x80\xc0\xafy");
    cli_json_add_text(json, "none", NULL);
    cli_json_add_text(json, "a \"key\"", "");
    cli_json_end(json);
}

static const char *text_of(const bo_json *object, const char *key)
{
    return bo_json_text_or_null(bo_json_member(object, key));
}

static void texts_survive(void **state)
{
    (void)state;
    bo_json *json = written(write_special_texts);
    assert_string_equal(text_of(json, "escapes"), "a\"b\\c\nd\te\x01\x7f");
    assert_string_equal(text_of(json, "utf8"), "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xb2");
    const char *repaired = text_of(json, "not utf8");
    assert_true(repaired[0] == 'x' && repaired[strlen(repaired) - 1] == 'y');
    assert_non_null(strstr(repaired, "\xef\xbf\xbd")); /* the replacement character */
    assert_true(bo_json_is(bo_json_member(json, "none"), BO_JSON_NULL));
    assert_string_equal(text_of(json, "a \"key\""), "");
    bo_json_delete(json);
}

/* More levels than allowed, and more ends than levels. */
static void write_deep(cli_json *json)
{
    enum { DEEP = CLI_JSON_DEPTH + 3 };
    for (int i = 0; i < DEEP; i++) cli_json_object(json, i ? "deeper" : NULL);
    cli_json_add_text(json, "text", "left out");
    cli_json_add_number(json, "number", 1);
    cli_json_add_count(json, "count", 1);
    cli_json_add_flag(json, "flag", true);
    for (int i = 0; i < DEEP - 1; i++) cli_json_end(json);
    cli_json_add_count(json, "after", 7);
    for (int i = 0; i < 3; i++) cli_json_end(json);
    assert_true(json->depth == 0 && json->left_out == 0);
}

static void too_deep_is_null(void **state)
{
    (void)state;
    bo_json *json = written(write_deep);
    const bo_json *level = json;
    for (int i = 1; i < CLI_JSON_DEPTH; i++) level = bo_json_member(level, "deeper");
    assert_int_equal(bo_json_count(level), 1);
    assert_true(bo_json_is(bo_json_member(level, "deeper"), BO_JSON_NULL));
    assert_int_equal(
        (bo_json_is(bo_json_member(json, "after"), BO_JSON_NUMBER) ? bo_json_member(json, "after")->number : NAN), 7);
    bo_json_delete(json);
}

static void write_numbers(cli_json *json)
{
    cli_json_object(json, NULL);
    cli_json_array(json, "numbers");
    const double values[] = {0.1, 1.0 / 3, -1e-300, 1e308, 123456789.125, 5e-324, 0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) cli_json_add_number(json, NULL, values[i]);
    cli_json_add_number(json, NULL, (double)NAN);
    cli_json_add_number(json, NULL, (double)INFINITY);
    cli_json_end(json);
    cli_json_array(json, "empty");
    cli_json_end(json);
    cli_json_object(json, "inner");
    cli_json_add_count(json, "count", 60000);
    cli_json_add_flag(json, "yes", true);
    cli_json_array(json, "objects");
    cli_json_object(json, NULL);
    cli_json_add_flag(json, "no", false);
    cli_json_end(json);
    cli_json_end(json);
    cli_json_end(json);
    cli_json_end(json);
}

static void numbers_survive(void **state)
{
    (void)state;
    bo_json *json = written(write_numbers), *numbers = bo_json_member(json, "numbers");
    const double values[] = {0.1, 1.0 / 3, -1e-300, 1e308, 123456789.125, 5e-324, 0};
    for (int i = 0; i < 7; i++)
        assert_true((bo_json_is(bo_json_at(numbers, i), BO_JSON_NUMBER) ? bo_json_at(numbers, i)->number : NAN) ==
                    values[i]); /* exact to the last bit */
    assert_true(bo_json_is(bo_json_at(numbers, 7), BO_JSON_NULL));
    assert_true(bo_json_is(bo_json_at(numbers, 8), BO_JSON_NULL));
    assert_int_equal(bo_json_count(bo_json_member(json, "empty")), 0);
    bo_json *inner = bo_json_member(json, "inner");
    assert_close(
        (bo_json_is(bo_json_member(inner, "count"), BO_JSON_NUMBER) ? bo_json_member(inner, "count")->number : NAN),
        60000, 0);
    assert_true(bo_json_is(bo_json_member(inner, "yes"), BO_JSON_TRUE));
    bo_json_delete(json);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static bo_json *run(const char *directory, const char *arguments)
{
    const char *program = getenv("BOCHNER");
    if (!program) skip();
    char command[1024];
    snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>/dev/null", directory, program, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    enum { CAPACITY = 1 << 20 };
    char *text = calloc(CAPACITY, 1);
    size_t length = fread(text, 1, CAPACITY - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    const char *end = NULL;
    bo_json *json = bo_json_read(text, length + 1, &end); /* nothing may follow the object */
    if (!json || !bo_json_is(json, BO_JSON_OBJECT)) fail_msg("%s: not one JSON object: %.300s", arguments, text);
    free(text);
    return json;
}

static double number(const bo_json *json, const char *key)
{
    const bo_json *item = bo_json_member(json, key);
    if (!bo_json_is(item, BO_JSON_NUMBER)) fail_msg("no number %s", key);
    return item->number;
}

static void has(const bo_json *json, const char *const *keys)
{
    for (; *keys; keys++)
        if (!bo_json_member(json, *keys)) fail_msg("the field %s is missing", *keys);
}

static int make_directory(void **state)
{
    char *directory = strdup("/tmp/bochner-json-XXXXXX"), path[256];
    if (!mkdtemp(directory)) return -1;
    snprintf(path, sizeof path, "%s/waves.csv", directory);
    FILE *file = fopen(path, "w");
    fputs("a,b,y\n", file);
    for (int i = 0; i < 200; i++) fprintf(file, "%.4f,%.4f,%.4f\n", i * 0.031, i * i % 17 * 0.1, sin(i * 0.1) + i % 3);
    fclose(file);
    snprintf(path, sizeof path, "%s/kinds.csv", directory);
    file = fopen(path, "w");
    fputs("a,b,kind\n", file);
    for (int i = 0; i < 200; i++)
        fprintf(file, "%.4f,%d,\"%s\"\n", i % 2 + 0.001 * i, i % 7, i % 2 ? "say \"\"hi\"\"" : "caf\xe9");
    fclose(file);
    *state = directory;
    return 0;
}

static int remove_directory(void **state)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    int status = system(command);
    free(*state);
    return status;
}

static const char *const model_fields[] = {"task",
                                           "rows",
                                           "dim",
                                           "features",
                                           "kernel",
                                           "gamma",
                                           "lambda",
                                           "solver",
                                           "fit_seconds",
                                           "search_seconds",
                                           "accuracy_statement",
                                           NULL};

static void regression_has_its_fields(void **state)
{
    bo_json *json = run(*state, "fit waves.csv --holdout 0.3 --features 128 --out waves.model --json");
    has(json, model_fields);
    assert_string_equal(text_of(json, "task"), "regression");
    assert_close(number(json, "dim"), 2, 0);
    assert_close(number(json, "features"), 128, 0);
    const bo_json *test = bo_json_member(json, "test");
    has(test, (const char *const[]){"rmse", "r2", "coverage_95", "rows", NULL});
    assert_false(bo_json_member(test, "accuracy") != NULL);
    assert_close(number(json, "rows") + number(test, "rows"), 200, 0);
    bo_json_delete(json);

    json = run(*state, "predict waves.model waves.csv --std --json");
    const bo_json *predictions = bo_json_member(json, "predictions");
    assert_int_equal(bo_json_count(predictions), 200);
    assert_int_equal(bo_json_count(bo_json_at(predictions, 0)), 4);
    assert_int_equal(bo_json_count(bo_json_member(json, "columns")), 4);
    assert_true(number(bo_json_member(json, "test"), "rmse") >= 0);
    bo_json_delete(json);

    json = run(*state, "predict waves.model waves.csv --json --out waves_predicted.csv");
    assert_string_equal(text_of(json, "out"), "waves_predicted.csv");
    assert_false(bo_json_member(json, "predictions") != NULL);
    bo_json_delete(json);
}

static void classification_has_its_fields(void **state)
{
    bo_json *json = run(*state, "fit kinds.csv --holdout 0.3 --features 128 --out kinds.model --json");
    has(json, model_fields);
    assert_string_equal(text_of(json, "task"), "classification");
    const bo_json *test = bo_json_member(json, "test");
    has(test, (const char *const[]){"accuracy", "log_loss", "classes", "confusion", NULL});
    assert_false(bo_json_member(test, "rmse") != NULL);
    double counted = 0;
    const bo_json *line, *cell;
    BO_JSON_EACH(line, bo_json_member(test, "confusion"))
    {
        BO_JSON_EACH(cell, line) counted += cell->number;
    }
    assert_close(counted, number(test, "rows"), 0);
    bo_json_delete(json);

    json = run(*state, "predict kinds.model kinds.csv --proba --json");
    const bo_json *row = bo_json_at(bo_json_member(json, "predictions"), 1);
    assert_int_equal(bo_json_count(row), 3);
    assert_string_equal(bo_json_text_or_null(bo_json_at(row, 0)), "say \"hi\"");
    bo_json_delete(json);
    bo_json_delete(run(*state, "info kinds.model --json"));
}

static void other_commands_print_one_object(void **state)
{
    bo_json_delete(run(*state, "version --json"));
    bo_json *json = run(*state, "features waves.csv --features 64 --error --out z.npy --json");
    assert_true(number(bo_json_member(json, "accuracy_statement"), "error_rms") > 0);
    bo_json_delete(json);
    json = run(*state, "bench machines --only none --json");
    assert_true(bo_json_count(bo_json_member(json, "figures")) >= 1);
    bo_json_delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_survive),
        cmocka_unit_test(too_deep_is_null),
        cmocka_unit_test(numbers_survive),
        cmocka_unit_test_setup_teardown(regression_has_its_fields, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(classification_has_its_fields, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(other_commands_print_one_object, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
