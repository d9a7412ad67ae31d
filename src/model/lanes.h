/* Internals of lanes: sequences of one model that are read with states, and the sources that a translator's lanes
 * attend to. This is the only code that reads with states. A session is one lane (session.h). */
#ifndef BO_MODEL_LANES_H
#define BO_MODEL_LANES_H

#include <bochner/tasks.h>
#include "../io/tensors.h"
#include "../text/packs.h"
#include "capacity.h"

/* ---- lanes as their users see them ------------------------------------------------------------------------------- */

/** Sequences of one model that read one token each per step, for language models and decoders.
 *
 * The size of the state of a lane is known in advance. The weights of the model must not change while it has lanes.
 */
typedef struct bo_lanes bo_lanes;

/** The settings of lanes. `count` has no default. */
typedef struct bo_lanes_desc {
    size_t count;    /**< number of lanes */
    size_t capacity; /**< maximum tokens per lane if attention keeps every key (default: the context of the model) */
    /** TRANSLATE: maximum tokens per source if attention keeps every key (default: the context of the model). */
    size_t source;
    uint64_t reserved[4]; /**< must be zero */
} bo_lanes_desc;

/** Creates lanes.
 *
 * @param context    the context
 * @param model      the model; must outlive the lanes
 * @param desc       the lanes
 * @param[out] out   the lanes; release them with bo_lanes_destroy()
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out);

/** Destroys lanes.
 *
 * @param lanes   the object, or NULL
 */
void bo_lanes_destroy(bo_lanes *lanes);

/** Returns the memory of one lane, including the state of its source, shared by the lanes of a source.
 *
 * @param lanes   the lanes
 * @return the number of bytes
 */
size_t bo_lanes_state_bytes(const bo_lanes *lanes);

/** Resets all lanes to an empty sequence. Keeps their sources.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes);

/** TRANSLATE: reads sources and resets all lanes.
 *
 * Source i is assigned to lanes i n … (i + 1) n - 1, where n = lanes / count.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param sources         the sources; not needed after the call
 * @param count           the number of sources
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_read(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count);

/** Reads one token in each of the first lanes.
 *
 * If the call fails after it has started, the lanes must be reset.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes that read a token
 * @param ids             one token per active lane
 * @param[out] logits     active x vocab numbers for the next token; or NULL
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_step(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits);

/** Reads one token in each of the first lanes, and returns the most likely next ones.
 *
 * Logits stay on the device of the model, so that on a GPU this is faster than bo_lanes_step().
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes that read a token
 * @param ids             one token per active lane
 * @param[out] next       the token with the largest logit per active lane, the first of equal ones; may be `ids`
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_step_greedy(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, int32_t *next);

/** Resets one lane to an empty sequence. Keeps its source.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @return BO_OK; BO_INVALID if there is no such lane
 */
bo_status bo_lanes_restart(bo_context *context, bo_lanes *lanes, size_t lane);

/** Returns the number of tokens that a lane has read.
 *
 * @param lanes   the lanes
 * @param lane    the lane
 * @return the number of tokens; 0 if there is no such lane
 */
uint64_t bo_lanes_tokens(const bo_lanes *lanes, size_t lane);

/** LANGUAGE: reads a block of tokens in one lane, as bo_session_feed() does.
 *
 * If the call fails after it has started, the lane is empty. Other lanes do not change.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] logits     `vocab` numbers for the next token; or NULL
 * @return BO_OK; BO_INVALID if a token is not in the vocabulary or exceeds the capacity of the lane
 */
bo_status bo_lanes_feed(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                        float *logits);

/** LANGUAGE: reads a block of tokens in one lane and returns the logits after each of them, as bo_session_logits()
 * does.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] logits     count x vocab numbers
 * @return as bo_lanes_feed()
 */
bo_status bo_lanes_logits(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *logits);

/** LANGUAGE: reads a block of tokens in one lane and returns their last hidden states, as bo_session_hidden() does.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] hidden     count x width numbers
 * @return as bo_lanes_feed()
 */
bo_status bo_lanes_hidden(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *hidden);

/** LANGUAGE: writes the state of a lane to memory, in the format of bo_session_save(), without logits.
 *
 * @param context        the context
 * @param[in,out] lanes  the lanes; they do not change
 * @param lane           the lane
 * @param[out] bytes     the state; release it with bo_free()
 * @param[out] size      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_save_memory(bo_context *context, bo_lanes *lanes, size_t lane, void **bytes, size_t *size);

/** LANGUAGE: reads the state of a lane, or of a session, into a lane. If the call fails, the lane does not change.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param bytes           the state; not needed after the call
 * @param size            the number of bytes
 * @return as bo_session_load()
 */
bo_status bo_lanes_load_memory(bo_context *context, bo_lanes *lanes, size_t lane, const void *bytes, size_t size);

