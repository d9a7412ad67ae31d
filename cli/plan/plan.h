/* Declarations shared by the files of `bochner plan`. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "../common/cli.h"

typedef struct cli_plan_options {
    cli_given was_given;
    double parameters, minutes, tokens;
    size_t context, memory, features;
    unsigned attention; /* cli_attention_kind_choice */
    bool quick;
    const char *calibration, *data, *out;
} cli_plan_options;

typedef struct cli_plan_job {
    cli_session *session;
    const cli_plan_options *options;
    bo_plan_machine *machine;
    bool measured; /* now, not read from a file */
    bo_plan_losses *losses;
    bo_plan *plan;
} cli_plan_job;

void cli_plan_print(const cli_plan_job *job);
void cli_plan_json(const cli_plan_job *job);

#endif
