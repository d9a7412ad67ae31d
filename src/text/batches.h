/* Batches of a training run: windows of a corpus, as a pure function of a seed and a step. */
#ifndef BO_TEXT_BATCHES_H
#define BO_TEXT_BATCHES_H

#include "../base/base.h"
#include <bochner/text.h>

/** The batches of a training run: windows of `context` inputs and the token that follows each input.
 *
 * An epoch uses every window once, in an order that differs between epochs (a keyed permutation, computed on demand).
 * Each epoch starts at another offset. With lanes, an epoch uses the windows in the order of the text, except for less
 * than one per lane at the end. `corpus`, `context` and `batch` have no default.
 */
typedef struct bo_batches_desc {
    const bo_corpus *corpus; /**< the corpus */
    size_t context;          /**< tokens per window */
    size_t batch;            /**< sequences per step, over all parts */
    size_t part;             /**< the part of each step to produce, from 0: the rank in a parallel job */
    size_t parts;            /**< number of parts (default: 1) */
    uint64_t seed;           /**< seed of the order */
    bool documents;          /**< runs end at the end of documents: see `lengths` of bo_batches_fill() */
    /** 0: windows in a random order. Otherwise the same number as `batch`: sequence i of a step continues sequence i of
     * the step before it, from one end to the other of its part of the text (a lane). */
    size_t lanes;
    uint64_t reserved[3]; /**< must be zero */
} bo_batches_desc;

/** Checks a descriptor.
 *
 * @param context   the context
 * @param desc      the batches
 * @return BO_OK; BO_INVALID if the corpus is too short or `batch` is not divisible by `parts`
 */
bo_status bo_batches_check(bo_context *context, const bo_batches_desc *desc);

/** Produces sequences of one step.
 *
 * A run is a window, or with `documents` the part of a window that lies in one document. If there are more runs than
 * the capacity of `lengths`, the last ones are merged.
 *
 * @param context          the context
 * @param desc             the batches
 * @param step             the step, from 0
 * @param first            the first sequence of the step
 * @param count            the number of sequences
 * @param[out] tokens      inputs, count x context
 * @param[out] targets     the tokens that follow, count x context
 * @param[out] positions   positions, count x context, from 0 in each run; or NULL
 * @param[out] lengths     the length of each run; or NULL
 * @param[in,out] runs     the capacity of `lengths`, at least `count`; becomes the number of runs; or NULL if `lengths`
 *     is NULL
 * @return BO_OK or an error (see base.h); BO_IO as for bo_corpus_read()
 */
bo_status bo_batches_fill(bo_context *context, const bo_batches_desc *desc, uint64_t step, size_t first, size_t count,
                          int32_t *tokens, int32_t *targets, int32_t *positions, size_t *lengths, size_t *runs);

/** Returns true if a sequence starts a new text: it does not continue the sequence with the same number in the previous
 * step. Without lanes, this is true for every sequence.
 *
 * @param desc       the batches
 * @param step       the step, from 0
 * @param sequence   the number of the sequence in the part of the step
 * @return true without lanes, at the start of an epoch, and with `documents` at the start of a document; false if desc
 *     is NULL
 */
bool bo_batches_begins(const bo_batches_desc *desc, uint64_t step, size_t sequence);

/** Returns the number of windows per epoch.
 *
 * @param desc   the batches
 * @return the number of windows
 */
uint64_t bo_batches_per_epoch(const bo_batches_desc *desc);

#endif
