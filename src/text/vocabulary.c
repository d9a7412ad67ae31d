/* Hash tables of strings and of merges. */
#include "vocabulary.h"

#include <string.h>

bo_status bo_spellings_create(bo_context *context, size_t count, size_t bytes, bo_spellings *out)
{
    *out = (bo_spellings){0};
    out->bytes = bo_alloc_raw(context, bytes + 1, 1, "the texts of tokens");
    out->starts = bo_alloc(context, count + 1, sizeof *out->starts, "the texts of tokens");
    if (out->bytes && out->starts) return BO_OK;
    bo_spellings_free(out);
    return BO_MEMORY;
}

void bo_spellings_add(bo_spellings *strings, const char *text, size_t length)
{
    size_t at = strings->starts[strings->count++];
    memcpy(strings->bytes + at, text, length);
    strings->starts[strings->count] = at + length;
}

void bo_spellings_free(bo_spellings *strings)
{
    bo_free(strings->bytes);
    bo_free(strings->starts);
    *strings = (bo_spellings){0};
}

/* Multiplies and folds eight bytes at a time. The length is included, so that zeros which pad the last eight bytes
 * matter. */
uint64_t bo_hash_bytes(const char *text, size_t length)
{
    const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = length * odd, piece;
    for (; length >= sizeof piece; text += sizeof piece, length -= sizeof piece) {
        memcpy(&piece, text, sizeof piece);
        hash = (hash ^ piece) * odd;
        hash ^= hash >> 32;
    }
    piece = 0;
    for (size_t i = 0; i < length; ++i) piece |= (uint64_t)(unsigned char)text[i] << 8 * i;
    hash = (hash ^ piece) * odd;
    return hash ^ hash >> 29;
}

static size_t places_for(size_t count)
{
    size_t places = 16;
    while (places < 2 * count) places *= 2;
    return places;
}

bo_status bo_lookup_create(bo_context *context, size_t count, bo_lookup *out)
{
    size_t places = places_for(count);
    *out = (bo_lookup){bo_alloc_raw(context, places, sizeof *out->slots, "a table of tokens"), places - 1};
    if (!out->slots) return BO_MEMORY;
    memset(out->slots, 0xff, places * sizeof *out->slots);
    return BO_OK;
}

static size_t place_of(const bo_lookup *lookup, const bo_spellings *strings, const char *text, size_t length)
{
    size_t at = (size_t)bo_hash_bytes(text, length) & lookup->mask;
    for (; lookup->slots[at] >= 0; at = (at + 1) & lookup->mask) {
        size_t other;
        const char *spelling = bo_spelling_at(strings, (size_t)lookup->slots[at], &other);
        if (other == length && memcmp(spelling, text, length) == 0) break;
    }
    return at;
}

int32_t bo_lookup_find(const bo_lookup *lookup, const bo_spellings *strings, const char *text, size_t length)
{
    return lookup->slots[place_of(lookup, strings, text, length)];
}

int32_t bo_lookup_add(bo_lookup *lookup, const bo_spellings *strings, int32_t index)
{
    size_t length;
    const char *text = bo_spelling_at(strings, (size_t)index, &length);
    int32_t *slot = &lookup->slots[place_of(lookup, strings, text, length)], existing = *slot;
    if (existing < 0) *slot = index;
    return existing;
}

void bo_lookup_replace(bo_lookup *lookup, const bo_spellings *strings, int32_t index)
{
    size_t length;
    const char *text = bo_spelling_at(strings, (size_t)index, &length);
    lookup->slots[place_of(lookup, strings, text, length)] = index;
}

bo_status bo_merges_create(bo_context *context, size_t count, bo_merges *out)
{
    size_t places = places_for(count);
    *out = (bo_merges){bo_alloc_raw(context, places, sizeof *out->slots, "a table of merges"), places - 1};
    if (!out->slots) return BO_MEMORY;
    for (size_t i = 0; i < places; ++i) out->slots[i].pair = BO_NO_PAIR;
    return BO_OK;
}

void bo_merges_add(bo_merges *merges, bo_merge merge)
{
    size_t at = (size_t)bo_hash_pair(merge.pair) & merges->mask;
    while (merges->slots[at].pair != BO_NO_PAIR && merges->slots[at].pair != merge.pair) at = (at + 1) & merges->mask;
    merges->slots[at] = merge;
}
