/* separation-growth: the growth of the separation rank of token networks with degree, depth and width, exactly. */
#include "../experiment.h"
#include <math.h>
#include <stdio.h>

#define NAVON  "Attention is optimal building block (Navon 2021)"
#define LEVINE "Levine et al. 2020 (arXiv 2006.12467)"

#define EQUATION_1                                                                                                     \
    LAB_NAVON "lines 13-17: \"as long as L > log_3 d_x: sep(y) = Θ(3^(L·d_x)), "                                       \
              "where d_x is the layer width, and L is the depth\""
#define EQUATION_3                                                                                                     \
    LAB_NAVON "lines 26-35: \"each from degree d then the obtained "                                                   \
              "expressive power is sep(Y_L^d) = Θ(d^(L·d_x)) […] as long as L > log_d d_x\""

#define CLAIM                                                                                                          \
    "The separation rank of L token-mixing layers of degree d and width d_x grows as d^(L d_x) once L > log_d d_x. "   \
    "This is a statement about growth: with each layer the rank is multiplied by d^d_x, up to a constant."

#define METHOD                                                                                                         \
    "Tokens are split in the middle. The output is a linear form of the last token after L layers without "            \
    "normalization: (X W1) ∘ ΣX W2 for degree 2, (X Wq)(X Wk)ᵀ X Wv (the linear transformer) for degree 3, and "       \
    "the latter ∘ ΣX W3 for degree 4, where Σ is the sum over tokens. Equation 2 of the source, X Π (W_k Xᵀ), "        \
    "has factors whose sizes do not fit for even degrees; these layers have its degree, its d matrices, and "          \
    "one factor of the token itself. Weights and tokens are random residues modulo 2^31 - 1. The output "              \
    "depends on the tokens only through s = Σ x, G = Σ x xᵀ and the last token; it is split into parts by the "        \
    "degree in the first half, and the rank is the sum of the ranks of their matrices. Each matrix is larger "         \
    "than the largest possible rank (the number of monomials of the part on either side). A rank modulo the "          \
    "prime is at most the rank for almost all weights, so a rank that reaches the largest possible one is "            \
    "exact. The exponent of a layer is the growth of ln rank from L - 1 to L layers divided by ln d; the law "         \
    "predicts d_x. It is evaluated at the largest depth of each network. All these depths exceed log_d "               \
    "d_x. Halves have one token, or d_x + 1 tokens, which is enough for s and G to take all values."

