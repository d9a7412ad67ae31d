#include "plot.h"
#include "output.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool cli_plot_known(const char *path)
{
    return cli_ends_with(path, ".svg") || cli_ends_with(path, ".png") || cli_ends_with(path, ".pdf");
}

/* U+FFFE and U+FFFF, which XML does not allow. */
static bool is_noncharacter(const char *letter)
{
    return memcmp(letter, "\xef\xbf\xbe", 3) == 0 || memcmp(letter, "\xef\xbf\xbf", 3) == 0;
}

/* In double quotes gnuplot interprets quotes, backslashes and backquotes, which are written as octal numbers, and in the
 * label of a tic also %, which formats its position. Single quotes cannot hold a text that starts with one. Labels come
 * from files: control characters become blanks, and bytes and characters that an SVG file must not contain become ?. An
 * SVG file must not contain ]]> either: an invisible space (U+200B) precedes the >.
 * `limit`: of letters; of a longer text the middle is left out, because names often differ at their ends. */
static void quoted(FILE *pipe, const char *text, size_t limit, bool tic)
{
    const char *start = text;
    size_t letters = 0;
    for (const char *p = text; *p; letters++) p += bo_utf8_length(p, 4) ? bo_utf8_length(p, 4) : 1;
    const size_t left_out = letters > limit ? letters - limit + 1 : 0, head = limit / 2;
    fputc('"', pipe);
    for (size_t bytes, at = 0; *text; text += bytes, at++) {
        const size_t length = bo_utf8_length(text, 4);
        const unsigned char first = (unsigned char)*text;
        bytes = length ? length : 1;
        if (left_out && at == head) fputs("…", pipe);
        if (left_out && at >= head && at < head + left_out) continue;
        if (first == '>' && text >= start + 2 && text[-1] == ']' && text[-2] == ']') fputs("\xe2\x80\x8b", pipe);
        if (!length || (length == 3 && is_noncharacter(text)))
            fputc('?', pipe);
        else if (first < 0x20 || first == 0x7f)
            fputc(' ', pipe);
        else if (first == '"' || first == '\\' || first == '`')
            fprintf(pipe, "\\%03o", first);
        else if (first == '%' && tic)
            fputs("%%", pipe);
        else
            fwrite(text, 1, bytes, pipe);
    }
    fputc('"', pipe);
}

void cli_picture_quoted(FILE *pipe, const char *text)
{
    quoted(pipe, text, (size_t)-1, false);
}

void cli_picture_tic(FILE *pipe, const char *text, size_t letters, double at)
{
    quoted(pipe, text, letters, true);
    fprintf(pipe, " %.17g", at);
}

const char *cli_picture_color(size_t index)
{
    static const char *const colors[CLI_PICTURE_COLORS] = {"#1f5fa8", "#e8862e", "#4a9a4a", "#8a5fa8",
                                                           "#a83f3f", "#777777", "#c9a227", "#2fa5a5",
                                                           "#d46a9f", "#5b7f2b", "#303030"};
    return colors[index % CLI_PICTURE_COLORS];
}

/* The cairo terminals count points, 72 per inch. */
void cli_picture_begin(FILE *pipe, const char *path, int width, int height, int font)
{
    fputs("set encoding utf8\n", pipe);
    if (cli_ends_with(path, ".svg"))
        fprintf(pipe, "set terminal svg noenhanced size %d,%d font 'DejaVu Sans,%d' background 'white'\n", width,
                height, font);
    else if (cli_ends_with(path, ".png"))
        fprintf(pipe,
                "set terminal pngcairo noenhanced size %d,%d font 'DejaVu Sans,%d' fontscale 0.75 background 'white'\n",
                width, height, font);
    else
        fprintf(pipe,
                "set terminal pdfcairo noenhanced size %.2fin,%.2fin font 'DejaVu Sans,%d' fontscale 0.75 background "
                "'white'\n",
                width / 96.0, height / 96.0, font);
    fputs("unset key\nset border lc rgb '#555555'\nset tics textcolor rgb '#333333' nomirror\n", pipe);
}

