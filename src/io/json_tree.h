/* JSON values as a tree: parsed from text, built, changed, compared and printed. Memory comes from malloc, so that no
 * context is needed. Functions that allocate return NULL or false if malloc fails. All functions accept NULL values. */
#ifndef BO_IO_JSON_TREE_H
#define BO_IO_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum bo_json_kind {
    BO_JSON_NULL,
    BO_JSON_FALSE,
    BO_JSON_TRUE,
    BO_JSON_NUMBER,
    BO_JSON_TEXT,
    BO_JSON_ARRAY,
    BO_JSON_OBJECT
} bo_json_kind;

/* Invariants: the values of an array or object are child, child->next, …, last; `last` is NULL if there are none. */
typedef struct bo_json bo_json;
struct bo_json {
    bo_json *next, *child, *last;
    bo_json_kind kind;
    char *key;     /* of a member of an object */
    char *text;    /* TEXT */
    double number; /* NUMBER */
};

/* Iterates over the values of an array or object. */
#define BO_JSON_EACH(value, parent) for ((value) = bo_json_first(parent); (value); (value) = (value)->next)

/* ---- text -------------------------------------------------------------------------------------------------------- */

enum { BO_JSON_NESTING = 1000 }; /* deeper nesting is an error */

/* Parses the value at the start of the text, after whitespace. *stop: the byte after the value, or the position of the
 * error; `stop` may be NULL. If members are repeated, the first one is found. */
bo_json *bo_json_read(const char *text, size_t length, const char **stop);
/* Parses a text that is one value, with optional whitespace around it. */
bo_json *bo_json_read_all(const char *text);
/* Prints a value, on one line or indented by tabs. Freed with free. NaN and infinities become null. */
char *bo_json_print(const bo_json *value);
char *bo_json_print_indented(const bo_json *value);

/* ---- access ------------------------------------------------------------------------------------------------------ */

static inline bool bo_json_is(const bo_json *value, bo_json_kind kind)
{
    return value && value->kind == kind;
}
static inline bool bo_json_is_bool(const bo_json *value)
{
    return bo_json_is(value, BO_JSON_TRUE) || bo_json_is(value, BO_JSON_FALSE);
}
static inline bo_json *bo_json_first(const bo_json *parent)
{
    return parent ? parent->child : NULL;
}
/* The text of a TEXT, else NULL. */
static inline const char *bo_json_text_or_null(const bo_json *value)
{
    return bo_json_is(value, BO_JSON_TEXT) ? value->text : NULL;
}
/* The first member of this name; NULL: none. */
bo_json *bo_json_member(const bo_json *object, const char *name);
/* The number of values of an array or object, and the value of this index; NULL: none. */
int bo_json_count(const bo_json *parent);
bo_json *bo_json_at(const bo_json *parent, int index);
/* True if two values are equal; the order of members does not matter. Numbers may differ by a rounding error. */
bool bo_json_equal(const bo_json *a, const bo_json *b);

/* ---- building ---------------------------------------------------------------------------------------------------- */

bo_json *bo_json_new(bo_json_kind kind);
bo_json *bo_json_new_text(const char *text);
bo_json *bo_json_new_number(double number);
bo_json *bo_json_copy(const bo_json *value);
void bo_json_delete(bo_json *value);
/* Append to an array or object, which then owns the value. False: nothing was appended, also if `value` is NULL. */
bool bo_json_append(bo_json *array, bo_json *value);
bool bo_json_put(bo_json *object, const char *name, bo_json *value);
/* The same for a new value, which is deleted after a failure. Returns the value. */
bo_json *bo_json_put_new(bo_json *object, const char *name, bo_json *value);
/* Removes a value of an array or object, and returns it; NULL: it has none. */
bo_json *bo_json_detach(bo_json *parent, bo_json *value);

#endif
