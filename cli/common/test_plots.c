/* Plots of a test: predictions, residuals, the confusion matrix, ROC curves, reliability. */
#include "columns.h"
#include "plot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- predicted against true -------------------------------------------------------------------------------------- */

typedef struct point {
    double predicted, deviation;
} point;

static int by_prediction(const void *a, const void *b)
{
    double left = ((const point *)a)->predicted, right = ((const point *)b)->predicted;
    return (left > right) - (left < right);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

enum { BINS = 40 };

/* The median deviation of `count` neighbors, which is robust to a few outliers. */
static double middle_deviation(const point *points, size_t count)
{
    double *sorted = cli_allocate(count, sizeof(double), "plot");
    for (size_t i = 0; i < count; i++) sorted[i] = points[i].deviation;
    qsort(sorted, count, sizeof(double), ascending);
    double middle = sorted[count / 2];
    free(sorted);
    return middle;
}

/* The 95% interval around the diagonal: for a prediction p, the true value lies in p ± 1.96 s(p), where s is the median
 * deviation of a bin of neighbors. Predictions outside the frame are excluded. The result is a closed polygon, up the
 * left side and down the right side. */
static void band(FILE *pipe, const bo_metrics *metrics, double low, double high)
{
    point *points = cli_allocate(metrics->points, sizeof(point), "plot");
    size_t n = 0;
    for (size_t i = 0; i < metrics->points; i++)
        if (metrics->predicted[i] >= low && metrics->predicted[i] <= high)
            points[n++] = (point){metrics->predicted[i], metrics->deviation[i]};
    qsort(points, n, sizeof(point), by_prediction);
    size_t bins = n / 8 < BINS ? n / 8 : BINS;
    if (bins == 0) bins = n > 0;
    double at[BINS], half[BINS];
    for (size_t b = 0; b < bins; b++) {
        size_t from = b * n / bins, to = (b + 1) * n / bins;
        at[b] = points[(from + to) / 2].predicted;
        half[b] = BO_INTERVAL_95 * middle_deviation(points + from, to - from);
    }
    free(points);
    fputs("$band << EOD\n", pipe);
    if (bins) {
        fprintf(pipe, "%.9g %.9g\n", low - half[0], low);
        for (size_t b = 0; b < bins; b++) fprintf(pipe, "%.9g %.9g\n", at[b] - half[b], at[b]);
        fprintf(pipe, "%.9g %.9g\n%.9g %.9g\n", high - half[bins - 1], high, high + half[bins - 1], high);
        for (size_t b = bins; b-- > 0;) fprintf(pipe, "%.9g %.9g\n", at[b] + half[b], at[b]);
        fprintf(pipe, "%.9g %.9g\n", low + half[0], low);
    }
    fputs("EOD\n", pipe);
}

/* The frame: all true values, and all predictions except the most extreme 0.5% at either end, so that a few outliers do
 * not compress the plot. */
static void frame(const bo_metrics *metrics, double *low, double *high)
{
    size_t n = metrics->points;
    double *sorted = cli_allocate(n, sizeof(double), "plot");
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = metrics->predicted[i];
        *low = fmin(*low, metrics->truth[i]);
        *high = fmax(*high, metrics->truth[i]);
    }
    qsort(sorted, n, sizeof(double), ascending);
    if (n > 0) {
        *low = fmin(*low, sorted[n / 200]);
        *high = fmax(*high, sorted[n - 1 - n / 200]);
    }
    free(sorted);
    double margin = *high > *low ? 0.04 * (*high - *low) : fabs(*low) * 0.1 + 1;
    *low -= margin;
    *high += margin;
}

static void scatter_title(FILE *pipe, const bo_metrics *metrics, bool banded, size_t outside)
{
    char title[256];
    bo_target_scores values;
    bo_metrics_target(metrics, 0, &values);
    int length = snprintf(title, sizeof title, "%s rows:  RMSE %.5g,  R² %.4f", cli_count(metrics->rows).s, values.rmse,
                          values.r2);
    if (banded)
        length += snprintf(title + length, sizeof title - (size_t)length, ",  %.1f%% inside the 95%% band",
                           100 * values.coverage);
    if (outside) snprintf(title + length, sizeof title - (size_t)length, ",  %zu beyond the frame", outside);
    cli_plot_title(pipe, title, 600);
}

