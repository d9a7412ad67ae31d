#include "output.h"
#include "streams.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
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

/* Errors of standard output are reported when the program ends. */
static bool failed(cli_session *session, cli_output *output)
{
    const int error = errno;
    if (!output->replacement)
        cli_streams_set_error(error);
    else
        cli_fail(session, "%s: %s; no file was written", output->path,
                 error ? strerror(error) : "could not be written");
    cli_output_abandon(output);
    return false;
}

/* The last opened file, if it is still open. cli_allocate may exit before it is closed. */
static cli_output *open_output;

static void abandon_open(void)
{
    if (open_output) cli_output_abandon(open_output);
}

static void register_open(cli_output *output)
{
    static bool registered;
    if (!registered) registered = atexit(abandon_open) == 0;
    open_output = output;
}

static void unregister(const cli_output *output)
{
    if (open_output == output) open_output = NULL;
}

bool cli_output_text(cli_session *session, cli_output *output, const char *path)
{
    *output = (cli_output){.file = stdout, .path = path};
    if (!path) return true;
    output->file = NULL;
    const bo_status status = bo_output_open(session->context, path, &output->replacement);
    if (status != BO_OK) return cli_fail_status(session, status), false;
    register_open(output);
    errno = 0;
    const int copy = fcntl(bo_output_descriptor(output->replacement), F_DUPFD_CLOEXEC, 0);
    output->file = copy < 0 ? NULL : fdopen(copy, "wb");
    if (!output->file && copy >= 0) close(copy);
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
    char shape[80];
    if (output->group)
        snprintf(shape, sizeof shape, "(%zu, %zu, %zu)", output->rows / output->group, output->group, output->columns);
    else if (output->columns == 1)
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
    /* the number of rows is known only at the end */
    return fseek(output->file, 0, SEEK_CUR) == 0 && write_header(output) ? true : failed(session, output);
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

/* Closes the file, but not standard output. */
static bool close_file(cli_output *output)
{
    FILE *file = output->file;
    output->file = NULL;
    return !output->replacement || !file || fclose(file) == 0;
}

bool cli_output_commit(cli_session *session, cli_output *output)
{
    if (output->npy && (fseek(output->file, 0, SEEK_SET) != 0 || !write_header(output))) return failed(session, output);
    if (!cli_output_check(session, output)) return false;
    if (!close_file(output)) return failed(session, output);
    const bo_status status =
        output->replacement
            ? cli_record_output(session, output->path, bo_output_commit(session->context, output->replacement))
            : BO_OK;
    *output = (cli_output){0};
    unregister(output);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

void cli_output_abandon(cli_output *output)
{
    close_file(output);
    bo_output_abandon(output->replacement);
    *output = (cli_output){0};
    unregister(output);
}
