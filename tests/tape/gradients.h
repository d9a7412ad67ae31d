/* Gradients of weights at the offsets of their values. */
#ifndef BO_TEST_TAPE_GRADIENTS_H
#define BO_TEST_TAPE_GRADIENTS_H

#include "tape/weights.h"
#include <string.h>

/* Copies the gradients, with zeros for weights that have none. `out` has bo_weights_floats() numbers. */
static inline void gradients_copy(const bo_weights *weights, float *out)
{
    memset(out, 0, bo_weights_floats(weights) * sizeof *out);
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *w = bo_weights_at(weights, i);
        if (w->gradient) memcpy(out + w->offset, w->gradient, w->rows * w->columns * sizeof *out);
    }
}

static inline void gradients_clear(const bo_weights *weights)
{
    for (const bo_gradients *g = bo_weights_gradients(weights); g; g = g->next)
        memset(g->data, 0, g->floats * sizeof(float));
}

#endif
