/* The attention module: a checked call, its geometry, and the engines that compute one (sequence, key head) of it.
 *
 * kinds.c       the table of kinds, presets         attention.c  create, destroy, redraw; maps and states from files
 * describe.c    descriptors and defaults            parameters.c the table of parameters
 * estimate.c    shape to sequences; chunk, memory   inputs.c     checks of arrays and states, causes of NaN
 * calls.c       forward, backward, extend, step: check, run the tasks
 * work.c        work memory                         state.c      the bytes of a state
 * progress.c    progress and cancellation           row_transform.c  transforms of q and k before φ
 * stream.c      keys in the order in which the sums absorb them
 * linear.c …    attention with features: linear_chunk.c a chunk, linear.c a sequence and a step, linear_waves.c few
 *               heads on many threads; linear_chunk_backward.c, linear_backward.c, linear_waves_backward.c: gradients
 * softmax.c     tiles over explicit keys (kv_cache.c: their storage); exact.c the engine of softmax attention,
 *               exact_waves.c few heads on many threads
 * hybrid.c      both, with one denominator
 * gla.c …, delta.c …, ridge.c …: engines with a matrix memory; segments.c: code that they share with linear.c
 * reference.c … a second implementation in float64, pair by pair or step by step: reference.h
 * gate.c, calibration.c, proposals.c, dark.c, measure.c, advise.c …: parameters from data, and measured accuracy
 *
 * Log scales. Features are φ(x) = exp(ℓ) z with z of moderate size (features/block.h). A running log scale R_t bounds
 * what the state has absorbed: R_t = max(R_{t-1} + log g_t, ℓ_t + log input weight); S and z are stored relative to
 * exp(R_t). */
#ifndef BO_ATTENTION_INTERNAL_H
#define BO_ATTENTION_INTERNAL_H

#include <stdatomic.h>
#include "../base/base.h"
#include "../features/block.h"
#include "../device/copies.h"
#include "../device/cpu/kernels.h"
#include "../device/gpu/attention.h"
#include "../device/gpu/maps.h"
#include "attention.h"
#include "progress.h"

typedef struct bo_engine bo_engine;

/* Invariants: desc is resolved (no zero that means a default); features has key_heads entries, all equal with one_draw,
 * and is NULL for kinds without features; sizes in bytes are multiples of 64. */
struct bo_attention {
    bo_attention_desc desc;
    const bo_kernels *kernels; /* of the context that created it … */
    bo_precision precision;    /* … and its precision of products; FLOAT32 if the engine has no other */
    const bo_engine *engine;
    unsigned traits;          /* bits of bo_attention_trait: kinds.h */
    size_t group;             /* query heads per key head */
    bo_features **features;   /* one per key head */
    size_t count;             /* length of φ; 0 for kinds without features */
    bool scaled;              /* φ has log scales */
    uint64_t draw;            /* draw number of bo_attention_redraw */
    uint64_t fingerprint;     /* hash of descriptor and frequencies; states contain it */
    float *decay;             /* gate FIXED: the default log g of each key head; else NULL */
    bool ready;               /* calibrated, or needs no calibration */
    size_t cached_keys;       /* key slots of a state: 0, the window, or the capacity */
    size_t cached_gates;      /* log gate slots of a state: 0, or cached_keys */
    size_t sums_bytes;        /* bytes of one key head in a state: the sums or the memory of the engine */
    size_t kept_bytes;        /* bytes of the cached keys, values and gates, which follow the sums */
    bo_device_copies *copies; /* of the maps on GPUs */
};

bo_row_transform_type bo_row_transform_type_of(const bo_attention_desc *desc);

