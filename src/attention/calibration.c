/* Taking batches in. With momentum μ a batch b moves every statistic by S ← μ S + (1 - μ) S_b; without, rows count
 * alike: S ← S + (S_b - S) n_b / n. Of the kept rows the same share, chosen at random, gives way to rows of the
 * batch. */
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "calibration.h"
#include "kinds.h"
#include "parameters.h"

/* ---- life ------------------------------------------------------------------------------------------------------ */

void bo_calibration_destroy(bo_calibration *calibration)
{
    if (!calibration) return;
    for (size_t i = 0; calibration->seen && i < 2 * calibration->laws; i++) {
        bo_second_moments_free(&calibration->seen[i].moments);
        bo_free(calibration->seen[i].kept);
    }
    bo_attention_destroy(calibration->layout);
    bo_free(calibration->seen);
    bo_free(calibration);
}

static bo_status check(bo_context *context, const bo_attention *attention, double momentum)
{
    if (!attention) return bo_fail(context, BO_INVALID, "calibration: the attention is NULL");
    const bo_attention_desc *d = &attention->desc;
    if (!(momentum >= 0 && momentum < 1))
        return bo_fail(context, BO_INVALID, "calibration: momentum must be in [0, 1), found %g", momentum);
    if (!attention->features || !bo_features_frequencies(attention->features[0]))
        return bo_fail(context, BO_INVALID, "calibration: kind %s has no frequencies to draw here",
                       bo_attention_name(d->kind));
    if (d->proposal == BO_PROPOSAL_NONE && d->features.sampling == BO_SAMPLING_DRAWN)
        return bo_fail(context, BO_INVALID,
                       "calibration: with proposal none and sampling drawn frequencies do not depend on data; found "
                       "both");
    return BO_OK;
}

static bo_status make_layout(bo_context *context, const bo_attention_desc *d, bo_attention **out)
{
    bo_attention_desc exact = {.kind = BO_ATTENTION_EXACT,
                               .heads = d->heads,
                               .key_heads = d->key_heads,
                               .dim = d->dim,
                               .value_dim = d->value_dim,
                               .causal = d->causal};
    return bo_attention_create(context, &exact, out);
}

static bo_status begin(bo_context *context, bo_calibration *c)
{
    BO_TRY(make_layout(context, &c->desc, &c->layout));
    c->seen = bo_alloc(context, 2 * c->laws, sizeof *c->seen, "a calibration");
    if (!c->seen) return BO_MEMORY;
    for (size_t i = 0; i < 2 * c->laws; i++) {
        BO_TRY(bo_second_moments_alloc(context, c->width, &c->seen[i].moments));
        c->seen[i].kept = bo_alloc(context, BO_KEPT_ROWS * c->width, sizeof(float), "rows of a calibration");
        if (!c->seen[i].kept) return BO_MEMORY;
    }
    return BO_OK;
}

bo_status bo_calibration_create(bo_context *context, const bo_attention *attention, double momentum,
                                bo_calibration **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "a calibration: there is nowhere to put it: out is NULL");
    *out = NULL;
    BO_TRY(check(context, attention, momentum));
    bo_calibration *c = bo_alloc(context, 1, sizeof *c, "a calibration");
    if (!c) return BO_MEMORY;
    c->desc = attention->desc;
    c->desc.features.length_scales = NULL; /* the attention's own */
    c->width = attention->desc.features.dim;
    c->laws = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    c->momentum = momentum;
    bo_status status = begin(context, c);
    if (status == BO_OK)
        *out = c;
    else
        bo_calibration_destroy(c);
    return status;
}

/* ---- a batch --------------------------------------------------------------------------------------------------- */

/* A batch after every check, and what it says by itself. */
typedef struct batch {
    bo_call call;
    bo_row_transform *fronts;   /* one a key head */
    char *transposes;           /* of the fronts */
    bo_second_moments *moments; /* two a law */
    float *rows;                /* BO_KEPT_ROWS x width */
    size_t *slots;              /* BO_KEPT_ROWS */
} batch;

static bo_side side_of(const bo_calibration *c, const batch *b, size_t i)
{
    size_t key_heads = c->desc.key_heads / c->laws, first = i / 2 * key_heads;
    bo_side side = i % 2 ? bo_side_keys(&b->call, b->call.in->k, first, key_heads)
                         : bo_side_queries(&b->call, b->call.in->q, first, key_heads);
    side.fronts = b->fronts;
    side.width = c->width;
    return side;
}

