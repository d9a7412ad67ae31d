/* Tables that map members of JSON objects to members of structs: one reader and one writer, with common messages. */
#ifndef BO_MODEL_FIELDS_H
#define BO_MODEL_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include "../io/json.h"

enum { BO_MAX_FIELD_VALUE = 1 << 24 }; /* of counts, pairs, paddings and widths: larger values are errors or attacks */

typedef enum bo_field_type {
    BO_FIELD_SIZE,    /* size_t */
    BO_FIELD_COUNT,   /* size_t from 1 to BO_MAX_FIELD_VALUE */
    BO_FIELD_PAIR,    /* size_t[2], likewise: one number for both, or [height, width] */
    BO_FIELD_PADDING, /* bo_padding: "same", "causal", a number or a pair */
    BO_FIELD_WIDTH,   /* bo_width: a count, or the name of one */
    BO_FIELD_REAL,    /* double */
    BO_FIELD_RANGE,   /* double in [min, max); max <= min: no upper bound */
    BO_FIELD_INVERSE, /* double, written as its reciprocal */
    BO_FIELD_ROOT,    /* double, written as its power -2 */
    BO_FIELD_INT,     /* int */
    BO_FIELD_BOOL,
    BO_FIELD_NOT,    /* inverted bool */
    BO_FIELD_CHOICE, /* bo_choice, written as true or false */
    BO_FIELD_SEED,   /* uint64_t, written as text: JSON numbers have 53 bits */
    BO_FIELD_NAME,   /* enum, written by name */
    BO_FIELD_TEXT,   /* const char *, allocated */
    BO_FIELD_JSON,   /* likewise: any JSON value, as text */
    BO_FIELD_OBJECT  /* a struct with `fields` */
} bo_field_type;

typedef struct bo_padding {
    size_t size[2];
    bool same, causal;
} bo_padding;

/* A width: a number, or a symbol for a number of the data. */
typedef enum bo_symbol { BO_SYMBOL_NUMBER = 0, BO_SYMBOL_CLASSES, BO_SYMBOL_TARGETS, BO_SYMBOL_INPUT } bo_symbol;
typedef struct bo_width {
    size_t value;
    bo_symbol symbol;
} bo_width;

typedef struct bo_field bo_field;
struct bo_field {
    const char *name;
    const char *former; /* name in files of earlier versions; NULL: the same */
    bo_field_type type;
    size_t offset;
    bool required;
    bool always;          /* written also if it is zero (bo_object_write) */
    double default_value; /* value of a missing number, pair, width, name or bool; 0: unchanged */
    double min, max;
    /* NAME: returns the name of a value, "" for a value not allowed in files, NULL past the end; NULL function: none */
    const char *(*names)(unsigned value);
    const char *const *list; /* NAME: names in the place of that function, ended by NULL */
    /* NAME: returns the name for an alias, or NULL; NULL function: no aliases */
    const char *(*alias)(const char *text);
    struct {
        const char *name;
        unsigned value;
    } more[2];              /* NAME: other names and their values */
    const bo_field *fields; /* OBJECT: the fields of its struct */
    size_t count;
    /* OBJECT: sets it to the preset named by a text or by its member "preset"; NULL: no presets. */
    bool (*preset)(const char *name, void *object);
    const char *number; /* OBJECT: the member that a plain number sets; NULL: none */
};

/* Defines <word>_names for an enum of plain integers with bo_<word>_name. */
#define BO_FIELD_NAMES(type, word)                                                                                     \
    static const char *word##_names(unsigned value)                                                                    \
    {                                                                                                                  \
        return bo_##word##_name((type)value);                                                                          \
    }

/* Fields of an object of type `object`. */
#define BO_FIELD_PLAIN(object, key, sort, member)                                                                      \
    {.name = key, .type = BO_FIELD_##sort, .offset = offsetof(object, member)}
#define BO_FIELD_NEEDED(object, key, sort, member)                                                                     \
    {.name = key, .type = BO_FIELD_##sort, .offset = offsetof(object, member), .required = true}
#define BO_FIELD_LIST(...)                                                                                             \
    .list = (const char *const[])                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
#define BO_FIELD_ENUM(object, key, member, word)                                                                       \
    {.name = key, .type = BO_FIELD_NAME, .offset = offsetof(object, member), .names = word##_names}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the members that are present. Other members are ignored. `where`: for example "config.json: attention". */
bo_status bo_fields_read(bo_context *context, const char *where, const bo_field *fields, size_t count,
                         const bo_json *json, void *object);
/* Likewise, but refuses other members. */
bo_status bo_object_read(bo_context *context, const char *where, const bo_field *fields, size_t count,
                         const bo_json *json, void *object);

/* The names that the members of an object may have. */
typedef struct bo_known_name {
    const char *name;
    const char *instead; /* the suggestion in messages; NULL: the name */
    bool refused;        /* it is no member, but easily confused with `instead` */
} bo_known_name;
typedef struct bo_known {
    bo_known_name at[128];
    size_t count;
} bo_known;
void bo_known_add(bo_known *known, const char *name);
void bo_known_add_fields(bo_known *known, const bo_field *fields, size_t count);
/* Refuses other members, with the nearest name, and repeated ones. */
bo_status bo_known_check(bo_context *context, const char *where, const bo_json *json, const bo_known *known);

/* Fails with: "name" should be …, found …. */
bo_status bo_field_refuse(bo_context *context, const char *where, const char *name, const char *expected,
                          const bo_json *found);

/* ---- suggestions ------------------------------------------------------------------------------------------------- */

/* The nearest of several names, for messages. Initialize it as {.distance = D}: names at this edit distance are too
 * far. */
typedef struct bo_nearest {
    const char *word;
    size_t distance;
} bo_nearest;
enum { BO_NEAREST_MEMBER = 3 };
void bo_nearest_try(bo_nearest *nearest, const char *found, const char *word, const char *instead);
/* "; did you mean …?", or nothing. */
typedef struct bo_hint {
    char text[100];
} bo_hint;
bo_hint bo_nearest_hint(const bo_nearest *nearest);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes "name": value, … without braces. */
void bo_fields_write(bo_json_text *text, const bo_field *fields, size_t count, const void *object, const char *indent);
/* Writes an object with those that are not zero and those that are always written, `depth` levels deep. */
void bo_object_write(bo_json_text *text, const bo_field *fields, size_t count, const void *object, size_t depth);
/* True if a field has the same value in both objects; real numbers may differ by rounding. */
bool bo_field_same(const bo_field *field, const void *a, const void *b);
/* Returns the first field with another value, and sets the objects to the parts that have it; NULL: none. Fields of the
 * names in `ignored`, which NULL ends, are not compared. */
const bo_field *bo_fields_differ(const bo_field *fields, size_t count, const char *const *ignored, const void **a,
                                 const void **b);
void bo_field_clear(const bo_field *field, void *object); /* sets it to zero */

#endif
