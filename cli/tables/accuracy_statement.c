#include <bochner/names.h>
#include "accuracy_statement.h"
#include "../common/format.h"
#include <math.h>
#include <string.h>

void cli_statement_json(cli_json *json, const bo_features_accuracy *accuracy)
{
    cli_json_object(json, "accuracy_statement");
    cli_json_add_count(json, "pairs", accuracy->pairs);
    cli_json_add_number(json, "kernel_rms", accuracy->kernel_rms);
    cli_json_add_number(json, "error_rms", accuracy->error_rms);
    cli_json_add_number(json, "error_mean", accuracy->error_mean);
    cli_json_add_number(json, "error_max", accuracy->error_max);
    cli_json_add_number(json, "predicted_rms", accuracy->predicted_rms);
    cli_json_add_number(json, "ratio", accuracy->ratio);
    cli_json_add_number(json, "features_for_1pct", accuracy->features_for_1pct);
    cli_json_add_number(json, "trace_error", accuracy->trace_error);
    cli_json_end(json);
}

/* Compares the measured error with the predicted error of independent frequencies. */
static int compare_draws(char *text, size_t size, const bo_features_accuracy *accuracy, bo_draw draw)
{
    double change = 100 * (1 - accuracy->ratio);
    if (fabs(change) < 5)
        return snprintf(text, size, " The variance formula predicts %s, which agrees with the measurement.",
                        cli_significant(accuracy->predicted_rms, 3).s);
    return snprintf(text, size,
                    " Independent frequencies would have an error of %s; the error of this %s draw is %.0f%% %s.",
                    cli_significant(accuracy->predicted_rms, 3).s, bo_enum_name(BO_ENUM_DRAW, draw), fabs(change),
                    change > 0 ? "smaller" : "larger");
}

void cli_statement_print(FILE *out, const bo_features_accuracy *accuracy, size_t features, bo_function function,
                         bo_draw draw, int indent)
{
    char text[1024];
    if (!(accuracy->pairs > 0) || !isfinite(accuracy->error_rms)) {
        cli_print_wrapped(out, "not measured: this kernel has no closed form to compare with.", indent);
        return;
    }
    double share = accuracy->kernel_rms > 0 ? 100 * accuracy->error_rms / accuracy->kernel_rms : NAN;
    int length = snprintf(text, sizeof text,
                          "over %s pairs of rows, the %s %s approximate the kernel with an RMS error of %s. The RMS "
                          "of the kernel is %s, so the relative error is %.2g%%.",
                          cli_count(accuracy->pairs).s, cli_count(features).s,
                          function == BO_FUNCTION_LANDMARKS ? "landmarks" : "features",
                          cli_significant(accuracy->error_rms, 3).s, cli_significant(accuracy->kernel_rms, 3).s, share);
    if (function == BO_FUNCTION_LANDMARKS && isfinite(accuracy->trace_error))
        length += snprintf(text + length, sizeof text - (size_t)length,
                           " The landmarks miss %.2g%% of the sum of k(x, x) over the rows.",
                           100 * fmax(0, accuracy->trace_error));
    if (accuracy->predicted_rms == 0)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, " The map is exact; the difference is rounding.");
    else if (isfinite(accuracy->predicted_rms) && isfinite(accuracy->ratio))
        length += compare_draws(text + length, sizeof text - (size_t)length, accuracy, draw);
    if (share > 1 && accuracy->features_for_1pct > 0 && accuracy->features_for_1pct < 1e15 &&
        accuracy->predicted_rms > 0) /* omitted if the number of features overflows */
        snprintf(text + length, sizeof text - (size_t)length,
                 " A relative error of 1%% needs about %s independent features.",
                 cli_count((size_t)ceil(accuracy->features_for_1pct)).s);
    cli_print_wrapped(out, text, indent);
}
