#include "snapshot.h"
#include "../io/checksum.h"
#include <assert.h>
#include <string.h>

static const char MAGIC[8] = {'B', 'O', 'S', 'T', 'A', 'T', 'E', '1'};
enum { AT_PENDING = 8, AT_ID = 12, AT_PREFIX = 16, AT_TOKENS = 32, AT_SIZE = 40, AT_CHECKSUM = 48, AT_PARTIAL = 56 };
static const uint64_t MAX_TOKENS = UINT64_C(1) << 56;

bo_status bo_snapshot_create(bo_context *context, const bo_snapshot *from, bo_snapshot **out)
{
    assert(from->pending_count <= BO_SNAPSHOT_PENDING && (from->bytes || !from->tokens));
    *out = bo_alloc(context, 1, sizeof **out, "a state");
    if (!*out) {
        bo_free(from->bytes);
        bo_free(from->messages);
        return BO_MEMORY;
    }
    **out = *from;
    atomic_init(&(*out)->owners, 1);
    return BO_OK;
}

bo_snapshot *bo_snapshot_share(bo_snapshot *snapshot)
{
    if (snapshot) atomic_fetch_add(&snapshot->owners, 1);
    return snapshot;
}

void bo_snapshot_release(bo_snapshot *snapshot)
{
    if (!snapshot || atomic_fetch_sub(&snapshot->owners, 1) != 1) return;
    bo_free(snapshot->bytes);
    bo_free(snapshot->messages);
    bo_free(snapshot);
}

enum { HASH_BYTES = 8 };

/* Returns the bytes of the part that only conversations have. */
static size_t conversation_size(const bo_snapshot *snapshot)
{
    return snapshot->messages ? HASH_BYTES + strlen(snapshot->messages) : 0;
}

size_t bo_snapshot_memory(const bo_snapshot *snapshot)
{
    return BO_SNAPSHOT_OVERHEAD + snapshot->size + conversation_size(snapshot);
}

