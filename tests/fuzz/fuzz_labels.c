/* Labels of plots: any bytes become one quoted gnuplot string that shows them literally, in valid UTF-8. */
#include "fuzz.h"
#include "cli/common/plot.h"

/* Reads the text of a double-quoted string of gnuplot; `at` is after the opening quote. Returns its end. */
static const char *unquote(const char *at, bool tic, char *out)
{
    for (; *at != '"'; ++at) {
        const unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == 0x7f || c == '`') abort();
        if (c == '\\') {
            if (at[1] < '0' || at[1] > '1') abort();
            *out++ = (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0'));
            at += 3;
        } else {
            if (c == '%' && tic && *++at != '%') abort();
            *out++ = (char)c;
        }
    }
    *out = 0;
    return at + 1;
}

/* Characters that plots can show are kept. An invisible space (U+200B) stands between ]] and >, which XML does not
 * allow. */
static void compare(const char *label, const char *shown)
{
    const char *start = label;
    for (size_t bytes; *label; label += bytes) {
        if (*label == '>' && label >= start + 2 && memcmp(label - 2, "]]", 2) == 0) {
            if (memcmp(shown, "\xe2\x80\x8b", 3) != 0) abort();
            shown += 3;
        }
        const size_t length = bo_utf8_length(label, 4), found = bo_utf8_length(shown, 4);
        if (!found) abort();
        bytes = length ? length : 1;
        if ((*shown == '?' || *shown == ' ') && *shown != *label) {
            ++shown; /* replaced */
            continue;
        }
        if (length != found || memcmp(label, shown, length) != 0) abort();
        shown += found;
    }
    if (*shown) abort();
}

static void draw(const char *label, size_t size, bool tic)
{
    char *script, *shown = malloc(2 * size + 1);
    size_t length;
    FILE *pipe = open_memstream(&script, &length);
    if (tic)
        cli_plot_tic(pipe, label, SIZE_MAX, 3);
    else
        cli_plot_quoted(pipe, label);
    fclose(pipe);
    if (*script != '"' || strcmp(unquote(script + 1, tic, shown), tic ? " 3" : "") != 0) abort();
    compare(label, shown);
    free(shown);
    free(script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *label = malloc(size + 1);
    memcpy(label, data, size);
    label[size] = 0;
    draw(label, size, false);
    draw(label, size, true);
    free(label);
    return 0;
}