/** Rearranges lanes: lane i receives the state of lane from[i], for beam search and to close gaps when sequences end.
 *
 * Nothing is copied if no lane is used twice. The states of the lanes from `active` on are lost. If there is no
 * memory for a copy, its lane is empty.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes to keep
 * @param from            the former lane of each
 * @return BO_OK or an error (see base.h)
 */
bo_status bo_lanes_choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from);

/* ---- internals --------------------------------------------------------------------------------------------------- */

/* Maximum number of lanes; maximum and default number of tokens of a block. */
enum { BO_MAX_LANES = 1 << 16, BO_MAX_LANE_CHUNK = 1 << 16, BO_LANES_CHUNK = 256 };

/* What is computed from tokens: the logits after the last one of each lane, the losses of given next tokens, or the
 * logits or the last hidden state of every token. */
typedef enum bo_lanes_result {
    BO_LANES_LAST = 0,
    BO_LANES_LOSSES = 1,
    BO_LANES_ALL = 2,
    BO_LANES_HIDDEN = 3,
    BO_LANES_SOURCES = 4, /* the states of sources */
    BO_LANES_POOLED = 5   /* CLASSIFY, MATCH: the pooled vector of a text */
} bo_lanes_result;

/* A graph over a number of lanes that read the same number of tokens each; SOURCES: over `lanes` rows of queries and
 * `tokens` rows of sources; POOLED: over lanes that read `tokens` tokens together. Graphs are created when first
 * needed. */
typedef struct bo_lanes_graph {
    bo_lanes_result result;
    size_t lanes, tokens;
    bo_model_graph graph;
    struct bo_lanes_graph *next;
} bo_lanes_graph;

/* Blocks of states, all of equal size. Blocks, and the states within them, are aligned to 64 bytes. All sources share
 * one allocation. Each lane has a separate one. */
typedef struct bo_lane_blocks {
    char *memory;
    size_t count;    /* number of blocks with memory */
    size_t bytes;    /* bytes per block */
    size_t *offsets; /* offset of each layer's state in a block */
} bo_lane_blocks;

/* An empty lane may have no block (NULL). */
typedef struct bo_lane {
    char *block;
    uint64_t tokens; /* number of tokens read */
    size_t source;   /* index of its source */
} bo_lane;

/* Invariant: the states in the block of a lane have read its tokens. This does not hold if `broken`: a run was
 * interrupted, and the lanes must be restarted. */
struct bo_lanes {
    const bo_model *model;
    bo_lanes_desc desc; /* with defaults filled in */
    size_t chunk;       /* maximum tokens of a block */
    bool is_session;    /* messages say "session" */
    bo_sized_attentions attentions;
    bo_lane_blocks lane;
    /* states of cross attention, or a summary of `width` floats; includes blocks for filler */
    bo_lane_blocks source;
    bo_lane *all, *next; /* `count` entries each; `next` and `used` are scratch memory to rearrange lanes */
    bool *used;
    int32_t *scratch; /* one run: its positions */
    float *summaries; /* SUMMARY: count x width, for one run */
    void **table;     /* states for one run, in the order of its pass */
    bo_lanes_graph *graphs;
    uint64_t fingerprint, digest; /* of the model and its weights, if has_hashes (bo_lanes_hash) */
    bool has_hashes, has_sources, broken;
};

/* ---- lanes.c: memory, graphs, rearranging ------------------------------------------------------------------------ */

/* Steps and sources have graphs for numbers of rows with at most three significant bits. Up to 64 lanes then need at
 * most two runs per step, and few rows of an encoder are filler. */
size_t bo_lanes_size_below(size_t rows); /* the largest size ≤ rows */
size_t bo_lanes_size_above(size_t rows); /* the smallest size ≥ rows */
/* Tokens of one lane are read in blocks of `chunk` and of the numbers 2^i and 3 · 2^i below it, so that any number of
 * tokens needs few graphs and few blocks. Each block reads all weights. Returns the largest block of at most this
 * number of tokens. */
size_t bo_lanes_block_below(const bo_lanes *lanes, size_t tokens);

/* Creates lanes without checks of the limits of the descriptor and of the task. chunk 0: the default. */
bo_status bo_lanes_build(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t chunk,
                         bool is_session, bo_lanes **out);
/* Computes the bytes of the states of a full lane, including its share of a source that all lanes attend to. Allocates
 * no states. */
bo_status bo_lanes_measure(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t *bytes);
/* Computes the bytes of all graphs that compute this result in blocks of at most `chunk` tokens; chunk 0: in steps of
 * any number of the lanes. Allocates none. */
bo_status bo_lanes_workspace(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t chunk,
                             bo_lanes_result result, size_t *bytes);
/* Returns a graph, and creates it if necessary. */
bo_status bo_lanes_graph_for(bo_context *context, bo_lanes *lanes, bo_lanes_result result, size_t count, size_t tokens,
                             bo_model_graph **out);

