/* Where the files of a model are read from, for files.c and text_files.c. */
#ifndef BO_MODEL_ORIGIN_H
#define BO_MODEL_ORIGIN_H

#include "../io/checksum.h"
#include "files.h"

/* Files of a directory, and metadata keys of a single file. */
#define BO_CONFIG_FILE    "config.json"
#define BO_TOKENIZER_FILE "tokenizer.json"

/* The origin of a model: a directory, or one file that contains all of it. */
typedef struct bo_origin {
    const char *name;   /* path of the directory or file */
    const char *config; /* name of the configuration file: config.json, or for networks the name of earlier versions */
    const char *config_path;       /* file of the directory */
    const bo_tensors *image;       /* NULL: a directory */
    const bo_custom_layer *custom; /* custom layers of the caller */
    size_t custom_count;
    bo_storage storage; /* of the matrices of the model */
} bo_origin;

/* The text of a configuration, and its checksum if it is in a directory. */
typedef struct bo_config_text {
    const char *text;
    char *owned; /* of a directory; freed by the caller */
    size_t length;
    char sum[BO_CHECKSUM_TEXT];
    bool network; /* it describes a network */
} bo_config_text;

/* Loads a text model. */
bo_status bo_text_model_load(bo_context *context, const bo_origin *from, const bo_config_text *text, bo_model **out);
/* Reads the weights and the special tokens of a text model from the directory, whose configuration is `text`. */
bo_status bo_text_model_read(bo_context *context, bo_model *model, const bo_origin *from, const bo_config_text *text);
/* Computes the checksum of the tokenizer.json that a tokenizer was loaded from, or is saved as. */
bo_status bo_tokenizer_sum(bo_context *context, const bo_tokenizer *tokenizer, char sum[BO_CHECKSUM_TEXT]);

#endif
