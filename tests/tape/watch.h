/* Looking over the shoulder of a run: before every call memory that is not in use is filled with NaN, and so is what the
 * call is to write. Whoever reads what is not his, finds NaN. */
#ifndef BO_TEST_WATCH_H
#define BO_TEST_WATCH_H

#include "testing.h"
#include "tape/internal.h"

/* What a run looks after. Only one graph is watched at a time. */
typedef struct watch {
    const bo_graph *graph; /* NULL: nobody */
    size_t step;
    size_t forwards, backwards, again;
    bool refuse; /* the next call fails */
} watch;
static watch watched;

static void watch_begin(const bo_graph *graph)
{
    watched = (watch){.graph = graph};
}

/* Fills what is dead at this step, and what comes to life with it, with NaN. */
static void poison(const bo_graph *graph, size_t step)
{
    size_t floats = graph->bytes / sizeof(float);
    bool *alive = calloc(floats ? floats : 1, 1);
    for (uint32_t b = 1; b < graph->blocks.count; b++) {
        const bo_block *block = bo_block_at(graph, b);
        if (block->home != BO_HOME_ARENA || block->first > step || block->last < step) continue;
        bool born = block->first == step && !(block->first == 0 && block->last == BO_NEVER);
        if (!born) memset(alive + block->offset / sizeof(float), true, block->bytes / sizeof(float));
    }
    for (size_t i = 0; i < floats; i++)
        if (!alive[i]) ((float *)graph->arena)[i] = NAN;
    free(alive);
}

static bo_status before_call(bo_context *context, const bo_op_call *call)
{
    if (watched.refuse) return bo_fail(context, BO_NUMERIC, "toy: asked to fail");
    if (!watched.graph) return BO_OK;
    const bo_step *step = bo_step_at(watched.graph, watched.step);
    watched.forwards += !step->backward;
    watched.backwards += step->backward;
    watched.again += call->again;
    poison(watched.graph, watched.step++);
    return BO_OK;
}

#endif
