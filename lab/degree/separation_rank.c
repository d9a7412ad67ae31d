/* separation-rank: how much of what two halves of an input say to each other a network can express. */
#include "separation.h"

#define NAVON  "Attention is optimal building block (Navon 2021)"
#define LEVINE "Levine et al. 2020 (2006.12467)"

#define CLAIM                                                                                                          \
    "The number of terms g(A) h(B) that a function of two halves of its input needs grows with the degree d^L of a "   \
    "network. A budget of matrices buys the most of it with layers of degree 2, 3 or 4, depending on what a layer is " \
    "said to cost. Attention with r features lets r + 1 terms across a cut of a sequence, softmax has no such bound."

#define METHOD                                                                                                         \
    "Inputs are split in the middle. A function becomes a matrix, a row for each setting of the first half and "       \
    "a column for each of the second; its rank is a lower bound of the separation rank, and with random "              \
    "settings, more than the rank, equal to it but for an accident. Polynomial networks (layers of d factors W "       \
    "x, no norms, random weights) are evaluated and their matrices eliminated modulo 2^31 - 1, so that nothing "       \
    "is rounded; the same in float64 beside it. Depth, width and inputs vary as far as matrices of 1,800 lines "       \
    "go. Sums of monomials: 4,000 a number of terms, 2 + 2 inputs, exponents 1 to 3, random coefficients. "            \
    "Distances d1 (mean error), d2 (mean squared) and the largest error are taken between matrices and their "         \
    "truncated singular value decompositions on grids of [-1, 1]; the rank that they reach is the least in d2 "        \
    "and bounds it from above in the others. Attention: 64 prefixes of 8 tokens before 64 suffixes of 4, "             \
    "dimension 4, one number of the last output. Language models: 2 layers, width 32, 1,000 steps of 32 "              \
    "windows of 32 bytes; 48 prefixes of 24 held-out bytes before 48 suffixes of 8, the logits of four "               \
    "letters, row and column means taken off; as drawn means with random output matrices. Bounds come from "           \
    "theory (identities, ratios of 1) or were set before the first run."

