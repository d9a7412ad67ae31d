/* Small translators of every kind, and a pack for them: sources and targets of several lengths, and padding. */
#ifndef BO_TEST_MODEL_TRANSLATORS_H
#define BO_TEST_MODEL_TRANSLATORS_H

#include "text/packs.h"
#include "stacks.h"

enum { PAIRS = 3, SOURCE_ROWS = 21, TARGET_ROWS = 16, PAIR_VOCAB = 23, END = PAIR_VOCAB - 1 };
static const size_t source_lengths[PAIRS + 1] = {7, 1, 9, 4}, target_lengths[PAIRS + 1] = {5, 6, 3, 2};

/* The name of a kind (kinds.h), optionally followed by the cross attention: "gru summary". */
static inline bo_model_desc translator_desc(const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    desc.task = BO_MODEL_TASK_TRANSLATE;
    desc.vocab = PAIR_VOCAB, desc.encoder_layers = 2, desc.width = 8, desc.block.hidden = 12;
    return desc;
}

enum { LIST_BLOCKS = 3, LISTS = 4 };

/* Decoders and encoders with several blocks each. `blocks` has 2 LIST_BLOCKS entries and must outlive the
 * descriptor. */
static inline bo_model_desc translator_lists(size_t index, bo_block *blocks)
{
    static const struct {
        size_t layers, encoder_layers;
        const char *decoder[LIST_BLOCKS], *encoder[LIST_BLOCKS], *cross;
        bool layered; /* layers in the place of some MLPs */
    } lists[LISTS] = {
        {3, 4, {"rfa-gate", "conv", NULL}, {"softmax", "ssm", "gated-delta"}, "softmax", false},
        {3, 2, {"softmax", "dark", "gru"}, {"rfa", "conv", NULL}, NULL, false},
        {4, 3, {"softmax", "gla", NULL}, {NULL}, "favor", false}, /* the encoder has the blocks of the decoder */
        {2, 3, {"softmax", "conv", NULL}, {"gla", "rfa", NULL}, NULL, true}};
    static const char *const layers[] = {STACK_GATE, NULL, NULL, STACK_MAPS, NULL, NULL};
    static const bo_mlp mlps[] = {BO_MLP_RELU2, BO_MLP_SWIGLU, BO_MLP_NONE};
    bo_model_desc desc = translator_desc("softmax"), made = desc;
    desc.layers = lists[index].layers, desc.encoder_layers = lists[index].encoder_layers;
    desc.blocks = blocks, desc.block_count = 0;
    desc.encoder_block_count = 0;
    for (size_t i = 0; i < 2 * LIST_BLOCKS; i++) {
        const bool encodes = i >= LIST_BLOCKS;
        const char *kind = encodes ? lists[index].encoder[i - LIST_BLOCKS] : lists[index].decoder[i];
        if (!kind) continue;
        test_set_kind(kind, &made);
        blocks[i] = made.block;
        blocks[i].mlp = mlps[(i + index) % 3], blocks[i].norm = i % 2 ? BO_NORM_LAYER : BO_NORM_RMS;
        if (lists[index].layered && layers[i])
            blocks[i].layers = layers[i], blocks[i].mlp = BO_MLP_LAYERS, blocks[i].hidden = 0;
        blocks[i].repeat = 1 + (i == 1), blocks[i].rope_base = 50 + 100 * (double)i;
        if (!encodes && lists[index].cross && i % 2 == 0) {
            assert_true(bo_attention_preset(lists[index].cross, &blocks[i].cross_attention));
            blocks[i].cross_attention.heads = blocks[i].heads; /* softmax is all zero otherwise */
        }
        (*(encodes ? &desc.encoder_block_count : &desc.block_count))++;
    }
    if (desc.encoder_block_count) desc.encoder_blocks = blocks + LIST_BLOCKS;
    return desc;
}

typedef struct pack {
    bo_text_pack packed;
    int32_t buffer[3 * SOURCE_ROWS + 4 * TARGET_ROWS];
    size_t lengths[2][PAIRS + 1];
} pack;

