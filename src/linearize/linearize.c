/* The stages of a linearization. Each is repeated or skipped when an interrupted call continues: calibration is a function
 * of the settings, and the runs continue from their checkpoints. */
#include <bochner/linearize.h>
#include <bochner/lora.h>
#include <stdio.h>
#include <string.h>
#include "../base/base.h"
#include "../io/output.h"
#include "../model/model.h"

enum { MOST_WINDOW = 1024, PATH = 4096 };

typedef struct work {
    const bo_linearize_desc *desc;
    bo_model *student;
    bo_linearize_stage stage;
    bool transferred; /* the folder of the transfer has been written */
} work;

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static double or_usual(double value, double usual)
{
    return value > 0 ? value : usual;
}

static bo_status check(bo_context *context, const bo_linearize_desc *d)
{
    BO_TRY(bo_check_reserved(context, "bo_linearize_desc", d->reserved));
    BO_REQUIRE(context, d->teacher, d->train, d->folder);
    if (!(d->minutes >= 0) || !(d->transfer_share >= 0 && d->transfer_share <= 1) || !(d->share >= 0 && d->share <= 1))
        return bo_fail(context, BO_INVALID,
                       "linearize: expected minutes of at least 0 and shares from 0 to 1, found %g, %g and %g",
                       d->minutes, d->transfer_share, d->share);
    if (d->minutes > 0 && (d->transfer_steps || d->finetune_steps))
        return bo_fail(context, BO_INVALID, "linearize: give minutes or steps, not both");
    if (d->attention.kind == BO_ATTENTION_SOFTMAX && !d->attention.window)
        return bo_fail(context, BO_INVALID,
                       "linearize: softmax attention without a window has no state of fixed size; choose another kind or "
                       "give a window");
    return BO_OK;
}

static size_t window_of(const bo_linearize_desc *d)
{
    const size_t context = bo_model_describe(d->teacher)->context;
    return d->window ? d->window : bo_min(context, MOST_WINDOW);
}

static uint64_t eval_tokens(const bo_linearize_desc *d)
{
    return d->eval_tokens ? d->eval_tokens : 16384;
}

/* The length of a run: in steps, or in minutes of which the transfer has a share. */
static void set_length(const bo_linearize_desc *d, bo_linearize_stage stage, bo_trainer_desc *run)
{
    const bool transfer = stage == BO_LINEARIZE_STAGE_TRANSFER;
    const double share = or_usual(d->transfer_share, 0.2);
    run->steps = transfer ? d->transfer_steps : d->finetune_steps;
    if (!d->transfer_steps && !d->finetune_steps)
        run->minutes = or_usual(d->minutes, 60) * (transfer ? share : 1 - share);
    else if (!run->steps)
        run->steps = transfer ? 300 : 600;
}