static void axis_label(FILE *pipe, const char *axis, const char *name, const char *what)
{
    char start[81], label[200];
    cli_clean(name, start, sizeof start);
    snprintf(label, sizeof label, "%s, %s", start, what);
    fprintf(pipe, "set %slabel ", axis);
    cli_plot_quoted(pipe, label);
    fputc('\n', pipe);
}

static void scatter(FILE *pipe, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    double low, high;
    size_t outside = 0;
    cli_plot_begin(pipe, path, 680, 680, 13);
    frame(metrics, &low, &high);
    fputs("$points << EOD\n", pipe);
    for (size_t i = 0; i < metrics->points; i++) {
        fprintf(pipe, "%.17g %.17g\n", metrics->truth[i], metrics->predicted[i]);
        outside += metrics->predicted[i] < low || metrics->predicted[i] > high;
    }
    fputs("EOD\n", pipe);
    bool banded = metrics->deviation && outside < metrics->points;
    if (banded) band(pipe, metrics, low, high);
    fprintf(pipe, "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\nset size ratio 1\n", low, high, low, high);
    scatter_title(pipe, metrics, banded, outside);
    const char *name = schema && cli_target_name(schema, 0) ? cli_target_name(schema, 0) : "target";
    axis_label(pipe, "x", name, "true");
    axis_label(pipe, "y", name, "predicted");
    double size = metrics->points > 1500 ? 0.28 : metrics->points > 300 ? 0.4 : 0.6;
    fprintf(pipe,
            "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nplot %sx with lines lc rgb '#888888' lw 1.4 dt 2, "
            "$points with points pt 7 ps %.2f lc rgb '#601f5fa8'\n",
            banded ? "$band with filledcurves closed fc rgb '#f6dfb8' fs solid 0.75 noborder, " : "", size);
}

/* ---- confusion matrix -------------------------------------------------------------------------------------------- */

/* From white to `full` as share goes from 0 to 1. */
static unsigned shade(unsigned full, double share)
{
    unsigned color = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        double channel = 255 + share * ((double)((full >> shift) & 255) - 255);
        color |= (unsigned)lround(channel) << shift;
    }
    return color;
}

static void class_tics(FILE *pipe, const char *axis, const bo_metrics *metrics, const bo_schema *schema,
                       const char *format)
{
    fprintf(pipe, "set %stics %s scale 0 (", axis, format);
    const size_t classes = metrics->desc.classes, step = classes <= 60 ? 1 : (classes + 29) / 30;
    for (size_t i = 0; i < classes; i += step) {
        cli_short_text number;
        if (i) fputs(", ", pipe);
        cli_plot_tic(pipe, cli_metrics_label(metrics, schema, i, &number), 18, (double)i);
    }
    fputs(")\n", pipe);
}

/* Correct predictions are blue, by the recall of their class. Errors are orange, by their share of the class, on a
 * separate scale, so that the few important errors are visible. */
