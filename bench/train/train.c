/* bochner bench train: speed of training relative to large matrix products and to PyTorch; linear attention compared
 * with softmax attention at a long context; time per token of decoding by length, and relative to memory bandwidth. */
#include "train.h"
#include "../../cli/shared/hash.h"
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
    const char *message = bo_context_error(bench->context);
    if (status == BO_CANCELED)
        cli_fail_status(bench->run->session, status);
    else if (status != BO_OK)
        cli_fail(bench->run->session, "%s", *message ? message : bo_status_string(status));
    return status == BO_OK;
}

bo_model_desc train_model(const train_bench *bench, const char *attention)
{
    const train_options *o = bench->options;
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .block.heads = o->heads, .context = o->context};
    desc.vocab = o->vocab;
    desc.seed = bench->run->session->common.seed;
    bo_attention_preset(attention, &desc.block.attention);
    return desc;
}

bo_model_desc train_classic(const train_bench *bench, const char *attention)
{
    bo_model_desc desc = train_model(bench, attention);
    desc.block.mlp = BO_MLP_GELU;
    desc.block.norm = BO_NORM_LAYER;
    desc.block.positions = BO_POSITIONS_LEARNED;
    if (desc.block.attention.kind == BO_ATTENTION_SOFTMAX) desc.block.query_norm = BO_CHOICE_NO;
    return desc;
}

bo_trainer_desc train_trainer(const train_bench *bench, bo_model *model, size_t batch)
{
    return (bo_trainer_desc){.model = model,
                             .train.corpus = bench->corpus,
                             .steps = 1000,
                             .batch = batch,
                             .micro_batch = batch,
                             .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 3e-4, .clip = -1}};
}

/* ---- random corpus ----------------------------------------------------------------------------------------------- */

/* Random characters, twice the length of the longest batch. The file is removed as soon as it is open. */
bool train_open(train_bench *bench)
{
    const train_options *o = bench->options;
    const char *directory = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/bochner-bench-XXXXXX", directory ? directory : "/tmp");
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file) {
        cli_fail(bench->run->session, "%s: cannot create the temporary file", path);
        return false;
    }
    size_t bytes = 2 * (o->batch * o->context + o->tokens) + 4096;
    for (size_t i = 0; i < bytes; i++) fputc('a' + (int)(cli_hash(bench->run->session->common.seed, i) % 26), file);
    bool written = fclose(file) == 0;
    const char *paths[] = {path};
    bo_corpus_desc desc = {.paths = paths, .path_count = 1};
    bool ok = train_ok(bench, bo_tokenizer_create(bench->context, &bench->tokenizer));
    desc.tokenizer = bench->tokenizer;
    ok = ok && train_ok(bench, bo_corpus_open(bench->context, &desc, &bench->corpus));
    unlink(path);
    return ok && written;
}

void train_close(train_bench *bench)
{
    bo_corpus_close(bench->corpus);
    bo_tokenizer_destroy(bench->tokenizer);
    bench->corpus = NULL;
    bench->tokenizer = NULL;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int measure_device(bench_run *run, const train_options *o)
{
    return device_train(run, &(device_train_options){.device = &o->device,
                                                     .layers = o->layers,
                                                     .width = o->width,
                                                     .heads = o->heads,
                                                     .context = o->context,
                                                     .vocab = o->vocab,
                                                     .batch = o->batch,
                                                     .repeats = o->repeats,
                                                     .precision = DEVICE_PRECISION(o)});
}

static int measure(bench_run *run, void *user)
{
    train_options *o = user;
    train_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench train", run->only, CLI_COUNT_OF(parts), part_name)) return CLI_USAGE_ERROR;
    if (!cli_read_counts("bench train", "lengths", o->lengths_text, 16, (size_t)1 << 28, &o->lengths))
        return CLI_USAGE_ERROR;
    if (device_requested(&o->device)) return measure_device(run, o);
    bool ok = bench_gemm(run) && train_open(&bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(run, parts[i].name)) ok = parts[i].measure(&bench);
    train_close(&bench);
    if (ok) return CLI_DONE;
    return CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Model"),
    COUNT("layers", "N", train_options, layers, "number of layers", .low = 1, .high = 1024, .initial = "6"),
    COUNT("width", "N", train_options, width, "width of the model", .low = 8, .high = 1 << 16, .initial = "384"),
    COUNT("heads", "N", train_options, heads, "attention heads", .low = 1, .high = 1024, .initial = "6"),
    COUNT("context", "N", train_options, context, "tokens per sequence", .low = 16, .high = 1 << 24, .initial = "1024"),
    COUNT("vocab", "N", train_options, vocab, "vocabulary size", .low = 256, .high = 1 << 24, .initial = "8192"),
    COUNT("batch", "N", train_options, batch, "sequences per step", .low = 1, .high = 1 << 16, .initial = "2"),
    SECTION("Measuring"),
    TEXT("only", "PARTS", train_options, run.only, "parts to measure: step, length, decode", .default_text = "all"),
    COUNT("gemm", "N", train_options, run.gemm, "size N of the reference matrix product, N x N x N", .low = 1,
          .high = 32768, .default_text = "2048"),
    COUNT("tokens", "N", train_options, tokens, "tokens per sequence in the length part", .low = 32, .high = 1 << 24,
          .initial = "16384"),
    TEXT("lengths", "LIST", train_options, lengths_text, "numbers of tokens that are read before decoding is timed",
         .initial = "1024,16384,262144,1048576"),
    COUNT("decode-layers", "N", train_options, decode_layers,
          "layers of the model whose decoding is compared with the memory bandwidth", .low = 1, .high = 1024,
          .initial = "8"),
    COUNT("decode-width", "N", train_options, decode_width,
          "width of the model whose decoding is compared with the memory bandwidth", .low = 64, .high = 1 << 16,
          .initial = "1024"),
    COUNT("repeats", "N", train_options, repeats, "number of steps; medians are reported", .low = 1, .high = 99,
          .initial = "5"),
    PRECISION(train_options, .traits = 0),
    SECTION("Comparison"),
    TEXT("peers", "DIR", train_options, run.peers, "directory with the comparison scripts", .initial = "bench/peers"),
    TEXT("python", "FILE", train_options, run.python, "Python interpreter with PyTorch", .default_text = "python3"),
    END_OF_OPTIONS,
};

const cli_usage bench_train_usage = {
    .command = "bench train",
    .synopsis = "[options]",
    .about = "Measures training and decoding: the rate of a training step with softmax attention (AdamW, "
             "GELU, LayerNorm, learned positions) relative to large matrix products and to PyTorch, in float32 and "
             "with bfloat16 products; time and "
             "memory of a step with linear and with softmax attention at a long context; decoding time per "
             "token by length, and relative to the memory bandwidth. With --device cuda it measures training steps on "
             "a GPU instead, of the given shape.",
    .examples = "  bochner bench train --only step --repeats 3\n",
    .groups = {{rows, 0}, {device_rows, offsetof(train_options, device)}},
    .short_help = {"only", "layers", "width", "heads", "context", "batch", "repeats", "peers", "python", "json"},
};

int bench_train(int argc, char **argv)
{
    train_options o = {0};
    return bench_command(&bench_train_usage, argc, argv, &o.run, measure, &o);
}
