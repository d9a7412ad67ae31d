/* Language models in experiments: text, training without a run directory, evaluation. */
#ifndef BO_LAB_TOOLS_LANGUAGE_H
#define BO_LAB_TOOLS_LANGUAGE_H

#include "../measurement.h"
#include <bochner/train.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Bytes: the file of --text, or synthetic text. The last tenth is held out. */
typedef struct lab_text {
    bo_tokenizer *tokenizer;
    bo_corpus *train, *valid;
} lab_text;

/* Opens the first `bytes` bytes of the file (0: 1 MiB), or the same number of synthetic bytes. */
bo_status lab_text_open(lab_run *run, size_t bytes, lab_text *out);
/* The same for tokens below 256 that an experiment generated. */
bo_status lab_text_of(lab_run *run, const int32_t *train, size_t train_count, const int32_t *valid, size_t valid_count,
                      lab_text *out);
void lab_text_close(lab_text *text);

/* Paragraphs of sentences of invented words, with parts of speech, Zipf's law, and two names that stay the same within
 * a paragraph. A model can learn spelling, word order and the names of the paragraph. */
void lab_synthetic_text(uint64_t seed, size_t bytes, char *out);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* Zero means the default of bo_trainer_desc, except that there is no run directory and only a final evaluation. */
typedef struct lab_training {
    bo_optimizer_desc optimizer;
    bo_schedule schedule;
    size_t batch;
    uint64_t steps;
    uint64_t eval_tokens; /* 0: 16384 */
    const char *freeze;
    bool stateful;
    size_t state_windows;
    uint64_t redraw_every;
    double from, to; /* fractions of the measurement done before and after, for progress; both 0: not reported */
    /* Receives the training loss of every step; may be NULL. */
    void (*watch)(void *user, uint64_t step, double loss);
    void *user;
} lab_training;

typedef struct lab_trained {
    double loss;    /* held-out loss in nats per token; INFINITY if training diverged */
    double last;    /* mean training loss over the last tenth of the steps */
    bool diverged;  /* a loss was NaN or infinite: a valid result, not a failure */
    uint64_t steps; /* number of steps taken */
    double seconds; /* time of the steps */
} lab_trained;

bo_status lab_train(lab_run *run, bo_model *model, const lab_text *text, const lab_training *training,
                    lab_trained *out);
/* Creates a model from the description, with the seed of the run unless it has one, and trains it. *model is NULL only
 * after a failure; free it with bo_model_destroy. */
bo_status lab_train_new(lab_run *run, const bo_model_desc *desc, const lab_text *text, const lab_training *training,
                        bo_model **model, lab_trained *out);
/* Creates a model from another description with the weights of `from` that match by name and shape; the others are
 * freshly initialized. */
bo_status lab_swap(lab_run *run, const bo_model_desc *desc, const bo_model *from, bo_model **out);

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Nats per token over the first `tokens` held-out tokens, as in lab_trained for 16384; INFINITY if it is NaN or
 * infinite. */
bo_status lab_loss(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out);
/* The fraction of next tokens that the model ranks first, over the first `tokens` held-out tokens in windows of its
 * context; 0 for a model whose outputs are NaN or infinite. */
bo_status lab_accuracy(lab_run *run, const bo_model *model, const lab_text *text, size_t tokens, double *out);

#endif
