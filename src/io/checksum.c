/* XXH64, and the checksums of files. */
#include "checksum.h"

#include <stdio.h>
#include <string.h>

/* ---- XXH64: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md --------------------------------------- */

enum { BLOCK = 32, LANES = 4 };

static const uint64_t P1 = 0x9E3779B185EBCA87, P2 = 0xC2B2AE3D27D4EB4F, P3 = 0x165667B19E3779F9,
                      P4 = 0x85EBCA77C2B2AE63, P5 = 0x27D4EB2F165667C5;

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

/* Little-endian, like the CPUs that safetensors files are supported on. */
static uint64_t load64(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t load32(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t mix(uint64_t lane, uint64_t word)
{
    return rotate(lane + word * P2, 31) * P1;
}

static void add_blocks(bo_xxh64 *hash, const unsigned char *bytes, size_t blocks)
{
    uint64_t a = hash->lanes[0], b = hash->lanes[1], c = hash->lanes[2], d = hash->lanes[3];
    for (; blocks > 0; --blocks, bytes += BLOCK) {
        a = mix(a, load64(bytes));
        b = mix(b, load64(bytes + 8));
        c = mix(c, load64(bytes + 16));
        d = mix(d, load64(bytes + 24));
    }
    memcpy(hash->lanes, (uint64_t[LANES]){a, b, c, d}, sizeof hash->lanes);
}

void bo_xxh64_start(bo_xxh64 *hash)
{
    *hash = (bo_xxh64){.lanes = {P1 + P2, P2, 0, 0 - P1}};
}

void bo_xxh64_add(bo_xxh64 *hash, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    const size_t used = hash->size % BLOCK, remaining = BLOCK - used;
    hash->size += size;
    if (size < remaining) {
        if (size) memcpy(hash->block + used, from, size);
        return;
    }
    if (used) {
        memcpy(hash->block + used, from, remaining);
        add_blocks(hash, hash->block, 1);
        from += remaining;
        size -= remaining;
    }
    add_blocks(hash, from, size / BLOCK);
    memcpy(hash->block, from + size / BLOCK * BLOCK, size % BLOCK);
}

uint64_t bo_xxh64_end(const bo_xxh64 *hash)
{
    static const int turns[LANES] = {1, 7, 12, 18};
    const unsigned char *from = hash->block, *end = from + hash->size % BLOCK;
    uint64_t sum = P5;
    if (hash->size >= BLOCK) {
        sum = 0;
        for (int i = 0; i < LANES; ++i) sum += rotate(hash->lanes[i], turns[i]);
        for (int i = 0; i < LANES; ++i) sum = (sum ^ mix(0, hash->lanes[i])) * P1 + P4;
    }
    sum += hash->size;
    for (; end - from >= 8; from += 8) sum = rotate(sum ^ mix(0, load64(from)), 27) * P1 + P4;
    for (; end - from >= 4; from += 4) sum = rotate(sum ^ load32(from) * P1, 23) * P2 + P3;
    for (; end > from; from += 1) sum = rotate(sum ^ *from * P5, 11) * P1;
    sum = (sum ^ sum >> 33) * P2;
    sum = (sum ^ sum >> 29) * P3;
    return sum ^ sum >> 32;
}

/* ---- checksums --------------------------------------------------------------------------------------------------- */

enum { PIECE = 1 << 20, WAVE = 256 }; /* bytes of a piece; pieces hashed between two steps of the outer hash */

static uint64_t hash_of(const void *bytes, size_t size)
{
    bo_xxh64 hash;
    bo_xxh64_start(&hash);
    bo_xxh64_add(&hash, bytes, size);
    return bo_xxh64_end(&hash);
}

static void add_hash(bo_xxh64 *whole, uint64_t inner)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = (unsigned char)(inner >> 8 * i);
    bo_xxh64_add(whole, bytes, sizeof bytes);
}

static void write_digits(const bo_xxh64 *whole, char digits[BO_CHECKSUM_DIGITS])
{
    char text[BO_CHECKSUM_DIGITS + 1];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)bo_xxh64_end(whole));
    memcpy(digits, text, BO_CHECKSUM_DIGITS);
}

void bo_checksum_start(bo_checksum *sum, const void *before, size_t size)
{
    bo_xxh64_start(&sum->whole);
    bo_xxh64_start(&sum->piece);
    add_hash(&sum->whole, hash_of(before, size));
}

void bo_checksum_add(bo_checksum *sum, const void *bytes, size_t size)
{
    const char *from = bytes;
    while (size > 0) {
        const size_t remaining = PIECE - (size_t)sum->piece.size, part = size < remaining ? size : remaining;
        bo_xxh64_add(&sum->piece, from, part);
        from += part;
        size -= part;
        if (part < remaining) continue;
        add_hash(&sum->whole, bo_xxh64_end(&sum->piece));
        bo_xxh64_start(&sum->piece);
    }
}

void bo_checksum_end(bo_checksum *sum, char digits[BO_CHECKSUM_DIGITS])
{
    if (sum->piece.size) add_hash(&sum->whole, bo_xxh64_end(&sum->piece));
    write_digits(&sum->whole, digits);
}

/* The hashes of consecutive pieces; only the last one may be shorter than PIECE. */
typedef struct wave {
    const char *bytes;
    size_t size;
    uint64_t hashes[WAVE];
} wave;

static void hash_piece(void *arg, size_t index, int worker)
{
    wave *w = arg;
    const size_t start = index * PIECE, rest = w->size - start;
    (void)worker;
    w->hashes[index] = hash_of(w->bytes + start, rest < PIECE ? rest : PIECE);
}

bo_status bo_checksum_find(bo_context *context, const void *bytes, size_t size, size_t place,
                           char digits[BO_CHECKSUM_DIGITS])
{
    bo_checksum sum;
    wave w = {.bytes = (const char *)bytes + place + BO_CHECKSUM_DIGITS};
    bo_checksum_start(&sum, bytes, place);
    for (size_t left = size - place - BO_CHECKSUM_DIGITS; left > 0; left -= w.size, w.bytes += w.size) {
        BO_TRY(bo_progress(context, "verifying the checksum", (double)(size - left), (double)size));
        w.size = left < (size_t)WAVE * PIECE ? left : (size_t)WAVE * PIECE;
        const size_t pieces = (w.size + PIECE - 1) / PIECE;
        bo_parallel(context, pieces, hash_piece, &w);
        for (size_t i = 0; i < pieces; ++i) add_hash(&sum.whole, w.hashes[i]);
    }
    write_digits(&sum.whole, digits);
    return BO_OK;
}

void bo_checksum_text(const char *text, size_t length, char out[BO_CHECKSUM_TEXT])
{
    char digits[BO_CHECKSUM_DIGITS];
    bo_checksum sum;
    bo_checksum_start(&sum, "", 0);
    bo_checksum_add(&sum, text, length);
    bo_checksum_end(&sum, digits);
    snprintf(out, BO_CHECKSUM_TEXT, BO_CHECKSUM_VERSION "%.16s", digits);
}

bool bo_checksum_announced(const void *bytes, const char *mark, size_t size)
{
    const char *found = bytes;
    size_t different = 0;
    for (size_t i = 0; i < size; ++i) different += found[i] != mark[i];
    return different <= size / 8;
}
