/* Internals of a graph: the recorded operations, and the plan made from them. */
#ifndef BO_TAPE_INTERNAL_H
#define BO_TAPE_INTERNAL_H

#include "graph.h"

enum { BO_TAPE_ERROR = 1024 };
#define BO_NEVER UINT32_MAX /* ISO C has no enumerator with this value */

/* ---- recording --------------------------------------------------------------------------------------------------- */

typedef enum bo_tensor_origin { BO_ORIGIN_INPUT, BO_ORIGIN_WEIGHT, BO_ORIGIN_OPERATION } bo_tensor_origin;

/* Invariant: index 0 is unused; rows and columns are at least 1, and the size is less than 2^48 bytes. The second half
 * belongs to the plan. */
typedef struct bo_graph_tensor {
    bo_tensor_origin origin;
    bo_element element;
    bo_element
        storage; /* storage type of the values: `element`, or BFLOAT16 for floats on devices that compute in bfloat16 */
    size_t rows, columns;
    char *name;    /* INPUT */
    size_t weight; /* WEIGHT: index in the set */
    uint32_t node; /* OPERATION: index of the node that computes it */
    bool kept;     /* kept until after the run */
    bool gradient_kept;

    bool trained;             /* it depends on a weight that is not frozen, or its gradient is kept */
    bool graded;              /* trained, and the loss depends on it: it has a gradient */
    bool read;                /* read by a node */
    bool outside;             /* needed outside its segment, so it is not recomputed */
    bool needed;              /* needed by backward, or by recomputation within its segment */
    uint32_t piece, gradient; /* current pieces in the schedule; 0: none yet */
} bo_graph_tensor;

/* Segments are numbered from 1; 0: none. */
typedef struct bo_node {
    const bo_op *op;
    void *attributes; /* a copy, owned by the node */
    uint32_t scope, segment;
    size_t inputs, outputs;
    bo_value in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];

    bool backward;  /* has a backward */
    bool late;      /* forward runs within backward */
    bool again;     /* recomputed before the backward of its segment */
    uint32_t saved; /* index of a piece */
} bo_node;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

typedef enum bo_placement { BO_PLACEMENT_ARENA, BO_PLACEMENT_WEIGHT, BO_PLACEMENT_GRADIENT } bo_placement;

/* A piece of memory that is in use from step `first` to step `last`, inclusive. Invariants in the arena: bytes and
 * offset are multiples of 64, and pieces that are in use at the same step do not overlap. */
typedef struct bo_arena_piece {
    bo_placement placement;
    size_t weight; /* WEIGHT, GRADIENT: index of the weight */
    size_t bytes, offset;
    size_t floats;        /* number of floats if backward may read them rounded to bfloat16; 0: it may not */
    uint32_t first, last; /* last BO_NEVER: until after the run */
    void *address;        /* set after memory has been allocated */
} bo_arena_piece;

typedef enum bo_move { BO_MOVE_NONE, BO_MOVE_ROUND, BO_MOVE_WIDEN } bo_move;

/* One call of an operation, with indices of pieces (0: NULL). Or a move, which belongs to no node: `floats` values of
 * in[0], rounded to bfloat16 or widened, are written to out[0]. */
typedef struct bo_step {
    bo_move move;
    size_t floats;
    uint32_t node;
    bool backward;
    bool again;
    uint32_t in[BO_OP_INPUTS], out[BO_OP_OUTPUTS], din[BO_OP_INPUTS], dout[BO_OP_OUTPUTS], saved, scratch;
    bool add[BO_OP_INPUTS];
} bo_step;

/* A growing array; `capacity` elements are allocated. */
typedef struct bo_list {
    void *at;
    size_t count, capacity;
} bo_list;

/* A run that a device recorded, and the properties of the passes for which the recording is valid. The second run of a
 * kind is recorded, after the first has succeeded. */
enum { BO_RECORDED_RUNS = 4 };
typedef struct bo_recorded_run {
    size_t steps, sequences;
    size_t rows, source_rows; /* sums of the lengths: a pass with other sums is another kind */
    bool training, lengths, source_lengths, states;
    size_t used;     /* number of the last run that used it; 0: empty */
    void *recording; /* NULL: not recorded yet */
} bo_recorded_run;

