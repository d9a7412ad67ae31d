/* A snapshot: what a model knows after a text. It is the state of a lane (tasks.h) and the tokens at the end of the
 * text that the lane has not read yet. The last token of a text is kept in this way, because reading it gives the
 * logits that follow.
 *
 * As bytes, in files and in downloads (little-endian):
 *
 *     0   8  "BOSTATE1"
 *     8   4  number of pending tokens
 *     12  4  number of bytes of the id, 0 if it has none
 *     16  16 hash of the tokens read; zero in downloads, since it has a meaning for this server only
 *     32  8  number of tokens read
 *     40  8  number of bytes of the state
 *     48  8  XXH64 of all other bytes
 *     56  1  number of bytes at the end of the text that are a part of a character
 *     57  7  these bytes, and zeros
 *     64     pending tokens (4 bytes each), id, state (as bo_session_save writes it); of a conversation also the XXH64
 * of the tokens read (8 bytes) and the messages (a JSON list) */
#ifndef BO_SERVE_SNAPSHOT_H
#define BO_SERVE_SNAPSHOT_H

#include <stdatomic.h>
#include "prefix.h"

enum { BO_SNAPSHOT_PENDING = 4, BO_SNAPSHOT_ID = 64, BO_SNAPSHOT_HEADER = 64, BO_SNAPSHOT_PARTIAL = 3 };
/* The memory of a snapshot and its entry in the store beside the bytes of the state: structures, and headers and
 * alignment of up to four allocations. */
enum { BO_SNAPSHOT_OVERHEAD = 768 };

/* Immutable and shared: released by the last owner. Invariants: pending_count ≤ BO_SNAPSHOT_PENDING; bytes is NULL only
 * if tokens is 0: nothing was read. */
typedef struct bo_snapshot {
    atomic_size_t owners;
    bo_prefix prefix; /* of the tokens read */
    bo_prefix owner;  /* of a cached prefix; not part of the bytes */
    uint64_t tokens;  /* tokens read */
    size_t pending_count;
    int32_t pending[BO_SNAPSHOT_PENDING];
    /* The start of a character at the end of the text, which the next tokens complete. */
    char partial[BO_SNAPSHOT_PARTIAL];
    size_t partial_count;
    void *bytes;
    size_t size;
    char *messages;    /* of the conversation, as a JSON list; NULL: the state is that of a text */
    uint64_t ids_hash; /* conversations: of the tokens read (conversation.h) */
} bo_snapshot;

/* Takes ownership of the bytes and the messages, also after a failure. */
bo_status bo_snapshot_create(bo_context *context, const bo_snapshot *from, bo_snapshot **out);
bo_snapshot *bo_snapshot_share(bo_snapshot *snapshot);
void bo_snapshot_release(bo_snapshot *snapshot); /* NULL is allowed */
/* What the snapshot counts in a budget of memory. */
size_t bo_snapshot_memory(const bo_snapshot *snapshot);
/* All tokens of the text, read and pending. */
uint64_t bo_snapshot_length(const bo_snapshot *snapshot);

/* The number of these bytes. */
size_t bo_snapshot_size(const bo_snapshot *snapshot, const char *id);
/* Writes a snapshot as bytes; freed with bo_free. `id` may be NULL; `prefix`: the hash is written. */
bo_status bo_snapshot_write(bo_context *context, const bo_snapshot *snapshot, const char *id, bool prefix, void **bytes,
                            size_t *size);
/* Whether bytes are the first ones of a snapshot, as far as they go. */
bool bo_snapshot_has_magic(const void *bytes, size_t count);
/* Reads bytes. BO_FORMAT if they are not a snapshot or are damaged. `id` receives the id or "". The state inside is
 * checked when a lane loads it. */
bo_status bo_snapshot_read(bo_context *context, const char *where, const void *bytes, size_t size,
                           char id[BO_SNAPSHOT_ID + 1], bo_snapshot **out);

#endif
