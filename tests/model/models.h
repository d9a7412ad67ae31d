/* Small models for tests, with every preset of attention and every mixer and random weights, and text to read. */
#ifndef BO_TEST_MODELS_H
#define BO_TEST_MODELS_H

#include "kinds.h"
#include <bochner/generate.h>
#include "model/model.h"

enum { VOCAB = 256, CONTEXT = 48, LAYERS = 2 };

static inline bo_model_desc test_desc(const char *kind)
{
    bo_model_desc desc = {.layers = LAYERS,
                          .width = 16,
                          .block.heads = 2,
                          .context = CONTEXT,
                          .vocab = VOCAB,
                          .block.hidden = 24,
                          .seed = 7};
    test_set_kind(kind, &desc);
    return desc;
}

/* Gives the encoder of a translator the block of the decoder, with another attention. */
static inline void test_encode(bo_model_desc *desc, const bo_attention_desc *attention)
{
    desc->encoder = desc->block;
    desc->encoder.attention = *attention;
    desc->encoder.cross_attention = (bo_attention_desc){.heads = 0};
}

static inline void test_encode_kind(bo_model_desc *desc, const char *preset)
{
    bo_attention_desc attention = {.heads = 0};
    assert_true(bo_attention_preset(preset, &attention));
    test_encode(desc, &attention);
}

/* Describes a window in the layers from `first` on, except in every period-th, with a separate base of RoPE (0: the
 * base of all layers). `blocks` has one entry per layer, and must outlive the descriptor. */
static inline void test_windows(bo_model_desc *desc, bo_block *blocks, size_t window, size_t first, size_t period,
                                double base)
{
    for (size_t i = 0; i < desc->layers; i++) {
        blocks[i] = desc->block;
        if (i < first || (period && (i + 1) % period == 0)) continue;
        blocks[i].attention.window = window;
        if (base > 0) blocks[i].rope_base = base, blocks[i].rope_scaling = (bo_rope_scaling){.factor = 0};
    }
    desc->blocks = blocks;
    desc->block_count = desc->layers;
}

/* Ids without a simple pattern. */
static inline void test_tokens(size_t count, int32_t *ids)
{
    bo_rng rng = bo_rng_make(11, 5);
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)bo_rng_below(&rng, i % 3 ? 40 : VOCAB);
}

/* Losses of `count` tokens read as one window, by a graph without states. */
static inline bo_status window_pass(bo_context *context, const bo_model *model, const int32_t *ids, size_t count,
                                    bo_calibration *const *calibrations, float *losses)
{
    bo_model_graph g;
    int32_t positions[CONTEXT];
    const bo_calibrating calibrating = {calibrations, model->attentions};
    for (size_t i = 0; i < count; i++) positions[i] = (int32_t)i;
    BO_TRY(bo_model_graph_create(context, model, &(bo_model_graph_desc){.rows = count, .loss = true}, &g));
    bo_status status = bo_graph_allocate(context, g.graph);
    if (status == BO_OK) status = bo_graph_write(context, g.graph, g.tokens, ids);
    if (status == BO_OK) status = bo_graph_write(context, g.graph, g.targets, ids + 1);
    if (status == BO_OK && g.positions) status = bo_graph_write(context, g.graph, g.positions, positions);
    if (status == BO_OK)
        status = calibrations ? bo_graph_calibrate(context, g.graph, NULL, &calibrating)
                              : bo_graph_run(context, g.graph, NULL);
    if (status == BO_OK) status = bo_graph_read(context, g.graph, g.losses, losses);
    bo_model_graph_destroy(&g);
    return status;
}

static inline bool needs_calibration(const bo_model *model)
{
    if (!bo_model_attention(model, 0)) return false;
    const bo_attention_desc *desc = bo_attention_describe(bo_model_attention(model, 0));
    return desc->proposal != BO_PROPOSAL_NONE || desc->features.sampling == BO_SAMPLING_OPTIMAL;
}

/* Draws frequencies from data layer by layer, because q and k of the next layer depend on them. */
static inline void calibrate(bo_context *context, bo_model *model, const int32_t *ids)
{
    float losses[CONTEXT];
    for (size_t i = 0; needs_calibration(model) && i < LAYERS; i++) {
        bo_calibration *calibrations[LAYERS] = {0};
        assert_ok(context, bo_calibration_create(context, model->attentions[i], 0, &calibrations[i]));
        window_pass(context, model, ids, CONTEXT, calibrations,
                    losses); /* fails at the first layer that is not calibrated */
        assert_ok(context, bo_calibration_apply(context, calibrations[i], model->attentions[i], 0, NULL));
        bo_calibration_destroy(calibrations[i]);
    }
}

/* Changes the weights from their initial values, so that each has an effect. */
static inline void shake(bo_context *context, bo_model *model)
{
    for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++) {
        const bo_weight info = *bo_weights_at(bo_model_weights(model), i);
        size_t count = 1;
        for (size_t r = 0; r < info.rank; r++) count *= info.shape[r];
        float *values = malloc(count * sizeof *values);
        bo_rng rng = bo_rng_make(3, i);
        assert_ok(context, bo_weights_get(context, bo_model_weights(model), info.name, values, NULL));
        for (size_t j = 0; j < count; j++) values[j] += (float)(0.1 * bo_rng_normal(&rng));
        assert_ok(context, bo_weights_set(context, bo_model_weights(model), info.name, values));
        free(values);
    }
}

static inline bo_model *test_model(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer)
{
    bo_model *model;
    int32_t ids[CONTEXT + 1];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, bo_model_create(context, desc, tokenizer, &model));
    shake(context, model);
    calibrate(context, model, ids);
    return model;
}

#endif
