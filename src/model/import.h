/* Models of other programs, read for conversion: the tensors and texts of the Hugging Face directory that they become.
 */
#ifndef BO_MODEL_IMPORT_H
#define BO_MODEL_IMPORT_H

#include "../base/base.h"
#include "../io/gguf.h"
#include "../io/json.h"
#include "../io/tensors.h"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The order of the rows of a matrix, or of the numbers of a vector, in the source. */
typedef enum bo_row_order {
    BO_ROWS_SAME,
    BO_ROWS_PAIRS,      /* of each head: the two numbers of a rotary pair are adjacent, not half a head apart */
    BO_ROWS_QKV_BLOCKS, /* all queries, keys, values; expected: q, k and v of each head together */
    BO_ROWS_COLUMNS     /* the whole matrix is transposed */
} bo_row_order;

/* A tensor of the directory and the position of its data in the source. The source is decoded row by row. */
typedef struct bo_import_tensor {
    char *name;
    size_t rank, shape[2]; /* of the result */
    const unsigned char *data;
    const bo_block_format *format; /* of the source; with `scales`, data are int8 instead */
    const unsigned char *scales;   /* float32, one per `group` numbers; NULL: none */
    size_t group;
    bo_row_order order;
    size_t heads;     /* PAIRS and QKV_BLOCKS */
    size_t first_row; /* of the source */
    float minus;      /* subtracted from each number */
    bo_dtype dtype;   /* of the result */
} bo_import_tensor;

/* ---- vocabulary -------------------------------------------------------------------------------------------------- */

/* The kinds of tokens, by their numbers in GGUF files. */
typedef enum bo_token_kind {
    BO_TOKEN_NORMAL = 1,
    BO_TOKEN_UNKNOWN,
    BO_TOKEN_CONTROL,
    BO_TOKEN_USER,
    BO_TOKEN_UNUSED,
    BO_TOKEN_BYTE
} bo_token_kind;

/* The maximum length of a token, and of a SentencePiece piece. Splitting a piece takes quadratic time. */
enum { BO_TOKEN_NONE = -1, BO_TOKEN_BYTES = 4096, BO_PIECE_BYTES = 512 };

/* A vocabulary: SentencePiece pieces with scores, or a byte-level BPE with merges. */
typedef struct bo_import_vocab {
    const char *where; /* for messages */
    size_t count;
    char *text;           /* all tokens, NUL-terminated, one after the other */
    size_t capacity;      /* size of text, in bytes */
    const char **tokens;  /* pointers into text */
    unsigned char *kinds; /* bo_token_kind */
    float *scores;        /* NULL: byte-level BPE */
    bool space_prefix;    /* SentencePiece: a space is prepended to a text */
    const bo_gguf_entry *merges;
    char *pre;                       /* byte-level BPE: the name of its pre-tokenizer */
    int64_t bos, eos, eot, unk, pad; /* BO_TOKEN_NONE: none */
    bool add_bos, add_eos;
    char *chat_template; /* NULL: none */
} bo_import_vocab;

void bo_import_vocab_free(bo_import_vocab *vocab);
/* Reserves memory for tokens of `bytes` bytes in total. bo_import_vocab_add then adds them in order. */
bo_status bo_import_vocab_create(bo_context *context, const char *where, size_t count, size_t bytes, bool scored,
                                 bo_import_vocab *out);
/* BO_FORMAT if the token is empty, not UTF-8, contains a zero byte or is too long. */
bo_status bo_import_vocab_add(bo_context *context, bo_import_vocab *vocab, size_t index, const char *text,
                              size_t length);

/* Copies a piece with U+2581, the space of SentencePiece, instead of spaces. Returns its length; SIZE_MAX: more than
 * `out_size`. */
size_t bo_import_piece(const char *text, size_t length, char *out, size_t out_size);

/* The merges of SentencePiece pieces, best first: all splits of a piece into two pieces. */
typedef struct bo_piece_merge {
    uint32_t left, right, whole;
    uint16_t left_chars, right_chars;
} bo_piece_merge;
/* *out is released with bo_free. */
bo_status bo_import_merges(bo_context *context, const bo_import_vocab *vocab, bo_piece_merge **out, size_t *count);

/* Writes tokenizer.json and tokenizer_config.json. BO_UNSUPPORTED if the pre-tokenizer is unknown. */
bo_status bo_import_tokenizer(bo_context *context, const bo_import_vocab *vocab, size_t max_tokens,
                              bo_json_text *tokenizer, bo_json_text *config);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* What is converted. The bytes must outlive the import. */
typedef struct bo_import_source {
    const char *path;
    const void *bytes;
    size_t size;
    const char *tokenizer_path; /* NULL: none */
    const void *tokenizer;
    size_t tokenizer_size;
    bool keep;      /* every tensor keeps its type if it is float32, float16 or bfloat16; other types become float32 */
    bo_dtype dtype; /* otherwise: the type of all tensors */
} bo_import_source;

/* The texts of the directory. */
typedef enum bo_import_text {
    BO_IMPORT_CONFIG,
    BO_IMPORT_GENERATION,
    BO_IMPORT_TOKENIZER,
    BO_IMPORT_TOKENIZER_CONFIG,
    BO_IMPORT_TEXTS
} bo_import_text;

typedef struct bo_import {
    char format[48];          /* "GGUF version 3" */
    const char *architecture; /* "model_type" of config.json */
    const char *tokenizer;    /* "SentencePiece BPE" or "byte-level BPE"; NULL: none */
    size_t layers, width, vocab, context, tokens;
    bo_import_tensor *tensors;
    size_t count, capacity;
    bo_json_text texts[BO_IMPORT_TEXTS]; /* an empty text is not written */
    bo_gguf *gguf;                       /* the source, if it is a GGUF file */
} bo_import;

void bo_import_free(bo_import *import);
/* Adds a tensor, whose name is copied, and chooses the type of the result. */
bo_status bo_import_add(bo_context *context, const bo_import_source *source, const char *name,
                        const bo_import_tensor *tensor, bo_import *import);
/* Members of config.json, each followed by a comma: the ids of special tokens, and the data type of the majority of the
 * numbers. */
void bo_import_write_ids(const bo_import_vocab *vocab, bo_json_text *text);
void bo_import_write_dtype(const bo_import *import, bo_json_text *text);
void bo_import_write_generation(const bo_import_vocab *vocab, bo_json_text *text); /* generation_config.json */

double bo_import_parameters(const bo_import *import);
size_t bo_import_numbers(const bo_import_tensor *tensor);
/* The type of the numbers in the source: "F32", "Q4_K", "int8 groups". */
const char *bo_import_type(const bo_import_tensor *tensor);

/* True if the tensor can only be decoded as a whole. */
bool bo_import_is_whole(const bo_import_tensor *tensor);
/* Decodes the whole tensor. `scratch` is a buffer for a row of the source. */
void bo_import_whole(const bo_import_tensor *tensor, float *scratch, float *out);
/* Decodes rows [first, first + count) of another matrix. */
void bo_import_rows(const bo_import_tensor *tensor, size_t first, size_t count, float *out);

bo_status bo_import_gguf(bo_context *context, const bo_import_source *source, bo_import *out);
bo_status bo_import_llama2c(bo_context *context, const bo_import_source *source, bo_import *out);
/* The format is found by content. */
bo_status bo_import_any(bo_context *context, const bo_import_source *source, bo_import *out);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes the directory: the texts, and the tensors in one file or in shards of about `shard` bytes. */
bo_status bo_import_write(bo_context *context, const bo_import *import, const char *directory, uint64_t shard);

#endif
