/* Advice is measured: small problems are cut from the data, and candidates are tried on them. */
#ifndef BO_ATTENTION_ADVISE_H
#define BO_ATTENTION_ADVISE_H

#include "dark.h"

enum {
    BO_ADVICE_HEADS = 8, /* problems at most */
    BO_SEEN_ROWS = 1024, /* that calibrate a head */
};

/* One head of one sequence: some of its queries (at odd places, so that those at even ones may be learned from), at
 * most some thousands of its keys, and the exact answer. Arrays are contiguous. */
typedef struct bo_advice_problem {
    size_t key_head; /* whose law is its own */
    size_t queries, keys;
    float *q, *k, *v; /* queries x dim, keys x dim, keys x value_dim */
    size_t *seen;     /* each query sees the first so many keys */
    double *scores;   /* s q·k: queries x keys */
    double *exact;    /* queries x value_dim */
    double *entropy;  /* of each query's weights over all keys it sees in the data; NAN: it sees fewer than two … */
    double *share;    /* … and over the logarithm of their number */
} bo_advice_problem;

typedef struct bo_survey {
    bo_context *context;
    size_t dim, value_dim, count;
    double scale;
    double norm; /* Σ |exact|² over all problems */
    bo_advice_problem *problems;
    float *seen_q,
        *seen_k; /* to calibrate with: count x BO_SEEN_ROWS x dim, of even places of the problem's key head */
} bo_survey;

/* Cuts the problems, with at most so many queries over all of them. call: its layout and attention (EXACT) are used.
 * v NULL: random values of unit variance. */
bo_status bo_survey_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                         size_t queries, bo_survey *out);
void bo_survey_free(bo_survey *survey);
/* Means over the queries that see at least two keys; 0 where none does. */
void bo_survey_entropy(const bo_survey *survey, double *entropy, double *share);

/* Causal HYBRID attention needs keys that are neighbors, and those of a survey are not: the first tokens of the
 * survey's heads, side by side as heads of one sequence (after the end of a shorter one there are zeros, which no query
 * before them sees), and the exact answers of some queries at odd places, evenly spaced over each head's length. */
typedef struct bo_beginnings {
    size_t dim, value_dim, count;
    size_t lengths[BO_ADVICE_HEADS], tokens; /* of each head, and of the longest */
    size_t queries[BO_ADVICE_HEADS], most;   /* that have an exact answer: of each head, and the most of them */
    float *q, *k, *v, *out;                  /* count x tokens x width; out: room for what is tried */
    double *exact;                           /* count x most x value_dim */
} bo_beginnings;
/* queries: at most so many over all heads. To be freed whatever it returns. */
bo_status bo_beginnings_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                             size_t queries, bo_beginnings *out);
void bo_beginnings_free(bo_beginnings *beginnings);
/* The error of an attention that has a key head for each problem of the survey; INFINITY where numbers grew too
 * large. */
bo_status bo_beginnings_try(bo_context *context, const bo_beginnings *beginnings, const bo_attention *attention,
                            double *error);

/* How an attention that has a key head for each problem does on them. */
typedef struct bo_verdict {
    double error; /* of the output, relative */
    double least; /* the least denominator of a query, over that of the kernel in closed form; INFINITY where no feature
                     is negative. 1 is expected; near 0 the output is anything. */
} bo_verdict;
bo_status bo_survey_try(const bo_survey *survey, const bo_attention *attention, bo_verdict *out);

/* error² = floor² + slope / m for m independent frequencies: what the variance formula says, to first order.
 *
 * With weights a_ij (summing to 1 over j) and kernel values off by factors 1 + ε_ij, Var ε_ij = ρ_ij / m, the output
 * moves by Σ_j a_ij ε_ij (v_j - o_i). For values independent of the keys
 *     E|δo_i|² <= Σ_j a_ij² ρ_ij |v_j - o_i|² / m,
 * nearly with equality where norms are large: what is common to the ε of all keys of a query cancels with the
 * denominator. Of positive features at norms r that is about 1/(1 + exp(r²)) of ρ. The floor is the distance of the
 * kind's own kernel from softmax: 0 but for RFA. */
typedef struct bo_prediction {
    double floor, slope;
} bo_prediction;
bo_status bo_survey_predict(const bo_survey *survey, const bo_attention *attention, bo_prediction *out);

/* ---- candidates ------------------------------------------------------------------------------------------------------ */

/* What advice chooses among, and how each is tried. */

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

#endif
