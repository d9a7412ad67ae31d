/* Fitting: streaming fits, which add blocks of rows to moments and solve them at the end, and fits in memory. The
 * primal fit in memory is a stream of one block, so that both give the same result. */
#include "../base/trace.h"
#include "internal.h"
#include "../features/files.h"
#include "../features/sections.h"
#include "../features/sparse.h"
#include "tune.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bo_fit_shape shape_of(const bo_samples *samples)
{
    return (bo_fit_shape){.rows = samples->rows,
                          .dim = samples->dim,
                          .outputs = samples->classes ? samples->classes : samples->targets,
                          .nonzeros = samples->sparse ? bo_max(1, bo_sparse_numbers(samples->sparse)) : 0};
}

/* ---- a fit in progress --------------------------------------------------------------------------------- */

enum { PROBE_ROWS = 512, ACCURACY_PAIRS = 1000 };

void bo_fitting_destroy(bo_fitting *fitting)
{
    if (!fitting) return;
    bo_scaler_free(&fitting->scaler);
    bo_targets_free(&fitting->targets);
    bo_features_destroy(fitting->phi);
    bo_free(fitting->length_scales);
    bo_moments_free(&fitting->moments);
    bo_samples_free(&fitting->kept);
    bo_free(fitting);
}

bo_features_desc bo_fitting_map(const bo_machine_desc *desc, size_t dim)
{
    bo_features_desc map = desc->features;
    map.dim = dim;
    map.seed = desc->seed;
    /* Scrambled Sobol points cover few dimensions evenly: in 8 dimensions (the table kin8nm) the kernel error is about half
     * that of orthogonal frequencies. The advantage decreases with the dimension; 12 is a conservative limit. */
    enum { SOBOL_DIMENSIONS = 12 };
    const bool drawn = map.kernel <= BO_KERNEL_RATIONAL_QUADRATIC && map.function != BO_FUNCTION_LANDMARKS;
    if (map.draw == BO_DRAW_DEFAULT && drawn && dim <= SOBOL_DIMENSIONS) map.draw = BO_DRAW_SOBOL;
    /* a few thousand independent frequencies in so many dimensions are nearly orthogonal */
    if (map.draw == BO_DRAW_DEFAULT && drawn && dim >= BO_WIDE_COLUMNS) map.draw = BO_DRAW_IID;
    if (map.features == 0 && bo_features_needs_length(&map)) map.features = BO_FIT_FEATURES;
    return map;
}

/* The map of a fit with this scaler, without γ: its columns are those of scaled rows. */
static bo_status map_of(bo_context *context, bo_fitting *fitting, bo_features_desc *out)
{
    const bo_scaler *scaler = &fitting->scaler;
    *out = bo_fitting_map(&fitting->desc, scaler->kept);
    out->sparse = scaler->place != NULL;
    if (!out->length_scales || scaler->kept == scaler->dim) return BO_OK;
    fitting->length_scales = bo_alloc_raw(context, scaler->kept, sizeof(float), "length scales");
    if (!fitting->length_scales) return BO_MEMORY;
    for (size_t j = 0; j < scaler->dim; j++)
        if (scaler->place[j] != UINT32_MAX) fitting->length_scales[scaler->place[j]] = out->length_scales[j];
    out->length_scales = fitting->length_scales;
    return BO_OK;
}

static bo_status make_sparse_features(bo_context *context, bo_fitting *fitting, const bo_features_desc *map)
{
    bo_sparse_block *scaled;
    BO_TRY(bo_features_create(context, map, &fitting->phi));
    BO_TRY(bo_scaler_apply_sparse(context, &fitting->scaler, fitting->kept.sparse, &scaled));
    bo_status status = bo_features_measure_sparse(context, fitting->phi, &scaled->rows, ACCURACY_PAIRS, map->seed,
                                                  &fitting->report.accuracy);
    bo_sparse_destroy(&scaled->rows);
    return status;
}

/* Landmarks are chosen among training rows other than those kept to measure the error, if there are enough: the features are more
 * accurate at landmarks than elsewhere. */
