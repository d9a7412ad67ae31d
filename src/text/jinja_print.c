/* Values as text: str() and repr() of Python, JSON, and the current date. */
#include "jinja_run.h"
#include <bochner/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <utf8proc.h>

static bo_status build_text(bo_jinja_run *run, bo_jinja_builder *to, const char *text)
{
    return bo_jinja_build(run, to, text, strlen(text));
}

static bo_status deeper(bo_jinja_run *run)
{
    if (++run->depth <= BO_JINJA_DEPTH) return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "values are nested more than %d deep", BO_JINJA_DEPTH);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Python writes an exponent below 1e-4 and from 1e16 on, and at least one digit after the point otherwise. */
void bo_jinja_number(double number, char out[BO_JINJA_NUMBER])
{
    char shortest[32], digits[32];
    size_t count = 0;
    int point = 0, exponent = 0;
    bool after = false;
    if (!isfinite(number)) {
        snprintf(out, BO_JINJA_NUMBER, "%s", isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
        return;
    }
    bo_number_format(fabs(number), shortest, sizeof shortest);
    for (const char *c = shortest; *c; c++) {
        if (*c == 'e') {
            exponent = atoi(c + 1);
            break;
        }
        after = after || *c == '.';
        if (*c == '.' || (count == 0 && *c == '0' && !after)) continue;
        if (count == 0 && *c == '0') {
            point--; /* a zero after the point */
            continue;
        }
        digits[count++] = *c;
        if (!after) point++;
    }
    point += exponent; /* the value is 0.digits * 10^point */
    while (count > 1 && digits[count - 1] == '0') count--;
    digits[count] = 0;
    const char *sign = signbit(number) ? "-" : "";
    if (count == 0)
        snprintf(out, BO_JINJA_NUMBER, "%s0.0", sign);
    else if (point < -3 || point > 16)
        snprintf(out, BO_JINJA_NUMBER, "%s%c%s%se%c%02d", sign, digits[0], count > 1 ? "." : "", digits + 1,
                 point < 1 ? '-' : '+', abs(point - 1));
    else if (point <= 0)
        snprintf(out, BO_JINJA_NUMBER, "%s0.%.*s%s", sign, -point, "000", digits);
    else if ((size_t)point >= count)
        snprintf(out, BO_JINJA_NUMBER, "%s%s%.*s.0", sign, digits, point - (int)count, "0000000000000000");
    else
        snprintf(out, BO_JINJA_NUMBER, "%s%.*s.%s", sign, point, digits, digits + point);
}

static bo_status print_number(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value)
{
    char text[BO_JINJA_NUMBER];
    if (value->kind == BO_JINJA_WHOLE)
        snprintf(text, sizeof text, "%lld", (long long)value->whole);
    else
        bo_jinja_number(value->fraction, text);
    return build_text(run, to, text);
}

/* ---- repr -------------------------------------------------------------------------------------------------------- */

static bool is_printable(int32_t code_point)
{
    const utf8proc_category_t category = utf8proc_category(code_point);
    switch (category) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return code_point == ' ';
    default:
        return true;
    }
}

/* `text` is the character. */
static bo_status repr_code_point(bo_jinja_run *run, bo_jinja_builder *to, char quote, const bo_jinja_value *text,
                                 int32_t code_point)
{
    char escape[16];
    if (code_point == quote || code_point == '\\')
        snprintf(escape, sizeof escape, "\\%c", (char)code_point);
    else if (code_point == '\n' || code_point == '\r' || code_point == '\t')
        snprintf(escape, sizeof escape, "\\%c", code_point == '\n' ? 'n' : code_point == '\r' ? 'r' : 't');
    else if (is_printable(code_point))
        return bo_jinja_build_text(run, to, text);
    else
        snprintf(escape, sizeof escape,
                 code_point < 0x100     ? "\\x%02x"
                 : code_point < 0x10000 ? "\\u%04x"
                                        : "\\U%08x",
                 (unsigned)code_point);
    return build_text(run, to, escape);
}

static bo_status repr_text(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *text)
{
    const bool single = text->length && memchr(text->text, '\'', text->length);
    const bool both = single && memchr(text->text, '"', text->length);
    const char quote = single && !both ? '"' : '\'';
    BO_TRY(bo_jinja_build(run, to, &quote, 1));
    for (size_t at = 0, bytes; at < text->length; at += bytes) {
        const int32_t code_point = bo_jinja_code_point(text->text + at, text->length - at, &bytes);
        const bo_jinja_value one = bo_jinja_part(text, at, bytes);
        BO_TRY(repr_code_point(run, to, quote, &one, code_point));
    }
    return bo_jinja_build(run, to, &quote, 1);
}

