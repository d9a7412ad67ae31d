/* bochner serve: an HTTP server for a language model. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/streams.h"
#include "../model/extrapolation.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include "../../src/serve/serve.h"
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct serve_options {
    cli_given was_given;
    const char *host, *key_file, *cache_directory, *origin;
    size_t port, slots, context, queue, connections, client_connections, max_body, max_prompt, cache_bytes, disk_bytes;
    double timeout, grace;
    bool no_key;
    bo_storage weights;
    const char *device;
    bo_precision precision;
} serve_options;

/* API keys, one per line. */
typedef struct key_list {
    char *text;
    const char **items;
    size_t count;
} key_list;

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Removes whitespace around a line. */
static char *trim(char *line)
{
    line += strspn(line, " \t\r");
    size_t end = strlen(line);
    while (end > 0 && strchr(" \t\r", line[end - 1])) end--;
    line[end] = 0;
    return line;
}

static bool load_keys(cli_session *session, const char *path, key_list *keys)
{
    enum { MAX_FILE_BYTES = 1 << 20 };
    void *bytes;
    size_t size, lines = 1;
    if (!path) return true;
    const bo_status status = bo_file_load(session->context, path, MAX_FILE_BYTES, &bytes, &size);
    if (status != BO_OK) return cli_fail_status(session, status), false;
    keys->text = bytes;
    for (size_t i = 0; i < size; i++) lines += keys->text[i] == '\n';
    keys->items = cli_allocate(lines, sizeof *keys->items, "keys");
    char *rest = keys->text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        line = trim(line);
        if (line[0] && line[0] != '#') keys->items[keys->count++] = line;
    }
    if (keys->count) return true;
    cli_fail(session, "--api-key-file %s: the file has no key; write one key per line", path);
    return false;
}

static void free_keys(key_list *keys)
{
    free(keys->items);
    bo_free(keys->text);
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

static bool interrupted(void *user)
{
    (void)user;
    return cli_interrupted();
}

static size_t default_cache(void)
{
    const size_t limit = (size_t)1 << 30;
    bo_memory_bound memory;
    bo_context_memory(NULL, &memory);
    return memory.bytes / 4 < limit ? memory.bytes / 4 : limit;
}

/* If the address space is limited, threads share one heap: glibc would reserve 64 MiB per thread. */
static void share_heap(void)
{
#ifdef M_ARENA_MAX
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
#endif
}

/* Reports the memory of the server. */
static void report_memory(cli_session *session, const bo_model *model, const bo_slots_memory *m, size_t cache_bytes)
{
    cli_note(session, "Memory      %s of weights, at most %s of cached states, at most %s of workspace",
             cli_bytes((double)bo_model_report(model)->bytes).s, cli_bytes((double)cache_bytes).s,
             cli_bytes((double)m->workspace).s);
    if (m->per_token)
        cli_note(session, "Slots       %s texts at a time of at most %s tokens; a text needs %s per token, at most %s",
                 cli_count(m->slots).s, cli_count(m->tokens).s, cli_bytes((double)m->per_token).s,
                 cli_bytes((double)m->largest).s);
    else
        cli_note(session, "Slots       %s texts at a time; each needs %s", cli_count(m->slots).s,
                 cli_bytes((double)m->largest).s);
    if (m->budget / m->largest < m->slots)
        cli_note(session, "            all texts share %s (%s); a request waits until its memory is free",
                 cli_bytes((double)m->budget).s, m->source);
}

/* The first line of standard output: programs read the address from it. */
static void announce(cli_session *session, const bo_server *server, const bo_model *model, size_t cache_bytes)
{
    const bo_slots_memory *memory = bo_server_memory(server);
    size_t discarded, foreign, unowned;
    bo_server_cache_files(server, &discarded, &foreign, &unowned);
    report_memory(session, model, memory, cache_bytes);
    cli_note(session, "Server      %s; the playground is at the same address; Ctrl-C stops", bo_server_address(server));
    if (discarded)
        cli_warn(session, "%s damaged file%s of the cache directory %s removed", cli_count(discarded).s,
                 discarded == 1 ? "" : "s", discarded == 1 ? "was" : "were");
    if (foreign)
        cli_note(session, "Cache       %s file%s of other models are in the cache directory and are not used",
                 cli_count(foreign).s, foreign == 1 ? "" : "s");
    if (unowned)
        cli_note(session, "Cache       %s state%s to no API key of this server and cannot be read",
                 cli_count(unowned).s,
                 unowned == 1 ? " in the cache directory belongs" : "s in the cache directory belong");
    cli_json json = {.out = stdout, .line = true};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "listening", bo_server_address(server));
    cli_json_add_count(&json, "discarded_files", discarded);
    cli_json_add_count(&json, "unowned_states", unowned);
    cli_json_add_count(&json, "state_bytes", bo_server_state_bytes(server, 0));
    cli_json_add_count(&json, "slots", memory->slots);
    cli_json_add_count(&json, "slot_bytes", memory->largest);
    cli_json_add_count(&json, "workspace_bytes", memory->workspace);
    cli_json_end(&json);
    cli_streams_flush();
}

