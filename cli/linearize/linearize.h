/* bochner linearize: options, run and report. */
#ifndef CLI_LINEARIZE_H
#define CLI_LINEARIZE_H

#include "../common/cli.h"
#include "../common/json.h"

typedef struct cli_linearize_options {
    cli_given was_given;
    const char *teacher;
    cli_list data;
    const char *valid, *field, *separator;
    double valid_fraction;
    size_t teacher_text;
    double temperature;
    unsigned attention; /* number of BO_ENUM_ATTENTION_PRESET */
    size_t features, window;
    bo_gate gate;
    double gate_bias;
    const char *keep;
    size_t lora, sparsity;
    double lora_alpha;
    const char *lora_targets;
    double minutes, transfer_share, transfer_lr, lr, share;
    size_t transfer_steps, steps, batch, context, eval_tokens, calibrate_tokens;
    bool no_transfer, no_finetune;
    const char *out;
    bool resume, merge, no_timing;
    const char *device;
    bo_precision precision;
} cli_linearize_options;

enum { CLI_LINEARIZE_LENGTHS = 3 };

#define CLI_LINEARIZE_OPTIONS_FILE "linearize.json" /* the file of the original options in the directory */

/* Measurements of the teacher or the student for the report. */
typedef struct cli_linearize_side {
    bo_evaluation quality;
    bo_session_cost costs[CLI_LINEARIZE_LENGTHS];
} cli_linearize_side;

typedef struct cli_linearize_job {
    cli_session *session;
    const cli_linearize_options *options;
    bo_model *teacher, *student;
    bo_corpus *train, *valid;
    bool made; /* this call created the directory */
    bo_attention_desc attention;
    bo_linearize_stage stage;    /* the latest reported stage */
    uint64_t steps[3];           /* completed steps per stage */
    double seconds[3];           /* time of these steps */
    cli_linearize_side sides[2]; /* teacher, student */
    bo_agreement agreement;
    double *errors; /* one per layer, after the transfer; NULL: not known */
} cli_linearize_job;

/* Measures the values of the report. */
bo_status cli_linearize_measure(cli_linearize_job *job);
void cli_linearize_print(const cli_linearize_job *job);
void cli_linearize_json(const cli_linearize_job *job);

#endif
