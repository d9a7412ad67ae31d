/* Token ids from a .npy file, one or more sequences of the same length, and end tokens. */
#ifndef CLI_TEXT_IDS_H
#define CLI_TEXT_IDS_H

#include "../common/cli.h"

/* `sequences` rows of `tokens` ids. */
typedef struct cli_ids {
    int32_t *items;
    size_t sequences, tokens;
    bool batch; /* the array has two dimensions */
} cli_ids;

/* Reads whole numbers from 0 to vocab - 1, of any numeric type. False after a message; otherwise freed with
 * cli_ids_free. */
bool cli_ids_load(cli_session *session, const char *path, size_t vocab, cli_ids *out);
void cli_ids_free(cli_ids *ids);

/* True for the end tokens of the model. */
bool cli_ends_text(const bo_model *model, int32_t id);

#endif
