/* bochner mup: options, and the choice between check and transfer. */
#include "mup.h"
#include "../common/plot.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool read_rates(const char *text, cli_mup_options *o)
{
    for (const char *at = text;;) {
        char *end;
        const double rate = strtod(at, &end);
        const bool fits = end > at && rate > 0 && isfinite(rate) && o->rate_count < CLI_MUP_RATES &&
                          (*end == ',' || *end == 0) && (!o->rate_count || rate > o->rates[o->rate_count - 1]);
        if (!fits) {
            cli_usage_error("mup", "--rates: expected up to %d ascending numbers above 0, found '%s'", CLI_MUP_RATES,
                            text);
            return false;
        }
        o->rates[o->rate_count++] = rate;
        if (*end == 0) return true;
        at = end + 1;
    }
}

/* Powers of two around the best rate of AdamW at width 128. */
static void default_rates(cli_mup_options *o)
{
    for (int power = -13; power <= -5; power++) o->rates[o->rate_count++] = ldexp(1, power);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

bool cli_mup_describe(cli_mup_job *job, bool text, bo_model_desc *out)
{
    cli_train_job *train = &job->train;
    const bo_status status = text ? BO_OK : bo_tokenizer_create(job->session->context, &train->tokenizer);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    if (text && !cli_train_open_text(train)) return false;
    if (!cli_train_describe_model(train, out)) return false;
    out->base_width = job->options->train_args.options.base_width;
    if (!out->base_width) out->base_width = job->options->widths.items[0];
    return true;
}

bo_model_desc cli_mup_side(const cli_mup_job *job, const bo_model_desc *desc, size_t side)
{
    bo_model_desc d = *desc;
    d.parametrization = job->sides[side];
    if (d.parametrization == BO_PARAMETRIZATION_STANDARD) d.base_width = 0;
    return d;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int check_options(const cli_mup_options *o, const char *subcommand)
{
    const cli_train_options *train = &o->train_args.options;
    const bool transfer = strcmp(subcommand, "transfer") == 0;
    if (!transfer && strcmp(subcommand, "check") != 0)
        return cli_usage_error("mup", "expected check or transfer, found '%s'", subcommand);
    if (o->train_args.files.count > 1)
        return cli_usage_error("mup", "expected options only, found '%s'", o->train_args.files.items[1]);
    if (transfer && !train->data.count) return cli_usage_error("mup", "transfer: no training text; give --data FILE");
    if (!transfer && train->data.count) return cli_usage_error("mup", "--data applies to mup transfer only");
    if (!transfer && o->rates_text)
        return cli_usage_error("mup", "--rates applies to mup transfer only; for check, give --lr");
    if (transfer && CLI_GIVEN(train, lr))
        return cli_usage_error("mup", "--lr applies to mup check only; for transfer, give --rates");
    if (train->init || train->freeze)
        return cli_usage_error("mup", "models are newly initialized; leave out --init and --freeze");
    if (CLI_GIVEN(train, minutes))
        return cli_usage_error("mup", "all runs have the same number of steps: give --steps, not --minutes");
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("mup", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    return CLI_DONE;
}

static int run(cli_mup_options *o)
{
    cli_train_options *train = &o->train_args.options;
    cli_session session;
    const bool transfer = strcmp(o->train_args.files.items[0], "transfer") == 0;
    o->train_args.files.count = 0; /* otherwise they would be read as data files */
    if (!cli_session_open(&session, "mup", &o->train_args.common, false)) return CLI_FAILED;
    cli_mup_job job = {.session = &session, .options = o};
    job.train = cli_train_job_of(&session, &o->train_args);
    job.sides[1] = train->unit_mup ? BO_PARAMETRIZATION_UNIT : BO_PARAMETRIZATION_MUP;
    train->mup = train->unit_mup = false;
    int status = o->plot && !cli_can_write(&session, o->plot) ? CLI_FAILED : CLI_DONE;
    if (status == CLI_DONE) status = transfer ? cli_mup_transfer(&job) : cli_mup_check(&job);
    cli_train_close(&job.train);
    cli_session_close(&session);
    return status;
}

static int mup(cli_mup_options *o)
{
    cli_train_options *train = &o->train_args.options;
    if (!o->train_args.files.count) return cli_usage_error("mup", "expected check or transfer");
    if (!cli_read_counts("mup", "widths", o->widths_text, 1, 1 << 16, &o->widths)) return CLI_USAGE_ERROR;
    if (o->widths.count < 2)
        return cli_usage_error("mup", "--widths: expected two or more widths, found '%s'", o->widths_text);
    if (o->rates_text && !read_rates(o->rates_text, o)) return CLI_USAGE_ERROR;
    if (!o->rate_count) default_rates(o);
    if (!train->mup && !train->unit_mup) train->mup = true;
    int status = check_options(o, o->train_args.files.items[0]);
    if (status == CLI_DONE) status = cli_train_check_model(train, &cli_train_language);
    return status == CLI_DONE ? run(o) : status;
}

static const cli_option rows[] = {
    SECTION("Widths"),
    TEXT("widths", "LIST", cli_mup_options, widths_text,
         "widths of the models; the head dimension is the same for all widths", .initial = "64,128,256,512"),
    TEXT("rates", "LIST", cli_mup_options, rates_text, "for transfer: learning rates",
         .default_text = "2^-13, 2^-12, ..., 2^-5"),
    TEXT("plot", "FILE", cli_mup_options, plot, "draw both parametrizations: .svg, .png or .pdf"),
    END_OF_OPTIONS,
};

static const cli_option data_rows[] = {
    LIST("data", "FILE", cli_train_options, data, "for transfer: the text; the last tenth is used for validation"),
    END_OF_OPTIONS,
};

enum { MODEL_OPTIONS = offsetof(cli_mup_options, train_args.options) };
const cli_usage cli_mup_usage = {
    .command = "mup",
    .synopsis = "check [--widths LIST] [--steps N]   or   transfer --data FILE [--widths LIST] [--rates LIST] "
                "[--steps N]",
    .about = "Checks that learning rates transfer across widths. It trains models of several widths in the standard "
             "parametrization and in the maximal-update parametrization (or --unit-mup), with the first width as base. "
             "check runs a few steps and reports how mean activations, norms of matrices and norms of their changes "
             "depend on the width. transfer trains each width at each learning rate and reports how the best rate "
             "depends on the width. It accepts the model and optimization options of bochner train.",
    .examples =
        "  bochner mup check --widths 32,64,128\n"
        "  bochner mup check --widths 32,64 --mixer ssm --mlp swiglu\n"
        "  bochner mup transfer --data text.txt --widths 32,64 --context 32 --batch 4 --steps 10 --rates 0.002,0.004\n",
    .groups = {{rows, 0},
               {data_rows, MODEL_OPTIONS},
               {cli_train_shape_rows, MODEL_OPTIONS},
               {cli_train_kind_rows, MODEL_OPTIONS + offsetof(cli_train_options, attention)},
               {cli_attention_layer_rows, MODEL_OPTIONS + offsetof(cli_train_options, attention)},
               {cli_train_attention_rows, MODEL_OPTIONS},
               {cli_train_learning_rows, MODEL_OPTIONS}},
    .defaults = {{"optim", .initial = "adamw"}, {"features", .default_text = "128"}},
    .as_of = "train",
    .as_of_from = 2,
    .short_help = {"widths", "rates", "data", "steps", "plot", "unit-mup", "optim", "lr", "context", "batch",
                   "attention", "json"},
    .subcommands = {"check", "transfer"},
};

int cli_mup(int argc, char **argv)
{
    cli_mup_options o = {0};
    cli_train_clear(&o.train_args.options);
    const cli_parsed parsed = cli_parse(&cli_mup_usage, argc, argv, &o, &o.train_args.common, &o.train_args.files);
    const int status = parsed == CLI_PARSED ? mup(&o) : parsed == CLI_HELP_SHOWN ? CLI_DONE : CLI_USAGE_ERROR;
    free(o.train_args.files.items);
    return status;
}
