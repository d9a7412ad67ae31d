/* Fits the loss law: exponents and critical batch by search, the three factors by least squares for each candidate. */
#include "plan.h"
#include <math.h>
#include <string.h>

enum { MIN_RUNS = 8, FREE = 3 };

/* The search variables: logarithms of both exponents and of the critical batch. */
typedef struct law_point {
    double at[FREE];
} law_point;

/* Bounds of size_power, data_power and batch: a wide range around published laws for text. */
static const double lowest[FREE] = {0.05, 0.05, 16}, highest[FREE] = {1.5, 1.5, 1e7};

typedef struct law_search {
    const bo_plan_run *runs;
    size_t count, skip; /* skip: index of a run to leave out; count: none */
    bool batches;       /* whether runs differ in batch size */
} law_search;

/* ---- one guess --------------------------------------------------------------------------------------------------- */

static double effective(double tokens, double batch, double critical)
{
    const double ratio = batch / critical; /* 0 if critical is INFINITY */
    return tokens / (1 + ratio * ratio);
}

double bo_plan_law_at(const bo_plan_law *law, double parameters, double tokens, double batch)
{
    if (!law) return NAN;
    return law->floor + law->size * pow(parameters, -law->size_power) +
           law->data * pow(effective(tokens, batch, law->batch), -law->data_power);
}

