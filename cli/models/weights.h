/* --weights: how a model's weights are kept while it is read. */
#ifndef CLI_MODELS_WEIGHTS_H
#define CLI_MODELS_WEIGHTS_H

#include "../common/cli.h"

const char *cli_weights_choice(int index); /* float32, bfloat16, int8; NULL after the last */
/* *out is there even after an error, to be destroyed. */
bo_status cli_weights_load(bo_context *context, const char *folder, int weights, bo_model **out);

#endif
