/* The state of an optimizer as a safetensors file: named vectors and the number of steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../io/output.h"
#include "../io/tensors.h"
#include "../device/cpu/kernels.h"
#include "internal.h"
#include "optim.h"

/* Copies all vectors to the host in one block, which `tensors` point into. */
static bo_status read_states(bo_context *context, const bo_optimizer *o, bo_file_tensor *tensors, float *block)
{
    for (size_t i = 0; i < bo_optimizer_states(o); i++) {
        const bo_optimizer_state state = bo_optimizer_state_at(o, i);
        const size_t bytes = state.count * sizeof(float);
        BO_TRY(bo_buffer_read(context, o->device, block, state.data, bytes));
        tensors[i] = (bo_file_tensor){state.name, BO_F32, 1, {state.count}, block, bytes};
        block += state.count;
    }
    return BO_OK;
}

static bo_status write_state(bo_context *context, const bo_optimizer *o, bo_output *output)
{
    const size_t count = bo_optimizer_states(o);
    size_t floats = 0;
    char done[24];
    for (size_t i = 0; i < count; i++) floats += bo_optimizer_state_at(o, i).count;
    snprintf(done, sizeof done, "%llu", (unsigned long long)bo_optimizer_describe(o)->steps);
    const bo_meta meta = {"steps", done};
    bo_file_tensor *tensors = bo_alloc(context, count, sizeof *tensors, "a list of the optimizer's vectors");
    float *block = bo_alloc_raw(context, floats, sizeof *block, "a copy of the optimizer's vectors");
    bo_status status = tensors && block ? read_states(context, o, tensors, block) : BO_MEMORY;
    if (status == BO_OK) status = bo_tensors_write_output(context, output, tensors, count, &meta, 1);
    bo_free(block);
    bo_free(tensors);
    return status;
}

bo_status bo_optimizer_save(bo_context *context, const bo_optimizer *optimizer, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, optimizer, sink);
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return bo_output_finish(context, output, write_state(context, optimizer, output));
}

static bo_status find_state(bo_context *context, const bo_tensors *file, const bo_optimizer_state *state,
                            const bo_file_tensor **out)
{
    BO_TRY(bo_tensors_require(context, file, state->name, BO_F32, 1, &state->count, out));
    if (bo_context_kernels(context)->finite(state->count, (*out)->data)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensor '%s' contains NaN or infinity", bo_tensors_path(file), state->name);
}

static bo_status read_steps(bo_context *context, const bo_tensors *file, uint64_t *out)
{
    const char *done = bo_tensors_meta(file, "steps");
    if (!done || !*done || strlen(done) > 19 || strspn(done, "0123456789") != strlen(done))
        return bo_fail(context, BO_FORMAT, "%s: 'steps': expected a whole number, found %.40s", bo_tensors_path(file),
                       done ? done : "none");
    *out = strtoull(done, NULL, 10);
    return BO_OK;
}

/* Checks everything before it changes anything. */
static bo_status restore(bo_context *context, bo_optimizer *o, const bo_tensors *file)
{
    const bo_file_tensor *tensor;
    uint64_t steps = 0;
    BO_TRY(read_steps(context, file, &steps));
    for (int look = 1; look >= 0; look--)
        for (size_t i = 0; i < bo_optimizer_states(o); i++) {
            const bo_optimizer_state state = bo_optimizer_state_at(o, i);
            BO_TRY(find_state(context, file, &state, &tensor));
            if (!look) BO_TRY(bo_buffer_write(context, o->device, state.data, tensor->data, tensor->bytes));
        }
    bo_optimizer_set_steps(o, steps);
    return BO_OK;
}

bo_status bo_optimizer_load(bo_context *context, bo_optimizer *optimizer, const bo_source *source)
{
    BO_REQUIRE(context, optimizer, source);
    bo_tensors *file;
    BO_TRY(bo_tensors_open_source(context, source, &file));
    const bo_status status = restore(context, optimizer, file);
    bo_tensors_close(file);
    return status;
}
