/* Methods of strings and dictionaries, and functions. */
#include "jinja_run.h"

/* ---- arguments --------------------------------------------------------------------------------------------------- */

const bo_jinja_filter *bo_jinja_find(const bo_jinja_filter *table, const char *name, size_t length)
{
    for (; table->name; table++)
        if (strlen(table->name) == length && memcmp(table->name, name, length) == 0) return table;
    return NULL;
}

/* The parameter of a keyword; BO_JINJA_PARAMETERS: there is none. */
static size_t find_parameter(const bo_jinja_filter *filter, const bo_jinja_node *keyword)
{
    size_t i = 0;
    while (i < BO_JINJA_PARAMETERS &&
           !(filter->parameters[i] && strlen(filter->parameters[i]) == keyword->name_length &&
             memcmp(filter->parameters[i], keyword->name, keyword->name_length) == 0))
        i++;
    return i;
}

bo_status bo_jinja_apply(bo_jinja_run *run, const bo_jinja_filter *filter, const char *what,
                         const bo_jinja_value *subject, const bo_jinja_arguments *arguments, bo_jinja_value *out)
{
    bo_jinja_value values[1 + BO_JINJA_PARAMETERS] = {*subject};
    for (size_t i = 0; i < arguments->count; i++) {
        const bo_jinja_node *keyword = arguments->names[i];
        const size_t at = keyword ? find_parameter(filter, keyword) : i;
        if (keyword && at == BO_JINJA_PARAMETERS)
            return bo_jinja_fail(run, BO_UNSUPPORTED, "the argument '%.*s' of the %s '%s' is not supported",
                                 (int)keyword->name_length, keyword->name, what, filter->name);
        if (at >= BO_JINJA_PARAMETERS || !filter->parameters[at])
            return bo_jinja_fail(run, BO_UNSUPPORTED, "%zu arguments of the %s '%s' are not supported",
                                 arguments->count, what, filter->name);
        if (values[1 + at].kind != BO_JINJA_ABSENT)
            return bo_jinja_fail(run, BO_INVALID, "the argument '%s' of the %s '%s' is given twice",
                                 filter->parameters[at], what, filter->name);
        values[1 + at] = arguments->values[i];
    }
    for (size_t i = 0; i < filter->needed; i++)
        if (values[1 + i].kind == BO_JINJA_ABSENT)
            return bo_jinja_fail(run, BO_INVALID, "the argument '%s' of the %s '%s' is missing", filter->parameters[i],
                                 what, filter->name);
    return filter->apply(run, values, out);
}

static bo_status need_text(bo_jinja_run *run, const char *function, const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_TEXT ? BO_OK : bo_jinja_wrong_type(run, function, "a string", value);
}

