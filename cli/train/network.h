/* bochner train --model: from a description and a table to a network and a run. */
#ifndef CLI_TRAIN_NETWORK_H
#define CLI_TRAIN_NETWORK_H

#include "../models/network.h"

/* Not given: NULL or 0. */
typedef struct cli_train_network {
    const char *model, *valid_labels;
    cli_network_data data;
    double width_multiplier, epochs;
    int readout; /* 1: by ridge, with lambda */
    double lambda;
} cli_train_network;

enum { CLI_TRAIN_NETWORK = 18 };
size_t cli_train_network_table(cli_train_network *options, cli_option out[CLI_TRAIN_NETWORK]);

struct cli_train_job;
struct cli_train_words;
/* CLI_DONE, or CLI_WRONG_USE after saying what is wrong. */
int cli_train_network_check(const struct cli_train_words *words);
/* Examples, network and the run's descriptor; false after saying why. */
bool cli_train_network_open(struct cli_train_job *job);
void cli_train_network_plan(const struct cli_train_job *job); /* says it */
void cli_train_network_loss(const struct cli_train_job *job, const bo_training_report *report, char out[160]);
void cli_train_network_print(const struct cli_train_job *job);
void cli_train_network_json(const struct cli_train_job *job);
int cli_train_readout(struct cli_train_job *job); /* in place of a run (train_readout.c) */

#endif
