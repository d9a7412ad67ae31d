/* The progress bar and notes on a pseudo-terminal: their content, their width, and the removal of the bar. */
#include "testing.h"
#include "cli/common/cli.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef struct terminal {
    int master, error; /* where the output can be read; the original standard error */
    char seen[4096];
} terminal;

static int open_terminal(void **state)
{
    static terminal t;
    t.master = posix_openpt(O_RDWR | O_NOCTTY);
    if (t.master < 0 || grantpt(t.master) != 0 || unlockpt(t.master) != 0) return -1;
    const int slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
    if (slave < 0) return -1;
    fcntl(t.master, F_SETFL, O_NONBLOCK);
    t.error = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    close(slave);
    *state = &t;
    return 0;
}

static int close_terminal(void **state)
{
    terminal *t = *state;
    dup2(t->error, STDERR_FILENO);
    close(t->error);
    close(t->master);
    return 0;
}

static const char *seen(terminal *t)
{
    size_t length = 0;
    fflush(stderr);
    while (poll(&(struct pollfd){.fd = t->master, .events = POLLIN}, 1, 20) > 0) {
        const ssize_t more = read(t->master, t->seen + length, sizeof t->seen - 1 - length);
        if (more <= 0) break;
        length += (size_t)more;
    }
    t->seen[length] = 0;
    return t->seen;
}

/* The bar of work that was at `first` 10,000 seconds ago, so long that the speed of the host does not matter. */
static const char *bar(terminal *t, cli_progress *progress, double first, double done, double total)
{
    progress->what[0] = 0;
    cli_progress_report(progress, "reading rows", first, total);
    progress->start -= 10000;
    progress->last = 0;
    cli_progress_report(progress, "reading rows", done, total);
    return seen(t);
}

static void test_bars(void **state)
{
    terminal *t = *state;
    cli_progress p = {.show = true};
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5),
                        "\r\033[Kreading rows       [#######.....................]  25%  2.5/s  8 h 20 min left");
    assert_true(p.drawn);
    assert_string_equal(bar(t, &p, 0, 2e5, 2e5),
                        "\r\033[Kreading rows       [############################] 100%  20/s");
    assert_string_equal(bar(t, &p, 5e4, 7.5e4, 1e5), /* resumed: the rate counts only this run */
                        "\r\033[Kreading rows       [#####################.......]  75%  2.5/s  2 h 47 min left");
    assert_string_equal(bar(t, &p, 0, 0.5, 1),
                        "\r\033[Kreading rows       [##############..............]  50%  2 h 47 min left");
    assert_non_null(strstr(bar(t, &p, 0, 5e7, 1e8), "  5.0k/s"));
    assert_non_null(strstr(bar(t, &p, 0, 5e11, 1e12), "  50M/s"));
    assert_non_null(strstr(bar(t, &p, 0, 5e13, 1e14), "  5.0G/s"));
    assert_string_equal(bar(t, &p, 0, 25e3, 0),
                        "\r\033[Kreading rows       25,000  2.5/s"); /* the total is not known */
    snprintf(p.note, sizeof p.note, "loss 2.31");
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5),
                        "\r\033[Kreading rows [###.........]  25%  8 h 20 min left  loss 2.31");
    cli_progress_clear(&p);
    assert_string_equal(seen(t), "\r\033[K");
    cli_progress_clear(&p);
    assert_string_equal(seen(t), ""); /* no bar is left */
}

static void set_columns(const terminal *t, unsigned short columns)
{
    assert_int_equal(ioctl(t->master, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = columns}), 0);
}

/* A narrow terminal shows fewer parts, but complete words. */
static void test_narrow(void **state)
{
    terminal *t = *state;
    cli_progress p = {.show = true};
    set_columns(t, 60);
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5), "\r\033[Kreading rows [###.........]  25%  2.5/s  8 h 20 min left");
    set_columns(t, 40);
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5), "\r\033[Kreading rows  25%  8 h 20 min left");
    set_columns(t, 20);
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5), "\r\033[Kreading rows  25%");
    snprintf(p.note, sizeof p.note, "step 12 of 100  loss 2.3145  valid 2.4012  12,345 tokens/s");
    set_columns(t, 120);
    assert_non_null(strstr(bar(t, &p, 0, 25e3, 1e5), "12,345 tokens/s"));
    set_columns(t, 80);
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5),
                        "\r\033[Kreading rows [###.........]  25%  8 h 20 min left  step 12 of 100  loss 2.3145");
    assert_true(cli_display_width(t->seen) - strlen("\r\033[K") < 80);
    set_columns(t, 60);
    assert_string_equal(bar(t, &p, 0, 25e3, 1e5), "\r\033[Kreading rows [###.........]  25%  8 h 20 min left");
}

/* Notes are wrapped between words, and continue below their text. */
static void test_notes(void **state)
{
    terminal *t = *state;
    cli_session session = {.command = "test"};
    set_columns(t, 40);
    cli_note(&session, "%s", "Data        about 60,000 rows x 784 columns of train.csv: classification");
    assert_string_equal(seen(t), "Data        about 60,000 rows x 784\r\n            columns of train.csv:\r\n"
                                 "            classification\r\n");
    cli_warn(&session, "%s", "the file has a header and ünïcödé words beside it");
    assert_string_equal(seen(t), "bochner test: warning: the file has a\r\n    header and ünïcödé words beside it\r\n");
    cli_suggest_next(&session, "bochner generate %s --prompt '%s'", "story", "In the beginning");
    assert_string_equal(seen(t), "Next: bochner generate story \\\r\n      --prompt 'In the beginning'\r\n");
    session.common.json = true;
    cli_suggest_next(&session, "bochner");
    session.common = (cli_common){.quiet = true};
    cli_suggest_next(&session, "bochner");
    cli_note(&session, "nothing");
    assert_string_equal(seen(t), "");
}

/* No bar if it is off, for short work, for other work, or soon after the last one; the end is always shown. */
static void test_silence(void **state)
{
    terminal *t = *state;
    cli_progress hidden = {0}, p = {.show = true}, one = {.show = true, .only = "training"};
    assert_string_equal(bar(t, &hidden, 0, 5, 10), "");
    cli_progress_clear(&hidden);
    assert_string_equal(bar(t, &one, 0, 5, 10), "");
    cli_progress_report(&p, "sorting", 0, 10);
    cli_progress_report(&p, "sorting", 10, 10);
    assert_string_equal(seen(t), "");
    p.start -= 10000;
    p.last = cli_now() + 1000;
    cli_progress_report(&p, "sorting", 9, 10);
    assert_string_equal(seen(t), "");
    cli_progress_report(&p, "sorting", 10, 10);
    assert_non_null(strstr(seen(t), "100%"));
}

int main(void)
{
#define ON_TERMINAL(test) cmocka_unit_test_setup_teardown(test, open_terminal, close_terminal)
    const struct CMUnitTest tests[] = {ON_TERMINAL(test_bars), ON_TERMINAL(test_narrow), ON_TERMINAL(test_notes),
                                       ON_TERMINAL(test_silence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
