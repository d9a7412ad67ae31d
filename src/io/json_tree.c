/* JSON values as a tree. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "json_tree.h"
#include "numbers.h"

/* ---- building ---------------------------------------------------------------------------------------------------- */

bo_json *bo_json_new(bo_json_kind kind)
{
    bo_json *value = calloc(1, sizeof *value);
    if (value) value->kind = kind;
    return value;
}

static char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

bo_json *bo_json_new_text(const char *text)
{
    bo_json *value = text ? bo_json_new(BO_JSON_TEXT) : NULL;
    if (value && !(value->text = copy_text(text))) {
        free(value);
        return NULL;
    }
    return value;
}

bo_json *bo_json_new_number(double number)
{
    bo_json *value = bo_json_new(BO_JSON_NUMBER);
    if (value) value->number = number;
    return value;
}

void bo_json_delete(bo_json *value)
{
    while (value) { /* its siblings belong to its parent, which deletes all of them */
        bo_json *next = value->next;
        bo_json_delete(value->child);
        free(value->key);
        free(value->text);
        free(value);
        value = next;
    }
}

static void append(bo_json *parent, bo_json *value)
{
    value->next = NULL;
    if (parent->last)
        parent->last->next = value;
    else
        parent->child = value;
    parent->last = value;
}

bool bo_json_append(bo_json *array, bo_json *value)
{
    if (!array || !value) return false;
    append(array, value);
    return true;
}

bool bo_json_put(bo_json *object, const char *name, bo_json *value)
{
    char *key = object && value && name ? copy_text(name) : NULL;
    if (!key) return false;
    free(value->key);
    value->key = key;
    append(object, value);
    return true;
}

bo_json *bo_json_put_new(bo_json *object, const char *name, bo_json *value)
{
    if (bo_json_put(object, name, value)) return value;
    bo_json_delete(value);
    return NULL;
}

bo_json *bo_json_detach(bo_json *parent, bo_json *value)
{
    bo_json *before = NULL, *at = bo_json_first(parent);
    if (!value) return NULL;
    for (; at && at != value; at = at->next) before = at;
    if (!at) return NULL;
    if (before)
        before->next = at->next;
    else
        parent->child = at->next;
    if (parent->last == at) parent->last = before;
    at->next = NULL;
    return at;
}

