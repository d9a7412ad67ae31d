/* Inside of plans. */
#ifndef BO_PLAN_H
#define BO_PLAN_H

#include "../base/base.h"
#include <bochner/plan.h>

enum {
    BO_PLAN_MLP = 4,
    BO_PLAN_VOCAB = 256,
    BO_PLAN_SHAPES = 24, /* timings of a machine, at most */
    BO_PLAN_RUNS = 64,   /* runs of a loss law, at most */
};
#define BO_PLAN_ATTENTION_NAME "rfa-gate"

/* Defaults filled in, the attention's name the library's own; BO_INVALID: which number makes no sense, or no such attention. */
bo_status bo_plan_resolve(bo_context *context, const bo_plan_shape *shape, bo_plan_shape *out);

/* Attention of one head and one sequence, forward: what counts of all shapes with heads of this dim share. */
typedef struct bo_plan_head {
    double operations, copies;
} bo_plan_head;
bo_status bo_plan_head_of(bo_context *context, const bo_plan_shape *resolved, bo_plan_head *out);
bo_plan_counts bo_plan_count_with(const bo_plan_shape *resolved, const bo_plan_head *head);

/* The counts in the order of bo_plan_term. */
void bo_plan_terms_of(const bo_plan_counts *counts, double terms[BO_PLAN_TERM_COUNT]);
bo_plan_range bo_plan_step_of(const bo_plan_machine *machine, const bo_plan_counts *counts);

/* A text without meaning. */
bo_status bo_plan_noise(bo_context *context, const bo_tokenizer *tokenizer, size_t tokens, bo_corpus **out);

/* ---- choosing -------------------------------------------------------------------------------------------------------------- */

/* One shape of the grid, predicted. */
typedef struct bo_plan_candidate {
    bo_plan_shape shape;
    bo_plan_counts counts;
    bo_plan_range step;
    double tokens; /* it sees in the budget */
    /* What it is chosen by, the less the better: its loss, or how far that is behind the best that the same time buys.
     * INFINITY: it is not for this budget. */
    double worth;
} bo_plan_candidate;

typedef struct bo_plan_search {
    bo_context *context;
    const bo_plan_machine *machine;
    const bo_plan_losses *losses;
    bo_plan_budget budget; /* without zeros that mean a default */
    double tolerance;      /* of the logarithm of parameters, where they are given */
    bo_plan_candidate *items;
    size_t count, room;
} bo_plan_search;

/* grid.c: all shapes, each with what the budget makes of it. `items` is freed with bo_free. */
bo_status bo_plan_grid(bo_plan_search *search);
/* Why no candidate has a worth: BO_INVALID, with the least that would do. */
bo_status bo_plan_refuse(const bo_plan_search *search);

/* ---- parts ------------------------------------------------------------------------------------------------------------------ */

/* Timings of a machine with these kernels and threads. */
bo_status bo_plan_machine_fit_as(bo_context *context, const char *isa, int threads, const bo_plan_timing *timings,
                                 size_t count, unsigned terms, bo_plan_machine **out);

/* Of a file's text; `path` for messages. */
bo_status bo_plan_machine_parse(bo_context *context, const char *path, const char *text, size_t length,
                                bo_plan_machine **out);

/* x >= 0 with Σ_r (a_r · x - y_r)² least; only the terms whose bits are set may be more than 0. Exact: every set of terms
 * that are not 0 is tried. False: none is determined. */
bool bo_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned terms,
                           double x[BO_PLAN_TERM_COUNT]);

#endif
