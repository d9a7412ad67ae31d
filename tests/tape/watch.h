/* Watches a run: before every call, memory that is not in use and the outputs of the call are filled with NaN, so that
 * reads of invalid memory are detected. */
#ifndef BO_TEST_WATCH_H
#define BO_TEST_WATCH_H

#include "device/internal.h"
#include "testing.h"
#include "tape/internal.h"

/* The watched run. Only one graph is watched at a time. */
typedef struct watch {
    const bo_graph *graph; /* NULL: none */
    size_t step;
    size_t forwards, backwards, again, moves;
    bool refuse; /* the next call fails */
} watch;
static watch watched;

static void watch_begin(const bo_graph *graph)
{
    watched = (watch){.graph = graph};
}

/* Fills memory that is dead at this step, and memory that this step will write, with NaN. */
static void poison(const bo_graph *graph, size_t step)
{
    size_t floats = graph->info.bytes / sizeof(float);
    bool *alive = calloc(floats ? floats : 1, 1);
    for (uint32_t b = 1; b < graph->pieces.count; b++) {
        const bo_arena_piece *piece = bo_arena_piece_at(graph, b);
        if (piece->placement != BO_PLACEMENT_ARENA || piece->first > step || piece->last < step) continue;
        bool born = piece->first == step && !(piece->first == 0 && piece->last == BO_NEVER);
        if (!born) memset(alive + piece->offset / sizeof(float), true, piece->bytes / sizeof(float));
    }
    for (size_t i = 0; i < floats; i++)
        if (!alive[i]) ((float *)graph->arena)[i] = NAN;
    free(alive);
}

static bo_status before_call(bo_context *context, const bo_op_call *call)
{
    if (watched.refuse) return bo_fail(context, BO_NUMERIC, "toy: failure was requested");
    if (!watched.graph) return BO_OK;
    const bo_step *step = bo_step_at(watched.graph, watched.step);
    watched.forwards += !step->backward;
    watched.backwards += step->backward;
    watched.again += call->again;
    poison(watched.graph, watched.step++);
    return BO_OK;
}

/* Moves are steps too: a watched backend has these functions. */
static bo_status watched_narrow(bo_context *context, bo_element element, size_t rows, size_t columns,
                                const void *floats, void *to)
{
    watched.moves++;
    if (watched.graph) poison(watched.graph, watched.step++);
    return bo_backend_cpu()->narrow(context, element, rows, columns, floats, to);
}

static bo_status watched_widen(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                               void *floats)
{
    watched.moves++;
    if (watched.graph) poison(watched.graph, watched.step++);
    return bo_backend_cpu()->widen(context, element, rows, columns, from, floats);
}

/* Memory of the host with other operations; one at a time. */
static bo_device *device_with(const bo_backend *backend)
{
    static bo_device device;
    device = (bo_device){.name = "toy", .index = -1, .backend = backend};
    return &device;
}

#endif
