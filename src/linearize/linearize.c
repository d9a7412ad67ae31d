/* The stages of a linearization. A resumed call repeats the calibration, which is a function of the settings, and
 * continues the runs from their checkpoints. */
#include <bochner/linearize.h>
#include <bochner/lora.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../base/base.h"
#include "../io/output.h"
#include "../model/model.h"

enum { MAX_WINDOW = 1024, PATH = 4096, LONGEST_DIRECTORY = 3900 }; /* leaves space for the names of the two runs */

typedef struct work {
    const bo_linearize_desc *desc;
    bo_model *student;
    bo_linearize_stage stage;
    bool transferred; /* the directory of the transfer has been written */
    bool reported;    /* a report of the current run has been delivered */
    bool stop;        /* the report callback requested a stop */
} work;

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static double default_if_zero(double value, double default_value)
{
    return value > 0 ? value : default_value;
}

static bool is_skipped(const bo_linearize_desc *d, bo_linearize_stage stage)
{
    return (stage == BO_LINEARIZE_STAGE_TRANSFER ? d->transfer_steps : d->finetune_steps) == UINT64_MAX;
}

/* True if the length of a run is given in steps. */
static bool has_steps(const bo_linearize_desc *d)
{
    return (d->transfer_steps && !is_skipped(d, BO_LINEARIZE_STAGE_TRANSFER)) ||
           (d->finetune_steps && !is_skipped(d, BO_LINEARIZE_STAGE_FINETUNE));
}

static bo_status check(bo_context *context, const bo_linearize_desc *d)
{
    BO_TRY(bo_check_reserved(context, "bo_linearize_desc", d->reserved));
    BO_REQUIRE(context, d->teacher, d->train, d->directory);
    if (strlen(d->directory) > LONGEST_DIRECTORY)
        return bo_fail(context, BO_INVALID, "linearize: the path %.80s… is too long: %zu bytes, expected at most %d",
                       d->directory, strlen(d->directory), LONGEST_DIRECTORY);
    if (!(d->minutes >= 0) || !(d->transfer_share >= 0 && d->transfer_share < 1) || !(d->share >= 0 && d->share <= 1))
        return bo_fail(context, BO_INVALID,
                       "linearize: expected minutes of at least 0, a transfer_share below 1 and a share from 0 to 1, "
                       "found %g, %g and %g",
                       d->minutes, d->transfer_share, d->share);
    if (!(d->gate >= 0) || !(d->transfer_rate >= 0) || !(d->finetune_rate >= 0) || !(d->alpha >= 0))
        return bo_fail(
            context, BO_INVALID,
            "linearize: gate, learning rates and alpha must be positive (0: the default), found %g, %g, %g and "
            "%g",
            d->gate, d->transfer_rate, d->finetune_rate, d->alpha);
    if (d->minutes > 0 && has_steps(d))
        return bo_fail(context, BO_INVALID, "linearize: expected minutes or steps, found both");
    if (bo_attention_has(&d->attention, BO_TRAIT_CAPACITY) && !d->attention.window)
        return bo_fail(
            context, BO_INVALID,
            "linearize: %s attention without a window has no state of fixed size; choose another kind or set a window",
            bo_attention_name(&d->attention));
    return BO_OK;
}

static size_t window_of(const bo_linearize_desc *d)
{
    const size_t context = bo_model_describe(d->teacher)->context;
    return d->window ? d->window : bo_min(context, MAX_WINDOW);
}

static uint64_t eval_tokens(const bo_linearize_desc *d)
{
    return d->eval_tokens ? d->eval_tokens : 16384;
}

/* Checks the lengths of the texts before the first stage. The runs would detect short texts later. */
static bo_status check_texts(bo_context *context, const bo_linearize_desc *d)
{
    const size_t window = window_of(d), context_of = bo_model_describe(d->teacher)->context;
    const size_t min_tokens =
        bo_max(window + 1, bo_min(context_of, MAX_WINDOW)); /* the calibration reads such windows */
    const uint64_t train = bo_corpus_tokens(d->train), valid = d->valid ? bo_corpus_tokens(d->valid) : window;
    if (window > context_of)
        return bo_fail(context, BO_INVALID,
                       "linearize: window: expected at most %zu, the context of the model, found %zu", context_of,
                       window);
    if (train >= min_tokens && valid >= window) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "linearize: the %s text has %llu tokens, expected at least %zu for sequences of %zu tokens; use "
                   "more text or shorter sequences",
                   train >= min_tokens ? "validation" : "training",
                   (unsigned long long)(train >= min_tokens ? valid : train), train >= min_tokens ? window : min_tokens,
                   window);
}

