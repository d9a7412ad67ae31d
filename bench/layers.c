/* bochner bench layers: forward and backward passes of each layer, compared with the same layer in PyTorch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bochner/network.h>
#include "bench.h"
#include "../cli/shared/hash.h"

enum { NODES = 10000, DEGREE = 10 }; /* size of the graph, as in the peer's script */

/* A single layer on `examples` inputs of `numbers` numbers each, with `outputs` outputs. The name is the one in the
 * peer's script. */
typedef struct layer_case {
    const char *name, *what;
    double goal; /* goal: times faster; NAN: no goal */
    size_t examples, numbers, outputs;
    const char *input, *layers; /* JSON */
} layer_case;

#define ARRAY(width)            "{\"kind\": \"array\", \"width\": " #width "}"
#define SEQUENCE(length, width) "{\"kind\": \"sequence\", \"length\": " #length ", \"channels\": " #width "}"
#define IMAGE(side, channels)                                                                                          \
    "{\"kind\": \"image\", \"height\": " #side ", \"width\": " #side ", \"channels\": " #channels "}"
#define LAYER(type, options)  "{\"type\": \"" type "\"" options "}"
#define PLACES(type, options) LAYER(type, options) ", {\"type\": \"flatten\"}" /* a loss has one row per example */

static const layer_case cases[] = {
    {"linear", "4096 x 512 to 512", 1.3, 4096, 512, 512, ARRAY(512), LAYER("linear", ", \"width\": 512")},
    {"features-sincos", "4096 x 128, 512 features, readout", 1.3, 4096, 128, 128, ARRAY(128),
     LAYER("random-features",
           ", \"features\": 512, \"function\": \"sincos\"") "," LAYER("linear", ", \"width\": 128, \"bias\": false")},
    {"features-relu", "4096 x 128, 512 features, readout", 1.3, 4096, 128, 128, ARRAY(128),
     LAYER("random-features",
           ", \"features\": 512, \"kernel\": \"arccos\"") "," LAYER("linear", ", \"width\": 128, \"bias\": false")},
    {"degree-3", "4096 x 256 to 256", 1.3, 4096, 256, 256, ARRAY(256),
     LAYER("degree", ", \"degree\": 3, \"width\": 256")},
    {"ssm", "8 x 2048 tokens, 256 channels, states of 16", 2, 8, 2048 * 256, 2048 * 256, SEQUENCE(2048, 256),
     PLACES("ssm", ", \"size\": 16")},
    {"conv-28x28x32", "64 images, 3 x 3 to 64 channels", 1, 64, 28 * 28 * 32, 28 * 28 * 64, IMAGE(28, 32),
     PLACES("conv", ", \"channels\": 64, \"kernel\": 3, \"padding\": \"same\"")},
    {"conv-14x14x64", "64 images, 3 x 3 to 128 channels", 1, 64, 14 * 14 * 64, 14 * 14 * 128, IMAGE(14, 64),
     PLACES("conv", ", \"channels\": 128, \"kernel\": 3, \"padding\": \"same\"")},
    {"conv-tokens", "8 x 256 tokens, causal, 9 to 256 channels", 1, 8, 256 * 256, 256 * 256, SEQUENCE(256, 256),
     PLACES("conv", ", \"channels\": 256, \"kernel\": 9, \"padding\": \"causal\"")},
    {"conv-depthwise", "8 x 2048 tokens, causal, 4, 256 channels", 1, 8, 2048 * 256, 2048 * 256, SEQUENCE(2048, 256),
     PLACES("conv", ", \"channels\": 256, \"kernel\": 4, \"padding\": \"causal\", \"depthwise\": true")},
    {"pool-max", "64 images of 28 x 28 x 64, 2 x 2", NAN, 64, 28 * 28 * 64, 14 * 14 * 64, IMAGE(28, 64),
     PLACES("pool", ", \"kind\": \"max\", \"kernel\": 2")},
    {"batch-norm", "64 images of 28 x 28 x 64", NAN, 64, 28 * 28 * 64, 28 * 28 * 64, IMAGE(28, 64),
     PLACES("batchnorm", "")},
    {"rnn", "16 x 256 tokens, 128 to 128", 1, 16, 256 * 128, 256 * 128, SEQUENCE(256, 128),
     PLACES("rnn", ", \"width\": 128")},
    {"gru", "16 x 256 tokens, 128 to 128", 1, 16, 256 * 128, 256 * 128, SEQUENCE(256, 128),
     PLACES("gru", ", \"width\": 128")},
    {"lstm", "16 x 256 tokens, 128 to 128", 1, 16, 256 * 128, 256 * 128, SEQUENCE(256, 128),
     PLACES("lstm", ", \"width\": 128")},
    {"lstm-512", "16 x 128 tokens, 512 to 512", 1, 16, 128 * 512, 128 * 512, SEQUENCE(128, 512),
     PLACES("lstm", ", \"width\": 512")},
    {"graph-mean", "10,000 nodes, 10 neighbors each, 128 columns", NAN, NODES, 128, 128,
     "{\"kind\": \"graph\", \"width\": 128}", LAYER("graph", ", \"aggregate\": \"mean\"")},
};

static const char *case_name(const void *unused, size_t index)
{
    (void)unused;
    return cases[index].name;
}

typedef struct layers_options {
    cli_given was_given;
    bench_run run;
    size_t repeats;
} layers_options;

typedef struct layers_bench {
    bench_run *run;
    size_t repeats;
} layers_bench;

