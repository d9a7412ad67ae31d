/* Tensor operations on memory that only a backend looks into. Layers and models hold addresses and never read through
 * them, so that a device is a folder beside cpu/ that fills this table.
 *
 * An operation is one forward and one backward. A tensor is `rows` rows of `columns` elements, contiguous; an operation
 * that sees more in it (heads, channels) is told so by its attributes. Same inputs, same bits, for any number of
 * threads; neither direction allocates: `saved` and `scratch` are asked for beforehand. */
#ifndef BO_BACKEND_H
#define BO_BACKEND_H

#include <bochner/operations.h>
#include "../base/base.h"

enum { BO_OP_INPUTS = 16, BO_OP_OUTPUTS = 4 };

/* INT8 has a scale for each group of BO_S8_GROUP numbers of a row (kernels.h). */
size_t bo_element_bytes(bo_element element, size_t rows, size_t columns);

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
    const void *attributes; /* the operation's struct (operations.h) */
    size_t inputs, outputs;
    bo_tensor in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];
    void *din[BO_OP_INPUTS];         /* gradients to write; NULL: not wanted */
    bool add[BO_OP_INPUTS];          /* din += instead of = */
    const void *dout[BO_OP_OUTPUTS]; /* NULL: zero */
    void *saved;                     /* what forward leaves for backward; NULL: none follows, or none was asked for */
    void *scratch;                   /* for the time of the call */
    bool again; /* forward computes what it computed in this pass before (the same bits, unless its inputs were kept as
                 * bfloat16), and leaves no traces (states, calibrations) a second time */
    const bo_graph_pass *pass;
} bo_op_call;

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
    bool plain;       /* its memory is the host's: functions of the caller can work on it */
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
    const bo_op *const *ops; /* by bo_operation; NULL: this backend lacks it */
    const struct bo_updates *updates;
} bo_backend;

const bo_backend *bo_backend_cpu(void);

#endif
