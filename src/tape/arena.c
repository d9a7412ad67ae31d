/* Memory planning: offsets in one arena for pieces of memory with known lifetimes. Pieces are placed one after the
 * other, each into the smallest gap that is free during its lifetime. The best order depends on the graph, so several
 * orders are tried. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

typedef int (*order_of)(const void *, const void *);

static bool lifetimes_overlap(const bo_arena_piece *a, const bo_arena_piece *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static int by_size(const bo_arena_piece *a, const bo_arena_piece *b)
{
    return (b->bytes > a->bytes) - (b->bytes < a->bytes);
}

static int by_life(const bo_arena_piece *a, const bo_arena_piece *b)
{
    uint32_t left = a->last - a->first, right = b->last - b->first;
    return (right > left) - (right < left);
}

/* Equal pieces keep their order of creation, so that the result does not depend on the sorting algorithm. */
static int by_place(const bo_arena_piece *a, const bo_arena_piece *b)
{
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a > b) - (a < b);
}

static int large_first(const void *left, const void *right)
{
    const bo_arena_piece *a = *(bo_arena_piece *const *)left, *b = *(bo_arena_piece *const *)right;
    int order = by_size(a, b);
    return order ? order : by_place(a, b);
}

static int large_and_long_first(const void *left, const void *right)
{
    const bo_arena_piece *a = *(bo_arena_piece *const *)left, *b = *(bo_arena_piece *const *)right;
    int order = by_size(a, b);
    if (!order) order = by_life(a, b);
    return order ? order : by_place(a, b);
}

static int long_first(const void *left, const void *right)
{
    const bo_arena_piece *a = *(bo_arena_piece *const *)left, *b = *(bo_arena_piece *const *)right;
    int order = by_life(a, b);
    if (!order) order = by_size(a, b);
    return order ? order : by_place(a, b);
}

static int by_creation(const void *left, const void *right)
{
    const bo_arena_piece *a = *(bo_arena_piece *const *)left, *b = *(bo_arena_piece *const *)right;
    return by_place(a, b);
}

/* ---- placing in one order ---------------------------------------------------------------------------------------- */

/* Returns the best offset for a piece. The `count` pieces in `placed` are sorted by offset. */
static size_t best_offset(size_t count, bo_arena_piece *const *placed, const bo_arena_piece *piece)
{
    size_t best = SIZE_MAX, smallest = SIZE_MAX, end = 0;
    for (size_t i = 0; i < count; i++) {
        const bo_arena_piece *other = placed[i];
        if (!lifetimes_overlap(other, piece)) continue;
        if (other->offset >= end + piece->bytes && other->offset - end < smallest) {
            smallest = other->offset - end;
            best = end;
        }
        if (other->offset + other->bytes > end) end = other->offset + other->bytes;
    }
    return best == SIZE_MAX ? end : best;
}

static void insert(size_t count, bo_arena_piece **placed, bo_arena_piece *piece)
{
    size_t at = count;
    while (at > 0 && placed[at - 1]->offset > piece->offset) at--;
    memmove(placed + at + 1, placed + at, (count - at) * sizeof *placed);
    placed[at] = piece;
}

/* Assigns offsets to all pieces. Returns the size of the arena in bytes. */
static size_t place_all(size_t count, bo_arena_piece **order, bo_arena_piece **placed)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        order[i]->offset = best_offset(i, placed, order[i]);
        insert(i, placed, order[i]);
        if (order[i]->offset + order[i]->bytes > bytes) bytes = order[i]->offset + order[i]->bytes;
    }
    return bytes;
}

/* True if no two pieces with overlapping lifetimes overlap in memory. Compares every pair; used in the tiny build. */
static bool are_disjoint(size_t count, bo_arena_piece *const *placed)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (lifetimes_overlap(placed[i], placed[j]) && placed[i]->offset < placed[j]->offset + placed[j]->bytes &&
                placed[j]->offset < placed[i]->offset + placed[i]->bytes)
                return false;
    return true;
}

/* ---- trying all orders ------------------------------------------------------------------------------------------- */

bo_status bo_arena_place(bo_context *context, size_t count, bo_arena_piece *pieces, size_t *bytes)
{
    static const order_of orders[] = {large_first, large_and_long_first, long_first, by_creation};
    size_t movable = 0, *best = bo_alloc(context, count, sizeof *best, "offsets of a plan");
    bo_arena_piece **order = best ? bo_alloc_raw(context, 2 * count, sizeof *order, "the order of a plan") : NULL;
    if (!order) {
        bo_free(best);
        return BO_MEMORY;
    }
    for (size_t i = 1; i < count; i++)
        if (pieces[i].placement == BO_PLACEMENT_ARENA) order[movable++] = &pieces[i];
    *bytes = SIZE_MAX;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        qsort(order, movable, sizeof *order, orders[o]);
        size_t found = place_all(movable, order, order + count);
        if (found >= *bytes) continue;
        *bytes = found;
        for (size_t i = 0; i < count; i++) best[i] = pieces[i].offset;
    }
    for (size_t i = 0; i < count; i++) pieces[i].offset = best[i];
    for (size_t i = 0; i < movable; i++) {
        assert(order[i]->bytes % 64 == 0 && order[i]->offset % 64 == 0);
        assert(order[i]->first <= order[i]->last && order[i]->offset + order[i]->bytes <= *bytes);
    }
    assert(!BO_SIZE(false, true) || are_disjoint(movable, order));
    bo_free(order);
    bo_free(best);
    return BO_OK;
}
