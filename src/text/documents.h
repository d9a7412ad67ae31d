/* Files as a sequence of documents: parts of a text file between separators, or one string of every JSON line. */
#ifndef BO_TEXT_DOCUMENTS_H
#define BO_TEXT_DOCUMENTS_H

#include "../io/mapping.h"
#include <bochner/text.h>

typedef struct bo_document {
    const char *text; /* in the mapping of its file or in `unescaped`; not terminated */
    size_t length;    /* never 0 */
    size_t file;
} bo_document;

typedef struct bo_documents {
    char **paths;         /* file_count */
    bo_mapping *mappings; /* file_count; the mapping of JSON lines is closed after reading */
    char **unescaped;     /* file_count; NULL: not JSON lines */
    size_t file_count;
    bo_document *items;
    size_t count, capacity;
    uint64_t bytes; /* total of all documents */
} bo_documents;

/* Uses paths or memory, field and separator of the descriptor. BO_INVALID if there is no text at all. */
bo_status bo_documents_open(bo_context *context, const bo_corpus_desc *desc, bo_documents *out);
void bo_documents_close(bo_documents *documents);

/* True if a corpus reads a file of this name as JSON lines. */
bool bo_is_json_lines(const char *path);
/* An empty document is skipped. */
bo_status bo_documents_add(bo_context *context, bo_documents *documents, size_t file, const char *text, size_t length);
/* Adds the documents of the JSON Lines file `file`, whose mapping is open. */
bo_status bo_json_lines_read(bo_context *context, bo_documents *documents, size_t file, const char *field);

/* ---- documents divided into parts of about equal size for threads ------------------------------------------------ */

enum { BO_TEXT_PART_BYTES = BO_SIZE(1 << 18, 64) };

typedef struct bo_text_part {
    const char *text;
    size_t length;
    size_t document;
    bool last; /* last part of its document */
} bo_text_part;

typedef struct bo_parts {
    bo_text_part *items;
    size_t count, capacity;
} bo_parts;

/* Divides documents (if `cuttable`) only before a space that follows a non-space ASCII character. The positions depend
 * on the text only. */
bo_status bo_parts_make(bo_context *context, const bo_documents *documents, bool cuttable, bo_parts *out);

#endif
