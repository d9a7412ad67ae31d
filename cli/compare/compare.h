/* bochner compare: a table and a plot of several training runs. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "../model/mixer_text.h"
#include "run.h"

typedef enum cli_compare_axis { CLI_COMPARE_STEP, CLI_COMPARE_TOKENS, CLI_COMPARE_SECONDS } cli_compare_axis;

/* One run. Numbers are NAN if they are unknown. */
typedef struct cli_compared {
    char *name;     /* name of the directory */
    char *data;     /* train.json: options that select the data */
    bool network;   /* not a text model */
    bool has_model; /* the first checkpoint was written */
    bool finished;
    bo_model_task task;
    bool attends; /* its mixer is attention */
    char mixer[CLI_MIXER_TEXT];
    double parameters, state_bytes;
    bool state_grows;    /* with the number of tokens */
    size_t state_tokens; /* tokens at which the state was measured */
    uint64_t tokenizer;  /* fingerprint */
    cli_run_record record;
    cli_run_metrics metrics;
    cli_run_point last; /* last point of the metrics */
    double rate;        /* median tokens or examples per second */
    double best_metric; /* bits per byte at the best validation loss */
} cli_compared;

typedef struct cli_comparison {
    cli_compared *runs;
    size_t count;
    bool by_bits; /* sorted and plotted by bits per byte, because tokenizers differ */
    cli_compare_axis axis;
} cli_comparison;

double cli_compared_score(const cli_comparison *all, const cli_compared *run); /* the score by which runs are sorted */
const char *cli_compared_unit(const cli_compared *run);                        /* unit of the loss: "nats per token" */
int cli_compare_plot(cli_session *session, const char *path, const cli_comparison *all);

#endif