static bo_status make_landmarks(bo_context *context, bo_fitting *fitting, bo_features_desc *map,
                                const bo_samples *samples)
{
    const size_t asked = map->candidates ? map->candidates : 8 * map->features;
    const size_t wanted = map->sampling == BO_SAMPLING_LEVERAGE ? bo_max(asked, map->features) : map->features;
    bo_samples chosen;
    BO_TRY(bo_samples_subset(context, samples, fitting->kept.rows + wanted, fitting->desc.seed, &chosen));
    const size_t count = bo_min(wanted, chosen.rows);
    const bo_inputs inputs = bo_samples_inputs(&chosen, chosen.rows - count, count);
    float *scaled = bo_alloc_raw(context, count * fitting->scaler.kept, sizeof *scaled, "a sample of the rows");
    bo_status status = scaled ? bo_scaler_apply(context, &fitting->scaler, &inputs, scaled) : BO_MEMORY;
    bo_samples_free(&chosen);
    map->sample = scaled;
    map->sample_rows = count;
    map->sample_stride = fitting->scaler.kept;
    if (status == BO_OK) status = bo_features_create(context, map, &fitting->phi);
    bo_free(scaled);
    return status;
}

/* Data-dependent maps use the scaled rows, which are freed at the end. */
static bo_status make_features(bo_context *context, bo_fitting *fitting, bo_features_desc map,
                               const bo_samples *samples)
{
    const bo_samples *kept = &fitting->kept;
    if (kept->sparse) return make_sparse_features(context, fitting, &map);
    const bool landmarks = map.function == BO_FUNCTION_LANDMARKS;
    if (landmarks) BO_TRY(make_landmarks(context, fitting, &map, samples));
    float *scaled = bo_alloc_raw(context, kept->rows * kept->dim, sizeof *scaled, "a sample of the rows");
    if (!scaled) return BO_MEMORY;
    const bo_inputs inputs = bo_samples_inputs(kept, 0, kept->rows);
    map.sample = scaled;
    map.sample_rows = kept->rows < BO_SAMPLED_ROWS ? kept->rows : BO_SAMPLED_ROWS; /* in random order */
    map.sample_stride = map.dim;
    bo_status status = bo_scaler_apply(context, &fitting->scaler, &inputs, scaled);
    if (status == BO_OK && !landmarks) status = bo_features_create(context, &map, &fitting->phi);
    if (status == BO_OK)
        status = bo_features_measure(context, fitting->phi, kept->rows, scaled, map.dim, ACCURACY_PAIRS, map.seed,
                                     &fitting->report.accuracy);
    if (status == BO_UNSUPPORTED && fitting->phi) { /* a custom map has no closed form to compare with */
        fitting->report.accuracy = (bo_features_accuracy){.predicted_rms = NAN, .error_rms = NAN, .kernel_rms = NAN};
        status = BO_OK;
    }
    bo_free(scaled);
    return status;
}

/* The exact kernel of all rows. */
static bo_status make_sections(bo_context *context, bo_fitting *fitting, const bo_features_desc *map,
                               const bo_samples *samples)
{
    float *scaled = bo_alloc_raw(context, samples->rows * samples->dim, sizeof *scaled, "scaled rows");
    if (!scaled) return BO_MEMORY;
    const bo_inputs inputs = bo_samples_inputs(samples, 0, samples->rows);
    bo_status status = bo_scaler_apply(context, &fitting->scaler, &inputs, scaled);
    if (status == BO_OK) status = bo_sections_create(context, map, samples->rows, scaled, &fitting->phi);
    bo_free(scaled);
    fitting->report.accuracy = (bo_features_accuracy){.ratio = NAN};
    return status;
}

