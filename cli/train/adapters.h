/* bochner train --lora: adapters of a model instead of the model. */
#ifndef CLI_TRAIN_ADAPTERS_H
#define CLI_TRAIN_ADAPTERS_H

#include "../common/cli.h"

/* Not given: 0, -1 of the choice, NULL. */
typedef struct cli_train_lora {
    size_t rank;
    double alpha;
    const char *targets;
    int init;
} cli_train_lora;

enum { CLI_TRAIN_LORA = 8 };
size_t cli_train_lora_table(cli_train_lora *options, cli_option out[CLI_TRAIN_LORA]);

struct cli_train_job;
/* The model of --init with adapters, or the adapters of the run that is resumed; false after saying why. */
bool cli_train_lora_open(struct cli_train_job *job);

#endif
