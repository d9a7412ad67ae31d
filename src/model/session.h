/* Internals of a session. */
#ifndef BO_MODEL_SESSION_H
#define BO_MODEL_SESSION_H

#include "capacity.h"

enum { BO_SESSION_SIZES = 34, BO_SESSION_CHUNK = 1 << 16 }; /* maximum tokens at a time */

/* What a run of tokens computes: the logits after the last one, the losses of given next tokens, the logits after every
 * token, or the last hidden state of every token. */
typedef enum bo_session_result {
    BO_SESSION_RESULT_LAST = 0,
    BO_SESSION_RESULT_LOSSES = 1,
    BO_SESSION_RESULT_ALL = 2,
    BO_SESSION_RESULT_HIDDEN = 3,
    BO_SESSION_RESULT_COUNT = 4
} bo_session_result;

/* Tokens are read in blocks of sizes[0] = chunk and of the numbers 2^i and 3 · 2^i below it, so that any number of tokens needs
 * few graphs, and few blocks: each reads all weights. A graph is made when it is first needed. Invariants: states[i] is the state of layer i and has read
 * `tokens` tokens. This does not hold if `broken`: a run was interrupted, and the session must be reset. */
struct bo_session {
    const bo_model *model;
    bo_session_desc desc;
    bo_sized_attentions attentions;
    char *memory; /* memory of the states, one after the other, each aligned to 64 bytes */
    void **states;
    size_t state_bytes;
    size_t sizes[BO_SESSION_SIZES], size_count;
    bo_model_graph graphs[BO_SESSION_RESULT_COUNT][BO_SESSION_SIZES];
    int32_t *positions; /* `chunk` entries */
    float *logits;      /* after the last token, if tokens were fed */
    bool has_logits;
    uint64_t tokens;
    /* Hashes of the model and its weights, if has_hashes: they do not change during the life of this session. */
    uint64_t fingerprint, digest;
    bool has_hashes, broken;
};

/* Computes the bytes of all graphs that compute this result in blocks of at most desc->chunk tokens. Allocates none. */
bo_status bo_session_workspace(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                               bo_session_result result, size_t *bytes);

/* ---- states (session_states.c) ------------------------------------------------------------------------------------ */

bo_device *bo_session_device(const bo_session *session);
/* Returns the bytes of the state of a layer; 0: it has none. */
size_t bo_session_layer_bytes(const bo_session *session, size_t layer);
/* Returns the bytes of the states of all layers, as bo_session_place places them. */
size_t bo_session_states_bytes(const bo_session *session);
/* Sets states[i] to the state of layer i in memory that holds the states of all layers. */
void bo_session_place(const bo_session *session, char *memory, void **states);

/* Copies of the states in memory of the host. */
typedef struct bo_host_states {
    char *memory;
    void **states;
} bo_host_states;

/* Free also after a failure. */
bo_status bo_host_states_create(bo_context *context, const bo_session *session, bo_host_states *out);
void bo_host_states_free(bo_host_states *host);
bo_status bo_host_states_read(bo_context *context, const bo_session *session, const bo_host_states *host);
bo_status bo_host_states_write(bo_context *context, const bo_session *session, const bo_host_states *host);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

/* True if a layer of the model keeps all keys, up to a capacity. */
bool bo_session_has_capacity(const bo_model *model);
/* Returns the maximum number of tokens that a session with this capacity can read. */
uint64_t bo_session_most(const bo_model *model, size_t capacity);
/* Creates a session without states: its owner sets those that it reads into, and does not reset it. */
bo_status bo_session_create_reader(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                   bo_session **out);
/* Reads a saved state in memory into the states, which are filled with zeros. After a failure they are undefined. */
bo_status bo_session_restore(bo_context *context, bo_session *session, const void *bytes, size_t size);
/* Checks that a saved state in memory was made by the model of the session, without reading the state itself. */
bo_status bo_session_recognize(bo_context *context, const bo_session *session, const void *bytes, size_t size);
/* The same, and that bo_session_restore would accept it. */
bo_status bo_session_validate(bo_context *context, const bo_session *session, const void *bytes, size_t size);
/* Makes the states as if the session had read this number of tokens (bo_attention_state_repeat), of which it must have
 * read some. Logits are not available until tokens are fed. */
bo_status bo_session_repeat(bo_context *context, bo_session *session, uint64_t tokens);

#endif
