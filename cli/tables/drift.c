/* bochner drift: tests whether two tables have the same distribution. */
#include "drift.h"
#include "../common/spool.h"
#include <stdlib.h>
#include <string.h>

enum { EXIT_DRIFT = 3 }; /* with --exit-code */

typedef struct adding {
    bo_context *context;
    bo_drift *drift;
    bo_drift_side side;
    size_t columns;
} adding;

static bo_status add_rows(void *user, size_t rows, const double *x)
{
    const adding *job = user;
    return bo_drift_add(job->context, job->drift, job->side, rows, x, job->columns);
}

static bool compare(cli_drift_table *table, cli_drift_result *result)
{
    const cli_drift_options *o = table->options;
    cli_session *session = table->session;
    size_t *categories = cli_allocate(table->columns, sizeof *categories, "columns"), sampled;
    for (size_t j = 0; j < table->columns; j++) categories[j] = table->parts[j].categories;
    const bo_drift_desc desc = {.columns = table->columns,
                                .categories = categories,
                                .rows_a = table->rows[0],
                                .rows_b = table->rows[1],
                                .features = {.kernel = o->kernel, .features = o->features, .gamma = o->gamma},
                                .p_value = o->p_value,
                                .permutations = o->permutations,
                                .seed = session->common.seed};
    double *sample = cli_drift_pool(table, &sampled);
    bo_drift *drift = NULL;
    bo_status status = bo_drift_create(session->context, &desc, sampled, sample, &drift);
    free(sample);
    free(categories);
    adding job = {session->context, drift, BO_DRIFT_A, table->columns};
    bool ok = status == BO_OK;
    for (int side = 0; side < 2 && ok; side++) {
        job.side = side == 0 ? BO_DRIFT_A : BO_DRIFT_B;
        ok = cli_drift_read(table, side, add_rows, &job);
    }
    if (ok) status = bo_drift_finish(session->context, drift, &result->report, result->columns);
    if (status != BO_OK) cli_fail_status(session, status);
    bo_drift_destroy(drift);
    return ok && status == BO_OK;
}

/* Columns by adjusted p-value, then by MMD². */
static void sort(cli_drift_result *result, size_t count)
{
    for (size_t i = 0; i < count; i++) { /* insertion: stable */
        size_t place = i;
        const bo_drift_column *column = &result->columns[i];
        while (place > 0) {
            const bo_drift_column *before = &result->columns[result->order[place - 1]];
            if (before->p_value < column->p_value ||
                (before->p_value == column->p_value && before->mmd2 >= column->mmd2))
                break;
            result->order[place] = result->order[place - 1];
            place--;
        }
        result->order[place] = i;
    }
}

static int run(cli_drift_table *table, const char *const *open_paths)
{
    cli_session *session = table->session;
    const double started = cli_now();
    cli_drift_result result = {.table = table};
    if (!cli_drift_open(table, open_paths) || !cli_drift_scan(table)) return CLI_FAILED;
    result.columns = cli_allocate(table->columns, sizeof *result.columns, "columns");
    result.order = cli_allocate(table->columns, sizeof *result.order, "columns");
    const bool ok = compare(table, &result);
    cli_progress_clear(&session->progress);
    if (ok) {
        sort(&result, table->columns);
        result.differs = result.report.p_value <= table->options->alpha;
        result.seconds = cli_now() - started;
        (session->common.json ? cli_drift_json : cli_drift_print)(&result);
    }
    free(result.columns);
    free(result.order);
    return !ok ? CLI_FAILED : table->options->exit_code && result.differs ? EXIT_DRIFT : CLI_DONE;
}

