/* bochner mup: models of several widths in the standard parametrization and in a maximal-update parametrization. */
#ifndef CLI_MUP_H
#define CLI_MUP_H

#include "../common/counts.h"
#include "../train/train.h"

enum { CLI_MUP_RATES = 24, CLI_MUP_SIDES = 2 };

typedef struct cli_mup_options {
    cli_given was_given;
    const char *widths_text, *rates_text, *plot;
    cli_train_args train_args; /* options of bochner train */
    cli_counts widths;
    double rates[CLI_MUP_RATES]; /* ascending */
    size_t rate_count;
} cli_mup_options;

typedef struct cli_mup_job {
    cli_session *session;
    cli_mup_options *options;
    cli_train_job train;
    bo_parametrization sides[CLI_MUP_SIDES]; /* standard, and a maximal-update one */
} cli_mup_job;

/* The descriptor of the model; `text`: opens the text and tokenizer of --data. */
bool cli_mup_describe(cli_mup_job *job, bool text, bo_model_desc *out);
/* The descriptor in the parametrization of a panel (side), for bo_model_widen. */
bo_model_desc cli_mup_side(const cli_mup_job *job, const bo_model_desc *desc, size_t side);
int cli_mup_check(cli_mup_job *job);
int cli_mup_transfer(cli_mup_job *job);

/* ---- plots (plot.c): one panel per side, one curve per name ------------------------------------------------------ */

typedef struct cli_mup_curve {
    char name[64];
    size_t count;
    double x[CLI_MUP_RATES], y[CLI_MUP_RATES]; /* y not finite: no point */
} cli_mup_curve;

typedef struct cli_mup_panels {
    const char *x_label, *y_label, *x_format; /* x_format: gnuplot's; the scale has powers of 2 */
    bool log_y;
    double max_y; /* upper limit of the plot; 0: none */
    char titles[CLI_MUP_SIDES][64];
    size_t count; /* curves per side */
    cli_mup_curve *curves[CLI_MUP_SIDES];
} cli_mup_panels;
int cli_mup_plot(cli_session *session, const char *path, const cli_mup_panels *panels);

#endif
