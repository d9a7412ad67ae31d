/* bochner train: from options to data, a model and a run.
 *
 * What is trained on what is a kind (src/train/task.h has the same table on the other side of the API): a language model on
 * text, a model that labels or translates texts, a network on a table, images or a graph. A kind is a file of its own:
 * rows of options, a struct of functions. train.c walks through the steps and asks the kind. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "../attention/attention.h"
#include "../common/cli.h"
#include "../common/json.h"
#include "../models/network.h"

/* ---- options ---------------------------------------------------------------------------------------------------------------- */

/* --task and what belongs to it. */
typedef struct cli_train_texts_options {
    cli_given was_given;
    bo_model_task task;
    size_t pack, encoder_layers;
    bo_pooling pooling;
    bo_cross cross;
    unsigned cross_attention; /* cli_attention_kind_choice */
    bool forward;
    double smoothing;
} cli_train_texts_options;

/* --lora and what adapters are like. */
typedef struct cli_train_lora_options {
    cli_given was_given;
    size_t rank;
    double alpha;
    const char *targets;
    bo_lora_init init;
} cli_train_lora_options;

/* --model and what belongs to it. */
typedef struct cli_train_network_options {
    cli_given was_given;
    const char *model, *valid_labels;
    double width_multiplier, epochs, lambda;
    unsigned readout; /* 1: by ridge, with lambda */
    cli_network_data data;
} cli_train_network_options;

typedef struct cli_train_options {
    cli_given was_given;
    cli_list data;
    const char *valid, *field, *separator, *tokenizer;
    double valid_fraction;
    bool documents;
    unsigned preset; /* of bo_model_preset_name */
    size_t layers, width, heads, key_heads, hidden, context, vocab;
    bo_mixer mixer;
    bo_ssm ssm;
    size_t state_size, state_rank, kernel;
    bo_mlp mlp;
    bo_kernel mlp_kernel;
    bo_function mlp_function;
    bo_draw mlp_draw;
    size_t degree_heads;
    bo_norm norm;
    bo_positions positions;
    bo_choice query_norm, output_norm;
    bool untied, bias;
    bool mup, unit_mup, float8;
    size_t base_width;
    double dropout, rope_base, sigma, gate_first, gate_last;
    const char *init, *freeze;
    bo_gate gate;
    bo_optimizer_kind optim;
    bo_schedule_kind schedule;
    bo_muon_factor muon_factor;
    bo_muon_iteration muon_iteration;
    double lr, other_lr, decay, momentum, clip, average, floor;
    size_t warmup, batch, micro_batch, steps;
    double minutes;
    bool checkpointing;
    bo_storage activations;
    size_t calibrate_every;
    const char *out, *config, *plot;
    bool resume;
    size_t eval_every, eval_tokens, checkpoint_every, keep, patience;
    cli_attention_options attention; /* kind is --attention */
    cli_train_texts_options texts;
    cli_train_lora_options lora;
    cli_train_network_options network;
} cli_train_options;

/* Rows of cli_train_options (options.c) … */
extern const cli_option cli_train_text_rows[], cli_train_shape_rows[], cli_train_attention_rows[],
    cli_train_learning_rows[];
/* … of its attention (and cli_attention_layer_rows), and of the other structs in it. */
extern const cli_option cli_train_kind_rows[], cli_train_texts_rows[], cli_train_lora_rows[], cli_train_network_rows[];

typedef struct cli_train_words {
    cli_train_options options;
    cli_common common;
    cli_arguments files; /* further texts */
    char **stored[2];    /* words of files that options point into: of the folder that is resumed, of --config */
    int stored_count[2];
} cli_train_words;

/* As they are before the first option. */
void cli_train_clear(cli_train_options *options);
/* The command line over --config over what the run in --out was started with (--resume); settings.c. */
cli_parsed cli_train_parse(int argc, char **argv, cli_train_words *words);
void cli_train_forget(cli_train_words *words);
/* Keeps the options in the folder, for --resume. */
bool cli_train_keep(cli_session *session, const cli_train_words *words);

/* ---- kinds ------------------------------------------------------------------------------------------------------------------- */

typedef struct cli_train_job cli_train_job;
enum { CLI_TRAIN_LOSS = 160, CLI_TRAIN_TITLE = 320 };

/* Members are required unless marked optional; a kind with `solve` has no run, and so no words about one. Functions that
 * return bool have said what is wrong where they return false; those that return int return CLI_DONE, or another exit
 * status after a message. */
typedef struct cli_train_kind {
    const char *unit;   /* what reports count: "tokens" */
    size_t test_tokens; /* of a test, where --eval-tokens does not say */
    bool reads_twice;   /* files, whatever the options */

    /* Do the options ask for this kind? */
    bool (*is_asked)(const cli_train_options *options);
    /* Do its options fit together, and has it all that are given? */
    int (*check)(const cli_train_words *words);
    /* Is none of its own options given beside another kind? NULL: it has none. */
    int (*check_absent)(const cli_train_options *options);
    /* The attention of models, where none is named; NULL: it has no models. */
    const char *(*attention)(const cli_train_options *options);

    /* Data, and what is trained on it. */
    bool (*open)(cli_train_job *job);
    /* What the run has of them, into job->desc, which has the rest. */
    void (*describe)(cli_train_job *job);
    /* In place of a run of the trainer; NULL: there is one. */
    int (*solve)(cli_train_job *job);

    void (*say_plan)(const cli_train_job *job);
    void (*loss_words)(const cli_train_job *job, const bo_training_report *report, char out[CLI_TRAIN_LOSS]);
    void (*print)(const cli_train_job *job); /* the results */
    void (*json)(const cli_train_job *job);
    /* What the loss is ("nats per token"), and a line on what was trained, for the picture. */
    const char *(*picture_words)(const cli_train_job *job, char title[CLI_TRAIN_TITLE]);

    /* Of kinds that train models of text, and for them alone: a tokenizer that is learned from the files, the files as data
     * (tokenizer and the model to begin with are there), whether a model may be the one to begin with, and what the
     * descriptor of a new model says of the kind (NULL: nothing). */
    bool (*learn_tokenizer)(cli_train_job *job, const char *const *paths, size_t count, const bo_tokenizer_desc *desc);
    bool (*open_files)(cli_train_job *job, const char *const *paths, size_t count);
    bool (*accepts)(const cli_train_job *job, const bo_model *init);
    void (*describe_model)(const cli_train_job *job, bo_model_desc *desc);
} cli_train_kind;

