/* Result files: results are read back bit for bit, and invalid files are refused with a message that contains their
 * name. */
#include "testing.h"
#include "base/counting.h"
#include "lab/internal.h"
#include <sys/stat.h>
#include <unistd.h>

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_lab_result *result;
    char directory[64], path[96];
} setting;

/* scaled-dot with prescribed numbers: missing, infinite, with many digits. */
static void open_setting(setting *s)
{
    *s = (setting){.directory = "/tmp/bochner-lab-XXXXXX"};
    assert_non_null(mkdtemp(s->directory));
    snprintf(s->path, sizeof s->path, "%s/result.json", s->directory);
    s->context = counting_context(&s->counted, 1);
    assert_ok(s->context,
              bo_lab_run(s->context, bo_lab_find("scaled-dot"),
                         &(bo_lab_options){.quick = true, .seeds = 3, .seed = UINT64_MAX, .text = "a/b \"c\"\n"},
                         &s->result));
    assert_null(s->result->text); /* the experiment uses no text */
    bo_free(s->result->isa);
    assert_non_null(s->result->isa = bo_strdup(s->context, "b \"c\"\n"));
    s->result->claims[0] = NAN;
    s->result->claims[1] = -INFINITY;
    s->result->grids[0].values[0] = 0.1 + 0.2;
    assert_ok(s->context, lab_result_note(s->context, s->result, "tab\t, \\ and “quotes”"));
    assert_ok(s->context, bo_lab_result_write(s->context, s->result, s->path));
}

static void close_setting(setting *s)
{
    bo_lab_result_destroy(s->result);
    bo_context_destroy(s->context);
    assert_true(s->counted.live == 0);
    unlink(s->path);
    rmdir(s->directory);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void test_back(void **state)
{
    (void)state;
    setting s;
    bo_lab_result *back;
    open_setting(&s);
    assert_ok(s.context, bo_lab_result_read(s.context, s.path, &back));
    const bo_lab_about about = bo_lab_result_about(back);
    assert_ptr_equal(about.experiment, bo_lab_find("scaled-dot"));
    assert_true(about.quick && about.seeds == 3 && about.seed == UINT64_MAX && about.threads == 1 && !about.images);
    assert_string_equal(about.isa, "b \"c\"\n");
    assert_string_equal(about.version, bo_version());
    assert_true(about.seconds == bo_lab_result_about(s.result).seconds);
    for (size_t i = 0; i < back->experiment->about.claim_count * 3; i++)
        assert_memory_equal(&back->claims[i], &s.result->claims[i], isnan(back->claims[i]) ? 0 : sizeof(double));
    assert_true(isnan(back->claims[0]));
    for (size_t t = 0; t < back->experiment->about.table_count; t++) {
        const lab_grid *a = &back->grids[t], *b = &s.result->grids[t];
        assert_true(a->rows == b->rows && a->columns == b->columns && a->numbers == b->numbers);
        for (size_t i = 0; i < a->rows * a->columns * 3; i++)
            assert_true(a->values[i] == b->values[i] || (isnan(a->values[i]) && isnan(b->values[i])));
        for (size_t i = 0; i < a->rows; i++) assert_string_equal(a->row_names[i], b->row_names[i]);
        for (size_t i = 0; i < a->columns; i++) assert_string_equal(a->column_names[i], b->column_names[i]);
    }
    const size_t notes = bo_lab_result_notes(back);
    assert_string_equal(bo_lab_result_note(back, notes - 1), "tab\t, \\ and “quotes”");
    bo_lab_result_destroy(back);
    close_setting(&s);
}

/* Replaces the first `from` in the text. */
static char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at) fail_msg("the file has no %s", from);
    char *out = calloc(1, strlen(text) + strlen(to) + 1);
    memcpy(out, text, (size_t)(at - text));
    strcat(out, to);
    strcat(out, at + strlen(from));
    return out;
}

static void refuse(setting *s, const char *text, const char *from, const char *to, bo_status expected,
                   const char *message)
{
    bo_lab_result *back = (bo_lab_result *)s;
    char *changed = edited(text, from, to);
    const bo_status status = lab_result_parse(s->context, "the.json", changed, strlen(changed), &back);
    if (status != expected) fail_msg("%s -> %s: %s", from, to, bo_status_string(status));
    if (!strstr(bo_context_error(s->context), message) || !strstr(bo_context_error(s->context), "the.json"))
        fail_msg("%s -> %s: message '%s' lacks '%s'", from, to, bo_context_error(s->context), message);
    assert_null(back);
    free(changed);
}

