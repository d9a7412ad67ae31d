/* bochner bench attention: speed of attention as ratios to small matrix products, to memory's bandwidth and to
 * PyTorch; the length where linear overtakes exact; memory by counting; decoding; the family, gates and laws. */
#include "attention.h"
#include "../../cli/common/plot.h"
#include "../yardstick.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool (*measure)(attention_bench *bench);
} parts[] = {
    {"forward", attention_forward_part}, {"backward", attention_backward_part},   {"exact", attention_exact_part},
    {"peer", attention_peer_part},       {"crossover", attention_crossover_part}, {"flat", attention_flat_part},
    {"memory", attention_memory_part},   {"decode", attention_decode_part},       {"family", attention_family_part},
    {"gates", attention_gates_part},     {"laws", attention_laws_part},
};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

static bool say_yardstick(attention_bench *bench)
{
    double gflops;
    const char *implementation;
    if (!attention_small_gemm(bench, &gflops, &implementation)) return false;
    bench_add(bench->run, "small-GEMM, the yardstick", gflops, "GFLOP/s", NAN, false,
              "64 x 64 x 128 float32 in cache, %s, on %d threads at once; measured again around every figure",
              implementation, bo_context_threads(bench->context));
    return true;
}

/* The picture of one part or another. */
static int check_picture(bench_run *run, const char *option, const char *path, const char *part, const char *other)
{
    if (!path) return CLI_DONE;
    if (!cli_plot_known(path))
        return cli_wrong_use("bench attention", "--%s: expected a file ending in .svg, .png or .pdf, found '%s'",
                             option, path);
    if (!bench_wanted(run, part) && !bench_wanted(run, other))
        return cli_wrong_use("bench attention", "--%s shows the part %s, which --only leaves out", option, part);
    return cli_can_write(run->session, path) ? CLI_DONE : CLI_FAILED;
}

static int measure(bench_run *run, void *given)
{
    attention_options *o = given;
    attention_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench attention", run->only, CLI_COUNT_OF(parts), part_name)) return CLI_WRONG_USE;
    if (!bench_read_list("bench attention", "lengths", o->lengths_text, 16, (size_t)1 << 24, &o->lengths))
        return CLI_WRONG_USE;
    if (!bench_read_list("bench attention", "features", o->features_text, 2, (size_t)1 << 16, &o->features))
        return CLI_WRONG_USE;
    int status = check_picture(run, "plot", o->plot, "forward", "exact");
    if (status == CLI_DONE) status = check_picture(run, "plot-laws", o->plot_laws, "laws", "laws");
    if (status != CLI_DONE) return status;
    bool ok = say_yardstick(&bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_wanted(run, parts[i].name)) ok = parts[i].measure(&bench);
    free(bench.noise);
    if (ok) return attention_plot(&bench);
    return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
}

int bench_attention(int argc, char **argv)
{
    bench_run bench = {.peers = "bench/peers"};
    attention_options o = {.lengths_text = "512,1024,2048,4096,8192,16384,32768,65536",
                           .features_text = "128,256",
                           .tokens = (size_t)1 << 20,
                           .sequences = 256,
                           .repeats = 5};
    const cli_option options[] = {
        {CLI_SECTION, "Measuring", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "only", "PARTS",
         "of forward,backward,exact,peer,crossover,flat,memory,decode,family,gates,laws; all unless given", &bench.only,
         NULL, 0, 0},
        {CLI_TEXT, "lengths", "LIST", "tokens of a sequence; 512 to 65536 by factors of two unless given",
         &o.lengths_text, NULL, 0, 0},
        {CLI_TEXT, "features", "LIST", "128,256 unless given", &o.features_text, NULL, 0, 0},
        {CLI_COUNT, "tokens", "N", "the longest sequence of flat; 1048576 unless given", &o.tokens, NULL, 64, 1 << 28},
        {CLI_COUNT, "sequences", "N", "decoded at once; 256 unless given", &o.sequences, NULL, 1, 1 << 20},
        {CLI_COUNT, "repeats", "N", "medians over so many alternating runs; 5 unless given", &o.repeats, NULL, 1, 99},
        {CLI_TEXT, "plot", "FILE", "forward time by length, linear and exact, as .svg, .png or .pdf", &o.plot, NULL, 0,
         0},
        {CLI_TEXT, "plot-laws", "FILE", "error of the output by features for each law of the frequencies, likewise",
         &o.plot_laws, NULL, 0, 0},
        {CLI_SECTION, "Peers", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "peers", "FOLDER", "with the peers' scripts; bench/peers unless given", &bench.peers, NULL, 0, 0},
        {CLI_TEXT, "python", "FILE", "a Python that has PyTorch; python3 unless given", &bench.python, NULL, 0, 0},
    };
    const cli_usage usage = {
        "bench attention",
        "[options]",
        "Measures causal attention with 8 heads of 64 dimensions: rates of forward and backward passes, features "
        "included, "
        "against small matrix products on every core; exact attention; PyTorch; the length where linear attention "
        "overtakes exact for each map; time per token by length; memory by counting; decoding against memory's "
        "bandwidth "
        "and a cache of keys and values; every kind of the family; what gates cost; the error that each law of the "
        "frequencies leaves.",
        "  bochner bench attention --only forward,exact --lengths 512 --features 128 --repeats 1\n",
        options,
        CLI_COUNT_OF(options)};
    return bench_command(&usage, argc, argv, &bench, measure, &o);
}
