/* rnn-bottleneck: a recurrent encoder-decoder with a single context vector, and with attention. */
#include "../experiment.h"
#include <math.h>
#include <string.h>
#include <bochner/train.h>

static const bo_lab_claim claims[] = {
    {.name = "short",
     .statement = "Both models repeat short strings of 4 letters.",
     .number = "fraction of letters correct, the worse of the two, width 32",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.9},
    {.name = "bottleneck",
     .statement = "A decoder that sees only the last state of the encoder loses accuracy as strings grow from 4 to 20 "
                  "letters.",
     .number = "fraction of letters correct at 4 letters minus at 20 letters, width 32",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.3,
     .passage = LAB_NOTES "lines 690-691: \"the bottleneck is that * need to store all information about the input\""},
    {.name = "attention",
     .statement = "With attention over all states of the encoder, accuracy does not fall.",
     .number = "fraction of letters correct at 4 letters minus at 20 letters, width 32",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .source =
         "Bahdanau, Cho, Bengio: Neural machine translation by jointly learning to align and translate, 1409.0473"},
    {.name = "gap",
     .statement = "At 20 letters, the model with attention is much more accurate.",
     .number = "fraction of letters correct with attention minus without, width 32",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.3,
     .passage = LAB_NOTES "lines 686-695: \"Attention Mechanism to Mitigate RNN bottleneck\""},
    {.name = "state",
     .statement =
         "The size of the state is the limit: with four times the width, the model without attention reproduces more "
         "of 20 letters.",
     .number = "fraction of letters correct at 20 letters, width 64 minus width 16, without attention",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "not-parameters",
     .statement =
         "Control: the weights that attention adds are not the reason, because it is also more accurate than a model "
         "without attention of twice the width.",
     .number = "fraction of letters correct at 20 letters, with attention at width 32 minus without at width 64",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
};

static const bo_lab_table tables[] = {
    {.name = "length",
     .title = "Letters repeated correctly",
     .rows = "letters",
     .values = "fraction of letters correct"},
    {.name = "whole",
     .title = "Strings repeated without an error",
     .rows = "letters",
     .values = "fraction of strings correct"},
};

enum {
    SYMBOLS = 8,
    MIN_LENGTH = 2,
    MAX_LENGTH = 20,
    STEP = 4,
    LENGTHS = MAX_LENGTH / STEP,
    TESTED = 64,
    SMALL = 16,
    MIDDLE = 32,
    LARGE = 64
};

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* Writes lines "string, tab, string" of `min_length` to `max_length` symbols and returns the number of bytes written.
 */
static size_t write_lines(bo_rng *rng, size_t lines, size_t min_length, size_t max_length, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < lines; i++) {
        const size_t length = min_length + bo_rng_below(rng, max_length - min_length + 1);
        for (size_t k = 0; k < length; k++)
            out[at + k] = out[at + length + 1 + k] = (char)('a' + (int)bo_rng_below(rng, SYMBOLS));
        out[at + length] = '\t';
        out[at + 2 * length + 1] = '\n';
        at += 2 * length + 2;
    }
    return at;
}

