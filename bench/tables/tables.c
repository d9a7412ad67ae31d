/* Tables: kernel machines with default settings compared with gradient boosting and xRFM, default and tuned, and the
 * coverage of the 95% interval. */
#include "tables.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Minimum number of test rows for a coverage goal (the standard error is then at most 0.7%); maximum number of rows for
 * a time goal. */
enum { LARGE_TEST = 1000, MAX_TIMED = 50000 };

/* Means over the splits. */
typedef struct result {
    double score, seconds, inside, fifths[BO_COVERAGE_PARTS];
    size_t rows, test_rows, classes;
} result;

/* ---- machines ---------------------------------------------------------------------------------------------------- */

static bo_status evaluate(bo_context *context, const bo_machine *machine, const bo_samples *test, bo_metrics *metrics)
{
    const bo_inputs inputs = {.rows = test->rows, .x = test->x, .sparse = test->sparse};
    return bo_machine_evaluate(context, machine, &inputs, test->y, metrics);
}

static bo_status fit_parts(bo_context *context, const bench_parts *parts, uint64_t seed, double share, result *sum)
{
    bo_machine_desc desc = {.choose_kernel = true, .seed = seed};
    bo_machine *machine = NULL;
    bo_metrics *metrics = NULL;
    double start = cli_now();
    bo_status status = bo_machine_fit(context, &desc, &parts->train, &machine);
    sum->seconds += share * (cli_now() - start);
    if (status == BO_OK) status = bo_machine_create_metrics(context, machine, 0, &metrics);
    if (status == BO_OK) status = evaluate(context, machine, &parts->test, metrics);
    if (status == BO_OK) {
        bo_metrics_summary metrics_report;
        bo_metrics_report(metrics, &metrics_report);
        sum->score += share * (parts->train.classes ? 1 - metrics_report.accuracy : metrics_report.rmse);
        sum->inside += share * metrics_report.coverage;
        for (size_t i = 0; i < BO_COVERAGE_PARTS; i++) sum->fifths[i] += share * metrics_report.coverage_parts[i];
    }
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    return status;
}

