/* The attention room: a checked call, its geometry, and the engines that compute one (sequence, key head) of it.
 *
 * kinds.c       the table of kinds, presets         attention.c  create, destroy, redraw; maps and states from elsewhere
 * describe.c    descriptor and defaults             parameters.c the table of parameters
 * plan.c        shape to sequences; chunk, memory   inputs.c     what arrays and states must be, and whom to blame
 * calls.c       forward, backward, extend, step: check, run the tasks
 * work.c        room for scratch                    state.c      the bytes of a state
 * progress.c    progress, and an end on request
 *
 * row_transform.c what happens to q and k before φ  stream.c     keys as the sums take them in
 * linear.c …    attention with features: linear_chunk.c a chunk, linear.c a sequence and a step, linear_backward.c back
 * softmax.c     tiles over explicit keys (kv_cache.c: where they lie); exact.c the engine of it
 * hybrid.c      both, with one denominator
 * gla.c …, delta.c …, ridge.c …: the memories; segments.c: what they share with linear.c
 * gate.c, calibration.c, proposals.c, dark.c, measure.c, advise.c …: attention.h's sections on parameters from data and on
 *               honesty
 *
 * Log scales. Features come as φ(x) = exp(ℓ) z with z of moderate size (features/block.h). A running log scale R_t
 * bounds what the state has absorbed: R_t = max(R_{t-1} + log g_t, ℓ_t + log input weight); S, z are stored relative
 * to exp(R_t). */
#ifndef BO_ATTENTION_INTERNAL_H
#define BO_ATTENTION_INTERNAL_H

#include <stdatomic.h>
#include "../base/base.h"
#include "../features/block.h"
#include "../kernels/kernels.h"
#include "attention.h"
#include "progress.h"

typedef struct bo_engine bo_engine;

/* Invariants: desc is resolved (no zero that means a default); features has key_heads entries, all equal with one_draw,
 * and is NULL for kinds without features; sizes in bytes are multiples of 64. */
struct bo_attention {
    bo_attention_desc desc;
    const bo_kernels *kernels; /* of the context it was made with */
    const bo_engine *engine;
    unsigned traits;        /* bits of bo_attention_trait: kinds.h */
    size_t group;           /* query heads a key head */
    bo_features **features; /* one per key head */
    size_t count;           /* length of φ; 0 for kinds without features */
    bool scaled;            /* φ has log scales */
    uint64_t draw;          /* bo_attention_redraw's */
    uint64_t fingerprint;   /* of descriptor and frequencies: a state carries it */
    float *decay;           /* gate FIXED: the usual log g of each key head; else NULL */
    bool ready;             /* calibrated, or in no need of it */
    size_t held;            /* keys a state holds: 0, the window, or the capacity */
    size_t sums_bytes;      /* of one key head in a state: the sums, or the engine's own memory … */
    size_t kept_bytes;      /* … and after them the kept keys and values */
};

/* log g of a key head with gate FIXED: what is given, or the usual. */
static inline const float *bo_fixed_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head)
{
    return (in->log_decay ? in->log_decay : attention->decay) + key_head;
}

/* ---- states ---------------------------------------------------------------------------------------------------- */

/* A state: this header, then for each key head sums_bytes of bo_sums and kept_bytes of kept keys (kv_cache.h). */
typedef struct bo_state_header {
    uint32_t magic, version;
    uint64_t fingerprint, tokens;
    uint64_t reserved[5];
} bo_state_header;

/* S and z of one key head, relative to exp(log_scale). The bytes: log_scale and 15 zeros, z padded to a multiple of 16
 * floats, then S. */
typedef struct bo_sums {
    float *log_scale; /* -INFINITY when nothing has been absorbed and φ has log scales; 0 always when it has none */
    float *z;         /* features */
    float *s;         /* features x value_dim */
} bo_sums;
/* Bytes of the sums of one key head. */
size_t bo_sums_bytes(size_t features, size_t value_dim);
bo_sums bo_sums_in(const bo_attention *attention, char *bytes);
bo_sums bo_state_sums(const bo_attention *attention, void *state, size_t key_head);
void *bo_state_kept(const bo_attention *attention, void *state, size_t key_head);
/* The memory of engines that have one of their own: floats, aligned as the state is. First comes the matrix of dim x
 * value_dim (S or G), padded to a multiple of 16 floats, and for RIDGE then H (dim x dim), padded alike. */