/* Replaces the memory of blocks by memory for `count` blocks. */
bo_status bo_lanes_allocate(bo_context *context, const bo_lanes *lanes, size_t count, bo_lane_blocks *blocks);
/* Allocates the memory of a lane before it reads its first token. */
bo_status bo_lanes_reserve(bo_context *context, bo_lanes *lanes, size_t lane);
/* Frees the memory of a lane, which becomes empty. */
void bo_lanes_release(bo_lanes *lanes, size_t lane);
/* Makes the states of a lane as if it had read this number of tokens (bo_attention_state_repeat); it must have read
 * some. */
bo_status bo_lanes_repeat(bo_context *context, bo_lanes *lanes, size_t lane, uint64_t tokens);
/* Returns the states of lanes first … first + count - 1 for a pass of a graph; valid until the next call. */
void *const *bo_lanes_table(bo_lanes *lanes, size_t first, size_t count);
bo_device *bo_lanes_device(const bo_lanes *lanes);
size_t bo_lanes_layer_bytes(const bo_lanes *lanes, size_t layer);

/* ---- lane_reader.c: reading tokens ------------------------------------------------------------------------------- */

/* How errors call a lane: "lane 3", or "session". */
typedef struct bo_lane_name {
    char text[32];
} bo_lane_name;
bo_lane_name bo_lanes_name(const bo_lanes *lanes, size_t lane);

/* LANGUAGE: checks that there is such a lane and that the lanes are not broken. */
bo_status bo_lanes_check_lane(bo_context *context, const bo_lanes *lanes, size_t lane);

/* Tokens of one lane, and the memory of the result, one row per token; LAST: one row, or NULL. */
typedef struct bo_lane_reading {
    const int32_t *ids, *targets; /* targets for LOSSES only; negative: not scored */
    size_t count;
    bo_lanes_result result;
    float *out;
} bo_lane_reading;

/* Checks that the lanes are not broken, that the tokens fit into the capacity, and that they are valid ids. */
bo_status bo_lanes_check_reading(bo_context *context, const bo_lanes *lanes, size_t lane,
                                 const bo_lane_reading *reading);
/* A run of a graph: lanes first … first + lanes - 1 read `tokens` tokens each. */
typedef struct bo_lane_run {
    bo_lanes_result result;
    size_t first, lanes, tokens;
    const int32_t *ids, *targets;
    bool isolate; /* as in bo_graph_pass */
} bo_lane_run;

/* Runs the graph without checks, and creates it if necessary. The lanes must have blocks. */
bo_status bo_lanes_run(bo_context *context, bo_lanes *lanes, const bo_lane_run *run, bo_model_graph **out);

/* Reads tokens in one lane. Allocations come first. After a later failure the lanes are broken. */
bo_status bo_lanes_read_tokens(bo_context *context, bo_lanes *lanes, size_t lane, const bo_lane_reading *reading);
/* As bo_lanes_step(), but NaN or infinity in a lane makes only its own logits NaN (bo_graph_pass). */
bo_status bo_lanes_step_isolated(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids,
                                 float *logits);
/* The maximum number of tokens that a lane with this capacity can read. */
uint64_t bo_lanes_max_tokens(const bo_model *model, size_t capacity);
/* Fails with the limit and its reason if a lane cannot read this many more tokens. */
bo_status bo_lanes_check_fits(bo_context *context, const bo_lanes *lanes, size_t lane, size_t count);

/* ---- lane_files.c: saved states ---------------------------------------------------------------------------------- */

/* The state of a lane as a safetensors file, with the logits after the last token or (NULL) without. */
bo_status bo_lanes_write(bo_context *context, bo_lanes *lanes, size_t lane, const float *logits, bo_output *output);
/* Reads a state into a lane, and its logits into `logits` (`vocab` numbers, or NULL); has_logits: they are part of
 * the file. If the call fails, the lane does not change. */
bo_status bo_lanes_load(bo_context *context, bo_lanes *lanes, size_t lane, const bo_tensors *file, float *logits,
                        bool *has_logits);
/* Reads how many tokens a saved state has read. */
bo_status bo_lanes_peek(bo_context *context, const bo_tensors *file, uint64_t *tokens);
/* Computes the hashes that saved states contain: of a session each time, of lanes once, as their weights do not
 * change. */
bo_status bo_lanes_hash(bo_context *context, bo_lanes *lanes);
/* Checks that the model of the lanes created a saved state. states: also checks that bo_lanes_load_memory would accept
 * it: it fits and all its numbers are finite. After bo_lanes_hash, other threads may call it with separate contexts. */
bo_status bo_lanes_validate(bo_context *context, const bo_lanes *lanes, bool states, const void *bytes, size_t size);
/* The states of a lane in memory of the host: its block, or on a GPU a copy of it. */
bo_status bo_lanes_host(bo_context *context, const bo_lanes *lanes, size_t lane, char **out);
void bo_lanes_host_free(const bo_lanes *lanes, char *host);

#endif