struct bo_graph {
    bo_context *context; /* context for allocations and errors during recording */
    bo_weights *weights;
    bo_device *device;
    bo_list tensors, nodes, scopes; /* elements: bo_graph_tensor, bo_node, char * */
    bo_list shapes;                 /* elements: bo_tensor, one per tensor, for the facts */
    bo_graph_info info;             /* bytes and flops are those of the plan, or 0 */
    bo_list read;                   /* the bo_value of each weight of the set; 0: the graph does not read it yet */
    uint32_t segment, segments;     /* the current segment; number of segments so far */
    size_t branches;                /* additions to the residual stream so far */
    bool plain;                     /* layers are recorded without adapters */
    bo_status status;               /* the first error of recording, and its message */
    char error[BO_TAPE_ERROR];

    bool planned;
    bo_graph_compile_desc desc;
    bo_list pieces, steps; /* elements: bo_arena_piece, bo_step */
    uint32_t seed;         /* piece of the gradient of the loss */

    char *arena;
    /* On devices with runs: the pass in their memory, its layers with states and sequences, and recorded runs. */
    bo_staged *staged;
    size_t layers, sequences;
    bo_recorded_run recorded[BO_RECORDED_RUNS];
    size_t runs;     /* number of runs, to replace the oldest recording */
    void *rounded;   /* host workspace for values with BFLOAT16 storage; NULL: not needed */
    double *seconds; /* seconds per step, written by a run for a profile; NULL: not measured */
};

static inline bo_graph_tensor *bo_graph_tensor_at(const bo_graph *graph, bo_value value)
{
    return (bo_graph_tensor *)graph->tensors.at + value;
}

static inline bo_node *bo_node_at(const bo_graph *graph, size_t index)
{
    return (bo_node *)graph->nodes.at + index;
}

static inline bo_arena_piece *bo_arena_piece_at(const bo_graph *graph, uint32_t piece)
{
    return (bo_arena_piece *)graph->pieces.at + piece;
}

static inline bo_step *bo_step_at(const bo_graph *graph, size_t index)
{
    return (bo_step *)graph->steps.at + index;
}

static inline const char *bo_scope_of(const bo_graph *graph, const bo_node *node)
{
    return ((char **)graph->scopes.at)[node->scope];
}

static inline size_t bo_graph_tensor_bytes(const bo_graph_tensor *tensor)
{
    return tensor->rows * tensor->columns * (tensor->storage == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

static inline size_t bo_arena_piece_bytes(size_t bytes)
{
    return bo_padded_bytes(bytes);
}

/* Returns the bytes that a node occupies until its backward: its outputs, and the data that forward saves. */
static inline size_t bo_node_bytes(const bo_graph *graph, const bo_node *node)
{
    size_t bytes = node->saved ? bo_arena_piece_at(graph, node->saved)->bytes : 0;
    for (size_t i = 0; i < node->outputs; i++) bytes += bo_graph_tensor_bytes(bo_graph_tensor_at(graph, node->out[i]));
    return bytes;
}

/* Adds an element filled with zeros; NULL: out of memory. */
void *bo_list_add(bo_context *context, bo_list *list, size_t size, const char *what);
/* Fills in the call of a node without data: shapes only. */
void bo_node_call(const bo_graph *graph, const bo_node *node, bo_op_call *call);
/* Records a node of this operation. Takes ownership of `attributes`, also if it fails; NULL: allocating them failed. */
bo_value bo_graph_record(bo_graph *graph, const bo_op *op, void *attributes, size_t count, const bo_value *inputs);
/* run.c: forgets recorded runs and the staged pass. */
void bo_graph_forget_runs(bo_graph *graph);
/* Repeats the context's error with the scope in front. */
bo_status bo_scope_fail(bo_context *context, const bo_graph *graph, const bo_node *node, bo_status status);

/* analyze.c: which tensors have gradients, which nodes run in the backward pass, and which are recomputed. */
bo_status bo_graph_analyze(bo_context *context, bo_graph *graph);
/* schedule.c: the steps, and the pieces with their lifetimes. */
bo_status bo_graph_schedule(bo_context *context, bo_graph *graph);
/* narrow.c: stores values that wait for backward as bfloat16, if requested. */
bo_status bo_graph_narrow(bo_context *context, bo_graph *graph);
/* arena.c: offsets of the pieces in the arena, and its size in bytes. Index 0 is unused. */
bo_status bo_arena_place(bo_context *context, size_t count, bo_arena_piece *pieces, size_t *bytes);

#endif
