/* Small models that classify texts, and labeled texts of several lengths. */
#ifndef BO_TEST_MODEL_LABELERS_H
#define BO_TEST_MODEL_LABELERS_H

#include <bochner/tasks.h>
#include "models.h"

enum { CLASSES = 3 };

static inline bo_model_desc labeler_desc(const char *kind, bo_model_task task)
{
    static const char *const labels[CLASSES] = {"bad", "fair", "good"};
    bo_model_desc desc = test_desc(kind);
    desc.task = task, desc.classes = CLASSES, desc.labels = labels;
    return desc;
}

/* One example per length; of a pair the first text has this length, and the second has half of it plus one. Letters are
 * random. */
static inline bo_texts *labeled_texts(bo_context *context, const bo_tokenizer *tokenizer, const bo_model_desc *d,
                                      size_t count, const size_t *lengths)
{
    bo_rng rng = bo_rng_make(17, 1);
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < count; i++) bytes += 2 * lengths[i] + 16;
    char *lines = malloc(bytes);
    for (size_t i = 0; i < count; i++) {
        at += (size_t)sprintf(lines + at, "%s", d->labels[i % d->classes]);
        for (size_t side = 0; side < (d->task == BO_MODEL_TASK_MATCH ? 2u : 1u); side++) {
            lines[at++] = '\t';
            for (size_t n = side ? lengths[i] / 2 + 1 : lengths[i]; n; n--)
                lines[at++] = (char)('a' + bo_rng_below(&rng, 26));
        }
        lines[at++] = '\n';
    }
    bo_texts *texts;
    bo_texts_desc desc = {.kind = d->task == BO_MODEL_TASK_MATCH ? BO_TEXTS_LABELED_PAIR : BO_TEXTS_LABELED,
                          .tokenizer = tokenizer,
                          .labels = d->labels,
                          .classes = d->classes,
                          .memory = lines,
                          .memory_bytes = at};
    assert_ok(context, bo_texts_open(context, &desc, &texts));
    free(lines);
    return texts;
}

/* The first `count` examples in a pack with the given number of rows. */
static inline bo_text_pack *labeled_pack(bo_context *context, const bo_texts *texts, size_t rows, size_t max_examples,
                                         size_t count)
{
    bo_text_pack *pack;
    size_t examples[32];
    for (size_t i = 0; i < count; i++) examples[i] = i;
    assert_ok(context, bo_text_pack_create(context, texts, (size_t[2]){rows, 0}, max_examples, 0, &pack));
    assert_ok(context, bo_text_pack_fill(context, pack, texts, examples, count));
    return pack;
}

static inline bo_model_graph labeler_graph(bo_context *context, const bo_model *model, const bo_text_pack *pack,
                                           bo_model_graph_desc desc, bo_graph_pass *pass)
{
    bo_model_graph g;
    desc.rows = pack->stream.rows, desc.max_sequences = pack->max_sequences, desc.examples = pack->max_examples;
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context, bo_model_graph_fill(context, model, &g, &(bo_model_batch){.packed = pack}, pass));
    return g;
}

/* Draws the frequencies of all layers from data in one pass. */
static inline void calibrate_labeler(bo_context *context, bo_model *model, const bo_text_pack *pack)
{
    bo_calibration *calibrations[LAYERS] = {0};
    bo_graph_pass pass = {0};
    const bo_calibrating calibrating = {calibrations, model->attentions};
    if (!needs_calibration(model)) return;
    bo_model_graph g = labeler_graph(context, model, pack, (bo_model_graph_desc){.outputs = true}, &pass);
    for (size_t i = 0; i < LAYERS; i++)
        assert_ok(context, bo_calibration_create(context, model->attentions[i], 0, &calibrations[i]));
    assert_ok(context, bo_graph_calibrate(context, g.graph, &pass, &calibrating));
    for (size_t i = 0; i < LAYERS; i++) bo_calibration_destroy(calibrations[i]);
    bo_model_graph_destroy(&g);
}

static inline bo_model *labeler(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer)
{
    static const size_t lengths[] = {9, 4, 12};
    bo_model *model;
    bo_texts *texts = labeled_texts(context, tokenizer, desc, 3, lengths);
    bo_text_pack *pack = labeled_pack(context, texts, 64, 3, 3);
    assert_ok(context, bo_model_create(context, desc, tokenizer, &model));
    shake(context, model);
    calibrate_labeler(context, model, pack);
    bo_text_pack_destroy(pack);
    bo_texts_close(texts);
    return model;
}

#endif