static void batch_free(const bo_calibration *c, batch *b)
{
    for (size_t i = 0; b->moments && i < 2 * c->laws; i++) bo_second_moments_free(&b->moments[i]);
    void *const blocks[] = {b->fronts, b->transposes, b->moments, b->rows, b->slots};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

/* A front needs the attention's descriptor, not its frequencies. */
static bo_status make_fronts(bo_context *context, const bo_calibration *c, batch *b)
{
    bo_attention like = {.desc = c->desc,
                         .kernels = b->call.kernels,
                         .traits = bo_attention_traits(&c->desc),
                         .group = b->call.attention->group};
    bo_carver count = {0};
    BO_TRY(bo_parameters_check(context, &like, b->call.in));
    bo_row_transform_make(&like, b->call.in, 0, &count);
    b->transposes = bo_alloc_raw(context, c->desc.key_heads, bo_most(count.bytes, 64), "fronts of a batch");
    b->fronts = bo_alloc(context, c->desc.key_heads, sizeof *b->fronts, "fronts of a batch");
    if (!b->transposes || !b->fronts) return BO_MEMORY;
    for (size_t h = 0; h < c->desc.key_heads; h++) {
        bo_carver carver = {.at = b->transposes + h * count.bytes};
        b->fronts[h] = bo_row_transform_make(&like, b->call.in, h, &carver);
    }
    return BO_OK;
}

/* Everything that can fail. */
static bo_status look(bo_context *context, const bo_calibration *c, batch *b)
{
    BO_TRY(make_fronts(context, c, b));
    b->moments = bo_alloc(context, 2 * c->laws, sizeof *b->moments, "moments of a batch");
    b->rows = bo_alloc_raw(context, BO_KEPT_ROWS * c->width, sizeof(float), "rows of a batch");
    b->slots = bo_alloc_raw(context, BO_KEPT_ROWS, sizeof(size_t), "rows of a batch");
    if (!b->moments || !b->rows || !b->slots) return BO_MEMORY;
    for (size_t i = 0; i < 2 * c->laws; i++) {
        bo_side side = side_of(c, b, i);
        if (bo_side_rows(&side)) BO_TRY(bo_second_moments_measure(context, &side, 1, &b->moments[i]));
    }
    return BO_OK;
}

static void move_towards(size_t count, double share, const double *to, double *x)
{
    for (size_t i = 0; i < count; i++) x[i] = share == 1 ? to[i] : x[i] + share * (to[i] - x[i]);
}

/* As many rows as the share says, rounded up or down by chance, take the places of others. */
static void renew(const bo_calibration *c, const batch *b, const bo_side *side, size_t i, double share)
{
    bo_rng rng = bo_rng_make(c->desc.features.seed, bo_rng_stream("calibration", c->batches * 2 * c->laws + i));
    size_t count = (size_t)(share * BO_KEPT_ROWS + bo_rng_uniform(&rng));
    count = bo_least(count, BO_KEPT_ROWS);
    bo_rng_permutation(&rng, BO_KEPT_ROWS, b->slots);
    bo_side_spread(side, count, bo_rng_uniform(&rng), b->rows);
    for (size_t r = 0; r < count; r++)
        memcpy(c->seen[i].kept + b->slots[r] * c->width, b->rows + r * c->width, c->width * sizeof(float));
}

static void take_in(bo_calibration *c, const batch *b)
{
    for (size_t i = 0; i < 2 * c->laws; i++) {
        bo_seen *seen = &c->seen[i];
        bo_side side = side_of(c, b, i);
        uint64_t rows = bo_side_rows(&side);
        if (!rows) continue;
        double share = seen->rows == 0    ? 1
                       : c->momentum != 0 ? 1 - c->momentum
                                          : (double)rows / (double)(seen->rows + rows);
        move_towards(c->width, share, b->moments[i].mean, seen->moments.mean);
        move_towards(c->width * c->width, share, b->moments[i].second, seen->moments.second);
        renew(c, b, &side, i, share);
        seen->rows += rows;
    }
    c->batches++;
}

static bo_status check_batch(bo_context *context, const bo_calibration *c, const bo_attention_shape *shape,
                             const bo_attention_inputs *in)
{
    if (!c) return bo_fail(context, BO_INVALID, "calibration: it is NULL");
    if (!shape || !in || !in->q || !in->k)
        return bo_fail(context, BO_INVALID, "calibration: the %s NULL",
                       !shape   ? "shape is"
                       : !in    ? "inputs are"
                       : !in->q ? "queries are"
                                : "keys are");
    if (shape->no_keys) return bo_fail(context, BO_INVALID, "calibration needs keys; found a shape without");
    return BO_OK;
}

/* Statistics do not ask who sees whom: queries and keys may differ in number. */
bo_status bo_calibration_add(bo_context *context, bo_calibration *calibration, const bo_attention_shape *shape,
                             const bo_attention_inputs *inputs)
{
    bo_geometry geometry;
    BO_TRY(check_batch(context, calibration, shape, inputs));
    bo_attention layout = *calibration->layout;
    layout.desc.causal = false;
    BO_TRY(bo_geometry_make(context, &layout, shape, &geometry));
    batch b = {.call = bo_layout_of(calibration->layout, shape, &geometry)};
    b.call.in = inputs;
    bo_status status = look(context, calibration, &b);
    if (status == BO_OK) take_in(calibration, &b);
    batch_free(calibration, &b);
    bo_geometry_free(&geometry);
    return status;
}
