/* degree: which degree a layer should have. */
#include "degree.h"

#define NAVON "Attention is optimal building block (Navon 2021)"

#define CLAIM                                                                                                          \
    "L layers of degree d are a polynomial of degree d^L. With L c(d) matrices to spend, ln d / c(d) is largest at "   \
    "d = 2, 3 or 4 as a layer is said to cost c = d - 1, d or d + 1 of them, among all numbers at e for c = d: "       \
    "networks of that degree should learn best what needs mixing."

#define METHOD                                                                                                         \
    "Networks of one width and L = (12, 6, 4), (12, 8, 6), (10, 8, 6) layers of degree 2, 3, 4 for the three "         \
    "costs; half as many where layers mix tokens. On numbers: width 16, layers x + W norm(P_d(x)), P_d(x) a "          \
    "product of d factors W x, degree e with a third factor softplus(W x)^(e - 2), so that it has three "              \
    "matrices and is charged for e. Tasks are a polynomial of degree 6 and separation rank 40 in 12 inputs, "          \
    "parity of 12 and of 13 signs, the product of 5 permutations of three things; 20,000 rows, 1,500 steps of "        \
    "64 by AdamW, the better of two rates for each network. On sequences: layers (X W)(T X W), (X W X)X W "            \
    "(linear attention), that times X W, or weights |q k|^p for degree e, causal, normalized, no MLP; parity "         \
    "of 4 and of 5 signs, the product of 3 permutations, 700 steps. Degree 2 has to mix by decays T that do "          \
    "not look at the tokens, the others by attention: with the degree changes what a layer can look at. Tasks "        \
    "are sized so that neither all networks learn them nor none does. Error is that of rows held out over that "       \
    "of guessing; below 1% counts as 1%. Text: width 32, windows of 64 bytes, 500 steps of 8 by Muon at its "          \
    "usual rates, nats a byte held out. Activation functions: three layers of the same width and as many "             \
    "weights in the MLPs. The token-mixing MLP: polynomials are fitted to one output of a layer with random "          \
    "weights over three tokens of four normal numbers, 6,000 sequences to fit and 6,000 to judge; on text it "         \
    "has a whole matrix along the tokens where the mixer of degree 2 has four decays a channel. A winner is "          \
    "claimed where the others' least error is larger: ln of the ratio above 0, its mean over the tasks."

#define WINNERS(family, nets, measure, tasks)                                                                          \
    {.name = family "-2",                                                                                              \
     .statement = "Where a layer is said to cost d - 1 matrices, " nets " of degree 2 are best.",                      \
     .number = "ln (least " measure " of d = 3, 4 / that of d = 2)" tasks,                                             \
     .rule = BO_LAB_AT_LEAST,                                                                                          \
     .bound = 0,                                                                                                       \
     .source = NAVON ", equation 2: its layer has d - 1"},                                                             \
        {.name = family "-3",                                                                                          \
         .statement = "Where a layer is said to cost d matrices, " nets " of degree 3 are best.",                      \
         .number = "ln (least " measure " of d = 2, 4 / that of d = 3)" tasks,                                         \
         .rule = BO_LAB_AT_LEAST,                                                                                      \
         .bound = 0,                                                                                                   \
         .source = NAVON ", conclusion 1.1"},                                                                          \
    {                                                                                                                  \
        .name = family "-4",                                                                                           \
        .statement = "Where a layer is said to cost d + 1 matrices, " nets " of degree 4 are best.",                   \
        .number = "ln (least " measure " of d = 2, 3 / that of d = 4)" tasks, .rule = BO_LAB_AT_LEAST, .bound = 0,     \
        .source = "ln d / (d + 1), as attention has four matrices for degree 3"                                        \
    }
