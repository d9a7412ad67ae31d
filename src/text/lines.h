/* Lines of fields between tabs: a label, a text, two texts. Files are read into memory whole (what is only mapped somebody
 * could cut short), lines point into them. */
#ifndef BO_TEXT_LINES_H
#define BO_TEXT_LINES_H

#include "../io/mapping.h"
#include "../io/categories.h"
#include <bochner/texts.h>

enum { BO_MOST_SIDES = 2 };

/* A line that is an example. Invariant: its texts are UTF-8 without NUL, and not blank (but see `empty` below). */
typedef struct bo_line {
    const char *text[BO_MOST_SIDES]; /* in its file's memory; not terminated */
    size_t bytes[BO_MOST_SIDES];
    int32_t label; /* a number of `classes`; -1: the kind has none */
    size_t file, number;
} bo_line;

typedef struct bo_lines {
    char **paths; /* file_count, as messages call them */
    bo_mapping *mappings;
    size_t file_count;
    size_t sides;  /* texts of a line */
    size_t before; /* lines of the same input before the first */
    bool empty;    /* of ALONE: blank lines are texts of no bytes */
    bo_line *items;
    size_t count, capacity;
    bo_categories classes;
} bo_lines;

/* kind, paths, labels, skip, take and seed of the descriptor: what bo_texts_open refuses of these is refused here. */
bo_status bo_lines_open(bo_context *context, const bo_texts_desc *desc, bo_lines *out);
void bo_lines_close(bo_lines *lines);

/* For lines.c and its fuzzer: adds the lines of file `file`, whose mapping is open. closed: a class that is not in
 * lines->classes is refused, else it is added. */
bo_status bo_lines_read(bo_context *context, bo_lines *lines, size_t file, bo_texts_kind kind, bool closed);

/* What side `side` of the kind is called in a message: "text", "source", "second text". */
const char *bo_side_name(bo_texts_kind kind, size_t side);

#endif