/* Letters are about 0.54 as wide as the font is high. */
int cli_picture_title_font(const char *title, int room)
{
    const size_t letters = cli_letters(title);
    const int font = (int)(room / (0.54 * (double)(letters ? letters : 1)));
    return font > 14 ? 14 : font < 7 ? 7 : font;
}

void cli_picture_title(FILE *pipe, const char *title, int room)
{
    fputs("set title ", pipe);
    cli_picture_quoted(pipe, title);
    fprintf(pipe, " font ',%d' textcolor rgb '#222222'\n", cli_picture_title_font(title, room));
}

/* ---- predicted against true ---------------------------------------------------------------------------- */

typedef struct point {
    double predicted, deviation;
} point;

static int by_prediction(const void *a, const void *b)
{
    double left = ((const point *)a)->predicted, right = ((const point *)b)->predicted;
    return (left > right) - (left < right);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

enum { BINS = 40 };

/* The median deviation of `count` neighbors, which a few outliers do not change. */
static double middle_deviation(const point *points, size_t count)
{
    double *sorted = cli_allocate(count, sizeof(double), "plot");
    for (size_t i = 0; i < count; i++) sorted[i] = points[i].deviation;
    qsort(sorted, count, sizeof(double), ascending);
    double middle = sorted[count / 2];
    free(sorted);
    return middle;
}

/* The 95% interval around the diagonal: where predictions are p, the truth lies in p ± 1.96 s(p) and s is the median
 * deviation of a bin of neighbors. Predictions beyond the frame have no part in it. A closed polygon, up the left side
 * and down the right one. */
static void band(FILE *pipe, const bo_metrics *metrics, double low, double high)
{
    point *points = cli_allocate(metrics->points, sizeof(point), "plot");
    size_t n = 0;
    for (size_t i = 0; i < metrics->points; i++)
        if (metrics->predicted[i] >= low && metrics->predicted[i] <= high)
            points[n++] = (point){metrics->predicted[i], metrics->deviation[i]};
    qsort(points, n, sizeof(point), by_prediction);
    size_t bins = n / 8 < BINS ? n / 8 : BINS;
    if (bins == 0) bins = n > 0;
    double at[BINS], half[BINS];
    for (size_t b = 0; b < bins; b++) {
        size_t from = b * n / bins, to = (b + 1) * n / bins;
        at[b] = points[(from + to) / 2].predicted;
        half[b] = BO_INTERVAL_95 * middle_deviation(points + from, to - from);
    }
    free(points);
    fputs("$band << EOD\n", pipe);
    if (bins) {
        fprintf(pipe, "%.9g %.9g\n", low - half[0], low);
        for (size_t b = 0; b < bins; b++) fprintf(pipe, "%.9g %.9g\n", at[b] - half[b], at[b]);
        fprintf(pipe, "%.9g %.9g\n%.9g %.9g\n", high - half[bins - 1], high, high + half[bins - 1], high);
        for (size_t b = bins; b-- > 0;) fprintf(pipe, "%.9g %.9g\n", at[b] + half[b], at[b]);
        fprintf(pipe, "%.9g %.9g\n", low + half[0], low);
    }
    fputs("EOD\n", pipe);
}

/* The frame: all true values, and all predictions except the most extreme 0.5% at either end, so that a few outliers
 * do not shrink the rest to a dot. */
static void frame(const bo_metrics *metrics, double *low, double *high)
{
    size_t n = metrics->points;
    double *sorted = cli_allocate(n, sizeof(double), "plot");
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = metrics->predicted[i];
        *low = fmin(*low, metrics->truth[i]);
        *high = fmax(*high, metrics->truth[i]);
    }
    qsort(sorted, n, sizeof(double), ascending);
    if (n > 0) {
        *low = fmin(*low, sorted[n / 200]);
        *high = fmax(*high, sorted[n - 1 - n / 200]);
    }
    free(sorted);
    double margin = *high > *low ? 0.04 * (*high - *low) : fabs(*low) * 0.1 + 1;
    *low -= margin;
    *high += margin;
}

