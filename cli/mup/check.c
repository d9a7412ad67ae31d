/* bochner mup check: sizes of activations and norms of matrices at several widths after a few steps. */
#include "mup.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes that depend on the width grow at least like the square root of the width. Random parts shrink like the inverse
 * of that root, and learned parts stay constant; a size is the sum of both, so its slope lies between -1/2 and 0. */
static const char *verdict(double slope)
{
    return isnan(slope) ? "-" : slope > 0.25 ? "grows" : slope < -0.5 ? "shrinks" : "flat";
}

static void print_values(const cli_mup_job *job, const bo_widths_trend *trend, int name_width)
{
    printf("  %-*s", name_width, trend->name);
    for (size_t i = 0; i < job->options->widths.count; i++) printf(" %10.4g", trend->values[i]);
    if (isnan(trend->slope))
        printf("          -\n");
    else
        printf("    %+7.2f  %s\n", trend->slope, verdict(trend->slope));
}

static void print_heading(const cli_mup_job *job, const char *title, int name_width)
{
    printf("  %-*s", name_width, title);
    for (size_t i = 0; i < job->options->widths.count; i++) printf(" %10zu", job->options->widths.items[i]);
    printf("      slope\n");
}

static void print_matrices(const cli_mup_job *job, const bo_widths *w, const char *title, const bo_widths_trend *of)
{
    printf("\n");
    print_heading(job, title, 44);
    for (size_t i = 0; i < w->matrices; i++) print_values(job, &of[i], 44);
}

static void print_side(const cli_mup_job *job, const bo_widths *w, size_t side)
{
    const size_t last = w->steps;
    char title[96];
    snprintf(title, sizeof title, "mean |activation| after %zu steps", last);
    printf("%s%s parametrization\n", side ? "\n" : "", bo_enum_name(BO_ENUM_PARAMETRIZATION, job->sides[side]));
    print_heading(job, title, 44);
    for (size_t part = 0; part < w->parts; part++) print_values(job, &w->activations[last * w->parts + part], 44);
    print_matrices(job, w, "|W| / sqrt(out / in) at the start", w->norms);
    print_matrices(job, w, "|change of W| / sqrt(out / in)", w->changes);
    printf("\n  %-44s", "loss");
    for (size_t i = 0; i < job->options->widths.count; i++) printf(" %10.4f", w->losses[last].values[i]);
    printf("\n");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_trend(cli_json *json, const cli_mup_job *job, const bo_widths_trend *trend)
{
    cli_json_object(json, NULL);
    cli_json_add_text(json, "name", trend->name);
    cli_json_array(json, "values");
    for (size_t i = 0; i < job->options->widths.count; i++) cli_json_add_number(json, NULL, trend->values[i]);
    cli_json_end(json);
    cli_json_add_number(json, "slope", trend->slope);
    cli_json_add_text(json, "verdict", verdict(trend->slope));
    cli_json_end(json);
}

static void json_matrices(cli_json *json, const cli_mup_job *job, const char *key, const bo_widths *w,
                          const bo_widths_trend *of)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < w->matrices; i++) json_trend(json, job, &of[i]);
    cli_json_end(json);
}

static void json_side(cli_json *json, const cli_mup_job *job, const bo_widths *w, size_t side)
{
    cli_json_object(json, bo_enum_name(BO_ENUM_PARAMETRIZATION, job->sides[side]));
    cli_json_array(json, "activations");
    for (size_t step = 0; step <= w->steps; step++) {
        cli_json_array(json, NULL);
        for (size_t part = 0; part < w->parts; part++) json_trend(json, job, &w->activations[step * w->parts + part]);
        cli_json_end(json);
    }
    cli_json_end(json);
    json_matrices(json, job, "norms", w, w->norms);
    json_matrices(json, job, "changes", w, w->changes);
    cli_json_array(json, "losses");
    for (size_t i = 0; i < job->options->widths.count; i++)
        cli_json_add_number(json, NULL, w->losses[w->steps].values[i]);
    cli_json_end(json);
    cli_json_end(json);
}

static void report(const cli_mup_job *job, bo_widths *const sides[CLI_MUP_SIDES])
{
    if (!job->session->common.json) {
        for (size_t side = 0; side < CLI_MUP_SIDES; side++) print_side(job, sides[side], side);
        return;
    }
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_array(&json, "widths");
    for (size_t i = 0; i < job->options->widths.count; i++)
        cli_json_add_count(&json, NULL, job->options->widths.items[i]);
    cli_json_end(&json);
    cli_json_add_count(&json, "steps", sides[0]->steps);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) json_side(&json, job, sides[side], side);
    cli_json_end(&json);
}

/* ---- the plot ---------------------------------------------------------------------------------------------------- */

static int draw(const cli_mup_job *job, bo_widths *const sides[CLI_MUP_SIDES])
{
    const size_t parts = sides[0]->parts, steps = sides[0]->steps;
    cli_mup_panels panels = {
        .x_label = "width", .y_label = "mean |activation|", .x_format = "%g", .log_y = true, .count = parts};
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) {
        panels.curves[side] = cli_allocate(parts, sizeof *panels.curves[side], "a plot");
        snprintf(panels.titles[side], sizeof panels.titles[side], "%s, %zu steps",
                 bo_enum_name(BO_ENUM_PARAMETRIZATION, job->sides[side]), steps);
        for (size_t part = 0; part < parts; part++) {
            const bo_widths_trend *trend = &sides[side]->activations[steps * sides[side]->parts + part];
            cli_mup_curve *curve = &panels.curves[side][part];
            snprintf(curve->name, sizeof curve->name, "%s", trend->name);
            curve->count = job->options->widths.count;
            for (size_t i = 0; i < curve->count; i++) {
                curve->x[i] = (double)job->options->widths.items[i];
                curve->y[i] = trend->values[i] > 0 ? trend->values[i] : NAN;
            }
        }
    }
    const int status = cli_mup_plot(job->session, job->options->plot, &panels);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) free(panels.curves[side]);
    return status;
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

static bo_status measure(const cli_mup_job *job, const bo_model_desc *model, size_t side, bo_widths **out)
{
    const cli_train_options *o = &job->options->train_args.options;
    bo_widths_desc desc = {.model = cli_mup_side(job, model, side),
                           .widths = job->options->widths.items,
                           .width_count = job->options->widths.count,
                           .optimizer = job->train.desc.optimizer,
                           .steps = o->steps,
                           .batch = o->batch,
                           .seed = job->session->common.seed};
    return bo_widths_measure(job->session->context, &desc, out);
}

int cli_mup_check(cli_mup_job *job)
{
    cli_train_options *o = &job->options->train_args.options;
    bo_widths *sides[CLI_MUP_SIDES] = {NULL};
    bo_model_desc model;
    if (!o->layers) o->layers = 2;
    if (!o->context) o->context = 16;
    if (!cli_mup_describe(job, false, &model)) return CLI_FAILED;
    cli_train_describe_run(&job->train);
    bo_status status = BO_OK;
    for (size_t side = 0; status == BO_OK && side < CLI_MUP_SIDES; side++)
        status = measure(job, &model, side, &sides[side]);
    if (status == BO_OK) report(job, sides);
    int ended = status == BO_OK ? CLI_DONE : cli_fail_status(job->session, status);
    if (ended == CLI_DONE && job->options->plot) ended = draw(job, sides);
    for (size_t side = 0; side < CLI_MUP_SIDES; side++) bo_widths_destroy(sides[side]);
    return ended;
}
