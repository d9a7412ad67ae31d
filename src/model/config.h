/* config.json: a descriptor in Hugging Face's manner. */
#ifndef BO_MODEL_CONFIG_H
#define BO_MODEL_CONFIG_H

#include "../io/json.h"
#include "internal.h"

/* How the weights of a folder are named and laid out. */
typedef enum bo_family { BO_FAMILY_BOCHNER = 0, BO_FAMILY_LLAMA = 1, BO_FAMILY_GPT2 = 2 } bo_family;

typedef struct bo_config {
    bo_family family;
    bo_model_desc desc;   /* not yet resolved */
    bool no_tokenizer;    /* it was made without one */
    bool knows_tokenizer; /* it was made with one of this fingerprint */
    uint64_t tokenizer_fingerprint;
    char **labels; /* desc.labels are these; bo_config_free frees them */
    char *custom;  /* desc.custom_mlp.name is this, likewise; its function is the caller's to give */
} bo_config;

/* Freed with bo_free. */
bo_status bo_config_write(bo_context *context, const bo_model *model, char **json);
/* `where` starts messages. What is unknown, missing or out of range is refused by name. */
bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out);

void bo_config_free(bo_config *config);

/* ---- one object of fields ------------------------------------------------------------------------------------------ */

typedef enum bo_config_type {
    BO_CONFIG_SIZE, /* size_t */
    BO_CONFIG_REAL, /* double */
    BO_CONFIG_INT,  /* int */
    BO_CONFIG_BOOL,
    BO_CONFIG_NOT,    /* bool, stored the other way round */
    BO_CONFIG_CHOICE, /* bo_choice as true or false */
    BO_CONFIG_SEED,   /* uint64_t as text: JSON numbers keep 53 bits */
    BO_CONFIG_NAME    /* an enum, by names */
} bo_config_type;

typedef struct bo_config_field {
    const char *name;
    const char *former; /* its name in files of earlier versions; NULL: the same */
    bo_config_type type;
    size_t offset;
    bool required;
    const char *(*text)(unsigned value); /* NAME: NULL for no such value … */
    bool (*parse)(const char *text, unsigned *out);
} bo_config_field;

/* "name": value, … without braces. */
void bo_config_fields_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            const char *indent);
/* Those that are there; `strict`: others than these and `also` (NULL: none) are refused. `where`: "config.json: attention" */
bo_status bo_config_fields_read(bo_context *context, const char *where, const bo_config_field *fields, size_t count,
                                bool strict, const char *also, const cJSON *json, void *object);

#endif
