/* The report of bochner explain, as text and as JSON. */
#include "../common/columns.h"
#include "explain.h"
#include "kernel_line.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_WIDTH = 24, BAR = 12, LOADINGS = 6, JSON_LOADINGS = 20, VALUES = 6, WIDTH = 10 };

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Prints a name in a column of this width; longer names are truncated. */
static void print_name(const char *text, int width)
{
    char clean[256];
    cli_clean(text, clean, sizeof clean);
    while (cli_display_width(clean) > (size_t)width) { /* removes the last character */
        size_t end = strlen(clean) - 1;
        while (end > 0 && ((unsigned char)clean[end] & 0xC0) == 0x80) end--;
        clean[end] = '\0';
    }
    printf("%s%*s", clean, width - (int)cli_display_width(clean), "");
}

/* Two digits, or all digits before the decimal point. */
static cli_short_text error_text(double value)
{
    const int digits = value >= 100 && value < 1e9 ? (int)log10(value) + 1 : 2;
    cli_short_text none = {"-"};
    return isnan(value) ? none : cli_quantity(value, digits);
}

static void print_bar(double value, double largest)
{
    const double length = largest > 0 && isfinite(value) ? BAR * fabs(value) / largest : 0;
    for (int i = 0; i < (int)(length + 0.5) && i < BAR; i++) putchar(value < 0 ? '-' : '#');
    putchar('\n');
}

static void print_head(const cli_explain_job *job)
{
    cli_short_text buffer;
    const bo_fit_report *report = job->report;
    printf("%-12s%s of %s, %s %s\n", "Model", bo_enum_name(BO_ENUM_TASK, report->task),
           report->classes ? (cli_target_name(job->schema, 0) ? cli_target_name(job->schema, 0) : "classes")
                           : cli_explain_output(job, 0, &buffer),
           cli_count(report->features).s,
           report->function == BO_FUNCTION_SECTIONS ? "rows of an exact kernel" : "features");
    printf("%-12s%s rows of %s, %s columns\n", "Data", cli_count(job->rows).s, job->data_path,
           cli_count(job->columns).s);
    if (!job->has_target)
        printf("%-12snot measured: the data does not have the target\n", "Error");
    else if (report->classes)
        printf("%-12slog loss %s, accuracy %.2f%%\n", "Error", cli_significant(job->errors.error, 4).s,
               100 * job->errors.accuracy);
    else
        printf("%-12sRMSE %s\n", "Error", cli_quantity(job->errors.error, 4).s);
}

static void print_explained(const char *title, const char *text)
{
    printf("\n%-12s", title);
    cli_print_wrapped(stdout, text, 12);
}

static void print_importance(const cli_explain_job *job)
{
    const bool classes = job->report->classes > 0;
    const size_t shown = job->options->top < job->columns ? job->options->top : job->columns;
    char text[512];
    snprintf(text, sizeof text,
             "%s%s when the column is permuted, mean and standard error of %zu permutations; %sslope: root mean square "
             "slope of the %s by %s",
             job->has_target ? "increase of the " : "", cli_explain_measure(job), job->options->repeats,
             !classes          ? ""
             : job->has_target ? "accuracy: its decrease in percent; "
                               : "accuracy: percentage of rows whose class changes; ",
             classes ? "class scores" : "predictions", cli_explain_slope_unit(job));
    print_explained("Columns", text);
    if (shown == 0) return;
    printf("\n%-*s%12s%10s%s%11s\n", NAME_WIDTH, "column", job->has_target ? "increase" : "change", "+-",
           classes ? "  accuracy" : "", "slope");
    const double largest = job->importance[job->order[0]].increase;
    for (size_t i = 0; i < shown; i++) {
        const size_t c = job->order[i];
        const bo_column_importance *m = &job->importance[c];
        print_name(job->column[c].name, NAME_WIDTH);
        printf("%12s%10s", isnan(m->increase) ? "-" : cli_quantity(m->increase, 4).s, error_text(m->increase_error).s);
        if (classes) isnan(m->accuracy) ? printf("%10s", "-") : printf("%10.2f", 100 * m->accuracy);
        printf("%11s ", cli_quantity(job->gradients[c], 4).s);
        print_bar(fmax(m->increase, 0), largest);
    }
    if (shown < job->columns) printf("... and %s more columns\n", cli_count(job->columns - shown).s);
    if (job->permuted < job->columns)
        printf("Permuted: the %s columns with the largest slopes.\n", cli_count(job->permuted).s);
}

