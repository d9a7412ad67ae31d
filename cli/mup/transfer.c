/* bochner mup transfer: trains each width at each learning rate, to see whether the best rate depends on the width. */
#include "mup.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* loss[side][width * rates + rate]: validation loss after the last step; NAN: the run diverged. */
typedef struct transfer {
    cli_mup_job *job;
    size_t widths, rates;
    double *loss[CLI_MUP_SIDES];
} transfer;

static double *loss_at(const transfer *t, size_t side, size_t width, size_t rate)
{
    return &t->loss[side][width * t->rates + rate];
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* With Muon, the learning rate of AdamW is scaled by the same factor, so that the ratio of the default rates is
 * kept. */
static void set_rate(bo_optimizer_desc *optimizer, double rate)
{
    optimizer->rate = rate;
    if (optimizer->kind == BO_OPTIMIZER_MUON) optimizer->other_rate = 0.15 * rate;
}

static bo_status train(cli_train_job *run, const bo_model_desc *desc, double rate, double *loss)
{
    bo_context *context = run->session->context;
    bo_trainer *trainer = NULL;
    bo_status status = bo_model_create(context, desc, run->tokenizer, &run->model);
    if (status != BO_OK) return status;
    run->desc.model = run->model;
    run->desc.report = NULL;
    run->desc.eval_every = run->desc.steps;
    set_rate(&run->desc.optimizer, rate);
    status = bo_trainer_create(context, &run->desc, &trainer);
    if (status == BO_OK) status = bo_trainer_run(context, trainer);
    *loss = status == BO_OK ? bo_trainer_report(trainer)->valid_loss : NAN;
    bo_trainer_destroy(trainer);
    bo_model_destroy(run->model);
    run->model = NULL;
    return status == BO_NUMERIC ? BO_OK : status;
}

/* At the base width the maximal-update parametrization equals the standard one bit for bit: the result is already
 * known. */
static bool known(const transfer *t, const bo_model_desc *desc, size_t side)
{
    return side > 0 && t->job->sides[side] == BO_PARAMETRIZATION_MUP && desc->width == desc->base_width;
}

static bo_status run_width(transfer *t, const bo_model_desc *model, size_t side, size_t width)
{
    cli_mup_options *o = t->job->options;
    const bo_model_desc at = cli_mup_side(t->job, model, side);
    bo_model_desc desc;
    bo_status status = bo_model_widen(t->job->session->context, &at, o->widths.items[width], &desc);
    for (size_t rate = 0; status == BO_OK && rate < t->rates; rate++) {
        double *loss = loss_at(t, side, width, rate);
        if (known(t, &desc, side))
            *loss = *loss_at(t, 0, width, rate);
        else
            status = train(&t->job->train, &desc, o->rates[rate], loss);
        if (status == BO_OK)
            cli_note(t->job->session, "%-8s width %4zu  learning rate %-9.4g valid %.4f",
                     bo_enum_name(BO_ENUM_PARAMETRIZATION, t->job->sides[side]), o->widths.items[width], o->rates[rate],
                     *loss);
    }
    bo_model_desc_release(&desc);
    return status;
}

/* ---- the best rate ----------------------------------------------------------------------------------------------- */

/* The minimum of a parabola through the best point and its neighbors, over the logarithm of the rate. NAN: all runs
 * diverged. */
static double best_rate(const transfer *t, size_t side, size_t width)
{
    const double *rates = t->job->options->rates, *loss = loss_at(t, side, width, 0);
    size_t best = t->rates;
    for (size_t i = 0; i < t->rates; i++)
        if (isfinite(loss[i]) && (best == t->rates || loss[i] < loss[best])) best = i;
    if (best == t->rates) return NAN;
    if (best == 0 || best + 1 == t->rates || !isfinite(loss[best - 1]) || !isfinite(loss[best + 1])) return rates[best];
    const double left = log2(rates[best] / rates[best - 1]), right = log2(rates[best + 1] / rates[best]);
    const double down = (loss[best] - loss[best - 1]) / left, up = (loss[best + 1] - loss[best]) / right;
    const double curvature = 2 * (up - down) / (left + right);
    const double slope = (down * right + up * left) / (left + right);
    return curvature > 0 ? rates[best] * exp2(fmax(-left, fmin(right, -slope / curvature))) : rates[best];
}

static double octaves(const transfer *t, size_t side)
{
    return log2(best_rate(t, side, t->widths - 1) / best_rate(t, side, 0));
}

/* Interpolates linearly in the logarithm of the rate. */
static double loss_near(const transfer *t, size_t side, size_t width, double rate)
{
    const double *rates = t->job->options->rates, *loss = loss_at(t, side, width, 0);
    size_t next = 1;
    while (next + 1 < t->rates && rates[next] < rate) next++;
    if (t->rates < 2) return loss[0];
    const double part = log(rate / rates[next - 1]) / log(rates[next] / rates[next - 1]);
    return loss[next - 1] + part * (loss[next] - loss[next - 1]);
}

/* The increase of the loss at the last width with the best rate of the first width. */
static double cost(const transfer *t, size_t side)
{
    const size_t last = t->widths - 1;
    double lowest = INFINITY;
    for (size_t i = 0; i < t->rates; i++) lowest = fmin(lowest, *loss_at(t, side, last, i));
    return loss_near(t, side, last, best_rate(t, side, 0)) - lowest;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static void print_side(const transfer *t, size_t side)
{
    const cli_mup_options *o = t->job->options;
    printf("%s%s parametrization: validation loss after %zu steps\n  rate      ", side ? "\n" : "",
           bo_enum_name(BO_ENUM_PARAMETRIZATION, t->job->sides[side]), o->train_args.options.steps);
    for (size_t w = 0; w < t->widths; w++) printf("  width %-5zu", o->widths.items[w]);
    for (size_t r = 0; r < t->rates; r++) {
        printf("\n  %-10.4g", o->rates[r]);
        for (size_t w = 0; w < t->widths; w++) {
            const double loss = *loss_at(t, side, w, r);
            if (isfinite(loss))
                printf("  %-11.4f", loss);
            else
                printf("  %-11s", "diverged");
        }
    }
    printf("\n  best      ");
    for (size_t w = 0; w < t->widths; w++) printf("  %-11.4g", best_rate(t, side, w));
    printf(
        "\n  From width %zu to %zu, the best rate changes by %+.2f octaves. At width %zu, the best rate of width %zu "
        "increases the loss by %.4f.\n",
        o->widths.items[0], o->widths.items[t->widths - 1], octaves(t, side), o->widths.items[t->widths - 1],
        o->widths.items[0], cost(t, side));
}

static void json_numbers(cli_json *json, const char *key, const double *values, size_t count)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < count; i++) cli_json_add_number(json, NULL, values[i]);
    cli_json_end(json);
}