static void test_refusals(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    char *text = read_all(s.path);
    refuse(&s, text, "\"lab\": 1", "\"lab\": 2", BO_VERSION, "version 2");
    refuse(&s, text, "\"lab\": 1", "\"lap\": 1", BO_FORMAT, "experiment");
    refuse(&s, text, "\"scaled-dot\"", "\"unscaled-dot\"", BO_FORMAT, "no experiment 'unscaled-dot'");
    refuse(&s, text, "\"seeds\": 3", "\"seeds\": 0", BO_FORMAT, "seeds");
    refuse(&s, text, "\"seeds\": 3", "\"seeds\": 1001", BO_FORMAT, "seeds");
    refuse(&s, text, "\"seeds\": 3", "\"seeds\": 4", BO_FORMAT, "4 numbers");
    refuse(&s, text, "\"quick\": true", "\"quick\": 1", BO_FORMAT, "quick");
    refuse(&s, text, "\"18446744073709551615\"", "\"18446744073709551616\"", BO_FORMAT, "seed");
    refuse(&s, text, "\"18446744073709551615\"", "\"-1\"", BO_FORMAT, "seed");
    refuse(&s, text, "\"threads\": 1", "\"threads\": 0", BO_FORMAT, "threads");
    refuse(&s, text, "\"seconds\": ", "\"seconds\": -", BO_FORMAT, "seconds");
    refuse(&s, text, "\"isa\": ", "\"isa\": null, \"isb\": ", BO_FORMAT, "isa");
    refuse(&s, text, "\"claims\": {", "\"claims\": {\"new\": {}, ", BO_FORMAT, "no claim 'new'");
    refuse(&s, text, "{\"number\": \"", "{\"number\": \"another ", BO_FORMAT, "run the experiment again");
    refuse(&s, text, "\"-inf\"", "\"-infinite\"", BO_FORMAT, "numbers");
    refuse(&s, text, "\"-inf\"", "1e999", BO_FORMAT, "numbers");
    refuse(&s, text, "\"tables\": {", "\"tables\": {\"new\": {}, ", BO_FORMAT, "no table 'new'");
    refuse(&s, text, "\"rows\": [", "\"rows\": [\"word\", ", BO_FORMAT, "all numbers or all texts");
    refuse(&s, text, "\"rows\": [", "\"rows\": [4096, ", BO_FORMAT, "one row of \"values\"");
    refuse(&s, text, "\"columns\": [", "\"columns\": [7, ", BO_FORMAT, "columns");
    refuse(&s, text, "\"columns\": [", "\"columns\": [\"more\", ", BO_FORMAT, "cells");
    refuse(&s, text, "\"notes\": [", "\"notes\": [3, ", BO_FORMAT, "notes");
    refuse(&s, text, "tab\\t", "\\u0000", BO_FORMAT, "NUL");
    refuse(&s, text, "]}\n", "]", BO_FORMAT, "malformed");
    refuse(&s, text, "]}\n", "]}}", BO_FORMAT, "expected the end of the JSON");
    refuse(&s, text, "\"notes\": [", "\"notes\": [[[[[[[[[", BO_FORMAT, "deeper");
    free(text);
    close_setting(&s);
}

/* A file truncated anywhere is refused. */
static void test_truncated(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    char *text = read_all(s.path);
    const size_t whole = strlen(text) - 1; /* the final newline is optional */
    for (size_t length = 0; length < whole; length += 3) {
        bo_lab_result *back = (bo_lab_result *)&s;
        assert_int_equal(lab_result_parse(s.context, "cut", text, length, &back), BO_FORMAT);
        assert_null(back);
    }
    free(text);
    close_setting(&s);
}

static void test_places(void **state)
{
    (void)state;
    setting s;
    bo_lab_result *back;
    char path[160];
    open_setting(&s);
    snprintf(path, sizeof path, "%s/none.json", s.directory);
    assert_fails(s.context, BO_IO, "none.json", bo_lab_result_read(s.context, path, &back));
    assert_null(back);
    snprintf(path, sizeof path, "%s/none/x.json", s.directory);
    assert_fails(s.context, BO_IO, "none/x.json", bo_lab_result_write(s.context, s.result, path));
    assert_fails(s.context, BO_IO, s.directory, bo_lab_result_write(s.context, s.result, s.directory));
    /* The old file stays until the new file is complete. */
    assert_ok(s.context, bo_lab_result_write(s.context, s.result, s.path));
    assert_ok(s.context, bo_lab_result_read(s.context, s.path, &back));
    bo_lab_result_destroy(back);
    FILE *file = fopen(s.path, "w");
    fclose(file);
    assert_fails(s.context, BO_FORMAT, "result.json", bo_lab_result_read(s.context, s.path, &back));
    close_setting(&s);
}

static bo_status write_and_read(void *what)
{
    setting *s = what;
    bo_lab_result *back = NULL;
    BO_TRY(bo_lab_result_write(s->context, s->result, s->path));
    const bo_status status = bo_lab_result_read(s->context, s->path, &back);
    if (status != BO_OK) assert_null(back);
    bo_lab_result_destroy(back);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    setting s;
    open_setting(&s);
    counting_inject(&(injection){&s.counted, s.context, write_and_read, &s, 300, 1, NULL});
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_back), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_truncated), cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
