/* bochner train: options, data, model and run.
 *
 * There are several kinds of training: a language model on text, a model that classifies, matches or translates texts,
 * and a network on a table, images or a graph. Each kind is one file with option rows and a struct of functions
 * (src/train/task.h is the corresponding table of the library). train.c runs the steps and calls the functions of the
 * kind. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "../attention/attention.h"
#include "../common/cli.h"
#include "../common/json.h"
#include "../network/network.h"

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* --task and its options. */
typedef struct cli_train_texts_options {
    cli_given was_given;
    bo_model_task task;
    size_t pack, encoder_layers;
    bo_pooling pooling;
    bo_cross cross;
    unsigned encoder_attention, cross_attention; /* cli_attention_kind_choice */
    size_t encoder_features, cross_features;
    bool forward;
    double smoothing;
} cli_train_texts_options;

/* --lora and its options. */
typedef struct cli_train_lora_options {
    cli_given was_given;
    size_t rank;
    double alpha;
    const char *targets;
    bo_lora_init init;
} cli_train_lora_options;

/* --model and its options. */
typedef struct cli_train_network_options {
    cli_given was_given;
    const char *model, *valid_labels;
    double width_multiplier, epochs, lambda;
    unsigned readout; /* 1: ridge, with lambda */
    cli_network_data data;
} cli_train_network_options;

typedef struct cli_train_options {
    cli_given was_given;
    cli_list data;
    const char *valid, *field, *separator, *tokenizer;
    double valid_fraction;
    bool documents, stateful;
    size_t state_windows;
    unsigned preset; /* index of bo_model_preset_name */
    const char *blocks;
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
    const char *device;
    bo_precision precision;
    size_t calibrate_every, redraw;
    const char *out, *config, *plot;
    bool resume;
    size_t eval_every, eval_tokens, checkpoint_every, keep, patience;
    cli_attention_options attention; /* its kind is --attention */
    cli_train_texts_options texts;
    cli_train_lora_options lora;
    cli_train_network_options network;
} cli_train_options;

/* Rows of cli_train_options (options.c). */
extern const cli_option cli_train_text_rows[], cli_train_shape_rows[], cli_train_attention_rows[],
    cli_train_learning_rows[];
/* Rows of its attention (in addition to cli_attention_layer_rows) and of its other structs. */
extern const cli_option cli_train_kind_rows[], cli_train_whiten_rows[], cli_train_texts_rows[], cli_train_lora_rows[],
    cli_train_network_rows[];

typedef struct cli_train_args {
    cli_train_options options;
    cli_common common;
    cli_arguments files; /* further data files */
    char **stored[2];    /* arguments from train.json and from --config; the options point to them */
    int stored_count[2];
} cli_train_args;

/* Sets all defaults. */
void cli_train_clear(cli_train_options *options);
/* Reads the options. The command line takes precedence over --config, and --config over the original options of the run
 * in --out (--resume); settings.c. */
cli_parsed cli_train_parse(int argc, char **argv, cli_train_args *args);
void cli_train_args_free(cli_train_args *args);
/* Writes the options to the directory of the run, for --resume. */
bool cli_train_save_options(cli_session *session, const cli_train_args *args);

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

typedef struct cli_train_job cli_train_job;
enum { CLI_TRAIN_LOSS = 160, CLI_TRAIN_TITLE = 400, CLI_TRAIN_FILES = 4096 };

/* All members are required unless marked optional. A kind with `solve` has no run and no messages about a run.
 * Functions that return bool return false after an error message; functions that return int return CLI_DONE, or another
 * exit status after a message. */
