/* bochner attention: exact attention, and attention in linear time, of arrays in files. */
#include "attention.h"
#include "../common/output.h"
#include "../common/paths.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the run -------------------------------------------------------------------------------------------- */

/* Numbers out of range are those of the calibration's own files, where there are any. */
static bool calibration_ok(cli_attention_job *job, bo_status status)
{
    const char *const *sources = job->options->sources;
    if (status != BO_NUMERIC || !sources[CLI_CALIBRATE_Q]) return cli_attention_ok(job, status);
    cli_fail(job->session, "calibration with --calibrate-q %s and --calibrate-k %s: %s", sources[CLI_CALIBRATE_Q],
             sources[CLI_CALIBRATE_K], cli_attention_words(job));
    return false;
}

/* Numbers out of range may come from the frequencies, and so from the files they were drawn for. */
static bool forward_ok(cli_attention_job *job, bo_status status)
{
    const char *const *sources = job->options->sources;
    if (status != BO_NUMERIC || !sources[CLI_CALIBRATE_Q]) return cli_attention_ok(job, status);
    for (int i = CLI_Q; i <= CLI_V; i++)
        if (!cli_attention_finite(job, &job->files[i])) return false;
    cli_fail(job->session,
             "%s; the frequencies were drawn for --calibrate-q %s and --calibrate-k %s, whose numbers may be too large",
             cli_attention_words(job), sources[CLI_CALIBRATE_Q], sources[CLI_CALIBRATE_K]);
    return false;
}

/* Frequencies from the calibration's arrays, or else from q and k themselves. */
static bool calibrate(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    bo_calibration *seen = NULL;
    bo_attention_shape shape;
    bo_attention_inputs inputs;
    if (!cli_attention_calibration(job, &shape, &inputs)) return false;
    if (job->desc.causal && !job->options->sources[CLI_CALIBRATE_Q])
        cli_warn(job->session,
                 "the frequencies are drawn for all of these queries and keys, later tokens included: causal use "
                 "has them from other data (--calibrate-q, --calibrate-k)");
    bo_status status = bo_calibration_create(context, job->attention, 0, &seen);
    if (status == BO_OK) status = bo_calibration_add(context, seen, &shape, &inputs);
    if (status == BO_OK) status = bo_calibration_apply(context, seen, job->attention, 0, &job->calibration);
    bo_calibration_destroy(seen);
    return calibration_ok(job, status);
}

/* M by whitening, or frequencies drawn for data. */
static bool fit_to_data(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    if (cli_attention_calibrates(d)) return calibrate(job);
    if (job->options->propose)
        return cli_attention_ok(
            job, bo_dark_propose(context, job->attention, &job->shape, job->inputs.q, job->inputs.k, &job->dark));
    if (!job->options->whiten) return true;
    job->own_m = cli_allocate(d->key_heads * d->rank * d->dim, sizeof(float), "M");
    job->inputs.m = job->own_m;
    return cli_attention_ok(
        job, bo_dark_whiten(context, job->attention, &job->shape, job->inputs.q, job->inputs.k, 0, job->own_m));
}

static bool prepare(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    if (!cli_attention_parameters(job)) return false;
    cli_attention_describe(job);
    if (bo_attention_has(&job->desc, BO_TRAIT_ITERATIONS)) job->inputs.solves = &job->solves;
    if (!cli_attention_ok(job, bo_attention_create(context, &job->desc, &job->attention))) return false;
    if (!cli_attention_ok(job, bo_attention_plan_for(context, job->attention, &job->shape, &job->plan))) return false;
    cli_attention_say(job);
    return job->options->plan || fit_to_data(job);
}

static bool all_zero(const float *row, size_t count)
{
    while (count && row[count - 1] == 0) count--;
    return count == 0;
}

/* Queries of one head whose output is 0 although a value they see is not: every weight was lost in float32. */
static size_t zeros_of_head(const cli_attention_job *job, size_t sequence, size_t head)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const size_t queries = job->shape.tokens, keys = job->shape.key_tokens, width = d->value_dim;
    const size_t key_head = sequence * d->key_heads + head / (d->heads / d->key_heads);
    const float *v = job->inputs.v + key_head * keys * width;
    const float *out = job->out + (sequence * d->heads + head) * queries * width;
    size_t first = 0, found = 0;
    while (first < keys && all_zero(v + first * width, width)) first++;
    if (first == keys) return 0;
    for (size_t i = d->causal ? first : 0; i < queries; i++) found += all_zero(out + i * width, width);
    return found;
}

