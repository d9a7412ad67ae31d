/* Option tables: values, defaults, which options were given, several sources in order of precedence, and round trips
 * through a file. */
#include "testing.h"
#include "../../cli/common/options.h"
#include <bochner/bochner.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct inner {
    cli_given was_given;
    double rate, scale;
    bo_storage storage;
} inner;

typedef struct options {
    cli_given was_given;
    size_t count, memory;
    bo_kernel kernel;
    const char *text, *empty;
    bool flag;
    cli_list list;
    inner inner;
} options;

static const cli_option rows[] = {
    SECTION("Outer"),
    COUNT("count", "N", options, count, "a count", .former_name = "number", .low = 1, .high = 100, .initial = "7"),
    BYTES("memory", "BYTES", options, memory, "bytes", .low = 1, .default_text = "all there is"),
    CHOICE("kernel", "K", options, kernel, BO_ENUM_KERNEL, "a kernel", .without = ~0u << BO_KERNEL_CUSTOM,
           .initial = "laplacian"),
    TEXT("text", "TEXT", options, text, "a text", .initial = "usual"),
    TEXT("empty", "TEXT", options, empty, "a text that may be empty", .may_be_empty = true),
    FLAG("flag", options, flag, "a flag", .former_name = "old-flag"),
    LIST("list", "TEXT", options, list, "several"),
    END_OF_OPTIONS,
};

static const cli_option inner_rows[] = {
    SECTION("Inner"),
    REAL("rate", "X", inner, rate, "a rate", .high = 1, .initial = "0.5"),
    REAL_OR_AUTO("scale", inner, scale, "a scale", .traits = BO_TRAIT_WINDOW, .default_text = "measured"),
    CHOICE("storage", "S", inner, storage, BO_ENUM_STORAGE, "how", .without = 1u << BO_STORAGE_FLOAT8,
           .initial = "float32"),
    END_OF_OPTIONS,
};

static const cli_usage usage = {
    .command = "test",
    .groups = {{rows, 0}, {inner_rows, offsetof(options, inner)}},
    .defaults = {{"rate", "0.25", NULL}},
};

/* Options point to the arguments of a line, so all lines of a test are kept. */
static char kept[64][128];
static size_t kept_count;

static cli_parsed parse_over(options *o, cli_common *common, const char *line)
{
    char *copy = kept[kept_count++], *args[32];
    int count = 0;
    assert_true(kept_count <= CLI_COUNT_OF(kept) && strlen(line) < sizeof kept[0]);
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) args[count++] = word;
    cli_arguments arguments = {0};
    const cli_parsed parsed = cli_parse_over(&usage, count, args, o, common, &arguments);
    free(arguments.items);
    return parsed;
}

static options parsed(const char *line)
{
    options o = {0};
    cli_common common = {0};
    cli_set_initial(&usage, &o);
    assert_int_equal(parse_over(&o, &common, line), CLI_PARSED);
    return o;
}

static void defaults_are_values_but_not_given(void **state)
{
    (void)state;
    const options o = parsed("");
    assert_int_equal(o.count, 7);
    assert_int_equal(o.memory, 0);
    assert_int_equal(o.kernel, BO_KERNEL_LAPLACIAN);
    assert_string_equal(o.text, "usual");
    assert_true(o.inner.rate == 0.25); /* the default of the command overrides the default of the table */
    assert_null(cli_next_given(rows, &o, NULL));
    assert_null(cli_next_given(inner_rows, &o.inner, NULL));
}

static void a_value_equal_to_the_default_is_given(void **state)
{
    (void)state;
    const options o = parsed("--count 7 --kernel=laplacian --rate 0.25 --storage float32 --empty= --flag");
    assert_true(CLI_GIVEN(&o, count) && CLI_GIVEN(&o, kernel) && CLI_GIVEN(&o, empty) && CLI_GIVEN(&o, flag));
    assert_true(CLI_GIVEN(&o.inner, rate) && CLI_GIVEN(&o.inner, storage));
    assert_false(CLI_GIVEN(&o, text) || CLI_GIVEN(&o, memory) || CLI_GIVEN(&o.inner, scale));
    const options copy = o; /* a copy keeps it */
    assert_true(CLI_GIVEN(&copy, count) && !CLI_GIVEN(&copy, text));
    const cli_option *row = cli_next_given(rows, &o, NULL);
    assert_string_equal(row->name, "count");
    assert_string_equal(cli_next_given(rows, &o, row)->name, "kernel");
}

static void auto_is_as_not_given(void **state)
{
    (void)state;
    options o = parsed("--scale 2");
    cli_common common = {0};
    assert_true(CLI_GIVEN(&o.inner, scale) && o.inner.scale == 2);
    assert_int_equal(parse_over(&o, &common, "--scale auto"), CLI_PARSED);
    assert_true(!CLI_GIVEN(&o.inner, scale) && o.inner.scale == 0);
}