/* Returns the default log g of a key head with gate FIXED. */
double bo_default_decay(size_t key_head);
/* Returns log g of a key head with gate FIXED: the given value, or the default. */
static inline const float *bo_fixed_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head)
{
    return (in->log_decay ? in->log_decay : attention->decay) + key_head;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* A state is a bo_state_header (device/gpu/attention.h), then for each key head sums_bytes of bo_sums and kept_bytes of
 * cached keys (kv_cache.h). */

/* The header of an empty state. */
bo_state_header bo_state_header_of(const bo_attention *attention);

/* S and z of one key head, relative to exp(log_scale). Layout: log_scale and 15 zeros, z padded to a multiple of 16
 * floats, then S. */
typedef struct bo_sums {
    float *log_scale; /* -INFINITY if no key has been absorbed; 0 if φ has no log scales */
    float *z;         /* features */
    float *s;         /* features x value_dim */
} bo_sums;
/* Returns the bytes of the sums of one key head. */
size_t bo_sums_bytes(size_t features, size_t value_dim);
bo_sums bo_sums_in(const bo_attention *attention, char *bytes);
bo_sums bo_state_sums(const bo_attention *attention, void *state, size_t key_head);
/* Checks what every call requires: the header and the log scales. bo_attention_state_check also checks all values. */
bo_status bo_state_check(bo_context *context, const bo_attention *attention, const void *state);
/* Same as bo_attention_state_check, but does not read empty slots. */
bo_status bo_state_check_stored(bo_context *context, const bo_attention *attention, const void *state);
void *bo_state_cache(const bo_attention *attention, void *state, size_t key_head);
/* Returns the memory of engines that do not use bo_sums: floats, aligned like the state. It starts with the matrix of
 * dim x value_dim (S or G), padded to a multiple of 16 floats; for RIDGE, H (dim x dim) follows, padded likewise. */
float *bo_state_memory(const bo_attention *attention, void *state, size_t key_head);
void bo_state_add_tokens(void *state, uint64_t tokens);
/* Returns the start of the gradient of a key head's sums in the gradient of a state: features rows of value_dim + 1. */
float *bo_sums_gradient(const bo_attention *attention, const float *gradient, size_t key_head);
/* The same for engines that do not use bo_sums. */
float *bo_memory_gradient(const bo_attention *attention, const float *gradient, size_t key_head);

/* ---- a checked call ---------------------------------------------------------------------------------------------- */

typedef struct bo_sequence {
    size_t queries, keys;          /* tokens */
    size_t query_start, key_start; /* tokens before this sequence in the arrays */
    size_t tape_start;             /* states on the tape before those of this sequence */
} bo_sequence;

/* Rows of one head of one sequence: row t starts at `at + t * stride`. */
typedef struct bo_rows {
    float *at; /* NULL if the array is NULL */
    size_t stride;
} bo_rows;

/* Returns the rows starting at `first`. */
static inline bo_rows bo_rows_from(bo_rows rows, size_t first)
{
    return (bo_rows){rows.at ? rows.at + first * rows.stride : NULL, rows.stride};
}

/* Tape entries per query token and head (head * queries_total + query_start + token): the denominator is exp(top)
 * |sum|. sum < 0: the denominator was clamped or does not exist, and no gradient flows through it. sum = INFINITY: the
 * output is 0 for all inputs. */
enum { BO_STAMP = 8 };
typedef struct bo_tape {
    uint64_t *stamp; /* BO_STAMP words that identify the tape: they depend on attention, draw and shape */
    float *top, *sum;
    char *states; /* engine->tape_states of each sequence for each key head, sums_bytes each */
} bo_tape;

/* One call of forward or backward after all checks. Tasks read it; each task writes only its part of the outputs. */
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
    float *out;   /* written by forward, read by backward */
    bo_tape tape; /* top == NULL: no tape is requested */
    /* for backward */
    const float *dout;
    const float *const *d_final;
    const bo_attention_gradients *gradients;
    bo_work *work;           /* workspace; NULL: allocated */
    bo_pass_progress *watch; /* counts rows of queries and keys once per key head; or NULL */
    /* A call in float64 (reference.h): the arrays of in, dout and gradients hold doubles, and their pointers are cast.
     * Only the checks of inputs.c and parameters.c, which read elements with bo_number_at, accept such a call. */
    bool f64;
    atomic_bool *not_finite; /* set if a task found a NaN or infinity in the inputs, or after an overflow */
} bo_call;

