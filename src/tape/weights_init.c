/* Initial values of weights. Entry i of a weight is a function of the seed, the name and i, so it does not depend on
 * the number of threads. */
#include "weights.h"
#include "../base/rng.h"

enum {
    TASK = 1 << 14,  /* numbers per task */
    CHUNK = 1 << 20, /* numbers per transfer to the device */
};

typedef struct drawing {
    const bo_weight *weight;
    bo_rng rng;
    size_t start, count; /* range of this chunk */
    float *out;
} drawing;

/* In a shape (…, n), columns are the last dimension. */
static double number_at(const drawing *d, size_t i)
{
    const bo_weight_init *init = &d->weight->init;
    size_t columns = d->weight->shape[d->weight->rank - 1], row = i / columns, column = i % columns;
    bo_rng rng = d->rng;
    switch (init->kind) {
    case BO_WEIGHT_INIT_KIND_ONE:
        return 1;
    case BO_WEIGHT_INIT_KIND_NORMAL:
        rng.next = i;
        return init->a + init->b * bo_rng_normal(&rng);
    case BO_WEIGHT_INIT_KIND_SPREAD:
        return columns == 1 ? init->a : init->a + (init->b - init->a) * (double)column / (double)(columns - 1);
    case BO_WEIGHT_INIT_KIND_IDENTITY:
        return row % (size_t)init->a == column + (size_t)init->b * (row / (size_t)init->a);
    case BO_WEIGHT_INIT_KIND_DELAYS:
        return row % (size_t)init->a == columns - 1 - column;
    case BO_WEIGHT_INIT_KIND_AUTO:
    case BO_WEIGHT_INIT_KIND_ZERO:
    default:
        return 0;
    }
}

static void draw_task(void *arg, size_t index, int worker)
{
    const drawing *d = arg;
    size_t end = (index + 1) * TASK < d->count ? (index + 1) * TASK : d->count;
    (void)worker;
    for (size_t i = index * TASK; i < end; i++) d->out[i] = (float)number_at(d, d->start + i);
}

static bo_status draw(bo_context *context, const bo_weights *weights, const bo_weight *weight, uint64_t seed,
                      float *host)
{
    size_t numbers = weight->rows * weight->columns;
    drawing d = {.weight = weight,
                 .rng = bo_rng_make(seed, bo_rng_stream(weight->name, bo_rng_stream("tape.weights", 0))),
                 .out = host};
    for (; d.start < numbers; d.start += d.count) {
        d.count = numbers - d.start < CHUNK ? numbers - d.start : CHUNK;
        bo_parallel(context, (d.count + TASK - 1) / TASK, draw_task, &d);
        BO_TRY(bo_buffer_write(context, bo_weights_device(weights), (char *)weight->data + d.start * sizeof(float),
                               host, d.count * sizeof(float)));
    }
    return BO_OK;
}

static bo_status draw_some(bo_context *context, bo_weights *weights, size_t begin, size_t end, uint64_t seed)
{
    if (!bo_weights_data(weights))
        return bo_fail(context, BO_INVALID, "the weights have no memory yet: call bo_weights_allocate first");
    float *host = bo_alloc_raw(context, CHUNK, sizeof *host, "first values of weights");
    bo_status status = host ? BO_OK : BO_MEMORY;
    for (size_t i = begin; status == BO_OK && i < end; i++)
        status = draw(context, weights, bo_weights_at(weights, i), seed, host);
    bo_free(host);
    return status;
}

bo_status bo_weights_init(bo_context *context, bo_weights *weights, uint64_t seed)
{
    BO_REQUIRE(context, weights);
    return draw_some(context, weights, 0, bo_weights_count(weights), seed);
}

bo_status bo_weights_init_one(bo_context *context, bo_weights *weights, size_t index, uint64_t seed)
{
    return draw_some(context, weights, index, index + 1, seed);
}
