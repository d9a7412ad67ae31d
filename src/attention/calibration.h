/* Statistics of q and k that suffice to draw frequencies. The data is not stored. */
#ifndef BO_ATTENTION_CALIBRATION_H
#define BO_ATTENTION_CALIBRATION_H

#include "../features/propose.h"
#include "dark.h"

enum { BO_SAMPLE_ROWS = 512 }; /* sampled rows per side of a distribution */

/* Rows of one side of one distribution after the transform: means, second moments, and a sample. A batch has the same
 * weight in all three: a row of the sample comes from batch b with a probability equal to the weight of b in the
 * means. */
typedef struct bo_calibration_side {
    uint64_t rows;
    bo_second_moments moments;
    float *sample; /* BO_SAMPLE_ROWS x width */
} bo_calibration_side;

/* Invariant: laws is 1 if key heads share one draw, else the number of key heads; sides has two entries per
 * distribution, q and k. */
struct bo_calibration {
    bo_attention_desc desc; /* descriptor of the attention it was created for */
    bo_attention *layout;   /* softmax attention with the same heads, for the layout of rows */
    size_t width, laws;
    double momentum;
    uint64_t batches;
    bo_calibration_side *sides;
};

static inline bo_feature_sample bo_calibration_sample(const bo_calibration *calibration,
                                                      const bo_calibration_side *sides)
{
    return (bo_feature_sample){sides->sample, BO_SAMPLE_ROWS, calibration->width};
}

#endif
