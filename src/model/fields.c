/* Fields of a struct as members of a JSON object. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bochner/model.h>
#include "fields.h"

enum { NAMES = 512 };

/* ---- values ------------------------------------------------------------------------------------------------------ */

static size_t bytes_of(bo_field_type type)
{
    static const size_t bytes[] = {[BO_FIELD_SIZE] = sizeof(size_t),      [BO_FIELD_COUNT] = sizeof(size_t),
                                   [BO_FIELD_PAIR] = 2 * sizeof(size_t),  [BO_FIELD_PADDING] = sizeof(bo_padding),
                                   [BO_FIELD_WIDTH] = sizeof(bo_width),   [BO_FIELD_REAL] = sizeof(double),
                                   [BO_FIELD_RANGE] = sizeof(double),     [BO_FIELD_INVERSE] = sizeof(double),
                                   [BO_FIELD_ROOT] = sizeof(double),      [BO_FIELD_INT] = sizeof(int),
                                   [BO_FIELD_BOOL] = sizeof(bool),        [BO_FIELD_NOT] = sizeof(bool),
                                   [BO_FIELD_CHOICE] = sizeof(bo_choice), [BO_FIELD_SEED] = sizeof(uint64_t),
                                   [BO_FIELD_NAME] = sizeof(unsigned),    [BO_FIELD_TEXT] = sizeof(char *),
                                   [BO_FIELD_JSON] = sizeof(char *),      [BO_FIELD_OBJECT] = 0};
    return bytes[type];
}

bool bo_field_same(const bo_field *field, const void *a, const void *b)
{
    const char *first = (const char *)a + field->offset, *second = (const char *)b + field->offset;
    double x, y;
    if (field->type == BO_FIELD_OBJECT) {
        for (size_t i = 0; i < field->count; i++)
            if (!bo_field_same(&field->fields[i], first, second)) return false;
        return true;
    }
    if (field->type == BO_FIELD_TEXT || field->type == BO_FIELD_JSON) {
        const char *one = *(const char *const *)first, *other = *(const char *const *)second;
        return one && other ? strcmp(one, other) == 0 : one == other;
    }
    if (field->type < BO_FIELD_REAL || field->type > BO_FIELD_ROOT)
        return memcmp(first, second, bytes_of(field->type)) == 0;
    memcpy(&x, first, sizeof x);
    memcpy(&y, second, sizeof y);
    return fabs(x - y) <= 1e-12 * fabs(x);
}

static bool is_listed(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names;
}

const bo_field *bo_fields_differ(const bo_field *fields, size_t count, const char *const *ignored, const void **a,
                                 const void **b)
{
    for (size_t i = 0; i < count; i++) {
        const bo_field *f = &fields[i];
        const void *x = (const char *)*a + f->offset, *y = (const char *)*b + f->offset;
        if (f->type != BO_FIELD_OBJECT) {
            if (is_listed(f->name, ignored) || bo_field_same(f, *a, *b)) continue;
            return f;
        }
        const bo_field *part = bo_fields_differ(f->fields, f->count, ignored, &x, &y);
        if (!part) continue;
        *a = x;
        *b = y;
        return part;
    }
    return NULL;
}

void bo_field_clear(const bo_field *field, void *object)
{
    memset((char *)object + field->offset, 0, bytes_of(field->type));
}

