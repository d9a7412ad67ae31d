/* separation-rank: the amount of interaction between two halves of its input that a network can express. */
#include "separation.h"

#define NAVON  "Attention is optimal building block (Navon 2021)"
#define LEVINE "Levine et al. 2020 (arXiv 2006.12467)"

#define CLAIM                                                                                                          \
    "The number of terms g(A) h(B) that a function of two halves of its input needs (its separation rank) grows with " \
    "the degree d^L of a network. For a budget of matrices, layers of degree 2, 3 or 4 achieve the largest rank, "     \
    "depending on the cost of a layer. Attention with r features allows r + 1 terms across a cut of a sequence; "      \
    "softmax attention has no such bound."

#define METHOD                                                                                                         \
    "Inputs are split in the middle. A function becomes a matrix with one row per setting of the first half and one "  \
    "column per setting of the second. Its rank is a lower bound of the separation rank; with more random settings "   \
    "than the rank, the two are equal with probability near 1. Polynomial networks (layers of d factors W x, without " \
    "normalization, with random weights) are evaluated and their matrices eliminated modulo 2^31 - 1, so nothing is "  \
    "rounded; the same is done in float64 for comparison. Depth, width and inputs vary up to matrices of 1,800 rows. " \
    "Sums of monomials: 4,000 for each number of terms, 2 + 2 inputs, exponents 1 to 3, random coefficients. "         \
    "Distances d1 (mean error), d2 (mean squared error) and the largest error are measured between matrices and "      \
    "their truncated singular value decompositions on grids of [-1, 1]; the resulting rank is the smallest possible "  \
    "in d2 and an upper bound in the others. Attention: 64 prefixes of 8 tokens before 64 suffixes of 4, dimension "   \
    "4, one number of the last output. Language models: 2 layers, width 32, 1,000 steps of 32 windows of 32 bytes; "   \
    "48 prefixes of 24 held-out bytes before 48 suffixes of 8; the logits of four letters, with row and column means " \
    "subtracted. Models at initialization have random output matrices. Bounds come from theory (identities, ratios "   \
    "of 1) or were set before the first run."

