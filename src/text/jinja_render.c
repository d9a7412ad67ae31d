/* Rendering: the statements of a template in order. */
#include "jinja_run.h"

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* The items of a loop: all items, or the items for which its condition holds, in a separate scope. */
static bo_status loop_items(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_list **out)
{
    bo_jinja_value over, kept;
    bo_jinja_list *all;
    bo_jinja_frame *before = run->frame;
    BO_TRY(bo_jinja_evaluate(run, node->first, &over));
    BO_TRY(bo_jinja_iterate(run, &over, &all));
    *out = all;
    if (!node->second) return BO_OK;
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, &kept));
    BO_TRY(bo_jinja_open_frame(run, before));
    for (size_t i = 0; i < all->count; i++) {
        bo_jinja_value holds;
        BO_TRY(bo_jinja_assign_target(run, node->target, all->items[i]));
        BO_TRY(bo_jinja_evaluate(run, node->second, &holds));
        if (bo_jinja_true(&holds)) BO_TRY(bo_jinja_list_add(run, kept.list, all->items[i]));
    }
    run->frame = before;
    *out = kept.list;
    return BO_OK;
}

/* Each iteration has its own scope, so its variables are lost at the end. */
static bo_status run_for(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_flow *outer)
{
    bo_jinja_frame *before = run->frame;
    bo_jinja_list *items;
    bo_jinja_loop *loop = bo_jinja_alloc(&run->arena, 1, sizeof *loop);
    bo_jinja_flow how = BO_JINJA_GO_ON;
    if (!loop) return BO_MEMORY;
    BO_TRY(loop_items(run, node, &items));
    *loop = (bo_jinja_loop){.items = items};
    for (; loop->index < items->count && how != BO_JINJA_STOP; loop->index++) {
        const bo_jinja_value value = {.kind = BO_JINJA_LOOP, .loop = loop};
        how = BO_JINJA_GO_ON;
        BO_TRY(bo_jinja_open_frame(run, before));
        BO_TRY(bo_jinja_assign(run, "loop", 4, value));
        BO_TRY(bo_jinja_assign_target(run, node->target, items->items[loop->index]));
        BO_TRY(bo_jinja_run_statements(run, node->body, &how));
    }
    run->frame = before;
    if (items->count > 0 || !node->else_branch) return BO_OK;
    BO_TRY(bo_jinja_open_frame(run, before));
    BO_TRY(bo_jinja_run_statements(run, node->else_branch, outer));
    run->frame = before;
    return BO_OK;
}

static bo_status run_if(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_flow *how)
{
    for (;;) {
        bo_jinja_value test;
        BO_TRY(bo_jinja_evaluate(run, node->first, &test));
        if (bo_jinja_true(&test)) return bo_jinja_run_statements(run, node->body, how);
        if (!node->else_branch) return BO_OK;
        if (!node->is_chain) return bo_jinja_run_statements(run, node->else_branch, how);
        node = node->else_branch;
    }
}

static bo_status run_set(bo_jinja_run *run, const bo_jinja_node *node)
{
    bo_jinja_value value;
    bo_jinja_frame *before = run->frame;
    if (node->kind == BO_JINJA_SET) {
        BO_TRY(bo_jinja_evaluate(run, node->first, &value));
    } else { /* the block has its own scope */
        BO_TRY(bo_jinja_open_frame(run, before));
        BO_TRY(bo_jinja_capture(run, node->body, &value));
        run->frame = before;
    }
    run->line = node->line;
    return bo_jinja_assign_target(run, node->target, value);
}

static bo_status define_macro(bo_jinja_run *run, const bo_jinja_node *node)
{
    bo_jinja_macro *macro = bo_jinja_alloc(&run->arena, 1, sizeof *macro);
    if (!macro) return BO_MEMORY;
    *macro = (bo_jinja_macro){.node = node, .frame = run->frame};
    return bo_jinja_assign(run, node->name, node->name_length,
                           (bo_jinja_value){.kind = BO_JINJA_MACRO, .macro = macro});
}

static bo_status run_scope(bo_jinja_run *run, const bo_jinja_node *node)
{
    bo_jinja_frame *before = run->frame;
    bo_jinja_flow how = BO_JINJA_GO_ON;
    BO_TRY(bo_jinja_open_frame(run, before));
    BO_TRY(bo_jinja_run_statements(run, node->body, &how));
    run->frame = before;
    return BO_OK;
}

