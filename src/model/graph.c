/* A model as a graph: a stack of layers, a norm, and logits or their loss, for each task; and writing packs of texts
 * into the graph. */
#include <math.h>
#include "stack.h"
#include "teacher.h"

static bo_value index_input(bo_graph *graph, const char *name, size_t rows)
{
    return bo_graph_input(graph, name, BO_ELEMENT_INT32, rows, 1);
}

static bo_value choose(bo_graph *graph, bo_value which, bo_value x)
{
    return bo_graph_one(graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){which, x});
}

/* ====================================================================================================================
 * Language models. */

/* Declares `prefix`.weight (rows x width), whose products with a vector are `rows` logits. */
static bo_value head_weight(const bo_stack *s, const char *prefix, size_t rows)
{
    const bo_model_desc *d = s->desc;
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_weight_desc weight = {.name = name.text,
                             .rank = 2,
                             .shape = (size_t[]){rows, d->width},
                             .role = BO_WEIGHT_ROLE_HEAD,
                             .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / sqrt((double)d->width)}};
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) weight.init.b = 1, weight.scale = 1 / (double)d->width;
    return bo_graph_weight(s->graph, &weight);
}

/* Returns the matrix of the output projection: the embedding, or a separate matrix. */
static bo_value head(const bo_stack *s)
{
    const bo_model_desc *d = s->desc;
    bo_weight_desc tied = {.name = "model.embed_tokens.weight",
                           .rank = 2,
                           .shape = (size_t[]){d->vocab, d->width},
                           .role = BO_WEIGHT_ROLE_EMBEDDING,
                           .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = BO_STACK_TIED}};
    return d->untied ? head_weight(s, "lm_head", d->vocab) : bo_graph_weight(s->graph, &tied);
}

/* Returns the scale of the logits. A table that is also the embedding follows the rule of embeddings (its steps do not
 * shrink with the width), so the factor of a separate output matrix is applied here. */
static double logit_scale(const bo_stack *s, bo_value matrix)
{
    const bo_weight *w = bo_graph_weight_of(s->graph, matrix);
    if (!w) return 1;
    return s->desc->untied ? w->scale : 1 / w->out;
}

/* Returns the logits of the rows of x. */
static bo_stack_head head_of(const bo_stack *s, bo_value x)
{
    const bo_model_desc *d = s->desc;
    bo_stack_head out = {.x = bo_stack_last_norm(s, "model.norm", x), .matrix = head(s)};
    out.scale = logit_scale(s, out.matrix) * d->logit_scale;
    if (d->head_bias) out.bias = bo_nn_vector(s->graph, "lm_head", ".bias", d->vocab, (bo_weight_init){0});
    return out;
}

static void record_loss(const bo_stack *s, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    const size_t scored = desc->scored ? desc->scored : desc->rows;
    bo_value taught = out->taught;
    if (scored != desc->rows) {
        out->chosen = index_input(s->graph, "chosen", scored);
        x = choose(s->graph, out->chosen, x);
        if (taught) taught = choose(s->graph, out->chosen, taught);
    }
    bo_stack_head head = head_of(s, x);
    out->targets = index_input(s->graph, "targets", scored);
    if (taught) head.taught = bo_stack_last_norm(s, "model.norm", taught), head.share = desc->share;
    bo_stack_loss(s, &head, out->targets, desc->smoothing, out);
}

static void record_logits(const bo_stack *s, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    const size_t chosen = desc->chosen ? desc->chosen : 1;
    if (chosen != desc->rows) {
        out->chosen = index_input(s->graph, "chosen", chosen);
        x = choose(s->graph, out->chosen, x);
    }
    bo_stack_head head = head_of(s, x);
    bo_stack_logits(s, &head, out);
}

static void finish(const bo_stack *stack, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    bo_graph_scope(stack->graph, "output");
    if (desc->loss) record_loss(stack, desc, out, x);
    if (desc->outputs) record_logits(stack, desc, out, x);
    if (desc->hidden) {
        out->hidden = bo_stack_last_norm(stack, "model.norm", x);
        bo_graph_keep(stack->graph, out->hidden);
    }
}

static void record_language(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    bo_stack stack = bo_stack_of(model, desc, out);
    if (desc->imitate) bo_teacher_record(out->teacher, &stack, desc->imitate, out);
    if (desc->imitate == BO_IMITATION_ATTENTION) return;
    finish(&stack, desc, out, bo_stack_record(&stack, bo_stack_embed(&stack, out->tokens)));
}

