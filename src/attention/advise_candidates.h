/* What advice chooses among, and how each is tried. */
#ifndef BO_ATTENTION_ADVISE_CANDIDATES_H
#define BO_ATTENTION_ADVISE_CANDIDATES_H

#include "advise.h"

enum {
    BO_FEWEST = 16,         /* features */
    BO_FEW_QUERIES = 256,   /* to look for a number of features */
    BO_MANY_QUERIES = 2048, /* to confirm it */
    BO_DRAWS = 3,           /* that what is promised must hold for */
    BO_MOST_CHOSEN = 1024,  /* features that are chosen by data, or of a hybrid */
};

typedef struct bo_advice_candidate {
    bo_attention_kind kind;
    bo_kernel kernel;
    int degree;
    bo_function function;
    bo_proposal proposal;
    bo_sampling sampling;
    const char *name, *why;
} bo_advice_candidate;

extern const bo_advice_candidate bo_candidates[];
extern const size_t bo_candidate_count;

/* What trials share. */
typedef struct bo_trials {
    bo_context *context;
    bo_survey few, many; /* queries of the same heads */
    bo_beginnings beginnings;
    const bo_attention_desc *base; /* resolved: exact attention */
    double norms;                  /* of √s q times of √s k */
    uint64_t seed;
    double target;
    size_t most; /* a power of two times BO_FEWEST */
} bo_trials;

/* A row of the advice before it is told. */
typedef struct bo_row {
    const bo_advice_candidate *candidate;
    bo_attention_desc desc;
    size_t features, most;
    double error, predicted;
} bo_row;

/* Features of the candidate's map where it has no choice; 0: any. */
size_t bo_candidate_features(const bo_trials *trials, const bo_advice_candidate *candidate);
/* Finds the fewest features with which the candidate reaches the target. hint: where to begin if no formula says. */
bo_status bo_candidate_search(const bo_trials *trials, const bo_advice_candidate *candidate, size_t hint, bo_row *out);
/* The same for causal HYBRID attention with that row's map; false: it has none with this map. */
bool bo_row_has_hybrid(const bo_row *row);
bo_status bo_hybrid_search(const bo_trials *trials, const bo_row *row, bo_row *out);

#endif
