/* Attention in float64 by plain code: bo_attention_forward_f64 and bo_attention_backward_f64.
 *
 * reference.c          checks, tasks, gradients of parameters
 * reference_rows.c     the rows of a task: unit norm, σ, M, W and b, and their gradients
 * reference_weights.c  kinds with weights a_ij: every pair of a query and a key
 * reference_memory.c   GLA, DELTA and RIDGE: one step per token
 *
 * A task is one key head of one sequence, with the query heads that share it. Row g * queries + i of its queries is
 * query i of the g-th of these heads. A task allocates nothing and never fails; NaN and infinity are found
 * afterwards. */
#ifndef BO_ATTENTION_REFERENCE_H
#define BO_ATTENTION_REFERENCE_H

#include "../math/plain.h"
#include "internal.h"
#include "row_transform.h"

/* A call after all checks. */
typedef struct bo_reference {
    bo_call call; /* only for checks, geometry and progress; its arrays are the members below */
    const bo_attention_inputs_f64 *in;
    double *out;                                 /* NULL: backward */
    const double *dout;                          /* NULL: zero */
    const bo_attention_gradients_f64 *gradients; /* NULL: forward */
    const double *w;                             /* frequencies of every key head, each w_count doubles */
    size_t w_count;
    size_t longest_queries, longest_keys;
} bo_reference;

/* Rows of one head of one sequence, as bo_rows. */
typedef struct bo_rows_f64 {
    double *at;
    size_t stride;
} bo_rows_f64;

static inline double *bo_row_f64(bo_rows_f64 rows, size_t t)
{
    return rows.at + t * rows.stride;
}

static inline double *bo_carve_f64(bo_carver *carver, size_t count)
{
    return bo_carve(carver, count, sizeof(double));
}

/* One task. Gradients are dense arrays of the task, and zero at its start; NULL in a forward pass. */
typedef struct bo_reference_task {
    const bo_reference *of;
    const bo_attention *attention;
    const bo_attention_desc *desc;
    size_t sequence, key_head, queries, keys;
    size_t group, rows, width; /* query heads; rows of queries; length of a transformed row */
    bo_rows_f64 k, v;
    bo_rows_f64 gate, beta; /* at NULL: none. Gate FIXED: stride 0 */
    double fixed;           /* log g of gate FIXED */
    double *q;              /* rows x dim */
    double *tq, *tk;        /* transformed rows: rows x width, keys x width */
    double *out;            /* rows x value_dim; NULL: backward */
    double *dout;           /* rows x value_dim */
    double *dq, *dk, *dv;   /* rows x dim, keys x dim, keys x value_dim: without the part through tq and tk */
    double *dtq, *dtk;      /* gradients of tq and tk */
    double *dgate, *dbeta;  /* keys x gate width, at least keys; keys */
    double *parameters;     /* gradients of the parameters are added to it; parameters.h defines the layout */
    char *scratch;          /* scratch memory of the engine */
} bo_reference_task;

/* Lays out the arrays of a task; with a carver that only counts, nothing is read. */
bo_reference_task bo_reference_task_make(const bo_reference *of, size_t sequence, size_t key_head, double *parameters,
                                         bo_carver *carver);
/* Returns the rows of (sequence, head) in an array, as bo_rows_at. */
bo_rows_f64 bo_rows_f64_at(const bo_call *call, const double *array, size_t heads, size_t width, bool keys,
                           size_t sequence, size_t head);
/* Fills q, dout, tq and tk, and clears the gradients. */
void bo_reference_rows_begin(bo_reference_task *task);
/* Adds the gradients of tq and tk to those of q, k and the parameters. */
void bo_reference_rows_backward(bo_reference_task *task);
/* Writes the outputs, or the gradients that are requested. Sets not_finite if a value is NaN or infinite. */
void bo_reference_rows_end(const bo_reference_task *task);

/* Engines: the bytes of their scratch memory, and the computation of `out` or of the gradients. They stop early if the
 * call is canceled. */
size_t bo_reference_weights_bytes(const bo_reference *of);
void bo_reference_weights(bo_reference_task *task);
size_t bo_reference_memory_bytes(const bo_reference *of);
void bo_reference_memory(bo_reference_task *task);

#endif