static void cells(FILE *pipe, const bo_metrics *metrics, int cell, int font)
{
    size_t classes = metrics->desc.classes, object = 1;
    double worst = 0.03; /* single errors of a good classifier stay pale */
    for (size_t i = 0; i < classes; i++) {
        double total = 0;
        for (size_t j = 0; j < classes; j++) total += (double)metrics->confusion[i * classes + j];
        for (size_t j = 0; j < classes && total > 0; j++)
            if (i != j) worst = fmax(worst, (double)metrics->confusion[i * classes + j] / total);
    }
    for (size_t i = 0; i < classes; i++) {
        double total = 0;
        for (size_t j = 0; j < classes; j++) total += (double)metrics->confusion[i * classes + j];
        for (size_t j = 0; j < classes; j++) {
            size_t count = (size_t)metrics->confusion[i * classes + j];
            if (count == 0) continue;
            double share = (double)count / total;
            double depth = i == j ? 0.12 + 0.88 * share * share : 0.08 + 0.92 * sqrt(share / worst);
            unsigned color = shade(i == j ? 0x1f5fa8 : 0xe8862e, depth);
            fprintf(pipe, "set object %zu rect from %g,%g to %g,%g fc rgb '#%06x' fs solid noborder behind\n", object++,
                    (double)j - 0.48, (double)i - 0.48, (double)j + 0.48, (double)i + 0.48, color);
            if (cell < 24) continue;
            bool light = i == j && depth > 0.45;
            int digits = snprintf(NULL, 0, "%zu", count), widest = cell * 10 / (7 * digits);
            int size = widest < font ? widest : font;
            fprintf(pipe, "set label %zu '%zu' at %zu,%zu center font ',%d' textcolor rgb '%s' front\n", object, count,
                    j, i, size, light ? "#ffffff" : "#333333");
        }
    }
}

