/* rff-mlp: are token-wise MLPs over-parametrized in transformers? Compares MLPs of several widths with random features
 * and a trained readout. */
#include "../experiment.h"
#include <math.h>
#include <stdio.h>

static const bo_lab_claim claims[] = {
    {.name = "shrink",
     .statement = "The standard hidden size of 4 times the width is at least twice as large as necessary.",
     .number = "smallest hidden size / width whose held-out loss is within 0.02 nats of that at 4",
     .rule = BO_LAB_AT_MOST,
     .bound = 2,
     .source = LAB_DRAFT "line 9, a joke: \"its mearly 2x larger than it needs to be\"; we chose this measure"},
    {.name = "frozen",
     .statement = "A first layer with frozen random frequencies works as well as a trained one of the same size.",
     .number = "held-out loss of random features minus held-out loss of the MLP, both with hidden size 4 x width, in "
               "nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02},
    {.name = "equal",
     .statement = "With the same number of trained parameters, random features predict at least as well as an MLP.",
     .number = "held-out loss of random features with hidden size 4 x width minus held-out loss of an MLP with 2 x "
               "width, in nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = 0},
    {.name = "batch",
     .statement = "Random features lose less than an MLP when the batch is small.",
     .number =
         "increase of held-out loss from batches of 16 windows to batches of 1, for random features minus for the "
         "MLP, in nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = -0.02,
     .passage = LAB_DRAFT "lines 15-16: \"a tiny tweak to MLPs allow them to train with far smaller batch sizes\""},
    {.name = "smooth",
     .statement = "Control: MLPs learn a smooth function (frequency 1.5).",
     .number = "root mean square error of the better MLP divided by the standard deviation of the function",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.2},
    {.name = "function",
     .statement = "For a complex function, random features have at most half the error of an MLP with the same number "
                  "of trained parameters.",
     .number = "error of random features divided by error of the better MLP with the same number of trained parameters",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5,
     .passage = LAB_DRAFT "lines 16-17: \"dramatically reduce the number of parameters required to learn complex "
                          "functions\"; measured by the error at equal numbers of trained parameters"},
    {.name = "function-batch",
     .statement = "Random features also halve the error on a complex function with a batch of one example.",
     .number = "error of random features divided by error of the better MLP with the same number of trained "
               "parameters, batch size 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5},
};

static const bo_lab_table tables[] = {
    {.name = "width",
     .title = "Loss of a language model by hidden size of its MLPs",
     .rows = "hidden size / width",
     .values = "held-out loss, nats per token",
     .log_x = true},
    {.name = "batch",
     .title = "Loss after the same number of tokens, by batch size",
     .rows = "windows per batch",
     .values = "held-out loss, nats per token",
     .log_x = true},
    {.name = "function",
     .title = "Error on a function of high frequency, by number of trained parameters",
     .rows = "trained parameters",
     .values = "root mean square error / standard deviation of the function",
     .log_x = true,
     .log_y = true},
    {.name = "frequency",
     .title = "Error by frequency of the function, 256 trained parameters",
     .rows = "frequency",
     .values = "root mean square error / standard deviation of the function",
     .log_x = true,
     .log_y = true},
    {.name = "function-batch",
     .title = "Error on a function of high frequency after the same number of examples, by batch size",
     .rows = "examples per batch",
     .values = "root mean square error / standard deviation of the function",
     .log_x = true,
     .log_y = true},
};

/* ---- in a transformer -------------------------------------------------------------------------------------------- */

enum { WIDTH = 64, PLAIN = 0, FEATURES = 1, KINDS = 2, LARGEST = 4 };
static const char *const names[KINDS] = {"MLP", "random features"};
static const bo_mlp mlps[KINDS] = {BO_MLP_GELU, BO_MLP_RANDOM_FEATURES};

static bo_status train(lab_run *run, const lab_text *text, size_t kind, double ratio, const lab_training *training,
                       double *loss)
{
    bo_model *model;
    lab_trained trained;
    const bo_model_desc desc = {.layers = 2,
                                .width = WIDTH,
                                .block.heads = 4,
                                .context = 64,
                                .block.mlp = mlps[kind],
                                .block.hidden = (size_t)(ratio * WIDTH)};
    BO_TRY(lab_train_new(run, &desc, text, training, &model, &trained));
    bo_model_destroy(model);
    *loss = trained.loss;
    return BO_OK;
}

/* Returns the ratio at which the loss falls to `target_loss`, by linear interpolation over the logarithms of the
 * ratios. */
static double smallest_ratio(size_t count, const double *ratios, const double *losses, double target_loss)
{
    size_t i = count - 1;
    while (i > 0 && losses[i - 1] <= target_loss) i--;
    if (i == 0) return ratios[0];
    const double part = (losses[i - 1] - target_loss) / (losses[i - 1] - losses[i]);
    return ratios[i - 1] * pow(ratios[i] / ratios[i - 1], part);
}

static bo_status measure_widths(lab_run *run, const lab_text *text)
{
    enum { RATIOS = 6 };
    const size_t step = lab_size(run, 1, 2);
    double ratios[RATIOS], losses[KINDS][RATIOS], half = NAN;
    size_t count = 0;
    for (size_t i = 1; i < RATIOS; i += step, count++) {
        ratios[count] = ldexp(0.125, (int)i);
        for (size_t kind = 0; kind < KINDS; kind++) {
            const double done = 0.5 * (double)(i * KINDS + kind) / (RATIOS * KINDS);
            const lab_training training = {.batch = lab_size(run, 16, 8),
                                           .steps = lab_size(run, 400, 50),
                                           .from = done,
                                           .to = done + 0.5 / (RATIOS * KINDS)};
            BO_TRY(train(run, text, kind, ratios[count], &training, &losses[kind][count]));
            lab_point(run, "width", names[kind], ratios[count], losses[kind][count]);
        }
    }
    const lab_training training = {.batch = lab_size(run, 16, 8), .steps = lab_size(run, 400, 50)};
    if (lab_quick(run)) /* not run above */
        BO_TRY(train(run, text, PLAIN, 2, &training, &half));
    else
        half = losses[PLAIN][count - 2];
    lab_claim(run, "shrink", smallest_ratio(count, ratios, losses[PLAIN], losses[PLAIN][count - 1] + 0.02));
    lab_claim(run, "frozen", losses[FEATURES][count - 1] - losses[PLAIN][count - 1]);
    lab_claim(run, "equal", losses[FEATURES][count - 1] - half);
    return BO_OK;
}

/* Returns the best loss over three AdamW learning rates, chosen separately for each batch size. */
static bo_status best_of_rates(lab_run *run, const lab_text *text, size_t kind, size_t batch, double done, double *loss)
{
    static const double rates[] = {1e-3, 3e-3, 1e-2};
    *loss = INFINITY;
    for (size_t i = 0; i < LAB_COUNT_OF(rates); i++) {
        double found;
        const lab_training training = {.optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = rates[i]},
                                       .batch = batch,
                                       .steps = lab_size(run, 1600, 160) / batch,
                                       .from = done,
                                       .to = done + 0.03};
        BO_TRY(train(run, text, kind, LARGEST, &training, &found));
        *loss = fmin(*loss, found);
    }
    return BO_OK;
}

static bo_status measure_batches(lab_run *run, const lab_text *text)
{
    enum { BATCHES = 3 };
    static const size_t batches[BATCHES] = {1, 4, 16};
    double losses[KINDS][BATCHES];
    for (size_t i = 0; i < BATCHES; i++)
        for (size_t kind = 0; kind < KINDS; kind++) {
            const double done = 0.5 + 0.3 * (double)(i * KINDS + kind) / (BATCHES * KINDS);
            BO_TRY(best_of_rates(run, text, kind, batches[i], done, &losses[kind][i]));
            lab_point(run, "batch", names[kind], (double)batches[i], losses[kind][i]);
        }
    lab_claim(run, "batch",
              losses[FEATURES][0] - losses[FEATURES][BATCHES - 1] - (losses[PLAIN][0] - losses[PLAIN][BATCHES - 1]));
    return BO_OK;
}

/* ---- on a function ----------------------------------------------------------------------------------------------- */

enum { DIM = 2, WAVES = 8, TRAIN_ROWS = 1024, TEST_ROWS = 1024, TRAINED = 256, BATCH = 16, DEEP = KINDS, FORMS = 3 };
static const char *const forms[FORMS] = {"MLP", "random features", "MLP of two layers"};

typedef struct function_data {
    float x[(TRAIN_ROWS + TEST_ROWS) * DIM];
    double y[TRAIN_ROWS + TEST_ROWS];
    bo_examples *train_examples, *test_examples;
    double deviation; /* standard deviation of the target function */
} function_data;

/* A sum of plane waves on the square [-1, 1]². Waves of frequency 12 have about four periods along a side. */
static void draw_function(lab_run *run, double frequency, function_data *f)
{
    const double turn = 6.283185307179586;
    bo_rng rng = lab_rng(run, "lab.rff-mlp");
    double waves[WAVES][DIM], phases[WAVES];
    for (size_t w = 0; w < WAVES; w++) {
        const double angle = turn * bo_rng_uniform(&rng);
        waves[w][0] = frequency * cos(angle);
        waves[w][1] = frequency * sin(angle);
        phases[w] = turn * bo_rng_uniform(&rng);
    }
    for (size_t i = 0; i < TRAIN_ROWS + TEST_ROWS; i++) {
        f->y[i] = 0;
        for (size_t c = 0; c < DIM; c++) f->x[i * DIM + c] = (float)(2 * bo_rng_uniform(&rng) - 1);
        for (size_t w = 0; w < WAVES; w++)
            f->y[i] += sin(waves[w][0] * f->x[i * DIM] + waves[w][1] * f->x[i * DIM + 1] + phases[w]);
    }
    f->deviation = lab_deviation(f->y + TRAIN_ROWS, TEST_ROWS);
}

static bo_status make_examples(lab_run *run, double frequency, function_data *f)
{
    bo_context *context = lab_context(run);
    draw_function(run, frequency, f);
    const bo_examples_arrays train_examples = {.rows = TRAIN_ROWS, .dim = DIM, .targets = 1, .x = f->x, .y = f->y};
    const bo_examples_arrays test_examples = {
        .rows = TEST_ROWS, .dim = DIM, .targets = 1, .x = f->x + TRAIN_ROWS * DIM, .y = f->y + TRAIN_ROWS};
    BO_TRY(bo_examples_create(context, &train_examples, &f->train_examples));
    return bo_examples_create(context, &test_examples, &f->test_examples);
}

/* One attempt: MLPs differ in the learning rate, random features in the width of their kernel. */
typedef struct attempt {
    size_t form, trained, batch;
    double rate, gamma;
} attempt;

/* An MLP with h hidden units trains 4h + 1 numbers, and one with two layers of h units h² + 5h + 1. Random features
 * train one number per feature plus two. */
static void describe(const attempt *a, char *json, size_t json_size)
{
    static const char begin[] = "{\"input\": {\"kind\": \"array\"}, \"layers\": [",
                      end[] = "{\"type\": \"linear\", \"width\": \"targets\"}], \"loss\": \"mse\"}";
    const size_t h = a->form == DEEP ? (size_t)(sqrt((double)a->trained + 5.25) - 2.5) : a->trained / 4;
    if (a->form == FEATURES)
        snprintf(json, json_size, "%s{\"type\": \"random-features\", \"features\": %zu, \"gamma\": %g}, %s", begin,
                 a->trained, a->gamma, end);
    else if (a->form == PLAIN)
        snprintf(json, json_size, "%s{\"type\": \"linear\", \"width\": %zu}, {\"type\": \"gelu\"}, %s", begin, h, end);
    else
        snprintf(json, json_size,
                 "%s{\"type\": \"linear\", \"width\": %zu}, {\"type\": \"gelu\"}, {\"type\": \"linear\", \"width\": "
                 "%zu}, {\"type\": \"gelu\"}, %s",
                 begin, h, h, end);
}

static bo_status fit(lab_run *run, const function_data *f, const attempt *a, bo_model *network)
{
    bo_trainer *trainer;
    bo_status status = BO_OK;
    const bo_trainer_desc desc = {.model = network,
                                  .train.examples = f->train_examples,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = a->rate},
                                  .batch = a->batch,
                                  .steps = lab_size(run, 64, 6) * TRAIN_ROWS / a->batch,
                                  .seed = lab_seed(run)};
    BO_TRY(bo_trainer_create(lab_context(run), &desc, &trainer));
    for (uint64_t i = 0; status == BO_OK && i < desc.steps; i++) {
        double loss;
        status = bo_trainer_step(lab_context(run), trainer, &loss);
        if (status == BO_OK && i % 256 == 0) status = lab_progress(run, 0.9);
    }
    bo_trainer_destroy(trainer);
    return status;
}

static bo_status try_once(lab_run *run, const function_data *f, const attempt *a, double *error)
{
    char json[512];
    bo_model *network;
    bo_examples_evaluation score;
    describe(a, json, sizeof json);
    const bo_description desc = {.text = json, .examples = f->train_examples, .seed = lab_seed(run)};
    BO_TRY(bo_model_create_described(lab_context(run), &desc, &network));
    bo_status status = fit(run, f, a, network);
    if (status == BO_OK)
        status = bo_model_evaluate_examples(lab_context(run), network, f->test_examples, BO_SPLIT_ALL, &score);
    bo_model_destroy(network);
    *error = status == BO_OK && isfinite(score.rmse) ? score.rmse / f->deviation : INFINITY;
    return status == BO_NUMERIC ? BO_OK : status;
}

/* errors: the best of three attempts for each form; the last entry is that of the better MLP. */
static bo_status best_errors(lab_run *run, const function_data *f, size_t trained, size_t batch,
                             double errors[FORMS + 1])
{
    enum { TRIES = 3 };
    static const double rates[TRIES] = {1e-3, 4e-3, 1.6e-2}, gammas[TRIES] = {1, 4, 16};
    for (size_t form = 0; form < FORMS; form++) {
        errors[form] = INFINITY;
        for (size_t i = 0; i < TRIES; i++) {
            double found;
            const attempt a = {.form = form,
                               .trained = trained,
                               .batch = batch,
                               .rate = form == FEATURES ? rates[1] : rates[i],
                               .gamma = gammas[i]};
            BO_TRY(try_once(run, f, &a, &found));
            errors[form] = fmin(errors[form], found);
        }
    }
    errors[FORMS] = fmin(errors[PLAIN], errors[DEEP]);
    return BO_OK;
}

static void record_errors(lab_run *run, const char *table, double x, const double errors[FORMS + 1])
{
    for (size_t form = 0; form < FORMS; form++) lab_point(run, table, forms[form], x, errors[form]);
}

/* Sweeps the number of trained parameters and the batch size at the high frequency. */
static bo_status sweep_sizes(lab_run *run, const function_data *f)
{
    double errors[FORMS + 1];
    for (size_t trained = TRAINED / 4; trained <= 4 * TRAINED; trained *= lab_size(run, 2, 4)) {
        BO_TRY(best_errors(run, f, trained, BATCH, errors));
        record_errors(run, "function", (double)trained, errors);
        if (trained == TRAINED) lab_claim(run, "function", errors[FEATURES] / errors[FORMS]);
    }
    for (size_t batch = 1; batch <= 64; batch *= lab_size(run, 4, 8)) {
        BO_TRY(best_errors(run, f, TRAINED, batch, errors));
        record_errors(run, "function-batch", (double)batch, errors);
        if (batch == 1) lab_claim(run, "function-batch", errors[FEATURES] / errors[FORMS]);
    }
    return BO_OK;
}

/* Measures one function by size and batch, or one point of the table by frequency. */
static bo_status measure_function(lab_run *run, double frequency, bool sizes)
{
    double errors[FORMS + 1];
    function_data *f = bo_alloc(lab_context(run), 1, sizeof *f, "a function");
    if (!f) return BO_MEMORY;
    bo_status status = make_examples(run, frequency, f);
    if (status == BO_OK) status = sizes ? sweep_sizes(run, f) : best_errors(run, f, TRAINED, BATCH, errors);
    if (status == BO_OK && !sizes) {
        record_errors(run, "frequency", frequency, errors);
        if (frequency < 2) lab_claim(run, "smooth", errors[FORMS]);
    }
    bo_examples_destroy(f->train_examples);
    bo_examples_destroy(f->test_examples);
    bo_free(f);
    return status;
}

static bo_status measure_functions(lab_run *run)
{
    const double highest = 12;
    for (double frequency = 1.5; frequency <= highest; frequency *= lab_quick(run) ? 8 : 2)
        BO_TRY(measure_function(run, frequency, false));
    return measure_function(run, highest, true);
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    BO_TRY(lab_text_open(run, 0, &text));
    bo_status status = measure_widths(run, &text);
    if (status == BO_OK) status = measure_batches(run, &text);
    lab_text_close(&text);
    return status == BO_OK ? measure_functions(run) : status;
}

const lab_experiment lab_rff_mlp = {
    {.name = "rff-mlp",
     .group = LAB_FEATURES,
     .title = "Over-parametrization of token-wise MLPs in transformers",
     .claim =
         "An MLP is a feature map followed by a readout. Random Fourier features with frozen frequencies can "
         "replace it: they train with far smaller batches and need far fewer parameters for complex functions. "
         "MLPs are therefore larger than necessary. (The draft does not say what its \"tiny tweak\" is; that it is "
         "random Fourier features is our reading.)",
     .source = "Are Token-wise MLPs over-parameterized in Transformers? (draft on random Fourier features)",
     .method =
         "Byte-level language models with 2 layers, width 64, 4 heads and windows of 64 tokens are trained for 400 "
         "steps of 16 windows, with GELU MLPs and with random Fourier features (Gaussian kernel; its width and the "
         "readout are learned). Hidden sizes range from a quarter of the width to four widths. Batches: hidden size 4 "
         "x width, 1600 windows in batches of 1, 4 and 16, with the best of three AdamW learning rates for each. The "
         "functions are sums of 8 plane waves on the square [-1, 1]², of frequency 12 (about four periods along a "
         "side) unless stated otherwise. They are learned from 1024 examples seen 64 times with AdamW, by MLPs with "
         "one and two hidden GELU layers (best of three learning rates) and by random features (best of three kernel "
         "widths) with the same number of trained parameters, in batches of 16 examples unless stated otherwise. The "
         "error is measured on 1024 other examples, which also select among the three attempts of each. Choosing the "
         "kernel width gives random features information about how fast the function varies; MLPs receive the inputs "
         "unscaled.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
