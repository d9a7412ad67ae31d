/* The pictures of `bochner bench attention`: forward time by length, error of the output by features. */
#include "bench_attention.h"
#include "plot.h"
#include <string.h>

void attention_curve_add(attention_picture *picture, const char *name, double x, double y)
{
    attention_curve *curve = picture->curves, *end = curve + picture->count;
    while (curve < end && strcmp(curve->name, name) != 0) curve++;
    if (curve == end) {
        snprintf(curve->name, sizeof curve->name, "%s", name);
        picture->count++;
    }
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

typedef struct drawing {
    const attention_picture *picture;
    char title[128];
    const char *x_label, *y_label, *key;
    double factor; /* of y */
} drawing;

static void draw_curves(FILE *pipe, const char *path, const char *output, const void *what)
{
    static const char *const colors[] = {"#1f5fa8", "#e8862e", "#4a9a4a", "#8a5fa8", "#a83f3f", "#777777"};
    const drawing *d = what;
    cli_picture_begin(pipe, path, output, 720, 480, 12);
    fprintf(pipe,
            "set title '%s' textcolor rgb '#222222'\nset xlabel '%s'\nset ylabel '%s'\nset key %s Left reverse\n"
            "set logscale x 2\nset logscale y 10\nset format y '%%g'\nset grid lc rgb '#e6e6e6' lt 1 lw 0.6\n"
            "set offsets graph 0.03, graph 0.03, 0, 0\n",
            d->title, d->x_label, d->y_label, d->key);
    for (size_t i = 0; i < d->picture->count; i++) {
        const attention_curve *curve = &d->picture->curves[i];
        fprintf(pipe, "$c%zu << EOD\n", i);
        for (size_t j = 0; j < curve->count; j++) fprintf(pipe, "%.0f %.9g\n", curve->x[j], d->factor * curve->y[j]);
        fputs("EOD\n", pipe);
    }
    for (size_t i = 0; i < d->picture->count; i++)
        fprintf(pipe, "%s $c%zu with linespoints pt 7 ps 0.6 lw 2 lc rgb '%s' title '%s' noenhanced", i ? "," : "plot",
                i, colors[i % CLI_COUNT_OF(colors)], d->picture->curves[i].name);
    fputs("\n", pipe);
}

int attention_plot(attention_bench *bench)
{
    const attention_options *o = bench->options;
    drawing times = {&bench->times, "", "tokens", "milliseconds", "top left", 1e3};
    drawing laws = {&bench->laws, "", "features", "relative error of the output", "bottom left", 1};
    snprintf(times.title, sizeof times.title, "Forward pass of causal attention, %d heads of %d, %d threads",
             ATTENTION_HEADS, ATTENTION_DIM, bo_context_threads(bench->context));
    snprintf(laws.title, sizeof laws.title, "Frequencies drawn for anisotropic data, width %d", ATTENTION_DIM);
    int status = o->plot ? cli_picture(bench->run->session, o->plot, "", draw_curves, &times) : CLI_DONE;
    if (status == CLI_DONE && o->plot_laws)
        status = cli_picture(bench->run->session, o->plot_laws, "", draw_curves, &laws);
    return status;
}
