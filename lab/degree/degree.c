/* degree: the best polynomial degree of a layer, at a fixed number of parameters. */
#include "degree.h"

#define CLAIM                                                                                                          \
    "L layers of degree d form a polynomial of degree d^L. If a layer costs d matrices, a budget of matrices gives "   \
    "the "                                                                                                             \
    "largest degree at d = 3 among integers and at d = e among real numbers. Networks of degree 3 should be best on "  \
    "tasks that need mixing, and networks of degree e better still."

#define METHOD                                                                                                         \
    LAB_DEGREE_LAYERS                                                                                                  \
    "Budgets of 12 matrices (as written), 24 (vectors, with output matrix) and 16 (tokens, with output "               \
    "matrix) give (6, 6, 4, 3), (8, 8, 6, 5) and (5, 5, 4, 3) layers of degree 2, e, 3, 4 of about 24 "                \
    "columns. The width, and that of the last layer, are chosen such that the numbers of trained parameters "          \
    "agree within 1% (table). On sequences the layers are the mixers of degree d, and one more layer of the "          \
    "same degree acts on the last token; degrees 2 and e mix tokens by decays that do not depend on the "              \
    "tokens, degrees 3 and 4 by linear attention. Tasks on vectors: a polynomial of degree 6 and separation "          \
    "rank 40 in 12 inputs, sums of 24 parities of 4 and of 5 out of 12 signs, and the product of 5 "                   \
    "permutations of three elements. Tasks on sequences: the polynomial, with 4 tokens of 3 inputs, sums of "          \
    "24 parities of 3 out of 8 signs, and the product of 3 permutations. There are 15,000 rows for training, "         \
    "5,000 for validation and 5,000 for the error, which is divided by that of guessing; values below 1% "             \
    "count as 1%. AdamW starts at a learning rate of 0.002, with batches of 64 rows (32 sequences). The "              \
    "validation loss is evaluated every 250 (125) steps. After 8 evaluations without an improvement of "               \
    "0.4% the rate is divided by 4, and at the second time training ends, at the latest after 20,000 "                 \
    "(10,000) steps; on sequences, evaluations of the first 4,000 steps do not count. The error is that at "           \
    "the lowest validation loss. A degree is best if the lowest error of the others is larger: the mean over "         \
    "tasks of the logarithm of the ratio is at least the bound. Token-mixing MLP: polynomials are fitted to "          \
    "one output of a layer with random weights over three tokens of four normal numbers, with 6,000 sequences"         \
    " for fitting and 6,000 for testing."

#define FOUR  ", mean over four tasks"
#define THREE ", mean over three tasks"

#define OUTPUT "; we add output matrices"
#define TOKENS                                                                                                         \
    "; lines 70-72 are about transformers. Equation 2 does not fit layers of even degree; we define those of the "     \
    "experiment"

static const bo_lab_claim claims[] = {
    LAB_DEGREE_FAIR,
    LAB_DEGREE_BEST(passage, "", "arrays-written", "Of networks on vectors with layers as written", "error", FOUR, 0.05,
                    "5%"),
    LAB_DEGREE_BEST(source, OUTPUT, "arrays-output", "Of networks on vectors with output matrices", "error", FOUR, 0.05,
                    "5%"),
    {.name = "arrays-speed",
     .statement = "Of networks on vectors with layers as written, degree 3 converges in at least 5% fewer steps than "
                  "degrees 2 and 4.",
     .number = "ln(fewest steps of d = 2, 4 / steps of d = 3)" FOUR,
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.05,
     .source = LAB_NAVON "line 112: \"their performance i.e final accuracy and speed of convergence\""},
    LAB_DEGREE_BEST(passage, TOKENS, "tokens-written", "Of networks that mix tokens by layers as written", "error",
                    THREE, 0.05, "5%"),
    LAB_DEGREE_BEST(source, OUTPUT, "tokens-output", "Of networks that mix tokens by layers with output matrices",
                    "error", THREE, 0.05, "5%"),
    {.name = "mixer-identity",
     .statement = "The token-mixing MLP is a polynomial of degree 2.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 1e-6,
     .source = LAB_NAVON
     "line 82: \"It also explain the mixer MLP results (Need Detailed Analysis)\"; the degree is our reading; "
     "MLP-Mixer (arXiv 2105.01601)"},
    {.name = "mixer-nearly",
     .statement = "The token-mixing MLP is nearly a polynomial of degree 2, which explains at least 90% of its "
                  "variance.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = LAB_NAVON "line 82; the degree is our reading"},
    {.name = "mixer-small",
     .statement = "For small inputs, where gelu and silu are close to x/2, a polynomial of degree 2 explains at least "
                  "98% of the variance.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 0.1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
};

static const bo_lab_table tables[] = {
    LAB_DEGREE_PARAMETERS,
    {.name = "arrays",
     .title = "Networks on vectors: test error by task and form of the layers",
     .rows = "task, form",
     .values = "error / error of guessing",
     .plot = BO_LAB_BARS},
    {.name = "arrays-steps",
     .title = "Networks on vectors: steps until the last improvement",
     .rows = "task, form",
     .values = "steps",
     .plot = BO_LAB_NO_PLOT},
    {.name = "tokens",
     .title = "Networks that mix tokens: test error by task and form of the layers",
     .rows = "task, form",
     .values = "error / error of guessing",
     .plot = BO_LAB_BARS},
    {.name = "tokens-steps",
     .title = "Networks that mix tokens: steps until the last improvement",
     .rows = "task, form",
     .values = "steps",
     .plot = BO_LAB_NO_PLOT},
    {.name = "mixing",
     .title = "Polynomials fitted to a layer that mixes three tokens",
     .rows = "size of the input",
     .values = "fraction of variance not explained",
     .log_x = true,
     .log_y = true},
};

static bo_status measure(lab_run *run)
{
    BO_TRY(lab_degree_networks(run));
    return lab_degree_mixing(run);
}

const lab_experiment lab_degree = {{.name = "degree",
                                    .group = LAB_DEGREE,
                                    .title = "The best polynomial degree of a layer",
                                    .claim = CLAIM,
                                    .source = "Attention is optimal building block (Navon 2021, founding document 001)",
                                    .method = METHOD,
                                    LAB_CLAIMS(claims),
                                    LAB_TABLES(tables)},
                                   measure};
