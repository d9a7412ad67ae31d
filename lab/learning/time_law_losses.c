/* Losses of small models: the law fitted to them, models not used in the fit, and depth at equal parameters and equal
 * time. */
#include "time_law.h"
#include <math.h>
#include <stdio.h>

enum { SIZES = 4, LENGTHS = 3, FITTED = SIZES * LENGTHS, HELD_OUT = 3 };

/* Layers and width, smallest first: four are fitted, two are held out. */
static const size_t full_sizes[SIZES + 2][2] = {{1, 32}, {2, 32}, {2, 48}, {2, 64}, {4, 64}, {3, 96}};
static const size_t quick_sizes[SIZES + 2][2] = {{1, 32}, {1, 48}, {2, 32}, {2, 48}, {2, 64}, {2, 64}};

static const size_t *size_at(const lab_run *run, size_t index)
{
    return lab_quick(run) ? quick_sizes[index] : full_sizes[index];
}

/* Tokens of the shortest run. The other runs are 2, 4 and 8 times as long. */
static double shortest(const lab_run *run)
{
    return (double)lab_size(run, 81920, 4096);
}

static bo_plan_shape shape_of(const lab_run *run, size_t layers, size_t width)
{
    bo_plan_shape shape = time_law_shape(layers, width, lab_size(run, 128, 64), lab_size(run, 4, 2));
    if (width % 32 != 0) shape.heads = width / 24;
    return shape;
}

bo_plan_shape time_law_deep(const lab_run *run)
{
    return shape_of(run, 8, lab_size(run, 64, 32));
}

bo_plan_shape time_law_wide(const lab_run *run)
{
    return shape_of(run, 2, lab_size(run, 128, 64));
}

