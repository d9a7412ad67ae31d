/* A progress bar on the terminal: what, how far, how fast, how long still. */
#include "cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 28, SHORT_BAR = 12, LINE = 256 };

/* A line that is put together and cut to the terminal: one that wraps would not be drawn over. */
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

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : LINE;
}

/* Work is counted in rows, steps or bytes; large rates are easier to read with a letter. */
static void add_rate(line *l, double rate)
{
    const char *letter = "";
    if (rate >= 1e9)
        rate /= 1e9, letter = "G";
    else if (rate >= 1e6)
        rate /= 1e6, letter = "M";
    else if (rate >= 1e3)
        rate /= 1e3, letter = "k";
    add(l, rate < 10 ? "  %.1f%s/s" : "  %.0f%s/s", rate, letter);
}

static void add_share(line *l, const cli_progress *progress, double elapsed, double done, double total)
{
    const bool noted = progress->note[0];
    const double share = done >= total ? 1 : done / total, rate = elapsed > 0 ? (done - progress->first) / elapsed : 0;
    const int bar = noted ? SHORT_BAR : BAR;
    add(l, " [");
    for (int i = 0; i < bar; i++) add(l, "%c", i < (int)(share * bar) ? '#' : '.');
    add(l, "] %3.0f%%", 100 * share);
    if (total > 1 && elapsed > 0.2 && !noted) add_rate(l, rate); /* a total of 1 counts nothing: it is a share */
    if (elapsed > 1 && rate > 0 && share < 1) add(l, "  %s left", cli_seconds((total - done) / rate).s);
    if (noted) add(l, "  %s", progress->note);
}

static void draw(cli_progress *progress, double now, double done, double total)
{
    const double elapsed = now - progress->start;
    line l = {.length = 0};
    add(&l, progress->note[0] ? "%s" : "%-18.18s", progress->what);
    if (total > 0) {
        add_share(&l, progress, elapsed, done, total);
    } else {
        add(&l, " %s", cli_count((size_t)done).s);
        if (elapsed > 0.2) add_rate(&l, (done - progress->first) / elapsed);
    }
    fprintf(stderr, "\r\033[K%.*s", columns() - 1, l.text);
    fflush(stderr);
    progress->drawn = true;
    progress->last = now;
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
