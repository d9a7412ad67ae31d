/* Fitted laws as JSON: the family and the runs. The laws are fitted again when the file is read. */
#include "../optim/enums.h"
#include "../nn/enums.h"
#include "laws.h"
#include <bochner/data.h>
#include "../io/bytes.h"
#include <math.h>
#include <string.h>

enum { DEPTH = 4 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_name(bo_json_text *text, const char *name)
{
    bo_json_raw(text, ",\n  ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
}

static void write_word(bo_json_text *text, const char *name, const char *value)
{
    write_name(text, name);
    if (value)
        bo_json_string(text, value);
    else
        bo_json_raw(text, "null");
}

static void write_whole(bo_json_text *text, const char *name, size_t value)
{
    write_name(text, name);
    bo_json_whole(text, value);
}

/* NAN is written as null. */
static void write_number(bo_json_text *text, const char *name, double value)
{
    bo_json_raw(text, ", ");
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
    if (isfinite(value))
        bo_json_number(text, value);
    else
        bo_json_raw(text, "null");
}

static void write_run(bo_json_text *text, const bo_plan_observation *o)
{
    bo_json_raw(text, "{\"name\": ");
    bo_json_string(text, o->name ? o->name : "");
    write_number(text, "parameters", o->counts.parameters);
    write_number(text, "tokens", o->counts.tokens);
    write_number(text, "layers", o->counts.layers);
    write_number(text, "copies", o->counts.copies);
    write_number(text, "operations", o->counts.operations);
    write_number(text, "bytes", o->bytes);
    write_number(text, "loss", o->loss);
    write_number(text, "seconds", o->seconds);
    bo_json_raw(text, "}");
}

void bo_plan_laws_text(const bo_plan_laws *laws, bo_json_text *text)
{
    const bo_plan_family *f = &laws->family;
    bo_json_raw(text, BO_JSON_SEALED "\n  \"format\": \"bochner law 1\"");
    write_word(text, "config", f->config);
    write_word(text, "options", f->options);
    write_whole(text, "batch", f->batch);
    write_whole(text, "micro_batch", f->micro_batch);
    write_word(text, "optimizer", bo_optimizer_kind_name(f->optimizer));
    write_word(text, "activations", bo_storage_name(f->activations));
    write_name(text, "checkpointing");
    bo_json_raw(text, f->checkpointing ? "true" : "false");
    write_name(text, "token_bytes");
    bo_json_number(text, f->token_bytes);
    write_word(text, "isa", f->isa);
    write_whole(text, "threads", f->threads > 0 ? (size_t)f->threads : 0);
    write_name(text, "runs");
    for (size_t i = 0; i < laws->count; i++) {
        bo_json_raw(text, i ? ",\n    " : "[\n    ");
        write_run(text, &laws->observations[i]);
    }
    bo_json_raw(text, laws->count ? "\n  ]\n}\n" : "[]\n}\n");
}

bo_status bo_plan_laws_save(bo_context *context, const bo_plan_laws *laws, const char *path)
{
    BO_REQUIRE(context, laws, path);
    bo_json_text text = {.context = context};
    bo_plan_laws_text(laws, &text);
    return bo_json_text_save(&text, path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The file being read, for error messages. */
typedef struct law_file {
    bo_context *context;
    const char *path;
} law_file;

static const bo_json *item_of(const bo_json *object, const char *name)
{
    return bo_json_member(object, name);
}

/* `may_be_null`: null is read as NULL. */
static bo_status read_word(const law_file *file, const bo_json *object, const char *name, bool may_be_null,
                           const char **out)
{
    const bo_json *item = item_of(object, name);
    *out = bo_json_text_or_null(item);
    if (*out || (may_be_null && bo_json_is(item, BO_JSON_NULL))) return BO_OK;
    return bo_fail(file->context, BO_FORMAT, "%s: %s: expected a string", file->path, name);
}

static bo_status read_whole(const law_file *file, const bo_json *object, const char *name, size_t max_value,
                            size_t *out)
{
    if (bo_json_size(item_of(object, name), out) && *out <= max_value) return BO_OK;
    return bo_fail(file->context, BO_FORMAT, "%s: %s: expected a whole number of at most %zu", file->path, name,
                   max_value);
}

/* `may_be_null`: null is read as NAN. */
static bo_status read_number(const law_file *file, const bo_json *object, const char *name, bool may_be_null,
                             double *out)
{
    const bo_json *item = item_of(object, name);
    *out = bo_json_is(item, BO_JSON_NUMBER) ? item->number : NAN;
    if ((bo_json_is(item, BO_JSON_NUMBER) && isfinite(*out)) || (may_be_null && bo_json_is(item, BO_JSON_NULL)))
        return BO_OK;
    return bo_fail(file->context, BO_FORMAT, "%s: %s: expected a number", file->path, name);
}

static bo_status read_run(const law_file *file, const bo_json *object, bo_plan_observation *out)
{
    BO_TRY(read_word(file, object, "name", false, &out->name));
    BO_TRY(read_number(file, object, "parameters", false, &out->counts.parameters));
    BO_TRY(read_number(file, object, "tokens", false, &out->counts.tokens));
    BO_TRY(read_number(file, object, "layers", false, &out->counts.layers));
    BO_TRY(read_number(file, object, "copies", false, &out->counts.copies));
    BO_TRY(read_number(file, object, "operations", false, &out->counts.operations));
    BO_TRY(read_number(file, object, "bytes", false, &out->bytes));
    BO_TRY(read_number(file, object, "loss", true, &out->loss));
    return read_number(file, object, "seconds", true, &out->seconds);
}

static bo_status read_family(const law_file *file, const bo_json *root, bo_plan_family *out)
{
    enum { MAX_BATCH = 1 << 24, MAX_THREADS = 1 << 16 };
    const char *optimizer, *activations;
    size_t threads;
    BO_TRY(read_word(file, root, "config", false, &out->config));
    BO_TRY(read_word(file, root, "options", true, &out->options));
    BO_TRY(read_whole(file, root, "batch", MAX_BATCH, &out->batch));
    BO_TRY(read_whole(file, root, "micro_batch", MAX_BATCH, &out->micro_batch));
    BO_TRY(read_word(file, root, "optimizer", false, &optimizer));
    if (!bo_optimizer_kind_parse(optimizer, &out->optimizer))
        return bo_fail(file->context, BO_FORMAT, "%s: unknown optimizer '%s'", file->path, optimizer);
    BO_TRY(read_word(file, root, "activations", false, &activations));
    if (!bo_storage_parse(activations, &out->activations))
        return bo_fail(file->context, BO_FORMAT, "%s: unknown storage of activations '%s'", file->path, activations);
    out->checkpointing = bo_json_is(item_of(root, "checkpointing"), BO_JSON_TRUE);
    BO_TRY(read_number(file, root, "token_bytes", false, &out->token_bytes));
    BO_TRY(read_word(file, root, "isa", true, &out->isa));
    BO_TRY(read_whole(file, root, "threads", MAX_THREADS, &threads));
    out->threads = (int)threads;
    return BO_OK;
}

static bo_status read_laws(const law_file *file, const bo_json *root, bo_plan_family *family,
                           bo_plan_observation observations[BO_PLAN_RUNS], size_t *count)
{
    const char *format;
    BO_TRY(read_word(file, root, "format", false, &format));
    if (strcmp(format, "bochner law 1") != 0)
        return bo_fail(file->context, BO_FORMAT, "%s: expected a file of bochner plan --fit, found '%s'", file->path,
                       format);
    BO_TRY(read_family(file, root, family));
    const bo_json *item, *runs = item_of(root, "runs");
    if (!bo_json_is(runs, BO_JSON_ARRAY))
        return bo_fail(file->context, BO_FORMAT, "%s: runs: expected an array", file->path);
    BO_JSON_EACH(item, runs)
    {
        if (*count == BO_PLAN_RUNS)
            return bo_fail(file->context, BO_FORMAT, "%s: runs: expected at most %d", file->path, BO_PLAN_RUNS);
        BO_TRY(read_run(file, item, &observations[(*count)++]));
    }
    return BO_OK;
}

bo_status bo_plan_laws_parse(bo_context *context, const char *path, const char *text, size_t length, bo_json **root,
                             bo_plan_family *family, bo_plan_observation observations[BO_PLAN_RUNS], size_t *count)
{
    const law_file file = {context, path};
    *family = (bo_plan_family){0};
    memset(observations, 0, BO_PLAN_RUNS * sizeof *observations);
    *count = 0;
    *root = NULL;
    if (length > bo_limits_calibration.bytes)
        return bo_input_too_large(context, path, length, false, bo_limits_calibration.bytes);
    BO_TRY(bo_json_parse(context, path, text, length, DEPTH, root));
    const bo_status status = read_laws(&file, *root, family, observations, count);
    if (status == BO_OK) return BO_OK;
    bo_json_delete(*root);
    *root = NULL;
    return status;
}

static bo_status fit_text(bo_context *context, const char *path, const char *text, size_t length, bo_plan_laws **out)
{
    bo_plan_family family;
    bo_plan_observation observations[BO_PLAN_RUNS];
    size_t count;
    bo_json *root;
    BO_TRY(bo_plan_laws_parse(context, path, text, length, &root, &family, observations, &count));
    bo_status status = bo_plan_laws_fit(context, &family, observations, count, out);
    bo_json_delete(root);
    if (status != BO_INVALID && status != BO_NUMERIC) return status;
    char why[512] = "";
    strncat(why, bo_context_error(context), sizeof why - 1);
    return bo_fail(context, BO_FORMAT, "%s: %s", path, why);
}

bo_status bo_plan_laws_load(bo_context *context, const char *path, bo_plan_laws **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    char *text;
    size_t length;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_calibration, &text, &length));
    bo_status status = bo_json_check(context, path, text, length);
    if (status == BO_OK) status = fit_text(context, path, text, length, out);
    bo_free(text);
    return status;
}
