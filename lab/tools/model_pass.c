#include "model_pass.h"
#include "../../src/model/model.h"

bo_weights *lab_model_weights(const bo_model *model)
{
    return model->weights;
}

bo_status lab_model_redraw(bo_context *context, bo_model *model, uint64_t seed)
{
    for (size_t i = 0; i < model->desc.layers; i++) BO_TRY(bo_attention_redraw(context, model->attentions[i], seed));
    return BO_OK;
}

struct lab_model_pass {
    const bo_model *model;
    bo_model_graph graph;
    size_t tokens;
    int32_t *places;
};

static bo_status build(bo_context *context, lab_model_pass *p)
{
    const bo_model_graph_desc desc = {.rows = p->tokens, .loss = true, .gradients = true};
    p->places = bo_alloc(context, p->tokens, sizeof *p->places, "the positions of a pass");
    if (!p->places) return BO_MEMORY;
    for (size_t i = 0; i < p->tokens; i++) p->places[i] = (int32_t)i;
    BO_TRY(bo_model_graph_create(context, p->model, &desc, &p->graph));
    BO_TRY(bo_weights_allocate(context, p->model->weights, true));
    return bo_graph_allocate(context, p->graph.graph);
}

bo_status lab_model_pass_open(bo_context *context, const bo_model *model, size_t tokens, lab_model_pass **out)
{
    *out = NULL;
    lab_model_pass *pass = bo_alloc(context, 1, sizeof *pass, "a pass over a model");
    if (!pass) return BO_MEMORY;
    pass->model = model;
    pass->tokens = tokens;
    const bo_status status = build(context, pass);
    if (status == BO_OK)
        *out = pass;
    else
        lab_model_pass_close(pass);
    return status;
}

void lab_model_pass_close(lab_model_pass *pass)
{
    if (!pass) return;
    bo_model_graph_destroy(&pass->graph);
    bo_free(pass->places);
    bo_free(pass);
}

bo_status lab_model_pass_run(bo_context *context, lab_model_pass *pass, const int32_t *ids, const int32_t *targets,
                             double scale)
{
    const bo_model_graph *g = &pass->graph;
    BO_TRY(bo_weights_zero_gradients(context, pass->model->weights));
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, ids));
    BO_TRY(bo_graph_write(context, g->graph, g->targets, targets));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, pass->places));
    return bo_graph_run(context, g->graph, &(bo_graph_pass){.training = true, .loss_scale = (float)scale});
}
