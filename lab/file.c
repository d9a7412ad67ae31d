/* Results as JSON files: the settings of the run, then every number of every seed. Means and verdicts are written for
 * other programs; they are not read back.
 *
 *     {"checksum": "v1:…", "lab": 1, "experiment": "scaled-dot", "quick": true, "seeds": 2, "seed": "1", …,
 *      "claims": {"variance": {"number": "exponent of …", "values": [0.99, 1.01], "mean": 1, …}},
 *      "tables": {"variance": {"rows": [4, 8], "columns": ["measured", "d"], "values": [[[4.1, 3.9], [4, 4]], …]}},
 *      "notes": ["…"]}
 *
 * A missing number is null; infinite numbers are "inf" and "-inf". The seed is text, because it may have more than 53
 * bits. */
#include "internal.h"
#include "../src/io/bytes.h"
#include "../src/io/json.h"
#include <bochner/data.h>
#include <bochner/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, DEPTH = 8, MAX_ROWS = 1000, MAX_COLUMNS = 100, MAX_NOTES = 1000 };

/* ---- writing --------------------------------------------------------------------------------- */

/* `before` is the separator and the key: ",\n  \"quick\": ". */
static void write_text(bo_json_text *out, const char *before, const char *text)
{
    bo_json_raw(out, before);
    if (text)
        bo_json_string(out, text);
    else
        bo_json_raw(out, "null");
}

static void write_number(bo_json_text *out, const char *before, double value)
{
    bo_json_raw(out, before);
    if (isinf(value))
        bo_json_raw(out, value > 0 ? "\"inf\"" : "\"-inf\"");
    else
        bo_json_number(out, value);
}

static void write_numbers(bo_json_text *out, const char *before, const double *values, size_t count)
{
    bo_json_raw(out, before);
    bo_json_raw(out, "[");
    for (size_t i = 0; i < count; i++) write_number(out, i ? ", " : "", values[i]);
    bo_json_raw(out, "]");
}

static void write_names(bo_json_text *out, const char *before, char *const *names, size_t count)
{
    bo_json_raw(out, before);
    bo_json_raw(out, "[");
    for (size_t i = 0; i < count; i++) write_text(out, i ? ", " : "", names[i]);
    bo_json_raw(out, "]");
}

static void write_about(bo_json_text *out, const bo_lab_result *r)
{
    write_number(out, BO_JSON_SEALED "\n  \"lab\": ", VERSION);
    write_text(out, ",\n  \"experiment\": ", r->experiment->about.name);
    bo_json_raw(out, r->quick ? ",\n  \"quick\": true" : ",\n  \"quick\": false");
    write_number(out, ",\n  \"seeds\": ", (double)r->seeds);
    bo_json_raw(out, ",\n  \"seed\": ");
    bo_json_digits(out, r->seed);
    write_text(out, ",\n  \"text\": ", r->text);
    write_text(out, ",\n  \"images\": ", r->images);
    write_number(out, ",\n  \"threads\": ", r->threads);
    write_text(out, ",\n  \"isa\": ", r->isa);
    write_text(out, ",\n  \"version\": ", r->version);
    write_number(out, ",\n  \"seconds\": ", r->seconds);
    write_text(out, ",\n  \"verdict\": ", bo_lab_verdict_name(bo_lab_result_verdict(r)));
}

static void write_claim(bo_json_text *out, const bo_lab_outcome *o, size_t seeds)
{
    write_text(out, "\n    ", o->claim->name);
    write_text(out, ": {\"number\": ", o->claim->number);
    write_numbers(out, ", \"values\": ", o->values, seeds);
    write_number(out, ", \"mean\": ", o->mean);
    write_number(out, ", \"low\": ", o->low);
    write_number(out, ", \"high\": ", o->high);
    write_text(out, ", \"verdict\": ", bo_lab_verdict_name(o->verdict));
    bo_json_raw(out, "}");
}

static void write_table(bo_json_text *out, const char *name, const lab_grid *grid, size_t seeds)
{
    write_text(out, "\n    ", name);
    if (grid->numbers)
        write_numbers(out, ": {\"rows\": ", grid->x, grid->rows);
    else
        write_names(out, ": {\"rows\": ", grid->row_names, grid->rows);
    write_names(out, ", \"columns\": ", grid->column_names, grid->columns);
    bo_json_raw(out, ", \"values\": [");
    for (size_t r = 0; r < grid->rows; r++) {
        bo_json_raw(out, r ? ",\n      [" : "\n      [");
        for (size_t c = 0; c < grid->columns; c++)
            write_numbers(out, c ? ", " : "", grid->values + (r * grid->columns + c) * seeds, seeds);
        bo_json_raw(out, "]");
    }
    bo_json_raw(out, "]}");
}

