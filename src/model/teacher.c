/* Recording a teacher and its student. */
#include "teacher.h"
#include <string.h>

/* Invariant: attentions has one entry per layer of desc. */
struct bo_teacher {
    bo_model_desc desc;
    bo_attention **attentions;
    const bo_model *student;
    bo_value *errors; /* one per layer that is compared, in order */
    size_t count;
};

bo_status bo_teacher_create(bo_context *context, const bo_model *model, bo_teacher **out)
{
    if (!bo_model_is_linearized(&model->desc))
        return bo_fail(context, BO_INVALID, "imitation: the model is not linearized, so it has no teacher");
    bo_teacher *teacher = bo_alloc(context, 1, sizeof *teacher, "a teacher");
    if (!teacher) return BO_MEMORY;
    teacher->student = model;
    teacher->errors = bo_alloc(context, model->desc.layers, sizeof *teacher->errors, "a teacher");
    bo_status status = teacher->errors ? bo_model_original(context, &model->desc, &teacher->desc) : BO_MEMORY;
    if (status == BO_OK) status = bo_attentions_create(context, &teacher->desc, 0, 0, &teacher->attentions);
    if (status != BO_OK) {
        bo_teacher_destroy(teacher);
        return status;
    }
    *out = teacher;
    return BO_OK;
}

void bo_teacher_destroy(bo_teacher *teacher)
{
    if (!teacher) return;
    bo_attentions_destroy(teacher->attentions, &teacher->desc);
    bo_model_desc_release(&teacher->desc);
    bo_free(teacher->errors);
    bo_free(teacher);
}

/* Records the student's attention of a layer, and its error relative to the teacher's contribution to the residual
 * stream. Biases of the output projection cancel and are omitted. */
static void compare(const bo_stack *stack, size_t layer, const char *prefix, bo_value normed,
                    const bo_attention_values *values, void *observer)
{
    bo_teacher *teacher = observer;
    const bo_model *student = teacher->student;
    const bo_model_desc *d = &student->desc;
    if (!bo_block_replaces(bo_model_block(d, layer))) return;
    const bo_branch teacher_branch = bo_model_branch(stack->desc, layer, teacher->attentions[layer]);
    bo_branch student_branch = bo_model_branch(d, layer, student->attentions[layer]);
    student_branch.tokens = stack->tokens;
    student_branch.max_sequences = stack->max_sequences;
    bo_graph_scope(stack->graph, "layer %zu imitation", layer);
    const bo_value expected = bo_nn_projected(stack->graph, prefix, values->out, d->width, &teacher_branch);
    const bo_value out = bo_nn_attend_given(stack->graph, prefix, normed, values, &student_branch);
    const bo_value found = bo_nn_projected(stack->graph, prefix, out, d->width, &student_branch);
    teacher->errors[teacher->count++] = bo_graph_loss(stack->graph, BO_LOSS_KIND_RELATIVE, found, expected);
}

static void finish(bo_teacher *teacher, bo_graph *graph, bo_model_graph *out)
{
    bo_value sum = teacher->errors[0];
    for (size_t i = 1; i < teacher->count; i++)
        sum = bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){sum, teacher->errors[i]});
    out->loss = bo_graph_scale(graph, sum, 1 / (double)teacher->count);
    out->losses = teacher->count > 1 ? bo_graph_concat(graph, teacher->count, teacher->errors) : out->loss;
    bo_graph_keep(graph, out->loss);
    bo_graph_keep(graph, out->losses);
}

void bo_teacher_record(bo_teacher *teacher, const bo_stack *student, bo_imitation imitate, bo_model_graph *out)
{
    bo_stack stack = *student;
    stack.desc = &teacher->desc;
    stack.attentions = teacher->attentions;
    stack.watched = NULL;
    stack.values = NULL;
    teacher->count = 0;
    if (imitate == BO_IMITATION_ATTENTION) stack.observe = compare, stack.observer = teacher;
    bo_graph_set_plain(stack.graph, true);
    const bo_value x = bo_stack_record(&stack, bo_stack_embed(&stack, out->tokens));
    bo_graph_set_plain(stack.graph, false);
    bo_graph_restart_branches(stack.graph);
    if (imitate == BO_IMITATION_LOGITS)
        out->taught = x;
    else
        finish(teacher, stack.graph, out);
}
