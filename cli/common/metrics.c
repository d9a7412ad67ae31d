#include "metrics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SIGMAS = 1.959963984540054; /* of a normal distribution's central 95% */

const char *cli_class_label(const bo_schema *schema, size_t index, cli_word *number)
{
    const char *label = schema ? bo_schema_class(schema, index) : NULL;
    if (label) return label;
    snprintf(number->s, sizeof number->s, "%zu", index);
    return number->s;
}

const char *cli_metrics_label(const cli_metrics *metrics, const bo_schema *schema, size_t index, cli_word *number)
{
    return metrics->labels ? metrics->labels[index] : cli_class_label(schema, index, number);
}

void cli_metrics_open(cli_metrics *metrics, const bo_machine_report *report)
{
    *metrics = (cli_metrics){.classes = report->classes, .has_std = report->has_std && report->classes == 0};
    if (report->classes) {
        metrics->confusion = cli_allocate(report->classes * report->classes, sizeof(size_t), "confusion matrix");
        return;
    }
    metrics->targets = report->outputs;
    metrics->sums = cli_allocate(report->outputs, sizeof(cli_target_sums), "metrics");
    metrics->truth = cli_allocate(CLI_POINTS, sizeof(double), "points");
    metrics->predicted = cli_allocate(CLI_POINTS, sizeof(double), "points");
    if (metrics->has_std) metrics->deviation = cli_allocate(CLI_POINTS, sizeof(double), "points");
}

void cli_metrics_close(cli_metrics *metrics)
{
    free(metrics->sums);
    free(metrics->confusion);
    free(metrics->truth);
    free(metrics->predicted);
    free(metrics->deviation);
    *metrics = (cli_metrics){0};
}

/* Reservoir sampling: row i stays with probability CLI_POINTS / (i + 1). */
static void keep_point(cli_metrics *metrics, size_t row, double truth, double predicted, double deviation)
{
    size_t at = row < CLI_POINTS ? row : (size_t)(bo_hash(7, row) % (row + 1));
    if (at >= CLI_POINTS) return;
    metrics->truth[at] = truth;
    metrics->predicted[at] = predicted;
    if (metrics->deviation) metrics->deviation[at] = deviation;
    if (row < CLI_POINTS) metrics->points = row + 1;
}

void cli_metrics_regression(cli_metrics *metrics, size_t rows, const double *y, const double *mean, const double *std)
{
    for (size_t i = 0; i < rows; i++) {
        size_t row = metrics->rows++;
        for (size_t t = 0; t < metrics->targets; t++) {
            cli_target_sums *sums = &metrics->sums[t];
            size_t at = i * metrics->targets + t;
            double error = mean[at] - y[at], delta = y[at] - sums->mean;
            sums->squared_error += error * error;
            sums->mean += delta / (double)metrics->rows;
            sums->squared_deviation += delta * (y[at] - sums->mean);
            if (std && fabs(error) <= SIGMAS * std[at]) sums->covered++;
        }
        size_t first = i * metrics->targets;
        keep_point(metrics, row, y[first], mean[first], std ? std[first] : 0);
    }
}

void cli_metrics_classes(cli_metrics *metrics, size_t rows, const double *y, const int *labels,
                         const double *probabilities)
{
    size_t classes = metrics->classes;
    for (size_t i = 0; i < rows; i++) {
        size_t truth = (size_t)y[i];
        double p = probabilities[i * classes + truth];
        metrics->log_loss -= log(p > 1e-15 ? (p < 1 ? p : 1) : 1e-15); /* one wrong certainty is not infinite */
        metrics->confusion[truth * classes + (size_t)labels[i]]++;
        metrics->right += truth == (size_t)labels[i];
    }
    metrics->rows += rows;
}

