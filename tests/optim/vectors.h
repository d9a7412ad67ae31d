/* Vectors in memory of the backend under test: the CPU, or the device that BOCHNER_TEST_DEVICE names. */
#ifndef BO_OPTIM_VECTORS_H
#define BO_OPTIM_VECTORS_H

#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"
#include "backend/updates.h"

/* NULL: this instruction set is not supported here. */
static inline bo_context *vector_context(int threads, const char *isa)
{
    bo_context *context = NULL;
    if (bo_context_create(&(bo_context_desc){.threads = threads, .isa = isa}, &context) != BO_OK) return NULL;
    const char *device = getenv("BOCHNER_TEST_DEVICE");
    if (device) assert_ok(context, bo_context_use_device(context, device));
    return context;
}

static inline float *vector_normals(size_t count, uint64_t seed)
{
    float *out = malloc((count + 1) * sizeof *out);
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) out[i] = (float)bo_rng_normal(&rng);
    return out;
}

/* A copy of host memory; NULL: zeros. */
static inline void *vector_create(bo_context *context, size_t count, const float *from)
{
    void *out = bo_buffer_allocate(context, bo_device_of(context), count * sizeof(float), "a vector");
    assert_non_null(out);
    if (from) assert_ok(context, bo_buffer_write(context, bo_device_of(context), out, from, count * sizeof(float)));
    return out;
}

static inline void *vector_create_normals(bo_context *context, size_t count, uint64_t seed)
{
    float *from = vector_normals(count, seed);
    void *out = vector_create(context, count, from);
    free(from);
    return out;
}

static inline float *vector_read(bo_context *context, size_t count, const void *from)
{
    float *out = malloc((count + 1) * sizeof *out);
    assert_ok(context, bo_buffer_read(context, bo_device_of(context), out, from, count * sizeof *out));
    return out;
}

static inline void vector_drop(bo_context *context, void *vector)
{
    bo_buffer_release(bo_device_of(context), vector);
}

static inline const bo_updates *vector_updates(bo_context *context)
{
    return bo_backend_of(bo_device_of(context))->updates;
}

#endif
