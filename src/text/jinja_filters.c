/* Filters: values | name(arguments). */
#include "jinja_run.h"
#include "../io/numbers.h"
#include <math.h>

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bo_status trim(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value text;
    BO_TRY(bo_jinja_string(run, &v[0], &text));
    return bo_jinja_strip(run, &text, &v[1], BO_JINJA_STRIP_LEFT | BO_JINJA_STRIP_RIGHT, out);
}

static bo_status change_case(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_case how, bo_jinja_value *out)
{
    bo_jinja_value text;
    BO_TRY(bo_jinja_string(run, value, &text));
    return bo_jinja_change_case(run, &text, how, out);
}

static bo_status upper(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return change_case(run, v, BO_JINJA_UPPER, out);
}

static bo_status lower(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return change_case(run, v, BO_JINJA_LOWER, out);
}

static bo_status capitalize(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return change_case(run, v, BO_JINJA_CAPITALIZE, out);
}

/* Words begin after white space and - ( { [ <, unlike those of str.title(). */
static bo_status title(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value text;
    bo_jinja_builder builder = {0};
    bool inside = false;
    BO_TRY(bo_jinja_string(run, &v[0], &text));
    for (size_t at = 0, bytes; at < text.length; at += bytes) {
        bo_jinja_value changed;
        const int32_t code_point = bo_jinja_code_point(text.text + at, text.length - at, &bytes);
        const bo_jinja_value one = bo_jinja_part(&text, at, bytes);
        BO_TRY(bo_jinja_change_case(run, &one, inside ? BO_JINJA_LOWER : BO_JINJA_UPPER, &changed));
        BO_TRY(bo_jinja_build_text(run, &builder, &changed));
        inside = !bo_jinja_is_space(code_point) && !(code_point < 128 && strchr("-({[<", code_point));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

static bo_status string(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_string(run, &v[0], out);
}

static bo_status safe(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_string(run, &v[0], out));
    out->kind = BO_JINJA_MARKUP;
    return BO_OK;
}

static bo_status replace(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value text, old, by;
    if (v[3].kind > BO_JINJA_NONE && !bo_jinja_is_whole(&v[3]))
        return bo_jinja_wrong_type(run, "the filter 'replace'", "an integer", &v[3]);
    BO_TRY(bo_jinja_string(run, &v[0], &text));
    BO_TRY(bo_jinja_string(run, &v[1], &old));
    BO_TRY(bo_jinja_string(run, &v[2], &by));
    return bo_jinja_replace(run, &text, &old, &by, v[3].kind > BO_JINJA_NONE ? bo_jinja_whole(&v[3]) : -1, out);
}

/* The first line is not indented unless `first`, and empty lines are not unless `blank`. */
static bo_status indent(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value text, lines, margin = v[1];
    bo_jinja_builder spaces = {0}, builder = {0}, ended = {0};
    if (margin.kind != BO_JINJA_TEXT) {
        if (margin.kind != BO_JINJA_ABSENT && !bo_jinja_is_whole(&margin))
            return bo_jinja_wrong_type(run, "the filter 'indent'", "an integer", &margin);
        const int64_t width = margin.kind == BO_JINJA_ABSENT ? 4 : bo_jinja_whole(&margin);
        if (width > BO_JINJA_SOURCE)
            return bo_jinja_fail(run, BO_INVALID, "the filter 'indent': the width is more than %d", BO_JINJA_SOURCE);
        for (int64_t i = 0; i < width; i++) BO_TRY(bo_jinja_build(run, &spaces, " ", 1));
        margin = bo_jinja_built(&spaces);
    }
    if (v[0].kind != BO_JINJA_TEXT) return bo_jinja_wrong_type(run, "the filter 'indent'", "a string", &v[0]);
    BO_TRY(bo_jinja_build_text(run, &ended, &v[0]));
    BO_TRY(bo_jinja_build(run, &ended, "\n", 1));
    text = bo_jinja_built(&ended);
    BO_TRY(bo_jinja_lines(run, &text, false, &lines));
    for (size_t i = 0; i < lines.list->count; i++) {
        const bo_jinja_value *line = &lines.list->items[i];
        const bool margins = i == 0 ? bo_jinja_true(&v[2]) : line->length > 0 || bo_jinja_true(&v[3]);
        if (i > 0) BO_TRY(bo_jinja_build(run, &builder, "\n", 1));
        if (margins) BO_TRY(bo_jinja_build_text(run, &builder, &margin));
        BO_TRY(bo_jinja_build_text(run, &builder, line));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool parse_number(const bo_jinja_value *text, double *out)
{
    const char *stop;
    size_t from = 0, to = text->length;
    while (from < to && strchr(" \t\n\r\f\v", text->text[from])) from++;
    while (from < to && strchr(" \t\n\r\f\v", text->text[to - 1])) to--;
    return from < to && bo_number_read(text->text + from, text->text + to, &stop, out) && stop == text->text + to;
}

static bo_status to_int(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    double number = NAN;
    if (v[0].kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, &v[0]);
    *out = v[1].kind == BO_JINJA_ABSENT ? bo_jinja_of_whole(0) : v[1];
    if (bo_jinja_is_whole(&v[0])) {
        *out = bo_jinja_of_whole(bo_jinja_whole(&v[0]));
        return BO_OK;
    }
    BO_TRY(bo_jinja_charge(run, v[0].kind == BO_JINJA_TEXT ? v[0].length : 0));
    if (v[0].kind == BO_JINJA_FRACTION) number = v[0].fraction;
    if (v[0].kind == BO_JINJA_TEXT && !parse_number(&v[0], &number)) return BO_OK;
    if (isnan(number)) return BO_OK;
    if (fabs(number) > 0x1p53)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "the filter 'int': numbers above 2^53 are not supported");
    *out = bo_jinja_of_whole((int64_t)number);
    return BO_OK;
}

static bo_status to_float(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    double number;
    if (v[0].kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, &v[0]);
    BO_TRY(bo_jinja_charge(run, v[0].kind == BO_JINJA_TEXT ? v[0].length : 0));
    if (bo_jinja_is_number(&v[0]))
        number = bo_jinja_fraction(&v[0]);
    else if (v[0].kind != BO_JINJA_TEXT || !parse_number(&v[0], &number)) {
        *out = v[1].kind == BO_JINJA_ABSENT ? (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = 0} : v[1];
        return BO_OK;
    }
    *out = (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = number};
    return BO_OK;
}

static bo_status absolute(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    if (!bo_jinja_is_number(&v[0])) return bo_jinja_wrong_type(run, "the filter 'abs'", "a number", &v[0]);
    if (v[0].kind == BO_JINJA_FRACTION) {
        *out = (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = fabs(v[0].fraction)};
        return BO_OK;
    }
    const int64_t whole = bo_jinja_whole(&v[0]);
    if (whole == INT64_MIN) return bo_jinja_fail(run, BO_UNSUPPORTED, "whole numbers beyond 64 bits are not supported");
    *out = bo_jinja_of_whole(whole < 0 ? -whole : whole);
    return BO_OK;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static bo_status length(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    size_t count;
    BO_TRY(bo_jinja_length(run, &v[0], &count));
    *out = bo_jinja_of_whole((int64_t)count);
    return BO_OK;
}

static bo_status copy_items(bo_jinja_run *run, bo_jinja_kind kind, const bo_jinja_list *from, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_list_new(run, kind, from->count, out));
    for (size_t i = 0; i < from->count; i++) BO_TRY(bo_jinja_list_add(run, out->list, from->items[i]));
    return BO_OK;
}

static bo_status list(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    BO_TRY(bo_jinja_iterate(run, &v[0], &all));
    return copy_items(run, BO_JINJA_LIST, all, out);
}

static bo_status first(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    const size_t iterated = v[0].kind == BO_JINJA_LAZY ? v[0].list->iterated : 0;
    BO_TRY(bo_jinja_iterate(run, &v[0], &all));
    *out = all->count ? all->items[0] : bo_jinja_of_kind(BO_JINJA_UNDEFINED);
    if (v[0].kind == BO_JINJA_LAZY && all->count) v[0].list->iterated = iterated + 1;
    return BO_OK;
}

static bo_status last(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    if (v[0].kind == BO_JINJA_LAZY) return bo_jinja_wrong_type(run, "the filter 'last'", "a list", &v[0]);
    BO_TRY(bo_jinja_iterate(run, &v[0], &all));
    *out = all->count ? all->items[all->count - 1] : bo_jinja_of_kind(BO_JINJA_UNDEFINED);
    return BO_OK;
}

static bo_status reverse(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    bo_jinja_builder builder = {0};
    const bool text = v[0].kind == BO_JINJA_TEXT;
    BO_TRY(bo_jinja_iterate(run, &v[0], &all));
    if (!text) BO_TRY(bo_jinja_list_new(run, BO_JINJA_LAZY, all->count, out));
    for (size_t i = all->count; i-- > 0;)
        BO_TRY(text ? bo_jinja_build_text(run, &builder, &all->items[i])
                    : bo_jinja_list_add(run, out->list, all->items[i]));
    if (text) *out = bo_jinja_built(&builder);
    return BO_OK;
}

static bo_status join(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    bo_jinja_builder builder = {0};
    bo_jinja_value between = bo_jinja_of_text("", 0);
    if (v[1].kind != BO_JINJA_ABSENT) BO_TRY(bo_jinja_string(run, &v[1], &between));
    BO_TRY(bo_jinja_iterate(run, &v[0], &all));
    for (size_t i = 0; i < all->count; i++) {
        bo_jinja_value item = all->items[i];
        if (v[2].kind > BO_JINJA_NONE) BO_TRY(bo_jinja_path(run, &all->items[i], &v[2], &item));
        if (item.kind == BO_JINJA_MARKUP)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "the filter 'join' of results of 'safe' is not supported");
        if (i > 0) BO_TRY(bo_jinja_build_text(run, &builder, &between));
        BO_TRY(bo_jinja_print(run, &builder, &item));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

static bo_status default_value(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    const bool missing = v[0].kind == BO_JINJA_UNDEFINED || (bo_jinja_true(&v[2]) && !bo_jinja_true(&v[0]));
    (void)run;
    *out = !missing ? v[0] : v[1].kind == BO_JINJA_ABSENT ? bo_jinja_of_text("", 0) : v[1];
    return BO_OK;
}

static bo_status items(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    const size_t count = v[0].kind == BO_JINJA_DICT ? v[0].dict->count : 0;
    if (v[0].kind != BO_JINJA_DICT && v[0].kind != BO_JINJA_UNDEFINED)
        return bo_jinja_wrong_type(run, "the filter 'items'", "a dictionary", &v[0]);
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LAZY, count, out));
    for (size_t i = 0; i < count; i++) {
        bo_jinja_value pair;
        BO_TRY(bo_jinja_list_new(run, BO_JINJA_TUPLE, 2, &pair));
        BO_TRY(bo_jinja_list_add(run, pair.list, v[0].dict->keys[i]));
        BO_TRY(bo_jinja_list_add(run, pair.list, v[0].dict->values[i]));
        BO_TRY(bo_jinja_list_add(run, out->list, pair));
    }
    return BO_OK;
}

/* ---- attributes and selections ----------------------------------------------------------------------------------- */

static bool is_index(const bo_jinja_value *key)
{
    enum { DIGITS = 9 };
    bool digits = key->length > 0 && key->length <= DIGITS;
    for (size_t i = 0; i < key->length && digits; i++) digits = key->text[i] >= '0' && key->text[i] <= '9';
    return digits;
}

bo_status bo_jinja_path(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value *path, bo_jinja_value *out)
{
    *out = *value;
    if (bo_jinja_is_whole(path)) return bo_jinja_item(run, value, path, out);
    if (path->kind != BO_JINJA_TEXT) return bo_jinja_wrong_type(run, "an attribute", "a string", path);
    for (size_t at = 0; at <= path->length;) {
        const char *dot = at < path->length ? memchr(path->text + at, '.', path->length - at) : NULL;
        const size_t end = dot ? (size_t)(dot - path->text) : path->length;
        bo_jinja_value key = bo_jinja_of_text(path->text + at, end - at), of = *out;
        if (is_index(&key)) {
            double number = 0;
            parse_number(&key, &number);
            key = bo_jinja_of_whole((int64_t)number);
        }
        BO_TRY(bo_jinja_item(run, &of, &key, out));
        BO_TRY(bo_jinja_charge(run, end - at));
        at = end + 1;
    }
    return BO_OK;
}

/* Empty if the value is false, such as none. */
static bo_status iterate_true(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_list **out)
{
    const bo_jinja_value nothing = bo_jinja_of_kind(BO_JINJA_UNDEFINED);
    return bo_jinja_iterate(run, bo_jinja_true(value) ? value : &nothing, out);
}

/* map(attribute=…, default=…) or map("filter", …). */
static bo_status map(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *all;
    const bo_jinja_filter *filter = NULL;
    bo_jinja_arguments arguments = {0};
    if (v[4].kind == BO_JINJA_ABSENT) {
        if (v[1].kind != BO_JINJA_TEXT)
            return bo_jinja_wrong_type(run, "the filter 'map'", "the name of a filter", &v[1]);
        filter = bo_jinja_find_filter(v[1].text, v[1].length);
        if (!filter)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "the filter '%.*s' is not supported",
                                 (int)(v[1].length < 80 ? v[1].length : 80), v[1].text);
        for (size_t i = 2; i < 4 && v[i].kind != BO_JINJA_ABSENT; i++) arguments.values[arguments.count++] = v[i];
    } else if (v[1].kind != BO_JINJA_ABSENT) {
        return bo_jinja_fail(run, BO_INVALID, "the filter 'map': expected an attribute or a filter, found both");
    }
    BO_TRY(iterate_true(run, &v[0], &all));
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LAZY, all->count, out));
    BO_TRY(bo_jinja_charge(run, 0));
    if (++run->depth > BO_JINJA_DEPTH)
        return bo_jinja_fail(run, BO_INVALID, "calls are nested more than %d deep", BO_JINJA_DEPTH);
    for (size_t i = 0; i < all->count; i++) {
        bo_jinja_value mapped;
        BO_TRY(filter ? bo_jinja_apply(run, filter, "filter", &all->items[i], &arguments, &mapped)
                      : bo_jinja_path(run, &all->items[i], &v[4], &mapped));
        if (!filter && mapped.kind == BO_JINJA_UNDEFINED && v[5].kind != BO_JINJA_ABSENT) mapped = v[5];
        BO_TRY(bo_jinja_list_add(run, out->list, mapped));
    }
    run->depth--;
    return BO_OK;
}

