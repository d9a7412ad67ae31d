/* Packs into graphs. */
#include "internal.h"

static bo_status write_if(bo_context *context, const bo_model_graph *graph, bo_value input, const int32_t *values)
{
    return input ? bo_graph_write(context, graph->graph, input, values) : BO_OK;
}

/* Where each of `count` texts begins, and where the last ends; those that are not there are empty, at the end. */
static void find_texts(const bo_text_pack *packed, size_t count, int32_t *first)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        first[i] = (int32_t)at;
        if (i < packed->texts) at += packed->stream.lengths[i];
    }
    first[count] = (int32_t)at;
}

/* Rows of the first or the last tokens of texts; any of what is not there. */
static void find_ends(bool last, size_t rows, size_t count, const int32_t *first, int32_t *places)
{
    for (size_t i = 0; i < count; i++) {
        int32_t at = last && first[i + 1] > first[i] ? first[i + 1] - 1 : first[i];
        places[i] = (size_t)at < rows ? at : (int32_t)rows - 1;
    }
}

/* ---- labels ----------------------------------------------------------------------------------------------------------- */

static bo_status write_pooling(bo_context *context, const bo_model *model, const bo_model_graph *graph,
                               const bo_text_pack *packed)
{
    const size_t rows = packed->stream.rows, texts = packed->most_sequences - 1, most = rows > texts ? rows : texts;
    int32_t *first = bo_alloc_raw(context, 2 * most + 2, sizeof *first, "the places of texts");
    if (!first) return BO_MEMORY;
    int32_t *places = first + most + 1;
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

/* ---- translations ------------------------------------------------------------------------------------------------------- */

/* Rows of sources that are not there ask any. */
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

bo_status bo_model_graph_fill(bo_context *context, const bo_model *model, const bo_model_graph *graph,
                              const bo_text_pack *packed, bo_pass *pass)
{
    const bo_packed_stream *stream = &packed->stream;
    const bool translates = model->desc.task == BO_MODEL_TRANSLATE;
    BO_TRY(bo_graph_write(context, graph->graph, graph->tokens, stream->tokens));
    BO_TRY(write_if(context, graph, graph->positions, stream->positions));
    BO_TRY(write_if(context, graph, graph->reversal, stream->reversal));
    BO_TRY(write_if(context, graph, graph->targets, translates ? packed->targets : packed->labels));
    if (graph->places) BO_TRY(write_pooling(context, model, graph, packed));
    BO_TRY(bo_graph_write_sides(context, graph, packed->most));
    if (translates) BO_TRY(write_source(context, graph, packed));
    pass->sequences = packed->sequences;
    pass->lengths = stream->lengths;
    pass->source_lengths = translates ? packed->source.lengths : NULL;
    return BO_OK;
}
