/* Plans by fitted laws: shapes of the family of the runs, with the lowest predicted loss for a budget. */
#include "family.h"
#include "laws.h"
#include <math.h>
#include <stdlib.h>

enum { CHOICES = 6, MIN_STEPS = 100, MAX_LAYERS = 64 };
static const double OVERHEAD = 0.06;              /* fraction of --minutes spent on validation and checkpoints */
static const double SMALLEST = 0.5, LARGEST = 16; /* relative to the smallest and the largest run */
static const double NARROWEST = 16, WIDEST = 128; /* width / layers, as for other plans */
static const double NEAR = 1.1;                   /* maximum ratio to the requested number of parameters */

typedef struct fitted_plan {
    bo_plan plan; /* first member: the pointer that the caller frees */
    bo_plan_choice choices[CHOICES];
} fitted_plan;

typedef struct fitted_search {
    bo_context *context;
    const bo_plan_laws *laws;
    bo_plan_budget budget;
    bo_model_desc base;
    double smallest, largest; /* parameters */
    fitted_plan *found;
    bool any, any_size; /* whether any candidate had enough steps, and whether any had the requested size */
} fitted_search;

/* ---- one candidate ----------------------------------------------------------------------------------------------- */

static double steps_of(const fitted_search *s, const bo_plan_counts *counts, double seconds)
{
    if (s->budget.minutes > 0) return floor(60 * s->budget.minutes * (1 - OVERHEAD) / seconds);
    return floor(s->budget.tokens / counts->tokens);
}

static bool differs(const bo_plan_choice *a, const bo_plan_choice *b)
{
    const double size = a->parameters / b->parameters, depth = (double)a->shape.layers / (double)b->shape.layers;
    return size > 1.5 || size < 1 / 1.5 || depth >= 1.8 || depth <= 1 / 1.8;
}

/* Inserts a choice, sorted by loss. Keeps only the best of similar choices. */
static void keep(fitted_plan *found, const bo_plan_choice *choice)
{
    size_t *count = &found->plan.choice_count, at = 0;
    bo_plan_choice *c = found->choices;
    while (at < *count && c[at].loss.value <= choice->loss.value) {
        if (!differs(&c[at], choice)) return;
        at++;
    }
    if (at == CHOICES) return;
    if (*count < CHOICES) ++*count;
    for (size_t i = *count - 1; i > at; i--) c[i] = c[i - 1];
    c[at] = *choice;
    size_t kept = at + 1;
    for (size_t i = at + 1; i < *count; i++)
        if (differs(&c[i], choice)) c[kept++] = c[i];
    *count = kept;
}

static bo_plan_range times(bo_plan_range r, double factor)
{
    return (bo_plan_range){r.value * factor, r.low * factor, r.high * factor};
}

static bo_status weigh(fitted_search *s, const bo_model_desc *model, const bo_plan_counts *counts,
                       const bo_training_cost *cost)
{
    const bo_plan_family *f = &s->laws->family;
    bo_plan_forecast forecast;
    BO_TRY(bo_plan_forecast_run(s->context, s->laws, counts, counts->tokens, &forecast)); /* only for the step time */
    const double steps = steps_of(s, counts, forecast.step.value), tokens = steps * counts->tokens;
    s->any_size = true;
    if (!(steps >= MIN_STEPS)) return BO_OK;
    BO_TRY(bo_plan_forecast_run(s->context, s->laws, counts, tokens * f->token_bytes, &forecast));
    if (!isfinite(forecast.loss.value)) return BO_OK;
    s->any = true;
    if (cost->all_bytes > s->budget.memory) return BO_OK;
    const bo_plan_choice choice = {.shape = {.layers = model->layers,
                                             .width = model->width,
                                             .heads = model->block.heads,
                                             .context = model->context,
                                             .batch = f->batch,
                                             .vocab = model->vocab,
                                             .optimizer = f->optimizer},
                                   .hidden = model->block.hidden,
                                   .parameters = counts->parameters,
                                   .tokens = tokens,
                                   .steps = (uint64_t)steps,
                                   .micro_batch = cost->micro_batch,
                                   .memory = cost->all_bytes,
                                   .step = forecast.step,
                                   .minutes = times(forecast.step, steps / 60),
                                   .loss = forecast.loss,
                                   .beyond = forecast.beyond};
    keep(s->found, &choice);
    return BO_OK;
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Counts a shape; *more is false if it has too many parameters, as all larger shapes then do. */
static bo_status try_shape(fitted_search *s, const bo_model_desc *model, bool *more)
{
    const bo_plan_family *f = &s->laws->family;
    bo_trainer_desc training = {.batch = f->batch,
                                .micro_batch = f->micro_batch,
                                .optimizer = {.kind = f->optimizer},
                                .activations = f->activations,
                                .checkpointing = f->checkpointing};
    bo_plan_counts counts;
    bo_training_cost cost;
    BO_TRY(bo_progress(s->context, "planning", 0, 0));
    BO_TRY(bo_plan_count_cost(s->context, model, &training, &counts, &cost));
    if (cost.all_bytes > s->budget.memory && cost.micro_batch > 1) {
        training.micro_batch = 1;
        BO_TRY(bo_plan_count_cost(s->context, model, &training, &counts, &cost));
    }
    *more = counts.parameters <= s->largest;
    if (!*more || counts.parameters < s->smallest) return BO_OK;
    return weigh(s, model, &counts, &cost);
}

static bool is_typical_aspect(const fitted_search *s, size_t width, size_t layers)
{
    const double base_aspect = (double)s->base.width / (double)s->base.layers, aspect = (double)width / (double)layers;
    return aspect >= fmin(NARROWEST, base_aspect) && aspect <= fmax(WIDEST, base_aspect);
}

/* Widths in steps of a head, or about an eighth. */
static size_t next_width(size_t width, size_t unit)
{
    const size_t step = width / 8 / unit * unit;
    return width + (step > unit ? step : unit);
}

/* Tries wider models until every depth has too many parameters. */
static bo_status search_grid(fitted_search *s)
{
    enum { MAX_WIDTH = 1 << 16 };
    const size_t unit = s->base.block.heads ? s->base.width / s->base.block.heads : 16;
    bool more = true;
    for (size_t width = unit; more && width <= MAX_WIDTH; width = next_width(width, unit)) {
        bool tried = false, deeper = true, small = false;
        for (size_t layers = 1; deeper && layers <= MAX_LAYERS; layers += 1 + layers / 4) {
            bo_model_desc model;
            if (!is_typical_aspect(s, width, layers)) continue;
            BO_TRY(bo_model_widen(s->context, &s->base, width, &model));
            model.layers = layers;
            const bo_status status = try_shape(s, &model, &deeper);
            bo_model_desc_release(&model);
            BO_TRY(status);
            tried = true;
            small |= deeper;
        }
        more = small || !tried;
    }
    return BO_OK;
}

/* ---- a plan ------------------------------------------------------------------------------------------------------ */

static void set_sizes(fitted_search *s)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < s->laws->count; i++) {
        low = fmin(low, s->laws->observations[i].counts.parameters);
        high = fmax(high, s->laws->observations[i].counts.parameters);
    }
    s->smallest = s->budget.parameters > 0 ? s->budget.parameters / NEAR : SMALLEST * low;
    s->largest = s->budget.parameters > 0 ? s->budget.parameters * NEAR : LARGEST * high;
}

