/* The state of a rendering, and the operations on values, shared by the evaluator, filters and methods. */
#ifndef BO_TEXT_JINJA_RUN_H
#define BO_TEXT_JINJA_RUN_H

#include "jinja.h"
#include <string.h>

/* Text that grows in the arena. */
typedef struct bo_jinja_builder {
    char *bytes;
    unsigned char *marks; /* NULL: no byte is marked */
    size_t length, capacity;
} bo_jinja_builder;

typedef struct bo_jinja_variable {
    const char *name; /* NULL: an empty place */
    size_t name_length;
    bo_jinja_value value;
} bo_jinja_variable;

/* A scope: the template, an iteration of a loop, a call of a macro. A hash table with linear probing; the number of
 * places is 0 or a power of two. */
typedef struct bo_jinja_frame {
    struct bo_jinja_frame *parent;
    bo_jinja_variable *variables;
    size_t count, places;
} bo_jinja_frame;

enum { BO_JINJA_REPORT = 1 << 16 }; /* steps after which the caller may cancel */

typedef struct bo_jinja_run {
    bo_context *context;
    const char *where;
    bo_jinja_arena arena;
    bo_jinja_builder *out;
    bo_jinja_frame *frame;
    size_t line; /* of the current node, for messages */
    int depth;
    uint64_t work, max_work, next_report; /* next_report: the work at which the caller may cancel */
    const unsigned char *ones;            /* the marks of fully marked texts */
    size_t ones_count;
    int64_t time;
} bo_jinja_run;

struct bo_jinja_macro {
    const bo_jinja_node *node;
    bo_jinja_frame *frame; /* where it was defined */
};

struct bo_jinja_loop {
    bo_jinja_list *items;
    size_t index;
};

/* Arguments of a call: positions first, then keywords. */
enum { BO_JINJA_ARGUMENTS = 16 };
typedef struct bo_jinja_arguments {
    size_t count;
    bo_jinja_value values[BO_JINJA_ARGUMENTS];
    const bo_jinja_node *names[BO_JINJA_ARGUMENTS]; /* of the keywords; NULL for positions */
} bo_jinja_arguments;

/* A filter, test, method or function. values[0] is the value that it is applied to; values[i] is parameter i - 1. */
typedef bo_status (*bo_jinja_fn)(bo_jinja_run *run, const bo_jinja_value *values, bo_jinja_value *out);
enum { BO_JINJA_PARAMETERS = 5 };
typedef struct bo_jinja_filter {
    const char *name;
    bo_jinja_fn apply;
    size_t needed; /* parameters without a default */
    const char *parameters[BO_JINJA_PARAMETERS];
} bo_jinja_filter;

/* NULL: there is none. */
const bo_jinja_filter *bo_jinja_find(const bo_jinja_filter *table, const char *name, size_t length);
const bo_jinja_filter *bo_jinja_find_filter(const char *name, size_t length);
const bo_jinja_filter *bo_jinja_find_test(const char *name, size_t length);
const bo_jinja_filter *bo_jinja_find_function(const char *name, size_t length);
/* The method of a value. *known: the name is a method of Python that is not supported. */
const bo_jinja_filter *bo_jinja_find_method(const bo_jinja_value *value, const char *name, size_t length, bool *known);
/* Calls it with the arguments in the order of its parameters. `what`: "filter", "test", "method" or "function". */
bo_status bo_jinja_apply(bo_jinja_run *run, const bo_jinja_filter *filter, const char *what,
                         const bo_jinja_value *subject, const bo_jinja_arguments *arguments, bo_jinja_value *out);

/* ---- errors and limits ------------------------------------------------------------------------------------------- */

/* "chat template: line 3: …" */
bo_status bo_jinja_fail(bo_jinja_run *run, bo_status status, const char *format, ...) BO_PRINTF(3, 4);
bo_status bo_jinja_charge(bo_jinja_run *run, size_t bytes);  /* counts work */
const char *bo_jinja_kind_name(const bo_jinja_value *value); /* as Python names it: 'str', 'NoneType' */
/* The error for a value of the wrong type: "the filter 'trim' expected a string, found list". */
bo_status bo_jinja_wrong_type(bo_jinja_run *run, const char *function, const char *expected,
                              const bo_jinja_value *found);

