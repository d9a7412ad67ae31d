/* Memory and values of a rendering: lists, dictionaries, comparisons, items and slices, with the meaning of Python. */
#include "jinja_run.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct bo_jinja_block {
    bo_jinja_block *next;
    size_t used, capacity;
    max_align_t bytes[];
};

static bo_jinja_block *new_block(bo_jinja_arena *arena, size_t bytes)
{
    enum { MIN_BLOCK = 4000, MAX_BLOCK = 1 << 20 };
    size_t capacity = arena->used < MIN_BLOCK ? MIN_BLOCK : arena->used < MAX_BLOCK ? arena->used : MAX_BLOCK;
    if (capacity < bytes) capacity = bytes;
    if (capacity > arena->limit || arena->used > arena->limit - capacity) {
        bo_fail(arena->context, BO_MEMORY, "chat template: the values take more than %zu MiB of memory",
                arena->limit >> 20);
        return NULL;
    }
    bo_jinja_block *block = bo_alloc_raw(arena->context, 1, sizeof *block + capacity, "a chat template");
    if (!block) return NULL;
    *block = (bo_jinja_block){.next = arena->blocks, .capacity = capacity};
    arena->blocks = block;
    arena->used += capacity;
    return block;
}

void *bo_jinja_alloc(bo_jinja_arena *arena, size_t count, size_t size)
{
    enum { ALIGN = sizeof(max_align_t) };
    bo_jinja_block *block = arena->blocks;
    if (size && count > (SIZE_MAX / 4) / size) count = SIZE_MAX / 4 / size; /* more than any limit */
    const size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
    if (!block || block->capacity - block->used < bytes) block = new_block(arena, bytes);
    if (!block) return NULL;
    void *block_bytes = (char *)block->bytes + block->used;
    block->used += bytes;
    return block_bytes;
}

