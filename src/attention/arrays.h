/* Calls on arrays with strides, in the memory of the context's device. */
#ifndef BO_ATTENTION_ARRAYS_H
#define BO_ATTENTION_ARRAYS_H

#include "attention.h"

/* An array with a row of numbers for each head of each token.
 *
 * Number i of head h of token t of sequence s is at `data` + s * sequence + t * token + h * head + i. In a packed
 * batch, t counts the tokens of all sequences, and s * sequence is left out. If all three strides are 0, the array has
 * no gaps, in the layout of the call. In queries, keys and values that are packed as (tokens, 3, heads, dim), `token`
 * is 3 heads dim, `head` is dim, and `data` of k is heads dim numbers after that of q.
 */
typedef struct bo_attention_array {
    void *data;      /* the first number; NULL: there is no such array */
    size_t sequence; /* numbers between two sequences of equal length */
    size_t token;    /* numbers between two tokens */
    size_t head;     /* numbers between two heads */
} bo_attention_array;

/* One call of attention on arrays in the memory of the context's device.
 *
 * On a GPU, a call only submits work: it returns before the work is done, allocates nothing, and can be recorded in a
 * CUDA graph of the caller. Numbers are not checked: inputs that are not finite give outputs that are not finite. On
 * the CPU, the results are those of bo_attention_forward() and bo_attention_backward(), and arrays with gaps are
 * copied.
 *
 * Shapes: q and out have `heads` heads, k and v `key_heads`; log_gate and beta have `key_heads` heads of width 1
 * (log_gate of GLA: dim). Parameters are arrays of float32 as in bo_attention_inputs. Gradients are overwritten; those
 * without `data` are not computed.
 */
typedef struct bo_strided_call {
    bo_element element; /* the type of the arrays: FLOAT32, or BFLOAT16 on a GPU */
    bool training;      /* forward writes the tape, because a backward pass follows */
    bool no_keys;       /* only read the states; k and v have no data */
    bo_layout layout;   /* of arrays whose strides are 0 */
    size_t sequences;   /* number of sequences */
    size_t tokens;      /* tokens per sequence; ignored in a packed batch */
    size_t key_tokens;  /* cross attention: keys per sequence (default: tokens) */
    /* Packed batch, in memory of the device: the first row of each sequence, and then the number of rows. NULL:
     * sequences of equal length. */
    const int32_t *offsets;
    const int32_t *key_offsets;  /* packed batch in cross attention: the same for the keys */
    size_t rows;                 /* packed batch: number of tokens of all sequences */
    size_t key_rows;             /* packed batch in cross attention: number of keys of all sequences */
    bool cross;                  /* keys are tokens of another stream: key_tokens, or key_offsets and key_rows */
    bo_attention_array q;        /* queries */
    bo_attention_array k;        /* keys */
    bo_attention_array v;        /* values */
    bo_attention_array out;      /* the output: written by forward, read by backward */
    bo_attention_array log_gate; /* log g, as in bo_attention_inputs */
    bo_attention_array beta;     /* β, as in bo_attention_inputs */
    const float *sigma;          /* the parameters, as in bo_attention_inputs */
    const float *m;              /* M or W */
    const float *mix;            /* mix */
    const float *log_decay;      /* log g of gate FIXED */
    const float *lambda;         /* the diagonal of Λ */
    const float *m_k;            /* W' */
    const float *bias;           /* b */
    const float *bias_k;         /* b' */
    /* An array of the host with the address of one state in memory of the device for each sequence: read before the
     * first token and updated after the last. NULL: sequences start from an empty past, and nothing is kept. */
    void *const *states;
    void *tape;        /* bo_strided_bytes bytes of the device, written by forward with `training` */
    void *workspace;   /* bo_strided_bytes bytes of the device, for the duration of the work */
    bo_solves *solves; /* RIDGE, on the CPU; or NULL */
    /* A GPU: the cudaStream_t that the work is submitted to; NULL: the stream of the context's device. */
    void *stream;
    bo_attention_array dout;      /* backward: the gradient of out */
    bo_attention_array dq;        /* gradient of q */
    bo_attention_array dk;        /* gradient of k */
    bo_attention_array dv;        /* gradient of v */
    bo_attention_array dlog_gate; /* gradient of log_gate */
    bo_attention_array dbeta;     /* gradient of beta */
    float *dsigma;                /* gradients of the parameters */
    float *dm;                    /* gradient of m */
    float *dmix;                  /* gradient of mix */
    float *dlog_decay;            /* gradient of log_decay */
    float *dlambda;               /* gradient of lambda */
    float *dm_k;                  /* gradient of m_k */
    float *dbias;                 /* gradient of bias */
    float *dbias_k;               /* gradient of bias_k */
} bo_strided_call;

/* Returns the memory that a call needs; `tape` and `workspace` of the call are not used. This is the only function of
 * the three that may allocate: it uploads the frequencies of the attention to the device if they are not there. */
bo_status bo_strided_bytes(bo_context *context, const bo_attention *attention, const bo_strided_call *call,
                           bool backward, size_t *tape, size_t *workspace);
bo_status bo_strided_forward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);
/* call: that of the forward pass, without states, with its output and tape, and a workspace for backward. */
bo_status bo_strided_backward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);

/* Returns the array with its strides: those without gaps in the layout, if they are all 0. */
bo_attention_array bo_attention_array_strides(const bo_attention_array *array, bo_layout layout, size_t tokens,
                                              size_t heads, size_t width);

#endif
