/* config.json: a model descriptor under the member names of Hugging Face. */
#ifndef BO_MODEL_CONFIG_H
#define BO_MODEL_CONFIG_H

#include <stddef.h>
#include "../io/json.h"
#include "model.h"

typedef struct bo_config {
    bo_family family;
    bo_model_desc desc;   /* without defaults */
    bool no_tokenizer;    /* true: the model was created without a tokenizer */
    bool knows_tokenizer; /* true: `fingerprint` is that of the model's tokenizer */
    uint64_t tokenizer_fingerprint;
    char **labels;     /* memory of desc.labels; freed by bo_config_free */
    char *custom;      /* memory of desc.custom_mlp.name, likewise; the caller provides the function */
    char *kept_layers; /* memory of desc.kept_layers, likewise */
} bo_config;

/* Writes config.json of a model. The text is freed with bo_free. */
bo_status bo_config_write(bo_context *context, const bo_model *model, char **json);
/* Reads config.json. Messages start with `where`. Unknown, missing and out-of-range members are refused with their
 * name. */
bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out);

void bo_config_free(bo_config *config);
/* The task: its architecture, and its members. A language model has none. */
const char *bo_config_architecture(bo_model_task task);
void bo_config_task_write(bo_json_text *text, const bo_model_desc *desc);
bo_status bo_config_task_read(bo_context *context, const char *where, const cJSON *json, bo_config *out);
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
    BO_CONFIG_NAME     /* enum, written by name */
} bo_config_type;

typedef struct bo_config_field {
    const char *name;
    const char *former; /* name in files of earlier versions; NULL: the same */
    bo_config_type type;
    size_t offset;
    bool required;
    const char *(*text)(unsigned value); /* NAME: the name of a value, NULL if there is none */
    bool (*parse)(const char *text, unsigned *out);
} bo_config_field;

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

#define BO_CONFIG_PLAIN(key, sort, member)                                                                             \
    {                                                                                                                  \
        .name = key, .type = sort, .offset = offsetof(bo_model_desc, member)                                           \
    }
#define BO_CONFIG_NEEDED(key, member)                                                                                  \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_SIZE, .offset = offsetof(bo_model_desc, member), .required = true               \
    }
#define BO_CONFIG_ENUM(key, member, word)                                                                              \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_NAME, .offset = offsetof(bo_model_desc, member), .text = word##_text,           \
        .parse = word##_parse                                                                                          \
    }

/* Writes "name": value, … without braces. */
void bo_config_fields_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            const char *indent);
/* True if a field has the same value in both objects; real numbers may differ by rounding. */
bool bo_config_field_same(const bo_config_field *field, const void *a, const void *b);
void bo_config_field_clear(const bo_config_field *field, void *object); /* sets it to zero */
/* Reads the members that are present. `strict`: members that are not in `fields` or `also` (NULL: none) are refused.
 * `where`: for example "config.json: attention". */
bo_status bo_config_fields_read(bo_context *context, const char *where, const bo_config_field *fields, size_t count,
                                bool strict, const char *also, const cJSON *json, void *object);

#endif