static void fill_report(bo_fitting *fitting, const bo_samples *samples, const bo_search_choice *choice)
{
    const bo_machine_desc *desc = &fitting->desc;
    const bo_features_desc *map = bo_features_describe(fitting->phi);
    bo_features_accuracy accuracy = fitting->report.accuracy;
    fitting->report = (bo_fit_report){.task = samples->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION,
                                      .loss = desc->loss == BO_LOSS_AUTO ? BO_LOSS_RIDGE : desc->loss,
                                      .solver = BO_SOLVER_PRIMAL,
                                      .scaling = fitting->scaler.kind,
                                      .target_scale = desc->target_scale,
                                      .dim = samples->dim,
                                      .outputs = fitting->targets.outputs,
                                      .classes = samples->classes,
                                      .features = map->features,
                                      .gamma = map->gamma,
                                      .lambda = choice->lambda,
                                      .spectrum = choice->spectrum,
                                      .search_seconds = choice->seconds,
                                      .search_score = choice->score,
                                      .noise_std = NAN,
                                      .accuracy = accuracy,
                                      .validation_rmse = NAN,
                                      .validation_r2 = NAN,
                                      .validation_accuracy = NAN,
                                      .validation_log_loss = NAN};
    bo_report_map(&fitting->report, map);
    fitting->report.metric = !fitting->scaler.metric.a         ? BO_METRIC_NONE
                             : fitting->scaler.metric.diagonal ? BO_METRIC_DIAGONAL
                                                               : BO_METRIC_LEARN;
    fitting->report.metric_iterations = fitting->metric_iterations;
}

/* Chooses γ, λ and, if it is to be searched, the depth of the networks of the map. */
static bo_status search(bo_context *context, bo_fitting *fitting, const bo_samples *samples, size_t rows,
                        bo_features_desc *map, bo_search_choice *out)
{
    if (map->depth != -1)
        return bo_search(context, &fitting->desc, map, &fitting->scaler, &fitting->targets, samples, rows, out);
    const bo_search_choice given = *out;
    double seconds = 0;
    int best = 0;
    for (int depth = 1; depth <= BO_DEPTHS_SEARCHED; depth++) {
        bo_search_choice choice = given;
        map->depth = depth;
        BO_TRY(bo_search(context, &fitting->desc, map, &fitting->scaler, &fitting->targets, samples, rows, &choice));
        seconds += choice.seconds;
        if (best && !(choice.score < out->score)) continue;
        best = depth;
        *out = choice;
    }
    map->depth = best;
    out->seconds = seconds;
    return BO_OK;
}

/* Takes over the scaling, the metric, the kernel of the map, γ and λ. */
static bo_status take_setting(bo_context *context, bo_fitting *fitting, const bo_setting *setting, size_t rows,
                              bo_features_desc *map, bo_search_choice *out)
{
    bo_scaler_free(&fitting->scaler);
    BO_TRY(bo_scaler_copy(context, &setting->scaler, &fitting->scaler));
    fitting->desc.features.kernel = setting->kernel;
    fitting->metric_iterations = setting->iterations;
    fitting->optimism = setting->optimism;
    *out = (bo_search_choice){
        .gamma = setting->gamma, .lambda = setting->lambda, .score = sqrt(setting->score), .spectrum = (double)rows};
    return map_of(context, fitting, map);
}

static bo_status tune(bo_context *context, bo_fitting *fitting, const bo_samples *samples, size_t rows,
                      bo_features_desc *map, bo_search_choice *out)
{
    const double begin = bo_seconds();
    bo_setting setting;
    size_t count;
    BO_TRY(bo_tune(context, &fitting->desc, &fitting->targets, samples, 1, &setting, &count));
    bo_status status = take_setting(context, fitting, &setting, rows, map, out);
    bo_setting_free(&setting);
    out->seconds = bo_seconds() - begin;
    return status;
}

/* Everything before the first row is added: scaling, targets, γ and λ, the map. `rows`: the expected number of rows. `setting`:
 * what was chosen before, or NULL. */