static const char *name_of(const bo_field *field, unsigned value)
{
    return field->list ? field->list[value] : field->names(value);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_real(bo_json_text *text, bo_field_type type, double value)
{
    if (type == BO_FIELD_INVERSE) value = 1 / value;
    if (type == BO_FIELD_ROOT) {
        value = 1 / (value * value);
        const double whole = nearbyint(value); /* which other programs expect */
        if (fabs(value - whole) <= 1e-9 * value) value = whole;
    }
    bo_json_number(text, value);
}

static void write_value(bo_json_text *text, const bo_field *field, const void *at)
{
    bool is = false;
    switch (field->type) {
    case BO_FIELD_SIZE:
        bo_json_whole(text, *(const size_t *)at);
        return;
    case BO_FIELD_REAL:
    case BO_FIELD_INVERSE:
    case BO_FIELD_ROOT:
        write_real(text, field->type, *(const double *)at);
        return;
    case BO_FIELD_INT:
        bo_json_number(text, *(const int *)at);
        return;
    case BO_FIELD_SEED:
        bo_json_digits(text, *(const uint64_t *)at);
        return;
    case BO_FIELD_NAME:
        bo_json_string(text, name_of(field, *(const unsigned *)at));
        return;
    case BO_FIELD_TEXT:
        bo_json_string(text, *(const char *const *)at);
        return;
    case BO_FIELD_JSON:
        bo_json_raw(text, *(const char *const *)at);
        return;
    case BO_FIELD_CHOICE:
        is = *(const bo_choice *)at == BO_CHOICE_YES;
        break;
    default: /* other types are not written: descriptions of networks are stored as text */
        assert(field->type == BO_FIELD_BOOL || field->type == BO_FIELD_NOT);
        is = *(const bool *)at == (field->type == BO_FIELD_BOOL);
    }
    bo_json_raw(text, is ? "true" : "false");
}

void bo_fields_write(bo_json_text *text, const bo_field *fields, size_t count, const void *object, const char *indent)
{
    for (size_t i = 0; i < count; i++) {
        bo_json_raw(text, i ? ",\n" : "\n");
        bo_json_raw(text, indent);
        bo_json_string(text, fields[i].name);
        bo_json_raw(text, ": ");
        write_value(text, &fields[i], (const char *)object + fields[i].offset);
    }
}

static bool is_zero(const bo_field *field, const void *object)
{
    static const char zero[sizeof(bo_padding)] = {0};
    const char *at = (const char *)object + field->offset;
    if (field->type != BO_FIELD_OBJECT) return memcmp(at, zero, bytes_of(field->type)) == 0;
    for (size_t i = 0; i < field->count; i++)
        if (!is_zero(&field->fields[i], at)) return false;
    return true;
}

static void write_line(bo_json_text *text, size_t depth)
{
    bo_json_raw(text, "\n");
    while (depth-- > 0) bo_json_raw(text, "  ");
}

void bo_object_write(bo_json_text *text, const bo_field *fields, size_t count, const void *object, size_t depth)
{
    size_t written = 0;
    bo_json_raw(text, "{");
    for (size_t i = 0; i < count; i++) {
        const void *at = (const char *)object + fields[i].offset;
        if (!fields[i].always && is_zero(&fields[i], object)) continue;
        if (written++) bo_json_raw(text, ",");
        write_line(text, depth + 1);
        bo_json_string(text, fields[i].name);
        bo_json_raw(text, ": ");
        if (fields[i].type == BO_FIELD_OBJECT)
            bo_object_write(text, fields[i].fields, fields[i].count, at, depth + 1);
        else
            write_value(text, &fields[i], at);
    }
    write_line(text, depth);
    bo_json_raw(text, "}");
}

/* ---- suggestions ------------------------------------------------------------------------------------------------- */

/* Levenshtein distance of short names. Names longer than 40 characters count as different. */
static size_t distance_of(const char *a, const char *b)
{
    enum { MAX_LENGTH = 40 };
    size_t row[MAX_LENGTH + 1];
    const size_t rows = strlen(a), columns = strlen(b);
    if (strcmp(a, b) == 0) return 0;
    if (rows > MAX_LENGTH || columns > MAX_LENGTH) return MAX_LENGTH;
    for (size_t j = 0; j <= columns; j++) row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[columns];
}

void bo_nearest_try(bo_nearest *nearest, const char *found, const char *word, const char *instead)
{
    const size_t distance = distance_of(found, word);
    if (distance < nearest->distance) *nearest = (bo_nearest){instead ? instead : word, distance};
}

bo_hint bo_nearest_hint(const bo_nearest *nearest)
{
    bo_hint hint = {""};
    if (nearest->word) snprintf(hint.text, sizeof hint.text, "; did you mean \"%.64s\"?", nearest->word);
    return hint;
}

/* ---- the members of an object ------------------------------------------------------------------------------------ */

static void add_name(bo_known *known, bo_known_name name)
{
    assert(known->count < sizeof known->at / sizeof *known->at);
    known->at[known->count++] = name;
}

void bo_known_add(bo_known *known, const char *name)
{
    add_name(known, (bo_known_name){.name = name});
}

void bo_known_add_fields(bo_known *known, const bo_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bo_known_add(known, fields[i].name);
        if (fields[i].former) add_name(known, (bo_known_name){fields[i].former, .instead = fields[i].name});
    }
}

