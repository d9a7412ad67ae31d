/* Places in one arena for pieces of memory whose lifetimes are known: the largest first, each into the smallest gap that
 * is free for the whole of its life. */
#include <stdlib.h>
#include <string.h>
#include "internal.h"

static bool meet(const bo_piece *a, const bo_piece *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int larger_first(const void *left, const void *right)
{
    const bo_piece *a = *(bo_piece *const *)left, *b = *(bo_piece *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a > b) - (a < b); /* equal ones in order, whatever sorts them */
}

/* The best offset among `count` pieces in order of their offsets. */
static size_t best_offset(size_t count, bo_piece *const *placed, const bo_piece *piece)
{
    size_t best = SIZE_MAX, smallest = SIZE_MAX, end = 0;
    for (size_t i = 0; i < count; i++) {
        const bo_piece *other = placed[i];
        if (!meet(other, piece)) continue;
        if (other->offset >= end + piece->bytes && other->offset - end < smallest) {
            smallest = other->offset - end;
            best = end;
        }
        if (other->offset + other->bytes > end) end = other->offset + other->bytes;
    }
    return best == SIZE_MAX ? end : best;
}

static void insert(size_t count, bo_piece **placed, bo_piece *piece)
{
    size_t at = count;
    while (at > 0 && placed[at - 1]->offset > piece->offset) at--;
    memmove(placed + at + 1, placed + at, (count - at) * sizeof *placed);
    placed[at] = piece;
}

bo_status bo_arena_place(bo_context *context, size_t count, bo_piece *pieces, size_t *bytes)
{
    size_t homeless = 0;
    bo_piece **order = bo_alloc_raw(context, 2 * count, sizeof *order, "the order of a plan"), **placed = order + count;
    *bytes = 0;
    if (!order) return BO_MEMORY;
    for (size_t i = 1; i < count; i++)
        if (pieces[i].home == BO_HOME_ARENA) order[homeless++] = &pieces[i];
    qsort(order, homeless, sizeof *order, larger_first);
    for (size_t i = 0; i < homeless; i++) {
        order[i]->offset = best_offset(i, placed, order[i]);
        insert(i, placed, order[i]);
        size_t end = order[i]->offset + order[i]->bytes;
        if (end > *bytes) *bytes = end;
    }
    bo_free(order);
    return BO_OK;
}