/* ---- making values ----------------------------------------------------------------------------------------------- */

static inline bo_jinja_value bo_jinja_of_kind(bo_jinja_kind kind)
{
    return (bo_jinja_value){.kind = kind};
}

static inline bo_jinja_value bo_jinja_of_boolean(bool boolean)
{
    return (bo_jinja_value){.kind = BO_JINJA_BOOLEAN, .boolean = boolean};
}

static inline bo_jinja_value bo_jinja_of_whole(int64_t whole)
{
    return (bo_jinja_value){.kind = BO_JINJA_WHOLE, .whole = whole};
}

static inline bo_jinja_value bo_jinja_of_text(const char *text, size_t length)
{
    return (bo_jinja_value){.kind = BO_JINJA_TEXT, .length = length, .text = text};
}

/* Bytes [from, from + length) of a text. */
static inline bo_jinja_value bo_jinja_part(const bo_jinja_value *text, size_t from, size_t length)
{
    return (bo_jinja_value){.kind = BO_JINJA_TEXT,
                            .length = length,
                            .text = text->text + from,
                            .marks = text->marks ? text->marks + from : NULL};
}

bo_status bo_jinja_list_new(bo_jinja_run *run, bo_jinja_kind kind, size_t capacity, bo_jinja_value *out);
bo_status bo_jinja_list_add(bo_jinja_run *run, bo_jinja_list *list, bo_jinja_value item);
bo_status bo_jinja_dict_new(bo_jinja_run *run, bo_jinja_kind kind, bo_jinja_value *out);
bo_status bo_jinja_dict_set(bo_jinja_run *run, bo_jinja_dict *dict, bo_jinja_value key, bo_jinja_value value);
/* *found is NULL if there is no such key. */
bo_status bo_jinja_dict_get(bo_jinja_run *run, const bo_jinja_dict *dict, const bo_jinja_value *key,
                            bo_jinja_value **found);
/* marked: texts come from an input. */
bo_status bo_jinja_from_json(bo_jinja_run *run, const bo_json *json, bool marked, bo_jinja_value *out);

/* Appends bytes of the template. */
bo_status bo_jinja_build(bo_jinja_run *run, bo_jinja_builder *builder, const char *bytes, size_t length);
/* Appends a text with its marks. */
bo_status bo_jinja_build_text(bo_jinja_run *run, bo_jinja_builder *builder, const bo_jinja_value *text);
bo_jinja_value bo_jinja_built(const bo_jinja_builder *builder);

/* ---- using values ------------------------------------------------------------------------------------------------ */

static inline bool bo_jinja_is_list(const bo_jinja_value *value)
{
    return value->kind >= BO_JINJA_LIST && value->kind <= BO_JINJA_LAZY;
}

static inline bool bo_jinja_is_number(const bo_jinja_value *value)
{
    return value->kind >= BO_JINJA_BOOLEAN && value->kind <= BO_JINJA_FRACTION;
}

static inline bool bo_jinja_is_whole(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_BOOLEAN || value->kind == BO_JINJA_WHOLE;
}

static inline int64_t bo_jinja_whole(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_BOOLEAN ? value->boolean : value->whole;
}

static inline double bo_jinja_fraction(const bo_jinja_value *value)
{
    return value->kind == BO_JINJA_FRACTION ? value->fraction : (double)bo_jinja_whole(value);
}

static inline bool bo_jinja_text_is(const bo_jinja_value *value, const char *text)
{
    return value->kind == BO_JINJA_TEXT && value->length == strlen(text) &&
           memcmp(value->text, text, value->length) == 0;
}