/* ====================================================================================================================
 * Classification as a graph: an encoder, the final norm, each text pooled to one vector, and a matrix that computes
 * one logit per class. For pairs of texts, the two vectors are combined first.
 *
 *     model.…              as in a language model
 *     score.weight         classes x width
 *     match.weight, .bias  applied to [u, v, u ∘ v, u - v] (MATCH) */

typedef struct labeling {
    const bo_model *model;
    bo_stack stack;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
} labeling;

static size_t texts_of(const labeling *r)
{
    const bool pairs = r->stack.desc->task == BO_MODEL_TASK_MATCH && r->desc->half != BO_HALF_SOURCE;
    return r->desc->examples * (pairs ? 2 : 1);
}

/* Norms act on single rows, so only the rows that are pooled are normalized. */
static bo_value pool(const labeling *r, bo_value x)
{
    const bo_pooling pooling = r->stack.desc->pooling;
    bo_model_graph *out = r->out;
    bo_graph_scope(r->stack.graph, "pooling");
    if (pooling == BO_POOLING_FIRST || pooling == BO_POOLING_LAST) {
        out->places = index_input(r->stack.graph, "places", texts_of(r));
        return bo_stack_last_norm(&r->stack, "model.norm", choose(r->stack.graph, out->places, x));
    }
    out->first = index_input(r->stack.graph, "first", texts_of(r) + 1);
    out->places = index_input(r->stack.graph, "places", r->desc->rows);
    bo_aggregate_layer layer = {.kind = pooling == BO_POOLING_MAX ? BO_AGGREGATE_MAX : BO_AGGREGATE_MEAN};
    return bo_nn_aggregate(r->stack.graph, bo_stack_last_norm(&r->stack, "model.norm", x),
                           &(bo_edges){out->first, out->places}, &layer);
}