static void scatter_title(FILE *pipe, const bo_metrics *metrics, bool banded, size_t outside)
{
    char title[256];
    int length = snprintf(title, sizeof title, "%s rows:  RMSE %.5g,  R² %.4f", cli_count(metrics->rows).s,
                          bo_metrics_target_rmse(metrics, 0), bo_metrics_target_r2(metrics, 0));
    if (banded)
        length += snprintf(title + length, sizeof title - (size_t)length, ",  %.1f%% inside the 95%% band",
                           100 * bo_metrics_target_coverage(metrics, 0));
    if (outside) snprintf(title + length, sizeof title - (size_t)length, ",  %zu beyond the frame", outside);
    cli_picture_title(pipe, title, 600);
}

static void axis_label(FILE *pipe, const char *axis, const char *name, const char *what)
{
    char start[81], label[200];
    cli_clean(name, start, sizeof start);
    snprintf(label, sizeof label, "%s, %s", start, what);
    fprintf(pipe, "set %slabel ", axis);
    cli_picture_quoted(pipe, label);
    fputc('\n', pipe);
}

static void scatter(FILE *pipe, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    double low, high;
    size_t outside = 0;
    cli_picture_begin(pipe, path, 680, 680, 13);
    frame(metrics, &low, &high);
    fputs("$points << EOD\n", pipe);
    for (size_t i = 0; i < metrics->points; i++) {
        fprintf(pipe, "%.17g %.17g\n", metrics->truth[i], metrics->predicted[i]);
        outside += metrics->predicted[i] < low || metrics->predicted[i] > high;
    }
    fputs("EOD\n", pipe);
    bool banded = metrics->deviation && outside < metrics->points;
    if (banded) band(pipe, metrics, low, high);
    fprintf(pipe, "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\nset size ratio 1\n", low, high, low, high);
    scatter_title(pipe, metrics, banded, outside);
    const char *name = schema && bo_schema_target(schema, 0) ? bo_schema_target(schema, 0) : "target";
    axis_label(pipe, "x", name, "true");
    axis_label(pipe, "y", name, "predicted");
    double size = metrics->points > 1500 ? 0.28 : metrics->points > 300 ? 0.4 : 0.6;
    fprintf(pipe,
            "set grid lc rgb '#e6e6e6' lt 1 lw 0.6\nplot %sx with lines lc rgb '#888888' lw 1.4 dt 2, "
            "$points with points pt 7 ps %.2f lc rgb '#601f5fa8'\n",
            banded ? "$band with filledcurves closed fc rgb '#f6dfb8' fs solid 0.75 noborder, " : "", size);
}

/* ---- confusion matrix ---------------------------------------------------------------------------------- */

/* From white to `full` as share goes from 0 to 1. */
static unsigned shade(unsigned full, double share)
{
    unsigned color = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        double channel = 255 + share * ((double)((full >> shift) & 255) - 255);
        color |= (unsigned)lround(channel) << shift;
    }
    return color;
}

static void class_tics(FILE *pipe, const char *axis, const bo_metrics *metrics, const bo_schema *schema,
                       const char *format)
{
    fprintf(pipe, "set %stics %s scale 0 (", axis, format);
    const size_t classes = metrics->desc.classes, step = classes <= 60 ? 1 : (classes + 29) / 30;
    for (size_t i = 0; i < classes; i += step) {
        cli_word number;
        if (i) fputs(", ", pipe);
        cli_picture_tic(pipe, cli_metrics_label(metrics, schema, i, &number), 18, (double)i);
    }
    fputs(")\n", pipe);
}

/* Correct predictions are blue, by the recall of their class. Errors are orange, by their share of the class, on a
 * separate scale, so that the few important errors are visible. */