void lab_result_text(const bo_lab_result *result, bo_json_text *out)
{
    const bo_lab_experiment *about = &result->experiment->about;
    write_about(out, result);
    bo_json_raw(out, ",\n  \"claims\": {");
    for (size_t i = 0; i < about->claim_count; i++) {
        if (i) bo_json_raw(out, ",");
        write_claim(out, &result->outcomes[i], result->seeds);
    }
    bo_json_raw(out, "},\n  \"tables\": {");
    for (size_t i = 0; i < about->table_count; i++) {
        if (i) bo_json_raw(out, ",");
        write_table(out, about->tables[i].name, &result->grids[i], result->seeds);
    }
    write_names(out, "},\n  \"notes\": ", result->notes, result->note_count);
    bo_json_raw(out, "}\n");
}

bo_status bo_lab_result_write(bo_context *context, const bo_lab_result *result, const char *path)
{
    bo_json_text out = {.context = context};
    lab_result_text(result, &out);
    return bo_json_text_save(&out, path);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reading {
    bo_context *context;
    const char *where;
    size_t length; /* of the text */
    bo_lab_result *result;
} reading;

static bo_status malformed(const reading *in, const char *format, ...) BO_PRINTF(2, 3);
static bo_status malformed(const reading *in, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return bo_fail(in->context, BO_FORMAT, "%s: not a usable result: %s", in->where, what);
}

static const bo_json *member(const bo_json *object, const char *name)
{
    return bo_json_member(object, name);
}

static size_t length_of(const bo_json *array)
{
    return (size_t)bo_json_count(array);
}

static bool get_number(const bo_json *item, double *out)
{
    const char *text = bo_json_text_or_null(item);
    if (text && (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0))
        *out = *text == '-' ? -INFINITY : INFINITY;
    else if (bo_json_is(item, BO_JSON_NULL))
        *out = NAN;
    else if (bo_json_is(item, BO_JSON_NUMBER) && isfinite(item->number))
        *out = item->number;
    else
        return false;
    return true;
}

/* Requires exactly one number per seed. */
static bool get_numbers(const bo_json *array, size_t count, double *out)
{
    const bo_json *item;
    if (!bo_json_is(array, BO_JSON_ARRAY) || length_of(array) != count) return false;
    BO_JSON_EACH(item, array) if (!get_number(item, out++)) return false;
    return true;
}

/* A text or null; *out is NULL for null. */
static bo_status get_text(const reading *in, const bo_json *json, const char *name, char **out)
{
    const bo_json *item = member(json, name);
    if (bo_json_is(item, BO_JSON_NULL)) return BO_OK;
    if (!bo_json_is(item, BO_JSON_TEXT)) return malformed(in, "\"%s\" must be text", name);
    *out = bo_strdup(in->context, item->text);
    return *out ? BO_OK : BO_MEMORY;
}

static bo_status read_about(const reading *in, const bo_json *json)
{
    bo_lab_result *r = in->result;
    const bo_json *quick = member(json, "quick"), *seconds = member(json, "seconds");
    size_t threads;
    if (!bo_json_is_bool(quick)) return malformed(in, "\"quick\" must be true or false");
    if (!bo_json_uint64(member(json, "seed"), &r->seed)) return malformed(in, "\"seed\" must be an integer as text");
    if (!bo_json_size(member(json, "threads"), &threads) || threads < 1 || threads > 1 << 20)
        return malformed(in, "\"threads\" must be a number of threads");
    if (!get_number(seconds, &r->seconds) || !(r->seconds >= 0))
        return malformed(in, "\"seconds\" must be a "
                             "nonnegative number");
    r->quick = bo_json_is(quick, BO_JSON_TRUE);
    r->threads = (int)threads;
    if (r->experiment->about.text) BO_TRY(get_text(in, json, "text", &r->text));
    if (r->experiment->about.images) BO_TRY(get_text(in, json, "images", &r->images));
    BO_TRY(get_text(in, json, "isa", &r->isa));
    BO_TRY(get_text(in, json, "version", &r->version));
    return r->isa && r->version ? BO_OK : malformed(in, "\"isa\" or \"version\" is null");
}

static bo_status read_claim(const reading *in, const bo_json *json, const bo_lab_claim *claim, double *values)
{
    const char *number = bo_json_text_or_null(member(json, "number"));
    if (!number) return malformed(in, "claim '%s' has no \"number\"", claim->name);
    if (strcmp(number, claim->number) != 0)
        return malformed(in, "claim '%s' measured '%s'; this version measures '%s' (run the experiment again)",
                         claim->name, number, claim->number);
    if (!get_numbers(member(json, "values"), in->result->seeds, values))
        return malformed(in, "claim '%s' must have %zu numbers", claim->name, in->result->seeds);
    return BO_OK;
}

static bo_status read_claims(const reading *in, const bo_json *json)
{
    const bo_lab_experiment *about = &in->result->experiment->about;
    const bo_json *item;
    if (!bo_json_is(json, BO_JSON_OBJECT)) return malformed(in, "\"claims\" is missing");
    BO_JSON_EACH(item, json)
    if (lab_find_claim(about, item->key) < 0) return malformed(in, "this version has no claim '%.64s'", item->key);
    for (size_t i = 0; i < about->claim_count; i++) {
        item = member(json, about->claims[i].name);
        if (!item) return malformed(in, "claim '%s' is missing", about->claims[i].name);
        BO_TRY(read_claim(in, item, &about->claims[i], in->result->claims + i * in->result->seeds));
    }
    return length_of(json) == about->claim_count ? BO_OK : malformed(in, "a claim appears twice");
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool are_texts(const bo_json *array)
{
    const bo_json *item;
    BO_JSON_EACH(item, array) if (!bo_json_is(item, BO_JSON_TEXT)) return false;
    return true;
}

static bool are_numbers(const bo_json *array)
{
    const bo_json *item;
    BO_JSON_EACH(item, array) if (!bo_json_is(item, BO_JSON_NUMBER) || !isfinite(item->number)) return false;
    return true;
}

/* Texts, or numbers as texts, each at most once. */
static bo_status read_names(const reading *in, const bo_json *array, double *x, char **names)
{
    const bo_json *item;
    size_t count = 0;
    char number[LAB_ROW_NAME];
    BO_JSON_EACH(item, array)
    {
        const char *name = x ? lab_row_name(item->number, number) : item->text;
        for (size_t i = 0; i < count; i++)
            if (x ? x[i] == item->number : strcmp(names[i], name) == 0)
                return malformed(in, "a table has '%.64s' twice", name);
        if (x) x[count] = item->number;
        if (!(names[count++] = bo_strdup(in->context, name))) return BO_MEMORY;
    }
    return BO_OK;
}

static bo_status read_values(const reading *in, const bo_json *json, const lab_grid *grid)
{
    const bo_json *row, *cell;
    double *to = grid->values;
    BO_JSON_EACH(row, json)
    {
        if (!bo_json_is(row, BO_JSON_ARRAY) || length_of(row) != grid->columns)
            return malformed(in, "every row of a table must have %zu cells", grid->columns);
        BO_JSON_EACH(cell, row)
        {
            if (!get_numbers(cell, in->result->seeds, to))
                return malformed(in, "every cell of a table must have %zu numbers", in->result->seeds);
            to += in->result->seeds;
        }
    }
    return BO_OK;
}

/* A table cannot have more numbers than its file has characters. This limits the allocation. */
static bo_status create_grid(const reading *in, size_t rows, size_t columns, lab_grid *grid)
{
    const size_t numbers = rows * columns * in->result->seeds;
    if (rows > MAX_ROWS || columns > MAX_COLUMNS || numbers > in->length)
        return malformed(in, "a table with %zu rows and %zu columns is too large", rows, columns);
    grid->rows = rows;
    grid->columns = columns;
    grid->x = bo_alloc(in->context, rows, sizeof *grid->x, "the rows of a table");
    grid->row_names = bo_alloc(in->context, rows, sizeof *grid->row_names, "the names of a table");
    grid->column_names = bo_alloc(in->context, columns, sizeof *grid->column_names, "the names of a table");
    grid->values = bo_alloc(in->context, numbers, sizeof *grid->values, "a table");
    return grid->x && grid->row_names && grid->column_names && grid->values ? BO_OK : BO_MEMORY;
}

static bo_status read_table(const reading *in, size_t table, const bo_json *json)
{
    const char *name = in->result->experiment->about.tables[table].name;
    const bo_json *rows = member(json, "rows"), *columns = member(json, "columns"), *values = member(json, "values");
    lab_grid *grid = &in->result->grids[table];
    if (!bo_json_is(rows, BO_JSON_ARRAY) || !bo_json_is(columns, BO_JSON_ARRAY) || !bo_json_is(values, BO_JSON_ARRAY) ||
        !are_texts(columns))
        return malformed(in, "table '%s' must have \"rows\", \"columns\" and \"values\"", name);
    if (!are_numbers(rows) && !are_texts(rows))
        return malformed(in, "the rows of table '%s' must be all numbers or all texts", name);
    if (length_of(values) != length_of(rows))
        return malformed(in,
                         "table '%s' must have one row of \"values\" for "
                         "each of \"rows\"",
                         name);
    BO_TRY(create_grid(in, length_of(rows), length_of(columns), grid));
    grid->numbers = grid->rows && are_numbers(rows);
    BO_TRY(read_names(in, rows, grid->numbers ? grid->x : NULL, grid->row_names));
    BO_TRY(read_names(in, columns, NULL, grid->column_names));
    return read_values(in, values, grid);
}

static bo_status read_tables(const reading *in, const bo_json *json)
{
    const bo_lab_experiment *about = &in->result->experiment->about;
    const bo_json *item;
    if (!bo_json_is(json, BO_JSON_OBJECT)) return malformed(in, "\"tables\" is missing");
    BO_JSON_EACH(item, json)
    if (lab_find_table(about, item->key) < 0) return malformed(in, "this version has no table '%.64s'", item->key);
    for (size_t i = 0; i < about->table_count; i++) {
        item = member(json, about->tables[i].name);
        if (!item) return malformed(in, "table '%s' is missing", about->tables[i].name);
        BO_TRY(read_table(in, i, item));
    }
    return length_of(json) == about->table_count ? BO_OK : malformed(in, "a table appears twice");
}

static bo_status read_notes(const reading *in, const bo_json *json)
{
    const bo_json *item;
    if (!bo_json_is(json, BO_JSON_ARRAY) || !are_texts(json) || length_of(json) > MAX_NOTES)
        return malformed(in, "\"notes\" must be a list of at most %d texts", MAX_NOTES);
    BO_JSON_EACH(item, json) BO_TRY(lab_result_note(in->context, in->result, item->text));
    return BO_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

static bo_status read_parts(const reading *in, const bo_json *json)
{
    BO_TRY(read_about(in, json));
    BO_TRY(read_claims(in, member(json, "claims")));
    BO_TRY(read_tables(in, member(json, "tables")));
    BO_TRY(read_notes(in, member(json, "notes")));
    return lab_result_finish(in->context, in->result);
}

static bo_status read_result(reading *in, const bo_json *json)
{
    size_t version, seeds;
    const char *name = bo_json_text_or_null(member(json, "experiment"));
    if (!bo_json_size(member(json, "lab"), &version) || !name)
        return malformed(in, "\"lab\" or \"experiment\" is "
                             "missing");
    if (version > VERSION)
        return bo_fail(in->context, BO_VERSION, "%s: result format version %zu; this library reads versions up to %d",
                       in->where, version, VERSION);
    const lab_experiment *experiment = lab_find(name);
    if (!experiment) return malformed(in, "this version has no experiment '%.64s'", name);
    if (!bo_json_size(member(json, "seeds"), &seeds) || seeds < 1 || seeds > LAB_MAX_SEEDS)
        return malformed(in, "\"seeds\" must be an integer from 1 to %d", LAB_MAX_SEEDS);
    BO_TRY(lab_result_create(in->context, experiment, seeds, &in->result));
    return read_parts(in, json);
}

bo_status lab_result_parse(bo_context *context, const char *where, const char *text, size_t length, bo_lab_result **out)
{
    reading in = {.context = context, .where = where, .length = length};
    bo_json *json;
    *out = NULL;
    if (length > bo_limits_result.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_result.bytes);
    if (bo_json_has_nul(text, length)) return malformed(&in, "a text contains a NUL byte");
    BO_TRY(bo_json_parse(context, where, text, length, DEPTH, &json));
    const bo_status status = read_result(&in, json);
    bo_json_delete(json);
    if (status == BO_OK)
        *out = in.result;
    else
        bo_lab_result_destroy(in.result);
    return status;
}

bo_status bo_lab_result_read(bo_context *context, const char *path, bo_lab_result **out)
{
    char *text = NULL;
    size_t length = 0;
    *out = NULL;
    bo_status status = bo_bytes_text(context, path, &bo_limits_result, &text, &length);
    if (status == BO_OK) status = bo_json_check(context, path, text, length);
    if (status == BO_OK) status = lab_result_parse(context, path, text, length, out);
    bo_free(text);
    return status;
}
