/* The arrays of attention, by number: the kinds that accept them, and their widths. */
#ifndef BO_TEST_ATTENTION_TRIAL_ARRAYS_H
#define BO_TEST_ATTENTION_TRIAL_ARRAYS_H

#include "oracle_front.h"

enum { TRIAL_ARRAYS = 14 };

/* The arrays of a call, in the same order for inputs, outputs and gradients. Arrays before SIGMA have one row per
 * token; the others belong to heads. */
typedef enum trial_array {
    Q,
    K,
    V,
    LOG_GATE,
    BETA,
    SIGMA,
    M,
    M_K,
    BIAS,
    BIAS_K,
    MIX,
    LOG_DECAY,
    LAMBDA,
    OUT
} trial_array;
static const char *const trial_names[TRIAL_ARRAYS] = {
    "q", "k", "v", "log_gate", "beta", "sigma", "m", "m_k", "bias", "bias_k", "mix", "log_decay", "lambda", "out"};

static inline bool trial_is_memory(const bo_attention_desc *d)
{
    return d->kind == BO_ATTENTION_GLA || d->kind == BO_ATTENTION_DELTA || d->kind == BO_ATTENTION_RIDGE;
}

/* Number of floats in one row of an array: of one token and head, of the vector of one head, or of one row of the
 * matrix of a head. */
static inline size_t trial_width(const bo_attention_desc *d, trial_array which)
{
    switch (which) {
    case V:
    case OUT:
        return d->value_dim;
    case LOG_GATE:
        return d->kind == BO_ATTENTION_GLA ? d->dim : 1;
    case BETA:
    case MIX:
    case LOG_DECAY:
        return 1;
    case BIAS:
    case BIAS_K:
        return d->rank;
    case Q:
    case K:
    case SIGMA:
    case M:
    case M_K:
    case LAMBDA:
        break;
    }
    return d->dim;
}

/* True if the kind accepts the array. */
static inline bool trial_accepts(const bo_attention_desc *d, trial_array which)
{
    bool learned = oracle_learned(d);
    switch (which) {
    case LOG_GATE:
        return d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY || d->kind == BO_ATTENTION_GLA;
    case BETA:
        return d->kind == BO_ATTENTION_DELTA || d->kind == BO_ATTENTION_RIDGE;
    case SIGMA:
        return d->kind == BO_ATTENTION_RFA;
    case M:
        return learned || d->kind == BO_ATTENTION_DARK || (d->kind == BO_ATTENTION_HYBRID && d->rank);
    case M_K:
    case BIAS:
    case BIAS_K:
        return learned;
    case MIX:
        return d->kind == BO_ATTENTION_HYBRID;
    case LOG_DECAY:
        return d->gate == BO_GATE_FIXED;
    case LAMBDA:
        return d->kind == BO_ATTENTION_RIDGE;
    case Q:
    case K:
    case V:
    case OUT:
        break;
    }
    return true;
}

#endif
