/* Advice is based on measurements: small problems are sampled from the data, and candidates are tried on them. */
#ifndef BO_ATTENTION_ADVISE_H
#define BO_ATTENTION_ADVISE_H

#include "dark.h"

enum {
    BO_ADVICE_HEADS = 8,        /* maximum number of problems */
    BO_CALIBRATION_ROWS = 1024, /* rows that calibrate a head */
};

/* One head of one sequence: some of its queries (at odd positions; rows at even positions are used for calibration), up
 * to a few thousand of its keys, and the output of softmax attention. Arrays are contiguous. */
typedef struct bo_advice_problem {
    size_t key_head; /* key head; each has its own distribution */
    size_t queries, keys;
    float *q, *k, *v; /* queries x dim, keys x dim, keys x value_dim */
    size_t *visible;  /* number of first keys that each query sees */
    double *scores;   /* s q·k: queries x keys */
    double *exact;    /* queries x value_dim */
    /* entropy of each query's weights over all keys that it sees in the data; NAN if it sees fewer than two */
    double *entropy;
    double *share; /* entropy divided by the logarithm of the number of these keys */
} bo_advice_problem;

typedef struct bo_survey {
    bo_context *context;
    size_t dim, value_dim, count;
    double scale;
    double norm; /* Σ |exact|² over all problems */
    bo_advice_problem *problems;
    float *calibration_q, *calibration_k; /* rows for calibration: count x BO_CALIBRATION_ROWS x dim, at even positions
                                             of the problem's key head */
} bo_survey;

/* Samples the problems, with at most `queries` queries over all of them. Of `call`, the layout and the attention
 * (SOFTMAX) are used. v NULL: random values of unit variance. */
bo_status bo_survey_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                         size_t queries, bo_survey *out);
void bo_survey_free(bo_survey *survey);
/* Computes means over the queries that see at least two keys; 0 if there are none. */
void bo_survey_entropy(const bo_survey *survey, double *entropy, double *share);

/* Causal HYBRID attention needs adjacent keys, and the keys of a survey are sampled. This structure holds the first
 * tokens of the survey's heads, as heads of one sequence, and the softmax outputs of some queries at odd positions,
 * evenly spaced over each head. A shorter head is padded with zeros, which no earlier query sees. */
typedef struct bo_prefixes {
    size_t dim, value_dim, count;
    size_t lengths[BO_ADVICE_HEADS], tokens;      /* tokens of each head, and of the longest head */
    size_t queries[BO_ADVICE_HEADS], max_queries; /* queries with a softmax output, per head; maximum over heads */
    float *q, *k, *v, *out;                       /* count x tokens x width; out: memory for outputs of candidates */
    double *exact;                                /* count x max_queries x value_dim */
} bo_prefixes;
/* queries: maximum number over all heads. The caller must free *out even if the call fails. */
bo_status bo_prefixes_make(bo_context *context, const bo_call *call, const float *q, const float *k, const float *v,
                           size_t queries, bo_prefixes *out);
void bo_prefixes_free(bo_prefixes *prefixes);
/* Computes the error of an attention that has one key head per problem of the survey. INFINITY after an overflow. */
bo_status bo_prefixes_evaluate(bo_context *context, const bo_prefixes *prefixes, const bo_attention *attention,
                               double *error);

/* The result of an attention that has one key head per problem. */
typedef struct bo_survey_result {
    double error; /* relative error of the output */
    /* minimum ratio of a query's denominator to the denominator of the closed-form kernel; INFINITY if no feature is
     * negative. 1 is expected; near 0 the output is arbitrary. */
    double min_denominator;
} bo_survey_result;
bo_status bo_survey_evaluate(const bo_survey *survey, const bo_attention *attention, bo_survey_result *out);

/* The prediction of the variance formula, to first order: error² = floor² + slope / m for m independent frequencies.
 *
 * Let the weights a_ij sum to 1 over j, and let kernel values have relative errors ε_ij, Var ε_ij = ρ_ij / m. The
 * output then changes by Σ_j a_ij ε_ij (v_j - o_i). For values independent of the keys
 *     E|δo_i|² <= Σ_j a_ij² ρ_ij |v_j - o_i|² / m.
 * This is nearly an equality for large norms: the part of ε that all keys of a query share cancels with the
 * denominator, and for positive features at norms r that part is about 1/(1 + exp(r²)) of ρ. The floor is the distance
 * between the kernel of the kind and softmax: 0 except for RFA. */
typedef struct bo_survey_prediction {
    double floor, slope;
} bo_survey_prediction;
bo_status bo_survey_predict(const bo_survey *survey, const bo_attention *attention, bo_survey_prediction *out);

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* The candidates of advice, and the settings of trials. */

enum {
    BO_MIN_FEATURES = 16,          /* minimum number of features */
    BO_SEARCH_QUERIES = 256,       /* queries in the search for a number of features */
    BO_CONFIRM_QUERIES = 2048,     /* queries in its confirmation */
    BO_DRAWS = 3,                  /* number of draws that must all reach the target */
    BO_MAX_CHOSEN_FEATURES = 1024, /* maximum number of features that are chosen from data or used by a hybrid */
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

/* Data that all trials share. */
typedef struct bo_trials {
    bo_context *context;
    bo_survey search, confirmation; /* queries of the same heads */
    bo_prefixes prefixes;
    const bo_attention_desc *base; /* resolved descriptor of softmax attention */
    double norms;                  /* norm of √s q times norm of √s k */
    uint64_t seed;
    double target;
    size_t max_features; /* a power of two times BO_MIN_FEATURES */
} bo_trials;

/* One row of the advice, before it is written to the result. */
typedef struct bo_row {
    const bo_advice_candidate *candidate;
    bo_attention_desc desc;
    size_t features, max_features;
    double error, predicted;
} bo_row;

#endif
