/* Calls on strided arrays in the memory of the context's device. */
#ifndef BO_ATTENTION_ARRAYS_H
#define BO_ATTENTION_ARRAYS_H

#include "attention.h"

/* An array with one row of elements for each head of each token.
 *
 * Element i of head h of token t of sequence s is at `data` + s * sequence + t * token + h * head + i. In a packed
 * batch, t counts the tokens of all sequences, and s * sequence is left out. If all three strides are 0, the array is
 * contiguous in the layout of the call. If q, k and v are packed as (tokens, 3, heads, dim), `token` is 3 heads dim,
 * `head` is dim, and `data` of k is heads dim elements after `data` of q.
 */
typedef struct bo_attention_array {
    void *data;      /* the first element; NULL: no array */
    size_t sequence; /* stride between sequences of equal length, in elements */
    size_t token;    /* stride between tokens, in elements */
    size_t head;     /* stride between heads, in elements */
} bo_attention_array;

/* One call of attention on arrays in the memory of the context's device.
 *
 * On a GPU, a call only submits work: it returns before the work is done, allocates nothing, and can be recorded in a
 * CUDA graph. Values are not checked: NaN and infinity in the inputs propagate to the outputs. On the CPU, results are
 * the same as from bo_attention_forward() and bo_attention_backward(), and strided arrays are copied.
 *
 * Shapes: q and out have `heads` heads, k and v `key_heads`; log_gate and beta have `key_heads` heads of width 1
 * (log_gate of GLA: dim). Parameters are arrays of float32 as in bo_attention_inputs. Gradients are overwritten;
 * gradients without `data` are not computed.
 */
typedef struct bo_strided_call {
    bo_element element; /* the type of the arrays: FLOAT32, or BFLOAT16 on a GPU */
    bool training;      /* forward writes the tape, because a backward pass follows */
    bool no_keys;       /* the states are only read; k and v have no data */
    bo_layout layout;   /* layout of arrays whose strides are 0 */
    size_t sequences;   /* number of sequences */
    size_t tokens;      /* tokens per sequence; ignored in a packed batch */
    size_t key_tokens;  /* cross attention: keys per sequence (default: tokens) */
    /* Packed batch, in device memory: the first row of each sequence, then the number of rows. NULL: sequences of equal
     * length. */
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
    /* A host array with the device address of each sequence's state. States are read before the first token and updated
     * after the last. NULL: sequences start from empty states, and no states are written. */
    void *const *states;
    void *tape;        /* bo_strided_bytes bytes of device memory, written by forward with `training` */
    void *workspace;   /* bo_strided_bytes bytes of device memory, in use until the work is done */
    bo_solves *solves; /* RIDGE, on the CPU; or NULL */
    /* GPU: the cudaStream_t that receives the work; NULL: the stream of the context's device. */
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

/* Returns the memory that a call needs; `tape` and `workspace` of the call are not used. Only this function may
 * allocate: it uploads the frequencies of the attention to the device if they are not there. */
bo_status bo_strided_bytes(bo_context *context, const bo_attention *attention, const bo_strided_call *call,
                           bool backward, size_t *tape, size_t *workspace);
bo_status bo_strided_forward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);
/* call: the forward call without states, with its output and tape, and with a workspace for backward. */
bo_status bo_strided_backward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);

/* Returns the array with its strides. If they are all 0: the strides of a contiguous array in the layout. */
bo_attention_array bo_attention_array_strides(const bo_attention_array *array, bo_layout layout, size_t tokens,
                                              size_t heads, size_t width);

#endif
