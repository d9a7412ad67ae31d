/* Lines that are drawn: how many threads draw them does not matter, for line n has random numbers of its own. */
#ifndef BO_TEXT_GENERATE_H
#define BO_TEXT_GENERATE_H

#include "buffer.h"
#include "../base/rng.h"
#include <bochner/generators.h>

/* One line on its way. */
typedef struct bo_draft {
    bo_buffer text; /* label, tab, text, newline */
    bool kept;      /* false: not what was asked for */
    size_t label, tokens;
} bo_draft;

/* How a kind of lines is drawn. */
typedef struct bo_drawing {
    const char *name;   /* of its random numbers */
    const char *wanted; /* for a message: what nothing was like */
    bool distinct;      /* a line that was there before is not kept */
    const void *desc;
    /* Fills in the draft, whose text is empty. `context` is the worker's. */
    bo_status (*draw)(bo_context *context, const void *desc, bo_rng *rng, bo_draft *out);
} bo_drawing;

bo_status bo_generate(bo_context *context, const bo_drawing *drawing, uint64_t count, uint64_t seed, bo_write_fn write,
                      void *user, bo_generated *made);

/* The first `count` of `out`, which has room for `from`, become different numbers below `from`, in any order. */
void bo_draw_distinct(bo_rng *rng, size_t from, size_t count, uint16_t *out);

#endif
