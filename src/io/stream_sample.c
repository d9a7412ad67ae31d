/* A seeded uniform sample of the rows of a stream. */
#include <stdlib.h>
#include <string.h>
#include "../base/rng.h"
#include "stream.h"

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
            pick = top; /* already drawn: use the top, which cannot have been drawn */
        }
        out[i] = pick;
    }
    qsort(out, count, sizeof *out, by_index);
    bo_free(table);
    return BO_OK;
}

/* The output arrays of a sample; y and weights may be NULL. */
typedef struct bo_stream_arrays {
    float *x;
    double *y;
    float *weights;
} bo_stream_arrays;

/* A drawn row may have no target: then the sample has one row less. */
static bo_status sample_by_seeking(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng,
                                   const bo_stream_arrays *to, size_t *sampled)
{
    const size_t total = stream->source.data->rows, count = rows < total ? rows : total;
    const size_t dim = stream->schema->dim, targets = stream->schema->targets;
    size_t *picks = bo_alloc_raw(context, count, sizeof *picks, "a sample of rows");
    if (!picks) return BO_MEMORY;
    bo_status status = draw_distinct(context, rng, total, count, picks);
    *sampled = 0;
    for (size_t i = 0, run, got = 0; i < count && status == BO_OK; i += run, *sampled += got) {
        for (run = 1; i + run < count && picks[i + run] == picks[i] + run;) ++run; /* consecutive rows are one read */
        status = bo_reader_seek(context, stream->source.data, picks[i]);
        if (status == BO_OK && stream->source.labels) status = bo_reader_seek(context, stream->source.labels, picks[i]);
        if (status == BO_OK)
            status = bo_stream_next_few(context, stream, run, to->x + *sampled * dim,
                                        to->y ? to->y + *sampled * targets : NULL, &got);
        const float *weights = bo_stream_weights(stream);
        if (status == BO_OK && to->weights && weights) memcpy(to->weights + *sampled, weights, got * sizeof *weights);
    }
    bo_free(picks);
    return status;
}

/* Algorithm R (Vitter 1985). */
static bo_status sample_by_pass(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng,
                                const bo_stream_arrays *to, size_t *sampled)
{
    const size_t dim = stream->schema->dim, targets = stream->schema->targets, block = 256;
    float *block_x = bo_alloc_raw(context, block * dim, sizeof *block_x, "a block of rows");
    double *block_y = bo_alloc_raw(context, block * (targets ? targets : 1), sizeof *block_y, "a block of rows");
    bo_status status = block_x && block_y ? BO_OK : BO_MEMORY;
    size_t seen = 0, got = 1;
    while (status == BO_OK && got > 0) {
        status = bo_stream_next(context, stream, block, block_x, to->y ? block_y : NULL, &got);
        const float *weights = bo_stream_weights(stream);
        for (size_t r = 0; status == BO_OK && r < got; ++r, ++seen) {
            size_t place = seen < rows ? seen : (size_t)bo_rng_below(rng, seen + 1);
            if (place >= rows) continue;
            memcpy(to->x + place * dim, block_x + r * dim, dim * sizeof *to->x);
            if (to->y) memcpy(to->y + place * targets, block_y + r * targets, targets * sizeof *to->y);
            if (to->weights && weights) to->weights[place] = weights[r];
        }
    }
    *sampled = seen < rows ? seen : rows;
    bo_free(block_x);
    bo_free(block_y);
    return status;
}

bo_status bo_stream_sample(bo_context *context, bo_stream *stream, size_t rows, uint64_t seed, float *x, double *y,
                           float *weights, size_t *sampled)
{
    const bo_reader *data = stream->source.data, *labels = stream->source.labels;
    const bool seeks = bo_reader_seekable(data) && (!labels || bo_reader_seekable(labels)), parted = stream->parted;
    const bo_stream_arrays to = {x, y, weights};
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("data.sample", 0));
    *sampled = 0;
    stream->parted = false; /* the sample is drawn from the whole file and is the same for every part */
    stream->next_kept = 0;
    bo_status status = bo_data_input_rewind(context, &stream->source);
    if (status == BO_OK)
        status = seeks ? sample_by_seeking(context, stream, rows, &rng, &to, sampled)
                       : sample_by_pass(context, stream, rows, &rng, &to, sampled);
    stream->parted = parted;
    if (status == BO_OK) status = bo_stream_rewind(context, stream);
    return status;
}
