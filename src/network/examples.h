/* What the files of examples share. */
#ifndef BO_NETWORK_EXAMPLES_H
#define BO_NETWORK_EXAMPLES_H

#include "network.h"

/* Edges of a file as lists of neighbors (edges.c), and of arrays that are such lists. */
bo_status bo_edges_load(bo_context *context, const bo_examples_desc *desc, bo_examples *examples);
bo_status bo_edges_check(bo_context *context, const bo_examples *examples);
/* Parts of a file (parts.c). */
bo_status bo_splits_load(bo_context *context, const char *path, bo_examples *examples);

#endif