/* Sets the length of a run: steps, or minutes, which are divided between transfer and fine-tuning. */
static void set_length(const work *w, bo_linearize_stage stage, bo_trainer_desc *run)
{
    const bo_linearize_desc *d = w->desc;
    const bool transfer = stage == BO_LINEARIZE_STAGE_TRANSFER;
    const bool alone = transfer ? is_skipped(d, BO_LINEARIZE_STAGE_FINETUNE) : !w->transferred;
    const double share = default_if_zero(d->transfer_share, 0.2);
    run->steps = transfer ? d->transfer_steps : d->finetune_steps;
    if (!has_steps(d))
        run->minutes = default_if_zero(d->minutes, 60) * (alone ? 1 : transfer ? share : 1 - share);
    else if (!run->steps)
        run->steps = transfer ? 300 : 600;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool report(void *user, const bo_training_report *r)
{
    work *w = user;
    w->reported = true;
    w->stop = w->desc->report && !w->desc->report(w->desc->user, w->stage, r);
    return !w->stop;
}

static void path_of(const work *w, bo_linearize_stage stage, char out[PATH])
{
    snprintf(out, PATH, "%s/%s", w->desc->directory, stage == BO_LINEARIZE_STAGE_TRANSFER ? "transfer" : "finetune");
}

static bo_status run(bo_context *context, work *w, bo_linearize_stage stage)
{
    const bo_linearize_desc *d = w->desc;
    const bool transfer = stage == BO_LINEARIZE_STAGE_TRANSFER;
    char directory[PATH];
    path_of(w, stage, directory);
    w->stage = stage;
    w->reported = false;
    bo_trainer_desc desc = {.model = w->student,
                            .train.corpus = d->train,
                            .valid.corpus = d->valid,
                            .directory = directory,
                            .resume = d->resume,
                            .optimizer = {.kind = BO_OPTIMIZER_ADAMW,
                                          .rate = transfer ? default_if_zero(d->transfer_rate, 1e-2)
                                                           : default_if_zero(d->finetune_rate, 1e-3)},
                            .batch = d->batch,
                            .eval_tokens = eval_tokens(d),
                            .seed = d->seed,
                            .window = window_of(d),
                            .imitate = transfer ? BO_IMITATION_ATTENTION : BO_IMITATION_LOGITS,
                            .share = d->share,
                            .sparsity = d->sparsity ? d->sparsity : 4,
                            .report = report,
                            .user = w};
    set_length(w, stage, &desc);
    bo_trainer *trainer;
    BO_TRY(bo_trainer_create(context, &desc, &trainer));
    const bo_status status = bo_trainer_run(context, trainer);
    /* a run that was already complete sends no report */
    if (status == BO_OK && !w->reported) report(w, bo_trainer_report(trainer));
    bo_trainer_destroy(trainer);
    return status;
}

/* At most the smaller side of the adapted matrices. */
static size_t default_rank(const bo_model_desc *d)
{
    size_t rank = bo_min(16, d->width);
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        rank = bo_min(rank, b->key_heads * b->head_dim);
    }
    return rank;
}

static bo_lora_desc lora_of(const bo_linearize_desc *d, const char *whole, const char *base)
{
    return (bo_lora_desc){.rank = d->rank ? d->rank : default_rank(bo_model_describe(d->teacher)),
                          .alpha = d->alpha,
                          .targets = d->targets ? d->targets : "q_proj,k_proj,v_proj,o_proj",
                          .whole = whole,
                          .seed = d->seed,
                          .base = base};
}

/* Called before the transfer, which may take long. */
static bo_status check_adapters(bo_context *context, work *w)
{
    char *whole = NULL;
    if (is_skipped(w->desc, BO_LINEARIZE_STAGE_FINETUNE)) return BO_OK;
    BO_TRY(bo_model_new_parameters(context, w->student, &whole));
    const bo_lora_desc lora = lora_of(w->desc, whole, NULL);
    const bo_status status = bo_model_try_adapters(context, w->student, &lora);
    bo_free(whole);
    return status;
}

/* The base of the adapters is the directory of the transfer. Without a transfer, the calibrated model is written there.
 */
static bo_status adapt(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    char base[PATH], *whole = NULL;
    path_of(w, BO_LINEARIZE_STAGE_TRANSFER, base);
    if (!w->transferred) BO_TRY(bo_model_save(context, w->student, &(bo_sink){.path = base}));
    BO_TRY(bo_model_new_parameters(context, w->student, &whole));
    const bo_lora_desc lora = lora_of(d, whole, base);
    const bo_status status = bo_model_adapt(context, w->student, &lora);
    bo_free(whole);
    return status;
}

