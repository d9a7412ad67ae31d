/* bochner attention: softmax attention and linear-time attention of arrays in files. */
#include "attention.h"
#include "../common/output.h"
#include "../common/paths.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Out-of-range numbers may be caused by the frequencies, which are fitted to the calibration files. */
static bool forward_ok(cli_attention_job *job, bo_status status)
{
    const char *const *sources = job->options->sources;
    if (status != BO_NUMERIC || !sources[CLI_CALIBRATE_Q]) return cli_attention_ok(job, status);
    for (int i = CLI_Q; i <= CLI_V; i++)
        if (!cli_attention_finite(job, &job->files[i])) return false;
    cli_fail(job->session,
             "%s; the frequencies were fitted to --calibrate-q %s and --calibrate-k %s, whose numbers may be too large",
             cli_attention_error(job), sources[CLI_CALIBRATE_Q], sources[CLI_CALIBRATE_K]);
    return false;
}

/* A system that overcommits memory would start a forward pass without enough memory, and kill the process. */
static bool fits_memory(cli_attention_job *job)
{
    bo_memory_bound limit;
    bo_context_memory(NULL, &limit);
    if (job->plan.forward_bytes <= limit.bytes) return true;
    cli_fail(job->session, "the forward pass needs %s of memory, but the limit is %s (%s); use %s",
             cli_bytes((double)job->plan.forward_bytes).s, cli_bytes((double)limit.bytes).s, limit.source,
             bo_attention_has(&job->desc, BO_TRAIT_DRAWS) ? "fewer --features or --threads" : "fewer --threads");
    return false;
}

static bool prepare(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    if (!cli_attention_parameters(job) || !cli_attention_sample_rows(job)) return false;
    cli_attention_describe(job);
    if (bo_attention_has(&job->desc, BO_TRAIT_ITERATIONS)) job->call.solves = &job->solves;
    if (!cli_attention_ok(job, bo_attention_create(context, &job->desc, &job->attention))) return false;
    if (!cli_attention_ok(job, bo_attention_estimate(context, job->attention, &job->call, &job->plan))) return false;
    cli_attention_report_plan(job);
    return job->options->plan || (fits_memory(job) && cli_attention_fit(job));
}

static bool all_zero(const float *row, size_t count)
{
    while (count && row[count - 1] == 0) count--;
    return count == 0;
}

/* Counts queries of one head whose output is 0 although a visible value is not 0: every weight underflowed in
 * float32. */
static size_t zeros_of_head(const cli_attention_job *job, size_t sequence, size_t head)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const size_t queries = job->call.tokens, keys = job->call.key_tokens, width = d->value_dim;
    const size_t key_head = sequence * d->key_heads + head / (d->heads / d->key_heads);
    const float *v = (const float *)job->call.v.data + key_head * keys * width;
    const float *out = job->out + (sequence * d->heads + head) * queries * width;
    size_t first = 0, found = 0;
    while (first < keys && all_zero(v + first * width, width)) first++;
    if (first == keys) return 0;
    for (size_t i = d->causal ? first : 0; i < queries; i++) found += all_zero(out + i * width, width);
    return found;
}

/* Only with a denominator: without one an output of 0 is valid. */
static void warn_of_zeros(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const size_t heads = d->heads, sequences = job->call.sequences;
    const bool exponential = bo_features_has(&d->features, BO_FEATURES_TRAIT_SCALED);
    for (size_t i = 0; d->normalizer == BO_NORMALIZER_SUM && i < sequences * heads; i++)
        job->zeros += zeros_of_head(job, i / heads, i % heads);
    if (job->zeros)
        cli_warn(job->session,
                 "the output of %s of %s queries is 0, because all of their weights underflow in float32: %s",
                 cli_count(job->zeros).s, cli_count(sequences * heads * job->call.tokens).s,
                 exponential ? "the norms are too large for these features (use --advise to measure them)"
                             : "the queries share no features with the keys");
}

/* With a gate, residuals may be up to ten times the tolerance because of float32. */
static void warn_of_residuals(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const double found = job->solves.largest_residual, limit = 10 * d->tolerance;
    if (d->iterations && !(found <= limit))
        cli_warn(
            job->session,
            "the largest residual %s is more than ten times the tolerance %s; some outputs may be wrong (use a larger "
            "--lambda)",
            cli_significant(found, 4).s, cli_significant(d->tolerance, 4).s);
}

static bool compute(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    job->out =
        cli_allocate(job->call.sequences * d->heads * job->call.tokens * d->value_dim, sizeof(float), "the output");
    job->call.out.data = job->out;
    const double start = cli_now();
    bo_status status = bo_attention_forward(context, job->attention, &job->call);
    if (status == BO_OK) status = cli_attention_forward_unfitted(job);
    if (!forward_ok(job, status)) return false;
    job->seconds = cli_now() - start;
    if (cli_interrupted()) return cli_attention_ok(job, BO_CANCELED);
    warn_of_zeros(job);
    warn_of_residuals(job);
    return true;
}

/* The library times both kinds under the same conditions. */
static bool compare(cli_attention_job *job)
{
    if (!cli_attention_ok(job, bo_attention_measure(job->session->context, job->attention, &job->call, 0, &job->error)))
        return false;
    job->seconds = job->error.kind_seconds;
    return true;
}