static bo_status repr(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value);

static bo_status repr_list(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value)
{
    const bool tuple = value->kind == BO_JINJA_TUPLE;
    BO_TRY(build_text(run, to, tuple ? "(" : "["));
    for (size_t i = 0; i < value->list->count; i++) {
        if (i > 0) BO_TRY(build_text(run, to, ", "));
        BO_TRY(repr(run, to, &value->list->items[i]));
    }
    return build_text(run, to, !tuple ? "]" : value->list->count == 1 ? ",)" : ")");
}

static bo_status repr_dict(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_dict *dict)
{
    BO_TRY(build_text(run, to, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0) BO_TRY(build_text(run, to, ", "));
        BO_TRY(repr(run, to, &dict->keys[i]));
        BO_TRY(build_text(run, to, ": "));
        BO_TRY(repr(run, to, &dict->values[i]));
    }
    return build_text(run, to, "}");
}

static bo_status repr(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value)
{
    bo_status status;
    BO_TRY(bo_jinja_charge(run, 0));
    BO_TRY(deeper(run));
    if (value->kind == BO_JINJA_TEXT)
        status = repr_text(run, to, value);
    else if (value->kind == BO_JINJA_LIST || value->kind == BO_JINJA_TUPLE)
        status = repr_list(run, to, value);
    else if (value->kind == BO_JINJA_DICT)
        status = repr_dict(run, to, value->dict);
    else if (value->kind == BO_JINJA_NONE)
        status = build_text(run, to, "None");
    else if (value->kind == BO_JINJA_BOOLEAN)
        status = build_text(run, to, value->boolean ? "True" : "False");
    else if (value->kind == BO_JINJA_UNDEFINED)
        status = build_text(run, to, "Undefined");
    else if (bo_jinja_is_number(value))
        status = print_number(run, to, value);
    else
        status = bo_jinja_fail(run, BO_UNSUPPORTED, "%s as text is not supported", bo_jinja_kind_name(value));
    run->depth--;
    return status;
}

bo_status bo_jinja_print(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value)
{
    if (value->kind == BO_JINJA_TEXT || value->kind == BO_JINJA_MARKUP) return bo_jinja_build_text(run, to, value);
    return value->kind == BO_JINJA_UNDEFINED ? BO_OK : repr(run, to, value);
}

bo_status bo_jinja_string(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_value *out)
{
    bo_jinja_builder builder = {0};
    *out = *value;
    if (value->kind == BO_JINJA_TEXT) return BO_OK;
    BO_TRY(bo_jinja_print(run, &builder, value));
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

typedef struct json_form {
    bo_jinja_value indent;    /* of one level; ABSENT: on one line */
    bo_jinja_value item, key; /* separators */
    bool sorted;
} json_form;

static bo_status json_value(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value, const json_form *form,
                            size_t level);

static bo_status json_text(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *text)
{
    static const char plain[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    BO_TRY(build_text(run, to, "\""));
    for (size_t i = 0, from = 0; i <= text->length; i++) {
        const unsigned char c = i < text->length ? (unsigned char)text->text[i] : 0;
        if (i < text->length && c >= 0x20 && c != '"' && c != '\\') continue;
        const bo_jinja_value plain_part = bo_jinja_part(text, from, i - from);
        BO_TRY(bo_jinja_build_text(run, to, &plain_part));
        from = i + 1;
        if (i == text->length) break;
        char escape[8];
        const char *at = strchr(plain, c);
        if (at)
            snprintf(escape, sizeof escape, "\\%c", at[1]);
        else
            snprintf(escape, sizeof escape, "\\u%04x", c);
        BO_TRY(build_text(run, to, escape));
    }
    return build_text(run, to, "\"");
}

static bo_status json_line(bo_jinja_run *run, bo_jinja_builder *to, const json_form *form, size_t level)
{
    if (form->indent.kind == BO_JINJA_ABSENT) return BO_OK;
    BO_TRY(build_text(run, to, "\n"));
    for (size_t i = 0; i < level; i++) BO_TRY(bo_jinja_build_text(run, to, &form->indent));
    return BO_OK;
}

static bo_status json_list(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_list *list, const json_form *form,
                           size_t level)
{
    if (list->count == 0) return build_text(run, to, "[]");
    BO_TRY(build_text(run, to, "["));
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) BO_TRY(bo_jinja_build_text(run, to, &form->item));
        BO_TRY(json_line(run, to, form, level + 1));
        BO_TRY(json_value(run, to, &list->items[i], form, level + 1));
    }
    BO_TRY(json_line(run, to, form, level));
    return build_text(run, to, "]");
}