static bo_status prepare(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, size_t rows,
                         const bo_setting *setting, bo_fitting **out)
{
    *out = NULL;
    double begin = bo_seconds();
    bo_fitting *fitting = bo_alloc(context, 1, sizeof *fitting, "the fit");
    if (!fitting) return BO_MEMORY;
    fitting->desc = *desc;
    fitting->optimism = 1;
    bo_search_choice choice = {.gamma = desc->features.gamma, .lambda = desc->lambda};
    bo_features_desc map;
    const size_t kept = samples->classes ? BO_KEPT_ROWS_OF_CLASSES : BO_KEPT_ROWS;
    bo_status status = bo_scaler_fit(context, desc->scaling, samples, &fitting->scaler);
    if (status == BO_OK) status = map_of(context, fitting, &map);
    if (status == BO_OK) status = bo_targets_fit(context, desc, samples, &fitting->targets);
    if (status == BO_OK) status = bo_targets_in_range(context, &fitting->targets, samples);
    if (status == BO_OK) status = bo_samples_subset(context, samples, kept, desc->seed, &fitting->kept);
    if (status == BO_OK)
        status = setting                   ? take_setting(context, fitting, setting, rows, &map, &choice)
                 : bo_tunes(desc, samples) ? tune(context, fitting, samples, rows, &map, &choice)
                                           : search(context, fitting, samples, rows, &map, &choice);
    if (status == BO_OK) {
        map.gamma = choice.gamma;
        status = map.function == BO_FUNCTION_SECTIONS ? make_sections(context, fitting, &map, samples)
                                                      : make_features(context, fitting, map, samples);
    }
    if (status != BO_OK) {
        bo_fitting_destroy(fitting);
        return status;
    }
    fill_report(fitting, samples, &choice);
    bool weighted = samples->weights || fitting->targets.class_weight;
    status = bo_choose_precision(context, desc, bo_features_describe(fitting->phi), weighted, rows, choice.lambda,
                                 choice.spectrum, &fitting->report.precision);
    if (status != BO_OK) {
        bo_fitting_destroy(fitting);
        return status;
    }
    if (fitting->report.precision == BO_PRECISION_INT8)
        fitting->quantum = bo_quantum_of(bo_features_describe(fitting->phi));
    fitting->seconds = bo_seconds() - begin - choice.seconds;
    assert(fitting->phi && fitting->kept.rows > 0 && fitting->scaler.dim == samples->dim && fitting->moments.size == 0);
    assert(bo_features_describe(fitting->phi)->dim == fitting->scaler.kept);
    fitting->desc.features.length_scales = NULL;
    fitting->desc.class_weights = NULL;
    *out = fitting;
    return BO_OK;
}

static bo_status open_moments(bo_context *context, bo_fitting *fitting)
{
    assert(fitting->moments.size == 0);
    return bo_moments_create(context, fitting->report.features, fitting->targets.outputs, fitting->report.precision,
                             &fitting->moments);
}

bo_status bo_fitting_create(bo_context *context, const bo_machine_desc *desc, const bo_samples *sample,
                            bo_fitting **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, sample, out);
    BO_TRY(bo_fit_check(context, desc, sample));
    if (desc->loss == BO_LOSS_LOGISTIC)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "the logistic loss needs several passes and cannot be fitted from a stream; use the ridge loss, or fit in memory");
    if (desc->solver != BO_SOLVER_AUTO && desc->solver != BO_SOLVER_PRIMAL)
        return bo_fail(context, BO_UNSUPPORTED, "streams: expected the primal solver, found %s",
                       bo_solver_name(desc->solver));
    if (desc->features.function == BO_FUNCTION_SECTIONS)
        return bo_fail(context, BO_UNSUPPORTED, "function sections needs all rows in memory; streams need features");
    bo_machine_desc planned = *desc;
    if (!planned.stream_rows) planned.stream_rows = sample->rows;
    planned.task = sample->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    BO_TRY(bo_target_scale_choose(context, desc, sample, &planned.target_scale));
    bo_fit_limit_landmarks(&planned, sample->rows);
    bo_fit_cost plan;
    const bo_fit_shape shape = shape_of(sample);
    BO_TRY(bo_machine_estimate(context, &planned, &shape, &plan));
    bo_fitting *fitting;
    BO_TRY(prepare(context, &planned, sample, planned.stream_rows, NULL, &fitting));
    bo_status status = open_moments(context, fitting);
    if (status != BO_OK) {
        bo_fitting_destroy(fitting);
        return status;
    }
    fitting->report.why_solver = BO_WHY_STREAM;
    *out = fitting;
    return BO_OK;
}

bo_row_map bo_fitting_row_map(const bo_fitting *fitting)
{
    return (bo_row_map){&fitting->scaler, fitting->phi, fitting->quantum};
}

