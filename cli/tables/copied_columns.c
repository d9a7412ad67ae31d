#include "copied_columns.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The column with this name or index; -1: none. */
static long long find(const bo_reader *reader, const char *word, size_t length)
{
    const size_t columns = bo_reader_describe(reader)->columns;
    for (size_t i = 0; i < columns; i++) {
        const char *name = bo_reader_column(reader, i);
        if (name && strlen(name) == length && memcmp(name, word, length) == 0) return (long long)i;
    }
    char *end;
    const long long index = strtoll(word, &end, 10), found = index < 0 ? index + (long long)columns : index;
    return length > 0 && end == word + length && found >= 0 && found < (long long)columns ? found : -1;
}

static bool find_all(cli_session *session, cli_copied *copied, const char *list)
{
    for (const char *word = list;; word++) {
        const size_t length = strcspn(word, ",");
        const long long column = find(copied->reader, word, length);
        if (column < 0) {
            cli_fail(session, "--copy: %s: expected the name or index of a column, found '%.*s'",
                     bo_reader_describe(copied->reader)->path, (int)length, word);
            return false;
        }
        copied->columns[copied->count++] = (size_t)column;
        word += length;
        if (!*word) return true;
    }
}

bool cli_copied_open(cli_session *session, cli_copied *copied, const char *path, bo_format format, const char *list)
{
    const bo_status status = bo_reader_open(session->context, &(bo_source){.path = path}, format, 0, &copied->reader);
    if (status != BO_OK) {
        cli_fail_status(session, status);
        return false;
    }
    copied->columns = cli_allocate(strlen(list) + 1, sizeof *copied->columns, "columns");
    copied->cells = cli_allocate(strlen(list) + 1, sizeof *copied->cells, "columns");
    return find_all(session, copied, list);
}

bool cli_copied_next(cli_session *session, cli_copied *copied)
{
    enum { BLOCK = 4096 };
    if (copied->next == copied->block.rows) {
        const bo_status status = bo_reader_next(session->context, copied->reader, BLOCK, &copied->block);
        copied->next = 0;
        if (status != BO_OK) return cli_fail_status(session, status) == CLI_DONE;
        if (copied->block.rows == 0) {
            cli_fail(session, "--copy: %s changed while it was read: it has fewer rows than before",
                     bo_reader_describe(copied->reader)->path);
            return false;
        }
    }
    for (size_t i = 0; i < copied->count; i++) {
        const size_t at = copied->next * copied->block.columns + copied->columns[i];
        copied->cells[i] = (cli_cell){copied->block.text ? copied->block.text[at] : NULL, copied->block.cells[at]};
    }
    copied->next++;
    return true;
}

const char *cli_copied_name(const cli_copied *copied, size_t index, char buffer[CLI_NAME])
{
    const char *name = bo_reader_column(copied->reader, copied->columns[index]);
    if (name) return name;
    snprintf(buffer, CLI_NAME, "column %zu", copied->columns[index]);
    return buffer;
}

void cli_copied_close(cli_copied *copied)
{
    bo_reader_close(copied->reader);
    free(copied->columns);
    free(copied->cells);
    *copied = (cli_copied){0};
}