static int run(cli_session *session, const serve_options *o, const bo_model *model, const char *directory,
               const key_list *keys)
{
    const bo_model_desc *d = bo_model_describe(model);
    const size_t capacity = d->context < CLI_DEFAULT_MAX_CONTEXT ? d->context : CLI_DEFAULT_MAX_CONTEXT;
    const bo_server_desc desc = {.model = model,
                                 .directory = directory,
                                 .host = o->host,
                                 .port = (int)o->port,
                                 .open = o->no_key,
                                 .keys = keys->items,
                                 .key_count = keys->count,
                                 .origin = o->origin,
                                 .slots = o->slots,
                                 .capacity = CLI_GIVEN(o, context) ? o->context : capacity,
                                 .queue = o->queue,
                                 .connections = o->connections,
                                 .client_connections =
                                     CLI_GIVEN(o, client_connections) ? o->client_connections : o->connections / 2,
                                 .max_body = o->max_body,
                                 .max_prompt = o->max_prompt,
                                 .timeout = o->timeout,
                                 .grace = o->grace,
                                 .cache_bytes = CLI_GIVEN(o, cache_bytes) ? o->cache_bytes : default_cache(),
                                 .disk_bytes = o->disk_bytes,
                                 .cache_directory = o->cache_directory,
                                 .log = session->common.quiet ? NULL : stdout,
                                 .stop = interrupted};
    bo_server *server;
    share_heap();
    bo_status status = bo_server_create(session->context, &desc, &server);
    if (status != BO_OK) return cli_fail_status(session, status);
    if (CLI_GIVEN(o, context)) cli_report_extrapolation(session, model, o->context);
    cli_signals_saving();     /* after a signal, running requests are finished */
    signal(SIGPIPE, SIG_IGN); /* a closed log reader does not stop the server */
    announce(session, server, model, desc.cache_bytes);
    status = bo_server_run(session->context, server);
    bo_server_destroy(server);
    return status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
}

