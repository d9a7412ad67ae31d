/* A pack in host memory, in the form that model graphs read: sequences after each other, followed by padding sequences
 * that fill the remaining rows (possibly one of no tokens) and are ignored. Padding sequences are short if possible,
 * because the cost of softmax attention is quadratic in their length. */
#ifndef BO_TEXT_PACKS_H
#define BO_TEXT_PACKS_H

#include "../base/base.h"
#include <bochner/texts.h>

/* One text of an example. */
static inline bo_text_view bo_text_at(const bo_texts *texts, size_t example, size_t side)
{
    bo_text_view text;
    text.ids = bo_texts_ids(texts, example, side, &text.count);
    return text;
}

/* One stream of rows. Invariants: lengths[0 … sequences - 1] sum to `rows`; those from `texts` on are padding. */
typedef struct bo_packed_stream {
    size_t rows;
    /* One entry per row. Positions count from 0 in each sequence; those of padding are all 0, because it may be longer
     * than the number of positions. Row i of the reversed sequences is row reversal[i]. */
    int32_t *tokens, *positions, *reversal;
    size_t *lengths; /* capacity most_sequences */
} bo_packed_stream;

typedef struct bo_text_pack {
    size_t examples, most; /* current and maximum number */
    size_t texts;          /* number of examples (LABELED_PAIR: two each) */
    size_t sequences;      /* texts plus at least one padding sequence */
    size_t most_sequences;
    bo_packed_stream stream; /* the texts; for PAIR the targets: begin, y_1, y_2, … */
    bo_packed_stream source; /* for PAIR; otherwise no rows */
    int32_t *targets;        /* PAIR: rows, y_1, y_2, …, end; -1 where nothing is predicted */
    int32_t *labels;         /* capacity most; -1: no label */
    int32_t begin;
} bo_text_pack;

/* rows: rows and target_rows of bo_packs_desc; begin: start token of targets. Initially the pack is empty. */
bo_status bo_text_pack_create(bo_context *context, const bo_texts *texts, const size_t rows[2], size_t most,
                              int32_t begin, bo_text_pack **out);
void bo_text_pack_destroy(bo_text_pack *packed); /* NULL is allowed */
/* Fills the pack with these examples, which must fit. */
bo_status bo_text_pack_fill(bo_context *context, bo_text_pack *packed, const bo_texts *texts, const size_t *examples,
                            size_t count);

#endif
