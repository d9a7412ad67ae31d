/* The store of snapshots in memory: a hash table with LRU lists. store_files.c implements its directory. */
#include "store_internal.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- lists, most recently used first ----------------------------------------------------------------------------- */

static void unlink_entry(bo_store_list *list, bo_store_links *links)
{
    if (!links->listed) return;
    *(links->before ? &bo_store_links_of(list, links->before)->after : &list->first) = links->after;
    *(links->after ? &bo_store_links_of(list, links->after)->before : &list->last) = links->before;
    *links = (bo_store_links){0};
}

static void move_to_front(bo_store_list *list, bo_store_entry *entry)
{
    bo_store_links *links = bo_store_links_of(list, entry);
    unlink_entry(list, links);
    *links = (bo_store_links){.after = list->first, .listed = true};
    *(list->first ? &bo_store_links_of(list, list->first)->before : &list->last) = entry;
    list->first = entry;
}

/* Only entries that may be evicted are in the list, so that a search for space skips all others. */
static void use_in_memory(bo_store *store, bo_store_entry *entry)
{
    if (!entry->kept || store->desc.directory) move_to_front(&store->in_memory, entry);
}

static void use_on_disk(bo_store *store, bo_store_entry *entry)
{
    if (!entry->kept) move_to_front(&store->on_disk, entry);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static bo_store_entry **place_of(bo_store *store, bo_prefix key, bool kept)
{
    bo_store_entry **at = &store->table[key.words[0] & (store->table_size - 1)];
    while (*at && !((*at)->kept == kept && bo_prefix_equal((*at)->key, key))) at = &(*at)->next;
    return at;
}

/* Doubles the table when it has more entries than buckets. A failure only makes it slower. */
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

/* Releases the memory of an entry that stays on disk. */
static void forget_bytes(bo_store *store, bo_store_entry *entry)
{
    if (!entry->snapshot) return;
    store->stats.memory_bytes -= bo_snapshot_memory(entry->snapshot);
    entry->owner->memory -= bo_snapshot_memory(entry->snapshot);
    if (entry->kept && !store->desc.directory) entry->owner->kept -= bo_snapshot_memory(entry->snapshot);
    bo_snapshot_release(entry->snapshot);
    entry->snapshot = NULL;
    unlink_entry(&store->in_memory, &entry->memory_links);
}

void bo_store_forget_file(bo_store *store, bo_store_entry *entry)
{
    if (!entry->file_bytes) return;
    store->stats.disk_bytes -= entry->file_bytes;
    entry->owner->disk -= entry->file_bytes;
    if (entry->kept) entry->owner->kept -= entry->file_bytes;
    entry->file_bytes = 0;
    unlink_entry(&store->on_disk, &entry->disk_links);
}

/* Removes an entry that is not being written, and its file, if any. */
void bo_store_remove(bo_store *store, bo_store_entry *entry)
{
    bo_store_entry **at = place_of(store, entry->key, entry->kept);
    assert(*at == entry && !entry->writing);
    *at = entry->next;
    store->count--;
    if (entry->kept)
        store->stats.kept--;
    else
        store->stats.prefixes--;
    forget_bytes(store, entry);
    if (entry->file_bytes) bo_store_unlink(store, entry);
    bo_store_forget_file(store, entry);
    bo_free(entry);
}

static bo_store_entry *add_entry(bo_context *context, bo_store *store, bo_store_owner *owner, bo_prefix key, bool kept)
{
    bo_store_entry *entry = owner ? bo_alloc(context, 1, sizeof *entry, "a state") : NULL;
    if (!entry) return NULL;
    grow_table(context, store);
    bo_store_entry **at = place_of(store, key, kept);
    assert(!*at);
    *entry = (bo_store_entry){.key = key, .owner = owner, .kept = kept, .next = NULL};
    *at = entry;
    store->count++;
    if (kept)
        store->stats.kept++;
    else
        store->stats.prefixes++;
    return entry;
}

bo_store_entry *bo_store_add_file(bo_context *context, bo_store *store, const bo_store_entry *as, size_t bytes)
{
    if (*place_of(store, as->key, as->kept)) return NULL;
    bo_store_entry *entry = add_entry(context, store, as->owner, as->key, as->kept);
    if (entry) bo_store_has_file(store, entry, bytes);
    return entry;
}

size_t bo_store_file_bytes(size_t bytes)
{
    return (bytes + BO_STORE_BLOCK - 1) / BO_STORE_BLOCK * BO_STORE_BLOCK;
}

void bo_store_has_file(bo_store *store, bo_store_entry *entry, size_t bytes)
{
    bo_store_forget_file(store, entry);
    entry->file_bytes = bo_store_file_bytes(bytes);
    store->stats.disk_bytes += entry->file_bytes;
    entry->owner->disk += entry->file_bytes;
    if (entry->kept) entry->owner->kept += entry->file_bytes;
    use_on_disk(store, entry);
}

static void set_snapshot(bo_store *store, bo_store_entry *entry, bo_snapshot *snapshot)
{
    forget_bytes(store, entry);
    entry->snapshot = bo_snapshot_share(snapshot);
    store->stats.memory_bytes += bo_snapshot_memory(snapshot);
    entry->owner->memory += bo_snapshot_memory(snapshot);
    if (entry->kept && !store->desc.directory) entry->owner->kept += bo_snapshot_memory(snapshot);
    use_in_memory(store, entry);
}

/* ---- budgets ----------------------------------------------------------------------------------------------------- */

static bool may_leave_memory(const bo_store_entry *entry)
{
    return entry->file_bytes || (!entry->kept && !entry->writing);
}

/* True if `bytes` more of an owner fit into the memory budget after all possible evictions. A snapshot that never fits
 * must not empty the cache. */
static bool can_free_memory(const bo_store *store, const bo_store_owner *owner, size_t bytes)
{
    const size_t budget = store->desc.memory_bytes;
    size_t used = store->stats.memory_bytes;
    if (bytes > budget) return false;
    for (bo_store_owner *each = store->owners; each; each = each->next) each->remaining = each->memory;
    for (const bo_store_entry *entry = store->in_memory.last; entry && used > budget - bytes;
         entry = entry->memory_links.before) {
        bo_store_owner *from = entry->owner;
        if (!may_leave_memory(entry) || (from != owner && from->remaining <= from->memory_share)) continue;
        used -= bo_snapshot_memory(entry->snapshot);
        from->remaining -= bo_snapshot_memory(entry->snapshot);
    }
    return used <= budget - bytes;
}

/* Evicts least recently used entries from memory until `bytes` more of an owner fit. Does not evict kept states that
 * are only in memory, entries that are being written, and entries of other owners within their share. False: not enough
 * can be freed; nothing changes. */
static bool free_memory(bo_store *store, const bo_store_owner *owner, size_t bytes)
{
    if (!can_free_memory(store, owner, bytes)) return false;
    bo_store_entry *entry = store->in_memory.last;
    while (entry && store->stats.memory_bytes > store->desc.memory_bytes - bytes) {
        bo_store_entry *before = entry->memory_links.before;
        const bo_store_owner *from = entry->owner;
        if (may_leave_memory(entry) && (from == owner || from->memory > from->memory_share)) {
            if (entry->file_bytes) {
                forget_bytes(store, entry);
            } else {
                bo_store_remove(store, entry);
                store->stats.evictions++;
            }
        }
        entry = before;
    }
    return true;
}

static size_t disk_in_use(const bo_store *store)
{
    return store->stats.disk_bytes + store->reserved;
}

/* Like can_free_memory, for the disk. */
static bool can_free_disk(const bo_store *store, const bo_store_owner *owner, size_t bytes)
{
    const size_t budget = store->desc.disk_bytes;
    size_t used = disk_in_use(store);
    if (bytes > budget) return false;
    for (bo_store_owner *each = store->owners; each; each = each->next) each->remaining = each->disk;
    for (const bo_store_entry *entry = store->on_disk.last; entry && used > budget - bytes;
         entry = entry->disk_links.before) {
        bo_store_owner *from = entry->owner;
        if (from != owner && from->remaining <= from->disk_share) continue;
        used -= entry->file_bytes;
        from->remaining -= entry->file_bytes;
    }
    return used <= budget - bytes;
}

/* `owner` NULL: shares are ignored. */
static void trim_disk(bo_store *store, const bo_store_owner *owner, size_t bytes)
{
    bo_store_entry *entry = store->on_disk.last;
    while (entry && disk_in_use(store) > store->desc.disk_bytes - bytes) {
        bo_store_entry *before = entry->disk_links.before;
        const bo_store_owner *from = entry->owner;
        if (!owner || from == owner || from->disk > from->disk_share) {
            if (entry->snapshot) {
                bo_store_unlink(store, entry);
                bo_store_forget_file(store, entry);
            } else {
                bo_store_remove(store, entry);
                store->stats.evictions++;
            }
        }
        entry = before;
    }
}

void bo_store_trim_disk(bo_store *store)
{
    trim_disk(store, NULL, 0);
}

bool bo_store_free_disk(bo_store *store, bo_store_owner *owner, size_t bytes)
{
    if (!can_free_disk(store, owner, bytes)) return false;
    trim_disk(store, owner, bytes);
    return true;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* Returns the snapshot of an entry, read from its file if necessary. NULL: the file cannot be read. If it is damaged or
 * missing, the entry is removed. If memory or file descriptors are exhausted, the state is kept. */
static bo_snapshot *get_snapshot(bo_context *context, bo_store *store, bo_store_entry *entry)
{
    if (entry->file_bytes) use_on_disk(store, entry);
    if (!entry->snapshot) {
        bo_snapshot *snapshot;
        const bo_status status = bo_store_read_file(context, store, entry, &snapshot);
        if (status == BO_FORMAT || (status != BO_OK && !bo_store_file_exists(store, entry))) {
            store->stats.discarded++;
            bo_store_remove(store, entry);
        }
        if (status != BO_OK) return NULL;
        if (!free_memory(store, entry->owner, bo_snapshot_memory(snapshot)))
            return snapshot; /* used once; it stays only on disk */
        set_snapshot(store, entry, snapshot);
        bo_snapshot_release(snapshot);
    }
    use_in_memory(store, entry);
    return bo_snapshot_share(entry->snapshot);
}

bo_snapshot *bo_store_find(bo_context *context, bo_store *store, const bo_prefix *prefixes, size_t count, size_t *index)
{
    bo_snapshot *found = NULL;
    pthread_mutex_lock(&store->lock);
    for (size_t i = count; i-- > 0 && !found;) {
        bo_store_entry *entry = *place_of(store, prefixes[i], false);
        if (entry) found = get_snapshot(context, store, entry);
        *index = i;
    }
    if (found)
        store->stats.hits++;
    else
        store->stats.misses++;
    pthread_mutex_unlock(&store->lock);
    return found;
}

bo_snapshot *bo_store_get(bo_context *context, bo_store *store, bo_prefix owner, const char *id)
{
    const bo_prefix key = bo_store_key_of(store, owner, id);
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true);
    bo_snapshot *found = entry ? get_snapshot(context, store, entry) : NULL;
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* ---- adding and dropping ----------------------------------------------------------------------------------------- */

void bo_store_cache(bo_context *context, bo_store *store, bo_snapshot *snapshot)
{
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, snapshot->prefix, false);
    bo_store_owner *owner = bo_store_find_owner(context, store, snapshot->owner);
    const bool fits = entry || (owner && free_memory(store, owner, bo_snapshot_memory(snapshot)));
    if (!entry && fits) {
        entry = add_entry(context, store, owner, snapshot->prefix, false);
        if (entry) set_snapshot(store, entry, snapshot);
        if (entry && store->desc.directory) bo_store_write_later(store, entry);
    } else if (entry && entry->snapshot) {
        use_in_memory(store, entry);
    }
    pthread_mutex_unlock(&store->lock);
}

bool bo_store_drop(bo_store *store, bo_prefix owner, const char *id)
{
    const bo_prefix key = bo_store_key_of(store, owner, id);
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true);
    if (entry) bo_store_remove(store, entry);
    pthread_mutex_unlock(&store->lock);
    return entry != NULL;
}

