/* The picture of `bochner bench attention`: forward time by length. */
#include "bench_attention.h"
#include "plot.h"
#include <string.h>

void attention_curve_add(attention_bench *bench, const char *name, size_t tokens, double seconds)
{
    attention_curve *curve = bench->curves, *end = curve + bench->curve_count;
    while (curve < end && strcmp(curve->name, name) != 0) curve++;
    if (curve == end) {
        snprintf(curve->name, sizeof curve->name, "%s", name);
        bench->curve_count++;
    }
    curve->tokens[curve->count] = (double)tokens;
    curve->seconds[curve->count++] = seconds;
}

static void draw_curves(FILE *pipe, const char *path, const char *output, const void *what)
{
    static const char *const colors[] = {"#1f5fa8", "#e8862e", "#4a9a4a", "#8a5fa8", "#a83f3f", "#777777"};
    const attention_bench *bench = what;
    cli_picture_begin(pipe, path, output, 720, 480, 12);
    fprintf(pipe, "set title 'Forward pass of causal attention, %d heads of %d, %d threads' textcolor rgb '#222222'\n",
            ATTENTION_HEADS, ATTENTION_DIM, bo_context_threads(bench->context));
    fputs("set logscale x 2\nset logscale y 10\nset format y '%g'\nset xlabel 'tokens'\nset ylabel 'milliseconds'\n"
          "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset key top left Left reverse\nset offsets graph 0.03, graph 0.03, "
          "0, 0\n",
          pipe);
    for (size_t i = 0; i < bench->curve_count; i++) {
        const attention_curve *curve = &bench->curves[i];
        fprintf(pipe, "$c%zu << EOD\n", i);
        for (size_t j = 0; j < curve->count; j++)
            fprintf(pipe, "%.0f %.9g\n", curve->tokens[j], 1e3 * curve->seconds[j]);
        fputs("EOD\n", pipe);
    }
    for (size_t i = 0; i < bench->curve_count; i++)
        fprintf(pipe, "%s $c%zu with linespoints pt 7 ps 0.6 lw 2 lc rgb '%s' title '%s'", i ? "," : "plot", i,
                colors[i % CLI_COUNT_OF(colors)], bench->curves[i].name);
    fputs("\n", pipe);
}

int attention_plot(attention_bench *bench)
{
    return cli_picture(bench->run->session, bench->options->plot, "", draw_curves, bench);
}
