/* training.json: where a run is, and the settings that a resumed run must share. */
#include "train.h"
#include <bochner/data.h>
#include <stdio.h>
#include <string.h>
#include "../io/json.h"

/* ---- numbers ------------------------------------------------------------------------------------------------------------ */

typedef struct field {
    const char *name;
    bool whole; /* uint64_t, else double */
    size_t offset;
} field;

static const field fields[] = {
    {"step", true, offsetof(bo_training, step)},
    {"steps", true, offsetof(bo_training, steps)},
    {"minutes", false, offsetof(bo_training, minutes)},
    {"eval_every", true, offsetof(bo_training, eval_every)},
    {"checkpoint_every", true, offsetof(bo_training, checkpoint_every)},
    {"micro_batch", true, offsetof(bo_training, micro_batch)},
    {"tokens", true, offsetof(bo_training, tokens)},
    {"seconds", false, offsetof(bo_training, seconds)},
    {"loss_sum", false, offsetof(bo_training, loss_sum)},
    {"loss_steps", true, offsetof(bo_training, loss_steps)},
    {"valid_loss", false, offsetof(bo_training, valid_loss)},
    {"valid_bits_per_byte", false, offsetof(bo_training, valid_bits_per_byte)},
    {"best_valid_loss", false, offsetof(bo_training, best_loss)},
    {"best_step", true, offsetof(bo_training, best_step)},
    {"evaluations_without_improvement", true, offsetof(bo_training, waited)},
    {"evaluated_step", true, offsetof(bo_training, evaluated)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void write_numbers(bo_json_text *text, const bo_training *now)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const void *at = (const char *)now + fields[i].offset;
        bo_json_raw(text, "  ");
        bo_json_string(text, fields[i].name);
        bo_json_raw(text, ": ");
        if (fields[i].whole)
            bo_json_whole(text, *(const uint64_t *)at);
        else
            bo_json_number(text, *(const double *)at);
        bo_json_raw(text, ",\n");
    }
}

static bo_status read_numbers(bo_context *context, const char *path, const cJSON *json, bo_training *now)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, fields[i].name);
        void *at = (char *)now + fields[i].offset;
        size_t whole = 0;
        if (!item || (fields[i].whole && !bo_json_size(item, &whole)) ||
            (!fields[i].whole && !cJSON_IsNumber(item) && !cJSON_IsNull(item)))
            return bo_fail(context, BO_FORMAT, "%s: expected a number '%s'", path, fields[i].name);
        if (fields[i].whole)
            *(uint64_t *)at = whole;
        else
            *(double *)at = cJSON_IsNull(item) ? NAN : item->valuedouble;
    }
    return BO_OK;
}

/* ---- settings ----------------------------------------------------------------------------------------------------------- */

