/* The report of a cross-validation, as text and as JSON. */
#include "folds.h"
#include <math.h>

enum { CELL = 10 };

/* True if the metric is known in every fold. */
static bool is_known(const cli_folds *folds, bo_score metric)
{
    return isfinite(cli_variant_spread(folds, &folds->variants[0], metric).mean);
}

static void print_cell(FILE *out, const char *text)
{
    const size_t width = cli_display_width(text);
    fprintf(out, "%*s%s", width < CELL ? (int)(CELL - width) : 1, "", text);
}

static const char *heading(bo_score metric)
{
    switch (metric) {
    case BO_SCORE_MEDIAN_ERROR:
        return "median";
    case BO_SCORE_BRIER:
        return "Brier";
    case BO_SCORE_CALIBRATION:
        return "calibr.";
    default:
        return cli_metric_name(metric);
    }
}

/* ---- one variant ------------------------------------------------------------------------------------------------- */

static void print_summary(const cli_folds *folds, FILE *out)
{
    static const bo_score shown[] = {BO_SCORE_RMSE, BO_SCORE_R2, BO_SCORE_ACCURACY, BO_SCORE_LOG_LOSS, BO_SCORE_AUC};
    bool some = false;
    fputs("Folds       ", out);
    for (size_t i = 0; i < CLI_COUNT_OF(shown); i++) {
        if (!is_known(folds, shown[i])) continue;
        const cli_spread spread = cli_variant_spread(folds, &folds->variants[0], shown[i]);
        fprintf(out, "%s%s %s ± %s", some ? ", " : "", cli_metric_name(shown[i]),
                cli_format_metric(shown[i], spread.mean).s, cli_format_metric_error(shown[i], spread.deviation).s);
        some = true;
    }
    fprintf(out, "\n            (mean ± standard deviation over %zu folds; %s rows)\n", folds->folds,
            cli_count(folds->rows).s);
}

static void print_row(const cli_folds *folds, FILE *out, const char *name, size_t rows, const double *values,
                      bool spread)
{
    fprintf(out, "  %-10s", name);
    if (rows)
        fprintf(out, "%8s", cli_count(rows).s);
    else
        fprintf(out, "%8s", "");
    for (unsigned i = 0; i < CLI_METRICS; i++)
        if (is_known(folds, i))
            print_cell(out, (spread ? cli_format_metric_error(i, values[i]) : cli_format_metric(i, values[i])).s);
    fputc('\n', out);
}

static void print_folds(const cli_folds *folds, FILE *out)
{
    const cli_variant *variant = &folds->variants[0];
    double mean[CLI_METRICS], deviation[CLI_METRICS], error[CLI_METRICS];
    fprintf(out, "  %-10s%8s", "fold", "rows");
    for (unsigned i = 0; i < CLI_METRICS; i++) {
        const cli_spread spread = cli_variant_spread(folds, variant, i);
        mean[i] = spread.mean;
        deviation[i] = spread.deviation;
        error[i] = spread.error;
        if (is_known(folds, i)) print_cell(out, heading(i));
    }
    fputc('\n', out);
    for (size_t f = 0; f < folds->folds; f++)
        print_row(folds, out, cli_count(f + 1).s, variant->folds[f].rows, variant->folds[f].values, false);
    print_row(folds, out, "mean", 0, mean, false);
    print_row(folds, out, "deviation", 0, deviation, true);
    print_row(folds, out, "error", 0, error, true);
    cli_print_wrapped(out,
                      "  error: standard error of the mean, for folds whose training rows overlap (Nadeau and Bengio "
                      "2003)",
                      9);
}

/* ---- several variants -------------------------------------------------------------------------------------------- */

static void print_compared(const cli_folds *folds, FILE *out)
{
    const cli_variant *best = &folds->variants[0];
    fprintf(out, "Compared    by %s; difference: from the best, with its standard error\n  %-24s",
            cli_metric_name(folds->score), folds->compared);
    print_cell(out, heading(folds->score));
    print_cell(out, "deviation");
    print_cell(out, "difference");
    print_cell(out, "error");
    fprintf(out, "%10s\n", "seconds");
    for (size_t v = 0; v < folds->count; v++) {
        const cli_variant *variant = &folds->variants[v];
        fprintf(out, "  %-24s", variant->name);
        if (*variant->refused) {
            fprintf(out, " refused: %s\n", variant->refused);
            continue;
        }
        const cli_spread spread = cli_variant_spread(folds, variant, folds->score),
                         difference = cli_variant_difference(folds, variant, best);
        double seconds = 0;
        for (size_t f = 0; f < folds->folds; f++) seconds += variant->folds[f].seconds;
        print_cell(out, cli_format_metric(folds->score, spread.mean).s);
        print_cell(out, cli_format_metric_error(folds->score, spread.deviation).s);
        print_cell(out, v ? cli_format_metric_error(folds->score, difference.mean).s : "-");
        print_cell(out, v ? cli_format_metric_error(folds->score, difference.error).s : "-");
        fprintf(out, "%10.1f\n", seconds);
    }
    fputs("            The score of the best of several settings is optimistic; test it on other rows.\n", out);
}

