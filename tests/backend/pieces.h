/* Operations with a state, in pieces: any split of the tokens has the result of the whole sequence. */
#ifndef BO_TEST_BACKEND_PIECES_H
#define BO_TEST_BACKEND_PIECES_H

#include "harness.h"

enum { PIECES_SEQUENCES = 3, PIECES = 5, PIECES_LAYER = 1, PIECES_LAYERS = 3 };

/* Tokens of each sequence in each piece: single tokens, sequences that pause, many tokens. */
static const size_t pieces_cut[PIECES][PIECES_SEQUENCES] = {{3, 0, 2}, {1, 1, 1}, {0, 2, 1}, {3, 0, 0}, {0, 1, 9}};
static const size_t pieces_totals[PIECES_SEQUENCES] = {7, 4, 13};
enum { PIECES_ROWS = 7 + 4 + 13 };

typedef struct pieces {
    harness *h;
    const op_case *c; /* of all PIECES_ROWS rows, in PIECES_SEQUENCES sequences of layer PIECES_LAYER */
    plain_op whole;
    op_truth truth;
    void *states[PIECES_LAYERS * PIECES_SEQUENCES];
    size_t bytes;                  /* bytes of each state */
    size_t done[PIECES_SEQUENCES]; /* tokens so far */
} pieces;

static inline size_t pieces_row(const pieces *p, size_t sequence, size_t token)
{
    size_t row = p->done[sequence] + token;
    for (size_t s = 0; s < sequence; s++) row += pieces_totals[s];
    return row;
}

/* The rows of a piece of x; parameters are unchanged. */
static inline plain_op pieces_op(const pieces *p, const size_t *lengths)
{
    plain_op op = p->whole;
    size_t rows = 0, at = 0;
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) rows += lengths[s];
    op.in[0].rows = op.out[0].rows = rows;
    for (size_t k = 0; k < op.inputs; k++) {
        op.in[k].x = plain_zeros(plain_count(&op.in[k]));
        if (k > 0) memcpy(op.in[k].x, p->whole.in[k].x, plain_count(&op.in[k]) * sizeof(double));
    }
    for (size_t s = 0; s < PIECES_SEQUENCES; s++)
        for (size_t i = 0; i < lengths[s]; i++, at++)
            memcpy(op.in[0].x + at * op.in[0].columns, p->whole.in[0].x + pieces_row(p, s, i) * op.in[0].columns,
                   op.in[0].columns * sizeof(double));
    op.out[0].x = plain_zeros(plain_count(&op.out[0]));
    return op;
}

/* Twice the tolerance of a whole run: for the sums of the run, and for sums that were rounded in states. */
static inline void pieces_compare(const pieces *p, const size_t *lengths, const float *found)
{
    const truth_array *a = &p->truth.out[0];
    for (size_t s = 0, at = 0; s < PIECES_SEQUENCES; s++)
        for (size_t i = 0; i < lengths[s]; i++)
            for (size_t c = 0; c < a->columns; c++, at++) {
                size_t from = pieces_row(p, s, i) * a->columns + c;
                if (!(fabs((double)found[at] - a->value[from]) <= 2 * a->tolerance[from]))
                    fail_msg("%s: sequence %zu, token %zu, column %zu: found %.9g, expected %.9g within %.3g",
                             p->c->name, s, p->done[s] + i, c, (double)found[at], a->value[from],
                             2 * a->tolerance[from]);
            }
}

/* Recomputation does not change the states. */
static inline void pieces_again(const pieces *p, bench *b)
{
    char *before[PIECES_SEQUENCES];
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) {
        before[s] = malloc(p->bytes);
        memcpy(before[s], p->states[PIECES_LAYER * PIECES_SEQUENCES + s], p->bytes);
    }
    b->call.again = true;
    bench_forward(b, false);
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) {
        assert_memory_equal(before[s], p->states[PIECES_LAYER * PIECES_SEQUENCES + s], p->bytes);
        free(before[s]);
    }
}

static inline void pieces_run(pieces *p, const size_t *lengths)
{
    op_case c = *p->c;
    c.pass = (bo_graph_pass){.sequences = PIECES_SEQUENCES, .lengths = lengths, .states = p->states};
    plain_op op = pieces_op(p, lengths);
    op_truth nothing = truth_begin(&c, &op);
    bench b = bench_make(p->h->contexts[0], bo_backend_of(p->h->device)->ops[c.op], &c, &op, &nothing, 0xFF);
    b.counted = &p->h->counted, b.state_bytes = p->bytes;
    bench_forward(&b, false);
    pieces_compare(p, lengths, (const float *)b.out[0].data);
    pieces_again(p, &b);
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) p->done[s] += lengths[s];
    bench_drop(&b);
    truth_drop(&nothing);
    op_drop(&op);
}

/* `bytes` of a state, which starts at `offset` in the state of a layer. */
static inline void pieces_check(harness *h, const op_case *c, size_t bytes, size_t offset)
{
    if (!bo_backend_of(h->device)->ops[c->op]) return; /* test_ops_all.c reports them */
    op_case whole = *c;
    whole.pass = (bo_graph_pass){.sequences = PIECES_SEQUENCES, .lengths = pieces_totals};
    pieces p = {
        .h = h, .c = &whole, .whole = op_make(&whole), .truth = truth_make(&whole, NULL), .bytes = offset + bytes};
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) /* the states of other layers are NULL */
        p.states[PIECES_LAYER * PIECES_SEQUENCES + s] = bo_alloc(h->contexts[1], offset + bytes, 1, "a memory");
    for (size_t i = 0; i < PIECES; i++) pieces_run(&p, pieces_cut[i]);
    for (size_t s = 0; s < PIECES_SEQUENCES; s++) {
        const char *state = p.states[PIECES_LAYER * PIECES_SEQUENCES + s];
        for (size_t i = 0; i < offset; i++)
            if (state[i]) fail_msg("%s: writes where another's memory is", c->name);
        bo_free(p.states[PIECES_LAYER * PIECES_SEQUENCES + s]);
    }
    truth_drop(&p.truth);
    op_drop(&p.whole);
}

#endif
