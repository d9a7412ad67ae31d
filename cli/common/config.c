/* Reads options from a JSON object with the same names, and writes them. */
#include <bochner/data.h>
#include "json.h"
#include "options.h"
#include "format.h"
#include "streams.h"
#include <bochner/json.h>
#include "../../src/io/json_tree.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20 };         /* bytes */
static const char CHECKSUM[] = "checksum"; /* the first member of a file that cli_config_print wrote */

typedef struct word_list {
    char **items;
    int count, capacity;
} word_list;

static bool print_error(const char *command, const char *path, const char *what)
{
    cli_streams_print("bochner %s: %s: %s\n", command, path, what);
    return false;
}

static void add(word_list *list, const char *name, const char *value)
{
    if (list->count == list->capacity) {
        char **larger = cli_allocate((size_t)(list->capacity = 2 * list->capacity + 16), sizeof *larger, "options");
        if (list->count) memcpy(larger, list->items, (size_t)list->count * sizeof *larger);
        free(list->items);
        list->items = larger;
    }
    const size_t size = strlen(name) + (value ? strlen(value) : 0) + 4;
    char *word = cli_allocate(size, 1, "an option");
    snprintf(word, size, "--%s%s%s", name, value ? "=" : "", value ? value : "");
    list->items[list->count++] = word;
}

/* The end of a string that starts at text: the character after its closing quote, or the NUL. */
static const char *skip_string(const char *text)
{
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && text[1]) text++;
    return *text ? text + 1 : text;
}

/* A copy in which integers of more than 15 digits are strings: bo_json would round them to doubles, and options are
 * parsed from text anyway. Freed by the caller. */
static char *quote_long_numbers(const char *text)
{
    enum { MAX_EXACT_DIGITS = 15 };
    char *copy = cli_allocate(strlen(text) * 9 / 8 + 1, 1, "options"), *to = copy; /* 2 quotes per 16 digits */
    while (*text) {
        const char *end = *text == '"' ? skip_string(text) : text + strspn(text, "+-.0123456789eE");
        const bool wide = strspn(text, "0123456789") == (size_t)(end - text) && end - text > MAX_EXACT_DIGITS;
        if (end == text) end++;
        if (wide) *to++ = '"';
        memcpy(to, text, (size_t)(end - text));
        to += end - text;
        if (wide) *to++ = '"';
        text = end;
    }
    *to = 0;
    return copy;
}

/* False: an option cannot have this value. */
static bool add_value(word_list *list, const char *name, const bo_json *value)
{
    if (bo_json_is(value, BO_JSON_TEXT))
        add(list, name, value->text);
    else if (bo_json_is(value, BO_JSON_NUMBER))
        add(list, name, cli_exact(value->number).s);
    else if (bo_json_is(value, BO_JSON_TRUE))
        add(list, name, NULL);
    else
        return bo_json_is(value, BO_JSON_FALSE) || bo_json_is(value, BO_JSON_NULL);
    return true;
}

static bool add_member(word_list *list, const bo_json *member)
{
    bool fine = bo_json_is(member, BO_JSON_ARRAY) || add_value(list, member->key, member);
    for (const bo_json *item = bo_json_is(member, BO_JSON_ARRAY) ? member->child : NULL; item && fine;
         item = item->next)
        fine = !bo_json_is(item, BO_JSON_ARRAY) && add_value(list, member->key, item);
    return fine;
}

static bool parse_object(const char *command, const char *path, const char *text, word_list *list)
{
    char *quoted = quote_long_numbers(text);
    bo_json *json = bo_json_read_all(quoted);
    free(quoted);
    bool fine = bo_json_is(json, BO_JSON_OBJECT);
    if (!fine) print_error(command, path, json ? "expected a JSON object of options" : "the JSON is malformed");
    for (const bo_json *member = fine ? json->child : NULL; member && fine; member = member->next) {
        if (strcmp(member->key, CHECKSUM) == 0) continue;
        fine = add_member(list, member);
        if (!fine)
            cli_streams_print("bochner %s: %s: option '%s': expected text, a number, true, false or a list of these\n",
                              command, path, member->key);
    }
    bo_json_delete(json);
    return fine;
}

