/* The profile in bochner info: graph, table and JSON. */
#ifndef CLI_TOOLS_PROFILE_H
#define CLI_TOOLS_PROFILE_H

#include "../common/cli.h"
#include "../common/json.h"

typedef struct cli_profile_options {
    cli_given was_given;
    bool devices;      /* list GPUs instead of a profile */
    const char *graph; /* NULL: no profile */
    size_t batch, tokens, repeats;
    bool forward, checkpointing;
    const char *device;
    bo_precision precision;
} cli_profile_options;
extern const cli_option cli_profile_rows[];

/* Checks the options, and that the file can be written. False after an error message; *status is then the exit
 * status. */
bool cli_profile_check(cli_session *session, const cli_profile_options *options, int *status);
bo_profile_desc cli_profile_desc(const cli_profile_options *options, const cli_common *common);
/* Writes options->graph. */
int cli_profile_draw(cli_session *session, const cli_profile_options *options, const bo_profile *profile);
/* Prints time and bytes per kind of operation, sorted by time. */
void cli_profile_print(const bo_profile *profile);
void cli_profile_json(cli_json *json, const bo_profile *profile); /* adds the member "profile" to an object */

#endif
