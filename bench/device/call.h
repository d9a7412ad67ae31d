/* Operations on device memory, called without a graph. */
#ifndef BO_BENCH_DEVICE_CALL_H
#define BO_BENCH_DEVICE_CALL_H

#include "device.h"
#include "../../src/backend/backend.h"

/* Forward and backward of one operation. Invariant: memory[0] … memory[count - 1] are its blocks. */
typedef struct device_call {
    const bo_op *op;
    bo_op_call forward, training, backward; /* forward without and with saved values; backward after the latter */
    bo_graph_pass pass;
    bo_staged *staged;
    void *memory[4 * BO_OP_INPUTS];
    size_t count;
} device_call;

/* An input of a call. */
typedef struct device_input {
    size_t rows, columns;
    bo_element element;
    double mean, deviation; /* of normal numbers */
    double max;             /* upper bound of the numbers */
} device_input;

/* Fills inputs with noise and allocates all memory. Returns an error of the context, for example if the device does not
 * support the kind. Call device_call_close in either case. */
bo_status device_call_open(device_bench *bench, bo_operation operation, const void *attributes, size_t sequences,
                           size_t inputs, const device_input *in, device_call *out);
void device_call_close(device_bench *bench, device_call *call);
bo_status device_call_forward(bo_context *context, void *call);
bo_status device_call_both(bo_context *context, void *call);

#endif
