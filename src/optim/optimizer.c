/* Optimizers: defaults, the update rule of each weight, one block of device memory for all states, and steps. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "enums.h"
#include "../base/trace.h"
#include "internal.h"
#include "optim.h"

/* ====================================================================================================================
 * Names of optimizers, schedules and Muon's choices. */

static const char *const optimizer_names[BO_OPTIMIZER_COUNT] = {"muon", "adamw", "sgd", "sign", "linf"};
static const char *const schedule_names[BO_SCHEDULE_COUNT] = {"cosine", "linear", "wsd", "constant"};
static const char *const factor_names[BO_MUON_FACTOR_COUNT] = {"tall", "spectral", "rms", "none"};
static const char *const iteration_names[BO_MUON_ITERATION_COUNT] = {"quintic", "cubic"};

BO_NAMED(optimizer_kind, bo_optimizer_kind, optimizer_names)
BO_NAMED(schedule_kind, bo_schedule_kind, schedule_names)
BO_NAMED(muon_factor, bo_muon_factor, factor_names)
BO_NAMED(muon_iteration, bo_muon_iteration, iteration_names)

/* ====================================================================================================================
 * Descriptors of optimizers: checked, and with their defaults filled in. */

static const struct defaults {
    double rate, momentum; /* momentum -1: none */
} defaults[BO_OPTIMIZER_COUNT] = {
    [BO_OPTIMIZER_MUON] = {0.02, 0.95}, [BO_OPTIMIZER_ADAMW] = {3e-3, -1}, [BO_OPTIMIZER_SGD] = {0.1, 0.9},
    [BO_OPTIMIZER_SIGN] = {1e-3, 0.9},  [BO_OPTIMIZER_LINF] = {1e-4, -1},
};

static void fill_default(double *field, double default_value)
{
    if (*field == 0) *field = default_value;
}

static bo_status check_kinds(bo_context *context, const bo_optimizer_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_optimizer_desc", desc->reserved));
    if ((unsigned)desc->kind >= BO_OPTIMIZER_COUNT)
        return bo_fail(context, BO_INVALID, "optimizer: %d is not one of the %d kinds", (int)desc->kind,
                       BO_OPTIMIZER_COUNT);
    if ((unsigned)desc->factor >= BO_MUON_FACTOR_COUNT)
        return bo_fail(context, BO_INVALID, "optimizer: muon factor %d is not one of the %d kinds", (int)desc->factor,
                       BO_MUON_FACTOR_COUNT);
    if ((unsigned)desc->iteration >= BO_MUON_ITERATION_COUNT)
        return bo_fail(context, BO_INVALID, "optimizer: muon iteration %d is not one of the %d kinds",
                       (int)desc->iteration, BO_MUON_ITERATION_COUNT);
    if (desc->iterations > BO_MUON_MAX_ITERATIONS)
        return bo_fail(context, BO_INVALID, "optimizer: expected at most %d Muon iterations, found %zu",
                       BO_MUON_MAX_ITERATIONS, desc->iterations);
    return BO_OK;
}

/* Checks that a number is at least 0 and finite, and below 1 if requested. */
static bo_status check_number(bo_context *context, const char *what, double value, bool below_one)
{
    if (isfinite(value) && value >= 0 && (!below_one || value < 1)) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: expected a number %s, found %g", what,
                   below_one ? "in [0, 1)" : "that is at least 0 and finite", value);
}

/* A negative number turns the option off. */
static bo_status check_or_none(bo_context *context, const char *what, double value, bool below_one)
{
    return value < 0 ? BO_OK : check_number(context, what, value, below_one);
}

static bo_status check(bo_context *context, const bo_optimizer_desc *desc)
{
    BO_TRY(check_kinds(context, desc));
    BO_TRY(check_number(context, "learning rate", desc->rate, false));
    BO_TRY(
        check_number(context, "learning rate of the weights that AdamW updates beside Muon", desc->other_rate, false));
    BO_TRY(check_number(context, "weight decay", desc->decay, false));
    BO_TRY(check_or_none(context, "momentum", desc->momentum, true));
    BO_TRY(check_number(context, "beta1", desc->beta1, true));
    BO_TRY(check_number(context, "beta2", desc->beta2, true));
    BO_TRY(check_number(context, "epsilon", desc->epsilon, false));
    if (desc->epsilon > 0 && (float)desc->epsilon == 0) /* a weight whose gradient is always 0 would become 0 / 0 */
        return bo_fail(context, BO_INVALID, "epsilon: %g is 0 in single precision", desc->epsilon);
    BO_TRY(check_or_none(context, "gradient clipping norm", desc->clip, false));
    return check_number(context, "weight of the exponential moving average", desc->average, true);
}

