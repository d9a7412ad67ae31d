/* Tensor operations on memory that only a backend looks into. Layers and models hold addresses and never read through
 * them, so that a device is a folder beside cpu/ that fills this table.
 *
 * An operation is one forward and one backward. A tensor is `rows` rows of `columns` elements, contiguous; an operation
 * that sees more in it (heads, channels) is told so by its attributes. Same inputs, same bits, for any number of
 * threads; neither direction allocates: `saved` and `scratch` are asked for beforehand. */
#ifndef BO_BACKEND_H
#define BO_BACKEND_H

#include "attributes.h"
#include "../base/base.h"

/* BFLOAT16 and INT8 are for matrices that are only read: weights of a model that is not trained. INT8: a scale for each
 * group of BO_S8_GROUP numbers of a row (kernels.h). */
typedef enum bo_element {
    BO_ELEMENT_FLOAT32 = 0,
    BO_ELEMENT_INT32 = 1,
    BO_ELEMENT_BFLOAT16 = 2,
    BO_ELEMENT_INT8 = 3
} bo_element;

enum { BO_OP_INPUTS = 16, BO_OP_OUTPUTS = 4 };

typedef struct bo_operand {
    void *data; /* on the device, aligned to 64 bytes */
    bo_element element;
    size_t rows, columns;
} bo_operand;

size_t bo_element_bytes(bo_element element, size_t rows, size_t columns);

/* What changes from one run of a graph to the next, beside the contents of its inputs. */
typedef struct bo_pass {
    bool training; /* dropout is active */
    uint64_t seed; /* of dropout: another for every step and micro-batch */
    /* Sequences lie one after the other in the rows of the graph; their lengths sum up to the number of rows. NULL: as the
     * operation's attributes say. */
    size_t sequences;
    const size_t *lengths;
    /* A graph with two streams of rows (a source and what is made of it): the rows of the source, sequence by sequence; as
     * many sequences. Operations say which stream is theirs. NULL where lengths are: as their attributes say. Sequences of
     * no tokens are fine in both. */
    const size_t *source_lengths;
    /* What has a memory (attention, SSM, recurrent, causal convolution and mixing) in layer i continues from, and leaves,
     * states[i * sequences + s]: decoding and streaming. NULL: none, every sequence begins anew. Operations on the source
     * always do. */
    void *const *states;
} bo_pass;

/* A run that draws the frequencies of attention from the data it sees (a proposal, optimal sampling), for whoever owns the
 * attentions: before attention i is used its q and k are added to calibrations[i] (NULL: it stays as it is), and attentions[i]
 * is drawn anew from all that has been seen. Every other run leaves attentions as they are. */
typedef struct bo_calibrating {
    bo_calibration *const *calibrations;
    bo_attention *const *attentions; /* those that the operations have */
} bo_calibrating;

/* One call. In forward din and dout are not there. In backward in[] and out[] are as forward left them where the
 * operation says that it reads them, else without data. */
typedef struct bo_op_call {
    const void *attributes; /* the operation's struct below */
    size_t inputs, outputs;
    bo_operand in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];
    void *din[BO_OP_INPUTS];         /* gradients to write; NULL: not wanted */
    bool add[BO_OP_INPUTS];          /* din += instead of = */
    const void *dout[BO_OP_OUTPUTS]; /* NULL: zero */
    void *saved;                     /* what forward leaves for backward; NULL: none follows, or none was asked for */
    void *scratch;                   /* for the time of the call */
    bool again; /* forward computes what it computed in this pass before (the same bits, unless its inputs were kept as
                 * bfloat16), and leaves no traces (states, calibrations) a second time */
    const bo_pass *pass;
} bo_op_call;

