/* What has been seen of q and k: enough to draw frequencies from, never the data itself. */
#ifndef BO_ATTENTION_CALIBRATION_H
#define BO_ATTENTION_CALIBRATION_H

#include "../features/propose.h"
#include "dark.h"

enum { BO_KEPT_ROWS = 512 }; /* of either side of a law */

/* Rows of one side of one law, after the transform: means, second moments, and a sample. A batch has the same share in all
 * three: a row of the sample is one of batch b with the weight that b has in the means. */
typedef struct bo_seen {
    uint64_t rows;
    bo_second_moments moments;
    float *kept; /* BO_KEPT_ROWS x width */
} bo_seen;

/* Invariant: laws is 1 where key heads share one draw, else their number; seen has 2 a law, q and k. */
struct bo_calibration {
    bo_attention_desc desc; /* of the attention it was made for */
    bo_attention *layout;   /* exact attention of the same heads: where rows are */
    size_t width, laws;
    double momentum;
    uint64_t batches;
    bo_seen *seen;
};

static inline bo_feature_sample bo_seen_sample(const bo_calibration *calibration, const bo_seen *seen)
{
    return (bo_feature_sample){seen->kept, BO_KEPT_ROWS, calibration->width};
}

#endif
