/* bochner train --task classify, match and translate: from tab-separated lines to a model and a run. */
#ifndef CLI_TRAIN_TEXTS_H
#define CLI_TRAIN_TEXTS_H

#include "../common/cli.h"

/* Not given: 0, -1 of a choice, NAN of the smoothing. */
typedef struct cli_train_texts {
    int task; /* bo_model_task */
    size_t pack, encoder_layers;
    int pooling, cross, cross_attention;
    bool forward;
    double smoothing;
} cli_train_texts;

enum { CLI_TRAIN_TEXTS = 12 };
size_t cli_train_texts_table(cli_train_texts *options, cli_option out[CLI_TRAIN_TEXTS]);

struct cli_train_job;
struct cli_train_options;
/* CLI_DONE, or CLI_WRONG_USE after saying what is wrong. */
int cli_train_texts_check(const struct cli_train_options *options);
/* False after saying that the model to begin with has a task and the line has none. */
bool cli_train_texts_task(const struct cli_train_job *job);
/* A tokenizer learned from the texts, not from their labels. */
bool cli_train_texts_tokenizer(struct cli_train_job *job, const char *const *paths, size_t count,
                               const bo_tokenizer_desc *desc);
/* Classes and texts to learn from and to test with, the tokenizer and the model to begin with being there; false after saying
 * why. */
bool cli_train_texts_open(struct cli_train_job *job, const char *const *paths, size_t count);
/* What the model is for, into a descriptor that has the rest. */
void cli_train_texts_describe(const struct cli_train_job *job, bo_model_desc *desc);
void cli_train_texts_run(struct cli_train_job *job); /* what the run has of it */
/* What is said (train_texts_report.c). */
void cli_train_texts_plan(const struct cli_train_job *job);
void cli_train_texts_loss(const bo_training_report *report, char out[160]);
void cli_train_texts_print(const struct cli_train_job *job);
void cli_train_texts_json(const struct cli_train_job *job, cli_json *json);

#endif
