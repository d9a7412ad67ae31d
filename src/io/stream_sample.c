/* A seeded uniform sample of the rows of a stream. */
#include "stream.h"
#include "../base/rng.h"

#include <stdlib.h>
#include <string.h>

static int by_index(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* `count` distinct numbers below `bound`, ascending (Floyd's algorithm: Bentley and Floyd 1987). */
static bo_status draw_distinct(bo_context *context, bo_rng *rng, size_t bound, size_t count, size_t *out)
{
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    size_t *table = bo_alloc(context, size, sizeof *table, "a sample of rows");
    if (!table) return BO_MEMORY;
    for (size_t i = 0; i < count; ++i) {
        const size_t top = bound - count + i;
        size_t pick = (size_t)bo_rng_below(rng, top + 1);
        for (int again = 0; again < 2; ++again) {
            size_t at = (size_t)(pick * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
            while (table[at] && table[at] != pick + 1) at = (at + 1) & (size - 1);
            if (!table[at]) {
                table[at] = pick + 1;
                break;
            }
            pick = top; /* taken: the top itself cannot be */
        }
        out[i] = pick;
    }
    qsort(out, count, sizeof *out, by_index);
    bo_free(table);
    return BO_OK;
}

static bo_status sample_by_seeking(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng, float *x,
                                   double *y, size_t *sampled)
{
    const size_t total = stream->source.data->rows, count = rows < total ? rows : total;
    size_t *picks = bo_alloc_raw(context, count, sizeof *picks, "a sample of rows"), got = 1;
    if (!picks) return BO_MEMORY;
    bo_status status = draw_distinct(context, rng, total, count, picks);
    for (*sampled = 0; *sampled < count && status == BO_OK && got; *sampled += got) {
        size_t run = 1; /* neighbors in one read */
        while (*sampled + run < count && picks[*sampled + run] == picks[*sampled] + run) ++run;
        status = bo_reader_seek(context, stream->source.data, picks[*sampled]);
        if (status == BO_OK && stream->source.labels)
            status = bo_reader_seek(context, stream->source.labels, picks[*sampled]);
        if (status == BO_OK)
            status = bo_stream_next(context, stream, run, x + *sampled * stream->schema->dim,
                                    y ? y + *sampled * stream->schema->targets : NULL, &got);
    }
    bo_free(picks);
    return status;
}

/* Algorithm R (Vitter 1985). */
static bo_status sample_by_pass(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng, float *x, double *y,
                                size_t *sampled)
{
    const size_t dim = stream->schema->dim, targets = stream->schema->targets, block = 256;
    float *block_x = bo_alloc_raw(context, block * dim, sizeof *block_x, "a block of rows");
    double *block_y = bo_alloc_raw(context, block * (targets ? targets : 1), sizeof *block_y, "a block of rows");
    bo_status status = block_x && block_y ? BO_OK : BO_MEMORY;
    size_t seen = 0, got = 1;
    while (status == BO_OK && got > 0) {
        status = bo_stream_next(context, stream, block, block_x, y ? block_y : NULL, &got);
        for (size_t r = 0; status == BO_OK && r < got; ++r, ++seen) {
            size_t place = seen < rows ? seen : (size_t)bo_rng_below(rng, seen + 1);
            if (place >= rows) continue;
            memcpy(x + place * dim, block_x + r * dim, dim * sizeof *x);
            if (y) memcpy(y + place * targets, block_y + r * targets, targets * sizeof *y);
        }
    }
    *sampled = seen < rows ? seen : rows;
    bo_free(block_x);
    bo_free(block_y);
    return status;
}

bo_status bo_stream_sample(bo_context *context, bo_stream *stream, size_t rows, uint64_t seed, float *x, double *y,
                           size_t *sampled)
{
    const bo_reader *data = stream->source.data, *labels = stream->source.labels;
    const bool seeks = bo_reader_seekable(data) && (!labels || bo_reader_seekable(labels)), parted = stream->parted;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("data.sample", 0));
    *sampled = 0;
    stream->parted = false; /* a sample is of the whole file, the same for every part */
    bo_status status = bo_source_rewind(context, &stream->source);
    if (status == BO_OK)
        status = seeks ? sample_by_seeking(context, stream, rows, &rng, x, y, sampled)
                       : sample_by_pass(context, stream, rows, &rng, x, y, sampled);
    stream->parted = parted;
    if (status == BO_OK) status = bo_stream_rewind(context, stream);
    return status;
}