/* A whole number; `default_value` if it was not given or is none. */
static bo_status read_whole(bo_jinja_run *run, const char *function, const bo_jinja_value *value, int64_t default_value,
                            int64_t *out)
{
    *out = default_value;
    if (value->kind == BO_JINJA_ABSENT) return BO_OK;
    if (!bo_jinja_is_whole(value)) return bo_jinja_wrong_type(run, function, "an integer", value);
    *out = bo_jinja_whole(value);
    return BO_OK;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static bo_status strip(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_strip(run, &v[0], &v[1], BO_JINJA_STRIP_LEFT | BO_JINJA_STRIP_RIGHT, out);
}

static bo_status lstrip(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_strip(run, &v[0], &v[1], BO_JINJA_STRIP_LEFT, out);
}

static bo_status rstrip(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_strip(run, &v[0], &v[1], BO_JINJA_STRIP_RIGHT, out);
}

static bool has_affix(const bo_jinja_value *text, const bo_jinja_value *affix, bool end)
{
    return affix->length <= text->length &&
           memcmp(text->text + (end ? text->length - affix->length : 0), affix->text, affix->length) == 0;
}

/* The affix is a string, or a tuple of strings. */
static bo_status test_affix(bo_jinja_run *run, const bo_jinja_value *v, bool end, bo_jinja_value *out)
{
    const char *function = end ? "endswith()" : "startswith()";
    *out = bo_jinja_of_boolean(false);
    if (v[1].kind != BO_JINJA_TUPLE) {
        BO_TRY(need_text(run, function, &v[1]));
        *out = bo_jinja_of_boolean(has_affix(&v[0], &v[1], end));
        return bo_jinja_charge(run, v[1].length);
    }
    for (size_t i = 0; i < v[1].list->count; i++) {
        const bo_jinja_value *affix = &v[1].list->items[i];
        BO_TRY(need_text(run, function, affix));
        BO_TRY(bo_jinja_charge(run, affix->length));
        if (has_affix(&v[0], affix, end)) *out = bo_jinja_of_boolean(true);
    }
    return BO_OK;
}

static bo_status startswith(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return test_affix(run, v, false, out);
}

static bo_status endswith(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return test_affix(run, v, true, out);
}

static bo_status removeprefix(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    BO_TRY(need_text(run, "removeprefix()", &v[1]));
    const size_t cut = has_affix(&v[0], &v[1], false) ? v[1].length : 0;
    *out = bo_jinja_part(&v[0], cut, v[0].length - cut);
    return bo_jinja_charge(run, v[1].length);
}

static bo_status removesuffix(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    BO_TRY(need_text(run, "removesuffix()", &v[1]));
    const size_t cut = has_affix(&v[0], &v[1], true) ? v[1].length : 0;
    *out = bo_jinja_part(&v[0], 0, v[0].length - cut);
    return bo_jinja_charge(run, v[1].length);
}

/* The last occurrence in text[0, length); NULL: there is none. */
static bo_status find_last(bo_jinja_run *run, const char *text, size_t length, const bo_jinja_value *what,
                           const char **out)
{
    *out = NULL;
    BO_TRY(bo_jinja_charge(run, length * (1 + what->length / 16))); /* the worst case */
    for (size_t at = length + 1; at-- > 0 && !*out;)
        if (length - at >= what->length && memcmp(text + at, what->text, what->length) == 0) *out = text + at;
    return BO_OK;
}

/* Separated by white space: parts are not empty. */
static bo_status split_at_spaces(bo_jinja_run *run, const bo_jinja_value *text, int64_t max_splits,
                                 bo_jinja_list *parts)
{
    const bo_jinja_value whitespace = bo_jinja_of_kind(BO_JINJA_NONE);
    bo_jinja_value rest;
    BO_TRY(bo_jinja_strip(run, text, &whitespace, BO_JINJA_STRIP_LEFT, &rest));
    while (rest.length > 0) {
        size_t at = 0, bytes;
        while (at < rest.length && !bo_jinja_is_space(bo_jinja_code_point(rest.text + at, rest.length - at, &bytes)))
            at += bytes;
        if (max_splits-- == 0) {
            BO_TRY(bo_jinja_strip(run, &rest, &whitespace, BO_JINJA_STRIP_RIGHT, &rest));
            return bo_jinja_list_add(run, parts, rest);
        }
        BO_TRY(bo_jinja_list_add(run, parts, bo_jinja_part(&rest, 0, at)));
        BO_TRY(bo_jinja_charge(run, at));
        rest = bo_jinja_part(&rest, at, rest.length - at);
        BO_TRY(bo_jinja_strip(run, &rest, &whitespace, BO_JINJA_STRIP_LEFT, &rest));
    }
    return BO_OK;
}

static bo_status split(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t max_splits;
    bo_jinja_value rest = v[0];
    BO_TRY(read_whole(run, "split()", &v[2], -1, &max_splits));
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, out));
    if (v[1].kind <= BO_JINJA_NONE) return split_at_spaces(run, &v[0], max_splits, out->list);
    BO_TRY(need_text(run, "split()", &v[1]));
    if (v[1].length == 0) return bo_jinja_fail(run, BO_INVALID, "split(): the separator is empty");
    while (max_splits-- != 0) {
        const char *found = rest.length ? memmem(rest.text, rest.length, v[1].text, v[1].length) : NULL;
        if (!found) break;
        const size_t before = (size_t)(found - rest.text);
        BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_part(&rest, 0, before)));
        BO_TRY(bo_jinja_charge(run, before + v[1].length));
        rest = bo_jinja_part(&rest, before + v[1].length, rest.length - before - v[1].length);
    }
    BO_TRY(bo_jinja_charge(run, rest.length));
    return bo_jinja_list_add(run, out->list, rest);
}

static void reverse(bo_jinja_list *list)
{
    for (size_t i = 0, j = list->count; i + 1 < j; i++, j--) {
        const bo_jinja_value item = list->items[i];
        list->items[i] = list->items[j - 1];
        list->items[j - 1] = item;
    }
}

static bo_status rsplit(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t max_splits;
    size_t length = v[0].length;
    BO_TRY(read_whole(run, "rsplit()", &v[2], -1, &max_splits));
    if (max_splits < 0) return split(run, v, out);
    if (v[1].kind <= BO_JINJA_NONE)
        return bo_jinja_fail(run, BO_UNSUPPORTED, "rsplit() with a maximum and without a separator is not supported");
    BO_TRY(need_text(run, "rsplit()", &v[1]));
    if (v[1].length == 0) return bo_jinja_fail(run, BO_INVALID, "rsplit(): the separator is empty");
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, out));
    while (max_splits-- != 0) {
        const char *found;
        BO_TRY(find_last(run, v[0].text, length, &v[1], &found));
        if (!found) break;
        const size_t at = (size_t)(found - v[0].text), after = at + v[1].length;
        BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_part(&v[0], after, length - after)));
        length = at;
    }
    BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_part(&v[0], 0, length)));
    reverse(out->list);
    return BO_OK;
}