static bo_status open_lines(lab_run *run, const bo_model *model, bo_rng *rng, size_t lines, size_t min_length,
                            size_t max_length, bo_texts **out)
{
    bo_texts_desc desc = {0};
    char *memory = bo_alloc_raw(lab_context(run), lines, 2 * max_length + 2, "strings");
    if (!memory) return BO_MEMORY;
    bo_model_preset_texts(model, false, &desc);
    desc.memory = memory;
    desc.memory_bytes = write_lines(rng, lines, min_length, max_length, memory);
    const bo_status status = bo_texts_open(lab_context(run), &desc, out);
    bo_free(memory);
    return status;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

/* Fractions correct by length: STEP, 2 STEP, …, MAX_LENGTH. */
typedef struct curve {
    double symbols[LENGTHS], strings[LENGTHS];
} curve;

static void compare(const int32_t *target, size_t length, const bo_ids *outputs, double *symbols, double *strings)
{
    size_t right = 0;
    for (size_t i = 0; i < length && i < outputs->count; i++) right += outputs->items[i] == target[i];
    *symbols += (double)right / (double)length / TESTED;
    *strings += (right == length && outputs->count == length) / (double)TESTED;
}

static bo_status test_length(lab_run *run, const bo_model *model, size_t length, double *symbols, double *strings)
{
    bo_ids outputs[TESTED] = {{0}};
    bo_rng rng = bo_rng_make(lab_seed(run), bo_rng_stream("lab.bottleneck.test", length));
    bo_texts *texts = NULL;
    bo_status status = open_lines(run, model, &rng, TESTED, length, length, &texts);
    if (status == BO_OK) status = bo_model_translate(lab_context(run), model, texts, 0, TESTED, NULL, outputs, NULL);
    *symbols = *strings = 0;
    for (size_t i = 0; status == BO_OK && i < TESTED; i++) {
        bo_text target;
        bo_texts_get(texts, i, 1, &target);
        compare(target.ids, target.count - 1, &outputs[i], symbols, strings); /* without the end token */
    }
    for (size_t i = 0; i < TESTED; i++) bo_ids_free(&outputs[i]);
    bo_texts_close(texts);
    return status;
}

typedef struct progress {
    double from, to;
} progress;

static bo_status learn(lab_run *run, bo_model *model, progress part)
{
    const uint64_t steps = lab_size(run, 1500, 200);
    bo_rng rng = lab_rng(run, "lab.bottleneck.train");
    bo_texts *texts = NULL;
    bo_trainer *trainer = NULL;
    double loss;
    bo_status status = open_lines(run, model, &rng, lab_size(run, 40000, 8000), MIN_LENGTH, MAX_LENGTH, &texts);
    const bo_trainer_desc desc = {
        .model = model, .train.texts = texts, .pack = 256, .batch = 4, .steps = steps, .seed = lab_seed(run)};
    if (status == BO_OK) status = bo_trainer_create(lab_context(run), &desc, &trainer);
    for (uint64_t step = 0; status == BO_OK && step < steps; step++) {
        status = bo_trainer_step(lab_context(run), trainer, &loss);
        if (status == BO_OK)
            status = lab_progress(run, part.from + (part.to - part.from) * (double)step / (double)steps);
    }
    bo_trainer_destroy(trainer);
    bo_texts_close(texts);
    return status;
}

static bo_status learn_and_test(lab_run *run, const bo_tokenizer *tokenizer, size_t width, bo_cross cross,
                                progress part, curve *out)
{
    const bo_model_desc desc = {.task = BO_MODEL_TASK_TRANSLATE,
                                .block.mixer = BO_MIXER_GRU,
                                .block.positions = BO_POSITIONS_LEARNED,
                                .block.mlp = BO_MLP_GELU,
                                .layers = 1,
                                .encoder_layers = 1,
                                .width = width,
                                .block.hidden = 2 * width,
                                .block.heads = 1,
                                .context = MAX_LENGTH,
                                .cross = cross,
                                .seed = lab_seed(run)};
    bo_model *model;
    BO_TRY(bo_model_create(lab_context(run), &desc, tokenizer, &model));
    bo_status status = learn(run, model, part);
    for (size_t i = 0; status == BO_OK && i < LENGTHS; i++)
        status = test_length(run, model, STEP * (i + 1), &out->symbols[i], &out->strings[i]);
    bo_model_destroy(model);
    return status;
}

/* ---- the comparison ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t width;
    bo_cross cross;
} contestants[] = {{"one vector, width 16", SMALL, BO_CROSS_SUMMARY},
                   {"one vector, width 32", MIDDLE, BO_CROSS_SUMMARY},
                   {"one vector, width 64", LARGE, BO_CROSS_SUMMARY},
                   {"attention, width 32", MIDDLE, BO_CROSS_ATTENTION}};
enum { AT_SMALL, AT_MIDDLE, AT_LARGE, ATTENTIVE, CONTESTANTS };

static void claim_curves(lab_run *run, const curve *curves)
{
    const double *plain = curves[AT_MIDDLE].symbols, *attentive = curves[ATTENTIVE].symbols;
    const size_t last = LENGTHS - 1;
    lab_claim(run, "short", fmin(plain[0], attentive[0]));
    lab_claim(run, "bottleneck", plain[0] - plain[last]);
    lab_claim(run, "attention", attentive[0] - attentive[last]);
    lab_claim(run, "gap", attentive[last] - plain[last]);
    lab_claim(run, "state", curves[AT_LARGE].symbols[last] - curves[AT_SMALL].symbols[last]);
    lab_claim(run, "not-parameters", attentive[last] - curves[AT_LARGE].symbols[last]);
}

static bo_status measure(lab_run *run)
{
    bo_tokenizer *tokenizer;
    curve curves[CONTESTANTS];
    BO_TRY(bo_tokenizer_create(lab_context(run), &tokenizer));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < CONTESTANTS; i++) {
        const progress part = {(double)i / CONTESTANTS, (double)(i + 1) / CONTESTANTS};
        status = learn_and_test(run, tokenizer, contestants[i].width, contestants[i].cross, part, &curves[i]);
        for (size_t k = 0; status == BO_OK && k < LENGTHS; k++) {
            lab_point(run, "length", contestants[i].name, (double)(STEP * (k + 1)), curves[i].symbols[k]);
            lab_point(run, "whole", contestants[i].name, (double)(STEP * (k + 1)), curves[i].strings[k]);
        }
    }
    bo_tokenizer_destroy(tokenizer);
    BO_TRY(status);
    claim_curves(run, curves);
    return BO_OK;
}

const lab_experiment lab_rnn_bottleneck = {
    {.name = "rnn-bottleneck",
     .group = LAB_ARCHITECTURES,
     .title = "Encoder-decoders with one context vector and with attention",
     .claim = "A recurrent encoder-decoder that passes on a single vector forgets long inputs. Attention over the "
              "states of the encoder removes this bottleneck.",
     .source = "course notes, attention mechanism to mitigate RNN bottleneck; Cho et al., 1406.1078",
     .method = "The task is to repeat a string of 2 to 20 letters from an alphabet of 8. Encoder and decoder have one "
               "layer each, a GRU and an MLP, with learned positions. The decoder sees the last output of the encoder "
               "at every token, or attends to all of its outputs. All models see the same 40,000 strings for 1500 "
               "steps of 1024 tokens with the default optimizer. 64 new strings of each length are decoded greedily; "
               "a letter is correct if it is right at its position.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
