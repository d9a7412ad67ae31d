/* The files training.json and metrics.jsonl of a run. */
#include <bochner/data.h>
#include <bochner/json.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../optim/enums.h"
#include "../nn/enums.h"
#include "../base/enums.h"
#include "../io/bytes.h"
#include "../io/json.h"
#include "../io/numbers.h"
#include "train.h"

/* ====================================================================================================================
 * training.json: the position of a run, and the settings that a resumed run must share. Equal runs have equal files:
 * times are in metrics.jsonl. */

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    bool whole; /* uint64_t; otherwise double */
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
    {"loss_sum", false, offsetof(bo_training, loss_sum)},
    {"loss_steps", true, offsetof(bo_training, loss_steps)},
    {"valid_loss", false, offsetof(bo_training, valid_loss)},
    {"valid_", false, offsetof(bo_training, valid_metric)}, /* followed by the name of the metric */
    {"best_valid_loss", false, offsetof(bo_training, best_loss)},
    {"best_step", true, offsetof(bo_training, best_step)},
    {"evaluations_without_improvement", true, offsetof(bo_training, waited)},
    {"evaluated_step", true, offsetof(bo_training, evaluated)},
};
enum { FIELDS = sizeof fields / sizeof *fields, NAME = 80 };

static const char *name_of(const field *f, const char *metric, char out[NAME])
{
    snprintf(out, NAME, "%s%s", f->name, f->offset == offsetof(bo_training, valid_metric) ? metric : "");
    return out;
}

static void write_numbers(bo_json_text *text, const bo_training *now, const char *metric)
{
    for (size_t i = 0; i < FIELDS; i++) {
        char name[NAME];
        const void *at = (const char *)now + fields[i].offset;
        bo_json_raw(text, "  ");
        bo_json_string(text, name_of(&fields[i], metric, name));
        bo_json_raw(text, ": ");
        if (fields[i].whole)
            bo_json_whole(text, *(const uint64_t *)at);
        else
            bo_json_number(text, *(const double *)at);
        bo_json_raw(text, ",\n");
    }
}