static bool is_known(const bo_known *known, const char *name)
{
    for (size_t i = 0; i < known->count; i++)
        if (!known->at[i].refused && strcmp(name, known->at[i].name) == 0) return true;
    return false;
}

static bo_status refuse_unknown(bo_context *context, const char *where, const char *name, const bo_known *known)
{
    bo_nearest nearest = {.distance = BO_NEAREST_MEMBER};
    for (size_t i = 0; i < known->count; i++) bo_nearest_try(&nearest, name, known->at[i].name, known->at[i].instead);
    return bo_fail(context, BO_FORMAT, "%s: unknown member \"%.60s\"%s", where, name, bo_nearest_hint(&nearest).text);
}

bo_status bo_known_check(bo_context *context, const char *where, const bo_json *json, const bo_known *known)
{
    const bo_json *item;
    BO_JSON_EACH(item, json)
    {
        if (!is_known(known, item->key)) return refuse_unknown(context, where, item->key, known);
        if (item != bo_json_member(json, item->key))
            return bo_fail(context, BO_FORMAT, "%s: has the member \"%.60s\" twice", where, item->key);
    }
    return BO_OK;
}

bo_status bo_field_refuse(bo_context *context, const char *where, const char *name, const char *expected,
                          const bo_json *found)
{
    char *text = bo_json_print(found);
    const bo_status status = bo_fail(context, BO_FORMAT, "%s: \"%.60s\" should be %s, found %.80s", where, name,
                                     expected, text ? text : "something else");
    free(text);
    return status;
}

/* ---- reading one value: returns NULL if it is valid, otherwise what was expected --------------------------------- */

#define FROM_ONE "a whole number from 1 to 16777216"

static bool read_whole(const bo_json *item, size_t min, size_t *out)
{
    size_t value;
    if (!bo_json_size(item, &value) || value < min || value > BO_MAX_FIELD_VALUE) return false;
    *out = value;
    return true;
}

static bool read_both(const bo_json *item, size_t min, size_t out[2])
{
    const bo_json *first = bo_json_is(item, BO_JSON_ARRAY) ? bo_json_at(item, 0) : item;
    const bo_json *second = bo_json_is(item, BO_JSON_ARRAY) ? bo_json_at(item, 1) : item;
    if (bo_json_is(item, BO_JSON_ARRAY) && bo_json_count(item) != 2) return false;
    return read_whole(first, min, &out[0]) && read_whole(second, min, &out[1]);
}

static const char *read_padding(const bo_json *item, bo_padding *out)
{
    const char *text = bo_json_text_or_null(item);
    if (text) out->same = strcmp(text, "same") == 0, out->causal = strcmp(text, "causal") == 0;
    if (out->same || out->causal || read_both(item, 0, out->size)) return NULL;
    return "\"same\", \"causal\", a whole number up to 16777216, or [height, width] of them";
}

static const char *read_width(const bo_json *item, bo_width *out)
{
    static const char *const symbols[] = {"", "classes", "targets", "input"};
    const char *text = bo_json_text_or_null(item);
    if (read_whole(item, 1, &out->value)) return NULL;
    for (size_t i = 1; text && i < sizeof symbols / sizeof *symbols; i++) {
        if (strcmp(text, symbols[i]) != 0) continue;
        out->symbol = (bo_symbol)i;
        return NULL;
    }
    return FROM_ONE ", \"classes\", \"targets\" or \"input\"";
}

static const char *read_real(const bo_field *field, const bo_json *item, double *out, char buffer[NAMES])
{
    const double value = bo_json_is(item, BO_JSON_NUMBER) ? item->number : NAN;
    const bool positive = field->type == BO_FIELD_INVERSE || field->type == BO_FIELD_ROOT;
    const bool ranges = field->type == BO_FIELD_RANGE, ends = field->max > field->min;
    if (isfinite(value) && !(positive && value <= 0) &&
        !(ranges && (value < field->min || (ends && value >= field->max)))) {
        *out = field->type == BO_FIELD_INVERSE ? 1 / value : field->type == BO_FIELD_ROOT ? 1 / sqrt(value) : value;
        return NULL;
    }
    if (!ranges) return positive ? "a positive number" : "a number";
    if (ends)
        snprintf(buffer, NAMES, "a number from %g to less than %g", field->min, field->max);
    else
        snprintf(buffer, NAMES, "a number of %g or more", field->min);
    return buffer;
}

