/* The separation rank of the blocks of a language model: how strongly the two halves of a sequence interact in the
 * computation up to a block.
 *
 * sep(f) is the smallest R with f(A, B) = Σ_{r ≤ R} g_r(A) h_r(B), where A is the first half of the tokens, B the
 * second. It is measured on `settings` first halves combined with `settings` second halves: the residual stream of the
 * last token, in a random direction, is a matrix with one row per A and one column per B. Its rank is a lower bound of
 * sep(f). Rows and columns are centered, which removes the dependence on one half only. For non-polynomial networks
 * every matrix has full rank, so the effective rank and the rank within 10% are reported.
 *
 *     bo_separation *places;                                       // 1 + 2 layers
 *     bo_separation_measure(context, model, ids, count, NULL, &places); */
#ifndef CLI_SHARED_SEPARATION_H
#define CLI_SHARED_SEPARATION_H

#include <bochner/model.h>

/* Zero means the default in every field. */
typedef struct bo_separation_desc {
    size_t tokens;     /* of a sequence, even (default: 16, or the context of the model if that is shorter) */
    size_t settings;   /* of each half, at least 2 (default: 24) */
    size_t directions; /* of the residual stream (default: 4) */
    uint64_t seed;
} bo_separation_desc;

/* The residual stream at one place, averaged over the directions. */
typedef struct bo_separation {
    double effective; /* exp(entropy of σ² / Σσ²); at most `settings` - 1; 0: the halves do not interact */
    double within;    /* the rank of the nearest matrix within 10% of the size of the matrix, in the mean square */
    double share;     /* interaction: the part of the variance that remains after centering rows and columns */
} bo_separation;

/* ids: a text from which halves are taken (count at least half a sequence); NULL: random tokens. *out: 1 + 2 layers
 * places (the embedding, then after the mixer and after the MLP of each layer); release it with bo_free(). */
bo_status bo_separation_measure(bo_context *context, const bo_model *model, const int32_t *ids, size_t count,
                                const bo_separation_desc *desc, bo_separation **out);

#endif
