/* circuits: attention heads as independent parts of a transformer, and their functions in a model that has learned to
 * repeat. */
#include "circuits.h"
#include <math.h>
#include <stdio.h>

static const bo_lab_claim claims[] = {
    {.name = "concatenation",
     .statement = "Concatenating heads and applying W_O equals the sum of the heads, each with its own columns of W_O.",
     .number = "largest difference between the two, divided by the largest output",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0x1p-17,
     .passage = LAB_NOTES "lines 777-783: \"H = W_O^H R^H = […] = Σ W_O^h r^h\""}, /* float32: about a hundred sums */
    {.name = "formula",
     .statement = "The output of a head is A X (W_O W_V)ᵀ, where A depends only on X W_Qᵀ W_K Xᵀ (with rotary "
                  "positions).",
     .number = "largest difference between the float32 output of the library and the formula in float64, divided by "
               "the largest output",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .passage = LAB_NOTES
     /* exponents up to several tens, rounded to float32 */
     "lines 797-805: \"S_ij = X_iᵀ(W_Qᵀ W_K)X_j\", \"h(X⁰) = W_O^h W_V X⁰ (A^h)ᵀ\""},
    {.name = "column-space",
     .statement = "A head writes only into the column space of W_O W_V.",
     .number = "largest component of an output outside this space, relative to its norm",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5,
     .passage =
         LAB_NOTES "lines 809-811: \"Head can only write to a low-dim subspace of the d_model-dim residual stream\""},
    {.name = "other-space",
     .statement = "Control: most of the output of a head lies outside the space of another head.",
     .number = "mean component of an output outside the space of another head of the same layer, relative to its norm",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5},
    {.name = "previous-token",
     .statement = "In a model that has learned to repeat, a head of the first layer attends to the previous token.",
     .number = "attention of the best head of the first layer to the previous token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = "In-context Learning and Induction Heads (arXiv 2209.11895)"},
    {.name = "induction",
     .statement =
         "In a model that has learned to repeat, a head of the second layer attends to the tokens that followed "
         "earlier occurrences of the current token (an induction head).",
     .number = "attention of the best head of the second layer to the successors of earlier occurrences",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = "In-context Learning and Induction Heads (arXiv 2209.11895)"},
    {.name = "copying",
     .statement = "The OV circuit of the induction head copies: the eigenvalues of (output) W_O W_V (embedding) are "
                  "positive.",
     .number = "Σ Re λ / Σ |λ| of this head (0 for a random head, 1 if all eigenvalues are positive)",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.5,
     .source = "A Mathematical Framework for Transformer Circuits (Elhage and others, 2021)"},
    {.name = "spectrum",
     .statement = "The singular values of W_O W_V and W_Qᵀ W_K fall faster in the trained model than in a random one.",
     .number = "effective rank (Σσ)² / Σσ² of the trained model divided by that of a random one, mean over heads and "
               "both circuits",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.9},
};

static const bo_lab_table tables[] = {
    {.name = "heads",
     .title = "Heads of each layer, best first",
     .rows = "head",
     .values = "attention, or Σ Re λ / Σ |λ|",
     .plot = BO_LAB_BARS},
    {.name = "offsets",
     .title = "Attention of the best head of the first layer by distance",
     .rows = "distance in tokens",
     .values = "mean attention"},
    {.name = "writes",
     .title = "Subspaces of the residual stream written by attention heads",
     .rows = "written by",
     .values = "dimensions; components relative to the norm",
     .plot = BO_LAB_NO_PLOT},
    {.name = "spectra",
     .title = "Singular values relative to the largest, mean over heads",
     .rows = "index",
     .values = "σ / largest σ"},
};

static const bo_model_desc shape = {.layers = LAYERS,
                                    .width = WIDTH,
                                    .block.heads = HEADS,
                                    .context = TOKENS,
                                    .block.mlp = BO_MLP_NONE,
                                    .block.query_norm = BO_CHOICE_NO,
                                    .untied = true};

/* ---- training on repeated sequences ------------------------------------------------------------------------------ */

/* Writes random sequences of 8 to 16 tokens, each four times. */
static void write_rounds(bo_rng *rng, size_t count, int32_t *out)
{
    enum { MIN_LENGTH = 8, MAX_LENGTH = 16, TIMES = 4 };
    for (size_t at = 0; at < count;) {
        const size_t length = MIN_LENGTH + (size_t)bo_rng_below(rng, MAX_LENGTH - MIN_LENGTH + 1), begin = at;
        for (size_t i = 0; i < TIMES * length && at < count; i++, at++)
            out[at] = i < length ? FIRST_TOKEN + (int32_t)bo_rng_below(rng, ALPHABET) : out[begin + i % length];
    }
}

static bo_status open_rounds(lab_run *run, lab_text *out)
{
    const size_t train = 400000, valid = 20000;
    bo_rng rng = lab_rng(run, "lab.circuits.rounds");
    int32_t *ids = bo_alloc_raw(lab_context(run), train + valid, sizeof *ids, "tokens");
    if (!ids) return BO_MEMORY;
    write_rounds(&rng, train + valid, ids);
    const bo_status status = lab_text_of(run, ids, train, ids + train, valid, out);
    bo_free(ids);
    return status;
}

/* The library initializes output projections to zero. Here they start at random, so that a circuit exists before
 * training. */
static bo_status make_model(lab_scene *s, const lab_text *text)
{
    bo_model_desc desc = shape;
    desc.seed = lab_seed(s->run);
    BO_TRY(bo_model_create(s->context, &desc, text->tokenizer, &s->model));
    bo_rng rng = lab_rng(s->run, "lab.circuits.output");
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%zu.self_attn.o_proj.weight", layer);
        for (size_t i = 0; i < SQUARE; i++) s->projection[i] = (float)(bo_rng_normal(&rng) / sqrt(WIDTH));
        BO_TRY(bo_weights_set(s->context, bo_model_weights(s->model), name, s->projection));
    }
    return BO_OK;
}