static bo_status resolve(bo_context *context, const bo_plan_laws *laws, const bo_plan_budget *budget,
                         bo_plan_budget *out)
{
    *out = *budget;
    BO_TRY(bo_check_reserved(context, "bo_plan_budget", budget->reserved));
    const double numbers[] = {budget->minutes, budget->tokens, budget->parameters};
    for (size_t i = 0; i < 3; i++)
        if (!(numbers[i] >= 0 && numbers[i] <= 1e15))
            return bo_fail(context, BO_INVALID, "budget: expected numbers from 0 to 1e15, found %g", numbers[i]);
    if (budget->context || budget->features)
        return bo_fail(context, BO_INVALID, "budget: context and features are those of the fitted runs");
    if ((budget->minutes > 0) == (budget->tokens > 0) || (budget->tokens > 0 && !(budget->parameters > 0)))
        return bo_fail(context, BO_INVALID,
                       "budget: a fitted law needs minutes, minutes and parameters, or tokens and parameters");
    if (!isfinite(laws->step_error))
        return bo_fail(context, BO_INVALID, "budget: the fitted runs have no time law; fit runs with known step times");
    if (laws->loss[3].origin == BO_PLAN_ORIGIN_ABSENT)
        return bo_fail(context, BO_INVALID,
                       "budget: all fitted runs have the same amount of data, so no other amount can be planned; fit "
                       "runs of at least two lengths");
    if (!out->memory) out->memory = bo_default_memory().bytes;
    return BO_OK;
}

static bo_status refuse(const fitted_search *s)
{
    if (s->any)
        return bo_fail(s->context, BO_INVALID, "no model of the family fits into %.4g MB of memory",
                       (double)s->budget.memory / 1e6);
    if (!s->any_size)
        return bo_fail(s->context, BO_INVALID,
                       "no model of the family has %.4g to %.4g parameters; the fitted runs and the head width decide "
                       "which sizes exist",
                       s->smallest, s->largest);
    return bo_fail(s->context, BO_INVALID,
                   "the budget is too small for %d training steps of a model that the law describes", MIN_STEPS);
}

bo_status bo_plan_by_laws(bo_context *context, const bo_plan_laws *laws, const bo_plan_budget *budget, bo_plan **out)
{
    BO_REQUIRE(context, laws->loss, laws->observations, laws->family.config);
    fitted_search s = {.context = context, .laws = laws};
    BO_TRY(resolve(context, laws, budget, &s.budget));
    BO_TRY(bo_plan_family_model(context, &laws->family, &s.base));
    set_sizes(&s);
    s.found = bo_alloc(context, 1, sizeof *s.found, "a plan");
    if (s.found) s.found->plan.choices = s.found->choices;
    bo_status status = s.found ? search_grid(&s) : BO_MEMORY;
    bo_model_desc_release(&s.base);
    if (status == BO_OK && !s.found->plan.choice_count) status = refuse(&s);
    if (status == BO_OK)
        *out = &s.found->plan;
    else
        bo_free(s.found);
    return status;
}
