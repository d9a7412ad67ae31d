/* Laws of runs: the loss law, the time law, their intervals by a bootstrap of residuals, and forecasts. */
#include "enums.h"
#include "laws.h"
#include "../base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MIDDLE = 0.9;      /* probability of an interval */
static const double SAME = 0.05;       /* relative difference of sizes or amounts of data that count as equal */
static const double MAX_DEVIATION = 2; /* of log(measured / law) in a simulated run */

static const char *const origin_names[BO_PLAN_ORIGIN_COUNT] = {"fitted", "stored", "absent"};

BO_NAMED(plan_origin, bo_plan_origin, origin_names)

/* ---- residuals --------------------------------------------------------------------------------------------------- */

/* The deviations log(measured / law) of the runs. A simulated run deviates by a residual that is drawn from them and
 * scaled. The scale is drawn as well, as freedom · variance / χ²: with few runs the variance itself is uncertain. */
typedef struct residual_set {
    double unit[BO_PLAN_RUNS]; /* root mean square 1 */
    size_t count;
    double deviation, freedom;
} residual_set;

static residual_set residuals_of(const double *logs, size_t count, size_t parameters)
{
    residual_set set = {.count = count, .freedom = (double)count - (double)parameters};
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += logs[i] * logs[i];
    set.deviation = sqrt(squares / set.freedom);
    for (size_t i = 0; i < count; i++) set.unit[i] = squares > 0 ? logs[i] / sqrt(squares / (double)count) : 0;
    return set;
}

static double draw_scale(const residual_set *set, bo_rng *rng)
{
    return set->deviation * sqrt(set->freedom / (2 * bo_rng_gamma(rng, set->freedom / 2)));
}

