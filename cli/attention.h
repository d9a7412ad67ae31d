/* bochner attention: from options and arrays to a descriptor, a run and its report. */
#ifndef CLI_ATTENTION_H
#define CLI_ATTENTION_H

#include "cli.h"
#include "json.h"

/* A number that was not given is CLI_NOT_GIVEN, 0 for those where auto is a value; a choice is -1. */
#define CLI_NOT_GIVEN ((size_t)-1)

typedef struct cli_attention_options {
    const char *q, *k, *v, *gate, *log_gate, *sigma, *m, *mix, *out;
    int kind, gate_input, map, draw, normaliser;
    size_t features, degree, window, rank, chunk, most;
    double scale, alpha, temperature, clamp, target;
    bool causal, one_draw, whiten, propose, compare, advise, plan;
} cli_attention_options;

typedef struct cli_attention_file {
    const char *option, *path; /* path NULL: not given */
    bo_array *array;
} cli_attention_file;

typedef struct cli_attention_job {
    cli_session *session;
    const cli_attention_options *options;
    cli_attention_file q, k, v, gate, sigma, m, mix;
    bo_attention_desc desc;
    bo_attention_shape shape;
    bo_attention_inputs inputs; /* into the arrays above and below */
    float *own_m, *own_mix;     /* parameters that came from no file; NULL: none */
    bo_attention *attention;
    bo_attention_plan plan;
    float *out;
    double seconds; /* of the forward pass */
    size_t zeros;   /* queries whose output is 0 for want of a weight */
    bo_dark_report dark;
    bo_attention_error error;
} cli_attention_job;

/* False after saying why. */
bool cli_attention_ok(cli_attention_job *job, bo_status status);

/* ---- kinds and maps, by the names people know ------------------------------------------------------------ */

const char *cli_attention_kind_choice(int index);
const char *cli_attention_map_choice(int index);
const char *cli_attention_gate_choice(int index);
const char *cli_attention_normaliser_choice(int index);
bo_attention_kind cli_attention_kind(const cli_attention_options *options);
/* What --map calls this function of the softmax kernel. */
const char *cli_attention_map_of(bo_function function);
/* CLI_DONE, or CLI_WRONG_USE after naming the options that contradict each other. */
int cli_attention_check(const cli_attention_options *options);
/* The descriptor, once the shapes are known. */
void cli_attention_describe(cli_attention_job *job);

/* ---- arrays ---------------------------------------------------------------------------------------------- */

/* Each says what is wrong, with both files and shapes, and returns false. */
bool cli_attention_load(cli_attention_job *job);       /* q, k, v: fills the sizes of desc and shape */
bool cli_attention_parameters(cli_attention_job *job); /* gate, sigma, m, mix: fills inputs, and the rank of m */
void cli_attention_close(cli_attention_job *job);

/* ---- results --------------------------------------------------------------------------------------------- */

void cli_attention_say(cli_attention_job *job); /* what will be done, on standard error */
void cli_attention_print(const cli_attention_job *job);
void cli_attention_json(const cli_attention_job *job);
int cli_attention_advise(cli_attention_job *job);

#endif
