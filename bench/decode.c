/* bochner bench decode: reading and continuing a text with a pretrained model, compared with llama2.c in the same run.
 *
 * llama2.c prints the rate of all tokens after the first. It reads a prompt token by token, so a prompt longer than the
 * requested number of tokens (-n) measures reading, and an empty prompt at temperature 0 measures greedy decoding. The
 * programs and Bochner's sessions process the same number of tokens at the same positions. They alternate, so that
 * other load on the host affects all of them. */
#include "device/device.h"
#include "../cli/shared/hash.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_REPEATS = 99, MAX_PROGRAMS = 8, THREADS = 2, KINDS = 4, PATH = 1024 };

typedef struct decode_options {
    cli_given was_given;
    bench_run run;
    const char *model, *tokenizer;
    const char *programs[2], *models[2]; /* llama2.c: float32 and int8 */
    size_t tokens, repeats;
    bo_precision precision;
    device_options device;
    size_t layers, width, heads, vocab, sequences; /* on a device */
    const char *lengths_text;
    cli_counts lengths;
} decode_options;

typedef enum decode_task { DECODE, READ, TASKS } decode_task;

static const char *const task_names[TASKS] = {"decode", "read a prompt"};

/* A weight storage, the index of llama2.c's programs of the same precision in the options (-1: no program), and the
 * samples. */
typedef struct kind {
    bo_storage storage;
    int peer;
    bo_model *model;
    double bochner[TASKS][MAX_REPEATS];             /* tokens/s */
    double peers[TASKS][MAX_PROGRAMS][MAX_REPEATS]; /* tokens/s of llama2.c's programs */
} kind;

typedef struct decode_bench {
    bench_run *run;
    const decode_options *options;
    bo_context *context; /* with the number of threads that is being measured */
    bo_sampler *sampler;
    int threads;
    size_t vocab;
    int32_t *ids;  /* the prompt: options->tokens ids */
    float *logits; /* vocab */
    kind kinds[KINDS];
} decode_bench;

static bool ok(decode_bench *bench, bo_status status)
{
    if (status != BO_OK) cli_fail(bench->run->session, "%s", bo_context_error(bench->context));
    return status == BO_OK;
}

/* ---- llama2.c ---------------------------------------------------------------------------------------------------- */

/* Copies the name of program `index` of a comma-separated list. Returns false past the last. */
static bool nth_program(const char *list, size_t index, char out[PATH])
{
    for (; list && index; index--) list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
    if (!list || !*list) return false;
    snprintf(out, PATH, "%.*s", (int)strcspn(list, ","), list);
    return true;
}

/* Runs a program and discards its standard output. Returns what it wrote to standard error, at most `size` - 1 bytes.
 */