/* Where there is a denominator; without one, 0 is a number like any other. */
static void warn_of_zeros(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const size_t heads = d->heads, sequences = job->shape.sequences;
    const bool exponential = bo_kernel_is_scaled(d->features.kernel);
    for (size_t i = 0; d->normalizer == BO_NORMALIZER_SUM && i < sequences * heads; i++)
        job->zeros += zeros_of_head(job, i / heads, i % heads);
    if (job->zeros)
        cli_warn(job->session,
                 "%s of %s queries give every key they see the weight 0 in float32, and their output is 0: %s",
                 cli_count(job->zeros).s, cli_count(sequences * heads * job->shape.tokens).s,
                 exponential ? "norms are too large for these features (--advise measures them)"
                             : "they have nothing in common with these keys");
}

/* With a gate: residuals may be ten times the tolerance, where float32 allows no better. */
static void warn_of_residuals(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const double found = job->solves.largest_residual, most = 10 * d->tolerance;
    if (d->iterations && !(found <= most))
        cli_warn(job->session,
                 "the largest residual is %s, more than ten times the tolerance of %s: some systems were not solved, "
                 "and their outputs may be wrong; a larger --lambda helps",
                 cli_significant(found, 4).s, cli_significant(d->tolerance, 4).s);
}

static bool compute(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    job->out =
        cli_allocate(job->shape.sequences * d->heads * job->shape.tokens * d->value_dim, sizeof(float), "the output");
    const double start = cli_now();
    if (!forward_ok(
            job, bo_attention_forward(context, job->attention, &job->shape, &job->inputs, NULL, NULL, job->out, NULL)))
        return false;
    job->seconds = cli_now() - start;
    if (cli_interrupted()) return cli_attention_ok(job, BO_CANCELED);
    warn_of_zeros(job);
    warn_of_residuals(job);
    return true;
}

/* The library's passes are timed one after the other, so that both kinds are in the same state: one number for all. */
static bool compare(cli_attention_job *job)
{
    if (!cli_attention_ok(job, bo_attention_compare(job->session->context, job->attention, &job->shape, &job->inputs,
                                                    job->out, 0, &job->error)))
        return false;
    job->seconds = job->error.kind_seconds;
    return true;
}

/* The output has the queries' shape, as wide as the values. */
static bool save(cli_attention_job *job)
{
    if (!job->options->out) return true;
    bo_array array = cli_attention_shape_of_output(job);
    array.values = job->out;
    return cli_attention_ok(job, bo_array_save(job->session->context, &array, job->options->out));
}

static int run(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    cli_session *session = job->session;
    if (o->out && !cli_can_write(session, o->out)) return CLI_FAILED;
    if (!cli_attention_load(job)) return CLI_FAILED;
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

/* ---- the command ---------------------------------------------------------------------------------------- */

static int check_files(const cli_attention_options *o)
{
    for (int i = CLI_Q; i <= (o->advise ? CLI_K : CLI_V); i++)
        if (!o->sources[i])
            return cli_wrong_use("attention", "expected --q, --k%s; found no --%s", o->advise ? "" : " and --v",
                                 cli_attention_option((cli_attention_source)i));
    if (o->out && !cli_ends_with(o->out, ".npy"))
        return cli_wrong_use("attention", "--out: expected a name ending in .npy, found '%s'", o->out);
    const cli_path outputs[] = {{"out", o->out}};
    cli_path inputs[CLI_SOURCES];
    for (int i = 0; i < CLI_SOURCES; i++)
        inputs[i] = (cli_path){cli_attention_option((cli_attention_source)i), o->sources[i]};
    const char *standard = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(inputs); i++) {
        if (!inputs[i].path || strcmp(inputs[i].path, "-") != 0) continue;
        if (standard)
            return cli_wrong_use("attention", "--%s and --%s cannot both come from standard input", standard,
                                 inputs[i].option);
        standard = inputs[i].option;
    }
    return cli_paths_apart("attention", outputs, CLI_COUNT_OF(outputs), inputs, CLI_COUNT_OF(inputs));
}

static int attention(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_attention_options *o = options;
    if (arguments->count != 0)
        return cli_wrong_use("attention", "arrays are named by --q, --k and --v; found '%s'", arguments->items[0]);
    int status = check_files(o);
    if (status == CLI_DONE) status = cli_attention_check(o);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "attention", common, false)) return CLI_FAILED;
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

