/* Measures the cost of a training step on this host: the shapes that separate the costs, and timed steps. */
#include <stdlib.h>
#include <time.h>
#include "../base/rng.h"
#include "plan.h"

/* ====================================================================================================================
 * Calibration of this host: shapes that separate the costs. */

static const double CALIBRATION_SECONDS = 40, QUICK_SECONDS = 4;

/* Each row emphasizes another term: many small layers, long contexts (attention), wide models (weight products, Muon)
 * and a large vocabulary. The other rows lie in between. The quick calibration uses only the first, small shapes. */
static const bo_plan_shape shapes[] = {
    {.layers = 1, .width = 64, .heads = 2, .context = 64, .batch = 4},
    {.layers = 8, .width = 64, .heads = 2, .context = 64, .batch = 4},
    {.layers = 2, .width = 64, .heads = 2, .context = 1024, .batch = 2},
    {.layers = 2, .width = 128, .heads = 4, .context = 256, .batch = 4},
    {.layers = 6, .width = 128, .heads = 4, .context = 256, .batch = 1},
    {.layers = 1, .width = 256, .heads = 8, .context = 256, .batch = 2},
    {.layers = 4, .width = 96, .heads = 3, .context = 128, .batch = 8},
    {.layers = 1, .width = 128, .heads = 4, .context = 128, .batch = 4, .vocab = 2048},
    {.layers = 3, .width = 192, .heads = 6, .context = 256, .batch = 4},
    {.layers = 1, .width = 512, .heads = 8, .context = 128, .batch = 2},
    {.layers = 1, .width = 384, .heads = 6, .context = 256, .batch = 8},
    {.layers = 2, .width = 256, .heads = 4, .context = 512, .batch = 4},
    {.layers = 1, .width = 768, .heads = 12, .context = 64, .batch = 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, QUICK_SHAPES = 8 };

bo_status bo_plan_host_calibrate(bo_context *context, const bo_plan_calibration *desc, bo_plan_host **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    const bo_plan_calibration d = desc ? *desc : (bo_plan_calibration){0};
    const size_t count = d.quick ? QUICK_SHAPES : SHAPES;
    bo_plan_timing timings[SHAPES];
    BO_TRY(bo_check_reserved(context, "bo_plan_calibration", d.reserved));
    for (size_t i = 0; i < count; i++) {
        timings[i] = (bo_plan_timing){.shape = shapes[i]};
        timings[i].shape.attention = d.attention;
        timings[i].shape.optimizer = d.optimizer;
    }
    BO_TRY(bo_plan_time(context,
                        d.seconds > 0 ? d.seconds
                        : d.quick     ? QUICK_SECONDS
                                      : CALIBRATION_SECONDS,
                        timings, count));
    return bo_plan_host_fit(context, timings, count, 0, out);
}

/* ====================================================================================================================
 * Timed training steps. The models are timed in turns. */

enum { ROUNDS = 3, MAX_ROUNDS = 99, TOKENS = 1 << 16, BYTES = 256 };
static const double SECONDS = 30, SAMPLE = 0.03; /* approximate seconds per turn */

/* A model in training. */
typedef struct plan_runner {
    bo_model *model;
    bo_trainer *trainer;
    size_t steps; /* steps per turn */
    double samples[MAX_ROUNDS];
} plan_runner;

typedef struct plan_stage {
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    plan_runner *runners;
    size_t count;
} plan_stage;

/* ---- the clock --------------------------------------------------------------------------------------------------- */

/* With one thread, a step is timed by the CPU time of the thread, independent of other load; with several, by wall
 * time. */
static double now(const bo_context *context)
{
    struct timespec time;
    if (bo_context_threads(context) > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return bo_seconds();
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

bo_status bo_plan_noise(bo_context *context, const bo_tokenizer *tokenizer, size_t tokens, bo_corpus **out)
{
    int32_t *ids = bo_alloc_raw(context, tokens, sizeof *ids, "random tokens");
    if (!ids) return BO_MEMORY;
    bo_rng rng = bo_rng_make(1, bo_rng_stream("plan.tokens", 0));
    for (size_t i = 0; i < tokens; i++) ids[i] = (int32_t)bo_rng_below(&rng, BYTES);
    const bo_status status =
        bo_corpus_open(context, &(bo_corpus_desc){.tokenizer = tokenizer, .ids = ids, .id_count = tokens}, out);
    bo_free(ids);
    return status;
}

static bo_status open_corpus(bo_context *context, const bo_plan_timing *timings, size_t count, plan_stage *out)
{
    size_t tokens = TOKENS;
    for (size_t i = 0; i < count; i++)
        tokens = timings[i].shape.context > tokens / 4 ? 4 * timings[i].shape.context : tokens;
    BO_TRY(bo_tokenizer_create(context, &out->tokenizer));
    return bo_plan_noise(context, out->tokenizer, tokens, &out->corpus);
}

static bo_status open_runner(bo_context *context, const plan_stage *stage, const bo_plan_shape *shape, plan_runner *out)
{
    bo_model_desc model;
    bo_trainer_desc training;
    BO_TRY(bo_plan_descriptors(context, shape, &model, &training));
    BO_TRY(bo_model_create(context, &model, stage->tokenizer, &out->model));
    training.model = out->model;
    training.train.corpus = stage->corpus;
    training.steps = 1000000;
    BO_TRY(bo_trainer_create(context, &training, &out->trainer));
    double loss;
    BO_TRY(bo_trainer_step(context, out->trainer, &loss)); /* writes all memory once */
    const double start = now(context);
    BO_TRY(bo_trainer_step(context, out->trainer, &loss));
    const double seconds = now(context) - start;
    out->steps = seconds < SAMPLE ? (size_t)(SAMPLE / (seconds > 1e-6 ? seconds : 1e-6)) + 1 : 1;
    return BO_OK;
}

static void close_stage(plan_stage *stage)
{
    for (size_t i = 0; stage->runners && i < stage->count; i++) {
        bo_trainer_destroy(stage->runners[i].trainer);
        bo_model_destroy(stage->runners[i].model);
    }
    bo_free(stage->runners);
    bo_corpus_close(stage->corpus);
    bo_tokenizer_destroy(stage->tokenizer);
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

/* Measures the seconds per step. A turn of several steps starts with an untimed step that fills the caches. */
static bo_status take_turn(bo_context *context, plan_runner *runner, double *seconds)
{
    double loss;
    if (runner->steps > 1) BO_TRY(bo_trainer_step(context, runner->trainer, &loss));
    const double start = now(context);
    for (size_t i = 0; i < runner->steps; i++) BO_TRY(bo_trainer_step(context, runner->trainer, &loss));
    *seconds = (now(context) - start) / (double)runner->steps;
    return BO_OK;
}

/* Progress as a fraction of the time or of the required rounds, whichever is smaller. */
static double part_done(const plan_stage *stage, double spent, double seconds, size_t turns)
{
    const double by_time = spent / seconds, by_turns = (double)turns / (double)(ROUNDS * stage->count);
    return by_time < by_turns ? by_time : by_turns < 1 ? by_turns : 1;
}

static bo_status take_rounds(bo_context *context, plan_stage *stage, double seconds, size_t *rounds)
{
    const double start = bo_seconds();
    for (*rounds = 0; *rounds < MAX_ROUNDS; ++*rounds) {
        const double spent = bo_seconds() - start, round = *rounds ? spent / (double)*rounds : 0;
        if (*rounds >= ROUNDS && spent + round > seconds) break;
        for (size_t i = 0; i < stage->count; i++) {
            const double part = part_done(stage, bo_seconds() - start, seconds, *rounds * stage->count + i);
            BO_TRY(bo_progress(context, "timing steps", part, 1));
            BO_TRY(take_turn(context, &stage->runners[i], &stage->runners[i].samples[*rounds]));
        }
    }
    return bo_progress(context, "timing steps", 1, 1);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarize(plan_runner *runner, size_t rounds, bo_plan_timing *out)
{
    double *s = runner->samples;
    qsort(s, rounds, sizeof *s, ascending);
    out->seconds = (s[rounds / 2] + s[(rounds - 1) / 2]) / 2;
    out->spread = (s[(3 * (rounds - 1) + 2) / 4] - s[(rounds - 1) / 4]) / (2 * out->seconds);
}

static bo_status time_all(bo_context *context, double seconds, bo_plan_timing *timings, plan_stage *stage)
{
    size_t rounds;
    BO_TRY(open_corpus(context, timings, stage->count, stage));
    stage->runners = bo_alloc(context, stage->count, sizeof *stage->runners, "timed models");
    if (!stage->runners) return BO_MEMORY;
    for (size_t i = 0; i < stage->count; i++)
        BO_TRY(open_runner(context, stage, &timings[i].shape, &stage->runners[i]));
    BO_TRY(take_rounds(context, stage, seconds > 0 ? seconds : SECONDS, &rounds));
    for (size_t i = 0; i < stage->count; i++) summarize(&stage->runners[i], rounds, &timings[i]);
    return BO_OK;
}

bo_status bo_plan_time(bo_context *context, double seconds, bo_plan_timing *timings, size_t count)
{
    BO_REQUIRE_IF(context, count > 0, timings);
    plan_stage stage = {.count = count};
    if (count == 0) return bo_fail(context, BO_INVALID, "calibration: there are no shapes to time");
    for (size_t i = 0; i < count; i++) BO_TRY(bo_check_reserved(context, "bo_plan_timing", timings[i].reserved));
    const bo_status status = time_all(context, seconds, timings, &stage);
    close_stage(&stage);
    return status;
}
