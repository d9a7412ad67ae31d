/* Polynomials with a known structure, evaluated modulo a prime and in double: what separation ranks are measured on. */
#ifndef BO_LAB_TOOLS_POLYNOMIAL_H
#define BO_LAB_TOOLS_POLYNOMIAL_H

#include "matricization.h"

/* A polynomial network without norms and activation functions, of one number. Layers of P_d(x) = Π_{k ≤ d} (W_k x), the first
 * from the inputs to `width` columns, then a linear form. Or a transformer of such layers: inputs are `tokens` vectors of
 * `width` numbers, and with mean(X) that over all tokens,
 *   d = 2   (X W₁) ∘ mean(X W₂)
 *   d = 3   (X W_q) ((X W_k)ᵀ X W_v)        linear attention without features and without a normalizer
 *   d = 4   that, ∘ (X W₃)
 * after which a linear form of the last token comes out. The degree is d^layers. */
typedef struct lab_polynomial_desc {
    size_t degree, layers, width;
    size_t inputs; /* numbers in all; of a transformer tokens · width */
    size_t tokens; /* 0: no transformer */
} lab_polynomial_desc;

typedef struct lab_polynomial lab_polynomial;

/* Weights are random residues, and for double N(0, 1) divided by the root of what is summed. inputs, width ≤ LAB_INPUTS,
 * degree 1 to LAB_DEGREES, transformers 2 to 4. */
enum { LAB_DEGREES = 8 };
bo_status lab_polynomial_create(bo_context *context, const lab_polynomial_desc *desc, bo_rng *rng,
                                lab_polynomial **out);
void lab_polynomial_destroy(lab_polynomial *net); /* NULL is fine */
/* Split in the middle: the first half of the inputs (tokens), the rest. */
lab_function lab_polynomial_function(const lab_polynomial *net);

/* Its degree, found by values on a random line: the least k whose (k + 1)-th differences vanish, up to `most`. most + 1: it
 * is larger. */
bo_status lab_polynomial_degree(bo_context *context, const lab_function *f, size_t most, bo_rng *rng, size_t *degree);

/* The generic rank of a homogeneous polynomial of this degree in 2 · half inputs, split in the middle: A-degree k pairs the
 * C(k + half − 1, half − 1) monomials of A with those of degree D − k of B, Σ_k min of the two. No polynomial has more. */
double lab_monomial_rank(size_t degree, size_t half);

/* Σ_{r ≤ rank} (a_r·A + a)^power (b_r·B + b)^power: its separation rank is `rank`, as long as that does not exceed the
 * C(half + power, power) monomials of a half (powers of generic linear forms are independent up to there). */
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