/* ---- random examples --------------------------------------------------------------------------------------------- */

/* Draws DEGREE random neighbors for each node. */
static void draw_graph(uint64_t seed, int32_t *first, int32_t *neighbors)
{
    for (size_t i = 0; i <= NODES; i++) first[i] = (int32_t)(i * DEGREE);
    for (size_t e = 0; e < (size_t)NODES * DEGREE; e++) neighbors[e] = (int32_t)(cli_hash(seed, e) % NODES);
}

/* The contents of the input are ignored: bo_description_time fills it with random numbers. */
static bool time_case(layers_bench *bench, const layer_case *c, double *seconds)
{
    cli_session *session = bench->run->session;
    static int32_t first[NODES + 1], neighbors[NODES * DEGREE];
    char model[1024];
    bo_examples *examples = NULL;
    bo_examples_arrays arrays = {.rows = c->examples, .dim = c->numbers, .targets = c->outputs};
    float *x = calloc(c->examples * c->numbers, sizeof *x);
    double *y = calloc(c->examples * c->outputs, sizeof *y);
    snprintf(model, sizeof model, "{\"input\": %s, \"layers\": [%s], \"loss\": \"mse\"}", c->input, c->layers);
    arrays.x = x, arrays.y = y;
    if (strstr(c->input, "graph")) {
        draw_graph(session->common.seed, first, neighbors);
        arrays.edges = NODES * DEGREE, arrays.first = first, arrays.neighbors = neighbors;
    }
    bo_status status = x && y ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = bo_examples_create(session->context, &arrays, &examples);
    const bo_description desc = {.text = model, .where = c->name, .examples = examples, .seed = 1};
    if (status == BO_OK) status = bo_description_time(session->context, &desc, bench->repeats, seconds, NULL);
    if (status != BO_OK) cli_fail_status(session, status);
    bo_examples_destroy(examples);
    free(x);
    free(y);
    return status == BO_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* For PyTorch, the best median in float32 counts; for Bochner, the mean of two medians, one before and one after
 * PyTorch. */
static bool compare(layers_bench *bench, const layer_case *c)
{
    double before, after;
    char repeats[32], name[96];
    snprintf(repeats, sizeof repeats, "%zu", bench->repeats);
    snprintf(name, sizeof name, "%s, times faster than PyTorch", c->name);
    if (!time_case(bench, c, &before)) return false;
    const char *arguments[] = {c->name, repeats, NULL};
    char *json = bench_peer(bench->run, &bench_torch, "layers_torch.py", arguments);
    const double peer_seconds = bench_json_number(json, "seconds"), threads = bench_json_number(json, "threads");
    const double best = bench_json_number(json, "best_seconds");
    char variant[64];
    bench_json_text(json, "best_variant", variant, sizeof variant);
    free(json);
    if (isnan(peer_seconds)) {
        snprintf(name, sizeof name, "%s, forward and backward", c->name);
        bench_add(bench->run, name, 1e3 * before, "ms", NAN, false, "%s", c->what);
        return true;
    }
    if (!time_case(bench, c, &after)) return false;
    const double bochner_seconds = (before + after) / 2;
    bench_add(bench->run, name, peer_seconds / bochner_seconds, "x", c->goal, false,
              "%s: %.4g ms, PyTorch in float32 %.4g ms (threads: %.0f), at its best %.4g ms (%s)", c->what,
              1e3 * bochner_seconds, 1e3 * peer_seconds, threads, 1e3 * best, variant);
    return true;
}

static int measure(bench_run *run, void *user)
{
    layers_bench bench = {run, ((const layers_options *)user)->repeats};
    if (!bench_parts_known("bench layers", run->only, CLI_COUNT_OF(cases), case_name)) return CLI_USAGE_ERROR;
    bool ok = bench_gemm(run);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(cases); i++)
        if (bench_selected(run, cases[i].name)) ok = compare(&bench, &cases[i]) && !cli_interrupted();
    if (ok) return CLI_DONE;
    return CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Measuring"),
    COUNT("gemm", "N", layers_options, run.gemm, "size N of the reference matrix product, N x N x N", .low = 1,
          .high = 32768, .default_text = "2048"),
    TEXT("only", "LAYERS", layers_options, run.only,
         "layers to measure: linear, features-sincos, features-relu, degree-3, ssm, conv-28x28x32, "
         "conv-14x14x64, conv-tokens, conv-depthwise, pool-max, batch-norm, rnn, gru, lstm, lstm-512, "
         "graph-mean",
         .default_text = "all"),
    COUNT("repeats", "N", layers_options, repeats, "number of runs; medians are reported", .low = 1, .high = 99,
          .initial = "9"),
    SECTION("Comparison"),
    TEXT("peers", "DIR", layers_options, run.peers, "directory with the comparison scripts", .initial = "bench/peers"),
    TEXT("python", "FILE", layers_options, run.python, "Python interpreter with PyTorch", .default_text = "python3"),
    END_OF_OPTIONS,
};

const cli_usage bench_layers_usage = {
    .command = "bench layers",
    .synopsis = "[options]",
    .about = "Measures the forward and backward pass of each layer, with the gradients of input and weights, "
             "and compares it with PyTorch.",
    .examples = "  bochner bench layers --only ssm,lstm --repeats 5\n",
    .groups = {{rows, 0}},
};

int bench_layers(int argc, char **argv)
{
    layers_options o = {0};
    return bench_command(&bench_layers_usage, argc, argv, &o.run, measure, &o);
}
