/* Declarations shared by the files of `bochner plan`. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include "../common/cli.h"
#include "../common/format.h"
#include "../common/json.h"

typedef struct cli_plan_options {
    cli_given was_given;
    double parameters, minutes, tokens;
    size_t context, memory, features;
    unsigned attention; /* cli_attention_kind_choice */
    bool quick;
    const char *calibration, *data, *out;
    bool fit, loss_only;
    const char *law;
    cli_list holdout;
} cli_plan_options;

typedef struct cli_plan_job {
    cli_session *session;
    const cli_plan_options *options;
    bo_plan_host *machine;
    bool measured; /* measured now, not read from a file */
    bo_plan_losses *losses;
    bo_plan *plan;
} cli_plan_job;

void cli_plan_print(const cli_plan_job *job);
void cli_plan_json(const cli_plan_job *job);

/* "473 ± 142", "1.52 ± 0.13": the uncertainty has two digits. */
cli_short_text cli_plan_plus_minus(bo_plan_range range, double unit);
void cli_plan_json_range(cli_json *json, const char *key, bo_plan_range range);
void cli_plan_json_choice(cli_json *json, const bo_plan_choice *c);

/* With --fit or --law: fits laws to the runs, or loads them, prints them and plans if there is a budget. Returns the
 * exit status. */
int cli_plan_fitted(cli_session *session, const cli_plan_options *options, const cli_arguments *runs);

#endif
