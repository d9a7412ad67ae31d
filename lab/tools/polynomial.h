/* Polynomials with a known structure, evaluated modulo a prime and in double. Separation ranks are measured on them. */
#ifndef BO_LAB_TOOLS_POLYNOMIAL_H
#define BO_LAB_TOOLS_POLYNOMIAL_H

#include "matricization.h"

/* A polynomial network with one output, without normalization and activation functions. Its layers are P_d(x) = Π_{k ≤
 * d} (W_k x), the first from the inputs to `width` columns, followed by a linear form. Or a transformer of such layers:
 * inputs are `tokens` vectors of `width` numbers, and mean(X) is the mean over all tokens:
 *   d = 2   (X W₁) ∘ mean(X W₂)
 *   d = 3   (X W_q) ((X W_k)ᵀ X W_v)        linear attention without features and without a normalizer
 *   d = 4   the same, ∘ mean(X W₃)
 * The output is a linear form of the last token. The degree is d^layers. */
typedef struct lab_polynomial_desc {
    size_t degree, layers, width;
    size_t inputs; /* total number of inputs; for a transformer tokens · width */
    size_t tokens; /* 0: not a transformer */
} lab_polynomial_desc;

typedef struct lab_polynomial lab_polynomial;

/* Weights are random residues, and for double N(0, 1) divided by the square root of the number of summands. inputs,
 * width ≤ LAB_INPUTS; degree 1 to LAB_MAX_DEGREE, for transformers 2 to 4. */
enum { LAB_MAX_DEGREE = 8 };
bo_status lab_polynomial_create(bo_context *context, const lab_polynomial_desc *desc, bo_rng *rng,
                                lab_polynomial **out);
void lab_polynomial_destroy(lab_polynomial *net); /* NULL is allowed */
const lab_polynomial_desc *lab_polynomial_about(const lab_polynomial *net);
/* The residues: layer by layer W₁ … W_d (rows: outputs), then the output form. */
const uint32_t *lab_polynomial_weights(const lab_polynomial *net);
/* Split in the middle: the first half of the inputs (tokens), then the rest. */
lab_function lab_polynomial_function(const lab_polynomial *net);

/* Its degree, from values on a random line: the smallest k whose (k + 1)-th differences vanish, up to `max_degree`.
 * max_degree + 1: the degree is larger. */
bo_status lab_polynomial_degree(bo_context *context, const lab_function *f, size_t max_degree, bo_rng *rng,
                                size_t *degree);

/* The generic rank of a homogeneous polynomial of this degree in 2 · half inputs, split in the middle. Degree k in A
 * pairs the C(k + half − 1, half − 1) monomials of A with those of degree D − k of B, so the rank is Σ_k min of the
 * two. No polynomial has a larger rank. */
double lab_monomial_rank(size_t degree, size_t half);

/* Σ_{r ≤ rank} (a_r·A + a)^power (b_r·B + b)^power has separation rank `rank`, as long as it does not exceed the C(half
 * + power, power) monomials of a half (powers of generic linear forms are independent up to there). */
typedef struct lab_known_rank {
    size_t half, rank, power;
    uint32_t *exact; /* rank x 2 (half + 1) */
    double *real;
} lab_known_rank;
bo_status lab_known_rank_open(bo_context *context, size_t half, size_t rank, size_t power, bo_rng *rng,
                              lab_known_rank *out);
void lab_known_rank_close(lab_known_rank *known);
lab_function lab_known_rank_function(const lab_known_rank *known);

#endif
