/* Fields of a struct as members of a JSON object. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "config.h"

enum { NAMES = 512 };

/* ---- values ------------------------------------------------------------------------------------------------------ */

static size_t bytes_of(bo_config_type type)
{
    switch (type) {
    case BO_CONFIG_SIZE:
        return sizeof(size_t);
    case BO_CONFIG_REAL:
    case BO_CONFIG_INVERSE:
    case BO_CONFIG_ROOT:
        return sizeof(double);
    case BO_CONFIG_INT:
        return sizeof(int);
    case BO_CONFIG_BOOL:
    case BO_CONFIG_NOT:
        return sizeof(bool);
    case BO_CONFIG_CHOICE:
        return sizeof(bo_choice);
    case BO_CONFIG_SEED:
        return sizeof(uint64_t);
    case BO_CONFIG_TEXT:
    case BO_CONFIG_JSON:
        return sizeof(const char *);
    case BO_CONFIG_OBJECT:
        return 0;
    case BO_CONFIG_NAME:
    default:
        return sizeof(unsigned);
    }
}

bool bo_config_field_same(const bo_config_field *field, const void *a, const void *b)
{
    const char *first = (const char *)a + field->offset, *second = (const char *)b + field->offset;
    double x, y;
    if (field->type == BO_CONFIG_OBJECT) {
        for (size_t i = 0; i < field->count; i++)
            if (!bo_config_field_same(&field->fields[i], first, second)) return false;
        return true;
    }
    if (field->type == BO_CONFIG_TEXT || field->type == BO_CONFIG_JSON) {
        const char *one = *(const char *const *)first, *other = *(const char *const *)second;
        return one && other ? strcmp(one, other) == 0 : one == other;
    }
    if (field->type != BO_CONFIG_REAL && field->type != BO_CONFIG_INVERSE && field->type != BO_CONFIG_ROOT)
        return memcmp(first, second, bytes_of(field->type)) == 0;
    memcpy(&x, first, sizeof x);
    memcpy(&y, second, sizeof y);
    return fabs(x - y) <= 1e-12 * fabs(x);
}

void bo_config_field_clear(const bo_config_field *field, void *object)
{
    memset((char *)object + field->offset, 0, bytes_of(field->type));
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Other programs expect a whole number. */
static void write_root(bo_json_text *text, double root)
{
    const double value = 1 / (root * root), whole = nearbyint(value);
    bo_json_number(text, fabs(value - whole) <= 1e-9 * value ? whole : value);
}

static void write_value(bo_json_text *text, const bo_config_field *field, const void *at)
{
    switch (field->type) {
    case BO_CONFIG_SIZE:
        bo_json_whole(text, *(const size_t *)at);
        break;
    case BO_CONFIG_REAL:
        bo_json_number(text, *(const double *)at);
        break;
    case BO_CONFIG_INVERSE:
        bo_json_number(text, 1 / *(const double *)at);
        break;
    case BO_CONFIG_ROOT:
        write_root(text, *(const double *)at);
        break;
    case BO_CONFIG_INT:
        bo_json_number(text, *(const int *)at);
        break;
    case BO_CONFIG_BOOL:
        bo_json_raw(text, *(const bool *)at ? "true" : "false");
        break;
    case BO_CONFIG_NOT:
        bo_json_raw(text, *(const bool *)at ? "false" : "true");
        break;
    case BO_CONFIG_CHOICE:
        bo_json_raw(text, *(const bo_choice *)at == BO_CHOICE_YES ? "true" : "false");
        break;
    case BO_CONFIG_SEED:
        bo_json_digits(text, *(const uint64_t *)at);
        break;
    case BO_CONFIG_NAME:
        bo_json_string(text, field->text(*(const unsigned *)at));
        break;
    case BO_CONFIG_TEXT:
        bo_json_string(text, *(const char *const *)at);
        break;
    case BO_CONFIG_JSON:
        bo_json_raw(text, *(const char *const *)at);
        break;
    case BO_CONFIG_OBJECT: /* bo_config_object_write */
        break;
    }
}

void bo_config_fields_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            const char *indent)
{
    for (size_t i = 0; i < count; i++) {
        bo_json_raw(text, i ? ",\n" : "\n");
        bo_json_raw(text, indent);
        bo_json_string(text, fields[i].name);
        bo_json_raw(text, ": ");
        write_value(text, &fields[i], (const char *)object + fields[i].offset);
    }
}