/* Returns element i of an array of a call. */
static inline double bo_number_at(const void *array, bool f64, size_t i)
{
    return f64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

/* Returns the index of the first element of (sequence, head) in an array of `heads` heads of width `width`, and the row
 * stride. keys: the array has one row per key, else one per query. */
size_t bo_row_index(const bo_call *call, size_t heads, size_t width, bool keys, size_t sequence, size_t head,
                    size_t *stride);
/* Returns the rows of (sequence, head) in an array of `heads` heads of `width` floats. keys: the array has one row per
 * key, else one per query. Gates and β have width 1 (GLA: dim). */
bo_rows bo_rows_at(const bo_call *call, const float *array, size_t heads, size_t width, bool keys, size_t sequence,
                   size_t head);

/* ---- engines ----------------------------------------------------------------------------------------------------- */

/* Operations per token and head of a forward pass, counted independently of the chunk (within a chunk: as for 64
 * tokens, half of each square). Grouped queries are counted as if each head had separate keys. */
enum { BO_WITHIN_CHUNK = 65 };
typedef struct bo_token_operations {
    double query, key; /* per query, per key */
    double sequence;   /* once per sequence */
} bo_token_operations;

/* An engine computes one key head (with its group of query heads) of one sequence, on the calling thread, in scratch
 * memory of `*_bytes` bytes that is aligned to 64 and not initialized. A task never allocates and never fails: it sets
 * not_finite. */
struct bo_engine {
    /* Fills the plan's tiles and the bytes of scratch memory per worker; longest: queries and keys of the longest
     * sequence. */
    void (*plan)(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *plan);
    void (*forward)(const bo_call *call, size_t sequence, size_t key_head,
                    void *scratch); /* plan.forward_bytes per worker */
    /* Adds to `parameters`, the gradients of this task, which are zero at the start; parameters.h defines the
     * layout. */
    void (*backward)(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);
    /* The forward pass with all threads on every (sequence, key head), with bit-identical results; whether it is
     * faster, which is the case for fewer pairs than threads; and its total bytes. NULL: not supported, so that threads
     * stay idle. */
    bo_status (*together)(bo_context *context, bo_call *call);
    bool (*together_pays)(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
    size_t (*together_bytes)(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
    /* The same for backward, which is faster under the same conditions. parameters: one array per pair, initially zero.
     * Sets *too_large if a gradient is NaN or infinite. NULL: not supported. */
    bo_status (*backward_together)(bo_context *context, bo_call *call, float *parameters, atomic_bool *too_large);
    size_t (*backward_together_bytes)(const bo_attention *attention, const bo_attention_cost *plan, size_t threads);
    /* Returns the number of states on the tape for one key head of a sequence. NULL: none. */
    size_t (*tape_states)(const bo_attention *attention, const bo_attention_cost *plan, size_t queries, size_t keys);
    /* For engines whose memory is not bo_sums: floats of one key head in a state (zeros are the empty state), and
     * floats of their gradient. NULL: bo_sums, or no memory. */
    size_t (*memory)(const bo_attention *attention);
    size_t (*memory_gradient)(const bo_attention *attention);
    /* Floats of the second array of this memory, which bo_attention_state_get returns as z. NULL: none. */
    size_t (*memory_second)(const bo_attention *attention);
    /* NULL: only explicit keys, which are counted per pair. */
    bo_token_operations (*operations)(const bo_attention *attention);
    /* Number of passes of backward over the queries; 0: one. */
    size_t backward_passes;
    bool rounds; /* it can compute products in bfloat16 */
    /* Finds the cause of a float32 overflow with finite inputs and returns it as an error. BO_OK: no cause was found.
     * May be NULL. */
    bo_status (*explain_overflow)(bo_context *context, const bo_call *call);
    /* Computes one token for `count` sequences of one key head, starting at sequence `first`; inputs as in
     * bo_attention_step. */
    size_t (*step_bytes)(const bo_attention *attention, size_t count);
    void (*step)(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch);
};
extern const bo_engine bo_engine_exact, bo_engine_linear, bo_engine_hybrid, bo_engine_gla, bo_engine_delta,
    bo_engine_ridge;

/* Returns state `index` of (sequence, key head) on the tape. */
bo_sums bo_tape_sums(const bo_call *call, size_t sequence, size_t key_head, size_t index);
float *bo_tape_memory(const bo_call *call, size_t sequence, size_t key_head, size_t index);

/* If a gradient divided by the denominator exceeds this limit, later products may overflow, so no gradient flows from
 * the row. */
#define BO_MAX_GRADIENT 1e36f

/* Marks a task that ended early: the call was canceled, or a value was NaN or infinite. */
static inline void bo_note_stop(const bo_call *call)
{
    if (!call->watch || !atomic_load(&call->watch->stopped)) atomic_store(call->not_finite, true);
}

/* Message for a NaN or infinity: array, value, sequence, head, token, column. */
#define BO_NOT_FINITE_AT "attention: %s is %g at sequence %zu, head %zu, token %zu, column %zu"
#define BO_NOT_FINITE    BO_NOT_FINITE_AT "; expected a finite number"

/* Prefetches rows first … end - 1 while other rows are computed. Does nothing if there are no rows. */
void bo_rows_fetch(bo_rows rows, size_t first, size_t end, size_t width);
/* True if every float of these rows is finite. */
bool bo_rows_finite(const bo_kernels *kernels, size_t rows, size_t width, const float *x, size_t stride);

/* Checks the descriptor and fills in the defaults; only its features are resolved later, by bo_features_create. */
bo_status bo_attention_resolve(bo_context *context, const bo_attention_desc *desc, bo_attention_desc *out);
/* Returns the seed of a key head's frequencies in one draw; draw 0 of head 0 uses the descriptor's seed. */
uint64_t bo_attention_seed(const bo_attention *attention, size_t key_head, uint64_t draw);
/* Call it after the frequencies change: states created before are then refused. */
void bo_attention_refresh(bo_attention *attention);
/* Sequences per task of step. */
enum { BO_STEP_BLOCK = BO_SIZE(16, 2) };

#endif
