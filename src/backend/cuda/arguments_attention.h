/* Arguments that all launches of attention share: the sequences, the arrays and the states of one call. Rows are tokens;
 * a row of q and out has `heads` heads side by side, a row of k and v `key_heads`. Query head h uses key head
 * h / (heads / key_heads). */
#ifndef BO_CUDA_ARGUMENTS_ATTENTION_H
#define BO_CUDA_ARGUMENTS_ATTENTION_H

/* Sequence s has the rows starts[s] … starts[s + 1] - 1; if starts is NULL, s tokens … (s + 1) tokens - 1. A kernel with
 * one block per tile of C rows launches rows / C + sequences blocks: those of sequence s begin at block
 * first_row(s) / C + s, and blocks after its last tile return. */
typedef struct bo_cuda_rows {
    const int32_t *starts; /* on the device; may change between replays of a recording */
    int32_t tokens;
    int32_t sequences;
    size_t rows; /* of all sequences */
} bo_cuda_rows;

typedef struct bo_cuda_attention {
    bo_cuda_type type; /* of q, k, v, out, log_gate, beta, and of their gradients */
    int heads, key_heads, dim, value_dim;
    bool causal; /* query t of a sequence sees its keys up to t; false in cross attention */
    bool cross;  /* cross attention: keys are rows of another stream, or only in states */
    /* Cross attention of an attention that is causal: all keys are read into a state first, and every query uses that
     * state, like a query without a key after the last token. */
    bool reads_first;
    float scale;
    bo_cuda_rows queries, keys; /* the same rows unless the call is cross attention */
    const void *q, *k, *v;      /* k, v NULL: only the states are read */
    void *out;
    const void *log_gate, *beta; /* rows of keys x key_heads (GLA: key_heads dim); NULL: none */
    /* Parameters, always float32: shapes as in bo_attention_inputs; NULL: the default stated there. log_decay is never
     * NULL with gate FIXED. */
    const float *sigma, *m, *mix, *log_decay, *lambda, *m_k, *bias, *bias_k;
    /* states[s] is the state of sequence s (an address of the device), with the bytes of bo_attention_state: read before
     * the first token and updated after the last if there are keys, else only read. The header (bo_cuda_header) holds
     * the number of tokens before this call: attention.c adds those of the call after forward. NULL: no states. */
    void *const *states;
    size_t sums_bytes, kept_bytes; /* of one key head in a state: src/attention/internal.h */
    void *saved, *scratch;         /* saved NULL: no backward follows */
    /* backward */
    const void *dout;
    void *dq, *dk, *dv, *dlog_gate, *dbeta; /* overwritten; NULL: not needed */
    float *dsigma, *dm, *dmix, *dlog_decay, *dlambda, *dm_k, *dbias, *dbias_k;
} bo_cuda_attention;

/* The start of a state; then follow, for each key head, sums_bytes and kept_bytes. */
typedef struct bo_cuda_header {
    uint32_t magic, version;
    uint64_t fingerprint, tokens;
    uint64_t reserved[5];
} bo_cuda_header;

/* states_clear: makes every state empty. states_count: adds the tokens of each sequence to the header of its state. */
typedef struct bo_cuda_states {
    void *const *states;
    bo_cuda_rows keys;
    bo_cuda_header header; /* of an empty state */
    int key_heads;
    size_t sums_bytes, kept_bytes;
    bool scaled; /* sums begin with a log scale, which is -INFINITY in an empty state */
} bo_cuda_states;

/* to[0] … to[count - 1] = values: for few numbers that are known at the time of the launch. */
enum { BO_CUDA_CONSTANTS = 64 };
typedef struct bo_cuda_constants {
    float values[BO_CUDA_CONSTANTS];
    int count;
    float *to;
} bo_cuda_constants;

#define BO_CUDA_LAUNCHES_ATTENTION(X)                                                                                  \
    X(states_clear, bo_cuda_states)                                                                                    \
    X(states_count, bo_cuda_states)                                                                                    \
    X(constants, bo_cuda_constants)

#endif