static int drift(void *given, const cli_common *common, const cli_arguments *arguments)
{
    const cli_drift_options *o = given;
    if (arguments->count != 2)
        return cli_usage_error("drift", "expected two files, A and B, found %zu argument%s", arguments->count,
                               arguments->count == 1 ? "" : "s");
    if (strcmp(arguments->items[0], "-") == 0 && strcmp(arguments->items[1], "-") == 0)
        return cli_usage_error("drift", "A and B are both standard input (-); use a file for one of them");
    if (o->p_value == BO_P_VALUE_ASYMPTOTIC && CLI_GIVEN(o, permutations))
        return cli_usage_error("drift", "--permutations applies to --p-value permutation only");
    const double min_p = 1 / (1 + (double)o->permutations);
    if (o->p_value == BO_P_VALUE_PERMUTATION && o->alpha < min_p)
        return cli_usage_error(
            "drift",
            "--alpha %g: expected at least %.3g, the smallest p-value of %zu permutations; give more "
            "--permutations, or --p-value asymptotic",
            o->alpha, min_p, o->permutations);
    cli_session session;
    if (!cli_session_open(&session, "drift", common, false)) return CLI_FAILED;
    cli_drift_table table = {.session = &session, .options = o, .paths = {arguments->items[0], arguments->items[1]}};
    const char *paths[2] = {arguments->items[0], arguments->items[1]};
    cli_spools spools = {0};
    int status = cli_spool_all(&session, &spools, paths, 2);
    if (status == CLI_DONE) status = run(&table, paths);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    cli_drift_close(&table);
    cli_spools_close(&spools);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Test"),
    CHOICE("p-value", "HOW", cli_drift_options, p_value, BO_ENUM_P_VALUE,
           "computation of the p-value, by random assignments of the rows to A and B or from the distribution for many "
           "rows",
           .initial = "permutation"),
    COUNT("permutations", "P", cli_drift_options, permutations, "number of permutations", .low = 1, .high = 1000000,
          .initial = "999"),
    REAL("alpha", "X", cli_drift_options, alpha, "level: the tables differ if the p-value is at most X", .low = 0,
         .high = 1, .initial = "0.05"),
    FLAG("exit-code", cli_drift_options, exit_code, "exit with status 3 if the tables differ"),
    SECTION("Features"),
    CHOICE("kernel", "K", cli_drift_options, kernel, BO_ENUM_KERNEL,
           "kernel, the similarity of two rows; rational-quadratic averages over bandwidths, linear compares means",
           .without = 1u << BO_KERNEL_CUSTOM, .initial = "rbf"),
    COUNT("features", "R", cli_drift_options, features, "number of random features", .low = 1, .default_text = "512"),
    REAL_OR_AUTO("gamma", cli_drift_options, gamma, "bandwidth gamma of the kernel, applied to standardized columns",
                 .default_text = "the median heuristic on rows of both tables"),
    SECTION("Data"),
    TEXT("drop", "COLS", cli_drift_options, drop, "columns to ignore, by name or index in A"),
    FLAG("common", cli_drift_options, common, "compare only columns that both files have"),
    TEXT("categorical", "COLS", cli_drift_options, categorical,
         "number columns to treat as categories, by name or index in A; text columns are always categories"),
    CHOICE("format", "FORMAT", cli_drift_options, format, BO_ENUM_FORMAT, "format of the files", .initial = "auto"),
    SECTION("Output"),
    COUNT("columns", "N", cli_drift_options, shown,
          "number of columns in the report, in descending order of their difference", .initial = "20"),
    END_OF_OPTIONS,
};

const cli_usage cli_drift_usage = {
    .command = "drift",
    .synopsis = "A B [options]",
    .about =
        "Tests whether the rows of two tables come from the same distribution, by the maximum mean discrepancy of "
        "random features, in time linear in the number of rows. Columns are matched by name if both files have "
        "names, otherwise by position. Missing values and text columns need no option. The columns that differ most "
        "are listed with p-values that are adjusted for their number (Holm). The exit status is 0 whether or not "
        "the tables differ, unless --exit-code is given.",
    .examples = "  bochner drift january.csv february.csv\n"
                "  bochner drift january.csv february.csv --drop id --p-value asymptotic --exit-code\n"
                "  bochner drift january.csv february.csv --alpha 0.01 --json\n",
    .groups = {{rows, 0}},
    .short_help = {"p-value", "permutations", "alpha", "exit-code", "kernel", "features", "gamma", "drop", "common",
                   "categorical", "columns", "seed", "json"},
};

int cli_drift(int argc, char **argv)
{
    cli_drift_options o = {0};
    return cli_command(&cli_drift_usage, argc, argv, &o, drift);
}
