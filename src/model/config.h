/* config.json: a model descriptor under the member names of Hugging Face. */
#ifndef BO_MODEL_CONFIG_H
#define BO_MODEL_CONFIG_H

#include <stddef.h>
#include "../io/json.h"
#include "model.h"

typedef struct bo_config {
    bo_family family;
    bo_model_desc desc;   /* without defaults; owns its lists. The caller provides the functions of custom layers */
    bool no_tokenizer;    /* true: the model was created without a tokenizer */
    bool knows_tokenizer; /* true: `fingerprint` is that of the model's tokenizer */
    uint64_t tokenizer_fingerprint;
} bo_config;

/* Writes config.json of a model. The text is freed with bo_free. */
bo_status bo_config_write(bo_context *context, const bo_model *model, char **json);
/* Reads config.json. Messages start with `where`. Unknown, missing and out-of-range members are refused with their
 * name. */
bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out);

void bo_config_free(bo_config *config);
/* The task: its architecture, and its members. A language model has none. */
const char *bo_config_architecture(bo_model_task task);
/* True if it is a member of a task. *tasks: those that have it; NULL: all. */
bool bo_config_task_has(const char *member, const char **tasks);
bool bo_config_task_takes(const char *member, bo_model_task task); /* false: a member of other tasks */
void bo_config_task_write(bo_json_text *text, const bo_model_desc *desc);
/* classes_follow: the classes may be missing. */
bo_status bo_config_task_read(bo_context *context, const char *where, const cJSON *json, bool classes_follow,
                              bo_model_desc *out);
/* The lists of blocks: "blocks" and, of a translator, "encoder_blocks". */
void bo_config_blocks_write(bo_json_text *text, const bo_model_desc *desc);
/* Reads them into an owned descriptor. "block" has members that all blocks of both lists share, unless they have their
 * own. */
bo_status bo_config_blocks_read(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out);
/* True if two blocks of language models with softmax attention are the same function of the weights. */
bool bo_config_same_block(const bo_block *a, const bo_block *b);
/* Reads a block, in which "heads" is required. */
bo_status bo_config_block_read(bo_context *context, const char *where, const cJSON *json, bo_block *out);
/* Reads the members of a block in formats 1 to 3, which are members of config.json, and an attention. */
bo_status bo_config_former_block(bo_context *context, const char *where, const cJSON *json, bo_block *out);
bo_status bo_config_attention_read(bo_context *context, const char *where, const char *name, const cJSON *json,
                                   bo_attention_desc *out);
/* Reads formats 1 to 3, which had one block for all layers, into an owned descriptor. */
bo_status bo_config_former_read(bo_context *context, const char *where, const cJSON *json, size_t format,
                                bo_model_desc *out);
/* True if two resolved descriptors of language models with softmax attention are the same function of the weights. */
bool bo_config_same(const bo_model_desc *a, const bo_model_desc *b);

/* ---- fields of one object ---------------------------------------------------------------------------------------- */

typedef enum bo_config_type {
    BO_CONFIG_SIZE, /* size_t */
    BO_CONFIG_REAL, /* double */
    BO_CONFIG_INT,  /* int */
    BO_CONFIG_BOOL,
    BO_CONFIG_NOT,     /* inverted bool */
    BO_CONFIG_CHOICE,  /* bo_choice, written as true or false */
    BO_CONFIG_INVERSE, /* double, written as its reciprocal */
    BO_CONFIG_ROOT,    /* double, written as its power -2 */
    BO_CONFIG_SEED,    /* uint64_t, written as text: JSON numbers have 53 bits */
    BO_CONFIG_NAME,    /* enum, written by name */
    BO_CONFIG_TEXT,    /* const char *, allocated */
    BO_CONFIG_JSON,    /* the same: any JSON value, as text */
    BO_CONFIG_OBJECT   /* a struct with `fields` */
} bo_config_type;

typedef struct bo_config_field bo_config_field;
struct bo_config_field {
    const char *name;
    const char *former; /* name in files of earlier versions; NULL: the same */
    bo_config_type type;
    size_t offset;
    bool required;
    bool always;                         /* written also if it is zero (bo_config_fields_write_given) */
    const char *(*text)(unsigned value); /* NAME: the name of a value, NULL if there is none */
    bool (*parse)(const char *text, unsigned *out);
    const bo_config_field *fields; /* OBJECT: the fields of its struct */
    size_t count;
    /* OBJECT: sets it to what a text, or its member "preset", names; NULL: there are no presets. */
    bool (*preset)(const char *name, void *object);
    const char *number; /* OBJECT: the member that a number stands for; NULL: none */
};

/* Defines the name and parse functions of an enum with plain integers. */
#define BO_CONFIG_NAMED(type, word)                                                                                    \
    static const char *word##_text(unsigned value)                                                                     \
    {                                                                                                                  \
        return bo_##word##_name((type)value);                                                                          \
    }                                                                                                                  \
    static bool word##_parse(const char *text, unsigned *out)                                                          \
    {                                                                                                                  \
        type value;                                                                                                    \
        bool found = bo_##word##_parse(text, &value);                                                                  \
        if (found) *out = (unsigned)value;                                                                             \
        return found;                                                                                                  \
    }

/* Fields of an object of type `object`. */
#define BO_CONFIG_PLAIN(object, key, sort, member)                                                                     \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_##sort, .offset = offsetof(object, member)                                      \
    }
#define BO_CONFIG_NEEDED(object, key, member)                                                                          \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_SIZE, .offset = offsetof(object, member), .required = true                      \
    }
#define BO_CONFIG_ENUM(object, key, member, word)                                                                      \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_NAME, .offset = offsetof(object, member), .text = word##_text,                  \
        .parse = word##_parse                                                                                          \
    }

/* Writes "name": value, … without braces. */
void bo_config_fields_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            const char *indent);
/* Writes an object with those that are not zero and those that are always written, `depth` levels deep. */
void bo_config_object_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            size_t depth);
/* True if a field has the same value in both objects; real numbers may differ by rounding. */
bool bo_config_field_same(const bo_config_field *field, const void *a, const void *b);
void bo_config_field_clear(const bo_config_field *field, void *object); /* sets it to zero */
/* Reads the members that are present. `strict`: members that are not in `fields` or `also` (NULL: none) are refused.
 * `where`: for example "config.json: attention". */
bo_status bo_config_fields_read(bo_context *context, const char *where, const bo_config_field *fields, size_t count,
                                bool strict, const char *also, const cJSON *json, void *object);

#endif