static const bo_lab_claim claims[] = {
    {.name = "known-rank",
     .statement = "Ranks modulo a prime recover polynomials of known separation rank, 1 to 35, without exception.",
     .number = "ranks that were missed, of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 4.3: the rank of a matricization is a lower bound"},
    {.name = "degree",
     .statement = "L layers of degree d are a polynomial of degree d^L, as networks of numbers and of tokens.",
     .number = "networks of another degree, of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2"},
    {.name = "proxy",
     .statement = "The degree stands for the rank: four layers of degree 2 and two of degree 4 have the same.",
     .number = "difference of the ranks",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2"},
    {.name = "monomials",
     .statement = "With layers as wide as the input, the rank is the number of monomials that can be paired, no less.",
     .number = "share of networks with another rank",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "document-rank",
     .statement = "Six inputs through two layers of degree 3 have the separation rank d^(L d_x) = 3^12.",
     .number = "ln rank / (L d_x ln d)",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1,
     .source = NAVON ", equation 3, taken as a number"},
    {.name = "above",
     .statement = "Beyond the threshold L > log_d d_x every layer multiplies the rank by d to the power of the inputs "
                  "of a half.",
     .number = "growth of ln rank a layer / (inputs of a half · ln d)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = NAVON ", equation 3; " LEVINE},
    {.name = "below",
     .statement = "Below the threshold the rank grows with width as a power of it, whose exponent is half the degree.",
     .number = "exponent of the rank in the inputs of a half / (degree / 2)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.1,
     .source = LEVINE},
    {.name = "countings",
     .statement =
         "A budget of matrices buys the most rank with d = 2 where a layer costs d - 1 of them, 3 where it costs d, 4 "
         "where it costs d + 1.",
     .number = "ways of counting whose best d is the predicted one, of 3",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 3,
     .source = NAVON ", section 1.2, which counts d"},
    {.name = "proxy-tokens",
     .statement =
         "The degree stands for the rank of layers that mix tokens, too: two of degree 2 and one of degree 4 have the "
         "same.",
     .number = "difference of the ranks",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2"},
    {.name = "rounding",
     .statement = "Singular values in float64 count the rank right, too.",
     .number = "least numerical rank / exact rank",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1},
    {.name = "term-rank",
     .statement =
         "A sum of monomials with random coefficients has the rank of the largest matching between its exponents in A "
         "and in B: all of its d terms count where no two agree in either.",
     .number = "polynomials with another rank",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 5: which polynomials of F_d have rank d?"},
    {.name = "measure",
     .statement = "So the share of sums of four monomials that have rank 4 is the chance that their exponents differ.",
     .number = "measured share / that chance",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1,
     .source = NAVON ", section 5: what is their measure?"},
    {.name = "epsilon-measure",
     .statement =
         "Almost all sums of four monomials that have rank 4 have it robustly: nothing of rank 3 is within 1% in d₂.",
     .number = "share of them",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.9,
     .source = NAVON ", section 5.1.2"},
    {.name = "losses",
     .statement =
         "Which loss measures the distance matters by a constant only: of the function that is 1 where A = B, too.",
     .number = "exponent of √d₂ / d₁ in the size of the grid",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = NAVON ", section 4.5"},
    {.name = "losses-smooth",
     .statement = "Of a polynomial of fixed degree the loss that measures the distance matters by a constant only.",
     .number = "exponent of √d₂ / d₁ in the size of the grid, its size",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = NAVON ", section 4.5"},
    {.name = "cut",
     .statement = "Attention with r features and no denominator has rank r + 1 at most across a cut of the sequence.",
     .number = "largest rank / (r + 1), r = 2 to 32",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1,
     .source = "one coordinate of the state Σ φ(k) v has r numbers"},
    {.name = "cut-softmax",
     .statement = "Softmax attention is not bound so: on the same sequences its rank is twice what 8 features allow.",
     .number = "rank of softmax / 9",
     .rule = BO_LAB_AT_LEAST,
     .bound = 2},
    {.name = "trained-softmax",
     .statement =
         "Of language models trained alike, that with softmax lets prefix and suffix interact in more ways than that "
         "with 4 features.",
     .number = "effective rank of a logit, softmax / 4 features",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "trained-features",
     .statement = "A language model with 64 features lets prefix and suffix interact in more ways than one with 4.",
     .number = "effective rank of a logit, 64 / 4 features",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "training",
     .statement = "Training raises the effective rank of a softmax model across the cut.",
     .number = "effective rank of a logit, trained / as drawn",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1},
};

static const bo_lab_table tables[] = {
    {.name = "degree",
     .title = "Exact separation rank by degree, 3 + 3 inputs",
     .rows = "degree d^L",
     .values = "rank",
     .picture = BO_LAB_POINTS,
     .log_x = true,
     .log_y = true,
     .theory = "monomials"},
    {.name = "depth", .title = "Depth: layers of degree 2", .rows = "layers", .values = "ln rank"},
    {.name = "inputs",
     .title = "Width: layers of degree 2 as wide as the input",
     .rows = "inputs of a half",
     .values = "rank",
     .log_x = true,
     .log_y = true},
    {.name = "layer-width",
     .title = "Layers narrower than 3 + 3 inputs",
     .rows = "width",
     .values = "rank",
     .log_y = true},
    {.name = "budget",
     .title = "What a matrix buys, by what a layer of degree d costs",
     .rows = "a layer costs",
     .values = "growth of ln rank a matrix",
     .picture = BO_LAB_BARS},
    {.name = "tokens", .title = "Layers that mix four tokens", .rows = "layers", .values = "rank", .log_y = true},
    {.name = "rounding",
     .title = "Rank counted exactly and by singular values",
     .rows = "network",
     .values = "rank",
     .picture = BO_LAB_BARS},
    {.name = "measure",
     .title = "Sums of d monomials of rank d, and of that rank up to ε",
     .rows = "terms d",
     .values = "share of polynomials",
     .theory = "different exponents"},
    {.name = "losses",
     .title = "Distances to the truncation, by metric",
     .rows = "points on either side",
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
     .title = "Interaction of 24 bytes with the 8 that follow, in language models",
     .rows = "attention",
     .values = "effective rank",
     .picture = BO_LAB_BARS},
    {.name = "trained-more",
     .title = "The same models: rank up to 1% in d₂, and what they have learned",
     .rows = "attention",
     .values = "as the column says",
     .picture = BO_LAB_NO_PICTURE},
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
