/* bochner plan --fit: runs of bochner train as observations for scaling laws. */
#ifndef CLI_PLAN_FIT_H
#define CLI_PLAN_FIT_H

#include "../compare/run.h"
#include "plan.h"

/* A run, with the properties that all runs of a law must share. */
typedef struct cli_plan_run {
    char *name;
    bo_model_desc model; /* owned */
    bo_json *options;    /* train.json, or NULL */
    char *config_text;   /* config.json; freed with bo_free */
    cli_run_record record;
    char tokenizer[24];
    size_t batch, micro_batch;
    bo_optimizer_kind optimizer;
    bo_storage activations;
    bool checkpointing;
    double token_bytes;
    int threads; /* 0: not known */
    char isa[16];
    bo_plan_observation observation; /* its name points to `name` */
} cli_plan_run;

/* False after a message: the directory is not a run of a language model, or is damaged. */
bool cli_plan_run_read(cli_session *session, const char *directory, cli_plan_run *out);
void cli_plan_run_free(cli_plan_run *run);

/* False after a message that names both runs: they cannot share a law. `timed`: times must be comparable. */
bool cli_plan_run_matches(cli_session *session, const cli_plan_run *a, const cli_plan_run *b, bool timed);

#endif