static bo_value encode_texts(labeling *r)
{
    r->stack = bo_stack_of(r->model, r->desc, r->out);
    if (bo_model_alternates(r->stack.desc))
        r->stack.reversal = r->out->reversal = index_input(r->stack.graph, "reversal", r->desc->rows);
    return pool(r, bo_stack_record(&r->stack, bo_stack_embed(&r->stack, r->out->tokens)));
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static bo_value compare(const labeling *r, bo_value pooled)
{
    bo_value *sides = r->out->sides;
    bo_graph_scope(r->stack.graph, "match");
    sides[0] = index_input(r->stack.graph, "left", r->desc->examples);
    sides[1] = index_input(r->stack.graph, "right", r->desc->examples);
    return bo_nn_pair(r->stack.graph, "match", choose(r->stack.graph, sides[0], pooled),
                      choose(r->stack.graph, sides[1], pooled), r->stack.desc->width);
}

static void label(const labeling *r, bo_value x)
{
    const bo_stack *stack = &r->stack;
    const bo_model_desc *d = stack->desc;
    if (d->task == BO_MODEL_TASK_MATCH) x = compare(r, x);
    bo_graph_scope(stack->graph, "output");
    x = bo_nn_dropout(stack->graph, x, d->dropout, BO_STACK_POOLED_STREAM);
    bo_stack_head head = {.x = x, .matrix = head_weight(stack, "score", d->classes)};
    const bo_weight *score = bo_graph_weight_of(stack->graph, head.matrix);
    head.scale = score ? score->scale : 1;
    if (r->desc->outputs) bo_stack_logits(stack, &head, r->out);
    if (!r->desc->loss) return;
    r->out->targets = index_input(r->stack.graph, "targets", r->desc->examples);
    bo_stack_loss(stack, &head, r->out->targets, r->desc->smoothing, r->out);
}

static void record_labels(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    labeling r = {.model = model, .stack = {.graph = out->graph, .desc = &model->desc}, .desc = desc, .out = out};
    if (desc->half == BO_HALF_TARGET)
        out->summary = bo_graph_input(out->graph, "pooled", BO_ELEMENT_FLOAT32, texts_of(&r), model->desc.width);
    bo_value pooled = desc->half == BO_HALF_TARGET ? out->summary : encode_texts(&r);
    if (desc->half != BO_HALF_SOURCE) {
        label(&r, pooled);
    } else {
        out->summary = pooled;
        bo_graph_keep(out->graph, pooled);
    }
}

/* ====================================================================================================================
 * A translator as a graph: an encoder of the source, and a decoder of the target. The decoder attends to the source
 * in every layer, between mixer and MLP, or it receives a single summary vector.
 *
 *     model.embed_tokens                     of source and target; if tied, also of the output
 *     model.encoder.layers.i, .norm          the encoder
 *     model.layers.i.encoder_attn, .encoder_attn_layer_norm      cross attention
 *     model.summary                          adds the summary to the embedding of the target */

typedef struct translating {
    const bo_model *model;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
    bo_attention *const *attentions; /* by place */
} translating;

/* ---- encoder ----------------------------------------------------------------------------------------------------- */

static bo_value encode_source(const translating *r)
{
    const bo_model_desc *d = &r->model->desc;
    bo_model_graph *out = r->out;
    size_t rows = r->desc->source_rows;
    size_t first = bo_model_place(d, BO_MODEL_PART_ENCODER);
    bo_stack stack = {.graph = out->graph,
                      .desc = d,
                      .root = "model.encoder",
                      .layers = d->encoder_layers,
                      .attentions = r->attentions + first,
                      .mlp_maps = r->model->mlp_maps ? r->model->mlp_maps + first : NULL,
                      .mlp_layers = r->model->mlp_layers + first,
                      .number = first,
                      .tokens = r->desc->source_tokens,
                      .max_sequences = r->desc->max_sequences,
                      .source = true};
    out->source_tokens = index_input(r->out->graph, "source tokens", rows);
    if (bo_stack_has_positions(d))
        stack.positions = out->source_positions = index_input(r->out->graph, "source positions", rows);
    if (bo_model_alternates(d))
        stack.reversal = out->source_reversal = index_input(r->out->graph, "source reversal", rows);
    bo_value x = bo_stack_record(&stack, bo_stack_embed(&stack, out->source_tokens));
    bo_graph_scope(out->graph, "encoder output");
    return bo_stack_last_norm(&stack, "model.encoder.norm", x);
}

/* ---- input of the decoder from the encoder ----------------------------------------------------------------------- */

typedef struct cross_source {
    const translating *r;
    bo_value encoded; /* 0: the states contain the source */
} cross_source;

/* *block is set to the block of the result */
static bo_branch cross_branch(const translating *r, size_t layer, bo_block *block)
{
    const bo_model_desc *d = &r->model->desc;
    const size_t place = bo_model_place(d, BO_MODEL_PART_CROSS) + layer;
    bo_branch branch = bo_model_branch(d, place, r->attentions[place]);
    *block = bo_model_cross_block(d, layer);
    branch.block = block;
    branch.tokens = r->desc->tokens;
    branch.key_tokens = r->desc->source_tokens;
    branch.max_sequences = r->desc->max_sequences;
    bo_graph_scope(r->out->graph, "layer %zu cross attention", layer);
    return branch;
}

static bo_value record_cross(const bo_stack *stack, size_t layer, const char *prefix, bo_value x, const void *user)
{
    const cross_source *source = user;
    bo_block block;
    const bo_branch desc = cross_branch(source->r, layer, &block);
    bo_value normed = bo_stack_norm(stack, layer, bo_nn_join(prefix, ".encoder_attn_layer_norm").text, x);
    return bo_nn_cross(stack->graph, bo_nn_join(prefix, ".encoder_attn").text, normed, source->encoded, x, &desc);
}

/* Reads sources into the states of cross attention, layer by layer. */
static void read_source(const translating *r, bo_value encoded)
{
    const bo_model_desc *d = &r->model->desc;
    r->out->queries =
        bo_graph_input(r->out->graph, "queries", BO_ELEMENT_FLOAT32, r->desc->rows, d->block.heads * d->block.head_dim);
    for (size_t i = 0; i < d->layers; i++) {
        char prefix[64];
        bo_block block;
        const bo_branch desc = cross_branch(r, i, &block);
        snprintf(prefix, sizeof prefix, "model.layers.%zu.encoder_attn", i);
        bo_nn_cross_read(r->out->graph, prefix, r->out->queries, encoded, &desc);
    }
}

static bo_value summarize(const translating *r, bo_value encoded)
{
    r->out->sources = index_input(r->out->graph, "sources", r->desc->rows);
    return choose(r->out->graph, r->out->sources, encoded);
}

static bo_value add_summary(const translating *r, bo_value summary, bo_value x)
{
    bo_graph_scope(r->out->graph, "summary");
    bo_linear_layer desc = {.out = r->model->desc.width,
                            .bias = r->model->desc.block.bias,
                            .init = {.kind = BO_WEIGHT_INIT_KIND_ZERO},
                            .residual = x};
    return bo_nn_linear(r->out->graph, "model.summary", summary, &desc);
}

/* ---- decoder ----------------------------------------------------------------------------------------------------- */

/* encoded 0: the decoder attends to sources that were read before. */
static void decode(const translating *r, bo_value encoded)
{
    const bo_model_desc *d = &r->model->desc;
    bo_model_graph *out = r->out;
    cross_source source = {r, encoded};
    bo_stack stack = bo_stack_of(r->model, r->desc, out);
    bo_value x = bo_stack_embed(&stack, out->tokens);
    if (d->cross == BO_CROSS_SUMMARY) {
        if (!encoded) out->summary = bo_graph_input(out->graph, "summary", BO_ELEMENT_FLOAT32, r->desc->rows, d->width);
        x = add_summary(r, encoded ? summarize(r, encoded) : out->summary, x);
    } else {
        stack.between = record_cross;
        stack.user = &source;
    }
    finish(&stack, r->desc, out, bo_stack_record(&stack, x));
}

static void record_translation(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    translating r = {model, desc, out, desc->attentions ? desc->attentions : model->attentions};
    bo_value encoded = desc->half == BO_HALF_TARGET ? 0 : encode_source(&r);
    if (desc->half != BO_HALF_SOURCE) {
        decode(&r, encoded);
    } else if (model->desc.cross != BO_CROSS_SUMMARY) {
        read_source(&r, encoded);
    } else {
        out->summary = summarize(&r, encoded);
        bo_graph_keep(out->graph, out->summary);
    }
}

/* ====================================================================================================================
 * Writing packs into graphs. */

static bo_status write_if(bo_context *context, const bo_model_graph *graph, bo_value input, const int32_t *values)
{
    return input ? bo_graph_write(context, graph->graph, input, values) : BO_OK;
}

/* Finds the start of each of `count` texts and the end of the last one. Missing texts are empty and start at the
 * end. */
static void find_texts(const bo_text_pack *packed, size_t count, int32_t *first)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        first[i] = (int32_t)at;
        if (i < packed->texts) at += packed->stream.lengths[i];
    }
    first[count] = (int32_t)at;
}

