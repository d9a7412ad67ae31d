/* A progress bar on the terminal: the work, the fraction done, the rate and the time left. */
#include "cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 28, SHORT_BAR = 12, LINE = 256 };

typedef struct line {
    char text[LINE];
    size_t length;
} line;

static void add(line *l, const char *format, ...) BO_PRINTF(2, 3);
static void add(line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(l->text + l->length, LINE - l->length, format, arguments);
    va_end(arguments);
    l->length = more < 0 || l->length + (size_t)more >= LINE ? LINE - 1 : l->length + (size_t)more;
}

/* Work is counted in rows, steps or bytes. Large rates have an SI prefix. */
static void add_rate(line *l, double rate)
{
    const char *prefix = "";
    if (rate >= 1e9)
        rate /= 1e9, prefix = "G";
    else if (rate >= 1e6)
        rate /= 1e6, prefix = "M";
    else if (rate >= 1e3)
        rate /= 1e3, prefix = "k";
    add(l, rate < 10 ? "  %.1f%s/s" : "  %.0f%s/s", rate, prefix);
}

/* The parts of the line that are shown. A narrow terminal shows fewer. */
typedef struct layout {
    int bar, name; /* columns of the bar, and minimum columns of the name */
    bool rate;
    size_t note; /* bytes of the note */
} layout;

static void add_share(line *l, const cli_progress *progress, layout shown, double done, double total)
{
    const double elapsed = progress->last - progress->start;
    const double share = done >= total ? 1 : done / total, rate = elapsed > 0 ? (done - progress->first) / elapsed : 0;
    if (shown.bar) add(l, " [");
    for (int i = 0; i < shown.bar; i++) add(l, "%c", i < (int)(share * shown.bar) ? '#' : '.');
    add(l, shown.bar ? "] %3.0f%%" : " %3.0f%%", 100 * share);
    if (total > 1 && elapsed > 0.2 && shown.rate) add_rate(l, rate); /* a total of 1 means a fraction without a unit */
    if (elapsed > 1 && rate > 0 && share < 1) add(l, "  %s left", cli_seconds((total - done) / rate).s);
    if (shown.note) add(l, "  %.*s", (int)shown.note, progress->note);
}

static line compose(const cli_progress *progress, layout shown, double done, double total)
{
    const double elapsed = progress->last - progress->start;
    line l = {.length = 0};
    add(&l, "%-*.18s", shown.name, progress->what);
    if (total > 0) {
        add_share(&l, progress, shown, done, total);
        return l;
    }
    add(&l, " %s", cli_count((size_t)done).s);
    if (elapsed > 0.2 && shown.rate) add_rate(&l, (done - progress->first) / elapsed);
    return l;
}

/* The note without its last field; fields are separated by two spaces. */
static size_t shorter_note(const char *note, size_t length)
{
    while (length > 1 && !(note[length - 1] == ' ' && note[length - 2] == ' ')) length--;
    return length > 1 ? length - 2 : 0;
}

/* Removes the least important part. False: nothing is left to remove. */
static bool reduce(layout *shown, const char *note)
{
    if (shown->bar > SHORT_BAR)
        shown->bar = SHORT_BAR;
    else if (shown->name)
        shown->name = 0;
    else if (shown->rate)
        shown->rate = false;
    else if (shown->note)
        shown->note = shorter_note(note, shown->note);
    else if (shown->bar)
        shown->bar = 0;
    else
        return false;
    return true;
}

/* Removes fields from the end, and then words: a wrapped line could not be overwritten. */
static void fit_width(line *l, size_t width)
{
    while (cli_display_width(l->text) > width) {
        const size_t field = shorter_note(l->text, strlen(l->text));
        const char *space = strrchr(l->text, ' ');
        l->text[field ? field : space ? (size_t)(space - l->text) : width] = 0;
    }
}

static void draw(cli_progress *progress, double now, double done, double total)
{
    const size_t width = (size_t)cli_columns(stderr) - 1, note = strlen(progress->note);
    layout shown = {.bar = note ? SHORT_BAR : BAR, .name = note ? 0 : 18, .rate = !note, .note = note};
    progress->last = now;
    line l = compose(progress, shown, done, total);
    while (cli_display_width(l.text) > width && reduce(&shown, progress->note))
        l = compose(progress, shown, done, total);
    fit_width(&l, width);
    fprintf(stderr, "\r\033[K%s", l.text);
    fflush(stderr);
    progress->drawn = true;
}

void cli_progress_report(cli_progress *progress, const char *what, double done, double total)
{
    if (!progress->show || (progress->only && strcmp(progress->only, what) != 0)) return;
    double now = cli_now();
    if (strncmp(progress->what, what, sizeof progress->what - 1) != 0 || done <= 0) {
        snprintf(progress->what, sizeof progress->what, "%s", what);
        progress->start = now;
        progress->first = done;
        progress->last = 0;
    }
    if (now - progress->last < 0.1 && !(total > 0 && done >= total)) return;
    if (now - progress->start < 0.3) return; /* short work shows no bar */
    draw(progress, now, done, total);
}

void cli_progress_clear(cli_progress *progress)
{
    if (!progress->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->drawn = false;
}