bo_status cli_metrics_predict(cli_metrics *metrics, bo_context *context, const bo_machine *machine, size_t rows,
                              const float *x, const double *y)
{
    const bo_machine_report *report = bo_machine_describe(machine);
    size_t outputs = metrics->classes ? metrics->classes : metrics->targets;
    double *mean = cli_allocate(rows * outputs, sizeof(double), "predictions");
    bo_status status;
    if (metrics->classes) {
        int *labels = cli_allocate(rows, sizeof(int), "predictions");
        status = bo_machine_classify(context, machine, rows, x, report->dim, labels);
        if (status == BO_OK) status = bo_machine_probabilities(context, machine, rows, x, report->dim, mean);
        if (status == BO_OK) cli_metrics_classes(metrics, rows, y, labels, mean);
        free(labels);
    } else {
        double *std = metrics->has_std ? cli_allocate(rows * outputs, sizeof(double), "predictions") : NULL;
        status = bo_machine_predict(context, machine, rows, x, report->dim, mean, std);
        if (status == BO_OK) cli_metrics_regression(metrics, rows, y, mean, std);
        free(std);
    }
    free(mean);
    return status;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

double cli_metrics_rmse(const cli_metrics *metrics)
{
    double sum = 0;
    for (size_t t = 0; t < metrics->targets; t++) sum += metrics->sums[t].squared_error;
    return sqrt(sum / ((double)metrics->rows * (double)metrics->targets));
}

static double target_r2(const cli_target_sums *sums)
{
    return sums->squared_deviation > 0 ? 1 - sums->squared_error / sums->squared_deviation : NAN;
}

double cli_metrics_r2(const cli_metrics *metrics)
{
    double sum = 0;
    for (size_t t = 0; t < metrics->targets; t++) sum += target_r2(&metrics->sums[t]);
    return sum / (double)metrics->targets;
}

double cli_metrics_coverage(const cli_metrics *metrics)
{
    if (!metrics->has_std) return NAN;
    double sum = 0;
    for (size_t t = 0; t < metrics->targets; t++) sum += (double)metrics->sums[t].covered;
    return sum / ((double)metrics->rows * (double)metrics->targets);
}

double cli_metrics_accuracy(const cli_metrics *metrics)
{
    return (double)metrics->right / (double)metrics->rows;
}

double cli_metrics_log_loss(const cli_metrics *metrics)
{
    return metrics->log_loss / (double)metrics->rows;
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static void json_targets(const cli_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "targets");
    for (size_t t = 0; t < metrics->targets; t++) {
        const cli_target_sums *sums = &metrics->sums[t];
        cli_json_object(json, NULL);
        cli_json_text(json, "name", schema ? bo_schema_target(schema, t) : NULL);
        cli_json_number(json, "rmse", sqrt(sums->squared_error / (double)metrics->rows));
        cli_json_number(json, "r2", target_r2(sums));
        if (metrics->has_std) cli_json_number(json, "coverage_95", (double)sums->covered / (double)metrics->rows);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_metrics_json_confusion(const cli_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "classes");
    cli_word number;
    for (size_t i = 0; i < metrics->classes; i++)
        cli_json_text(json, NULL, cli_metrics_label(metrics, schema, i, &number));
    cli_json_end(json);
    cli_json_array(json, "confusion");
    for (size_t i = 0; i < metrics->classes; i++) {
        cli_json_array(json, NULL);
        for (size_t j = 0; j < metrics->classes; j++)
            cli_json_count(json, NULL, metrics->confusion[i * metrics->classes + j]);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_metrics_json(const cli_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_object(json, "test");
    cli_json_count(json, "rows", metrics->rows);
    if (metrics->classes) {
        cli_json_number(json, "accuracy", cli_metrics_accuracy(metrics));
        cli_json_number(json, "log_loss", cli_metrics_log_loss(metrics));
        cli_metrics_json_confusion(metrics, schema, json);
    } else {
        cli_json_number(json, "rmse", cli_metrics_rmse(metrics));
        cli_json_number(json, "r2", cli_metrics_r2(metrics));
        if (metrics->has_std) cli_json_number(json, "coverage_95", cli_metrics_coverage(metrics));
        if (metrics->targets > 1) json_targets(metrics, schema, json);
    }
    cli_json_end(json);
}

enum { TEXT_CLASSES = 12, CELL = 8 };

/* A label in a column of a table: `width` letters, the last one … where it is longer; control characters are blanks. */
static void print_label(FILE *out, const char *label, size_t width, bool right)
{
    const size_t letters = cli_letters(label);
    size_t shown = 0;
    size_t room = letters > width ? width - 1 : letters, blanks = letters > width ? 0 : width - letters;
    if (right) fprintf(out, "%*s", (int)blanks, "");
    for (const char *at = label; *at; at++) {
        shown += ((unsigned char)*at & 0xc0) != 0x80;
        if (shown > room) break;
        fputc((unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at, out);
    }
    if (letters > width) fputs("…", out);
    if (!right) fprintf(out, "%*s", (int)blanks, "");
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* ", r2 0.93", or nothing where the truth does not vary. */
static cli_word r2_words(double r2)
{
    cli_word words = {""};
    if (isfinite(r2)) snprintf(words.s, sizeof words.s, ", r2 %.4f", r2);
    return words;
}

void cli_metrics_print_confusion(const cli_metrics *metrics, const bo_schema *schema, FILE *out)
{
    size_t classes = metrics->classes;
    cli_word number;
    if (classes > TEXT_CLASSES) return;
    fprintf(out, "            predicted\n  %-10s", "true");
    for (size_t j = 0; j < classes; j++) {
        fputc(' ', out);
        print_label(out, cli_metrics_label(metrics, schema, j, &number), CELL - 1, true);
    }
    fputs("   found\n", out);
    for (size_t i = 0; i < classes; i++) {
        size_t total = 0;
        fputs("  ", out);
        print_label(out, cli_metrics_label(metrics, schema, i, &number), 10, false);
        for (size_t j = 0; j < classes; j++) {
            size_t count = metrics->confusion[i * classes + j];
            total += count;
            if (count)
                fprintf(out, "%*zu", CELL, count);
            else
                fprintf(out, "%*s", CELL, ".");
        }
        if (total)
            fprintf(out, "  %5.1f%%\n", 100.0 * (double)metrics->confusion[i * classes + i] / (double)total);
        else
            fputs("       -\n", out);
    }
}

void cli_metrics_print(const cli_metrics *metrics, const bo_schema *schema, FILE *out)
{
    if (metrics->classes) {
        fprintf(out, "Test        accuracy %.2f%%, log loss %s (%s row%s)\n", 100 * cli_metrics_accuracy(metrics),
                cli_significant(cli_metrics_log_loss(metrics), 4).s, cli_count(metrics->rows).s, plural(metrics->rows));
        cli_metrics_print_confusion(metrics, schema, out);
        return;
    }
    fprintf(out, "Test        rmse %s%s (%s row%s)\n", cli_significant(cli_metrics_rmse(metrics), 5).s,
            r2_words(cli_metrics_r2(metrics)).s, cli_count(metrics->rows).s, plural(metrics->rows));
    if (metrics->has_std)
        fprintf(out, "            %.1f%% of them inside the predicted 95%% interval\n",
                100 * cli_metrics_coverage(metrics));
    for (size_t t = 0; t < metrics->targets && metrics->targets > 1; t++)
        fprintf(out, "            %s: rmse %s%s\n", schema ? bo_schema_target(schema, t) : "target",
                cli_significant(sqrt(metrics->sums[t].squared_error / (double)metrics->rows), 5).s,
                r2_words(target_r2(&metrics->sums[t])).s);
}
