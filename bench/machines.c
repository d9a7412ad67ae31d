/* Images: speed compared with scikit-learn for given γ and λ, and accuracy with default settings. */
#include "bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

double bench_fit_operations(double rows, double dim, double features)
{
    return rows * dim * features + rows * features * (features + 1) + features * features * features / 3;
}

typedef struct images {
    bo_data *train, *test;
} images;

static void close_images(images *set)
{
    bo_data_destroy(set->train);
    bo_data_destroy(set->test);
    *set = (images){0};
}

static void image_path(char *path, size_t size, const char *directory, const char *name)
{
    struct stat info;
    snprintf(path, size, "%s/%s.gz", directory, name);
    if (stat(path, &info) != 0) snprintf(path, size, "%s/%s", directory, name);
}

static bool load_part(bench_run *bench, const char *directory, const char *part, const bo_schema *schema, bo_data **out)
{
    char pixels[1024], labels[1024], name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    image_path(pixels, sizeof pixels, directory, name);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    image_path(labels, sizeof labels, directory, name);
    bo_data_desc desc = {.path = pixels, .labels = labels};
    bo_status status = bo_data_load(bench->session->context, &desc, schema, out);
    if (status != BO_OK) cli_fail_status(bench->session, status);
    return status == BO_OK;
}

static bool load_images(bench_run *bench, const char *directory, images *set)
{
    *set = (images){0};
    return load_part(bench, directory, "train", NULL, &set->train) &&
           load_part(bench, directory, "t10k", set->train->schema, &set->test);
}

/* Fits and tests. The time includes the entire call of bo_machine_fit. */
static bool fit_images(bench_run *bench, const images *set, const bo_machine_desc *desc, double *seconds,
                       double *accuracy, bo_fit_report *report)
{
    bo_context *context = bench->session->context;
    bo_samples samples;
    bo_data_get_samples(set->train, &samples);
    bo_machine *machine = NULL;
    double start = cli_now();
    bo_status status = bo_machine_fit(context, desc, &samples, &machine);
    *seconds = cli_now() - start;
    bo_metrics *metrics = NULL;
    if (status == BO_OK) status = bo_machine_create_metrics(context, machine, 0, &metrics);
    if (status == BO_OK)
        status = bo_machine_evaluate(context, machine, &(bo_inputs){.rows = set->test->rows, .x = set->test->x},
                                     set->test->y, metrics);
    bo_metrics_summary metrics_report;
    bo_metrics_report(metrics, &metrics_report);
    if (status == BO_OK) *accuracy = metrics_report.accuracy;
    if (status == BO_OK) *report = *bo_machine_report(machine);
    report->why_solver = NULL; /* the string belongs to the machine, which is freed */
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    if (status != BO_OK) cli_fail_status(bench->session, status);
    return status == BO_OK;
}

/* The fastest of the repeats. */
typedef struct timed {
    double seconds, accuracy;
    bo_gram_precision precision;
    bo_draw draw;
} timed;

/* γ and λ are given. scikit-learn divides pixels by 255 and uses γ = 0.02, the same kernel as γ / 255² on the original
 * pixels. */
static bool time_images(bench_run *bench, const images *set, bo_gram_precision precision, timed *out)
{
    size_t features = bench->options->features;
    bo_machine_desc desc = {
        .scaling = BO_SCALING_NONE,
        .loss = BO_LOSS_RIDGE,
        .features = {.features = features, .gamma = 0.02 / (255.0 * 255.0), .draw = bench->options->draw},
        .lambda = 0.1,
        .solver = BO_SOLVER_PRIMAL,
        .precision = precision,
        .seed = bench->session->common.seed};
    *out = (timed){.seconds = INFINITY};
    double reference = bench_reference_rate(bench), seconds;
    for (size_t i = 0; i < bench->options->repeats; i++) {
        bo_fit_report report;
        if (!fit_images(bench, set, &desc, &seconds, &out->accuracy, &report)) return false;
        if (seconds < out->seconds) out->seconds = seconds;
        out->precision = report.precision;
        out->draw = report.draw;
    }
    reference = (reference + bench_reference_rate(bench)) / 2;
    double operations = bench_fit_operations((double)set->train->rows, (double)set->train->dim, (double)features);
    double rate = 1e-9 * operations / out->seconds;
    char name[96];
    bench_rate_name(name, sizeof name, "MNIST", precision);
    bench_add(bench, name, rate / reference, "", 0.6, false,
              "%zu x %zu, R = %zu, draw %s: %.2f s, %.0f of %.0f GFLOP/s, accuracy %.2f%%; " BENCH_COUNTED,
              set->train->rows, set->train->dim, features, bo_enum_name(BO_ENUM_DRAW, out->draw), out->seconds, rate,
              reference, 100 * out->accuracy, bo_enum_name(BO_ENUM_GRAM_PRECISION, out->precision));
    return true;
}