static void confusion(FILE *pipe, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    size_t classes = metrics->desc.classes, longest = 1;
    for (size_t i = 0; i < classes; i++) {
        cli_short_text number;
        size_t length = cli_display_width(cli_metrics_label(metrics, schema, i, &number));
        if (length > longest) longest = length < 18 ? length : 18;
    }
    int cell = classes <= 12 ? 52 : classes <= 30 ? 32 : classes <= 60 ? 24 : (int)(1440 / classes + 1);
    int font = classes <= 12 ? 12 : 9;
    int side = cell * (int)classes, names = 9 * (int)longest;
    if (side < 260) side = 260;
    bool slanted = (int)longest * 8 > cell;
    int left = 64 + names, bottom = 58 + (slanted ? names * 3 / 4 : 14), top = 52, right = 30;
    cli_plot_begin(pipe, path, left + side + right, top + side + bottom, classes <= 12 ? 12 : 10);
    fprintf(pipe, "set lmargin at screen %.5f\nset rmargin at screen %.5f\n", (double)left / (left + side + right),
            (double)(left + side) / (left + side + right));
    fprintf(pipe, "set bmargin at screen %.5f\nset tmargin at screen %.5f\n", (double)bottom / (top + side + bottom),
            (double)(bottom + side) / (top + side + bottom));
    char title[256];
    bo_metrics_summary values;
    bo_metrics_report(metrics, &values);
    snprintf(title, sizeof title, "%.2f%% of %s rows correct (blue)", 100 * values.accuracy,
             cli_count(metrics->rows).s);
    cli_plot_title(pipe, title, side + 2 * right);
    fprintf(pipe, "set xrange [-0.5:%g]\nset yrange [%g:-0.5]\n", (double)classes - 0.5, (double)classes - 0.5);
    class_tics(pipe, "x", metrics, schema, slanted ? "rotate by 45 right" : "");
    class_tics(pipe, "y", metrics, schema, "");
    fprintf(pipe, "set xlabel 'predicted' offset 0,%g\nset label 'true' at screen 0.018,%.5f rotate center\n",
            slanted ? -0.2 : 0.0, (bottom + side / 2.0) / (top + side + bottom));
    cells(pipe, metrics, side / (int)classes, font);
    fputs("plot NaN notitle\n", pipe);
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

/* The range of the residuals, without the most extreme 0.5% at either end, symmetric about 0. */
static double residual_range(const bo_metrics *metrics, const double *residuals)
{
    const size_t n = metrics->points;
    double *sorted = cli_allocate(n, sizeof(double), "plot");
    memcpy(sorted, residuals, n * sizeof(double));
    qsort(sorted, n, sizeof(double), ascending);
    const double limit = n ? fmax(fabs(sorted[n / 200]), fabs(sorted[n - 1 - n / 200])) : 0;
    free(sorted);
    return limit > 0 ? 1.1 * limit : 1;
}

/* The mean residual and the mean ± the standard deviation of neighbors by prediction, in bins of equal size. */
static void residual_bins(FILE *pipe, const bo_metrics *metrics, const double *residuals)
{
    const size_t n = metrics->points, bins = n / 40 < 20 ? n / 40 : 20;
    point *points = cli_allocate(n, sizeof(point), "plot");
    for (size_t i = 0; i < n; i++) points[i] = (point){metrics->predicted[i], residuals[i]};
    qsort(points, n, sizeof(point), by_prediction);
    fputs("$bins << EOD\n", pipe);
    for (size_t b = 0; b < bins; b++) {
        const size_t from = b * n / bins, to = (b + 1) * n / bins;
        double at = 0, mean = 0, squares = 0;
        for (size_t i = from; i < to; i++) {
            at += points[i].predicted / (double)(to - from);
            mean += points[i].deviation / (double)(to - from);
        }
        for (size_t i = from; i < to; i++) squares += pow(points[i].deviation - mean, 2) / (double)(to - from);
        fprintf(pipe, "%.9g %.9g %.9g %.9g\n", at, mean, mean - sqrt(squares), mean + sqrt(squares));
    }
    fputs("EOD\n", pipe);
    free(points);
}

static void residuals(FILE *pipe, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    double low, high, *left = cli_allocate(metrics->points, sizeof(double), "plot");
    size_t outside = 0;
    for (size_t i = 0; i < metrics->points; i++) left[i] = metrics->truth[i] - metrics->predicted[i];
    const double range = residual_range(metrics, left);
    frame(metrics, &low, &high);
    cli_plot_begin(pipe, path, 760, 560, 13);
    fputs("$points << EOD\n", pipe);
    for (size_t i = 0; i < metrics->points; i++) {
        fprintf(pipe, "%.17g %.17g\n", metrics->predicted[i], left[i]);
        outside += fabs(left[i]) > range || metrics->predicted[i] < low || metrics->predicted[i] > high;
    }
    fputs("EOD\n", pipe);
    residual_bins(pipe, metrics, left);
    free(left);
    char title[256];
    bo_target_scores values;
    bo_metrics_target(metrics, 0, &values);
    const int length = snprintf(title, sizeof title, "%s rows:  RMSE %.5g,  MAE %.5g", cli_count(metrics->rows).s,
                                values.rmse, values.mae);
    if (outside) snprintf(title + length, sizeof title - (size_t)length, ",  %zu beyond the frame", outside);
    cli_plot_title(pipe, title, 680);
    const char *name = schema && cli_target_name(schema, 0) ? cli_target_name(schema, 0) : "target";
    axis_label(pipe, "x", name, "predicted");
    axis_label(pipe, "y", name, "true - predicted");
    fprintf(pipe, "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\n", low, high, -range, range);
    fprintf(
        pipe,
        "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset key top left Left reverse box lc rgb '#cccccc' opaque\n"
        "plot $points with points pt 7 ps %.2f lc rgb '#601f5fa8' notitle, 0 with lines lc rgb '#888888' lw 1.4 dt 2 "
        "notitle%s\n",
        metrics->points > 1500 ? 0.28 : 0.45,
        metrics->points < 80 ? ""
                             : ", $bins using 1:2 with lines lc rgb '#c0501f' lw 2.2 title 'mean of neighbors', "
                               "$bins using 1:3 with lines lc rgb '#e8862e' lw 1.4 dt 3 title '± standard "
                               "deviation', $bins using 1:4 with lines lc rgb '#e8862e' lw 1.4 dt 3 notitle");
}

/* ---- ROC curves -------------------------------------------------------------------------------------------------- */

enum { ROC_POINTS = 1000, ROC_CURVES = 11 };

/* The classes to draw: the second of two, or up to ROC_CURVES classes in descending order of their rows. */
static size_t roc_classes(const bo_metrics *metrics, size_t chosen[ROC_CURVES])
{
    const size_t classes = metrics->desc.classes;
    size_t count = 0, rows[ROC_CURVES];
    for (size_t c = classes == 2; c < classes; c++) {
        size_t class_rows = 0, at = count;
        for (size_t j = 0; j < classes; j++) class_rows += (size_t)metrics->confusion[c * classes + j];
        if (class_rows == 0 || (count == ROC_CURVES && rows[count - 1] >= class_rows)) continue;
        if (count == ROC_CURVES) at = count - 1;
        for (; at > 0 && rows[at - 1] < class_rows; at--) {
            rows[at] = rows[at - 1];
            chosen[at] = chosen[at - 1];
        }
        rows[at] = class_rows;
        chosen[at] = c;
        if (count < ROC_CURVES) count++;
    }
    return count;
}

/* Writes the data of the curve of a class; false if it has no curve. */
static bool roc_data(FILE *pipe, cli_session *session, const bo_metrics *metrics, size_t index, size_t number)
{
    double *low = cli_allocate(ROC_POINTS, sizeof(double), "plot"),
           *high = cli_allocate(ROC_POINTS, sizeof(double), "plot");
    size_t count = 0;
    bo_metrics_roc(session->context, metrics, index, ROC_POINTS, low, high, &count);
    if (count) fprintf(pipe, "$c%zu << EOD\n", number);
    for (size_t i = 0; i < count; i++) fprintf(pipe, "%.9g %.9g\n", low[i], high[i]);
    if (count) fputs("EOD\n", pipe);
    free(low);
    free(high);
    return count > 0;
}

static void roc(FILE *pipe, cli_session *session, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    size_t chosen[ROC_CURVES], count = roc_classes(metrics, chosen), drawn = 0;
    const bo_measure auc = cli_measure(session, metrics, BO_SCORE_AUC);
    char title[256];
    cli_plot_begin(pipe, path, 640, 660, 13);
    snprintf(title, sizeof title, "%s rows:  AUC %s%s%s%s", cli_count(metrics->rows).s,
             cli_format_metric(BO_SCORE_AUC, auc.value).s, isfinite(auc.error) ? " ± " : "",
             isfinite(auc.error) ? cli_format_metric_error(BO_SCORE_AUC, auc.error).s : "",
             isfinite(auc.error) ? " (standard error)" : ", mean over the classes");
    cli_plot_title(pipe, title, 560);
    fputs("set xrange [0:1]\nset yrange [0:1]\nset size ratio 1\nset xlabel 'false positive rate'\n"
          "set ylabel 'true positive rate'\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\n"
          "set key bottom right Left reverse\n",
          pipe);
    for (size_t i = 0; i < count; i++)
        if (roc_data(pipe, session, metrics, chosen[i], drawn)) chosen[drawn++] = chosen[i];
    fputs("plot x with lines lc rgb '#888888' lw 1.4 dt 2 notitle", pipe);
    for (size_t i = 0; i < drawn; i++) {
        cli_short_text number;
        char label[64];
        cli_clean(cli_metrics_label(metrics, schema, chosen[i], &number), label, 40);
        fprintf(pipe, ", $c%zu with lines lw 2 lc rgb '%s' title ", i, cli_plot_color(i));
        cli_plot_quoted(pipe, label);
    }
    fputs("\n", pipe);
}

/* ---- reliability ------------------------------------------------------------------------------------------------- */

/* The 95% score interval for a frequency (Wilson 1927). */
static void frequency_interval(double outcomes, double rows, double *low, double *high)
{
    const double z = BO_INTERVAL_95, share = outcomes / rows, over = 1 + z * z / rows,
                 middle = (share + z * z / (2 * rows)) / over,
                 half = z / over * sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows));
    *low = fmax(0, middle - half);
    *high = fmin(1, middle + half);
}