/* The best factors for these exponents, and Σ (fitted / measured - 1)²; INFINITY: no solution. */
static double try_point(const law_search *search, const law_point *point, bo_plan_law *law)
{
    enum { FLOOR, SIZE, DATA };
    double rows[BO_PLAN_RUNS][BO_PLAN_TERM_COUNT] = {{0}}, ones[BO_PLAN_RUNS], factor[BO_PLAN_TERM_COUNT], sum = 0;
    size_t n = 0;
    *law = (bo_plan_law){.size_power = exp(point->at[0]),
                         .data_power = exp(point->at[1]),
                         .batch = search->batches ? exp(point->at[2]) : INFINITY};
    for (size_t i = 0; i < search->count; i++) {
        const bo_plan_run *run = &search->runs[i];
        if (i == search->skip) continue;
        rows[n][FLOOR] = 1 / run->loss;
        rows[n][SIZE] = pow(run->parameters, -law->size_power) / run->loss;
        rows[n][DATA] = pow(effective(run->tokens, run->batch, law->batch), -law->data_power) / run->loss;
        ones[n++] = 1;
    }
    if (!bo_plan_least_squares(n, (const double (*)[BO_PLAN_TERM_COUNT])rows, ones, 7, factor)) return INFINITY;
    law->floor = factor[FLOOR], law->size = factor[SIZE], law->data = factor[DATA];
    for (size_t r = 0; r < n; r++) {
        const double e = factor[FLOOR] * rows[r][FLOOR] + factor[SIZE] * rows[r][SIZE] + factor[DATA] * rows[r][DATA];
        sum += (e - 1) * (e - 1);
    }
    return sum;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

static void keep_within(law_point *point)
{
    for (size_t i = 0; i < FREE; i++) point->at[i] = fmin(fmax(point->at[i], log(lowest[i])), log(highest[i]));
}

/* One of the 26 neighbors on a grid with this step: -1, 0 or 1 steps in each variable. */
static law_point neighbor(const law_point *from, double step, size_t number)
{
    law_point to = *from;
    for (size_t i = 0; i < FREE; i++, number /= 3) to.at[i] += step * ((double)(number % 3) - 1);
    keep_within(&to);
    return to;
}

/* Moves to the best neighbor while one is better, then halves the step. */
static double descend(const law_search *search, double step, law_point *point, bo_plan_law *law)
{
    double best = try_point(search, point, law);
    while (step > 1e-4) {
        law_point next = *point;
        for (size_t n = 0; n < 27; n++) {
            bo_plan_law tried;
            const law_point near = neighbor(point, step, n);
            const double left = try_point(search, &near, &tried);
            if (left < best) best = left, next = near, *law = tried;
        }
        if (memcmp(&next, point, sizeof next) == 0)
            step /= 2;
        else
            *point = next;
    }
    return best;
}

/* Searches from several starts, because there may be several local minima. */
static double find(const law_search *search, law_point *point, bo_plan_law *law)
{
    double best = INFINITY;
    for (size_t start = 0; start < 8; start++) {
        bo_plan_law tried;
        law_point from = {{log(start & 1 ? 0.6 : 0.25), log(start & 2 ? 0.6 : 0.25), log(start & 4 ? 3e4 : 2e3)}};
        const double left = descend(search, 0.2, &from, &tried);
        if (left < best) best = left, *point = from, *law = tried;
    }
    return best;
}

/* ---- laws -------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_plan_run *runs, size_t count)
{
    if (!runs || count < MIN_RUNS || count > BO_PLAN_RUNS)
        return bo_fail(context, BO_INVALID, "loss law: expected %d to %d runs, found %zu", MIN_RUNS, BO_PLAN_RUNS,
                       count);
    for (size_t i = 0; i < count; i++) {
        const double numbers[] = {runs[i].parameters, runs[i].tokens, runs[i].batch, runs[i].loss};
        for (size_t k = 0; k < 4; k++)
            if (!(numbers[k] > 0 && isfinite(numbers[k])))
                return bo_fail(context, BO_INVALID, "loss law: run %zu: expected positive numbers, found %g", i,
                               numbers[k]);
    }
    return BO_OK;
}

/* A law and the memory it points to, in one block. */
typedef struct losses_block {
    bo_plan_losses losses; /* first member: the pointer that the caller frees */
    bo_plan_law without[];
} losses_block;

static bo_status fit(bo_context *context, const bo_plan_run *runs, size_t count, losses_block *out)
{
    law_search search = {.runs = runs, .count = count, .skip = count};
    for (size_t i = 1; i < count; i++) search.batches |= runs[i].batch != runs[0].batch;
    law_point point;
    const double squares = find(&search, &point, &out->losses.law);
    if (!isfinite(squares)) return bo_fail(context, BO_NUMERIC, "%zu runs do not determine a loss law", count);
    const double freedom = (double)count - (search.batches ? 6 : 5);
    out->losses.error = sqrt(squares / freedom);
    for (search.skip = 0; search.skip < count; search.skip++) {
        law_point near = point;
        descend(&search, 0.05, &near, &out->without[search.skip]);
    }
    return BO_OK;
}

bo_status bo_plan_losses_fit(bo_context *context, const bo_plan_run *runs, size_t count, bo_plan_losses **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    if (!runs) runs = bo_plan_reference_runs(&count);
    BO_TRY(check(context, runs, count));
    losses_block *block = bo_alloc(context, 1, sizeof *block + count * sizeof block->without[0], "a loss law");
    if (!block) return BO_MEMORY;
    block->losses = (bo_plan_losses){.without = block->without, .run_count = count};
    const bo_status status = fit(context, runs, count, block);
    if (status == BO_OK)
        *out = &block->losses;
    else
        bo_free(block);
    return status;
}

void bo_plan_losses_destroy(bo_plan_losses *losses)
{
    bo_free(losses);
}

/* Two standard deviations each way: of the residuals, and of the law itself by the jackknife. */
void bo_plan_loss(const bo_plan_losses *losses, double parameters, double tokens, double batch, bo_plan_range *out)
{
    if (!losses || !out) return;
    const double value = bo_plan_law_at(&losses->law, parameters, tokens, batch), n = (double)losses->run_count;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < losses->run_count; i++)
        mean += bo_plan_law_at(&losses->without[i], parameters, tokens, batch) / n;
    for (size_t i = 0; i < losses->run_count; i++) {
        const double e = bo_plan_law_at(&losses->without[i], parameters, tokens, batch) - mean;
        squares += e * e;
    }
    const double noise = losses->error * value, deviation = sqrt(noise * noise + squares * (n - 1) / n);
    *out = (bo_plan_range){value, value - 2 * deviation, value + 2 * deviation};
}
