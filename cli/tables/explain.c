/* bochner explain: importance of columns, dependence of predictions on columns, and attributions of single
 * predictions. */
#include "explain.h"
#include "../common/output.h"
#include "../common/paths.h"
#include "../common/spool.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool failed(cli_explain_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

/* ---- importance -------------------------------------------------------------------------------------------------- */

enum {
    PERMUTED = 50,            /* maximum number of permuted columns */
    DIRECTIONS = 5,           /* eigenvectors of the average gradient outer product */
    WIDE = 2048,              /* maximum inputs for directions */
    CURVE_ROWS = 500,         /* maximum rows of a curve */
    WALK_ROWS = 100000,       /* default maximum of predictions for contributions, */
    WALK_FEATURES = 400000000 /* and of features or kernel values of these predictions */
};

/* Stable sort of columns in descending order; NAN last. */
static void sort_columns(size_t *order, size_t count, const double *by)
{
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0; k--) {
            const double a = by[order[k - 1]], b = by[order[k]];
            if (isnan(b) || a >= b) break;
            const size_t swap = order[k];
            order[k] = order[k - 1];
            order[k - 1] = swap;
        }
}

static bool measure_gradients(cli_explain_job *job)
{
    const size_t dim = job->report->dim;
    job->gradients = cli_allocate(job->columns, sizeof *job->gradients, "importance");
    job->directions = dim > WIDE ? 0 : dim < DIRECTIONS ? dim : DIRECTIONS;
    job->shares = cli_allocate(DIRECTIONS, sizeof *job->shares, "directions");
    job->vectors = cli_allocate(DIRECTIONS * dim, sizeof *job->vectors, "directions");
    return !failed(job, bo_explain_gradients(job->session->context, job->machine, &job->desc,
                                             &(bo_inputs){.rows = job->rows, .x = job->x}, job->gradients,
                                             job->directions, job->shares, job->vectors));
}