static void print_directions(const cli_explain_job *job)
{
    const size_t dim = job->report->dim;
    if (job->directions == 0) return;
    print_explained("Directions",
                    "eigenvectors of the average gradient outer product in scaled inputs, and their shares "
                    "of its trace: the predictions change along the first ones");
    putchar('\n');
    for (size_t k = 0; k < job->directions; k++) {
        size_t inputs[LOADINGS];
        char text[1024] = "";
        const size_t count = cli_explain_loadings(job, k, LOADINGS, 0.1, inputs);
        for (size_t i = 0, used = 0; i < count && used < sizeof text; i++) {
            char name[64];
            cli_clean(cli_input_name(job->schema, inputs[i]), name, sizeof name);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %+.2f", i ? ", " : "", name,
                                     job->vectors[k * dim + inputs[i]]);
        }
        printf("%2zu %6.1f%%  ", k + 1, 100 * job->shares[k]);
        cli_print_wrapped(stdout, text, 12);
    }
}

/* "probability of yes" or "price". */
static const char *shown_name(const cli_explain_job *job, char *out, size_t size)
{
    cli_short_text buffer;
    char clean[64];
    cli_clean(cli_explain_output(job, job->shown, &buffer), clean, sizeof clean);
    snprintf(out, size, "%s%s", job->report->classes ? "probability of " : "", clean);
    return out;
}

/* The width of a value: numbers are not truncated, so that close ones differ. */
static size_t curve_width(const cli_explain_job *job, const cli_explain_curve *curve)
{
    size_t width = WIDTH;
    for (size_t k = 0; job->column[curve->column].number && k < curve->points; k++) {
        const size_t wide = cli_display_width(curve->values[k].text) + 1;
        if (wide > width) width = wide;
    }
    return width;
}

static void print_curves(const cli_explain_job *job)
{
    char name[96], text[512];
    if (job->curve_count == 0) return;
    snprintf(text, sizeof text,
             "%s: mean over %s rows that all have the same value of the column, and the range of 80%% of the rows%s",
             shown_name(job, name, sizeof name), cli_count(job->curve_rows).s,
             job->report->classes ? "" : " after their curves are shifted to the same level");
    print_explained("Curves", text);
    for (size_t i = 0; i < job->curve_count; i++) {
        const cli_explain_curve *curve = &job->curves[i];
        const size_t width = curve_width(job, curve), fit = VALUES * WIDTH / width;
        const size_t shown = curve->points < fit ? curve->points : fit;
        const double scale = cli_explain_curve_scale(job, curve);
        size_t at[VALUES];
        for (size_t k = 0; k < shown; k++) at[k] = shown > 1 ? k * (curve->points - 1) / (shown - 1) : 0;
        putchar('\n');
        print_name(job->column[curve->column].name, 16);
        for (size_t k = 0; k < shown; k++) {
            char value_text[64];
            const bool date = job->column[curve->column].date; /* year and month */
            snprintf(value_text, sizeof value_text, "%.*s", date ? 7 : 63, curve->values[at[k]].text);
            const size_t wide = cli_display_width(value_text);
            printf("%*s", wide < width ? (int)(width - wide) : 1, "");
            print_name(value_text, (int)(wide < width ? wide : width - 1));
        }
        const double *rows[] = {curve->mean, curve->low, curve->high};
        static const char *const titles[] = {"  mean", "  10%", "  90%"};
        for (size_t r = 0; r < 3; r++) {
            printf("\n%-16s", titles[r]);
            for (size_t k = 0; k < shown; k++)
                printf("%*s", (int)width, cli_explain_number(rows[r][at[k] * job->outputs + job->shown], scale).s);
        }
        putchar('\n');
        if (shown < curve->points && isnan(curve->values[0].number))
            printf("  ... and %s more values\n", cli_count(curve->points - shown).s);
    }
}

