/* Reading of tokenizer.json, part by part. */
#ifndef BO_TEXT_LOAD_H
#define BO_TEXT_LOAD_H

#include "tokenizer.h"
#include "../io/json.h"

typedef struct bo_loading {
    bo_context *context;
    const char *where; /* prefix of every message */
    bo_tokenizer *tokenizer;
    uint64_t hash; /* hash of everything that determines ids, so far */
} bo_loading;

bool bo_load_flag(const cJSON *object, const char *name, bool otherwise);
const char *bo_load_text(const cJSON *object, const char *name); /* NULL: no such string */
/* The type of a part; "" if it has none. */
const char *bo_load_type(const cJSON *part);
/* Fails because `part` ("a pre-tokenizer") has an unknown type. */
bo_status bo_load_refuse(const bo_loading *loading, const char *part, const cJSON *item);

bo_status bo_load_model(bo_loading *loading, const cJSON *model, const cJSON *added);

#endif