bo_json *bo_json_copy(const bo_json *value)
{
    bo_json *copy = value ? bo_json_new(value->kind) : NULL;
    if (!copy) return NULL;
    copy->number = value->number;
    bool whole =
        (!value->key || (copy->key = copy_text(value->key))) && (!value->text || (copy->text = copy_text(value->text)));
    for (const bo_json *child = value->child; child && whole; child = child->next)
        whole = bo_json_append(copy, bo_json_copy(child));
    if (whole) return copy;
    bo_json_delete(copy);
    return NULL;
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

bo_json *bo_json_member(const bo_json *object, const char *name)
{
    if (!bo_json_is(object, BO_JSON_OBJECT) || !name) return NULL;
    for (bo_json *value = object->child; value; value = value->next)
        if (strcmp(value->key, name) == 0) return value;
    return NULL;
}

int bo_json_count(const bo_json *parent)
{
    int count = 0;
    for (const bo_json *value = bo_json_first(parent); value && count < INT_MAX; value = value->next) count++;
    return count;
}

bo_json *bo_json_at(const bo_json *parent, int index)
{
    bo_json *value = index < 0 ? NULL : bo_json_first(parent);
    while (value && index-- > 0) value = value->next;
    return value;
}

static bool equal_numbers(double a, double b)
{
    return fabs(a - b) <= fmax(fabs(a), fabs(b)) * DBL_EPSILON;
}

static bool has_members_of(const bo_json *object, const bo_json *other)
{
    for (const bo_json *member = other->child; member; member = member->next)
        if (!bo_json_equal(bo_json_member(object, member->key), member)) return false;
    return true;
}

bool bo_json_equal(const bo_json *a, const bo_json *b)
{
    if (!a || !b || a->kind != b->kind) return false;
    if (a == b) return true;
    switch (a->kind) {
    case BO_JSON_NUMBER:
        return equal_numbers(a->number, b->number);
    case BO_JSON_TEXT:
        return strcmp(a->text, b->text) == 0;
    case BO_JSON_OBJECT:
        return has_members_of(a, b) && has_members_of(b, a);
    case BO_JSON_ARRAY:
        break;
    default:
        return true;
    }
    const bo_json *x = a->child, *y = b->child;
    for (; x && y; x = x->next, y = y->next)
        if (!bo_json_equal(x, y)) return false;
    return !x && !y;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* `at`: the next byte, or after a failure the invalid byte. */
typedef struct reader {
    const char *at, *end;
    int depth;
} reader;

static void skip_spaces(reader *r)
{
    while (r->at < r->end && (unsigned char)*r->at <= ' ') r->at++;
}

static bool accept(reader *r, char c)
{
    skip_spaces(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool accept_literal(reader *r, const char *literal)
{
    const size_t length = strlen(literal);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, literal, length) != 0) return false;
    r->at += length;
    return true;
}

/* Reads the four hexadecimal digits of a code unit; -1: other characters. */
static long code_unit(const reader *r, const char *at)
{
    long unit = 0;
    if (r->end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        unit = 16 * unit + digit;
    }
    return unit;
}

static char *put_utf8(char *to, long code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* After "\u": one code point, of one code unit or of two (a surrogate pair). NULL: malformed. */
static char *take_code_point(reader *r, char *to)
{
    long code = code_unit(r, r->at);
    if (code < 0 || (code >= 0xdc00 && code <= 0xdfff)) return NULL;
    if (code >= 0xd800 && code <= 0xdbff) {
        const bool pair = r->end - r->at >= 10 && r->at[4] == '\\' && r->at[5] == 'u';
        const long low = pair ? code_unit(r, r->at + 6) : -1;
        if (low < 0xdc00 || low > 0xdfff) return NULL;
        code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
        r->at += 6;
    }
    r->at += 4;
    return put_utf8(to, code);
}

static char *take_escaped(reader *r, char *to)
{
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return NULL;
    if (*r->at == 'u') {
        r->at++;
        return take_code_point(r, to);
    }
    const char *found = *r->at ? strchr(from, *r->at) : NULL;
    if (!found) return NULL;
    r->at++;
    *to++ = meant[found - from];
    return to;
}

/* The length of a string up to its closing quote; SIZE_MAX: there is none. Escapes only make it shorter. */
static size_t quoted_length(const reader *r)
{
    const char *at = r->at;
    while (at < r->end && *at != '"') at += *at == '\\' && r->end - at > 1 ? 2 : 1;
    return at < r->end ? (size_t)(at - r->at) : SIZE_MAX;
}

/* After the opening quote. NULL: malformed, or out of memory. */
static char *read_text(reader *r)
{
    const size_t length = quoted_length(r);
    char *text = length < SIZE_MAX ? malloc(length + 1) : NULL, *to = text;
    while (to && *r->at != '"') {
        if (*r->at != '\\') {
            *to++ = *r->at++;
            continue;
        }
        r->at++;
        to = take_escaped(r, to);
    }
    if (!to) {
        free(text);
        return NULL;
    }
    *to = 0;
    r->at++;
    return text;
}

static bool read_value(reader *r, bo_json *value);

/* Reads a value, with the key of a member. False: malformed, or out of memory; the parent then owns what was read. */
static bool read_child(reader *r, bo_json *parent, bool member)
{
    bo_json *child = bo_json_new(BO_JSON_NULL);
    if (!bo_json_append(parent, child)) return false;
    if (member && (!accept(r, '"') || !(child->key = read_text(r)) || !accept(r, ':'))) return false;
    return read_value(r, child);
}

static bool read_children(reader *r, bo_json *value, char close)
{
    bool good = r->depth++ < BO_JSON_NESTING;
    if (good && !accept(r, close)) {
        do good = read_child(r, value, close == '}');
        while (good && accept(r, ','));
        good = good && accept(r, close);
    }
    r->depth--;
    return good;
}

static bool read_number(reader *r, bo_json *value)
{
    value->kind = BO_JSON_NUMBER;
    return bo_number_read(r->at, r->end, &r->at, &value->number);
}

static bool read_value(reader *r, bo_json *value)
{
    skip_spaces(r);
    if (r->at == r->end) return false;
    switch (*r->at) {
    case '"':
        r->at++;
        value->kind = BO_JSON_TEXT;
        return (value->text = read_text(r)) != NULL;
    case '[':
        r->at++;
        value->kind = BO_JSON_ARRAY;
        return read_children(r, value, ']');
    case '{':
        r->at++;
        value->kind = BO_JSON_OBJECT;
        return read_children(r, value, '}');
    case 't':
        value->kind = BO_JSON_TRUE;
        return accept_literal(r, "true");
    case 'f':
        value->kind = BO_JSON_FALSE;
        return accept_literal(r, "false");
    case 'n':
        return accept_literal(r, "null");
    default:
        return (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) && read_number(r, value);
    }
}

bo_json *bo_json_read(const char *text, size_t length, const char **stop)
{
    static const char mark[] = "\xef\xbb\xbf"; /* a byte order mark */
    reader r = {text, text + length, 0};
    bo_json *value = text ? bo_json_new(BO_JSON_NULL) : NULL;
    if (value) accept_literal(&r, mark);
    const bool good = value && read_value(&r, value);
    if (stop) *stop = r.at;
    if (good) return value;
    bo_json_delete(value);
    return NULL;
}

bo_json *bo_json_read_all(const char *text)
{
    const char *stop;
    bo_json *value = text ? bo_json_read(text, strlen(text), &stop) : NULL;
    while (value && *stop && (unsigned char)*stop <= ' ') stop++;
    if (!value || !*stop) return value;
    bo_json_delete(value);
    return NULL;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Growing text; after a failed allocation `bytes` is NULL and stays so. */
typedef struct printer {
    char *bytes;
    size_t length, capacity;
    bool indented;
} printer;

static void print_bytes(printer *p, const char *bytes, size_t size)
{
    if (!p->bytes) return;
    if (p->capacity - p->length < size) {
        const size_t capacity = 2 * p->capacity + size;
        char *larger = realloc(p->bytes, capacity);
        if (!larger) free(p->bytes);
        p->bytes = larger;
        p->capacity = capacity;
        if (!larger) return;
    }
    memcpy(p->bytes + p->length, bytes, size);
    p->length += size;
}

static void print(printer *p, const char *text)
{
    print_bytes(p, text, strlen(text));
}

static void print_line(printer *p, size_t depth)
{
    print(p, "\n");
    while (depth-- > 0) print(p, "\t");
}

static void print_text(printer *p, const char *text)
{
    static const char meant[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    print(p, "\"");
    for (; *text; text++) {
        const char *found = strchr(meant, *text);
        char escaped[8];
        if (found)
            snprintf(escaped, sizeof escaped, "\\%c", names[found - meant]);
        else if ((unsigned char)*text < ' ')
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*text);
        else
            snprintf(escaped, sizeof escaped, "%c", *text);
        print(p, escaped);
    }
    print(p, "\"");
}

/* 15 digits if they are enough, otherwise 17. The decimal separator is a point in every locale. */
static void print_number(printer *p, double number)
{
    char text[40];
    double again;
    const char *stop;
    if (!isfinite(number)) {
        print(p, "null");
        return;
    }
    int length = snprintf(text, sizeof text, "%1.15g", number);
    for (int i = 0; i < length; i++)
        if (text[i] == ',') text[i] = '.';
    if (!bo_number_read(text, text + length, &stop, &again) || !equal_numbers(again, number)) {
        length = snprintf(text, sizeof text, "%1.17g", number);
        for (int i = 0; i < length; i++)
            if (text[i] == ',') text[i] = '.';
    }
    print(p, text);
}

static void print_value(printer *p, const bo_json *value, size_t depth);

static void print_members(printer *p, const bo_json *value, size_t depth)
{
    print(p, "{");
    for (const bo_json *member = value->child; member; member = member->next) {
        if (p->indented) print_line(p, depth + 1);
        print_text(p, member->key);
        print(p, p->indented ? ":\t" : ":");
        print_value(p, member, depth + 1);
        if (member->next) print(p, ",");
    }
    if (p->indented) print_line(p, depth);
    print(p, "}");
}

static void print_value(printer *p, const bo_json *value, size_t depth)
{
    static const char *const literals[] = {"null", "false", "true"};
    switch (value->kind) {
    case BO_JSON_NUMBER:
        print_number(p, value->number);
        break;
    case BO_JSON_TEXT:
        print_text(p, value->text);
        break;
    case BO_JSON_OBJECT:
        print_members(p, value, depth);
        break;
    case BO_JSON_ARRAY:
        print(p, "[");
        for (const bo_json *item = value->child; item; item = item->next) {
            print_value(p, item, depth + 1);
            if (item->next) print(p, p->indented ? ", " : ",");
        }
        print(p, "]");
        break;
    default:
        print(p, literals[value->kind]);
    }
}

static char *print_all(const bo_json *value, bool indented)
{
    printer p = {.bytes = value ? malloc(256) : NULL, .capacity = 256, .indented = indented};
    if (value) print_value(&p, value, 0);
    print_bytes(&p, "", 1);
    return p.bytes;
}

char *bo_json_print(const bo_json *value)
{
    return print_all(value, false);
}

char *bo_json_print_indented(const bo_json *value)
{
    return print_all(value, true);
}
