/* Cross-validation: every variant is fitted and tested in every fold. */
#include "folds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics -------------------------------------------------------------------------------------------------- */

cli_spread cli_spread_of(size_t count, const double *values)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    const double k = (double)count, deviation = sqrt(squares / (k - 1));
    return (cli_spread){mean, deviation, deviation * sqrt(1 / k + 1 / (k - 1))};
}

cli_spread cli_variant_spread(const cli_folds *folds, const cli_variant *variant, bo_score metric)
{
    double *values = cli_allocate(folds->folds, sizeof *values, "folds");
    for (size_t f = 0; f < folds->folds; f++) values[f] = variant->folds[f].values[metric];
    const cli_spread spread = cli_spread_of(folds->folds, values);
    free(values);
    return spread;
}

cli_spread cli_variant_difference(const cli_folds *folds, const cli_variant *variant, const cli_variant *other)
{
    double *values = cli_allocate(folds->folds, sizeof *values, "folds");
    for (size_t f = 0; f < folds->folds; f++)
        values[f] = variant->folds[f].values[folds->score] - other->folds[f].values[folds->score];
    const cli_spread spread = cli_spread_of(folds->folds, values);
    free(values);
    return spread;
}

/* ---- one fold ---------------------------------------------------------------------------------------------------- */

bool cli_fold_fit(cli_session *session, const bo_machine_desc *desc, const bo_samples *train, bo_machine **machine)
{
    const bo_status status = bo_machine_fit(session->context, desc, train, machine);
    if (status == BO_OK || status == BO_INVALID || status == BO_UNSUPPORTED) return true;
    cli_fail_status(session, status);
    return false;
}

bool cli_fold_test(cli_session *session, const bo_machine *machine, const bo_samples *test, bo_metrics **metrics)
{
    if (!*metrics && !cli_metrics_create(session, machine, metrics)) return false;
    const bo_inputs inputs = {.rows = test->rows, .x = test->x, .sparse = test->sparse};
    const bo_status status = bo_machine_evaluate(session->context, machine, &inputs, test->y, *metrics);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

/* Adds the test rows of a fold, for the plot of all folds. */
static bool pool(cli_session *session, const bo_machine *machine, const bo_samples *test, cli_variant *variant)
{
    if (!variant->all || !variant->all->desc.has_std || bo_machine_report(machine)->has_std)
        return cli_fold_test(session, machine, test, &variant->all);
    cli_warn(session, "the models of some folds have no standard deviations; the plot shows the other folds");
    return true;
}

static bool run_fold(cli_fit_job *job, cli_variant *variant, size_t fold, const bo_samples *train,
                     const bo_samples *test)
{
    cli_session *session = job->session;
    const double started = cli_now();
    bo_machine *machine = NULL;
    bo_metrics *metrics = NULL;
    bool ok = cli_fold_fit(session, &variant->desc, train, &machine);
    if (ok && !machine) snprintf(variant->refused, sizeof variant->refused, "%s", bo_context_error(session->context));
    ok = ok && (!machine || cli_fold_test(session, machine, test, &metrics));
    if (ok && machine) {
        const bo_fit_report *report = bo_machine_report(machine);
        cli_fold_result *result = &variant->folds[fold];
        *result = (cli_fold_result){.rows = test->rows,
                                    .trained = train->rows,
                                    .gamma = report->gamma,
                                    .lambda = report->lambda,
                                    .kernel = report->kernel,
                                    .metric = report->metric,
                                    .seconds = cli_now() - started};
        for (unsigned i = 0; i < CLI_METRICS; i++) result->values[i] = cli_measure(session, metrics, i).value;
        if (job->options->plot && !job->options->test) ok = pool(session, machine, test, variant);
    }
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    return ok;
}

/* ---- all folds --------------------------------------------------------------------------------------------------- */

static bool run_folds(cli_fit_job *job, cli_folds *folds, cli_fold_table *table)
{
    for (size_t f = 0; f < folds->folds; f++) {
        cli_rows train, test;
        if (!cli_fold_rows(table, f, &train, &test)) return false;
        bool ok = true;
        for (size_t v = 0; v < folds->count && ok; v++) {
            if (*folds->variants[v].refused) continue;
            cli_progress_clear(&job->session->progress);
            ok = run_fold(job, &folds->variants[v], f, &train.samples, &test.samples);
        }
        cli_rows_free(&train);
        cli_rows_free(&test);
        if (!ok) return false;
    }
    return true;
}

/* Stable insertion sort, best score first. */
static void sort_variants(cli_folds *folds)
{
    const bool larger = bo_score_larger_is_better(folds->score);
    double keys[CLI_VARIANTS];
    for (size_t i = 0; i < folds->count; i++) {
        const cli_variant variant = folds->variants[i];
        const double mean = cli_variant_spread(folds, &variant, folds->score).mean;
        const double key = *variant.refused ? INFINITY : larger ? -mean : mean;
        size_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            folds->variants[at] = folds->variants[at - 1];
        }
        keys[at] = key;
        folds->variants[at] = variant;
    }
}

/* Metrics of numbers precede metrics of classes. */
static bool score_suits(cli_fit_job *job, const cli_folds *folds)
{
    if (!folds->classes == (folds->score < BO_SCORE_ACCURACY)) return true;
    cli_fail(job->session, "--score: %s is a metric of %s, but the target is %s",
             bo_enum_name(BO_ENUM_SCORE, folds->score), folds->classes ? "numbers" : "classes",
             folds->classes ? "a class" : "a number");
    return false;
}

static bool check_score(cli_fit_job *job, const cli_folds *folds)
{
    const cli_variant *best = &folds->variants[0];
    if (*best->refused) {
        cli_fail(job->session, "%s", best->refused);
        return false;
    }
    if (isfinite(cli_variant_spread(folds, best, folds->score).mean)) return true;
    cli_fail(job->session, "--score %s cannot be computed in every fold; use fewer folds or another metric",
             bo_enum_name(BO_ENUM_SCORE, folds->score));
    return false;
}

bool cli_folds_run(cli_fit_job *job, cli_folds *out)
{
    const cli_fit_options *o = job->options;
    const size_t classes = job->train->classes;
    const bo_score default_score = classes ? BO_SCORE_LOG_LOSS : BO_SCORE_RMSE;
    *out = (cli_folds){.folds = o->folds,
                       .rows = job->train->rows,
                       .classes = classes,
                       .score = CLI_GIVEN(o, score) ? o->score : default_score};
    if (!score_suits(job, out)) return false;
    cli_fold_table table;
    bool ok = cli_fold_table_open(&table, job, o->folds);
    const bool terse = job->session->terse;
    job->session->terse = true; /* suppresses notes of the library, which every fold would repeat */
    if (ok) {
        cli_variants_create(out, o->compare, &job->desc);
        ok = run_folds(job, out, &table);
    }
    if (ok) {
        sort_variants(out);
        ok = check_score(job, out);
    }
    if (ok) {
        job->desc = out->variants[0].desc;
        ok = !o->learning_curve || cli_learning_curve(job, out, &table);
    }
    out->shared = table.shared;
    job->session->terse = terse;
    cli_progress_clear(&job->session->progress);
    cli_fold_table_close(&table);
    return ok;
}

void cli_folds_free(cli_folds *folds)
{
    for (size_t i = 0; i < folds->count; i++) {
        free(folds->variants[i].folds);
        bo_metrics_destroy(folds->variants[i].all);
    }
    free(folds->variants);
    for (size_t i = 0; i < folds->points; i++) {
        free(folds->curve[i].test);
        free(folds->curve[i].train);
    }
}
