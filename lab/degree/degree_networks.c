/* Networks T_d on tasks that need mixing, on vectors and on sequences of tokens: a linear layer, L layers of degree d
 * in one of two forms, and a linear output layer. On sequences the layers mix tokens, and one more layer of the same
 * form and degree acts on the last token. Its width, or that of the last layer on vectors, balances the number of
 * parameters. */
#include "degree.h"
#include "mixing_tasks.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct task_desc {
    const char *name;
    lab_mixing kind;
    size_t places, order; /* of lab_mixing_desc; quick runs have half as many places */
} task_desc;

/* On vectors, sums of parities have an even and an odd order, because a product of three factors is odd in x. The
 * inputs of the polynomial are 4 tokens of 3 numbers. */
static const task_desc row_tasks[] = {{"polynomial", LAB_MIXING_POLYNOMIAL, 0, 0},
                                      {"parities of 4", LAB_MIXING_PARITIES, 12, 4},
                                      {"parities of 5", LAB_MIXING_PARITIES, 12, 5},
                                      {"permutations", LAB_MIXING_PERMUTATIONS, 5, 0}};
static const task_desc token_tasks[] = {{"polynomial", LAB_MIXING_POLYNOMIAL, 4, 0},
                                        {"parities of 3", LAB_MIXING_PARITIES, 8, 3},
                                        {"permutations", LAB_MIXING_PERMUTATIONS, 3, 0}};

/* Errors below 1% of guessing count as solved, because smaller differences do not reflect what a network can
 * express. */
static const double solved = 0.01;

/* A kind of network with its tasks, its tables and its claims. */
typedef struct family {
    const char *name;
    const task_desc *tasks;
    size_t count;
    bool tokens;
    size_t width, batch, matrices[LAB_FORMS];
    lab_patience stopping;
    const char *errors, *steps;                        /* tables */
    const char *best_3[LAB_FORMS], *best_e[LAB_FORMS]; /* claims */
    const char *speed;                                 /* claim about WRITTEN; NULL: none */
    double from, to;                                   /* range of progress */
} family;

typedef struct task {
    lab_run *run;
    const family *family;
    const task_desc *desc;
    lab_degree_totals *totals;
    lab_mixing_rows rows;
    size_t places;
    lab_degree_form form;
    size_t degree;
    double done; /* number of networks trained so far in the family */
} task;

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

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

static void add_product(const task *t, size_t columns, writer *w)
{
    const char *degree = lab_degree_names[t->degree];
    if (t->form == LAB_WRITTEN)
        add(w, ", {\"type\": \"degree\", \"degree\": \"%s\", \"width\": %zu, \"norm\": false}, {\"type\": \"norm\"}",
            degree, columns);
    else
        add(w, ", {\"type\": \"mlp\", \"kind\": \"degree-%s\", \"hidden\": %zu}", degree, columns);
}

static void add_mixer(const task *t, writer *w)
{
    add(w, ", {\"type\": \"mixer\", \"kind\": \"degree-%s\"", lab_degree_names[t->degree]);
    add(w, t->form == LAB_WRITTEN ? ", \"output\": false}, {\"type\": \"norm\"}" : "}");
}

static void write_model(const task *t, lab_degree_shape shape, writer *w)
{
    const family *f = t->family;
    const bool classes = t->rows.examples->classes;
    const size_t layers = lab_degree_layers(t->form, t->degree, f->matrices[t->form]);
    const size_t last = (size_t)((int)shape.width + shape.more);
    w->used = 0;
    if (f->tokens)
        add(w, "{\"input\": {\"kind\": \"sequence\", \"length\": %zu, \"channels\": %zu, ", t->places,
            t->rows.examples->dim / t->places);
    else
        add(w, "{\"input\": {\"kind\": \"array\", ");
    add(w, "\"standardize\": false}, \"layers\": [{\"type\": \"linear\", \"width\": %zu}", shape.width);
    if (f->tokens) add(w, ", {\"type\": \"positions\", \"kind\": \"sinusoidal\"}");
    for (size_t l = 0; l + !f->tokens < layers; l++)
        if (f->tokens)
            add_mixer(t, w);
        else
            add_product(t, shape.width, w);
    if (f->tokens) add(w, ", {\"type\": \"last\"}");
    add_product(t, last, w);
    add(w, ", {\"type\": \"linear\", \"width\": \"%s\"}], \"loss\": \"%s\"}", classes ? "classes" : "targets",
        classes ? "cross-entropy" : "mse");
}

