/* degree: the best polynomial degree of a layer. */
#include "degree.h"

#define NAVON "Attention is optimal building block (Navon 2021)"

#define CLAIM                                                                                                          \
    "L layers of degree d form a polynomial of degree d^L. For a budget of L c(d) matrices, ln d / c(d) is largest "   \
    "at d = 2, 3 or 4 if a layer costs c = d - 1, d or d + 1 matrices; among real numbers it is largest at e for c = " \
    "d. Networks of that degree should be best on tasks that need mixing."

#define METHOD                                                                                                         \
    "Networks of one width have L = (12, 6, 4), (12, 8, 6), (10, 8, 6) layers of degree 2, 3, 4 for the three costs, " \
    "and half as many if layers mix tokens. On vectors: width 16 and layers x + W norm(P_d(x)), where P_d(x) is a "    \
    "product of d factors W x; degree e has a third factor softplus(W x)^(e - 2), so that it has three matrices and "  \
    "a cost of e. The tasks are a polynomial of degree 6 and separation rank 40 in 12 inputs, the parity of 12 and "   \
    "of 13 signs, and the product of 5 permutations of three elements; 20,000 rows, 1,500 steps of 64 rows with "      \
    "AdamW, the better of two learning rates for each network. On sequences: layers (X W)(T X W), (X W X)X W (linear " \
    "attention), the latter times X W, or weights |q k|^p for degree e, causal and normalized, without MLPs; the "     \
    "parity of 4 and of 5 signs and the product of 3 permutations, 700 steps. Degree 2 mixes tokens by decays T that " \
    "do not depend on the tokens, the other degrees by attention, so the degree also changes what a layer can attend " \
    "to. The sizes of the tasks are chosen so that some networks learn them and others do not. The error is the "      \
    "held-out error divided by that of guessing; values below 1% count as 1%. Text: width 32, windows of 64 bytes, "   \
    "500 steps of 8 windows with Muon at its default learning rates; held-out loss in nats per byte. Activation "      \
    "functions: three layers of the same width with the same number of weights in the MLPs. Token-mixing MLP: "        \
    "polynomials are fitted to one output of a layer with random weights over three tokens of four normal numbers, "   \
    "with 6,000 sequences for fitting and 6,000 for testing; on text it has a full matrix along the tokens, while "    \
    "the mixer of degree 2 has four decays per channel. A degree is best if the lowest error of the others is "        \
    "larger: the mean over tasks of the logarithm of the ratio is above 0."

#define WINNERS(family, nets, measure, tasks)                                                                          \
    {.name = family "-2",                                                                                              \
     .statement = "If a layer costs d - 1 matrices, " nets " of degree 2 have the lowest " measure ".",                \
     .number = "ln(lowest " measure " of d = 3, 4 / " measure " of d = 2)" tasks,                                      \
     .rule = BO_LAB_AT_LEAST,                                                                                          \
     .bound = 0,                                                                                                       \
     .source = NAVON ", equation 2: its layer has d - 1 matrices"},                                                    \
        {.name = family "-3",                                                                                          \
         .statement = "If a layer costs d matrices, " nets " of degree 3 have the lowest " measure ".",                \
         .number = "ln(lowest " measure " of d = 2, 4 / " measure " of d = 3)" tasks,                                  \
         .rule = BO_LAB_AT_LEAST,                                                                                      \
         .bound = 0,                                                                                                   \
         .source = NAVON ", conclusion 1.1"},                                                                          \
    {                                                                                                                  \
        .name = family "-4",                                                                                           \
        .statement = "If a layer costs d + 1 matrices, " nets " of degree 4 have the lowest " measure ".",             \
        .number = "ln(lowest " measure " of d = 2, 3 / " measure " of d = 4)" tasks, .rule = BO_LAB_AT_LEAST,          \
        .bound = 0, .source = "ln d / (d + 1), because attention has four matrices for degree 3"                       \
    }