void bo_jinja_release(bo_jinja_arena *arena)
{
    while (arena->blocks) {
        bo_jinja_block *next = arena->blocks->next;
        bo_free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

/* Grows the marks to `capacity` and keeps the existing marks. */
static bo_status extend_marks(bo_jinja_run *run, bo_jinja_builder *builder, size_t capacity)
{
    unsigned char *larger = bo_jinja_alloc(&run->arena, capacity, 1);
    if (!larger) return BO_MEMORY;
    if (builder->marks && builder->length)
        memcpy(larger, builder->marks, builder->length);
    else
        memset(larger, 0, builder->length);
    builder->marks = larger;
    return BO_OK;
}

bo_status bo_jinja_build_text(bo_jinja_run *run, bo_jinja_builder *builder, const bo_jinja_value *text)
{
    const size_t length = text->length;
    if (builder->capacity - builder->length < length) {
        const size_t capacity = 2 * builder->capacity + length + 32;
        char *larger = bo_jinja_alloc(&run->arena, capacity, 1);
        if (!larger) return BO_MEMORY;
        if (builder->length) memcpy(larger, builder->bytes, builder->length);
        if (builder->marks) BO_TRY(extend_marks(run, builder, capacity));
        builder->bytes = larger;
        builder->capacity = capacity;
    }
    if (text->marks && length && !builder->marks) BO_TRY(extend_marks(run, builder, builder->capacity));
    if (length) memcpy(builder->bytes + builder->length, text->text, length);
    if (length && text->marks)
        memcpy(builder->marks + builder->length, text->marks, length);
    else if (builder->marks)
        memset(builder->marks + builder->length, 0, length);
    builder->length += length;
    return bo_jinja_charge(run, length);
}

bo_status bo_jinja_build(bo_jinja_run *run, bo_jinja_builder *builder, const char *bytes, size_t length)
{
    const bo_jinja_value text = bo_jinja_of_text(bytes, length);
    return bo_jinja_build_text(run, builder, &text);
}

bo_jinja_value bo_jinja_built(const bo_jinja_builder *builder)
{
    bo_jinja_value text = bo_jinja_of_text(builder->bytes ? builder->bytes : "", builder->length);
    text.marks = builder->marks;
    return text;
}

/* ---- errors and limits ------------------------------------------------------------------------------------------- */

bo_status bo_jinja_fail(bo_jinja_run *run, bo_status status, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return bo_fail(run->context, status, "%s: line %zu: %s", run->where, run->line, message);
}

bo_status bo_jinja_charge(bo_jinja_run *run, size_t bytes)
{
    run->work += 1 + bytes / 16;
    if (run->work >= run->next_report) {
        run->next_report = run->work + BO_JINJA_REPORT;
        BO_TRY(bo_progress(run->context, "rendering a chat template", (double)run->work, (double)run->max_work));
    }
    if (run->work <= run->max_work) return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "rendering takes more than %llu steps", (unsigned long long)run->max_work);
}

const char *bo_jinja_kind_name(const bo_jinja_value *value)
{
    static const char *const names[] = {[BO_JINJA_ABSENT] = "nothing",
                                        [BO_JINJA_UNDEFINED] = "undefined",
                                        [BO_JINJA_NONE] = "none",
                                        [BO_JINJA_BOOLEAN] = "a boolean",
                                        [BO_JINJA_WHOLE] = "an integer",
                                        [BO_JINJA_FRACTION] = "a float",
                                        [BO_JINJA_TEXT] = "a string",
                                        [BO_JINJA_MARKUP] = "markup",
                                        [BO_JINJA_LIST] = "a list",
                                        [BO_JINJA_TUPLE] = "a tuple",
                                        [BO_JINJA_SPAN] = "a range",
                                        [BO_JINJA_VIEW] = "a view of a dictionary",
                                        [BO_JINJA_LAZY] = "a generator",
                                        [BO_JINJA_DICT] = "a dictionary",
                                        [BO_JINJA_NAMESPACE] = "a namespace",
                                        [BO_JINJA_MACRO] = "a macro",
                                        [BO_JINJA_FUNCTION] = "a function",
                                        [BO_JINJA_LOOP] = "the variable loop"};
    return names[value->kind];
}

bo_status bo_jinja_undefined(bo_jinja_run *run, const bo_jinja_value *value)
{
    return bo_jinja_fail(run, BO_INVALID, "'%.*s' is undefined", (int)(value->length < 200 ? value->length : 200),
                         value->length ? value->text : "");
}

bo_status bo_jinja_wrong_type(bo_jinja_run *run, const char *function, const char *expected,
                              const bo_jinja_value *found)
{
    if (found->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, found);
    return bo_jinja_fail(run, BO_INVALID, "%s: expected %s, found %s", function, expected, bo_jinja_kind_name(found));
}

/* ---- lists and dictionaries -------------------------------------------------------------------------------------- */

bo_status bo_jinja_list_new(bo_jinja_run *run, bo_jinja_kind kind, size_t capacity, bo_jinja_value *out)
{
    bo_jinja_list *list = bo_jinja_alloc(&run->arena, 1, sizeof *list);
    bo_jinja_value *items = bo_jinja_alloc(&run->arena, capacity, sizeof *items);
    if (!list || !items) return BO_MEMORY;
    *list = (bo_jinja_list){.items = items, .capacity = capacity};
    *out = (bo_jinja_value){.kind = kind, .list = list};
    return BO_OK;
}

bo_status bo_jinja_list_add(bo_jinja_run *run, bo_jinja_list *list, bo_jinja_value item)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 4;
        bo_jinja_value *larger = bo_jinja_alloc(&run->arena, capacity, sizeof *larger);
        if (!larger) return BO_MEMORY;
        if (list->count) memcpy(larger, list->items, list->count * sizeof *larger);
        list->items = larger;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return bo_jinja_charge(run, sizeof item);
}

bo_status bo_jinja_dict_new(bo_jinja_run *run, bo_jinja_kind kind, bo_jinja_value *out)
{
    bo_jinja_dict *dict = bo_jinja_alloc(&run->arena, 1, sizeof *dict);
    if (!dict) return BO_MEMORY;
    *dict = (bo_jinja_dict){0};
    *out = (bo_jinja_value){.kind = kind, .dict = dict};
    return BO_OK;
}

static bo_status hashable(bo_jinja_run *run, const bo_jinja_value *key)
{
    if (key->kind == BO_JINJA_UNDEFINED || (key->kind >= BO_JINJA_NONE && key->kind <= BO_JINJA_TEXT) ||
        key->kind == BO_JINJA_TUPLE)
        return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "%s cannot be the key of a dictionary", bo_jinja_kind_name(key));
}

bo_status bo_jinja_dict_get(bo_jinja_run *run, const bo_jinja_dict *dict, const bo_jinja_value *key,
                            bo_jinja_value **found)
{
    *found = NULL;
    for (size_t i = 0; i < dict->count && !*found; i++) {
        bool same;
        BO_TRY(bo_jinja_equal(run, &dict->keys[i], key, &same));
        if (same) *found = &dict->values[i];
    }
    return BO_OK;
}

