/* The store of snapshots in memory: a table by hash, and the order of last use. store_files.c has its folder. */
#include "store_internal.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- lists, most recently used first ------------------------------------------------------------------------------ */

static void unlink_entry(bo_store_list *list, bo_store_links *links)
{
    if (!links->listed) return;
    *(links->before ? &bo_store_links_of(list, links->before)->after : &list->first) = links->after;
    *(links->after ? &bo_store_links_of(list, links->after)->before : &list->last) = links->before;
    *links = (bo_store_links){0};
}

static void put_first(bo_store_list *list, bo_store_entry *entry)
{
    bo_store_links *links = bo_store_links_of(list, entry);
    unlink_entry(list, links);
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
    unlink_entry(&store->in_memory, &entry->memory_links);
}

void bo_store_forget_file(bo_store *store, bo_store_entry *entry)
{
    if (!entry->file_bytes) return;
    store->figures.disk_bytes -= entry->file_bytes;
    entry->file_bytes = 0;
    unlink_entry(&store->on_disk, &entry->disk_links);
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

static bool may_leave_memory(const bo_store_entry *entry)
{
    return entry->file_bytes || (!entry->kept && !entry->writing);
}

/* Whether `bytes` more fit into the budget of memory after the entries that may leave it have left. A snapshot that never
 * fits must not empty the cache. */
static bool can_make_room(const bo_store *store, size_t bytes)
{
    const size_t budget = store->desc.memory_bytes;
    size_t used = store->figures.memory_bytes;
    if (bytes > budget) return false;
    for (const bo_store_entry *entry = store->in_memory.last; entry && used > budget - bytes;
         entry = entry->memory_links.before)
        if (may_leave_memory(entry)) used -= bo_snapshot_memory(entry->snapshot);
    return used <= budget - bytes;
}

/* Frees memory until `bytes` more fit: what was used longest ago, except kept states that are only in memory, and entries
 * that are being written. False: there is not enough, and nothing changed. */
static bool make_room(bo_store *store, size_t bytes)
{
    if (!can_make_room(store, bytes)) return false;
    bo_store_entry *entry = store->in_memory.last;
    while (entry && store->figures.memory_bytes > store->desc.memory_bytes - bytes) {
        bo_store_entry *before = entry->memory_links.before;
        if (entry->file_bytes) {
            forget_bytes(store, entry);
        } else if (may_leave_memory(entry)) {
            bo_store_remove(store, entry);
            store->figures.evictions++;
        }
        entry = before;
    }
    return true;
}

static size_t disk_in_use(const bo_store *store)
{
    return store->figures.disk_bytes + store->reserved;
}

/* The same for the disk, where kept states stay. */
static bool can_make_disk_room(const bo_store *store, size_t bytes)
{
    const size_t budget = store->desc.disk_bytes;
    size_t used = disk_in_use(store);
    if (bytes > budget) return false;
    for (const bo_store_entry *entry = store->on_disk.last; entry && used > budget - bytes;
         entry = entry->disk_links.before)
        if (!entry->kept) used -= entry->file_bytes;
    return used <= budget - bytes;
}

void bo_store_trim_disk(bo_store *store, size_t bytes)
{
    bo_store_entry *entry = store->on_disk.last;
    while (entry && disk_in_use(store) > store->desc.disk_bytes - bytes) {
        bo_store_entry *before = entry->disk_links.before;
        if (!entry->kept) {
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
}

bool bo_store_make_disk_room(bo_store *store, size_t bytes)
{
    if (!can_make_disk_room(store, bytes)) return false;
    bo_store_trim_disk(store, bytes);
    return true;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */

/* The snapshot of an entry, read from its file if necessary. NULL: the file cannot be read. If it is damaged or gone, so is
 * the entry; a lack of memory or of file descriptors is no reason to lose a state. */
static bo_snapshot *take(bo_context *context, bo_store *store, bo_store_entry *entry)
{
    if (entry->file_bytes) put_first(&store->on_disk, entry);
    if (!entry->snapshot) {
        bo_snapshot *snapshot;
        const bo_status status = bo_store_read_file(context, store, entry, &snapshot);
        if (status == BO_FORMAT || (status != BO_OK && !bo_store_file_exists(store, entry))) {
            store->figures.discarded++;
            bo_store_remove(store, entry);
        }
        if (status != BO_OK) return NULL;
        if (!make_room(store, bo_snapshot_memory(snapshot))) return snapshot; /* it is used, but stays on disk */
        set_snapshot(store, entry, snapshot);
        bo_snapshot_release(snapshot);
    }
    put_first(&store->in_memory, entry);
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

bool bo_store_drop(bo_store *store, const char *id)
{
    const bo_prefix key = bo_prefix_of_bytes(&store->secret, id, strlen(id));
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true);
    if (entry) bo_store_remove(store, entry);
    pthread_mutex_unlock(&store->lock);
    return entry != NULL;
}

/* Room for the snapshot of an entry in place of its earlier one, which may be absent. *in_memory: in memory, too. */
static bool make_room_for(bo_store *store, bo_store_entry *entry, size_t bytes, bool *in_memory)
{
    const size_t file = bytes + BO_SNAPSHOT_HEADER + BO_SNAPSHOT_ID;
    if (entry && entry->file_bytes) forget_bytes(store, entry);
    const size_t old = entry && entry->snapshot ? bo_snapshot_memory(entry->snapshot) : 0;
    const size_t old_file = entry ? entry->file_bytes : 0;
    *in_memory = make_room(store, bytes > old ? bytes - old : 0);
    return store->desc.folder ? bo_store_make_disk_room(store, file > old_file ? file - old_file : 0) : *in_memory;
}

bo_status bo_store_keep(bo_context *context, bo_store *store, const char *id, bo_snapshot *snapshot, bool *full)
{
    const bo_prefix key = bo_prefix_of_bytes(&store->secret, id, strlen(id));
    bo_status status = BO_OK;
    bool in_memory;
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true), *added = NULL;
    *full = !make_room_for(store, entry, bo_snapshot_memory(snapshot), &in_memory);
    if (!*full && !entry) {
        entry = added = add_entry(context, store, key, true);
        status = entry ? BO_OK : BO_MEMORY;
    }
    if (!*full && entry) {
        /* if it cannot be written, the earlier state stays */
        if (store->desc.folder) status = bo_store_write_now(context, store, entry, id, snapshot);
        if (status == BO_OK && in_memory) set_snapshot(store, entry, snapshot);
        if (status != BO_OK && added) bo_store_remove(store, added);
    }
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
    store->lock_file = -1;
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
    pthread_mutex_destroy(&store->lock);
    bo_free(store);
}
