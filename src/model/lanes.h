/* Internals of lanes: sequences of one model that step together, and the sources that a translator's lanes attend
 * to. */
#ifndef BO_MODEL_LANES_H
#define BO_MODEL_LANES_H

#include <bochner/tasks.h>
#include "capacity.h"

/* Graphs are made when they are first needed, for numbers of rows with at most three significant bits. Up to 64 lanes
 * then need at most two runs per step, and few rows of an encoder are filler. */
enum { BO_LANES_SIZES = 120, BO_LANES_MOST = 1 << 16 }; /* sizes up to 2^31; maximum number of lanes */
size_t bo_lanes_size_below(size_t rows);                /* the largest size ≤ rows */
size_t bo_lanes_size_above(size_t rows);                /* the smallest size ≥ rows */
size_t bo_lanes_size_number(size_t size);               /* index of a size: 0, 1, … */

/* States that belong together, in blocks of equal size. Blocks, and the states within them, are aligned to 64 bytes.
 * Sources have one piece of memory; each lane has its own. */
typedef struct bo_lane_blocks {
    char *memory;
    size_t count;    /* number of blocks with memory */
    size_t bytes;    /* bytes per block */
    size_t *offsets; /* offset of each layer's state in a block */
} bo_lane_blocks;

/* Invariants: lane i has its states in blocks[i], has read tokens[i] tokens and attends to source sources[i]. A lane that
 * has read nothing may have no block (NULL). This does not hold if `broken`: a run was interrupted, and the lanes must
 * be restarted. */
struct bo_lanes {
    const bo_model *model;
    bo_lanes_desc desc; /* with defaults filled in */
    bo_sized_attentions attentions;
    bo_lane_blocks lane;
    /* states of cross attention, or a summary of `width` floats; includes blocks for filler */
    bo_lane_blocks source;
    char **blocks, **next;     /* `count` entries each */
    int32_t *tokens, *sources; /* `count` entries each */
    int32_t *scratch;          /* scratch memory to reorder one of them */
    bool *taken;               /* `count` entries; scratch memory, as `scratch` */
    float *summaries;          /* SUMMARY: count x width, for one step */
    void **table;              /* states for one step, in the order of its pass */
    bo_model_graph steps[BO_LANES_SIZES], reads[BO_LANES_SIZES];
    bo_session *reader;   /* reads blocks of tokens into a lane; made when it is first needed */
    void **reader_states; /* states of the lane that it reads into, one per layer */
    bool has_sources, broken;
};

/* Computes the bytes of a hypothesis as long as the context, including its share of a source that `beam` hypotheses
 * attend to. Allocates no states. */
bo_status bo_lanes_measure(bo_context *context, const bo_model *model, size_t beam, size_t *bytes);

/* Computes the bytes of the graphs of steps, of which each number of lanes needs one, without the states. Allocates none. */
bo_status bo_lanes_workspace(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t *bytes);

/* Allocates a block in the state of an empty sequence; bo_layer_states_release() frees it. NULL: there is no memory. */
char *bo_lanes_block(bo_context *context, const bo_lanes *lanes);
/* Allocates the memory of a lane, which otherwise happens when it reads its first token. */
bo_status bo_lanes_reserve(bo_context *context, bo_lanes *lanes, size_t lane);
/* Frees the memory of a lane, which becomes empty. */
void bo_lanes_release(bo_lanes *lanes, size_t lane);

/* As bo_lanes_step(), but if the numbers of a lane are not finite, only its logits are NaN (bo_graph_pass). */
bo_status bo_lanes_step_isolated(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids,
                                 float *logits);
/* True if a call failed that had changed some states: the lanes must be reset. */
bool bo_lanes_broken(const bo_lanes *lanes);

/* LANGUAGE: makes what bo_lanes_feed and others need, which they otherwise make when they are first called. */
bo_status bo_lanes_prepare(bo_context *context, bo_lanes *lanes);
/* The hash of the weights, after bo_lanes_prepare. */
uint64_t bo_lanes_digest(const bo_lanes *lanes);
/* Checks that a saved state was made by the model of the lanes. May be called from other threads, with their own contexts,
 * after bo_lanes_prepare. */
bo_status bo_lanes_recognize(bo_context *context, const bo_lanes *lanes, const void *bytes, size_t size);
/* The same, and that bo_lanes_load_memory would accept it: it fits, and all its numbers are finite. */
bo_status bo_lanes_validate(bo_context *context, const bo_lanes *lanes, const void *bytes, size_t size);

#endif
