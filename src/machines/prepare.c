/* The steps of a fit before the first row: scaling, targets, the choice of γ and λ, the feature map. */
#include "../base/base.h"
#include "../features/facts.h"
#include "../features/sections.h"
#include "../io/sparse.h"
#include "embedding.h"
#include "estimate.h"
#include "fitting.h"
#include "machine.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"
#include "solvers.h"

#include <assert.h>
#include <math.h>

enum { ACCURACY_PAIRS = 1000 };

bo_fit_shape bo_samples_shape(const bo_samples *samples)
{
    return (bo_fit_shape){.rows = samples->rows,
                          .dim = samples->dim,
                          .outputs = samples->classes ? samples->classes : samples->targets,
                          .nonzeros = samples->sparse ? bo_max(1, bo_sparse_numbers(samples->sparse)) : 0};
}

bo_row_map bo_fitting_row_map(const bo_fitting *fitting)
{
    return (bo_row_map){&fitting->scaler, fitting->phi, fitting->quantum};
}

bo_fit_problem bo_fitting_problem(const bo_fitting *fitting, const bo_samples *samples)
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

void bo_fitting_destroy(bo_fitting *fitting)
{
    if (!fitting) return;
    bo_embedding_sums_destroy(fitting->embedding);
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
    /* Scrambled Sobol points cover few dimensions evenly: in 8 dimensions (the table kin8nm) the kernel error is about
     * half the error of orthogonal frequencies. The advantage decreases with the dimension; 12 is a conservative limit.
     */
    enum { SOBOL_DIMENSIONS = 12 };
    const bool drawn = map.kernel <= BO_KERNEL_RATIONAL_QUADRATIC && map.function != BO_FUNCTION_LANDMARKS;
    if (map.draw == BO_DRAW_DEFAULT && drawn && dim <= SOBOL_DIMENSIONS) map.draw = BO_DRAW_SOBOL;
    /* a few thousand independent frequencies in this many dimensions are nearly orthogonal */
    if (map.draw == BO_DRAW_DEFAULT && drawn && dim >= BO_WIDE_COLUMNS) map.draw = BO_DRAW_IID;
    if (map.features == 0 && bo_features_needs_length(&map)) map.features = BO_FIT_FEATURES;
    return map;
}

/* The map of a fit with this scaler, without γ: its columns are the columns of scaled rows. */
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
    bo_status status = bo_features_measure(context, fitting->phi, &(bo_inputs){.sparse = &scaled->rows}, ACCURACY_PAIRS,
                                           map->seed, &fitting->report.accuracy);
    bo_sparse_destroy(&scaled->rows);
    return status;
}

/* Landmarks are chosen among training rows other than those kept to measure the error, if there are enough: the
 * features are more accurate at landmarks than elsewhere. */
static bo_status make_landmarks(bo_context *context, bo_fitting *fitting, bo_features_desc *map,
                                const bo_samples *samples)
{
    const size_t requested = map->candidates ? map->candidates : 8 * map->features;
    const size_t required = map->sampling == BO_SAMPLING_LEVERAGE ? bo_max(requested, map->features) : map->features;
    bo_samples chosen;
    BO_TRY(bo_samples_subset(context, samples, fitting->kept.rows + required, fitting->desc.seed, &chosen));
    const size_t count = bo_min(required, chosen.rows);
    const bo_input_view inputs = bo_samples_inputs(&chosen, chosen.rows - count, count);
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
    const bo_input_view inputs = bo_samples_inputs(kept, 0, kept->rows);
    map.sample = scaled;
    map.sample_rows = kept->rows < BO_SAMPLED_ROWS ? kept->rows : BO_SAMPLED_ROWS; /* in random order */
    map.sample_stride = map.dim;
    bo_status status = bo_scaler_apply(context, &fitting->scaler, &inputs, scaled);
    if (status == BO_OK && !landmarks) status = bo_features_create(context, &map, &fitting->phi);
    if (status == BO_OK)
        status = bo_features_measure(context, fitting->phi, &(bo_inputs){.rows = kept->rows, .x = scaled},
                                     ACCURACY_PAIRS, map.seed, &fitting->report.accuracy);
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
    const bo_input_view inputs = bo_samples_inputs(samples, 0, samples->rows);
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

/* Copies the scaling, the metric, the kernel of the map, γ and λ of the setting. */
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

bo_status bo_fitting_prepare(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, size_t rows,
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
    if (status == BO_OK && !setting)
        bo_scaler_report(context, &fitting->scaler, rows > samples->rows ? samples->rows : 0, samples->schema);
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
    if (fitting->report.precision == BO_GRAM_PRECISION_INT8)
        fitting->quantum = bo_quantum_of(bo_features_describe(fitting->phi));
    fitting->seconds = bo_seconds() - begin - choice.seconds;
    assert(fitting->phi && fitting->kept.rows > 0 && fitting->scaler.dim == samples->dim && fitting->moments.size == 0);
    assert(bo_features_describe(fitting->phi)->dim == fitting->scaler.kept);
    fitting->desc.features.length_scales = NULL;
    fitting->desc.class_weights = NULL;
    *out = fitting;
    return BO_OK;
}
