#include "streams.h"
#include "signals.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The null device is opened for the other direction, so that reading and writing fail. */
void cli_streams_open(void)
{
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};
    for (int i = 0; i < (int)CLI_COUNT_OF(modes); i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", modes[i]) != i) _exit(CLI_FAILED);
    if (cli_ranks_announced_rank() > 0) setvbuf(stderr, NULL, _IOFBF, BUFSIZ); /* until cli_streams_flush_messages */
}

/* The errno of the first write error of standard output; 0: none. The C library keeps neither the reason nor the lost
 * output. */
static atomic_int lost;

void cli_streams_set_error(int error)
{
    if (!lost) lost = error;
}

/* The number of bytes of the control character at `text`; 0: another character. Those of ISO 6429 above 127 are the
 * code points U+0080 to U+009F, which are two bytes, or bytes that are not UTF-8. */
static size_t control_length(const char *text, size_t char_bytes)
{
    const unsigned char c = (unsigned char)text[0], next = c ? (unsigned char)text[1] : 0;
    if (c < 0x20) return c != '\n' && c != '\t';
    if (c == 0x7f || (char_bytes == 0 && c >= 0x80 && c < 0xa0)) return 1;
    return char_bytes == 2 && c == 0xc2 && next < 0xa0 ? 2 : 0;
}

static char *escaped(const char *text)
{
    size_t left = strlen(text);
    char *out = cli_allocate(4 * left + 1, 1, "a message"), *to = out;
    while (left > 0) {
        const size_t char_bytes = bo_utf8_length(text, left), control = control_length(text, char_bytes);
        const size_t length = control ? control : char_bytes ? char_bytes : 1;
        if (control)
            to += snprintf(to, 5, "\\x%02x", (unsigned char)text[control - 1]);
        else
            to = (char *)memcpy(to, text, length) + length;
        text += length;
        left -= length;
    }
    *to = 0;
    return out;
}

void cli_streams_print(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    if (!text) return;
    char *safe = escaped(text);
    fputs(safe, stderr); /* one call, because other ranks may write at the same time */
    free(safe);
    free(text);
}

void cli_streams_flush_messages(void)
{
    enum { WAIT = 2 };
    if (cli_ranks_announced_rank() > 0 && __fpending(stderr) > 0) {
        signal(SIGTERM, SIG_DFL);
        for (unsigned left = WAIT; left > 0;) left = sleep(left);
    }
    fflush(stderr);
}

static atomic_bool used; /* standard output was not empty when it was flushed */

bool cli_streams_used(void)
{
    return used || __fpending(stdout) > 0 || isatty(STDOUT_FILENO);
}

bool cli_streams_flush(void)
{
    if (__fpending(stdout) > 0) used = true;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    cli_streams_set_error(errno);
    return false;
}

static bool reader_left(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

/* SIGXCPU would leave a core file. */
static int end_by(int number)
{
    if (number != SIGXCPU && !cli_ranks_announced()) {
        signal(number, SIG_DFL);
        raise(number);
    }
    return 128 + number;
}

int cli_streams_close(const char *command, int status)
{
    const bool flushed = cli_streams_flush();
    if (status != CLI_DONE) cli_streams_flush_messages();
    if (cli_signal() && (status == CLI_INTERRUPTED || status == CLI_FAILED)) return end_by(cli_signal());
    if (flushed) return status;
    if (reader_left()) return end_by(SIGPIPE);
    cli_streams_print("bochner %s: standard output: %s\n", command, lost ? strerror(lost) : "could not be written");
    return CLI_FAILED;
}
