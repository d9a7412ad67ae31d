/* Files of embeddings: one safetensors file with the tensors that bo_embedding_apply needs, the report as JSON in the
 * metadata, the feature map, and the schema of the data. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/files.h"
#include "../io/json.h"
#include "../io/schema.h"
#include "embedding.h"
#include "enums.h"
#include "file_arrays.h"
#include "scaler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Version 1 had the seconds of the fit, which are no longer written, so that equal fits are equal files. Up to version
 * 2 there was no shift; files without one have version 2. */
enum { FORMAT_VERSION = 3, WITHOUT_SHIFT = 2, ARRAYS = 7 };
static const char format_name[] = "bochner.embedding";

static void list_arrays(bo_embedding *e, bo_file_array out[ARRAYS])
{
    size_t features = e->report.features, components = e->report.components, dim = e->report.dim;
    out[0] = (bo_file_array){"embedding.vectors", BO_F64, (void **)&e->vectors, components, features, NULL};
    out[1] = (bo_file_array){"embedding.center", BO_F64, (void **)&e->center, features, 0, NULL};
    out[2] = (bo_file_array){"embedding.variance", BO_F64, (void **)&e->variance, components, 0, NULL};
    out[3] = (bo_file_array){"embedding.decoder", BO_F64, (void **)&e->decoder, components, dim, NULL};
    out[4] = (bo_file_array){"embedding.mean", BO_F64, (void **)&e->mean, dim, 0, NULL};
    out[5] = (bo_file_array){"scaling.mean", BO_F32, (void **)&e->scaler.mean, dim, 0, NULL};
    out[6] = (bo_file_array){"scaling.factor", BO_F32, (void **)&e->scaler.factor, dim, 0, NULL};
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

/* Numbers of the report that the tensors and the feature map do not have. */
typedef struct entry {
    const char *name;
    double value;
} entry;

enum { ENTRIES = 8 };

static void list_entries(const bo_embedding_report *r, entry out[ENTRIES])
{
    out[0] = (entry){"rows", (double)r->rows};
    out[1] = (entry){"dim", (double)r->dim};
    out[2] = (entry){"components", (double)r->components};
    out[3] = (entry){"scaling", (double)r->scaling};
    out[4] = (entry){"precision", (double)r->precision};
    out[5] = (entry){"variance", r->variance};
    out[6] = (entry){"feature_error", r->feature_error};
    out[7] = (entry){"input_error", r->input_error};
}

/* Freed with bo_free. */
static bo_status report_to_json(bo_context *context, const bo_embedding_report *report, char **out)
{
    bo_json_text text = {.context = context};
    entry entries[ENTRIES];
    list_entries(report, entries);
    for (size_t i = 0; i < ENTRIES; i++) {
        bo_json_raw(&text, i ? ", " : "{");
        bo_json_string(&text, entries[i].name);
        bo_json_raw(&text, ": ");
        bo_json_number(&text, entries[i].value);
    }
    bo_json_raw(&text, "}");
    *out = text.bytes;
    return text.failed ? BO_MEMORY : BO_OK;
}

static bo_status report_from_json(bo_context *context, const char *path, const char *text, bo_embedding_report *r)
{
    enum { DEPTH = 4 };
    bo_json *json;
    BO_TRY(bo_json_parse(context, path, text, strlen(text), DEPTH, &json));
    entry entries[ENTRIES];
    bo_status status = BO_OK;
    list_entries(r, entries);
    for (size_t i = 0; status == BO_OK && i < ENTRIES; i++) {
        const bo_json *item = bo_json_member(json, entries[i].name);
        if (bo_json_is(item, BO_JSON_NUMBER) && item->number >= 0 && item->number <= (i < 5 ? 1e15 : 1e300))
            entries[i].value = item->number;
        else
            status =
                bo_fail(context, BO_FORMAT, "%s: '%s' of the embedding is missing or invalid; the file may be damaged",
                        path, entries[i].name);
    }
    bo_json_delete(json);
    BO_TRY(status);
    r->rows = (size_t)entries[0].value;
    r->dim = (size_t)entries[1].value;
    r->components = (size_t)entries[2].value;
    r->scaling = entries[3].value < 1000 ? (bo_scaling)entries[3].value : (bo_scaling)1000;
    r->precision = entries[4].value < 1000 ? (bo_gram_precision)entries[4].value : (bo_gram_precision)1000;
    r->variance = entries[5].value;
    r->feature_error = entries[6].value;
    r->input_error = entries[7].value;
    r->seconds = NAN;
    return BO_OK;
}

/* ---- save -------------------------------------------------------------------------------------------------------- */

/* Writes the file and closes the output. */
static bo_status save(bo_context *context, const bo_embedding *embedding, const bo_schema *schema, bo_output *output)
{
    bo_file_array arrays[ARRAYS];
    bo_file_tensor tensors[ARRAYS + 1 + BO_FEATURES_TENSORS];
    size_t count = ARRAYS, map = 0, meta_count = 0, schema_size;
    char *report = NULL, *map_json = NULL, version[16];
    void *owned = NULL, *schema_json = NULL;
    bo_meta meta[6];
    list_arrays((bo_embedding *)embedding, arrays);
    for (size_t i = 0; i < ARRAYS; i++) tensors[i] = bo_file_array_tensor(&arrays[i]);
    double *shift = NULL;
    bo_status status = bo_scaler_shift_of_file(context, &embedding->scaler, schema, &shift);
    const bo_file_array shifts = bo_file_array_shift(&shift, embedding->report.dim);
    if (shift) tensors[count++] = bo_file_array_tensor(&shifts);
    snprintf(version, sizeof version, "%d", shift ? FORMAT_VERSION : WITHOUT_SHIFT);
    if (status == BO_OK) status = report_to_json(context, &embedding->report, &report);
    if (status == BO_OK) status = bo_features_pack(context, embedding->phi, tensors + count, &map, &map_json, &owned);
    if (status == BO_OK && schema) status = bo_schema_write(context, schema, false, &schema_json, &schema_size);
    if (status == BO_OK) {
        meta[meta_count++] = (bo_meta){"format", format_name};
        meta[meta_count++] = (bo_meta){"format_version", version};
        meta[meta_count++] = (bo_meta){"bochner_version", bo_version()};
        meta[meta_count++] = (bo_meta){"embedding", report};
        meta[meta_count++] = (bo_meta){"features", map_json};
        if (schema) meta[meta_count++] = (bo_meta){"schema", schema_json};
        status = bo_tensors_write_output(context, output, tensors, count + map, meta, meta_count);
    }
    bo_free(report);
    bo_free(map_json);
    bo_free(owned);
    bo_free(schema_json);
    bo_free(shift);
    return bo_output_finish(context, output, status);
}

bo_status bo_embedding_save(bo_context *context, const bo_embedding *embedding, const bo_schema *schema,
                            const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, embedding, sink);
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return save(context, embedding, schema, output);
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

static bo_status load_embedding(bo_context *context, const bo_tensors *file, bo_embedding *e)
{
    const char *path = bo_tensors_path(file), *report = bo_tensors_meta(file, "embedding");
    const char *map = bo_tensors_meta(file, "features");
    if (!report || !map)
        return bo_fail(context, BO_FORMAT, "%s: the description of the embedding is missing; the file may be damaged",
                       path);
    bo_embedding_report *r = &e->report;
    BO_TRY(report_from_json(context, path, report, r));
    BO_TRY(bo_features_unpack(context, file, map, &e->phi));
    const bo_features_desc *desc = bo_features_describe(e->phi);
    r->features = desc->features;
    r->kernel = desc->kernel;
    r->function = desc->function;
    r->draw = desc->draw;
    r->gamma = desc->gamma;
    if (!(r->rows > 1 && r->dim == desc->dim && r->components > 0 && r->components <= r->features &&
          bo_scaling_name(r->scaling) && bo_gram_precision_name(r->precision) && r->features < (size_t)1 << 31 &&
          r->dim < (size_t)1 << 31 && !desc->sparse))
        return bo_fail(context, BO_FORMAT,
                       "%s: the description of the embedding is inconsistent; the file may be damaged", path);
    e->scaler.kind = r->scaling;
    e->scaler.dim = r->dim;
    bo_file_array arrays[ARRAYS];
    list_arrays(e, arrays);
    for (size_t i = 0; i < ARRAYS; i++) BO_TRY(bo_file_array_load(context, file, &arrays[i]));
    const bo_file_array shift = bo_file_array_shift(&e->scaler.shift, r->dim);
    if (bo_tensors_find(file, BO_SHIFT_TENSOR)) BO_TRY(bo_file_array_load(context, file, &shift));
    for (size_t k = 0; k < r->components; k++)
        if (e->variance[k] < 0)
            return bo_fail(context, BO_FORMAT, "%s: expected nonnegative variances; the file may be damaged", path);
    return bo_scaler_finish(context, false, &e->scaler);
}

/* Reads and closes the file. */
static bo_status load(bo_context *context, bo_tensors *file, bo_embedding **out, bo_schema **schema)
{
    BO_SPAN(context, "data", "load embedding");
    bo_embedding *e = NULL;
    const char *path = bo_tensors_path(file);
    bo_status status = bo_file_format_check(context, file, "an embedding", format_name, FORMAT_VERSION);
    if (status == BO_OK && !(e = bo_alloc(context, 1, sizeof *e, "the embedding"))) status = BO_MEMORY;
    if (status == BO_OK) status = load_embedding(context, file, e);
    const char *json = bo_tensors_meta(file, "schema");
    bo_schema *stored = NULL;
    if (status == BO_OK && json) status = bo_schema_parse(context, json, strlen(json), &stored);
    if (status == BO_OK && stored && bo_schema_describe(stored)->inputs != e->report.dim)
        status = bo_fail(context, BO_FORMAT, "%s: the schema has %zu inputs, but the embedding has %zu", path,
                         bo_schema_describe(stored)->inputs, e->report.dim);
    if (status == BO_OK) status = bo_scaler_resolve(context, stored, schema == NULL, &e->scaler);
    bo_tensors_close(file);
    if (status == BO_OK && schema)
        *schema = stored;
    else
        bo_schema_destroy(stored);
    if (status != BO_OK) {
        bo_embedding_destroy(e);
        return status;
    }
    bo_embedding_report_arrays(e);
    *out = e;
    return BO_OK;
}

bo_status bo_embedding_load(bo_context *context, const bo_source *source, bo_embedding **out, bo_schema **schema)
{
    if (out) *out = NULL;
    if (schema) *schema = NULL;
    BO_REQUIRE(context, source, out);
    bo_tensors *file;
    BO_TRY(bo_tensors_open_source(context, source, &file));
    return load(context, file, out, schema);
}