static bool save(cli_attention_job *job)
{
    if (!job->options->out) return true;
    size_t shape[CLI_ATTENTION_RANK];
    const bo_array array = cli_attention_output(job, shape);
    const bo_status status = bo_array_save(job->session->context, &array, &(bo_sink){.path = job->options->out});
    return cli_attention_ok(job, cli_record_output(job->session, job->options->out, status));
}

static int run(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    cli_session *session = job->session;
    if (o->out && !cli_can_write(session, o->out)) return CLI_FAILED;
    if (!(o->model ? cli_attention_load_model : cli_attention_load)(job)) return CLI_FAILED;
    if (o->advise) return cli_attention_advise(job);
    if (!prepare(job)) return CLI_FAILED;
    if (!o->plan && (!compute(job) || (o->compare && !compare(job)) || !save(job))) return CLI_FAILED;
    cli_progress_clear(&session->progress);
    if (session->common.json)
        cli_attention_json(job);
    else
        cli_attention_print(job);
    return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* --model, --data and --layer require --advise and each other. */
static int check_model(const cli_attention_options *o)
{
    if (!o->advise)
        return cli_usage_error("attention", "--%s is an option of --advise",
                               o->model        ? "model"
                               : o->data.count ? "data"
                                               : "layer");
    if (!o->model) return cli_usage_error("attention", "--%s needs --model DIR", o->data.count ? "data" : "layer");
    for (int i = CLI_Q; i <= CLI_V; i++)
        if (o->sources[i])
            return cli_usage_error("attention", "give --model or --%s, not both",
                                   cli_attention_option((cli_attention_source)i));
    if (!o->data.count) return cli_usage_error("attention", "--model needs a text; give --data FILE");
    return CLI_DONE;
}

static int check_files(const cli_attention_options *o)
{
    if (o->model || o->data.count || CLI_GIVEN(o, layer)) {
        const int status = check_model(o);
        if (status != CLI_DONE) return status;
    }
    for (int i = CLI_Q; !o->model && i <= (o->advise ? CLI_K : CLI_V); i++)
        if (!o->sources[i])
            return cli_usage_error("attention", "expected --q%s; --%s is missing",
                                   o->advise ? " and --k" : ", --k and --v",
                                   cli_attention_option((cli_attention_source)i));
    if (o->out && !cli_ends_with(o->out, ".npy"))
        return cli_usage_error("attention", "--out: expected a file name that ends in .npy, found '%s'", o->out);
    const cli_path outputs[] = {{"out", o->out}};
    cli_path inputs[CLI_SOURCES];
    for (int i = 0; i < CLI_SOURCES; i++)
        inputs[i] = (cli_path){cli_attention_option((cli_attention_source)i), o->sources[i]};
    const char *standard = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(inputs); i++) {
        if (!inputs[i].path || strcmp(inputs[i].path, "-") != 0) continue;
        if (standard)
            return cli_usage_error("attention",
                                   "--%s and --%s cannot both be read from standard input; use a file for one of them",
                                   standard, inputs[i].option);
        standard = inputs[i].option;
    }
    return cli_paths_apart("attention", outputs, CLI_COUNT_OF(outputs), inputs, CLI_COUNT_OF(inputs));
}

static int attention(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_attention_options *o = options;
    if (arguments->count != 0)
        return cli_usage_error("attention", "expected options only, found '%s' (use --q, --k and --v for the arrays)",
                               arguments->items[0]);
    int status = check_files(o);
    if (status == CLI_DONE) status = cli_attention_check(o);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open_in(&session, "attention", common, false, (cli_compute){.precision = o->precision}))
        return CLI_FAILED;
    cli_attention_job job = {.session = &session, .options = o};
    for (int i = 0; i < CLI_SOURCES; i++)
        job.files[i] =
            (cli_attention_file){.option = cli_attention_option((cli_attention_source)i), .path = o->sources[i]};
    status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    cli_attention_close(&job);
    cli_session_close(&session);
    return status;
}

const cli_usage cli_attention_usage = {
    .command = "attention",
    .synopsis =
        "--q Q.npy --k K.npy --v V.npy --kind KIND [options]   or   --advise --q Q.npy --k K.npy   or   --advise "
        "--model DIR --data TEXT [--layer L]",
    .about = "Computes the attention of arrays: softmax attention, linear-time attention with feature maps, and linear "
             "attention with learned memory such as the delta rule. --compare measures error and cost against softmax "
             "attention; --advise recommends a feature map for given queries and keys.",
    .examples = "  bochner features train.csv --features 32 --out Q.npy\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind favor --causal --compare --out O.npy\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind linear --map elu\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind retention --decay 0.97\n"
                "  bochner attention --advise --q Q.npy --k Q.npy --max-features 256\n"
                "  bochner attention --advise --model model --data text.txt\n",
    .groups = {{cli_attention_array_rows, 0},
               {cli_attention_kind_rows, 0},
               {cli_attention_layer_rows, 0},
               {cli_attention_result_rows, 0}},
    .short_help = {"q", "k", "v", "kind", "causal", "features", "map", "out", "compare", "advise", "window", "decay",
                   "gate", "plan", "json"},
};

int cli_attention(int argc, char **argv)
{
    cli_attention_options o = {.command = "attention"};
    return cli_command(&cli_attention_usage, argc, argv, &o, attention);
}