/* NULL after an error message. */
static char *read_text(const char *command, const char *path, size_t *length)
{
    const bo_context_desc one = {.threads = 1};
    bo_context *context;
    void *text = NULL;
    if (bo_context_create(&one, &context) != BO_OK) {
        print_error(command, path, "out of memory");
        return NULL;
    }
    bo_status status = bo_file_load(context, path, MAX_FILE_BYTES, &text, length);
    if (status == BO_OK) status = bo_json_check(context, path, text, *length);
    if (status != BO_OK) {
        cli_streams_print("bochner %s: %s\n", command, bo_context_error(context));
        bo_free(text);
        text = NULL;
    }
    bo_context_destroy(context);
    return text;
}

cli_parsed cli_config_read(const char *command, const char *path, int *count, char ***args)
{
    word_list list = {0};
    size_t length;
    char *text = read_text(command, path, &length);
    *count = 0;
    *args = NULL;
    if (!text) return CLI_UNREADABLE;
    const bool fine = parse_object(command, path, text, &list);
    bo_free(text);
    if (fine) {
        *count = list.count;
        *args = list.items;
        return CLI_PARSED;
    }
    for (int i = 0; i < list.count; i++) free(list.items[i]);
    free(list.items);
    return CLI_PARSE_ERROR;
}

/* ---- into a file ------------------------------------------------------------------------------------------------- */

static void print_list(cli_json *json, const char *name, const cli_list *list)
{
    cli_json_array(json, name);
    for (size_t i = 0; i < list->count; i++) cli_json_add_text(json, NULL, list->items[i]);
    cli_json_end(json);
}

static void print_option(cli_json *json, const cli_option *row, const void *options)
{
    const void *value = (const char *)options + row->at;
    switch (row->type) {
    case CLI_FLAG:
        cli_json_add_flag(json, row->name, *(const bool *)value);
        break;
    case CLI_TEXT:
        cli_json_add_text(json, row->name, *(const char *const *)value);
        break;
    case CLI_COUNT:
    case CLI_BYTES:
        cli_json_add_count(json, row->name, *(const size_t *)value);
        break;
    case CLI_REAL:
    case CLI_REAL_OR_AUTO:
        cli_json_add_number(json, row->name, *(const double *)value);
        break;
    case CLI_CHOICE:
        cli_json_add_text(json, row->name, cli_choice_name(row, *(const unsigned *)value));
        break;
    case CLI_LIST:
        print_list(json, row->name, value);
        break;
    case CLI_SEED:
        cli_json_add_count(json, row->name, *(const uint64_t *)value);
        break;
    case CLI_SECTION:
    case CLI_END:
        break;
    }
}

static void print_given(cli_json *json, const cli_option *rows, const void *options)
{
    for (const cli_option *row = NULL; (row = cli_next_given(rows, options, row));) print_option(json, row, options);
}

static void print_options(FILE *out, const cli_usage *usage, const void *options, const cli_common *common)
{
    cli_json json = {.out = out, .bytes = true};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, CHECKSUM, BO_JSON_UNSEALED);
    for (size_t g = 0; g < CLI_GROUPS && usage->groups[g].rows; g++)
        print_given(&json, usage->groups[g].rows, (const char *)options + usage->groups[g].at);
    if (CLI_GIVEN(common, seed)) cli_json_add_count(&json, "seed", common->seed);
    cli_json_end(&json);
}

bool cli_config_print(FILE *out, const cli_usage *usage, const void *options, const cli_common *common)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    if (!memory) return false;
    print_options(memory, usage, options, common);
    const bool fine = fclose(memory) == 0 && bo_json_seal(text, length) && fwrite(text, 1, length, out) == length;
    free(text);
    return fine;
}
