/* What `bochner info` says of a folder (info_model.c). */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include "cli.h"

int cli_info_model(cli_session *session, const char *folder);

#endif