static const cli_option rows[] = {
    SECTION("Arrays (.npy)"),
    TEXT("q", "FILE", cli_attention_options, sources[CLI_Q],
         "queries: (heads, tokens, width) or (batch, heads, tokens, width); (tokens, width) is one head"),
    TEXT("k", "FILE", cli_attention_options, sources[CLI_K],
         "keys, of as many heads or of fewer that divide them; without --causal of any length"),
    TEXT("v", "FILE", cli_attention_options, sources[CLI_V], "values, one for each key"),
    TEXT("gate", "FILE", cli_attention_options, sources[CLI_GATE],
         "gates in (0, 1], one for each key, which multiply what was seen before; of gla one for each key "
         "and column"),
    TEXT("log-gate", "FILE", cli_attention_options, sources[CLI_LOG_GATE],
         "logarithms of the gates, in place of --gate"),
    CHOICE("gate-input", "HOW", cli_attention_options, gate_input, bo_gate_name, "weight of a new key: 1 - gate, or 1",
           .without = 1u << BO_GATE_NONE | 1u << BO_GATE_FIXED, .otherwise = "1 - gate of rfa-gate, else 1"),
    TEXT("beta", "FILE", cli_attention_options, sources[CLI_BETA],
         "delta, ridge: weights of the keys, at least 0, one for each key", .otherwise = "1"),
    SECTION("Attention"),
    CHOICE("kind", "KIND", cli_attention_options, kind, cli_attention_kind_choice, "kind of attention"),
    FLAG("causal", cli_attention_options, causal,
         "a query sees the keys up to its own; hybrid, retention, gla, delta and ridge are always causal"),
    REAL_OR_AUTO("scale", cli_attention_options, scale, "scale of q.k",
                 .otherwise = "1/sqrt(width); 1 for maps that are not functions of q.k"),
    REAL("degree", "P", cli_attention_options, degree,
         "poly: degree of (1 + s q.k)^P, a whole number; power: of |s q.k|^P, any number above 0", .otherwise = "2"),
    TEXT("decay", "G|LIST|FILE", cli_attention_options, sources[CLI_DECAY],
         "retention, and others with features: one gate in (0, 1] for all tokens, or one for each key head",
         .otherwise = "of retention 1 - 2^-5, 1 - 2^-6, ..."),
    COUNT("window", "W", cli_attention_options, window,
          "hybrid: number of latest keys that are exact; exact, power: number of latest keys that a query "
          "sees",
          .low = 1, .otherwise = "64 of hybrid, else all"),
    CHOICE("normalizer", "N", cli_attention_options, normalizer, cli_attention_normalizer_choice,
           "whether outputs are divided by the sum of the weights", .otherwise = "sum; of retention none"),
    REAL_OR_AUTO("clamp", cli_attention_options, clamp, "least denominator", .otherwise = "auto"),
    SECTION("Features"),
    CHOICE("map", "MAP", cli_attention_options, map, cli_attention_map_choice, "feature map, or a kernel",
           .otherwise = "positive of favor, dark and hybrid, trig of rfa, elu of linear"),
    COUNT("features", "D", cli_attention_options, features, "length of the feature vector; exact maps fix it", .low = 1,
          .otherwise = "the least power of two that is at least 4 widths"),
    CHOICE("draw", "D", cli_attention_options, draw, bo_draw_name, "how frequencies are coupled", .initial = "default"),
    FLAG("one-draw", cli_attention_options, one_draw, "all heads share their frequencies"),
    CHOICE("proposal", "LAW", cli_attention_options, proposal, bo_proposal_name,
           "favor, dark, hybrid: the law that frequencies are drawn from, fitted to data, with weights; oprf "
           "is favor++, sderf is favor#",
           .otherwise = "the kind's"),
    CHOICE("sampling", "S", cli_attention_options, sampling, bo_sampling_name,
           "optimal: of many frequencies those that matter to the data, with weights",
           .without = ~0u << (BO_SAMPLING_OPTIMAL + 1), .otherwise = "drawn"),
    TEXT("calibrate-q", "FILE", cli_attention_options, sources[CLI_CALIBRATE_Q],
         "queries that a law or optimal sampling is fitted to", .otherwise = "q"),
    TEXT("calibrate-k", "FILE", cli_attention_options, sources[CLI_CALIBRATE_K],
         "keys that a law or optimal sampling is fitted to", .otherwise = "k"),
    REAL_OR_AUTO("gamma", cli_attention_options, gamma, "hybrid: gamma of a map that does not estimate softmax",
                 .otherwise = "1"),
    REAL_OR_AUTO("alpha", cli_attention_options, alpha, "alpha of rational-quadratic", .otherwise = "1"),
    SECTION("Parameters of a kind"),
    REAL_OR_AUTO("temperature", cli_attention_options, temperature,
                 "rfa: queries and keys of unit norm are divided by it", .otherwise = "1"),
    TEXT("sigma", "FILE", cli_attention_options, sources[CLI_SIGMA],
         "rfa: (key heads, width), factors of queries and keys", .otherwise = "1"),
    TEXT("m", "FILE", cli_attention_options, sources[CLI_M], "dark: (key heads, rank, width), the M of exp(s Mq.Mk)",
         .otherwise = "the identity"),
    TEXT("w", "FILE", cli_attention_options, sources[CLI_W],
         "hedgehog, t2r: (key heads, rank, width), the W of the map of Wx + b", .otherwise = "the identity"),
    TEXT("w-k", "FILE", cli_attention_options, sources[CLI_W_K], "W of the keys", .otherwise = "that of the queries"),
    TEXT("bias", "FILE", cli_attention_options, sources[CLI_BIAS], "hedgehog, t2r: (key heads, rank), b",
         .otherwise = "0"),
    TEXT("bias-k", "FILE", cli_attention_options, sources[CLI_BIAS_K], "b of the keys",
         .otherwise = "that of the queries"),
    COUNT("rank", "R", cli_attention_options, rank, "dark, hedgehog, t2r: rows of M or W", .low = 1,
          .otherwise = "the width"),
    FLAG("whiten", cli_attention_options, whiten, "dark: M that whitens these queries and keys"),
    FLAG("propose", cli_attention_options, propose,
         "favor, dark: as --proposal gaussian on these queries and keys, with a report on what its theory "
         "takes for granted"),
    TEXT("mix", "X|FILE", cli_attention_options, sources[CLI_MIX], "hybrid: weight of the window, a number or (heads,)",
         .otherwise = "1"),
    FLAG("unit", cli_attention_options, unit, "gla, ridge: queries and keys of unit norm, as delta has them"),
    FLAG("no-unit", cli_attention_options, no_unit, "delta: queries and keys as they are"),
    TEXT("lambda", "X|FILE", cli_attention_options, sources[CLI_LAMBDA],
         "ridge: a number above 0 or (key heads, width), the ridge", .otherwise = "1"),
    COUNT("iterations", "N", cli_attention_options, iterations,
          "gated-ridge: greatest number of steps before a system is solved directly", .low = 1, .high = 1 << 20,
          .otherwise = "the width"),
    REAL_OR_AUTO("tolerance", cli_attention_options, tolerance, "gated-ridge: residual to reach", .otherwise = "1e-6"),
    COUNT("chunk", "C", cli_attention_options, chunk, "tokens computed at a time", .low = 1, .high = 1024,
          .otherwise = "from shape and caches"),
    SECTION("Results"),
    TEXT("out", "O.npy", cli_attention_options, out, "the output: the queries' shape, as wide as the values, float32"),
    FLAG("compare", cli_attention_options, compare,
         "errors of the output against exact softmax and the kind's own kernel, error of the kernel, time, "
         "memory"),
    FLAG("plan", cli_attention_options, plan, "only say how it would be computed: chunks, tiles, memory, operations"),
    FLAG("advise", cli_attention_options, advise,
         "measure queries and keys, and say which map with how many features reaches an error, and why"),
    REAL_OR_AUTO("target", cli_attention_options, target, "advise: relative error of the output to reach",
                 .otherwise = "0.1"),
    COUNT("most", "D", cli_attention_options, most, "advise: greatest number of features to try", .low = 16,
          .high = 1 << 20, .otherwise = "4096"),
    END_OF_OPTIONS,
};

const cli_usage cli_attention_usage = {
    .command = "attention",
    .synopsis = "--q Q.npy --k K.npy --v V.npy --kind KIND [options]   or   --advise --q Q.npy --k K.npy",
    .about = "Attention of arrays: exact softmax; a kernel that is an inner product of features, in time that "
             "grows with the length and not with its square, and how far the two are apart; and the memories "
             "that grew out of it.",
    .examples = "  bochner features train.csv --features 32 --out Q.npy\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind favor --causal --compare --out O.npy\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind linear --map elu\n"
                "  bochner attention --q Q.npy --k Q.npy --v Q.npy --kind retention --decay 0.97\n"
                "  bochner attention --advise --q Q.npy --k Q.npy --most 256\n",
    .groups = {{rows, 0}},
};

int cli_attention(int argc, char **argv)
{
    cli_attention_options o = {.command = "attention"};
    return cli_command(&cli_attention_usage, argc, argv, &o, attention);
}
