/* Lines with fields separated by tabs: a label, a text, two texts. Files are read into memory completely, because
 * another process could truncate a mapped file. Lines point into that memory. */
#ifndef BO_TEXT_LINES_H
#define BO_TEXT_LINES_H

#include "../io/mapping.h"
#include "../io/categories.h"
#include <bochner/text.h>

enum { BO_MAX_SIDES = 2 };

/* A line that is an example. Invariant: its texts are UTF-8 without NUL and not only white space (but see `empty`
 * below). */
typedef struct bo_line {
    const char *text[BO_MAX_SIDES]; /* in the memory of its file; not terminated */
    size_t bytes[BO_MAX_SIDES];
    int32_t label; /* index into `classes`; -1: the kind has no labels */
    size_t file, number;
} bo_line;

typedef struct bo_lines {
    char **paths; /* file_count; names for messages */
    bo_mapping *mappings;
    size_t file_count;
    size_t sides;  /* texts per line */
    size_t before; /* lines of the same input before the first one */
    bool empty;    /* for ALONE: empty lines are empty texts */
    bo_line *items;
    size_t count, capacity;
    bo_categories classes;
} bo_lines;

/* Uses kind, paths, labels, skip, take and seed of the descriptor, and checks them for bo_texts_open. */
bo_status bo_lines_open(bo_context *context, const bo_texts_desc *desc, bo_lines *out);
void bo_lines_close(bo_lines *lines);

/* For lines.c and its fuzzer: adds the lines of file `file`, whose mapping is open. closed: a class that is not in
 * lines->classes is an error; otherwise it is added. */
bo_status bo_lines_read(bo_context *context, bo_lines *lines, size_t file, bo_texts_kind kind, bool closed);

/* The name of side `side` of the kind in a message: "text", "source", "second text". */
const char *bo_side_name(bo_texts_kind kind, size_t side);

#endif
