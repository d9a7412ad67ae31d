#include "stopping.h"
#include <math.h>

bo_value lab_record_linear(const void *user, bo_graph *graph, bo_value x)
{
    (void)user;
    return lab_graph_linear(graph, "readout", x, 1, (bo_weight_init){BO_WEIGHT_INIT_KIND_ZERO, 0, 0});
}

static double share_of(const lab_fit *fit, size_t relevant)
{
    const bo_weight *weight = bo_weights_find(fit->descent.tape.weights, "readout");
    double sum = 0, all = 0;
    if (!relevant) return NAN;
    const float *w = weight->data;
    for (size_t i = 0; i < weight->columns; i++) {
        const double square = (double)w[i] * (double)w[i];
        all += square;
        if (i < relevant) sum += square;
    }
    return sum / all;
}

/* Computes the errors of the parts with the current weights. */
static bo_status evaluate_errors(const lab_stopping *d, lab_fit *fit, float *predicted, lab_stopped *out)
{
    const lab_examples *e = d->examples;
    for (size_t first = e->train; first < lab_examples_rows(e); first += e->train)
        BO_TRY(lab_fit_predict(fit, d->inputs + first * d->width, predicted + first - e->train));
    out->valid = lab_examples_error(e, e->train, e->valid, predicted);
    out->test = lab_examples_error(e, e->train + e->valid, e->test, predicted + e->valid);
    out->share = share_of(fit, d->relevant);
    return BO_OK;
}

/* A NaN or infinite loss ends the run; the best earlier result counts. */
static bo_status train_rate(const lab_stopping *d, lab_fit *fit, double rate, float *predicted, lab_stopped *best)
{
    const size_t every = d->steps > 20 ? d->steps / 20 : 1;
    for (size_t i = 1; i <= d->steps; i++) {
        double loss;
        const bo_status status = lab_fit_step(fit, d->inputs, d->examples->y, 1, &loss);
        if (status == BO_NUMERIC || (status == BO_OK && !isfinite(loss))) return BO_OK;
        BO_TRY(status);
        if (i % every) continue;
        lab_stopped current = {.rate = rate};
        BO_TRY(evaluate_errors(d, fit, predicted, &current));
        if (current.valid < best->valid) *best = current;
    }
    return BO_OK;
}

bo_status lab_stop(lab_run *run, const lab_stopping *d, lab_stopped *out)
{
    const lab_examples *e = d->examples;
    float *predicted = bo_alloc(lab_context(run), e->valid + e->test, sizeof *predicted, "predictions");
    if (!predicted) return BO_MEMORY;
    *out = (lab_stopped){.valid = INFINITY, .test = INFINITY, .share = NAN};
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < d->rates; i++) {
        const double rate = d->rate * pow(3, (double)i);
        const lab_fit_desc desc = {.rows = e->train,
                                   .in = d->width,
                                   .out = 1,
                                   .record = d->record,
                                   .user = d->user,
                                   .optimizer = {.kind = d->kind, .rate = rate}};
        lab_fit fit;
        status = lab_fit_open(run, &desc, &fit);
        if (status == BO_OK) status = train_rate(d, &fit, rate, predicted, out);
        lab_fit_close(&fit);
    }
    bo_free(predicted);
    return status;
}
