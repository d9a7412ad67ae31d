/* Training steps: the rate relative to large matrix products, the time compared with PyTorch, and linear attention
 * compared with softmax attention. */
#include "train.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_REPEATS = 99 };
static const double LONG_SECONDS = 60; /* no further repeats after this many seconds */

/* A model to train and its options. */
typedef struct trained {
    bo_model_desc model;
    size_t batch;
    bool checkpointing;
    double seconds; /* median time of a step */
    bo_training_cost plan;
} trained;

static bool time_steps(train_bench *bench, bo_trainer *trainer, double *median)
{
    double samples[MAX_REPEATS], loss, begin = cli_now();
    size_t count = 0;
    if (!train_ok(bench, bo_trainer_step(bench->context, trainer, &loss))) return false; /* warmup */
    while (count < bench->options->repeats && (count == 0 || cli_now() - begin < LONG_SECONDS)) {
        double start = cli_now();
        if (!train_ok(bench, bo_trainer_step(bench->context, trainer, &loss))) return false;
        samples[count++] = cli_now() - start;
        if (cli_interrupted()) return false;
    }
    *median = bench_median(samples, count);
    return true;
}

/* Fills in seconds and plan; without `steps` only the plan. */
static bool train(train_bench *bench, trained *what, bool steps)
{
    bo_model *model = NULL;
    bo_trainer *trainer = NULL;
    if (!train_ok(bench, bo_model_create(bench->context, &what->model, bench->tokenizer, &model))) return false;
    bo_trainer_desc desc = train_trainer(bench, model, what->batch);
    desc.checkpointing = what->checkpointing;
    bool ok = train_ok(bench, bo_trainer_estimate(bench->context, &desc, &what->plan));
    if (steps) {
        ok = ok && train_ok(bench, bo_trainer_create(bench->context, &desc, &trainer));
        ok = ok && time_steps(bench, trainer, &what->seconds);
    }
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    return ok;
}

/* ---- training step ----------------------------------------------------------------------------------------------- */

/* Useful operations of a step by a fixed count: six per weight and token; forward 4 L d T per token for causal scores
 * and values, halved because of the mask; twice that backward. */
static double step_operations(const train_options *o)
{
    double d = (double)o->width, layers = (double)o->layers, context = (double)o->context;
    double tokens = (double)o->batch * context;
    return 6 * (12 * layers * d * d + (double)o->vocab * d) * tokens + 12 * layers * d * context * tokens / 2;
}

/* The same bench with bfloat16 products; the caller destroys its context. Prints a message and returns false on
 * failure. */
static bool open_narrow(const train_bench *bench, train_bench *out)
{
    *out = *bench;
    out->context = bench_narrow_context(bench->run);
    return out->context;
}

/* For PyTorch, the best time of its variants counts, in float32 and overall; for Bochner, the mean of two medians, one
 * before and one after PyTorch. */
static bool compare(train_bench *bench, trained *what, train_bench *narrow_bench, trained *narrow)
{
    const train_options *o = bench->options;
    char shape[96], repeats[32];
    snprintf(shape, sizeof shape, "%zu,%zu,%zu,%zu,%zu,%zu", o->layers, o->width, o->heads, o->context, o->vocab,
             o->batch);
    snprintf(repeats, sizeof repeats, "%zu", o->repeats);
    const char *arguments[] = {shape, repeats, NULL};
    char *json = bench_peer(bench->run, &bench_torch, "train_torch.py", arguments);
    double peer_seconds = bench_json_number(json, "seconds"), threads = bench_json_number(json, "threads");
    double plain = bench_json_number(json, "float32_seconds");
    char variant[64], peer[64];
    bench_json_text(json, "variant", variant, sizeof variant);
    bench_json_text(json, "peer", peer, sizeof peer);
    free(json);
    if (isnan(peer_seconds)) return true;
    double before = what->seconds, narrow_before = narrow->seconds;
    if (!train(bench, what, true) || !train(narrow_bench, narrow, true)) return false;
    double bochner_seconds = (before + what->seconds) / 2, bochner_narrow = (narrow_before + narrow->seconds) / 2;
    bench_add(bench->run, "step, float32, times faster than PyTorch in float32", plain / bochner_seconds, "x", 2, false,
              "%s in float32 %.4g s, bochner's median %.4g s", peer, plain, bochner_seconds);
    bench_add(bench->run, "step, float32, times faster than the best PyTorch", peer_seconds / bochner_seconds, "x", NAN,
              false, "%s at its best %.4g s (%s, threads: %.0f), bochner's median %.4g s", peer, peer_seconds, variant,
              threads, bochner_seconds);
    bench_add(bench->run, "step, bfloat16, times faster than the best PyTorch", peer_seconds / bochner_narrow, "x",
              bench_narrow_goal(bench->run, 1.5), false,
              "%s at its best %.4g s (%s, threads: %.0f), bochner's median %.4g s", peer, peer_seconds, variant,
              threads, bochner_narrow);
    return true;
}

