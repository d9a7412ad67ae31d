/* Internals of the store. All fields are guarded by its lock. */
#ifndef BO_SERVE_STORE_INTERNAL_H
#define BO_SERVE_STORE_INTERNAL_H

#include "store.h"
#include <pthread.h>

typedef struct bo_store_entry bo_store_entry;

typedef struct bo_store_links {
    bo_store_entry *before, *after;
    bool listed;
} bo_store_links;

/* Invariants: `snapshot` is in memory if and only if the entry is in the list of memory; file_bytes > 0 if and only if it is
 * in the list of the disk. An entry has a snapshot or a file, except while it is made. */
struct bo_store_entry {
    bo_prefix key; /* of the tokens, or of the id */
    bool kept;     /* by id */
    bool writing;  /* the writer reads the snapshot; the entry must not be removed */
    bo_snapshot *snapshot;
    size_t file_bytes;
    bo_store_entry *next;     /* in its place of the table */
    bo_store_entry *to_write; /* in the queue of the writer */
    bo_store_links memory_links, disk_links;
};

typedef struct bo_store_list {
    bo_store_entry *first, *last; /* most and least recently used */
    bool memory;                  /* of the entries in memory; otherwise of those on disk */
} bo_store_list;

static inline bo_store_links *bo_store_links_of(const bo_store_list *list, bo_store_entry *entry)
{
    return list->memory ? &entry->memory_links : &entry->disk_links;
}

struct bo_store {
    bo_store_desc desc;
    char *folder;
    bo_prefix_secret secret; /* for this model */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the queue of the writer */
    pthread_t writer;
    bool has_writer, closing;
    int lock_file; /* locked: the folder belongs to this store; -1: none */
    bo_store_entry **table;
    size_t table_size, count; /* a power of two; entries */
    bo_store_list in_memory, on_disk;
    bo_store_entry *first_to_write, *last_to_write;
    size_t reserved; /* bytes of the disk for the file that the writer writes */
    bo_store_figures figures;
};

/* store.c; with the lock */
void bo_store_remove(bo_store *store, bo_store_entry *entry);
void bo_store_forget_file(bo_store *store, bo_store_entry *entry);
void bo_store_has_file(bo_store *store, bo_store_entry *entry, size_t bytes);
/* Adds an entry of a file. NULL: there is one of this key, or no memory. */
bo_store_entry *bo_store_add_file(bo_context *context, bo_store *store, bo_prefix key, bool kept, size_t bytes);
/* Removes cached prefixes from the disk until `bytes` more fit. False: they cannot, and nothing changed. */
bool bo_store_make_disk_room(bo_store *store, size_t bytes);
/* The same as far as possible. */
void bo_store_trim_disk(bo_store *store, size_t bytes);

/* Derives the key of the hashes from a secret and the model. */
void bo_store_set_secret(bo_store *store, const bo_prefix_secret *secret);

/* store_files.c; with the lock */
bo_status bo_store_open_folder(bo_context *context, bo_store *store);
void bo_store_close_folder(bo_store *store); /* without the lock; waits until everything is written */
/* BO_FORMAT: the file is damaged. */
bo_status bo_store_read_file(bo_context *context, const bo_store *store, const bo_store_entry *entry,
                             bo_snapshot **out);
bool bo_store_file_exists(const bo_store *store, const bo_store_entry *entry);
void bo_store_write_later(bo_store *store, bo_store_entry *entry);
bo_status bo_store_write_now(bo_context *context, bo_store *store, bo_store_entry *entry, const char *id,
                             const bo_snapshot *snapshot);
void bo_store_unlink(const bo_store *store, const bo_store_entry *entry);

#endif
