/* Output error for each proposal of the frequencies at an equal number of features, and the smallest possible error. */
#include "attention.h"
#include <math.h>
#include <stdlib.h>

enum {
    ROWS = 4096,      /* rows used to calibrate */
    LAW_TOKENS = 512, /* rows of separate data, on which errors are measured */
    DRAWS = 4,        /* draws per repeat; medians are over all of them */
    MIN_PLOT = 16,    /* smallest number of features in the plot */
    PLOT_TIMES = 4    /* the plot ends at this multiple of the features of the metrics */
};

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* √s q and √s k are normal. Their covariance has eigenvalues `largest` · ratio^i in a random basis; all are below 1/6,
 * so that the variance of FAVOR+ is finite. `largest` 0 means equal eigenvalues and a mean square norm of 1.28. */
typedef struct law_data {
    const char *name;
    double largest, ratio;
} law_data;

static const law_data datas[] = {{"gaussian", 0, 1}, {"anisotropic", 0.15, 0.8}};

/* Replaces each row x by x - 2 u (u·x) / |u|². */
static void reflect(float *x, size_t rows, size_t dim, const float *u)
{
    double norm = 0;
    for (size_t j = 0; j < dim; j++) norm += (double)u[j] * u[j];
    for (size_t i = 0; i < rows; i++, x += dim) {
        double dot = 0;
        for (size_t j = 0; j < dim; j++) dot += (double)u[j] * x[j];
        for (size_t j = 0; j < dim; j++) x[j] -= (float)(2 * dot / norm * u[j]);
    }
}

/* The reflections, which define the basis, depend on the data set only, not on the random stream. */
static float *make_rows(attention_bench *bench, const law_data *data, uint64_t stream, size_t rows, size_t dim)
{
    enum { REFLECTIONS = 3 };
    float *x = attention_floats(rows * dim), *u = attention_floats(REFLECTIONS * dim);
    const double root_scale = pow((double)dim, -0.25);
    attention_fill(bench, stream, x, rows * dim);
    attention_fill(bench, 40, u, REFLECTIONS * dim);
    for (size_t i = 0; i < rows * dim; i++) {
        const double value =
            data->largest > 0 ? data->largest * pow(data->ratio, (double)(i % dim)) : 1.28 / (double)dim;
        x[i] *= (float)(sqrt(value) / root_scale);
    }
    for (size_t r = 0; r < REFLECTIONS; r++) reflect(x, rows, dim, u + r * dim);
    free(u);
    return x;
}

/* ---- proposals --------------------------------------------------------------------------------------------------- */

/* The first proposal is drawn without data. */
static const struct law {
    const char *name;
    bo_proposal proposal;
    bo_sampling sampling;
} laws[] = {
    {"favor", BO_PROPOSAL_NONE, BO_SAMPLING_DRAWN},
    {"favor++", BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN},
    {"favor#", BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN},
    {"dark, gaussian proposal", BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN},
    {"favor, optimal sampling", BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL},
    {"dark, optimal sampling", BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_OPTIMAL},
};

/* One data set of one width: rows for calibration, and separate rows for attention. */
typedef struct trial {
    const law_data *data;
    size_t dim;
    float *calibrate_q, *calibrate_k, *q, *k, *v;
} trial;

static trial open_trial(attention_bench *bench, const law_data *data, size_t dim)
{
    trial t = {.data = data, .dim = dim};
    t.calibrate_q = make_rows(bench, data, 31, ROWS, dim);
    t.calibrate_k = make_rows(bench, data, 32, ROWS, dim);
    t.q = make_rows(bench, data, 33, LAW_TOKENS, dim);
    t.k = make_rows(bench, data, 34, LAW_TOKENS, dim);
    t.v = attention_floats(LAW_TOKENS * dim);
    attention_fill(bench, 35, t.v, LAW_TOKENS * dim);
    return t;
}

static void close_trial(trial *t)
{
    float *const arrays[] = {t->calibrate_q, t->calibrate_k, t->q, t->k, t->v};
    for (size_t i = 0; i < CLI_COUNT_OF(arrays); i++) free(arrays[i]);
}

/* Relative errors: medians over draws for the output and for the kernel; the kernel error that the calibration predicts
 * for this proposal and for N(0, I); and the smallest kernel error that any proposal can reach. The last three are NAN
 * without a calibration. */
typedef struct errors {
    double output, kernel, predicted, isotropic, lower_bound;
} errors;

/* Draws new frequencies, calibrated on `calibration` unless it is NULL. */
static bo_status redraw(bo_context *context, const bo_calibration *calibration, bo_attention *attention, uint64_t draw,
                        bo_calibration_report *report)
{
    return calibration ? bo_calibration_apply(context, calibration, attention, draw, report)
                       : bo_attention_redraw(context, attention, draw);
}

