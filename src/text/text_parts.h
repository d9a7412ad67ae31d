/* Documents cut into parts of about the same size, which threads take one after the other. */
#ifndef BO_TEXT_PARTS_H
#define BO_TEXT_PARTS_H

#include "documents.h"

enum { BO_TEXT_PART_BYTES = 1 << 18 };

typedef struct bo_text_part {
    const char *text;
    size_t length;
    size_t document;
    bool last; /* of its document */
} bo_text_part;

typedef struct bo_parts {
    bo_text_part *items;
    size_t count, capacity;
} bo_parts;

/* Cuts (where `cuttable`) only before a blank that follows a sign of ASCII that is none. Where they fall depends on the text
 * alone. */
bo_status bo_parts_make(bo_context *context, const bo_documents *documents, bool cuttable, bo_parts *out);

#endif
