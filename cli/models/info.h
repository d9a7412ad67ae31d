/* What `bochner info` says of a folder (info_model.c). */
#ifndef CLI_MODELS_INFO_H
#define CLI_MODELS_INFO_H

#include "../common/cli.h"

int cli_info_model(cli_session *session, const char *folder);

#endif
