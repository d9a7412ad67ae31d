/* bochner attention, and the attention of models: from options and arrays to a descriptor, a run and its report. */
#ifndef CLI_ATTENTION_H
#define CLI_ATTENTION_H

#include "../common/cli.h"
#include "../common/json.h"

/* What comes from files; DECAY, LAMBDA and MIX may be numbers instead. */
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
    const char *command;              /* whose options they are, for messages */
    const char *sources[CLI_SOURCES]; /* files, or numbers in their place; NULL: not given */
    const char *out;
    unsigned kind, map; /* cli_attention_kind_choice, cli_attention_map_choice */
    bo_gate gate_input;
    bo_draw draw;
    bo_sampling sampling;
    bo_proposal proposal;
    bo_normalizer normalizer;
    size_t features, window, rank, iterations, chunk, most;
    double scale, gamma, alpha, degree, temperature, clamp, tolerance, target;
    bool causal, one_draw, whiten, propose, unit, no_unit, compare, advise, plan;
} cli_attention_options;

/* Traits of rows beside those of bo_attention_trait: every kind, and --advise, which is none. */
#define CLI_ANY_KIND (1u << 30)
#define CLI_ADVISE   (1u << 31)

/* Rows of cli_attention_options: of bochner attention, and those of a layer, which models have too. */
extern const cli_option cli_attention_array_rows[], cli_attention_kind_rows[], cli_attention_layer_rows[],
    cli_attention_result_rows[];

typedef struct cli_attention_file {
    const char *option, *path; /* path NULL: not given, or no file */
    bo_array *array;
    float *own; /* numbers that came from no file; NULL: none */
} cli_attention_file;

typedef struct cli_attention_job {
    cli_session *session;
    const cli_attention_options *options;
    cli_attention_file files[CLI_SOURCES];
    bo_attention_desc desc;
    bo_attention_shape shape;
    bo_attention_inputs inputs; /* into the arrays above and below */
    float *own_m;               /* by --whiten; NULL: none */
    bo_attention *attention;
    bo_attention_cost plan;
    float *out;
    double seconds; /* of the forward pass */
    size_t zeros;   /* queries whose output is 0 for want of a weight */
    bo_proposal_report dark;
    bo_calibration_report calibration;
    bo_solves solves;
    bo_attention_accuracy error;
} cli_attention_job;

/* False after saying why. */
bool cli_attention_ok(cli_attention_job *job, bo_status status);
/* The library's message, without the word that the program's begin with. */
const char *cli_attention_words(const cli_attention_job *job);

/* ---- kinds and maps, by the names people know ------------------------------------------------------------ */

const char *cli_attention_kind_choice(unsigned index);
const char *cli_attention_map_choice(unsigned index);
const char *cli_attention_normalizer_choice(unsigned index);
const char *cli_attention_option(cli_attention_source source); /* its name, without the dashes */
/* What --map calls this function of the softmax kernel. */
const char *cli_attention_map_of(bo_function function);

/* What the kind alone says. */
bo_attention_desc cli_attention_named(const cli_attention_options *options);
/* As far as options say: kind, causal, gate, normalizer, proposal, sampling, unit and the map; no sizes. */
bo_attention_desc cli_attention_chosen(const cli_attention_options *options);
/* And the numbers: all but the sizes, which arrays or a model have. */
bo_attention_desc cli_attention_numbered(const cli_attention_options *options, uint64_t seed);
/* Frequencies come from data, so that it must be calibrated. */
bool cli_attention_calibrates(const bo_attention_desc *desc);
/* The names of --map that the kind takes: "trig or relu". */
const char *cli_attention_map_words(const cli_attention_options *options, char *out, size_t room);
/* CLI_DONE, or CLI_WRONG_USE after naming the options that contradict each other. */
int cli_attention_check(const cli_attention_options *options);
int cli_attention_check_layer(
    const cli_attention_options *options); /* of a model, which has gates and parameters itself */
/* The rest of the descriptor, once the shapes are known. */
void cli_attention_describe(cli_attention_job *job);

/* ---- arrays ---------------------------------------------------------------------------------------------- */

/* Each says what is wrong, with files and shapes, and returns false. */
bool cli_attention_load(cli_attention_job *job); /* q, k, v: fills the sizes of desc and shape */
bool cli_attention_read(cli_attention_job *job, cli_attention_source source); /* the array, where a file is given */
bool cli_attention_numbers(cli_attention_job *job, const cli_attention_file *file); /* it has some */
bool cli_attention_finite(cli_attention_job *job, const cli_attention_file *file);  /* every one is */
bool cli_attention_parameters(cli_attention_job *job); /* gates and parameters: fills inputs, and the rank of M or W */
/* The arrays to calibrate with: those given, or else q and k themselves. */
bool cli_attention_calibration(cli_attention_job *job, bo_attention_shape *shape, bo_attention_inputs *inputs);
void cli_attention_close(cli_attention_job *job);

/* Numbers separated by commas: how many, the first `most` of them in out; 0: the text is something else. */
size_t cli_attention_list(const char *text, double *out, size_t most);

/* ---- results --------------------------------------------------------------------------------------------- */

/* The map of key head 0; NULL: the kind has none. */
const bo_features_desc *cli_attention_map(const cli_attention_job *job);
/* s of exp(s q·k), or γ of the map; a kind without either has none: NAN. */
double cli_attention_scale(const cli_attention_job *job);
/* What is used, given or not: g of a key head with a fixed gate; the range of Λ's diagonal. */
double cli_attention_decay(const cli_attention_job *job, size_t key_head);
void cli_attention_lambdas(const cli_attention_job *job, double *smallest, double *largest);
double cli_attention_rate(const cli_attention_job *job); /* tokens a second */
/* The output, in the queries' shape and as wide as the values; `shape` is room for that. */
enum { CLI_ATTENTION_RANK = 4 }; /* most dimensions of queries, keys and values */
bo_array cli_attention_output(const cli_attention_job *job, size_t shape[CLI_ATTENTION_RANK]);

/* "(8, 1024, 64)", cut where it is very long. */
enum { CLI_SHAPE_TEXT = 192 };
const char *cli_shape_text(const bo_array *array, char out[CLI_SHAPE_TEXT]);

void cli_attention_say(cli_attention_job *job); /* what will be done, on standard error */
void cli_attention_print(const cli_attention_job *job);
void cli_attention_json(const cli_attention_job *job);
int cli_attention_advise(cli_attention_job *job);

#endif
