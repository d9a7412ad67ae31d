/* Fits attention to data: the frequencies of a proposal or of optimal sampling, the M of --whiten, the parameter of the
 * map oprf. The data comes from --calibrate-q and --calibrate-k, or is the input.
 *
 * Causal attention is fitted to the first tokens of its input only. The outputs of these tokens are computed without
 * the fit, so no output depends on a later token. */
#include "attention.h"
#include <stdlib.h>
#include <string.h>

/* Fewer tokens make a worse fit; more tokens leave more outputs without it (docs/reference/attention.md). The number
 * does not depend on the length of the input, so a longer input does not change earlier outputs. */
enum { FIRST_TOKENS = 128 };

bool cli_attention_calibrates(const bo_attention_desc *desc)
{
    return desc->proposal != BO_PROPOSAL_NONE || desc->features.sampling == BO_SAMPLING_OPTIMAL;
}

bool cli_attention_fits(const cli_attention_options *o, const bo_attention_desc *desc)
{
    return cli_attention_calibrates(desc) || o->whiten || o->propose || desc->features.function == BO_FUNCTION_OPRF;
}

/* ---- the data ---------------------------------------------------------------------------------------------------- */

/* A copy of the first `kept` of `tokens` rows of every block. */
static float *first_rows(const float *values, size_t blocks, size_t tokens, size_t kept, size_t width)
{
    float *copy = cli_allocate(blocks * kept * width, sizeof *copy, "the first tokens");
    for (size_t i = 0; i < blocks; i++)
        memcpy(copy + i * kept * width, values + i * tokens * width, kept * width * sizeof *copy);
    return copy;
}

static void truncate_sample(cli_attention_job *job, size_t max_tokens)
{
    cli_attention_sample *s = &job->sample;
    const size_t sequences = s->call.sequences, dim = job->desc.dim;
    if (s->call.tokens > max_tokens) {
        s->q_copy = first_rows(s->call.q.data, sequences * job->desc.heads, s->call.tokens, max_tokens, dim);
        s->call.q.data = s->q_copy;
        s->call.tokens = max_tokens;
    }
    if (s->call.key_tokens > max_tokens) {
        s->k_copy = first_rows(s->call.k.data, sequences * job->desc.key_heads, s->call.key_tokens, max_tokens, dim);
        s->call.k.data = s->k_copy;
        s->call.key_tokens = max_tokens;
    }
}

/* True if the calibration arrays and the inputs are the same files, by name. */
static bool names_input(const cli_attention_options *o)
{
    const char *const *s = o->sources;
    return s[CLI_CALIBRATE_Q] &&
           (strcmp(s[CLI_CALIBRATE_Q], s[CLI_Q]) == 0 || strcmp(s[CLI_CALIBRATE_K], s[CLI_K]) == 0);
}

static void warn_of_fit(cli_attention_job *job)
{
    if (names_input(job->options))
        cli_warn(job->session,
                 "the attention is fitted to its own queries or keys, so outputs depend on later tokens; for "
                 "causal attention use --calibrate-q and --calibrate-k with other data");
    else if (job->unfitted == job->call.tokens)
        cli_warn(
            job->session,
            "the fit uses the first %s tokens and there are no tokens after them, so no output uses the fit; use a "
            "smaller --calibrate-rows, or other data with --calibrate-q and --calibrate-k",
            cli_count(job->unfitted).s);
}

