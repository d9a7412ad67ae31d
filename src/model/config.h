/* config.json: a model descriptor with Hugging Face member names. */
#ifndef BO_MODEL_CONFIG_H
#define BO_MODEL_CONFIG_H

#include "fields.h"
#include "model.h"

typedef struct bo_config {
    bo_family family;
    bo_model_desc desc;   /* without defaults; owns its lists; the caller sets the functions of custom layers */
    bool no_tokenizer;    /* true: the model was created without a tokenizer */
    bool knows_tokenizer; /* true: `fingerprint` is the tokenizer's fingerprint */
    uint64_t tokenizer_fingerprint;
} bo_config;

/* Writes config.json of a model. The text is freed with bo_free. */
bo_status bo_config_write(bo_context *context, const bo_model *model, char **json);
/* Reads config.json. Messages start with `where`. Unknown, missing and out-of-range members are refused, with their
 * names in the message. */
bo_status bo_config_read(bo_context *context, const char *where, const char *json, size_t length, bo_config *out);

void bo_config_free(bo_config *config);
/* The task: its architecture, and its members. A language model has none. */
const char *bo_config_architecture(bo_model_task task);
void bo_config_task_known(bo_known *known); /* adds the members of all tasks */
/* Returns the tasks that have a member, for messages; NULL: this one has it, or it is not a member of tasks. */
const char *bo_config_task_other(const char *member, bo_model_task task);
void bo_config_task_write(bo_json_text *text, const bo_model_desc *desc);
/* classes_follow: the classes may be missing. */
bo_status bo_config_task_read(bo_context *context, const char *where, const bo_json *json, bool classes_follow,
                              bo_model_desc *out);
/* The lists of blocks: "blocks" and, of a translator, "encoder_blocks". */
void bo_config_blocks_write(bo_json_text *text, const bo_model_desc *desc);
/* Reads them into an owned descriptor. "block" has the default members of all blocks of both lists. */
bo_status bo_config_blocks_read(bo_context *context, const char *where, const bo_json *json, bo_model_desc *out);
/* True if two blocks of language models with softmax attention are the same function of the weights. */
bool bo_config_same_block(const bo_block *a, const bo_block *b);
/* Returns the first field of two blocks with another value, and sets *x and *y to the objects that have it, which are
 * parts of the blocks; NULL: they differ at most in sizes, seeds and numbers that follow from them. */
const bo_field *bo_config_block_differs(const bo_block *a, const bo_block *b, const void **x, const void **y);
/* Reads a block, in which "heads" is required. */
bo_status bo_config_block_read(bo_context *context, const char *where, const bo_json *json, bo_block *out);
/* Reads the members of a block in formats 1 to 3, which are members of config.json, and an attention. */
bo_status bo_config_former_block(bo_context *context, const char *where, const bo_json *json, bo_block *out);
bo_status bo_config_attention_read(bo_context *context, const char *where, const char *name, const bo_json *json,
                                   bo_attention_desc *out);
/* Reads formats 1 to 3, which had one block for all layers, into an owned descriptor. */
bo_status bo_config_former_read(bo_context *context, const char *where, const bo_json *json, size_t format,
                                bo_model_desc *out);
/* True if two resolved descriptors of language models with softmax attention are the same function of the weights. */
bool bo_config_same(const bo_model_desc *a, const bo_model_desc *b);
/* Fails with the first difference of two resolved descriptors of language models, except sizes, seeds and derived
 * values. Block patterns are equal if one continues the other. */
bo_status bo_config_compare(bo_context *context, const bo_model_desc *a, const bo_model_desc *b);

#endif
