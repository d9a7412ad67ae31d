/* The plot of a run: losses against tokens. It is read from metrics.jsonl, so that the plot of a resumed run is complete. */
#include "../common/plot.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct point {
    double tokens, loss, valid; /* valid: NAN if it was not evaluated */
} point;

typedef struct curve {
    point *points;
    size_t count, room;
    const char *title, *unit, *loss; /* of x, and of the loss */
} curve;

static double number_of(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    char *end;
    if (!at) return NAN;
    const double value = strtod(at + strlen(name), &end);
    return end > at + strlen(name) ? value : NAN;
}

static void add(curve *c, point p)
{
    if (c->count == c->room) {
        point *larger = cli_allocate(c->room = 2 * c->room + 256, sizeof *larger, "a curve");
        if (c->count) memcpy(larger, c->points, c->count * sizeof *larger);
        free(c->points);
        c->points = larger;
    }
    c->points[c->count++] = p;
}

static void read_curve(const char *path, curve *c)
{
    char line[2048], counted[64];
    FILE *file = fopen(path, "r");
    snprintf(counted, sizeof counted, "\"%s\": ", c->unit);
    while (file && fgets(line, sizeof line, file)) {
        const bool tested = strstr(line, "\"evaluated\": true");
        add(c, (point){number_of(line, counted), number_of(line, "\"loss\": "),
                       tested ? number_of(line, "\"valid_loss\": ") : NAN});
    }
    if (file) fclose(file);
}

static void draw_block(FILE *pipe, const char *name, const curve *c, bool tests)
{
    fprintf(pipe, "$%s << EOD\n", name);
    for (size_t i = 0; i < c->count; i++) {
        const double y = tests ? c->points[i].valid : c->points[i].loss;
        if (isfinite(y)) fprintf(pipe, "%.0f %.9g\n", c->points[i].tokens, y);
    }
    fputs("EOD\n", pipe);
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const curve *c = what;
    bool tested = false;
    for (size_t i = 0; i < c->count; i++) tested |= isfinite(c->points[i].valid);
    cli_picture_begin(pipe, path, 720, 480, 12);
    fprintf(pipe,
            "set title '%s' textcolor rgb '#222222'\nset xlabel '%s'\nset ylabel '%s'\nset key top right\n"
            "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nset format x '%%.0s%%c'\n",
            c->title, c->unit, c->loss);
    if (c->count && c->points[c->count - 1].tokens >= 20 * c->points[0].tokens) fputs("set logscale x 10\n", pipe);
    draw_block(pipe, "train", c, false);
    if (tested) draw_block(pipe, "valid", c, true);
    fputs("plot $train with lines lw 1.6 lc rgb '#1f5fa8' title 'training'", pipe);
    if (tested) fputs(", $valid with linespoints pt 7 ps 0.7 lw 2 lc rgb '#e8862e' title 'validation'", pipe);
    fputs("\n", pipe);
}

int cli_train_plot(cli_train_job *job)
{
    char path[4096], title[CLI_TRAIN_TITLE];
    curve c = {.title = title, .unit = job->kind->unit, .loss = job->kind->picture_words(job, title)};
    snprintf(path, sizeof path, "%s/metrics.jsonl", job->options->out);
    read_curve(path, &c);
    const int status = cli_picture(job->session, job->options->plot, "", draw, &c);
    free(c.points);
    return status;
}
