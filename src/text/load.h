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
/* {"String": s} or {"Regex": r}. */
bo_status bo_load_pattern(const bo_loading *loading, const cJSON *item, bo_pattern *out);
/* Calls `load` for every member of the list `name` of a Sequence. */
typedef bo_status (*bo_load_fn)(bo_loading *loading, const cJSON *part);
bo_status bo_load_sequence(bo_loading *loading, const cJSON *part, const char *name, bo_load_fn load);

bo_status bo_load_model(bo_loading *loading, const cJSON *model, const cJSON *added);
bo_status bo_load_normalizer(bo_loading *loading, const cJSON *part);
bo_status bo_load_splitter(bo_loading *loading, const cJSON *part);
bo_status bo_load_decoder(bo_loading *loading, const cJSON *decoder); /* makes the pieces */
bo_status bo_load_frame(bo_loading *loading, const cJSON *part);

#endif
