/* bochner train: from options to a text, a model and a run. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "../attention/attention.h"
#include "../common/cli.h"
#include "../common/json.h"
#include "adapters.h"
#include "network.h"
#include "texts.h"

/* Not given: 0 of a count, NAN of a number, -1 of a choice, NULL of a text. */
typedef struct cli_train_options {
    cli_list data;
    const char *valid, *field, *separator, *tokenizer;
    double valid_fraction;
    bool documents;
    int preset;
    size_t layers, width, heads, key_heads, hidden, context, vocab;
    int mixer, ssm;
    size_t state_size, state_rank, kernel;
    int mlp, norm, positions, query_norm, output_norm;
    int mlp_kernel, mlp_function, mlp_draw;
    size_t degree_heads;
    bool untied, bias;
    bool mup, unit_mup, float8;
    size_t base_width;
    double dropout, rope_base, sigma, gate_first, gate_last; /* 0: not given, but dropout */
    const char *init, *freeze;
    int gate;
    cli_attention_options attention; /* kind is --attention */
    int optim, schedule, muon_factor, muon_iteration;
    double lr, other_lr, decay, momentum, clip, average, floor;
    size_t warmup; /* CLI_NOT_GIVEN: not */
    size_t batch, micro_batch, steps;
    double minutes;
    bool checkpointing;
    int activations; /* bo_storage */
    size_t calibrate_every;
    const char *out, *config, *plot;
    bool resume;
    size_t eval_every, eval_tokens /* CLI_NOT_GIVEN: not */, checkpoint_every, keep, patience;
    cli_train_texts texts;     /* --task and what belongs to it */
    cli_train_lora lora;       /* --lora and what it is like */
    cli_train_network network; /* --model and its data */
} cli_train_options;

enum { CLI_TRAIN_OPTIONS = 192 };

/* ---- options (train_options.c, train_model_options.c, train_learning_options.c, train_words.c, train_check.c) ------------ */

typedef struct cli_train_words {
    cli_train_options options;
    cli_common common;
    cli_arguments files; /* further texts */
    char **stored[2];    /* words of files that options point into: of the folder that is resumed, of --config */
    int stored_count[2];
} cli_train_words;

cli_train_options cli_train_defaults(void);
/* All of them, pointing into *options; how many. */
size_t cli_train_table(cli_train_options *options, cli_option out[CLI_TRAIN_OPTIONS]);
/* Its parts, likewise. */
size_t cli_train_text_table(cli_train_options *options, cli_option *out);
size_t cli_train_shape_table(cli_train_options *options, cli_option *out);
size_t cli_train_attention_table(cli_train_options *options, cli_option *out);
size_t cli_train_learning_table(cli_train_options *options, cli_option *out);
/* Those of model, attention and learning alone: of commands that make models without a run of their own. */
size_t cli_train_model_table(cli_train_options *options, cli_option *out); /* room for CLI_TRAIN_OPTIONS less a few */
int cli_train_check_model(const cli_train_options *options);
/* The command line over --config over what the run in --out was started with (--resume). */
cli_parsed cli_train_parse(int argc, char **argv, cli_train_words *words);
void cli_train_forget(cli_train_words *words);
/* Keeps the options in the folder, for --resume. */
bool cli_train_keep(cli_session *session, const cli_train_words *words);
/* The mixer is another than attention. */
bool cli_train_other_mixer(const cli_train_options *options);
/* With the kind that is meant where none is given. */
cli_attention_options cli_train_attention(const cli_train_options *options);
/* CLI_DONE, or CLI_WRONG_USE after saying what is wrong. */
int cli_train_check(const cli_train_words *words);

/* ---- the job ------------------------------------------------------------------------------------------------------------- */

typedef struct cli_train_job {
    cli_session *session;
    const cli_train_words *words;
    const cli_train_options *options;
    bool resumed; /* the folder holds a run */
    bo_tokenizer *tokenizer;
    bo_corpus *train, *valid;
    bo_texts *texts, *held_out_texts; /* or these, with a --task */
    size_t longest;                   /* most tokens of one of them: the context; 0: not known yet */
    bo_model *init, *model;
    bo_network *network; /* or this, on these */
    bo_examples *examples, *held_out;
    bo_collective ranks;
    bo_trainer_desc desc;
    bo_trainer_plan plan;
    bo_trainer *trainer;
    double gemm;        /* operations a second of large products, 1e9; NAN: not known */
    int measured_again; /* times it was, for steps were faster than it */
} cli_train_job;

/* Text, tokenizer and model (train_model.c); false after saying why. */
bool cli_train_open(cli_train_job *job);
bool cli_train_open_text(cli_train_job *job); /* tokenizer, text and the model to begin with alone */
/* A preset or the model to begin with, and over it what options say; the tokenizer is there. */
bo_model_desc cli_train_describe_model(const cli_train_job *job);
void cli_train_close(cli_train_job *job);
void cli_train_describe_run(cli_train_job *job); /* job->desc, but for what is trained on what */

/* What will be done, before it is (train_report.c). False: it cannot be. */
bool cli_train_plan(cli_train_job *job);
void cli_train_say_model(const cli_train_job *job);
void cli_train_say_memory(const cli_train_job *job);
double cli_train_expected_seconds(const cli_train_job *job);          /* of so many steps */
bool cli_train_progress(void *job, const bo_training_report *report); /* a bo_report_fn */
void cli_train_print(const cli_train_job *job);
void cli_train_json(const cli_train_job *job);
enum { CLI_MIXER_WORDS = 160, CLI_TRAIN_FILES = 4096 };
/* The first file of the data, and how many more there are. */
const char *cli_train_files(const cli_train_job *job, char out[CLI_TRAIN_FILES]);
const char *cli_train_mixer_words(const bo_model_desc *desc, char out[CLI_MIXER_WORDS]);
int cli_train_plot(cli_train_job *job); /* train_plot.c */

#endif