static void reliability(FILE *pipe, cli_session *session, const bo_metrics *metrics, const bo_schema *schema,
                        const char *path)
{
    const bool two = metrics->desc.classes == 2;
    cli_short_text number;
    char title[256], name[64];
    cli_plot_begin(pipe, path, 640, 680, 13);
    snprintf(title, sizeof title, "%s rows:  Brier score %s,  calibration error %s", cli_count(metrics->rows).s,
             cli_significant(cli_measure(session, metrics, BO_SCORE_BRIER).value, 3).s,
             cli_significant(cli_measure(session, metrics, BO_SCORE_CALIBRATION).value, 2).s);
    cli_plot_title(pipe, title, 560);
    fputs("$bins << EOD\n", pipe);
    for (size_t b = 0; b < BO_CALIBRATION_BINS; b++) {
        const bo_calibration_bin *bin = &metrics->calibration[b];
        double low, high;
        if (bin->rows == 0) continue;
        frequency_interval((double)bin->outcomes, (double)bin->rows, &low, &high);
        fprintf(pipe, "%.9g %.9g %.9g %.9g %.9g %.9g\n", bin->probability / (double)bin->rows,
                (double)bin->outcomes / (double)bin->rows, low, high, ((double)b + 0.5) / BO_CALIBRATION_BINS,
                (double)bin->rows / (double)metrics->rows);
    }
    fputs("EOD\n", pipe);
    cli_clean(cli_metrics_label(metrics, schema, 1 % metrics->desc.classes, &number), name, 40);
    axis_label(pipe, "x", two ? name : "predicted class", "predicted probability");
    axis_label(pipe, "y", two ? name : "predicted class", "frequency");
    fprintf(pipe,
            "set xrange [0:1]\nset yrange [0:1]\nset size ratio 1\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\n"
            "set key top left Left reverse\nset style fill solid 0.5 noborder\n"
            "plot $bins using 5:6:(%.9g) with boxes fc rgb '#c2cede' title 'share of the rows', "
            "x with lines lc rgb '#888888' lw 1.4 dt 2 notitle, "
            "$bins using 1:2:3:4 with yerrorbars pt 7 ps 0.7 lw 1.6 lc rgb '#1f5fa8' title 'frequency, 95%% interval', "
            "$bins using 1:2 with lines lw 1.6 lc rgb '#1f5fa8' notitle\n",
            0.9 / BO_CALIBRATION_BINS);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"default", "predictions", "residuals", "roc", "reliability", "confusion"};

