/* The model and the table of bochner explain: columns of the file, a sample of the rows. */
#include "../common/columns.h"
#include "explain.h"
#include "columns_line.h"
#include "../common/output.h"
#include "../common/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool failed(cli_explain_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* True if an input is this part of its column, such as ": year". */
static bool is_part(const cli_explain_job *job, size_t input, const char *part)
{
    return input < job->report->dim && cli_ends_with(cli_input_name(job->schema, input), part);
}

/* True for an input that indicates missing values by 1. */
static bool is_indicator(const cli_explain_job *job, size_t input)
{
    return is_part(job, input, ": missing");
}

/* The name of a column, from the names of its inputs. */
static char *column_name(const cli_explain_job *job, size_t input, size_t index, const char *name)
{
    char text[32];
    const char *input_name = cli_input_name(job->schema, input);
    snprintf(text, sizeof text, "column %zu", index);
    if (!name) name = starts_with(input_name, text) ? text : input_name;
    char *copy = cli_allocate(strlen(name) + 1, 1, "names of columns");
    memcpy(copy, name, strlen(name));
    return copy;
}

/* Groups the inputs by column of the file. */
static void find_columns(cli_explain_job *job)
{
    const size_t dim = job->report->dim;
    job->column = cli_allocate(dim, sizeof *job->column, "columns");
    job->starts = cli_allocate(dim + 1, sizeof *job->starts, "columns");
    bo_schema_column_info info;
    for (size_t i = 0; bo_schema_column(job->schema, i, &info); i++) {
        if (!info.inputs) continue;
        cli_explain_column *c = &job->column[job->columns];
        job->starts[job->columns++] = info.first;
        *c = (cli_explain_column){
            .name = column_name(job, info.first, i, info.name), .first = info.first, .inputs = info.inputs};
        const size_t length = strlen(c->name);
        const char *input_name = cli_input_name(job->schema, info.first);
        c->category = starts_with(input_name, c->name) && input_name[length] == '=';
    }
    job->starts[job->columns] = dim;
    for (size_t c = 0; c < job->columns; c++) {
        cli_explain_column *column = &job->column[c];
        const size_t end = column->first + column->inputs - 1;
        column->date = column->inputs > 1 && is_part(job, column->first, ": year") &&
                       is_part(job, column->first + 1, ": day of the year");
        column->number = !column->category && (column->inputs == 1 || (column->inputs == 2 && is_indicator(job, end)));
    }
}

/* The original number in the file. */
static double input_of(const cli_explain_job *job, size_t input, const float *row)
{
    return (double)row[input] + cli_origin_of(job->schema, input);
}

/* Digits that distinguish values of an input: more than 4 for similar values. */
static int digits_of(const cli_explain_job *job, size_t input)
{
    const double origin = fabs(cli_origin_of(job->schema, input));
    double largest = 0;
    if (origin == 0) return 4;
    for (size_t i = 0; i < job->rows; i++) largest = fmax(largest, fabs((double)job->x[i * job->report->dim + input]));
    return largest > 0 ? (int)fmin(4 + fmax(0, log10(origin / largest)), 16) : 4;
}

/* The category of a row, or the numbers of a column of several inputs. */
static void describe_inputs(const cli_explain_job *job, const cli_explain_column *c, const float *row,
                            cli_explain_value *out)
{
    size_t used = 0;
    for (size_t j = c->first; j < c->first + c->inputs; j++) {
        if (c->category && row[j] > 0.5F) {
            cli_clean(cli_input_name(job->schema, j) + strlen(c->name) + 1, out->text, sizeof out->text);
            return;
        }
        if (!c->category && !is_indicator(job, j) && used < sizeof out->text)
            used += (size_t)snprintf(out->text + used, sizeof out->text - used, "%s%s", used ? " " : "",
                                     cli_significant(input_of(job, j, row), 5).s);
    }
    if (c->category) snprintf(out->text, sizeof out->text, "(other)");
}

/* 2024-01-31, from a year and a day of the year. */
static void describe_date(const float *inputs, cli_explain_value *out)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int year = (int)lround((double)inputs[0]);
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int day = (int)lround((double)inputs[1]), month = 0;
    while (month < 11 && day > lengths[month] + (leap && month == 1)) {
        day -= lengths[month] + (leap && month == 1);
        month++;
    }
    out->number = (double)inputs[0] + ((double)inputs[1] - 1) / (leap ? 366 : 365);
    snprintf(out->text, sizeof out->text, "%04d-%02d-%02d", year, month + 1, day);
}

void cli_explain_value_of(const cli_explain_job *job, size_t column, const float *row, cli_explain_value *out)
{
    const cli_explain_column *c = &job->column[column];
    const size_t end = c->first + c->inputs - 1;
    *out = (cli_explain_value){.number = NAN};
    out->missing = is_indicator(job, end) && row[end] > 0.5F;
    if (out->missing) {
        snprintf(out->text, sizeof out->text, "missing");
    } else if (c->number) {
        out->number = input_of(job, c->first, row);
        const int digits = digits_of(job, c->first); /* cli_quantity prints no decimals of large numbers */
        const bool fraction = fabs(out->number) >= 1 && digits > (int)floor(log10(fabs(out->number))) + 1;
        snprintf(out->text, sizeof out->text, "%s",
                 fraction ? cli_significant(out->number, digits).s : cli_quantity(out->number, digits).s);
    } else if (c->date) {
        describe_date(row + c->first, out);
    } else {
        describe_inputs(job, c, row, out);
    }
}

