/* Tensor operations on memory that only a backend looks into. Layers and models hold addresses and never read through
 * them, so that a device is a folder beside cpu/ that fills this table.
 *
 * An operation is one forward and one backward. A tensor is `rows` rows of `columns` elements, contiguous; an operation
 * that sees more in it (heads, channels) is told so by its attributes. Same inputs, same bits, for any number of
 * threads; neither direction allocates: `saved` and `scratch` are asked for beforehand. */
#ifndef BO_BACKEND_BACKEND_H
#define BO_BACKEND_BACKEND_H

#include <bochner/attention.h>
#include "../base/base.h"

typedef enum bo_element { BO_ELEMENT_FLOAT32 = 0, BO_ELEMENT_INT32 = 1 } bo_element; /* four bytes each */

enum { BO_OP_INPUTS = 16, BO_OP_OUTPUTS = 4 };

typedef struct bo_operand {
    void *data; /* on the device, aligned to 64 bytes */
    bo_element element;
    size_t rows, columns;
} bo_operand;

/* What changes from one run of a graph to the next, beside the contents of its inputs. */
typedef struct bo_pass {
    bool training; /* dropout is active */
    uint64_t seed; /* of dropout: another for every step and micro-batch */
    /* Sequences lie one after the other in the rows of the graph; their lengths sum up to the number of rows. NULL: as the
     * operation's attributes say. */
    size_t sequences;
    const size_t *lengths;
    /* The attention of layer i continues from, and leaves, states[i * sequences + s]: decoding and streaming. NULL: none. */
    void *const *states;
    /* Attention with a proposal or optimal sampling adds its q and k to calibrations[i] (NULL: does not) and draws its
     * frequencies anew from what that has seen, before use. */
    bo_calibration *const *calibrations;
} bo_pass;

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
    bool again; /* forward computes what it computed in this pass before: the same bits, and no traces
                                      * (states, calibrations) a second time */
    const bo_pass *pass;
} bo_op_call;

typedef enum bo_op_kind {
    BO_OP_EMBED = 0,    /* indices (n x 1, int32), table (v x w) -> table[indices] (n x w): embeddings, choosing rows */
    BO_OP_POSITION = 1, /* x, positions (n x 1, int32) [, table] -> x + P[positions] */
    BO_OP_LINEAR = 2,  /* x, W_1 … W_k [, b_1 … b_k] [, r] -> y_i = x W_iᵀ + b_i (+ r where k = 1); W: out x in */
    BO_OP_NORM = 3,    /* x [, gain] [, bias] -> normalised groups of `width` columns */
    BO_OP_DROPOUT = 4, /* x -> x m / (1 - rate) */
    BO_OP_ROPE = 5,    /* x, positions -> rotated pairs of each head (2104.09864) */
    BO_OP_ATTENTION = 6,      /* q, k, v, then what `given` names in the order of bo_attention_given -> out */
    BO_OP_UNARY = 7,          /* x -> f(x) */
    BO_OP_GLU = 8,            /* a, b -> f(a) b */
    BO_OP_ADD = 9,            /* a, b -> a + b */
    BO_OP_CROSS_ENTROPY = 10, /* x (n x w), W (v x w), targets (n x 1, int32; < 0: none) -> mean loss (1 x 1), losses
                               * (n x 1), in nats, of softmax(x Wᵀ); the n x v logits never exist as a whole */
    BO_OP_LOSS = 11,          /* prediction, target (alike) -> mean loss (1 x 1) */
    BO_OP_COUNT = 12
} bo_op_kind;

/* ---- attributes: plain structs, copied by the tape ---------------------------------------------------------------- */

typedef struct bo_embed_attributes {
    char unused;
} bo_embed_attributes;

typedef enum bo_position_kind { BO_POSITION_LEARNED = 0, BO_POSITION_SINUSOIDAL = 1 } bo_position_kind;
typedef struct bo_position_attributes {
    bo_position_kind kind; /* SINUSOIDAL: sin, cos of p / 10000^(2i / w) side by side (1706.03762) */
} bo_position_attributes;

typedef struct bo_linear_attributes {
    size_t weights; /* k, 1 to 4 */
    bool bias, residual;
} bo_linear_attributes;

typedef enum bo_normalisation { BO_NORMALISE_RMS = 0, BO_NORMALISE_LAYER = 1 } bo_normalisation;
typedef struct bo_norm_attributes {
    bo_normalisation kind;
    size_t width; /* divides the columns; gain and bias (1 x width) serve every group */
    double epsilon;
    bool gain, bias;
} bo_norm_attributes;

typedef struct bo_dropout_attributes {
    double rate;     /* in [0, 1) */
    uint64_t stream; /* each dropout of a model has its own; the mask is a function of pass seed, stream and place */
} bo_dropout_attributes;