/* The problem of this fit with these samples. */
static bo_fit_problem problem_of(const bo_fitting *fitting, const bo_samples *samples)
{
    return (bo_fit_problem){&fitting->desc,
                            samples,
                            bo_fitting_row_map(fitting),
                            &fitting->targets,
                            {fitting->report.lambda, fitting->desc.noise, fitting->desc.dropout},
                            !fitting->desc.no_intercept,
                            fitting->optimism,
                            fitting->left_out};
}

bo_status bo_fitting_add(bo_context *context, bo_fitting *fitting, const bo_samples *rows)
{
    BO_REQUIRE(context, fitting, rows);
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

bo_status bo_fitting_merge(bo_context *context, bo_fitting *fitting, const bo_fitting *other)
{
    BO_REQUIRE(context, fitting, other);
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
                       bo_precision_name(a->precision), bo_precision_name(b->precision));
    const bo_machine_desc *one = &fitting->desc, *two = &other->desc;
    if (one->lambda != two->lambda || one->noise != two->noise || one->dropout != two->dropout ||
        one->no_intercept != two->no_intercept)
        return bo_fail(context, BO_INVALID, "cannot merge: lambda, noise, dropout or the intercept differ");
    const float *weights = fitting->targets.class_weight, *others = other->targets.class_weight;
    if (!weights != !others || (weights && !same_floats(weights, others, a->classes)))
        return bo_fail(context, BO_INVALID, "cannot merge: the class weights differ; create both from the same sample");
    size_t count = fitting->moments.size * fitting->moments.size;
    for (size_t k = 0; k < count; k++) fitting->moments.gram[k] += other->moments.gram[k];
    fitting->moments.rows += other->moments.rows;
    return BO_OK;
}

bo_status bo_fitting_reduce(bo_context *context, bo_fitting *fitting, const bo_collective *collective)
{
    BO_REQUIRE(context, fitting, collective);
    BO_TRY(bo_check_reserved(context, "bo_collective", collective->reserved));
    if (collective->size <= 1) return BO_OK;
    if (!collective->sum) return bo_fail(context, BO_INVALID, "collective: sum is NULL, but there are several ranks");
    size_t count = fitting->moments.size * fitting->moments.size;
    double rows = (double)fitting->moments.rows;
    bo_status status = collective->sum(collective->user, fitting->moments.gram, count);
    if (status == BO_OK) status = collective->sum(collective->user, &rows, 1);
    if (status != BO_OK)
        return bo_fail(context, status, "rank %d of %d: the sum over the ranks failed", collective->rank,
                       collective->size);
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
    for (size_t i = 0, k = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++, k++) machine->factor[k] = (float)ridge->factor[i * n + j];
    machine->inverse_weight = intercept ? 1 / ridge->weight : 0;
    machine->uncertainty = BO_UNCERTAINTY_PRIMAL;
    return BO_OK;
}

static bo_status give_machine(bo_context *context, bo_fitting *fitting, bo_machine **out)
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
    BO_TRY(bo_machine_take_solution(context, machine, &fitting->targets, ridge->beta, ridge->intercept, ridge->center));
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
    const size_t rows = fitting->kept.rows, most = fitting->kept.classes || rows < PROBE_ROWS ? rows : PROBE_ROWS;
    const bo_samples probe = bo_samples_slice(&fitting->kept, 0, most, &view);
    bo_fit_problem problem = problem_of(fitting, &probe);
    bo_status status =
        bo_search_lambda(context, &problem, &fitting->moments, fitting->report.spectrum, &fitting->report.lambda);
    fitting->report.search_seconds += bo_seconds() - begin;
    return status;
}

bo_status bo_fitting_finish(bo_context *context, bo_fitting *fitting, bo_machine **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, fitting, out);
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
    bo_status status = give_machine(context, fitting, &machine);
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

/* ---- in memory ----------------------------------------------------------------------------------------- */

static bo_status fit_primal(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_machine **out)
{
    BO_TRY(open_moments(context, fitting));
    fitting->report_progress = true;
    BO_TRY(bo_fitting_add(context, fitting, samples));
    return bo_fitting_finish(context, fitting, out);
}