static void print_row(const cli_explain_job *job)
{
    const size_t outputs = job->outputs, t = job->shown;
    const size_t shown = job->options->top < job->columns ? job->options->top : job->columns;
    const double scale = cli_explain_row_scale(job);
    char name[96], title[32], text[512];
    snprintf(title, sizeof title, "Row %zu", job->options->row);
    snprintf(text, sizeof text, "%s: prediction %s = mean prediction %s + contributions %s",
             shown_name(job, name, sizeof name), cli_explain_number(job->prediction[t], scale).s,
             cli_explain_number(job->base[t], scale).s, cli_explain_number(job->prediction[t] - job->base[t], scale).s);
    print_explained(title, text);
    size_t *order = cli_explain_row_order(job);
    printf("\n%-*s%16s%14s%9s\n", NAME_WIDTH, "column", "value", "contribution", "+-");
    double rest = 0, largest = shown ? fabs(job->contributions[order[0] * outputs + t]) : 0;
    for (size_t i = 0; i < job->columns; i++) {
        const size_t c = order[i];
        const double part = job->contributions[c * outputs + t], error = job->contribution_errors[c * outputs + t];
        if (i >= shown) {
            rest += part;
            continue;
        }
        cli_explain_value value;
        cli_explain_value_of(job, c, job->row, &value);
        print_name(job->column[c].name, NAME_WIDTH - 1);
        const size_t wide = cli_display_width(value.text);
        printf("%*s", wide < 16 ? (int)(17 - wide) : 1, "");
        print_name(value.text, wide < 16 ? (int)wide : 16);
        printf("%14s%9s ", cli_explain_number(part, scale).s, error_text(error).s);
        print_bar(part, largest);
    }
    if (shown < job->columns)
        printf("%-*s%14s\n", NAME_WIDTH + 16, "all other columns", cli_explain_number(rest, scale).s);
    printf("Shapley values: averages over %s pairs of random orders of the columns.\n", cli_count(job->samples).s);
    free(order);
}

