/* Fitted laws: the memory behind bo_plan_laws. */
#ifndef BO_PLAN_LAWS_H
#define BO_PLAN_LAWS_H

#include "scaling.h"

enum { BO_PLAN_REPLICATES = 200, BO_PLAN_LOSS_PARAMETERS = 5, BO_PLAN_COSTS = 3 };

/* A law fitted to simulated runs, with the deviation of one new run: log(measured / law). */
typedef struct bo_loss_replicate {
    bo_plan_scaling_law law;
    double deviation;
} bo_loss_replicate;

typedef struct bo_step_replicate {
    double costs[BO_PLAN_TERM_COUNT], deviation;
} bo_step_replicate;

typedef struct bo_laws_block {
    bo_plan_laws laws; /* first member: the pointer that the caller frees */
    bo_plan_parameter loss[BO_PLAN_LOSS_PARAMETERS], costs[BO_PLAN_COSTS];
    bo_plan_scaling_form form;
    bo_plan_scaling_law law;
    double delta; /* Huber threshold of the loss law */
    double cost[BO_PLAN_TERM_COUNT];
    bool timed; /* whether there is a time law */
    bo_loss_replicate loss_replicates[BO_PLAN_REPLICATES];
    bo_step_replicate step_replicates[BO_PLAN_REPLICATES];
    bo_plan_observation observations[BO_PLAN_RUNS];
    bo_plan_forecast left_out[BO_PLAN_RUNS];
    char text[]; /* the strings of the family and of the observations */
} bo_laws_block;

/* Parses the text of a file into a family and observations that point into *root, which is freed with
 * bo_json_delete. */
bo_status bo_plan_laws_parse(bo_context *context, const char *path, const char *text, size_t length, bo_json **root,
                             bo_plan_family *family, bo_plan_observation observations[BO_PLAN_RUNS], size_t *count);
/* Writes the text of a file. */
void bo_plan_laws_text(const bo_plan_laws *laws, bo_json_text *text);

#endif