/* `plain` is the fit with float32 products. */
static void compare_with_peer(bench_run *bench, const timed *chosen, const timed *plain)
{
    char features[32];
    snprintf(features, sizeof features, "%zu", bench->options->features);
    const char *const arguments[] = {bench->options->mnist, features, "0.02", "0.1", NULL};
    char *json = bench_peer(bench, &bench_sklearn, "ridge_sklearn.py", arguments);
    if (!json) return;
    double peer_seconds = bench_json_number(json, "fit_seconds"), peer_accuracy = bench_json_number(json, "accuracy");
    bench_add(bench, "MNIST, times faster than scikit-learn", peer_seconds / chosen->seconds, "x", 4, false,
              "scikit-learn (float32) %.1f s, bochner (%s products) %.2f s", peer_seconds,
              bo_enum_name(BO_ENUM_GRAM_PRECISION, chosen->precision), chosen->seconds);
    if (plain != chosen)
        bench_add(bench, "MNIST, float32, times faster than scikit-learn", peer_seconds / plain->seconds, "x", 4, false,
                  "scikit-learn (float32) %.1f s, bochner (float32 products) %.2f s", peer_seconds, plain->seconds);
    bench_add(bench, "MNIST, accuracy minus that of scikit-learn", 100 * (chosen->accuracy - peer_accuracy), "points",
              0, false, "scikit-learn %.2f%%, bochner %.2f%% (float32 products %.2f%%)", 100 * peer_accuracy,
              100 * chosen->accuracy, 100 * plain->accuracy);
    free(json);
}

/* Times the fit with the default precision, and with float32 products if the library chose another precision, because
 * the reference and scikit-learn use float32. */
bool bench_mnist(bench_run *bench)
{
    if (!bench->options->mnist) return true;
    images set;
    timed chosen, plain;
    bool ok =
        load_images(bench, bench->options->mnist, &set) && time_images(bench, &set, BO_GRAM_PRECISION_AUTO, &chosen);
    bool same = ok && chosen.precision == BO_GRAM_PRECISION_FLOAT32;
    if (ok && !same) ok = time_images(bench, &set, BO_GRAM_PRECISION_FLOAT32, &plain);
    close_images(&set);
    if (ok) compare_with_peer(bench, &chosen, same ? &chosen : &plain);
    return ok;
}

static bool quality_of(bench_run *bench, const char *name, const char *directory, double goal)
{
    if (!directory) return true;
    images set;
    bo_machine_desc desc = {.features = {.features = bench->options->quality_features},
                            .seed = bench->session->common.seed};
    double seconds = 0, accuracy = 0;
    bo_fit_report report;
    bool ok = load_images(bench, directory, &set) && fit_images(bench, &set, &desc, &seconds, &accuracy, &report);
    if (ok) {
        char title[96];
        snprintf(title, sizeof title, "%s, accuracy with default settings", name);
        bench_add(bench, title, 100 * accuracy, "%", goal, false,
                  "R = %zu, gamma %.3g, lambda %.3g, search %.1f s, fit %.1f s", report.features, report.gamma,
                  report.lambda, report.search_seconds, report.fit_seconds);
        snprintf(title, sizeof title, "%s, search / fit", name);
        bench_add(bench, title, report.search_seconds / report.fit_seconds, "", 2, true,
                  "the search chooses gamma and lambda");
    }
    close_images(&set);
    return ok;
}

bool bench_quality(bench_run *bench)
{
    return quality_of(bench, "MNIST", bench->options->mnist, 97.5) &&
           quality_of(bench, "Fashion-MNIST", bench->options->fashion, 88.5);
}
