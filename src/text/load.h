/* Reading tokenizer.json, part by part. */
#ifndef BO_TEXT_LOAD_H
#define BO_TEXT_LOAD_H

#include "tokenizer.h"
#include "../io/json.h"

typedef struct bo_loading {
    bo_context *context;
    const char *where; /* begins every message */
    bo_tokenizer *tokenizer;
    uint64_t hash; /* of all that decides about ids, so far */
} bo_loading;

bool bo_load_flag(const cJSON *object, const char *name, bool otherwise);
const char *bo_load_text(const cJSON *object, const char *name); /* NULL: there is no such string */
/* The type of a part, "" when it has none. */
const char *bo_load_type(const cJSON *part);
/* `part` ("a pre-tokenizer") of a type that is not known. */
bo_status bo_load_refuse(const bo_loading *loading, const char *part, const cJSON *item);

bo_status bo_load_model(bo_loading *loading, const cJSON *model, const cJSON *added);

#endif