uint64_t bo_snapshot_length(const bo_snapshot *snapshot)
{
    return snapshot->tokens + snapshot->pending_count;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void write_uint(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t read_uint(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint64_t checksum(const unsigned char *bytes, size_t size)
{
    bo_xxh64 hash;
    bo_xxh64_start(&hash);
    bo_xxh64_add(&hash, bytes, AT_CHECKSUM);
    bo_xxh64_add(&hash, bytes + AT_PARTIAL, size - AT_PARTIAL);
    return bo_xxh64_end(&hash);
}

size_t bo_snapshot_size(const bo_snapshot *snapshot, const char *id)
{
    return BO_SNAPSHOT_HEADER + 4 * snapshot->pending_count + (id ? strlen(id) : 0) + snapshot->size +
           conversation_size(snapshot);
}

bo_status bo_snapshot_write(bo_context *context, const bo_snapshot *snapshot, const char *id, bool prefix, void **bytes,
                            size_t *size)
{
    const size_t id_bytes = id ? strlen(id) : 0, pending = snapshot->pending_count;
    *size = bo_snapshot_size(snapshot, id);
    unsigned char *out = *bytes = bo_alloc_raw(context, *size, 1, "the bytes of a state"), *at;
    if (!out) return BO_MEMORY;
    memcpy(out, MAGIC, sizeof MAGIC);
    write_uint(out + AT_PENDING, pending, 4);
    write_uint(out + AT_ID, id_bytes, 4);
    write_uint(out + AT_PREFIX, prefix ? snapshot->prefix.words[0] : 0, 8);
    write_uint(out + AT_PREFIX + 8, prefix ? snapshot->prefix.words[1] : 0, 8);
    write_uint(out + AT_TOKENS, snapshot->tokens, 8);
    write_uint(out + AT_SIZE, snapshot->size, 8);
    memset(out + AT_PARTIAL, 0, BO_SNAPSHOT_HEADER - AT_PARTIAL);
    out[AT_PARTIAL] = (unsigned char)snapshot->partial_count;
    memcpy(out + AT_PARTIAL + 1, snapshot->partial, snapshot->partial_count);
    at = out + BO_SNAPSHOT_HEADER;
    for (size_t i = 0; i < pending; i++, at += 4) write_uint(at, (uint32_t)snapshot->pending[i], 4);
    if (id_bytes) memcpy(at, id, id_bytes);
    at += id_bytes;
    if (snapshot->size) memcpy(at, snapshot->bytes, snapshot->size);
    at += snapshot->size;
    if (snapshot->messages) {
        write_uint(at, snapshot->ids_hash, HASH_BYTES);
        memcpy(at + HASH_BYTES, snapshot->messages, strlen(snapshot->messages));
    }
    write_uint(out + AT_CHECKSUM, checksum(out, *size), 8);
    return BO_OK;
}

/* The partial character must be padded with zeros, so that a snapshot has one encoding. */
static bool is_partial_valid(const unsigned char *bytes)
{
    if (bytes[AT_PARTIAL] > BO_SNAPSHOT_PARTIAL) return false;
    for (size_t i = AT_PARTIAL + 1 + bytes[AT_PARTIAL]; i < BO_SNAPSHOT_HEADER; i++)
        if (bytes[i]) return false;
    return true;
}

/* The part after the state must be empty, or a hash and the messages. */
static bool is_conversation_valid(const unsigned char *bytes, size_t size)
{
    return size == 0 || (size > HASH_BYTES && !memchr(bytes + HASH_BYTES, 0, size - HASH_BYTES));
}

static bo_status check(bo_context *context, const char *where, const unsigned char *bytes, size_t size)
{
    if (size < BO_SNAPSHOT_HEADER || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return bo_fail(context, BO_FORMAT, "%s: expected a state of bochner serve, found other bytes", where);
    const uint64_t pending = read_uint(bytes + AT_PENDING, 4), id = read_uint(bytes + AT_ID, 4),
                   state = read_uint(bytes + AT_SIZE, 8);
    const uint64_t tokens = read_uint(bytes + AT_TOKENS, 8);
    const uint64_t whole = BO_SNAPSHOT_HEADER + 4 * pending + id + state;
    if (pending > BO_SNAPSHOT_PENDING || id > BO_SNAPSHOT_ID || state > size || tokens > MAX_TOKENS || whole > size ||
        (tokens && !state) || !is_partial_valid(bytes) || !is_conversation_valid(bytes + whole, size - whole))
        return bo_fail(context, BO_FORMAT, "%s: the state is incomplete, or its header is damaged", where);
    if (read_uint(bytes + AT_CHECKSUM, 8) != checksum(bytes, size))
        return bo_fail(context, BO_FORMAT, "%s: the state is damaged: its checksum does not match", where);
    return BO_OK;
}

bool bo_snapshot_has_magic(const void *bytes, size_t count)
{
    return memcmp(bytes, MAGIC, bo_min(count, sizeof MAGIC)) == 0;
}

bo_status bo_snapshot_read(bo_context *context, const char *where, const void *bytes, size_t size,
                           char id[BO_SNAPSHOT_ID + 1], bo_snapshot **out)
{
    const unsigned char *from = bytes, *at;
    *out = NULL;
    BO_TRY(check(context, where, from, size));
    at = from + BO_SNAPSHOT_HEADER; /* only valid after the check */
    const size_t id_bytes = (size_t)read_uint(from + AT_ID, 4);
    bo_snapshot snapshot = {.prefix = {{read_uint(from + AT_PREFIX, 8), read_uint(from + AT_PREFIX + 8, 8)}},
                            .tokens = read_uint(from + AT_TOKENS, 8),
                            .pending_count = (size_t)read_uint(from + AT_PENDING, 4),
                            .partial_count = from[AT_PARTIAL],
                            .size = (size_t)read_uint(from + AT_SIZE, 8)};
    memcpy(snapshot.partial, from + AT_PARTIAL + 1, snapshot.partial_count);
    for (size_t i = 0; i < snapshot.pending_count; i++, at += 4) snapshot.pending[i] = (int32_t)read_uint(at, 4);
    memcpy(id, at, id_bytes);
    id[id_bytes] = 0;
    at += id_bytes;
    if (snapshot.size) {
        snapshot.bytes = bo_alloc_raw(context, snapshot.size, 1, "a state");
        if (!snapshot.bytes) return BO_MEMORY;
        memcpy(snapshot.bytes, at, snapshot.size);
    }
    at += snapshot.size;
    const size_t rest = size - (size_t)(at - from);
    if (rest) {
        snapshot.ids_hash = read_uint(at, HASH_BYTES);
        snapshot.messages = bo_alloc(context, rest - HASH_BYTES + 1, 1, "the messages of a state");
        if (!snapshot.messages) {
            bo_free(snapshot.bytes);
            return BO_MEMORY;
        }
        memcpy(snapshot.messages, at + HASH_BYTES, rest - HASH_BYTES);
    }
    return bo_snapshot_create(context, &snapshot, out);
}