static bo_status run_statement(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_flow *how)
{
    bo_jinja_value value;
    switch (node->kind) {
    case BO_JINJA_OUTPUT:
        return bo_jinja_build(run, run->out, node->name, node->name_length);
    case BO_JINJA_PRINT:
        BO_TRY(bo_jinja_evaluate(run, node->first, &value));
        return bo_jinja_print(run, run->out, &value);
    case BO_JINJA_IF:
        return run_if(run, node, how);
    case BO_JINJA_FOR:
        return run_for(run, node, how);
    case BO_JINJA_SET:
    case BO_JINJA_SET_BLOCK:
        return run_set(run, node);
    case BO_JINJA_DEFINE:
        return define_macro(run, node);
    case BO_JINJA_BREAK:
        *how = BO_JINJA_STOP;
        return BO_OK;
    case BO_JINJA_CONTINUE:
        *how = BO_JINJA_SKIP;
        return BO_OK;
    default:
        return run_scope(run, node);
    }
}

bo_status bo_jinja_run_statements(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_flow *how)
{
    const int depth = run->depth++;
    if (depth >= 2 * BO_JINJA_DEPTH)
        return bo_jinja_fail(run, BO_INVALID, "calls are nested more than %d deep", 2 * BO_JINJA_DEPTH);
    for (; node && *how == BO_JINJA_GO_ON; node = node->next) {
        run->line = node->line;
        BO_TRY(bo_jinja_charge(run, 0));
        BO_TRY(run_statement(run, node, how));
    }
    run->depth = depth;
    return BO_OK;
}

/* The output of statements as a string. */
bo_status bo_jinja_capture(bo_jinja_run *run, const bo_jinja_node *body, bo_jinja_value *out)
{
    bo_jinja_builder text = {0}, *before = run->out;
    bo_jinja_flow how = BO_JINJA_GO_ON;
    run->out = &text;
    const bo_status status = bo_jinja_run_statements(run, body, &how);
    run->out = before;
    if (status == BO_OK) *out = bo_jinja_built(&text);
    return status;
}

/* ---- rendering --------------------------------------------------------------------------------------------------- */

static bo_status set_variables(bo_jinja_run *run, const bo_json *variables, bool marked)
{
    const bo_json *item;
    BO_JSON_EACH(item, variables)
    {
        bo_jinja_value value;
        BO_TRY(bo_jinja_from_json(run, item, marked, &value));
        BO_TRY(bo_jinja_assign(run, item->key, strlen(item->key), value));
    }
    return BO_OK;
}

/* A copy outside of the arena, followed by a NUL. */
static bo_status copy_out(bo_context *context, const void *bytes, size_t count, void **out)
{
    char *copy = *out = bo_alloc(context, count + 1, 1, "the text of a chat template");
    if (!copy) return BO_MEMORY;
    if (count && bytes) memcpy(copy, bytes, count);
    return BO_OK;
}

static bo_status render(bo_jinja_run *run, const bo_jinja_node *tree, const bo_jinja_render_desc *desc, void **text,
                        void **marks)
{
    bo_jinja_flow how = BO_JINJA_GO_ON;
    BO_TRY(bo_jinja_open_frame(run, NULL));
    BO_TRY(set_variables(run, desc->variables, true));
    BO_TRY(set_variables(run, desc->trusted, false));
    BO_TRY(bo_jinja_run_statements(run, tree, &how));
    BO_TRY(copy_out(run->context, run->out->bytes, run->out->length, text));
    return marks ? copy_out(run->context, run->out->marks, run->out->length, marks) : BO_OK;
}

bo_status bo_jinja_render(bo_context *context, const char *where, const bo_jinja_node *tree,
                          const bo_jinja_render_desc *desc, char **out, size_t *bytes, unsigned char **marks)
{
    bo_jinja_builder text = {0};
    bo_jinja_run run = {.context = context,
                        .where = where,
                        .arena = {.context = context, .limit = BO_JINJA_MEMORY},
                        .out = &text,
                        .max_work = desc->max_work ? desc->max_work : BO_JINJA_WORK,
                        .next_report = BO_JINJA_REPORT,
                        .time = desc->time};
    void *copy = NULL, *copied_marks = NULL;
    const bo_status status = render(&run, tree, desc, &copy, marks ? &copied_marks : NULL);
    bo_jinja_release(&run.arena);
    if (status != BO_OK) {
        bo_free(copy);
        copy = NULL;
    }
    *out = copy;
    *bytes = copy ? text.length : 0;
    if (marks) *marks = copied_marks;
    return status;
}
