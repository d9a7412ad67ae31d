/* Bochner: JSON as the program prints it. Objects have a field per line and arrays stand on one line, or all is on one line.
 *
 *     bo_json json = {.out = stdout};
 *     bo_json_object(&json, NULL);
 *     bo_json_add_number(&json, "loss", 0.25);
 *     bo_json_end(&json);                                    // {\n  "loss": 0.25\n}\n
 *
 * Numbers that are not finite become null, and bytes that are not UTF-8 the replacement character. */
#ifndef BOCHNER_JSON_H
#define BOCHNER_JSON_H

#include <bochner/base.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BO_JSON_DEPTH = 16 };

/* Invariant: depth is at most BO_JSON_DEPTH; `some` and `array` are of the levels below it. What is nested deeper is left
 * out: null stands for it. */
typedef struct bo_json {
    FILE *out;
    bool line; /* objects on one line too: JSON lines */
    int depth;
    int left_out;              /* levels open beyond BO_JSON_DEPTH */
    bool some[BO_JSON_DEPTH];  /* the level already has an item */
    bool array[BO_JSON_DEPTH]; /* the level is an array */
} bo_json;

/* `key` is NULL inside arrays and for the outermost object. */
BO_API void bo_json_object(bo_json *json, const char *key);
BO_API void bo_json_array(bo_json *json, const char *key);
BO_API void bo_json_end(bo_json *json); /* closes the innermost, if any; a newline after the outermost */
BO_API void bo_json_add_text(bo_json *json, const char *key, const char *text); /* NULL: null */
BO_API void bo_json_add_number(bo_json *json, const char *key, double value);
BO_API void bo_json_add_count(bo_json *json, const char *key, size_t value);
BO_API void bo_json_add_flag(bo_json *json, const char *key, bool value);

/* The shortest of 15, 16 and 17 digits that reads back as the same number, whatever the locale. */
enum { BO_NUMBER_TEXT = 32 };
BO_API const char *bo_number_format(double value, char out[BO_NUMBER_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