static const char *read_int(const bo_json *item, int *out)
{
    const double value = bo_json_is(item, BO_JSON_NUMBER) ? item->number : NAN;
    if (!(fabs(value) <= 1e9) || value != floor(value)) return "a whole number";
    *out = (int)value;
    return NULL;
}

/* Returns, for example, "one of mean, max, first, last". */
static const char *list_names(const bo_field *field, char buffer[NAMES])
{
    size_t length = (size_t)snprintf(buffer, NAMES, "one of"), listed = 0;
    const char *name;
    for (unsigned i = 0; (name = name_of(field, i)) && length + strlen(name) + 3 < NAMES; i++)
        if (*name) length += (size_t)snprintf(buffer + length, NAMES - length, "%s %s", listed++ ? "," : "", name);
    return buffer;
}

static const char *read_name(const bo_field *field, const bo_json *item, unsigned *out, char buffer[NAMES])
{
    const char *text = bo_json_text_or_null(item);
    char number[24];
    if (bo_json_is(item, BO_JSON_NUMBER)) { /* "degree": 2 */
        snprintf(number, sizeof number, "%.15g", item->number);
        text = number;
    }
    for (size_t i = 0; text && i < sizeof field->more / sizeof *field->more && field->more[i].name; i++)
        if (strcmp(text, field->more[i].name) == 0) {
            *out = field->more[i].value;
            return NULL;
        }
    if (text && field->alias && field->alias(text)) text = field->alias(text);
    for (unsigned i = 0; text && *text && name_of(field, i); i++)
        if (bo_same_name(text, name_of(field, i))) {
            *out = i;
            return NULL;
        }
    return list_names(field, buffer);
}

static const char *read_bool(const bo_field *field, const bo_json *item, void *at)
{
    if (!bo_json_is_bool(item)) return "true or false";
    if (field->type == BO_FIELD_CHOICE)
        *(bo_choice *)at = bo_json_is(item, BO_JSON_TRUE) ? BO_CHOICE_YES : BO_CHOICE_NO;
    else
        *(bool *)at = bo_json_is(item, BO_JSON_TRUE) == (field->type == BO_FIELD_BOOL);
    return NULL;
}

static const char *read_value(const bo_field *field, const bo_json *item, void *at, char buffer[NAMES])
{
    switch (field->type) {
    case BO_FIELD_SIZE:
        return bo_json_size(item, at) ? NULL : "a whole number below 2^53";
    case BO_FIELD_COUNT:
        return read_whole(item, 1, at) ? NULL : FROM_ONE;
    case BO_FIELD_PAIR:
        return read_both(item, 1, at) ? NULL : FROM_ONE ", or [height, width] of them";
    case BO_FIELD_PADDING:
        return read_padding(item, at);
    case BO_FIELD_WIDTH:
        return read_width(item, at);
    case BO_FIELD_REAL:
    case BO_FIELD_RANGE:
    case BO_FIELD_INVERSE:
    case BO_FIELD_ROOT:
        return read_real(field, item, at, buffer);
    case BO_FIELD_INT:
        return read_int(item, at);
    case BO_FIELD_SEED:
        return bo_json_uint64(item, at) ? NULL : "a whole number as text";
    case BO_FIELD_NAME:
        return read_name(field, item, at, buffer);
    default:
        return read_bool(field, item, at);
    }
}

/* ---- reading objects --------------------------------------------------------------------------------------------- */

static const bo_field *find_field(const bo_field *object, const char *name)
{
    size_t i = 0;
    while (strcmp(object->fields[i].name, name) != 0) i++;
    return &object->fields[i];
}