static const bo_lab_claim claims[] = {
    {.name = "known-rank",
     .statement = "Ranks modulo a prime recover all polynomials of known separation rank, 1 to 35.",
     .number = "number of wrong ranks, out of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 4.3: the rank of a matricization is a lower bound"},
    {.name = "degree",
     .statement = "L layers of degree d form a polynomial of degree d^L, in networks on vectors and on tokens.",
     .number = "number of networks of another degree, out of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2",
     .passage = LAB_NAVON "line 269: \"degree(T_p^d) = […] = d^p\""},
    {.name = "proxy",
     .statement = "The rank depends only on the total degree: four layers of degree 2 and two layers of degree 4 have "
                  "the same rank.",
     .number = "difference of the ranks",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source =
         LAB_NAVON "line 267, which suggests the degree as a proxy for the expressiveness; that nothing else matters "
                   "is our reading"},
    {.name = "monomials",
     .statement = "With layers as wide as the input, the rank equals the number of monomials that can be paired.",
     .number = "fraction of networks with another rank",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "above",
     .statement = "In networks on vectors, every layer multiplies the rank by d to the power of the number of inputs "
                  "per half if the degree exceeds this number.",
     .number = "growth of ln rank per layer divided by (inputs per half · ln d)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = "the law of " NAVON ", equation 3, for layers without tokens"},
    {.name = "below",
     .statement = "Below the threshold, the rank grows as a power of the width with exponent degree / 2.",
     .number = "exponent of the rank as a power of the inputs per half, divided by (degree / 2)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.1,
     .source = LEVINE},
    {.name = "countings",
     .statement =
         "A budget of matrices achieves the largest rank with d = 2 if a layer costs d - 1 matrices, with d = 3 if it "
         "costs d, and with d = 4 if it costs d + 1.",
     .number = "number of cost models whose best d is the predicted one, out of 3",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 3,
     .source = NAVON ", section 1.2, which counts d"},
    {.name = "rounding",
     .statement = "Singular values in float64 also give the correct rank.",
     .number = "smallest numerical rank divided by exact rank",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1},
    {.name = "term-rank",
     .statement =
         "The rank of a sum of monomials with random coefficients is the size of the largest matching between its "
         "exponents in A and in B; it is the number of terms d if no two terms agree in either.",
     .number = "number of polynomials with another rank",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 5: which polynomials of F_d have rank d?"},
    {.name = "measure",
     .statement = "The fraction of sums of four monomials with rank 4 is the probability that their exponents differ.",
     .number = "measured fraction divided by this probability",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1,
     .source = NAVON ", section 5: what is their measure?"},
    {.name = "epsilon-measure",
     .statement =
         "Almost all sums of four monomials with rank 4 have it robustly: no function of rank 3 is within 1% in d₂.",
     .number = "fraction of them",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.9,
     .source = LAB_NAVON "line 249: \"we can try to claim that almost all of the relevant polynomials are from high "
                         "ε-sep-rank\"; ε, the rank and the polynomials are our choice"},
    {.name = "losses",
     .statement =
         "The choice of distance changes the error of an approximation of lower rank only by a factor that does not "
         "depend on the number of points, also for the function that is 1 if A = B.",
     .number = "exponent of √d₂ / d₁ as a power of the grid size",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = LAB_NAVON "line 207: \"all the norms on R^n are equivalent\", which holds for a fixed number n of "
                         "points; that the constants do not depend on n is our extension"},
    {.name = "losses-smooth",
     .statement =
         "For a polynomial of fixed degree, the choice of distance changes the error of an approximation of lower "
         "rank only by a constant factor.",
     .number = "absolute exponent of √d₂ / d₁ as a power of the grid size",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = NAVON ", section 4.5"},
    {.name = "cut",
     .statement = "Attention with r features and no denominator has rank at most r + 1 across a cut of the sequence.",
     .number = "largest rank / (r + 1), for r = 2 to 32",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1,
     .source = "one coordinate of the state Σ φ(k) v consists of r numbers"},
    {.name = "cut-softmax",
     .statement = "Softmax attention has no such bound: on the same sequences, its rank is at least twice the bound "
                  "for 8 features.",
     .number = "rank of softmax attention / 9",
     .rule = BO_LAB_AT_LEAST,
     .bound = 2},
    {.name = "trained-softmax",
     .statement =
         "In a trained language model with softmax attention, prefix and suffix interact in more ways than in one "
         "with 4 features.",
     .number = "effective rank of a logit with softmax attention divided by that with 4 features",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "trained-features",
     .statement = "In a language model with 64 features, prefix and suffix interact in more ways than in one with 4.",
     .number = "effective rank of a logit with 64 features divided by that with 4",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "training",
     .statement = "Training increases the effective rank of a softmax model across the cut.",
     .number = "effective rank of a logit after training divided by that at initialization",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1},
};

static const bo_lab_table tables[] = {
    {.name = "degree",
     .title = "Exact separation rank by degree, 3 + 3 inputs",
     .rows = "degree d^L",
     .values = "rank",
     .plot = BO_LAB_POINTS,
     .log_x = true,
     .log_y = true,
     .theory = "monomials"},
    {.name = "depth", .title = "Rank by depth, layers of degree 2", .rows = "layers", .values = "ln rank"},
    {.name = "inputs",
     .title = "Rank by width, layers of degree 2 as wide as the input",
     .rows = "inputs per half",
     .values = "rank",
     .log_x = true,
     .log_y = true},
    {.name = "layer-width",
     .title = "Rank with layers narrower than 3 + 3 inputs",
     .rows = "width",
     .values = "rank",
     .log_y = true},
    {.name = "budget",
     .title = "Growth of the rank per matrix, by cost of a layer of degree d",
     .rows = "cost of a layer",
     .values = "growth of ln rank per matrix",
     .plot = BO_LAB_BARS},
    {.name = "tokens",
     .title = "Rank of layers that mix four tokens",
     .rows = "layers",
     .values = "rank",
     .log_y = true},
    {.name = "rounding",
     .title = "Rank computed exactly and from singular values",
     .rows = "network",
     .values = "rank",
     .plot = BO_LAB_BARS},
    {.name = "measure",
     .title = "Fraction of sums of d monomials with rank d, exactly and up to ε",
     .rows = "d, number of terms",
     .values = "fraction of polynomials",
     .theory = "different exponents"},
    {.name = "losses",
     .title = "Ratios of truncation errors in different distances",
     .rows = "points on each side",
     .values = "ratio of distances",
     .log_x = true,
     .log_y = true},
    {.name = "epsilon",
     .title = "Rank up to ε of a network of exact rank 70",
     .rows = "ε",
     .values = "rank",
     .log_x = true,
     .log_y = true},
    {.name = "cut",
     .title = "Rank across a cut of the sequence, up to 10⁻⁵",
     .rows = "features",
     .values = "rank",
     .log_x = true,
     .log_y = true,
     .theory = "features + 1"},
    {.name = "trained",
     .title = "Interaction of 24 bytes with the following 8 bytes in language models",
     .rows = "attention",
     .values = "effective rank",
     .plot = BO_LAB_BARS},
    {.name = "trained-more",
     .title = "The same models: rank up to 1% in d₂, and held-out loss",
     .rows = "attention",
     .values = "rank, or nats per byte",
     .plot = BO_LAB_NO_PLOT},
};

static bo_status measure(lab_run *run)
{
    BO_TRY(lab_separation_networks(run));
    BO_TRY(lab_separation_sums(run));
    BO_TRY(lab_separation_losses(run));
    return lab_separation_attention(run);
}

const lab_experiment lab_separation_rank = {{.name = "separation-rank",
                                             .group = LAB_DEGREE,
                                             .title = "Separation rank: degree, depth, width and attention",
                                             .claim = CLAIM,
                                             .source = NAVON "; " LEVINE,
                                             .method = METHOD,
                                             LAB_CLAIMS(claims),
                                             LAB_TABLES(tables),
                                             .text = true},
                                            measure};