extern const cli_train_kind cli_train_language; /* language.c */
extern const cli_train_kind cli_train_texts;    /* --task: texts.c */
extern const cli_train_kind cli_train_network;  /* --model: network.c */
extern const cli_train_kind cli_train_readout;  /* … --readout ridge, which is solved for */

const cli_train_kind *cli_train_kind_of(const cli_train_options *options);
/* CLI_DONE, or CLI_WRONG_USE after saying what is wrong (check.c). */
int cli_train_check(const cli_train_words *words);
int cli_train_check_kind(const cli_train_words *words);
int cli_train_check_text(const cli_train_options *options,
                         const cli_train_kind *kind); /* of kinds with a model of text */
int cli_train_check_model(const cli_train_options *options, const cli_train_kind *kind);
int cli_train_check_lora(const cli_train_options *options);
/* The first row of a struct given that is not named in `except`, which ends with NULL; NULL: none. */
const cli_option *cli_train_given(const cli_option *rows, const void *options, const char *const *except);
/* The same of all that is about attention. */
const cli_option *cli_train_attention_given(const cli_train_options *options, const char *const *except);

/* ---- the job ------------------------------------------------------------------------------------------------------------------ */

/* Where a model's weights come from: a new one, perhaps with weights of --init, or adapters of the one in --init. */
typedef struct cli_train_weights {
    const char *file; /* that a folder of a run has */
    /* The model of --init, before the data is opened, and the model that is trained, after it. */
    bool (*open_init)(cli_train_job *job);
    bool (*open_model)(cli_train_job *job);
} cli_train_weights;
extern const cli_train_weights cli_train_new_model; /* model.c */
extern const cli_train_weights cli_train_adapters;  /* adapters.c */

struct cli_train_job {
    cli_session *session;
    const cli_train_words *words;
    const cli_train_options *options;
    const cli_train_kind *kind;
    const cli_train_weights *weights;
    bool resumed; /* the folder holds a run */

    /* Models of text. */
    bo_tokenizer *tokenizer;
    bo_model *init, *model;
    bo_corpus *train, *valid;
    bo_texts *texts, *held_out_texts; /* or these, with a --task */
    size_t longest;                   /* most tokens of one of them: the context; 0: not known yet */
    /* Networks. */
    bo_network *network;
    bo_examples *examples, *held_out;

    bo_collective ranks;
    bo_trainer_desc desc;
    bo_training_cost plan;
    bo_trainer *trainer;
    double gemm;        /* operations a second of large products, 1e9; NAN: not known */
    int measured_again; /* times it was, for steps were faster than it */
};

/* Of what the options ask for; nothing is open yet. */
cli_train_job cli_train_job_of(cli_session *session, const cli_train_words *words);
void cli_train_close(cli_train_job *job);
bool cli_train_ok(cli_train_job *job, bo_status status); /* false after saying what failed */
void cli_train_describe_run(cli_train_job *job);         /* job->desc, all of it */

/* Models of text (model.c). The attention with the kind that is meant where none is given; whether the mixer is another. */
cli_attention_options cli_train_attention(const cli_train_options *options, const cli_train_kind *kind);
bool cli_train_other_mixer(const cli_train_options *options);
bool cli_train_open_model(cli_train_job *job); /* a kind's open: tokenizer, init, data and model */
bool cli_train_open_text(cli_train_job *job);  /* … without the model */
/* A preset or the model to begin with, and over it what options say; the tokenizer is there. */
bo_model_desc cli_train_describe_model(const cli_train_job *job);

/* What is said (report.c). */
bool cli_train_plan(cli_train_job *job); /* before anything is done; false: it cannot be */
void cli_train_say_model(const cli_train_job *job);
void cli_train_say_memory(const cli_train_job *job);
double cli_train_expected_seconds(const cli_train_job *job);          /* of all steps */
bool cli_train_progress(void *job, const bo_training_report *report); /* a bo_report_fn */
enum { CLI_MIXER_WORDS = 160, CLI_TRAIN_FILES = 4096 };
/* The first file of the data, and how many more there are. */
const char *cli_train_files(const cli_train_job *job, char out[CLI_TRAIN_FILES]);
const char *cli_train_mixer_words(const bo_model_desc *desc, char out[CLI_MIXER_WORDS]);
void cli_train_model_title(const bo_model *model, char out[CLI_TRAIN_TITLE]);
/* The report on a model; `data` adds what is known of it (NULL: nothing). */
void cli_train_model_json(const cli_train_job *job, void (*data)(const cli_train_job *job, cli_json *json));
int cli_train_plot(cli_train_job *job); /* plot.c */

#endif