static void cells(FILE *pipe, const bo_metrics *metrics, int cell, int font)
{
    size_t classes = metrics->desc.classes, object = 1;
    double worst = 0.03; /* single errors of a good classifier stay pale */
    for (size_t i = 0; i < classes; i++) {
        double total = 0;
        for (size_t j = 0; j < classes; j++) total += (double)metrics->confusion[i * classes + j];
        for (size_t j = 0; j < classes && total > 0; j++)
            if (i != j) worst = fmax(worst, (double)metrics->confusion[i * classes + j] / total);
    }
    for (size_t i = 0; i < classes; i++) {
        double total = 0;
        for (size_t j = 0; j < classes; j++) total += (double)metrics->confusion[i * classes + j];
        for (size_t j = 0; j < classes; j++) {
            size_t count = (size_t)metrics->confusion[i * classes + j];
            if (count == 0) continue;
            double share = (double)count / total;
            double depth = i == j ? 0.12 + 0.88 * share * share : 0.08 + 0.92 * sqrt(share / worst);
            unsigned color = shade(i == j ? 0x1f5fa8 : 0xe8862e, depth);
            fprintf(pipe, "set object %zu rect from %g,%g to %g,%g fc rgb '#%06x' fs solid noborder behind\n", object++,
                    (double)j - 0.48, (double)i - 0.48, (double)j + 0.48, (double)i + 0.48, color);
            if (cell < 24) continue;
            bool light = i == j && depth > 0.45;
            int digits = snprintf(NULL, 0, "%zu", count), widest = cell * 10 / (7 * digits);
            int size = widest < font ? widest : font;
            fprintf(pipe, "set label %zu '%zu' at %zu,%zu center font ',%d' textcolor rgb '%s' front\n", object, count,
                    j, i, size, light ? "#ffffff" : "#333333");
        }
    }
}

static void confusion(FILE *pipe, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    size_t classes = metrics->desc.classes, longest = 1;
    for (size_t i = 0; i < classes; i++) {
        cli_word number;
        size_t length = cli_letters(cli_metrics_label(metrics, schema, i, &number));
        if (length > longest) longest = length < 18 ? length : 18;
    }
    int cell = classes <= 12 ? 52 : classes <= 30 ? 32 : classes <= 60 ? 24 : (int)(1440 / classes + 1);
    int font = classes <= 12 ? 12 : 9;
    int side = cell * (int)classes, names = 9 * (int)longest;
    if (side < 260) side = 260;
    bool slanted = (int)longest * 8 > cell;
    int left = 64 + names, bottom = 58 + (slanted ? names * 3 / 4 : 14), top = 52, right = 30;
    cli_picture_begin(pipe, path, left + side + right, top + side + bottom, classes <= 12 ? 12 : 10);
    fprintf(pipe, "set lmargin at screen %.5f\nset rmargin at screen %.5f\n", (double)left / (left + side + right),
            (double)(left + side) / (left + side + right));
    fprintf(pipe, "set bmargin at screen %.5f\nset tmargin at screen %.5f\n", (double)bottom / (top + side + bottom),
            (double)(bottom + side) / (top + side + bottom));
    char title[160];
    snprintf(title, sizeof title, "%.2f%% of %s rows correct (blue)", 100 * bo_metrics_accuracy(metrics),
             cli_count(metrics->rows).s);
    cli_picture_title(pipe, title, side + 2 * right);
    fprintf(pipe, "set xrange [-0.5:%g]\nset yrange [%g:-0.5]\n", (double)classes - 0.5, (double)classes - 0.5);
    class_tics(pipe, "x", metrics, schema, slanted ? "rotate by 45 right" : "");
    class_tics(pipe, "y", metrics, schema, "");
    fprintf(pipe, "set xlabel 'predicted' offset 0,%g\nset label 'true' at screen 0.018,%.5f rotate center\n",
            slanted ? -0.2 : 0.0, (bottom + side / 2.0) / (top + side + bottom));
    cells(pipe, metrics, side / (int)classes, font);
    fputs("plot NaN notitle\n", pipe);
}

/* ---- the pipe ------------------------------------------------------------------------------------------ */

/* A tool may succeed although its file is incomplete, for example on a full disk. Each format has its own end
 * marker. */
