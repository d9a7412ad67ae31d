/* A tokenizer's inside. */
#ifndef BO_TEXT_TOKENIZER_H
#define BO_TEXT_TOKENIZER_H

#include "../base/base.h"
#include <bochner/text.h>

struct bo_tokenizer {
    bool bytes; /* every byte is a token; nothing below is used then */
    size_t vocab;
    int32_t end;
    uint64_t fingerprint;
};

/* Room for `more` ids behind those that are there. */
bo_status bo_ids_reserve(bo_context *context, bo_ids *ids, size_t more);

#endif
