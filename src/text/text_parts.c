#include "text_parts.h"

#include <ctype.h>

static bo_status add(bo_context *context, bo_parts *parts, bo_text_part part)
{
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity ? 2 * parts->capacity : 64;
        bo_text_part *larger = bo_realloc(context, parts->items, capacity, sizeof *larger, "the parts of a text");
        if (!larger) return BO_MEMORY;
        parts->items = larger;
        parts->capacity = capacity;
    }
    parts->items[parts->count++] = part;
    return BO_OK;
}

static size_t part_length(const char *text, size_t length)
{
    size_t at = BO_TEXT_PART_BYTES;
    while (at < length && !((text[at] == ' ' || text[at] == '\n') && text[at - 1] > ' ' && text[at - 1] < 127)) ++at;
    return at < length ? at : length;
}

bo_status bo_parts_make(bo_context *context, const bo_documents *documents, bool cuttable, bo_parts *out)
{
    *out = (bo_parts){0};
    for (size_t d = 0; d < documents->count; ++d) {
        const char *text = documents->items[d].text;
        size_t left = documents->items[d].length;
        while (left > 0) {
            size_t length = cuttable ? part_length(text, left) : left;
            bo_status status = add(context, out, (bo_text_part){text, length, d, length == left});
            if (status != BO_OK) {
                bo_free(out->items);
                *out = (bo_parts){0};
                return status;
            }
            text += length;
            left -= length;
        }
    }
    return BO_OK;
}
