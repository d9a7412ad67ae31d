/* --length-scales: reads one positive number per column from a file in any table format. */
#include "length_scales.h"
#include <math.h>
#include <stdlib.h>

static bool read_scales(cli_session *session, bo_reader *reader, const char *path, size_t dim, float *scales,
                        size_t *count)
{
    bo_data_block block = {.rows = 1};
    while (block.rows > 0) {
        bo_status status = bo_reader_next(session->context, reader, 1024, &block);
        if (status != BO_OK) {
            cli_fail_status(session, status);
            return false;
        }
        for (size_t i = 0; i < block.rows * block.columns; i++, ++*count) {
            float value = (float)block.cells[i];
            if (!(value > 0) || !isfinite(value)) {
                cli_fail(session, "--length-scales: %s: number %zu: expected a positive number, found %g", path,
                         *count + 1, block.cells[i]);
                return false;
            }
            if (*count < dim) scales[*count] = value;
        }
    }
    return true;
}

float *cli_length_scales(cli_session *session, const char *path, const char *data, size_t dim)
{
    bo_reader *reader = NULL;
    bo_status status = bo_reader_open(session->context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 0, &reader);
    if (status != BO_OK) {
        cli_fail_status(session, status);
        return NULL;
    }
    float *scales = cli_allocate(dim, sizeof(float), "length scales");
    size_t count = 0;
    bool ok = read_scales(session, reader, path, dim, scales, &count);
    bo_reader_close(reader);
    if (ok && count != dim)
        cli_fail(session, "--length-scales: %s: expected one number per input column of %s (%zu), found %zu", path,
                 data, dim, count);
    if (ok && count == dim) return scales;
    free(scales);
    return NULL;
}