/* Finds the rows of the first or last tokens of texts; for missing texts any row. */
static void find_ends(bool last, size_t rows, size_t count, const int32_t *first, int32_t *places)
{
    for (size_t i = 0; i < count; i++) {
        int32_t at = last && first[i + 1] > first[i] ? first[i + 1] - 1 : first[i];
        places[i] = (size_t)at < rows ? at : (int32_t)rows - 1;
    }
}

/* ---- classification ---------------------------------------------------------------------------------------------- */

static bo_status write_pooling(bo_context *context, const bo_model *model, const bo_model_graph *graph,
                               const bo_text_pack *packed)
{
    const size_t rows = packed->stream.rows, texts = packed->max_sequences - 1, max_count = rows > texts ? rows : texts;
    int32_t *first = bo_alloc_raw(context, 2 * max_count + 2, sizeof *first, "the places of texts");
    if (!first) return BO_MEMORY;
    int32_t *places = first + max_count + 1;
    bo_status status = BO_OK;
    find_texts(packed, texts, first);
    if (graph->first) {
        status = bo_graph_write(context, graph->graph, graph->first, first);
        for (size_t i = 0; i < rows; i++) places[i] = (int32_t)i;
    } else {
        find_ends(model->desc.pooling == BO_POOLING_LAST, rows, texts, first, places);
    }
    if (status == BO_OK) status = bo_graph_write(context, graph->graph, graph->places, places);
    bo_free(first);
    return status;
}

bo_status bo_graph_write_sides(bo_context *context, const bo_model_graph *graph, size_t examples)
{
    if (!graph->sides[0]) return BO_OK;
    int32_t *sides = bo_alloc_raw(context, examples, sizeof *sides, "the sides of pairs");
    bo_status status = sides ? BO_OK : BO_MEMORY;
    for (size_t side = 0; side < 2 && status == BO_OK; side++) {
        for (size_t i = 0; i < examples; i++) sides[i] = (int32_t)(2 * i + side);
        status = bo_graph_write(context, graph->graph, graph->sides[side], sides);
    }
    bo_free(sides);
    return status;
}

/* ---- translation ------------------------------------------------------------------------------------------------- */

/* Writes the rows of the sources. Rows of missing sources may refer to any row. */
static bo_status write_sources(bo_context *context, const bo_model_graph *graph, const bo_text_pack *packed)
{
    if (!graph->sources) return BO_OK;
    int32_t *sources = bo_alloc_raw(context, packed->stream.rows, sizeof *sources, "the ends of sources");
    if (!sources) return BO_MEMORY;
    size_t row = 0, end = 0;
    for (size_t s = 0; s < packed->sequences; s++) {
        end += packed->source.lengths[s];
        for (size_t i = 0; i < packed->stream.lengths[s]; i++) sources[row++] = end ? (int32_t)end - 1 : 0;
    }
    bo_status status = bo_graph_write(context, graph->graph, graph->sources, sources);
    bo_free(sources);
    return status;
}