static bool measure_step(train_bench *bench, train_bench *narrow_bench)
{
    const train_options *o = bench->options;
    trained what = {.model = train_classic(bench, "softmax"), .batch = o->batch}, narrow = what;
    double before = bench_reference_rate(bench->run);
    if (!train(bench, &what, true)) return false;
    double reference = (before + bench_reference_rate(bench->run)) / 2, rate = 1e-9 * step_operations(o) / what.seconds;
    bench_add(bench->run, "step, tokens per second", (double)(o->batch * o->context) / what.seconds, "tokens/s", NAN,
              false, "%zu layers, width %zu, %zu heads, context %zu, vocabulary %zu, batch %zu: %s parameters",
              o->layers, o->width, o->heads, o->context, o->vocab, o->batch, cli_count((size_t)what.plan.parameters).s);
    bench_add(bench->run, "step, useful rate / GEMM rate", rate / reference, "", 0.5, false,
              "%.4g s, %.4g of %.4g GFLOP/s; memory %s, of which activations %s", what.seconds, rate, reference,
              cli_bytes((double)what.plan.all_bytes).s, cli_bytes((double)what.plan.activation_bytes).s);
    if (!train(narrow_bench, &narrow, true)) return false;
    bench_add(bench->run, "step, bfloat16, tokens per second", (double)(o->batch * o->context) / narrow.seconds,
              "tokens/s", NAN, false, "%.4g s; bfloat16 products, float32 sums, weights and activations",
              narrow.seconds);
    bench_add(bench->run, "step, bfloat16 / float32", what.seconds / narrow.seconds, "x",
              bench_narrow_goal(bench->run, 3), false, "%s: %.4g s and %.4g s",
              bo_context_describe(bench->context)->isa, narrow.seconds, what.seconds);
    return compare(bench, &what, narrow_bench, &narrow);
}

bool train_step_part(train_bench *bench)
{
    train_bench narrow;
    bool ok = open_narrow(bench, &narrow) && bench_narrow_gemm(bench->run) && measure_step(bench, &narrow);
    bo_context_destroy(narrow.context);
    return ok;
}

/* ---- long context ------------------------------------------------------------------------------------------------ */

static trained longer(const train_bench *bench, const char *attention, size_t tokens, bool checkpointing)
{
    trained what = {.model = train_classic(bench, attention), .batch = 1, .checkpointing = checkpointing};
    what.model.context = tokens;
    return what;
}

static bool measure_memory(train_bench *bench, const char *attention)
{
    size_t tokens = bench->options->tokens;
    trained kept = longer(bench, attention, tokens, false), whole = longer(bench, attention, tokens, true);
    trained half = longer(bench, attention, tokens / 2, true);
    if (!train(bench, &kept, false) || !train(bench, &whole, false) || !train(bench, &half, false)) return false;
    char name[96];
    snprintf(name, sizeof name, "%s, activations at %zu tokens / at %zu", attention, tokens, tokens / 2);
    double bytes = (double)whole.plan.activation_bytes;
    bench_add(bench->run, name, bytes / (double)half.plan.activation_bytes, "x", 2.1, true,
              "%s with checkpointing, %s per token; without checkpointing %s", cli_bytes(bytes).s,
              cli_bytes(bytes / (double)tokens).s, cli_bytes((double)kept.plan.activation_bytes).s);
    return true;
}

bool train_length_part(train_bench *bench)
{
    static const char *const linear[] = {"rfa-gate", "favor"};
    size_t tokens = bench->options->tokens;
    trained exact = longer(bench, "softmax", tokens, true);
    if (!train(bench, &exact, true)) return false;
    for (size_t i = 0; i < CLI_COUNT_OF(linear); i++) {
        trained what = longer(bench, linear[i], tokens, true);
        if (!train(bench, &what, true)) return false;
        char name[96];
        snprintf(name, sizeof name, "%s, step at %zu tokens, times faster than softmax", linear[i], tokens);
        bench_add(bench->run, name, exact.seconds / what.seconds, "x", 3, false,
                  "with checkpointing: %.4g s, softmax attention %.4g s: %.0f and %.0f tokens/s", what.seconds,
                  exact.seconds, (double)tokens / what.seconds, (double)tokens / exact.seconds);
        if (!measure_memory(bench, linear[i])) return false;
    }
    return true;
}