const char *cli_plot_kind_name(unsigned kind)
{
    return kind < CLI_COUNT_OF(kind_names) ? kind_names[kind] : NULL;
}

typedef struct plot_data {
    cli_session *session;
    const bo_metrics *metrics;
    const bo_schema *schema;
    cli_plot_kind kind;
} plot_data;

static void draw(FILE *pipe, const char *path, const void *what)
{
    const plot_data *p = what;
    switch (p->kind) {
    case CLI_PLOT_RESIDUALS:
        residuals(pipe, p->metrics, p->schema, path);
        break;
    case CLI_PLOT_ROC:
        roc(pipe, p->session, p->metrics, p->schema, path);
        break;
    case CLI_PLOT_RELIABILITY:
        reliability(pipe, p->session, p->metrics, p->schema, path);
        break;
    case CLI_PLOT_CONFUSION:
        confusion(pipe, p->metrics, p->schema, path);
        break;
    default:
        scatter(pipe, p->metrics, p->schema, path);
        break;
    }
}

bool cli_plot_suits(cli_session *session, cli_plot_kind kind, size_t classes)
{
    if (kind == CLI_PLOT_DEFAULT || !classes == (kind < CLI_PLOT_ROC)) return true;
    cli_fail(session, "--plot-kind %s shows %s, but the model predicts %s; use %s", kind_names[kind],
             classes ? "numbers" : "classes", classes ? "classes" : "numbers",
             classes ? "confusion, roc or reliability" : "predictions or residuals");
    return false;
}

int cli_plot(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, cli_plot_kind kind,
             const char *path)
{
    if (kind == CLI_PLOT_DEFAULT) kind = metrics->desc.classes ? CLI_PLOT_CONFUSION : CLI_PLOT_PREDICTIONS;
    if (kind == CLI_PLOT_ROC && !isfinite(cli_measure(session, metrics, BO_SCORE_AUC).value))
        return cli_fail(session, "--plot-kind roc needs test rows of at least two classes");
    const plot_data what = {session, metrics, schema, kind};
    return cli_plot_file(session, path, metrics->desc.targets > 1 ? " (of the first target)" : "", draw, &what);
}
