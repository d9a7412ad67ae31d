/* Training steps on the device: forward, backward, clipping of the gradient, and the update of AdamW. */
#include "device.h"
#include "../../cli/shared/hash.h"
#include <bochner/text.h>
#include <bochner/train.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARMUPS = 4 }; /* the first steps of a shape are submitted and recorded */

typedef struct training {
    const device_train_options *options;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_trainer *trainer;
} training;

/* Random bytes, twice as many as a step needs. */
static bool open_text(device_bench *bench, training *t)
{
    const size_t bytes = 2 * t->options->batch * (t->options->context + 1) + 4096;
    char *text = cli_allocate(bytes, 1, "random text");
    for (size_t i = 0; i < bytes; i++) text[i] = (char)(cli_hash(1, i) & 0xff);
    bool ok = device_ok(bench, bo_tokenizer_create(bench->context, &t->tokenizer));
    const bo_corpus_desc desc = {.memory = text, .memory_bytes = bytes, .tokenizer = t->tokenizer};
    ok = ok && device_ok(bench, bo_corpus_open(bench->context, &desc, &t->corpus));
    free(text);
    return ok;
}

/* A GPT with the size in the options: GELU, LayerNorm, learned positions, tied embedding, like the peer. */
static bo_model_desc model_of(const device_train_options *o, const char *kind)
{
    bo_model_desc desc = {.layers = o->layers, .width = o->width, .block.heads = o->heads, .context = o->context};
    desc.vocab = o->vocab;
    desc.block.mlp = BO_MLP_GELU_TANH;
    desc.block.norm = BO_NORM_LAYER;
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_attention_preset(kind, &desc.block.attention);
    if (desc.block.attention.kind == BO_ATTENTION_SOFTMAX) desc.block.query_norm = BO_CHOICE_NO;
    return desc;
}

static bool step(device_bench *bench, void *what, double *seconds)
{
    training *t = what;
    double loss;
    const double start = cli_now();
    const bo_status status = bo_trainer_step(bench->context, t->trainer, &loss);
    *seconds = cli_now() - start;
    return device_ok(bench, status);
}

/* Useful operations of a step: six per weight and token, and those of softmax attention, 6 L d T per token because of
 * the mask; for other kinds only the former. */
static double operations_of(const device_train_options *o, const char *kind, double parameters)
{
    const double tokens = (double)(o->batch * o->context);
    bo_attention_desc desc = {0};
    bo_attention_preset(kind, &desc);
    const double pairs = desc.kind == BO_ATTENTION_SOFTMAX ? 6 * (double)(o->layers * o->width * o->context) : 0;
    return (6 * parameters + pairs) * tokens;
}

static void report(device_bench *bench, const training *t, const char *kind, const bo_training_cost *plan,
                   double seconds)
{
    const device_train_options *o = t->options;
    const double tokens = (double)(o->batch * o->context);
    const double rate = operations_of(o, kind, (double)plan->parameters) / seconds;
    char name[96];
    snprintf(name, sizeof name, "%s, training step, %zu x %zu tokens", kind, o->batch, o->context);
    bench_add(bench->run, name, tokens / seconds, "tokens/s", NAN, false,
              "%.4g ms, %.3g steps/s, %s parameters, %.4g TFLOP/s (%.2f of a matrix product); %s in use on %s",
              1e3 * seconds, 1 / seconds, cli_count((size_t)plan->parameters).s, 1e-12 * rate, rate / bench->product,
              cli_bytes(device_used(bench)).s, bench->name);
}

static bool train(device_bench *bench, training *t, const char *kind, bo_model *model)
{
    const device_train_options *o = t->options;
    const bo_trainer_desc desc = {.model = model,
                                  .train.corpus = t->corpus,
                                  .steps = 100000,
                                  .batch = o->batch,
                                  .micro_batch = o->batch,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 3e-4, .clip = 1}};
    bo_training_cost plan;
    double seconds;
    const bool ok = device_ok(bench, bo_trainer_estimate(bench->context, &desc, &plan)) &&
                    device_ok(bench, bo_trainer_create(bench->context, &desc, &t->trainer)) &&
                    device_time_steps(bench, WARMUPS, step, t, &seconds);
    if (ok) report(bench, t, kind, &plan, seconds);
    bo_trainer_destroy(t->trainer);
    t->trainer = NULL;
    return ok;
}

static bool measure_kind(device_bench *bench, const char *kind, void *of)
{
    training *t = of;
    const bo_model_desc desc = model_of(t->options, kind);
    bo_model *model = NULL;
    const bool ok =
        device_ok(bench, bo_model_create(bench->context, &desc, t->tokenizer, &model)) && train(bench, t, kind, model);
    bo_model_destroy(model);
    return ok;
}

int device_train(bench_run *run, const device_train_options *options)
{
    device_bench bench;
    training t = {.options = options};
    bool ok = device_open(run, options->device, options->precision, options->repeats, &bench) &&
              device_references(&bench) && open_text(&bench, &t) &&
              device_each_kind(&bench, options->device->kinds ? options->device->kinds : "softmax,rfa-gate",
                               measure_kind, &t);
    bo_corpus_close(t.corpus);
    bo_tokenizer_destroy(t.tokenizer);
    device_close(&bench);
    return ok ? CLI_DONE : CLI_FAILED;
}
