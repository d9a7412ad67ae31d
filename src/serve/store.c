/* The store of snapshots in memory: a table by hash, and the order of last use. store_files.c has its folder. */
#include "store_internal.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- lists, most recently used first ------------------------------------------------------------------------------ */

static void unlink_entry(bo_store_list *list, bo_store_entry *entry, bo_store_links *links)
{
    if (!links->listed) return;
    *(links->before ? &bo_store_links_of(list, links->before)->after : &list->first) = links->after;
    *(links->after ? &bo_store_links_of(list, links->after)->before : &list->last) = links->before;
    *links = (bo_store_links){0};
    (void)entry;
}

static void put_first(bo_store_list *list, bo_store_entry *entry)
{
    bo_store_links *links = bo_store_links_of(list, entry);
    unlink_entry(list, entry, links);
    *links = (bo_store_links){.after = list->first, .listed = true};
    *(list->first ? &bo_store_links_of(list, list->first)->before : &list->last) = entry;
    list->first = entry;
}

/* ---- entries ------------------------------------------------------------------------------------------------------ */

static bo_store_entry **place_of(bo_store *store, bo_prefix key, bool kept)
{
    bo_store_entry **at = &store->table[key.words[0] & (store->table_size - 1)];
    while (*at && !((*at)->kept == kept && bo_prefix_equal((*at)->key, key))) at = &(*at)->next;
    return at;
}