static const bo_lab_claim claims[] = {
    {.name = "depth",
     .statement = "With one token in each half, each layer multiplies the rank by d^d_x (d = 2, 3, 4).",
     .number = "exponent of the last layer divided by d_x, mean over d and d_x = 1 to 3",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = EQUATION_3},
    {.name = "depth-degree-2",
     .statement = "With several tokens in each half, layers of degree 2 also multiply the rank by 2^d_x.",
     .number = "exponent of the last layer divided by d_x, mean over d_x = 1 and 2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = EQUATION_3},
    {.name = "depth-transformer",
     .statement = "With several tokens in each half, layers of the linear transformer (degree 3) also multiply the "
                  "rank by 3^d_x.",
     .number = "exponent of the last layer divided by d_x, d_x = 2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = EQUATION_1},
    {.name = "depth-degree-4",
     .statement = "With several tokens in each half, layers of degree 4 also multiply the rank by 4^d_x.",
     .number = "exponent of the last layer divided by d_x, d_x = 1",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = EQUATION_3},
    {.name = "depth-sums",
     .statement =
         "With several tokens in each half, the exponent is the number of sums that reach the output: d_x for degree "
         "2 (s), d_x (d_x + 1)/2 for degree 3 (G), and both together for degree 4.",
     .number = "exponent of the last layer divided by this number, mean over d and d_x",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15},
    {.name = "width",
     .statement = "At fixed depth L > log_d d_x, one more unit of width multiplies the rank by d^L.",
     .number = "growth of ln rank from width 3 to 4 divided by L ln d, one token in each half, mean over d",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = EQUATION_3 ", read as a law in d_x with a constant that does not depend on d_x"},
    {.name = "logarithm",
     .statement = "For L > log_d d_x and one token in each half, ln rank is at least half of d_x (L - log_d d_x) ln d.",
     .number = "smallest ln rank / (d_x (L ln d - ln d_x))",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.5,
     .source = LEVINE ", where ln rank is linear in L and in d_x up to logarithms"},
    {.name = "not-above",
     .statement = "With one token in each half, the rank does not exceed d^(L d_x).",
     .number = "largest ln rank / (L d_x ln d)",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1},
    {.name = "monomials",
     .statement = "Random weights reach the largest rank that any polynomial of these degrees in s, G and the last "
                  "token has.",
     .number = "smallest rank divided by this number, over all networks",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1},
    {.name = "budget",
     .statement = "A budget of 12 matrices is too small for the growth law to decide: with one token in each half, "
                  "layers of degree 3 have a smaller rank than layers of degree 2 and 4.",
     .number = "largest ln (rank of degree 3 / largest rank of degrees 2 and 4) over d_x = 1 and 2",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = LAB_NAVON "lines 35-53, which maximize d^(L·d_x) at a fixed budget and leave out constant factors"},
    {.name = "proxy",
     .statement = "With one token in each half, the rank depends only on the total degree: layers of degree 2 and half "
                  "as many layers of degree 4 have the same rank.",
     .number = "largest |ln of the ratio of the ranks|, d_x = 1 to 3",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = LAB_NAVON "line 267, which suggests the degree as a proxy for the rank"},
    {.name = "proxy-several",
     .statement = "Control: with several tokens in each half, it does not depend on the total degree alone.",
     .number = "rank of 2 layers of degree 4 divided by rank of 4 layers of degree 2, d_x = 2",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 2},
    {.name = "whole",
     .statement = "Control: the matrix of the whole function has the same rank.",
     .number = "number of networks with another rank, out of 6",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
};

static const bo_lab_table tables[] = {
    {.name = "one-token",
     .title = "Exact separation rank, one token in each half",
     .rows = "layers",
     .values = "rank",
     .log_y = true},
    {.name = "many-tokens",
     .title = "Exact separation rank, d_x + 1 tokens in each half",
     .rows = "layers",
     .values = "rank",
     .log_y = true},
    {.name = "exponents-one",
     .title = "Exponent of a layer divided by d_x, one token in each half",
     .rows = "layers",
     .values = "growth of ln rank / (d_x ln d)"},
    {.name = "exponents-many",
     .title = "Exponent of a layer divided by d_x, d_x + 1 tokens in each half",
     .rows = "layers",
     .values = "growth of ln rank / (d_x ln d)"},
    {.name = "width",
     .title = "Growth with the width, one token in each half",
     .rows = "width",
     .values = "growth of ln rank / (L ln d)"},
    {.name = "limit",
     .title = "Exponent of a layer divided by d_x at larger depth, from the number of monomials, d_x = 2",
     .rows = "layers",
     .values = "growth of ln rank / (d_x ln d)"},
};

enum { WIDEST = 4, DEEPEST = 8 };

/* ln rank by degree, width and depth, for one or several tokens in each half; 0: not measured. */
typedef struct growth {
    lab_run *run;
    bo_rng rng;
    double ln[2][5][WIDEST + 1][DEEPEST + 1];
    double reached; /* smallest rank / maximum rank */
    size_t networks, all;
} growth;

/* Depths of the full and the quick run. */
static const struct {
    bool many;
    size_t degree, width, full, quick;
} cases[] = {
    {false, 2, 1, 8, 6}, {false, 2, 2, 7, 6}, {false, 2, 3, 6, 4}, {false, 2, 4, 4, 4}, {false, 3, 1, 6, 4},
    {false, 3, 2, 5, 4}, {false, 3, 3, 4, 3}, {false, 3, 4, 3, 2}, {false, 4, 1, 4, 3}, {false, 4, 2, 4, 3},
    {false, 4, 3, 3, 2}, {false, 4, 4, 2, 2}, {true, 2, 1, 8, 6},  {true, 2, 2, 7, 5},  {true, 2, 3, 5, 4},
    {true, 3, 1, 6, 4},  {true, 3, 2, 4, 4},  {true, 3, 3, 3, 2},  {true, 4, 1, 4, 4},  {true, 4, 2, 2, 2},
    {true, 4, 3, 2, 1},
};

static lab_polynomial_desc network(bool many, size_t degree, size_t width, size_t layers)
{
    const size_t tokens = 2 * (many ? width + 1 : 1);
    return (lab_polynomial_desc){degree, layers, width, tokens * width, tokens};
}

static size_t depth_of(const growth *g, size_t i)
{
    return lab_size(g->run, cases[i].full, cases[i].quick);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static bo_status measure_rank(growth *g, size_t i, size_t layers)
{
    bo_context *context = lab_context(g->run);
    const lab_polynomial_desc desc = network(cases[i].many, cases[i].degree, cases[i].width, layers);
    lab_polynomial *net;
    lab_token_ranks ranks;
    char column[32];
    BO_TRY(lab_polynomial_create(context, &desc, &g->rng, &net));
    const bo_status status = lab_token_rank(context, net, &g->rng, &ranks);
    lab_polynomial_destroy(net);
    BO_TRY(status);
    double *ln = g->ln[cases[i].many][desc.degree][desc.width];
    ln[layers] = log((double)ranks.rank);
    g->reached = fmin(g->reached, (double)ranks.rank / ranks.max_rank);
    snprintf(column, sizeof column, "d = %zu, width %zu", desc.degree, desc.width);
    lab_point(g->run, cases[i].many ? "many-tokens" : "one-token", column, (double)layers, (double)ranks.rank);
    if (layers > 1)
        lab_point(g->run, cases[i].many ? "exponents-many" : "exponents-one", column, (double)layers,
                  (ln[layers] - ln[layers - 1]) / ((double)desc.width * log((double)desc.degree)));
    return lab_progress(g->run, 0.9 * (double)++g->networks / (double)g->all);
}

static bo_status measure_ranks(growth *g)
{
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++) g->all += depth_of(g, i);
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++)
        for (size_t layers = 1; layers <= depth_of(g, i); layers++) BO_TRY(measure_rank(g, i, layers));
    lab_claim(g->run, "monomials", g->reached);
    return BO_OK;
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

/* Growth of ln rank over the last layer, divided by ln d. */
static double exponent(const growth *g, size_t i)
{
    const double *ln = g->ln[cases[i].many][cases[i].degree][cases[i].width];
    return (ln[depth_of(g, i)] - ln[depth_of(g, i) - 1]) / log((double)cases[i].degree);
}

/* The mean over the cases, divided by d_x or by the number of sums; degree 0: all. */
static double mean_exponent(const growth *g, bool many, size_t degree, size_t narrowest, size_t widest, bool by_sums)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++) {
        const size_t n = cases[i].width, d = cases[i].degree;
        if (cases[i].many != many || (degree && d != degree) || n < narrowest || n > widest) continue;
        if (by_sums && d == 4 && n > 1) continue; /* two layers are too few */
        const size_t sums = !by_sums ? n : (d != 3 ? n : 0) + (d > 2 ? n * (n + 1) / 2 : 0);
        sum += exponent(g, i) / (double)sums;
        count++;
    }
    return sum / (double)count;
}

static void claim_depth(growth *g)
{
    lab_claim(g->run, "depth", mean_exponent(g, false, 0, 1, 3, false));
    lab_claim(g->run, "depth-degree-2", mean_exponent(g, true, 2, 1, 2, false));
    lab_claim(g->run, "depth-transformer", mean_exponent(g, true, 3, 2, 2, false));
    lab_claim(g->run, "depth-degree-4", mean_exponent(g, true, 4, 1, 1, false));
    lab_claim(g->run, "depth-sums", mean_exponent(g, true, 0, 1, 2, true));
}

/* The number of monomials, which random weights reach, at depths that cannot be measured. */
static void extrapolate(growth *g)
{
    static const struct {
        const char *name;
        bool many;
        size_t degree, max_layers;
    } columns[] = {{"d = 2, one token", false, 2, 14}, {"d = 3, one token", false, 3, 9},
                   {"d = 4, one token", false, 4, 6},  {"d = 2, several", true, 2, 14},
                   {"d = 3, several", true, 3, 9},     {"d = 4, several", true, 4, 6}};
    for (size_t c = 0; c < LAB_COUNT_OF(columns); c++) {
        double before = 0;
        for (size_t layers = 1; layers <= columns[c].max_layers; layers++) {
            const lab_polynomial_desc desc = network(columns[c].many, columns[c].degree, 2, layers);
            const double ln = log(lab_token_max_rank(&desc));
            if (layers > 1)
                lab_point(g->run, "limit", columns[c].name, (double)layers,
                          (ln - before) / (2 * log((double)columns[c].degree)));
            before = ln;
        }
    }
}

/* ---- width ------------------------------------------------------------------------------------------------------- */

static void claim_width(growth *g)
{
    double sum = 0;
    for (size_t d = 2; d <= 4; d++) {
        char column[32];
        size_t layers = 1; /* the largest depth measured at every width; 2^L, 3^L, 4^L > 4 */
        while (layers < DEEPEST && g->ln[0][d][WIDEST][layers + 1] > 0) layers++;
        snprintf(column, sizeof column, "d = %zu, L = %zu", d, layers);
        for (size_t n = 2; n <= WIDEST; n++) {
            const double step =
                (g->ln[0][d][n][layers] - g->ln[0][d][n - 1][layers]) / ((double)layers * log((double)d));
            lab_point(g->run, "width", column, (double)n, step);
            if (n == WIDEST) sum += step / 3;
        }
    }
    lab_claim(g->run, "width", sum);
}

/* ln rank by d_x (L ln d - ln d_x) and by d_x L ln d, for L > log_d d_x and one token in each half. */
static void claim_logarithm(growth *g)
{
    double min = INFINITY, max = 0;
    for (size_t d = 2; d <= 4; d++)
        for (size_t n = 1; n <= WIDEST; n++)
            for (size_t l = 1; l <= DEEPEST; l++) {
                const double law = (double)l * log((double)d);
                if (g->ln[0][d][n][l] == 0 || law <= log((double)n) + 1e-9) continue;
                min = fmin(min, g->ln[0][d][n][l] / ((law - log((double)n)) * (double)n));
                max = fmax(max, g->ln[0][d][n][l] / (law * (double)n));
            }
    lab_claim(g->run, "logarithm", min);
    lab_claim(g->run, "not-above", round(max * 1e9) / 1e9); /* logarithms of equal numbers may differ in rounding */
}

/* ---- budget ------------------------------------------------------------------------------------------------------ */

/* 12 matrices: 6 layers of degree 2, 4 of degree 3, 3 of degree 4; and multiples of this budget from the number of
 * monomials. For one token in each half, degrees 2 and 4 have the same total degree 4^(B / 4) and the same number. */
static void claim_budget(growth *g)
{
    double min = INFINITY;
    for (size_t n = 1; n <= 2; n++) min = fmin(min, g->ln[0][3][n][4] - fmax(g->ln[0][2][n][6], g->ln[0][4][n][3]));
    lab_claim(g->run, "budget", min);
    size_t first[4] = {0};
    for (size_t n = 1; n <= 3; n++)
        for (size_t times = 1; times <= 3 && !first[n]; times++) {
            const lab_polynomial_desc two = network(false, 2, n, 6 * times), three = network(false, 3, n, 4 * times);
            if (lab_token_max_rank(&three) > lab_token_max_rank(&two)) first[n] = 12 * times;
        }
    lab_note(g->run,
             "With one token in each half, the rank of degree 3 first exceeds those of degrees 2 and 4 at %zu matrices "
             "for width 1, %zu for width 2 and %zu for width 3 (of the budgets 12, 24 and 36): the growth law hides a "
             "factor of about 2, because the linear transformer has only even degrees in the first half.",
             first[1], first[2], first[3]);
}

static void claim_proxy(growth *g)
{
    double max = 0;
    for (size_t n = 1; n <= 3; n++)
        for (size_t l = 1; 2 * l <= DEEPEST; l++)
            if (g->ln[0][4][n][l] > 0 && g->ln[0][2][n][2 * l] > 0)
                max = fmax(max, fabs(g->ln[0][4][n][l] - g->ln[0][2][n][2 * l]));
    lab_claim(g->run, "proxy", max);
    lab_claim(g->run, "proxy-several", exp(g->ln[1][4][2][2] - g->ln[1][2][2][4]));
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static bo_status compare_whole(growth *g)
{
    bo_context *context = lab_context(g->run);
    size_t different = 0;
    for (size_t d = 2; d <= 4; d++)
        for (size_t many = 0; many < 2; many++) {
            const lab_polynomial_desc desc = network(many, d, 2, 2);
            lab_polynomial *net;
            lab_token_ranks ranks;
            size_t whole = 0;
            BO_TRY(lab_polynomial_create(context, &desc, &g->rng, &net));
            const lab_function f = lab_polynomial_function(net);
            bo_status status = lab_token_rank(context, net, &g->rng, &ranks);
            if (status == BO_OK) status = lab_exact_rank(context, &f, (size_t)ranks.max_rank + 4, &g->rng, &whole);
            lab_polynomial_destroy(net);
            BO_TRY(status);
            different += whole != ranks.rank;
        }
    lab_claim(g->run, "whole", (double)different);
    return BO_OK;
}

static bo_status measure_with(growth *g)
{
    BO_TRY(compare_whole(g));
    BO_TRY(measure_ranks(g));
    claim_depth(g);
    extrapolate(g);
    claim_width(g);
    claim_logarithm(g);
    claim_budget(g);
    claim_proxy(g);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    growth *g = bo_alloc(lab_context(run), 1, sizeof *g, "separation ranks");
    if (!g) return BO_MEMORY;
    g->run = run;
    g->rng = lab_rng(run, "lab.separation.growth");
    g->reached = 1;
    const bo_status status = measure_with(g);
    bo_free(g);
    return status;
}

const lab_experiment lab_separation_growth = {{.name = "separation-growth",
                                               .group = LAB_DEGREE,
                                               .title = "Growth of the separation rank of token networks",
                                               .claim = CLAIM,
                                               .source = NAVON "; " LEVINE,
                                               .method = METHOD,
                                               LAB_CLAIMS(claims),
                                               LAB_TABLES(tables)},
                                              measure};
