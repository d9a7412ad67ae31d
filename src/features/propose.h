/* Replacement of frequencies: drawn with another seed, from another distribution with importance weights, or chosen by
 * data. Functions that change a map in place leave it unchanged on failure; no other thread may use the map during the
 * call. */
#ifndef BO_FEATURES_PROPOSE_H
#define BO_FEATURES_PROPOSE_H

#include <bochner/features.h>

/* Rows of inputs of the map. */
typedef struct bo_feature_sample {
    const float *rows;
    size_t count, stride;
} bo_feature_sample;

/* The source of frequencies. Zeros: the kernel's spectrum, as many as the map has, as drawn. */
typedef struct bo_frequency_origin {
    uint64_t seed;
    const double *factor; /* R of a proposal, dim x dim: see bo_features_propose */
    const bo_feature_sample *q,
        /* if both are given: chosen among `candidates` by bo_features_log_scores (BO_SAMPLING_OPTIMAL) */
        *k;
    size_t candidates;  /* 0: 8 times the number kept */
    size_t frequencies; /* 0: as many as the map has */
} bo_frequency_origin;

/* Creates a map like this one with other frequencies. */
bo_status bo_features_like(bo_context *context, const bo_features *features, const bo_frequency_origin *origin,
                           bo_features **out);
/* Swaps the contents of two maps; their owners stay. */
void bo_features_exchange(bo_features *a, bo_features *b);

/* Replaces the map by the map that bo_features_create would create with this seed, drawn from its proposal if it has
 * one. Refused for resampled frequencies, since the sample is not kept. */
bo_status bo_features_redraw(bo_context *context, bo_features *features, uint64_t seed);

/* For POSITIVE features of SOFTMAX with dense frequencies: replaces the frequencies of the map's seed by R w₀ ~ N(0, R
 * Rᵀ), R = factor (dim x dim, on inputs after length scales and √γ). Weights √(p/q) keep E[φ(x)·φ(y)] = exp(x·y). NULL:
 * N(0, I). */
bo_status bo_features_propose(bo_context *context, bo_features *features, const double *factor);

/* Returns R of its proposal (dim x dim), rounded to float. NULL: no proposal. */
const float *bo_features_proposal(const bo_features *features);

/* True if the map depends on the seed. */
bool bo_features_random(const bo_features *features);
/* True if its frequencies were chosen by data. */
bool bo_features_resampled(const bo_features *features);
/* True if sampling OPTIMAL leaves frequencies as drawn, because the norm of their features does not depend on the
 * frequency: a choice would reduce the second moment of the estimate by at most 3% if q and k have one distribution. */
bool bo_features_flat(const bo_features *features);
/* Checks that sampling OPTIMAL (from this many candidates; 0: the default), or a proposal, is possible for this map. If
 * not, the error gives the reason: BO_UNSUPPORTED, or for candidates BO_INVALID or BO_MEMORY. */
bo_status bo_features_check_choice(bo_context *context, const bo_features *features, size_t candidates);
bo_status bo_features_check_proposal(bo_context *context, const bo_features *features);

/* For each frequency i, whose estimate of the kernel is f_i(x)·f_i(y) including the weight: computes log E f_i(x)² over
 * the rows, for maps with one feature per frequency, or log √tr(A B) with A = E f_i(q) f_i(q)ᵀ, B = E f_i(k) f_i(k)ᵀ.
 * The second is half the logarithm of E (f_i(q)·f_i(k))² over independent rows. */
bo_status bo_features_log_energies(bo_context *context, const bo_features *features, const bo_feature_sample *x,
                                   double *log_mean);
bo_status bo_features_log_scores(bo_context *context, const bo_features *features, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_score);
/* Computes log E k(q, k)² over independent rows. */
bo_status bo_features_log_square(bo_context *context, const bo_features *features, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_square);
/* Computes log E[estimate²] for one frequency of N(0, I), or of the map's proposal if `proposed`, over independent rows
 * of q and k, by the formula for each pair. For POSITIVE features. INFINITY if the proposal does not satisfy 2 R Rᵀ >
 * I. */
bo_status bo_features_log_second(bo_context *context, const bo_features *features, bool proposed,
                                 const bo_feature_sample *q, const bo_feature_sample *k, double *log_second);
/* Returns the variance of φ(x)·φ(y) due to the choice among candidates, from the features zx, zy of resampled
 * frequencies, in the units of these features. bo_features_candidate_variance gives the variance of the candidates. */
double bo_features_choice_variance(const bo_features *features, const float *zx, const float *zy);
double bo_features_candidate_variance(const bo_features *features, const float *x, const float *y);

#endif
