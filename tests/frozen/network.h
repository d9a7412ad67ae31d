/* What a network of tests/frozen predicts for two rows, as bytes. */
#ifndef BO_TEST_FROZEN_NETWORK_H
#define BO_TEST_FROZEN_NETWORK_H

#include <bochner/network.h>
#include "frozen.h"

/* A network in memory with eight columns and two classes. */
static inline bo_status frozen_network(bo_context *context, const void *bytes, size_t size, frozen *out)
{
    enum { ROWS = 2, DIM = 8, CLASSES = 2 };
    static const float x[ROWS * DIM] = {0.5f, -1.0f,  0.25f, 2.0f, -0.75f, 0.0f, 1.0f,   -2.0f,
                                        1.5f, 0.125f, -0.5f, 1.0f, 0.0f,   2.0f, -1.25f, 0.75f};
    float predictions[ROWS * CLASSES];
    bo_model *network;
    bo_examples *examples;
    FROZEN_TRY(bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &network));
    bo_status status = bo_examples_create(context, &(bo_examples_arrays){.rows = ROWS, .dim = DIM, .x = x}, &examples);
    if (status == BO_OK) {
        status = bo_model_predict(context, network, examples, BO_SPLIT_ALL, predictions);
        bo_examples_destroy(examples);
    }
    bo_model_destroy(network);
    return status == BO_OK ? frozen_add(context, out, predictions, sizeof predictions) : status;
}

#endif
