/* Statistics for proposals: the rows of a key head, and their moments. */
#ifndef BO_ATTENTION_DARK_H
#define BO_ATTENTION_DARK_H

#include "calls.h"
#include "moments.h"
#include "row_transform.h"

/* Returns a call with only its layout set: enough for bo_rows_at. */
static inline bo_call bo_layout_of(const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_geometry *geometry)
{
    return (bo_call){.attention = attention,
                     .kernels = attention->kernels,
                     .shape = shape,
                     .sequences = geometry->sequences,
                     .queries_total = geometry->queries_total,
                     .keys_total = geometry->keys_total};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The rows of `count` heads, starting at `first`, of every sequence: q or k of one key head, or of all. */
typedef struct bo_side {
    const bo_call *call; /* only its layout is used */
    const float *array;
    const char *name; /* "q" or "k" */
    size_t heads;     /* heads of the array */
    size_t first, count, dim;
    bool keys;
    const bo_row_transform *transforms; /* one per key head: rows are transformed; NULL: rows are unchanged */
    size_t width;                       /* numbers per transformed row */
    size_t step;                        /* distance between rows of a head in tokens; 1: all rows */
} bo_side;

bo_side bo_side_queries(const bo_call *call, const float *q, size_t first_key_head, size_t key_heads);
bo_side bo_side_keys(const bo_call *call, const float *k, size_t first_key_head, size_t key_heads);
size_t bo_side_rows(const bo_side *side);
/* Copies at most `max_rows` evenly spaced rows. Returns their number. out: rows x width. */
size_t bo_side_sample(const bo_side *side, size_t max_rows, float *out);
/* Copies `count` evenly spaced rows; the first is at `offset` (in [0, 1)) of the spacing. If `count` exceeds the number
 * of rows, rows repeat. There must be at least one row. */
void bo_side_spread(const bo_side *side, size_t count, double offset, float *out);

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Computes the moments. BO_NUMERIC with the position if a row is not finite. Free with bo_second_moments_free, also
 * after failure. */
bo_status bo_second_moments_measure(bo_context *context, const bo_side *side, double scale, bo_second_moments *out);

#endif