bo_status bo_optimizer_resolve(bo_context *context, const bo_optimizer_desc *desc, bo_optimizer_desc *out)
{
    BO_TRY(check(context, desc));
    *out = *desc;
    fill_default(&out->rate, defaults[out->kind].rate);
    fill_default(&out->other_rate, defaults[BO_OPTIMIZER_ADAMW].rate);
    fill_default(&out->momentum, defaults[out->kind].momentum);
    fill_default(&out->beta1, 0.9);
    fill_default(&out->beta2, 0.95);
    fill_default(&out->epsilon, 1e-10);
    if (out->momentum < 0 || defaults[out->kind].momentum < 0) out->momentum = -1;
    if (out->clip <= 0) out->clip = -1;
    if (out->iterations == 0) out->iterations = out->iteration == BO_MUON_ITERATION_QUINTIC ? 5 : 12;
    return BO_OK;
}

/* ====================================================================================================================
 * The update rule of a weight, and its state in the optimizer. */

/* Number of floats of a state. */
static size_t part_count(const bo_optim_part *part)
{
    return part->weight->rows * part->weight->columns;
}

/* The learning rate is scaled so that a step changes the layer's output by the same amount at every width
 * (docs/guides/parametrization.md). With a factor s in front of the weight, the gradient is s times and the step 1/s
 * times that of the product. */
static double rate_factor(const bo_optim_part *part)
{
    const bo_weight *w = part->weight;
    switch (part->rule) {
    case BO_OPTIMIZER_SGD: /* entries of the gradient scale as 1/out; those of the step must scale as 1/in */
        return w->out / (w->in * w->scale * w->scale);
    case BO_OPTIMIZER_LINF: /* |g|₁ scales as in, so a step that scales as 1/in needs 1/in² */
        return w->rate * w->rate;
    case BO_OPTIMIZER_MUON: /* handled per matrix in bo_optim_part_shape_factor */
        return 1;
    default:
        return w->rate;
    }
}

bool bo_optim_part_init(const bo_optimizer_desc *desc, const bo_weight *weight, bo_optim_part *out)
{
    bool left = desc->kind == BO_OPTIMIZER_MUON && weight->role != BO_WEIGHT_ROLE_MATRIX;
    *out = (bo_optim_part){
        .weight = weight,
        .rule = left ? BO_OPTIMIZER_ADAMW : desc->kind,
        .rate = left ? desc->other_rate : desc->rate,
        .decay = weight->role == BO_WEIGHT_ROLE_VECTOR ? 0 : desc->decay,
    };
    double factor = rate_factor(out);
    out->rate *= factor;
    out->decay /= factor; /* keeps rate times decay independent of the width */
    return !weight->frozen && part_count(out) > 0;
}

/* Lists the state vectors of a part: writes the prefixes of their names to `names` (at most BO_MAX_SLOTS + 1). */
static size_t part_states(const bo_optimizer_desc *desc, const bo_optim_part *part, const char **names)
{
    size_t count = 0;
    if (part->rule == BO_OPTIMIZER_ADAMW) {
        names[count++] = "first_moment";
        names[count++] = "second_moment";
    } else if (desc->momentum >= 0) {
        names[count++] = "momentum";
    }
    if (desc->average > 0) names[count++] = "average";
    return count;
}

static size_t part_stride(const bo_optim_part *part)
{
    return bo_padded(part_count(part));
}

static double factor_of_shape(bo_muon_factor factor, double rows, double columns)
{
    switch (factor) {
    case BO_MUON_FACTOR_TALL:
        return sqrt(fmax(1, rows / columns));
    case BO_MUON_FACTOR_SPECTRAL:
        return sqrt(rows / columns);
    case BO_MUON_FACTOR_RMS:
        return 0.2 * sqrt(fmax(rows, columns));
    default:
        return 1;
    }
}

