/* A snapshot: the state of a model after a text. It consists of the state of a lane (tasks.h) and of pending tokens:
 * those at the end of the text that the lane has not read yet. The last token of a text is pending, because reading it
 * computes the next logits.
 *
 * Serialized in files and downloads (little-endian):
 *
 *     0   8  "BOSTATE1"
 *     8   4  number of pending tokens
 *     12  4  number of bytes of the id, 0 if it has none
 *     16  16 hash of the tokens read; zero in downloads, since it is meaningful for this server only
 *     32  8  number of tokens read
 *     40  8  number of bytes of the state
 *     48  8  XXH64 of all other bytes
 *     56  1  number of bytes of a partial character at the end of the text
 *     57  7  these bytes, and zeros
 *     64     pending tokens (4 bytes each), id, state (as bo_session_save writes it)
 *            conversations: then the XXH64 of the tokens read (8 bytes) and the messages (a JSON list) */
#ifndef BO_SERVE_SNAPSHOT_H
#define BO_SERVE_SNAPSHOT_H

#include <stdatomic.h>
#include "prefix.h"

enum { BO_SNAPSHOT_PENDING = 4, BO_SNAPSHOT_ID = 64, BO_SNAPSHOT_HEADER = 64, BO_SNAPSHOT_PARTIAL = 3 };
/* The memory of a snapshot and its store entry in addition to the state: structures, and headers and alignment of up to
 * four allocations. */
enum { BO_SNAPSHOT_OVERHEAD = 768 };

/* Immutable and reference-counted. Invariants: pending_count ≤ BO_SNAPSHOT_PENDING; bytes is NULL only if tokens is 0
 * (nothing was read). */
typedef struct bo_snapshot {
    atomic_size_t owners;
    bo_prefix prefix; /* of the tokens read */
    bo_prefix owner;  /* of a cached prefix; not part of the bytes */
    uint64_t tokens;  /* tokens read */
    size_t pending_count;
    int32_t pending[BO_SNAPSHOT_PENDING];
    /* A partial character at the end of the text, which the next tokens complete. */
    char partial[BO_SNAPSHOT_PARTIAL];
    size_t partial_count;
    void *bytes;
    size_t size;
    char *messages;    /* of the conversation, as a JSON list; NULL: the state of a plain text */
    uint64_t ids_hash; /* conversations: of the tokens read (conversation.h) */
} bo_snapshot;

/* Takes ownership of the bytes and the messages, also on failure. */
bo_status bo_snapshot_create(bo_context *context, const bo_snapshot *from, bo_snapshot **out);
bo_snapshot *bo_snapshot_share(bo_snapshot *snapshot);
void bo_snapshot_release(bo_snapshot *snapshot); /* NULL is allowed */
/* Returns the bytes that the snapshot counts in a memory budget. */
size_t bo_snapshot_memory(const bo_snapshot *snapshot);
/* Returns the number of tokens of the text, read and pending. */
uint64_t bo_snapshot_length(const bo_snapshot *snapshot);

/* Returns the serialized size. */
size_t bo_snapshot_size(const bo_snapshot *snapshot, const char *id);
/* Serializes a snapshot; free with bo_free. `id` may be NULL. `prefix`: write the hash. */
bo_status bo_snapshot_write(bo_context *context, const bo_snapshot *snapshot, const char *id, bool prefix, void **bytes,
                            size_t *size);
/* True if the bytes match the magic number of a snapshot, as far as they go. */
bool bo_snapshot_has_magic(const void *bytes, size_t count);
/* Deserializes a snapshot. BO_FORMAT: not a snapshot, or damaged. `id` receives the id or "". The state itself is
 * checked when a lane loads it. */
bo_status bo_snapshot_read(bo_context *context, const char *where, const void *bytes, size_t size,
                           char id[BO_SNAPSHOT_ID + 1], bo_snapshot **out);

#endif
