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
    /* The file contains escaped NULs. Before it was parsed, they were replaced by a noncharacter that it does not
     * contain, U+FDD0 + this number; -1: it contains none. */
    int nul;
} bo_loading;

/* The length of a string of the file. Its NULs are restored, so that it may be read only once. */
size_t bo_load_length(const bo_loading *loading, const char *text);

bool bo_load_flag(const bo_json *object, const char *name, bool default_value);
const char *bo_load_text(const bo_json *object, const char *name); /* NULL: no such string */
/* The type of a part; "" if it has none. */
const char *bo_load_type(const bo_json *part);
/* Fails because `part` ("a pre-tokenizer") has an unknown type. */
bo_status bo_load_refuse(const bo_loading *loading, const char *part, const bo_json *item);

/* {"String": s} or {"Regex": r}. */
bo_status bo_load_pattern(const bo_loading *loading, const bo_json *item, bo_pattern *out);
/* Calls `load` for every member of the list `name` of a Sequence. */
typedef bo_status (*bo_load_fn)(bo_loading *loading, const bo_json *part);
bo_status bo_load_sequence(bo_loading *loading, const bo_json *part, const char *name, bo_load_fn load);
void bo_load_hash(bo_loading *loading, const void *bytes, size_t length);

/* Characters of words, as Rust defines them, inside of a set. */
#define BO_WORD_CHARACTERS "[:word:]\\x{200c}\\x{200d}"

bo_status bo_load_normalizer(bo_loading *loading, const bo_json *part);
bo_status bo_load_splitter(bo_loading *loading, const bo_json *part);
bo_status bo_load_decoder(bo_loading *loading, const bo_json *part);
bo_status bo_load_frame(bo_loading *loading, const bo_json *part);
/* After the vocabulary: the texts to find. */
bo_status bo_load_added(bo_loading *loading, const bo_json *list);
bo_status bo_load_model(bo_loading *loading, const bo_json *model, const bo_json *added);

#endif
