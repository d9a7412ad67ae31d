/* Writing tokenizer.json. */
#ifndef BO_TEXT_WRITE_H
#define BO_TEXT_WRITE_H

#include "tokenizer.h"
#include "../io/json.h"

/* A byte-level BPE. Ids: the special tokens, the 256 byte-level symbols in their order (or in the order of their
 * bytes), the merges. */
typedef struct bo_learned {
    const char *const *special;
    size_t special_count;
    bool byte_order;
    const char *pattern;        /* NULL: GPT-2's; "": none */
    const int32_t (*merges)[2]; /* ids; the id of a merge is special_count + 256 + its number */
    size_t merge_count;
} bo_learned;

/* The byte whose byte-level symbol has id special_count + place. */
unsigned char bo_learned_byte(const bo_learned *learned, size_t place);
/* text->bytes is freed by the caller, also after a failure. */
bo_status bo_tokenizer_write(bo_context *context, const bo_learned *learned, bo_json_text *text);

#endif