/* If there are many columns, only those with the largest gradients are permuted. */
static bool permute(cli_explain_job *job)
{
    const size_t columns = job->columns;
    bool *chosen = cli_allocate(columns, sizeof *chosen, "columns");
    job->order = cli_allocate(columns, sizeof *job->order, "columns");
    job->importance = cli_allocate(columns, sizeof *job->importance, "importance");
    job->permuted = columns < PERMUTED ? columns : PERMUTED;
    sort_columns(job->order, columns, job->gradients);
    for (size_t i = 0; i < job->permuted; i++) chosen[job->order[i]] = true;
    const bo_status status = bo_explain_permutations(job->session->context, job->machine, &job->desc,
                                                     &(bo_inputs){.rows = job->rows, .x = job->x}, job->y, chosen,
                                                     &job->errors, job->importance);
    free(chosen);
    if (failed(job, status)) return false;
    double *by = cli_allocate(columns, sizeof *by, "importance");
    for (size_t c = 0; c < columns; c++) by[c] = job->importance[c].increase;
    sort_columns(job->order, columns, by);
    free(by);
    return true;
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

static size_t find_column(const cli_explain_job *job, const char *name, size_t length)
{
    for (size_t c = 0; c < job->columns; c++)
        if (strlen(job->column[c].name) == length && strncmp(job->column[c].name, name, length) == 0) return c;
    return job->columns;
}

static const char *column_at(const void *user, size_t index)
{
    return ((const cli_explain_job *)user)->column[index].name;
}

/* The columns of --columns, or the most important ones. Returns false after a message. */
static bool choose_curves(cli_explain_job *job)
{
    const char *list = job->options->columns;
    size_t capacity = 1;
    for (const char *c = list; c && *c; c++) capacity += *c == ',';
    if (!list) capacity = job->options->curves < job->columns ? job->options->curves : job->columns;
    job->curves = cli_allocate(capacity, sizeof *job->curves, "curves");
    for (size_t i = 0; !list && i < capacity; i++) job->curves[job->curve_count++].column = job->order[i];
    for (const char *at = list; at && *at;) {
        const size_t length = strcspn(at, ",");
        const size_t column = find_column(job, at, length);
        if (column == job->columns) {
            char *name = cli_allocate(length + 1, 1, "a name");
            memcpy(name, at, length);
            const char *nearest = cli_nearest(name, job->columns, column_at, job);
            cli_fail(job->session, "--columns: %s has no input column '%s'%s%s%s", job->model_path, name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
            free(name);
            return false;
        }
        job->curves[job->curve_count++].column = column;
        at += length + (at[length] == ',');
    }
    return true;
}

/* Categories in the order of their inputs: the reverse of the order of one-hot rows. */
static void reverse(size_t *values, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        const size_t swap = values[i];
        values[i] = values[count - 1 - i];
        values[count - 1 - i] = swap;
    }
}

static bool draw_curves(cli_explain_job *job)
{
    const size_t dim = job->report->dim, max_points = job->options->points;
    job->curve_rows = job->rows < CURVE_ROWS ? job->rows : CURVE_ROWS;
    size_t *values = cli_allocate(max_points, sizeof *values, "curves");
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < job->curve_count; i++) {
        cli_explain_curve *curve = &job->curves[i];
        const size_t numbers = max_points * job->outputs;
        curve->mean = cli_allocate(numbers, sizeof *curve->mean, "curves");
        curve->low = cli_allocate(numbers, sizeof *curve->low, "curves");
        curve->high = cli_allocate(numbers, sizeof *curve->high, "curves");
        curve->values = cli_allocate(max_points, sizeof *curve->values, "curves");
        status = bo_explain_values(job->session->context, job->machine, &job->desc,
                                   &(bo_inputs){.rows = job->curve_rows, .x = job->x}, curve->column, max_points,
                                   values, &curve->points);
        if (job->column[curve->column].category) reverse(values, curve->points);
        if (status == BO_OK)
            status = bo_explain_curve(job->session->context, job->machine, &job->desc,
                                      &(bo_inputs){.rows = job->curve_rows, .x = job->x}, curve->column, curve->points,
                                      values, curve->mean, curve->low, curve->high);
        for (size_t k = 0; status == BO_OK && k < curve->points; k++)
            cli_explain_value_of(job, curve->column, job->x + values[k] * dim, &curve->values[k]);
    }
    free(values);
    return !failed(job, status);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* The mean number of columns in which the row and a row of the sample differ; only these columns need predictions. */
static size_t different_columns(const cli_explain_job *job)
{
    size_t count = 0;
    for (size_t i = 0; i < job->rows; i++)
        for (size_t c = 0; c < job->columns; c++) {
            const cli_explain_column *column = &job->column[c];
            const float *value = job->x + i * job->report->dim + column->first;
            count += memcmp(value, job->row + column->first, column->inputs * sizeof *value) != 0;
        }
    return count / job->rows;
}

static bool explain_row(cli_explain_job *job)
{
    const size_t outputs = job->outputs, numbers = job->columns * outputs;
    const size_t walks = WALK_FEATURES / job->report->features + 1;
    const size_t by_cost = (walks < WALK_ROWS ? walks : WALK_ROWS) / (2 * different_columns(job) + 2);
    const size_t default_samples = by_cost > job->rows ? job->rows : by_cost < 20 ? 20 : by_cost;
    bo_explain_desc desc = job->desc;
    desc.samples = job->samples = CLI_GIVEN(job->options, samples) ? job->options->samples : default_samples;
    job->base = cli_allocate(outputs, sizeof *job->base, "contributions");
    job->prediction = cli_allocate(outputs, sizeof *job->prediction, "contributions");
    job->contributions = cli_allocate(numbers, sizeof *job->contributions, "contributions");
    job->contribution_errors = cli_allocate(numbers, sizeof *job->contribution_errors, "contributions");
    const bo_status status =
        bo_explain_row(job->session->context, job->machine, &desc, &(bo_inputs){.rows = job->rows, .x = job->x},
                       job->row, job->base, job->prediction, job->contributions, job->contribution_errors);
    if (failed(job, status)) return false;
    for (size_t t = 0; job->report->classes && !job->options->target && t < outputs; t++)
        if (job->prediction[t] > job->prediction[job->shown]) job->shown = t;
    return true;
}

size_t *cli_explain_row_order(const cli_explain_job *job)
{
    size_t *order = cli_allocate(job->columns, sizeof *order, "columns");
    double *by = cli_allocate(job->columns, sizeof *by, "columns");
    for (size_t c = 0; c < job->columns; c++) by[c] = fabs(job->contributions[c * job->outputs + job->shown]);
    sort_columns(order, job->columns, by);
    free(by);
    return order;
}

size_t cli_explain_loadings(const cli_explain_job *job, size_t direction, size_t capacity, double threshold,
                            size_t *out)
{
    const size_t dim = job->report->dim;
    const double *vector = job->vectors + direction * dim;
    size_t count = 0;
    for (size_t j = 0; j < dim; j++) {
        if (fabs(vector[j]) < threshold) continue;
        size_t place = count < capacity ? count++ : capacity;
        if (place == capacity) {
            if (fabs(vector[out[capacity - 1]]) >= fabs(vector[j])) continue;
            place = capacity - 1;
        }
        for (; place > 0 && fabs(vector[out[place - 1]]) < fabs(vector[j]); place--) out[place] = out[place - 1];
        out[place] = j;
    }
    return count;
}

const char *cli_explain_slope_unit(const cli_explain_job *job)
{
    if (job->report->scaling == BO_SCALING_COLUMNS) return "standard deviation of the column";
    return job->report->scaling == BO_SCALING_QUANTILE ? "unit of the normal quantile of the column"
                                                       : "unit of the scaled column";
}

cli_short_text cli_explain_number(double value, double scale)
{
    const int decimals = scale > 0 && isfinite(scale) ? 4 - (int)floor(log10(scale)) : 4;
    const double unit = pow(10, -decimals), rounded = round(value / unit) * unit;
    const int integer_digits = rounded != 0 ? (int)floor(log10(fabs(rounded)) + 1e-9) + 1 : 1;
    const int digits = integer_digits + (decimals > 0 ? decimals : 0);
    return cli_quantity(rounded, digits < 1 ? 1 : digits > 15 ? 15 : digits);
}

double cli_explain_curve_scale(const cli_explain_job *job, const cli_explain_curve *curve)
{
    double scale = 0;
    if (job->report->classes) return 1;
    for (size_t k = 0; k < curve->points; k++) scale = fmax(scale, fabs(curve->mean[k * job->outputs + job->shown]));
    return scale;
}

double cli_explain_row_scale(const cli_explain_job *job)
{
    double scale = fmax(fabs(job->prediction[job->shown]), fabs(job->base[job->shown]));
    if (job->report->classes) return 1;
    for (size_t c = 0; c < job->columns; c++)
        scale = fmax(scale, fabs(job->contributions[c * job->outputs + job->shown]));
    return scale;
}

const char *cli_explain_measure(const cli_explain_job *job)
{
    if (job->has_target) return job->report->classes ? "log loss" : "RMSE";
    return job->report->classes ? "change of the probabilities" : "change of the predictions";
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool write_page(cli_explain_job *job)
{
    cli_output output;
    if (!cli_output_text(job->session, &output, job->options->out)) return false;
    cli_explain_page(output.file, job);
    return cli_output_commit(job->session, &output);
}

static int run(cli_explain_job *job)
{
    const double started = cli_now();
    const char *out = job->options->out;
    if (out && !cli_can_write(job->session, out)) return CLI_FAILED;
    const bool ok = cli_explain_open(job) && cli_explain_read(job) && measure_gradients(job) && permute(job) &&
                    choose_curves(job) && draw_curves(job) && (!job->has_row || explain_row(job));
    cli_progress_clear(&job->session->progress);
    if (!ok) return CLI_FAILED;
    job->seconds = cli_now() - started;
    if (out && !write_page(job)) return CLI_FAILED;
    (job->session->common.json ? cli_explain_json : cli_explain_print)(job);
    return CLI_DONE;
}

static void close(cli_explain_job *job)
{
    for (size_t c = 0; c < job->columns; c++) free(job->column[c].name);
    for (size_t i = 0; i < job->curve_count; i++) {
        free(job->curves[i].values);
        free(job->curves[i].mean);
        free(job->curves[i].low);
        free(job->curves[i].high);
    }
    void *all[] = {job->column,     job->starts,        job->x,
                   job->y,          job->row,           job->gradients,
                   job->importance, job->order,         job->shares,
                   job->vectors,    job->curves,        job->base,
                   job->prediction, job->contributions, job->contribution_errors};
    for (size_t i = 0; i < CLI_COUNT_OF(all); i++) free(all[i]);
    bo_table_close(job->table);
    bo_machine_destroy(job->machine);
    bo_schema_destroy(job->schema);
}

static int explain(void *given, const cli_common *common, const cli_arguments *arguments)
{
    const cli_explain_options *o = given;
    if (arguments->count != 2)
        return cli_usage_error("explain", "expected MODEL and DATA, found %zu argument%s", arguments->count,
                               arguments->count == 1 ? "" : "s");
    if (o->out && !cli_ends_with(o->out, ".html"))
        return cli_usage_error("explain", "--out: expected a name ending in .html, found '%s'", o->out);
    if (CLI_GIVEN(o, samples) && !CLI_GIVEN(o, row))
        return cli_usage_error("explain", "--samples applies to --row only");
    const cli_path outputs[] = {{"out", o->out}};
    const cli_path inputs[] = {{NULL, arguments->items[0]}, {NULL, arguments->items[1]}, {"labels", o->labels}};
    const int apart = cli_paths_apart("explain", outputs, CLI_COUNT_OF(outputs), inputs, CLI_COUNT_OF(inputs));
    if (apart != CLI_DONE) return apart;
    cli_session session;
    if (!cli_session_open(&session, "explain", common, false)) return CLI_FAILED;
    const char *path = arguments->items[1];
    cli_spools spools = {0};
    int status = cli_spool_all(&session, &spools, &path, 1);
    cli_explain_job job = {.session = &session,
                           .options = o,
                           .model_path = arguments->items[0],
                           .data_path = strcmp(arguments->items[1], "-") == 0 ? "standard input" : arguments->items[1],
                           .open_path = path,
                           .has_row = CLI_GIVEN(o, row)};
    if (status == CLI_DONE) status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    close(&job);
    cli_spools_close(&spools);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Explanations"),
    COUNT("row", "N", cli_explain_options, row, "also explain the prediction of row N of DATA; the first is row 0"),
    TEXT("columns", "COLS", cli_explain_options, columns, "columns for curves, by name",
         .default_text = "the most important ones"),
    COUNT("curves", "N", cli_explain_options, curves, "number of curves, for the most important columns", .high = 1000,
          .initial = "6"),
    TEXT("target", "NAME", cli_explain_options, target,
         "class or target of curves and contributions; --json has all of them",
         .default_text =
             "the class that is predicted for the row; the second of two classes; the first class or target"),
    SECTION("Measurement"),
    COUNT("rows", "N", cli_explain_options, rows, "number of randomly sampled rows of DATA for the measurements",
          .low = 2, .initial = "2000"),
    COUNT("repeats", "N", cli_explain_options, repeats, "number of permutations of each column", .low = 1,
          .high = 10000, .initial = "5"),
    COUNT("points", "N", cli_explain_options, points, "maximum points of a curve", .low = 2, .high = 1000,
          .initial = "20"),
    COUNT("samples", "N", cli_explain_options, samples, "pairs of random orders of the columns, with --row", .low = 1,
          .high = 10000000, .default_text = "one per row of the sample, fewer for many columns"),
    SECTION("Data"),
    TEXT("labels", "FILE", cli_explain_options, labels, "separate file with the true values"),
    CHOICE("format", "FORMAT", cli_explain_options, format, BO_ENUM_FORMAT, "format of DATA", .initial = "auto"),
    SECTION("Output"),
    TEXT("out", "FILE.html", cli_explain_options, out, "also write an HTML page with plots"),
    COUNT("top", "N", cli_explain_options, top, "number of columns in the tables of the report", .initial = "20"),
    END_OF_OPTIONS,
};

const cli_usage cli_explain_usage = {
    .command = "explain",
    .synopsis = "MODEL DATA [options]",
    .about = "Explains a model of bochner fit on the rows of DATA: the importance of columns (the increase of the "
             "error when a column is permuted, and the gradients of the predictions), the directions in which "
             "predictions change, and curves of the mean prediction over the values of a column. With --row, the "
             "prediction of one row is decomposed into contributions of its columns. Use rows that the model was not "
             "fitted to. If DATA does not have "
             "the target, permutations measure changes of the predictions.",
    .examples = "  bochner explain price.model test.csv\n"
                "  bochner explain price.model test.csv --row 17\n"
                "  bochner explain price.model test.csv --columns rooms,town --out report.html\n",
    .groups = {{rows, 0}},
    .short_help = {"row", "columns", "curves", "target", "rows", "repeats", "points", "samples", "out", "top", "seed",
                   "json"},
};

int cli_explain(int argc, char **argv)
{
    cli_explain_options o = {0};
    return cli_command(&cli_explain_usage, argc, argv, &o, explain);
}
