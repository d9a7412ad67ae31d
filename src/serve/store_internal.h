/* Internals of the store. Its lock guards all fields. */
#ifndef BO_SERVE_STORE_INTERNAL_H
#define BO_SERVE_STORE_INTERNAL_H

#include "store.h"
#include <pthread.h>

typedef struct bo_store_entry bo_store_entry;

/* Owners exist as long as the store. */
typedef struct bo_store_owner {
    bo_prefix id;
    size_t memory, disk;             /* bytes in use */
    size_t kept;                     /* bytes of kept states: on disk if there is a directory, otherwise in memory */
    size_t memory_share, disk_share; /* 0: its key is not in use */
    size_t remaining;                /* scratch value: remaining bytes of `memory` or `disk` after an eviction */
    struct bo_store_owner *next;
} bo_store_owner;

typedef struct bo_store_links {
    bo_store_entry *before, *after;
    bool listed;
} bo_store_links;

/* Lists contain only entries that may be evicted. Invariants: an entry with a snapshot is in the memory list, except a
 * kept one without a directory; a cached one with file_bytes > 0 is in the disk list. An entry has a snapshot or a
 * file, except while it is created. */
struct bo_store_entry {
    bo_prefix key; /* hash of the tokens, or of the id */
    bo_store_owner *owner;
    bool kept;    /* by id */
    bool writing; /* the writer reads the snapshot; the entry must not be removed */
    bo_snapshot *snapshot;
    size_t file_bytes;        /* rounded up to blocks */
    bo_store_entry *next;     /* in its bucket of the table */
    bo_store_entry *to_write; /* in signals changes of the write queue */
    bo_store_links memory_links, disk_links;
};

typedef struct bo_store_list {
    bo_store_entry *first, *last; /* most and least recently used */
    bool memory;                  /* true: entries in memory; false: entries on disk */
} bo_store_list;

static inline bo_store_links *bo_store_links_of(const bo_store_list *list, bo_store_entry *entry)
{
    return list->memory ? &entry->memory_links : &entry->disk_links;
}

struct bo_store {
    bo_store_desc desc;
    char *directory;
    bo_prefix_secret secret; /* for this model */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals changes of the write queue */
    pthread_t writer;
    bool has_writer, closing;
    int lock_file; /* its lock reserves the directory for this store; -1: none */
    bo_store_entry **table;
    size_t table_size, count; /* a power of two; entries */
    bo_store_owner *owners;
    bo_store_list in_memory, on_disk;
    bo_store_entry *first_to_write, *last_to_write;
    size_t reserved; /* disk bytes for the file that the writer is writing */
    bo_store_stats stats;
};

/* store.c; call with the lock held */
/* Returns the bytes of a file in the disk budget. */
size_t bo_store_file_bytes(size_t bytes);
void bo_store_remove(bo_store *store, bo_store_entry *entry);
void bo_store_forget_file(bo_store *store, bo_store_entry *entry);
void bo_store_has_file(bo_store *store, bo_store_entry *entry, size_t bytes);
/* Finds or creates the record of an owner. NULL: out of memory. */
bo_store_owner *bo_store_find_owner(bo_context *context, bo_store *store, bo_prefix id);
/* Returns the key of an id. */
bo_prefix bo_store_key_of(const bo_store *store, bo_prefix owner, const char *id);
/* Adds an entry for a file. NULL: the key exists, or out of memory. */
bo_store_entry *bo_store_add_file(bo_context *context, bo_store *store, const bo_store_entry *as, size_t bytes);
/* Removes cached prefixes from the disk until `bytes` more of an owner fit. False: not possible; nothing changes. */
bool bo_store_free_disk(bo_store *store, bo_store_owner *owner, size_t bytes);
/* Removes cached prefixes until the budget is met, as far as possible. */
void bo_store_trim_disk(bo_store *store);

/* Derives the hash key from a secret and the model, and the owners from the API keys. */
bo_status bo_store_set_secret(bo_context *context, bo_store *store, const bo_prefix_secret *secret);

/* store_files.c; call with the lock held */
bo_status bo_store_open_directory(bo_context *context, bo_store *store);
void bo_store_close_directory(bo_store *store); /* call without the lock; waits until everything is written */
/* BO_FORMAT: the file is damaged. */
bo_status bo_store_read_file(bo_context *context, const bo_store *store, const bo_store_entry *entry,
                             bo_snapshot **out);
bool bo_store_file_exists(const bo_store *store, const bo_store_entry *entry);
void bo_store_write_later(bo_store *store, bo_store_entry *entry);
bo_status bo_store_write_now(bo_context *context, bo_store *store, bo_store_entry *entry, const char *id,
                             const bo_snapshot *snapshot);
void bo_store_unlink(const bo_store *store, const bo_store_entry *entry);

#endif
