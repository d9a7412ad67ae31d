/* Requests with prompts of random tokens or words. */
#include "serve.h"
#include "../../cli/common/random.h"
#include "../../cli/shared/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Short words that most vocabularies have as one token. */
static const char *const vocabulary[] = {
    "the",  "and",   "was",  "day",    "she", "girl", "play", "ball", "red",  "big",   "tree",   "dog",  "cat",
    "park", "happy", "said", "little", "mom", "with", "they", "went", "home", "liked", "friend", "sun",  "water",
    "time", "name",  "very", "look",   "saw", "toy",  "help", "good", "new",  "house", "boy",    "fun",  "like",
    "bird", "see",   "up",   "sad",    "old", "fish", "box",  "car",  "run",  "blue",  "small",  "made", "room",
};

static void add_tokens(load_bench *bench, uint64_t *random, size_t count, load_text *out)
{
    /* the first tokens of most vocabularies are special tokens and bytes */
    const size_t vocab = bench->model.vocab, first = vocab / 8;
    load_text_add(out, "[", 1);
    for (size_t i = 0; i < count; i++)
        load_text_print(out, "%s%zu", i ? "," : "", first + cli_random_below(random, vocab - first));
    load_text_add(out, "]", 1);
}

static void add_words(uint64_t *random, size_t count, load_text *out)
{
    load_text_add(out, "\"", 1);
    for (size_t i = 0; i < count; i++)
        load_text_print(out, "%s%s", i ? " " : "", vocabulary[cli_random_below(random, CLI_COUNT_OF(vocabulary))]);
    load_text_add(out, "\"", 1);
}

static void add_prompt(load_bench *bench, size_t count, load_text *out)
{
    const uint64_t seed = bench->run->session->common.seed;
    uint64_t random = cli_hash(seed, bench->prompts++);
    const load_options *o = bench->options;
    if (o->chat) {
        load_text_print(out, "\"messages\": [{\"role\": \"user\", \"content\": ");
        add_words(&random, count, out);
        load_text_print(out, "}]");
        return;
    }
    load_text_print(out, "\"prompt\": ");
    if (o->text || bench->model.vocab < 16)
        add_words(&random, count, out);
    else
        add_tokens(bench, &random, count, out);
}

static void add_model(const load_bench *bench, load_text *out)
{
    load_text_print(out, "{\"model\": ");
    load_text_json(out, bench->model.name);
    load_text_print(out, ", ");
}

char *load_completion(load_bench *bench, size_t prompt, size_t tokens)
{
    load_text out = {0};
    char number[32];
    bo_number_format(bench->options->temperature, number, sizeof number);
    add_model(bench, &out);
    add_prompt(bench, prompt, &out);
    load_text_print(&out, ", \"max_tokens\": %zu, \"temperature\": %s, \"ignore_eos\": true, ", tokens, number);
    load_text_print(&out, "\"stream\": true, \"stream_options\": {\"include_usage\": true}}");
    return out.bytes;
}

char *load_state(load_bench *bench, size_t prompt)
{
    load_text out = {0};
    add_model(bench, &out);
    add_prompt(bench, prompt, &out);
    load_text_print(&out, "}");
    return out.bytes;
}

load_request load_post(const load_bench *bench, char *body)
{
    const char *path = bench->options->chat ? "/v1/chat/completions" : "/v1/completions";
    const load_request request = load_request_make(&bench->server.address, "POST", path, body);
    free(body);
    return request;
}

load_results load_results_make(size_t count)
{
    return (load_results){.requests = cli_allocate(count, sizeof(load_request), "requests"),
                          .outcomes = cli_allocate(count, sizeof(load_outcome), "requests"),
                          .count = count};
}

void load_results_free(load_results *results)
{
    for (size_t i = 0; i < results->count; i++) {
        free(results->requests[i].bytes);
        load_outcome_free(&results->outcomes[i]);
    }
    free(results->requests);
    free(results->outcomes);
    *results = (load_results){0};
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double load_percentile(double *values, size_t count, double share)
{
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, ascending);
    const size_t rank = (size_t)ceil(share * (double)count);
    return values[rank ? rank - 1 : 0];
}
