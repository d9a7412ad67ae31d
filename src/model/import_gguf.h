/* Shared by the files that import GGUF models. */
#ifndef BO_MODEL_IMPORT_GGUF_H
#define BO_MODEL_IMPORT_GGUF_H

#include "import.h"

/* The architectures of GGUF files that can be converted, as bits. */
typedef enum bo_import_family {
    BO_IMPORT_LLAMA = 1,
    BO_IMPORT_QWEN2 = 2,
    BO_IMPORT_QWEN3 = 4,
    BO_IMPORT_GEMMA = 8,
    BO_IMPORT_GPT2 = 16,
    BO_IMPORT_GPTNEOX = 32,
    BO_IMPORT_PHI2 = 64,
    BO_IMPORT_PHI3 = 128,
    BO_IMPORT_GEMMA3 = 256,
    BO_IMPORT_OLMO2 = 512,
    BO_IMPORT_GRANITE = 1024,
    BO_IMPORT_STARCODER2 = 2048,
    BO_IMPORT_STABLELM = 4096,
    BO_IMPORT_ALL = 8191,
    /* with LayerNorm */
    BO_IMPORT_LAYER_NORM = BO_IMPORT_GPT2 | BO_IMPORT_GPTNEOX | BO_IMPORT_PHI2 | BO_IMPORT_STARCODER2 |
        BO_IMPORT_STABLELM,
    /* with RMSNorm and a gated MLP, under the names of Llama */
    BO_IMPORT_GATED = BO_IMPORT_ALL & ~BO_IMPORT_LAYER_NORM,
    /* files store the weights of norms plus 1 */
    BO_IMPORT_ONE_ADDED = BO_IMPORT_GEMMA | BO_IMPORT_GEMMA3,
    /* files store the rows of queries and keys in the order of rotary pairs */
    BO_IMPORT_ROTATED = BO_IMPORT_LLAMA | BO_IMPORT_GRANITE
} bo_import_family;

/* The sizes and settings of the model, from the metadata. */
typedef struct bo_import_model {
    const bo_gguf *file;
    bo_import_family family;
    const char *name; /* of the architecture: the prefix of its metadata */
    size_t width, hidden, layers, heads, key_heads, head_dim, vocab, context, rotated, window;
    size_t window_period; /* every window_period-th layer has no window; 0: all layers are alike */
    double epsilon, rope_base, local_rope_base; /* of layers with a window, if other layers have none */
    double attention_scale, embedding_scale, residual_scale, logit_scale; /* Granite */
    bool tied, attention_bias, mlp_bias, parallel;
} bo_import_model;

/* Metadata "<architecture>.<key>"; NULL: none. */
const bo_gguf_entry *bo_import_setting(const bo_import_model *model, const char *key);
/* A whole number or a number of the metadata; `initial` if it is missing. */
bo_status bo_import_size(bo_context *context, const bo_import_model *model, const char *key, size_t initial,
                         size_t *out);
bo_status bo_import_real(bo_context *context, const bo_import_model *model, const char *key, double initial,
                         double *out);

/* Returns the shortest decimal that rounds to the same float32 number. */
double bo_import_round(double number);

/* Writes config.json. */
bo_status bo_import_gguf_config(bo_context *context, const bo_import_model *model, const bo_import_vocab *vocab,
                                const bo_import *import, bo_json_text *text);
/* The members of config.json for the rotary position encoding, each followed by a comma. BO_UNSUPPORTED if its scaling
 * cannot be expressed. */
bo_status bo_import_gguf_rope(bo_context *context, const bo_import_model *model, bo_json_text *text);
/* Reads the vocabulary. *out has no tokens if the file has none. */
bo_status bo_import_gguf_vocab(bo_context *context, const bo_import_model *model, bo_import_vocab *out);

#endif