static void one_source_over_another(void **state)
{
    (void)state;
    options o = parsed("--count 9 --text first --list a");
    cli_common common = {0};
    assert_int_equal(parse_over(&o, &common, "--text second --list b --seed 3"), CLI_PARSED);
    assert_int_equal(o.count, 9);
    assert_string_equal(o.text, "second");
    assert_int_equal(o.list.count, 2);
    assert_true(CLI_GIVEN(&o, count) && CLI_GIVEN(&common, seed) && !CLI_GIVEN(&common, threads));
    CLI_SET_GIVEN(&o, count, false);
    assert_false(CLI_GIVEN(&o, count));
    assert_true(CLI_GIVEN(&o, text));
}

/* A former name sets the option, and the help does not show it. */
static void former_names_are_accepted(void **state)
{
    (void)state;
    const options o = parsed("--number 12 --old-flag"), equals = parsed("--number=13");
    assert_true(o.count == 12 && o.flag && CLI_GIVEN(&o, count) && CLI_GIVEN(&o, flag));
    assert_int_equal(equals.count, 13);
    assert_null(cli_find_row(&usage, "number"));
    options refused = parsed("");
    cli_common common = {0};
    assert_int_equal(parse_over(&refused, &common, "--number 0"), CLI_PARSE_ERROR);
    assert_int_equal(parse_over(&refused, &common, "--numbe 1"), CLI_PARSE_ERROR);
    char *help = NULL;
    size_t length;
    FILE *out = open_memstream(&help, &length);
    cli_usage shown = usage;
    shown.synopsis = "[options]";
    shown.about = "Tests former names.";
    shown.examples = "  bochner test\n";
    cli_help(out, &shown, true);
    fclose(out);
    assert_true(strstr(help, "--count") && !strstr(help, "--number") && !strstr(help, "--old-flag"));
    free(help);
}

static void wrong_values_are_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"--count 0",        "--count 101",      "--kernel custom", "--kernel linear",
                                        "--storage float8", "--rate 1.5",       "--text=",         "--flag=1",
                                        "--scale 0",        "--memory nothing", "--inner 1",       "--count",
                                        "--memory B",       "--memory 1iB",     "--memory 1BB",    "--memory 0B"};
    const int saved = dup(STDERR_FILENO);
    assert_non_null(freopen("/dev/null", "w", stderr));
    for (size_t i = 0; i < CLI_COUNT_OF(lines); i++) {
        options o = {0};
        cli_common common = {0};
        if (parse_over(&o, &common, lines[i]) != CLI_PARSE_ERROR) fail_msg("%s is taken", lines[i]);
    }
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void bytes_have_units(void **state)
{
    (void)state;
    assert_int_equal(parsed("--memory 100").memory, 100);
    assert_int_equal(parsed("--memory 100B").memory, 100);
    assert_int_equal(parsed("--memory 3k").memory, 3 << 10);
    assert_int_equal(parsed("--memory 3KB").memory, 3 << 10);
    assert_int_equal(parsed("--memory 2MiB").memory, 2 << 20);
}

