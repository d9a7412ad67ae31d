/* A plan: the best shapes of the grid that fit into memory. */
#include "plan.h"
#include "../model/model.h"
#include <math.h>
#include <stdlib.h>

enum { CONTEXT = 256, TRIES = 64, CHOICES = 6 };

/* A plan and the memory it points to, in one block. */
typedef struct plan_block {
    bo_plan plan; /* first member: the pointer that the caller frees */
    bo_plan_choice choices[CHOICES];
} plan_block;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Computes the training memory for a micro-batch (0: the trainer's default) with the trainer. The model has no weight
 * values, so this takes the same time for all sizes. */
static bo_status plan_training(bo_context *context, const bo_plan_shape *shape, size_t micro_batch,
                               bo_training_cost *out)
{
    bo_tokenizer *tokenizer = NULL;
    bo_corpus *corpus = NULL;
    bo_model *model = NULL;
    bo_model_desc desc;
    bo_trainer_desc training;
    BO_TRY(bo_plan_descriptors(context, shape, &desc, &training));
    bo_status status = bo_tokenizer_create(context, &tokenizer);
    if (status == BO_OK) status = bo_plan_noise(context, tokenizer, 4 * shape->context, &corpus);
    if (status == BO_OK) status = bo_model_build(context, &desc, tokenizer, &model);
    training.model = model;
    training.train.corpus = corpus;
    training.steps = 1;
    training.micro_batch = micro_batch;
    if (status == BO_OK) status = bo_trainer_estimate(context, &training, out);
    bo_model_destroy(model);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

/* Weights, gradients and one optimizer vector: a lower bound of the memory. */
static double weight_bytes(const bo_plan_candidate *item)
{
    return 3 * sizeof(float) * item->counts.parameters;
}

/* Chooses a micro-batch that fits into memory: the trainer's default, halved until it fits. If a single sequence does
 * not fit, out->all_bytes exceeds the budget. */
static bo_status fit_memory(const bo_plan_search *search, const bo_plan_candidate *item, bo_training_cost *out)
{
    bo_training_cost min_cost;
    BO_TRY(bo_progress(search->context, "planning", 0, 0));
    BO_TRY(plan_training(search->context, &item->shape, 0, out));
    if (out->all_bytes <= search->budget.memory) return BO_OK;
    BO_TRY(plan_training(search->context, &item->shape, 1, &min_cost));
    while (out->all_bytes > search->budget.memory && out->micro_batch > 1 &&
           min_cost.all_bytes <= search->budget.memory)
        BO_TRY(plan_training(search->context, &item->shape, out->micro_batch / 2, out));
    return BO_OK;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static int by_criterion(const void *a, const void *b)
{
    const bo_plan_candidate *x = a, *y = b;
    if (x->criterion != y->criterion) return x->criterion < y->criterion ? -1 : 1;
    if (x->step.value != y->step.value) return x->step.value < y->step.value ? -1 : 1;
    return (x->shape.batch > y->shape.batch) - (x->shape.batch < y->shape.batch);
}

static bo_plan_range times(bo_plan_range range, double factor)
{
    return (bo_plan_range){range.value * factor, range.low * factor, range.high * factor};
}

static bo_plan_choice choice_of(const bo_plan_search *search, const bo_plan_candidate *item,
                                const bo_training_cost *training)
{
    const double steps = item->tokens / item->counts.tokens;
    bo_plan_range loss;
    bo_plan_loss(search->losses, item->counts.parameters, item->tokens, item->counts.tokens, &loss);
    return (bo_plan_choice){
        .shape = item->shape,
        .parameters = (double)training->parameters,
        .tokens = item->tokens,
        .steps = (uint64_t)steps,
        .micro_batch = training->micro_batch,
        .memory = training->all_bytes,
        .step = item->step,
        .minutes = times(item->step, steps / 60),
        .loss = loss,
    };
}

static bool far_apart(double a, double b, double factor)
{
    return a >= factor * b || b >= factor * a;
}

/* True if the shape differs enough from the chosen ones to be listed as an alternative. */
static bool differs(const bo_plan *plan, const bo_plan_candidate *item)
{
    for (size_t i = 0; i < plan->choice_count; i++) {
        const bo_plan_choice *c = &plan->choices[i];
        const bo_plan_shape *s = &c->shape;
        if (!far_apart(item->counts.parameters, c->parameters, 1.8) &&
            !far_apart((double)item->shape.layers, (double)s->layers, 1.8) &&
            !far_apart((double)item->shape.batch, (double)s->batch, 2))
            return false;
    }
    return true;
}

/* The smallest candidate for this budget, or of all if none is feasible. NULL: the grid is empty. */
static const bo_plan_candidate *smallest(const bo_plan_search *search, bool any)
{
    const bo_plan_candidate *lightest = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const bo_plan_candidate *item = &search->items[i];
        if ((any || isfinite(item->criterion)) && (!lightest || weight_bytes(item) < weight_bytes(lightest)))
            lightest = item;
    }
    return lightest;
}

/* Insufficient memory for the smallest model with one sequence is reported first, because more time would not help. */
static bo_status refuse(const bo_plan_search *search)
{
    const bo_plan_candidate *lightest = smallest(search, false);
    const bool none = !lightest;
    bo_training_cost training;
    if (none) lightest = smallest(search, true);
    if (!lightest) return bo_plan_refuse(search);
    BO_TRY(plan_training(search->context, &lightest->shape, 1, &training));
    if (none && training.all_bytes <= search->budget.memory) return bo_plan_refuse(search);
    return bo_fail(search->context, BO_INVALID,
                   "no model fits into %.4g MB of memory; the smallest one needs at least %.4g MB",
                   (double)search->budget.memory / 1e6, ceil((double)training.all_bytes / 1e5) / 10);
}

/* Shapes that do not fit into memory. No shape with at least as many layers and as much width fits either. */
typedef struct plan_rejected {
    size_t layers[TRIES], width[TRIES], count;
} plan_rejected;

static bool beyond(const plan_rejected *rejected, const bo_plan_candidate *item)
{
    for (size_t i = 0; i < rejected->count; i++)
        if (item->shape.layers >= rejected->layers[i] && item->shape.width >= rejected->width[i]) return true;
    return false;
}

/* Chooses candidates in order of the criterion and skips those that do not fit into memory. */
static bo_status choose(const bo_plan_search *search, plan_block *out)
{
    plan_rejected rejected = {.count = 0};
    size_t *count = &out->plan.choice_count;
    for (size_t i = 0; i < search->count && *count < CHOICES && rejected.count < TRIES; i++) {
        const bo_plan_candidate *item = &search->items[i];
        bo_training_cost training;
        if (isinf(item->criterion)) break;
        if (weight_bytes(item) > (double)search->budget.memory || beyond(&rejected, item) || !differs(&out->plan, item))
            continue;
        BO_TRY(fit_memory(search, item, &training));
        if (training.all_bytes <= search->budget.memory) {
            out->choices[(*count)++] = choice_of(search, item, &training);
        } else {
            rejected.layers[rejected.count] = item->shape.layers;
            rejected.width[rejected.count++] = item->shape.width;
        }
    }
    return *count ? BO_OK : refuse(search);
}

/* ---- a plan ------------------------------------------------------------------------------------------------------ */

/* Checks that a size can be counted in 64 bits. */
static bo_status check_number(bo_context *context, const char *what, double max_value, double value)
{
    if (value >= 0 && value <= max_value) return BO_OK;
    return bo_fail(context, BO_INVALID, "budget: %s: expected a number from 0 to %g, found %g", what, max_value, value);
}

static bo_status resolve(bo_context *context, const bo_plan_budget *budget, bo_plan_budget *out)
{
    BO_TRY(bo_check_reserved(context, "bo_plan_budget", budget->reserved));
    *out = *budget;
    BO_TRY(check_number(context, "parameters", 1e15, budget->parameters));
    BO_TRY(check_number(context, "minutes", 1e9, budget->minutes));
    BO_TRY(check_number(context, "tokens", 1e15, budget->tokens));
    if (budget->minutes > 0 && budget->tokens > 0)
        return bo_fail(context, BO_INVALID, "budget: expected minutes or tokens, found both");
    if (!(budget->minutes > 0 || budget->tokens > 0 || budget->parameters > 0))
        return bo_fail(context, BO_INVALID, "budget: expected parameters, minutes or tokens, found none");
    if (!out->context) out->context = CONTEXT;
    if (out->context > 1 << 20)
        return bo_fail(context, BO_INVALID, "budget: context: expected at most %d, found %zu", 1 << 20, out->context);
    if (!out->memory) out->memory = bo_default_memory().bytes;
    return BO_OK;
}

static bo_status search_shapes(bo_plan_search *search, plan_block *out)
{
    bo_status status = bo_plan_grid(search);
    if (status == BO_OK) {
        qsort(search->items, search->count, sizeof *search->items, by_criterion);
        status = choose(search, out);
    }
    bo_free(search->items);
    return status;
}

bo_status bo_plan_create(bo_context *context, const bo_plan_basis *basis, const bo_plan_budget *budget, bo_plan **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, basis, budget, out);
    BO_TRY(bo_check_reserved(context, "bo_plan_basis", basis->reserved));
    if (!basis->host == !basis->laws || (basis->laws && basis->losses))
        return bo_fail(context, BO_INVALID, "plan: expected a cost model of the host or laws, found %s",
                       basis->laws ? "both" : "neither");
    if (basis->laws) return bo_plan_by_laws(context, basis->laws, budget, out);
    const bo_plan_host *host = basis->host;
    const bo_plan_losses *losses = basis->losses;
    bo_plan_losses *default_losses = NULL;
    bo_plan_search search = {.context = context, .host = host};
    BO_TRY(resolve(context, budget, &search.budget));
    if (!host->timing_count)
        return bo_fail(context, BO_INVALID,
                       "plan: the calibration has no timings; measure them with bo_plan_host_calibrate");
    if (!losses) BO_TRY(bo_plan_losses_fit(context, NULL, 0, &default_losses));
    search.losses = losses ? losses : default_losses;
    plan_block *block = bo_alloc(context, 1, sizeof *block, "a plan");
    bo_status status = block ? BO_OK : BO_MEMORY;
    if (block) block->plan.choices = block->choices;
    if (status == BO_OK) status = search_shapes(&search, block);
    bo_plan_losses_destroy(default_losses);
    if (status == BO_OK)
        *out = &block->plan;
    else
        bo_free(block);
    return status;
}

void bo_plan_destroy(bo_plan *plan)
{
    bo_free(plan);
}
