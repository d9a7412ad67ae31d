/* bochner bench tasks: linear attention compared with softmax attention in bidirectional training on long documents,
 * and in decoding from a state of fixed size. */
#include "tasks.h"
#include <stdio.h>

static const struct {
    const char *name;
    bool (*measure)(tasks_bench *bench);
} parts[] = {{"train", tasks_train_part}, {"decode", tasks_decode_part}};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

bool tasks_ok(tasks_bench *bench, bo_status status)
{
    if (status != BO_OK) cli_fail_status(bench->run->session, status);
    return status == BO_OK;
}

bo_model_desc tasks_model(const tasks_bench *bench, const char *attention, size_t context)
{
    const tasks_options *o = bench->options;
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .block.heads = o->heads, .context = context};
    desc.seed = bench->run->session->common.seed;
    desc.block.attention.features.features = o->features;
    bo_attention_preset(attention, &desc.block.attention);
    if (!bo_attention_has(&desc.block.attention, BO_TRAIT_FEATURES)) desc.block.attention.features.features = 0;
    return desc;
}

static int plot(tasks_bench *bench)
{
    const tasks_options *o = bench->options;
    cli_drawing drawing = {&bench->times, "", "tokens read", "milliseconds per step", "top left", 1e3, false};
    snprintf(drawing.title, sizeof drawing.title, "Decoding: %zu layers, width %zu, %zu features, %d threads",
             o->layers, o->width, o->features, bo_context_describe(bench->context)->threads);
    return o->plot ? cli_curves_plot(bench->run->session, o->plot, &drawing) : CLI_DONE;
}

/* Sizes for a quick functional test. */
static void shrink(tasks_options *o)
{
    o->layers = 1, o->width = 32, o->heads = 2, o->features = 16;
    o->bytes = 96, o->documents = 2, o->repeats = 1;
    o->lengths_text = "16,48", o->batches_text = "1,3";
}

static int measure(bench_run *run, void *user)
{
    tasks_options *o = user;
    if (o->quick) shrink(o);
    tasks_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench tasks", run->only, CLI_COUNT_OF(parts), part_name) ||
        !cli_read_counts("bench tasks", "lengths", o->lengths_text, 16, (size_t)1 << 20, &o->lengths) ||
        !cli_read_counts("bench tasks", "batches", o->batches_text, 1, 4096, &o->batches))
        return CLI_USAGE_ERROR;
    int status = bench_can_draw(run, "bench tasks", "plot", o->plot);
    if (status != CLI_DONE) return status;
    bool ok = (o->quick || bench_gemm(run)) && tasks_ok(&bench, bo_tokenizer_create(bench.context, &bench.tokenizer));
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(run, parts[i].name)) ok = parts[i].measure(&bench);
    bo_tokenizer_destroy(bench.tokenizer);
    if (ok) return plot(&bench);
    return CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Model"),
    COUNT("layers", "N", tasks_options, layers, "number of layers", .low = 1, .high = 1024, .initial = "4"),
    COUNT("width", "N", tasks_options, width, "width of the model", .low = 8, .high = 1 << 16, .initial = "128"),
    COUNT("heads", "N", tasks_options, heads, "attention heads", .low = 1, .high = 1024, .initial = "4"),
    COUNT("features", "N", tasks_options, features, "features of linear attention", .low = 2, .high = 1 << 16,
          .initial = "64"),
    SECTION("Measuring"),
    TEXT("only", "PARTS", tasks_options, run.only, "parts to measure: train, decode", .default_text = "all"),
    COUNT("bytes", "N", tasks_options, bytes, "bytes per document", .low = 16, .high = 1 << 24, .initial = "4096"),
    COUNT("documents", "N", tasks_options, documents, "documents per training step", .low = 1, .high = 1 << 16,
          .initial = "4"),
    TEXT("lengths", "LIST", tasks_options, lengths_text, "numbers of tokens that are read before decoding is timed",
         .initial = "16,32,64,128,256,512,1024,2048,4096,8192,16384"),
    TEXT("batches", "LIST", tasks_options, batches_text, "numbers of sequences decoded together", .initial = "1,8,64"),
    COUNT("repeats", "N", tasks_options, repeats, "number of alternating runs; medians are reported", .low = 1,
          .high = 99, .initial = "5"),
    FLAG("quick", tasks_options, quick,
         "use tiny sizes, to check that the benchmark works; the times are not meaningful"),
    SECTION("Plots"),
    TEXT("plot", "FILE", tasks_options, plot, "draw the time per decoding step by length: .svg, .png or .pdf"),
    END_OF_OPTIONS,
};

const cli_usage bench_tasks_usage = {
    .command = "bench tasks",
    .synopsis = "[options]",
    .about = "Compares linear with softmax attention: training steps of a bidirectional classifier of long "
             "documents (rfa, favor), and decoding steps of a language model by number of tokens read and of "
             "sequences decoded together. Reports the length from which rfa is faster than softmax, and the "
             "bytes per sequence.",
    .examples = "  bochner bench tasks --quick\n",
    .groups = {{rows, 0}},
    .short_help = {"only", "quick", "lengths", "batches", "repeats", "plot", "json"},
};

int bench_tasks(int argc, char **argv)
{
    tasks_options o = {0};
    return bench_command(&bench_tasks_usage, argc, argv, &o.run, measure, &o);
}