float *bo_state_memory(const bo_attention *attention, void *state, size_t key_head);
void bo_state_add_tokens(void *state, uint64_t tokens);
/* Where the gradient of a key head's sums begins in the gradient of a state: features rows of value_dim + 1. */
float *bo_sums_gradient(const bo_attention *attention, const float *gradient, size_t key_head);
/* The same for engines with a memory of their own. */
float *bo_memory_gradient(const bo_attention *attention, const float *gradient, size_t key_head);

/* ---- a checked call -------------------------------------------------------------------------------------------- */

typedef struct bo_sequence {
    size_t queries, keys;          /* tokens */
    size_t query_start, key_start; /* tokens before this sequence in the arrays */
    size_t tape_start;             /* states on the tape before those of this sequence */
} bo_sequence;

/* Rows of one head of one sequence: row t begins at `at + t * stride`. */
typedef struct bo_rows {
    float *at; /* NULL where the array is */
    size_t stride;
} bo_rows;

/* The rows from `first` on. */
static inline bo_rows bo_rows_from(bo_rows rows, size_t first)
{
    return (bo_rows){rows.at ? rows.at + first * rows.stride : NULL, rows.stride};
}

/* Per query token and head (head * queries_total + query_start + token): the denominator is exp(top) |sum|. sum < 0: it
 * was clamped (or there is none), no gradient flows through it; sum = INFINITY: the output is 0 whatever the inputs. */
enum { BO_STAMP = 8 };
typedef struct bo_tape {
    uint64_t *stamp; /* BO_STAMP words that tell this tape from others: of attention, draw and shape */
    float *top, *sum;
    char *states; /* engine->tape_states of each sequence for each key head, sums_bytes each */
} bo_tape;

/* One call of forward or backward after every check. Tasks read it; what they write is theirs alone. */
typedef struct bo_call {
    const bo_attention *attention;
    const bo_kernels *kernels;
    const bo_attention_shape *shape;
    const bo_attention_inputs *in;
    const bo_sequence *sequences;
    size_t queries_total, keys_total;
    bo_attention_cost plan;
    const void *const *initial;
    void *const *final;
    float *out;   /* forward writes it, backward reads it */
    bo_tape tape; /* top == NULL: none wanted */
    /* backward */
    const float *dout;
    const float *const *d_final;
    const bo_attention_gradients *gradients;
    bo_work *work;           /* room for scratch; NULL: it is allocated */
    bo_pass_progress *watch; /* counts rows of queries and keys, once a key head; NULL: none */
    atomic_bool *not_finite; /* some task met a NaN or an infinity among the inputs, or numbers that grew to one */
} bo_call;

/* Where the rows of (sequence, head) are in an array of `heads` heads of `width` floats; `keys`: it has one row a
 * key, else one per query. Gates have width 1 (GLA: dim), β too. */
bo_rows bo_rows_at(const bo_call *call, const float *array, size_t heads, size_t width, bool keys, size_t sequence,
                   size_t head);

/* ---- engines --------------------------------------------------------------------------------------------------- */

/* Operations for each token and head of a forward pass, by counts that do not depend on the chunk (within a chunk: as if of
 * 64 tokens, half of each square). Grouped queries count as if each head had keys of its own. */
enum { BO_WITHIN_CHUNK = 65 };
typedef struct bo_token_operations {
    double query, key; /* of a query, of a key */
} bo_token_operations;

/* What computes one key head (with its group of query heads) of one sequence, on the calling thread, in scratch of
 * `*_bytes` bytes aligned to 64 whose contents are undefined. A task never allocates and never fails: it sets
 * not_finite. */
