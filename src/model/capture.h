/* Capture of activations: runs a language model on batches of tokens and stores the queries, keys, values and outputs
 * of every attention, and the residual stream. */
#ifndef BO_MODEL_CAPTURE_H
#define BO_MODEL_CAPTURE_H

#include "model.h"

/* The captured parts. */
typedef enum bo_capture_part {
    BO_CAPTURE_PART_ATTENTION = 1, /* q, k, v and out of every layer */
    BO_CAPTURE_PART_STREAM = 2     /* the residual stream */
} bo_capture_part;

typedef struct bo_capture_desc {
    size_t tokens;    /* tokens per sequence, 1 to the positions of the model */
    size_t sequences; /* sequences per batch; 0: 1 */
    unsigned parts;   /* bits of bo_capture_part */
} bo_capture_desc;

/* The arrays inside the attention of a layer. Each has one row per token, sequence after sequence, which is
 * BO_LAYOUT_TOKENS_FIRST: (sequences, tokens, heads, dim). */
typedef enum bo_capture_array {
    BO_CAPTURE_ARRAY_Q = 0,  /* after norm and RoPE: heads x dim */
    BO_CAPTURE_ARRAY_K = 1,  /* after norm and RoPE: key_heads x dim */
    BO_CAPTURE_ARRAY_V = 2,  /* key_heads x value_dim */
    BO_CAPTURE_ARRAY_OUT = 3 /* outputs of the heads, before their norm and the output projection: heads x value_dim */
} bo_capture_array;
enum { BO_CAPTURE_ARRAYS = 4 };

/* A graph of the model over one batch. Its memory holds the captured values of one batch. The model must outlive it and
 * must not change while it is used. */
typedef struct bo_capture bo_capture;

bo_status bo_capture_create(bo_context *context, const bo_model *model, const bo_capture_desc *desc, bo_capture **out);
void bo_capture_destroy(bo_capture *capture); /* accepts NULL */
/* Runs sequences x tokens ids; each sequence starts at position 0. */
bo_status bo_capture_run(bo_context *context, bo_capture *capture, const int32_t *ids);

/* Creates a capture of attention and runs it on `tokens` tokens of a text, at least one window: whole windows of
 * `window` tokens that are spread evenly over it. Error messages about short texts start with `caller`. */
bo_status bo_capture_text(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t window,
                          uint64_t tokens, const char *caller, bo_capture **out);

size_t bo_capture_rows(const bo_capture *capture); /* sequences x tokens */
size_t bo_capture_sequences(const bo_capture *capture);
/* Returns the number of columns of an array of a layer; 0: the layer has no attention. */
size_t bo_capture_columns(const bo_capture *capture, size_t layer, bo_capture_array array);
/* Copies an array of the last run to `out`, rows x columns. */
bo_status bo_capture_read(bo_context *context, bo_capture *capture, size_t layer, bo_capture_array array, float *out);
/* Returns the number of places of the residual stream: the embedding, then the stream after the mixer and after the MLP
 * of each layer, 1 + 2 layers. */
size_t bo_capture_places(const bo_capture *capture);
/* Copies the residual stream at a place to `out`, rows x width. */
bo_status bo_capture_read_stream(bo_context *context, bo_capture *capture, size_t place, float *out);

#endif
