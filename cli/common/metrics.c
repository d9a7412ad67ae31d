/* How good predictions are: words, tables and JSON of metrics. */
#include "metrics.h"
#include <math.h>

const char *cli_class_label(const bo_schema *schema, size_t index, cli_word *number)
{
    const char *label = schema ? bo_schema_class(schema, index) : NULL;
    if (label) return label;
    snprintf(number->s, sizeof number->s, "%zu", index);
    return number->s;
}

const char *cli_metrics_label(const bo_metrics *metrics, const bo_schema *schema, size_t index, cli_word *number)
{
    return metrics->desc.labels ? metrics->desc.labels[index] : cli_class_label(schema, index, number);
}

/* ---- reports ------------------------------------------------------------------------------------------- */

static void json_targets(const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "targets");
    for (size_t t = 0; t < metrics->desc.targets; t++) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", schema ? bo_schema_target(schema, t) : NULL);
        cli_json_add_number(json, "rmse", bo_metrics_target_rmse(metrics, t));
        cli_json_add_number(json, "r2", bo_metrics_target_r2(metrics, t));
        if (metrics->desc.has_std) cli_json_add_number(json, "coverage_95", bo_metrics_target_coverage(metrics, t));
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_metrics_json_confusion(const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "classes");
    cli_word number;
    for (size_t i = 0; i < metrics->desc.classes; i++)
        cli_json_add_text(json, NULL, cli_metrics_label(metrics, schema, i, &number));
    cli_json_end(json);
    cli_json_array(json, "confusion");
    for (size_t i = 0; i < metrics->desc.classes; i++) {
        cli_json_array(json, NULL);
        for (size_t j = 0; j < metrics->desc.classes; j++)
            cli_json_add_count(json, NULL, metrics->confusion[i * metrics->desc.classes + j]);
        cli_json_end(json);
    }
    cli_json_end(json);
}

/* Coverage of all rows and of each fifth of the predictions. */
static void json_coverage(const bo_metrics *metrics, cli_json *json)
{
    cli_json_add_number(json, "coverage_95", bo_metrics_coverage(metrics));
    if (metrics->interval_rows < BO_COVERAGE_PARTS) return;
    cli_json_array(json, "coverage_95_by_fifth");
    for (size_t part = 0; part < BO_COVERAGE_PARTS; part++)
        cli_json_add_number(json, NULL, bo_metrics_coverage_part(metrics, part));
    cli_json_end(json);
}

void cli_metrics_json(const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_object(json, "test");
    cli_json_add_count(json, "rows", metrics->rows);
    if (metrics->desc.classes) {
        cli_json_add_number(json, "accuracy", bo_metrics_accuracy(metrics));
        cli_json_add_number(json, "log_loss", bo_metrics_log_loss(metrics));
        cli_metrics_json_confusion(metrics, schema, json);
    } else {
        cli_json_add_number(json, "rmse", bo_metrics_rmse(metrics));
        cli_json_add_number(json, "r2", bo_metrics_r2(metrics));
        if (metrics->desc.has_std) json_coverage(metrics, json);
        if (metrics->desc.targets > 1) json_targets(metrics, schema, json);
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

void cli_metrics_print_numbers(FILE *out, double rmse, double r2)
{
    fprintf(out, "RMSE %s", cli_quantity(rmse, 4).s);
    if (isfinite(r2)) fprintf(out, " (R² %.*f)", r2 > 0.99 ? 4 : 3, r2);
}

void cli_metrics_print_classes(FILE *out, double accuracy, double log_loss)
{
    fprintf(out, "accuracy %.*f%% (log loss %s)", accuracy > 0.99 && accuracy < 1 ? 2 : 1, 100 * accuracy,
            cli_significant(log_loss, 3).s);
}

void cli_metrics_print_confusion(const bo_metrics *metrics, const bo_schema *schema, FILE *out)
{
    size_t classes = metrics->desc.classes;
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
            size_t count = (size_t)metrics->confusion[i * classes + j];
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

static void print_coverage(const bo_metrics *metrics, FILE *out)
{
    fprintf(out, "            %.1f%% of the true values are inside the predicted 95%% interval\n",
            100 * bo_metrics_coverage(metrics));
    if (metrics->interval_rows < 20 * BO_COVERAGE_PARTS) return; /* too few rows for fractions */
    fputs("            (by fifth of the predictions, smallest first:", out);
    for (size_t part = 0; part < BO_COVERAGE_PARTS; part++)
        fprintf(out, "%s %.1f%%", part ? "," : "", 100 * bo_metrics_coverage_part(metrics, part));
    fputs(")\n", out);
}

void cli_metrics_print(const bo_metrics *metrics, const bo_schema *schema, FILE *out)
{
    if (metrics->desc.classes) {
        fprintf(out, "Test        ");
        cli_metrics_print_classes(out, bo_metrics_accuracy(metrics), bo_metrics_log_loss(metrics));
        fprintf(out, " on %s row%s\n", cli_count(metrics->rows).s, plural(metrics->rows));
        cli_metrics_print_confusion(metrics, schema, out);
        return;
    }
    fprintf(out, "Test        ");
    cli_metrics_print_numbers(out, bo_metrics_rmse(metrics), bo_metrics_r2(metrics));
    fprintf(out, " on %s row%s\n", cli_count(metrics->rows).s, plural(metrics->rows));
    if (metrics->desc.has_std) print_coverage(metrics, out);
    for (size_t t = 0; t < metrics->desc.targets && metrics->desc.targets > 1; t++) {
        fprintf(out, "            %s: ", schema ? bo_schema_target(schema, t) : "target");
        cli_metrics_print_numbers(out, bo_metrics_target_rmse(metrics, t), bo_metrics_target_r2(metrics, t));
        fputc('\n', out);
    }
}