bo_status bo_jinja_dict_set(bo_jinja_run *run, bo_jinja_dict *dict, bo_jinja_value key, bo_jinja_value value)
{
    bo_jinja_value *found;
    BO_TRY(hashable(run, &key));
    BO_TRY(bo_jinja_dict_get(run, dict, &key, &found));
    if (found) {
        *found = value;
        return BO_OK;
    }
    if (dict->count == dict->capacity) {
        const size_t capacity = 2 * dict->capacity + 4;
        bo_jinja_value *keys = bo_jinja_alloc(&run->arena, capacity, sizeof *keys);
        bo_jinja_value *values = bo_jinja_alloc(&run->arena, capacity, sizeof *values);
        if (!keys || !values) return BO_MEMORY;
        if (dict->count) memcpy(keys, dict->keys, dict->count * sizeof *keys);
        if (dict->count) memcpy(values, dict->values, dict->count * sizeof *values);
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->count] = key;
    dict->values[dict->count++] = value;
    return BO_OK;
}

static bo_status list_from_json(bo_jinja_run *run, const bo_json *json, bool marked, bo_jinja_value *out)
{
    const bo_json *item;
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, out));
    BO_JSON_EACH(item, json)
    {
        bo_jinja_value value;
        BO_TRY(bo_jinja_from_json(run, item, marked, &value));
        BO_TRY(bo_jinja_list_add(run, out->list, value));
    }
    return BO_OK;
}

static bo_status text_from_json(bo_jinja_run *run, const char *text, bool marked, bo_jinja_value *out)
{
    *out = bo_jinja_of_text(text, strlen(text));
    if (!marked) return BO_OK;
    if (run->ones_count < out->length) {
        const size_t count = 2 * out->length + 64;
        unsigned char *ones = bo_jinja_alloc(&run->arena, count, 1);
        if (!ones) return BO_MEMORY;
        memset(ones, 1, count);
        run->ones = ones;
        run->ones_count = count;
    }
    out->marks = run->ones;
    return BO_OK;
}

/* Templates write roles inside of special tokens, such as <|user|>: names are not marked. */
static bool is_role(const bo_json *item)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return bo_json_is(item, BO_JSON_TEXT) && strcmp(item->key, "role") == 0 && !item->text[strspn(item->text, allowed)];
}

static bo_status dict_from_json(bo_jinja_run *run, const bo_json *json, bool marked, bo_jinja_value *out)
{
    const bo_json *item;
    BO_TRY(bo_jinja_dict_new(run, BO_JINJA_DICT, out));
    BO_JSON_EACH(item, json)
    {
        bo_jinja_value key, value;
        BO_TRY(text_from_json(run, item->key, marked, &key));
        BO_TRY(bo_jinja_from_json(run, item, marked, &value));
        if (is_role(item)) value.marks = NULL;
        BO_TRY(bo_jinja_dict_set(run, out->dict, key, value));
    }
    return BO_OK;
}