bool cli_attention_sample_rows(cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    const bo_attention_desc chosen = cli_attention_chosen(o);
    const bool own_inputs = !o->sources[CLI_CALIBRATE_Q];
    if (!cli_attention_fits(o, &chosen)) return true;
    if (!cli_attention_calibration(job)) return false;
    if (CLI_GIVEN(o, calibrate_rows))
        truncate_sample(job, o->calibrate_rows);
    else if (chosen.causal && own_inputs)
        truncate_sample(job, FIRST_TOKENS);
    if (chosen.causal && own_inputs) job->unfitted = job->sample.call.tokens;
    if (chosen.causal) warn_of_fit(job);
    return true;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

/* Names the calibration files in the message if the numbers are out of range. */
static bool fit_ok(cli_attention_job *job, bo_status status)
{
    const char *const *sources = job->options->sources;
    if (status != BO_NUMERIC || !sources[CLI_CALIBRATE_Q]) return cli_attention_ok(job, status);
    cli_fail(job->session, "calibration with --calibrate-q %s and --calibrate-k %s: %s", sources[CLI_CALIBRATE_Q],
             sources[CLI_CALIBRATE_K], cli_attention_error(job));
    return false;
}

/* Draws the frequencies. */
static bo_status calibrate(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    bo_calibration *seen = NULL;
    bo_attention_call call = job->call;
    call.tokens = job->sample.call.tokens;
    call.key_tokens = job->sample.call.key_tokens;
    call.sequences = job->sample.call.sequences;
    call.q = job->sample.call.q;
    call.k = job->sample.call.k;
    bo_status status = bo_calibration_create(context, job->attention, 0, &seen);
    if (status == BO_OK) status = bo_calibration_add(context, seen, &call);
    if (status == BO_OK) status = bo_calibration_apply(context, seen, job->attention, 0, &job->calibration);
    bo_calibration_destroy(seen);
    return status;
}

/* Computes M. */
static bo_status whiten(cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    job->whitening_m = cli_allocate(d->key_heads * d->rank * d->dim, sizeof(float), "M");
    job->call.m = job->whitening_m;
    return bo_attention_whiten(job->session->context, job->attention, &job->sample.call, 0, job->whitening_m);
}

bool cli_attention_fit(cli_attention_job *job)
{
    const cli_attention_sample *s = &job->sample;
    if (cli_attention_calibrates(&job->desc)) return fit_ok(job, calibrate(job));
    if (job->options->propose)
        return fit_ok(job, bo_attention_propose(job->session->context, job->attention, &s->call, &job->dark));
    return !job->options->whiten || fit_ok(job, whiten(job));
}

/* ---- the outputs of the first tokens ----------------------------------------------------------------------------- */

/* The same attention without a fit: frequencies from N(0, I), positive features (the limit of oprf) instead of oprf,
 * and the M of --m or the identity. */
static bo_attention_desc unfitted_desc(const cli_attention_job *job)
{
    bo_attention_desc d = job->desc;
    d.proposal = BO_PROPOSAL_NONE;
    d.features.sampling = BO_SAMPLING_DRAWN;
    if (d.features.function == BO_FUNCTION_OPRF) d.features.function = BO_FUNCTION_POSITIVE;
    return d;
}

/* The output of the first tokens alone, (sequences, heads, unfitted, value_dim). */
static bo_status forward_unfitted(cli_attention_job *job, const bo_attention *attention, float *out)
{
    const bo_attention_desc *d = &job->desc;
    const size_t tokens = job->call.tokens, first = job->unfitted, blocks = job->call.sequences * d->key_heads;
    bo_attention_call call = job->call;
    float *v = first_rows(call.v.data, blocks, tokens, first, d->value_dim),
          *gates = call.log_gate.data ? first_rows(call.log_gate.data, blocks, tokens, first, 1) : NULL;
    call.tokens = call.key_tokens = first;
    call.q = job->sample.call.q;
    call.k = job->sample.call.k;
    call.v.data = v;
    call.out.data = out;
    call.log_gate.data = gates;
    if (job->whitening_m) call.m = NULL;
    const bo_status status = bo_attention_forward(job->session->context, attention, &call);
    free(v);
    free(gates);
    return status;
}

bo_status cli_attention_forward_unfitted(cli_attention_job *job)
{
    bo_context *context = job->session->context;
    const bo_attention_desc desc = unfitted_desc(job);
    const size_t blocks = job->call.sequences * desc.heads, first = job->unfitted, width = desc.value_dim;
    if (first == 0) return BO_OK;
    bo_attention *attention = NULL;
    float *out = cli_allocate(blocks * first * width, sizeof *out, "the output of the first tokens");
    bo_status status = bo_attention_create(context, &desc, &attention);
    if (status == BO_OK) status = forward_unfitted(job, attention, out);
    for (size_t i = 0; status == BO_OK && i < blocks; i++)
        memcpy(job->out + i * job->call.tokens * width, out + i * first * width, first * width * sizeof *out);
    bo_attention_destroy(attention);
    free(out);
    return status;
}
