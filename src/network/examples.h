/* What the files of examples share. */
#ifndef BO_NETWORK_EXAMPLES_H
#define BO_NETWORK_EXAMPLES_H

#include "network.h"

/* Parts of a file. */
bo_status bo_splits_load(bo_context *context, const char *path, bo_examples *examples);

#endif
