/* bochner bench train: speed of training as ratios to large matrix products and to PyTorch; linear attention beside exact
 * at a long context; time per token of decoding by length, and against memory's bandwidth. */
#include "train.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    bool (*measure)(train_bench *bench);
} parts[] = {{"step", train_step_part}, {"length", train_length_part}, {"decode", train_decode_part}};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

bool train_ok(train_bench *bench, bo_status status)
{
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK;
}

bo_model_desc train_model(const train_bench *bench, const char *attention)
{
    const train_options *o = bench->options;
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .heads = o->heads, .context = o->context};
    desc.vocab = o->vocab;
    desc.seed = bench->run->session->common.seed;
    bo_attention_preset(attention, &desc.attention);
    return desc;
}

/* ---- a corpus of noise ------------------------------------------------------------------------------------------ */

/* Letters by chance, twice as many as the longest batch needs; the file is gone as soon as it is open. */
static bool open_corpus(train_bench *bench)
{
    const train_options *o = bench->options;
    const char *folder = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/bochner-bench-XXXXXX", folder ? folder : "/tmp");
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file) {
        cli_fail(bench->run->session, "%s: no room for a corpus of noise", path);
        return false;
    }
    size_t bytes = 2 * (o->batch * o->context + o->tokens) + 4096;
    for (size_t i = 0; i < bytes; i++) fputc('a' + (int)(bo_hash(bench->run->session->common.seed, i) % 26), file);
    bool written = fclose(file) == 0;
    const char *paths[] = {path};
    bo_corpus_desc desc = {.paths = paths, .path_count = 1};
    bool ok = train_ok(bench, bo_tokenizer_bytes(bench->context, &bench->tokenizer));
    desc.tokenizer = bench->tokenizer;
    ok = ok && train_ok(bench, bo_corpus_open(bench->context, &desc, &bench->corpus));
    unlink(path);
    return ok && written;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int measure(bench_run *run, void *given)
{
    train_options *o = given;
    train_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench train", run->only, CLI_COUNT_OF(parts), part_name)) return CLI_WRONG_USE;
    if (!bench_read_list("bench train", "lengths", o->lengths_text, 16, (size_t)1 << 28, &o->lengths))
        return CLI_WRONG_USE;
    bool ok = bench_gemm(run) && open_corpus(&bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_wanted(run, parts[i].name)) ok = parts[i].measure(&bench);
    bo_corpus_close(bench.corpus);
    bo_tokenizer_destroy(bench.tokenizer);
    if (ok) return CLI_DONE;
    return cli_interrupted() ? cli_interrupted_status() : CLI_FAILED;
}

int bench_train(int argc, char **argv)
{
    bench_run bench = {.peers = "bench/peers"};
    train_options o = {.layers = 6, .width = 384, .heads = 6, .context = 1024, .vocab = 8192, .batch = 2};
    o.tokens = 16384, o.decode_layers = 5, o.decode_width = 768, o.repeats = 5;
    o.lengths_text = "1024,16384,262144,1048576";
    const cli_option options[] = {
        {CLI_SECTION, "Model", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "layers", "N", "6 unless given", &o.layers, NULL, 1, 1024},
        {CLI_COUNT, "width", "N", "384 unless given", &o.width, NULL, 8, 1 << 16},
        {CLI_COUNT, "heads", "N", "6 unless given", &o.heads, NULL, 1, 1024},
        {CLI_COUNT, "context", "N", "tokens of a sequence; 1024 unless given", &o.context, NULL, 16, 1 << 24},
        {CLI_COUNT, "vocab", "N", "8192 unless given", &o.vocab, NULL, 256, 1 << 24},
        {CLI_COUNT, "batch", "N", "sequences of a step; 2 unless given", &o.batch, NULL, 1, 1 << 16},
        {CLI_SECTION, "Measuring", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "only", "PARTS", "of step,length,decode; all unless given", &bench.only, NULL, 0, 0},
        {CLI_COUNT, "gemm", "N", "rows of the matrices of the yardstick; 2048 unless given", &bench.gemm, NULL, 1,
         32768},
        {CLI_COUNT, "tokens", "N", "the context of length; 16384 unless given", &o.tokens, NULL, 32, 1 << 24},
        {CLI_TEXT, "lengths", "LIST", "tokens read before decoding is timed; 1024,16384,262144,1048576 unless given",
         &o.lengths_text, NULL, 0, 0},
        {CLI_COUNT, "decode-layers", "N", "of the model whose decoding is compared with memory; 5 unless given",
         &o.decode_layers, NULL, 1, 1024},
        {CLI_COUNT, "decode-width", "N", "likewise; 768 unless given", &o.decode_width, NULL, 64, 1 << 16},
        {CLI_COUNT, "repeats", "N", "medians over so many steps; 5 unless given", &o.repeats, NULL, 1, 99},
        {CLI_SECTION, "Peers", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "peers", "FOLDER", "with the peers' scripts; bench/peers unless given", &bench.peers, NULL, 0, 0},
        {CLI_TEXT, "python", "FILE", "a Python that has PyTorch; python3 unless given", &bench.python, NULL, 0, 0},
    };
    const cli_usage usage = {
        "bench train",
        "[options]",
        "Measures training: the rate of a step with exact attention (AdamW, GELU, LayerNorm, learned positions) "
        "against "
        "large matrix products and against PyTorch; a step with linear attention beside exact at a long context, with "
        "checkpointing, and its memory; time per token of decoding by the length of what was read, and against "
        "memory's "
        "bandwidth.",
        "  bochner bench train --only step --repeats 3\n",
        options,
        CLI_COUNT_OF(options)};
    return bench_command(&usage, argc, argv, &bench, measure, &o);
}