static bool run_quietly(char *const *args, const char *threads, char *output, size_t size)
{
    int ends[2], ended = -1;
    size_t length = 0;
    if (pipe(ends) != 0) return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null_device = open("/dev/null", O_WRONLY);
        setenv("OMP_NUM_THREADS", threads, 1);
        dup2(null_device, STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execvp(args[0], args);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got; child > 0 && (got = read(ends[0], output + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    output[length] = 0;
    close(ends[0]);
    if (child > 0) waitpid(child, &ended, 0);
    return ended == 0;
}

/* Writes a prompt with more tokens than are read: a token of this text has at most about ten bytes. */
static char *long_prompt(size_t tokens)
{
    static const char sentences[] = "Once upon a time there was a little girl who had a red ball. She was happy. ";
    const size_t one = sizeof sentences - 1, times = 12 * tokens / one + 1;
    char *out = cli_allocate(times * one + 1, 1, "a prompt");
    for (size_t i = 0; i < times; i++) memcpy(out + i * one, sentences, one);
    return out;
}

/* Returns the tokens/s of a program of llama2.c. Prints a message and returns NAN on failure. */
static double time_peer(decode_bench *bench, const char *program, const char *model, decode_task task)
{
    const decode_options *o = bench->options;
    char threads[16], tokens[24], output[4096], *prompt = task == READ ? long_prompt(o->tokens) : NULL;
    snprintf(threads, sizeof threads, "%d", bench->threads);
    snprintf(tokens, sizeof tokens, "%zu", o->tokens);
    const char *args[16] = {program, model, "-t", "0", "-n", tokens};
    size_t count = 6;
    if (o->tokenizer) args[count++] = "-z", args[count++] = o->tokenizer;
    if (prompt) args[count++] = "-i", args[count++] = prompt;
    const bool done = run_quietly((char *const *)(uintptr_t)args, threads, output, sizeof output);
    const char *rate = strstr(output, "achieved tok/s: ");
    if (!done || !rate) cli_fail(bench->run->session, "%s: it printed no rate but: %.300s", program, output);
    free(prompt);
    return done && rate ? strtod(rate + strlen("achieved tok/s: "), NULL) : NAN;
}

/* ---- Bochner's sessions
 * ------------------------------------------------------------------------------------------------ */

static bool time_decoding(decode_bench *bench, bo_session *session, double *rate)
{
    const size_t tokens = bench->options->tokens;
    int32_t id = bench->ids[0];
    double start = 0;
    for (size_t i = 0; i < tokens; i++) {
        if (!ok(bench, bo_session_feed(bench->context, session, &id, 1, bench->logits))) return false;
        id = bo_sampler_next(bench->sampler, bench->logits, bench->vocab);
        if (i == 0) start = cli_now(); /* as in llama2.c, the first token is a warmup */
    }
    *rate = (double)(tokens - 1) / (cli_now() - start);
    return true;
}

static bool time_reading(decode_bench *bench, bo_session *session, double *rate)
{
    const size_t tokens = bench->options->tokens;
    double start = cli_now();
    if (!ok(bench, bo_session_feed(bench->context, session, bench->ids, tokens, bench->logits))) return false;
    *rate = (double)tokens / (cli_now() - start);
    return true;
}

static bool time_bochner(decode_bench *bench, const bo_model *model, decode_task task, double *rate)
{
    bo_session *session;
    const bo_session_desc desc = {.capacity = bench->options->tokens};
    if (!ok(bench, bo_session_create(bench->context, model, &desc, &session))) return false;
    bool done = (task == READ ? time_reading : time_decoding)(bench, session, rate);
    bo_session_destroy(session);
    return done;
}

/* ---- all kinds with one number of threads ------------------------------------------------------------------------ */

static bool open_kinds(decode_bench *bench)
{
    static const bo_storage storages[KINDS] = {BO_STORAGE_FLOAT32, BO_STORAGE_INT8, BO_STORAGE_BFLOAT16,
                                               BO_STORAGE_INT4};
    const bo_context_desc desc = {.threads = bench->threads, .precision = bench->options->precision};
    if (bo_context_create(&desc, &bench->context) != BO_OK) {
        cli_fail(bench->run->session, "a context of %d threads cannot be created", bench->threads);
        return false;
    }
    bool done = ok(bench, bo_sampler_create(bench->context, &(bo_sampler_desc){.greedy = true}, &bench->sampler));
    for (size_t k = 0; k < KINDS && done; k++) {
        kind *it = &bench->kinds[k];
        *it = (kind){.storage = storages[k], .peer = k < 2 && bench->options->programs[k] ? (int)k : -1};
        done =
            ok(bench, bo_model_load(bench->context, &(bo_source){.path = bench->options->model}, NULL, &it->model)) &&
            ok(bench, bo_model_set_storage(bench->context, it->model, it->storage));
    }
    if (!done) return false;
    bench->vocab = bo_model_describe(bench->kinds[0].model)->vocab;
    bench->logits = cli_allocate(bench->vocab, sizeof *bench->logits, "logits");
    bench->ids = cli_allocate(bench->options->tokens, sizeof *bench->ids, "tokens");
    bench->ids[0] = 1; /* llama2.c starts with it */
    for (size_t i = 1; i < bench->options->tokens; i++) bench->ids[i] = (int32_t)(cli_hash(1, i) % bench->vocab);
    return true;
}

static void close_kinds(decode_bench *bench)
{
    for (size_t k = 0; k < KINDS; k++) bo_model_destroy(bench->kinds[k].model);
    bo_sampler_destroy(bench->sampler);
    bo_context_destroy(bench->context);
    free(bench->logits);
    free(bench->ids);
}

/* One sample of every program and every storage. */
static bool measure_turn(decode_bench *bench, size_t turn)
{
    for (decode_task task = 0; task < TASKS; task++)
        for (size_t k = 0; k < KINDS; k++) {
            kind *it = &bench->kinds[k];
            const char *list = it->peer < 0 ? NULL : bench->options->programs[it->peer];
            char program[PATH];
            for (size_t p = 0; p < MAX_PROGRAMS && nth_program(list, p, program); p++) {
                it->peers[task][p][turn] = time_peer(bench, program, bench->options->models[it->peer], task);
                if (isnan(it->peers[task][p][turn])) return false;
            }
            if (!time_bochner(bench, it->model, task, &it->bochner[task][turn]) || cli_interrupted()) return false;
        }
    return true;
}

/* The median and the best of the repeats. */
typedef struct rates {
    double median, best;
} rates;

static rates rates_of(double *samples, size_t count)
{
    const double median = bench_median(samples, count);
    return (rates){.median = median, .best = samples[count - 1]}; /* sorted now */
}

/* The rates of the program with the best median, whose name is written to `name`. */
static rates fastest_peer(decode_bench *bench, kind *it, decode_task task, char name[PATH])
{
    char program[PATH];
    rates best = {0};
    for (size_t p = 0; p < MAX_PROGRAMS && nth_program(bench->options->programs[it->peer], p, program); p++) {
        rates found = rates_of(it->peers[task][p], bench->options->repeats);
        if (found.median <= best.median) continue;
        best = found;
        snprintf(name, PATH, "%s", strrchr(program, '/') ? strrchr(program, '/') + 1 : program);
    }
    return best;
}

static void report_task(decode_bench *bench, decode_task task)
{
    static const double goals[TASKS][THREADS] = {{1.3, 1.1}, {3, 3}};
    const char *plural = bench->threads > 1 ? "s" : "";
    double plain = 0;
    for (size_t k = 0; k < KINDS; k++) {
        kind *it = &bench->kinds[k];
        const char *storage = bo_enum_name(BO_ENUM_STORAGE, it->storage);
        char name[96], peer[PATH] = "";
        rates bochner_rates = rates_of(it->bochner[task], bench->options->repeats), peer_rates;
        if (k == 0) plain = bochner_rates.median;
        snprintf(name, sizeof name, "%s, %s, %d thread%s", task_names[task], storage, bench->threads, plural);
        bench_add(bench->run, name, bochner_rates.median, "tokens/s", NAN, false,
                  "%zu tokens; %s of weights; %.2f x float32 weights; %s products", bench->options->tokens,
                  cli_bytes((double)bo_model_report(it->model)->bytes).s, bochner_rates.median / plain,
                  bo_enum_name(BO_ENUM_PRECISION, bench->options->precision));
        if (it->peer < 0) continue;
        peer_rates = fastest_peer(bench, it, task, peer);
        snprintf(name, sizeof name, "%s, %s, %d thread%s / llama2.c", task_names[task], storage, bench->threads,
                 plural);
        bench_add(bench->run, name, bochner_rates.median / peer_rates.median, "x", goals[task][bench->threads - 1],
                  false, "medians of %zu: %.1f and %.1f tokens/s (%.60s); best: %.1f and %.1f, %.2f x",
                  bench->options->repeats, bochner_rates.median, peer_rates.median, peer, bochner_rates.best,
                  peer_rates.best, bochner_rates.best / peer_rates.best);
    }
}

static bool measure_threads(decode_bench *bench)
{
    bool done = open_kinds(bench);
    for (size_t turn = 0; turn < bench->options->repeats && done; turn++) done = measure_turn(bench, turn);
    for (decode_task task = 0; task < TASKS && done; task++) report_task(bench, task);
    close_kinds(bench);
    return done;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int measure_device(bench_run *run, decode_options *o)
{
    if (!cli_read_counts("bench decode", "lengths", o->lengths_text, 1, (size_t)1 << 24, &o->lengths))
        return CLI_USAGE_ERROR;
    return device_decode(run, &(device_decode_options){.device = &o->device,
                                                       .layers = o->layers,
                                                       .width = o->width,
                                                       .heads = o->heads,
                                                       .vocab = o->vocab,
                                                       .sequences = o->sequences,
                                                       .repeats = o->repeats,
                                                       .lengths = &o->lengths,
                                                       .precision = DEVICE_PRECISION(o)});
}

static int measure(bench_run *run, void *user)
{
    decode_options *o = user;
    if (device_requested(&o->device)) return measure_device(run, o);
    if (!o->model) return cli_usage_error("bench decode", "--model is missing: the directory of a pretrained model");
    for (size_t i = 0; i < 2; i++)
        if (o->programs[i] && !o->models[i])
            return cli_usage_error("bench decode", "--llama2c%s needs --llama2c%s-model", i ? "-int8" : "",
                                   i ? "-int8" : "");
    bool done = true;
    for (int threads = 1; threads <= THREADS && done; threads++) {
        decode_bench *bench = cli_allocate(1, sizeof *bench, "samples");
        *bench = (decode_bench){.run = run, .options = o, .threads = threads};
        done = measure_threads(bench);
        free(bench);
    }
    return done ? CLI_DONE : CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Model"),
    TEXT("model", "DIR", decode_options, model, "directory of a pretrained model"),
    COUNT("tokens", "N", decode_options, tokens, "tokens of a prompt, and tokens that are decoded", .low = 2,
          .high = 1 << 20, .initial = "200"),
    COUNT("repeats", "N", decode_options, repeats, "number of measurements; medians are reported", .low = 1,
          .high = MAX_REPEATS, .initial = "5"),
    PRECISION(decode_options, .traits = 0),
    SECTION("Model on a GPU"),
    COUNT("layers", "N", decode_options, layers, "number of layers", .low = 1, .high = 1024, .initial = "12"),
    COUNT("width", "N", decode_options, width, "width of the model", .low = 8, .high = 1 << 16, .initial = "768"),
    COUNT("heads", "N", decode_options, heads, "attention heads", .low = 1, .high = 1024, .initial = "12"),
    COUNT("vocab", "N", decode_options, vocab, "vocabulary size", .low = 256, .high = 1 << 24, .initial = "50257"),
    COUNT("sequences", "N", decode_options, sequences, "sequences that are decoded together", .low = 1, .high = 1 << 16,
          .initial = "64"),
    TEXT("lengths", "LIST", decode_options, lengths_text, "numbers of tokens that are read before decoding is timed",
         .initial = "1024,32768"),
    SECTION("Comparison"),
    TEXT("llama2c", "FILES", decode_options, programs[0],
         "programs built from llama2.c's run.c, separated by commas; the fastest counts", .default_text = "none"),
    TEXT("llama2c-model", "FILE", decode_options, models[0], "the same model in llama2.c's format",
         .default_text = "none"),
    TEXT("llama2c-int8", "FILES", decode_options, programs[1], "programs built from llama2.c's runq.c",
         .default_text = "none"),
    TEXT("llama2c-int8-model", "FILE", decode_options, models[1], "the same model in llama2.c's int8 format",
         .default_text = "none"),
    TEXT("llama2c-tokenizer", "FILE", decode_options, tokenizer, "llama2.c's tokenizer.bin",
         .default_text = "tokenizer.bin"),
    END_OF_OPTIONS,
};

const cli_usage bench_decode_usage = {
    .command = "bench decode",
    .synopsis = "--model DIR [options]   or   --device cuda [options]",
    .about = "Measures a pretrained model on one thread and on two: greedy decoding and reading a prompt, with weights "
             "as float32, bfloat16, int8 and int4. With programs built from llama2.c, the rates at equal precision are "
             "compared in the same run. With --device cuda it measures a model with random weights of the given shape "
             "on a GPU instead, with many sequences together.",
    .examples = "  bochner bench decode --model stories15M --llama2c ./run \\\n"
                "      --llama2c-model stories15M.bin --llama2c-tokenizer tokenizer.bin\n",
    .groups = {{rows, 0}, {device_rows, offsetof(decode_options, device)}},
    .short_help = {"model", "tokens", "repeats", "llama2c", "llama2c-model", "llama2c-int8", "llama2c-int8-model",
                   "llama2c-tokenizer", "json"},
};

int bench_decode(int argc, char **argv)
{
    decode_options o = {0};
    return bench_command(&bench_decode_usage, argc, argv, &o.run, measure, &o);
}