static bo_status read_numbers(bo_context *context, const char *path, const bo_json *json, const char *metric,
                              bo_training *now)
{
    for (size_t i = 0; i < FIELDS; i++) {
        char name[NAME];
        const bo_json *item = bo_json_member(json, name_of(&fields[i], metric, name));
        void *at = (char *)now + fields[i].offset;
        uint64_t whole = 0;
        if (!item || (fields[i].whole && !bo_json_uint64(item, &whole)) ||
            (!fields[i].whole && !bo_json_is(item, BO_JSON_NUMBER) && !bo_json_is(item, BO_JSON_NULL)))
            return bo_fail(context, BO_FORMAT, "%s: expected a number in '%s'", path, name);
        if (fields[i].whole)
            *(uint64_t *)at = whole;
        else
            *(double *)at = bo_json_is(item, BO_JSON_NULL) ? NAN : item->number;
    }
    return BO_OK;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void name_setting(bo_json_text *text, const char *name)
{
    bo_json_raw(text, text->length > 1 ? ",\n    " : "\n    ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
}

void bo_train_setting_number(bo_json_text *text, const char *name, double value)
{
    name_setting(text, name);
    bo_json_number(text, value);
}

void bo_train_setting_word(bo_json_text *text, const char *name, const char *value)
{
    name_setting(text, name);
    bo_json_string(text, value ? value : "");
}

void bo_train_setting_code(bo_json_text *text, const char *name, uint64_t value)
{
    char hexadecimal[24];
    snprintf(hexadecimal, sizeof hexadecimal, "%016llx", (unsigned long long)value);
    bo_train_setting_word(text, name, hexadecimal);
}

static void optimizer_settings(bo_json_text *text, const bo_optimizer_desc *o)
{
    bo_train_setting_word(text, "optimizer", bo_optimizer_kind_name(o->kind));
    bo_train_setting_number(text, "rate", o->rate);
    bo_train_setting_number(text, "other_rate", o->other_rate);
    bo_train_setting_number(text, "decay", o->decay);
    bo_train_setting_number(text, "momentum", o->momentum);
    bo_train_setting_number(text, "nesterov", !o->no_nesterov);
    bo_train_setting_number(text, "beta1", o->beta1);
    bo_train_setting_number(text, "beta2", o->beta2);
    bo_train_setting_number(text, "epsilon", o->epsilon);
    bo_train_setting_word(text, "muon_factor", bo_muon_factor_name(o->factor));
    bo_train_setting_number(text, "muon_iteration", o->iteration);
    bo_train_setting_number(text, "muon_iterations", (double)o->iterations);
    bo_train_setting_number(text, "clip", o->clip);
    bo_train_setting_number(text, "average", o->average);
}

static void schedule_settings(bo_json_text *text, const bo_schedule *s)
{
    bo_train_setting_word(text, "schedule", bo_schedule_kind_name(s->kind));
    bo_train_setting_number(text, "warmup", s->warmup == UINT64_MAX ? -1 : (double)s->warmup);
    bo_train_setting_number(text, "schedule_floor", s->floor);
    bo_train_setting_number(text, "schedule_decay", s->decay);
}

/* The settings that determine a run, as members of a JSON object. Steps and minutes are separate, because they may be
 * omitted. */
static void settings(bo_json_text *text, const bo_trainer *trainer)
{
    const bo_trainer_desc *desc = &trainer->desc;
    bo_json_raw(text, "{");
    bo_train_setting_code(text, "seed",
                          desc->seed); /* first: other settings depend on it, and the first difference is reported */
    trainer->task->methods->settings(trainer->task, text);
    bo_train_setting_number(text, "batch", (double)desc->batch);
    optimizer_settings(text, &desc->optimizer);
    schedule_settings(text, &desc->schedule);
    bo_train_setting_word(text, "freeze", desc->freeze);
    /* omitted for the default, so that runs of earlier versions can be resumed */
    if (desc->activations != BO_STORAGE_FLOAT32)
        bo_train_setting_word(text, "activations", bo_storage_name(desc->activations));
    if (trainer->precision != BO_PRECISION_FLOAT32)
        bo_train_setting_word(text, "precision", bo_precision_name(trainer->precision));
    bo_json_raw(text, "\n  }");
}

bo_status bo_train_record_write(bo_context *context, const bo_trainer *trainer, const char *directory)
{
    char path[BO_TRAIN_PATH];
    bo_json_text text = {.context = context}, same = {.context = context};
    BO_TRY(bo_train_join(context, directory, "training.json", path));
    settings(&same, trainer);
    bo_json_raw(&text, BO_JSON_SEALED "\n");
    write_numbers(&text, &trainer->now, trainer->task->metric);
    bo_json_raw(&text, "  \"settings\": ");
    if (!same.failed) bo_json_raw(&text, same.bytes);
    bo_json_raw(&text, "\n}\n");
    const bool whole = !text.failed && !same.failed && bo_json_seal(text.bytes, text.length);
    const bo_status status = whole ? bo_file_save(context, path, text.bytes, text.length) : BO_MEMORY;
    bo_free(text.bytes);
    bo_free(same.bytes);
    return status;
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

/* Either value may be NULL. */
static bo_status another(bo_context *context, const char *path, const bo_json *was, const bo_json *is)
{
    char *expected = was ? bo_json_print(was) : NULL, *found = is ? bo_json_print(is) : NULL;
    const bo_status status =
        bo_fail(context, BO_INVALID, "%s: this run cannot be resumed with a different %s: expected %s, found %s", path,
                is ? is->key : was->key, expected ? expected : "none", found ? found : "none");
    free(expected);
    free(found);
    return status;
}

/* Treats a value that earlier versions wrote under another name as equal. */
static bool same_setting(const bo_json *was, const bo_json *is)
{
    const char *former = bo_json_text_or_null(was), *now = bo_json_text_or_null(is);
    if (former && now && strcmp(former, "rope-neighbours") == 0 && strcmp(now, "rope-neighbors") == 0) return true;
    return bo_json_equal(was, is);
}

static bo_status compare_settings(bo_context *context, const bo_trainer *trainer, const char *path, const bo_json *was)
{
    bo_json_text text = {.context = context};
    bo_json *is = NULL;
    settings(&text, trainer);
    bo_status status = text.failed ? BO_MEMORY : bo_json_parse(context, path, text.bytes, text.length, 4, &is);
    for (const bo_json *item = is ? is->child : NULL; item && status == BO_OK; item = item->next) {
        const bo_json *old = bo_json_member(was, item->key);
        if (!old || !same_setting(old, item)) status = another(context, path, old, item);
    }
    for (const bo_json *item = status == BO_OK ? was->child : NULL; item && status == BO_OK; item = item->next)
        if (!bo_json_member(is, item->key)) status = another(context, path, item, NULL);
    bo_json_delete(is);
    bo_free(text.bytes);
    return status;
}

/* Compares steps and minutes if they were specified again. */
static bo_status compare_length(bo_context *context, const bo_trainer_desc *desc, const char *path,
                                const bo_training *was)
{
    static const char hint[] = "to continue from its weights with other settings, start a new run that is initialized "
                               "with them (bochner train --init DIR)";
    if (desc->steps && desc->steps != was->steps)
        return bo_fail(context, BO_INVALID,
                       "%s: this run cannot be resumed with a different number of steps: expected %llu, found %llu; %s",
                       path, (unsigned long long)was->steps, (unsigned long long)desc->steps, hint);
    if (desc->minutes > 0 && desc->minutes != was->minutes)
        return bo_fail(context, BO_INVALID,
                       "%s: this run cannot be resumed with a different number of minutes: expected %g, found %g; %s",
                       path, was->minutes, desc->minutes, hint);
    return BO_OK;
}

static bo_status read_record(bo_context *context, bo_trainer *trainer, const char *path, const bo_json *json)
{
    bo_training was = {0};
    BO_TRY(read_numbers(context, path, json, trainer->task->metric, &was));
    BO_TRY(compare_settings(context, trainer, path, bo_json_member(json, "settings")));
    BO_TRY(compare_length(context, &trainer->desc, path, &was));
    /* runs of earlier versions have the time here */
    const bo_json *seconds = bo_json_member(json, "seconds");
    if (bo_json_is(seconds, BO_JSON_NUMBER)) was.seconds = seconds->number;
    trainer->now = was;
    return BO_OK;
}

bo_status bo_train_record_parse(bo_context *context, bo_trainer *trainer, const char *where, const char *text,
                                size_t length)
{
    bo_json *json;
    BO_TRY(bo_json_parse(context, where, text, length, 4, &json));
    const bo_status status = read_record(context, trainer, where, json);
    bo_json_delete(json);
    return status;
}

bo_status bo_train_record_read(bo_context *context, bo_trainer *trainer, const char *directory)
{
    char path[BO_TRAIN_PATH], *text;
    size_t length;
    BO_TRY(bo_train_join(context, directory, "training.json", path));
    BO_TRY(bo_bytes_text(context, path, &bo_limits_record, &text, &length));
    bo_status status = bo_json_check(context, path, text, length);
    if (status == BO_OK) status = bo_train_record_parse(context, trainer, path, text, length);
    bo_free(text);
    return status;
}

/* ====================================================================================================================
 * metrics.jsonl: one line per report, with the names of bo_training_report; the names of the metric and of the unit
 * vary. The number of threads and the instruction set are added, because times depend on them. */

static const char FIRST[] = "{\"step\": "; /* start of every line, used to split lines */

/* Writes a name of one or two plain words. */
static void add_named(bo_json_text *text, const char *first, const char *second, double value)
{
    bo_json_raw(text, ", \"");
    bo_json_raw(text, first);
    bo_json_raw(text, second);
    bo_json_raw(text, "\": ");
    bo_json_number(text, value);
}

static void add(bo_json_text *text, const char *name, double value)
{
    add_named(text, name, "", value);
}

static void line_of(bo_json_text *text, const bo_training_report *r)
{
    bo_json_raw(text, FIRST);
    bo_json_whole(text, r->step);
    add(text, "steps", (double)r->steps);
    add(text, "loss", r->loss);
    add(text, "valid_loss", r->valid_loss);
    add_named(text, "valid_", r->metric, r->valid_metric);
    add(text, "best_valid_loss", r->best_valid_loss);
    add(text, "gradient_norm", r->gradient_norm);
    add(text, "rate", r->rate);
    add(text, r->unit, (double)r->tokens);
    add(text, "seconds", r->seconds);
    add_named(text, r->unit, "_per_second", r->tokens_per_second);
    add(text, "gflops", r->gflops);
    add(text, "seconds_left", r->seconds_left);
    add(text, "threads", bo_context_threads(text->context));
    bo_json_raw(text, ", \"isa\": ");
    bo_json_string(text, bo_context_describe(text->context)->isa);
    bo_json_raw(text, r->evaluated ? ", \"evaluated\": true}\n" : ", \"evaluated\": false}\n");
}

static bo_status append(bo_context *context, const char *path, const bo_json_text *text)
{
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return bo_fail(context, BO_IO, "%s: cannot be written: %s", path, strerror(errno));
    errno = ENOSPC; /* only part of the line was written */
    const ssize_t written = write(file, text->bytes, text->length);
    const int error = errno;
    close(file);
    if (written == (ssize_t)text->length) return BO_OK;
    return bo_fail(context, BO_IO, "%s: writing failed: %s", path, strerror(error));
}

bo_status bo_train_metrics_add(bo_context *context, const bo_trainer *trainer)
{
    char path[BO_TRAIN_PATH];
    bo_json_text text = {.context = context};
    BO_TRY(bo_train_join(context, trainer->directory, "metrics.jsonl", path));
    line_of(&text, &trainer->report);
    const bo_status status = text.failed ? BO_MEMORY : append(context, path, &text);
    bo_free(text.bytes);
    return status;
}

typedef enum line_kind { LINE_DONE, LINE_LATER, LINE_UNREADABLE } line_kind;

/* Classifies the line [line, end) by its step. */
static line_kind classify(const char *line, const char *end, uint64_t done)
{
    const size_t length = sizeof FIRST - 1;
    if ((size_t)(end - line) < length + 2 || memcmp(line, FIRST, length) != 0 || end[-1] != '}' || line[length] < '0' ||
        line[length] > '9')
        return LINE_UNREADABLE;
    return strtoull(line + length, NULL, 10) <= done ? LINE_DONE : LINE_LATER;
}

/* Removes the lines of later steps from the text and returns its new length. All lines after the last completed step
 * are removed, even damaged ones: a power failure may tear them. *unreadable is the number of the first line without a
 * report, or 0. */
static size_t cut(char *text, size_t length, uint64_t done, size_t *unreadable)
{
    size_t number = 0, kept = 0, last = 0;
    *unreadable = 0;
    for (char *line = text, *end; (end = memchr(line, '\n', (size_t)(text + length - line))); line = end + 1) {
        const size_t size = (size_t)(end + 1 - line);
        const line_kind kind = classify(line, end, done);
        number++;
        if (kind == LINE_UNREADABLE && !*unreadable) *unreadable = number;
        if (kind == LINE_LATER) continue;
        memmove(text + kept, line, size);
        kept += size;
        if (kind == LINE_DONE) last = kept;
    }
    return last;
}

/* Returns the time of the last of these lines, or 0. */
static double last_seconds(const char *text, size_t length)
{
    static const char name[] = "\"seconds\": ";
    size_t begin = length ? length - 1 : 0;
    while (begin > 0 && text[begin - 1] != '\n') begin--;
    for (size_t at = begin; at + sizeof name <= length; at++)
        if (memcmp(text + at, name, sizeof name - 1) == 0) {
            const char *stop;
            double found;
            const bool read = bo_number_read(text + at + sizeof name - 1, text + length, &stop, &found);
            return read && found > 0 && isfinite(found) ? found : 0;
        }
    return 0;
}

bo_status bo_train_metrics_cut(bo_context *context, bo_trainer *trainer)
{
    char path[BO_TRAIN_PATH], *text;
    size_t length, unreadable;
    BO_TRY(bo_train_join(context, trainer->directory, "metrics.jsonl", path));
    if (access(path, F_OK) != 0) return BO_OK;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_metrics, &text, &length));
    const size_t kept = cut(text, length, trainer->now.step, &unreadable);
    if (trainer->now.seconds == 0) trainer->now.seconds = last_seconds(text, kept);
    if (unreadable)
        bo_log(context, BO_LOG_WARNING,
               "%s: line %zu is damaged and not a report; the other lines up to step %llu are kept", path, unreadable,
               (unsigned long long)trainer->now.step);
    const bo_status status = kept < length ? bo_file_save(context, path, text, kept) : BO_OK;
    bo_free(text);
    return status;
}
