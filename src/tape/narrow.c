/* Activations stored as bfloat16. The float32 schedule determines when each piece is used. Values of forward that are
 * next used by backward (or by a recomputation) after other steps are stored in half the bytes in between: one step
 * rounds them after their last use before the wait, another widens them into a new piece before the next use. Forward
 * never reads rounded values. */
#include "internal.h"

/* Minimum number of steps between two uses for values to be rounded: after forward, and between two uses in backward,
 * where only the float32 copy is released. */
enum { WAIT = 2, WAIT_WITHIN = 8 };

/* State of a piece of the float32 schedule. */
typedef struct wait {
    uint32_t last;   /* last step of the old schedule that used it; BO_NEVER: none yet */
    uint32_t after;  /* step after which the first wait starts; BO_NEVER: none */
    uint32_t packed; /* new piece with the rounded values; 0: not yet */
    uint32_t now;    /* piece with the values in float32: the original, or the latest one they were widened into */
} wait;

typedef struct narrowing {
    bo_graph *graph;
    bo_list old; /* bo_step: the float32 schedule */
    wait *waits; /* one per piece of the float32 schedule */
    size_t pieces;
} narrowing;

/* ---- uses of pieces ---------------------------------------------------------------------------------------------- */

enum { VALUES = BO_OP_INPUTS + BO_OP_OUTPUTS };

/* Lists the tensors of a step, which may be rounded. Saved data may not: they are not only floats. */
static void values_of(bo_step *step, uint32_t *values[VALUES])
{
    for (size_t i = 0; i < BO_OP_INPUTS; i++) *values++ = &step->in[i];
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) *values++ = &step->out[i];
}

static bool may_wait(const narrowing *n, uint32_t piece)
{
    return bo_arena_piece_at(n->graph, piece)->floats > 0;
}

/* True if the step runs after forward, so that it may read rounded values. */
static bool is_behind(const narrowing *n, uint32_t step)
{
    const bo_step *s = (bo_step *)n->old.at + step;
    return s->again || (s->backward && !bo_node_at(n->graph, s->node)->late);
}

/* True if the values are rounded between two uses. */
static bool waits(const narrowing *n, uint32_t from, uint32_t to)
{
    if (from == BO_NEVER || !is_behind(n, to)) return false;
    return to - from >= (((bo_step *)n->old.at)[from].backward ? WAIT_WITHIN : WAIT);
}

static void find_waits(narrowing *n)
{
    uint32_t *values[VALUES];
    for (uint32_t s = 0; s < n->old.count; s++) {
        values_of((bo_step *)n->old.at + s, values);
        for (size_t i = 0; i < VALUES; i++) {
            wait *w = &n->waits[*values[i]];
            if (!may_wait(n, *values[i])) continue;
            if (w->after == BO_NEVER && waits(n, w->last, s)) w->after = w->last;
            w->last = s;
        }
    }
}

/* ---- new schedule ------------------------------------------------------------------------------------------------ */

static uint32_t add_piece(bo_context *context, bo_graph *graph, size_t bytes)
{
    bo_arena_piece *piece = bo_list_add(context, &graph->pieces, sizeof *piece, "pieces of a plan");
    if (!piece) return 0;
    piece->bytes = bo_arena_piece_bytes(bytes);
    return (uint32_t)(graph->pieces.count - 1);
}

static bo_status add_move(bo_context *context, narrowing *n, bo_move move, uint32_t from, uint32_t to, size_t floats)
{
    bo_step *step = bo_list_add(context, &n->graph->steps, sizeof *step, "steps of a plan");
    if (!step) return BO_MEMORY;
    step->move = move;
    step->in[0] = from;
    step->out[0] = to;
    step->floats = floats;
    return BO_OK;
}

/* Before step `index`: widens the rounded values that it uses. */
static bo_status widen_for(bo_context *context, narrowing *n, uint32_t index, uint32_t piece)
{
    wait *w = &n->waits[piece];
    if (!may_wait(n, piece) || !w->packed || !waits(n, w->last, index)) return BO_OK;
    size_t floats = bo_arena_piece_at(n->graph, piece)->floats;
    if (!(w->now = add_piece(context, n->graph, floats * sizeof(float)))) return BO_MEMORY;
    w->last = index; /* a step may use it twice */
    return add_move(context, n, BO_MOVE_WIDEN, w->packed, w->now, floats);
}

