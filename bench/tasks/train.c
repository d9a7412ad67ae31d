/* Training steps of a classifier of long documents: linear attention in both directions compared with softmax
 * attention. */
#include <bochner/train.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tasks.h"
#include "../../cli/shared/hash.h"

enum { KINDS = 3, MAX_REPEATS = 99, TEXTS = 8 }; /* TEXTS: random documents per class */
static const char *const kinds[KINDS] = {"softmax", "rfa", "favor"};
static const double GOAL = 4; /* times faster than softmax attention */

typedef struct trained {
    bo_model *model;
    bo_trainer *trainer;
    bo_training_cost plan;
    double samples[MAX_REPEATS];
} trained;

/* Writes one line per document: a label, a tab and random characters. */
static bool open_texts(tasks_bench *bench, bo_texts **out)
{
    size_t bytes = bench->options->bytes, line = bytes + 3, lines = 2 * TEXTS;
    char *text = cli_allocate(lines * line, 1, "documents of noise");
    for (size_t i = 0; i < lines; i++) {
        char *at = text + i * line;
        *at++ = (char)('0' + i % 2), *at++ = '\t';
        for (size_t j = 0; j < bytes; j++)
            *at++ = (char)('a' + cli_hash(bench->run->session->common.seed, i * bytes + j) % 26);
        *at = '\n';
    }
    const bo_texts_desc desc = {.memory = text, .memory_bytes = lines * line, .tokenizer = bench->tokenizer};
    bool ok = tasks_ok(bench, bo_texts_open(bench->context, &desc, out));
    free(text);
    return ok;
}

static bool open_trainer(tasks_bench *bench, const char *kind, const bo_texts *texts, trained *out)
{
    const tasks_options *o = bench->options;
    bo_model_desc model = tasks_model(bench, kind, o->bytes);
    model.task = BO_MODEL_TASK_CLASSIFY, model.classes = 2;
    if (!tasks_ok(bench, bo_model_create(bench->context, &model, bench->tokenizer, &out->model))) return false;
    const bo_trainer_desc desc = {.model = out->model,
                                  .train.texts = texts,
                                  .pack = o->bytes,
                                  .batch = o->documents,
                                  .micro_batch = 1,
                                  .steps = 100000,
                                  .optimizer = {.kind = BO_OPTIMIZER_ADAMW, .rate = 1e-4}};
    return tasks_ok(bench, bo_trainer_estimate(bench->context, &desc, &out->plan)) &&
           tasks_ok(bench, bo_trainer_create(bench->context, &desc, &out->trainer));
}

/* One warmup call each, then the kinds alternate, so that other load on the host affects all of them. */
static bool time_steps(tasks_bench *bench, trained what[KINDS])
{
    for (size_t turn = 0; turn <= bench->options->repeats; turn++)
        for (size_t i = 0; i < KINDS; i++) {
            double loss, start = cli_now();
            if (!tasks_ok(bench, bo_trainer_step(bench->context, what[i].trainer, &loss))) return false;
            if (turn) what[i].samples[turn - 1] = cli_now() - start;
            if (cli_interrupted()) return false;
        }
    return true;
}

static void report(tasks_bench *bench, trained what[KINDS])
{
    const tasks_options *o = bench->options;
    double seconds[KINDS], tokens = (double)(o->bytes * o->documents);
    char name[96];
    for (size_t i = 0; i < KINDS; i++) {
        seconds[i] = bench_median(what[i].samples, o->repeats);
        snprintf(name, sizeof name, "train, %s, documents of %zu bytes", kinds[i], o->bytes);
        bench_add(bench->run, name, tokens / seconds[i], "tokens/s", NAN, false,
                  "%zu layers, width %zu, %zu heads%s; %zu documents per step, one at a time: %s of activations",
                  o->layers, o->width, o->heads, i ? "" : ", softmax", o->documents,
                  cli_bytes((double)what[i].plan.activation_bytes).s);
    }
    for (size_t i = 1; i < KINDS; i++) {
        snprintf(name, sizeof name, "train, %s, times faster than softmax", kinds[i]);
        bench_add(bench->run, name, seconds[0] / seconds[i], "x", o->quick ? NAN : GOAL, false,
                  "%zu features, both directions: %.4g s per step, softmax %.4g s", o->features, seconds[i],
                  seconds[0]);
    }
}

bool tasks_train_part(tasks_bench *bench)
{
    trained what[KINDS] = {{0}};
    bo_texts *texts = NULL;
    bool ok = open_texts(bench, &texts);
    for (size_t i = 0; ok && i < KINDS; i++) ok = open_trainer(bench, kinds[i], texts, &what[i]);
    ok = ok && time_steps(bench, what);
    if (ok) report(bench, what);
    for (size_t i = 0; i < KINDS; i++) {
        bo_trainer_destroy(what[i].trainer);
        bo_model_destroy(what[i].model);
    }
    bo_texts_close(texts);
    return ok;
}
