/* Networks T_d on rows of numbers: a linear layer into `WIDTH` columns, L layers x + W norm(P_d(rms(x))), a linear layer out. */
#include "../mixing_tasks.h"
#include "degree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 16, BATCH = 64 };

typedef struct task {
    lab_run *run;
    const char *name;
    lab_mixing_rows rows;
    size_t heads;
    double *done; /* networks trained so far */
} task;

/* Parity of an even and of an odd number of signs: a product of three is odd in x, as the second is and the first is not. */
static const struct {
    const char *name;
    lab_mixing kind;
    size_t places, quick_places;
} tasks[] = {{"polynomial", LAB_MIXING_POLYNOMIAL, 0, 0},
             {"parity, even", LAB_MIXING_PARITY, 12, 4},
             {"parity, odd", LAB_MIXING_PARITY, 13, 5},
             {"permutations", LAB_MIXING_PERMUTATIONS, 5, 2}};
enum { TASKS = LAB_COUNT_OF(tasks), NETWORKS = 8, RATES = 2 }; /* networks of a task */

/* Below 1% of guessing a task counts as solved: how far below says nothing about what a network can express. */
static const double solved = 0.01;

/* ---- one network ------------------------------------------------------------------------------------------------------ */

static bool write_model(char *out, size_t room, const char *degree, size_t layers, size_t heads, bool classes)
{
    size_t used = (size_t)snprintf(out, room,
                                   "{\"input\": {\"kind\": \"array\", \"standardize\": false}, \"layers\": ["
                                   "{\"type\": \"linear\", \"width\": %d}",
                                   WIDTH);
    for (size_t l = 0; l < layers && used < room; l++)
        used += (size_t)snprintf(out + used, room - used,
                                 ", {\"type\": \"mlp\", \"kind\": \"degree-%s\", \"hidden\": %d, \"heads\": %zu}",
                                 degree, WIDTH, heads);
    if (used < room)
        used +=
            (size_t)snprintf(out + used, room - used, ", {\"type\": \"linear\", \"width\": \"%s\"}], \"loss\": \"%s\"}",
                             classes ? "classes" : "targets", classes ? "cross-entropy" : "mse");
    return used < room;
}

/* Steps until the mean loss of the last 20 was below half of that of guessing. */
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
        if (s % 16 == 0)
            BO_TRY(lab_progress(t->run, 0.5 * (*t->done + (double)s / (double)steps) / (TASKS * NETWORKS * RATES)));
    }
    return BO_OK;
}

/* The error held out: of numbers, what is left of the variance; of classes, the cross-entropy over that of guessing. */
static bo_status score(task *t, bo_network *network, bo_trainer *trainer, uint64_t steps, double *error,
                       double *reached)
{
    const size_t classes = t->rows.examples->classes;
    const double guessing = classes ? log((double)classes) : 1;
    bo_network_evaluation found;
    bo_status status = take_steps(t, trainer, steps, guessing / 2, reached);
    if (status == BO_OK)
        status = bo_network_evaluate(lab_context(t->run), network, t->rows.examples, BO_PART_VALID, &found);
    if (status == BO_NUMERIC) { /* it diverged: an outcome */
        *error = 1;
        *reached = (double)steps;
        return BO_OK;
    }
    *error = fmax(found.loss / guessing, solved);
    return status;
}

