/* Special tokens of a model, and the text files next to its weights that name them: Hugging Face files that Bochner
 * keeps unchanged. */
#ifndef BO_MODEL_SPECIALS_H
#define BO_MODEL_SPECIALS_H

#include <bochner/model.h>
#include "../io/json.h"

/* Files of a directory besides config.json, tokenizer.json and the weights. */
typedef enum bo_companion {
    BO_COMPANION_GENERATION = 0, /* generation_config.json: ids for generation */
    BO_COMPANION_TOKENIZER = 1,  /* tokenizer_config.json: special tokens by their text, the chat template */
    BO_COMPANION_MAP = 2,        /* special_tokens_map.json */
    BO_COMPANION_CHAT = 3,       /* chat_template.jinja */
    BO_COMPANION_COUNT = 4
} bo_companion;

enum { BO_MAX_ENDS = 64 };

/* The ids in one file; -1: none. */
typedef struct bo_special_ids {
    int32_t begin, pad;
    int32_t ends[BO_MAX_ENDS];
    size_t end_count;
} bo_special_ids;

/* Invariants: begin is below the size of the vocabulary or -1, and ends are below it. */
typedef struct bo_specials {
    bo_special_ids config, generation; /* as in config.json and generation_config.json */
    bool known;                        /* config.json has ids, or states that there are none */
    char *texts[BO_COMPANION_COUNT];   /* the files as they were loaded; NULL: the directory has none */
    int32_t begin;                     /* the ids that apply */
    int32_t ends[BO_MAX_ENDS];
    size_t end_count;
} bo_specials;

const char *bo_companion_name(bo_companion which);
/* The key of its checksum (BO_TENSORS_COMPANION). */
const char *bo_companion_key(bo_companion which);

/* No ids and no files. */
bo_specials bo_specials_none(void);
/* Reads the ids of config.json; members that are missing have the defaults of transformers for the "model_type". */
bo_status bo_specials_read_config(bo_context *context, const char *where, const char *text, size_t length,
                                  bo_specials *specials);
/* Reads the text of a file and keeps a copy of it. Messages start with `where`. */
bo_status bo_specials_read(bo_context *context, const char *where, bo_companion which, const char *text, size_t length,
                           bo_specials *specials);
/* Determines the effective ids. As in transformers, generation_config.json takes precedence over config.json,
 * tokenizer_config.json and the tokenizer (NULL: none), in this order. */
bo_status bo_specials_resolve(bo_context *context, const bo_tokenizer *tokenizer, size_t vocab, bo_specials *specials);
/* Replaces the special tokens of a model. The model takes ownership of the memory. */
void bo_specials_replace(bo_model *model, bo_specials *specials);
/* Drops files whose text a newly created model would write too. */
bo_status bo_specials_settle(bo_context *context, bo_model *model);
/* Copies the special tokens of another model with the same tokenizer. */
bo_status bo_specials_adopt(bo_context *context, bo_model *model, const bo_model *from);
void bo_specials_free(bo_specials *specials);

/* Appends the members `,"bos_token_id": …, "eos_token_id": …, "pad_token_id": …` of config.json. */
void bo_specials_write_members(bo_json_text *text, const bo_model *model);
/* True if a directory of the model has this file: it was loaded, or it follows from the model. */
bool bo_specials_has(const bo_model *model, bo_companion which);
/* The text of the file, freed with bo_free. */
bo_status bo_specials_text(bo_context *context, const bo_model *model, bo_companion which, char **out);

#endif
