/* The plots of bochner mup: two panels with the same scale, one curve per name. */
#include "mup.h"
#include "../common/plot.h"
#include <math.h>

static void draw_points(FILE *pipe, const cli_mup_panels *p, size_t side)
{
    for (size_t i = 0; i < p->count; i++) {
        const cli_mup_curve *curve = &p->curves[side][i];
        fprintf(pipe, "$s%zuc%zu << EOD\n", side, i);
        for (size_t k = 0; k < curve->count; k++)
            if (isfinite(curve->y[k])) fprintf(pipe, "%.9g %.9g\n", curve->x[k], curve->y[k]);
        fputs("EOD\n", pipe);
    }
}

/* Both panels show the same range. */
static void range(const cli_mup_panels *p, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (size_t side = 0; side < CLI_MUP_SIDES; side++)
        for (size_t i = 0; i < p->count; i++)
            for (size_t k = 0; k < p->curves[side][i].count; k++) {
                const double y = p->curves[side][i].y[k];
                if (isfinite(y)) *low = fmin(*low, y), *high = fmax(*high, y);
            }
    if (p->max_y > 0) *high = fmin(*high, p->max_y);
    const double margin = p->log_y ? 0 : 0.05 * (*high - *low);
    *low = p->log_y ? *low / 1.3 : *low - margin;
    *high = p->log_y ? *high * 1.3 : *high + margin;
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const cli_mup_panels *p = what;
    double low, high;
    range(p, &low, &high);
    cli_plot_begin(pipe, path, 1080, 500, 12);
    fprintf(pipe,
            "set xlabel '%s'\nset ylabel '%s'\nset logscale x 2\nset format x '%s'\nset rmargin 3\n"
            "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset key below center horizontal Left reverse noenhanced\n",
            p->x_label, p->y_label, p->x_format);
    if (p->log_y) fputs("set logscale y 10\n", pipe);
    if (isfinite(low) && high > low) fprintf(pipe, "set yrange [%.9g:%.9g]\n", low, high);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) draw_points(pipe, p, side);
    fputs("set multiplot layout 1,2\n", pipe);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) {
        fprintf(pipe, "set title '%s' textcolor rgb '#222222'\n", p->titles[side]);
        for (size_t i = 0; i < p->count; i++)
            fprintf(pipe, "%s $s%zuc%zu with linespoints pt 7 ps 0.6 lw 2 lc rgb '%s' title '%s'", i ? "," : "plot",
                    side, i, cli_plot_color(i), p->curves[side][i].name);
        fputs("\n", pipe);
    }
    fputs("unset multiplot\n", pipe);
}

int cli_mup_plot(cli_session *session, const char *path, const cli_mup_panels *panels)
{
    return cli_plot_file(session, path, "", draw, panels);
}