/* Doubles the table when it has more entries than places. Failure only makes it slower. */
static void grow_table(bo_context *context, bo_store *store)
{
    if (store->count < store->table_size) return;
    const size_t size = 2 * store->table_size;
    bo_store_entry **table = bo_alloc(context, size, sizeof *table, "the table of states");
    if (!table) return;
    for (size_t i = 0; i < store->table_size; i++)
        for (bo_store_entry *entry = store->table[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = table[entry->key.words[0] & (size - 1)];
            table[entry->key.words[0] & (size - 1)] = entry;
        }
    bo_free(store->table);
    store->table = table;
    store->table_size = size;
}

/* Releases the memory of an entry, which stays on disk. */
static void forget_bytes(bo_store *store, bo_store_entry *entry)
{
    if (!entry->snapshot) return;
    store->figures.memory_bytes -= bo_snapshot_memory(entry->snapshot);
    bo_snapshot_release(entry->snapshot);
    entry->snapshot = NULL;
    unlink_entry(&store->in_memory, entry, &entry->memory_links);
}

void bo_store_forget_file(bo_store *store, bo_store_entry *entry)
{
    if (!entry->file_bytes) return;
    store->figures.disk_bytes -= entry->file_bytes;
    entry->file_bytes = 0;
    unlink_entry(&store->on_disk, entry, &entry->disk_links);
}

/* Removes an entry that is not being written. Its file, if any, is removed too. */
void bo_store_remove(bo_store *store, bo_store_entry *entry)
{
    bo_store_entry **at = place_of(store, entry->key, entry->kept);
    assert(*at == entry && !entry->writing);
    *at = entry->next;
    store->count--;
    if (entry->kept)
        store->figures.kept--;
    else
        store->figures.prefixes--;
    forget_bytes(store, entry);
    if (entry->file_bytes) bo_store_unlink(store, entry);
    bo_store_forget_file(store, entry);
    bo_free(entry);
}

static bo_store_entry *add_entry(bo_context *context, bo_store *store, bo_prefix key, bool kept)
{
    bo_store_entry *entry = bo_alloc(context, 1, sizeof *entry, "a state");
    if (!entry) return NULL;
    grow_table(context, store);
    bo_store_entry **at = place_of(store, key, kept);
    assert(!*at);
    *entry = (bo_store_entry){.key = key, .kept = kept, .next = NULL};
    *at = entry;
    store->count++;
    if (kept)
        store->figures.kept++;
    else
        store->figures.prefixes++;
    return entry;
}

bo_store_entry *bo_store_add_file(bo_context *context, bo_store *store, bo_prefix key, bool kept, size_t bytes)
{
    if (*place_of(store, key, kept)) return NULL;
    bo_store_entry *entry = add_entry(context, store, key, kept);
    if (entry) bo_store_has_file(store, entry, bytes);
    return entry;
}

void bo_store_has_file(bo_store *store, bo_store_entry *entry, size_t bytes)
{
    bo_store_forget_file(store, entry);
    entry->file_bytes = bytes;
    store->figures.disk_bytes += bytes;
    put_first(&store->on_disk, entry);
}

static void set_snapshot(bo_store *store, bo_store_entry *entry, bo_snapshot *snapshot)
{
    forget_bytes(store, entry);
    entry->snapshot = bo_snapshot_share(snapshot);
    store->figures.memory_bytes += bo_snapshot_memory(snapshot);
    put_first(&store->in_memory, entry);
}

/* ---- budgets ------------------------------------------------------------------------------------------------------ */

/* Frees memory until `bytes` more fit: what was used longest ago, except kept states that are only in memory, and entries
 * that are being written. False: there is not enough. */
static bool make_room(bo_store *store, size_t bytes)
{
    bo_store_entry *entry = store->in_memory.last;
    while (entry && store->figures.memory_bytes + bytes > store->desc.memory_bytes) {
        bo_store_entry *before = entry->memory_links.before;
        if (entry->file_bytes) {
            forget_bytes(store, entry);
        } else if (!entry->kept && !entry->writing) {
            bo_store_remove(store, entry);
            store->figures.evictions++;
        }
        entry = before;
    }
    return store->figures.memory_bytes + bytes <= store->desc.memory_bytes;
}

bool bo_store_make_disk_room(bo_store *store, size_t bytes)
{
    bo_store_entry *entry = store->on_disk.last;
    while (entry && store->figures.disk_bytes + bytes > store->desc.disk_bytes) {
        bo_store_entry *before = entry->disk_links.before;
        if (!entry->kept && !entry->writing) {
            if (entry->snapshot) {
                bo_store_unlink(store, entry);
                bo_store_forget_file(store, entry);
            } else {
                bo_store_remove(store, entry);
                store->figures.evictions++;
            }
        }
        entry = before;
    }
    return store->figures.disk_bytes + bytes <= store->desc.disk_bytes;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */

/* The snapshot of an entry, read from its file if necessary. NULL: the file cannot be read; the entry is gone. */
static bo_snapshot *take(bo_context *context, bo_store *store, bo_store_entry *entry)
{
    if (!entry->snapshot) {
        bo_snapshot *snapshot = bo_store_read_file(context, store, entry);
        if (!snapshot) {
            store->figures.discarded++;
            bo_store_remove(store, entry);
            return NULL;
        }
        if (make_room(store, bo_snapshot_memory(snapshot)))
            set_snapshot(store, entry, snapshot);
        else
            return snapshot; /* it is used, but stays on disk */
        bo_snapshot_release(snapshot);
    }
    put_first(&store->in_memory, entry);
    if (entry->file_bytes) put_first(&store->on_disk, entry);
    return bo_snapshot_share(entry->snapshot);
}

bo_snapshot *bo_store_find(bo_context *context, bo_store *store, const bo_prefix *prefixes, size_t count, size_t *index)
{
    bo_snapshot *found = NULL;
    pthread_mutex_lock(&store->lock);
    for (size_t i = count; i-- > 0 && !found;) {
        bo_store_entry *entry = *place_of(store, prefixes[i], false);
        if (entry) found = take(context, store, entry);
        *index = i;
    }
    if (found)
        store->figures.hits++;
    else
        store->figures.misses++;
    pthread_mutex_unlock(&store->lock);
    return found;
}

bo_snapshot *bo_store_get(bo_context *context, bo_store *store, const char *id)
{
    const bo_prefix key = bo_prefix_of_bytes(&store->secret, id, strlen(id));
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true);
    bo_snapshot *found = entry ? take(context, store, entry) : NULL;
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* ---- adding and dropping ------------------------------------------------------------------------------------------ */

void bo_store_cache(bo_context *context, bo_store *store, bo_snapshot *snapshot)
{
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, snapshot->prefix, false);
    const bool fits = entry || make_room(store, bo_snapshot_memory(snapshot));
    if (!entry && fits) {
        entry = add_entry(context, store, snapshot->prefix, false);
        if (entry) set_snapshot(store, entry, snapshot);
        if (entry && store->desc.folder) bo_store_write_later(store, entry);
    } else if (entry && entry->snapshot) {
        put_first(&store->in_memory, entry);
    }
    pthread_mutex_unlock(&store->lock);
}

/* An entry that is being written cannot be removed; its writer does not take long. */
static void wait_for_writer(bo_store *store, const bo_store_entry *entry)
{
    while (entry->writing) pthread_cond_wait(&store->written, &store->lock);
}

static bool drop(bo_store *store, bo_prefix key)
{
    bo_store_entry *entry = *place_of(store, key, true);
    if (!entry) return false;
    wait_for_writer(store, entry);
    bo_store_remove(store, entry);
    return true;
}

bool bo_store_drop(bo_store *store, const char *id)
{
    const bo_prefix key = bo_prefix_of_bytes(&store->secret, id, strlen(id));
    pthread_mutex_lock(&store->lock);
    const bool dropped = drop(store, key);
    pthread_mutex_unlock(&store->lock);
    return dropped;
}

bo_status bo_store_keep(bo_context *context, bo_store *store, const char *id, bo_snapshot *snapshot, bool *full)
{
    const bo_prefix key = bo_prefix_of_bytes(&store->secret, id, strlen(id));
    const size_t bytes = bo_snapshot_memory(snapshot);
    bo_status status = BO_OK;
    bo_store_entry *entry = NULL;
    *full = false;
    pthread_mutex_lock(&store->lock);
    const bool in_memory = make_room(store, bytes);
    *full =
        store->desc.folder ? !bo_store_make_disk_room(store, bytes + BO_SNAPSHOT_HEADER + BO_SNAPSHOT_ID) : !in_memory;
    if (!*full) {
        drop(store, key);
        entry = add_entry(context, store, key, true);
        status = entry ? BO_OK : BO_MEMORY;
    }
    if (entry && store->desc.folder) {
        status = bo_store_write_now(context, store, entry, id, snapshot);
        if (status != BO_OK) bo_store_remove(store, entry);
    }
    if (entry && status == BO_OK && in_memory) set_snapshot(store, entry, snapshot);
    pthread_mutex_unlock(&store->lock);
    return status;
}

void bo_store_measure(bo_store *store, bo_store_figures *out)
{
    pthread_mutex_lock(&store->lock);
    *out = store->figures;
    pthread_mutex_unlock(&store->lock);
}

const bo_prefix_secret *bo_store_secret(const bo_store *store)
{
    return &store->secret;
}

void bo_store_set_secret(bo_store *store, const bo_prefix_secret *secret)
{
    const bo_prefix own = bo_prefix_of_bytes(secret, store->desc.model, sizeof store->desc.model);
    store->secret = (bo_prefix_secret){{own.words[0], own.words[1]}};
}

/* ---- creation and destruction ------------------------------------------------------------------------------------- */

static bo_status build(bo_context *context, const bo_store_desc *desc, bo_store *store)
{
    enum { PLACES = 1024 };
    store->desc = *desc;
    store->in_memory.memory = true;
    store->table_size = PLACES;
    store->table = bo_alloc(context, PLACES, sizeof *store->table, "the table of states");
    if (!store->table) return BO_MEMORY;
    if (desc->folder) return bo_store_open_folder(context, store);
    bo_prefix_secret secret;
    if (!bo_random_bytes(&secret, sizeof secret))
        return bo_fail(context, BO_IO, "the system has no random numbers (getrandom)");
    bo_store_set_secret(store, &secret);
    return BO_OK;
}

bo_status bo_store_create(bo_context *context, const bo_store_desc *desc, bo_store **out)
{
    bo_store *store = *out = bo_alloc(context, 1, sizeof *store, "the states of conversations");
    if (!store) return BO_MEMORY;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
    pthread_cond_init(&store->written, NULL);
    const bo_status status = build(context, desc, store);
    if (status == BO_OK) return BO_OK;
    bo_store_destroy(store);
    *out = NULL;
    return status;
}

void bo_store_destroy(bo_store *store)
{
    if (!store) return;
    bo_store_close_folder(store);
    for (size_t i = 0; store->table && i < store->table_size; i++)
        for (bo_store_entry *entry = store->table[i], *next; entry; entry = next) {
            next = entry->next;
            bo_snapshot_release(entry->snapshot);
            bo_free(entry);
        }
    bo_free(store->table);
    bo_free(store->folder);
    pthread_cond_destroy(&store->changed);
    pthread_cond_destroy(&store->written);
    pthread_mutex_destroy(&store->lock);
    bo_free(store);
}