typedef struct cli_train_kind {
    const char *unit;   /* unit of reports: "tokens" */
    size_t test_tokens; /* default of --eval-tokens */
    bool reads_twice;   /* always reads the data files more than once */

    /* True if the options select this kind. */
    bool (*is_requested)(const cli_train_options *options);
    /* Checks that the options of the kind are consistent, and that no options of other kinds are given. */
    int (*check)(const cli_train_args *args);
    /* Called for another selected kind: checks that no options of this kind are given. NULL: this kind has no
     * options. */
    int (*check_absent)(const cli_train_options *options);
    /* The default of --attention; NULL: the kind has no attention. */
    const char *(*attention)(const cli_train_options *options);

    /* Opens the data and the model or network. */
    bool (*open)(cli_train_job *job);
    /* Fills the members of job->desc that depend on the kind. */
    void (*describe)(cli_train_job *job);
    /* Replaces the trainer; NULL: the trainer runs. */
    int (*solve)(cli_train_job *job);
    /* Suggests the next command (cli_suggest_next); `directory` contains the best weights. */
    void (*suggest_next)(const cli_train_job *job, const char *directory);

    void (*report_plan)(const cli_train_job *job);
    void (*format_loss)(const cli_train_job *job, const bo_training_report *report, char out[CLI_TRAIN_LOSS]);
    void (*print)(const cli_train_job *job); /* the report */
    void (*json)(const cli_train_job *job);
    /* For the plot: the unit of the loss ("nats per token"), and the title. */
    const char *(*plot_labels)(const cli_train_job *job, char title[CLI_TRAIN_TITLE]);

    /* For kinds with a text model: trains a tokenizer on the files; opens the files as data (tokenizer and --init are
     * open); checks the model of --init; and fills the members of a new model's descriptor that depend on the kind (may
     * be NULL). */
    bool (*learn_tokenizer)(cli_train_job *job, const char *const *paths, size_t count, const bo_tokenizer_desc *desc);
    bool (*open_files)(cli_train_job *job, const char *const *paths, size_t count);
    bool (*accepts)(const cli_train_job *job, const bo_model *init);
    bool (*describe_model)(cli_train_job *job, bo_model_desc *desc);
} cli_train_kind;

extern const cli_train_kind cli_train_language; /* language.c */
extern const cli_train_kind cli_train_texts;    /* --task: texts.c */
extern const cli_train_kind cli_train_network;  /* --model: network.c */
extern const cli_train_kind cli_train_readout;  /* --model with --readout ridge: network.c */

const cli_train_kind *cli_train_kind_of(const cli_train_options *options);
/* CLI_DONE, or CLI_USAGE_ERROR after an error message (check.c). */
int cli_train_check(const cli_train_args *args);
int cli_train_check_kind(const cli_train_args *args);
int cli_train_check_text(const cli_train_options *options,
                         const cli_train_kind *kind); /* for kinds with a text model */
int cli_train_check_model(const cli_train_options *options, const cli_train_kind *kind);
int cli_train_check_lora(const cli_train_options *options);
/* The first given row that is not listed in `except` (NULL-terminated); NULL: none. */
const cli_option *cli_train_given(const cli_option *rows, const void *options, const char *const *except);
/* The same for all attention options. */
const cli_option *cli_train_attention_given(const cli_train_options *options, const char *const *except);

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* The source of the weights: a new model, perhaps with weights of --init, or adapters of the model in --init. */
typedef struct cli_train_weights {
    const char *file; /* in the directory of a run */
    /* Opens the model of --init, before the data, and the model that is trained, after the data. */
    bool (*open_init)(cli_train_job *job);
    bool (*open_model)(cli_train_job *job);
    /* Writes additional files of the weights to the existing directory of the run. NULL: none. */
    bool (*write_files)(cli_train_job *job);
} cli_train_weights;
extern const cli_train_weights cli_train_new_model; /* model.c */
extern const cli_train_weights cli_train_adapters;  /* adapters.c */

struct cli_train_job {
    cli_session *session;
    const cli_train_args *args;
    const cli_train_options *options;
    const cli_train_kind *kind;
    const cli_train_weights *weights;
    bool resumed; /* the run in --out is continued */

