/* bochner bench tasks: linear attention beside our own softmax where its claims are made: training on long documents, which it
 * reads in both directions, and decoding from a state of fixed size. */
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
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .heads = o->heads, .context = context};
    desc.seed = bench->run->session->common.seed;
    desc.attention.features.features = o->features;
    bo_attention_preset(attention, &desc.attention);
    if (desc.attention.kind == BO_ATTENTION_EXACT) desc.attention.features.features = 0;
    return desc;
}

static int plot(tasks_bench *bench)
{
    const tasks_options *o = bench->options;
    cli_drawing drawing = {&bench->times, "", "tokens read", "milliseconds a step", "top left", 1e3, false};
    snprintf(drawing.title, sizeof drawing.title, "Decoding: %zu layers, width %zu, %zu features, %d threads",
             o->layers, o->width, o->features, bo_context_threads(bench->context));
    return o->plot ? cli_curves_plot(bench->run->session, o->plot, &drawing) : CLI_DONE;
}

/* What shows that it works, in no time. */
static void shrink(tasks_options *o)
{
    o->layers = 1, o->width = 32, o->heads = 2, o->features = 16;
    o->bytes = 96, o->documents = 2, o->repeats = 1;
    o->lengths_text = "16,48", o->batches_text = "1,3";
}

static int measure(bench_run *run, void *given)
{
    tasks_options *o = given;
    if (o->quick) shrink(o);
    tasks_bench bench = {.run = run, .context = run->session->context, .options = o};
    if (!bench_parts_known("bench tasks", run->only, CLI_COUNT_OF(parts), part_name) ||
        !bench_read_list("bench tasks", "lengths", o->lengths_text, 16, (size_t)1 << 20, &o->lengths) ||
        !bench_read_list("bench tasks", "batches", o->batches_text, 1, 4096, &o->batches))
        return CLI_WRONG_USE;
    int status = bench_can_draw(run, "bench tasks", "plot", o->plot);
    if (status != CLI_DONE) return status;
    bool ok = (o->quick || bench_gemm(run)) && tasks_ok(&bench, bo_tokenizer_bytes(bench.context, &bench.tokenizer));
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_wanted(run, parts[i].name)) ok = parts[i].measure(&bench);
    bo_tokenizer_destroy(bench.tokenizer);
    if (ok) return plot(&bench);
    return cli_interrupted() ? cli_interrupted_status() : CLI_FAILED;
}

int bench_tasks(int argc, char **argv)
{
    bench_run bench = {0};
    tasks_options o = {.layers = 4, .width = 128, .heads = 4, .features = 64, .bytes = 4096, .documents = 4};
    o.lengths_text = "16,32,64,128,256,512,1024,2048,4096,8192,16384", o.batches_text = "1,8,64", o.repeats = 5;
    const cli_option options[] = {
        {CLI_SECTION, "Model", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "layers", "N", "4 unless given", &o.layers, NULL, 1, 1024},
        {CLI_COUNT, "width", "N", "128 unless given", &o.width, NULL, 8, 1 << 16},
        {CLI_COUNT, "heads", "N", "4 unless given", &o.heads, NULL, 1, 1024},
        {CLI_COUNT, "features", "N", "of linear attention; 64 unless given", &o.features, NULL, 2, 1 << 16},
        {CLI_SECTION, "Measuring", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "only", "PARTS", "of train,decode; all unless given", &bench.only, NULL, 0, 0},
        {CLI_COUNT, "bytes", "N", "of a document; 4096 unless given", &o.bytes, NULL, 16, 1 << 24},
        {CLI_COUNT, "documents", "N", "of a step of training; 4 unless given", &o.documents, NULL, 1, 1 << 16},
        {CLI_TEXT, "lengths", "LIST", "tokens read before decoding is timed; 16,32,64,… to 16384 unless given",
         &o.lengths_text, NULL, 0, 0},
        {CLI_TEXT, "batches", "LIST", "sequences decoded together; 1,8,64 unless given", &o.batches_text, NULL, 0, 0},
        {CLI_COUNT, "repeats", "N", "medians over so many turns; 5 unless given", &o.repeats, NULL, 1, 99},
        {CLI_FLAG, "quick", NULL, "tiny sizes of everything: whether it works, not how fast it is", &o.quick, NULL, 0,
         0},
        {CLI_SECTION, "Pictures", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "plot", "FILE", "time of a step of decoding by length, as .svg, .png or .pdf", &o.plot, NULL, 0, 0},
    };
    const cli_usage usage = {
        "bench tasks",
        "[options]",
        "Measures linear attention beside our own softmax: steps of training a classifier of long documents of noise, "
        "read in both directions (rfa, favor); steps of decoding with a language model by tokens read and sequences "
        "decoded together, softmax from its cache of keys and values, rfa from a state of fixed size; the length from "
        "which on rfa is faster, and the bytes of a sequence.",
        "  bochner bench tasks --quick\n",
        options,
        CLI_COUNT_OF(options)};
    return bench_command(&usage, argc, argv, &bench, measure, &o);
}
