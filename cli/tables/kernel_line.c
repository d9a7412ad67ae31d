#include "kernel_line.h"
#include "../common/format.h"

static bool of_networks(const bo_fit_report *report)
{
    return report->kernel == BO_KERNEL_NNGP || report->kernel == BO_KERNEL_NTK;
}

void cli_kernel_print(FILE *out, const bo_fit_report *report)
{
    fprintf(out, "%-12s%s", "Kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    if (of_networks(report))
        fprintf(out, " of %d hidden %s (%s, weight variance %s, bias variance %s)", report->depth,
                report->depth == 1 ? "layer" : "layers", bo_enum_name(BO_ENUM_HIDDEN_ACTIVATION, report->activation),
                cli_significant(report->weight_variance, 4).s, cli_significant(report->bias_variance, 4).s);
    if (report->metric != BO_METRIC_NONE)
        fprintf(out, " with a %s metric", report->metric == BO_METRIC_DIAGONAL ? "learned diagonal" : "learned");
    fprintf(out, ", gamma %s; ", cli_significant(report->gamma, 4).s);
    if (report->function == BO_FUNCTION_SECTIONS && report->members > 1)
        fprintf(out, "exact, with %s training rows; mean of %zu kernels and metrics\n", cli_count(report->features).s,
                report->members);
    else if (report->function == BO_FUNCTION_SECTIONS)
        fprintf(out, "exact, with %s training rows\n", cli_count(report->features).s);
    else if (report->function == BO_FUNCTION_LANDMARKS)
        fprintf(out, "%s landmarks\n", cli_count(report->features).s);
    else
        fprintf(out, "%s features (%s, %s)\n", cli_count(report->features).s,
                bo_enum_name(BO_ENUM_FUNCTION, report->function), bo_enum_name(BO_ENUM_DRAW, report->draw));
}

void cli_kernel_json(cli_json *json, const bo_fit_report *report)
{
    if (!of_networks(report)) return;
    cli_json_add_count(json, "depth", (size_t)report->depth);
    cli_json_add_text(json, "activation", bo_enum_name(BO_ENUM_HIDDEN_ACTIVATION, report->activation));
    cli_json_add_number(json, "weight_variance", report->weight_variance);
    cli_json_add_number(json, "bias_variance", report->bias_variance);
}