/* The factor of the matrix in the base model; from there |ΔW|₂ grows as √(out/in): the spectral condition
 * (2310.17813). */
double bo_optim_part_shape_factor(const bo_optimizer_desc *desc, const bo_optim_part *part)
{
    const bo_weight *w = part->weight;
    return factor_of_shape(desc->factor, (double)w->rows / w->out, (double)w->columns / w->in) * sqrt(w->out / w->in) /
           w->scale;
}

/* ====================================================================================================================
 * Creation of an optimizer: one block of device memory for all states, one block of host memory for their names. */

/* Memory that an optimizer over these weights needs. */
typedef struct needs {
    size_t parts, states, matrices;
    size_t floats, names; /* floats of the states, and bytes of their names */
} needs;

static needs count_needs(const bo_optimizer_desc *desc, bo_weights *weights)
{
    needs n = {0};
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_optim_part part;
        const bo_weight *weight = bo_weights_at(weights, i);
        if (!bo_optim_part_init(desc, weight, &part)) continue;
        n.parts++;
        const char *names[BO_MAX_SLOTS + 1];
        size_t states = part_states(desc, &part, names);
        for (size_t s = 0; s < states; s++) n.names += strlen(names[s]) + strlen(weight->name) + 2;
        n.states += states;
        n.floats += states * part_stride(&part);
        if (part.rule == BO_OPTIMIZER_MUON) n.matrices++;
    }
    return n;
}

/* Orders by decreasing work, so that threads finish together, and matrices of the same shape follow each other (their
 * transposes too); ties keep the order of the weights. */
static int by_work(const void *left, const void *right)
{
    const bo_muon_matrix *a = left, *b = right;
    double small_a = (double)(a->rows < a->columns ? a->rows : a->columns);
    double small_b = (double)(b->rows < b->columns ? b->rows : b->columns);
    double work_a = small_a * (double)a->rows * (double)a->columns;
    double work_b = small_b * (double)b->rows * (double)b->columns;
    if (work_a != work_b) return work_a > work_b ? -1 : 1;
    if (small_a != small_b) return small_a > small_b ? -1 : 1;
    return a->w < b->w ? -1 : a->w > b->w;
}

/* Bytes of scratch memory of the backend. */
static bo_status scratch_bytes(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights, const needs *n,
                               size_t *bytes)
{
    bo_update *list = bo_alloc(context, n->parts, sizeof *list, "the shapes of weights");
    bo_muon_matrix *matrix = bo_alloc(context, n->matrices, sizeof *matrix, "the shapes of matrices");
    bo_status status = list && matrix ? BO_OK : BO_MEMORY;
    size_t parts = 0, matrices = 0;
    for (size_t i = 0; status == BO_OK && i < bo_weights_count(weights); i++) {
        bo_optim_part part;
        const bo_weight *weight = bo_weights_at(weights, i);
        if (!bo_optim_part_init(desc, weight, &part)) continue;
        list[parts++].count = part_count(&part);
        if (part.rule != BO_OPTIMIZER_MUON) continue;
        matrix[matrices++] = (bo_muon_matrix){.rows = weight->rows, .columns = weight->columns};
    }
    if (status == BO_OK) {
        qsort(matrix, matrices, sizeof *matrix, by_work);
        *bytes = bo_backend_of(bo_weights_device(weights))->updates->bytes(context, parts, list, matrices, matrix);
    }
    bo_free(list);
    bo_free(matrix);
    return status;
}

size_t bo_optimizer_bytes(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights)
{
    bo_optimizer_desc resolved;
    if (bo_optimizer_resolve(context, desc, &resolved) != BO_OK) return 0;
    if (bo_device_check(context, bo_weights_device(weights), "a set of weights") != BO_OK) return 0;
    const needs n = count_needs(&resolved, weights);
    size_t scratch;
    if (scratch_bytes(context, &resolved, weights, &n, &scratch) != BO_OK) return 0;
    return n.floats * sizeof(float) + scratch;
}