/* Texts stay in the JSON, which outlives the rendering. The parser of JSON limits the depth. */
bo_status bo_jinja_from_json(bo_jinja_run *run, const bo_json *json, bool marked, bo_jinja_value *out)
{
    const double number = json->number;
    if (bo_json_is(json, BO_JSON_ARRAY)) return list_from_json(run, json, marked, out);
    if (bo_json_is(json, BO_JSON_OBJECT)) return dict_from_json(run, json, marked, out);
    if (bo_json_is(json, BO_JSON_TEXT)) return text_from_json(run, json->text, marked, out);
    if (bo_json_is_bool(json))
        *out = bo_jinja_of_boolean(bo_json_is(json, BO_JSON_TRUE));
    else if (!bo_json_is(json, BO_JSON_NUMBER))
        *out = bo_jinja_of_kind(BO_JINJA_NONE);
    else if (floor(number) == number && fabs(number) <= 0x1p53)
        *out = bo_jinja_of_whole((int64_t)number);
    else
        *out = (bo_jinja_value){.kind = BO_JINJA_FRACTION, .fraction = number};
    return BO_OK;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

bool bo_jinja_true(const bo_jinja_value *value)
{
    switch (value->kind) {
    case BO_JINJA_ABSENT:
    case BO_JINJA_UNDEFINED:
    case BO_JINJA_NONE:
        return false;
    case BO_JINJA_BOOLEAN:
        return value->boolean;
    case BO_JINJA_WHOLE:
        return value->whole != 0;
    case BO_JINJA_FRACTION:
        return value->fraction != 0;
    case BO_JINJA_TEXT:
    case BO_JINJA_MARKUP:
        return value->length > 0;
    case BO_JINJA_LIST:
    case BO_JINJA_TUPLE:
    case BO_JINJA_SPAN:
    case BO_JINJA_VIEW:
        return value->list->count > 0;
    case BO_JINJA_DICT:
        return value->dict->count > 0;
    case BO_JINJA_LAZY:
    case BO_JINJA_NAMESPACE:
    case BO_JINJA_MACRO:
    case BO_JINJA_FUNCTION:
    case BO_JINJA_LOOP:
        break;
    }
    return true;
}

static bo_status deeper(bo_jinja_run *run)
{
    if (++run->depth <= BO_JINJA_DEPTH) return BO_OK;
    return bo_jinja_fail(run, BO_INVALID, "values are nested more than %d deep", BO_JINJA_DEPTH);
}

static bool is_text(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_TEXT || value->kind == BO_JINJA_MARKUP;
}

static bo_status equal_lists(bo_jinja_run *run, const bo_jinja_list *a, const bo_jinja_list *b, bool *out)
{
    *out = a->count == b->count;
    BO_TRY(deeper(run));
    for (size_t i = 0; i < a->count && *out; i++) BO_TRY(bo_jinja_equal(run, &a->items[i], &b->items[i], out));
    run->depth--;
    return BO_OK;
}

static bo_status equal_dicts(bo_jinja_run *run, const bo_jinja_dict *a, const bo_jinja_dict *b, bool *out)
{
    *out = a->count == b->count;
    BO_TRY(deeper(run));
    for (size_t i = 0; i < a->count && *out; i++) {
        bo_jinja_value *other;
        BO_TRY(bo_jinja_dict_get(run, b, &a->keys[i], &other));
        *out = other != NULL;
        if (other) BO_TRY(bo_jinja_equal(run, &a->values[i], other, out));
    }
    run->depth--;
    return BO_OK;
}

/* Whole numbers are compared as integers: a double does not hold all of them. */
static int order_numbers(const bo_jinja_value *a, const bo_jinja_value *b)
{
    if (bo_jinja_is_whole(a) && bo_jinja_is_whole(b)) {
        const int64_t left = bo_jinja_whole(a), right = bo_jinja_whole(b);
        return (left > right) - (left < right);
    }
    const double left = bo_jinja_fraction(a), right = bo_jinja_fraction(b);
    return (left > right) - (left < right);
}

bo_status bo_jinja_equal(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, bool *out)
{
    *out = false;
    if (is_text(a) && is_text(b)) {
        *out = a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
        return bo_jinja_charge(run, a->length == b->length ? a->length : 0);
    }
    BO_TRY(bo_jinja_charge(run, 0));
    if (bo_jinja_is_number(a) && bo_jinja_is_number(b)) {
        const bool nan = isnan(bo_jinja_fraction(a)) || isnan(bo_jinja_fraction(b));
        *out = !nan && order_numbers(a, b) == 0;
        return BO_OK;
    }
    if (a->kind != b->kind) return BO_OK;
    if (a->kind == BO_JINJA_DICT) return equal_dicts(run, a->dict, b->dict, out);
    if (bo_jinja_is_list(a) && a->kind != BO_JINJA_LAZY && a->kind != BO_JINJA_VIEW)
        return equal_lists(run, a->list, b->list, out);
    *out = a->kind == BO_JINJA_NONE || a->kind == BO_JINJA_UNDEFINED || a->list == b->list;
    return BO_OK;
}

static bo_status order_lists(bo_jinja_run *run, const bo_jinja_list *a, const bo_jinja_list *b, int *out)
{
    const size_t both = a->count < b->count ? a->count : b->count;
    *out = (a->count > b->count) - (a->count < b->count);
    BO_TRY(deeper(run));
    for (size_t i = 0; i < both; i++) {
        bool same;
        BO_TRY(bo_jinja_equal(run, &a->items[i], &b->items[i], &same));
        if (same) continue;
        BO_TRY(bo_jinja_order(run, &a->items[i], &b->items[i], out));
        break;
    }
    run->depth--;
    return BO_OK;
}

bo_status bo_jinja_order(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, int *out)
{
    if (bo_jinja_is_number(a) && bo_jinja_is_number(b)) {
        *out = order_numbers(a, b);
        return BO_OK;
    }
    if (is_text(a) && is_text(b)) { /* UTF-8 has the order of the characters */
        const size_t both = a->length < b->length ? a->length : b->length;
        const int start = memcmp(a->text, b->text, both);
        *out = start ? start : (a->length > b->length) - (a->length < b->length);
        return bo_jinja_charge(run, both);
    }
    if (a->kind == b->kind && (a->kind == BO_JINJA_LIST || a->kind == BO_JINJA_TUPLE))
        return order_lists(run, a->list, b->list, out);
    if (a->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, a);
    if (b->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, b);
    return bo_jinja_fail(run, BO_INVALID, "%s and %s have no order", bo_jinja_kind_name(a), bo_jinja_kind_name(b));
}

bo_status bo_jinja_contains(bo_jinja_run *run, const bo_jinja_value *item, const bo_jinja_value *in, bool *out)
{
    *out = false;
    if (is_text(in)) {
        if (!is_text(item)) return bo_jinja_wrong_type(run, "'in' of a string", "a string", item);
        *out = item->length == 0 || (in->length > 0 && memmem(in->text, in->length, item->text, item->length));
        return bo_jinja_charge(run, in->length);
    }
    if (in->kind == BO_JINJA_DICT) {
        bo_jinja_value *found;
        BO_TRY(hashable(run, item));
        BO_TRY(bo_jinja_dict_get(run, in->dict, item, &found));
        *out = found != NULL;
        return BO_OK;
    }
    bo_jinja_list *list;
    BO_TRY(bo_jinja_iterate(run, in, &list));
    for (size_t i = 0; i < list->count && !*out; i++) BO_TRY(bo_jinja_equal(run, &list->items[i], item, out));
    return BO_OK;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static bo_status list_characters(bo_jinja_run *run, const bo_jinja_value *text, bo_jinja_value *out)
{
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, out));
    for (size_t at = 0, bytes; at < text->length; at += bytes) {
        bo_jinja_code_point(text->text + at, text->length - at, &bytes);
        BO_TRY(bo_jinja_list_add(run, out->list, bo_jinja_part(text, at, bytes)));
    }
    return BO_OK;
}

