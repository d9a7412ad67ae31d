/* Making an optimizer: one piece of device memory for all states, one of the host for their names. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an optimizer over these weights needs. */
typedef struct needs {
    size_t parts, states, matrices;
    size_t floats, names; /* of the states, and bytes of their names */
    size_t scratch;
} needs;

static needs count_needs(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights)
{
    const bo_updates *updates = bo_weights_backend(weights)->updates;
    needs n = {0};
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_optim_part part;
        const bo_weight *weight = bo_weights_at(weights, i);
        if (!bo_optim_part_make(desc, weight, &part)) continue;
        n.parts++;
        const char *names[BO_MOST_SLOTS + 1];
        size_t states = bo_optim_part_states(desc, &part, names);
        for (size_t s = 0; s < states; s++) n.names += strlen(names[s]) + strlen(weight->name) + 2;
        n.states += states;
        n.floats += states * bo_optim_part_stride(&part);
        if (part.rule != BO_OPTIMIZER_MUON) continue;
        n.matrices++;
        size_t scratch = updates->muon_bytes(context, weight->rows, weight->columns);
        if (scratch > n.scratch) n.scratch = scratch;
    }
    return n;
}

size_t bo_optimizer_bytes(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights)
{
    bo_optimizer_desc resolved;
    if (bo_optimizer_resolve(context, desc, &resolved) != BO_OK) return 0;
    needs n = count_needs(context, &resolved, weights);
    return n.floats * sizeof(float) + n.scratch;
}

static bo_status allocate(bo_context *context, const needs *n, bo_optimizer *o)
{
    static const char what[] = "the state of the optimizer";
    o->part = bo_alloc(context, n->parts, sizeof *o->part, what);
    o->state = bo_alloc(context, n->states, sizeof *o->state, what);
    o->matrix = bo_alloc(context, n->matrices, sizeof *o->matrix, what);
    o->names = bo_alloc(context, n->names, 1, what);
    if (!o->part || !o->state || !o->matrix || !o->names) return BO_MEMORY;
    o->memory = o->backend->allocate(context, n->floats * sizeof(float), what);
    if (!o->memory) return BO_MEMORY;
    o->scratch = o->backend->allocate(context, n->scratch, "Muon's matrices");
    return o->scratch ? BO_OK : BO_MEMORY;
}

/* Largest first, so that threads end together; equal ones in the order of the weights. */
static int by_work(const void *left, const void *right)
{
    const bo_muon_matrix *a = left, *b = right;
    double small_a = (double)(a->rows < a->columns ? a->rows : a->columns);
    double small_b = (double)(b->rows < b->columns ? b->rows : b->columns);
    double work_a = small_a * (double)a->rows * (double)a->columns;
    double work_b = small_b * (double)b->rows * (double)b->columns;
    if (work_a != work_b) return work_a > work_b ? -1 : 1;
    return a->w < b->w ? -1 : a->w > b->w;
}

static void add_matrix(bo_optimizer *o, const bo_optim_part *part)
{
    o->matrix[o->matrices++] = (bo_muon_matrix){
        .rows = part->weight->rows,
        .columns = part->weight->columns,
        .factor = bo_optim_part_shape_factor(&o->desc, part),
        .g = part->weight->gradient,
        .m = part->state[0],
        .w = part->weight->data,
    };
}

/* Gives the part its states, of which `floats` and `letters` are used up to here. */
static void add_states(bo_optimizer *o, bo_optim_part *part, size_t *floats, size_t *letters)
{
    const char *names[BO_MOST_SLOTS + 1];
    size_t states = bo_optim_part_states(&o->desc, part, names), rules = states - (o->desc.average > 0);
    for (size_t s = 0; s < states; s++) {
        char *name = o->names + *letters;
        *letters += (size_t)sprintf(name, "%s.%s", names[s], part->weight->name) + 1;
        void *data = (float *)o->memory + *floats;
        *floats += bo_optim_part_stride(part);
        *(s < rules ? &part->state[s] : &part->average) = data;
        o->state[o->states++] = (bo_optimizer_state){name, data, bo_optim_part_count(part)};
    }
}

static bo_status fill(bo_context *context, bo_weights *weights, bo_optimizer *o)
{
    size_t floats = 0, letters = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_optim_part *part = &o->part[o->parts];
        const bo_weight *weight = bo_weights_at(weights, i);
        bo_optim_part found;
        if (!bo_optim_part_make(&o->desc, weight, &found)) continue;
        if (!weight->data || !weight->gradient)
            return bo_fail(context, BO_INVALID, "weight %s has no memory for its gradient", weight->name);
        *part = found;
        o->parts++;
        add_states(o, part, &floats, &letters);
        if (part->rule == BO_OPTIMIZER_MUON) add_matrix(o, part);
    }
    qsort(o->matrix, o->matrices, sizeof *o->matrix, by_work);
    return BO_OK;
}

/* Unit scale says nothing of rates for steps that grow with the gradient. */
static bo_status check_parametrization(bo_context *context, bo_optimizer_kind kind, const bo_rules *rules)
{
    bool grows = kind == BO_OPTIMIZER_SGD || kind == BO_OPTIMIZER_LINF;
    if (rules->kind != BO_PARAMETRIZATION_UNIT || !grows) return BO_OK;
    return bo_fail(
        context, BO_INVALID,
        "optimizer %s: the unit-scaled parametrization has rates for muon, adamw and sign, whose steps do not "
        "depend on the size of the gradient",
        bo_optimizer_name(kind));
}

bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                              bo_optimizer **out)
{
    *out = NULL;
    bo_optimizer_desc resolved;
    BO_TRY(bo_optimizer_resolve(context, desc, &resolved));
    BO_TRY(check_parametrization(context, resolved.kind, bo_weights_rules(weights)));
    bo_optimizer *o = bo_alloc(context, 1, sizeof *o, "an optimizer");
    if (!o) return BO_MEMORY;
    o->desc = resolved;
    o->backend = bo_weights_backend(weights);
    o->gradient_scale = bo_weights_rules(weights)->gradient_scale;
    needs n = count_needs(context, &resolved, weights);
    bo_status status = n.parts > 0 ? BO_OK : bo_fail(context, BO_INVALID, "there is no weight to train");
    if (status == BO_OK) status = allocate(context, &n, o);
    if (status == BO_OK) status = fill(context, weights, o);
    if (status != BO_OK) {
        bo_optimizer_destroy(o);
        return status;
    }
    *out = o;
    return BO_OK;
}

void bo_optimizer_destroy(bo_optimizer *o)
{
    if (!o) return;
    if (o->memory) o->backend->release(o->memory);
    if (o->scratch) o->backend->release(o->scratch);
    bo_free(o->names);
    bo_free(o->matrix);
    bo_free(o->state);
    bo_free(o->part);
    bo_free(o);
}

const bo_optimizer_desc *bo_optimizer_describe(const bo_optimizer *optimizer)
{
    return &optimizer->desc;
}

size_t bo_optimizer_states(const bo_optimizer *optimizer)
{
    return optimizer->states;
}

bo_optimizer_state bo_optimizer_state_at(const bo_optimizer *optimizer, size_t index)
{
    return optimizer->state[index];
}

uint64_t bo_optimizer_steps(const bo_optimizer *optimizer)
{
    return optimizer->steps;
}

void bo_optimizer_set_steps(bo_optimizer *optimizer, uint64_t steps)
{
    optimizer->steps = steps;
}
