/* A writer of JSON: objects one field a line, arrays on one line. Numbers that are not finite become null. */
#ifndef CLI_COMMON_JSON_H
#define CLI_COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CLI_JSON_DEPTH = 16 };

typedef struct cli_json {
    FILE *out;
    bool line; /* objects on one line too: JSON lines */
    int depth;
    bool some[CLI_JSON_DEPTH];  /* the level already has an item */
    bool array[CLI_JSON_DEPTH]; /* the level is an array */
} cli_json;

/* `key` is NULL inside arrays and for the outermost object. */
void cli_json_object(cli_json *json, const char *key);
void cli_json_array(cli_json *json, const char *key);
void cli_json_end(cli_json *json); /* closes the innermost; a newline after the outermost */
void cli_json_text(cli_json *json, const char *key, const char *text); /* NULL: null */
void cli_json_number(cli_json *json, const char *key, double value);
void cli_json_count(cli_json *json, const char *key, size_t value);
void cli_json_flag(cli_json *json, const char *key, bool value);

#endif
