/* A long prompt that is sent again: how much time the prompt cache of the server saves. */
#include "serve.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 32768, STEPS = 16, AGAIN = 3 };

static size_t prompt_length(const load_bench *bench)
{
    const size_t max_tokens = bench->model.max_tokens;
    if (bench->options->longest) return bench->options->longest;
    if (max_tokens == 0 || max_tokens > LONGEST + STEPS) return LONGEST;
    return max_tokens > 2 * STEPS ? max_tokens - STEPS : max_tokens / 2;
}

static double first_token(const load_outcome *outcome)
{
    return outcome->count ? outcome->tokens[0] - outcome->sent : NAN;
}

/* Mean, because several tokens may arrive at the same time. */
static double time_between_tokens(const load_outcome *outcome)
{
    const size_t count = outcome->count;
    return count > 1 ? (outcome->tokens[count - 1] - outcome->tokens[0]) / (double)(count - 1) : NAN;
}

static void report(load_bench *bench, const load_outcome *outcomes)
{
    double again[AGAIN], steps[AGAIN];
    for (size_t i = 0; i < AGAIN; i++) {
        again[i] = first_token(&outcomes[1 + i]);
        steps[i] = time_between_tokens(&outcomes[1 + i]);
    }
    const double first = first_token(&outcomes[0]), median = bench_median(again, AGAIN);
    const double step = bench_median(steps, AGAIN);
    bench_add(bench->run, "repeated prompt, time to first token, first", 1e3 * first, "ms", NAN, true,
              "%s tokens, %.4g tokens/s", cli_count(outcomes[0].prompt).s, (double)outcomes[0].prompt / first);
    bench_add(bench->run, "repeated prompt, time to first token, again", 1e3 * median, "ms", NAN, true,
              "median of %d; %s tokens were in the cache of the server", AGAIN, cli_count(outcomes[1].cached).s);
    bench_add(bench->run, "repeated prompt, first / again", first / median, "x", NAN, false,
              "speedup of the time to first token");
    bench_add(bench->run, "repeated prompt, time between tokens", 1e3 * step, "ms", NAN, true,
              "median of %d; %d tokens after the prompt", AGAIN, STEPS);
    bench_add(bench->run, "repeated prompt, again / time between tokens", median / step, "x", NAN, true,
              "1: as fast as with an empty prompt");
}

bool load_repeated_part(load_bench *bench)
{
    load_results results = load_results_make(1 + AGAIN);
    char *body = load_completion(bench, prompt_length(bench), STEPS);
    for (size_t i = 0; i < results.count; i++) results.requests[i] = load_post(bench, strdup(body));
    const bool done =
        load_run(bench->run->session, &bench->server.address, 1, results.count, results.requests, results.outcomes);
    if (done) report(bench, results.outcomes);
    free(body);
    load_results_free(&results);
    return done;
}