static int serve_directory(cli_session *session, const serve_options *o, const char *directory)
{
    key_list keys = {0};
    bo_model *model = NULL;
    int result = CLI_FAILED;
    if (!cli_is_no_network(session, directory)) return CLI_FAILED;
    const bo_status status = bo_model_load(session->context, &(bo_source){.path = directory},
                                           &(bo_model_load_desc){.storage = o->weights}, &model);
    if (status != BO_OK) return cli_fail_model(session, directory, status);
    const bo_model_task task = bo_model_describe(model)->task;
    if (task != BO_MODEL_TASK_LANGUAGE)
        result = cli_fail_task(session, directory, task);
    else if (load_keys(session, o->key_file, &keys))
        result = run(session, o, model, directory, &keys);
    free_keys(&keys);
    bo_model_destroy(model);
    return result;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int serve(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const serve_options *o = options;
    if (arguments->count != 1)
        return cli_usage_error("serve", "expected one model directory, found %zu arguments", arguments->count);
    cli_session session;
    if (!cli_session_open_in(&session, "serve", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    const int status = serve_directory(&session, o, arguments->items[0]);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Address"),
    TEXT("host", "ADDRESS", serve_options, host, "address to listen on; 0.0.0.0: all addresses of this host",
         .initial = "127.0.0.1"),
    COUNT("port", "N", serve_options, port, "TCP port; 0: chosen by the system", .high = 65535, .initial = "8080"),
    TEXT("api-key-file", "FILE", serve_options, key_file,
         "file of API keys, one per line; requests must send one as Authorization: Bearer KEY"),
    FLAG("no-key", serve_options, no_key, "serve without API keys on an address that other hosts can reach"),
    TEXT("allow-origin", "URL", serve_options, origin,
         "allowed origin of browser requests (CORS), such as https://example.org; *: all origins"),
    SECTION("Work"),
    COUNT("slots", "N", serve_options, slots, "texts that are generated concurrently", .low = 1, .high = 4096,
          .default_text = "64, or fewer if the memory limit is low"),
    COUNT("queue", "N", serve_options, queue, "texts that may wait for a slot; additional requests are refused",
          .low = 1, .high = 1 << 20, .initial = "2048"),
    COUNT("context", "N", serve_options, context,
          "softmax attention: maximum tokens per conversation, which determine the memory of a slot", .low = 1,
          .high = 1 << 30, .default_text = "the context of the model, at most " CLI_DIGITS(CLI_DEFAULT_MAX_CONTEXT)),
    SECTION("States"),
    BYTES("cache-bytes", "B", serve_options, cache_bytes, "memory for cached states of prompts and conversations",
          .default_text = "1G, but at most a quarter of the memory"),
    TEXT("cache-dir", "DIR", serve_options, cache_directory, "directory for cached states, which survive a restart"),
    BYTES("disk-bytes", "B", serve_options, disk_bytes, "maximum total size of the files in --cache-dir",
          .initial = "16G", .low = 1),
    SECTION("Limits"),
    BYTES("max-body", "B", serve_options, max_body, "maximum size of a request body", .initial = "64M", .low = 1),
    COUNT("max-prompt", "N", serve_options, max_prompt, "maximum tokens of a prompt", .low = 1, .high = 1 << 30,
          .initial = "1048576"),
    COUNT("connections", "N", serve_options, connections, "maximum number of open connections", .low = 4,
          .high = 1 << 20, .initial = "1024"),
    COUNT("client-connections", "N", serve_options, client_connections,
          "maximum number of open connections per client address; behind a proxy, all clients share its address",
          .low = 1, .high = 1 << 20, .default_text = "half of --connections"),
    REAL("timeout", "S", serve_options, timeout, "seconds after which a request is stopped", .low = 0.001, .high = 1e9,
         .initial = "600"),
    REAL("grace", "S", serve_options, grace,
         "seconds to finish requests after SIGTERM; remaining requests are stopped, and their states are saved",
         .low = 0, .high = 1e9, .initial = "30"),
    SECTION("Model"),
    DEVICE(serve_options),
    PRECISION(serve_options, .traits = 0),
    CHOICE("weights", "HOW", serve_options, weights, BO_ENUM_STORAGE,
           "storage of the weights in memory; fewer bytes make generation faster", .without = 1u << BO_STORAGE_FLOAT8,
           .initial = "float32"),
    END_OF_OPTIONS,
};

const cli_usage cli_serve_usage = {
    .command = "serve",
    .synopsis = "DIR [options]",
    .about = "Serves a language model over HTTP, with an OpenAI-compatible API and a playground for browsers at the "
             "same address. DIR is a directory written by bochner train, linearize or convert, or a Hugging Face model "
             "directory. Requests are batched. States of prompts are cached, so that repeated prefixes are not read "
             "again; with attention with features they have a fixed size. Standard output receives one line of JSON "
             "with the address, then one line per request.",
    .examples = "  bochner serve model\n"
                "  bochner serve model --port 9000 --cache-dir states --cache-bytes 4G\n"
                "  bochner serve model --host 0.0.0.0 --api-key-file keys.txt\n"
                "  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once\", \"max_tokens\": 20}'\n",
    .groups = {{rows, 0}},
    .short_help = {"host", "port", "api-key-file", "slots", "cache-bytes", "cache-dir", "context", "weights",
                   "precision", "device", "threads"},
};

int cli_serve(int argc, char **argv)
{
    serve_options o = {0};
    return cli_command(&cli_serve_usage, argc, argv, &o, serve);
}
