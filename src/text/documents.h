/* Files as a row of documents: parts of a text file between separators, or one string of every JSON line. */
#ifndef BO_TEXT_DOCUMENTS_H
#define BO_TEXT_DOCUMENTS_H

#include "mapping.h"

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

/* field: NULL is "text"; separator: NULL: a file is a document. BO_INVALID when there is no text at all. */
bo_status bo_documents_open(bo_context *context, const char *const *paths, size_t path_count, const char *field,
                            const char *separator, bo_documents *out);
void bo_documents_close(bo_documents *documents);

/* For documents.c and json_lines.c: an empty document is left out. */
bo_status bo_documents_add(bo_context *context, bo_documents *documents, size_t file, const char *text, size_t length);
bool bo_is_json_lines(const char *path); /* by its name */
/* Adds the documents of file `file`, whose mapping is open. */
bo_status bo_json_lines_read(bo_context *context, bo_documents *documents, size_t file, const char *field);

#endif