static double draw(const residual_set *set, double scale, bo_rng *rng)
{
    const double e = scale * set->unit[bo_rng_below(rng, set->count)];
    return fmin(fmax(e, -MAX_DEVIATION), MAX_DEVIATION);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the quantile interval of values. Sorts them in place. */
static bo_plan_range range_of(double value, double values[BO_PLAN_REPLICATES])
{
    const double at = (1 - MIDDLE) / 2 * (BO_PLAN_REPLICATES - 1);
    const size_t low = (size_t)at, high = BO_PLAN_REPLICATES - 1 - low;
    const double part = at - (double)low;
    qsort(values, BO_PLAN_REPLICATES, sizeof *values, ascending);
    return (bo_plan_range){value, values[low] + part * (values[low + 1] - values[low]),
                           values[high] - part * (values[high] - values[high - 1])};
}

/* ---- the loss law ------------------------------------------------------------------------------------------------ */

/* An exponent of the default law with its standard deviation by the jackknife. */
typedef struct stored_powers {
    double size, data, size_deviation, data_deviation;
} stored_powers;

static double jackknife(const bo_plan_losses *losses, bool data)
{
    double mean = 0, squares = 0;
    const double n = (double)losses->run_count;
    for (size_t i = 0; i < losses->run_count; i++)
        mean += (data ? losses->without[i].data_power : losses->without[i].size_power) / n;
    for (size_t i = 0; i < losses->run_count; i++) {
        const double e = (data ? losses->without[i].data_power : losses->without[i].size_power) - mean;
        squares += e * e;
    }
    return sqrt(squares * (n - 1) / n);
}

static bo_status read_stored(bo_context *context, stored_powers *out)
{
    bo_plan_losses *losses;
    BO_TRY(bo_plan_losses_fit(context, NULL, 0, &losses));
    *out = (stored_powers){.size = losses->law.size_power,
                           .data = losses->law.data_power,
                           .size_deviation = jackknife(losses, false),
                           .data_deviation = jackknife(losses, true)};
    bo_plan_losses_destroy(losses);
    return BO_OK;
}

static double draw_power(double power, double deviation, bo_plan_origin origin, bo_rng *rng)
{
    if (origin != BO_PLAN_ORIGIN_STORED) return power;
    return fmin(fmax(power + deviation * bo_rng_normal(rng), 0.05), 1.5);
}

static size_t losses_of(const bo_plan_laws *laws, size_t skip, bo_plan_scaling_point *out)
{
    size_t count = 0;
    for (size_t i = 0; i < laws->count; i++) {
        const bo_plan_observation *o = &laws->observations[i];
        if (i != skip && isfinite(o->loss))
            out[count++] = (bo_plan_scaling_point){o->counts.parameters, o->bytes, o->loss};
    }
    return count;
}

/* Fits the law to simulated runs: those of the law, with drawn deviations. */
static bo_status replicate_losses(bo_context *context, const bo_plan_scaling_point *points, size_t count,
                                  const stored_powers *stored, bo_laws_block *block)
{
    double logs[BO_PLAN_RUNS];
    bo_rng rng = bo_rng_make(1, bo_rng_stream("plan.losses", 0));
    for (size_t i = 0; i < count; i++)
        logs[i] = log(points[i].loss / bo_plan_scaling_at(&block->law, points[i].size, points[i].data));
    const residual_set set = residuals_of(logs, count, bo_plan_scaling_freedom(&block->form));
    block->laws.loss_error = set.deviation;
    for (size_t r = 0; r < BO_PLAN_REPLICATES; r++) {
        bo_loss_replicate *to = &block->loss_replicates[r];
        bo_plan_scaling_point simulated[BO_PLAN_RUNS];
        bo_plan_scaling_law start = block->law;
        const double scale = draw_scale(&set, &rng);
        double delta = block->delta;
        BO_TRY(bo_progress(context, "fitting", (double)r / BO_PLAN_REPLICATES, 1));
        start.size_power = draw_power(start.size_power, stored->size_deviation, block->form.size, &rng);
        start.data_power = draw_power(start.data_power, stored->data_deviation, block->form.data, &rng);
        for (size_t i = 0; i < count; i++) {
            simulated[i] = points[i];
            simulated[i].loss =
                bo_plan_scaling_at(&block->law, points[i].size, points[i].data) * exp(draw(&set, scale, &rng));
        }
        if (set.deviation > 0) delta *= scale / set.deviation;
        if (!bo_plan_scaling_fit(simulated, count, &block->form, &start, true, &delta, &to->law)) to->law = block->law;
        to->deviation = draw(&set, scale, &rng);
    }
    return BO_OK;
}

static void describe_losses(bo_laws_block *block)
{
    static const char *const names[BO_PLAN_LOSS_PARAMETERS] = {"floor", "size", "size_power", "data", "data_power"};
    const bo_plan_origin size = block->form.size, data = block->form.data, fitted = BO_PLAN_ORIGIN_FITTED;
    const bo_plan_origin absent = BO_PLAN_ORIGIN_ABSENT;
    const bo_plan_origin origins[] = {fitted, size == absent ? absent : fitted, size, data == absent ? absent : fitted,
                                      data};
    for (size_t k = 0; k < BO_PLAN_LOSS_PARAMETERS; k++) {
        double values[BO_PLAN_REPLICATES];
        for (size_t r = 0; r < BO_PLAN_REPLICATES; r++) values[r] = ((const double *)&block->loss_replicates[r].law)[k];
        block->loss[k] = (bo_plan_parameter){.name = names[k], .origin = origins[k]};
        if (origins[k] != absent) block->loss[k].range = range_of(((const double *)&block->law)[k], values);
    }
}

/* Exponents that the runs do not determine. */
static bo_plan_scaling_law start_of(const stored_powers *stored)
{
    return (bo_plan_scaling_law){.size_power = stored->size, .data_power = stored->data};
}

static bo_status fit_losses(bo_context *context, const stored_powers *stored, bo_laws_block *block)
{
    bo_plan_scaling_point points[BO_PLAN_RUNS];
    const bo_plan_scaling_law start = start_of(stored);
    const size_t count = losses_of(&block->laws, SIZE_MAX, points);
    BO_TRY(bo_plan_scaling_choose(context, points, count, &block->form));
    if (!bo_plan_scaling_fit(points, count, &block->form, &start, false, &block->delta, &block->law))
        return bo_fail(context, BO_NUMERIC, "%zu runs do not determine a loss law", count);
    BO_TRY(replicate_losses(context, points, count, stored, block));
    describe_losses(block);
    return BO_OK;
}

/* ---- the time law ------------------------------------------------------------------------------------------------ */

typedef struct step_rows {
    double terms[BO_PLAN_RUNS][BO_PLAN_TERM_COUNT], seconds[BO_PLAN_RUNS];
    size_t count;
} step_rows;

static void steps_of(const bo_plan_laws *laws, size_t skip, step_rows *out)
{
    out->count = 0;
    for (size_t i = 0; i < laws->count; i++) {
        const bo_plan_observation *o = &laws->observations[i];
        if (i == skip || !isfinite(o->seconds)) continue;
        bo_plan_terms_of(&o->counts, out->terms[out->count]);
        out->seconds[out->count++] = o->seconds;
    }
}

static double step_at(const double costs[BO_PLAN_TERM_COUNT], const double terms[BO_PLAN_TERM_COUNT])
{
    double sum = 0;
    for (size_t t = 0; t < BO_PLAN_COSTS; t++) sum += costs[t] * terms[t];
    return sum;
}

/* The costs that can be fitted to this many shapes, with one degree of freedom left for the error. */
static unsigned terms_of(const step_rows *rows)
{
    size_t shapes = 0;
    for (size_t i = 0; i < rows->count; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = memcmp(rows->terms[k], rows->terms[i], sizeof rows->terms[i]) != 0;
        shapes += is_new;
    }
    const unsigned copies = 1u << BO_PLAN_TERM_COPIES, operations = 1u << BO_PLAN_TERM_OPERATIONS;
    return shapes < 3 ? copies : shapes < 4 ? copies | operations : copies | operations | 1u << BO_PLAN_TERM_LAYERS;
}

static bool fit_rows(const step_rows *rows, const double *seconds, double costs[BO_PLAN_TERM_COUNT])
{
    double scaled[BO_PLAN_RUNS][BO_PLAN_TERM_COUNT], ones[BO_PLAN_RUNS];
    for (size_t i = 0; i < rows->count; i++) {
        ones[i] = 1;
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) scaled[i][t] = rows->terms[i][t] / seconds[i];
    }
    return bo_plan_least_squares(rows->count, (const double (*)[BO_PLAN_TERM_COUNT])scaled, ones, terms_of(rows),
                                 costs);
}