static bo_status fit_otherwise(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_solver solver,
                               bo_machine **out)
{
    bo_fit_problem problem = problem_of(fitting, samples);
    double begin = bo_seconds();
    fitting->report.rows = samples->rows;
    fitting->report.precision = solver == BO_SOLVER_DUAL ? BO_PRECISION_FLOAT64 : BO_PRECISION_FLOAT32;
    fitting->quantum = problem.row_map.quantum = 0;
    BO_TRY(give_machine(context, fitting, out));
    bool sections = bo_is_sections(fitting->phi);
    bo_status status = solver == BO_SOLVER_DUAL  ? bo_solve_dual(context, &problem, *out)
                       : solver == BO_SOLVER_CG  ? (sections ? bo_solve_exact_cg : bo_solve_cg)(context, &problem, *out)
                       : solver == BO_SOLVER_SGD ? bo_solve_sgd(context, &problem, *out)
                                                 : bo_solve_adam(context, &problem, *out);
    if (status == BO_OK) {
        (*out)->report.fit_seconds = fitting->seconds + bo_seconds() - begin;
        return BO_OK;
    }
    bo_machine_destroy(*out);
    *out = NULL;
    return status;
}

/* A λ that the search chose on few rows can be too small for conjugate gradients on all of them: it is raised until they converge. */
static bo_status fit_with_larger_lambda(bo_context *context, bo_fitting *fitting, const bo_samples *samples,
                                        bo_solver solver, bo_machine **out)
{
    enum { TRIES = 4 };
    const double factor = 8;
    const bool adjustable = solver == BO_SOLVER_CG && fitting->desc.lambda == 0;
    bo_status status = fit_otherwise(context, fitting, samples, solver, out);
    for (int i = 0; adjustable && status == BO_NUMERIC && i < TRIES; i++) {
        bo_log(context, BO_LOG_INFO, "lambda %g is too small for conjugate gradients; trying %g",
               fitting->report.lambda, factor * fitting->report.lambda);
        fitting->report.lambda *= factor;
        status = fit_otherwise(context, fitting, samples, solver, out);
    }
    return status;
}

/* Fits ridge first: its factor is the preconditioner, its coefficients are the start. */
static bo_status fit_logistic(bo_context *context, bo_fitting *fitting, const bo_samples *samples, bo_machine **out)
{
    BO_TRY(fit_primal(context, fitting, samples, out));
    bo_fit_problem problem = problem_of(fitting, samples);
    double begin = bo_seconds();
    bo_status status = bo_solve_logistic(context, &problem, &fitting->moments, *out);
    if (status == BO_OK) {
        (*out)->report.fit_seconds += bo_seconds() - begin;
        return BO_OK;
    }
    bo_machine_destroy(*out);
    *out = NULL;
    return status;
}

/* One member of a committee. */
static bo_status fit_member(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                            const bo_fit_cost *plan, const bo_setting *setting, bo_left_out *left_out, bo_machine **out)
{
    bo_fitting *fitting;
    BO_TRY(prepare(context, desc, samples, samples->rows, setting, &fitting));
    fitting->report.solver = plan->solver;
    fitting->report.why_solver = plan->why_solver;
    fitting->left_out = left_out;
    bo_status status = fit_otherwise(context, fitting, samples, plan->solver, out);
    bo_fitting_destroy(fitting);
    return status;
}

static bo_status fit_committee(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                               const bo_fit_cost *plan, bo_machine **out)
{
    const double begin = bo_seconds();
    bo_targets targets;
    BO_TRY(bo_targets_fit(context, desc, samples, &targets));
    bo_setting settings[BO_COMMITTEE] = {0};
    bo_left_out left_out[BO_COMMITTEE] = {0};
    bo_machine *machines[BO_COMMITTEE] = {0};
    size_t count = 0;
    bo_status status = bo_targets_in_range(context, &targets, samples);
    if (status == BO_OK) status = bo_tune(context, desc, &targets, samples, BO_COMMITTEE, settings, &count);
    const double searched = bo_seconds() - begin;
    for (size_t i = 0; status == BO_OK && i < count; i++)
        status = fit_member(context, desc, samples, plan, &settings[i], &left_out[i], &machines[i]);
    if (status == BO_OK) status = bo_committee_join(context, &targets, count, machines, left_out, out);
    for (size_t i = 0; i < BO_COMMITTEE; i++) {
        bo_setting_free(&settings[i]);
        bo_left_out_free(&left_out[i]);
        bo_machine_destroy(machines[i]);
    }
    bo_targets_free(&targets);
    if (status != BO_OK) return status;
    (*out)->report.search_seconds = searched;
    (*out)->report.fit_seconds = bo_seconds() - begin - searched;
    return BO_OK;
}

