/* Networks T_d on tasks that need mixing. On vectors: a linear layer into WIDTH columns, L layers x + W
 * norm(P_d(rms(x))), and a linear output layer. On sequences of tokens: the same with layers that mix tokens by a
 * polynomial of degree d; the output is that of the last token. */
#include "mixing_tasks.h"
#include "degree.h"
#include <bochner/train.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 16, BATCH = 64, RATES = 2 };

/* Sizes are chosen so that some networks learn a task and others do not. Parity is taken of an even and of an odd
 * number of signs: a product of three factors is odd in x, like the second task and unlike the first. */
typedef struct task_desc {
    const char *name;
    lab_mixing kind;
    size_t places, quick_places;
} task_desc;
static const task_desc row_tasks[] = {{"polynomial", LAB_MIXING_POLYNOMIAL, 0, 0},
                                      {"parity, even", LAB_MIXING_PARITY, 12, 4},
                                      {"parity, odd", LAB_MIXING_PARITY, 13, 5},
                                      {"permutations", LAB_MIXING_PERMUTATIONS, 5, 2}};
static const task_desc token_tasks[] = {{"parity, even", LAB_MIXING_PARITY, 4, 2},
                                        {"parity, odd", LAB_MIXING_PARITY, 5, 3},
                                        {"permutations", LAB_MIXING_PERMUTATIONS, 3, 2}};

/* Errors below 1% of guessing count as solved, because smaller differences do not reflect what a network can
 * express. */
static const double solved = 0.01;

/* A kind of network with its tasks and its tables and claims. */
typedef struct family {
    const task_desc *tasks;
    size_t count;
    bool tokens;
    lab_degree_budget budget;
    uint64_t steps;
    const char *errors, *speeds;       /* tables */
    const char *claims[LAB_COUNTINGS]; /* for the predicted best degrees */
    const char *between, *speed;       /* for degree e, and for the speed of degree 3; NULL: no claim */
    double from, to;                   /* range of progress */
} family;

typedef struct task {
    lab_run *run;
    const family *family;
    const task_desc *desc;
    size_t places, heads;
    lab_mixing_rows rows;
    double *done; /* number of networks trained so far */
} task;

/* ---- one network ------------------------------------------------------------------------------------------------- */

typedef struct writer {
    char text[4096];
    size_t used; /* larger than the buffer if the text did not fit */
} writer;

static void add(writer *w, const char *format, ...) BO_PRINTF(2, 3);
static void add(writer *w, const char *format, ...)
{
    va_list arguments;
    if (w->used >= sizeof w->text) return;
    va_start(arguments, format);
    w->used += (size_t)vsnprintf(w->text + w->used, sizeof w->text - w->used, format, arguments);
    va_end(arguments);
}

static void write_model(const task *t, const char *degree, size_t layers, writer *w)
{
    const bool tokens = t->family->tokens, classes = t->rows.examples->classes;
    w->used = 0;
    if (tokens)
        add(w, "{\"input\": {\"kind\": \"sequence\", \"length\": %zu, \"channels\": %zu, ", t->places,
            t->rows.examples->dim / t->places);
    else
        add(w, "{\"input\": {\"kind\": \"array\", ");
    add(w, "\"standardize\": false}, \"layers\": [{\"type\": \"linear\", \"width\": %d}", WIDTH);
    if (tokens) add(w, ", {\"type\": \"positions\"}");
    for (size_t l = 0; l < layers; l++)
        if (tokens)
            add(w, ", {\"type\": \"mixer\", \"kind\": \"degree-%s\", \"heads\": %zu}", degree, t->heads);
        else
            add(w, ", {\"type\": \"mlp\", \"kind\": \"degree-%s\", \"hidden\": %d, \"heads\": %zu}", degree, WIDTH,
                t->heads);
    if (tokens) add(w, ", {\"type\": \"norm\"}, {\"type\": \"last\"}");
    add(w, ", {\"type\": \"linear\", \"width\": \"%s\"}], \"loss\": \"%s\"}", classes ? "classes" : "targets",
        classes ? "cross-entropy" : "mse");
}

