/* A progress bar on the terminal: what, how far, how fast, how long still. */
#include "cli.h"
#include <stdio.h>
#include <string.h>

enum { BAR = 28 };

/* Work is counted in rows, steps or bytes; large rates are easier to read with a letter. */
static void print_rate(double rate)
{
    const char *letter = "";
    if (rate >= 1e9)
        rate /= 1e9, letter = "G";
    else if (rate >= 1e6)
        rate /= 1e6, letter = "M";
    else if (rate >= 1e3)
        rate /= 1e3, letter = "k";
    fprintf(stderr, rate < 10 ? "  %.1f%s/s" : "  %.0f%s/s", rate, letter);
}

static void draw(cli_progress *progress, double now, double done, double total)
{
    double elapsed = now - progress->start, rate = elapsed > 0 ? done / elapsed : 0;
    fprintf(stderr, "\r\033[K%-18.18s", progress->what);
    if (total > 0) {
        double share = done >= total ? 1 : done / total;
        int filled = (int)(share * BAR);
        fputs(" [", stderr);
        for (int i = 0; i < BAR; i++) fputc(i < filled ? '#' : '.', stderr);
        fprintf(stderr, "] %3.0f%%", 100 * share);
        if (progress->note[0])
            fprintf(stderr, "  %s", progress->note);
        else if (total > 1 && elapsed > 0.2)
            print_rate(rate); /* a total of 1 counts nothing: it is a share */
        if (elapsed > 1 && rate > 0 && share < 1) fprintf(stderr, "  %s left", cli_seconds((total - done) / rate).s);
    } else {
        fprintf(stderr, " %s", cli_count((size_t)done).s);
        if (elapsed > 0.2) print_rate(rate);
    }
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
