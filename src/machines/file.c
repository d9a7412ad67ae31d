/* Model files: one safetensors file with the tensors that prediction needs, the report as JSON in the metadata, the
 * tensors and the description of the feature map (src/features), and the schema of the data. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/files.h"
#include "../io/json.h"
#include "../io/schema.h"
#include "../io/tensors.h"
#include "../math/metric.h"
#include "enums.h"
#include "file_arrays.h"
#include "intervals.h"
#include "machine.h"
#include "row_map.h"
#include "scaler.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In version 1 machine.center was named machine.centre. Up to version 2 there was machine.noise_variance, the square of
 * machine.noise. Up to version 3 there were no intervals, no logarithms of targets, and no metric. Up to version 4
 * there were search_seconds and fit_seconds, which are no longer written, so that equal fits are equal files. Up to
 * version 5 there was no shift; files without one have version 5. */
enum { FORMAT_VERSION = 6, WITHOUT_SHIFT = 5, MAX_TENSORS = 23 };
static const char format_name[] = "bochner.machine";

/* ---- the report as JSON ------------------------------------------------------------------------------------------ */

typedef enum field_type { FIELD_SIZE, FIELD_REAL, FIELD_ENUM, FIELD_INT, FIELD_BOOL } field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
} field;

#define FIELD(type, member)          {#member, type, offsetof(bo_machine, report.member)}
#define FIELD_OF_MACHINE(type, name) {#name, type, offsetof(bo_machine, name)}

static const field fields[] = {
    FIELD(FIELD_ENUM, task),
    FIELD(FIELD_ENUM, loss),
    FIELD(FIELD_ENUM, solver),
    FIELD(FIELD_ENUM, scaling),
    FIELD(FIELD_SIZE, rows),
    FIELD(FIELD_SIZE, dim),
    FIELD(FIELD_SIZE, outputs),
    FIELD(FIELD_SIZE, classes),
    FIELD(FIELD_SIZE, features),
    FIELD(FIELD_REAL, gamma),
    FIELD(FIELD_REAL, lambda),
    FIELD(FIELD_ENUM, precision),
    FIELD(FIELD_REAL, spectrum),
    FIELD(FIELD_REAL, search_score),
    FIELD(FIELD_REAL, noise_std),
    FIELD(FIELD_INT, iterations),
    FIELD(FIELD_REAL, residual),
    FIELD(FIELD_BOOL, has_std),
    FIELD(FIELD_SIZE, accuracy.pairs),
    FIELD(FIELD_REAL, accuracy.kernel_rms),
    FIELD(FIELD_REAL, accuracy.error_rms),
    FIELD(FIELD_REAL, accuracy.error_mean),
    FIELD(FIELD_REAL, accuracy.error_max),
    FIELD(FIELD_REAL, accuracy.predicted_rms),
    FIELD(FIELD_REAL, accuracy.ratio),
    FIELD(FIELD_REAL, accuracy.features_for_1pct),
    FIELD_OF_MACHINE(FIELD_ENUM, uncertainty),
    FIELD_OF_MACHINE(FIELD_REAL, inverse_weight),
    FIELD_OF_MACHINE(FIELD_SIZE, train_rows),
    FIELD_OF_MACHINE(FIELD_REAL, sharpness),
    FIELD_OF_MACHINE(FIELD_REAL, quantum),
    FIELD_OF_MACHINE(FIELD_REAL, mean_weight),
    FIELD_OF_MACHINE(FIELD_REAL, scaler.limit),
    FIELD(FIELD_SIZE, validation_rows),
    FIELD(FIELD_REAL, validation_rmse),
    FIELD(FIELD_REAL, validation_r2),
    FIELD(FIELD_REAL, validation_accuracy),
    FIELD(FIELD_REAL, validation_log_loss),
    FIELD_OF_MACHINE(FIELD_SIZE, scaler.metric.rank),
    FIELD_OF_MACHINE(FIELD_BOOL, scaler.metric.diagonal),
    FIELD(FIELD_ENUM, metric),
    FIELD(FIELD_INT, metric_iterations),
    FIELD(FIELD_SIZE, members),
    FIELD(FIELD_ENUM, target_scale),
    FIELD_OF_MACHINE(FIELD_SIZE, intervals.rows),
    FIELD_OF_MACHINE(FIELD_SIZE, intervals.knots),
    FIELD_OF_MACHINE(FIELD_SIZE, intervals.columns),
    FIELD(FIELD_REAL, accuracy.trace_error),
};
/* Files of earlier releases end before the validation error or before the target scale: what is missing is read as not
 * measured, or as 0. */
