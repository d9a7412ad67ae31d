/* The store of snapshots: the prefix cache with LRU eviction, and states that clients keep by id, which are not
 * evicted. Both share a memory budget. With a directory, both are also written to files, which survive a restart; then
 * only the disk budget limits kept states. All functions may be called from any thread.
 *
 * A state has an owner: a hash of an API key, or zero without keys. Ids belong to an owner, and hash chains of prefixes
 * start with the owner, so that clients cannot find states of other owners. Each key has an equal share of the budgets.
 * Its kept states must fit into the share. Its prefixes may use free space beyond the share. Entries of an owner within
 * its share are not evicted for other owners. Owners whose key is no longer in use have no share.
 *
 * Files: `lock` (a directory belongs to one store at a time), `secret` (the key of the hashes), p-HASH.state (a cached
 * prefix), k-HASH.state (a kept state; HASH is that of its id); with keys p-HASH-OWNER.state and k-HASH-OWNER.state. A
 * file is written under this name plus .part, then renamed. Damaged and partial files are removed when they are found,
 * if they start with the magic number of states. Other files, and files of other models, are not changed and not used.
 */
#ifndef BO_SERVE_STORE_H
#define BO_SERVE_STORE_H

#include "snapshot.h"

typedef struct bo_store bo_store;

/* Files count in the disk budget in blocks of this size, as on a file system. */
enum { BO_STORE_BLOCK = 4096 };

typedef struct bo_store_desc {
    size_t memory_bytes;     /* memory budget */
    size_t disk_bytes;       /* disk budget of the directory */
    const char *directory;   /* NULL: none; created if it does not exist */
    const char *const *keys; /* the keys whose owners share the budgets; none: all states have the same owner */
    size_t key_count;
    uint64_t model[2]; /* hashes of the model, so that tokens and ids have other hashes for other models */
    /* Returns true if a state belongs to the model. Called from several threads. */
    bool (*accepts)(void *user, const void *bytes, size_t size);
    void *user;
} bo_store_desc;

typedef struct bo_store_stats {
    uint64_t hits, misses, evictions;
    size_t prefixes, kept;           /* number of snapshots, in memory or on disk */
    size_t memory_bytes, disk_bytes; /* in use */
    size_t discarded;                /* damaged and partial files that were removed */
    size_t foreign;                  /* files of other models */
    size_t unowned;                  /* states in the directory at the start that belong to no current API key */
} bo_store_stats;

/* BO_IO if the directory cannot be used, or another store uses it. */
bo_status bo_store_create(bo_context *context, const bo_store_desc *desc, bo_store **out);
void bo_store_destroy(bo_store *store); /* writes pending files first */
const bo_prefix_secret *bo_store_secret(const bo_store *store);
/* Returns the owner of the states of a key; NULL: zero. */
bo_prefix bo_store_owner_of(const bo_store *store, const char *key);
void bo_store_get_stats(bo_store *store, bo_store_stats *out);

/* Returns the snapshot of the longest prefix among prefixes[0 … count - 1], which are ordered by length; *index is its
 * index. NULL: none. The caller releases it. */
bo_snapshot *bo_store_find(bo_context *context, bo_store *store, const bo_prefix *prefixes, size_t count,
                           size_t *index);
/* Caches a snapshot under its prefix. A snapshot that does not fit is not cached. */
void bo_store_cache(bo_context *context, bo_store *store, bo_snapshot *snapshot);

/* Stores a snapshot under an id and replaces an earlier one. With a directory, it is on disk afterwards. *full: it does
 * not fit into the share of the owner; nothing changes. */
bo_status bo_store_keep(bo_context *context, bo_store *store, bo_prefix owner, const char *id, bo_snapshot *snapshot,
                        bool *full);
/* Returns the snapshot of this id; NULL: none. The caller releases it. */
bo_snapshot *bo_store_get(bo_context *context, bo_store *store, bo_prefix owner, const char *id);
bool bo_store_drop(bo_store *store, bo_prefix owner, const char *id);

#endif
