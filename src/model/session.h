/* A session's inside. */
#ifndef BO_MODEL_SESSION_H
#define BO_MODEL_SESSION_H

#include "internal.h"

enum { BO_SESSION_SIZES = 17, BO_SESSION_CHUNK = 1 << 16 }; /* most tokens at a time */

/* Tokens are taken in blocks of sizes[0] = chunk and of the powers of two below it, so that any number of them goes
 * through few graphs. A graph is made when it is first needed. Invariants: states[i] is layer i's and has absorbed `tokens`
 * tokens, unless `broken`: a run ended half-way, and only a new start helps. */
struct bo_session {
    const bo_model *model;
    bo_session_desc desc;
    bo_attention **own;              /* where the model's attentions have another capacity, else NULL */
    bo_attention *const *attentions; /* own, or the model's */
    char *memory;                    /* of the states, one after the other, each aligned to 64 bytes */
    void **states;
    size_t state_bytes;
    size_t sizes[BO_SESSION_SIZES], size_count;
    bo_model_graph feed[BO_SESSION_SIZES], score[BO_SESSION_SIZES];
    int32_t *positions; /* chunk of them */
    float *logits;      /* after the last token, where it was fed */
    bool has_logits;
    uint64_t tokens;
    bool broken;
};

/* The model keeps all keys, up to a capacity. */
bool bo_session_has_capacity(const bo_model *model);

#endif
