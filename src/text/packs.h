/* A pack in the host's memory, as the graphs of models read it: sequences one after the other, and behind them what is left of
 * the rows as one sequence more (perhaps of no tokens) or several, which nobody looks at: where there is room for them they are
 * short, because exact attention pays for their square. */
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

/* One stream of rows. Invariants: lengths[0 … sequences - 1] sum up to `rows`, those from `texts` on are of the rest. */
typedef struct bo_packed_stream {
    size_t rows;
    /* Of each row. Positions count from 0 in each sequence; those of the rest are all 0, for it may be longer than there are
     * positions. Row i of the same sequences read backwards is row reversal[i]. */
    int32_t *tokens, *positions, *reversal;
    size_t *lengths; /* room for most_sequences */
} bo_packed_stream;

typedef struct bo_text_pack {
    size_t examples, most; /* in it now, and at most */
    size_t texts;          /* examples (LABELED_PAIR: two each) */
    size_t sequences;      /* texts, and of the rest 1 or more */
    size_t most_sequences;
    bo_packed_stream stream; /* the texts; of PAIR the targets: begin, y_1, y_2, … */
    bo_packed_stream source; /* of PAIR; else no rows */
    int32_t *targets;        /* PAIR: rows, y_1, y_2, …, end; -1 where nothing is to be said */
    int32_t *labels;         /* most; -1: none */
    int32_t begin;
} bo_text_pack;

/* rows: rows and target_rows of bo_packs_desc; begin: of targets. It holds no example at first. */
bo_status bo_text_pack_create(bo_context *context, const bo_texts *texts, const size_t rows[2], size_t most,
                              int32_t begin, bo_text_pack **out);
void bo_text_pack_destroy(bo_text_pack *packed); /* NULL is fine */
/* These examples, which must fit. */
bo_status bo_text_pack_fill(bo_context *context, bo_text_pack *packed, const bo_texts *texts, const size_t *examples,
                            size_t count);

#endif