/* UndefinedError: the value was used in a way that undefined values do not support. */
bo_status bo_jinja_undefined(bo_jinja_run *run, const bo_jinja_value *value);
bool bo_jinja_true(const bo_jinja_value *value);
/* str(value), appended; the repr has quotes around text. */
bo_status bo_jinja_print(bo_jinja_run *run, bo_jinja_builder *to, const bo_jinja_value *value);
bo_status bo_jinja_string(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_value *out);
bo_status bo_jinja_equal(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, bool *out);
/* The sign of a - b; an error for types without an order. */
bo_status bo_jinja_order(bo_jinja_run *run, const bo_jinja_value *a, const bo_jinja_value *b, int *out);
bo_status bo_jinja_contains(bo_jinja_run *run, const bo_jinja_value *item, const bo_jinja_value *in, bool *out);
/* The items of anything that can be iterated, as a list that the caller must not change. */
bo_status bo_jinja_iterate(bo_jinja_run *run, const bo_jinja_value *value, bo_jinja_list **out);
bo_status bo_jinja_length(bo_jinja_run *run, const bo_jinja_value *value, size_t *out);
bo_status bo_jinja_item(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value *key, bo_jinja_value *out);
/* value[from:to:step]; an ABSENT or NONE bound has the default of Python. */
bo_status bo_jinja_slice(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value bounds[3],
                         bo_jinja_value *out);
bo_status bo_jinja_tojson(bo_jinja_run *run, const bo_jinja_value *values, bo_jinja_value *out);
bo_status bo_jinja_arithmetic(bo_jinja_run *run, int sign, const bo_jinja_value *a, const bo_jinja_value *b,
                              bo_jinja_value *out);
enum { BO_JINJA_NUMBER = 80 };
void bo_jinja_number(double number, char out[BO_JINJA_NUMBER]); /* the repr of a float */

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The character at the start of valid UTF-8, and its bytes. */
int32_t bo_jinja_code_point(const char *text, size_t length, size_t *bytes);
bool bo_jinja_is_space(int32_t code_point); /* str.isspace of Python */
size_t bo_jinja_characters(const char *text, size_t length);
/* The byte offset of the character with this index; `length` if there are fewer characters. */
size_t bo_jinja_offset(const char *text, size_t length, size_t index);

/* ---- calls between the files ------------------------------------------------------------------------------------- */

bo_status bo_jinja_evaluate(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_value *out);
/* Opens a scope inside of `parent`. */
bo_status bo_jinja_open_frame(bo_jinja_run *run, bo_jinja_frame *parent);
/* Sets a variable of the current scope; a target is what a statement assigns to. */
bo_status bo_jinja_assign(bo_jinja_run *run, const char *name, size_t length, bo_jinja_value value);
bo_status bo_jinja_assign_target(bo_jinja_run *run, const bo_jinja_node *target, bo_jinja_value value);

typedef enum bo_jinja_flow { BO_JINJA_GO_ON, BO_JINJA_STOP, BO_JINJA_SKIP } bo_jinja_flow;
bo_status bo_jinja_run_statements(bo_jinja_run *run, const bo_jinja_node *node, bo_jinja_flow *how);
/* The output of statements as a string. */
bo_status bo_jinja_capture(bo_jinja_run *run, const bo_jinja_node *body, bo_jinja_value *out);

/* The lines of splitlines(), as a list of texts. */
bo_status bo_jinja_lines(bo_jinja_run *run, const bo_jinja_value *text, bool ends, bo_jinja_value *out);
bo_status bo_jinja_replace(bo_jinja_run *run, const bo_jinja_value *text, const bo_jinja_value *old,
                           const bo_jinja_value *by, int64_t max_count, bo_jinja_value *out);
enum { BO_JINJA_STRIP_LEFT = 1, BO_JINJA_STRIP_RIGHT = 2 };
bo_status bo_jinja_strip(bo_jinja_run *run, const bo_jinja_value *text, const bo_jinja_value *characters, int sides,
                         bo_jinja_value *out);
/* "a.b.0" of a value, as the attribute= of filters. */
bo_status bo_jinja_path(bo_jinja_run *run, const bo_jinja_value *value, const bo_jinja_value *path,
                        bo_jinja_value *out);
typedef enum bo_jinja_case {
    BO_JINJA_UPPER,
    BO_JINJA_LOWER,
    BO_JINJA_CAPITALIZE,
    BO_JINJA_TITLE /* str.title() */
} bo_jinja_case;
bo_status bo_jinja_change_case(bo_jinja_run *run, const bo_jinja_value *text, bo_jinja_case how, bo_jinja_value *out);
bo_status bo_jinja_strftime(bo_jinja_run *run, const bo_jinja_value *values, bo_jinja_value *out);

#endif
