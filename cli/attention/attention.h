/* bochner attention, and the attention options of models: options and arrays, descriptor, run and report. */
#ifndef CLI_ATTENTION_H
#define CLI_ATTENTION_H

#include "../common/cli.h"
#include "../common/json.h"

/* Arrays from files; DECAY, LAMBDA and MIX may be numbers instead. */
typedef enum cli_attention_source {
    CLI_Q,
    CLI_K,
    CLI_V,
    CLI_GATE,
    CLI_LOG_GATE,
    CLI_DECAY,
    CLI_BETA,
    CLI_SIGMA,
    CLI_M,
    CLI_W,
    CLI_W_K,
    CLI_BIAS,
    CLI_BIAS_K,
    CLI_LAMBDA,
    CLI_MIX,
    CLI_CALIBRATE_Q,
    CLI_CALIBRATE_K,
    CLI_SOURCES
} cli_attention_source;

typedef struct cli_attention_options {
    cli_given was_given;
    const char *command;              /* the command, for messages */
    const char *sources[CLI_SOURCES]; /* files or numbers; NULL: not given */
    const char *out;
    const char *model; /* --advise: a model whose queries, keys and values are used; NULL: arrays */
    cli_list data;     /* its text */
    size_t layer;
    unsigned kind, map; /* cli_attention_kind_choice, cli_attention_map_choice */
    bo_gate gate_input;
    bo_draw draw;
    bo_sampling sampling;
    bo_proposal proposal;
    bo_normalizer normalizer;
    size_t features, window, rank, iterations, chunk, max_features, calibrate_rows;
    double scale, gamma, alpha, degree, temperature, clamp, tolerance, target;
    bo_precision precision;
    bool causal, one_draw, whiten, propose, unit, no_unit, compare, advise, plan;
} cli_attention_options;

/* Traits of rows in addition to bo_attention_trait: options of every kind, and of --advise. */
#define CLI_ANY_KIND (1u << 30)
#define CLI_ADVISE   (1u << 31)

/* Rows of cli_attention_options. Models have the rows of layers too. */
extern const cli_option cli_attention_array_rows[], cli_attention_kind_rows[], cli_attention_layer_rows[],
    cli_attention_result_rows[];

typedef struct cli_attention_file {
    const char *option, *path; /* path NULL: not given, or not a file */
    bo_array *array;
    float *values; /* numbers from the command line; NULL: none */
} cli_attention_file;

/* The rows for the fit. */
typedef struct cli_attention_sample {
    bo_attention_call call; /* q and k; NULL: it is not fitted to data */
    float *q_copy, *k_copy; /* copies; NULL: q and k belong to files */
} cli_attention_sample;

typedef struct cli_attention_job {
    cli_session *session;
    const cli_attention_options *options;
    cli_attention_file files[CLI_SOURCES];
    bo_attention_desc desc;
    bo_attention_call call; /* points to arrays of this struct */
    cli_attention_sample sample;
    size_t unfitted;      /* the number of first tokens whose outputs do not use the fit */
    float *whitening_m;   /* by --whiten; NULL: none */
    float *model_rows[3]; /* q, k and v computed by a model; NULL: none */
    bo_attention *attention;
    bo_attention_cost plan;
    float *out;
    double seconds; /* of the forward pass */
    size_t zeros;   /* queries whose output is 0 because all weights underflow */
    bo_proposal_report dark;
    bo_calibration_report calibration;
    bo_solves solves;
    bo_attention_accuracy error;
} cli_attention_job;

/* False after an error was reported. */
bool cli_attention_ok(cli_attention_job *job, bo_status status);
/* The library's message without the prefix "attention: ", which the program adds itself. */
const char *cli_attention_error(const cli_attention_job *job);

/* ---- names of kinds and maps ------------------------------------------------------------------------------------- */

const char *cli_attention_kind_choice(unsigned index);
const char *cli_attention_map_choice(unsigned index);
const char *cli_attention_normalizer_choice(unsigned index);
const char *cli_attention_option(cli_attention_source source); /* the option's name, without the dashes */
/* The name in --map of this function of the softmax kernel. */
const char *cli_attention_map_of(bo_function function);