typedef enum bo_rope_layout {
    BO_ROPE_HALVES = 0,     /* pairs (i, i + rotated / 2): Llama as Hugging Face stores it */
    BO_ROPE_NEIGHBOURS = 1, /* pairs (2i, 2i + 1): the paper, GPT-J */
} bo_rope_layout;
typedef struct bo_rope_attributes {
    size_t dim;     /* of a head; divides the columns */
    size_t rotated; /* first columns of a head that turn, even; 0: dim */
    double base;    /* at least 1; 0: 10000 */
    bo_rope_layout layout;
} bo_rope_attributes;

/* Further inputs of attention, a bit each, in this order after q, k, v; shapes as in bo_attention_inputs with tokens as
 * rows: log_gate and beta n x key_heads (GLA: n x key_heads dim), parameters 1 x their length. */
typedef enum bo_attention_given {
    BO_GIVEN_LOG_GATE = 1 << 0,
    BO_GIVEN_SIGMA = 1 << 1,
    BO_GIVEN_M = 1 << 2,
    BO_GIVEN_MIX = 1 << 3,
    BO_GIVEN_BETA = 1 << 4,
    BO_GIVEN_LOG_DECAY = 1 << 5,
    BO_GIVEN_LAMBDA = 1 << 6,
    BO_GIVEN_M_K = 1 << 7,
    BO_GIVEN_BIAS = 1 << 8,
    BO_GIVEN_BIAS_K = 1 << 9,
} bo_attention_given;
enum { BO_GIVEN_COUNT = 10 };
typedef struct bo_attention_attributes {
    bo_attention *attention; /* not const: calibration draws its frequencies anew. Outlives the graph */
    unsigned given;          /* bits of bo_attention_given */
    size_t layer;            /* whose states and calibrations the pass has */
    size_t tokens;           /* of a sequence where the pass gives no lengths; divides the rows; 0: all rows */
    size_t most_sequences;   /* that a pass may give; 0: rows / tokens */
} bo_attention_attributes;

typedef enum bo_unary {
    BO_UNARY_GELU = 0,      /* x Φ(x) */
    BO_UNARY_GELU_TANH = 1, /* its approximation by tanh: GPT-2's */
    BO_UNARY_RELU2 = 2,     /* max(x, 0)² */
    BO_UNARY_SILU = 3,
    BO_UNARY_RELU = 4,
    BO_UNARY_TANH = 5,
    BO_UNARY_SIGMOID = 6,
    BO_UNARY_LOG_SIGMOID = 7,
    BO_UNARY_SOFTPLUS = 8,
    BO_UNARY_EXP = 9,
    BO_UNARY_IDENTITY = 10,
    BO_UNARY_COUNT = 11
} bo_unary;
typedef struct bo_unary_attributes {
    bo_unary function;     /* y = factor f(x) + offset */
    double factor, offset; /* factor 0: 1 */
} bo_unary_attributes;     /* of GLU too, without offset */

typedef struct bo_cross_entropy_attributes {
    double scale; /* of the logits; 0: 1 */
} bo_cross_entropy_attributes;

typedef enum bo_loss_kind {
    BO_LOSS_KIND_MSE = 0, /* mean (p - t)² */
    BO_LOSS_KIND_L1 = 1,  /* mean |p - t| */
    BO_LOSS_KIND_BCE = 2, /* mean of -t log σ(p) - (1 - t) log σ(-p), t in [0, 1] */
    BO_LOSS_KIND_KL = 3, /* mean over rows of KL(softmax(t) | softmax(p)): what a student p loses against its teacher */
    BO_LOSS_KIND_COUNT = 4
} bo_loss_kind;
typedef struct bo_loss_attributes {
    bo_loss_kind kind;
} bo_loss_attributes;

/* ---- operations ---------------------------------------------------------------------------------------------------- */

typedef struct bo_op {
    const char *name;
    size_t attributes;                    /* bytes of its struct */
    unsigned reads_inputs, reads_outputs; /* bits of those backward reads */
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
    bo_status (*backward)(bo_context *context, const bo_op_call *call);
    /* Useful operations of forward, by a fixed count (a product and a sum are two); NULL: none worth counting. Backward
     * counts twice as many. */
    double (*operations)(bo_context *context, const bo_op_call *call);
} bo_op;

struct bo_updates; /* updates.h: what optimisers ask for */

typedef struct bo_backend {
    const char *name; /* "cpu" */
    void *(*allocate)(bo_context *context, size_t bytes,
                      const char *what); /* zeroed; NULL: the context's error says why */
    void (*release)(void *memory);
    bo_status (*write)(bo_context *context, void *to, const void *host, size_t bytes);
    bo_status (*read)(bo_context *context, void *host, const void *from, size_t bytes);
    bo_status (*zero)(bo_context *context, void *to, size_t bytes);
    bo_status (*copy)(bo_context *context, void *to, const void *from, size_t bytes);
    /* Are all floats finite? */
    bo_status (*finite)(bo_context *context, const void *floats, size_t count, bool *out);
    const bo_op *const *ops; /* by bo_op_kind; NULL: this backend lacks it */
    const struct bo_updates *updates;
} bo_backend;

const bo_backend *bo_backend_cpu(void);

#endif
