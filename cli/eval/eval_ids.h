/* bochner eval --ids: a language model on sequences of token ids. */
#ifndef CLI_EVAL_EVAL_IDS_H
#define CLI_EVAL_EVAL_IDS_H

#include "../common/cli.h"

typedef struct cli_eval_ids_use {
    const char *ids;    /* .npy */
    const char *logits; /* .npy to write; NULL: none */
} cli_eval_ids_use;

/* Reads each sequence with an empty state, and prints the loss of its tokens. Returns the exit status. */
int cli_eval_ids(cli_session *session, const bo_model *model, const cli_eval_ids_use *use);

#endif
