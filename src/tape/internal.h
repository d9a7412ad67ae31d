/* The inside of a graph: what was recorded, and the plan made of it. */
#ifndef BO_TAPE_INTERNAL_H
#define BO_TAPE_INTERNAL_H

#include "graph.h"

enum { BO_TAPE_ERROR = 1024 };
#define BO_NEVER UINT32_MAX /* no enumerator of ISO C has this value */

/* ---- recorded ------------------------------------------------------------------------------------------------------ */

typedef enum bo_tensor_origin { BO_ORIGIN_INPUT, BO_ORIGIN_WEIGHT, BO_ORIGIN_MADE } bo_tensor_origin;

/* Invariant: number 0 is nobody's; rows and columns are at least 1, and the bytes are less than 2^48. The second half
 * is the plan's. */
typedef struct bo_graph_tensor {
    bo_tensor_origin origin;
    bo_element element;
    size_t rows, columns;
    char *name;    /* INPUT */
    size_t weight; /* WEIGHT: its index in the set */
    uint32_t node; /* MADE: by whom */
    bool kept;     /* is there after a run */
    bool gradient_kept;

    bool trained;             /* its gradient reaches a weight that is not frozen, or is kept */
    bool graded;              /* … and the loss reaches it: somebody writes the gradient */
    bool read;                /* by some node */
    bool outside;             /* its segment may not forget it */
    bool wanted;              /* by backward or by recomputation within its segment */
    uint32_t piece, gradient; /* where it is at this point of the schedule; 0: nowhere yet */
} bo_graph_tensor;

/* The number of a segment is its place among the segments, from 1; 0: none. */
typedef struct bo_node {
    const bo_op *op;
    void *attributes; /* its own copy */
    uint32_t scope, segment;
    size_t inputs, outputs;
    bo_value in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];

    bool backward;  /* has one */
    bool late;      /* forward happens within backward */
    bool again;     /* is computed a second time, before its segment's backward */
    uint32_t saved; /* piece */
} bo_node;

/* ---- planned ------------------------------------------------------------------------------------------------------- */

typedef enum bo_home { BO_HOME_ARENA, BO_HOME_WEIGHT, BO_HOME_GRADIENT } bo_home;

/* A piece of memory that is in use from step `first` to step `last`, both included. Invariants in the arena: bytes and
 * offset are multiples of 64, and pieces that are in use at the same step do not overlap. */
typedef struct bo_arena_piece {
    bo_home home;
    size_t weight; /* WEIGHT, GRADIENT: whose */
    size_t bytes, offset;
    size_t floats;        /* that backward may find rounded to bfloat16; 0: none of that kind */
    uint32_t first, last; /* BO_NEVER: to the end and beyond */
    void *address;        /* once there is memory */
} bo_arena_piece;

typedef enum bo_move { BO_MOVE_NONE, BO_MOVE_ROUND, BO_MOVE_WIDEN } bo_move;

/* One call of an operation: numbers of pieces, 0 for NULL. Or a move: `floats` numbers of in[0], rounded to bfloat16 or
 * widened, become out[0]; it belongs to no node. */
typedef struct bo_step {
    bo_move move;
    size_t floats;
    uint32_t node;
    bool backward;
    bool again;
    uint32_t in[BO_OP_INPUTS], out[BO_OP_OUTPUTS], din[BO_OP_INPUTS], dout[BO_OP_OUTPUTS], saved, scratch;
    bool add[BO_OP_INPUTS];
} bo_step;

/* A list that grows; `room` elements are allocated. */
typedef struct bo_list {
    void *at;
    size_t count, room;
} bo_list;

struct bo_graph {
    bo_context *context; /* where recording allocates and fails */
    bo_weights *weights;
    const bo_backend *backend;
    bo_list tensors, nodes, scopes; /* bo_graph_tensor, bo_node, char * */
    uint32_t segment, segments;     /* being recorded, so far */
    size_t branches;                /* of the residual stream, so far */
    bo_status status;               /* the first error of recording, and its sentence */
    char error[BO_TAPE_ERROR];

    bool planned;
    bo_graph_compile_desc desc;
    bo_list pieces, steps; /* bo_arena_piece, bo_step */
    uint32_t seed;         /* piece of the loss's gradient */
    size_t bytes;
    double operations;

    char *arena;
    float loss_scale;
    double *seconds; /* of each step, which a run writes for a profile; NULL: nobody asks */
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
    return tensor->rows * tensor->columns * 4;
}

static inline size_t bo_arena_piece_bytes(size_t bytes)
{
    return bo_padded_bytes(bytes);
}

/* What a node holds until its backward: its outputs, and what forward saves. */
static inline size_t bo_node_bytes(const bo_graph *graph, const bo_node *node)
{
    size_t bytes = node->saved ? bo_arena_piece_at(graph, node->saved)->bytes : 0;
    for (size_t i = 0; i < node->outputs; i++) bytes += bo_graph_tensor_bytes(bo_graph_tensor_at(graph, node->out[i]));
    return bytes;
}

/* One more element, zeroed; NULL: out of memory. */
void *bo_list_add(bo_context *context, bo_list *list, size_t size, const char *what);
/* The call of a node without data: shapes only. */
void bo_node_call(const bo_graph *graph, const bo_node *node, bo_op_call *call);
/* A node of this operation. `attributes` are taken over, also where it fails; NULL: there was no memory for them. */
bo_value bo_graph_record(bo_graph *graph, const bo_op *op, void *attributes, size_t count, const bo_value *inputs);
/* Repeats the context's error with the scope in front. */
bo_status bo_scope_fail(bo_context *context, const bo_graph *graph, const bo_node *node, bo_status status);

/* analyze.c: who has a gradient, what happens late, what is computed again. */
bo_status bo_graph_analyze(bo_context *context, bo_graph *graph);
/* schedule.c: the steps, and the pieces with their lifetimes. */
bo_status bo_graph_schedule(bo_context *context, bo_graph *graph);
/* narrow.c: values that wait for backward wait as bfloat16, where the plan asks for it. */
bo_status bo_graph_narrow(bo_context *context, bo_graph *graph);
/* arena.c: offsets of the pieces whose home is the arena, and the bytes of all. Number 0 is nobody's. */
bo_status bo_arena_place(bo_context *context, size_t count, bo_arena_piece *pieces, size_t *bytes);

#endif