static bool fit_splits(bench_run *bench, const bench_table *table, result *out)
{
    size_t splits = bench->options->splits;
    bool ok = true;
    *out = (result){0};
    for (size_t split = 0; ok && split < splits; split++) {
        bench_parts parts = {0};
        ok = bench_parts_load(bench, table, split, &parts);
        if (ok) {
            bo_status status = fit_parts(bench->session->context, &parts, bench->session->common.seed + split,
                                         1 / (double)splits, out);
            if (status != BO_OK) cli_fail_status(bench->session, status);
            ok = status == BO_OK;
        }
        out->rows = parts.train.rows;
        out->test_rows = parts.test.rows;
        out->classes = parts.train.classes;
        bench_parts_close(&parts);
    }
    return ok;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

/* Ratios over the tables. */
typedef struct ratio_summary {
    size_t count, ahead;
    double log_sum, largest;
} ratio_summary;

static void add_ratio(ratio_summary *all, double ratio)
{
    if (isnan(ratio)) return;
    all->count++;
    all->ahead += ratio <= 1;
    all->log_sum += log(ratio);
    if (ratio > all->largest) all->largest = ratio;
}

static double geometric_mean(const ratio_summary *all)
{
    return exp(all->log_sum / (double)all->count);
}

/* The competitors, and the goals for all twelve tables. */
static const struct {
    const char *name;
    size_t first, last; /* peers */
    bench_mode mode;
    double ahead, ratio; /* goals: number of tables at or ahead, geometric mean of the ratios */
} rivals[] = {
    {"default boosting", 0, BENCH_XRFM - 1, BENCH_DEFAULT, 9, 0.93},
    {"tuned boosting", 0, BENCH_XRFM - 1, BENCH_TUNED, 7, NAN},
    {"tuned xRFM", BENCH_XRFM, BENCH_XRFM, BENCH_TUNED, NAN, 1.01},
};
enum { RIVALS = CLI_COUNT_OF(rivals) };

typedef struct table_bench {
    bench_run *run;
    bench_peer_fits saved, default_fits; /* results of --tables-peers; default boosting in this run */
    size_t threads;
    ratio_summary ratios[RIVALS], slower, faster, faster_searched; /* searched: the time of xRFM includes its search */
    bool other_host, other_threads; /* other_host: some boosting times come from saved results; other_threads: some xRFM
                                       times come from another number of threads */
} table_bench;

/* The best (lowest) score or the longest time among a competitor's peers. */
typedef struct choice {
    bench_peer_fit fit; /* without peer: no peer has results */
    size_t among;       /* number of peers that have results */
} choice;

static choice choose(const bench_peer_fits *fits, size_t table, size_t rival, size_t splits, bool slowest)
{
    choice out = {.fit = {.score = NAN, .seconds = NAN}};
    for (size_t peer = rivals[rival].first; peer <= rivals[rival].last; peer++) {
        bench_peer_fit mean = bench_peer_mean(fits, table, peer, rivals[rival].mode, splits);
        if (isnan(slowest ? mean.seconds : mean.score)) continue;
        bool better = slowest ? mean.seconds > out.fit.seconds : mean.score < out.fit.score;
        if (out.among++ == 0 || better) out.fit = mean;
    }
    return out;
}

/* Runs boosting with default settings on this host: all splits, or one split for times if saved results contain the
 * scores. */
static bool run_boosting(table_bench *bench, const bench_table *table)
{
    const bench_options *o = bench->run->options;
    char threads[24], splits[24];
    snprintf(threads, sizeof threads, "%zu", bench->threads);
    snprintf(splits, sizeof splits, "%zu", o->tables_peers ? 1 : o->splits);
    const char *const arguments[] = {o->tables, "--tables", table->name, "--peers", "hist,xgboost,lightgbm,catboost",
                                     "--modes", "default",  "--splits",  splits,    "--threads",
                                     threads,   NULL};
    char *lines = bench_peer(bench->run, &bench_sklearn, "tables.py", arguments);
    bool ok = !lines || bench_peers_read(bench->run, "tables.py", lines, &bench->default_fits);
    free(lines);
    return ok;
}

static void compare_scores(table_bench *bench, size_t table, const result *bochner, const char *measure)
{
    char title[96];
    const bench_options *o = bench->run->options;
    for (size_t i = 0; i < RIVALS; i++) {
        choice best = choose(o->tables_peers ? &bench->saved : &bench->default_fits, table, i, o->splits, false);
        if (!(best.fit.score > 0)) continue;
        double ratio = bochner->score / best.fit.score;
        add_ratio(&bench->ratios[i], ratio);
        snprintf(title, sizeof title, "%s, %s / %s", bench_tables[table].name, measure, rivals[i].name);
        bench_add(bench->run, title, ratio, "", 1, true, "%.4g, %s %.4g, best of %zu", bochner->score, best.fit.peer,
                  best.fit.score, best.among);
    }
}

/* Saved times may come from another host. They have no goal. */
static void compare_boosting_time(table_bench *bench, size_t table, const result *bochner)
{
    char title[96];
    size_t splits = bench->run->options->splits;
    choice peer_choice = choose(&bench->default_fits, table, 0, splits, true);
    choice slowest = peer_choice.among ? peer_choice : choose(&bench->saved, table, 0, splits, true);
    if (!slowest.among) return;
    double ratio = bochner->seconds / slowest.fit.seconds;
    if (bochner->rows <= MAX_TIMED) {
        add_ratio(&bench->slower, ratio);
        bench->other_host |= !peer_choice.among;
    }
    snprintf(title, sizeof title, "%s, time / slowest default boosting", bench_tables[table].name);
    bench_add(bench->run, title, ratio, "", peer_choice.among && bochner->rows <= MAX_TIMED ? 2 : NAN, true,
              "%.3g s on %zu threads, %s %.3g s on %zu threads, slowest of %zu, %s", bochner->seconds, bench->threads,
              slowest.fit.peer, slowest.fit.seconds, slowest.fit.threads, slowest.among,
              peer_choice.among ? "same run" : "saved, possibly on another host");
}

static void compare_xrfm_time(table_bench *bench, size_t table, const result *bochner)
{
    char title[96], searched[64] = "";
    bench_peer_fit xrfm = bench_peer_mean(&bench->saved, table, BENCH_XRFM, BENCH_TUNED, bench->run->options->splits);
    double search = bench->saved.search[table][BENCH_XRFM];
    if (isnan(xrfm.seconds)) return;
    add_ratio(&bench->faster, xrfm.seconds / bochner->seconds);
    bench->other_threads |= xrfm.threads != bench->threads;
    if (search > 0) {
        add_ratio(&bench->faster_searched, (search + xrfm.seconds) / bochner->seconds);
        snprintf(searched, sizeof searched, " after a search of %.3g s", search);
    }
    snprintf(title, sizeof title, "%s, times faster than tuned xRFM", bench_tables[table].name);
    bench_add(bench->run, title, xrfm.seconds / bochner->seconds, "x", NAN, false,
              "%.3g s on %zu threads, xRFM %.3g s on %zu threads%s, saved, possibly on another host", bochner->seconds,
              bench->threads, xrfm.seconds, xrfm.threads, searched);
}

static void add_coverage(bench_run *run, const char *name, const result *bochner)
{
    char title[96];
    if (bochner->classes) return;
    bool large = bochner->test_rows >= LARGE_TEST, high = bochner->inside > 0.95; /* the nearer bound of 93 to 97% */
    snprintf(title, sizeof title, "%s, inside the 95%% interval", name);
    bench_add(run, title, 100 * bochner->inside, "%",
              !large ? NAN
              : high ? 97
                     : 93,
              high, "%zu test rows", bochner->test_rows);
    if (!large) return;
    const double *fifths = bochner->fifths;
    double min_coverage = fifths[0];
    for (size_t i = 1; i < BO_COVERAGE_PARTS; i++) min_coverage = fmin(min_coverage, fifths[i]);
    snprintf(title, sizeof title, "%s, inside, worst fifth", name);
    bench_add(run, title, 100 * min_coverage, "%", 90, false,
              "by size of the prediction: %.1f, %.1f, %.1f, %.1f, %.1f%%", 100 * fifths[0], 100 * fifths[1],
              100 * fifths[2], 100 * fifths[3], 100 * fifths[4]);
}

static bool run_table(table_bench *bench, size_t index)
{
    const bench_table *table = &bench_tables[index];
    char title[96];
    result bochner;
    if (!run_boosting(bench, table) || !fit_splits(bench->run, table, &bochner)) return false;
    const char *measure = bochner.classes ? "error rate" : "RMSE";
    snprintf(title, sizeof title, "%s, %s", table->name, measure);
    bench_add(bench->run, title, bochner.score, "", NAN, true, "mean of splits 0 to %zu, %zu rows",
              bench->run->options->splits - 1, bochner.rows);
    snprintf(title, sizeof title, "%s, time of a fit with search", table->name);
    bench_add(bench->run, title, bochner.seconds, "s", NAN, true, "%zu threads", bench->threads);
    compare_scores(bench, index, &bochner, measure);
    compare_boosting_time(bench, index, &bochner);
    compare_xrfm_time(bench, index, &bochner);
    add_coverage(bench->run, table->name, &bochner);
    return true;
}

/* ---- all tables -------------------------------------------------------------------------------------------------- */

static void summarize(const table_bench *bench)
{
    bench_run *run = bench->run;
    const ratio_summary *slower = &bench->slower, *faster = &bench->faster, *searched = &bench->faster_searched;
    char title[96];
    for (size_t i = 0; i < RIVALS; i++) {
        const ratio_summary *ratios = &bench->ratios[i];
        bool all = ratios->count == BENCH_TABLES;
        if (!ratios->count) continue;
        snprintf(title, sizeof title, "tables at or ahead of %s", rivals[i].name);
        bench_add(run, title, (double)ratios->ahead, "", all ? rivals[i].ahead : NAN, false, "of %zu", ratios->count);
        snprintf(title, sizeof title, "error / %s, geometric mean", rivals[i].name);
        bench_add(run, title, geometric_mean(ratios), "", all ? rivals[i].ratio : NAN, true, "%zu tables",
                  ratios->count);
    }
    if (slower->count)
        bench_add(run, "time / slowest default boosting, largest", slower->largest, "", bench->other_host ? NAN : 2,
                  true, "geometric mean %.3g, %zu tables of up to %d rows, %s", geometric_mean(slower), slower->count,
                  MAX_TIMED, bench->other_host ? "saved, possibly on another host" : "same run");
    if (faster->count)
        bench_add(run, "times faster than tuned xRFM, geometric mean", geometric_mean(faster), "x",
                  bench->other_threads ? NAN : 5, false, "%zu tables; time of xRFM without search, saved%s",
                  faster->count, bench->other_threads ? ", not with the same number of threads" : "");
    if (searched->count)
        bench_add(run, "times faster than xRFM with its search", geometric_mean(searched), "x", NAN, false,
                  "geometric mean, %zu tables", searched->count);
}

static bool read_saved(table_bench *bench)
{
    enum { MAX_BYTES = 1 << 28 };
    const char *path = bench->run->options->tables_peers;
    void *text = NULL;
    size_t size;
    if (!path) return true;
    bo_status status = bo_file_load(bench->run->session->context, path, MAX_BYTES, &text, &size);
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    bool ok = status == BO_OK && bench_peers_read(bench->run, path, text, &bench->saved);
    bo_free(text);
    return ok;
}

bool bench_on_tables(bench_run *run)
{
    const bench_options *o = run->options;
    if (!o->tables) return true;
    table_bench *bench = cli_allocate(1, sizeof *bench, "results on tables");
    *bench = (table_bench){.run = run, .threads = (size_t)bo_context_describe(run->session->context)->threads};
    double load;
    if (getloadavg(&load, 1) == 1 && load > (double)bench->threads)
        cli_warn(run->session, "the host is busy (load %.1f): ratios of times are unreliable", load);
    bool ok = read_saved(bench);
    for (size_t i = 0; ok && i < BENCH_TABLES; i++) {
        if (!bench_listed(o->only_tables, bench_tables[i].name)) continue;
        if (bench_table_present(o->tables, &bench_tables[i]))
            ok = run_table(bench, i);
        else
            cli_warn(run->session, "%s is skipped: %s does not have it", bench_tables[i].name, o->tables);
    }
    if (ok) summarize(bench);
    free(bench);
    return ok;
}
