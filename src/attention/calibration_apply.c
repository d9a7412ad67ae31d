/* From what has been seen to frequencies. All maps of an attention change, or none. */
#include <math.h>
#include <string.h>
#include "calibration.h"

/* ---- the law --------------------------------------------------------------------------------------------------- */

/* Moments of factor ∘ x from those of x. */
static void scale_moments(size_t dim, const double *factor, const bo_second_moments *from, bo_second_moments *to)
{
    for (size_t i = 0; i < dim; i++) {
        to->mean[i] = factor[i] * from->mean[i];
        for (size_t j = 0; j < dim; j++) to->second[i * dim + j] = factor[i] * factor[j] * from->second[i * dim + j];
    }
}

bo_status bo_calibration_root(bo_context *context, const bo_calibration *c, size_t law, const bo_features_desc *map,
                              bo_proposal proposal, double *root)
{
    size_t dim = c->width;
    bo_second_moments sides[2] = {{0}};
    double *factor = bo_alloc_raw(context, dim, sizeof *factor, "scales of a law");
    bo_status status = factor ? BO_OK : BO_MEMORY;
    for (size_t j = 0; status == BO_OK && j < dim; j++)
        factor[j] = sqrt(map->gamma) / (map->length_scales ? (double)map->length_scales[j] : 1);
    for (size_t i = 0; status == BO_OK && i < 2; i++) {
        status = bo_second_moments_alloc(context, dim, &sides[i]);
        if (status == BO_OK) scale_moments(dim, factor, &c->seen[2 * law + i].moments, &sides[i]);
    }
    if (status == BO_OK) status = bo_proposal_root(context, proposal, dim, &sides[0], &sides[1], root);
    for (size_t i = 0; i < 2; i++) bo_second_moments_free(&sides[i]);
    bo_free(factor);
    return status;
}

/* ---- maps ------------------------------------------------------------------------------------------------------ */

static bo_status draw_map(bo_context *context, const bo_calibration *c, const bo_attention *attention, size_t law,
                          uint64_t draw, bo_features **out)
{
    const bo_attention_desc *d = &attention->desc;
    const bo_features *map = attention->features[law];
    bo_feature_sample q = bo_seen_sample(c, &c->seen[2 * law]), k = bo_seen_sample(c, &c->seen[2 * law + 1]);
    bool choose = d->features.sampling == BO_SAMPLING_OPTIMAL, propose = d->proposal != BO_PROPOSAL_NONE;
    bo_frequency_origin origin = {.seed = bo_attention_seed(attention, law, draw),
                                  .candidates = d->features.candidates};
    double *root = bo_alloc_raw(context, propose ? c->width * c->width : 0, sizeof *root, "a proposal");
    bo_status status = root ? BO_OK : BO_MEMORY;
    if (choose) origin.q = &q, origin.k = &k;
    if (propose && status == BO_OK) {
        status = bo_calibration_root(context, c, law, bo_features_describe(map), d->proposal, root);
        origin.factor = root;
    }
    if (status == BO_OK) status = bo_features_like(context, map, &origin, out);
    bo_free(root);
    return status;
}

/* Keeps what is said of the law whose features do worst. */
static bo_status judge_map(bo_context *context, const bo_calibration *c, size_t law, const bo_features *map,
                           bo_calibration_report *report)
{
    bo_calibration_report found = {.key_head = law};
    BO_TRY(bo_calibration_judge(context, c, law, map, &found));
    found.rows = report->rows + c->seen[2 * law].rows + c->seen[2 * law + 1].rows;
    if (law == 0 || found.log_drawn > report->log_drawn)
        *report = found;
    else
        report->rows = found.rows;
    return BO_OK;
}

static bo_status draw_all(bo_context *context, const bo_calibration *c, const bo_attention *attention, uint64_t draw,
                          bo_features **maps, bo_calibration_report *report)
{
    for (size_t h = 0; h < c->laws; h++) {
        BO_TRY(draw_map(context, c, attention, h, draw, &maps[h]));
        if (report) BO_TRY(judge_map(context, c, h, maps[h], report));
        BO_TRY(bo_progress(context, "calibrating", (double)(h + 1), (double)c->laws));
    }
    return BO_OK;
}

/* ---- the call -------------------------------------------------------------------------------------------------- */

static bo_status check_match(bo_context *context, const bo_calibration *c, const bo_attention *attention)
{
    const bo_attention_desc *a = &c->desc, *b = &attention->desc;
    const struct {
        const char *name;
        size_t expected, found;
    } sizes[] = {{"heads", a->heads, b->heads},
                 {"key_heads", a->key_heads, b->key_heads},
                 {"dim", a->dim, b->dim},
                 {"features.dim", c->width, b->features.dim},
                 {"one_draw", a->one_draw, b->one_draw}};
    if (a->kind != b->kind)
        return bo_fail(context, BO_INVALID, "calibration: it has seen data of kind %s, the attention is %s",
                       bo_attention_name(a->kind), bo_attention_name(b->kind));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].expected != sizes[i].found)
            return bo_fail(context, BO_INVALID, "calibration: it has seen data of %s = %zu, the attention has %zu",
                           sizes[i].name, sizes[i].expected, sizes[i].found);
    if (b->proposal == BO_PROPOSAL_NONE && b->features.sampling == BO_SAMPLING_DRAWN)
        return bo_fail(context, BO_INVALID,
                       "calibration: with proposal none and sampling drawn frequencies do not depend on data");
    return BO_OK;
}

static bo_status check_data(bo_context *context, const bo_calibration *c)
{
    for (size_t i = 0; i < 2 * c->laws; i++)
        if (c->seen[i].rows == 0)
            return bo_fail(context, BO_INVALID,
                           "calibration without data: no row of %s has been added for key head %zu", i % 2 ? "k" : "q",
                           i / 2);
    return BO_OK;
}

bo_status bo_calibration_apply(bo_context *context, const bo_calibration *calibration, bo_attention *attention,
                               uint64_t draw, bo_calibration_report *out)
{
    bo_calibration_report report = {0};
    if (!calibration || !attention)
        return bo_fail(context, BO_INVALID, "calibration: %s NULL", attention ? "it is" : "the attention is");
    BO_TRY(check_match(context, calibration, attention));
    BO_TRY(check_data(context, calibration));
    size_t laws = calibration->laws;
    bo_features **maps = bo_alloc(context, laws, sizeof *maps, "calibrated maps");
    if (!maps) return BO_MEMORY;
    bo_status status = draw_all(context, calibration, attention, draw, maps, out ? &report : NULL);
    for (size_t h = 0; h < laws; h++) {
        if (status == BO_OK) bo_features_exchange(attention->features[h], maps[h]);
        bo_features_destroy(maps[h]);
    }
    bo_free(maps);
    if (status != BO_OK) return status;
    attention->draw = draw;
    attention->ready = true;
    bo_attention_refresh(attention);
    if (out) *out = report;
    return BO_OK;
}
