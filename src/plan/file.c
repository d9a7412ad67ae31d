/* Calibration measurements as JSON: shapes and seconds. The costs are fitted again when the file is read. */
#include "../optim/enums.h"
#include "plan.h"
#include <bochner/data.h>
#include "../io/bytes.h"
#include <bochner/json.h>
#include <math.h>
#include <string.h>

enum { DEPTH = 4, MAX_DIM = 256, MAX_FEATURES = 1024 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_count(bo_json_text *text, const char *name, size_t value)
{
    bo_json_string(text, name);
    bo_json_raw(text, ": ");
    bo_json_whole(text, value);
    bo_json_raw(text, ", ");
}

static void write_timing(bo_json_text *text, const bo_plan_timing *timing)
{
    const bo_plan_shape *s = &timing->shape;
    bo_json_raw(text, "{");
    write_count(text, "layers", s->layers);
    write_count(text, "width", s->width);
    write_count(text, "heads", s->heads);
    write_count(text, "features", s->features);
    write_count(text, "context", s->context);
    write_count(text, "batch", s->batch);
    write_count(text, "vocab", s->vocab);
    bo_json_raw(text, "\"seconds\": ");
    bo_json_number(text, timing->seconds);
    bo_json_raw(text, ", \"spread\": ");
    bo_json_number(text, timing->spread);
    bo_json_raw(text, "}");
}

void bo_plan_host_text(const bo_plan_host *host, bo_json_text *text)
{
    const bo_plan_shape *first = &host->timings[0].shape;
    bo_json_raw(text, BO_JSON_SEALED "\n  \"format\": \"bochner calibration 1\",\n  \"attention\": ");
    bo_json_string(text, first->attention);
    bo_json_raw(text, ",\n  \"optimizer\": ");
    bo_json_string(text, bo_optimizer_kind_name(first->optimizer));
    bo_json_raw(text, ",\n  \"isa\": ");
    bo_json_string(text, host->isa);
    bo_json_raw(text, ",\n  \"threads\": ");
    bo_json_whole(text, (uint64_t)host->threads);
    bo_json_raw(text, ",\n  \"timings\": [");
    for (size_t i = 0; i < host->timing_count; i++) {
        bo_json_raw(text, i ? ",\n    " : "\n    ");
        write_timing(text, &host->timings[i]);
    }
    bo_json_raw(text, "\n  ]\n}\n");
}

bo_status bo_plan_host_save(bo_context *context, const bo_plan_host *host, const char *path)
{
    BO_REQUIRE(context, host, path);
    bo_json_text text = {.context = context};
    bo_plan_host_text(host, &text);
    return bo_json_text_save(&text, path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The file being read, for error messages. */
typedef struct calibration_file {
    bo_context *context;
    const char *path;
} calibration_file;

static bo_status read_count(const calibration_file *file, const bo_json *object, const char *name, size_t *out)
{
    if (bo_json_size(bo_json_member(object, name), out) && *out >= 1) return BO_OK;
    return bo_fail(file->context, BO_FORMAT, "%s: %s: expected a whole number of at least 1", file->path, name);
}

static bo_status read_number(const calibration_file *file, const bo_json *object, const char *name, double *out)
{
    const bo_json *item = bo_json_member(object, name);
    if (bo_json_is(item, BO_JSON_NUMBER) && isfinite(item->number) && item->number >= 0) {
        *out = item->number;
        return BO_OK;
    }
    return bo_fail(file->context, BO_FORMAT, "%s: %s: expected a number of at least 0", file->path, name);
}

static bo_status read_word(const calibration_file *file, const bo_json *object, const char *name, const char **out)
{
    *out = bo_json_text_or_null(bo_json_member(object, name));
    return *out ? BO_OK : bo_fail(file->context, BO_FORMAT, "%s: %s: expected a string", file->path, name);
}

static bo_status read_timing(const calibration_file *file, const bo_json *object, bo_plan_timing *out)
{
    bo_plan_shape *s = &out->shape;
    BO_TRY(read_count(file, object, "layers", &s->layers));
    BO_TRY(read_count(file, object, "width", &s->width));
    BO_TRY(read_count(file, object, "heads", &s->heads));
    const bo_json *features = bo_json_member(object, "features");
    if (!bo_json_size(features, &s->features)) /* 0: the default of the attention */
        return bo_fail(file->context, BO_FORMAT, "%s: features: expected a whole number", file->path);
    BO_TRY(read_count(file, object, "context", &s->context));
    BO_TRY(read_count(file, object, "batch", &s->batch));
    BO_TRY(read_count(file, object, "vocab", &s->vocab));
    /* counting would create feature maps of this size */
    if (s->width / s->heads > MAX_DIM || s->features > MAX_FEATURES)
        return bo_fail(file->context, BO_FORMAT,
                       "%s: a shape of %zu features and heads of %zu: expected at most %d and %d", file->path,
                       s->features, s->width / s->heads, MAX_FEATURES, MAX_DIM);
    BO_TRY(read_number(file, object, "seconds", &out->seconds));
    return read_number(file, object, "spread", &out->spread);
}

static bo_status read_timings(const calibration_file *file, const bo_json *root, bo_plan_timing *out, size_t *count)
{
    const char *attention, *optimizer;
    bo_optimizer_kind kind;
    BO_TRY(read_word(file, root, "attention", &attention));
    BO_TRY(read_word(file, root, "optimizer", &optimizer));
    if (!bo_optimizer_kind_parse(optimizer, &kind))
        return bo_fail(file->context, BO_FORMAT, "%s: unknown optimizer '%s'", file->path, optimizer);
    const bo_json *item, *list = bo_json_member(root, "timings");
    *count = 0;
    BO_JSON_EACH(item, list)
    {
        if (*count == BO_PLAN_SHAPES)
            return bo_fail(file->context, BO_FORMAT, "%s: timings: expected at most %d", file->path, BO_PLAN_SHAPES);
        out[*count] = (bo_plan_timing){.shape = {.attention = attention, .optimizer = kind}};
        BO_TRY(read_timing(file, item, &out[(*count)++]));
    }
    return BO_OK;
}

static bo_status read_host(const calibration_file *file, const bo_json *root, bo_plan_host **out)
{
    bo_plan_timing timings[BO_PLAN_SHAPES];
    const char *format, *isa;
    size_t count, threads;
    BO_TRY(read_word(file, root, "format", &format));
    if (strcmp(format, "bochner calibration 1") != 0)
        return bo_fail(file->context, BO_FORMAT, "%s: expected a calibration file of bochner plan, found '%s'",
                       file->path, format);
    BO_TRY(read_timings(file, root, timings, &count));
    BO_TRY(read_word(file, root, "isa", &isa));
    BO_TRY(read_count(file, root, "threads", &threads));
    if (threads > 1 << 16)
        return bo_fail(file->context, BO_FORMAT, "%s: threads: expected at most 65536, found %zu", file->path, threads);
    const bo_status status = bo_plan_host_fit_as(file->context, isa, (int)threads, timings, count, 0, out);
    if (status == BO_INVALID || status == BO_NUMERIC) {
        char why[512] = "";
        strncat(why, bo_context_error(file->context), sizeof why - 1);
        return bo_fail(file->context, BO_FORMAT, "%s: %s", file->path, why);
    }
    return status;
}

bo_status bo_plan_host_parse(bo_context *context, const char *path, const char *text, size_t length, bo_plan_host **out)
{
    const calibration_file file = {context, path};
    bo_json *root;
    *out = NULL;
    if (length > bo_limits_calibration.bytes)
        return bo_input_too_large(context, path, length, false, bo_limits_calibration.bytes);
    BO_TRY(bo_json_parse(context, path, text, length, DEPTH, &root));
    const bo_status status = read_host(&file, root, out);
    bo_json_delete(root);
    return status;
}

bo_status bo_plan_host_load(bo_context *context, const char *path, bo_plan_host **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    char *text;
    size_t length;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_calibration, &text, &length));
    bo_status status = bo_json_check(context, path, text, length);
    if (status == BO_OK) status = bo_plan_host_parse(context, path, text, length, out);
    bo_free(text);
    return status;
}