enum { FIELDS = sizeof fields / sizeof *fields, OPTIONAL_FIELDS = 15 };

static double field_get(const bo_machine *machine, const field *f)
{
    const char *at = (const char *)machine + f->offset;
    switch (f->type) {
    case FIELD_SIZE:
        return (double)*(const size_t *)at;
    case FIELD_REAL:
        return *(const double *)at;
    case FIELD_ENUM:
        return (double)*(const unsigned *)at;
    case FIELD_INT:
        return (double)*(const int *)at;
    case FIELD_BOOL:
        return *(const bool *)at ? 1 : 0;
    }
    return 0;
}

static void field_set(bo_machine *machine, const field *f, double value)
{
    char *at = (char *)machine + f->offset;
    switch (f->type) {
    case FIELD_SIZE:
        *(size_t *)at = (size_t)value;
        break;
    case FIELD_REAL:
        *(double *)at = value;
        break;
    case FIELD_ENUM:
        *(unsigned *)at = value < 1000 ? (unsigned)value : 1000;
        break; /* 1000 is not a value of any enumeration */
    case FIELD_INT:
        *(int *)at = value < INT_MAX ? (int)value : INT_MAX;
        break;
    case FIELD_BOOL:
        *(bool *)at = value != 0;
        break;
    }
}

/* Freed with bo_free. */
static bo_status report_to_json(bo_context *context, const bo_machine *machine, char **out)
{
    bo_json_text text = {.context = context};
    for (size_t i = 0; i < FIELDS; i++) {
        double value = field_get(machine, &fields[i]);
        bo_json_raw(&text, i ? ", " : "{");
        bo_json_string(&text, fields[i].name);
        bo_json_raw(&text, ": ");
        if (isfinite(value))
            bo_json_number(&text, value);
        else
            bo_json_raw(&text, "null");
    }
    bo_json_raw(&text, ", \"why_solver\": ");
    bo_json_string(&text, machine->report.why_solver);
    bo_json_raw(&text, "}");
    *out = text.bytes;
    return text.failed ? BO_MEMORY : BO_OK;
}

/* null means NaN and is accepted for real numbers only. */
static bo_status report_from_json(bo_context *context, const char *path, const char *text, bo_machine *machine)
{
    enum { DEPTH = 4 };
    bo_json *json;
    BO_TRY(bo_json_parse(context, path, text, strlen(text), DEPTH, &json));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < FIELDS; i++) {
        const bo_json *item = bo_json_member(json, fields[i].name);
        const bool optional = i >= FIELDS - OPTIONAL_FIELDS;
        if (fields[i].type == FIELD_REAL && (bo_json_is(item, BO_JSON_NULL) || (!item && optional)))
            field_set(machine, &fields[i], NAN);
        else if (!item && optional)
            field_set(machine, &fields[i], 0);
        else if (bo_json_is(item, BO_JSON_NUMBER) &&
                 (fields[i].type == FIELD_REAL || (item->number >= 0 && item->number <= 1e15)))
            field_set(machine, &fields[i], item->number);
        else
            status =
                bo_fail(context, BO_FORMAT, "%s: '%s' of the machine is missing or invalid; the file may be damaged",
                        path, fields[i].name);
    }
    const bo_json *why = bo_json_member(json, "why_solver");
    snprintf(machine->why, sizeof machine->why, "%s", bo_json_is(why, BO_JSON_TEXT) ? why->text : "");
    machine->report.why_solver = machine->why;
    machine->report.search_seconds = machine->report.fit_seconds = NAN;
    bo_json_delete(json);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* shift: of the file; NULL: it has none. */
