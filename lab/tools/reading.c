#include "reading.h"
#include "../../src/model/model.h"
#include <math.h>

static bo_status build(lab_run *run, const bo_model *model, const lab_reading *reading, lab_reader *r)
{
    bo_context *context = lab_context(run);
    r->context = model->desc.context;
    r->rows = (reading->windows ? reading->windows : 1) * r->context;
    r->parts = 1 + 2 * model->desc.layers;
    r->positions = bo_alloc(context, r->rows, sizeof *r->positions, "the positions of a text");
    if (reading->stream) r->stream = bo_alloc(context, r->parts, sizeof *r->stream, "the parts of a model");
    r->graph = bo_alloc(context, 1, sizeof *r->graph, "the graph of a model");
    if (!r->positions || !r->graph || (reading->stream && !r->stream)) return BO_MEMORY;
    const bo_model_graph_desc desc = {.rows = r->rows,
                                      .tokens = r->context,
                                      .outputs = reading->logits || !reading->stream,
                                      .chosen = r->rows,
                                      .stream = r->stream,
                                      .attentions = reading->attentions};
    BO_TRY(bo_model_graph_create(context, model, &desc, r->graph));
    return bo_graph_allocate(context, r->graph->graph);
}

bo_status lab_reader_open(lab_run *run, const bo_model *model, const lab_reading *reading, lab_reader *out)
{
    *out = (lab_reader){0};
    const bo_status status = build(run, model, reading, out);
    if (status != BO_OK) lab_reader_close(out);
    return status;
}

void lab_reader_close(lab_reader *reader)
{
    if (reader->graph) bo_model_graph_destroy(reader->graph);
    bo_free(reader->graph);
    bo_free(reader->stream);
    bo_free(reader->positions);
    *reader = (lab_reader){0};
}

bo_status lab_reader_read(lab_run *run, lab_reader *reader, const int32_t *ids, int32_t first)
{
    bo_context *context = lab_context(run);
    const bo_model_graph *g = reader->graph;
    for (size_t i = 0; i < reader->rows; i++) reader->positions[i] = first + (int32_t)(i % reader->context);
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, ids));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, reader->positions));
    return bo_graph_run(context, g->graph, NULL);
}

bo_status lab_reader_logits(lab_run *run, lab_reader *reader, float *out)
{
    return bo_graph_read(lab_context(run), reader->graph->graph, reader->graph->outputs, out);
}

bo_status lab_reader_part(lab_run *run, lab_reader *reader, size_t part, float *out)
{
    return bo_graph_read(lab_context(run), reader->graph->graph, reader->stream[part], out);
}

bo_status lab_reader_held_out(lab_run *run, const lab_reader *reader, const lab_text *text, uint64_t at, int32_t *ids)
{
    const uint64_t position_count = bo_corpus_tokens(text->valid) - reader->context + 1;
    for (size_t i = 0; i < reader->rows; i += reader->context)
        BO_TRY(bo_corpus_read(lab_context(run), text->valid, (at + i) % position_count, reader->context, ids + i));
    return BO_OK;
}

size_t lab_reader_vocab(const lab_reader *reader)
{
    return bo_graph_columns(reader->graph->graph, reader->graph->outputs);
}

double lab_reader_loss(const lab_reader *reader, const float *logits, const int32_t *ids)
{
    const size_t vocab = lab_reader_vocab(reader);
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < reader->rows; i++) {
        const float *l = logits + i * vocab;
        double total = 0;
        if (i % reader->context == reader->context - 1) continue;
        for (size_t c = 0; c < vocab; c++) total += exp((double)l[c] - (double)l[0]);
        sum += log(total) + (double)l[0] - (double)l[ids[i + 1]];
        count++;
    }
    return sum / (double)count;
}
