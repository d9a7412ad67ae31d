/* The separation rank of a token network (polynomial.h), exactly and for larger networks than a matricization of the
 * whole function allows.
 *
 * A layer maps every token x_i to T x_i, with one matrix T for all tokens that depends only on the sums s = Σ x_j and
 * G = Σ x_j x_jᵀ. The output is therefore a linear form of T(s, G) x_last, a polynomial in the sums of both halves. It
 * is the sum of its parts of degree k in the tokens of A and d^L − k in those of B. Functions of different degrees are
 * independent, so the separation rank is the sum of the ranks of the parts, whose matrices are much smaller. Values at
 * several multiples of A give the parts by interpolation modulo the prime. */
#ifndef BO_LAB_TOOLS_TOKEN_RANK_H
#define BO_LAB_TOOLS_TOKEN_RANK_H

#include "polynomial.h"

enum { LAB_TOKEN_WIDTH = 8 }; /* at most */

typedef struct lab_sums {
    uint32_t s[LAB_TOKEN_WIDTH];                   /* Σ x */
    uint32_t g[LAB_TOKEN_WIDTH * LAB_TOKEN_WIDTH]; /* Σ x xᵀ, width x width */
} lab_sums;
/* Of `tokens` vectors of `width` residues. */
lab_sums lab_sums_of(const uint32_t *x, size_t tokens, size_t width);
/* The output from the sums over all tokens and the last token. */
uint32_t lab_token_output(const lab_polynomial *net, const lab_sums *sums, const uint32_t *last);

/* rank: for the first half of the tokens and the rest. max_rank: no polynomial with these degrees in the sums has a
 * larger rank, because a part of degree k has at most as many terms as there are monomials of its degree on either
 * side; the matrices are larger than this, so the rank is not limited by their size. tokens: at least 2, even. Progress
 * is reported to the context's callback, which may cancel. */
typedef struct lab_token_ranks {
    size_t rank;
    double max_rank;
} lab_token_ranks;
bo_status lab_token_rank(bo_context *context, const lab_polynomial *net, bo_rng *rng, lab_token_ranks *out);
/* `max_rank` alone, without a network. */
double lab_token_max_rank(const lab_polynomial_desc *desc);

#endif
