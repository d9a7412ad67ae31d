/* Finds the pairs of characters that no merge joins, from the merges of a vocabulary. */
#include "cut_points.h"
#include "unicode.h"

#include <string.h>

/* The bytes of a character as a number that identifies it. */
static uint64_t character(const char *text, size_t bytes)
{
    uint64_t number = 0;
    memcpy(&number, text, bytes);
    return number;
}

static size_t character_bytes(const char *text, size_t length)
{
    size_t bytes = (unsigned char)*text < 128 ? 1 : bo_utf8_length(text, length);
    return bytes ? bytes : 1;
}

/* The size of the last character: its first byte and at most three continuation bytes. */
static size_t last_character(const char *text, size_t length)
{
    size_t bytes = 1;
    while (bytes < length && bytes < 4 && ((unsigned char)text[length - bytes] & 0xC0) == 0x80) ++bytes;
    return bytes;
}

static uint64_t *place_of(const bo_joints *joints, uint64_t joint)
{
    size_t at = (size_t)bo_hash_pair(joint) & joints->mask;
    while (joints->slots[at] && joints->slots[at] != joint) at = (at + 1) & joints->mask;
    return &joints->slots[at];
}

static void add_joint(bo_tokenizer *tokenizer, int32_t left, int32_t right)
{
    size_t before, after;
    const char *first = bo_spelling_at(&tokenizer->texts, (size_t)left, &before);
    const char *second = bo_spelling_at(&tokenizer->texts, (size_t)right, &after);
    size_t bytes = last_character(first, before);
    uint64_t joint = character(first + before - bytes, bytes) << 32 | character(second, character_bytes(second, after));
    *place_of(&tokenizer->joints, joint) = joint;
}

/* Marks the ids that represent bytes. False: some byte has no id. */
static bool mark_bytes(const bo_tokenizer *tokenizer, bool *is_byte)
{
    for (int b = 0; b < 256; ++b) {
        if (tokenizer->byte_ids[b] < 0) return false;
        is_byte[tokenizer->byte_ids[b]] = true;
    }
    return true;
}

/* The number of merges. SIZE_MAX: a merge joins a token that represents a byte. */
static size_t count_merges(const bo_tokenizer *tokenizer, const bool *is_byte)
{
    size_t count = 0;
    for (size_t i = 0; i <= tokenizer->merges.mask; ++i) {
        const bo_merge *merge = &tokenizer->merges.slots[i];
        if (merge->pair == BO_NO_PAIR) continue;
        if (is_byte[merge->pair >> 32] || is_byte[(uint32_t)merge->pair]) return SIZE_MAX;
        ++count;
    }
    return count;
}

static bo_status find_joints(bo_context *context, bo_tokenizer *tokenizer, size_t merges)
{
    size_t places = 16;
    while (places < 2 * merges) places *= 2;
    tokenizer->joints.slots = bo_alloc(context, places, sizeof *tokenizer->joints.slots, "the joints of merges");
    if (!tokenizer->joints.slots) return BO_MEMORY;
    tokenizer->joints.mask = places - 1;
    for (size_t i = 0; i <= tokenizer->merges.mask; ++i) {
        const uint64_t pair = tokenizer->merges.slots[i].pair;
        if (pair != BO_NO_PAIR) add_joint(tokenizer, (int32_t)(pair >> 32), (int32_t)(uint32_t)pair);
    }
    return BO_OK;
}

bo_status bo_cut_points_find(bo_context *context, bo_tokenizer *tokenizer)
{
    if (tokenizer->model != BO_MODEL_BPE || tokenizer->byte_level || !tokenizer->byte_fallback ||
        tokenizer->ignore_merges || tokenizer->word_prefix || tokenizer->word_suffix)
        return BO_OK;
    bool *is_byte = bo_alloc(context, tokenizer->info.vocab, sizeof *is_byte, "the joints of merges");
    if (!is_byte) return BO_MEMORY;
    size_t merges = mark_bytes(tokenizer, is_byte) ? count_merges(tokenizer, is_byte) : SIZE_MAX;
    bo_free(is_byte);
    return merges == SIZE_MAX ? BO_OK : find_joints(context, tokenizer, merges);
}

size_t bo_cut_points_next(const bo_tokenizer *tokenizer, const char *text, size_t length)
{
    if (!tokenizer->joints.slots) return length;
    size_t bytes = character_bytes(text, length), at = bytes;
    uint64_t before = character(text, bytes);
    while (at < length) {
        bytes = character_bytes(text + at, length - at);
        const uint64_t after = character(text + at, bytes), joint = before << 32 | after;
        if (!*place_of(&tokenizer->joints, joint)) return at;
        before = after;
        at += bytes;
    }
    return length;
}
