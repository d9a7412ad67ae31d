/* Models with adapters that differ from their initial values. */
#ifndef BO_TEST_MODEL_ADAPTED_H
#define BO_TEST_MODEL_ADAPTED_H

#include "io/files.h"
#include "models.h"
#include <ftw.h>

static inline int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind;
    return where->level ? remove(path) : 0;
}

/* Removes the directory and the directories in it. */
static inline int directories_teardown(void **state)
{
    nftw(((test_directory *)*state)->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return test_teardown(state);
}

static inline size_t numbers_of(const bo_weight *weight)
{
    return weight->rows * weight->columns;
}

/* Number of shared weights whose bits differ. */
static inline size_t count_other(const bo_model *a, const bo_model *b)
{
    size_t other = 0;
    for (size_t i = 0; i < bo_weights_count(a->weights); i++) {
        const bo_weight *w = bo_weights_at(a->weights, i), *v = bo_weights_find(b->weights, w->name);
        if (v) other += memcmp(w->data, v->data, numbers_of(w) * sizeof(float)) != 0;
    }
    return other;
}

/* Changes the trained weights, as training would. */
static inline void move_adapters(bo_model *model)
{
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        bo_rng rng = bo_rng_make(8, i);
        float *values = weight->data;
        for (size_t j = 0; !weight->frozen && j < numbers_of(weight); j++)
            values[j] += (float)(0.1 * bo_rng_normal(&rng));
    }
}

#endif