static size_t list_arrays(bo_machine *m, double **shift, bo_file_array *out)
{
    size_t r = m->report.features, t = m->report.outputs, n = m->train_rows, dim = m->report.dim,
           kept = bo_features_describe(m->phi)->dim, count = 0;
    out[count++] = (bo_file_array){"machine.beta", BO_F64, (void **)&m->beta, r, t, NULL};
    out[count++] = (bo_file_array){"machine.intercept", BO_F64, (void **)&m->intercept, t, 0, NULL};
    out[count++] = (bo_file_array){"machine.center", BO_F64, (void **)&m->center, r, 0, "machine.centre"};
    out[count++] = (bo_file_array){"machine.noise", BO_F64, (void **)&m->noise, t, 0, "machine.noise_variance"};
    out[count++] = (bo_file_array){"scaling.mean", BO_F32, (void **)&m->scaler.mean, dim, 0, NULL};
    out[count++] = (bo_file_array){"scaling.factor", BO_F32, (void **)&m->scaler.factor, dim, 0, NULL};
    if (shift) out[count++] = bo_file_array_shift(shift, dim);
    if (m->scaler.kind == BO_SCALING_QUANTILE)
        out[count++] = (bo_file_array){"scaling.knots", BO_F32, (void **)&m->scaler.knots, dim, BO_KNOTS, NULL};
    if (m->scaler.metric.rank > 0) {
        const size_t rows = m->scaler.metric.diagonal ? 1 : m->scaler.metric.rank;
        out[count++] = (bo_file_array){"scaling.metric", BO_F32, (void **)&m->scaler.metric.a, rows, dim, NULL};
    }
    if (m->report.target_scale == BO_TARGET_SCALE_LOG) {
        out[count++] = (bo_file_array){"targets.smearing", BO_F64, (void **)&m->smearing, t, 0, NULL};
        out[count++] = (bo_file_array){"targets.reach", BO_F64, (void **)&m->reach, t, 2, NULL};
    }
    bo_intervals *i = &m->intervals;
    if (i->rows) {
        out[count++] = (bo_file_array){"intervals.knot", BO_F64, (void **)&i->knot, t, i->knots, NULL};
        out[count++] =
            (bo_file_array){"intervals.coefficient", BO_F64, (void **)&i->coefficient, t, i->knots + i->columns, NULL};
        out[count++] = (bo_file_array){"intervals.bound", BO_F64, (void **)&i->bound, t, 2, NULL};
        out[count++] = (bo_file_array){"intervals.prediction", BO_F64, (void **)&i->prediction, t, i->rows, NULL};
        out[count++] = (bo_file_array){"intervals.score", BO_F64, (void **)&i->score, t, i->rows, NULL};
    }
    if (m->report.members > 1)
        out[count++] = (bo_file_array){"committee.share", BO_F64, (void **)&m->share, m->report.members, 0, NULL};
    if (m->report.classes) out[count++] = (bo_file_array){"machine.offset", BO_F64, (void **)&m->offset, t, 0, NULL};
    if (m->uncertainty == BO_UNCERTAINTY_PRIMAL)
        out[count++] = (bo_file_array){"machine.factor", BO_F32, (void **)&m->factor, r * (r + 1) / 2, 0, NULL};
    if (m->uncertainty == BO_UNCERTAINTY_DUAL) {
        out[count++] = (bo_file_array){"train.x", BO_F32, (void **)&m->train_x, n, kept, NULL};
        out[count++] = (bo_file_array){"train.penalty", BO_F64, (void **)&m->penalty, r, 0, NULL};
    }
    if (m->uncertainty == BO_UNCERTAINTY_DUAL || m->uncertainty == BO_UNCERTAINTY_EXACT) {
        out[count++] = (bo_file_array){"train.root_weight", BO_F32, (void **)&m->train_root_weight, n, 0, NULL};
        out[count++] = (bo_file_array){"train.factor", BO_F64, (void **)&m->train_factor, n * (n + 1) / 2, 0, NULL};
    }
    return count;
}