const char *cli_explain_output(const cli_explain_job *job, size_t output, cli_short_text *buffer)
{
    if (job->report->classes) return cli_class_label(job->schema, output, buffer);
    const char *name = cli_target_name(job->schema, output);
    if (!name) snprintf(buffer->s, sizeof buffer->s, job->outputs == 1 ? "prediction" : "prediction%zu", output);
    return name ? name : buffer->s;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static bool open_model(cli_explain_job *job)
{
    bo_status status =
        bo_machine_load(job->session->context, &(bo_source){.path = job->model_path}, &job->machine, &job->schema);
    if (status == BO_FORMAT) {
        cli_fail(job->session, "%s (expected: bochner explain MODEL DATA, where bochner fit --out MODEL wrote MODEL)",
                 bo_context_error(job->session->context));
        return false;
    }
    if (failed(job, status)) return false;
    job->report = bo_machine_report(job->machine);
    job->outputs = job->report->outputs;
    return true;
}

/* Sets the output to --target or to the default. Returns false after a message. */
static bool find_shown(cli_explain_job *job)
{
    const char *name = job->options->target;
    cli_short_text buffer;
    job->shown = job->report->classes == 2 ? 1 : 0;
    if (!name) return true;
    for (size_t t = 0; t < job->outputs; t++)
        if (strcmp(cli_explain_output(job, t, &buffer), name) == 0) {
            job->shown = t;
            return true;
        }
    cli_fail(job->session, "--target: %s has no %s '%s'; the first is '%s'", job->model_path,
             job->report->classes ? "class" : "target", name, cli_explain_output(job, 0, &buffer));
    return false;
}

bool cli_explain_open(cli_explain_job *job)
{
    bo_context *context = job->session->context;
    if (!open_model(job)) return false;
    job->source = (bo_table_desc){.data = {.path = job->open_path,
                                           .format = job->options->format,
                                           .labels = job->options->labels,
                                           .no_target = job->schema == NULL,
                                           .no_origin = true},
                                  .split = {.seed = job->session->common.seed},
                                  .other_rows = true};
    const bool input_name = job->schema == NULL; /* saved through the API: all columns of the file are inputs */
    if (input_name && failed(job, bo_schema_fit(context, &job->source, &job->schema))) return false;
    if (bo_schema_describe(job->schema)->inputs != job->report->dim) {
        cli_fail(job->session, "%s: expected %zu input columns, as %s was fitted on, found %zu", job->data_path,
                 job->report->dim, job->model_path, bo_schema_describe(job->schema)->inputs);
        return false;
    }
    if (failed(job, bo_table_open(context, &job->source, job->schema, BO_SPLIT_ALL, &job->table))) return false;
    job->has_target = !input_name && bo_table_describe(job->table)->has_target;
    find_columns(job);
    job->desc = (bo_explain_desc){.columns = job->columns,
                                  .starts = job->starts,
                                  .repeats = job->options->repeats,
                                  .seed = job->session->common.seed};
    return find_shown(job);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

enum { SAMPLE_NUMBERS = 1 << 25, BLOCK_NUMBERS = 1 << 20 };

/* Reads the table up to row N. */
static bool read_row(cli_explain_job *job)
{
    const size_t dim = job->report->dim, row = job->options->row, block_rows = BLOCK_NUMBERS / dim + 1;
    float *block = cli_allocate(block_rows * dim, sizeof *block, "a block of rows");
    bo_table_rows rows = {.x = block};
    size_t first = 0;
    bo_status status;
    while ((status = bo_table_next(job->session->context, job->table, block_rows, &rows)) == BO_OK && rows.rows > 0) {
        if (row < first + rows.rows) break;
        first += rows.rows;
        if (cli_interrupted()) status = BO_CANCELED;
        if (status != BO_OK) break;
    }
    if (status == BO_OK && rows.rows > 0) {
        job->row = cli_allocate(dim, sizeof *job->row, "a row");
        memcpy(job->row, block + (row - first) * dim, dim * sizeof *job->row);
    } else if (status == BO_OK) {
        cli_fail(job->session, "--row %zu: %s has %s rows, and the first is row 0", row, job->data_path,
                 cli_count(first).s);
    }
    free(block);
    return !failed(job, status) && job->row;
}

static void swap(void *a, void *b, size_t bytes)
{
    unsigned char *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* Curves and contributions use the first rows of the sample; files are often sorted. */
static void shuffle(cli_explain_job *job)
{
    const size_t dim = job->report->dim, targets = bo_schema_describe(job->schema)->targets;
    uint64_t random = job->session->common.seed;
    for (size_t i = job->rows; i > 1; i--) {
        const size_t other = cli_random_below(&random, i);
        if (other == i - 1) continue;
        swap(job->x + (i - 1) * dim, job->x + other * dim, dim * sizeof *job->x);
        if (job->y) swap(job->y + (i - 1) * targets, job->y + other * targets, targets * sizeof *job->y);
    }
}

bool cli_explain_read(cli_explain_job *job)
{
    const size_t dim = job->report->dim;
    size_t rows = job->options->rows, max_rows = SAMPLE_NUMBERS / dim + 2;
    if (rows > max_rows) {
        cli_note(job->session, "--rows: using %s rows, because each has %s inputs", cli_count(max_rows).s,
                 cli_count(dim).s);
        rows = max_rows;
    }
    job->x = cli_allocate(rows * dim, sizeof *job->x, "the sample");
    if (job->has_target)
        job->y = cli_allocate(rows * bo_schema_describe(job->schema)->targets, sizeof *job->y, "the sample");
    if (failed(job, bo_table_sample(job->session->context, &job->source, job->schema, NULL, rows, job->x, job->y, NULL,
                                    &job->rows)))
        return false;
    if (job->rows < 2) {
        cli_fail(job->session, "%s has %zu row%s; explanations need at least 2", job->data_path, job->rows,
                 job->rows == 1 ? "" : "s");
        return false;
    }
    shuffle(job);
    return !job->has_row || read_row(job);
}
