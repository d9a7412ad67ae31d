/* Tensors in several safetensors files, the shards, which an index lists: {"weight_map": {"tensor": "file", …}}, as
 * Hugging Face writes model.safetensors.index.json. */
#ifndef BO_IO_SHARDS_H
#define BO_IO_SHARDS_H

#include "tensors.h"

/* Opens an index and all its shards, which are in the same directory, as one file. The tensors stay in the mappings of
 * the shards. Every tensor is in exactly the shard that the index names, and the shards have no other tensors:
 * violations are refused, with the names. "metadata" is not used. */
bo_status bo_shards_open(bo_context *context, const char *path, bo_tensors **out);

/* Where shards are found. */
typedef struct bo_shard_source {
    bool (*exists)(void *user, const char *name);
    bo_status (*open)(bo_context *context, void *user, const char *name, bo_tensors **out);
    void *user;
} bo_shard_source;
/* The same for an index in memory. */
bo_status bo_shards_open_memory(bo_context *context, const char *path, const char *text, size_t length,
                                const bo_shard_source *source, bo_tensors **out);

#endif