static void print_curve(const cli_folds *folds, FILE *out)
{
    fprintf(out, "Curve       %s by number of training rows\n  %-10s", cli_metric_name(folds->score), "rows");
    print_cell(out, "test");
    print_cell(out, "deviation");
    print_cell(out, "training");
    fputc('\n', out);
    for (size_t i = 0; i < folds->points; i++) {
        const cli_spread test = cli_spread_of(folds->folds, folds->curve[i].test),
                         train = cli_spread_of(folds->folds, folds->curve[i].train);
        fprintf(out, "  %-10s", cli_count((size_t)(folds->curve[i].rows + 0.5)).s);
        if (isfinite(test.mean)) {
            print_cell(out, cli_format_metric(folds->score, test.mean).s);
            print_cell(out, cli_format_metric_error(folds->score, test.deviation).s);
            print_cell(out, cli_format_metric(folds->score, train.mean).s);
        } else {
            print_cell(out, "too few");
        }
        fputc('\n', out);
    }
}

void cli_folds_print(const cli_folds *folds, FILE *out)
{
    if (folds->compared) print_compared(folds, out);
    print_summary(folds, out);
    print_folds(folds, out);
    if (folds->shared)
        fputs("            The encodings of the columns were learned from all rows, including the test rows.\n", out);
    if (folds->points) print_curve(folds, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_metrics_as(const cli_folds *folds, const cli_variant *variant, const char *key, cli_json *json)
{
    cli_json_object(json, key);
    for (unsigned i = 0; i < CLI_METRICS; i++) {
        const cli_spread spread = cli_variant_spread(folds, variant, i);
        if (!isfinite(spread.mean)) continue;
        cli_json_object(json, bo_enum_name(BO_ENUM_SCORE, i));
        cli_json_add_number(json, "mean", spread.mean);
        cli_json_add_number(json, "deviation", spread.deviation);
        cli_json_add_number(json, "standard_error", spread.error);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_metrics(const cli_folds *folds, const cli_variant *variant, cli_json *json)
{
    json_metrics_as(folds, variant, "metrics", json);
    json_metrics_as(folds, variant, "figures", json); /* former key */
}

static void json_folds(const cli_folds *folds, const cli_variant *variant, cli_json *json)
{
    cli_json_array(json, "per_fold");
    for (size_t f = 0; f < folds->folds; f++) {
        const cli_fold_result *result = &variant->folds[f];
        cli_json_object(json, NULL);
        cli_json_add_count(json, "rows", result->rows);
        cli_json_add_count(json, "training_rows", result->trained);
        for (unsigned i = 0; i < CLI_METRICS; i++)
            if (isfinite(result->values[i]))
                cli_json_add_number(json, bo_enum_name(BO_ENUM_SCORE, i), result->values[i]);
        cli_json_add_text(json, "kernel", bo_enum_name(BO_ENUM_KERNEL, result->kernel));
        cli_json_add_text(json, "metric", bo_enum_name(BO_ENUM_METRIC_CHOICE, result->metric));
        cli_json_add_number(json, "gamma", result->gamma);
        cli_json_add_number(json, "lambda", result->lambda);
        cli_json_add_number(json, "seconds", result->seconds);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_compared(const cli_folds *folds, cli_json *json)
{
    cli_json_array(json, "compared");
    for (size_t v = 0; v < folds->count; v++) {
        const cli_variant *variant = &folds->variants[v];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", variant->name);
        if (*variant->refused) {
            cli_json_add_text(json, "refused", variant->refused);
        } else {
            const cli_spread difference = cli_variant_difference(folds, variant, &folds->variants[0]);
            cli_json_add_number(json, "difference", difference.mean);
            cli_json_add_number(json, "difference_standard_error", difference.error);
            json_metrics(folds, variant, json);
            json_folds(folds, variant, json);
        }
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_curve(const cli_folds *folds, cli_json *json)
{
    cli_json_array(json, "learning_curve");
    for (size_t i = 0; i < folds->points; i++) {
        const cli_spread test = cli_spread_of(folds->folds, folds->curve[i].test),
                         train = cli_spread_of(folds->folds, folds->curve[i].train);
        cli_json_object(json, NULL);
        cli_json_add_number(json, "rows", folds->curve[i].rows);
        cli_json_add_number(json, "test", test.mean);
        cli_json_add_number(json, "test_deviation", test.deviation);
        cli_json_add_number(json, "training", train.mean);
        cli_json_add_number(json, "training_deviation", train.deviation);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_folds_json(const cli_folds *folds, cli_json *json)
{
    cli_json_object(json, "cross_validation");
    cli_json_add_count(json, "folds", folds->folds);
    cli_json_add_count(json, "rows", folds->rows);
    cli_json_add_text(json, "score", bo_enum_name(BO_ENUM_SCORE, folds->score));
    cli_json_add_flag(json, "shared_encodings", folds->shared);
    json_metrics(folds, &folds->variants[0], json);
    json_folds(folds, &folds->variants[0], json);
    if (folds->compared) json_compared(folds, json);
    if (folds->points) json_curve(folds, json);
    cli_json_end(json);
}