static bo_status write_source(bo_context *context, const bo_model_graph *graph, const bo_text_pack *packed)
{
    const bo_packed_stream *source = &packed->source;
    BO_TRY(write_if(context, graph, graph->source_tokens, source->tokens));
    BO_TRY(write_if(context, graph, graph->source_positions, source->positions));
    BO_TRY(write_if(context, graph, graph->source_reversal, source->reversal));
    return write_sources(context, graph, packed);
}

static bo_status write_pack(bo_context *context, const bo_model *model, const bo_model_graph *graph,
                            const bo_text_pack *packed, bo_graph_pass *pass)
{
    const bo_packed_stream *stream = &packed->stream;
    const bool translates = model->desc.task == BO_MODEL_TASK_TRANSLATE;
    BO_TRY(bo_graph_write(context, graph->graph, graph->tokens, stream->tokens));
    BO_TRY(write_if(context, graph, graph->positions, stream->positions));
    BO_TRY(write_if(context, graph, graph->reversal, stream->reversal));
    BO_TRY(write_if(context, graph, graph->targets, translates ? packed->targets : packed->labels));
    if (graph->places) BO_TRY(write_pooling(context, model, graph, packed));
    BO_TRY(bo_graph_write_sides(context, graph, packed->max_examples));
    if (translates) BO_TRY(write_source(context, graph, packed));
    if (!packed->sequences) return BO_OK;
    pass->sequences = packed->sequences;
    pass->lengths = stream->lengths;
    pass->source_lengths = translates ? packed->source.lengths : NULL;
    return BO_OK;
}

bo_status bo_model_graph_fill(bo_context *context, const bo_model *model, bo_model_graph *graph,
                              const bo_model_batch *batch, bo_graph_pass *pass)
{
    if (batch->packed) return write_pack(context, model, graph, batch->packed, pass);
    return bo_network_graph_fill(context, model->network, graph, batch->examples, batch->rows);
}

bo_status bo_model_graph_compute(bo_context *context, const bo_model *model, bo_model_graph *graph,
                                 const bo_model_batch *batch, bo_value value, float *out)
{
    bo_graph_pass pass = {0};
    BO_TRY(bo_model_graph_fill(context, model, graph, batch, &pass));
    BO_TRY(bo_graph_run(context, graph->graph, &pass));
    return bo_graph_read(context, graph->graph, value, out);
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out)
{
    static void (*const record[])(const bo_model *, const bo_model_graph_desc *,
                                  bo_model_graph *) = {[BO_MODEL_TASK_LANGUAGE] = record_language,
                                                       [BO_MODEL_TASK_CLASSIFY] = record_labels,
                                                       [BO_MODEL_TASK_MATCH] = record_labels,
                                                       [BO_MODEL_TASK_TRANSLATE] = record_translation};
    *out = (bo_model_graph){0};
    if (desc->rows) BO_TRY(bo_model_require_text(context, model, "a graph of tokens"));
    if (!desc->rows && !(model->network && desc->examples))
        return bo_fail(context, BO_INVALID, "the graph of a model needs at least one %s",
                       model->network ? "example" : "token");
    if (desc->imitate) BO_TRY(bo_teacher_create(context, model, &out->teacher));
    bo_status status = bo_graph_create(context, model->weights, &out->graph);
    if (status != BO_OK) {
        bo_model_graph_destroy(out);
        return status;
    }
    if (model->network)
        status = bo_network_graph_record(model, desc, out);
    else
        record[model->desc.task](model, desc, out);
    bo_graph_compile_desc plan = {
        .loss = out->loss, .gradients = desc->gradients, .checkpoint = desc->checkpoint, .bfloat16 = desc->bfloat16};
    if (status == BO_OK)
        status = desc->declares ? bo_graph_check(context, out->graph) : bo_graph_compile(context, out->graph, &plan);
    if (status != BO_OK) bo_model_graph_destroy(out);
    return status;
}

void bo_model_graph_destroy(bo_model_graph *graph)
{
    bo_graph_destroy(graph->graph);
    bo_teacher_destroy(graph->teacher);
    bo_network_inputs_release(&graph->network);
    *graph = (bo_model_graph){0};
}