static bo_plan_shape third_of_wide(const lab_run *run)
{
    return shape_of(run, 2, lab_size(run, 64, 32));
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct training_set {
    lab_run *run;
    lab_text text;
    double done, all; /* number of models, for progress */
} training_set;

static bo_status train(training_set *set, bo_plan_shape shape, double tokens, bo_plan_run *out)
{
    bo_model_desc desc;
    bo_trainer_desc training;
    bo_model *model;
    lab_trained trained;
    const double step = (double)(shape.context * shape.batch), steps = round(tokens / step);
    BO_TRY(bo_plan_descriptors(lab_context(set->run), &shape, &desc, &training));
    const lab_training how = {.optimizer = training.optimizer,
                              .batch = shape.batch,
                              .steps = (uint64_t)steps,
                              .eval_tokens = lab_size(set->run, 65536, 8192),
                              .from = 0.3 + 0.7 * set->done / set->all,
                              .to = 0.3 + 0.7 * (set->done + 1) / set->all};
    BO_TRY(lab_train_new(set->run, &desc, &set->text, &how, &model, &trained));
    *out = (bo_plan_run){(double)bo_model_report(model)->parameters, steps * step, step, trained.loss};
    bo_model_destroy(model);
    set->done++;
    return BO_OK;
}

/* ---- the law ----------------------------------------------------------------------------------------------------- */

static void report_law(lab_run *run, const bo_plan_losses *losses)
{
    const bo_plan_law *law = &losses->law;
    lab_cell(run, "law", "floor, nats", "fitted", law->floor);
    lab_cell(run, "law", "size", "fitted", law->size);
    lab_cell(run, "law", "exponent of size", "fitted", law->size_power);
    lab_cell(run, "law", "data", "fitted", law->data);
    lab_cell(run, "law", "exponent of data", "fitted", law->data_power);
    lab_cell(run, "law", "error of the fit, %", "fitted", 100 * losses->error);
}

static bo_status fit_law(training_set *set, bo_plan_losses **losses)
{
    bo_plan_run runs[FITTED];
    lab_run *run = set->run;
    for (size_t s = 0; s < SIZES; s++)
        for (size_t l = 0; l < LENGTHS; l++) {
            bo_plan_run *measured = &runs[s * LENGTHS + l];
            const size_t *size = size_at(run, s);
            char column[32];
            BO_TRY(train(set, shape_of(run, size[0], size[1]), ldexp(shortest(run), (int)l), measured));
            snprintf(column, sizeof column, "%zu x %zu", size[0], size[1]);
            lab_point(run, "losses", column, measured->tokens, measured->loss);
        }
    BO_TRY(bo_plan_losses_fit(lab_context(run), runs, FITTED, losses));
    report_law(run, *losses);
    return BO_OK;
}

/* Predicts models with more parameters than any fitted one, with more tokens, and with both. */
static bo_status predict(training_set *set, const bo_plan_losses *losses)
{
    static const size_t size[HELD_OUT] = {SIZES + 1, SIZES - 1, SIZES};
    static const int length[HELD_OUT] = {LENGTHS - 1, LENGTHS, LENGTHS};
    double sum = 0;
    for (size_t i = 0; i < HELD_OUT; i++) {
        const size_t *s = size_at(set->run, size[i]);
        bo_plan_run measured;
        char row[64];
        BO_TRY(train(set, shape_of(set->run, s[0], s[1]), ldexp(shortest(set->run), length[i]), &measured));
        bo_plan_range found;
        bo_plan_loss(losses, measured.parameters, measured.tokens, measured.batch, &found);
        snprintf(row, sizeof row, "%zu x %zu, %.0fk tokens", s[0], s[1], 1e-3 * measured.tokens);
        lab_cell(set->run, "held-out", row, "measured", measured.loss);
        lab_cell(set->run, "held-out", row, "predicted", found.value);
        sum += fabs(found.value / measured.loss - 1);
    }
    lab_claim(set->run, "losses", sum / HELD_OUT);
    return BO_OK;
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

static void report_loss(lab_run *run, const bo_plan_shape *shape, const char *how, double loss)
{
    char row[64];
    snprintf(row, sizeof row, "%zu x %zu, %s", shape->layers, shape->width, how);
    lab_cell(run, "equal", row, "loss", loss);
}

/* Compares shapes with equal parameters after the same number of tokens with a model of a third of the parameters, and
 * in equal time. */
static bo_status compare_shapes(training_set *set, double slower)
{
    lab_run *run = set->run;
    const double tokens = ldexp(shortest(run), LENGTHS - 1);
    const bo_plan_shape deep = time_law_deep(run), wide = time_law_wide(run), third = third_of_wide(run);
    bo_plan_run as_many, wider, smaller, as_long;
    BO_TRY(train(set, deep, tokens, &as_many));
    BO_TRY(train(set, deep, tokens / fmax(slower, 0.5), &as_long));
    BO_TRY(train(set, wide, tokens, &wider));
    BO_TRY(train(set, third, tokens, &smaller));
    report_loss(run, &deep, "same number of tokens", as_many.loss);
    report_loss(run, &deep, "same time", as_long.loss);
    report_loss(run, &wide, "the wider", wider.loss);
    report_loss(run, &third, "a third of the parameters", smaller.loss);
    lab_claim(run, "equivalence", fabs(as_many.loss - wider.loss) / (smaller.loss - wider.loss));
    lab_claim(run, "equal-time", as_long.loss - wider.loss);
    return BO_OK;
}

bo_status time_law_losses(lab_run *run, double slower)
{
    training_set set = {.run = run, .all = FITTED + HELD_OUT + 4};
    bo_plan_losses *losses = NULL;
    BO_TRY(lab_text_open(run, (size_t)2 << 20, &set.text));
    bo_status status = fit_law(&set, &losses);
    if (status == BO_OK) status = predict(&set, losses);
    if (status == BO_OK) status = compare_shapes(&set, slower);
    bo_plan_losses_destroy(losses);
    lab_text_close(&set.text);
    return status;
}
