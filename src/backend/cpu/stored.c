/* Storage types with fewer bits than float32: tasks convert rows, or parts of a row. */
#include "stored.h"
#include <string.h>
#include "../../device/cpu/kernels.h"
#include "../../math/panel.h"

enum { PART = BO_SIZE(1 << 15, 64) }; /* floats per task */

/* Lines of equal length, except that the last one may be shorter: rows if they have scales, else parts of the whole
 * array. */
typedef struct move_job {
    const bo_kernels *kernels;
    bo_stored stored;
    bool narrow;
    size_t count, length; /* number of floats; floats per line */
    size_t lines;         /* lines per task */
    char *floats, *kept;
} move_job;

static void move_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const move_job *job = arg;
    size_t end = bo_min((index + 1) * job->lines * job->length, job->count);
    for (size_t at = index * job->lines * job->length; at < end; at += job->length) {
        size_t count = bo_min(job->length, end - at);
        float *floats = (float *)(void *)job->floats + at;
        char *kept = job->kept + at / job->length * bo_stored_line(job->stored, job->length);
        if (job->narrow)
            bo_stored_write(job->kernels, job->stored, count, floats, kept);
        else
            bo_stored_read(job->kernels, job->stored, count, kept, 0, count, floats);
    }
}

static void move(bo_context *context, bo_element element, size_t rows, size_t columns, bool narrow, void *floats,
                 void *kept)
{
    move_job job = {.kernels = bo_context_kernels(context), .narrow = narrow, .floats = floats, .kept = kept};
    job.stored = bo_stored_of(element);
    job.count = rows * columns;
    job.length = bo_stored_has_scales(job.stored) ? columns : PART;
    job.lines = bo_ceil_div(PART, job.length);
    bo_parallel(context, bo_ceil_div(job.count, job.lines * job.length), move_task, &job);
}

bo_status bo_cpu_narrow(bo_context *context, bo_element element, size_t rows, size_t columns, const void *floats,
                        void *to)
{
    move(context, element, rows, columns, true, (void *)(uintptr_t)floats, to);
    return BO_OK;
}

bo_status bo_cpu_widen(bo_context *context, bo_element element, size_t rows, size_t columns, const void *from,
                       void *floats)
{
    move(context, element, rows, columns, false, floats, (void *)(uintptr_t)from);
    return BO_OK;
}

size_t bo_element_bytes(bo_element element, size_t rows, size_t columns)
{
    return rows * bo_stored_line(bo_stored_of(element), columns);
}

bo_status bo_refuse_stored(bo_context *context, const bo_op_call *call, const char *op)
{
    for (size_t i = 0; i < call->inputs; i++)
        if (bo_stored_of(call->in[i].element) != BO_STORED_FLOAT32)
            return bo_fail(context, BO_UNSUPPORTED, "%s: input %zu is stored in fewer bits and has no gradient", op, i);
    return BO_OK;
}
