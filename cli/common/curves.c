#include "curves.h"
#include "plot.h"
#include <string.h>

void cli_curves_add(cli_curves *curves, const char *name, double x, double y)
{
    cli_curve *curve = curves->curves, *end = curve + curves->count;
    while (curve < end && strcmp(curve->name, name) != 0) curve++;
    if (curve == end) {
        if (curves->count == CLI_CURVES) return;
        snprintf(curve->name, sizeof curve->name, "%s", name);
        curves->count++;
    }
    if (curve->count == CLI_CURVE_POINTS) return;
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const cli_drawing *d = what;
    cli_plot_begin(pipe, path, strstr(d->key, "outside") ? 860 : 720, 480, 12);
    fprintf(pipe,
            "set title '%s' textcolor rgb '#222222'\nset xlabel '%s'\nset ylabel '%s'\nset key %s Left reverse\n"
            "set logscale x 2\nset format x '%%.0f'\nset format y '%%g'\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\n"
            "set offsets graph 0.03, graph 0.03, 0, 0\n%s\n",
            d->title, d->x_label, d->y_label, d->key, d->percent ? "set yrange [0:102]" : "set logscale y 10");
    for (size_t i = 0; i < d->curves->count; i++) {
        const cli_curve *curve = &d->curves->curves[i];
        fprintf(pipe, "$c%zu << EOD\n", i);
        for (size_t j = 0; j < curve->count; j++) fprintf(pipe, "%.0f %.9g\n", curve->x[j], d->factor * curve->y[j]);
        fputs("EOD\n", pipe);
    }
    for (size_t i = 0; i < d->curves->count; i++)
        fprintf(pipe, "%s $c%zu with linespoints pt 7 ps 0.6 lw 2 dt %zu lc rgb '%s' title '%s' noenhanced",
                i ? "," : "plot", i, 1 + i / CLI_PLOT_COLORS, cli_plot_color(i), d->curves->curves[i].name);
    fputs("\n", pipe);
}

int cli_curves_plot(cli_session *session, const char *path, const cli_drawing *drawing)
{
    return cli_plot_file(session, path, "", draw, drawing);
}