/* The descriptor of the kind alone. */
bo_attention_desc cli_attention_named(const cli_attention_options *options);
/* Also sets the enumerations and flags of the options: kind, causal, gate, normalizer, proposal, sampling, unit and
 * map. */
bo_attention_desc cli_attention_chosen(const cli_attention_options *options);
/* Also sets the numbers of the options: everything except the sizes, which come from arrays or a model. */
bo_attention_desc cli_attention_numbered(const cli_attention_options *options, uint64_t seed);
/* The options for another kind, without options that do not apply to it. */
cli_attention_options cli_attention_as(const cli_attention_options *options, unsigned kind);
/* The names of --map that the kind accepts: "trig or relu". */
const char *cli_attention_map_names(const cli_attention_options *options, char *out, size_t out_size);
/* CLI_DONE, or CLI_USAGE_ERROR after reporting options that exclude each other. */
int cli_attention_check(const cli_attention_options *options);
int cli_attention_check_layer(
    const cli_attention_options *options); /* for a model, which computes gates and parameters itself */
/* Completes the descriptor. The shapes must be known. */
void cli_attention_describe(cli_attention_job *job);

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Each returns false after reporting an error with files and shapes. */
bool cli_attention_load(cli_attention_job *job);       /* q, k, v: sets the sizes of desc and call */
bool cli_attention_load_model(cli_attention_job *job); /* the same, from a layer of a model on a text */
bool cli_attention_read(cli_attention_job *job, cli_attention_source source); /* reads the array if a file is given */
bool cli_attention_numbers(cli_attention_job *job, const cli_attention_file *file); /* the array is not empty */
bool cli_attention_finite(cli_attention_job *job, const cli_attention_file *file);  /* all numbers are finite */
bool cli_attention_parameters(cli_attention_job *job); /* gates and parameters: sets the call, and the rank of M or W */
/* Sets the sample to the calibration arrays: the given ones, or q and k. */
bool cli_attention_calibration(cli_attention_job *job);
void cli_attention_close(cli_attention_job *job);

/* Parses numbers separated by commas; returns their count and stores the first `capacity` of them. 0: not a list of
 * numbers. */
size_t cli_attention_list(const char *text, double *out, size_t capacity);

/* ---- the fit to data --------------------------------------------------------------------------------------------- */

/* True if frequencies are drawn from a proposal or selected by the data. */
bool cli_attention_calibrates(const bo_attention_desc *desc);
/* True if anything is fitted to data. */
bool cli_attention_fits(const cli_attention_options *options, const bo_attention_desc *desc);
/* Chooses the rows to fit to. Returns false after reporting an error. */
bool cli_attention_sample_rows(cli_attention_job *job);
/* Fits the attention to the sample. Returns false after reporting an error. */
bool cli_attention_fit(cli_attention_job *job);
/* Replaces the outputs of the first tokens by outputs of the attention without the fit. */
bo_status cli_attention_forward_unfitted(cli_attention_job *job);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* The map of key head 0; NULL: the kind has none. */
const bo_features_desc *cli_attention_map(const cli_attention_job *job);
/* s of exp(s q·k), or γ of the map; NAN if the kind has neither. */
double cli_attention_scale(const cli_attention_job *job);
/* The values in use: the fixed gate of a key head; the range of the diagonal of Λ. */
double cli_attention_decay(const cli_attention_job *job, size_t key_head);
void cli_attention_lambdas(const cli_attention_job *job, double *smallest, double *largest);
double cli_attention_rate(const cli_attention_job *job); /* tokens per second */
/* The output: the shape of the queries with the width of the values. `shape` receives the shape. */
enum { CLI_ATTENTION_RANK = 4 }; /* maximum rank of queries, keys and values */
bo_array cli_attention_output(const cli_attention_job *job, size_t shape[CLI_ATTENTION_RANK]);

/* "(8, 1024, 64)", truncated if it is very long. */
enum { CLI_SHAPE_TEXT = 192 };
const char *cli_shape_text(const bo_array *array, char out[CLI_SHAPE_TEXT]);

void cli_attention_report_plan(cli_attention_job *job); /* prints the plan to standard error */
void cli_attention_print(const cli_attention_job *job);
void cli_attention_json(const cli_attention_job *job);
int cli_attention_advise(cli_attention_job *job);

#endif
