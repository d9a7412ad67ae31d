/* Representations of the kernel exp(x·y) = E f(x, w) f(y, w) by independent features, one number f each. By default w
 * has the distribution p of the representation. The optimal density over rows x of the data (Sernau, Bonacina and
 * Saurous 2024, 2406.18802) is
 *
 *     ψ*(w) = p(w) E_x f(x, w)² / E_x K(x, x),     f -> f √(p/ψ*),
 *
 * and is sampled exactly: first a row with probability proportional to K(x, x), then w from p(w) f(x, w)² / K(x, x), by
 * a shift of the normal distribution if f is an exponential and by rejection if it is a cosine or a product. All
 * features then have the same energy K(x, x) / R over the data. */
#ifndef BO_LAB_FEATURES_REPRESENTATIONS_H
#define BO_LAB_FEATURES_REPRESENTATIONS_H

#include "../experiment.h"

typedef enum lab_representation {
    LAB_COSINE,      /* √2 cos(w·x + b) e^(|x|²/2), b uniform */
    LAB_SINE_COSINE, /* √2 cos(w·x) or √2 sin(w·x), chosen at random, times e^(|x|²/2) */
    LAB_POSITIVE,    /* e^(w·x - |x|²/2) */
    LAB_BOUNDED,     /* D e^(A|w|² + B w·x - |x|²/2): FAVOR++, Likhosherstov et al. 2022 */
    LAB_PRODUCT,     /* √(2ⁿ⁺¹/n!) Π_{j≤n} r_j·x, P(n) = 2⁻ⁿ⁻¹, r_j signs: random Maclaurin (Kar and Karnick 2012) */
    LAB_REPRESENTATIONS
} lab_representation;
extern const char *const lab_representation_names[LAB_REPRESENTATIONS];

/* Rows of data with K(x, x) of each. */
typedef struct lab_rows {
    size_t count, dim;
    float *x;
    double *diagonal;
} lab_rows;

/* Draws directions from an anisotropic normal distribution (standard deviations 0.8^j) and norms uniformly from
 * [min_norm, max_norm]. */
bo_status lab_rows_create(bo_context *context, bo_rng *rng, size_t count, size_t dim, double min_norm, double max_norm,
                          lab_rows *out);
void lab_rows_free(lab_rows *rows);
double lab_rows_diagonal(const lab_rows *rows); /* E K(x, x) */

/* Draws independent features into z (rows x features). */
bo_status lab_draw_features(bo_context *context, lab_representation representation, bool optimal, const lab_rows *rows,
                            size_t features, uint64_t seed, float *z);

#endif