static void replicate_steps(const step_rows *rows, bo_laws_block *block)
{
    double logs[BO_PLAN_RUNS], simulated[BO_PLAN_RUNS];
    const unsigned terms = terms_of(rows);
    bo_rng rng = bo_rng_make(1, bo_rng_stream("plan.steps", 0));
    for (size_t i = 0; i < rows->count; i++) logs[i] = log(rows->seconds[i] / step_at(block->cost, rows->terms[i]));
    const residual_set set = residuals_of(logs, rows->count, (size_t)__builtin_popcount(terms));
    block->laws.step_error = set.deviation;
    for (size_t r = 0; r < BO_PLAN_REPLICATES; r++) {
        bo_step_replicate *to = &block->step_replicates[r];
        const double scale = draw_scale(&set, &rng);
        for (size_t i = 0; i < rows->count; i++)
            simulated[i] = step_at(block->cost, rows->terms[i]) * exp(draw(&set, scale, &rng));
        if (!fit_rows(rows, simulated, to->costs)) memcpy(to->costs, block->cost, sizeof block->cost);
        to->deviation = draw(&set, scale, &rng);
    }
}

/* The time law needs two timed runs. Without it, forecasts have no time. */
static void fit_steps(bo_laws_block *block)
{
    step_rows rows;
    steps_of(&block->laws, SIZE_MAX, &rows);
    const unsigned terms = terms_of(&rows);
    block->laws.step_error = NAN;
    block->timed = rows.count > 1 && fit_rows(&rows, rows.seconds, block->cost);
    if (block->timed) replicate_steps(&rows, block);
    for (size_t t = 0; t < BO_PLAN_COSTS; t++) {
        double values[BO_PLAN_REPLICATES];
        const bool used = block->timed && terms >> t & 1;
        for (size_t r = 0; r < BO_PLAN_REPLICATES; r++) values[r] = block->step_replicates[r].costs[t];
        block->costs[t] = (bo_plan_parameter){.name = bo_plan_term_name((bo_plan_term)t),
                                              .origin = used ? BO_PLAN_ORIGIN_FITTED : BO_PLAN_ORIGIN_ABSENT};
        if (used) block->costs[t].range = range_of(block->cost[t], values);
    }
}

/* ---- forecasts --------------------------------------------------------------------------------------------------- */

/* The factor by which a value lies outside [low, high]. */
static double outside(double value, double low, double high)
{
    return value < low ? low / value : value > high ? value / high : 1;
}

typedef struct run_ranges {
    double sizes[2], bytes[2];
} run_ranges;

/* Over the runs with a loss, except run `skip`. */
static run_ranges ranges_of(const bo_plan_laws *laws, size_t skip)
{
    run_ranges ranges = {{INFINITY, 0}, {INFINITY, 0}};
    for (size_t i = 0; i < laws->count; i++) {
        const bo_plan_observation *o = &laws->observations[i];
        if (i == skip || !isfinite(o->loss)) continue;
        ranges.sizes[0] = fmin(ranges.sizes[0], o->counts.parameters);
        ranges.sizes[1] = fmax(ranges.sizes[1], o->counts.parameters);
        ranges.bytes[0] = fmin(ranges.bytes[0], o->bytes);
        ranges.bytes[1] = fmax(ranges.bytes[1], o->bytes);
    }
    return ranges;
}

