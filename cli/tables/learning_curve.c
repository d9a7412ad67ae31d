/* Learning curves: the score for growing numbers of training rows, in every fold. */
#include "../common/plot.h"
#include "folds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_ROWS = 20 }; /* training rows */

static bool measure(cli_fit_job *job, const cli_folds *folds, const bo_machine *machine, const bo_samples *rows,
                    double *value)
{
    bo_metrics *metrics = NULL;
    const bool ok = cli_fold_test(job->session, machine, rows, &metrics);
    if (ok) *value = cli_measure(job->session, metrics, folds->score).value;
    bo_metrics_destroy(metrics);
    return ok;
}

/* Fits to the first parts of the training rows. The values are NAN if there are too few rows to fit. */
static bool fit_size(cli_fit_job *job, const cli_folds *folds, const bo_samples *train, const bo_samples *test,
                     double *test_value, double *train_value)
{
    bo_machine *machine = NULL;
    *test_value = *train_value = NAN;
    bool ok = cli_fold_fit(job->session, &job->desc, train, &machine);
    ok = ok && (!machine ||
                (measure(job, folds, machine, test, test_value) && measure(job, folds, machine, train, train_value)));
    bo_machine_destroy(machine);
    return ok;
}

/* Divides the rows into stratified parts of equal size; the curve uses the first 1, 2, 4, … parts. */
static size_t *divide(cli_fit_job *job, const bo_samples *train, size_t parts)
{
    size_t *part = cli_allocate(train->rows, sizeof *part, "learning curve");
    const bo_folds_desc desc = {
        .folds = parts, .seed = job->session->common.seed, .classes = train->classes ? train->y : NULL};
    const bo_status status = parts > 1 ? bo_split_folds(job->session->context, &desc, train->rows, part) : BO_OK;
    if (status == BO_OK) return part;
    cli_fail_status(job->session, status);
    free(part);
    return NULL;
}

static bool fit_sizes(cli_fit_job *job, cli_folds *folds, size_t fold, const bo_samples *train, const bo_samples *test)
{
    size_t *part = divide(job, train, (size_t)1 << (folds->points - 1));
    bool ok = part != NULL;
    for (size_t i = 0; i < folds->points && ok; i++) {
        cli_rows some;
        cli_rows_select(train, part, (size_t)1 << i, &some);
        folds->curve[i].rows += (double)some.samples.rows / (double)folds->folds;
        ok = fit_size(job, folds, &some.samples, test, &folds->curve[i].test[fold], &folds->curve[i].train[fold]);
        cli_rows_free(&some);
    }
    free(part);
    return ok;
}

bool cli_learning_curve(cli_fit_job *job, cli_folds *folds, cli_fold_table *table)
{
    const size_t trained = folds->rows - folds->rows / folds->folds - 1;
    folds->points = 1;
    while (folds->points < CLI_CURVE_SIZES && trained >> folds->points >= MIN_ROWS + 2 * folds->classes)
        folds->points++;
    for (size_t i = 0; i < folds->points; i++) {
        folds->curve[i].test = cli_allocate(folds->folds, sizeof(double), "learning curve");
        folds->curve[i].train = cli_allocate(folds->folds, sizeof(double), "learning curve");
    }
    for (size_t f = 0; f < folds->folds; f++) {
        cli_rows train, test;
        if (!cli_fold_rows(table, f, &train, &test)) return false;
        const bool ok = fit_sizes(job, folds, f, &train.samples, &test.samples);
        cli_rows_free(&train);
        cli_rows_free(&test);
        if (!ok) return false;
    }
    return true;
}

/* ---- the plot ---------------------------------------------------------------------------------------------------- */

static void curve(FILE *pipe, const char *name, const cli_folds *folds, bool test)
{
    fprintf(pipe, "$%s << EOD\n", name);
    for (size_t i = 0; i < folds->points; i++) {
        const cli_curve_point *point = &folds->curve[i];
        const cli_spread spread = cli_spread_of(folds->folds, test ? point->test : point->train);
        if (isfinite(spread.mean)) fprintf(pipe, "%.1f %.9g %.9g\n", point->rows, spread.mean, spread.deviation);
    }
    fputs("EOD\n", pipe);
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const cli_folds *folds = what;
    char title[160];
    snprintf(title, sizeof title, "%s by number of training rows: mean ± deviation over %zu folds",
             cli_metric_name(folds->score), folds->folds);
    cli_plot_begin(pipe, path, 720, 480, 12);
    cli_plot_title(pipe, title, 640);
    fprintf(pipe,
            "set xlabel 'training rows'\nset ylabel '%s'\nset logscale x 2\nset format x '%%.0f'\n"
            "set format y '%%g'\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset key top %s Left reverse\n"
            "set offsets graph 0.04, graph 0.04, graph 0.08, graph 0.04\n",
            cli_metric_name(folds->score), bo_score_larger_is_better(folds->score) ? "left" : "right");
    fputs("set xtics (", pipe);
    for (size_t i = 0; i < folds->points; i++) fprintf(pipe, "%s%.0f", i ? ", " : "", folds->curve[i].rows);
    fputs(")\n", pipe);
    curve(pipe, "test", folds, true);
    curve(pipe, "train", folds, false);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "train" : "test", *color = cli_plot_color((size_t)i);
        fprintf(pipe,
                "%s $%s with yerrorbars pt 7 ps 0.7 lw 1.5 lc rgb '%s' notitle, $%s with lines lw 2 dt %d lc rgb '%s' "
                "title '%s'",
                i ? "," : "plot", name, color, name, 1 + i, color, i ? "training rows" : "test rows of the fold");
    }
    fputs("\n", pipe);
}

int cli_learning_curve_plot(cli_session *session, const cli_folds *folds, const char *path)
{
    return cli_plot_file(session, path, "", draw, folds);
}
