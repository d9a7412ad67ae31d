/* Streaming fits: blocks of rows are added to moments, which can be merged and are solved at the end. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/files.h"
#include "../math/metric.h"
#include "embedding.h"
#include "enums.h"
#include "estimate.h"
#include "fitting.h"
#include "left_out.h"
#include "machine.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"
#include "solvers.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PROBE_ROWS = 512 };

bo_status bo_fitting_open(bo_context *context, bo_fitting *fitting)
{
    assert(fitting->moments.size == 0);
    const bo_row_map row_map = bo_fitting_row_map(fitting);
    return bo_moments_create(context, &row_map, fitting->targets.outputs, fitting->report.precision, &fitting->moments);
}

bo_status bo_fitting_create(bo_context *context, const bo_machine_desc *desc, const bo_samples *sample,
                            bo_fitting **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, sample, out);
    BO_TRY(bo_fit_check(context, desc, sample));
    if (desc->loss == BO_LOSS_LOGISTIC)
        return bo_fail(context, BO_UNSUPPORTED,
                       "the logistic loss needs several passes and cannot be fitted from a stream; use the ridge loss, "
                       "or fit in memory");
    if (desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_PRIMAL)
        return bo_fail(context, BO_UNSUPPORTED, "streams: expected the primal solver, found %s",
                       bo_solver_name(desc->solver));
    if (desc->features.function == BO_FUNCTION_SECTIONS)
        return bo_fail(context, BO_UNSUPPORTED, "function sections needs all rows in memory; streams need features");
    bo_machine_desc planned = *desc;
    bo_fit_for_device(context, &planned);
    if (!planned.stream_rows) planned.stream_rows = sample->rows;
    planned.task = sample->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    BO_TRY(bo_target_scale_choose(context, desc, sample, &planned.target_scale));
    bo_fit_limit_landmarks(&planned, sample->rows);
    bo_fit_cost plan;
    const bo_fit_shape shape = bo_samples_shape(sample);
    BO_TRY(bo_machine_estimate(context, &planned, &shape, &plan));
    bo_fitting *fitting;
    BO_TRY(bo_fitting_prepare(context, &planned, sample, planned.stream_rows, NULL, &fitting));
    bo_status status = bo_fitting_open(context, fitting);
    if (status != BO_OK) {
        bo_fitting_destroy(fitting);
        return status;
    }
    fitting->report.why_solver = BO_WHY_STREAM;
    *out = fitting;
    return BO_OK;
}

bo_status bo_fitting_add(bo_context *context, bo_fitting *fitting, const bo_samples *rows)
{
    BO_REQUIRE(context, fitting, rows);
    if (fitting->embedding) return bo_embedding_sums_add(context, fitting->embedding, rows);
    BO_SPAN(context, "machine", "add rows");
    BO_TRY(bo_check_reserved(context, "bo_samples", rows->reserved));
    if (rows->dim != fitting->report.dim)
        return bo_fail(context, BO_INVALID, "expected rows of %zu columns, as in the sample; found %zu",
                       fitting->report.dim, rows->dim);
    if (rows->classes != fitting->report.classes)
        return bo_fail(context, BO_INVALID, "expected %zu classes, as in the sample; found %zu",
                       fitting->report.classes, rows->classes);
    if (!rows->classes && rows->targets != fitting->report.outputs)
        return bo_fail(context, BO_INVALID, "expected %zu targets, as in the sample; found %zu",
                       fitting->report.outputs, rows->targets);
    if (rows->weights && fitting->quantum > 0)
        return bo_fail(
            context, BO_INVALID,
            "weighted rows cannot be added: the sample had no weights, so the features are rounded to 8 bits; pass "
            "weights with the sample, or use precision float32");
    BO_TRY(bo_samples_check(context, rows));
    assert(fitting->moments.size > 0);
    BO_TRY(bo_targets_in_range(context, &fitting->targets, rows));
    double begin = bo_seconds();
    bo_row_map row_map = bo_fitting_row_map(fitting);
    bo_status status =
        bo_moments_add(context, &fitting->moments, &row_map, &fitting->targets, rows, fitting->report_progress);
    fitting->seconds += bo_seconds() - begin;
    return status;
}

static bo_status require_machine(bo_context *context, const bo_fitting *fitting)
{
    if (!fitting->embedding) return BO_OK;
    return bo_fail(context, BO_INVALID, "expected a fitting of a machine, found a fitting of an embedding");
}

static bool same_floats(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_metric(const bo_metric *a, const bo_metric *b)
{
    if (a->rank != b->rank || a->diagonal != b->diagonal) return false;
    return a->rank == 0 || same_floats(a->a, b->a, a->diagonal ? a->dim : a->rank * a->dim);
}

/* Compares two maps by what would be written to a file. */
static bo_status same_map(bo_context *context, const bo_features *a, const bo_features *b, bool *same)
{
    bo_file_tensor left[BO_FEATURES_TENSORS], right[BO_FEATURES_TENSORS];
    size_t left_count = 0, right_count = 0;
    char *left_json = NULL, *right_json = NULL;
    void *left_owned = NULL, *right_owned = NULL;
    bo_status status = bo_features_pack(context, a, left, &left_count, &left_json, &left_owned);
    if (status == BO_OK) status = bo_features_pack(context, b, right, &right_count, &right_json, &right_owned);
    if (status == BO_OK) {
        *same = left_count == right_count && strcmp(left_json, right_json) == 0;
        for (size_t i = 0; *same && i < left_count; i++)
            *same = left[i].bytes == right[i].bytes && memcmp(left[i].data, right[i].data, left[i].bytes) == 0;
    }
    bo_free(left_json);
    bo_free(right_json);
    bo_free(left_owned);
    bo_free(right_owned);
    return status;
}