/* A generator yields the items that it has not yet yielded. */
static bo_status iterate_lazy(bo_jinja_run *run, bo_jinja_list *lazy, bo_jinja_list **out)
{
    bo_jinja_value rest;
    BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, 0, &rest));
    rest.list->items = lazy->items + lazy->iterated;
    rest.list->count = rest.list->capacity = lazy->count - lazy->iterated;
    lazy->iterated = lazy->count;
    *out = rest.list;
    return BO_OK;
}

bo_status bo_jinja_iterate(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_list **out)
{
    bo_jinja_value made;
    if (value->kind == BO_JINJA_LAZY) return iterate_lazy(run, value->list, out);
    if (bo_jinja_is_list(value)) {
        *out = value->list;
        return BO_OK;
    }
    if (is_text(value)) {
        BO_TRY(list_characters(run, value, &made));
    } else if (value->kind == BO_JINJA_DICT || value->kind == BO_JINJA_UNDEFINED) {
        const size_t count = value->kind == BO_JINJA_DICT ? value->dict->count : 0;
        BO_TRY(bo_jinja_list_new(run, BO_JINJA_LIST, count, &made));
        for (size_t i = 0; i < count; i++) BO_TRY(bo_jinja_list_add(run, made.list, value->dict->keys[i]));
    } else {
        return bo_jinja_fail(run, BO_INVALID, "%s cannot be iterated", bo_jinja_kind_name(value));
    }
    *out = made.list;
    return BO_OK;
}

bo_status bo_jinja_length(bo_jinja_run *run, const bo_jinja_value *value, size_t *out)
{
    *out = 0;
    if (is_text(value))
        *out = bo_jinja_characters(value->text, value->length);
    else if (bo_jinja_is_list(value) && value->kind != BO_JINJA_LAZY)
        *out = value->list->count;
    else if (value->kind == BO_JINJA_DICT)
        *out = value->dict->count;
    else if (value->kind == BO_JINJA_LOOP)
        *out = value->loop->items->count;
    else if (value->kind != BO_JINJA_UNDEFINED)
        return bo_jinja_fail(run, BO_INVALID, "%s has no length", bo_jinja_kind_name(value));
    return bo_jinja_charge(run, is_text(value) ? value->length : 0);
}

/* The position of an index that may be negative; false: outside. */
static bool position(int64_t index, size_t count, size_t *out)
{
    if (index < 0) index += (int64_t)count;
    *out = (size_t)index;
    return index >= 0 && (size_t)index < count;
}