/* A text is a preset, and a number one member; an object may have the member "preset". */
static bo_status read_part(bo_context *context, const char *where, const bo_field *field, const bo_json *item, void *at)
{
    const bo_json *preset = bo_json_is(item, BO_JSON_TEXT) ? item : bo_json_member(item, "preset");
    char place[400], buffer[NAMES];
    bo_known known = {.count = 0};
    snprintf(place, sizeof place, "%.300s: \"%s\"", where, field->name);
    if (field->number && bo_json_is(item, BO_JSON_NUMBER)) {
        const bo_field *member = find_field(field, field->number);
        const char *expected = read_value(member, item, (char *)at + member->offset, buffer);
        return expected ? bo_field_refuse(context, where, field->name, expected, item) : BO_OK;
    }
    if (!field->preset || !preset) return bo_object_read(context, place, field->fields, field->count, item, at);
    const char *name = bo_json_text_or_null(preset);
    if (!name || !field->preset(name, at))
        return bo_field_refuse(context, where, field->name, "the name of a preset", preset);
    if (preset == item) return BO_OK;
    bo_known_add(&known, "preset");
    bo_known_add_fields(&known, field->fields, field->count);
    BO_TRY(bo_known_check(context, place, item, &known));
    return bo_fields_read(context, place, field->fields, field->count, item, at);
}

static bo_status read_text(bo_context *context, const char *where, const bo_field *field, const bo_json *item,
                           char **at)
{
    const char *literal = bo_json_text_or_null(item);
    char *printed = field->type == BO_FIELD_JSON ? bo_json_print(item) : NULL;
    const char *text = printed ? printed : literal;
    if (field->type == BO_FIELD_JSON && !printed) return bo_fail(context, BO_MEMORY, "out of memory: a description");
    if (!text || !*text) return bo_field_refuse(context, where, field->name, "a text", item);
    bo_free(*at); /* of shared members, which are read first */
    *at = bo_strdup(context, text);
    free(printed);
    return *at ? BO_OK : BO_MEMORY;
}

static bo_status read_item(bo_context *context, const char *where, const bo_field *field, const char *name,
                           const bo_json *item, void *at)
{
    char buffer[NAMES];
    if (field->type == BO_FIELD_OBJECT) return read_part(context, where, field, item, at);
    if (field->type == BO_FIELD_TEXT || field->type == BO_FIELD_JSON) return read_text(context, where, field, item, at);
    const char *expected = read_value(field, item, at, buffer);
    return expected ? bo_field_refuse(context, where, name, expected, item) : BO_OK;
}

static void set_default(const bo_field *field, void *at)
{
    if (field->default_value == 0) return;
    switch (field->type) {
    case BO_FIELD_PAIR:
        ((size_t *)at)[0] = ((size_t *)at)[1] = (size_t)field->default_value;
        break;
    case BO_FIELD_SIZE:
    case BO_FIELD_COUNT:
        *(size_t *)at = (size_t)field->default_value;
        break;
    case BO_FIELD_WIDTH:
        ((bo_width *)at)->value = (size_t)field->default_value;
        break;
    case BO_FIELD_NAME:
        *(unsigned *)at = (unsigned)field->default_value;
        break;
    case BO_FIELD_BOOL:
        *(bool *)at = true;
        break;
    default:
        *(double *)at = field->default_value;
    }
}

bo_status bo_fields_read(bo_context *context, const char *where, const bo_field *fields, size_t count,
                         const bo_json *json, void *object)
{
    if (!bo_json_is(json, BO_JSON_OBJECT)) return bo_fail(context, BO_FORMAT, "%s: should be a JSON object", where);
    for (size_t i = 0; i < count; i++) {
        const char *name = fields[i].name;
        void *at = (char *)object + fields[i].offset;
        const bo_json *item = bo_json_member(json, name);
        if (!item && fields[i].former) item = bo_json_member(json, name = fields[i].former);
        if (!item && fields[i].required)
            return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing", where, fields[i].name);
        if (item)
            BO_TRY(read_item(context, where, &fields[i], name, item, at));
        else
            set_default(&fields[i], at);
    }
    return BO_OK;
}

bo_status bo_object_read(bo_context *context, const char *where, const bo_field *fields, size_t count,
                         const bo_json *json, void *object)
{
    bo_known known = {.count = 0};
    bo_known_add_fields(&known, fields, count);
    if (bo_json_is(json, BO_JSON_OBJECT)) BO_TRY(bo_known_check(context, where, json, &known));
    return bo_fields_read(context, where, fields, count, json, object); /* a missing member may be misspelled */
}