static inline void pack_stream(bo_packed_stream *stream, size_t rows, int32_t *buffer, size_t *lengths,
                               const size_t *expected)
{
    *stream = (bo_packed_stream){rows, buffer, buffer + rows, buffer + 2 * rows, lengths};
    for (size_t s = 0, at = 0; s <= PAIRS; at += expected[s++]) {
        lengths[s] = expected[s];
        for (size_t i = 0; i < expected[s]; i++) {
            stream->positions[at + i] = s < PAIRS ? (int32_t)i : 0;
            stream->reversal[at + i] = (int32_t)(at + expected[s] - 1 - i);
        }
    }
}

/* Targets start with the end token and are shifted by one token; sources end with it. */
static inline void pack_create(pack *p)
{
    bo_rng rng = bo_rng_make(13, 1);
    bo_text_pack *q = &p->packed;
    *p = (pack){
        .packed = {.examples = PAIRS, .max_examples = PAIRS, .sequences = PAIRS + 1, .max_sequences = PAIRS + 1}};
    pack_stream(&q->source, SOURCE_ROWS, p->buffer, p->lengths[0], source_lengths);
    pack_stream(&q->stream, TARGET_ROWS, p->buffer + 3 * SOURCE_ROWS, p->lengths[1], target_lengths);
    q->targets = p->buffer + 3 * (SOURCE_ROWS + TARGET_ROWS);
    for (size_t i = 0; i < SOURCE_ROWS; i++) q->source.tokens[i] = (int32_t)bo_rng_below(&rng, END);
    for (size_t i = 0; i < TARGET_ROWS; i++) q->targets[i] = -1, q->stream.tokens[i] = 0;
    for (size_t s = 0, at = 0, end = 0; s < PAIRS; at += target_lengths[s++]) {
        q->source.tokens[(end += source_lengths[s]) - 1] = END;
        for (size_t i = 0; i < target_lengths[s]; i++) {
            q->stream.tokens[at + i] = i ? q->targets[at + i - 1] : END;
            q->targets[at + i] = i + 1 < target_lengths[s] ? (int32_t)bo_rng_below(&rng, END) : END;
        }
    }
}

static inline bo_model_graph pack_graph(bo_context *context, const bo_model *model, const pack *p,
                                        const bo_model_graph_desc *desc, bo_graph_pass *pass)
{
    bo_model_graph g;
    bo_model_graph_desc d = *desc;
    d.rows = TARGET_ROWS, d.source_rows = SOURCE_ROWS, d.max_sequences = PAIRS + 1;
    assert_ok(context, bo_model_graph_create(context, model, &d, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context, bo_model_graph_fill(context, model, &g, &(bo_model_batch){.packed = &p->packed}, pass));
    return g;
}

/* Every attention that draws from data sees the pack, in the order of the graph. */
static inline void calibrate_translator(bo_context *context, bo_model *model, const pack *p)
{
    size_t places = bo_model_place(&model->desc, BO_MODEL_PART_END);
    bo_calibration **calibrations = calloc(places, sizeof *calibrations);
    bo_graph_pass pass = {0};
    const bo_calibrating calibrating = {calibrations, model->attentions};
    bo_model_graph g = pack_graph(context, model, p, &(bo_model_graph_desc){.loss = true}, &pass);
    for (size_t i = 0; i < places; i++) {
        const bo_attention_desc *desc = model->attentions[i] ? bo_attention_describe(model->attentions[i]) : NULL;
        if (desc && (desc->proposal != BO_PROPOSAL_NONE || desc->features.sampling == BO_SAMPLING_OPTIMAL))
            assert_ok(context, bo_calibration_create(context, model->attentions[i], 0, &calibrations[i]));
    }
    assert_ok(context, bo_graph_calibrate(context, g.graph, &pass, &calibrating));
    for (size_t i = 0; i < places; i++) bo_calibration_destroy(calibrations[i]);
    bo_model_graph_destroy(&g);
    free(calibrations);
}

static inline bo_model *translator(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    pack p;
    pack_create(&p);
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    shake(context, model);
    calibrate_translator(context, model, &p);
    return model;
}

/* Source s of the pack. */
static inline bo_text_view pack_source(const pack *p, size_t source)
{
    size_t at = 0;
    for (size_t s = 0; s < source; s++) at += source_lengths[s];
    return (bo_text_view){p->packed.source.tokens + at, source_lengths[source]};
}

#endif