static bo_status tell(const task *t, double part)
{
    enum { NETWORKS = 8 }; /* per task */
    const double all = (double)(t->family->count * NETWORKS * RATES);
    return lab_progress(t->run, t->family->from + (t->family->to - t->family->from) * (*t->done + part) / all);
}

/* Counts steps until the mean loss of about the last 20 is below half that of guessing. */
static bo_status take_steps(task *t, bo_trainer *trainer, uint64_t steps, double threshold, double *reached)
{
    double recent = 1e9;
    *reached = (double)steps;
    for (uint64_t s = 0; s < steps; s++) {
        double loss;
        BO_TRY(bo_trainer_step(lab_context(t->run), trainer, &loss));
        if (!isfinite(loss)) return BO_NUMERIC;
        recent = s ? 0.95 * recent + 0.05 * loss : loss;
        if (recent < threshold && *reached >= (double)steps) *reached = (double)(s + 1);
        if (s % 16 == 0) BO_TRY(tell(t, (double)s / (double)steps));
    }
    return BO_OK;
}

/* Computes the held-out error: for numbers the unexplained fraction of the variance, for classes the cross-entropy
 * relative to that of guessing. */
static bo_status score(task *t, bo_network *network, bo_trainer *trainer, uint64_t steps, double *error,
                       double *reached)
{
    const size_t classes = t->rows.examples->classes;
    const double guessing = classes ? log((double)classes) : 1;
    bo_network_evaluation found;
    bo_status status = take_steps(t, trainer, steps, guessing / 2, reached);
    if (status == BO_OK)
        status = bo_network_evaluate(lab_context(t->run), network, t->rows.examples, BO_SPLIT_VALID, &found);
    if (status == BO_NUMERIC) { /* divergence is a valid result */
        *error = 1;
        *reached = (double)steps;
        return BO_OK;
    }
    if (status == BO_OK) *error = fmax(found.loss / guessing, solved);
    return status;
}

static bo_status train_once(task *t, const char *model, double rate, double *error, double *reached)
{
    const uint64_t steps = t->family->steps;
    bo_network *network = NULL;
    bo_trainer *trainer = NULL;
    const bo_network_desc net = {.model = model, .examples = t->rows.examples, .seed = lab_seed(t->run)};
    bo_status status = bo_network_create(lab_context(t->run), &net, &network);
    const bo_trainer_desc desc = {.network = network,
                                  .examples = t->rows.examples,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rate},
                                  .batch = BATCH,
                                  .steps = steps,
                                  .seed = lab_seed(t->run)};
    if (status == BO_OK) status = bo_trainer_create(lab_context(t->run), &desc, &trainer);
    if (status == BO_OK) status = score(t, network, trainer, steps, error, reached);
    bo_trainer_destroy(trainer);
    bo_network_destroy(network);
    *t->done += 1;
    return status;
}

/* Returns the better of two learning rates: deep networks of high degree need the smaller one. */
static bo_status train_network(task *t, const char *degree, size_t layers, double *error, double *reached)
{
    static const double rates[RATES] = {2e-3, 8e-3};
    writer model;
    write_model(t, degree, layers, &model);
    if (model.used >= sizeof model.text)
        return bo_fail(lab_context(t->run), BO_INVALID, "a description of %zu layers is too long", layers);
    *error = *reached = INFINITY;
    for (size_t r = 0; r < RATES; r++) {
        double e = INFINITY, s = INFINITY;
        BO_TRY(train_once(t, model.text, rates[r], &e, &s));
        *error = fmin(*error, e);
        *reached = fmin(*reached, s);
    }
    return BO_OK;
}

/* ---- all networks ------------------------------------------------------------------------------------------------ */

static bo_status train_each(void *user, size_t index, size_t layers, double *error, double *steps)
{
    return train_network(user, lab_degree_names[index], layers, error, steps);
}

static void put(const task *t, size_t counting, const char *column, double error, double steps)
{
    char row[64];
    snprintf(row, sizeof row, "%s, %s", t->desc->name, lab_degree_countings[counting]);
    lab_cell(t->run, t->family->errors, row, column, error);
    lab_cell(t->run, t->family->speeds, row, column, steps);
}

