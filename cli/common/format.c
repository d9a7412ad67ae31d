#include "format.h"
#include <bochner/base.h>
#include <bochner/json.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

cli_short_text cli_count(size_t n)
{
    cli_short_text digits, word;
    int length = snprintf(digits.s, sizeof digits.s, "%zu", n), out = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) word.s[out++] = ',';
        word.s[out++] = digits.s[i];
    }
    word.s[out] = 0;
    return word;
}

cli_short_text cli_bytes(double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        unit++;
    }
    cli_short_text word;
    snprintf(word.s, sizeof word.s, bytes < 9.95 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return word;
}

cli_short_text cli_seconds(double seconds)
{
    cli_short_text word;
    if (!(seconds >= 0)) {
        snprintf(word.s, sizeof word.s, "an unknown time");
    } else if (seconds < 10) {
        snprintf(word.s, sizeof word.s, "%.2f s", seconds);
    } else if (seconds < 119.5) {
        snprintf(word.s, sizeof word.s, "%.0f s", seconds);
    } else if (seconds < 7199.5) {
        long total = lround(seconds);
        snprintf(word.s, sizeof word.s, "%ld min %02ld s", total / 60, total % 60);
    } else {
        long minutes = lround(seconds / 60);
        snprintf(word.s, sizeof word.s, "%ld h %02ld min", minutes / 60, minutes % 60);
    }
    return word;
}

cli_short_text cli_significant(double value, int digits)
{
    cli_short_text word;
    snprintf(word.s, sizeof word.s, "%.*g", digits, value);
    return word;
}

cli_short_text cli_quantity(double value, int digits)
{
    if (!(fabs(value) >= 999.5 && fabs(value) < 1e15)) return cli_significant(value, digits);
    cli_short_text word = {""};
    const double unit = pow(10, floor(log10(fabs(value))) + 1 - digits), rounded = round(value / unit) * unit;
    const cli_short_text count = cli_count((size_t)llround(fabs(unit > 1 ? rounded : value)));
    snprintf(word.s, sizeof word.s, "%s%.40s", value < 0 ? "-" : "", count.s);
    return word;
}

cli_short_text cli_exact(double value)
{
    cli_short_text word;
    bo_number_format(value, word.s, sizeof word.s);
    return word;
}

/* Edit distance with transpositions of neighbors (optimal string alignment); at most 64 characters are compared. */
static size_t distance(const char *a, const char *b)
{
    enum { LIMIT = 64 };
    size_t n = strlen(a), m = strlen(b), row[3][LIMIT + 1];
    if (n > LIMIT || m > LIMIT) return LIMIT;
    for (size_t j = 0; j <= m; j++) row[1][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[(i + 1) % 3], *last = row[i % 3], *before = row[(i + 2) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[(n + 1) % 3][m];
}

const char *cli_nearest(const char *word, size_t count, const char *(*name_at)(const void *items, size_t index),
                        const void *items)
{
    const char *best = NULL;
    size_t length = strlen(word), best_distance = length / 3 + 2; /* one edit in a short word, more in a long one */
    for (size_t i = 0; i < count; i++) {
        const char *candidate = name_at(items, i);
        if (!candidate) continue;
        size_t d = distance(word, candidate);
        if (length >= 3 && strncmp(word, candidate, length) == 0) d = 1; /* a prefix */
        if (d < best_distance) {
            best_distance = d;
            best = candidate;
        }
    }
    return best;
}

size_t cli_display_width(const char *text)
{
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void cli_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (size_t bytes; *text; text += bytes) {
        const size_t length = bo_utf8_length(text, 4);
        const bool shown = length && (unsigned char)*text >= 0x20 && *text != 0x7f;
        bytes = length ? length : 1;
        if (used + bytes >= size) break;
        memcpy(out + used, shown ? text : "?", shown ? bytes : 1);
        used += shown ? bytes : 1;
    }
    out[used] = 0;
}

void cli_print_shell_quoted(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

int cli_columns(FILE *out)
{
    enum { DEFAULT_WIDTH = 80, MIN_WIDTH = 20 };
    const int file = fileno(out);
    if (!isatty(file)) return DEFAULT_WIDTH;
    struct winsize size;
    const char *variable = getenv("COLUMNS");
    int columns = ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    if (columns == 0 && variable) columns = atoi(variable);
    return columns <= 0 ? DEFAULT_WIDTH : columns < MIN_WIDTH ? MIN_WIDTH : columns;
}

/* Display width of the first `bytes` bytes of UTF-8. */
static int columns_of(const char *text, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Bytes up to the next space or newline. In a command, spaces inside quotes and brackets and after a backslash do not
 * count. */
static size_t word_length(const char *text, bool command)
{
    size_t length = 0, depth = 0;
    char quote = 0;
    for (; text[length] && (quote || text[length] != '\n') && (quote || depth || text[length] != ' '); length++) {
        const char c = text[length];
        if (!command) continue;
        if (c == '\\' && quote != '\'' && text[length + 1]) {
            length++;
            continue;
        }
        if (c == '\'' || c == '"') quote = quote == c ? 0 : quote ? quote : c;
        if (c == '[') depth++;
        if (c == ']' && depth) depth--;
    }
    return length;
}

/* The same, but a command's option and its value are one unit. */
static size_t unit_length(const char *text, bool command)
{
    const size_t length = word_length(text, command);
    const bool option = command && strncmp(text, "--", 2) == 0 && text[length] == ' ';
    return option && !strchr("-[<>|", text[length + 1]) ? length + 1 + word_length(text + length + 1, command) : length;
}

void cli_wrap_text(FILE *out, const char *text, cli_wrap wrap)
{
    const int join = wrap.join ? (int)cli_display_width(wrap.join) : 0;
    int column = wrap.column;
    bool first = true; /* of its line */
    while (*text) {
        const size_t spaces = strspn(text, " "), length = unit_length(text + spaces, wrap.command);
        const char *word = text + spaces;
        const int width = columns_of(word, length), end = column + (int)spaces + width + (word[length] ? join : 0);
        if (!first && length && end > wrap.width) {
            fprintf(out, "%s\n%*s%.*s", wrap.join ? wrap.join : "", wrap.indent, "", (int)length, word);
            column = wrap.indent + width;
        } else if (length) {
            fprintf(out, "%.*s", (int)(spaces + length), text);
            column += (int)spaces + width;
        }
        first = false;
        text = word + length;
        if (*text != '\n') continue;
        fputc('\n', out);
        if (*++text) fprintf(out, "%*s", wrap.indent, "");
        column = wrap.indent;
        first = true;
    }
    fputc('\n', out);
}

char *cli_shell_quoted(const char *word)
{
    char *quoted = NULL;
    size_t length = 0;
    FILE *text = open_memstream(&quoted, &length);
    if (text) {
        cli_print_shell_quoted(text, word);
        fclose(text);
    }
    return quoted ? quoted : cli_allocate(1, 1, "a word");
}

void cli_print_wrapped(FILE *out, const char *text, int indent)
{
    enum { WIDEST = 100 };
    const int columns = cli_columns(out);
    cli_wrap_text(out, text,
                  (cli_wrap){.width = columns < WIDEST ? columns : WIDEST, .column = indent, .indent = indent});
}

void *cli_allocate(size_t count, size_t size, const char *what)
{
    void *block = calloc(count ? count : 1, size ? size : 1);
    if (!block) {
        fprintf(stderr, "bochner: out of memory: %zu x %zu bytes for %s\n", count, size, what);
        exit(1);
    }
    return block;
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