static bo_status make_network(const task *t, lab_degree_shape shape, bo_model **out)
{
    writer model;
    write_model(t, shape, &model);
    if (model.used >= sizeof model.text)
        return bo_fail(lab_context(t->run), BO_INVALID, "the description of a network is too long");
    const bo_description desc = {.text = model.text, .examples = t->rows.examples, .seed = lab_seed(t->run)};
    return bo_model_create_described(lab_context(t->run), &desc, out);
}

static bo_status count(void *user, lab_degree_shape shape, double *parameters)
{
    bo_model *network;
    BO_TRY(make_network(user, shape, &network));
    *parameters = (double)bo_model_report(network)->network->parameters;
    bo_model_destroy(network);
    return BO_OK;
}

/* ---- one network ------------------------------------------------------------------------------------------------- */

typedef struct training {
    task *t;
    bo_model *network;
    double error; /* on the test rows at the lowest validation loss, relative to guessing */
} training;

static double guessing(const task *t)
{
    const size_t classes = t->rows.examples->classes;
    return classes ? log((double)classes) : 1;
}

static bo_status test(void *user)
{
    training *n = user;
    bo_examples_evaluation found;
    const bo_status status =
        bo_model_evaluate_examples(lab_context(n->t->run), n->network, n->t->rows.examples, BO_SPLIT_TEST, &found);
    if (status == BO_OK) n->error = fmax(found.loss / guessing(n->t), solved);
    return status;
}

static bo_status report(void *user, double part)
{
    const task *t = ((const training *)user)->t;
    const family *f = t->family;
    const double all = (double)(f->count * LAB_FORMS * LAB_DEGREES);
    return lab_progress(t->run, f->from + (f->to - f->from) * (t->done + part) / all);
}

/* Steps are those until the lowest validation loss. */
static bo_status train_network(task *t, double budget, lab_degree_results *out)
{
    training n = {.t = t, .error = 1};
    lab_degree_shape shape = {0};
    lab_converged stopped = {0};
    lab_patience rule = t->family->stopping;
    rule.solved = solved / 2 * guessing(t), rule.improved = test, rule.report = report, rule.user = &n;
    BO_TRY(lab_degree_balance(t->run, count, t, t->family->width, budget, &shape));
    BO_TRY(make_network(t, shape, &n.network));
    const bo_trainer_desc desc = {.model = n.network,
                                  .train.examples = t->rows.examples,
                                  .valid.examples = t->rows.examples,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 2e-3},
                                  .batch = t->family->batch,
                                  .seed = lab_seed(t->run)};
    const bo_status status = lab_converge(t->run, &desc, &rule, &stopped);
    out->parameters[t->degree] = (double)bo_model_report(n.network)->network->parameters;
    out->error[t->degree] = n.error;
    out->steps[t->degree] = (double)stopped.best;
    bo_model_destroy(n.network);
    t->done++;
    t->totals->trained++;
    t->totals->settled += stopped.settled;
    return status;
}

/* ---- all networks ------------------------------------------------------------------------------------------------ */

typedef struct margins {
    double best_3[LAB_FORMS], best_e[LAB_FORMS], speed;
} margins;

