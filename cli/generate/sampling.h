/* Sampling options of commands that generate text, and a check that outputs do not replace the model. */
#ifndef CLI_GENERATE_SAMPLING_H
#define CLI_GENERATE_SAMPLING_H

#include "../common/cli.h"

typedef struct cli_sampling_options {
    cli_given was_given;
    size_t top_k;
    double temperature, top_p, min_p, repetition_penalty;
    bool greedy;
} cli_sampling_options;
extern const cli_option cli_sampling_rows[];

/* Returns CLI_DONE if the options agree, otherwise CLI_USAGE_ERROR after a message. */
int cli_sampling_check(const char *command, const cli_sampling_options *options);
const char *cli_sampling_given(const cli_sampling_options *options); /* the first given option; NULL: none */
bo_sampler_desc cli_sampling_desc(const cli_sampling_options *options, uint64_t seed);

/* Returns CLI_DONE if the output of --option is not a file of the model directory, otherwise CLI_USAGE_ERROR after a
 * message. */
int cli_outside_model(const char *command, const char *option, const char *output, const char *directory);

#endif