static bo_status splitlines(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_lines(run, &v[0], bo_jinja_true(&v[1]), out);
}

static bo_status replace(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t max_count;
    BO_TRY(need_text(run, "replace()", &v[1]));
    BO_TRY(need_text(run, "replace()", &v[2]));
    BO_TRY(read_whole(run, "replace()", &v[3], -1, &max_count));
    return bo_jinja_replace(run, &v[0], &v[1], &v[2], max_count, out);
}

static bo_status upper(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_change_case(run, &v[0], BO_JINJA_UPPER, out);
}

static bo_status lower(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_change_case(run, &v[0], BO_JINJA_LOWER, out);
}

static bo_status title(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_change_case(run, &v[0], BO_JINJA_TITLE, out);
}

static bo_status capitalize(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return bo_jinja_change_case(run, &v[0], BO_JINJA_CAPITALIZE, out);
}

static bo_status join(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_list *list;
    bo_jinja_builder builder = {0};
    BO_TRY(bo_jinja_iterate(run, &v[1], &list));
    for (size_t i = 0; i < list->count; i++) {
        BO_TRY(need_text(run, "join()", &list->items[i]));
        if (i > 0) BO_TRY(bo_jinja_build_text(run, &builder, &v[0]));
        BO_TRY(bo_jinja_build_text(run, &builder, &list->items[i]));
    }
    *out = bo_jinja_built(&builder);
    return BO_OK;
}

/* The position in characters; -1: not found. */
static bo_jinja_value found_at(const bo_jinja_value *text, const char *found)
{
    return bo_jinja_of_whole(found ? (int64_t)bo_jinja_characters(text->text, (size_t)(found - text->text)) : -1);
}

static bo_status find(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    BO_TRY(need_text(run, "find()", &v[1]));
    BO_TRY(bo_jinja_charge(run, v[0].length));
    *out = found_at(&v[0], v[1].length == 0 ? v[0].text : memmem(v[0].text, v[0].length, v[1].text, v[1].length));
    return BO_OK;
}

static bo_status rfind(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    const char *found;
    BO_TRY(need_text(run, "rfind()", &v[1]));
    BO_TRY(find_last(run, v[0].text, v[0].length, &v[1], &found));
    *out = found_at(&v[0], found);
    return BO_OK;
}

static bo_status count(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t found = 0;
    BO_TRY(need_text(run, "count()", &v[1]));
    BO_TRY(bo_jinja_charge(run, v[0].length));
    if (v[1].length == 0) found = (int64_t)bo_jinja_characters(v[0].text, v[0].length) + 1;
    for (size_t at = 0; v[1].length > 0 && at < v[0].length;) {
        const char *next = memmem(v[0].text + at, v[0].length - at, v[1].text, v[1].length);
        if (!next) break;
        found++;
        at = (size_t)(next - v[0].text) + v[1].length;
    }
    *out = bo_jinja_of_whole(found);
    return BO_OK;
}

static const bo_jinja_filter text_methods[] = {
    {"strip", strip, 0, {"chars"}},
    {"lstrip", lstrip, 0, {"chars"}},
    {"rstrip", rstrip, 0, {"chars"}},
    {"startswith", startswith, 1, {"prefix"}},
    {"endswith", endswith, 1, {"suffix"}},
    {"removeprefix", removeprefix, 1, {"prefix"}},
    {"removesuffix", removesuffix, 1, {"suffix"}},
    {"split", split, 0, {"sep", "maxsplit"}},
    {"rsplit", rsplit, 0, {"sep", "maxsplit"}},
    {"splitlines", splitlines, 0, {"keepends"}},
    {"replace", replace, 2, {"old", "new", "count"}},
    {"upper", upper, 0, {NULL}},
    {"lower", lower, 0, {NULL}},
    {"title", title, 0, {NULL}},
    {"capitalize", capitalize, 0, {NULL}},
    {"join", join, 1, {"iterable"}},
    {"find", find, 1, {"sub"}},
    {"rfind", rfind, 1, {"sub"}},
    {"count", count, 1, {"sub"}},
    {NULL, NULL, 0, {NULL}},
};

/* ---- dictionaries ------------------------------------------------------------------------------------------------ */

static bo_status get(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value *found;
    BO_TRY(bo_jinja_dict_get(run, v[0].dict, &v[1], &found));
    *out = found ? *found : v[2].kind == BO_JINJA_ABSENT ? bo_jinja_of_kind(BO_JINJA_NONE) : v[2];
    return BO_OK;
}