/* ---- the other members of a committee: files within the file ----------------------------------------------------- */

typedef struct member_file {
    char name[48];
    void *bytes;
    size_t size;
} member_file;

static void name_member(size_t index, member_file *out)
{
    snprintf(out->name, sizeof out->name, "committee.member%zu", index + 1);
}

static bo_status save(bo_context *context, const bo_machine *machine, const bo_schema *schema, bool member,
                      bo_output *output);

/* Members have the rows of the committee, but no schema. */
static bo_status pack_members(bo_context *context, const bo_machine *machine, const bo_schema *schema,
                              member_file *files, bo_file_tensor *tensors)
{
    assert(machine->other_members_count < BO_COMMITTEE);
    for (size_t i = 0; i < machine->other_members_count; i++) {
        name_member(i, &files[i]);
        bo_output *output;
        BO_TRY(bo_output_open_memory(context, &files[i].bytes, &files[i].size, &output));
        BO_TRY(save(context, machine->other_members[i], schema, true, output));
        tensors[i] = (bo_file_tensor){.name = files[i].name,
                                      .dtype = BO_U8,
                                      .rank = 1,
                                      .shape = {files[i].size},
                                      .data = files[i].bytes,
                                      .bytes = files[i].size};
    }
    return BO_OK;
}

/* Members predict the same outputs from the same inputs with exact kernels. */
static bool is_member(const bo_machine *machine, const bo_machine *other)
{
    const bo_fit_report *a = &machine->report, *b = &other->report;
    return a->dim == b->dim && a->outputs == b->outputs && a->classes == b->classes &&
           a->target_scale == b->target_scale && bo_is_sections(other->phi) && other->other_members_count == 0;
}

static bo_status load(bo_context *context, bo_tensors *file, bool member, bo_machine **out, bo_schema **schema);

static bo_status load_members(bo_context *context, const bo_tensors *file, bo_machine *machine)
{
    const char *path = bo_tensors_path(file);
    const size_t count = machine->report.members - 1;
    double total = 0;
    for (size_t i = 0; i <= count; i++) total += machine->share[i] > 0 ? machine->share[i] : -1;
    if (!(fabs(total - 1) < 1e-6))
        return bo_fail(context, BO_FORMAT,
                       "%s: the shares of the committee do not add up to 1; the file may be damaged", path);
    machine->other_members = bo_alloc(context, count, sizeof(bo_machine *), "the members of a committee");
    if (!machine->other_members) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        member_file member;
        const bo_file_tensor *tensor;
        const size_t any[] = {0};
        name_member(i, &member);
        BO_TRY(bo_tensors_require(context, file, member.name, BO_U8, 1, any, &tensor));
        bo_tensors *inner;
        BO_TRY(bo_tensors_open_memory(context, path, tensor->data, tensor->bytes, &inner));
        BO_TRY(load(context, inner, true, &machine->other_members[i], NULL));
        machine->other_members_count++;
        if (!is_member(machine, machine->other_members[i]))
            return bo_fail(context, BO_FORMAT,
                           "%s: member %zu does not belong to the committee; the file may be damaged", path, i + 1);
    }
    return BO_OK;
}

/* ---- save -------------------------------------------------------------------------------------------------------- */

