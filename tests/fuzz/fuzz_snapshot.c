/* States that clients upload to bochner serve: read or refused with a reason; a state that was read is written as the
 * same bytes. */
#include "fuzz.h"
#include "io/checksum.h"
#include "serve/snapshot.h"

enum { AT_ID = 12, AT_PENDING = 8, AT_SIZE = 40, AT_CHECKSUM = 48, AT_DATA = 56 };

static void write_integer(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* Corrects the checksum, and if the last byte is even, the size of the state. */
static void repair(uint8_t *bytes, size_t size)
{
    bo_xxh64 hash;
    if (size < BO_SNAPSHOT_HEADER) return;
    const size_t before = BO_SNAPSHOT_HEADER + 4 * (size_t)bytes[AT_PENDING] + bytes[AT_ID];
    if (bytes[size - 1] % 2 == 0) write_integer(bytes + AT_SIZE, size - before);
    bo_xxh64_start(&hash);
    bo_xxh64_add(&hash, bytes, AT_CHECKSUM);
    bo_xxh64_add(&hash, bytes + AT_DATA, size - AT_DATA);
    write_integer(bytes + AT_CHECKSUM, bo_xxh64_end(&hash));
}

static void check(bo_context *context, const uint8_t *bytes, size_t size, const bo_snapshot *snapshot, const char *id)
{
    void *again;
    size_t again_size;
    if (snapshot->pending_count > BO_SNAPSHOT_PENDING || snapshot->partial_count > BO_SNAPSHOT_PARTIAL) abort();
    if (snapshot->size && !snapshot->bytes) abort();
    if (snapshot->tokens && !snapshot->bytes) abort();
    if (bo_snapshot_length(snapshot) < snapshot->tokens || strlen(id) > BO_SNAPSHOT_ID) abort();
    if (!fuzz_ok(context, bo_snapshot_write(context, snapshot, id, true, &again, &again_size))) abort();
    /* an id ends at its first NUL */
    if (strlen(id) == bytes[AT_ID] && (again_size != size || memcmp(again, bytes, size) != 0)) abort();
    bo_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    char id[BO_SNAPSHOT_ID + 1];
    bo_snapshot *snapshot;
    uint8_t *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    for (int repaired = 0; repaired < 2; repaired++) {
        if (repaired) repair(bytes, size);
        if (!fuzz_ok(context, bo_snapshot_read(context, "fuzz", bytes, size, id, &snapshot))) continue;
        check(context, bytes, size, snapshot, id);
        bo_snapshot_release(snapshot);
    }
    free(bytes);
    return 0;
}