static void put_all(const task *t, const lab_degree_errors *errors)
{
    for (size_t c = 0; c < LAB_COUNTINGS; c++)
        for (size_t i = 0; i < LAB_INTEGERS; i++) {
            char column[16];
            const size_t layers = lab_degree_layers(t->family->budget, c, i);
            snprintf(column, sizeof column, "d = %s", lab_degree_names[i]);
            put(t, c, column, errors->error[i][layers], errors->steps[i][layers]);
        }
}

typedef struct margins {
    double winners[LAB_COUNTINGS], between, speed;
} margins;

/* For a cost of d matrices per layer: degree e with the number of layers nearest to the budget, and degree 3 with heads
 * of 4 columns. */
static bo_status variants(task *t, const lab_degree_errors *errors, margins *sums)
{
    const lab_degree_budget budget = t->family->budget;
    double error, steps, best = INFINITY;
    BO_TRY(train_network(t, "e", lab_degree_between(budget), &error, &steps));
    put(t, 1, "d = e", error, steps);
    for (size_t i = 0; i < LAB_INTEGERS; i++) best = fmin(best, errors->error[i][lab_degree_layers(budget, 1, i)]);
    sums->between += log(best / error);
    t->heads = 4;
    BO_TRY(train_network(t, "3", lab_degree_layers(budget, 1, 1), &error, &steps));
    put(t, 1, "d = 3, 4 heads", error, steps);
    return BO_OK;
}

static bo_status measure_task(task *t, margins *sums)
{
    lab_degree_errors errors;
    const lab_degree_budget budget = t->family->budget;
    BO_TRY(lab_degree_each(budget, train_each, t, &errors));
    put_all(t, &errors);
    for (size_t c = 0; c < LAB_COUNTINGS; c++) sums->winners[c] += lab_degree_margin(budget, &errors.error, c);
    sums->speed += lab_degree_margin(budget, &errors.steps, 1);
    return variants(t, &errors, sums);
}

static bo_status measure_family(lab_run *run, const family *f)
{
    margins sums = {0};
    double done = 0;
    const double count = (double)f->count;
    for (size_t i = 0; i < f->count; i++) {
        const task_desc *desc = &f->tasks[i];
        task t = {.run = run, .family = f, .desc = desc, .heads = 1, .done = &done};
        t.places = lab_size(run, desc->places, desc->quick_places);
        BO_TRY(lab_mixing_rows_open(run, desc->kind, t.places, lab_size(run, 25000, 1250), &t.rows));
        const bo_status status = measure_task(&t, &sums);
        lab_mixing_rows_close(&t.rows);
        BO_TRY(status);
    }
    for (size_t c = 0; c < LAB_COUNTINGS; c++) lab_claim(run, f->claims[c], sums.winners[c] / count);
    if (f->between) lab_claim(run, f->between, sums.between / count);
    if (f->speed) lab_claim(run, f->speed, sums.speed / count);
    return BO_OK;
}

bo_status lab_degree_networks(lab_run *run)
{
    const family rows = {.tasks = row_tasks,
                         .count = LAB_COUNT_OF(row_tasks),
                         .budget = lab_quick(run) ? LAB_DEGREE_SMALL : LAB_DEGREE_LARGE,
                         .steps = lab_size(run, 1500, 60),
                         .errors = "arrays",
                         .speeds = "arrays-speed",
                         .claims = {"arrays-2", "arrays-3", "arrays-4"},
                         .between = "arrays-e",
                         .speed = "arrays-speed",
                         .to = 0.3};
    const family sequences = {.tasks = token_tasks,
                              .count = LAB_COUNT_OF(token_tasks),
                              .tokens = true,
                              .budget = LAB_DEGREE_SMALL,
                              .steps = lab_size(run, 700, 30),
                              .errors = "tokens",
                              .speeds = "tokens-speed",
                              .claims = {"tokens-2", "tokens-3", "tokens-4"},
                              .from = 0.3,
                              .to = 0.6};
    BO_TRY(measure_family(run, &rows));
    return measure_family(run, &sequences);
}
