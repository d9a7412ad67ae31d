/* The two parts of a row in the hybrid: features for keys before the window, softmax weights for keys in the window. */
#ifndef BO_ATTENTION_HYBRID_H
#define BO_ATTENTION_HYBRID_H

#include "exact.h"

/* A numerator (value_dim) and a denominator relative to exp(top); top == -INFINITY: empty. */
typedef struct bo_hybrid_part {
    float *numerator;
    float denominator, top;
} bo_hybrid_part;

#endif