/* Writes the file and closes the output. `member`: the schema is in the file of the committee. */
static bo_status save(bo_context *context, const bo_machine *machine, const bo_schema *schema, bool member,
                      bo_output *output)
{
    bo_file_array arrays[MAX_TENSORS];
    bo_file_tensor tensors[MAX_TENSORS + BO_FEATURES_TENSORS + BO_COMMITTEE];
    member_file members[BO_COMMITTEE] = {0};
    double *shift = NULL;
    bo_status status = bo_scaler_shift_of_file(context, &machine->scaler, schema, &shift);
    size_t arrays_count = list_arrays((bo_machine *)machine, shift ? &shift : NULL, arrays), map = 0, meta_count = 0;
    for (size_t i = 0; i < arrays_count; i++) tensors[i] = bo_file_array_tensor(&arrays[i]);
    const bool described = schema && !member;
    char *report = NULL, *map_json = NULL, version[16];
    void *owned = NULL, *schema_json = NULL;
    size_t schema_size;
    bo_meta meta[6];
    snprintf(version, sizeof version, "%d", shift ? FORMAT_VERSION : WITHOUT_SHIFT);
    if (status == BO_OK) status = report_to_json(context, machine, &report);
    if (status == BO_OK)
        status = bo_features_pack(context, machine->phi, tensors + arrays_count, &map, &map_json, &owned);
    if (status == BO_OK) status = pack_members(context, machine, schema, members, tensors + arrays_count + map);
    if (status == BO_OK && described) status = bo_schema_write(context, schema, false, &schema_json, &schema_size);
    if (status == BO_OK) {
        meta[meta_count++] = (bo_meta){"format", format_name};
        meta[meta_count++] = (bo_meta){"format_version", version};
        meta[meta_count++] = (bo_meta){"bochner_version", bo_version()};
        meta[meta_count++] = (bo_meta){"machine", report};
        meta[meta_count++] = (bo_meta){"features", map_json};
        if (described) meta[meta_count++] = (bo_meta){"schema", schema_json};
        status = bo_tensors_write_output(context, output, tensors, arrays_count + map + machine->other_members_count,
                                         meta, meta_count);
    }
    bo_free(report);
    bo_free(map_json);
    bo_free(owned);
    bo_free(schema_json);
    bo_free(shift);
    for (size_t i = 0; i < BO_COMMITTEE; i++) bo_free(members[i].bytes);
    return bo_output_finish(context, output, status);
}

bo_status bo_machine_save(bo_context *context, const bo_machine *machine, const bo_schema *schema, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, machine, sink);
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return save(context, machine, schema, false, output);
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

/* Standard deviations of an exact kernel are computed from its factor only. */
static bool check_exact(const bo_machine *machine)
{
    bool sections = bo_is_sections(machine->phi), factor = machine->uncertainty == BO_UNCERTAINTY_EXACT;
    if (!sections) return !factor;
    if (machine->uncertainty == BO_UNCERTAINTY_NONE) return true;
    return factor && machine->train_rows == machine->report.features && machine->report.lambda > 0 &&
           isfinite(machine->report.lambda) && !bo_features_describe(machine->phi)->sparse;
}

/* The columns of the map are the inputs, the inputs that vary (sparse rows), or the rows of the metric. */
static bool check_columns(const bo_machine *machine)
{
    const bo_features_desc *map = bo_features_describe(machine->phi);
    const bo_metric *metric = &machine->scaler.metric;
    const size_t dim = machine->report.dim;
    if (metric->rank > dim || (metric->diagonal && metric->rank != dim)) return false;
    if (map->sparse && (metric->rank > 0 || machine->report.scaling == BO_SCALING_QUANTILE)) return false;
    if (map->sparse && map->dim < dim) return true;
    return map->dim == (metric->rank > 0 ? metric->rank : dim);
}

/* Intervals and logarithms are for regression; the sizes of arrays do not overflow. */
static bool check_intervals(const bo_machine *machine)
{
    const bo_intervals *i = &machine->intervals;
    const bo_fit_report *r = &machine->report;
    if (r->classes) return r->target_scale != BO_TARGET_SCALE_LOG && i->rows == 0 && i->knots == 0 && i->columns == 0;
    if (!bo_target_scale_name(r->target_scale)) return false;
    if (i->rows == 0) return i->knots == 0 && i->columns == 0;
    return i->rows < (size_t)1 << 31 && i->knots > 0 && i->knots < (size_t)1 << 31 && i->columns <= r->features;
}

