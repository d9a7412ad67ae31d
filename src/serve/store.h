/* The store of snapshots: the prefix cache, which is evicted by last use, and states that clients keep by id, which are
 * not. Both share a budget of memory. With a directory, both are also written to files, which survive a restart; then
 * only the budget of the disk limits kept states. All functions may be called from any thread.
 *
 * A state has an owner: a hash of an API key, or zero without keys. Ids are those of an owner, and the hashes of
 * prefixes begin with their owner, so that nobody finds the states of others. Each key has an equal share of the
 * budgets. Its kept states must fit into the share. Its prefixes may use what others leave, but those of an owner
 * within its share are not evicted for others. Owners whose key is not in use any more have no share.
 *
 * Files: `lock` (a directory belongs to one store at a time), `secret` (the key of the hashes), p-HASH.state (a cached
 * prefix), k-HASH.state (a kept state; HASH is that of its id); with keys p-HASH-OWNER.state and k-HASH-OWNER.state. A
 * file is written under this name with .part, then renamed. Damaged files and such parts are removed when they are
 * found, if they begin as states do. Other files, and those of other models, are left alone and not used. */
#ifndef BO_SERVE_STORE_H
#define BO_SERVE_STORE_H

#include "snapshot.h"

typedef struct bo_store bo_store;

/* Files count in the budget of the disk in blocks of this size, as they occupy a file system. */
enum { BO_STORE_BLOCK = 4096 };

typedef struct bo_store_desc {
    size_t memory_bytes;     /* budget of memory */
    size_t disk_bytes;       /* budget of the directory */
    const char *directory;   /* NULL: none; created if it does not exist */
    const char *const *keys; /* the owners that share the budgets; none: all states have the same owner */
    size_t key_count;
    uint64_t model[2]; /* hashes of the model: another model has other hashes of the same tokens and ids */
    /* Tells whether a state belongs to the model. Called from several threads. */
    bool (*accepts)(void *user, const void *bytes, size_t size);
    void *user;
} bo_store_desc;

typedef struct bo_store_stats {
    uint64_t hits, misses, evictions;
    size_t prefixes, kept;           /* number of snapshots, in memory or on disk */
    size_t memory_bytes, disk_bytes; /* in use */
    size_t discarded;                /* damaged files, and parts of files, that were removed */
    size_t foreign;                  /* files of other models */
    size_t unowned;                  /* states that were found in the directory and belong to no key in use */
} bo_store_stats;

/* BO_IO if the directory cannot be used, or another store uses it. */
bo_status bo_store_create(bo_context *context, const bo_store_desc *desc, bo_store **out);
void bo_store_destroy(bo_store *store); /* writes what is not yet on disk */
const bo_prefix_secret *bo_store_secret(const bo_store *store);
/* The owner of the states of a key; NULL: zero. */
bo_prefix bo_store_owner_of(const bo_store *store, const char *key);
void bo_store_get_stats(bo_store *store, bo_store_stats *out);

/* The snapshot of the longest prefix among prefixes[0 … count - 1], which are ordered by length; *index is its number.
 * NULL: there is none. The caller releases it. */
bo_snapshot *bo_store_find(bo_context *context, bo_store *store, const bo_prefix *prefixes, size_t count,
                           size_t *index);
/* Caches a snapshot under its prefix. A snapshot that does not fit is dropped. */
void bo_store_cache(bo_context *context, bo_store *store, bo_snapshot *snapshot);

/* Keeps a snapshot under an id, in place of an earlier one. With a directory, it is on disk afterwards. *full: the
 * share of the owner is used up, and nothing changed. */
bo_status bo_store_keep(bo_context *context, bo_store *store, bo_prefix owner, const char *id, bo_snapshot *snapshot,
                        bool *full);
/* NULL: there is none of this id. The caller releases it. */
bo_snapshot *bo_store_get(bo_context *context, bo_store *store, bo_prefix owner, const char *id);
bool bo_store_drop(bo_store *store, bo_prefix owner, const char *id);

#endif