struct bo_engine {
    /* Fills the plan's tiles and bytes of scratch a worker needs; longest: the longest sequence's queries and keys. */
    void (*plan)(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *plan);
    void (*forward)(const bo_call *call, size_t sequence, size_t key_head,
                    void *scratch); /* plan.forward_bytes each worker */
    /* Adds to `parameters`: this task's own zeroed gradients, laid out as parameters.h says. */
    void (*backward)(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);
    /* The forward pass of a call with fewer (sequence, key head) pairs than threads, with the same bits, and the bytes it
     * takes in all; worth it from this many threads on. NULL: threads stay idle. */
    bo_status (*together)(bo_context *context, bo_call *call);
    size_t (*together_threads)(size_t tasks);
    size_t (*together_bytes)(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
    /* States that the tape keeps for one key head of a sequence. NULL: none. */
    size_t (*tape_states)(const bo_attention *attention, const bo_attention_cost *plan, size_t queries, size_t keys);
    /* Engines whose memory is not bo_sums: floats of one key head in a state (all zeros is the state of nothing), and of
     * their gradient. NULL: bo_sums, or nothing. */
    size_t (*memory)(const bo_attention *attention);
    size_t (*memory_gradient)(const bo_attention *attention);
    /* Of that memory: floats of the second array that bo_attention_state_get gives (z). NULL: there is none. */
    size_t (*memory_second)(const bo_attention *attention);
    /* NULL: only explicit keys, which are counted by pairs. */
    bo_token_operations (*operations)(const bo_attention *attention);
    /* Times that backward passes over the queries; 0: once. */
    size_t backward_passes;
    /* Says why finite inputs may have led beyond float32, and returns that error; BO_OK: it knows no reason. NULL: none. */
    bo_status (*blame)(bo_context *context, const bo_call *call);
    /* One token for `count` sequences of one key head: inputs as bo_attention_step has them, starting at sequence
     * `first`. */
    size_t (*step_bytes)(const bo_attention *attention, size_t count);
    void (*step)(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch);
};
extern const bo_engine bo_engine_exact, bo_engine_linear, bo_engine_hybrid, bo_engine_gla, bo_engine_delta,
    bo_engine_ridge;

/* Where the tape keeps state `index` of (sequence, key head). */
bo_sums bo_tape_sums(const bo_call *call, size_t sequence, size_t key_head, size_t index);
float *bo_tape_memory(const bo_call *call, size_t sequence, size_t key_head, size_t index);

/* Beyond this what a gradient over the denominator is multiplied with may leave float: none flows from such a row. */
#define BO_MOST_SLOPE 1e36f

/* A task gives up: because it was told to, or else because it met what is not finite. */
static inline void bo_note_stop(const bo_call *call)
{
    if (!call->watch || !atomic_load(&call->watch->stopped)) atomic_store(call->not_finite, true);
}

/* What is said of a number that is not finite: array, number, sequence, head, token, column. */
#define BO_NOT_FINITE_AT "attention: %s is %g at sequence %zu, head %zu, token %zu, column %zu"
#define BO_NOT_FINITE    BO_NOT_FINITE_AT "; expected a finite number"

/* Asks for rows first … end - 1 while others are computed: they would otherwise be waited for one by one. Nothing where
 * there are none. */
void bo_rows_fetch(bo_rows rows, size_t first, size_t end, size_t width);
/* Every float of these rows is finite. */
bool bo_rows_finite(const bo_kernels *kernels, size_t rows, size_t width, const float *x, size_t stride);

/* The descriptor checked and filled in; only its features are resolved later, by bo_features_create. */
bo_status bo_attention_resolve(bo_context *context, const bo_attention_desc *desc, bo_attention_desc *out);
/* The seed of a key head's frequencies in one draw; draw 0 of head 0 has the descriptor's own. */
uint64_t bo_attention_seed(const bo_attention *attention, size_t key_head, uint64_t draw);
/* After the frequencies changed: states made before no longer fit. */
void bo_attention_refresh(bo_attention *attention);
/* Sequences that one task of step takes together. */
enum { BO_STEP_BLOCK = BO_SIZE(16, 2) };

#endif