/* After step `index`: rounds the values whose wait starts. A second wait uses the same rounded values. */
static bo_status round_after(bo_context *context, narrowing *n, uint32_t index, uint32_t piece)
{
    wait *w = &n->waits[piece];
    if (!may_wait(n, piece)) return BO_OK;
    w->last = index;
    if (w->packed || w->after != index) return BO_OK;
    size_t floats = bo_arena_piece_at(n->graph, piece)->floats;
    if (!(w->packed = add_piece(context, n->graph, floats * sizeof(uint16_t)))) return BO_MEMORY;
    return add_move(context, n, BO_MOVE_ROUND, w->now, w->packed, floats);
}

static bo_status copy_step(bo_context *context, narrowing *n, uint32_t index)
{
    uint32_t *values[VALUES];
    bo_step step = ((bo_step *)n->old.at)[index];
    values_of(&step, values);
    for (size_t i = 0; i < VALUES; i++) BO_TRY(widen_for(context, n, index, *values[i]));
    bo_step *copy = bo_list_add(context, &n->graph->steps, sizeof *copy, "steps of a plan");
    if (!copy) return BO_MEMORY;
    *copy = step;
    values_of(copy, values);
    for (size_t i = 0; i < VALUES; i++) *values[i] = n->waits[*values[i]].now;
    values_of(&step, values);
    for (size_t i = 0; i < VALUES; i++) BO_TRY(round_after(context, n, index, *values[i]));
    return BO_OK;
}

/* ---- lifetimes --------------------------------------------------------------------------------------------------- */

static void name_piece(bo_graph *graph, uint32_t step, uint32_t piece)
{
    bo_arena_piece *named = bo_arena_piece_at(graph, piece);
    if (!piece || (named->first == 0 && named->last == BO_NEVER)) return; /* in use during the whole run */
    if (named->first > step) named->first = step;
    if (named->last < step) named->last = step;
}

/* Recomputes the lifetimes for the new step numbers. */
static void renew_lifetimes(bo_graph *graph)
{
    for (uint32_t p = 1; p < graph->pieces.count; p++) {
        bo_arena_piece *piece = bo_arena_piece_at(graph, p);
        if (piece->first == 0 && piece->last == BO_NEVER) continue;
        piece->first = BO_NEVER;
        if (piece->last != BO_NEVER) piece->last = 0;
    }
    for (uint32_t s = 0; s < graph->steps.count; s++) {
        const bo_step *step = bo_step_at(graph, s);
        for (size_t i = 0; i < BO_OP_INPUTS; i++) name_piece(graph, s, step->in[i]), name_piece(graph, s, step->din[i]);
        for (size_t i = 0; i < BO_OP_OUTPUTS; i++)
            name_piece(graph, s, step->out[i]), name_piece(graph, s, step->dout[i]);
        name_piece(graph, s, step->saved), name_piece(graph, s, step->scratch);
    }
}

static bo_status narrow(bo_context *context, narrowing *n)
{
    for (uint32_t p = 0; p < n->pieces; p++) n->waits[p] = (wait){.last = BO_NEVER, .after = BO_NEVER, .now = p};
    find_waits(n);
    for (uint32_t p = 0; p < n->pieces; p++) n->waits[p].last = BO_NEVER;
    for (uint32_t s = 0; s < n->old.count; s++) BO_TRY(copy_step(context, n, s));
    renew_lifetimes(n->graph);
    return BO_OK;
}

bo_status bo_graph_narrow(bo_context *context, bo_graph *graph)
{
    if (!graph->desc.bfloat16 || !graph->desc.gradients) return BO_OK;
    narrowing n = {.graph = graph, .old = graph->steps, .pieces = graph->pieces.count};
    n.waits = bo_alloc(context, n.pieces, sizeof *n.waits, "pieces that wait");
    if (!n.waits) return BO_MEMORY;
    graph->steps = (bo_list){0};
    bo_status status = narrow(context, &n);
    bo_free(n.old.at);
    bo_free(n.waits);
    return status;
}