static bo_status calibrate(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    const bo_model_desc *shape = bo_model_describe(w->student);
    size_t count = 0;
    bo_head_fit *fits = bo_alloc(context, bo_model_key_heads(shape), sizeof *fits, "a calibration");
    if (!fits) return BO_MEMORY;
    const bo_status status =
        bo_model_calibrate(context, d->teacher, w->student, d->train, d->calibration_tokens, fits, &count);
    if (status == BO_OK && d->calibrated) d->calibrated(d->user, fits, count);
    bo_free(fits);
    return status;
}

static bo_status transfer(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    char *trained = NULL;
    BO_TRY(bo_model_new_parameters(context, w->student, &trained));
    const bool any = *trained; /* attention with only a window has no new parameters */
    bo_free(trained);
    BO_TRY(calibrate(context, w));
    w->transferred = any && !is_skipped(d, BO_LINEARIZE_STAGE_TRANSFER);
    if (w->transferred) BO_TRY(run(context, w, BO_LINEARIZE_STAGE_TRANSFER));
    if (w->stop) return bo_fail(context, BO_CANCELED, "linearize: stopped after the last step of the transfer");
    return BO_OK;
}

/* Called before adapters are added, because adapters change queries and keys. */
static bo_status measure_layers(bo_context *context, const work *w)
{
    const bo_linearize_desc *d = w->desc;
    const size_t layers = bo_model_describe(w->student)->layers;
    if (!d->transferred) return BO_OK;
    double *errors = bo_alloc(context, layers, sizeof *errors, "errors of layers");
    if (!errors) return BO_MEMORY;
    const bo_status status =
        bo_model_imitation(context, w->student, d->valid ? d->valid : d->train, window_of(d), eval_tokens(d), errors);
    if (status == BO_OK) d->transferred(d->user, errors, layers);
    bo_free(errors);
    return status;
}

static bo_status finetune(bo_context *context, work *w)
{
    BO_TRY(measure_layers(context, w));
    if (is_skipped(w->desc, BO_LINEARIZE_STAGE_FINETUNE)) return BO_OK;
    BO_TRY(adapt(context, w));
    BO_TRY(run(context, w, BO_LINEARIZE_STAGE_FINETUNE));
    return bo_model_merge(context, w->student);
}

static bo_status make_student(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    const double gate = default_if_zero(d->gate, 5);
    const bo_replacement_desc desc = {.attention = d->attention,
                                      .kept_layers = d->kept_layers,
                                      .gate_first = gate,
                                      .gate_last = gate,
                                      .seed = d->seed};
    return bo_model_replace_attention(context, d->teacher, &desc, &w->student);
}

static bool holds(const char *directory, const char *name)
{
    char path[PATH];
    snprintf(path, PATH, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

/* Refuses a directory that contains another model, such as the teacher, or a linearization if `resume` is false. */
static bo_status refuse_occupied(bo_context *context, const bo_linearize_desc *d)
{
    static const char *const files[] = {"config.json", "model.safetensors", "adapter_config.json"};
    const bool runs = holds(d->directory, "transfer") || holds(d->directory, "finetune");
    if (runs && !d->resume)
        return bo_fail(context, BO_INVALID,
                       "%s: this directory already contains a linearization; resume it or choose another directory",
                       d->directory);
    for (size_t i = 0; i < sizeof files / sizeof *files && !runs; i++)
        if (holds(d->directory, files[i]))
            return bo_fail(context, BO_INVALID,
                           "%s: this directory already contains a model (%s) and no linearization that can be resumed; "
                           "choose another directory",
                           d->directory, files[i]);
    return BO_OK;
}

bo_status bo_linearize(bo_context *context, const bo_linearize_desc *desc, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc);
    BO_TRY(check(context, desc));
    work w = {.desc = desc};
    bo_status status = make_student(context, &w);
    if (status == BO_OK) status = check_texts(context, desc);
    if (status == BO_OK) status = check_adapters(context, &w);
    if (status == BO_OK) status = refuse_occupied(context, desc);
    if (status == BO_OK) status = bo_output_directory(context, desc->directory);
    if (status == BO_OK) status = transfer(context, &w);
    if (status == BO_OK) status = finetune(context, &w);
    if (status == BO_OK && desc->merge) bo_model_drop_adapters(w.student);
    if (status == BO_OK) status = bo_model_save(context, w.student, &(bo_sink){.path = desc->directory});
    if (status == BO_OK && out)
        *out = w.student;
    else
        bo_model_destroy(w.student);
    return status;
}