    /* Text models. */
    bo_tokenizer *tokenizer;
    bo_model *init, *model;
    bo_model_desc described; /* owned: the descriptor of --init, with blocks changed by the options */
    bo_corpus *train, *valid;
    bo_texts *texts, *held_out_texts; /* or these, with --task */
    bo_block *encoder_blocks;         /* owned: blocks of a new encoder whose layers differ */
    size_t longest;                   /* maximum tokens per text: the context; 0: not known yet */
    bo_examples *examples, *held_out; /* or these, with --model */

    bo_collective ranks;
    bo_trainer_desc desc;
    bo_training_cost plan;
    bo_trainer *trainer;
    double gemm;        /* GEMM rate in 1e9 operations per second; NAN: not known */
    int measured_again; /* number of measurements repeated because steps were faster */
};

/* Returns a job for the options; nothing is open yet. */
cli_train_job cli_train_job_of(cli_session *session, const cli_train_args *args);
void cli_train_close(cli_train_job *job);
bool cli_train_ok(cli_train_job *job, bo_status status); /* false after an error message */
void cli_train_describe_run(cli_train_job *job);         /* fills job->desc */

/* Text models (model.c): the attention, with the default kind if none is given; whether the mixer is not attention. */
cli_attention_options cli_train_attention(const cli_train_options *options, const cli_train_kind *kind);
bool cli_train_other_mixer(const cli_train_options *options);
bool cli_train_open_model(cli_train_job *job); /* an `open`: tokenizer, --init, data and model */
bool cli_train_open_text(cli_train_job *job);  /* the same without the model */
/* Sets the attention of a block from the options, and the initial values of its parameters. The sizes must be set. */
void cli_train_set_attention(const cli_train_job *job, const bo_model_desc *desc, bo_block *block);
/* The descriptor of the preset or of the model of --init, with the changes of the options. The tokenizer must be
 * open. */
bool cli_train_describe_model(cli_train_job *job, bo_model_desc *out); /* valid until the next call */
/* True if --attention replaces the attention of a model with adapters (adapters.c). */
bool cli_train_replaces(const cli_train_options *options);
/* A description as text; NULL after an error message. Freed by bo_free. */
char *cli_train_read_description(cli_session *session, const char *path);
/* The directory of the model with the frozen weights of the adapters and the tokenizer with its special tokens. */
const char *cli_train_base(const cli_train_job *job, char out[CLI_TRAIN_FILES]);
/* Returns the tokens per training sequence of adapters; 0: no adapters, and the context of the model (adapters.c). */
size_t cli_train_window(const cli_train_job *job);

/* Messages (report.c). */
bool cli_train_plan(cli_train_job *job); /* prints the plan; false: training does not fit into memory */
void cli_train_report_model(const cli_train_job *job);
void cli_train_report_memory(const cli_train_job *job);
/* ", about 5 min" for all steps; empty if the rate of the device is not known. */
enum { CLI_TRAIN_ABOUT = 64 };
const char *cli_train_about(const cli_train_job *job, char out[CLI_TRAIN_ABOUT]);
bool cli_train_progress(void *job, const bo_training_report *report); /* a bo_report_fn */
/* The first data file, and the number of further files. */
const char *cli_train_files(const cli_train_job *job, char out[CLI_TRAIN_FILES]);
void cli_train_model_title(const bo_model *model, char out[CLI_TRAIN_TITLE]);
/* Prints the JSON report on a model; `data` adds members about the data (may be NULL). */
void cli_train_model_json(const cli_train_job *job, void (*data)(const cli_train_job *job, cli_json *json));
/* "Model       DIR; weights with the best validation loss: DIR/best" */
void cli_train_print_directory(const cli_train_job *job, const char *title);
int cli_train_plot(cli_train_job *job); /* plot.c */
/* Suggests the next command. */
void cli_train_suggest_next(const cli_train_job *job);

#endif