static bool is_zero(const bo_config_field *field, const void *object)
{
    static const char zero[sizeof(uint64_t)] = {0};
    const char *at = (const char *)object + field->offset;
    if (field->type != BO_CONFIG_OBJECT) return memcmp(at, zero, bytes_of(field->type)) == 0;
    for (size_t i = 0; i < field->count; i++)
        if (!is_zero(&field->fields[i], at)) return false;
    return true;
}

static void write_line(bo_json_text *text, size_t depth)
{
    bo_json_raw(text, "\n");
    while (depth-- > 0) bo_json_raw(text, "  ");
}

void bo_config_object_write(bo_json_text *text, const bo_config_field *fields, size_t count, const void *object,
                            size_t depth)
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
        if (fields[i].type == BO_CONFIG_OBJECT)
            bo_config_object_write(text, fields[i].fields, fields[i].count, at, depth + 1);
        else
            write_value(text, &fields[i], at);
    }
    write_line(text, depth);
    bo_json_raw(text, "}");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns, for example, "one of mean, max, first, last". */
static const char *list_names(const bo_config_field *field, char out[NAMES])
{
    size_t length = (size_t)snprintf(out, NAMES, "one of ");
    const char *name;
    for (unsigned i = 0; (name = field->text(i)) && length + strlen(name) + 3 < NAMES; i++)
        length += (size_t)snprintf(out + length, NAMES - length, "%s%s", i ? ", " : "", name);
    return out;
}

/* Reads a value. Returns NULL if it is valid, otherwise what was expected. */
static const char *read_value(const bo_config_field *field, const cJSON *item, void *at, char names[NAMES])
{
    const char *text = cJSON_GetStringValue(item);
    double number = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    unsigned value;
    switch (field->type) {
    case BO_CONFIG_SIZE:
        return bo_json_size(item, at) ? NULL : "a whole number below 2^53";
    case BO_CONFIG_REAL:
        if (!isfinite(number)) return "a number";
        *(double *)at = number;
        return NULL;
    case BO_CONFIG_INVERSE:
        if (!(isfinite(number) && number > 0)) return "a positive number";
        *(double *)at = 1 / number;
        return NULL;
    case BO_CONFIG_ROOT:
        if (!(isfinite(number) && number > 0)) return "a positive number";
        *(double *)at = 1 / sqrt(number);
        return NULL;
    case BO_CONFIG_INT:
        if (!(fabs(number) <= 1e9) || number != floor(number)) return "a whole number";
        *(int *)at = (int)number;
        return NULL;
    case BO_CONFIG_SEED:
        return bo_json_uint64(item, at) ? NULL : "a whole number as text";
    case BO_CONFIG_NAME:
        if (!text || !field->parse(text, &value)) return list_names(field, names);
        *(unsigned *)at = value;
        return NULL;
    default:
        break;
    }
    if (!cJSON_IsBool(item)) return "true or false";
    if (field->type == BO_CONFIG_CHOICE)
        *(bo_choice *)at = cJSON_IsTrue(item) ? BO_CHOICE_YES : BO_CHOICE_NO;
    else
        *(bool *)at = cJSON_IsTrue(item) == (field->type == BO_CONFIG_BOOL);
    return NULL;
}

static bo_status refuse(bo_context *context, const char *where, const char *name, const char *expected,
                        const cJSON *item)
{
    char *found = cJSON_PrintUnformatted(item);
    bo_status status = bo_fail(context, BO_FORMAT, "%s: \"%.60s\" should be %s, found %.80s", where, name, expected,
                               found ? found : "something else");
    cJSON_free(found);
    return status;
}

static bool known(const char *name, const bo_config_field *fields, size_t count, const char *also)
{
    bool found = also && strcmp(name, also) == 0;
    for (size_t i = 0; !found && i < count; i++)
        found = strcmp(name, fields[i].name) == 0 || (fields[i].former && strcmp(name, fields[i].former) == 0);
    return found;
}