typedef enum bo_op_kind {
    BO_OP_EMBED = 0,    /* indices (n x 1, int32), table (v x w) -> table[indices] (n x w): embeddings, choosing rows */
    BO_OP_POSITION = 1, /* x, positions (n x 1, int32) [, table] -> x + P[positions] */
    BO_OP_LINEAR = 2, /* x, W_1 … W_k [, b_1 … b_k] [, r] -> y_i = s x W_iᵀ + b_i (+ r where k = 1); W: out x in */
    BO_OP_NORM = 3,   /* x [, gain] [, bias] -> normalized groups of `width` columns */
    BO_OP_DROPOUT = 4,        /* x -> x m / (1 - rate) */
    BO_OP_ROPE = 5,           /* x, positions -> rotated pairs of each head (2104.09864) */
    BO_OP_ATTENTION = 6,      /* q, k, v, then what `given` names in the order of bo_attention_given -> out */
    BO_OP_UNARY = 7,          /* x -> f(x) */
    BO_OP_GLU = 8,            /* a, b -> f(a) b */
    BO_OP_ADD = 9,            /* a, b -> a + b */
    BO_OP_CROSS_ENTROPY = 10, /* x (n x w), W (v x w), targets (n x 1, int32; < 0: none) -> mean loss (1 x 1), losses
                               * (n x 1), in nats, of softmax(x Wᵀ); the n x v logits never exist as a whole */
    BO_OP_LOSS = 11,          /* prediction, target (alike) -> mean loss (1 x 1) */
    BO_OP_SCALE = 12,         /* x, s (1 x 1, 1 x columns or rows x 1) -> x ∘ s */
    BO_OP_PRODUCT = 13,       /* a_1 … a_k, alike -> Π f_i(a_i), f the identity or |·|^p */
    BO_OP_FEATURES = 14,      /* x -> φ(x), of a map whose frequencies stay */
    BO_OP_QUADRATIC = 15,     /* x (n x w), W (out x w²) -> y_o = xᵀ W_o x = Σ_ij W[o, i w + j] x_i x_j */
    BO_OP_MIX = 16,       /* x (n x c), W (heads T x T) -> y_t = Σ_s W_h[t, s] x_s within each sequence of at most T */
    BO_OP_SSM = 17,       /* x (n x c) and parameters -> y of c linear systems with a state of N numbers each */
    BO_OP_RECURRENT = 18, /* x (n x g h; projected), U (g h x h), b (1 x g h) -> h_1, h_2, … (n x h) */
    BO_OP_CONVOLUTION = 19, /* x (images of places x channels), W (out x kernel places · in / groups) [, b] -> y */
    BO_OP_POOL = 20,        /* x (images) -> the largest or the mean of each window, channel by channel */
    BO_OP_BATCH_NORM = 21,  /* x, gain, bias, mean, variance (1 x columns) -> columns normalized over the rows. Training
                             * moves `mean` and `variance`, weights without a gradient, toward the batch's */
    BO_OP_RESHAPE = 22,     /* x -> the same numbers in rows of another length */
    BO_OP_CONCAT = 23,      /* x_1 … x_k with as many rows -> their columns side by side */
    BO_OP_AGGREGATE = 24, /* x (nodes x c), first ((targets + 1) x 1, int32), neighbors (edges x 1, int32) -> y_i: sum,
                            * mean or largest of x over neighbors[first[i]] … neighbors[first[i + 1] - 1]; none: 0 */
    BO_OP_NOISE = 25,     /* x -> x + σ ε, or x with parts set to 0, in training; else x */
    BO_OP_ROUND = 26,     /* x -> x rounded to a small float format; the gradient to another */
    BO_OP_COUNT = 27
} bo_op_kind;

/* ---- operations ---------------------------------------------------------------------------------------------------- */

typedef struct bo_op {
    const char *name;
    size_t attributes;                    /* bytes of its struct */
    unsigned reads_inputs, reads_outputs; /* bits of those backward reads */
    unsigned stored_inputs;               /* bits of those that may be BFLOAT16 or INT8; there is no backward then */
    /* Backward computes the outputs too, so that a run with gradients need not call forward: losses over large
     * vocabularies, whose logits would otherwise be made twice. Where forward was called, it writes the same once more. */
    bool forward_in_backward;
    /* Bits of the inputs whose gradient is dout[0] as it is: sums, residuals. The first to write such a gradient may be
     * spared to copy it; din is NULL then. NULL: none. */
    unsigned (*passes)(const bo_op_call *call);
    /* Checks attributes and inputs (without data), and fills in element, rows and columns of the outputs and their
     * number. BO_INVALID with a sentence where they do not fit. */
    bo_status (*shape)(bo_context *context, bo_op_call *call);
    /* Bytes, for shapes that fit; most that any pass may need. Asked for each call by itself: before backward din and
     * dout are not NULL where they will be there, and add is as it will be; before forward din and dout are NULL. What
     * is saved depends on none of this but on `gradients`: whether a backward follows, or is it. */
    bo_status (*sizes)(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch);
    bo_status (*forward)(bo_context *context, const bo_op_call *call);
    /* Before forward, with the same call, in a run that calibrates. NULL: nothing to do. */
    bo_status (*calibrate)(bo_context *context, const bo_op_call *call, const bo_calibrating *calibrating);
    bo_status (*backward)(bo_context *context, const bo_op_call *call);
    /* Useful operations of forward, by a fixed count (a product and a sum are two); NULL: none worth counting. Backward
     * counts twice as many. */
    double (*operations)(bo_context *context, const bo_op_call *call);
} bo_op;

struct bo_updates; /* updates.h: what optimizers ask for */

typedef struct bo_backend {
    const char *name; /* "cpu" */
    void *(*allocate)(bo_context *context, size_t bytes,
                      const char *what); /* zeroed; NULL: the context's error says why */
    void (*release)(void *memory);
    bo_status (*write)(bo_context *context, void *to, const void *host, size_t bytes);
    bo_status (*read)(bo_context *context, void *host, const void *from, size_t bytes);
    bo_status (*zero)(bo_context *context, void *to, size_t bytes);
    bo_status (*copy)(bo_context *context, void *to, const void *from, size_t bytes);
    /* rows x columns floats as another element (to the nearest, ties to even), and back. The two do not overlap. */
    bo_status (*narrow)(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to);
    bo_status (*widen)(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats);
    /* Are all floats finite? */
    bo_status (*finite)(bo_context *context, const void *floats, size_t count, bool *out);
    const bo_op *const *ops; /* by bo_op_kind; NULL: this backend lacks it */
    const struct bo_updates *updates;
} bo_backend;

const bo_backend *bo_backend_cpu(void);

#endif