static bool is_skipped(const bo_linearize_desc *d, bo_linearize_stage stage)
{
    return (stage == BO_LINEARIZE_STAGE_TRANSFER ? d->transfer_steps : d->finetune_steps) == UINT64_MAX;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static bool report(void *user, const bo_training_report *r)
{
    const work *w = user;
    return !w->desc->report || w->desc->report(w->desc->user, w->stage, r);
}

static void path_of(const work *w, bo_linearize_stage stage, char out[PATH])
{
    snprintf(out, PATH, "%.4000s/%s", w->desc->folder, stage == BO_LINEARIZE_STAGE_TRANSFER ? "transfer" : "finetune");
}

static bo_status run(bo_context *context, work *w, bo_linearize_stage stage)
{
    const bo_linearize_desc *d = w->desc;
    const bool transfer = stage == BO_LINEARIZE_STAGE_TRANSFER;
    char folder[PATH];
    path_of(w, stage, folder);
    w->stage = stage;
    bo_trainer_desc desc = {
        .model = w->student,
        .train = d->train,
        .valid = d->valid,
        .folder = folder,
        .resume = d->resume,
        .optimizer = {.kind = BO_OPTIMIZER_ADAMW,
                      .rate = transfer ? or_usual(d->transfer_rate, 5e-3) : or_usual(d->finetune_rate, 1e-3)},
        .batch = d->batch,
        .eval_tokens = eval_tokens(d),
        .seed = d->seed,
        .window = window_of(d),
        .imitate = transfer ? BO_IMITATION_ATTENTION : BO_IMITATION_LOGITS,
        .share = d->share,
        .sparsity = d->sparsity ? d->sparsity : 4,
        .report = report,
        .user = w};
    set_length(d, stage, &desc);
    bo_trainer *trainer;
    BO_TRY(bo_trainer_create(context, &desc, &trainer));
    const bo_status status = bo_trainer_run(context, trainer);
    bo_trainer_destroy(trainer);
    return status;
}

/* Adapters name the folder of the transfer as their base. Without a transfer, the calibrated model is written there. */
static bo_status adapt(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    char base[PATH], *whole = NULL;
    path_of(w, BO_LINEARIZE_STAGE_TRANSFER, base);
    if (!w->transferred) BO_TRY(bo_model_save(context, w->student, base));
    BO_TRY(bo_model_new_parameters(context, w->student, &whole));
    const bo_lora_desc lora = {.rank = d->rank ? d->rank : 16,
                               .alpha = d->alpha,
                               .targets = d->targets ? d->targets : "q_proj,k_proj,v_proj,o_proj",
                               .whole = whole,
                               .seed = d->seed,
                               .base = base};
    const bo_status status = bo_model_adapt(context, w->student, &lora);
    bo_free(whole);
    return status;
}

static bo_status calibrate(bo_context *context, work *w)
{
    const bo_linearize_desc *d = w->desc;
    const bo_model_desc *shape = bo_model_describe(w->student);
    size_t count = 0;
    bo_head_fit *fits = bo_alloc(context, shape->layers * shape->key_heads, sizeof *fits, "a calibration");
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
    const bool any = *trained; /* a window alone has nothing to learn */
    bo_free(trained);
    BO_TRY(calibrate(context, w));
    w->transferred = any && !is_skipped(d, BO_LINEARIZE_STAGE_TRANSFER);
    return w->transferred ? run(context, w, BO_LINEARIZE_STAGE_TRANSFER) : BO_OK;
}

/* Before adapters are added: with them, queries and keys are no longer those of the teacher. */
static bo_status measure_layers(bo_context *context, const work *w)
{
    const bo_linearize_desc *d = w->desc;
    const size_t layers = bo_model_describe(w->student)->layers;
    if (!d->transferred) return BO_OK;
    double *errors = bo_alloc(context, layers, sizeof *errors, "errors of layers");
    if (!errors) return BO_MEMORY;
    const bo_status status = bo_model_imitation(context, w->student, d->valid ? d->valid : d->train, window_of(d),
                                                eval_tokens(d), errors);
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
    const double gate = or_usual(d->gate, 6);
    const bo_replacement_desc desc = {.attention = d->attention,
                                      .kept_layers = d->kept_layers,
                                      .gate_first = gate,
                                      .gate_last = gate,
                                      .seed = d->seed};
    return bo_model_replace_attention(context, d->teacher, &desc, &w->student);
}

bo_status bo_linearize(bo_context *context, const bo_linearize_desc *desc, bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc);
    BO_TRY(check(context, desc));
    work w = {.desc = desc};
    bo_status status = make_student(context, &w);
    if (status == BO_OK) status = bo_output_folder(context, desc->folder);
    if (status == BO_OK) status = transfer(context, &w);
    if (status == BO_OK) status = finetune(context, &w);
    if (status == BO_OK && desc->merge) bo_model_drop_adapters(w.student);
    if (status == BO_OK) status = bo_model_save(context, w.student, desc->folder);
    if (status == BO_OK && out)
        *out = w.student;
    else
        bo_model_destroy(w.student);
    return status;
}
