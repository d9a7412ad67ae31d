/* Prints JSON. Objects have one field per line and arrays are on one line, or everything is on one line.
 *
 *     cli_json json = {.out = stdout};
 *     cli_json_object(&json, NULL);
 *     cli_json_add_number(&json, "loss", 0.25);
 *     cli_json_end(&json);                                    // {\n  "loss": 0.25\n}\n
 *
 * NaN and infinities are printed as null, and bytes that are not UTF-8 as the replacement character. */
#ifndef CLI_COMMON_JSON_H
#define CLI_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CLI_JSON_DEPTH = 16 };

/* Invariant: depth is at most CLI_JSON_DEPTH; `some` and `array` describe the levels below it. Deeper values are
 * replaced by null. */
typedef struct cli_json {
    FILE *out;
    bool line;  /* objects on one line too: JSON lines */
    bool bytes; /* bytes that are not UTF-8, such as in file names, are written unchanged */
    int depth;
    int left_out;               /* levels open beyond CLI_JSON_DEPTH */
    bool some[CLI_JSON_DEPTH];  /* the level already has an item */
    bool array[CLI_JSON_DEPTH]; /* the level is an array */
} cli_json;

/* `key` is NULL inside arrays and for the outermost object. */
void cli_json_object(cli_json *json, const char *key);
void cli_json_array(cli_json *json, const char *key);
void cli_json_end(cli_json *json); /* closes the innermost open level; prints a newline after the outermost */
void cli_json_add_text(cli_json *json, const char *key, const char *text); /* NULL: null */
void cli_json_add_number(cli_json *json, const char *key, double value);
void cli_json_add_count(cli_json *json, const char *key, size_t value);
void cli_json_add_flag(cli_json *json, const char *key, bool value);

/* True if JSON text contains NUL, as a byte or as the escape \u0000: C strings end there. */
bool cli_json_has_nul(const char *text, size_t length);

#endif