/* Frees what a new snapshot of an entry needs in place of its earlier one, which may be absent. *in_memory: the
 * snapshot also fits into memory. */
static bool free_for(bo_store *store, bo_store_owner *owner, bo_store_entry *entry, const bo_snapshot *snapshot,
                     const char *id, bool *in_memory)
{
    const bool directory = store->desc.directory;
    const size_t memory = bo_snapshot_memory(snapshot);
    const size_t bytes = directory ? bo_store_file_bytes(bo_snapshot_size(snapshot, id)) : memory;
    const size_t old = !entry ? 0 : directory ? entry->file_bytes : bo_snapshot_memory(entry->snapshot);
    const size_t more = bytes > old ? bytes - old : 0;
    *in_memory = false;
    if (owner->kept - old + bytes > (directory ? owner->disk_share : owner->memory_share)) return false;
    if (entry && directory) forget_bytes(store, entry);
    *in_memory = free_memory(store, owner, directory ? memory : more);
    return directory ? bo_store_free_disk(store, owner, more) : *in_memory;
}

bo_status bo_store_keep(bo_context *context, bo_store *store, bo_prefix owner, const char *id, bo_snapshot *snapshot,
                        bool *full)
{
    const bo_prefix key = bo_store_key_of(store, owner, id);
    bo_status status = BO_OK;
    bool in_memory;
    *full = false;
    pthread_mutex_lock(&store->lock);
    bo_store_entry *entry = *place_of(store, key, true), *added = NULL;
    bo_store_owner *found = bo_store_find_owner(context, store, owner);
    if (!found) status = BO_MEMORY;
    if (found) *full = !free_for(store, found, entry, snapshot, id, &in_memory);
    if (found && !*full && !entry) {
        entry = added = add_entry(context, store, found, key, true);
        status = entry ? BO_OK : BO_MEMORY;
    }
    if (found && !*full && entry) {
        /* if writing fails, the earlier state is kept */
        if (store->desc.directory) status = bo_store_write_now(context, store, entry, id, snapshot);
        if (status == BO_OK && in_memory) set_snapshot(store, entry, snapshot);
        if (status != BO_OK && added) bo_store_remove(store, added);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

void bo_store_get_stats(bo_store *store, bo_store_stats *out)
{
    pthread_mutex_lock(&store->lock);
    *out = store->stats;
    pthread_mutex_unlock(&store->lock);
}

const bo_prefix_secret *bo_store_secret(const bo_store *store)
{
    return &store->secret;
}

/* ---- owners ------------------------------------------------------------------------------------------------------ */

bo_prefix bo_store_owner_of(const bo_store *store, const char *key)
{
    static const char purpose[8] = "owner";
    if (!key) return bo_prefix_of_nothing();
    const bo_prefix hash = bo_prefix_of_bytes(&store->secret, key, strlen(key));
    char bytes[sizeof purpose + sizeof hash];
    memcpy(bytes, purpose, sizeof purpose);
    memcpy(bytes + sizeof purpose, &hash, sizeof hash);
    return bo_prefix_of_bytes(&store->secret, bytes, sizeof bytes);
}

bo_prefix bo_store_key_of(const bo_store *store, bo_prefix owner, const char *id)
{
    char bytes[sizeof owner + BO_SNAPSHOT_ID];
    const size_t length = strlen(id);
    assert(length <= BO_SNAPSHOT_ID);
    if (bo_prefix_equal(owner, bo_prefix_of_nothing())) return bo_prefix_of_bytes(&store->secret, id, length);
    memcpy(bytes, &owner, sizeof owner);
    memcpy(bytes + sizeof owner, id, length);
    return bo_prefix_of_bytes(&store->secret, bytes, sizeof owner + length);
}

bo_store_owner *bo_store_find_owner(bo_context *context, bo_store *store, bo_prefix id)
{
    bo_store_owner *owner = store->owners;
    while (owner && !bo_prefix_equal(owner->id, id)) owner = owner->next;
    if (owner) return owner;
    owner = bo_alloc(context, 1, sizeof *owner, "the owner of a state");
    if (!owner) return NULL;
    *owner = (bo_store_owner){.id = id, .next = store->owners};
    store->owners = owner;
    return owner;
}

/* Adds the owners that have a share of the budgets. */
static bo_status add_owners(bo_context *context, bo_store *store)
{
    const bo_store_desc *d = &store->desc;
    const size_t count = d->key_count ? d->key_count : 1;
    for (size_t i = 0; i < count; i++) {
        bo_store_owner *owner =
            bo_store_find_owner(context, store, bo_store_owner_of(store, d->key_count ? d->keys[i] : NULL));
        if (!owner) return BO_MEMORY;
        owner->memory_share = d->memory_bytes / count;
        owner->disk_share = d->disk_bytes / count;
    }
    return BO_OK;
}

bo_status bo_store_set_secret(bo_context *context, bo_store *store, const bo_prefix_secret *secret)
{
    const bo_prefix derived = bo_prefix_of_bytes(secret, store->desc.model, sizeof store->desc.model);
    store->secret = (bo_prefix_secret){{derived.words[0], derived.words[1]}};
    return add_owners(context, store);
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bo_status build(bo_context *context, const bo_store_desc *desc, bo_store *store)
{
    enum { PLACES = 1024 };
    store->desc = *desc;
    store->lock_file = -1;
    store->in_memory.memory = true;
    store->table_size = PLACES;
    store->table = bo_alloc(context, PLACES, sizeof *store->table, "the table of states");
    if (!store->table) return BO_MEMORY;
    if (desc->directory) return bo_store_open_directory(context, store);
    bo_prefix_secret secret;
    if (!bo_random_bytes(&secret, sizeof secret))
        return bo_fail(context, BO_IO, "the system provides no random numbers (getrandom)");
    return bo_store_set_secret(context, store, &secret);
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
    bo_store_close_directory(store);
    for (size_t i = 0; store->table && i < store->table_size; i++)
        for (bo_store_entry *entry = store->table[i], *next; entry; entry = next) {
            next = entry->next;
            bo_snapshot_release(entry->snapshot);
            bo_free(entry);
        }
    for (bo_store_owner *owner = store->owners, *next; owner; owner = next) {
        next = owner->next;
        bo_free(owner);
    }
    bo_free(store->table);
    bo_free(store->directory);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    bo_free(store);
}