static const bo_lab_claim claims[] = {
    WINNERS("arrays", "networks on vectors", "error", ", mean over four tasks"),
    {.name = "arrays-e",
     .statement =
         "If a layer of a network on vectors costs d matrices, degree e gives a lower error than any integer degree.",
     .number = "ln(lowest error of d = 2, 3, 4 / error of d = e), mean over four tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", conclusion 1.1"},
    {.name = "arrays-speed",
     .statement = "If a layer of a network on vectors costs d matrices, degree 3 learns in the fewest steps.",
     .number = "ln(fewest steps of d = 2, 4 / steps of d = 3), mean over four tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", section 3.2.3"},
    WINNERS("tokens", "token-mixing layers", "error", ", mean over three tasks"),
    WINNERS("text", "language models", "loss", ""),
    {.name = "activation-free",
     .statement = "A transformer without softmax and without activation functions loses at most 5% on text.",
     .number = "held-out loss of degree 3 and degree 2 divided by held-out loss of softmax and relu²",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.05,
     .source = NAVON ", section 1.1; arXiv 2110.04541"},
    {.name = "mlp-free",
     .statement = "With softmax attention, an MLP of degree 2 without activation function loses at most 2%.",
     .number = "held-out loss of softmax and degree 2 divided by held-out loss of softmax and relu²",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.02},
    {.name = "mixer-identity",
     .statement = "The token-mixing MLP is a polynomial of degree 2.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 1e-6,
     .source = NAVON ", task 4: degrees explain the MLP-Mixer (arXiv 2105.01601)"},
    {.name = "mixer-nearly",
     .statement = "The token-mixing MLP is nearly a polynomial of degree 2, which explains at least 90% of its "
                  "variance.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.1,
     .source = NAVON ", task 4"},
    {.name = "mixer-small",
     .statement = "For small inputs, where gelu and silu are close to x/2, a polynomial of degree 2 explains at least "
                  "98% of the variance.",
     .number = "fraction of variance not explained by the best polynomial of degree 2, inputs of size 0.1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
    {.name = "mixers-text",
     .statement = "On text, the token-mixing MLP and the mixer of degree 2 reach losses within 5% of each other.",
     .number = "held-out loss of the token-mixing MLP divided by held-out loss of the mixer of degree 2",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .source = NAVON ", task 4"},
};

static const bo_lab_table tables[] = {
    {.name = "arrays",
     .title = "Networks on vectors: held-out error by task and cost of a layer",
     .rows = "task, matrices c per layer",
     .values = "error / error of guessing",
     .picture = BO_LAB_BARS},
    {.name = "arrays-speed",
     .title = "Networks on vectors: steps until the loss is half that of guessing",
     .rows = "task, matrices c per layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "tokens",
     .title = "Token-mixing layers: held-out error by task and cost of a layer",
     .rows = "task, matrices c per layer",
     .values = "error / error of guessing",
     .picture = BO_LAB_BARS},
    {.name = "tokens-speed",
     .title = "Token-mixing layers: steps until the loss is half that of guessing",
     .rows = "task, matrices c per layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "text",
     .title = "Language models with layers of degree d",
     .rows = "matrices c per layer",
     .values = "held-out loss, nats per byte",
     .picture = BO_LAB_BARS},
    {.name = "text-speed",
     .title = "Language models with layers of degree d: steps until the loss is below 2 nats per byte",
     .rows = "matrices c per layer",
     .values = "steps",
     .picture = BO_LAB_NO_PICTURE},
    {.name = "activations",
     .title = "Text models with and without activation functions, three layers",
     .rows = "mixer, MLP",
     .values = "held-out loss, nats per byte",
     .picture = BO_LAB_BARS},
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
    BO_TRY(lab_degree_text(run));
    return lab_degree_mixing(run);
}

const lab_experiment lab_degree = {{.name = "degree",
                                    .group = LAB_DEGREE,
                                    .title = "The best polynomial degree of a layer",
                                    .claim = CLAIM,
                                    .source = NAVON,
                                    .method = METHOD,
                                    LAB_CLAIMS(claims),
                                    LAB_TABLES(tables),
                                    .text = true},
                                   measure};
