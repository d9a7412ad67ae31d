/* The normalizers of a tokenizer, applied to a text. */
#ifndef BO_TEXT_NORMALIZE_H
#define BO_TEXT_NORMALIZE_H

#include "tokenizer.h"

/* Workspace; one per thread. */
typedef struct bo_normalizing {
    bo_buffer texts[2], copy;
    bool preceded,
        followed; /* the text is a part of another one: steps for the start or the end of a text do not apply */
} bo_normalizing;

/* *out is the text itself if nothing changes; otherwise it is in `work` until the next call. Bytes that are not UTF-8
 * are kept. *lead is the number of bytes at the start that come from the first character of the input: first in the
 * text, then in *out. */
bo_status bo_normalize_text(bo_context *context, const bo_tokenizer *tokenizer, bo_matcher *matcher,
                            bo_normalizing *work, const char *text, size_t length, const char **out, size_t *out_length,
                            size_t *lead);
void bo_normalizing_free(bo_normalizing *work);

#endif
