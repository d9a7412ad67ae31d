/* The grid of candidate shapes, and the predictions for a budget. */
#include "plan.h"
#include <math.h>

enum { MIN_WIDTH = 32, MAX_WIDTH = 4096, MIN_LAYERS = 2, MAX_LAYERS = 64, MIN_STEPS = 100 };
/* Ratios of width to layers between which the loss is assumed to depend on the number of parameters only. Narrower
 * models were measured to be worse (experiment time-law). */
static const double NARROWEST = 16, WIDEST = 128;
static const double MIN_STEP_TOKENS = 512, MAX_STEP_TOKENS = 65536;
static const double OVERHEAD = 0.06; /* fraction of --minutes spent on validation and checkpoints */

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Head sizes as in the presets: 32, or 64 for wide models; at least 24 in between. */
static size_t head_dim(size_t width)
{
    size_t dim = width > 256 && width % 64 == 0 ? 64 : width % 32 == 0 ? 32 : 24;
    while (width % dim != 0) dim += 2;
    return dim;
}

static size_t next_width(size_t width)
{
    return width + (width < 192 ? 16 : width < 512 ? 32 : width < 1024 ? 64 : 256);
}

static bo_status add(bo_plan_search *search, const bo_plan_candidate *item)
{
    if (search->count == search->capacity) {
        const size_t capacity = search->capacity ? 2 * search->capacity : 1024;
        bo_plan_candidate *items =
            bo_realloc(search->context, search->items, capacity, sizeof *items, "the shapes to choose from");
        if (!items) return BO_MEMORY;
        search->items = items;
        search->capacity = capacity;
    }
    search->items[search->count++] = *item;
    return BO_OK;
}

static bo_status add_batches(bo_plan_search *search, bo_plan_shape shape, const bo_plan_head *head)
{
    const double context = (double)shape.context;
    for (shape.batch = 1; (double)shape.batch * context <= fmax(MAX_STEP_TOKENS, context); shape.batch *= 2) {
        if ((double)shape.batch * context < MIN_STEP_TOKENS) continue;
        bo_plan_candidate item = {.shape = shape, .counts = bo_plan_count_with(&shape, head)};
        item.step = bo_plan_step_of(search->host, &item.counts);
        BO_TRY(add(search, &item));
    }
    return BO_OK;
}