static const bo_lab_claim claims[] = {
    WINNERS("arrays", "networks on numbers", "error", ", mean over four tasks"),
    {.name = "arrays-e",
     .statement =
         "Where a layer of networks on numbers is said to cost d matrices, degree e is better than any whole number.",
     .number = "ln (least error of d = 2, 3, 4 / error of d = e), mean over four tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", conclusion 1.1"},
    {.name = "arrays-speed",
     .statement = "Where a layer of networks on numbers is said to cost d matrices, degree 3 learns fastest.",
     .number = "ln (fewest steps of d = 2, 4 / steps of d = 3), mean over four tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", section 3.2.3"},
    WINNERS("tokens", "layers that mix tokens", "error", ", mean over three tasks"),
    WINNERS("text", "language models", "loss", ""),
    {.name = "activation-free",
     .statement = "A transformer without softmax and without activation functions loses little: at most 5% on text.",
     .number = "loss of degree 3 and degree 2 / loss of softmax and relu²",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.05,
     .source = NAVON ", section 1.1; 2110.04541"},
    {.name = "mlp-free",
     .statement = "With softmax kept, an MLP of degree 2 without activation function loses at most 2%.",
     .number = "loss of softmax and degree 2 / loss of softmax and relu²",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.02},
    {.name = "mixer-identity",
     .statement = "The token-mixing MLP is a polynomial of degree 2.",
     .number = "variance that the best polynomial of degree 2 leaves, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 1e-6,
     .source = NAVON ", task 4: degrees explain the MLP-Mixer (2105.01601)"},
    {.name = "mixer-nearly",
     .statement = "The token-mixing MLP is nearly a polynomial of degree 2: one explains nine tenths of it.",
     .number = "variance that the best polynomial of degree 2 leaves, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = NAVON ", task 4"},
    {.name = "mixer-small",
     .statement = "Of small inputs, where gelu and silu are halves of x, nothing else is left.",
     .number = "variance that the best polynomial of degree 2 leaves, inputs of size 0.1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
    {.name = "mixers-text",
     .statement = "On text the token-mixing MLP and the mixer of degree 2 are within 5% of each other.",
     .number = "loss of the MLP along tokens / loss of the mixer of degree 2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .source = NAVON ", task 4"},
};

static const bo_lab_table tables[] = {
    {.name = "arrays",
     .title = "Networks on numbers: error held out, by task and by what a layer costs",
     .rows = "task, matrices c of a layer",
     .values = "error / error of guessing",
     .picture = BO_LAB_BARS},
    {.name = "arrays-speed",
     .title = "Networks on numbers: steps until the loss is half of that of guessing",
     .rows = "task, matrices c of a layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "tokens",
     .title = "Layers that mix tokens: error held out, by task and by what a layer costs",
     .rows = "task, matrices c of a layer",
     .values = "error / error of guessing",
     .picture = BO_LAB_BARS},
    {.name = "tokens-speed",
     .title = "Layers that mix tokens: steps until the loss is half of that of guessing",
     .rows = "task, matrices c of a layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "text",
     .title = "Language models of layers of degree d",
     .rows = "matrices c of a layer",
     .values = "nats a byte",
     .picture = BO_LAB_BARS},
    {.name = "text-speed",
     .title = "Language models of layers of degree d: steps until the loss is below 2 nats a byte",
     .rows = "matrices c of a layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "activations",
     .title = "With and without activation functions: text, three layers",
     .rows = "mixer, MLP",
     .values = "nats a byte",
     .picture = BO_LAB_BARS},
    {.name = "mixing",
     .title = "Polynomials fitted to a layer that mixes three tokens",
     .rows = "size of the input",
     .values = "variance left",
     .log_x = true,
     .log_y = true},
};

static bo_status measure(lab_run *run)
{
    BO_TRY(lab_degree_networks(run));
    BO_TRY(lab_degree_text(run));
    return lab_degree_mixing(run);
}

const lab_experiment lab_degree = {{.name = "degree",
                                    .group = LAB_DEGREE,
                                    .title = "Which degree should a layer have?",
                                    .claim = CLAIM,
                                    .source = NAVON,
                                    .method = METHOD,
                                    LAB_CLAIMS(claims),
                                    LAB_TABLES(tables),
                                    .text = true},
                                   measure};
