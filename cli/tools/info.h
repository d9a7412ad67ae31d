/* bochner info: one file per kind of file or directory. */
#ifndef CLI_TOOLS_INFO_H
#define CLI_TOOLS_INFO_H

#include "../common/json.h"
#include "profile.h"

/* ---- text models and networks ------------------------------------------------------------------------------------ */

/* Each describes a directory, or a model in one file, and returns the exit status. */
int cli_info_network(cli_session *session, const char *directory, const cli_profile_options *options);
int cli_info_model(cli_session *session, const char *directory, const cli_profile_options *options);

/* ---- kernel machines, feature maps, embeddings ------------------------------------------------------------------- */

/* Each describes a file of its kind. */
void cli_info_machine(const cli_session *session, const char *path, const bo_machine *machine, const bo_schema *schema);
void cli_info_features(const cli_session *session, const char *path, const bo_features *map);
void cli_info_embedding(const cli_session *session, const char *path, const bo_embedding *embedding,
                        const bo_schema *schema);

/* Starts the JSON object of a file. */
void cli_info_json_file(cli_json *json, const char *path, const char *holds);
double cli_info_file_size(const char *path); /* in bytes; NAN: unknown */
/* Prints the first few names of a list. */
void cli_info_names(const char *title, size_t count, const char *const *names);

/* ---- devices ----------------------------------------------------------------------------------------------------- */

int cli_info_devices(cli_session *session);

#endif
