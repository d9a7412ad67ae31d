/* The plots of `bochner bench attention`: forward time by length, error of the output by number of features. */
#include "attention.h"

int attention_plot(attention_bench *bench)
{
    const attention_options *o = bench->options;
    cli_session *session = bench->run->session;
    cli_drawing times = {&bench->times, "", "tokens", "milliseconds", "top left", 1e3, false};
    cli_drawing laws = {&bench->laws, "", "features", "relative error of the output", "bottom left", 1, false};
    snprintf(times.title, sizeof times.title, "Forward pass of causal attention, %d heads of %d, %d threads",
             ATTENTION_HEADS, ATTENTION_DIM, bo_context_describe(bench->context)->threads);
    snprintf(laws.title, sizeof laws.title, "Frequencies drawn for anisotropic data, width %d", ATTENTION_DIM);
    int status = o->plot ? cli_curves_plot(session, o->plot, &times) : CLI_DONE;
    if (status == CLI_DONE && o->plot_laws) status = cli_curves_plot(session, o->plot_laws, &laws);
    return status;
}