/* Numbers of intervals and logarithms whose exponentials are in range. */
static bool check_interval_numbers(const bo_machine *machine)
{
    for (size_t t = 0; t < machine->report.outputs; t++) {
        const double *bound = machine->intervals.bound ? machine->intervals.bound + 2 * t : NULL;
        const double *reach = machine->reach ? machine->reach + 2 * t : NULL;
        if (bound && !(-BO_DEVIATION_BOUND <= bound[0] && bound[0] <= bound[1] && bound[1] <= BO_DEVIATION_BOUND))
            return false;
        if (reach && !(-700 <= reach[0] && reach[0] <= reach[1] && reach[1] <= 700 && machine->smearing[t] > 0))
            return false;
    }
    return true;
}

static bool check_members(const bo_machine *machine)
{
    return machine->report.members <= BO_COMMITTEE && (machine->report.members <= 1 || bo_is_sections(machine->phi));
}

static bo_status check_report(bo_context *context, const char *path, const bo_machine *machine)
{
    const bo_fit_report *r = &machine->report;
    const bo_features_desc *map = bo_features_describe(machine->phi);
    bool good = r->outputs > 0 && (r->classes == 0 || r->classes == r->outputs) && r->features == map->features &&
                check_columns(machine) && r->task == (r->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION) &&
                bo_solver_name(r->solver) && bo_loss_name(r->loss) && bo_scaling_name(r->scaling) &&
                bo_metric_choice_name(r->metric) && bo_gram_precision_name(r->precision) && machine->quantum < 1 &&
                bo_is_quantum((float)machine->quantum) && machine->scaler.limit >= 0 &&
                isfinite(machine->scaler.limit) && machine->sharpness >= 0 && isfinite(machine->sharpness) &&
                machine->inverse_weight >= 0 && isfinite(machine->inverse_weight) && machine->mean_weight > 0 &&
                isfinite(machine->mean_weight) && machine->uncertainty <= BO_UNCERTAINTY_EXACT &&
                (machine->uncertainty != BO_UNCERTAINTY_DUAL || machine->train_rows > 0) && check_exact(machine) &&
                check_intervals(machine) && check_members(machine) && r->features < (size_t)1 << 31 &&
                r->outputs < (size_t)1 << 31 && machine->train_rows < (size_t)1 << 31;
    return good ? BO_OK
                : bo_fail(context, BO_FORMAT,
                          "%s: the description of the machine is inconsistent; the file may be damaged", path);
}

static bo_status load_machine(bo_context *context, const bo_tensors *file, bool member, bo_machine *machine)
{
    const char *path = bo_tensors_path(file), *report = bo_tensors_meta(file, "machine");
    const char *map = bo_tensors_meta(file, "features");
    if (!report || !map)
        return bo_fail(context, BO_FORMAT, "%s: the description of the machine is missing; the file may be damaged",
                       path);
    BO_TRY(report_from_json(context, path, report, machine));
    BO_TRY(bo_features_unpack(context, file, map, &machine->phi));
    BO_TRY(check_report(context, path, machine));
    if (member && machine->report.members > 1) /* checked before they are read, so that files nest once at most */
        return bo_fail(
            context, BO_FORMAT,
            "%s: a member of the committee is itself a committee of %zu machines; expected a single machine; "
            "the file may be damaged",
            path, machine->report.members);
    if (!machine->report.classes && machine->report.target_scale == BO_TARGET_SCALE_AUTO)
        machine->report.target_scale = BO_TARGET_SCALE_LINEAR;
    const bo_features_desc *desc = bo_features_describe(machine->phi);
    bo_report_map(&machine->report, desc);
    machine->scaler.kind = machine->report.scaling;
    machine->scaler.dim = machine->report.dim;
    machine->scaler.metric.dim = machine->scaler.metric.rank > 0 ? machine->report.dim : 0;
    bo_file_array arrays[MAX_TENSORS];
    double **shift = bo_tensors_find(file, BO_SHIFT_TENSOR) ? &machine->scaler.shift : NULL;
    size_t count = list_arrays(machine, shift, arrays);
    for (size_t i = 0; i < count; i++) BO_TRY(bo_file_array_load(context, file, &arrays[i]));
    BO_TRY(bo_scaler_finish(context, desc->sparse, &machine->scaler));
    if (machine->scaler.kept != desc->dim)
        return bo_fail(context, BO_FORMAT,
                       "%s: the scaling keeps %zu columns, but the map has %zu; the file may be damaged", path,
                       machine->scaler.kept, desc->dim);
    for (size_t t = 0; t < machine->report.outputs; t++) {
        if (machine->noise[t] < 0)
            return bo_fail(context, BO_FORMAT, "%s: expected nonnegative noise; the file may be damaged", path);
        if (bo_tensors_find(file, "machine.noise_variance")) machine->noise[t] = sqrt(machine->noise[t]);
    }
    if (!check_interval_numbers(machine))
        return bo_fail(context, BO_FORMAT,
                       "%s: expected bounds of intervals in ascending order; the file may be damaged", path);
    machine->report.beta = machine->beta;
    if (machine->report.members > 1) BO_TRY(load_members(context, file, machine));
    for (size_t j = 0; machine->penalty && j < machine->report.features; j++)
        if (machine->penalty[j] <= 0)
            return bo_fail(context, BO_FORMAT, "%s: expected positive penalties; the file may be damaged", path);
    return BO_OK;
}

