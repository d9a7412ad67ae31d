/* Shared by the tests of optimizers: a small weight set with every role, and gradients for each step. */
#ifndef BO_OPTIM_TESTING_H
#define BO_OPTIM_TESTING_H

#include "testing.h"
#include "optim/optim.h"

enum { TEST_WEIGHTS = 7 };

static const bo_weight_desc test_weights_list[TEST_WEIGHTS] = {
    {.name = "embed", .rows = 30, .columns = 8, .role = BO_WEIGHT_ROLE_EMBEDDING},
    {.name = "wide", .rows = 8, .columns = 24, .role = BO_WEIGHT_ROLE_MATRIX},
    {.name = "tall", .rows = 24, .columns = 8, .role = BO_WEIGHT_ROLE_MATRIX},
    {.name = "frozen", .rows = 8, .columns = 8, .role = BO_WEIGHT_ROLE_MATRIX, .frozen = true},
    {.name = "square", .rows = 8, .columns = 8, .role = BO_WEIGHT_ROLE_MATRIX},
    {.name = "gain", .rows = 1, .columns = 8, .role = BO_WEIGHT_ROLE_VECTOR},
    {.name = "head", .rows = 30, .columns = 8, .role = BO_WEIGHT_ROLE_HEAD},
};

static inline bo_status test_weights_try(bo_context *context, bo_weights **out)
{
    bo_status status = bo_weights_create(context, out);
    for (size_t i = 0; i < TEST_WEIGHTS && status == BO_OK; i++) {
        bo_weight_desc desc = test_weights_list[i];
        size_t index;
        desc.rank = 2, desc.shape = (size_t[]){desc.rows, desc.columns};
        desc.init = (bo_weight_init){BO_WEIGHT_INIT_KIND_NORMAL, 0, 1};
        status = bo_weights_declare(context, *out, &desc, &index);
    }
    if (status == BO_OK) status = bo_weights_allocate(context, *out, true);
    if (status == BO_OK) status = bo_weights_init(context, *out, 5);
    return status;
}

static inline bo_weights *test_weights(bo_context *context)
{
    bo_weights *weights = NULL;
    assert_ok(context, test_weights_try(context, &weights));
    return weights;
}

static inline size_t test_count(const bo_weight *weight)
{
    return weight->rows * weight->columns;
}

/* Normal numbers times `size`, a different draw for each step. Frozen weights get none. */
static inline void test_gradients(bo_weights *weights, uint64_t step, double size)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (weight->frozen) continue;
        bo_rng rng = bo_rng_make(step, 100 + i);
        float *g = weight->gradient;
        for (size_t j = 0; j < test_count(weight); j++) g[j] = (float)(size * bo_rng_normal(&rng));
    }
}

/* Steps from `first` to before `last`, each with its own gradients and factor. */
static inline void test_steps(bo_context *context, bo_optimizer *optimizer, bo_weights *weights, uint64_t first,
                              uint64_t last)
{
    for (uint64_t step = first; step < last; step++) {
        double norm;
        test_gradients(weights, step, step % 3 == 1 ? 1 : 0.01); /* some are clipped */
        assert_ok(context, bo_optimizer_step(context, optimizer, 1 / (1.0 + (double)step), &norm));
    }
}

#endif