static bo_status view(bo_jinja_run *run, const bo_jinja_value *dict, bool keys, bool values, bo_jinja_value *out)
{
    const bo_jinja_dict *d = dict->dict;
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_VIEW, d->count, out));
    for (size_t i = 0; i < d->count; i++) {
        bo_jinja_value pair = keys ? d->keys[i] : d->values[i];
        if (keys && values) {
            BO_TRY(bo_jinja_list_new(run, BO_JINJA_TUPLE, 2, &pair));
            BO_TRY(bo_jinja_list_add(run, pair.list, d->keys[i]));
            BO_TRY(bo_jinja_list_add(run, pair.list, d->values[i]));
        }
        BO_TRY(bo_jinja_list_add(run, out->list, pair));
    }
    return BO_OK;
}

static bo_status items(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return view(run, &v[0], true, true, out);
}

static bo_status keys(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return view(run, &v[0], true, false, out);
}

static bo_status values(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    return view(run, &v[0], false, true, out);
}

static const bo_jinja_filter dict_methods[] = {
    {"get", get, 1, {"key", "default"}}, {"items", items, 0, {NULL}}, {"keys", keys, 0, {NULL}},
    {"values", values, 0, {NULL}},       {NULL, NULL, 0, {NULL}},
};

/* ---- methods ----------------------------------------------------------------------------------------------------- */

static bool is_listed(const char *const *names, const char *name, size_t length)
{
    for (; *names; names++)
        if (strlen(*names) == length && memcmp(*names, name, length) == 0) return true;
    return false;
}

/* Other Python methods: these names are outside the subset, not undefined attributes. */
const bo_jinja_filter *bo_jinja_find_method(const bo_jinja_value *value, const char *name, size_t length, bool *known)
{
    static const char *const of_text[] = {"casefold",    "center",    "encode",       "expandtabs", "format",
                                          "format_map",  "index",     "isalnum",      "isalpha",    "isascii",
                                          "isdecimal",   "isdigit",   "isidentifier", "islower",    "isnumeric",
                                          "isprintable", "isspace",   "istitle",      "isupper",    "ljust",
                                          "maketrans",   "partition", "rindex",       "rjust",      "rpartition",
                                          "swapcase",    "translate", "zfill",        NULL};
    static const char *const of_dict[] = {"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_list[] = {"append",     "clear",   "copy",  "count",  "extend",  "index", "insert",
                                          "isdisjoint", "mapping", "pop",   "remove", "reverse", "sort",  "start",
                                          "stop",       "step",    "close", "send",   "throw",   NULL};
    static const char *const of_number[] = {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
                                            "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
                                            "numerator",        "real",      "to_bytes",   NULL};
    static const char *const none[] = {NULL};
    const bool text = value->kind == BO_JINJA_TEXT || value->kind == BO_JINJA_MARKUP;
    const bool dict = value->kind == BO_JINJA_DICT;
    const char *const *methods = text                        ? of_text
                                 : dict                      ? of_dict
                                 : bo_jinja_is_list(value)   ? of_list
                                 : bo_jinja_is_number(value) ? of_number
                                                             : none;
    *known = is_listed(methods, name, length) || (length > 3 && memcmp(name, "__", 2) == 0);
    return text ? bo_jinja_find(text_methods, name, length) : dict ? bo_jinja_find(dict_methods, name, length) : NULL;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static bo_status raise_exception(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    bo_jinja_value message;
    (void)out;
    BO_TRY(bo_jinja_string(run, &v[1], &message));
    return bo_jinja_fail(run, BO_INVALID, "%.*s", (int)(message.length < 900 ? message.length : 900), message.text);
}

static bo_status range(bo_jinja_run *run, const bo_jinja_value *v, bo_jinja_value *out)
{
    int64_t from = 0, to, step;
    BO_TRY(read_whole(run, "range()", &v[1], 0, &to));
    if (v[2].kind != BO_JINJA_ABSENT) {
        from = to;
        BO_TRY(read_whole(run, "range()", &v[2], 0, &to));
    }
    BO_TRY(read_whole(run, "range()", &v[3], 1, &step));
    if (step == 0) return bo_jinja_fail(run, BO_INVALID, "range(): the step is 0");
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_SPAN, 0, out));
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (out->list->count == BO_JINJA_RANGE)
            return bo_jinja_fail(run, BO_INVALID, "range(): more than %d numbers", BO_JINJA_RANGE);
        BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_of_whole(i)));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return BO_OK;
}

static const bo_jinja_filter functions[] = {
    {"raise_exception", raise_exception, 1, {"message"}},
    {"range", range, 1, {"start", "stop", "step"}},
    {"strftime_now", bo_jinja_strftime, 1, {"format"}},
    {NULL, NULL, 0, {NULL}},
};

const bo_jinja_filter *bo_jinja_find_function(const char *name, size_t length)
{
    return bo_jinja_find(functions, name, length);
}