static bo_status allocate(bo_context *context, const needs *n, size_t scratch, bo_optimizer *o)
{
    static const char what[] = "the state of the optimizer";
    o->part = bo_alloc(context, n->parts, sizeof *o->part, what);
    o->state = bo_alloc(context, n->states, sizeof *o->state, what);
    o->matrix = bo_alloc(context, n->matrices, sizeof *o->matrix, what);
    o->names = bo_alloc(context, n->names, 1, what);
    o->gradient = bo_alloc(context, n->parts, sizeof *o->gradient, what);
    o->vector = bo_alloc(context, n->parts, sizeof *o->vector, what);
    o->average = bo_alloc(context, n->parts, sizeof *o->average, what);
    o->sum = bo_alloc(context, n->parts, sizeof *o->sum, what);
    if (!o->part || !o->state || !o->matrix || !o->names || !o->gradient || !o->vector || !o->average || !o->sum)
        return BO_MEMORY;
    o->memory = bo_buffer_allocate(context, o->device, n->floats * sizeof(float), what);
    if (!o->memory) return BO_MEMORY;
    o->scratch = bo_buffer_allocate(context, o->device, scratch, "scratch memory of the optimizer");
    return o->scratch ? BO_OK : BO_MEMORY;
}

static void add_matrix(bo_optimizer *o, const bo_optim_part *part)
{
    o->matrix[o->matrices++] = (bo_muon_matrix){
        .rows = part->weight->rows,
        .columns = part->weight->columns,
        .g = part->weight->gradient,
        .m = part->state[0],
        .w = part->weight->data,
        .rates = {o->info.desc.rate, o->info.desc.decay, bo_optim_part_shape_factor(&o->info.desc, part)},
    };
}

/* Adds a part to the lists for the backend. */
static void add_lists(bo_optimizer *o, const bo_optim_part *part)
{
    const bo_weight *w = part->weight;
    const size_t count = part_count(part);
    o->gradient[o->parts] = (bo_update){.count = count, .g = w->gradient};
    if (part->average)
        o->average[o->averages++] = (bo_update){.count = count, .g = w->data, .m = w->data, .w = part->average};
    if (part->rule == BO_OPTIMIZER_MUON) {
        add_matrix(o, part);
        return;
    }
    o->vector[o->vectors++] = (bo_update){
        .count = count,
        .g = w->gradient,
        .m = part->rule == BO_OPTIMIZER_LINF ? NULL : part->state[0],
        .v = part->state[1],
        .w = w->data,
        .rates = {part->rate, part->decay, 1},
    };
}

/* Assigns the states of a part. `floats` and `name_bytes` count the memory of earlier parts. */
static void add_states(bo_optimizer *o, bo_optim_part *part, size_t *floats, size_t *name_bytes)
{
    const char *names[BO_MAX_SLOTS + 1];
    size_t states = part_states(&o->info.desc, part, names), rules = states - (o->info.desc.average > 0);
    for (size_t s = 0; s < states; s++) {
        char *name = o->names + *name_bytes;
        *name_bytes += (size_t)sprintf(name, "%s.%s", names[s], part->weight->name) + 1;
        void *data = (float *)o->memory + *floats;
        *floats += part_stride(part);
        *(s < rules ? &part->state[s] : &part->average) = data;
        o->state[o->states++] = (bo_optimizer_state){name, data, part_count(part)};
    }
    assert(!part->average == !(o->info.desc.average > 0) && rules <= BO_MAX_SLOTS);
}

/* Checks that parts are in the order of the weights, and matrices in order of decreasing work. */
static bool order_holds(const bo_optimizer *o)
{
    for (size_t i = 1; i < o->parts; i++)
        if (o->part[i].weight->offset < o->part[i - 1].weight->offset) return false;
    for (size_t i = 1; i < o->matrices; i++)
        if (by_work(&o->matrix[i - 1], &o->matrix[i]) > 0) return false;
    return true;
}