/* Keeps the items, or those with an attribute, for which a test has this result. */
static bo_status pick(bo_jinja_run *run, const bo_jinja_value *v, bool attribute, bool expected, bo_jinja_value *out)
{
    bo_jinja_list *all;
    const bo_jinja_value *name = attribute ? &v[2] : &v[1];
    const bo_jinja_filter *test = NULL;
    bo_jinja_arguments arguments = {0};
    if (name->kind != BO_JINJA_ABSENT) {
        if (name->kind != BO_JINJA_TEXT) return bo_jinja_wrong_type(run, "a selection", "the name of a test", name);
        test = bo_jinja_find_test(name->text, name->length);
        if (!test)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "the test '%.*s' is not supported",
                                 (int)(name->length < 80 ? name->length : 80), name->text);
        if (name[1].kind != BO_JINJA_ABSENT) arguments.values[arguments.count++] = name[1];
    }
    BO_TRY(iterate_true(run, &v[0], &all));
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LAZY, 0, out));
    for (size_t i = 0; i < all->count; i++) {
        bo_jinja_value item = all->items[i], result;
        if (attribute) BO_TRY(bo_jinja_path(run, &all->items[i], &v[1], &item));
        result = item;
        if (test) BO_TRY(bo_jinja_apply(run, test, "test", &item, &arguments, &result));
        if (bo_jinja_true(&result) == expected) BO_TRY(bo_jinja_list_add(run, out->list, all->items[i]));
    }
    return BO_OK;
}

