/* The inside of lanes: timelines of one model that step together, and the sources that a translator's lanes ask. */
#ifndef BO_MODEL_LANES_H
#define BO_MODEL_LANES_H

#include <bochner/tasks.h>
#include "internal.h"

/* Graphs are made for numbers of rows with at most three significant bits, when they are first needed: any number of lanes up
 * to 64 steps in two runs at most, and few rows of an encoder are filler. */
enum { BO_LANES_SIZES = 120, BO_LANES_MOST = 1 << 16 }; /* sizes up to 2^31; most lanes */
size_t bo_lanes_size_below(size_t rows);                /* the largest that is not more */
size_t bo_lanes_size_above(size_t rows);                /* the smallest that is not less */
size_t bo_lanes_size_number(size_t size);               /* 0, 1, … */

/* States that belong together, in blocks of one size: aligned to 64 bytes, as is every state in them. */
typedef struct bo_lane_blocks {
    char *memory;
    size_t count;    /* of blocks with memory */
    size_t bytes;    /* of a block */
    size_t *offsets; /* where the state of each layer begins in it */
} bo_lane_blocks;

/* Invariants: lane i has its states in blocks[i], has taken tokens[i] tokens and asks source sources[i]; blocks is a permutation
 * of all there are. Unless `broken`: a run ended half-way, and only a new start helps. */
struct bo_lanes {
    const bo_model *model;
    bo_lanes_desc desc;        /* without zeros */
    bo_attention **own;        /* by place, where the model's has another capacity; else NULL */
    bo_attention **attentions; /* by place: own or the model's */
    bo_lane_blocks lane;
    bo_lane_blocks source;     /* of cross attention, or a summary of `width` floats; some more for filler */
    char **blocks, **next;     /* count each */
    int32_t *tokens, *sources; /* count each … */
    int32_t *room;             /* … and for one of them on the move */
    bool *taken;               /* count */
    float *summaries;          /* SUMMARY: count x width, for a step */
    void **table;              /* states of a step, as its pass has them */
    bo_model_graph steps[BO_LANES_SIZES], reads[BO_LANES_SIZES];
    bool has_sources, broken;
};

/* Bytes of a hypothesis that is as long as the context, with its share of a source that `beam` of them ask; needs no memory for
 * either. */
bo_status bo_lanes_measure(bo_context *context, const bo_model *model, size_t beam, size_t *bytes);

#endif