void cli_explain_print(const cli_explain_job *job)
{
    print_head(job);
    print_importance(job);
    print_directions(job);
    print_curves(job);
    if (job->has_row) print_row(job);
    if (job->options->out) printf("\n%-12s%s\n", "Page", job->options->out);
    printf("%s%-12s%s\n", job->options->out ? "" : "\n", "Time", cli_seconds(job->seconds).s);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_importance(const cli_explain_job *job, cli_json *json)
{
    cli_json_array(json, "columns");
    for (size_t i = 0; i < job->columns; i++) {
        const size_t c = job->order[i];
        const bo_column_importance *m = &job->importance[c];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", job->column[c].name);
        cli_json_add_count(json, "inputs", job->column[c].inputs);
        cli_json_add_number(json, "increase", m->increase);
        cli_json_add_number(json, "increase_error", m->increase_error);
        if (job->report->classes) cli_json_add_number(json, "accuracy", m->accuracy);
        if (job->report->classes) cli_json_add_number(json, "accuracy_error", m->accuracy_error);
        cli_json_add_number(json, "slope", job->gradients[c]);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_directions(const cli_explain_job *job, cli_json *json)
{
    const size_t dim = job->report->dim;
    cli_json_array(json, "directions");
    for (size_t k = 0; k < job->directions; k++) {
        size_t inputs[JSON_LOADINGS];
        const size_t count = cli_explain_loadings(job, k, JSON_LOADINGS, 0, inputs);
        cli_json_object(json, NULL);
        cli_json_add_number(json, "share", job->shares[k]);
        cli_json_array(json, "loadings");
        for (size_t i = 0; i < count; i++) {
            cli_json_object(json, NULL);
            cli_json_add_text(json, "input", cli_input_name(job->schema, inputs[i]));
            cli_json_add_number(json, "loading", job->vectors[k * dim + inputs[i]]);
            cli_json_end(json);
        }
        cli_json_end(json);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_numbers(cli_json *json, const char *key, const double *numbers, size_t count)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < count; i++) cli_json_add_number(json, NULL, numbers[i]);
    cli_json_end(json);
}

static void json_value(cli_json *json, const cli_explain_column *column, const cli_explain_value *value)
{
    if (isnan(value->number) || column->date)
        cli_json_add_text(json, "value", value->text);
    else
        cli_json_add_number(json, "value", value->number);
}

static void json_curves(const cli_explain_job *job, cli_json *json)
{
    cli_json_array(json, "curves");
    for (size_t i = 0; i < job->curve_count; i++) {
        const cli_explain_curve *curve = &job->curves[i];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "column", job->column[curve->column].name);
        cli_json_array(json, "points");
        for (size_t k = 0; k < curve->points; k++) {
            cli_json_object(json, NULL);
            json_value(json, &job->column[curve->column], &curve->values[k]);
            json_numbers(json, "mean", curve->mean + k * job->outputs, job->outputs);
            json_numbers(json, "low", curve->low + k * job->outputs, job->outputs);
            json_numbers(json, "high", curve->high + k * job->outputs, job->outputs);
            cli_json_end(json);
        }
        cli_json_end(json);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_row(const cli_explain_job *job, cli_json *json)
{
    size_t *order = cli_explain_row_order(job);
    cli_json_object(json, "row");
    cli_json_add_count(json, "index", job->options->row);
    cli_json_add_count(json, "samples", job->samples);
    json_numbers(json, "prediction", job->prediction, job->outputs);
    json_numbers(json, "base", job->base, job->outputs);
    cli_json_array(json, "contributions");
    for (size_t i = 0; i < job->columns; i++) {
        cli_explain_value value;
        cli_explain_value_of(job, order[i], job->row, &value);
        cli_json_object(json, NULL);
        cli_json_add_text(json, "column", job->column[order[i]].name);
        json_value(json, &job->column[order[i]], &value);
        json_numbers(json, "contribution", job->contributions + order[i] * job->outputs, job->outputs);
        json_numbers(json, "error", job->contribution_errors + order[i] * job->outputs, job->outputs);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_end(json);
    free(order);
}

void cli_explain_json(const cli_explain_job *job)
{
    cli_short_text buffer;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "model", job->model_path);
    cli_json_add_text(&json, "data", job->data_path);
    cli_json_add_text(&json, "task", bo_enum_name(BO_ENUM_TASK, job->report->task));
    cli_json_add_count(&json, "rows", job->rows);
    cli_json_array(&json, "outputs");
    for (size_t t = 0; t < job->outputs; t++) cli_json_add_text(&json, NULL, cli_explain_output(job, t, &buffer));
    cli_json_end(&json);
    cli_json_add_flag(&json, "has_target", job->has_target);
    cli_json_add_text(&json, "measure", cli_explain_measure(job));
    cli_json_add_number(&json, "error", job->errors.error);
    if (job->report->classes) cli_json_add_number(&json, "accuracy", job->errors.accuracy);
    cli_json_add_count(&json, "repeats", job->options->repeats);
    json_importance(job, &json);
    json_directions(job, &json);
    json_curves(job, &json);
    if (job->has_row) json_row(job, &json);
    cli_json_add_text(&json, "page", job->options->out);
    cli_json_add_number(&json, "seconds", job->seconds);
    cli_json_end(&json);
}