/* Callers index the outputs of the machine by the classes and targets of the schema. */
static bo_status check_schema(bo_context *context, const char *path, const bo_machine *machine, const bo_schema *schema)
{
    const bo_fit_report *r = &machine->report;
    bool targets =
        r->classes || bo_schema_describe(schema)->targets == 0 || bo_schema_describe(schema)->targets == r->outputs;
    if (bo_schema_describe(schema)->inputs == r->dim && bo_schema_describe(schema)->classes == r->classes && targets)
        return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the schema has %zu inputs, %zu classes and %zu targets, but the machine has %zu, %zu and %zu",
                   path, bo_schema_describe(schema)->inputs, bo_schema_describe(schema)->classes,
                   bo_schema_describe(schema)->targets, r->dim, r->classes, r->outputs);
}

/* raw: rows to predict are read without the schema. */
static bo_status resolve_origins(bo_context *context, const bo_schema *schema, bool raw, bo_machine *machine)
{
    for (size_t i = 0; i < machine->other_members_count; i++)
        BO_TRY(bo_scaler_resolve(context, schema, raw, &machine->other_members[i]->scaler));
    return bo_scaler_resolve(context, schema, raw, &machine->scaler);
}

/* Reads and closes the file. `member`: it is in the file of a committee. */
static bo_status load(bo_context *context, bo_tensors *file, bool member, bo_machine **out, bo_schema **schema)
{
    BO_SPAN(context, "data", "load machine");
    bo_machine *machine = NULL;
    bo_status status = bo_file_format_check(context, file, "a kernel machine", format_name, FORMAT_VERSION);
    if (status == BO_OK && !(machine = bo_machine_allocate(context))) status = BO_MEMORY;
    if (status == BO_OK) status = load_machine(context, file, member, machine);
    const char *json = bo_tensors_meta(file, "schema");
    bo_schema *stored = NULL;
    if (status == BO_OK && json && !member) status = bo_schema_parse(context, json, strlen(json), &stored);
    if (status == BO_OK && stored) status = check_schema(context, bo_tensors_path(file), machine, stored);
    if (status == BO_OK && !member) status = resolve_origins(context, stored, schema == NULL, machine);
    bo_tensors_close(file);
    if (status == BO_OK && schema)
        *schema = stored;
    else
        bo_schema_destroy(stored);
    if (status != BO_OK) {
        bo_machine_destroy(machine);
        return status;
    }
    *out = machine;
    return BO_OK;
}

bo_status bo_machine_load(bo_context *context, const bo_source *source, bo_machine **out, bo_schema **schema)
{
    if (out) *out = NULL;
    if (schema) *schema = NULL;
    BO_REQUIRE(context, source, out);
    bo_tensors *file;
    BO_TRY(bo_tensors_open_source(context, source, &file));
    return load(context, file, false, out, schema);
}