static void name_setting(bo_json_text *text, const char *name)
{
    bo_json_raw(text, text->length > 1 ? ",\n    " : "\n    ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
}

static void number(bo_json_text *text, const char *name, double value)
{
    name_setting(text, name);
    bo_json_number(text, value);
}

static void word(bo_json_text *text, const char *name, const char *value)
{
    name_setting(text, name);
    bo_json_string(text, value ? value : "");
}

/* 64 bits do not fit into a number of JSON. */
static void code(bo_json_text *text, const char *name, uint64_t value)
{
    char hexadecimal[24];
    snprintf(hexadecimal, sizeof hexadecimal, "%016llx", (unsigned long long)value);
    word(text, name, hexadecimal);
}

static void model_settings(bo_json_text *text, const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    number(text, "layers", (double)d->layers);
    number(text, "width", (double)d->width);
    number(text, "heads", (double)d->heads);
    number(text, "key_heads", (double)d->key_heads);
    number(text, "hidden", (double)d->hidden);
    number(text, "context", (double)d->context);
    number(text, "vocab", (double)d->vocab);
    word(text, "attention", bo_attention_name(d->attention.kind));
    word(text, "gate", bo_gate_name(d->attention.gate));
    number(text, "features", (double)d->attention.features.features);
    word(text, "mlp", bo_mlp_name(d->mlp));
    word(text, "norm", bo_norm_name(d->norm));
    word(text, "positions", bo_positions_name(d->positions));
    number(text, "dropout", d->dropout);
    if (!bo_train_calibrates(model)) code(text, "model", bo_model_fingerprint(model)); /* which knows the frequencies */
}

static void optimizer_settings(bo_json_text *text, const bo_optimizer_desc *o)
{
    word(text, "optimizer", bo_optimizer_name(o->kind));
    number(text, "rate", o->rate);
    number(text, "other_rate", o->other_rate);
    number(text, "decay", o->decay);
    number(text, "momentum", o->momentum);
    number(text, "nesterov", !o->no_nesterov);
    number(text, "beta1", o->beta1);
    number(text, "beta2", o->beta2);
    number(text, "epsilon", o->epsilon);
    word(text, "muon_factor", bo_muon_factor_name(o->factor));
    number(text, "muon_iteration", o->iteration);
    number(text, "muon_iterations", (double)o->iterations);
    number(text, "clip", o->clip);
    number(text, "average", o->average);
}

static void schedule_settings(bo_json_text *text, const bo_schedule *s)
{
    word(text, "schedule", bo_schedule_name(s->kind));
    number(text, "warmup", s->warmup == UINT64_MAX ? -1 : (double)s->warmup);
    number(text, "schedule_floor", s->floor);
    number(text, "schedule_decay", s->decay);
}

/* What a run is a function of, as the members of a JSON object. Steps and minutes are apart: they may be left out. */
static void settings(bo_json_text *text, const bo_trainer *trainer)
{
    const bo_trainer_desc *desc = &trainer->desc;
    bo_json_raw(text, "{");
    code(text, "seed", desc->seed); /* first: others follow from it, and the first that differs is named */
    model_settings(text, trainer->model);
    code(text, "corpus", bo_corpus_fingerprint(desc->train));
    code(text, "validation_corpus", desc->valid ? bo_corpus_fingerprint(desc->valid) : 0);
    number(text, "batch", (double)desc->batch);
    optimizer_settings(text, &desc->optimizer);
    schedule_settings(text, &desc->schedule);
    number(text, "documents", desc->documents);
    word(text, "freeze", desc->freeze);
    number(text, "calibrate_every", (double)desc->calibrate_every);
    bo_json_raw(text, "\n  }");
}

bo_status bo_train_record_write(bo_context *context, const bo_trainer *trainer, const char *folder)
{
    char path[BO_TRAIN_PATH];
    bo_json_text text = {.context = context}, same = {.context = context};
    BO_TRY(bo_train_join(context, folder, "training.json", path));
    settings(&same, trainer);
    bo_json_raw(&text, "{\n");
    write_numbers(&text, &trainer->now);
    bo_json_raw(&text, "  \"settings\": ");
    if (!same.failed) bo_json_raw(&text, same.bytes);
    bo_json_raw(&text, "\n}\n");
    const bool whole = !text.failed && !same.failed;
    const bo_status status = whole ? bo_file_write(context, path, text.bytes, text.length) : BO_MEMORY;
    bo_free(text.bytes);
    bo_free(same.bytes);
    return status;
}

/* ---- resuming ----------------------------------------------------------------------------------------------------------- */

static bo_status another(bo_context *context, const char *path, const cJSON *was, const cJSON *is)
{
    char *expected = was ? cJSON_PrintUnformatted(was) : NULL, *found = cJSON_PrintUnformatted(is);
    const bo_status status =
        bo_fail(context, BO_INVALID, "%s: this run cannot be resumed with another %s: expected %s, found %s", path,
                is->string, expected ? expected : "none", found ? found : "another");
    cJSON_free(expected);
    cJSON_free(found);
    return status;
}

static bo_status compare_settings(bo_context *context, const bo_trainer *trainer, const char *path, const cJSON *was)
{
    bo_json_text text = {.context = context};
    cJSON *is = NULL;
    settings(&text, trainer);
    bo_status status = text.failed ? BO_MEMORY : bo_json_parse(context, path, text.bytes, text.length, 4, &is);
    for (const cJSON *item = is ? is->child : NULL; item && status == BO_OK; item = item->next) {
        const cJSON *old = cJSON_GetObjectItemCaseSensitive(was, item->string);
        if (!old || !cJSON_Compare(old, item, true)) status = another(context, path, old, item);
    }
    cJSON_Delete(is);
    bo_free(text.bytes);
    return status;
}

/* Steps and minutes, where they were given again. */
static bo_status compare_length(bo_context *context, const bo_trainer_desc *desc, const char *path,
                                const bo_training *was)
{
    static const char hint[] = "to go on training from its weights begin a run of its own with them (init)";
    if (desc->steps && desc->steps != was->steps)
        return bo_fail(context, BO_INVALID,
                       "%s: this run cannot be resumed with other steps: expected %llu, found %llu; %s", path,
                       (unsigned long long)was->steps, (unsigned long long)desc->steps, hint);
    if (desc->minutes > 0 && desc->minutes != was->minutes)
        return bo_fail(context, BO_INVALID,
                       "%s: this run cannot be resumed with other minutes: expected %g, found %g; %s", path,
                       was->minutes, desc->minutes, hint);
    return BO_OK;
}

static bo_status read_record(bo_context *context, bo_trainer *trainer, const char *path, const cJSON *json)
{
    bo_training was = {0};
    BO_TRY(read_numbers(context, path, json, &was));
    BO_TRY(compare_settings(context, trainer, path, cJSON_GetObjectItemCaseSensitive(json, "settings")));
    BO_TRY(compare_length(context, &trainer->desc, path, &was));
    trainer->now = was;
    return BO_OK;
}

bo_status bo_train_record_read(bo_context *context, bo_trainer *trainer, const char *folder)
{
    char path[BO_TRAIN_PATH], *text;
    size_t length;
    cJSON *json;
    BO_TRY(bo_train_join(context, folder, "training.json", path));
    BO_TRY(bo_train_read_text(context, path, &text, &length));
    bo_status status = bo_json_parse(context, path, text, length, 4, &json);
    bo_free(text);
    if (status == BO_OK) status = read_record(context, trainer, path, json);
    cJSON_Delete(json);
    return status;
}
