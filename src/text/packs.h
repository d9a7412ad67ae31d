/* A pack in host memory, in the form that model graphs read: sequences after each other, followed by padding sequences
 * that fill the remaining rows (possibly one of no tokens) and are ignored. Padding sequences are short if possible,
 * because the cost of softmax attention is quadratic in their length. */
#ifndef BO_TEXT_PACKS_H
#define BO_TEXT_PACKS_H

#include "../base/base.h"
#include "facts.h"

/** The ids of a text in memory of the caller. */
typedef struct bo_text_view {
    const int32_t *ids; /**< the ids */
    size_t count;       /**< number of ids, including the end token */
} bo_text_view;

/** The settings of packs: examples of any length in rows of a fixed number of tokens, without padding to the longest.
 *
 * An epoch uses every example once, in a random order that depends on seed and epoch. Each example is placed into the
 * fullest open pack (of a few) with enough capacity on every side; then the packs are shuffled. A batch is `batch`
 * packs. It depends only on seed and step; the last batch of an epoch continues with packs of the next epoch.
 */
typedef struct bo_packs_desc {
    const bo_texts *texts; /**< the texts; must outlive the packs */
    size_t rows; /**< tokens per pack (PAIR: of the sources; otherwise of all texts); at least the longest example */
    size_t target_rows;   /**< PAIR: tokens of the targets per pack; at least the longest target */
    size_t max_examples;  /**< maximum number of examples per pack */
    size_t batch;         /**< packs per step */
    uint64_t seed;        /**< seed of the order */
    bool in_order;        /**< for evaluation: no shuffling, and one epoch; later packs are empty */
    uint64_t reserved[4]; /**< must be zero */
} bo_packs_desc;

/** Packs of examples. */
typedef struct bo_packs bo_packs;

/** Creates packs.
 *
 * @param context    the context
 * @param desc       the packs
 * @param[out] out   the packs; release them with bo_packs_destroy()
 * @return BO_OK; BO_INVALID if an example is longer than a pack
 */
bo_status bo_packs_create(bo_context *context, const bo_packs_desc *desc, bo_packs **out);

/** Destroys packs.
 *
 * @param packs   the object, or NULL
 */
void bo_packs_destroy(bo_packs *packs);

/** Returns the number of packs in the first epoch.
 *
 * @param packs   the packs
 * @return the number of packs
 */
size_t bo_packs_per_epoch(const bo_packs *packs);

/** Returns the fraction of the rows of the first epoch that hold tokens.
 *
 * @param packs   the packs
 * @return the fraction, in (0, 1]
 */
double bo_packs_occupancy(const bo_packs *packs);

/** Returns the examples of one pack.
 *
 * An epoch is packed when it is first used, and one epoch is kept at a time: the object must not be shared by threads.
 *
 * @param context          the context
 * @param[in,out] packs    the packs
 * @param step             the step, from 0
 * @param index            the pack of the step
 * @param[out] examples    the examples; capacity `max_examples`
 * @param[out] count       the number of examples
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_packs_get(bo_context *context, bo_packs *packs, uint64_t step, size_t index, size_t *examples,
                       size_t *count);

/* ---- packs in host memory ---------------------------------------------------------------------------------------- */

/* One text of an example. */
static inline bo_text_view bo_text_at(const bo_texts *texts, size_t example, size_t side)
{
    bo_text_view text;
    text.ids = bo_texts_ids(texts, example, side, &text.count);
    return text;
}

/* One stream of rows. Invariants: lengths[0 … sequences - 1] sum to `rows`; sequences from `texts` on are padding. */
typedef struct bo_packed_stream {
    size_t rows;
    /* One entry per row. Positions count from 0 in each sequence; positions of padding are all 0, because padding may
     * be longer than the number of positions. Row i of the reversed sequences is row reversal[i]. */
    int32_t *tokens, *positions, *reversal;
    size_t *lengths; /* capacity max_sequences */
} bo_packed_stream;

typedef struct bo_text_pack {
    size_t examples, max_examples; /* current and maximum number */
    size_t texts;                  /* number of examples (LABELED_PAIR: two each) */
    size_t sequences;              /* texts plus at least one padding sequence */
    size_t max_sequences;
    bo_packed_stream stream; /* the texts; for PAIR the targets: begin, y_1, y_2, … */
    bo_packed_stream source; /* for PAIR; otherwise no rows */
    int32_t *targets;        /* PAIR: rows, y_1, y_2, …, end; -1 where nothing is predicted */
    int32_t *labels;         /* capacity max_examples; -1: no label */
    int32_t begin;
} bo_text_pack;

/* rows: rows and target_rows of bo_packs_desc; begin: start token of targets. Initially the pack is empty. */
bo_status bo_text_pack_create(bo_context *context, const bo_texts *texts, const size_t rows[2], size_t max_examples,
                              int32_t begin, bo_text_pack **out);
void bo_text_pack_destroy(bo_text_pack *packed); /* NULL is allowed */
/* Fills the pack with these examples, which must fit. */
bo_status bo_text_pack_fill(bo_context *context, bo_text_pack *packed, const bo_texts *texts, const size_t *examples,
                            size_t count);

#endif
