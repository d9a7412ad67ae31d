/* Edges: pairs of node numbers become, for each node, the list of those it sees, ascending. */
#include <math.h>
#include <stdlib.h>
#include "../io/schema.h"
#include "examples.h"

enum { BLOCK_ROWS = 4096, MOST_NODES = INT32_MAX - 1 };

typedef struct pairs {
    int32_t (*list)[2]; /* from, to */
    size_t count, room;
} pairs;

static bo_status add_pair(bo_context *context, pairs *p, int32_t from, int32_t to)
{
    if (p->count == p->room) {
        const size_t room = 2 * p->room + 1024;
        int32_t(*larger)[2] = bo_realloc(context, p->list, room, sizeof *larger, "the edges");
        if (!larger) return BO_MEMORY;
        p->list = larger;
        p->room = room;
    }
    p->list[p->count][0] = from;
    p->list[p->count++][1] = to;
    return BO_OK;
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

static bo_status read_node(bo_context *context, const bo_reader *reader, const bo_data_block *block, size_t row,
                           size_t column, size_t nodes, int32_t *out)
{
    const double value = block->cells[row * block->columns + column];
    char place[BO_PLACE_TEXT];
    if (value >= 0 && value < (double)nodes && value == floor(value)) {
        *out = (int32_t)value;
        return BO_OK;
    }
    bo_place(reader, block->first_row + row, block->lines ? block->lines[row] : 0, column, place);
    if (isnan(value))
        return bo_fail(context, BO_FORMAT, "%s: an edge's end should be the number of a node, found %s", place,
                       block->text && block->text[row * block->columns + column]
                           ? block->text[row * block->columns + column]
                           : "nothing");
    return bo_fail(context, BO_FORMAT, "%s: an edge's end should be the number of a node, from 0 to %zu, found %.15g",
                   place, nodes - 1, value);
}

static bo_status read_pairs(bo_context *context, bo_reader *reader, size_t nodes, bool undirected, pairs *out)
{
    bo_data_block block;
    if (bo_reader_columns(reader) != 2)
        return bo_fail(context, BO_FORMAT, "%s: edges should have two columns, from and to, found %zu",
                       bo_reader_path(reader), bo_reader_columns(reader));
    for (;;) {
        BO_TRY(bo_reader_next(context, reader, BLOCK_ROWS, &block));
        if (!block.rows) return BO_OK;
        for (size_t i = 0; i < block.rows; i++) {
            int32_t from, to;
            BO_TRY(read_node(context, reader, &block, i, 0, nodes, &from));
            BO_TRY(read_node(context, reader, &block, i, 1, nodes, &to));
            BO_TRY(add_pair(context, out, from, to));
            if (undirected && from != to) BO_TRY(add_pair(context, out, to, from));
        }
    }
}

/* ---- lists ----------------------------------------------------------------------------------------------------------------- */

/* By the node that sees, then by the one seen. */
static int ascending(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    if (left[1] != right[1]) return left[1] < right[1] ? -1 : 1;
    return (left[0] > right[0]) - (left[0] < right[0]);
}

/* Undirected edges and self loops that were in the file both ways are one. */
static void drop_repeats(pairs *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (kept && p->list[kept - 1][0] == p->list[i][0] && p->list[kept - 1][1] == p->list[i][1]) continue;
        p->list[kept][0] = p->list[i][0];
        p->list[kept++][1] = p->list[i][1];
    }
    p->count = kept;
}

static bo_status make_lists(bo_context *context, const pairs *p, bo_examples *examples)
{
    const size_t nodes = examples->rows;
    int32_t *first = bo_alloc(context, nodes + 1 + p->count, sizeof *first, "the edges of a graph");
    if (!first) return BO_MEMORY;
    examples->adjacent = first;
    examples->first = first;
    examples->neighbors = first + nodes + 1;
    examples->edges = p->count;
    for (size_t i = 0; i < p->count; i++) {
        first[p->list[i][1] + 1]++;
        first[nodes + 1 + i] = p->list[i][0];
    }
    for (size_t i = 0; i < nodes; i++) first[i + 1] += first[i];
    return BO_OK;
}

static bo_status load_pairs(bo_context *context, const bo_examples_desc *desc, size_t nodes, pairs *p)
{
    bo_reader *reader;
    BO_TRY(bo_reader_open(context, desc->edges, BO_FORMAT_AUTO, 0, &reader));
    bo_status status = read_pairs(context, reader, nodes, desc->undirected, p);
    bo_reader_close(reader);
    for (size_t i = 0; status == BO_OK && desc->self_loops && i < nodes; i++)
        status = add_pair(context, p, (int32_t)i, (int32_t)i);
    if (status == BO_OK && p->count > MOST_NODES)
        status = bo_fail(context, BO_UNSUPPORTED, "%s: %zu edges are more than the %d that are supported", desc->edges,
                         p->count, MOST_NODES);
    return status;
}

bo_status bo_edges_load(bo_context *context, const bo_examples_desc *desc, bo_examples *examples)
{
    pairs p = {0};
    if (examples->rows > MOST_NODES)
        return bo_fail(context, BO_UNSUPPORTED, "a graph of %zu nodes: at most %d are supported", examples->rows,
                       MOST_NODES);
    bo_status status = load_pairs(context, desc, examples->rows, &p);
    if (status == BO_OK) {
        if (p.count) qsort(p.list, p.count, sizeof *p.list, ascending);
        if (desc->undirected || desc->self_loops) drop_repeats(&p);
        status = make_lists(context, &p, examples);
    }
    bo_free(p.list);
    return status;
}

bo_status bo_edges_check(bo_context *context, const bo_examples *examples)
{
    const int32_t *first = examples->first;
    if (first[0] != 0 || first[examples->rows] < 0 || (size_t)first[examples->rows] != examples->edges)
        return bo_fail(context, BO_INVALID, "edges: the lists should go from 0 to %zu, found %d to %d", examples->edges,
                       (int)first[0], (int)first[examples->rows]);
    for (size_t i = 0; i < examples->rows; i++)
        if (first[i] > first[i + 1])
            return bo_fail(context, BO_INVALID, "edges: the list of node %zu ends before it begins", i);
    for (size_t i = 0; i < examples->edges; i++)
        if (examples->neighbors[i] < 0 || (size_t)examples->neighbors[i] >= examples->rows)
            return bo_fail(context, BO_INVALID, "edges: number %zu comes from node %d, expected one from 0 to %zu", i,
                           (int)examples->neighbors[i], examples->rows - 1);
    return BO_OK;
}