static bool is_whole(const char *path, const char *temporary)
{
    const char *end = cli_ends_with(path, ".svg") ? "</svg>" : cli_ends_with(path, ".png") ? "IEND" : "%%EOF";
    char tail[64];
    FILE *file = fopen(temporary, "rb");
    if (!file) return false;
    bool found = false;
    if (fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        size_t length = size < (long)sizeof tail ? (size_t)(size > 0 ? size : 0) : sizeof tail;
        if (fseek(file, -(long)length, SEEK_END) == 0) length = fread(tail, 1, length, file);
        for (size_t i = 0; i + strlen(end) <= length; i++) found |= memcmp(tail + i, end, strlen(end)) == 0;
    }
    fclose(file);
    return found;
}

/* The shell redirects the output: gnuplot would run a file name that starts with | as a command. */
static FILE *open_tool(const char *tool, const char *output)
{
    char *command = NULL;
    size_t length = 0;
    FILE *words = open_memstream(&command, &length), *pipe = NULL;
    if (words) {
        fprintf(words, "%s 2>/dev/null >", tool);
        cli_print_word(words, output);
        fclose(words);
    }
    if (command) pipe = popen(command, "w");
    free(command);
    return pipe;
}

/* Without this, a power failure after the rename could leave an empty picture in the place of the old one. */
static bool flush(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool done = fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP;
    close(file);
    return done;
}

cli_drawn cli_picture_try(const char *path, cli_draw_fn draw, const void *what)
{
    return cli_picture_through("gnuplot", path, draw, what);
}

cli_drawn cli_picture_through(const char *tool, const char *path, cli_draw_fn draw, const void *what)
{
    size_t room = strlen(path) + 32;
    char *temporary = cli_allocate(room, 1, "file name");
    snprintf(temporary, room, "%s.part-%ld", path, (long)getpid());
    FILE *pipe = open_tool(tool, temporary);
    int ended = 127 << 8;
    if (pipe) {
        draw(pipe, path, what);
        const bool sent = fflush(pipe) == 0 && !ferror(pipe);
        ended = pclose(pipe);
        if (!sent && ended == 0) ended = 1 << 8; /* it drew a part */
    }
    const bool whole = ended == 0 && is_whole(path, temporary) && flush(temporary);
    const cli_drawn drawn = WIFEXITED(ended) && WEXITSTATUS(ended) == 127 ? CLI_NO_TOOL
                            : access(temporary, F_OK) != 0                ? CLI_NOT_WRITTEN
                            : ended != 0                                  ? CLI_NOT_DRAWN
                            : !whole || rename(temporary, path) != 0      ? CLI_NOT_WRITTEN
                                                                          : CLI_DRAWN;
    unlink(temporary); /* does not exist any more if it was renamed */
    free(temporary);
    return drawn;
}

int cli_picture(cli_session *session, const char *path, const char *note, cli_draw_fn draw, const void *what)
{
    switch (cli_picture_try(path, draw, what)) {
    case CLI_NO_TOOL:
        cli_warn(session, "no picture %s: gnuplot is not installed (Debian: gnuplot-nox)", path);
        break;
    case CLI_NOT_DRAWN:
        return cli_fail(session, "no picture %s: gnuplot failed", path);
    case CLI_NOT_WRITTEN:
        return cli_fail(session, "no picture %s: it could not be written (is the disk full?)", path);
    case CLI_DRAWN:
        cli_wrote(session, path, BO_OK);
        cli_say(session, "Picture     %s%s", path, note);
        break;
    }
    return CLI_DONE;
}

typedef struct predictions {
    const bo_metrics *metrics;
    const bo_schema *schema;
} predictions;

static void draw_predictions(FILE *pipe, const char *path, const void *what)
{
    const predictions *p = what;
    (p->metrics->desc.classes ? confusion : scatter)(pipe, p->metrics, p->schema, path);
}

int cli_plot(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, const char *path)
{
    predictions what = {metrics, schema};
    return cli_picture(session, path, metrics->desc.targets > 1 ? " (of the first target)" : "", draw_predictions,
                       &what);
}
