/* Conversion between the layout of a trial and the arrays of one key head. */
#ifndef BO_TEST_ATTENTION_VERIFY_HEAD_H
#define BO_TEST_ATTENTION_VERIFY_HEAD_H

#include "trial.h"

/* Index of the first element of row `token` of (sequence, head) in an array of `heads` heads. */
static inline size_t trial_at(const trial *t, size_t heads, size_t width, bool keys, size_t s, size_t head,
                              size_t token)
{
    const size_t *starts = keys ? t->key_start : t->query_start, *lengths = keys ? t->keys : t->queries;
    size_t total = keys ? t->keys_total : t->queries_total;
    if (t->desc.shape.layout == BO_LAYOUT_TOKENS_FIRST) return ((starts[s] + token) * heads + head) * width;
    if (t->desc.shape.lengths) return (head * total + starts[s] + token) * width;
    return (starts[s] * heads + head * lengths[s] + token) * width;
}

/* Number of keys from the initial state that the reference sees individually. */
static inline size_t trial_kept(const trial *t)
{
    size_t past = t->desc.past;
    if (oracle_explicit(t->d)) return past;
    if (t->d->kind == BO_ATTENTION_HYBRID) return past < t->d->window ? past : t->d->window;
    return 0;
}

static inline size_t trial_features(const trial *t)
{
    const bo_features *map = bo_attention_features(t->attention, 0);
    return map ? bo_features_describe(map)->features : 0;
}

/* Number of floats of one key head in a state, without cached keys: S and z, or the matrices of a memory. */
static inline size_t trial_sums(const trial *t)
{
    size_t value = t->d->value_dim, dim = t->d->dim;
    if (!trial_is_memory(t->d)) return trial_features(t) * (value + 1);
    return dim * (t->d->kind == BO_ATTENTION_RIDGE ? value + dim : value);
}

/* One key head of one sequence. */
typedef struct verify_head {
    size_t sequence, key_head, group, queries;
    size_t kept, features; /* 0 for GLA, DELTA and RIDGE */
    double *owned[40];
    size_t owned_count;
} verify_head;

static inline verify_head verify_head_make(const trial *t, size_t sequence, size_t key_head)
{
    return (verify_head){.sequence = sequence,
                         .key_head = key_head,
                         .group = t->d->heads / t->d->key_heads,
                         .queries = t->queries[sequence],
                         .kept = trial_kept(t),
                         .features = trial_features(t)};
}

static inline void verify_head_drop(verify_head *j)
{
    for (size_t i = 0; i < j->owned_count; i++) free(j->owned[i]);
}

static inline double *verify_array(verify_head *j, size_t count)
{
    assert_true(j->owned_count < 40);
    return j->owned[j->owned_count++] = oracle_zeros(count);
}

/* Converts numbers to double. */
static inline double *verify_doubles(verify_head *j, size_t count, const float *from)
{
    double *values = verify_array(j, count);
    for (size_t i = 0; i < count; i++) values[i] = (double)from[i];
    return values;
}

/* Rows of one head in double; cached rows of the state come first. */
static inline double *verify_rows(verify_head *j, const trial *t, trial_array which)
{
    const float *array = t->array[which], *past = t->past[which];
    size_t keys = t->keys[j->sequence], kh = t->d->key_heads, all = t->desc.past, width = trial_width(t->d, which);
    double *rows = verify_array(j, (j->kept + keys) * width);
    for (size_t r = 0; r < j->kept; r++) {
        size_t from = ((j->sequence * kh + j->key_head) * all + all - j->kept + r) * width;
        for (size_t c = 0; c < width; c++) rows[r * width + c] = (double)past[from + c];
    }
    for (size_t r = 0; r < keys; r++) {
        size_t from = trial_at(t, kh, width, true, j->sequence, j->key_head, r);
        for (size_t c = 0; c < width; c++) rows[(j->kept + r) * width + c] = (double)array[from + c];
    }
    return rows;
}

/* The queries of the group, or their gradients. */
static inline double *verify_queries(verify_head *j, const trial *t, const float *array, size_t width)
{
    double *rows = verify_array(j, j->group * j->queries * width);
    for (size_t g = 0; g < j->group; g++)
        for (size_t r = 0; r < j->queries; r++) {
            size_t from = trial_at(t, t->d->heads, width, false, j->sequence, j->key_head * j->group + g, r);
            for (size_t c = 0; c < width; c++) rows[(g * j->queries + r) * width + c] = (double)array[from + c];
        }
    return rows;
}

/* The part of a parameter that belongs to this head; NULL if the parameter is not given. */
static inline double *verify_parameter(verify_head *j, const trial *t, trial_array which)
{
    size_t width = t->count[which] / t->d->key_heads;
    return width ? verify_doubles(j, width, t->array[which] + j->key_head * width) : NULL;
}

/* The array to which its gradient is added; or NULL. */
static inline double *verify_parameter_gradient(const verify_head *j, const trial *t, const trial_result *a,
                                                trial_array which)
{
    return t->count[which] ? a->gradient[which] + j->key_head * (t->count[which] / t->d->key_heads) : NULL;
}

/* ---- conversion back --------------------------------------------------------------------------------------------- */

static inline void verify_write_rows(const verify_head *j, const trial *t, const double *rows, trial_array which,
                                     double *array)
{
    size_t width = trial_width(t->d, which);
    for (size_t r = 0; r < t->keys[j->sequence]; r++) {
        size_t to = trial_at(t, t->d->key_heads, width, true, j->sequence, j->key_head, r);
        for (size_t c = 0; c < width; c++) array[to + c] = rows[(j->kept + r) * width + c];
    }
}

static inline void verify_write_queries(const verify_head *j, const trial *t, const double *rows, size_t width,
                                        double *array)
{
    for (size_t g = 0; g < j->group; g++)
        for (size_t r = 0; r < j->queries; r++) {
            size_t head = j->key_head * j->group + g;
            size_t to = trial_at(t, t->d->heads, width, false, j->sequence, head, r);
            for (size_t c = 0; c < width; c++) array[to + c] = rows[(g * j->queries + r) * width + c];
        }
}

#endif
