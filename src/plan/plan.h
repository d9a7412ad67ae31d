/* Internal declarations of src/plan. */
#ifndef BO_PLAN_H
#define BO_PLAN_H

#include "../base/base.h"
#include "../io/json.h"
#include <bochner/plan.h>

enum {
    BO_PLAN_MLP = 4,
    BO_PLAN_VOCAB = 256,
    BO_PLAN_SHAPES = 24, /* maximum number of timings in a calibration */
    BO_PLAN_RUNS = 64,   /* maximum number of runs in a loss law */
};
#define BO_PLAN_ATTENTION_NAME "rfa-gate"

/* Fills in defaults and replaces the attention's name by the library's copy. BO_INVALID: a number is out of range, or
 * the attention is unknown. */
bo_status bo_plan_resolve(bo_context *context, const bo_plan_shape *shape, bo_plan_shape *out);

/* Counts of attention with one head and one sequence, forward. All shapes with heads of this dim share them. */
typedef struct bo_plan_head {
    double operations, copies;
} bo_plan_head;
bo_status bo_plan_head_of(bo_context *context, const bo_plan_shape *resolved, bo_plan_head *out);
bo_plan_counts bo_plan_count_with(const bo_plan_shape *resolved, const bo_plan_head *head);

/* Stores the counts in the order of bo_plan_term. */
void bo_plan_terms_of(const bo_plan_counts *counts, double terms[BO_PLAN_TERM_COUNT]);
bo_plan_range bo_plan_step_of(const bo_plan_host *host, const bo_plan_counts *counts);

/* Creates random text for timing. */
bo_status bo_plan_noise(bo_context *context, const bo_tokenizer *tokenizer, size_t tokens, bo_corpus **out);

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* One shape of the grid with its predictions. */
typedef struct bo_plan_candidate {
    bo_plan_shape shape;
    bo_plan_counts counts;
    bo_plan_range step;
    double tokens; /* training tokens within the budget */
    /* The selection criterion, smaller is better: the loss, or its distance to the best loss reachable in the same
     * time. INFINITY: the shape does not fit this budget. */
    double criterion;
} bo_plan_candidate;

typedef struct bo_plan_search {
    bo_context *context;
    const bo_plan_host *host;
    const bo_plan_losses *losses;
    bo_plan_budget budget; /* defaults filled in */
    double tolerance;      /* tolerance of the logarithm of the number of parameters, if that number is given */
    bo_plan_candidate *items;
    size_t count, capacity;
} bo_plan_search;

/* shapes.c: creates all shapes with their predictions for the budget. `items` is freed with bo_free. */
bo_status bo_plan_grid(bo_plan_search *search);
/* Returns BO_INVALID, with a message that states the smallest feasible budget. */
bo_status bo_plan_refuse(const bo_plan_search *search);

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* Fits the non-negative costs that minimize Σ (predicted / measured - 1)² to 5 to BO_PLAN_SHAPES timings of one
 * attention and one optimizer. terms: the terms to use, bits 1 << bo_plan_term; 0: all. */
bo_status bo_plan_host_fit(bo_context *context, const bo_plan_timing *timings, size_t count, unsigned terms,
                           bo_plan_host **out);
/* The loss of a law, in nats per token. */
double bo_plan_law_at(const bo_plan_law *law, double parameters, double tokens, double batch);
/* The built-in runs. */
const bo_plan_run *bo_plan_reference_runs(size_t *count);

/* Creates a plan by fitted laws (bo_plan_create). */
bo_status bo_plan_by_laws(bo_context *context, const bo_plan_laws *laws, const bo_plan_budget *budget, bo_plan **out);

/* Fits timings that were measured with this instruction set and number of threads. */
bo_status bo_plan_host_fit_as(bo_context *context, const char *isa, int threads, const bo_plan_timing *timings,
                              size_t count, unsigned terms, bo_plan_host **out);

/* Writes the text of a file. */
void bo_plan_host_text(const bo_plan_host *host, bo_json_text *text);
/* Parses the text of a file. `path` appears in messages. */
bo_status bo_plan_host_parse(bo_context *context, const char *path, const char *text, size_t length,
                             bo_plan_host **out);

/* Minimizes Σ_r (a_r · x - y_r)² over x >= 0. Only terms whose bits are set may be positive. The solution is exact,
 * because every subset of positive terms is tried. False: no subset determines a solution. */
bool bo_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned terms,
                           double x[BO_PLAN_TERM_COUNT]);

#endif
