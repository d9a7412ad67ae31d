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
    case BO_CONFIG_NAME:
    default:
        return sizeof(unsigned);
    }
}

bool bo_config_field_same(const bo_config_field *field, const void *a, const void *b)
{
    const char *first = (const char *)a + field->offset, *second = (const char *)b + field->offset;
    double x, y;
    if (bytes_of(field->type) != sizeof x || field->type == BO_CONFIG_SIZE || field->type == BO_CONFIG_SEED)
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

bo_status bo_config_fields_read(bo_context *context, const char *where, const bo_config_field *fields, size_t count,
                                bool strict, const char *also, const cJSON *json, void *object)
{
    const cJSON *item;
    if (!cJSON_IsObject(json)) return bo_fail(context, BO_FORMAT, "%s: should be a JSON object", where);
    for (size_t i = 0; i < count; i++) {
        item = cJSON_GetObjectItemCaseSensitive(json, fields[i].name);
        if (!item && fields[i].former) item = cJSON_GetObjectItemCaseSensitive(json, fields[i].former);
        if (!item && fields[i].required)
            return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing", where, fields[i].name);
        if (!item) continue;
        char names[NAMES];
        const char *expected = read_value(&fields[i], item, (char *)object + fields[i].offset, names);
        if (expected) return refuse(context, where, fields[i].name, expected, item);
    }
    if (!strict) return BO_OK;
    cJSON_ArrayForEach(item, json)
    {
        if (!known(item->string, fields, count, also))
            return bo_fail(context, BO_FORMAT, "%s: unknown member \"%.60s\"", where, item->string);
    }
    return BO_OK;
}
