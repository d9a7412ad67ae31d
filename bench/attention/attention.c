/* bochner bench attention: attention speed relative to small matrix products, memory bandwidth and PyTorch; the
 * crossover length of linear and softmax attention; memory by counting allocations; decoding; all attention kinds;
 * gates; proposals of the frequencies. */
#include "attention.h"
#include "../../cli/common/plot.h"
#include "../reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool (*measure)(attention_bench *bench);
} parts[] = {
    {"forward", attention_forward_part}, {"backward", attention_backward_part},
    {"softmax", attention_exact_part},   {"precision", attention_precision_part},
    {"peer", attention_peer_part},       {"crossover", attention_crossover_part},
    {"flat", attention_flat_part},       {"memory", attention_memory_part},
    {"decode", attention_decode_part},   {"family", attention_family_part},
    {"gates", attention_gates_part},     {"laws", attention_laws_part},
};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

static bool print_reference(attention_bench *bench)
{
    double gflops;
    const char *implementation;
    if (!attention_small_gemm(bench, &gflops, &implementation)) return false;
    bench_add(bench->run, "small-GEMM rate", gflops, "GFLOP/s", NAN, false,
              "64 x 64 x 128 float32 in cache, %s, on %d threads at once; measured again before and after each result",
              implementation, bo_context_describe(bench->context)->threads);
    return true;
}

/* Checks the path of a plot, and that --only includes the part that it shows. */
static int check_plot(bench_run *run, const char *option, const char *path, const char *part, const char *other)
{
    if (!path) return CLI_DONE;
    if (!cli_plot_known(path))
        return cli_usage_error("bench attention", "--%s: expected a file ending in .svg, .png or .pdf, found '%s'",
                               option, path);
    if (!bench_selected(run, part) && !bench_selected(run, other))
        return cli_usage_error("bench attention", "--%s shows the part %s, which --only leaves out", option, part);
    return cli_can_write(run->session, path) ? CLI_DONE : CLI_FAILED;
}

static int measure_device(bench_run *run, const attention_options *o)
{
    return device_attention(run, &(device_attention_options){.device = &o->device,
                                                             .lengths = &o->lengths,
                                                             .features = &o->features,
                                                             .heads = o->heads,
                                                             .dim = o->dim,
                                                             .batch_tokens = o->batch_tokens,
                                                             .repeats = o->repeats,
                                                             .seed = run->session->common.seed,
                                                             .precision = DEVICE_PRECISION(o),
                                                             .grid = o->grid});
}

static int measure(bench_run *run, void *user)
{
    attention_options *o = user;
    attention_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench attention", run->only, CLI_COUNT_OF(parts), part_name)) return CLI_USAGE_ERROR;
    if (!cli_read_counts("bench attention", "lengths", o->lengths_text, 16, (size_t)1 << 24, &o->lengths))
        return CLI_USAGE_ERROR;
    if (!cli_read_counts("bench attention", "features", o->features_text, 2, (size_t)1 << 16, &o->features))
        return CLI_USAGE_ERROR;
    if (device_requested(&o->device)) return measure_device(run, o);
    int status = check_plot(run, "plot", o->plot, "forward", "softmax");
    if (status == CLI_DONE) status = check_plot(run, "plot-laws", o->plot_laws, "laws", "laws");
    if (status != CLI_DONE) return status;
    bench.narrow = bench_narrow_context(run);
    bool ok = bench.narrow && print_reference(&bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(run, parts[i].name)) ok = parts[i].measure(&bench);
    free(bench.noise);
    bo_context_destroy(bench.narrow);
    if (ok) return attention_plot(&bench);
    return CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Measuring"),
    TEXT("only", "PARTS", attention_options, run.only,
         "parts to measure: forward, backward, softmax, precision, peer, crossover, flat, memory, decode, family, "
         "gates, laws",
         .default_text = "all"),
    TEXT("lengths", "LIST", attention_options, lengths_text, "sequence lengths in tokens",
         .initial = "512,1024,2048,4096,8192,16384,32768,65536"),
    TEXT("features", "LIST", attention_options, features_text, "numbers of features", .initial = "128,256"),
    COUNT("tokens", "N", attention_options, tokens, "tokens of the longest sequence in the flat part", .low = 64,
          .high = 1 << 28, .initial = "1048576"),
    COUNT("sequences", "N", attention_options, sequences, "number of sequences decoded together", .low = 1,
          .high = 1 << 20, .initial = "256"),
    COUNT("repeats", "N", attention_options, repeats, "number of alternating runs; medians are reported", .low = 1,
          .high = 99, .initial = "5"),
    TEXT("plot", "FILE", attention_options, plot,
         "draw the forward time of linear and softmax attention by length: .svg, .png or .pdf"),
    TEXT("plot-laws", "FILE", attention_options, plot_laws,
         "draw the error of the output by number of features, for each distribution of the frequencies"),
    SECTION("Shape on a GPU"),
    COUNT("heads", "N", attention_options, heads, "attention heads", .low = 1, .high = 1024, .initial = "12"),
    COUNT("dim", "N", attention_options, dim, "dimensions of a head", .low = 8, .high = 1024, .initial = "64"),
    COUNT("batch-tokens", "N", attention_options, batch_tokens, "tokens of all sequences; at least one sequence",
          .low = 16, .high = 1 << 24, .initial = "65536"),
    PRECISION(attention_options, .traits = 0),
    FLAG("grid", attention_options, grid,
         "measure dimensions 32 to 256 with 32 to 512 features at equal work, relative to 64 dimensions and 128 "
         "features"),
    SECTION("Comparison"),
    TEXT("peers", "DIR", attention_options, run.peers, "directory with the comparison scripts",
         .initial = "bench/peers"),
    TEXT("python", "FILE", attention_options, run.python, "Python interpreter with PyTorch", .default_text = "python3"),
    END_OF_OPTIONS,
};

const cli_usage bench_attention_usage = {
    .command = "bench attention",
    .synopsis = "[options]",
    .about = "Measures causal attention with 8 heads of 64 dimensions: rates of forward and backward passes relative "
             "to small matrix products, softmax attention, bfloat16 products, PyTorch, the length from which linear "
             "attention is faster than softmax, time per token by length, memory, decoding with a state and with a KV "
             "cache, all kinds of attention, gates, and the error for each distribution of the frequencies. With "
             "--device cuda it measures kinds of attention on a GPU instead, forward and with all gradients, relative "
             "to a copy and to a matrix product on the GPU.",
    .examples = "  bochner bench attention --only forward,softmax --lengths 512 --features 128 --repeats 1\n",
    .groups = {{rows, 0}, {device_rows, offsetof(attention_options, device)}},
    .short_help = {"only", "lengths", "features", "repeats", "plot", "peers", "python", "json"},
};

int bench_attention(int argc, char **argv)
{
    attention_options o = {0};
    return bench_command(&bench_attention_usage, argc, argv, &o.run, measure, &o);
}