static double predicted_error(double log_moment, size_t features)
{
    return sqrt(expm1(log_moment) / (double)features);
}

static bo_status measure_draws(attention_bench *bench, const trial *t, const bo_calibration *calibration,
                               bo_attention *attention, size_t features, errors *out)
{
    const size_t draws = DRAWS * bench->options->repeats;
    double *outputs = cli_allocate(2 * draws, sizeof *outputs, "errors"), *kernels = outputs + draws;
    const bo_attention_call call = {.sequences = 1, .tokens = LAW_TOKENS, .q = {t->q}, .k = {t->k}, .v = {t->v}};
    bo_calibration_report report = {.log_isotropic = NAN, .log_drawn = NAN, .log_floor = NAN};
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < draws; i++) {
        bo_attention_accuracy error = {0};
        status = redraw(bench->context, calibration, attention, i, i ? NULL : &report);
        if (status == BO_OK) status = bo_attention_measure(bench->context, attention, &call, 0, &error);
        outputs[i] = error.against_softmax;
        kernels[i] = error.kernel_error;
    }
    *out = (errors){bench_median(outputs, draws), bench_median(kernels, draws),
                    predicted_error(report.log_drawn, features), predicted_error(report.log_isotropic, features),
                    predicted_error(report.log_floor, features)};
    free(outputs);
    return status;
}

static bo_status calibrate(bo_context *context, const trial *t, const bo_attention *attention, bo_calibration **out)
{
    const bo_attention_call call = {.sequences = 1, .tokens = ROWS, .q = {t->calibrate_q}, .k = {t->calibrate_k}};
    bo_status status = bo_calibration_create(context, attention, 0, out);
    return status == BO_OK ? bo_calibration_add(context, *out, &call) : status;
}

static bool measure_law(attention_bench *bench, const trial *t, const struct law *law, size_t features, errors *out)
{
    bo_attention_desc desc = attention_favor(bench, features);
    desc.heads = 1;
    desc.dim = t->dim;
    desc.proposal = law->proposal;
    desc.features.sampling = law->sampling;
    bo_attention *attention = NULL;
    bo_calibration *calibration = NULL;
    bo_status status = bo_attention_create(bench->context, &desc, &attention);
    if (status == BO_OK && law != laws) status = calibrate(bench->context, t, attention, &calibration);
    if (status == BO_OK) status = measure_draws(bench, t, calibration, attention, features, out);
    bo_calibration_destroy(calibration);
    bo_attention_destroy(attention);
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK && !cli_interrupted();
}

/* Measures favor first, then the calibrated proposals. The predictions for favor come from the first calibration. */
static bool measure_trial(attention_bench *bench, const trial *t, size_t features)
{
    errors all[CLI_COUNT_OF(laws)];
    for (size_t i = 0; i < CLI_COUNT_OF(laws); i++)
        if (!measure_law(bench, t, &laws[i], features, &all[i])) return false;
    all[0].predicted = all[1].isotropic;
    all[0].lower_bound = all[1].lower_bound;
    for (size_t i = 0; i < CLI_COUNT_OF(laws); i++) {
        char name[96];
        snprintf(name, sizeof name, "%s, width %zu, %zu features, %s", t->data->name, t->dim, features, laws[i].name);
        bench_add(bench->run, name, all[i].output, "", NAN, true,
                  "error of the output, %.3g times that of favor; of the kernel %.3g; for independent frequencies "
                  "predicted %.3g, lower bound %.3g",
                  all[i].output / all[0].output, all[i].kernel, all[i].predicted, all[i].lower_bound);
    }
    return true;
}

static bool add_curves(attention_bench *bench, const trial *t, size_t max_features)
{
    for (size_t i = 0; i < CLI_COUNT_OF(laws); i++)
        for (size_t features = MIN_PLOT; features <= max_features; features *= 2) {
            errors e;
            if (!measure_law(bench, t, &laws[i], features, &e)) return false;
            cli_curves_add(&bench->laws, laws[i].name, (double)features, e.output);
        }
    return true;
}

bool attention_laws_part(attention_bench *bench)
{
    static const size_t widths[] = {16, ATTENTION_DIM};
    const cli_counts *features = &bench->options->features;
    const size_t max_features = features->items[features->count - 1];
    bool ok = true;
    for (size_t i = 0; ok && i < CLI_COUNT_OF(datas) * CLI_COUNT_OF(widths); i++) {
        const law_data *data = &datas[i / CLI_COUNT_OF(widths)];
        trial t = open_trial(bench, data, widths[i % CLI_COUNT_OF(widths)]);
        ok = measure_trial(bench, &t, max_features);
        if (ok && bench->options->plot_laws && data->largest > 0 && t.dim == ATTENTION_DIM)
            ok = add_curves(bench, &t, PLOT_TIMES * max_features);
        close_trial(&t);
    }
    return ok;
}
