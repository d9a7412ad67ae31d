/* Helpers of the operations on rows and elements. */
#include "rows.h"
#include <string.h>
#include "../cpu/angles.h"
#include "../sequences.h"

bo_status bo_gpu_pass_on(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(
        context, plus,
        &((bo_gpu_plus){.count = bo_gpu_count(&call->in[0]), .a = bo_gpu_in(call, 0), .y = bo_gpu_out(call, 0)}));
}

/* ---- sorting and scattering -------------------------------------------------------------------------------------- */

static size_t parts(size_t count, size_t each)
{
    return (count + each - 1) / each;
}

/* Sorted keys, their order, a second copy of both, and the counts of the digits of every tile. */
size_t bo_gpu_sorted_bytes(size_t count)
{
    const size_t counts = parts(count, BO_GPU_SORT_TILE) << BO_GPU_SORT_BITS;
    return bo_padded_bytes((4 * count + counts) * sizeof(int32_t));
}

bo_status bo_gpu_sort_keys(bo_context *context, const int32_t *keys, size_t count, size_t limit, void *workspace,
                           bo_gpu_sorted *out)
{
    int32_t *at = workspace;
    *out = (bo_gpu_sorted){at, at + count};
    return BO_LAUNCH(context, sort,
                     &((bo_gpu_sort){.count = count,
                                     .limit = limit,
                                     .keys = keys,
                                     .sorted = out->keys,
                                     .order = out->order,
                                     .workspace = at + 2 * count}));
}

size_t bo_gpu_scatter_bytes(const bo_op_call *call, size_t indices, size_t table)
{
    const size_t count = call->in[indices].rows, columns = call->in[table].columns;
    if (!call->din[table]) return 0;
    return bo_gpu_sorted_bytes(count) + 2 * parts(count, BO_GPU_SCATTER_TILE) * columns * sizeof(float);
}

bo_status bo_gpu_scatter_rows(bo_context *context, const bo_op_call *call, size_t indices, size_t table)
{
    const size_t count = call->in[indices].rows, rows = call->in[table].rows;
    bo_gpu_sorted sorted;
    if (!call->din[table]) return BO_OK;
    BO_TRY(bo_gpu_no_gradient(context, call, table));
    BO_TRY(bo_gpu_sort_keys(context, call->in[indices].data, count, rows, call->scratch, &sorted));
    return BO_LAUNCH(
        context, scatter,
        &((bo_gpu_scatter){.count = count,
                           .columns = call->in[table].columns,
                           .table_rows = rows,
                           .sorted = sorted.keys,
                           .order = sorted.order,
                           .dy = bo_gpu_dout(call, 0),
                           .dtable = bo_gpu_din(call, table),
                           .partial = (float *)(void *)((char *)call->scratch + bo_gpu_sorted_bytes(count))}));
}

/* ---- angles ------------------------------------------------------------------------------------------------------ */

/* The frequencies are computed on the host, some at a time, and are arguments of launches: all high parts, then all low
 * parts. */
bo_status bo_gpu_angles(bo_context *context, size_t width, double base, const bo_rope_scaling *scaling, void *workspace)
{
    const size_t pairs = (width + 1) / 2;
    for (size_t first = 0; first < pairs; first += BO_GPU_TURNS) {
        const size_t count = pairs - first < BO_GPU_TURNS ? pairs - first : BO_GPU_TURNS;
        bo_gpu_turns high = {.to = (double *)workspace + first, .count = count},
                     low = {.to = (double *)workspace + pairs + first, .count = count};
        bo_angles_part(width, base, scaling, first, count, high.numbers, low.numbers);
        BO_TRY(BO_LAUNCH(context, turns, &high));
        BO_TRY(BO_LAUNCH(context, turns, &low));
    }
    return BO_OK;
}

/* ---- images and sequences ---------------------------------------------------------------------------------------- */

bo_gpu_windows bo_gpu_windows_of(const bo_grid *grid, const bo_op_call *call)
{
    const size_t pixels = grid->size[0] * grid->size[1];
    bo_gpu_windows w = {.images = pixels ? call->in[0].rows / pixels : 0, .channels = call->in[0].columns};
    for (size_t i = 0; i < 2; i++) {
        w.size[i] = grid->size[i], w.kernel[i] = grid->kernel[i];
        w.stride[i] = grid->stride[i], w.before[i] = grid->before[i];
        w.places[i] = bo_grid_count(grid, i);
    }
    return w;
}

bo_status bo_gpu_sequences(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                           bo_gpu_rows *out)
{
    bo_spans spans;
    if (bo_pass_segments(call->pass) && !sequences->source)
        return bo_fail(context, BO_UNSUPPORTED, "%s: passes with final states are not supported on GPUs", op);
    BO_TRY(bo_spans_of(context, call, sequences, op, &spans));
    *out = (bo_gpu_rows){.tokens = (int32_t)spans.tokens, .sequences = (int32_t)spans.count, .rows = call->in[0].rows};
    if (spans.lengths) out->starts = sequences->source ? call->staged->host.source_starts : call->staged->host.starts;
    return BO_OK;
}

void *const *bo_gpu_states_of(const bo_op_call *call, const bo_sequences *sequences, const bo_gpu_rows *rows)
{
    if (!bo_spans_have_states(call, sequences)) return NULL;
    return call->staged->host.states + sequences->layer * (size_t)rows->sequences;
}