/* All degrees on one task in one form. */
static bo_status compare(task *t, margins *sums)
{
    const family *f = t->family;
    lab_degree_results results;
    char row[64], place[96];
    double budget;
    t->degree = LAB_D3;
    BO_TRY(count(t, (lab_degree_shape){.width = f->width}, &budget));
    for (t->degree = 0; t->degree < LAB_DEGREES; t->degree++) BO_TRY(train_network(t, budget, &results));
    snprintf(row, sizeof row, "%s, %s", t->desc->name, lab_degree_forms[t->form]);
    snprintf(place, sizeof place, "%s, %s", f->name, row);
    lab_degree_record(t->run, f->errors, row, results.error);
    lab_degree_record(t->run, f->steps, row, results.steps);
    lab_degree_record(t->run, "parameters", place, results.parameters);
    t->totals->spread = fmax(t->totals->spread, lab_degree_spread(results.parameters));
    sums->best_3[t->form] += lab_degree_margin_3(results.error) / (double)f->count;
    sums->best_e[t->form] += lab_degree_margin_e(results.error) / (double)f->count;
    if (t->form == LAB_WRITTEN) sums->speed += lab_degree_margin_3(results.steps) / (double)f->count;
    return BO_OK;
}

static bo_status measure_task(task *t, margins *sums)
{
    const lab_mixing_desc desc = {
        .kind = t->desc->kind, .places = t->places, .order = t->desc->order, .rows = lab_size(t->run, 25000, 1250)};
    BO_TRY(lab_mixing_rows_open(t->run, &desc, &t->rows));
    bo_status status = BO_OK;
    for (t->form = LAB_WRITTEN; status == BO_OK && t->form < LAB_FORMS; t->form++) status = compare(t, sums);
    lab_mixing_rows_close(&t->rows);
    return status;
}

static bo_status measure_family(lab_run *run, const family *f, lab_degree_totals *totals)
{
    margins sums = {0};
    task t = {.run = run, .family = f, .totals = totals};
    for (size_t i = 0; i < f->count; i++) {
        t.desc = &f->tasks[i];
        t.places = lab_size(run, t.desc->places, (t.desc->places + 1) / 2);
        if (t.places < t.desc->order) t.places = t.desc->order;
        BO_TRY(measure_task(&t, &sums));
    }
    for (size_t form = 0; form < LAB_FORMS; form++) {
        lab_claim(run, f->best_3[form], sums.best_3[form]);
        lab_claim(run, f->best_e[form], sums.best_e[form]);
    }
    if (f->speed) lab_claim(run, f->speed, sums.speed);
    return BO_OK;
}

bo_status lab_degree_networks(lab_run *run)
{
    lab_degree_totals totals = {0};
    const family rows = {.name = "vectors",
                         .tasks = row_tasks,
                         .count = LAB_COUNT_OF(row_tasks),
                         .width = 24,
                         .batch = 64,
                         .matrices = {12, 24},
                         .stopping = {.every = lab_size(run, 250, 40),
                                      .max_steps = lab_size(run, 20000, 40),
                                      .phases = 2,
                                      .patience = 8,
                                      .gain = 0.004},
                         .errors = "arrays",
                         .steps = "arrays-steps",
                         .best_3 = {"arrays-written-3", "arrays-output-3"},
                         .best_e = {"arrays-written-e", "arrays-output-e"},
                         .speed = "arrays-speed",
                         .to = 0.5};
    const family sequences = {.name = "tokens",
                              .tasks = token_tasks,
                              .count = LAB_COUNT_OF(token_tasks),
                              .tokens = true,
                              .width = 24,
                              .batch = 32,
                              .matrices = {12, 16},
                              .stopping = {.every = lab_size(run, 125, 40),
                                           .min_steps = lab_size(run, 4000, 0),
                                           .max_steps = lab_size(run, 10000, 40),
                                           .phases = 2,
                                           .patience = 8,
                                           .gain = 0.004},
                              .errors = "tokens",
                              .steps = "tokens-steps",
                              .best_3 = {"tokens-written-3", "tokens-output-3"},
                              .best_e = {"tokens-written-e", "tokens-output-e"},
                              .from = 0.5,
                              .to = 0.98};
    BO_TRY(measure_family(run, &rows, &totals));
    BO_TRY(measure_family(run, &sequences, &totals));
    lab_degree_fair(run, &totals);
    return BO_OK;
}