static void json_side(cli_json *json, const transfer *t, size_t side)
{
    cli_json_object(json, bo_enum_name(BO_ENUM_PARAMETRIZATION, t->job->sides[side]));
    cli_json_array(json, "losses");
    for (size_t w = 0; w < t->widths; w++) json_numbers(json, NULL, loss_at(t, side, w, 0), t->rates);
    cli_json_end(json);
    cli_json_array(json, "best");
    for (size_t w = 0; w < t->widths; w++) cli_json_add_number(json, NULL, best_rate(t, side, w));
    cli_json_end(json);
    cli_json_add_number(json, "octaves", octaves(t, side));
    cli_json_add_number(json, "cost", cost(t, side));
    cli_json_end(json);
}

static void report(const transfer *t)
{
    const cli_mup_options *o = t->job->options;
    if (!t->job->session->common.json) {
        for (size_t side = 0; side < CLI_MUP_SIDES; side++) print_side(t, side);
        return;
    }
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_array(&json, "widths");
    for (size_t w = 0; w < t->widths; w++) cli_json_add_count(&json, NULL, o->widths.items[w]);
    cli_json_end(&json);
    json_numbers(&json, "rates", o->rates, t->rates);
    cli_json_add_count(&json, "steps", o->train_args.options.steps);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) json_side(&json, t, side);
    cli_json_end(&json);
}

/* The upper limit of the plot. Losses at rates far above the best would compress the rest of the curves. */
static double ceiling(const transfer *t)
{
    double lowest = INFINITY, highest = -INFINITY;
    for (size_t side = 0; side < CLI_MUP_SIDES; side++)
        for (size_t w = 0; w < t->widths; w++) {
            double best = INFINITY;
            for (size_t r = 0; r < t->rates; r++) best = fmin(best, *loss_at(t, side, w, r));
            lowest = fmin(lowest, best);
            highest = isfinite(best) ? fmax(highest, best) : highest;
        }
    return fmax(highest + 2 * (highest - lowest), 1.15 * lowest);
}

static int draw(const transfer *t)
{
    const cli_mup_options *o = t->job->options;
    cli_mup_panels panels = {.x_label = "learning rate",
                             .y_label = "validation loss",
                             .x_format = "2^%L",
                             .count = t->widths,
                             .max_y = ceiling(t)};
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) {
        panels.curves[side] = cli_allocate(t->widths, sizeof *panels.curves[side], "a plot");
        snprintf(panels.titles[side], sizeof panels.titles[side], "%s, %zu steps",
                 bo_enum_name(BO_ENUM_PARAMETRIZATION, t->job->sides[side]), o->train_args.options.steps);
        for (size_t w = 0; w < t->widths; w++) {
            cli_mup_curve *curve = &panels.curves[side][w];
            snprintf(curve->name, sizeof curve->name, "width %zu", o->widths.items[w]);
            curve->count = t->rates;
            memcpy(curve->x, o->rates, t->rates * sizeof *curve->x);
            memcpy(curve->y, loss_at(t, side, w, 0), t->rates * sizeof *curve->y);
        }
    }
    const int status = cli_mup_plot(t->job->session, o->plot, &panels);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) free(panels.curves[side]);
    return status;
}

/* ---- all runs ---------------------------------------------------------------------------------------------------- */

int cli_mup_transfer(cli_mup_job *job)
{
    cli_train_options *o = &job->options->train_args.options;
    transfer t = {.job = job, .widths = job->options->widths.count, .rates = job->options->rate_count};
    bo_model_desc model;
    if (!o->layers) o->layers = 2;
    if (!o->context) o->context = 128;
    if (!o->steps) o->steps = 200;
    if (!cli_mup_describe(job, true, &model)) return CLI_FAILED;
    cli_train_describe_run(&job->train);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++)
        t.loss[side] = cli_allocate(t.widths * t.rates, sizeof(double), "losses");
    bo_status status = BO_OK;
    for (size_t side = 0; side < CLI_MUP_SIDES; side++)
        for (size_t width = 0; status == BO_OK && width < t.widths; width++)
            status = run_width(&t, &model, side, width);
    if (status == BO_OK) report(&t);
    int ended = status == BO_OK ? CLI_DONE : cli_fail_status(job->session, status);
    if (ended == CLI_DONE && job->options->plot) ended = draw(&t);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) free(t.loss[side]);
    return ended;
}