static double beyond(const run_ranges *ranges, double size, double bytes)
{
    return fmax(outside(size, ranges->sizes[0], ranges->sizes[1]), outside(bytes, ranges->bytes[0], ranges->bytes[1]));
}

/* A law without a size term or a data term is valid for a single size or amount of data. */
static bool law_covers(const bo_plan_scaling_form *form, const run_ranges *ranges, double size, double bytes)
{
    const double limit = 1 + SAME;
    return (form->size != BO_PLAN_ORIGIN_ABSENT || outside(size, ranges->sizes[0], ranges->sizes[1]) < limit) &&
           (form->data != BO_PLAN_ORIGIN_ABSENT || outside(bytes, ranges->bytes[0], ranges->bytes[1]) < limit);
}

static bo_plan_forecast forecast(const bo_laws_block *block, const bo_plan_counts *counts, double bytes)
{
    const bo_plan_range none = {NAN, NAN, NAN};
    const run_ranges ranges = ranges_of(&block->laws, SIZE_MAX);
    bo_plan_forecast out = {none, none, beyond(&ranges, counts->parameters, bytes)};
    double terms[BO_PLAN_TERM_COUNT], values[BO_PLAN_REPLICATES];
    bo_plan_terms_of(counts, terms);
    if (law_covers(&block->form, &ranges, counts->parameters, bytes)) {
        for (size_t r = 0; r < BO_PLAN_REPLICATES; r++) {
            const bo_loss_replicate *from = &block->loss_replicates[r];
            values[r] = bo_plan_scaling_at(&from->law, counts->parameters, bytes) * exp(from->deviation);
        }
        out.loss = range_of(bo_plan_scaling_at(&block->law, counts->parameters, bytes), values);
    }
    if (block->timed) {
        for (size_t r = 0; r < BO_PLAN_REPLICATES; r++)
            values[r] = step_at(block->step_replicates[r].costs, terms) * exp(block->step_replicates[r].deviation);
        out.step = range_of(step_at(block->cost, terms), values);
    }
    return out;
}

bo_status bo_plan_forecast_run(bo_context *context, const bo_plan_laws *laws, const bo_plan_counts *counts,
                               double bytes, bo_plan_forecast *out)
{
    BO_REQUIRE(context, laws, counts, out);
    if (!(counts->parameters > 0 && bytes > 0 && isfinite(counts->parameters) && isfinite(bytes)))
        return bo_fail(context, BO_INVALID, "forecast: expected positive parameters and bytes, found %g and %g",
                       counts->parameters, bytes);
    *out = forecast((const bo_laws_block *)laws, counts, bytes);
    return BO_OK;
}

/* Predicts one run from the others, without intervals. If the other runs determine the same exponents, the search
 * starts at the law of all runs. Otherwise it uses the stored exponents, because the fitted ones depend on the left-out
 * run. */
static bo_plan_forecast leave_out(const bo_laws_block *block, const bo_plan_scaling_law *start, size_t skip)
{
    const bo_plan_observation *o = &block->laws.observations[skip];
    const bo_plan_range none = {NAN, NAN, NAN};
    const run_ranges ranges = ranges_of(&block->laws, skip);
    bo_plan_forecast out = {none, none, beyond(&ranges, o->counts.parameters, o->bytes)};
    bo_plan_scaling_point points[BO_PLAN_RUNS];
    bo_plan_scaling_form form;
    bo_plan_scaling_law law;
    step_rows rows;
    double delta = block->delta, costs[BO_PLAN_TERM_COUNT], terms[BO_PLAN_TERM_COUNT];
    const size_t count = losses_of(&block->laws, skip, points);
    const bool determined = bo_plan_scaling_form_of(points, count, &form);
    const bool same = form.size == block->form.size && form.data == block->form.data;
    if (isfinite(o->loss) && determined && law_covers(&form, &ranges, o->counts.parameters, o->bytes) &&
        bo_plan_scaling_fit(points, count, &form, same ? &block->law : start, same, &delta, &law))
        out.loss.value = bo_plan_scaling_at(&law, o->counts.parameters, o->bytes);
    steps_of(&block->laws, skip, &rows);
    bo_plan_terms_of(&o->counts, terms);
    if (isfinite(o->seconds) && rows.count > 0 && fit_rows(&rows, rows.seconds, costs))
        out.step.value = step_at(costs, terms);
    return out;
}

static bo_status leave_out_all(bo_context *context, const stored_powers *stored, bo_laws_block *block)
{
    const bo_plan_scaling_law start = start_of(stored);
    const size_t count = block->laws.count;
    for (size_t i = 0; i < count; i++) {
        BO_TRY(bo_progress(context, "leave-one-out", (double)i, (double)count));
        block->left_out[i] = leave_out(block, &start, i);
    }
    return BO_OK;
}

