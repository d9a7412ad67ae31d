/* Arguments shared by all attention launches: the sequences, arrays and states of one call. Rows are tokens; a row of q
 * and out has `heads` heads, a row of k and v `key_heads`, at the addresses given by `strides`. Query head h uses key
 * head h / (heads / key_heads). */
#ifndef BO_DEVICE_GPU_ATTENTION_H
#define BO_DEVICE_GPU_ATTENTION_H

#include <bochner/kinds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sequence s has the rows starts[s] … starts[s + 1] - 1; if starts is NULL, s tokens … (s + 1) tokens - 1. A kernel
 * with one block per tile of C rows launches rows / C + sequences blocks: the blocks of sequence s start at
 * first_row(s) / C + s, and blocks after its last tile return. */
typedef struct bo_gpu_rows {
    const int32_t *starts; /* on the device; may change between replays of a recording */
    int32_t tokens;
    int32_t sequences;
    size_t rows; /* of all sequences */
} bo_gpu_rows;

/* The layout of an array: a head of a row has `width` consecutive elements from element row * .row + head * .head +
 * sequence * .sequence on. Row indices count all sequences, so arrays with tokens first have .sequence 0; arrays with
 * heads first (sequences, heads, tokens, width) have .row width, .head tokens * width and .sequence (heads - 1) *
 * tokens * width. With `starts`, .sequence is 0. */
typedef struct bo_gpu_strides {
    size_t row, head;
    ptrdiff_t sequence;
} bo_gpu_strides;

/* The strides of a contiguous array (rows, heads, width). */
static inline bo_gpu_strides bo_gpu_tokens_first(int heads, int width)
{
    const bo_gpu_strides by = {(size_t)heads * (size_t)width, (size_t)width, 0};
    return by;
}

/* True if every head and row starts at a multiple of 8 elements (16 bytes of bfloat16), as kernels with 16-byte copies
 * require. */
static inline bool bo_gpu_by_eight(bo_gpu_strides by)
{
    return by.row % 8 == 0 && by.head % 8 == 0 && by.sequence % 8 == 0;
}

/* The strides of the arrays with a row per token. */
typedef struct bo_gpu_attention_strides {
    bo_gpu_strides q, k, v, out, log_gate, beta;
    bo_gpu_strides dout, dq, dk, dv, dlog_gate, dbeta;
} bo_gpu_attention_strides;

/* The arrays of a call that are not in bo_attention_given, as bits of `given` and `requested`. */
enum { BO_GPU_ARRAY_Q = 1 << 16, BO_GPU_ARRAY_K = 1 << 17, BO_GPU_ARRAY_V = 1 << 18 };

typedef struct bo_gpu_attention {
    bo_element type; /* of q, k, v, out, log_gate, beta, and of their gradients */
    int heads, key_heads, dim, value_dim;
    bool causal; /* query t of a sequence sees its keys up to t; false in cross attention */
    bool cross;  /* cross attention: keys are rows of another stream, or only in states */
    /* Cross attention of an attention that is causal: all keys are read into a state first, and every query uses that
     * state, like a query without a key after the last token. */
    bool reads_first;
    float scale;
    int processors;      /* of the GPU */
    size_t shared_bytes; /* maximum shared memory per block */
    /* The arrays of the call and the requested gradients; whether a backward pass follows (keeps); whether sequences
     * continue from states (continues). Set before sizes are computed, when addresses are not known yet. */
    unsigned given, requested;
    bool keeps, continues;
    /* Strides and alignment are also set before sizes are computed. unaligned: the address of an array is not a
     * multiple of 16 bytes. Tensor-core kernels require that q, k, v, out and their gradients start at multiples of 16
     * bytes in every row and head. */
    bo_gpu_attention_strides strides;
    bool unaligned;
    bo_gpu_rows queries, keys; /* the same rows unless the call is cross attention */
    const void *q, *k, *v;     /* k, v NULL: only the states are read */
    void *out;
    const void *log_gate, *beta; /* one value per row of keys and key head (GLA: dim values), or NULL */
    /* Parameters, always float32: shapes and defaults (for NULL) as in bo_attention_inputs. log_decay is never NULL
     * with gate FIXED. */
    const float *sigma, *m, *mix, *log_decay, *lambda, *m_k, *bias, *bias_k;
    /* states[s] is the device address of the state of sequence s, in the format of bo_attention_state. It is read
     * before the first token and, if there are keys, updated after the last one. The header stores the number of tokens
     * before this call; states_count adds the tokens of the call after forward. NULL: no states. */
    void *const *states;
    size_t sums_bytes, kept_bytes; /* of one key head in a state: src/attention/internal.h */
    void *saved, *scratch;         /* saved NULL: no backward follows */
    /* backward */
    const void *dout;
    void *dq, *dk, *dv, *dlog_gate, *dbeta; /* overwritten; NULL: not needed */
    float *dsigma, *dm, *dmix, *dlog_decay, *dlambda, *dm_k, *dbias, *dbias_k;
} bo_gpu_attention;

/* True if kernels for tensor cores may read and write the arrays of a call. */
static inline bool bo_gpu_attention_is_aligned(const bo_gpu_attention *call)
{
    const bo_gpu_attention_strides *by = &call->strides;
    return !call->unaligned && bo_gpu_by_eight(by->q) && bo_gpu_by_eight(by->k) && bo_gpu_by_eight(by->v) &&
           bo_gpu_by_eight(by->out);
}

/* The header of a state. For each key head, sums_bytes and kept_bytes follow. */
typedef struct bo_state_header {
    uint32_t magic, version;
    uint64_t fingerprint, tokens;
    uint64_t reserved[5];
} bo_state_header;

/* states_clear: resets every state to empty. states_count: adds the tokens of each sequence to the header of its state.
 */
typedef struct bo_gpu_states {
    void *const *states;
    bo_gpu_rows keys;
    bo_state_header header; /* of an empty state */
    int key_heads;
    size_t sums_bytes, kept_bytes;
    bool scaled; /* sums start with a log scale, which is -INFINITY in an empty state */
} bo_gpu_states;

/* to[0] … to[count - 1] = values: for a few values that are known at launch time. */
enum { BO_GPU_CONSTANTS = 64 };
typedef struct bo_gpu_constants {
    float values[BO_GPU_CONSTANTS];
    int count;
    float *to;
} bo_gpu_constants;

/* A variant for addresses. */
enum { BO_GPU_ADDRESSES = 128 };
typedef struct bo_gpu_addresses {
    void *values[BO_GPU_ADDRESSES];
    int count;
    void **to;
} bo_gpu_addresses;

#define BO_GPU_LAUNCHES_ATTENTION(X)                                                                                   \
    X(states_clear, bo_gpu_states)                                                                                     \
    X(states_count, bo_gpu_states)                                                                                     \
    X(constants, bo_gpu_constants)                                                                                     \
    X(addresses, bo_gpu_addresses)

#endif
