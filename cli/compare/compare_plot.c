/* The plot of bochner compare: validation loss as thick lines, training loss as thin lines. */
#include "compare.h"
#include "../common/plot.h"
#include <math.h>
#include <string.h>

static double x_of(const cli_comparison *all, const cli_run_point *p)
{
    return all->axis == CLI_COMPARE_STEP ? p->step : all->axis == CLI_COMPARE_TOKENS ? p->count : p->seconds;
}

static double y_of(const cli_comparison *all, const cli_run_point *p, bool valid)
{
    if (!valid) return p->loss;
    return !p->evaluated ? NAN : all->by_bits ? p->valid_metric : p->valid_loss;
}

/* Returns the number of points. */
static size_t draw_block(FILE *pipe, const cli_comparison *all, size_t run, bool valid)
{
    const cli_run_metrics *m = &all->runs[run].metrics;
    size_t count = 0;
    fprintf(pipe, "$%c%zu << EOD\n", valid ? 'v' : 't', run);
    for (size_t i = 0; i < m->count; i++) {
        const double x = x_of(all, &m->points[i]), y = y_of(all, &m->points[i], valid);
        if (!isfinite(x) || !isfinite(y)) continue;
        fprintf(pipe, "%.9g %.9g\n", x, y);
        count++;
    }
    fputs("EOD\n", pipe);
    return count;
}

static void draw_curve(FILE *pipe, const cli_comparison *all, size_t run, bool valid, bool titled, bool first)
{
    fprintf(pipe, "%s $%c%zu with %s dt %zu lc rgb '%s%s' ", first ? "plot" : ",", valid ? 'v' : 't', run,
            valid ? "linespoints pt 7 ps 0.6 lw 2" : "lines lw 1", 1 + run / CLI_PLOT_COLORS, valid ? "" : "#90",
            cli_plot_color(run) + (valid ? 0 : 1));
    fputs(titled ? "title " : "notitle", pipe);
    if (titled) cli_plot_quoted(pipe, all->runs[run].name);
}

/* "tokens", or "examples" for networks. */
static const char *x_label(const cli_comparison *all)
{
    bool same = true;
    for (size_t i = 1; i < all->count; i++)
        same = same && strcmp(all->runs[i].metrics.unit, all->runs[0].metrics.unit) == 0;
    if (all->axis == CLI_COMPARE_STEP) return "step";
    if (all->axis == CLI_COMPARE_SECONDS) return "seconds";
    return same ? all->runs[0].metrics.unit : "tokens or examples";
}

static const char *y_label(const cli_comparison *all)
{
    const char *unit = cli_compared_unit(&all->runs[0]);
    if (all->by_bits) return "bits per byte";
    for (size_t i = 1; i < all->count; i++)
        if (strcmp(cli_compared_unit(&all->runs[i]), unit) != 0) return "loss";
    return unit;
}

/* Logarithmic if the runs cover more than a factor of 20. */
static bool is_logarithmic(const cli_comparison *all)
{
    double lower = INFINITY, upper = 0;
    for (size_t i = 0; i < all->count; i++) {
        const cli_run_metrics *m = &all->runs[i].metrics;
        lower = fmin(lower, x_of(all, &m->points[0]));
        upper = fmax(upper, x_of(all, &m->points[m->count - 1]));
    }
    return lower > 0 && upper >= 20 * lower;
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const cli_comparison *all = what;
    cli_plot_begin(pipe, path, 860, 480, 12);
    fprintf(pipe,
            "set title '%s' textcolor rgb '#222222'\nset xlabel '%s'\nset ylabel '%s'\n"
            "set key outside right top Left reverse noenhanced\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\n"
            "set format x '%%.0s%%c'\nset autoscale xfixmax\n",
            all->by_bits ? "Validation loss" : "Validation loss (thin lines: training loss)", x_label(all),
            y_label(all));
    if (is_logarithmic(all)) fputs("set logscale x 10\n", pipe);
    bool first = true;
    bool tested[CLI_LIST_CAPACITY] = {false};
    for (size_t i = 0; i < all->count; i++) {
        tested[i] = draw_block(pipe, all, i, true) > 0;
        draw_block(pipe, all, i, false);
    }
    for (size_t i = 0; i < all->count && !all->by_bits; i++, first = false)
        draw_curve(pipe, all, i, false, !tested[i], first);
    for (size_t i = 0; i < all->count; i++) {
        if (!tested[i]) continue;
        draw_curve(pipe, all, i, true, true, first);
        first = false;
    }
    fputs("\n", pipe);
}

int cli_compare_plot(cli_session *session, const char *path, const cli_comparison *all)
{
    return cli_plot_file(session, path, "", draw, all);
}