static bo_status fill_grid(bo_plan_search *search)
{
    const bo_plan_shape *measured = &search->host->timings[0].shape;
    for (size_t width = MIN_WIDTH; width <= MAX_WIDTH; width = next_width(width)) {
        bo_plan_shape shape = {.layers = 1,
                               .width = width,
                               .heads = width / head_dim(width),
                               .context = search->budget.context,
                               .batch = 1,
                               .features = search->budget.features,
                               .attention = measured->attention,
                               .optimizer = measured->optimizer};
        bo_plan_head head;
        BO_TRY(bo_plan_resolve(search->context, &shape, &shape));
        BO_TRY(bo_plan_head_of(search->context, &shape, &head));
        for (shape.layers = MIN_LAYERS; shape.layers <= MAX_LAYERS; shape.layers += 1 + shape.layers / 8) {
            const double aspect = (double)width / (double)shape.layers;
            if (aspect >= NARROWEST && aspect <= WIDEST) BO_TRY(add_batches(search, shape, &head));
        }
    }
    return BO_OK;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static double seconds_of_budget(const bo_plan_budget *budget)
{
    return 60 * budget->minutes * (1 - OVERHEAD);
}

/* Computes the number of whole steps and the loss after them. Candidates with fewer than MIN_STEPS steps are
 * infeasible. */
static void spend(const bo_plan_search *search, bo_plan_candidate *item, double tokens)
{
    const double steps = floor(tokens / item->counts.tokens);
    item->tokens = steps * item->counts.tokens;
    item->criterion = steps < MIN_STEPS ? INFINITY
                                        : bo_plan_law_at(&search->losses->law, item->counts.parameters, item->tokens,
                                                         item->counts.tokens);
}

static void spend_seconds(const bo_plan_search *search, bo_plan_candidate *item, double seconds)
{
    spend(search, item, seconds / item->step.value * item->counts.tokens);
}

static double off_size(const bo_plan_search *search, const bo_plan_candidate *item)
{
    const double requested = search->budget.parameters;
    return requested > 0 ? fabs(log(item->counts.parameters / requested)) : 0;
}

static bool right_size(const bo_plan_search *search, const bo_plan_candidate *item)
{
    return off_size(search, item) <= search->tolerance;
}

/* The tolerance is 10%, or the distance of the nearest size on the grid if that is below 50%. */
static void set_tolerance(bo_plan_search *search)
{
    double nearest = INFINITY;
    for (size_t i = 0; i < search->count; i++) nearest = fmin(nearest, off_size(search, &search->items[i]));
    search->tolerance = nearest < log(1.5) ? fmax(1.001 * nearest, log(1.1)) : 0;
}

static double best_loss(bo_plan_search *search, double seconds)
{
    double best = INFINITY;
    for (size_t i = 0; i < search->count; i++) {
        bo_plan_candidate item = search->items[i];
        spend_seconds(search, &item, seconds);
        best = fmin(best, item.criterion);
    }
    return best;
}

/* The loss of the best candidate of the requested size minus the best loss of any size, for a training time in
 * seconds. */
static double gap_at(bo_plan_search *search, double seconds)
{
    double best_of_size = INFINITY;
    for (size_t i = 0; i < search->count; i++) {
        bo_plan_candidate item = search->items[i];
        if (!right_size(search, &item)) continue;
        spend_seconds(search, &item, seconds);
        best_of_size = fmin(best_of_size, item.criterion);
    }
    return best_of_size - best_loss(search, seconds);
}

/* The smallest time in which a model of the requested size can be trained. */
static double min_seconds(const bo_plan_search *search)
{
    double shortest = INFINITY;
    for (size_t i = 0; i < search->count; i++)
        if (right_size(search, &search->items[i])) shortest = fmin(shortest, MIN_STEPS * search->items[i].step.value);
    return shortest;
}

/* Budget of parameters only: the training time for which the requested size is optimal. */
static double seconds_for_size(bo_plan_search *search)
{
    enum { TIMES = 70 };
    double best = INFINITY, seconds = fmax(1, 1.001 * min_seconds(search)), found = seconds;
    for (size_t i = 0; i < TIMES && isfinite(seconds); i++, seconds *= 1.3) {
        const double gap = gap_at(search, seconds);
        if (gap < best) best = gap, found = seconds;
    }
    return found;
}

/* Budget of tokens: the criterion is the loss minus the best loss reachable in the same time. */
static void spend_tokens(bo_plan_search *search)
{
    enum { TIMES = 64 };
    const double first = 0.1, ratio = 1.4;
    double best[TIMES];
    for (size_t i = 0; i < TIMES; i++) best[i] = best_loss(search, first * pow(ratio, (double)i));
    for (size_t i = 0; i < search->count; i++) {
        bo_plan_candidate *item = &search->items[i];
        spend(search, item, search->budget.tokens);
        if (isinf(item->criterion)) continue;
        const double seconds = item->tokens / item->counts.tokens * item->step.value;
        const double place = fmin(log(fmax(seconds, first) / first) / log(ratio), TIMES - 1.001);
        const size_t low = (size_t)place;
        const double part = place - (double)low, then = (1 - part) * best[low] + part * best[low + 1];
        item->criterion =
            isfinite(then) ? item->criterion - then : 0; /* no other shape is feasible in so short a time */
    }
}

/* Fills in the tokens and the criterion of every candidate. */
static void spend_budget(bo_plan_search *search)
{
    const bo_plan_budget *b = &search->budget;
    if (b->tokens > 0) {
        spend_tokens(search);
    } else {
        const double seconds = b->minutes > 0 ? seconds_of_budget(b) : seconds_for_size(search);
        for (size_t i = 0; i < search->count; i++) spend_seconds(search, &search->items[i], seconds);
    }
    for (size_t i = 0; i < search->count; i++)
        if (!right_size(search, &search->items[i])) search->items[i].criterion = INFINITY;
}

bo_status bo_plan_grid(bo_plan_search *search)
{
    BO_TRY(fill_grid(search));
    set_tolerance(search);
    spend_budget(search);
    return BO_OK;
}

/* ---- nothing fits ------------------------------------------------------------------------------------------------ */

bo_status bo_plan_refuse(const bo_plan_search *search)
{
    const bo_plan_budget *b = &search->budget;
    double min_parameters = INFINITY, max_parameters = 0, tokens = INFINITY;
    for (size_t i = 0; i < search->count; i++) {
        const bo_plan_candidate *item = &search->items[i];
        min_parameters = fmin(min_parameters, item->counts.parameters);
        max_parameters = fmax(max_parameters, item->counts.parameters);
        if (!right_size(search, item)) continue;
        tokens = fmin(tokens, MIN_STEPS * item->counts.tokens);
    }
    if (isinf(tokens))
        return bo_fail(search->context, BO_INVALID,
                       "no candidate model has about %.4g parameters; expected %.3g to %.3g", b->parameters,
                       min_parameters, max_parameters);
    if (b->tokens > 0)
        return bo_fail(search->context, BO_INVALID,
                       "%.4g tokens are too few for %d training steps; expected at least %.4g", b->tokens, MIN_STEPS,
                       tokens);
    return bo_fail(search->context, BO_INVALID,
                   "%.4g minutes are too short for %d training steps; expected at least %.3g", b->minutes, MIN_STEPS,
                   min_seconds(search) / 60 / (1 - OVERHEAD));
}
