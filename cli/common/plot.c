/* Plots by gnuplot: quoting, the pipe, the file. */
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
static bool is_noncharacter(const char *character)
{
    return memcmp(character, "\xef\xbf\xbe", 3) == 0 || memcmp(character, "\xef\xbf\xbf", 3) == 0;
}

/* In double quotes gnuplot interprets quotes, backslashes and backquotes, which are written as octal numbers, and in
 * tic labels also %, which formats the position. Single quotes cannot contain a text that starts with one. Labels come
 * from files: control characters become spaces, and bytes and characters that are invalid in SVG files become ?. An SVG
 * file must not contain ]]> either: an invisible space (U+200B) precedes the >. Text of more than `limit` characters is
 * shortened in the middle, because names often differ at their ends. */
static void quoted(FILE *pipe, const char *text, size_t limit, bool tic)
{
    const char *start = text;
    size_t characters = 0;
    for (const char *p = text; *p; characters++) p += bo_utf8_length(p, 4) ? bo_utf8_length(p, 4) : 1;
    const size_t left_out = characters > limit ? characters - limit + 1 : 0, head = limit / 2;
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

void cli_plot_quoted(FILE *pipe, const char *text)
{
    quoted(pipe, text, (size_t)-1, false);
}

void cli_plot_tic(FILE *pipe, const char *text, size_t length, double at)
{
    quoted(pipe, text, length, true);
    fprintf(pipe, " %.17g", at);
}

const char *cli_plot_color(size_t index)
{
    static const char *const colors[CLI_PLOT_COLORS] = {"#1f5fa8", "#e8862e", "#4a9a4a", "#8a5fa8",
                                                        "#a83f3f", "#777777", "#c9a227", "#2fa5a5",
                                                        "#d46a9f", "#5b7f2b", "#303030"};
    return colors[index % CLI_PLOT_COLORS];
}

/* The cairo terminals count points, 72 per inch. */
void cli_plot_begin(FILE *pipe, const char *path, int width, int height, int font)
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

/* The mean width of a character is about 0.54 of the font size. */
int cli_plot_title_font(const char *title, int width)
{
    const size_t length = cli_display_width(title);
    const int font = (int)(width / (0.54 * (double)(length ? length : 1)));
    return font > 14 ? 14 : font < 7 ? 7 : font;
}

void cli_plot_title(FILE *pipe, const char *title, int width)
{
    fputs("set title ", pipe);
    cli_plot_quoted(pipe, title);
    fprintf(pipe, " font ',%d' textcolor rgb '#222222'\n", cli_plot_title_font(title, width));
}

/* ---- the pipe ---------------------------------------------------------------------------------------------------- */

/* A tool may succeed although its file is incomplete, for example on a full disk. The end marker of the format is
 * checked. */
static bool is_complete(const char *path, const char *temporary)
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
    FILE *command_text = open_memstream(&command, &length), *pipe = NULL;
    if (command_text) {
        fprintf(command_text, "%s 2>/dev/null >", tool);
        cli_print_shell_quoted(command_text, output);
        fclose(command_text);
    }
    if (command) pipe = popen(command, "w");
    free(command);
    return pipe;
}

/* Equal runs write equal files: the date in the last bytes of a PDF is set to 2000. Its length must not change. */
static bool remove_date(const char *path, const char *temporary)
{
    static const char mark[] = "/CreationDate (D:", date[] = "20000101000000";
    char tail[8192];
    if (!cli_ends_with(path, ".pdf")) return true;
    FILE *file = fopen(temporary, "r+b");
    if (!file) return false;
    bool done = fseek(file, 0, SEEK_END) == 0;
    const long size = done ? ftell(file) : -1, from = size > (long)sizeof tail ? size - (long)sizeof tail : 0;
    done = size >= 0 && fseek(file, from, SEEK_SET) == 0;
    const size_t length = done ? fread(tail, 1, sizeof tail, file) : 0;
    for (size_t i = 0; i + strlen(mark) + strlen(date) <= length; i++) {
        if (memcmp(tail + i, mark, strlen(mark)) != 0) continue;
        done = fseek(file, from + (long)(i + strlen(mark)), SEEK_SET) == 0 &&
               fwrite(date, 1, strlen(date), file) == strlen(date);
        break;
    }
    return fclose(file) == 0 && done;
}

/* Without this, a power failure after the rename could leave an empty file in place of the old plot. */
static bool flush(const char *path)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool done = fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP;
    close(file);
    return done;
}

cli_drawn cli_plot_try(const char *path, cli_draw_fn draw, const void *what)
{
    return cli_plot_through("gnuplot", path, draw, what);
}

cli_drawn cli_plot_through(const char *tool, const char *path, cli_draw_fn draw, const void *what)
{
    size_t size = strlen(path) + 32;
    char *temporary = cli_allocate(size, 1, "file name");
    snprintf(temporary, size, "%s.part-%ld", path, (long)getpid());
    FILE *pipe = open_tool(tool, temporary);
    int ended = 127 << 8;
    if (pipe) {
        draw(pipe, path, what);
        const bool sent = fflush(pipe) == 0 && !ferror(pipe);
        ended = pclose(pipe);
        if (!sent && ended == 0) ended = 1 << 8; /* the plot is incomplete */
    }
    const bool complete =
        ended == 0 && is_complete(path, temporary) && remove_date(path, temporary) && flush(temporary);
    const cli_drawn drawn = WIFEXITED(ended) && WEXITSTATUS(ended) == 127 ? CLI_NO_TOOL
                            : access(temporary, F_OK) != 0                ? CLI_NOT_WRITTEN
                            : ended != 0                                  ? CLI_NOT_DRAWN
                            : !complete || rename(temporary, path) != 0   ? CLI_NOT_WRITTEN
                                                                          : CLI_DRAWN;
    unlink(temporary); /* no longer exists if it was renamed */
    free(temporary);
    return drawn;
}

int cli_plot_file(cli_session *session, const char *path, const char *note, cli_draw_fn draw, const void *what)
{
    switch (cli_plot_try(path, draw, what)) {
    case CLI_NO_TOOL:
        cli_warn(session, "no plot %s: gnuplot is not installed (Debian: gnuplot-nox)", path);
        break;
    case CLI_NOT_DRAWN:
        return cli_fail(session, "no plot %s: gnuplot failed", path);
    case CLI_NOT_WRITTEN:
        return cli_fail(session, "no plot %s: it could not be written (is the disk full?)", path);
    case CLI_DRAWN:
        cli_record_output(session, path, BO_OK);
        cli_note(session, "Plot        %s%s", path, note);
        break;
    }
    return CLI_DONE;
}