static bo_status pick_true(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return pick(run, v, false, true, out);
}

static bo_status reject(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return pick(run, v, false, false, out);
}

static bo_status selectattr(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return pick(run, v, true, true, out);
}

static bo_status rejectattr(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return pick(run, v, true, false, out);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Strings are compared in lower case unless the order is case-sensitive. */
static bo_status sort_key(bo_jinja_run *run, const bo_jinja_value *value, bool sensitive, bo_jinja_value *out)
{
    *out = *value;
    return value->kind == BO_JINJA_TEXT && !sensitive ? bo_jinja_change_case(run, value, BO_JINJA_LOWER, out) : BO_OK;
}

/* A stable insertion sort of the items by their keys; the work limit bounds long lists. */
static bo_status sort_by(bo_jinja_run *run, bo_jinja_value *keys, bo_jinja_value *items, size_t count, bool descending)
{
    for (size_t i = 1; i < count; i++) {
        const bo_jinja_value key = keys[i], item = items[i];
        size_t at = i;
        for (; at > 0; at--) {
            int sign;
            BO_TRY(bo_jinja_charge(run, 0));
            BO_TRY(bo_jinja_order(run, &key, &keys[at - 1], &sign));
            if (descending ? sign <= 0 : sign >= 0) break;
            keys[at] = keys[at - 1];
            items[at] = items[at - 1];
        }
        keys[at] = key;
        items[at] = item;
    }
    return BO_OK;
}

static bo_status sort(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value keys;
    BO_TRY(list(run, v, out));
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, out->list->count, &keys));
    for (size_t i = 0; i < out->list->count; i++) {
        bo_jinja_value key = out->list->items[i];
        if (v[3].kind > BO_JINJA_NONE) BO_TRY(bo_jinja_path(run, &out->list->items[i], &v[3], &key));
        BO_TRY(sort_key(run, &key, bo_jinja_true(&v[2]), &key));
        BO_TRY(bo_jinja_list_add(run, keys.list, key));
    }
    return sort_by(run, keys.list->items, out->list->items, keys.list->count, bo_jinja_true(&v[1]));
}