static const bo_config_field *find_field(const bo_config_field *object, const char *name)
{
    size_t i = 0;
    while (strcmp(object->fields[i].name, name) != 0) i++;
    return &object->fields[i];
}

/* A text is a preset, and a number one member; an object may have the member "preset". */
static bo_status read_object(bo_context *context, const char *where, const bo_config_field *field, const cJSON *item,
                             void *at)
{
    char place[400], names[NAMES];
    const cJSON *preset = cJSON_IsString(item) ? item : cJSON_GetObjectItemCaseSensitive(item, "preset");
    snprintf(place, sizeof place, "%.300s: \"%s\"", where, field->name);
    if (field->number && cJSON_IsNumber(item)) {
        const bo_config_field *member = find_field(field, field->number);
        const char *expected = read_value(member, item, (char *)at + member->offset, names);
        return expected ? refuse(context, where, field->name, expected, item) : BO_OK;
    }
    if (!field->preset || !preset)
        return bo_config_fields_read(context, place, field->fields, field->count, true, NULL, item, at);
    const char *name = cJSON_GetStringValue(preset);
    if (!name || !field->preset(name, at)) return refuse(context, where, field->name, "the name of a preset", preset);
    if (preset == item) return BO_OK;
    return bo_config_fields_read(context, place, field->fields, field->count, true, "preset", item, at);
}

static bo_status read_json(bo_context *context, const cJSON *item, char **at)
{
    char *text = cJSON_PrintUnformatted(item);
    bo_free(*at); /* of shared members, which are read first */
    *at = text ? bo_strdup(context, text) : NULL;
    cJSON_free(text);
    return *at ? BO_OK : bo_fail(context, BO_MEMORY, "out of memory: a description");
}

static bo_status read_part(bo_context *context, const char *where, const bo_config_field *field, const cJSON *item,
                           void *at)
{
    if (field->type == BO_CONFIG_OBJECT) return read_object(context, where, field, item, at);
    if (field->type == BO_CONFIG_JSON) return read_json(context, item, at);
    const char *text = cJSON_GetStringValue(item);
    if (!text || !*text) return refuse(context, where, field->name, "a text", item);
    bo_free(*(char **)at); /* of shared members, which are read first */
    *(char **)at = bo_strdup(context, text);
    return *(char **)at ? BO_OK : BO_MEMORY;
}

bo_status bo_config_fields_read(bo_context *context, const char *where, const bo_config_field *fields, size_t count,
                                bool strict, const char *also, const cJSON *json, void *object)
{
    const cJSON *item;
    if (!cJSON_IsObject(json)) return bo_fail(context, BO_FORMAT, "%s: should be a JSON object", where);
    for (size_t i = 0; i < count; i++) {
        const char *name = fields[i].name;
        item = cJSON_GetObjectItemCaseSensitive(json, name);
        if (!item && fields[i].former) item = cJSON_GetObjectItemCaseSensitive(json, name = fields[i].former);
        if (!item && fields[i].required)
            return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing", where, fields[i].name);
        if (!item) continue;
        char names[NAMES];
        if (fields[i].type == BO_CONFIG_TEXT || fields[i].type == BO_CONFIG_JSON ||
            fields[i].type == BO_CONFIG_OBJECT) {
            BO_TRY(read_part(context, where, &fields[i], item, (char *)object + fields[i].offset));
            continue;
        }
        const char *expected = read_value(&fields[i], item, (char *)object + fields[i].offset, names);
        if (expected) return refuse(context, where, name, expected, item);
    }
    if (!strict) return BO_OK;
    cJSON_ArrayForEach(item, json)
    {
        if (!known(item->string, fields, count, also))
            return bo_fail(context, BO_FORMAT, "%s: unknown member \"%.60s\"", where, item->string);
        if (item != cJSON_GetObjectItemCaseSensitive(json, item->string))
            return bo_fail(context, BO_FORMAT, "%s: has the member \"%.60s\" twice", where, item->string);
    }
    return BO_OK;
}
