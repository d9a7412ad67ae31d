/* One operation with its operands in device memory. */
#include "call.h"
#include "../../cli/shared/hash.h"
#include <math.h>
#include <stdlib.h>

enum { NOISE = 262147 }; /* a prime: rows of any width repeat only after this number of rows */

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t count_of(const bo_tensor *tensor)
{
    return tensor->rows * tensor->columns;
}

static bo_status reserve(device_bench *bench, device_call *c, size_t bytes, void **out)
{
    *out = bytes ? bo_buffer_allocate(bench->context, bench->device, bytes, "operands") : NULL;
    if (*out) c->memory[c->count++] = *out;
    return *out || !bytes ? BO_OK : BO_MEMORY;
}

static bo_status reserve_tensor(device_bench *bench, device_call *c, const bo_tensor *tensor, void **out)
{
    return reserve(bench, c, bo_element_bytes(tensor->element, tensor->rows, tensor->columns), out);
}

/* Normal numbers by the Box-Muller transform; the second of each pair is not used. */
static void fill(const device_input *in, uint64_t stream, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        const double radius = sqrt(-2 * log(((double)(cli_hash(stream, 2 * i) >> 11) + 1) * 0x1p-53));
        const double angle = 6.283185307179586 * ((double)(cli_hash(stream, 2 * i + 1) >> 11) * 0x1p-53);
        out[i] = (float)fmin(in->mean + in->deviation * radius * cos(angle), in->max);
    }
}

/* Writes noise, which repeats after NOISE numbers: the rest is copied on the device. */
static bo_status write_noise(device_bench *bench, const device_input *in, uint64_t stream, const bo_tensor *to)
{
    const size_t all = count_of(to), some = all < NOISE ? all : NOISE, each = bo_element_bytes(to->element, 1, 1);
    float *wide = cli_allocate(some, sizeof *wide, "noise");
    void *kept = cli_allocate(some, each, "noise");
    fill(in, stream, some, wide);
    bo_status status = BO_OK;
    if (to->element != BO_ELEMENT_FLOAT32)
        status = bo_backend_cpu()->narrow(bench->context, to->element, 1, some, wide, kept);
    if (status == BO_OK)
        status = bo_buffer_write(bench->context, bench->device, to->data,
                                 to->element == BO_ELEMENT_FLOAT32 ? wide : kept, some * each);
    for (size_t done = some; status == BO_OK && done < all; done += some) {
        const size_t more = all - done < some ? all - done : some;
        status = bo_buffer_copy(bench->context, bench->device, (char *)to->data + done * each, to->data, more * each);
    }
    free(wide);
    free(kept);
    return status;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Workspace of one call, in addition to its operands. `saved` is shared by the forward and backward of a training step.
 */
static bo_status reserve_workspace(device_bench *bench, device_call *c, bo_op_call *call, bool gradients, void *shared)
{
    size_t saved = 0, scratch = 0;
    BO_TRY(c->op->sizes(bench->context, call, gradients, &saved, &scratch));
    BO_TRY(reserve(bench, c, scratch, &call->scratch));
    call->saved = shared;
    return shared || !gradients ? BO_OK : reserve(bench, c, saved, &call->saved);
}

/* The shapes are those of float32; the values have the storage type of the device. */
static bo_status set_shape(device_bench *bench, device_call *c, size_t inputs, const device_input *in)
{
    bo_op_call *call = &c->forward;
    call->inputs = inputs;
    for (size_t i = 0; i < inputs; i++)
        call->in[i] = (bo_tensor){.element = BO_ELEMENT_FLOAT32, .rows = in[i].rows, .columns = in[i].columns};
    BO_TRY(c->op->shape(bench->context, call));
    for (size_t i = 0; i < inputs; i++) call->in[i].element = in[i].element;
    call->out[0].element = bench->storage;
    return BO_OK;
}

static bo_status stage(device_bench *bench, device_call *c)
{
    bool moved;
    BO_TRY(bo_backend_of(bench->device)->stage(bench->context, &c->pass, 0, c->pass.sequences, &c->staged, &moved));
    c->forward.staged = c->staged;
    return c->op->prepare ? c->op->prepare(bench->context, &c->forward) : BO_OK;
}

/* Gradients of all inputs, which overwrite them. */
static bo_status prepare_backward(device_bench *bench, device_call *c)
{
    c->training = c->forward;
    BO_TRY(reserve_workspace(bench, c, &c->training, true, NULL));
    c->backward = c->training;
    for (size_t i = 0; i < c->backward.inputs; i++)
        BO_TRY(reserve_tensor(bench, c, &c->backward.in[i], &c->backward.din[i]));
    bo_tensor gradient = c->forward.out[0];
    BO_TRY(reserve_tensor(bench, c, &gradient, &gradient.data));
    BO_TRY(write_noise(bench, &(device_input){.deviation = 1, .max = INFINITY}, 99, &gradient));
    c->backward.dout[0] = gradient.data;
    return reserve_workspace(bench, c, &c->backward, true, c->training.saved);
}

static bo_status prepare_call(device_bench *bench, device_call *c, size_t inputs, const device_input *in)
{
    BO_TRY(set_shape(bench, c, inputs, in));
    BO_TRY(stage(bench, c));
    for (size_t i = 0; i < inputs; i++) {
        bo_tensor *tensor = &c->forward.in[i];
        BO_TRY(reserve_tensor(bench, c, tensor, &tensor->data));
        BO_TRY(write_noise(bench, &in[i], i, tensor));
    }
    BO_TRY(reserve_tensor(bench, c, &c->forward.out[0], &c->forward.out[0].data));
    bool stored = false; /* quantized weights have no gradient */
    for (size_t i = 0; i < inputs; i++) stored |= c->op->stored_inputs >> i & 1 && in[i].element != BO_ELEMENT_FLOAT32;
    if (!stored) BO_TRY(prepare_backward(bench, c));
    return reserve_workspace(bench, c, &c->forward, false, NULL);
}

bo_status device_call_open(device_bench *bench, bo_operation operation, const void *attributes, size_t sequences,
                           size_t inputs, const device_input *in, device_call *out)
{
    *out = (device_call){.op = bo_backend_of(bench->device)->ops[operation],
                         .pass = {.training = true, .sequences = sequences}};
    if (!out->op) return bo_fail(bench->context, BO_UNSUPPORTED, "the device does not support this operation");
    out->forward.attributes = attributes;
    out->forward.pass = &out->pass;
    bo_device_lock(bench->device);
    const bo_status status = prepare_call(bench, out, inputs, in);
    bo_device_unlock(bench->device);
    return status;
}

void device_call_close(device_bench *bench, device_call *call)
{
    for (size_t i = 0; i < call->count; i++) bo_buffer_release(bench->device, call->memory[i]);
    if (call->staged) bo_backend_of(bench->device)->unstage(call->staged);
    call->count = 0;
    call->staged = NULL;
}

bo_status device_call_forward(bo_context *context, void *call)
{
    const device_call *c = call;
    return c->op->forward(context, &c->forward);
}

bo_status device_call_both(bo_context *context, void *call)
{
    const device_call *c = call;
    BO_TRY(c->op->forward(context, &c->training));
    return c->op->backward(context, &c->backward);
}
