/* Tensor operations on memory that only a backend accesses. Layers and models hold addresses and never read through
 * them: each directory of a device (cpu/, gpu/) defines this table.
 *
 * An operation has one forward and one backward. A tensor is `rows` rows of `columns` elements, contiguous. Further
 * structure (heads, channels) is described by the attributes of an operation. Results are bitwise reproducible for any
 * number of threads. Neither direction allocates: the caller queries the sizes of `saved` and `scratch` first. */
#ifndef BO_BACKEND_H
#define BO_BACKEND_H

#include <bochner/operations.h>
#include "../device/device.h"

enum { BO_OP_INPUTS = 16, BO_OP_OUTPUTS = 4 };

/* INT8 has one scale per group of BO_S8_GROUP elements of a row, INT4 one per group of BO_S4_GROUP (kernels.h). */
size_t bo_element_bytes(bo_element element, size_t rows, size_t columns);

/* A run that resamples the frequencies of attention from its data (a proposal, optimal sampling), for the owner of the
 * attentions. Before attention i runs, its q and k are added to calibrations[i] (NULL: attention i is not changed), and
 * attentions[i] is resampled from all data so far. No other run changes attentions. */
typedef struct bo_calibrating {
    bo_calibration *const *calibrations;
    bo_attention *const *attentions; /* the attentions of the operations */
} bo_calibrating;

/* The settings of a pass in device memory, where recorded operations read them. Defined by the backend. */
typedef struct bo_staged bo_staged;

/* One call. In forward, din and dout are not set. In backward, in[] and out[] have the forward data if the operation
 * declares that it reads them, else no data. */
typedef struct bo_op_call {
    const void *attributes; /* attribute struct of the operation (operations.h) */
    size_t inputs, outputs;
    bo_tensor in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];
    void *din[BO_OP_INPUTS];         /* gradients to write; NULL: not needed */
    bool add[BO_OP_INPUTS];          /* din += instead of = */
    const void *dout[BO_OP_OUTPUTS]; /* NULL: zero */
    /* data that forward saves for backward; NULL: no backward follows, or nothing is saved */
    void *saved;
    void *scratch; /* workspace for the duration of the call */
    /* true: forward is repeated in this pass (with the same bits, unless its inputs were stored as bfloat16) and must
     * not repeat side effects (states, calibrations) */
    bool again;
    const bo_graph_pass *pass;
    const bo_staged *staged; /* the pass in device memory; NULL: the backend has no stage() */
} bo_op_call;

/* ---- operations -------------------------------------------------------------------------------------------------- */

typedef struct bo_op {
    const char *name;
    size_t attributes;                    /* bytes of the attribute struct */
    unsigned reads_inputs, reads_outputs; /* bit masks of the tensors that backward reads */
    /* bit mask of the inputs that may be BFLOAT16, INT8 or INT4; they have no backward */
    unsigned stored_inputs;
    /* On devices that store activations as BFLOAT16: bit masks of the outputs that are always FLOAT32 (losses), and of
     * the outputs that are FLOAT32 if no operation reads them (logits). */
    unsigned float_outputs, float_results;
    /* Backward also computes the outputs, so a run with gradients can skip forward. Used by losses over large
     * vocabularies, to avoid computing the logits twice. After a forward call, backward writes the same outputs
     * again. */
    bool forward_in_backward;
    /* Bit mask of the inputs whose gradient equals dout[0]: sums, residuals. The schedule may reuse dout for such a
     * gradient instead of a copy; din is NULL in this case. NULL: no such inputs. */
    unsigned (*passes)(const bo_op_call *call);
    /* Checks attributes and inputs (without data), and sets the number of outputs and their elements, rows and columns.
     * Returns BO_INVALID with a message if they are invalid. */
    bo_status (*shape)(bo_context *context, bo_op_call *call);
    /* Returns the bytes for valid shapes: the maximum over all passes. Called for each call separately: before
     * backward, din and dout are not NULL where they will exist, and add is set; before forward, din and dout are NULL.
     * The size of `saved` depends only on `gradients`: true if a backward follows, or in backward. */
    bo_status (*sizes)(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch);
    /* On GPUs: called before every run and before every replay of a recording. Uploads data other than tensors
     * (frequencies) to a fixed address. NULL: nothing to upload. */
    bo_status (*prepare)(bo_context *context, const bo_op_call *call);
    bo_status (*forward)(bo_context *context, const bo_op_call *call);
    /* Called before forward with the same call in a calibrating run. NULL: no calibration. */
    bo_status (*calibrate)(bo_context *context, const bo_op_call *call, const bo_calibrating *calibrating);
    bo_status (*backward)(bo_context *context, const bo_op_call *call);
    /* On GPUs: the sequences whose states the call may use. NULL: the operation has no states. */
    bo_sequences (*sequences)(const bo_op_call *call);
    /* Returns the FLOP count of forward (a multiply-add counts as two); NULL:
     * negligible. Backward counts as twice the forward FLOPs. */
    double (*operations)(bo_context *context, const bo_op_call *call);
} bo_op;

struct bo_updates; /* updates.h: functions for optimizers */

/* The operations of one kind of device. device/device.h has its memory, locks and recordings. */
typedef struct bo_backend {
    const bo_op *const *ops; /* by bo_operation; NULL: not supported */
    const struct bo_updates *updates;
    /* Converts rows x columns floats to another element type (rounding to nearest, ties to even), and back. The two do
     * not overlap. */
    bo_status (*narrow)(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to);
    bo_status (*widen)(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats);
    /* Checks that all elements (FLOAT32 or BFLOAT16) are finite. */
    bo_status (*finite)(bo_context *context, bo_element element, const void *numbers, size_t count, bool *out);
    /* Writes the argmax of each row to host memory (the first column if several are equal). */
    bo_status (*largest)(bo_context *context, size_t rows, size_t columns, const void *floats, int32_t *host);
    /* GPUs: writes the settings of a pass to device memory. layers: number of layers with states. sequences: number of
     * sequences if the pass does not set it. *staged is created if it is NULL, else reused. *moved: the device address
     * changed, so recordings that use it are invalid. NULL: the backend executes calls immediately. */
    bo_status (*stage)(bo_context *context, const bo_graph_pass *pass, size_t layers, size_t sequences,
                       bo_staged **staged, bool *moved);
    void (*unstage)(bo_staged *staged);
} bo_backend;

const bo_backend *bo_backend_cpu(void);
const bo_backend *bo_backend_of(const bo_device *device);
/* The storage type of activations: BFLOAT16 on a GPU if the context has that precision, else FLOAT32. */
bo_element bo_backend_storage(const bo_context *context, const bo_device *device);

#endif