static bo_status add_moments(bo_context *context, bo_moments *moments, const bo_moments *other)
{
    const size_t count = moments->size * moments->size;
    double *sum = NULL, *added = NULL;
    bo_status status = bo_moments_open(context, moments, &sum);
    if (status == BO_OK) status = bo_moments_open(context, other, &added);
    for (size_t k = 0; status == BO_OK && k < count; k++) sum[k] += added[k];
    bo_moments_close(context, other, added, false);
    const bo_status closed = bo_moments_close(context, moments, sum, status == BO_OK);
    if (status == BO_OK) status = closed;
    if (status == BO_OK) moments->rows += other->rows;
    return status;
}

bo_status bo_fitting_merge(bo_context *context, bo_fitting *fitting, const bo_fitting *other)
{
    BO_REQUIRE(context, fitting, other);
    BO_TRY(require_machine(context, fitting));
    BO_TRY(require_machine(context, other));
    const bo_fit_report *a = &fitting->report, *b = &other->report;
    if (a->features != b->features || a->outputs != b->outputs || a->dim != b->dim || a->classes != b->classes)
        return bo_fail(context, BO_INVALID,
                       "cannot merge: %zu columns, %zu features and %zu outputs differ from %zu, %zu and %zu", a->dim,
                       a->features, a->outputs, b->dim, b->features, b->outputs);
    bool same = fitting->phi == other->phi;
    if (!same) BO_TRY(same_map(context, fitting->phi, other->phi, &same));
    if (!same)
        return bo_fail(context, BO_INVALID,
                       "cannot merge: the feature maps differ (gamma %g, seed %llu; gamma %g, seed %llu)", a->gamma,
                       (unsigned long long)fitting->desc.seed, b->gamma, (unsigned long long)other->desc.seed);
    if (fitting->scaler.kind != other->scaler.kind || !same_metric(&fitting->scaler.metric, &other->scaler.metric) ||
        !same_floats(fitting->scaler.mean, other->scaler.mean, a->dim) ||
        !same_floats(fitting->scaler.factor, other->scaler.factor, a->dim))
        return bo_fail(context, BO_INVALID,
                       "cannot merge: the inputs are scaled differently; create both from the same sample");
    for (size_t t = 0; !a->classes && t < a->outputs; t++)
        if (fitting->targets.logarithms != other->targets.logarithms ||
            fitting->targets.mean[t] != other->targets.mean[t] ||
            fitting->targets.deviation[t] != other->targets.deviation[t])
            return bo_fail(context, BO_INVALID,
                           "cannot merge: target %zu is scaled differently; create both from the same sample", t);
    if (fitting->quantum != other->quantum || fitting->moments.precision != other->moments.precision)
        return bo_fail(context, BO_INVALID, "cannot merge: the precisions differ (%s, %s)",
                       bo_gram_precision_name(a->precision), bo_gram_precision_name(b->precision));
    const bo_machine_desc *one = &fitting->desc, *two = &other->desc;
    if (one->lambda != two->lambda || one->noise != two->noise || one->dropout != two->dropout ||
        one->no_intercept != two->no_intercept)
        return bo_fail(context, BO_INVALID, "cannot merge: lambda, noise, dropout or the intercept differ");
    const float *weights = fitting->targets.class_weight, *other_weights = other->targets.class_weight;
    if (!weights != !other_weights || (weights && !same_floats(weights, other_weights, a->classes)))
        return bo_fail(context, BO_INVALID, "cannot merge: the class weights differ; create both from the same sample");
    return add_moments(context, &fitting->moments, &other->moments);
}

bo_status bo_fitting_reduce(bo_context *context, bo_fitting *fitting, const bo_collective *collective)
{
    BO_REQUIRE(context, fitting, collective);
    BO_TRY(require_machine(context, fitting));
    BO_TRY(bo_check_reserved(context, "bo_collective", collective->reserved));
    if (collective->size <= 1) return BO_OK;
    if (!collective->sum) return bo_fail(context, BO_INVALID, "collective: sum is NULL, but there are several ranks");
    size_t count = fitting->moments.size * fitting->moments.size;
    double rows = (double)fitting->moments.rows;
    double *gram;
    bo_status status = bo_moments_open(context, &fitting->moments, &gram);
    if (status != BO_OK) {
        bo_moments_close(context, &fitting->moments, gram, false);
        return status;
    }
    status = collective->sum(collective->user, gram, count);
    if (status == BO_OK) status = collective->sum(collective->user, &rows, 1);
    const bo_status closed = bo_moments_close(context, &fitting->moments, gram, status == BO_OK);
    if (status != BO_OK)
        return bo_fail(context, status, "rank %d of %d: the sum over the ranks failed", collective->rank,
                       collective->size);
    BO_TRY(closed);
    fitting->moments.rows = (size_t)rows;
    return BO_OK;
}