static bo_status fill(bo_context *context, bo_weights *weights, bo_optimizer *o)
{
    size_t floats = 0, name_bytes = 0;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_optim_part *part = &o->part[o->parts];
        const bo_weight *weight = bo_weights_at(weights, i);
        bo_optim_part found;
        if (!bo_optim_part_init(&o->info.desc, weight, &found)) continue;
        if (!weight->data || !weight->gradient)
            return bo_fail(context, BO_INVALID, "weight %s has no memory for its gradient", weight->name);
        *part = found;
        add_states(o, part, &floats, &name_bytes);
        add_lists(o, part);
        o->parts++;
    }
    qsort(o->matrix, o->matrices, sizeof *o->matrix, by_work);
    assert(order_holds(o));
    return BO_OK;
}

/* Unit scaling defines no learning rates for updates that grow with the gradient. */
static bo_status check_parametrization(bo_context *context, bo_optimizer_kind kind, const bo_rules *rules)
{
    bool grows = kind == BO_OPTIMIZER_SGD || kind == BO_OPTIMIZER_LINF;
    if (rules->kind != BO_PARAMETRIZATION_UNIT || !grows) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "optimizer %s: the unit-scaled parametrization supports muon, adamw and sign, whose steps do not "
                   "depend on the size of the gradient",
                   bo_optimizer_kind_name(kind));
}

bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                              bo_optimizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, weights, out);
    BO_TRY(bo_device_check(context, bo_weights_device(weights), "a set of weights"));
    bo_optimizer_desc resolved;
    BO_TRY(bo_optimizer_resolve(context, desc, &resolved));
    BO_TRY(check_parametrization(context, resolved.kind, bo_weights_rules(weights)));
    bo_optimizer *o = bo_alloc(context, 1, sizeof *o, "an optimizer");
    if (!o) return BO_MEMORY;
    o->info.desc = resolved;
    o->device = bo_weights_device(weights);
    o->gradient_scale = bo_weights_rules(weights)->gradient_scale;
    const needs n = count_needs(&resolved, weights);
    size_t scratch = 0;
    bo_status status = n.parts > 0 ? BO_OK : bo_fail(context, BO_INVALID, "optimizer: there is no trainable weight");
    if (status == BO_OK) status = scratch_bytes(context, &resolved, weights, &n, &scratch);
    if (status == BO_OK) status = allocate(context, &n, scratch, o);
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
    if (o->memory) bo_buffer_release(o->device, o->memory);
    if (o->scratch) bo_buffer_release(o->device, o->scratch);
    bo_free(o->names);
    bo_free(o->sum);
    bo_free(o->average);
    bo_free(o->vector);
    bo_free(o->gradient);
    bo_free(o->matrix);
    bo_free(o->state);
    bo_free(o->part);
    bo_free(o);
}

const bo_optimizer_info *bo_optimizer_describe(const bo_optimizer *optimizer)
{
    return optimizer ? &optimizer->info : NULL;
}

size_t bo_optimizer_states(const bo_optimizer *optimizer)
{
    return optimizer->states;
}

bo_optimizer_state bo_optimizer_state_at(const bo_optimizer *optimizer, size_t index)
{
    return optimizer->state[index];
}

void bo_optimizer_set_steps(bo_optimizer *optimizer, uint64_t steps)
{
    optimizer->info.steps = steps;
}

/* ====================================================================================================================
 * A step: the norm of the gradient, the rule of every weight, the average. */

/* |gradient| over all parts, without the scale of the gradients. BO_NUMERIC, with the name of the weight, if it is not
 * finite. Squares are summed in double, so the sum overflows only if a gradient is not finite. */
static bo_status gradient_norm(bo_context *context, const bo_optimizer *o, double *norm)
{
    double squares = 0;
    const bo_optim_part *bad = NULL;
    BO_TRY(bo_backend_of(o->device)->updates->sum_squares(context, o->parts, o->gradient, o->scratch, o->sum));
    for (size_t i = 0; i < o->parts; i++) {
        if (!isfinite(o->sum[i]) && !bad) bad = &o->part[i];
        squares += o->sum[i];
    }
    *norm = sqrt(squares) / o->gradient_scale;
    if (!bad) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "the gradient of %s is not finite in step %llu", bad->weight->name,
                   (unsigned long long)o->info.steps + 1);
}

