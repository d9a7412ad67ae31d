/* Metrics of predictions as text, tables and JSON. */
#include "columns.h"
#include "metrics.h"
#include <math.h>

const char *cli_class_label(const bo_schema *schema, size_t index, cli_short_text *number)
{
    const char *label = schema ? cli_class_name(schema, index) : NULL;
    if (label) return label;
    snprintf(number->s, sizeof number->s, "%zu", index);
    return number->s;
}

const char *cli_metrics_label(const bo_metrics *metrics, const bo_schema *schema, size_t index, cli_short_text *number)
{
    return metrics->desc.labels ? metrics->desc.labels[index] : cli_class_label(schema, index, number);
}

size_t cli_metrics_points(size_t classes)
{
    return classes > 2 ? CLI_SCORES / classes + 2 : classes ? CLI_SCORES : CLI_POINTS;
}

bool cli_metrics_create(cli_session *session, const bo_machine *machine, bo_metrics **out)
{
    const size_t points = cli_metrics_points(bo_machine_report(machine)->classes);
    const bo_status status = bo_machine_create_metrics(session->context, machine, points, out);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

bo_measure cli_measure(cli_session *session, const bo_metrics *metrics, bo_score metric)
{
    bo_measure out;
    if (bo_metrics_measure(session->context, metrics, metric, &out) == BO_OK) return out;
    cli_warn(session, "%s: %s", bo_enum_name(BO_ENUM_SCORE, metric), bo_context_error(session->context));
    return (bo_measure){NAN, NAN, 0};
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static void json_targets(const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "targets");
    bo_target_scores values;
    for (size_t t = 0; bo_metrics_target(metrics, t, &values); t++) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", schema ? cli_target_name(schema, t) : NULL);
        cli_json_add_number(json, "rmse", values.rmse);
        cli_json_add_number(json, "r2", values.r2);
        cli_json_add_number(json, "mae", values.mae);
        if (metrics->desc.has_std) cli_json_add_number(json, "coverage_95", values.coverage);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_metrics_json_confusion(const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_json_array(json, "classes");
    cli_short_text number;
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

/* Coverage of each fifth of the predictions. */
static void json_coverage_parts(const bo_metrics *metrics, cli_json *json)
{
    if (metrics->interval_rows < BO_COVERAGE_PARTS) return;
    bo_metrics_summary values;
    bo_metrics_report(metrics, &values);
    cli_json_array(json, "coverage_95_by_fifth");
    for (size_t part = 0; part < BO_COVERAGE_PARTS; part++)
        cli_json_add_number(json, NULL, values.coverage_parts[part]);
    cli_json_end(json);
}

static void json_classes(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    cli_short_text number;
    cli_json_array(json, "per_class");
    for (size_t i = 0; i < metrics->desc.classes; i++) {
        bo_class_scores values;
        if (bo_metrics_class(session->context, metrics, i, &values) != BO_OK) break;
        cli_json_object(json, NULL);
        cli_json_add_text(json, "class", cli_metrics_label(metrics, schema, i, &number));
        cli_json_add_count(json, "rows", values.rows);
        cli_json_add_number(json, "precision", values.precision);
        cli_json_add_number(json, "recall", values.recall);
        cli_json_add_number(json, "f1", values.f1);
        if (isfinite(values.auc)) cli_json_add_number(json, "auc", values.auc);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_metrics_json(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, cli_json *json)
{
    bo_measure measures[CLI_METRICS];
    cli_json_object(json, "test");
    cli_json_add_count(json, "rows", metrics->rows);
    for (unsigned i = 0; i < CLI_METRICS; i++) {
        measures[i] = cli_measure(session, metrics, i);
        const bool always = metrics->desc.classes ? i == BO_SCORE_LOG_LOSS : i == BO_SCORE_R2;
        if (isfinite(measures[i].value) || always)
            cli_json_add_number(json, bo_enum_name(BO_ENUM_SCORE, i), measures[i].value);
    }
    if (measures[BO_SCORE_AUC].bound > 0) cli_json_add_number(json, "auc_bound", measures[BO_SCORE_AUC].bound);
    cli_json_object(json, "standard_errors");
    for (unsigned i = 0; i < CLI_METRICS; i++)
        if (isfinite(measures[i].error)) cli_json_add_number(json, bo_enum_name(BO_ENUM_SCORE, i), measures[i].error);
    cli_json_end(json);
    if (metrics->desc.classes) {
        json_classes(session, metrics, schema, json);
        cli_metrics_json_confusion(metrics, schema, json);
    } else {
        if (metrics->desc.has_std) json_coverage_parts(metrics, json);
        if (metrics->desc.targets > 1) json_targets(metrics, schema, json);
    }
    cli_json_end(json);
}

enum { TEXT_CLASSES = 12, CELL = 8 };

/* Prints a label in a table column of `width` characters. A longer label ends with …; control characters become
 * spaces. */
static void print_label(FILE *out, const char *label, size_t width, bool right)
{
    const size_t length = cli_display_width(label);
    size_t shown = 0;
    size_t visible = length > width ? width - 1 : length, padding = length > width ? 0 : width - length;
    if (right) fprintf(out, "%*s", (int)padding, "");
    for (const char *at = label; *at; at++) {
        shown += ((unsigned char)*at & 0xc0) != 0x80;
        if (shown > visible) break;
        fputc((unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at, out);
    }
    if (length > width) fputs("…", out);
    if (!right) fprintf(out, "%*s", (int)padding, "");
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

/* Recall, precision and F1 of a class with `total` rows. */
static void print_rates(const bo_metrics *metrics, size_t index, size_t total, FILE *out)
{
    const size_t classes = metrics->desc.classes, right = (size_t)metrics->confusion[index * classes + index];
    size_t predicted = 0;
    for (size_t i = 0; i < classes; i++) predicted += (size_t)metrics->confusion[i * classes + index];
    const size_t over[] = {total, predicted, total + predicted};
    static const int widths[] = {7, 9, 7};
    for (size_t i = 0; i < 3; i++)
        if (over[i])
            fprintf(out, " %*.1f%%", widths[i] - 1, (i == 2 ? 200.0 : 100.0) * (double)right / (double)over[i]);
        else
            fprintf(out, " %*s", widths[i], "-");
    fputc('\n', out);
}

void cli_metrics_print_confusion(const bo_metrics *metrics, const bo_schema *schema, FILE *out)
{
    size_t classes = metrics->desc.classes;
    cli_short_text number;
    if (classes > TEXT_CLASSES) return;
    fprintf(out, "            predicted\n  %-10s", "true");
    for (size_t j = 0; j < classes; j++) {
        fputc(' ', out);
        print_label(out, cli_metrics_label(metrics, schema, j, &number), CELL - 1, true);
    }
    fputs("  recall precision      F1\n", out);
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
        print_rates(metrics, i, total, out);
    }
}

static void print_coverage(const bo_metrics *metrics, const bo_metrics_summary *values, FILE *out)
{
    fprintf(out, "            %.1f%% of the true values are inside the predicted 95%% interval\n",
            100 * values->coverage);
    if (metrics->interval_rows < 20 * BO_COVERAGE_PARTS) return; /* too few rows for a breakdown */
    fputs("            (by fifth of the predictions, smallest first:", out);
    for (size_t part = 0; part < BO_COVERAGE_PARTS; part++)
        fprintf(out, "%s %.1f%%", part ? "," : "", 100 * values->coverage_parts[part]);
    fputs(")\n", out);
}

const char *cli_metric_name(bo_score metric)
{
    static const char *const names[CLI_METRICS] = {
        "RMSE", "R²",          "MAE",      "median absolute error", "coverage", "accuracy", "log loss",
        "AUC",  "Brier score", "macro F1", "calibration error"};
    return names[metric];
}

cli_short_text cli_format_metric(bo_score metric, double value)
{
    cli_short_text word;
    if (metric == BO_SCORE_ACCURACY || metric == BO_SCORE_COVERAGE)
        snprintf(word.s, sizeof word.s, "%.*f%%", value > 0.99 && value < 1 ? 2 : 1, 100 * value);
    else if (metric == BO_SCORE_RMSE || metric == BO_SCORE_MAE || metric == BO_SCORE_MEDIAN_ERROR)
        word = cli_quantity(value, 4);
    else if (metric == BO_SCORE_LOG_LOSS || metric == BO_SCORE_BRIER || metric == BO_SCORE_CALIBRATION)
        word = cli_significant(value, 3);
    else
        snprintf(word.s, sizeof word.s, "%.*f", value > 0.99 && value < 1 ? 4 : 3, value);
    return word;
}

cli_short_text cli_format_metric_error(bo_score metric, double error)
{
    cli_short_text word = cli_significant(error, 2);
    if (metric == BO_SCORE_ACCURACY || metric == BO_SCORE_COVERAGE)
        snprintf(word.s, sizeof word.s, "%.40s%%", cli_significant(100 * error, 2).s);
    return word;
}

/* Metrics that are not in the first line of the report, and the standard errors of all metrics in parentheses. */
static void print_more(cli_session *session, const bo_metrics *metrics, FILE *out)
{
    char text[512] = "", errors[256] = "";
    size_t used = 0, noted = 0;
    for (unsigned i = 0; i < CLI_METRICS; i++) {
        const bo_measure measure = cli_measure(session, metrics, i);
        if (!isfinite(measure.value)) continue;
        const bool first_line = i == BO_SCORE_RMSE || i == BO_SCORE_R2 || i == BO_SCORE_COVERAGE ||
                                i == BO_SCORE_ACCURACY || i == BO_SCORE_LOG_LOSS;
        if (!first_line)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "", cli_metric_name(i),
                                     cli_format_metric(i, measure.value).s);
        if (measure.bound > 0)
            used += (size_t)snprintf(text + used, sizeof text - used, " (from bins, within %s)",
                                     cli_significant(measure.bound, 2).s);
        if (isfinite(measure.error) && i != BO_SCORE_COVERAGE)
            noted += (size_t)snprintf(errors + noted, sizeof errors - noted, "%s%s %s", noted ? ", " : "",
                                      cli_metric_name(i), cli_format_metric_error(i, measure.error).s);
    }
    if (noted) snprintf(text + used, sizeof text - used, " (standard errors: %s)", errors);
    if (!*text) return;
    fprintf(out, "%12s", "");
    cli_print_wrapped(out, text, 12);
}

void cli_metrics_print(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, FILE *out)
{
    bo_metrics_summary values;
    bo_target_scores target;
    bo_metrics_report(metrics, &values);
    if (metrics->desc.classes) {
        fprintf(out, "Test        ");
        cli_metrics_print_classes(out, values.accuracy, values.log_loss);
        fprintf(out, " on %s row%s\n", cli_count(metrics->rows).s, plural(metrics->rows));
        print_more(session, metrics, out);
        cli_metrics_print_confusion(metrics, schema, out);
        return;
    }
    fprintf(out, "Test        ");
    cli_metrics_print_numbers(out, values.rmse, values.r2);
    fprintf(out, " on %s row%s\n", cli_count(metrics->rows).s, plural(metrics->rows));
    print_more(session, metrics, out);
    if (metrics->desc.has_std) print_coverage(metrics, &values, out);
    for (size_t t = 0; metrics->desc.targets > 1 && bo_metrics_target(metrics, t, &target); t++) {
        fprintf(out, "            %s: ", schema ? cli_target_name(schema, t) : "target");
        cli_metrics_print_numbers(out, target.rmse, target.r2);
        fputc('\n', out);
    }
}