/* ---- laws -------------------------------------------------------------------------------------------------------- */

static bo_status check_observation(bo_context *context, const bo_plan_observation *o)
{
    const double numbers[] = {o->counts.parameters, o->counts.copies, o->counts.operations, o->counts.layers, o->bytes};
    BO_TRY(bo_check_reserved(context, "bo_plan_observation", o->reserved));
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!(numbers[k] > 0 && numbers[k] < 1e18))
            return bo_fail(context, BO_INVALID, "%s: expected counts and bytes between 0 and 1e18, found %g",
                           o->name ? o->name : "a run", numbers[k]);
    if ((isnan(o->loss) || (o->loss > 1e-9 && o->loss < 1e3)) &&
        (isnan(o->seconds) || (o->seconds > 1e-9 && o->seconds < 1e9)))
        return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: expected a positive loss and positive seconds, found %g and %g",
                   o->name ? o->name : "a run", o->loss, o->seconds);
}

static bo_status check(bo_context *context, const bo_plan_family *family, const bo_plan_observation *observations,
                       size_t count)
{
    BO_TRY(bo_check_reserved(context, "bo_plan_family", family->reserved));
    if (!family->config) return bo_fail(context, BO_INVALID, "laws: the family has no config");
    if (!family->batch) return bo_fail(context, BO_INVALID, "laws: batch: expected at least 1, found 0");
    if ((unsigned)family->optimizer >= BO_OPTIMIZER_COUNT || (unsigned)family->activations >= BO_STORAGE_COUNT)
        return bo_fail(context, BO_INVALID, "laws: unknown optimizer %d or storage %d", (int)family->optimizer,
                       (int)family->activations);
    if (!(family->token_bytes >= 0 && family->token_bytes < 1e6))
        return bo_fail(context, BO_INVALID, "laws: token_bytes: expected 0 to 1e6, found %g", family->token_bytes);
    if (count > BO_PLAN_RUNS)
        return bo_fail(context, BO_INVALID, "laws: expected at most %d runs, found %zu", BO_PLAN_RUNS, count);
    for (size_t i = 0; i < count; i++) BO_TRY(check_observation(context, &observations[i]));
    return BO_OK;
}

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *keep(char **cursor, const char *text)
{
    if (!text) return NULL;
    char *copy = *cursor;
    memcpy(copy, text, strlen(text) + 1);
    *cursor += strlen(text) + 1;
    return copy;
}

static bo_status create(bo_context *context, const bo_plan_family *family, const bo_plan_observation *observations,
                        size_t count, bo_laws_block **out)
{
    size_t bytes = size_of(family->config) + size_of(family->options) + size_of(family->isa);
    for (size_t i = 0; i < count; i++) bytes += size_of(observations[i].name);
    bo_laws_block *block = bo_alloc(context, 1, sizeof *block + bytes, "fitted laws");
    if (!block) return BO_MEMORY;
    char *cursor = block->text;
    block->laws = (bo_plan_laws){.family = *family,
                                 .observations = block->observations,
                                 .count = count,
                                 .loss = block->loss,
                                 .costs = block->costs,
                                 .left_out = block->left_out};
    if (family->token_bytes == 0) block->laws.family.token_bytes = 1;
    block->laws.family.config = keep(&cursor, family->config);
    block->laws.family.options = keep(&cursor, family->options);
    block->laws.family.isa = keep(&cursor, family->isa);
    for (size_t i = 0; i < count; i++) {
        block->observations[i] = observations[i];
        block->observations[i].name = keep(&cursor, observations[i].name);
    }
    *out = block;
    return BO_OK;
}

bo_status bo_plan_laws_fit(bo_context *context, const bo_plan_family *family, const bo_plan_observation *observations,
                           size_t count, bo_plan_laws **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, family, out);
    BO_REQUIRE_IF(context, count > 0, observations);
    bo_laws_block *block;
    stored_powers stored;
    BO_TRY(check(context, family, observations, count));
    BO_TRY(read_stored(context, &stored));
    BO_TRY(create(context, family, observations, count, &block));
    bo_status status = fit_losses(context, &stored, block);
    if (status == BO_OK) {
        fit_steps(block);
        status = leave_out_all(context, &stored, block);
    }
    if (status == BO_OK)
        *out = &block->laws;
    else
        bo_free(block);
    return status;
}

void bo_plan_laws_destroy(bo_plan_laws *laws)
{
    bo_free(laws);
}
