/* Other frequencies: drawn anew, from another law with importance weights, or chosen by data. What changes a map in
 * place leaves it as it was on failure, and nobody else may be using it meanwhile. */
#ifndef BO_FEATURES_PROPOSE_H
#define BO_FEATURES_PROPOSE_H

#include <bochner/features.h>

/* Rows as the map takes them. */
typedef struct bo_feature_sample {
    const float *rows;
    size_t count, stride;
} bo_feature_sample;

/* Where frequencies come from. Zeros: the kernel's spectrum, as many as the map has, as drawn. */
typedef struct bo_frequency_origin {
    uint64_t seed;
    const double *factor; /* R of a proposal, dim x dim: see bo_features_propose */
    const bo_feature_sample *q,
        *k;             /* both: chosen out of `candidates` by sqrt(E|f(q)|² E|f(k)|²) (BO_SAMPLING_OPTIMAL) */
    size_t candidates;  /* 0: 8 times those kept */
    size_t frequencies; /* 0: as many as the map has */
} bo_frequency_origin;

/* A map like this one with other frequencies. */
bo_status bo_features_like(bo_context *context, const bo_features *features, const bo_frequency_origin *origin,
                           bo_features **out);
/* The contents of two maps change places, their owners stay. */
void bo_features_exchange(bo_features *a, bo_features *b);

/* The map that bo_features_create would have made with this seed; from its proposal, where it has one. Refused for
 * resampled frequencies: the sample is gone. */
bo_status bo_features_redraw(bo_context *context, bo_features *features, uint64_t seed);

/* POSITIVE features of SOFTMAX with dense frequencies: those of the map's seed become R w₀ ~ N(0, R Rᵀ), R = factor
 * (dim x dim, on inputs after length scales and √γ), and weights √(p/q) keep E[φ(x)·φ(y)] = exp(x·y). NULL: N(0, I)
 * again. */
bo_status bo_features_propose(bo_context *context, bo_features *features, const double *factor);

/* Its R (dim x dim), as far as a float can tell; NULL: no proposal. */
const float *bo_features_proposal(const bo_features *features);

/* Its frequencies were chosen by data. */
bool bo_features_resampled(const bo_features *features);
/* Sampling OPTIMAL leaves frequencies as drawn: every one has the same energy whatever the data. */
bool bo_features_flat(const bo_features *features);
/* Sampling OPTIMAL (from this many candidates; 0: the usual), or a proposal, fits this map; if not, the reason is told:
 * BO_UNSUPPORTED, or of candidates BO_INVALID or BO_MEMORY. */
bo_status bo_features_check_choice(bo_context *context, const bo_features *features, size_t candidates);
bo_status bo_features_check_proposal(bo_context *context, const bo_features *features);

/* For each frequency i, whose estimate of the kernel is f_i(x)·f_i(y), weight included: log E|f_i(x)|² over the rows,
 * and log sqrt(E|f_i(q)|² E|f_i(k)|²). */
bo_status bo_features_log_energies(bo_context *context, const bo_features *features, const bo_feature_sample *x,
                                   double *log_mean);
bo_status bo_features_log_scores(bo_context *context, const bo_features *features, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_score);
/* log E k(q, k)² over independent rows. */
bo_status bo_features_log_square(bo_context *context, const bo_features *features, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_square);
/* log E[estimate²] for one frequency of N(0, I), or of the map's proposal where `proposed`, over independent rows of q
 * and k, by the formula for each pair. POSITIVE features; INFINITY where the proposal does not have 2 R Rᵀ > I. */
bo_status bo_features_log_second(bo_context *context, const bo_features *features, bool proposed,
                                 const bo_feature_sample *q, const bo_feature_sample *k, double *log_second);
/* Variance of φ(x)·φ(y) from the features zx, zy of resampled frequencies themselves, in their unit: that of the choice
 * among candidates. What the candidates add is bo_features_candidate_variance. */
double bo_features_choice_variance(const bo_features *features, const float *zx, const float *zy);
double bo_features_candidate_variance(const bo_features *features, const float *x, const float *y);

#endif