static bo_status dictsort(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value pairs, keys;
    const bool by_value = bo_jinja_text_is(&v[2], "value");
    if (v[0].kind != BO_JINJA_DICT) return bo_jinja_wrong_type(run, "the filter 'dictsort'", "a dictionary", &v[0]);
    if (v[2].kind != BO_JINJA_ABSENT && !by_value && !bo_jinja_text_is(&v[2], "key"))
        return bo_jinja_fail(run, BO_INVALID, "the filter 'dictsort': by must be 'key' or 'value'");
    BO_TRY(items(run, v, &pairs));
    BO_TRY(copy_items(run, BO_JINJA_LIST, pairs.list, out));
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, out->list->count, &keys));
    for (size_t i = 0; i < out->list->count; i++) {
        bo_jinja_value key;
        BO_TRY(sort_key(run, by_value ? &v[0].dict->values[i] : &v[0].dict->keys[i], bo_jinja_true(&v[1]), &key));
        BO_TRY(bo_jinja_list_add(run, keys.list, key));
    }
    return sort_by(run, keys.list->items, out->list->items, keys.list->count, bo_jinja_true(&v[3]));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const bo_jinja_filter *bo_jinja_find_filter(const char *name, size_t name_length)
{
    static const bo_jinja_filter filters[] = {
        {"abs", absolute, 0, {NULL}},
        {"capitalize", capitalize, 0, {NULL}},
        {"count", length, 0, {NULL}},
        {"d", default_value, 0, {"default_value", "boolean"}},
        {"default", default_value, 0, {"default_value", "boolean"}},
        {"dictsort", dictsort, 0, {"case_sensitive", "by", "reverse"}},
        {"first", first, 0, {NULL}},
        {"float", to_float, 0, {"default"}},
        {"indent", indent, 0, {"width", "first", "blank"}},
        {"int", to_int, 0, {"default"}},
        {"items", items, 0, {NULL}},
        {"join", join, 0, {"d", "attribute"}},
        {"last", last, 0, {NULL}},
        {"length", length, 0, {NULL}},
        {"list", list, 0, {NULL}},
        {"lower", lower, 0, {NULL}},
        {"map", map, 0, {"filter", "", "", "attribute", "default"}},
        {"reject", reject, 0, {"test", ""}},
        {"rejectattr", rejectattr, 1, {"attribute", "test", ""}},
        {"replace", replace, 2, {"old", "new", "count"}},
        {"reverse", reverse, 0, {NULL}},
        {"safe", safe, 0, {NULL}},
        {"select", pick_true, 0, {"test", ""}},
        {"selectattr", selectattr, 1, {"attribute", "test", ""}},
        {"sort", sort, 0, {"reverse", "case_sensitive", "attribute"}},
        {"string", string, 0, {NULL}},
        {"title", title, 0, {NULL}},
        {"tojson", bo_jinja_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
        {"trim", trim, 0, {"chars"}},
        {"upper", upper, 0, {NULL}},
        {NULL, NULL, 0, {NULL}},
    };
    return bo_jinja_find(filters, name, name_length);
}