/* Runs in a child process whose messages are discarded. */
static bool aborts(const cli_usage *wrong)
{
    const pid_t child = fork();
    if (child == 0) {
        options o = {0};
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        cli_set_initial(wrong, &o);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void wrong_defaults_in_tables_abort(void **state)
{
    (void)state;
    static const cli_option refused[] = {COUNT("count", "N", options, count, "a count", .low = 1, .initial = "0"),
                                         END_OF_OPTIONS};
    const cli_usage of_row = {.command = "test", .groups = {{refused, 0}}};
    const cli_usage of_command = {.command = "test", .groups = {{rows, 0}}, .defaults = {{"kernel", "unknown", NULL}}};
    const cli_usage of_nothing = {.command = "test", .groups = {{rows, 0}}, .defaults = {{"rate", "0.25", NULL}}};
    const cli_usage of_all = {.command = "test", .groups = {{rows, 0}}, .defaults = {{"seed", "1", NULL}}};
    assert_false(aborts(&usage));
    assert_true(aborts(&of_row));
    assert_true(aborts(&of_command));
    assert_true(aborts(&of_nothing));
    assert_true(aborts(&of_all));
}

static void help_has_names_and_defaults(void **state)
{
    (void)state;
    char *help = cli_help_text(&inner_rows[3]);
    assert_string_equal(help, "how: float32, bfloat16, int8, int4");
    free(help);
    help = cli_help_text(&inner_rows[2]);
    assert_string_equal(help, "a scale; kinds: softmax, hybrid, power");
    free(help);
    cli_option scale = inner_rows[2];
    scale.traits = BO_TRAIT_SCALE;
    help = cli_help_text(&scale);
    assert_string_equal(help, "a scale; some kinds only");
    free(help);
    scale.traits = BO_TRAIT_FEATURES | BO_TRAIT_MEMORY;
    help = cli_help_text(&scale);
    assert_string_equal(help, "a scale; kinds: all but softmax, power");
    free(help);
    const cli_usage other = {
        .command = "test", .groups = {{rows, 0}}, .defaults = {{"memory", .default_text = "some"}}};
    assert_string_equal(cli_default_text(&other, &rows[2]), "some");
    assert_string_equal(cli_default_text(&usage, &inner_rows[1]), "0.25");
    assert_string_equal(cli_default_text(&usage, &inner_rows[2]), "measured");
    assert_string_equal(cli_default_text(&usage, &rows[2]), "all there is");
    assert_null(cli_default_text(&usage, &rows[5]));
}

static void kinds_are_listed_once_with_their_options(void **state)
{
    (void)state;
    cli_kind_options kinds;
    size_t at = 0;
    assert_true(cli_next_kind_options(&usage, CLI_GROUPS, &at, &kinds));
    assert_string_equal(kinds.kinds, "softmax, hybrid, power"); /* the kinds with a window */
    assert_string_equal(kinds.options, "--scale");
    assert_false(cli_next_kind_options(&usage, CLI_GROUPS, &at, &kinds)); /* the other groups have no such options */
    at = 0;
    assert_false(cli_next_kind_options(&usage, 1, &at, &kinds)); /* the first group has none */
}

/* Names of a choice and their aliases are accepted in any case. */
static const char *find_kernel(const char *word)
{
    return strcmp(word, "gaussian") == 0 ? "rbf" : NULL;
}

static void choices_ignore_case(void **state)
{
    (void)state;
    static cli_option with_alias[CLI_COUNT_OF(rows)];
    memcpy(with_alias, rows, sizeof rows);
    with_alias[3].find = find_kernel;
    const cli_usage other = {.command = "test", .groups = {{with_alias, 0}}};
    static const char *const names[] = {"rbf", "RBF", "gaussian", "Gaussian"};
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        options o = {0};
        cli_common common = {0};
        cli_arguments arguments = {0};
        char line[64], *argv[] = {line};
        snprintf(line, sizeof line, "--kernel=%s", names[i]);
        assert_int_equal(cli_parse(&other, 1, argv, &o, &common, &arguments), CLI_PARSED);
        assert_int_equal(o.kernel, BO_KERNEL_RBF);
        free(arguments.items);
    }
}

/* Only the given options are read back from a file, with the same values. */
static void given_options_survive_a_file(void **state)
{
    (void)state;
    options o = parsed("--count 7 --kernel rbf --flag --list a --list b --scale 0.1 --memory 2K"), again = {0};
    cli_common common = {0}, common_again = {0};
    assert_int_equal(parse_over(&o, &common, "--seed 12 --quiet"), CLI_PARSED);
    char path[] = "/tmp/test_option_rows-XXXXXX", **args;
    FILE *file = fdopen(mkstemp(path), "w");
    cli_config_print(file, &usage, &o, &common);
    fclose(file);
    int count;
    assert_int_equal(cli_config_read("test", path, &count, &args), CLI_PARSED);
    unlink(path);
    cli_arguments arguments = {0};
    cli_set_initial(&usage, &again);
    assert_int_equal(cli_parse_over(&usage, count, args, &again, &common_again, &arguments), CLI_PARSED);
    assert_int_equal(again.count, 7);
    assert_int_equal(again.kernel, BO_KERNEL_RBF);
    assert_int_equal(again.list.count, 2);
    assert_int_equal(again.memory, 2048);
    assert_true(again.flag && again.inner.scale == 0.1 && common_again.seed == 12 && !common_again.quiet);
    assert_memory_equal(&again.was_given, &o.was_given, sizeof o.was_given);
    assert_memory_equal(&again.inner.was_given, &o.inner.was_given, sizeof o.was_given);
    free(arguments.items);
    for (int i = 0; i < count; i++) free(args[i]);
    free(args);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_values_but_not_given),
        cmocka_unit_test(a_value_equal_to_the_default_is_given),
        cmocka_unit_test(auto_is_as_not_given),
        cmocka_unit_test(one_source_over_another),
        cmocka_unit_test(former_names_are_accepted),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(bytes_have_units),
        cmocka_unit_test(wrong_defaults_in_tables_abort),
        cmocka_unit_test(help_has_names_and_defaults),
        cmocka_unit_test(kinds_are_listed_once_with_their_options),
        cmocka_unit_test(choices_ignore_case),
        cmocka_unit_test(given_options_survive_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
