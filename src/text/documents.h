/* Files as a row of documents: parts of a text file between separators, or one string of every JSON line. */
#ifndef BO_TEXT_DOCUMENTS_H
#define BO_TEXT_DOCUMENTS_H

#include "../io/mapping.h"
#include <bochner/text.h>

typedef struct bo_document {
    const char *text; /* in its file's mapping or in `unescaped`; not terminated */
    size_t length;    /* never 0 */
    size_t file;
} bo_document;

typedef struct bo_documents {
    char **paths;         /* file_count */
    bo_mapping *mappings; /* file_count; that of JSON lines is closed once they are read */
    char **unescaped;     /* file_count; NULL: not JSON lines */
    size_t file_count;
    bo_document *items;
    size_t count, capacity;
    uint64_t bytes; /* of all documents */
} bo_documents;

/* Of the descriptor: paths or memory, field and separator. BO_INVALID when there is no text at all. */
bo_status bo_documents_open(bo_context *context, const bo_corpus_desc *desc, bo_documents *out);
void bo_documents_close(bo_documents *documents);

/* An empty document is left out. */
bo_status bo_documents_add(bo_context *context, bo_documents *documents, size_t file, const char *text, size_t length);
/* Adds the documents of file `file` of JSON lines, whose mapping is open. */
bo_status bo_json_lines_read(bo_context *context, bo_documents *documents, size_t file, const char *field);

/* ---- documents cut into parts of about the same size, which threads take one after the other ---------------------------- */

enum { BO_TEXT_PART_BYTES = BO_SIZE(1 << 18, 64) };

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