static bo_status train_once(task *t, const char *model, double rate, double *error, double *reached)
{
    const uint64_t steps = lab_size(t->run, 2000, 60);
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

/* The better of two rates: deep and steep networks want the smaller. */
static bo_status train_network(task *t, const char *degree, size_t layers, double *error, double *reached)
{
    static const double rates[RATES] = {2e-3, 8e-3};
    char model[4096];
    if (!write_model(model, sizeof model, degree, layers, t->heads, t->rows.examples->classes))
        return bo_fail(lab_context(t->run), BO_INVALID, "a description of %zu layers is too long", layers);
    *error = *reached = INFINITY;
    for (size_t r = 0; r < RATES; r++) {
        double e, s;
        BO_TRY(train_once(t, model, rates[r], &e, &s));
        *error = fmin(*error, e);
        *reached = fmin(*reached, s);
    }
    return BO_OK;
}

/* ---- all of them -------------------------------------------------------------------------------------------------------- */

static bo_status train_each(void *user, size_t index, size_t layers, double *error, double *steps)
{
    return train_network(user, lab_degree_names[index], layers, error, steps);
}

static void tabulate(const task *t, const lab_degree_errors *errors)
{
    for (size_t c = 0; c < LAB_COUNTINGS; c++)
        for (size_t i = 0; i < LAB_INTEGERS; i++) {
            char row[64], column[16];
            const size_t layers = lab_degree_layers(t->run, c, i);
            snprintf(row, sizeof row, "%s, %s", t->name, lab_degree_countings[c]);
            snprintf(column, sizeof column, "d = %s", lab_degree_names[i]);
            lab_cell(t->run, "arrays", row, column, errors->error[i][layers]);
            lab_cell(t->run, "speed", row, column, errors->steps[i][layers]);
        }
}

/* By the counting of d matrices a layer: degree e in place of 3, with the layers nearest to the budget; and degree 3 with
 * heads of 4 columns. Logarithms of errors over that of degree 3. */
static bo_status variants(task *t, const lab_degree_errors *errors, double *between, double *heads)
{
    const size_t layers = lab_degree_layers(t->run, 1, 1);
    const size_t between_layers = (size_t)lround((double)(3 * layers) / 2.718281828);
    char row[64];
    double error, steps;
    snprintf(row, sizeof row, "%s, %s", t->name, lab_degree_countings[1]);
    BO_TRY(train_network(t, "e", between_layers, &error, &steps));
    lab_cell(t->run, "arrays", row, "d = e", error);
    lab_cell(t->run, "speed", row, "d = e", steps);
    double best = INFINITY;
    for (size_t i = 0; i < LAB_INTEGERS; i++) best = fmin(best, errors->error[i][lab_degree_layers(t->run, 1, i)]);
    *between += log(best / error);
    t->heads = 4;
    const bo_status status = train_network(t, "3", layers, &error, &steps);
    t->heads = 1;
    BO_TRY(status);
    lab_cell(t->run, "arrays", row, "d = 3, 4 heads", error);
    lab_cell(t->run, "speed", row, "d = 3, 4 heads", steps);
    *heads += log(errors->error[1][layers] / error);
    return BO_OK;
}

bo_status lab_degree_arrays(lab_run *run)
{
    static const char *const claims[LAB_COUNTINGS] = {"arrays-2", "arrays-3", "arrays-4"};
    double margins[LAB_COUNTINGS] = {0}, between = 0, heads = 0, done = 0;
    for (size_t i = 0; i < TASKS; i++) {
        task t = {.run = run, .name = tasks[i].name, .heads = 1, .done = &done};
        lab_degree_errors errors;
        const size_t places = lab_size(run, tasks[i].places, tasks[i].quick_places);
        BO_TRY(lab_mixing_rows_open(run, tasks[i].kind, places, lab_size(run, 25000, 1250), &t.rows));
        bo_status status = lab_degree_each(run, train_each, &t, &errors);
        if (status == BO_OK) status = variants(&t, &errors, &between, &heads);
        lab_mixing_rows_close(&t.rows);
        BO_TRY(status);
        tabulate(&t, &errors);
        for (size_t c = 0; c < LAB_COUNTINGS; c++) margins[c] += lab_degree_margin(run, &errors, c);
    }
    for (size_t c = 0; c < LAB_COUNTINGS; c++) lab_claim(run, claims[c], margins[c] / TASKS);
    lab_claim(run, "e", between / TASKS);
    lab_claim(run, "heads", heads / TASKS);
    return BO_OK;
}
