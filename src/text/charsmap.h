/* The precompiled character map of SentencePiece: a double array (Darts) of strings and their replacements. */
#ifndef BO_TEXT_CHARSMAP_H
#define BO_TEXT_CHARSMAP_H

#include "buffer.h"

typedef struct bo_charsmap {
    uint32_t *units;
    size_t unit_count;
    char *texts; /* replacements, each followed by a NUL */
    size_t text_bytes;
} bo_charsmap;

/* where: prefix of the error message. */
bo_status bo_charsmap_read(bo_context *context, const char *where, const char *base64, bo_charsmap *out);
void bo_charsmap_free(bo_charsmap *map);
/* Appends the text with its characters replaced. A grapheme of at most five bytes is replaced as a whole if the map has
 * a replacement for its start, otherwise character by character: the rule of `tokenizers`. *lead: see pattern.h.
 * BO_UNSUPPORTED: `to` would have more than `max_bytes` bytes. */
bo_status bo_charsmap_apply(bo_context *context, const bo_charsmap *map, const char *text, size_t length,
                            size_t max_bytes, bo_buffer *to, size_t *lead);

#endif
