/* The plot of a run: losses against tokens. It is read from metrics.jsonl, so that the plot of a resumed run is
 * complete. */
#include "../common/plot.h"
#include "../compare/run.h"
#include "train.h"
#include <errno.h>
#include <math.h>
#include <string.h>

typedef struct plot_data {
    cli_run_metrics metrics;
    const char *title, *loss; /* loss: the unit of the loss */
} plot_data;

static void draw_block(FILE *pipe, const char *name, const cli_run_metrics *m, bool valid)
{
    fprintf(pipe, "$%s << EOD\n", name);
    for (size_t i = 0; i < m->count; i++) {
        const cli_run_point *p = &m->points[i];
        const double y = !valid ? p->loss : p->evaluated ? p->valid_loss : NAN;
        if (isfinite(y)) fprintf(pipe, "%.0f %.9g\n", p->count, y);
    }
    fputs("EOD\n", pipe);
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const plot_data *p = what;
    const cli_run_metrics *m = &p->metrics;
    bool tested = false;
    for (size_t i = 0; i < m->count; i++) tested |= m->points[i].evaluated && isfinite(m->points[i].valid_loss);
    cli_plot_begin(pipe, path, 720, 480, 12);
    fprintf(pipe,
            "set title '%s' textcolor rgb '#222222'\nset xlabel '%s'\nset ylabel '%s'\nset key top right\n"
            "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset format x '%%.0s%%c'\n",
            p->title, m->unit, p->loss);
    if (m->count && m->points[m->count - 1].count >= 20 * m->points[0].count) fputs("set logscale x 10\n", pipe);
    draw_block(pipe, "train", m, false);
    if (tested) draw_block(pipe, "valid", m, true);
    fputs("plot $train with lines lw 1.6 lc rgb '#1f5fa8' title 'training'", pipe);
    if (tested) fputs(", $valid with linespoints pt 7 ps 0.7 lw 2 lc rgb '#e8862e' title 'validation'", pipe);
    fputs("\n", pipe);
}

int cli_train_plot(cli_train_job *job)
{
    char title[CLI_TRAIN_TITLE];
    plot_data p = {.title = title, .loss = job->kind->plot_labels(job, title)};
    if (!cli_run_read(job->options->out, &p.metrics))
        return cli_fail(job->session, "no plot %s: %s/metrics.jsonl: %s", job->options->plot, job->options->out,
                        strerror(errno));
    const int status = cli_plot_file(job->session, job->options->plot, "", draw, &p);
    cli_run_metrics_free(&p.metrics);
    return status;
}
