/* Language models in experiments: text, training without a folder, what a model has learned. */
#ifndef BO_LAB_TOOLS_LANGUAGE_H
#define BO_LAB_TOOLS_LANGUAGE_H

#include "../experiment.h"
#include <bochner/train.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Bytes: the file of --text, or made-up text; the last tenth is held out. */
typedef struct lab_text {
    bo_tokenizer *tokenizer;
    bo_corpus *train, *valid;
} lab_text;

/* The first `bytes` of the file (0: 1 MiB), or so many made-up ones. */
bo_status lab_text_open(lab_run *run, size_t bytes, lab_text *out);
/* The same of tokens below 256 that an experiment made itself. */
bo_status lab_text_of(lab_run *run, const int32_t *train, size_t train_count, const int32_t *valid, size_t valid_count,
                      lab_text *out);
void lab_text_close(lab_text *text);

/* Paragraphs of sentences of invented words: parts of speech, Zipf's law, two names that a paragraph introduces and
 * keeps. Bytes are all there is to learn from: spelling, order of words, whom the paragraph is about. */
void lab_made_up_text(uint64_t seed, size_t bytes, char *out);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Zero means the default of bo_trainer_desc, but there is no folder and evaluation is at the end alone. */
typedef struct lab_training {
    bo_optimizer_desc optimizer;
    bo_schedule schedule;
    size_t batch;
    uint64_t steps;
    uint64_t eval_tokens; /* 0: 16384 */
    const char *freeze;
    double from, to; /* how much of the measurement is done before and after, for progress; both 0: not said */
    /* Sees the training loss of every step; NULL: nobody does. */
    void (*watch)(void *user, uint64_t step, double loss);
    void *user;
} lab_training;

typedef struct lab_trained {
    double loss;    /* nats per token on what is held out; INFINITY where training diverged */
    double last;    /* mean training loss of the last tenth of the steps */
    bool diverged;  /* a loss was not finite: an outcome here, no failure */
    uint64_t steps; /* taken */
    double seconds; /* of the steps */
} lab_trained;

bo_status lab_train(lab_run *run, bo_model *model, const lab_text *text, const lab_training *training,
                    lab_trained *out);
/* Makes a model of the description, with the run's seed unless it has one, and trains it. *model NULL afterwards only
 * on failure; freed with bo_model_destroy. */
bo_status lab_train_new(lab_run *run, const bo_model_desc *desc, const lab_text *text, const lab_training *training,
                        bo_model **model, lab_trained *out);
/* A model of another description with the weights of `from` that fit it by name and shape; the rest begins as drawn. */
bo_status lab_swap(lab_run *run, const bo_model_desc *desc, const bo_model *from, bo_model **out);

/* ---- what a model has learned ------------------------------------------------------------------------------------ */

/* Nats a token over the first `tokens` held out, as lab_trained has it for 16384; INFINITY where it is not finite. */
bo_status lab_loss(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out);
/* Which part of the next tokens the model ranks first, over the first `tokens` held out, in windows of its context; 0
 * of a model whose numbers are not finite. */
bo_status lab_accuracy(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out);

#endif