static bo_jinja_value undefined_item(const bo_jinja_value *key)
{
    bo_jinja_value undefined = bo_jinja_of_kind(BO_JINJA_UNDEFINED);
    if (key->kind == BO_JINJA_TEXT) {
        undefined.text = key->text;
        undefined.length = key->length;
    } else {
        undefined.text = "item";
        undefined.length = 4;
    }
    return undefined;
}

/* An item that does not exist is undefined. */
bo_status bo_jinja_item(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value *key, bo_jinja_value *out)
{
    *out = undefined_item(key);
    if (value->kind == BO_JINJA_UNDEFINED) return bo_jinja_undefined(run, value);
    if (value->kind == BO_JINJA_DICT || value->kind == BO_JINJA_NAMESPACE) {
        bo_jinja_value *found;
        BO_TRY(bo_jinja_dict_get(run, value->dict, key, &found));
        if (found) *out = *found;
        return BO_OK;
    }
    if (!bo_jinja_is_whole(key)) return BO_OK;
    size_t at;
    if (bo_jinja_is_list(value) && value->kind <= BO_JINJA_SPAN) {
        if (position(bo_jinja_whole(key), value->list->count, &at)) *out = value->list->items[at];
    } else if (is_text(value)) {
        BO_TRY(bo_jinja_charge(run, value->length));
        if (!position(bo_jinja_whole(key), bo_jinja_characters(value->text, value->length), &at)) return BO_OK;
        const size_t from = bo_jinja_offset(value->text, value->length, at);
        size_t bytes;
        bo_jinja_code_point(value->text + from, value->length - from, &bytes);
        *out = bo_jinja_part(value, from, bytes);
    }
    return BO_OK;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static bo_status read_bound(bo_jinja_run *run, const bo_jinja_value *bound, int64_t default_value, int64_t *out)
{
    *out = default_value;
    if (bound->kind == BO_JINJA_ABSENT || bound->kind == BO_JINJA_NONE) return BO_OK;
    if (!bo_jinja_is_whole(bound)) return bo_jinja_wrong_type(run, "a slice", "an integer", bound);
    *out = bo_jinja_whole(bound);
    return BO_OK;
}

/* slice.indices of Python: *from and *step, and the number of items. */
static bo_status resolve_slice(bo_jinja_run *run, const bo_jinja_value bounds[3], int64_t length, int64_t *from,
                               int64_t *step, size_t *count)
{
    int64_t to;
    BO_TRY(read_bound(run, &bounds[2], 1, step));
    if (*step == 0) return bo_jinja_fail(run, BO_INVALID, "the step of a slice is 0");
    if (*step < -length - 1) *step = -length - 1; /* one item in either direction, and no overflow */
    if (*step > length + 1) *step = length + 1;
    const int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? length - 1 : length;
    BO_TRY(read_bound(run, &bounds[0], *step < 0 ? INT64_MAX : 0, from));
    BO_TRY(read_bound(run, &bounds[1], *step < 0 ? INT64_MIN : INT64_MAX, &to));
    if (*from < 0) *from = *from < -length ? low : *from + length;
    if (to < 0) to = to < -length ? low : to + length;
    if (*from > high) *from = high;
    if (to > high) to = high;
    const int64_t span = *step < 0 ? *from - to : to - *from, size = *step < 0 ? -*step : *step;
    *count = span > 0 ? (size_t)((span + size - 1) / size) : 0;
    return BO_OK;
}

bo_status bo_jinja_slice(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value bounds[3],
                         bo_jinja_value *out)
{
    int64_t from, step;
    size_t count = 0;
    const bool text = is_text(value);
    bo_jinja_list *list;
    if (!text && !(bo_jinja_is_list(value) && value->kind <= BO_JINJA_SPAN))
        return bo_jinja_wrong_type(run, "a slice", "a string or a list", value);
    BO_TRY(bo_jinja_iterate(run, value, &list));
    BO_TRY(resolve_slice(run, bounds, (int64_t)list->count, &from, &step, &count));
    bo_jinja_builder builder = {0};
    if (!text) BO_TRY(bo_jinja_list_new(run, value->kind, count, out));
    for (size_t i = 0; i < count; i++, from += step) {
        const bo_jinja_value *item = &list->items[from];
        BO_TRY(text ? bo_jinja_build_text(run, &builder, item) : bo_jinja_list_add(run, out->list, *item));
    }
    if (text) *out = bo_jinja_built(&builder);
    return BO_OK;
}
