/* Key-value pairs for lab/tools/recall.h. */
#ifndef BO_LAB_TOOLS_RECALL_INTERNAL_H
#define BO_LAB_TOOLS_RECALL_INTERNAL_H

#include "../../src/base/base.h"
#include "recall.h"

/* One pair per token in each of `lanes` sequences. A key is a random direction of length 1, or (`norms`) of a length
 * drawn log-uniformly from 1/2 to 2. Its value is one of `codes` random directions in `width` dimensions. A query is
 * the direction of the key with added noise of length `noise`, rescaled to length 1. All numbers are derived from the
 * seed. */
typedef struct bo_recall_pairs {
    uint64_t seed;
    size_t lanes, dim, width, codes;
    bool norms;
    double noise;
    float *book; /* codes x width */
} bo_recall_pairs;

/* creates the codebook; the caller sets the other fields */
bo_status bo_recall_pairs_open(bo_context *context, bo_recall_pairs *pairs);
void bo_recall_pairs_close(bo_recall_pairs *pairs);
void bo_recall_key(const bo_recall_pairs *pairs, size_t lane, size_t token, float *out);
void bo_recall_question(const bo_recall_pairs *pairs, size_t lane, size_t token, float *out);
size_t bo_recall_code(const bo_recall_pairs *pairs, size_t lane, size_t token);
/* Returns the nearest code. */
size_t bo_recall_nearest(const bo_context *context, const bo_recall_pairs *pairs, const float *value);

#endif
