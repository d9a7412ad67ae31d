#include "output.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

void cli_csv_field(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && *text && text[0] != ' ' && text[strlen(text) - 1] != ' ') {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

static const char *name_of(const cli_output *output)
{
    return output->path ? output->path : "standard output";
}

static bool failed(cli_session *session, cli_output *output)
{
    int error = errno;
    if (error != EPIPE) /* the reader closed the pipe on purpose */
        cli_fail(session, "%s: %s%s", name_of(output), error ? strerror(error) : "could not be written",
                 output->path ? "; no file was written" : "");
    cli_output_abandon(output);
    return false;
}

bool cli_output_text(cli_session *session, cli_output *output, const char *path)
{
    *output = (cli_output){.file = stdout};
    if (!path) return true;
    struct stat info;
    bool in_place = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    output->path = strdup(path);
    size_t room = strlen(path) + 32;
    output->temporary = in_place ? NULL : cli_allocate(room, 1, "file name");
    if (!in_place) snprintf(output->temporary, room, "%s.part-%ld", path, (long)getpid());
    errno = 0;
    output->file = fopen(in_place ? path : output->temporary, "wb");
    return output->file ? true : failed(session, output);
}

/* NumPy's format 1.0: magic, version, length of the header, a Python dictionary padded with spaces; 128 bytes. */
static bool write_header(cli_output *output)
{
    enum { HEADER = 128 };
    char header[HEADER + 1] = "\x93NUMPY\x01";
    header[7] = 0;
    header[8] = (char)(HEADER - 10);
    header[9] = 0;
    char shape[64];
    if (output->columns == 1)
        snprintf(shape, sizeof shape, "(%zu,)", output->rows);
    else
        snprintf(shape, sizeof shape, "(%zu, %zu)", output->rows, output->columns);
    int length = snprintf(header + 10, HEADER - 10, "{'descr': '<f%zu', 'fortran_order': False, 'shape': %s, }",
                          output->item, shape);
    memset(header + 10 + length, ' ', (size_t)(HEADER - 10 - length));
    header[HEADER - 1] = '\n';
    return fwrite(header, 1, HEADER, output->file) == HEADER;
}

bool cli_output_npy(cli_session *session, cli_output *output, const char *path, size_t columns, size_t item)
{
    if (!cli_output_text(session, output, path)) return false;
    output->npy = true;
    output->columns = columns;
    output->item = item;
    if (!output->temporary) { /* the number of rows is in the header, but known only at the end */
        errno = ESPIPE;
        return failed(session, output);
    }
    return write_header(output) ? true : failed(session, output);
}

bool cli_output_rows(cli_session *session, cli_output *output, size_t rows, const void *values)
{
    output->rows += rows;
    errno = 0;
    if (fwrite(values, output->item * output->columns, rows, output->file) == rows) return true;
    return failed(session, output);
}

bool cli_output_bytes(cli_session *session, cli_output *output, size_t bytes, const void *data)
{
    errno = 0;
    return fwrite(data, 1, bytes, output->file) == bytes ? true : failed(session, output);
}

bool cli_output_check(cli_session *session, cli_output *output)
{
    errno = 0;
    if (fflush(output->file) == 0 && !ferror(output->file)) return true;
    return failed(session, output);
}

static void forget(cli_output *output)
{
    free(output->path);
    free(output->temporary);
    *output = (cli_output){0};
}

bool cli_output_commit(cli_session *session, cli_output *output)
{
    if (output->npy && (fseek(output->file, 0, SEEK_SET) != 0 || !write_header(output))) return failed(session, output);
    if (!cli_output_check(session, output)) return false;
    if (output->file != stdout) {
        if (output->temporary && fsync(fileno(output->file)) != 0) return failed(session, output);
        FILE *file = output->file;
        output->file = NULL;
        if (fclose(file) != 0) return failed(session, output);
        if (output->temporary && rename(output->temporary, output->path) != 0) return failed(session, output);
    }
    forget(output);
    return true;
}

void cli_output_abandon(cli_output *output)
{
    if (output->file && output->file != stdout) fclose(output->file);
    if (output->temporary) unlink(output->temporary);
    forget(output);
}