/* Keeps the packed factor for standard deviations. */
static bo_status keep_uncertainty(bo_context *context, const bo_machine_ridge *ridge, bool intercept,
                                  bo_machine *machine)
{
    size_t n = ridge->features;
    machine->factor = bo_alloc_raw(context, n * (n + 1) / 2, sizeof(float), "the factor of the Gram matrix");
    if (!machine->factor) return BO_MEMORY;
    BO_TRY(bo_ridge_pack_factor(context, ridge, machine->factor));
    machine->inverse_weight = intercept ? 1 / ridge->weight : 0;
    machine->uncertainty = BO_UNCERTAINTY_PRIMAL;
    return BO_OK;
}

bo_status bo_fitting_machine(bo_context *context, const bo_fitting *fitting, bo_machine **out)
{
    BO_TRY(bo_machine_create(context, &fitting->report, out));
    bo_machine *machine = *out;
    if (bo_scaler_copy(context, &fitting->scaler, &machine->scaler) != BO_OK) {
        bo_machine_destroy(machine);
        *out = NULL;
        return BO_MEMORY;
    }
    machine->phi = bo_features_share(fitting->phi);
    machine->quantum = (double)fitting->quantum;
    return BO_OK;
}

static bo_status machine_from_ridge(bo_context *context, const bo_fitting *fitting, const bo_machine_ridge *ridge,
                                    bo_machine *machine)
{
    bool intercept = !fitting->desc.no_intercept;
    BO_TRY(bo_machine_set_solution(context, machine, &fitting->targets, ridge->beta, ridge->intercept, ridge->center));
    bo_left_out left_out;
    bo_row_map row_map = bo_fitting_row_map(fitting);
    BO_TRY(bo_ridge_left_out_blocks(context, ridge, &row_map, &fitting->targets, &fitting->kept, intercept, &left_out));
    bo_left_out_inflate(&left_out, sqrt(fitting->optimism));
    bo_status status = bo_machine_calibrate(context, machine, &fitting->targets, &left_out);
    bo_left_out_free(&left_out);
    if (status == BO_OK && !fitting->targets.classes) status = keep_uncertainty(context, ridge, intercept, machine);
    return status;
}

/* Chooses the final λ with all rows and features, near the λ of the search. */
static bo_status settle_lambda(bo_context *context, bo_fitting *fitting)
{
    if (fitting->desc.lambda > 0) return BO_OK;
    double begin = bo_seconds();
    bo_sparse view; /* in random order, so the first rows are a random subset */
    const size_t rows = fitting->kept.rows, probe_rows = fitting->kept.classes || rows < PROBE_ROWS ? rows : PROBE_ROWS;
    const bo_samples probe = bo_samples_slice(&fitting->kept, 0, probe_rows, &view);
    bo_fit_problem problem = bo_fitting_problem(fitting, &probe);
    bo_status status =
        bo_search_lambda(context, &problem, &fitting->moments, fitting->report.spectrum, &fitting->report.lambda);
    fitting->report.search_seconds += bo_seconds() - begin;
    return status;
}

bo_status bo_fitting_finish(bo_context *context, bo_fitting *fitting, bo_machine **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, fitting, out);
    BO_TRY(require_machine(context, fitting));
    BO_SPAN(context, "machine", "solve");
    if (fitting->moments.rows < 2)
        return bo_fail(context, BO_INVALID, "expected at least 2 rows of positive weight, found %zu",
                       fitting->moments.rows);
    BO_TRY(bo_progress(context, "solving", 0, 1));
    double begin = bo_seconds();
    bool intercept = !fitting->desc.no_intercept;
    BO_TRY(bo_moments_spectrum(context, &fitting->moments, intercept, &fitting->report.spectrum));
    fitting->seconds += bo_seconds() - begin;
    BO_TRY(settle_lambda(context, fitting));
    begin = bo_seconds();
    bo_penalty penalty = {fitting->report.lambda, fitting->desc.noise, fitting->desc.dropout};
    bo_machine_ridge ridge;
    fitting->report.rows = fitting->moments.rows;
    BO_TRY(bo_ridge_solve(context, &fitting->moments, &penalty, intercept, fitting->desc.seed, &ridge));
    bo_machine *machine = NULL;
    bo_status status = bo_fitting_machine(context, fitting, &machine);
    if (status == BO_OK) status = machine_from_ridge(context, fitting, &ridge, machine);
    bo_ridge_free(&ridge);
    if (status != BO_OK) {
        bo_machine_destroy(machine);
        return status;
    }
    machine->report.fit_seconds = fitting->seconds + bo_seconds() - begin;
    *out = machine;
    return BO_OK;
}
