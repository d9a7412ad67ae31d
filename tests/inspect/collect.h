/* A report and the arrays that it was computed from, for recomputation in double. */
#ifndef BO_TEST_INSPECT_COLLECT_H
#define BO_TEST_INSPECT_COLLECT_H

#include "model/models.h"
#include <bochner/inspect.h>

enum { KINDS = 7, PLACES = 32 };

typedef struct collected {
    bo_inspection *report;
    float *arrays[KINDS][PLACES];
    size_t shapes[KINDS][PLACES][4];
    int32_t *ids;
    size_t count;
} collected;

static inline bool collect_array(void *user, const bo_inspect_array *array)
{
    collected *c = user;
    size_t count = 1;
    assert_true(array->layer < PLACES);
    for (size_t i = 0; i < array->rank; i++) {
        c->shapes[array->kind][array->layer][i] = array->shape[i];
        count *= array->shape[i];
    }
    float *copy = malloc(count * sizeof *copy);
    memcpy(copy, array->values, count * sizeof *copy);
    c->arrays[array->kind][array->layer] = copy;
    return true;
}

/* Inspects a model on `count` random tokens below `alphabet`. */
static inline collected collect(bo_context *context, const bo_model *model, bo_inspect_desc desc, size_t count,
                                size_t alphabet)
{
    collected c = {.count = count, .ids = malloc(count * sizeof *c.ids)};
    bo_rng rng = bo_rng_make(9, 2);
    for (size_t i = 0; i < count; i++) c.ids[i] = (int32_t)bo_rng_below(&rng, alphabet);
    desc.receive = collect_array;
    desc.user = &c;
    assert_ok(context, bo_inspect(context, model, c.ids, count, &desc, &c.report));
    return c;
}

static inline void collected_free(collected *c)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t p = 0; p < PLACES; p++) free(c->arrays[k][p]);
    free(c->ids);
    bo_inspection_destroy(c->report);
}

/* Row of token t of a head in a window of (windows, heads, tokens, dim). */
static inline const float *collected_row(const collected *c, bo_inspect_array_kind kind, size_t layer, size_t window,
                                         size_t head, size_t token)
{
    const size_t *s = c->shapes[kind][layer];
    return c->arrays[kind][layer] + ((window * s[1] + head) * s[2] + token) * s[3];
}

/* Weights of softmax attention of a query over keys 0 … i, in double. first: the first visible key. */
static inline void plain_weights(const collected *c, size_t layer, size_t window, size_t head, size_t i, size_t first,
                                 double scale, double *out)
{
    const size_t *sq = c->shapes[BO_INSPECT_ARRAY_Q][layer], *sk = c->shapes[BO_INSPECT_ARRAY_K][layer];
    const size_t key_head = head / (sq[1] / sk[1]);
    const float *q = collected_row(c, BO_INSPECT_ARRAY_Q, layer, window, head, i);
    double sum = 0;
    for (size_t j = 0; j <= i; j++) {
        const float *k = collected_row(c, BO_INSPECT_ARRAY_K, layer, window, key_head, j);
        double score = 0;
        for (size_t d = 0; d < sq[3]; d++) score += (double)q[d] * (double)k[d];
        out[j] = j < first ? 0 : exp(scale * score);
        sum += out[j];
    }
    for (size_t j = 0; j <= i; j++) out[j] /= sum;
}

/* Eigenvalues of a symmetric matrix by Jacobi rotations, descending; the matrix is overwritten. */
static inline void plain_eigenvalues(size_t n, double *a, double *values)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                if (fabs(a[p * n + q]) < 1e-300) continue;
                const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                const double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
                const double cosine = 1 / sqrt(t * t + 1), sine = t * cosine;
                for (size_t i = 0; i < n; i++) {
                    const double x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = cosine * x - sine * y;
                    a[i * n + q] = sine * x + cosine * y;
                }
                for (size_t i = 0; i < n; i++) {
                    const double x = a[p * n + i], y = a[q * n + i];
                    a[p * n + i] = cosine * x - sine * y;
                    a[q * n + i] = sine * x + cosine * y;
                }
            }
    for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (values[j] > values[i]) {
                const double swap = values[i];
                values[i] = values[j];
                values[j] = swap;
            }
}

static inline double *read_weight(bo_context *context, const bo_model *model, const char *name, size_t layer,
                                  size_t count)
{
    char name_of_layer[160];
    float *values = malloc(count * sizeof *values);
    double *wide = malloc(count * sizeof *wide);
    snprintf(name_of_layer, sizeof name_of_layer, name, layer);
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), name_of_layer, values, NULL));
    for (size_t i = 0; i < count; i++) wide[i] = (double)values[i];
    free(values);
    return wide;
}

static inline void set_weight(bo_context *context, bo_model *model, const char *name, const float *values)
{
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), name, values));
}

#endif
