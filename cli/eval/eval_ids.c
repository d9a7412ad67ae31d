#include "eval_ids.h"
#include "../common/json.h"
#include "../common/output.h"
#include "../model/extrapolation.h"
#include "../text/ids.h"
#include <math.h>
#include <stdlib.h>

enum { PIECE = 64 }; /* tokens whose logits are in memory */

typedef struct job {
    cli_session *session;
    const bo_model *model;
    const cli_eval_ids_use *use;
    cli_ids ids;
    bo_session *reader;
    size_t vocab;
    float *logits; /* PIECE x vocab */
    cli_output output;
    double nats; /* sums over the scored tokens */
    uint64_t scored;
    double seconds;
} job;

static bool ok(job *j, bo_status status)
{
    if (status != BO_OK) cli_fail_status(j->session, status);
    return status == BO_OK;
}

/* -log softmax(logits)[target], in double. */
static double loss_of(const float *logits, size_t vocab, int32_t target)
{
    double max_logit = (double)logits[0], sum = 0;
    for (size_t i = 1; i < vocab; i++) max_logit = fmax(max_logit, (double)logits[i]);
    for (size_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - max_logit);
    return max_logit + log(sum) - (double)logits[target];
}

/* Scores the successors of the tokens of a piece. The last token of a sequence has no successor. */
static void score(job *j, const int32_t *ids, size_t at, size_t count)
{
    for (size_t i = 0; i < count && at + i + 1 < j->ids.tokens; i++, j->scored++)
        j->nats += loss_of(j->logits + i * j->vocab, j->vocab, ids[at + i + 1]);
}

static bool read_sequence(job *j, size_t sequence)
{
    const int32_t *ids = j->ids.items + sequence * j->ids.tokens;
    bo_context *context = j->session->context;
    if (!ok(j, bo_session_reset(context, j->reader))) return false;
    for (size_t at = 0; at < j->ids.tokens; at += PIECE) {
        const size_t count = j->ids.tokens - at < PIECE ? j->ids.tokens - at : PIECE;
        if (cli_interrupted()) return ok(j, BO_CANCELED);
        if (!ok(j, bo_session_read(context, j->reader,
                                   &(bo_session_reading){.ids = ids + at, .count = count, .logits = j->logits})))
            return false;
        if (j->use->logits && !cli_output_rows(j->session, &j->output, count, j->logits)) return false;
        score(j, ids, at, count);
        cli_progress_report(&j->session->progress, "evaluating", (double)(sequence * j->ids.tokens + at + count),
                            (double)(j->ids.sequences * j->ids.tokens));
    }
    return true;
}

static bool open_output(job *j)
{
    if (!j->use->logits) return true;
    if (!cli_output_npy(j->session, &j->output, j->use->logits, j->vocab, sizeof(float))) return false;
    if (j->ids.batch) j->output.group = j->ids.tokens;
    return true;
}

static bool evaluate(job *j)
{
    const double start = cli_now();
    const bo_session_desc desc = {.chunk = PIECE, .capacity = j->ids.tokens};
    if (!ok(j, bo_session_create(j->session->context, j->model, &desc, &j->reader)) || !open_output(j)) return false;
    j->logits = cli_allocate(PIECE * j->vocab, sizeof *j->logits, "logits");
    bool done = true;
    for (size_t i = 0; i < j->ids.sequences && done; i++) done = read_sequence(j, i);
    cli_progress_clear(&j->session->progress);
    if (j->use->logits) done = done && cli_output_commit(j->session, &j->output);
    j->seconds = cli_now() - start;
    return done;
}

static void print_json(const job *j)
{
    const double loss = j->scored ? j->nats / (double)j->scored : NAN;
    const size_t tokens = j->ids.sequences * j->ids.tokens;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_number(&json, "loss", loss);
    cli_json_add_number(&json, "perplexity", exp(loss));
    cli_json_add_count(&json, "sequences", j->ids.sequences);
    cli_json_add_count(&json, "tokens", tokens);
    cli_json_add_count(&json, "scored_tokens", j->scored);
    cli_json_add_count(&json, "vocab", j->vocab);
    if (j->use->logits) cli_json_add_text(&json, "logits", j->use->logits);
    cli_json_add_number(&json, "seconds", j->seconds);
    cli_json_add_number(&json, "tokens_per_second", j->seconds > 0 ? (double)tokens / j->seconds : NAN);
    cli_json_end(&json);
}

static void print(const job *j)
{
    const double loss = j->nats / (double)j->scored;
    const size_t tokens = j->ids.sequences * j->ids.tokens;
    if (j->scored) printf("Loss        %.4f nats per token, perplexity %s\n", loss, cli_significant(exp(loss), 4).s);
    printf("Tokens      %s in %s sequence%s, %s\n", cli_count(tokens).s, cli_count(j->ids.sequences).s,
           j->ids.sequences == 1 ? "" : "s", cli_seconds(j->seconds).s);
    if (j->use->logits)
        printf("Logits      %s: float32, %s numbers per token\n", j->use->logits, cli_count(j->vocab).s);
}

int cli_eval_ids(cli_session *session, const bo_model *model, const cli_eval_ids_use *use)
{
    job j = {.session = session, .model = model, .use = use, .vocab = bo_model_describe(model)->vocab};
    if (!cli_ids_load(session, use->ids, j.vocab, &j.ids)) return CLI_FAILED;
    cli_report_extrapolation(session, model, j.ids.tokens);
    const bool done = evaluate(&j);
    if (!done && j.output.replacement) cli_output_abandon(&j.output);
    if (done) (session->common.json ? print_json : print)(&j);
    bo_session_destroy(j.reader);
    cli_ids_free(&j.ids);
    free(j.logits);
    return done ? CLI_DONE : CLI_FAILED;
}