/* *rounded: a Gram matrix was formed, in less than double precision. */
static bo_status fit_once(bo_context *context, const bo_machine_desc *asked, const bo_samples *samples, bool *rounded,
                          bo_machine **out)
{
    *rounded = false;
    *out = NULL;
    BO_TRY(bo_fit_check(context, asked, samples));
    bo_machine_desc resolved = *asked, *desc = &resolved;
    resolved.task = samples->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    resolved.stream_rows = 0; /* used for streams only */
    const bo_fit_shape shape = shape_of(samples);
    bo_fit_resolve_map(context, &shape, &resolved);
    bo_fit_cost plan;
    BO_TRY(bo_machine_estimate(context, desc, &shape, &plan));
    resolved.loss = plan.loss;
    BO_TRY(bo_target_scale_choose(context, desc, samples, &resolved.target_scale));
    bo_solver solver = plan.solver;
    if (desc->choose_kernel && plan.exact && solver == BO_SOLVER_DUAL && samples->rows <= BO_COMMITTEE_ROWS)
        return fit_committee(context, desc, samples, &plan, out);
    bo_fitting *fitting;
    BO_TRY(prepare(context, desc, samples, samples->rows, NULL, &fitting));
    assert(fitting->report.features == plan.features);
    if (solver == BO_SOLVER_CG && desc->solver == BO_SOLVER_AUTO && bo_is_sections(fitting->phi)) {
        bo_machine_desc chosen = *desc; /* with the λ of the search, which the solver depends on */
        chosen.lambda = fitting->report.lambda;
        bo_status planned = bo_machine_estimate(context, &chosen, &shape, &plan);
        if (planned != BO_OK) {
            bo_fitting_destroy(fitting);
            return planned;
        }
        solver = plan.solver;
        if (solver == BO_SOLVER_CG && desc->lambda == 0) /* the smallest λ for float32 */
            fitting->report.lambda = fmax(fitting->report.lambda, 3e-6 * sqrt((double)samples->rows));
    }
    fitting->report.solver = solver;
    fitting->report.why_solver = plan.why_solver;
    bo_log(context, BO_LOG_INFO, "solver %s: %s", bo_solver_name(solver), plan.why_solver);
    bo_status status;
    if (desc->loss == BO_LOSS_LOGISTIC)
        status = fit_logistic(context, fitting, samples, out);
    else if (solver == BO_SOLVER_PRIMAL)
        status = fit_primal(context, fitting, samples, out);
    else
        status = fit_with_larger_lambda(context, fitting, samples, solver, out);
    *rounded = solver == BO_SOLVER_PRIMAL && fitting->report.precision != BO_PRECISION_FLOAT64;
    bo_fitting_destroy(fitting);
    return status;
}

/* The rounding of float32 products is relative to the Gram matrix before centering. If the features hardly vary between
 * rows, it can exceed a small λ, although the eigenvalues after centering, by which the precision is chosen, suggest
 * otherwise. The fit is then repeated in float64. */
bo_status bo_machine_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_machine **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, samples, out);
    BO_SPAN(context, "machine", "fit");
    bool rounded;
    bo_status status = fit_once(context, desc, samples, &rounded, out);
    if (status != BO_NUMERIC || !rounded || desc->precision != BO_PRECISION_AUTO) return status;
    bo_log(context, BO_LOG_INFO, "float32 is not accurate enough for this lambda; repeating the fit in float64");
    bo_machine_desc wider = *desc;
    wider.precision = BO_PRECISION_FLOAT64;
    return fit_once(context, &wider, samples, &rounded, out);
}
