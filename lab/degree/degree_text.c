/* Language models T_d, whose layers only mix tokens by a polynomial of degree d, and transformers with softmax and
 * activation functions compared with transformers without either. */
#include "../tools/language.h"
#include "degree.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { THRESHOLD = 2 }; /* nats per byte */
enum { WIDTH = 32, HEADS = 2, CONTEXT = 64, BATCH = 8, MODELS = 7 };

typedef struct task {
    lab_run *run;
    lab_text text;
    uint64_t steps;
    double from, to, trained; /* range of progress; models so far */
} task;

/* ---- one model --------------------------------------------------------------------------------------------------- */

typedef struct watcher {
    double recent, reached; /* steps until the recent loss is below THRESHOLD; INFINITY: never */
} watcher;

static void watch(void *user, uint64_t step, double loss)
{
    watcher *w = user;
    w->recent = step ? 0.95 * w->recent + 0.05 * loss : loss;
    if (w->recent < THRESHOLD && isinf(w->reached)) w->reached = (double)(step + 1);
}

static bo_status train_model(task *t, const bo_model_desc *desc, double *loss, double *steps)
{
    watcher w = {.reached = INFINITY};
    const double part = (t->to - t->from) / MODELS, from = t->from + t->trained * part;
    const lab_training training = {
        .batch = BATCH, .steps = t->steps, .from = from, .to = from + part, .watch = watch, .user = &w};
    bo_model *model;
    lab_trained trained;
    BO_TRY(lab_train_new(t->run, desc, &t->text, &training, &model, &trained));
    t->trained++;
    *loss = trained.loss;
    *steps = fmin(w.reached, (double)t->steps);
    bo_model_destroy(model);
    return BO_OK;
}

static bo_status train_degree(void *user, size_t index, size_t layers, double *loss, double *steps)
{
    static const bo_mixer mixers[LAB_INTEGERS + 1] = {BO_MIXER_DEGREE_2, BO_MIXER_DEGREE_3, BO_MIXER_DEGREE_4,
                                                      BO_MIXER_DEGREE_E};
    const bo_model_desc desc = {.layers = layers,
                                .width = WIDTH,
                                .heads = HEADS,
                                .context = CONTEXT,
                                .mixer = mixers[index],
                                .mlp = BO_MLP_NONE};
    return train_model(user, &desc, loss, steps);
}

/* ---- all degrees ------------------------------------------------------------------------------------------------- */

static void put(const task *t, size_t counting, const char *degree, double loss, double steps)
{
    char column[16];
    snprintf(column, sizeof column, "d = %s", degree);
    lab_cell(t->run, "text", lab_degree_countings[counting], column, loss);
    lab_cell(t->run, "text-speed", lab_degree_countings[counting], column, steps);
}

static bo_status compare(task *t)
{
    static const char *const claims[LAB_COUNTINGS] = {"text-2", "text-3", "text-4"};
    const lab_degree_budget budget = LAB_DEGREE_SMALL;
    lab_degree_errors errors;
    double loss, steps;
    BO_TRY(lab_degree_each(budget, train_degree, t, &errors));
    for (size_t c = 0; c < LAB_COUNTINGS; c++) {
        for (size_t i = 0; i < LAB_INTEGERS; i++) {
            const size_t layers = lab_degree_layers(budget, c, i);
            put(t, c, lab_degree_names[i], errors.error[i][layers], errors.steps[i][layers]);
        }
        lab_claim(t->run, claims[c], lab_degree_margin(budget, &errors.error, c));
    }
    BO_TRY(train_degree(t, LAB_INTEGERS, lab_degree_between(budget), &loss, &steps));
    put(t, 1, "e", loss, steps);
    return BO_OK;
}

/* ---- with and without activation functions ----------------------------------------------------------------------- */

typedef struct pair {
    const char *name;
    bo_mixer mixer;
    bo_mlp mlp;
} pair;

enum { STANDARD, MLP_FREE, SOFTMAX_FREE, FREE, QUADRATIC, ALONG_TOKENS, OF_DEGREE_2, PAIRS };
static const pair pairs[PAIRS] = {{"softmax, relu²", BO_MIXER_ATTENTION, BO_MLP_RELU2},
                                  {"softmax, degree 2", BO_MIXER_ATTENTION, BO_MLP_DEGREE_2},
                                  {"degree 3, relu²", BO_MIXER_DEGREE_3, BO_MLP_RELU2},
                                  {"degree 3, degree 2", BO_MIXER_DEGREE_3, BO_MLP_DEGREE_2},
                                  {"degree 3, quadratic", BO_MIXER_DEGREE_3, BO_MLP_QUADRATIC},
                                  {"token-mixing MLP, relu²", BO_MIXER_MLP, BO_MLP_RELU2},
                                  {"degree 2, relu²", BO_MIXER_DEGREE_2, BO_MLP_RELU2}};

static bo_status without_activations(task *t)
{
    double losses[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        const bo_model_desc desc = {.layers = 3,
                                    .width = WIDTH,
                                    .heads = HEADS,
                                    .context = CONTEXT,
                                    .mixer = pairs[i].mixer,
                                    .mlp = pairs[i].mlp};
        double steps;
        BO_TRY(train_model(t, &desc, &losses[i], &steps));
        lab_cell(t->run, "activations", pairs[i].name, "nats per byte", losses[i]);
    }
    lab_claim(t->run, "activation-free", losses[FREE] / losses[STANDARD]);
    lab_claim(t->run, "mlp-free", losses[MLP_FREE] / losses[STANDARD]);
    lab_claim(t->run, "mixers-text", losses[ALONG_TOKENS] / losses[OF_DEGREE_2]);
    return BO_OK;
}

bo_status lab_degree_text(lab_run *run)
{
    task t = {.run = run, .steps = lab_size(run, 500, 30), .from = 0.6, .to = 0.8};
    BO_TRY(lab_text_open(run, 0, &t.text));
    bo_status status = compare(&t);
    t.from = 0.8, t.to = 0.98, t.trained = 0;
    if (status == BO_OK) status = without_activations(&t);
    lab_text_close(&t.text);
    return status;
}
