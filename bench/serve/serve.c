/* bochner bench serve: the server under load, measured by its clients. The client of the benchmark runs on the same
 * host, sends requests over as many connections as there are clients, and records when each event arrives. */
#include "serve.h"

static const struct {
    const char *name;
    bool (*measure)(load_bench *bench);
} parts[] = {{"clients", load_clients_part}, {"repeated", load_repeated_part}, {"idle", load_idle_part}};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

static int check(load_options *o)
{
    static const char command[] = "bench serve";
    if (!bench_parts_known(command, o->run.only, CLI_COUNT_OF(parts), part_name) ||
        !cli_read_counts(command, "clients", o->clients_text, 1, 4096, &o->clients))
        return CLI_USAGE_ERROR;
    if (!o->directory == !o->url)
        return cli_usage_error(command, "expected the directory of a model or --url, and not both");
    if (o->pid && !o->url) return cli_usage_error(command, "--pid is the process of the server at --url");
    return CLI_DONE;
}

/* Prints a message and returns false if requests would be longer than the model allows. */
static bool requests_fit(const load_bench *bench)
{
    const load_options *o = bench->options;
    const size_t max_tokens = bench->model.max_tokens;
    if (max_tokens == 0 || o->prompt + o->tokens <= max_tokens) return true;
    cli_fail(
        bench->run->session,
        "prompts of %zu tokens with %zu more exceed the limit of the model, %zu; reduce --prompt-tokens or --tokens",
        o->prompt, o->tokens, max_tokens);
    return false;
}

static int measure(bench_run *run, void *user)
{
    load_options *o = user;
    const int status = check(o);
    if (status != CLI_DONE) return status;
    load_bench bench = {.run = run, .options = o};
    bool done = load_open(&bench, 0) && requests_fit(&bench);
    for (size_t i = 0; done && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(run, parts[i].name)) done = parts[i].measure(&bench);
    load_close(&bench);
    return done ? CLI_DONE : CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Requests"),
    TEXT("clients", "N,…", load_options, clients_text, "numbers of concurrent clients", .initial = "1,8,64"),
    COUNT("requests", "N", load_options, requests, "requests per client, one after another", .low = 1, .high = 1 << 20,
          .initial = "4"),
    COUNT("prompt-tokens", "N", load_options, prompt, "tokens of a prompt; each prompt is different", .low = 1,
          .high = 1 << 24, .initial = "128"),
    COUNT("tokens", "N", load_options, tokens, "tokens to generate per request", .low = 2, .high = 1 << 24,
          .initial = "64"),
    REAL("temperature", "X", load_options, temperature, "sampling temperature; 0: always the most likely token",
         .low = 0, .high = 100, .initial = "0"),
    FLAG("prompt-text", load_options, text, "send words instead of tokens, for servers that do not accept tokens"),
    FLAG("chat", load_options, chat, "send conversations, to /v1/chat/completions"),
    SECTION("Measuring"),
    TEXT("only", "PARTS", load_options, run.only, "parts to measure: clients, repeated, idle", .default_text = "all"),
    COUNT("long", "N", load_options, longest, "tokens of the repeated prompt", .low = 2, .high = 1 << 24,
          .default_text = "32768, or the maximum of the model"),
    COUNT("conversations", "N", load_options, conversations, "number of idle conversations", .low = 1, .high = 1 << 24,
          .initial = "100"),
    SECTION("Server"),
    TEXT("url", "URL", load_options, url, "measure a running server, such as http://127.0.0.1:8080"),
    COUNT("pid", "N", load_options, pid, "process of the server at --url, whose memory is measured", .low = 1,
          .high = 1 << 30, .default_text = "none"),
    COUNT("slots", "N", load_options, slots, "as in bochner serve", .low = 1, .high = 1 << 20),
    COUNT("context", "N", load_options, context, "as in bochner serve", .low = 2, .high = 1 << 30),
    CHOICE("weights", "HOW", load_options, weights, BO_ENUM_STORAGE, "as in bochner serve",
           .without = 1u << BO_STORAGE_FLOAT8, .initial = "float32"),
    PRECISION(load_options, .traits = 0),
    END_OF_OPTIONS,
};

const cli_usage bench_serve_usage = {
    .command = "bench serve",
    .synopsis = "DIR|--url URL [options]",
    .about =
        "Starts bochner serve with the model in DIR and measures it by HTTP: tokens/s, time to first token and time "
        "between tokens by number of clients; a long prompt that is sent again; memory per idle conversation. With "
        "--url it measures any server with the same API.",
    .examples = "  bochner bench serve stories --clients 1,16 --threads 2\n"
                "  bochner bench serve --url http://127.0.0.1:8080 --pid 4711\n",
    .groups = {{rows, 0}},
    .short_help = {"clients", "requests", "prompt-tokens", "tokens", "only", "long", "conversations", "url", "pid",
                   "slots", "weights", "chat", "threads", "json"},
};

int bench_serve(int argc, char **argv)
{
    load_options o = {0};
    o.run.argument = &o.directory;
    return bench_command(&bench_serve_usage, argc, argv, &o.run, measure, &o);
}