/* Keys become strings: json.dumps writes 1, true and null in quotes. */
static bo_status json_key(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *key, const json_form *form)
{
    if (key->kind == BO_JINJA_TEXT) return json_text(run, to, key);
    if (key->kind != BO_JINJA_NONE && !bo_jinja_is_number(key))
        return bo_jinja_wrong_type(run, "the filter 'tojson'", "a string as a key", key);
    BO_TRY(build_text(run, to, "\""));
    BO_TRY(json_value(run, to, key, form, 0));
    return build_text(run, to, "\"");
}

/* The index of the smallest key that is larger than the previous one; there are few keys. */
static bo_status next_key(bo_jinja_run *run, const bo_jinja_dict *dict, size_t last, size_t *out)
{
    *out = dict->count;
    for (size_t i = 0; i < dict->count; i++) {
        int sign;
        if (last < dict->count) {
            BO_TRY(bo_jinja_order(run, &dict->keys[i], &dict->keys[last], &sign));
            if (sign <= 0) continue;
        }
        if (*out < dict->count) {
            BO_TRY(bo_jinja_order(run, &dict->keys[i], &dict->keys[*out], &sign));
            if (sign >= 0) continue;
        }
        *out = i;
    }
    return BO_OK;
}

static bo_status json_dict(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_dict *dict, const json_form *form,
                           size_t level)
{
    size_t at = dict->count;
    if (dict->count == 0) return build_text(run, to, "{}");
    BO_TRY(build_text(run, to, "{"));
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0) BO_TRY(bo_jinja_build_text(run, to, &form->item));
        BO_TRY(json_line(run, to, form, level + 1));
        if (form->sorted) BO_TRY(next_key(run, dict, at, &at));
        const size_t member = form->sorted ? at : i;
        if (member >= dict->count) return bo_jinja_fail(run, BO_INVALID, "these keys have no order");
        BO_TRY(json_key(run, to, &dict->keys[member], form));
        BO_TRY(bo_jinja_build_text(run, to, &form->key));
        BO_TRY(json_value(run, to, &dict->values[member], form, level + 1));
    }
    BO_TRY(json_line(run, to, form, level));
    return build_text(run, to, "}");
}

static bo_status json_simple(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value)
{
    if (value->kind == BO_JINJA_NONE) return build_text(run, to, "null");
    if (value->kind == BO_JINJA_BOOLEAN) return build_text(run, to, value->boolean ? "true" : "false");
    if (value->kind == BO_JINJA_FRACTION && !isfinite(value->fraction))
        return build_text(run, to, isnan(value->fraction) ? "NaN" : value->fraction > 0 ? "Infinity" : "-Infinity");
    if (bo_jinja_is_number(value)) return print_number(run, to, value);
    if (value->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, value);
    return bo_jinja_fail(run, BO_INVALID, "the filter 'tojson': %s cannot be written as JSON",
                         bo_jinja_kind_name(value));
}

static bo_status json_value(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value, const json_form *form,
                            size_t level)
{
    bo_status status;
    BO_TRY(bo_jinja_charge(run, 0));
    BO_TRY(deeper(run));
    if (value->kind == BO_JINJA_TEXT)
        status = json_text(run, to, value);
    else if (value->kind == BO_JINJA_LIST || value->kind == BO_JINJA_TUPLE)
        status = json_list(run, to, value->list, form, level);
    else if (value->kind == BO_JINJA_DICT)
        status = json_dict(run, to, value->dict, form, level);
    else
        status = json_simple(run, to, value);
    run->depth--;
    return status;
}

static bo_status read_indent(bo_jinja_run *run, const bo_jinja_value *indent, json_form *form)
{
    bo_jinja_builder spaces = {0};
    if (indent->kind == BO_JINJA_ABSENT || indent->kind == BO_JINJA_NONE) return BO_OK;
    form->item = bo_jinja_of_text(",", 1);
    form->indent = *indent;
    if (indent->kind == BO_JINJA_TEXT) return BO_OK;
    if (!bo_jinja_is_whole(indent))
        return bo_jinja_wrong_type(run, "the filter 'tojson': indent", "an integer", indent);
    if (bo_jinja_whole(indent) > BO_JINJA_SOURCE)
        return bo_jinja_fail(run, BO_INVALID, "the filter 'tojson': the indent is more than %d", BO_JINJA_SOURCE);
    for (int64_t i = 0; i < bo_jinja_whole(indent); i++) BO_TRY(build_text(run, &spaces, " "));
    form->indent = bo_jinja_built(&spaces);
    return BO_OK;
}