/* The steepest step of length |g|₁ in the ℓ∞ norm: -(α/2) |g|₁ sign g. */
static bo_status step_linf(bo_context *context, bo_optimizer *o, const bo_rule *rule)
{
    BO_TRY(bo_backend_of(o->device)->updates->sum_sizes(context, o->vectors, o->vector, o->scratch, o->sum));
    for (size_t i = 0; i < o->vectors; i++) o->vector[i].rates.factor = 0.5 * rule->scale * o->sum[i];
    return bo_backend_of(o->device)->updates->sign(context, rule, o->vectors, o->vector);
}

/* Updates the parts that are not matrices of Muon. They have the same rule. */
static bo_status step_vectors(bo_context *context, bo_optimizer *o, const bo_rule *rule)
{
    const bo_updates *updates = bo_backend_of(o->device)->updates;
    switch (o->info.desc.kind) {
    case BO_OPTIMIZER_SGD:
        return updates->sgd(context, rule, o->vectors, o->vector);
    case BO_OPTIMIZER_SIGN:
        return updates->sign(context, rule, o->vectors, o->vector);
    case BO_OPTIMIZER_LINF:
        return step_linf(context, o, rule);
    default:
        return updates->adamw(context, rule, o->vectors, o->vector);
    }
}

static bo_status step_matrices(bo_context *context, const bo_optimizer *o, const bo_rule *rule)
{
    if (o->matrices == 0) return BO_OK;
    bo_newton_schulz iteration =
        o->info.desc.iteration == BO_MUON_ITERATION_CUBIC ? BO_NEWTON_SCHULZ_CUBIC : BO_NEWTON_SCHULZ_QUINTIC;
    return bo_backend_of(o->device)->updates->muon(context, rule, iteration, o->info.desc.iterations, o->matrices,
                                                   o->matrix, o->scratch);
}

/* Updates the average: the mean of all weights so far, until it covers as many steps as the moving average. This avoids
 * a bias toward the start. */
static bo_status average(bo_context *context, const bo_optimizer *o)
{
    double part_of_now = fmax(1 - o->info.desc.average, 1 / (double)o->info.steps);
    return bo_backend_of(o->device)->updates->approach(context, part_of_now, o->averages, o->average);
}

bo_status bo_optimizer_step(bo_context *context, bo_optimizer *optimizer, double factor, double *norm)
{
    BO_REQUIRE(context, optimizer);
    BO_SPAN(context, "train", "optimizer step");
    double ignored;
    if (!norm) norm = &ignored;
    *norm = 0;
    BO_TRY(bo_device_check(context, optimizer->device, "an optimizer"));
    if (optimizer->swapped)
        return bo_fail(context, BO_INVALID,
                       "optimizer: a step while the averaged weights are swapped in; swap them back first");
    if (!(isfinite(factor) && factor >= 0))
        return bo_fail(context, BO_INVALID, "learning rate factor: expected a finite number of at least 0, found %g",
                       factor);
    BO_TRY(gradient_norm(context, optimizer, norm));
    double scale =
        (optimizer->info.desc.clip > 0 && *norm > optimizer->info.desc.clip ? optimizer->info.desc.clip / *norm : 1) /
        optimizer->gradient_scale;
    optimizer->info.steps++;
    const bo_rule rule = {
        .scale = scale,
        .rate = factor,
        .momentum = optimizer->info.desc.momentum,
        .nesterov = !optimizer->info.desc.no_nesterov,
        .beta1 = optimizer->info.desc.beta1,
        .beta2 = optimizer->info.desc.beta2,
        .epsilon = optimizer->info.desc.epsilon,
        .step = optimizer->info.steps,
    };
    BO_TRY(step_vectors(context, optimizer, &rule));
    BO_TRY(step_matrices(context, optimizer, &rule));
    return average(context, optimizer);
}

bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *optimizer)
{
    BO_REQUIRE(context, optimizer);
    BO_TRY(bo_device_check(context, optimizer->device, "an optimizer"));
    if (optimizer->info.desc.average == 0 || optimizer->info.steps == 0) return BO_OK;
    BO_TRY(bo_backend_of(optimizer->device)->updates->swap(context, optimizer->averages, optimizer->average));
    optimizer->swapped = !optimizer->swapped;
    return BO_OK;
}