static bo_status train(lab_scene *s, const lab_text *text, bo_optimizer_kind kind, double from, double to)
{
    const lab_training training = {.optimizer = {.kind = kind},
                                   .batch = 16,
                                   .steps = lab_size(s->run, 2400, 700),
                                   .eval_tokens = 4096,
                                   .from = from,
                                   .to = to};
    lab_trained trained;
    BO_TRY(lab_train(s->run, s->model, text, &training, &trained));
    lab_note(s->run, "%s reaches a loss of %.2f nats per token; guessing gives %.2f.",
             kind == BO_OPTIMIZER_MUON ? "Muon" : "AdamW", trained.loss, log(ALPHABET));
    return BO_OK;
}

static void record_heads(lab_run *run, const lab_circuit_scores *scores)
{
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        const lab_head_score *score = &scores->heads[i / HEADS][i % HEADS];
        char row[32];
        snprintf(row, sizeof row, "layer %zu, head %zu", i / HEADS, i % HEADS + 1);
        lab_cell(run, "heads", row, "to previous token", score->previous);
        lab_cell(run, "heads", row, "to successors", score->induction);
        lab_cell(run, "heads", row, "copying", score->copying);
    }
}

static void record_curves(lab_run *run, const lab_circuit_scores *scores, const char *model)
{
    for (size_t i = 0; i < DIM; i++) lab_point(run, "spectra", model, (double)(i + 1), scores->spectrum[i]);
    for (size_t i = 0; i < OFFSETS; i++) lab_point(run, "offsets", model, (double)i, scores->offsets[i]);
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

/* Trains a second model with AdamW for its singular values; not in quick runs. */
static bo_status measure_adam(lab_scene *s, const lab_text *text)
{
    lab_circuit_scores scores;
    if (lab_quick(s->run)) return BO_OK;
    bo_model_destroy(s->model);
    s->model = NULL;
    BO_TRY(make_model(s, text));
    BO_TRY(train(s, text, BO_OPTIMIZER_ADAMW, 0.5, 1));
    BO_TRY(lab_circuits_score(s, &scores));
    record_curves(s->run, &scores, "trained with AdamW");
    lab_note(s->run, "After training with AdamW, the effective rank is %.1f.", scores.effective_rank);
    return BO_OK;
}

static bo_status measure_trained(lab_scene *s, const lab_text *text)
{
    lab_circuit_scores before, after;
    BO_TRY(make_model(s, text));
    BO_TRY(lab_circuits_score(s, &before));
    BO_TRY(train(s, text, BO_OPTIMIZER_MUON, 0, lab_quick(s->run) ? 1 : 0.5));
    BO_TRY(lab_circuits_score(s, &after));
    record_heads(s->run, &after);
    record_curves(s->run, &before, "random");
    record_curves(s->run, &after, "trained with Muon");
    lab_claim(s->run, "previous-token", after.heads[0][0].previous);
    lab_claim(s->run, "induction", after.heads[1][0].induction);
    lab_claim(s->run, "copying", after.heads[1][0].copying);
    lab_claim(s->run, "spectrum", after.effective_rank / before.effective_rank);
    lab_note(s->run,
             "Before training, the best heads reach %.2f (previous token), %.2f (successors) and %.2f (copying). The "
             "effective rank out of %d is %.1f at random and %.1f after training with Muon.",
             before.heads[0][0].previous, before.heads[1][0].induction, before.heads[1][0].copying, DIM,
             before.effective_rank, after.effective_rank);
    BO_TRY(lab_circuits_identities(s));
    return measure_adam(s, text);
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    lab_scene *s = bo_alloc(lab_context(run), 1, sizeof *s, "heads and their outputs");
    if (!s) return BO_MEMORY;
    s->run = run;
    s->context = lab_context(run);
    bo_status status = open_rounds(run, &text);
    if (status == BO_OK) status = measure_trained(s, &text);
    bo_model_destroy(s->model);
    lab_text_close(&text);
    bo_free(s);
    return status;
}

const lab_experiment lab_circuits = {
    {.name = "circuits",
     .group = LAB_ARCHITECTURES,
     .title = "Attention heads as independent circuits of the residual stream",
     .claim = "Attention is a sum over heads. Each head moves information through W_O W_V between positions chosen by "
              "W_Qᵀ W_K. In a model that has learned to repeat sequences, individual heads have functions that can be "
              "read off these products.",
     .source =
         "course notes, interpretability; A Mathematical Framework for Transformer Circuits (Elhage and others, 2021)",
     .method =
         "An attention-only transformer with two layers (width 64, four heads of dimension 16, RoPE, softmax) learns "
         "sequences of 64 tokens, in which random sequences of 8 to 16 tokens from an alphabet of 16 are repeated "
         "four times: 2400 steps of 16 sequences with Muon, and again with AdamW for the singular values. Identities: "
         "the output of a single head is that of the model with the other columns of W_O set to zero, on 64 random "
         "bytes; the formula is computed in float64 from the weights. Head functions: attention on four sequences "
         "that repeat a permutation of the alphabet. The output projection starts at random; trained circuits are "
         "compared with these initial ones.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