static bo_status read_separators(bo_jinja_run *run, const bo_jinja_value *pair, json_form *form)
{
    if (pair->kind == BO_JINJA_ABSENT || pair->kind == BO_JINJA_NONE) return BO_OK;
    if ((pair->kind != BO_JINJA_LIST && pair->kind != BO_JINJA_TUPLE) || pair->list->count != 2 ||
        pair->list->items[0].kind != BO_JINJA_TEXT || pair->list->items[1].kind != BO_JINJA_TEXT)
        return bo_jinja_wrong_type(run, "the filter 'tojson': separators", "two strings", pair);
    form->item = pair->list->items[0];
    form->key = pair->list->items[1];
    return BO_OK;
}

/* The filter of transformers: json.dumps(x, ensure_ascii, indent, separators, sort_keys), without escapes for HTML. */
bo_status bo_jinja_tojson(bo_jinja_run *run, const bo_jinja_value *values, bo_jinja_value *out)
{
    json_form form = {.item = bo_jinja_of_text(", ", 2), .key = bo_jinja_of_text(": ", 2)};
    bo_jinja_builder builder = {0};
    if (bo_jinja_true(&values[1]))
        return bo_jinja_fail(run, BO_UNSUPPORTED,
                             "the argument 'ensure_ascii' of the filter 'tojson' is not supported");
    BO_TRY(read_indent(run, &values[2], &form));
    BO_TRY(read_separators(run, &values[3], &form));
    form.sorted = bo_jinja_true(&values[4]);
    BO_TRY(json_value(run, &builder, &values[0], &form, 0));
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* ---- dates ------------------------------------------------------------------------------------------------------- */

/* One directive of strftime in the C locale; false: not supported. */
static bool format_date(const struct tm *date, char directive, bool no_zero, char out[32])
{
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    const int hour = date->tm_hour % 12 ? date->tm_hour % 12 : 12;
    const char *two = no_zero ? "%d" : "%02d";
    switch (directive) {
    case 'A':
        snprintf(out, 32, "%s", days[date->tm_wday % 7]);
        break;
    case 'a':
        snprintf(out, 32, "%.3s", days[date->tm_wday % 7]);
        break;
    case 'B':
        snprintf(out, 32, "%s", months[date->tm_mon % 12]);
        break;
    case 'b':
        snprintf(out, 32, "%.3s", months[date->tm_mon % 12]);
        break;
    case 'd':
        snprintf(out, 32, two, date->tm_mday);
        break;
    case 'm':
        snprintf(out, 32, two, date->tm_mon + 1);
        break;
    case 'y':
        snprintf(out, 32, two, date->tm_year % 100);
        break;
    case 'Y':
        snprintf(out, 32, "%d", date->tm_year + 1900);
        break;
    case 'H':
        snprintf(out, 32, two, date->tm_hour);
        break;
    case 'I':
        snprintf(out, 32, two, hour);
        break;
    case 'M':
        snprintf(out, 32, two, date->tm_min);
        break;
    case 'S':
        snprintf(out, 32, two, date->tm_sec);
        break;
    case 'p':
        snprintf(out, 32, "%s", date->tm_hour < 12 ? "AM" : "PM");
        break;
    case 'j':
        snprintf(out, 32, no_zero ? "%d" : "%03d", date->tm_yday + 1);
        break;
    case '%':
        snprintf(out, 32, "%%");
        break;
    default:
        return false;
    }
    return true;
}

/* strftime_now(format): the local time of the rendering. */
bo_status bo_jinja_strftime(bo_jinja_run *run, const bo_jinja_value *values, bo_jinja_value *out)
{
    const bo_jinja_value *format = &values[1];
    const time_t now = (time_t)run->time;
    struct tm date;
    bo_jinja_builder builder = {0};
    if (format->kind != BO_JINJA_TEXT) return bo_jinja_wrong_type(run, "strftime_now()", "a string", format);
    if (!localtime_r(&now, &date)) return bo_jinja_fail(run, BO_INVALID, "strftime_now(): the time is out of range");
    for (size_t i = 0; i < format->length; i++) {
        char formatted[32];
        if (format->text[i] != '%') {
            const bo_jinja_value one = bo_jinja_part(format, i, 1);
            BO_TRY(bo_jinja_build_text(run, &builder, &one));
            continue;
        }
        const bool no_zero = i + 1 < format->length && format->text[i + 1] == '-';
        i += no_zero ? 2 : 1;
        const char directive = i < format->length ? format->text[i] : ' ';
        if (!format_date(&date, directive, no_zero, formatted))
            return bo_jinja_fail(run, BO_UNSUPPORTED, "strftime_now(): '%%%c' is not supported",
                                 directive > ' ' && directive < 127 ? directive : '?');
        BO_TRY(build_text(run, &builder, formatted));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}
