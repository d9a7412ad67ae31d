/* Chat templates of models: the sources of the template and the special tokens, and the variables of a rendering. */
#include "chat_files.h"
#include "encoder.h"
#include "jinja.h"
#include "unicode.h"
#include "../io/bytes.h"
#include "../io/input.h"
#include "../io/json.h"
#include "../io/tensors.h"
#include <bochner/chat.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MAX_DEPTH = 64 };

struct bo_chat_template {
    bo_jinja_arena arena; /* of the tree */
    bo_jinja_node *tree;
    char *where;     /* for messages */
    bo_json *tokens; /* special tokens by name: texts, and lists of texts */
};

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token",  "sep_token",
                                          "pad_token", "cls_token", "mask_token", "additional_special_tokens"};

static bool has_member(const bo_json *object, const char *name)
{
    return bo_json_member(object, name) != NULL;
}

/* A token is a text, or an object with the text as its content; NULL: neither. */
static const char *token_text(const bo_json *token)
{
    const bo_json *content = bo_json_member(token, "content");
    return bo_json_is(token, BO_JSON_TEXT) ? token->text : bo_json_is(content, BO_JSON_TEXT) ? content->text : NULL;
}

static bo_json *token_list(const bo_json *tokens)
{
    bo_json *list = bo_json_new(BO_JSON_ARRAY);
    const bo_json *token;
    BO_JSON_EACH(token, tokens)
    {
        const char *text = token_text(token);
        bo_json *item = text ? bo_json_new_text(text) : NULL;
        if (item && !bo_json_append(list, item)) bo_json_delete(item);
    }
    return list;
}

/* Adds the tokens of a configuration that are not yet known. */
static bo_status add_tokens(bo_context *context, bo_chat_template *chat, const bo_json *config)
{
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; i++) {
        const bo_json *token = bo_json_member(config, token_names[i]);
        const char *text = token_text(token);
        if (has_member(chat->tokens, token_names[i]) || (!text && !bo_json_is(token, BO_JSON_ARRAY))) continue;
        bo_json *value = text ? bo_json_new_text(text) : token_list(token);
        if (!value || !bo_json_put(chat->tokens, token_names[i], value)) {
            bo_json_delete(value);
            return bo_fail(context, BO_MEMORY, "chat template: out of memory");
        }
    }
    return BO_OK;
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

static bo_status set_where(bo_context *context, bo_chat_template *chat, const char *path)
{
    char where[PATH_BYTES + 32];
    snprintf(where, sizeof where, "%s%schat template", path ? path : "", path ? ": " : "");
    bo_free(chat->where);
    chat->where = bo_strdup(context, where);
    return chat->where ? BO_OK : BO_MEMORY;
}

/* The first byte that is NUL or not UTF-8; `length`: none. */
static size_t bad_byte(const char *text, size_t length)
{
    const char *nul = length ? memchr(text, 0, length) : NULL;
    const size_t valid = bo_utf8_valid(text, length);
    return nul && (size_t)(nul - text) < valid ? (size_t)(nul - text) : valid;
}

/* Parses the text; `path` is its source, or NULL. */
static bo_status set_text(bo_context *context, bo_chat_template *chat, const char *path, const char *text,
                          size_t length)
{
    BO_TRY(set_where(context, chat, path));
    if (length > BO_JINJA_SOURCE)
        return bo_fail(context, BO_UNSUPPORTED, "%s: %zu bytes, expected at most %d", chat->where, length,
                       BO_JINJA_SOURCE);
    const size_t bad = bad_byte(text, length);
    if (bad < length)
        return bo_fail(context, BO_FORMAT, "%s: byte %zu is %s", chat->where, bad,
                       text[bad] ? "not UTF-8 text" : "NUL, which is not supported");
    chat->arena.context = context;
    const bo_status status = bo_jinja_parse(&chat->arena, chat->where, text, length, &chat->tree);
    chat->arena.context = NULL;
    return status;
}

static bo_status set_file(bo_context *context, bo_chat_template *chat, const char *path)
{
    char *text;
    size_t length;
    BO_TRY(bo_bytes_text(context, path, &bo_limits_config, &text, &length));
    const bo_status status = set_text(context, chat, path, text, length);
    bo_free(text);
    return status;
}

/* One of a list of {"name", "template"}; NULL: there is none with this name. */
static const bo_json *find_named(const bo_json *list, const char *name)
{
    const bo_json *item;
    BO_JSON_EACH(item, list)
    {
        const char *found = bo_json_text_or_null(bo_json_member(item, "name"));
        if (found && strcmp(found, name) == 0) return bo_json_member(item, "template");
    }
    return NULL;
}

/* The member `chat_template`, if there is one. */
static bo_status set_member(bo_context *context, bo_chat_template *chat, const char *path, const bo_json *config,
                            const char *name)
{
    const bo_json *member = bo_json_member(config, "chat_template"), *text = member;
    if (!member || bo_json_is(member, BO_JSON_NULL)) return BO_OK;
    if (bo_json_is(member, BO_JSON_ARRAY)) text = find_named(member, name ? name : "default");
    if (bo_json_is(text, BO_JSON_TEXT)) return set_text(context, chat, path, text->text, strlen(text->text));
    if (bo_json_is(member, BO_JSON_ARRAY) && !text)
        return bo_fail(context, BO_FORMAT, "%s: no chat template with the name \"%s\"", path, name ? name : "default");
    return bo_fail(context, BO_FORMAT,
                   "%s: chat_template must be a string, or a list of objects with name and template", path);
}

/* ---- directories
 * ----------------------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static bo_status parse_json(bo_context *context, const char *path, const char *text, size_t length, bo_json **out)
{
    BO_TRY(bo_json_parse(context, path, text, length, MAX_DEPTH, out));
    if (!bo_json_has_nul(text, length)) return BO_OK;
    bo_json_delete(*out);
    *out = NULL;
    return bo_fail(context, BO_FORMAT, "%s: a string contains a NUL", path);
}

static bo_status join_path(bo_context *context, char out[PATH_BYTES], const char *directory, const char *name)
{
    if (snprintf(out, PATH_BYTES, "%s/%s", directory, name) < PATH_BYTES) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: the path is too long", directory);
}

/* The source of the files of a model: a directory, the metadata of a model in one file, or memory.
 */
typedef struct place {
    const char *path;
    bo_tensors *image;       /* NULL: a directory, */
    bo_chat_files_find find; /* or texts in memory */
    const void *files;
} place;

static bo_status open_place(bo_context *context, const char *path, place *out)
{
    static const char ending[] = ".safetensors";
    const size_t length = strlen(path), end = sizeof ending - 1;
    struct stat about;
    *out = (place){.path = path};
    if (length < end || strcmp(path + length - end, ending) != 0) return BO_OK;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return BO_OK;
    return bo_tensors_open(context, path, &out->image);
}

/* Reads one of the files; *text is NULL if there is none, else released with bo_free. `path` is its name for
 * messages. */
static bo_status read_part(bo_context *context, const place *from, const char *name, char path[PATH_BYTES], char **text,
                           size_t *length)
{
    *text = NULL;
    BO_TRY(join_path(context, path, from->path, name));
    if (!from->image && !from->find)
        return exists(path) ? bo_bytes_text(context, path, &bo_limits_config, text, length) : BO_OK;
    const char *found = from->find ? from->find(from->files, name) : bo_tensors_meta(from->image, name);
    if (!found) return BO_OK;
    *length = strlen(found);
    if (*length > bo_limits_config.bytes)
        return bo_input_too_large(context, path, *length, false, bo_limits_config.bytes);
    *text = bo_strdup(context, found);
    return *text ? BO_OK : BO_MEMORY;
}

/* Reads one of the configuration files: the special tokens, and the template if there is none yet. */
static bo_status read_config(bo_context *context, bo_chat_template *chat, const place *from, const char *file,
                             bool needed, const char *name)
{
    char path[PATH_BYTES], *text;
    size_t length;
    bo_json *config;
    BO_TRY(read_part(context, from, file, path, &text, &length));
    if (!text) return BO_OK;
    bo_status status = parse_json(context, path, text, length, &config);
    bo_free(text);
    BO_TRY(status);
    status = add_tokens(context, chat, config);
    if (status == BO_OK && needed) status = set_member(context, chat, path, config, name);
    bo_json_delete(config);
    return status;
}

/* Reads chat_template.jinja; *found: it exists. */
static bo_status read_template(bo_context *context, bo_chat_template *chat, const place *from, bool *found)
{
    char path[PATH_BYTES], *text;
    size_t length;
    *found = false;
    BO_TRY(read_part(context, from, "chat_template.jinja", path, &text, &length));
    if (!text) return BO_OK;
    *found = true;
    const bo_status status = set_text(context, chat, path, text, length);
    bo_free(text);
    return status;
}

/* chat_template.jinja has precedence, as in transformers. needed: no template was found or given. */
static bo_status read_files(bo_context *context, bo_chat_template *chat, const place *from, const char *name,
                            bool needed)
{
    bool found = false;
    if (needed && !name) BO_TRY(read_template(context, chat, from, &found));
    BO_TRY(read_config(context, chat, from, "tokenizer_config.json", needed && !found, name));
    return read_config(context, chat, from, "special_tokens_map.json", false, NULL);
}

static bo_status read_model(bo_context *context, bo_chat_template *chat, const char *path, const char *name,
                            bool needed)
{
    place from;
    BO_TRY(open_place(context, path, &from));
    const bo_status status = read_files(context, chat, &from, name, needed);
    bo_tensors_close(from.image);
    return status;
}

/* The directory of an adapter takes missing files from its base. */
static bo_status read_base(bo_context *context, bo_chat_template *chat, const char *directory, const char *name,
                           bool needed)
{
    char path[PATH_BYTES], *text;
    size_t length;
    bo_json *config;
    BO_TRY(read_part(context, &(place){.path = directory}, "adapter_config.json", path, &text, &length));
    if (!text) return BO_OK;
    bo_status status = parse_json(context, path, text, length, &config);
    bo_free(text);
    BO_TRY(status);
    const char *base = bo_json_text_or_null(bo_json_member(config, "base_model_name_or_path"));
    if (base && *base) status = read_model(context, chat, base, name, needed);
    if (status == BO_OK && needed && !chat->where && base && !exists(base))
        status = bo_fail(context, BO_IO,
                         "%s: no chat template, and its base %s is missing; set base_model_name_or_path in "
                         "adapter_config.json to its directory",
                         directory, base);
    bo_json_delete(config);
    return status;
}

static bo_status read_directory(bo_context *context, bo_chat_template *chat, const bo_chat_template_desc *desc)
{
    const bool given = desc->path || desc->text;
    BO_TRY(read_model(context, chat, desc->directory, desc->name, !given));
    BO_TRY(read_base(context, chat, desc->directory, desc->name, !given && !chat->where));
    if (chat->where || given) return BO_OK;
    return bo_fail(context, BO_IO,
                   "%s: no chat template (neither chat_template.jinja nor the member \"chat_template\" of "
                   "tokenizer_config.json)",
                   desc->directory);
}

static bo_status start(bo_context *context, bo_chat_template *chat)
{
    chat->arena.limit = (size_t)BO_JINJA_MEMORY;
    chat->tokens = bo_json_new(BO_JSON_OBJECT);
    return chat->tokens ? BO_OK : bo_fail(context, BO_MEMORY, "chat template: out of memory");
}

static bo_status fill(bo_context *context, bo_chat_template *chat, const bo_chat_template_desc *desc)
{
    BO_TRY(start(context, chat));
    if (desc->directory) BO_TRY(read_directory(context, chat, desc));
    if (desc->path) return set_file(context, chat, desc->path);
    return desc->text ? set_text(context, chat, NULL, desc->text, strlen(desc->text)) : BO_OK;
}

bo_status bo_chat_template_create(bo_context *context, const bo_chat_template_desc *desc, bo_chat_template **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_TRY(bo_check_reserved(context, "bo_chat_template_desc", desc->reserved));
    if (!desc->directory && !desc->path && !desc->text)
        return bo_fail(context, BO_INVALID, "chat template: expected a directory, a path or a text, found none");
    if (desc->path && desc->text)
        return bo_fail(context, BO_INVALID, "chat template: expected a path or a text, found both");
    bo_chat_template *chat = bo_alloc(context, 1, sizeof *chat, "a chat template");
    if (!chat) return BO_MEMORY;
    const bo_status status = fill(context, chat, desc);
    if (status == BO_OK)
        *out = chat;
    else
        bo_chat_template_destroy(chat);
    return status;
}

bo_status bo_chat_template_find(bo_context *context, bo_chat_files_find find, const void *files, bo_chat_template **out)
{
    *out = NULL;
    bo_chat_template *chat = bo_alloc(context, 1, sizeof *chat, "a chat template");
    if (!chat) return BO_MEMORY;
    bo_status status = start(context, chat);
    if (status == BO_OK)
        status = read_files(context, chat, &(place){.path = "model", .find = find, .files = files}, NULL, true);
    if (status == BO_OK && !chat->where)
        status = bo_fail(context, BO_INVALID, "the model has no chat template; specify one to reply to messages");
    if (status == BO_OK)
        *out = chat;
    else
        bo_chat_template_destroy(chat);
    return status;
}

void bo_chat_template_destroy(bo_chat_template *chat)
{
    if (!chat) return;
    bo_jinja_release(&chat->arena);
    bo_json_delete(chat->tokens);
    bo_free(chat->where);
    bo_free(chat);
}

const char *bo_chat_template_token(const bo_chat_template *chat, const char *name)
{
    return chat && name ? bo_json_text_or_null(bo_json_member(chat->tokens, name)) : NULL;
}

/* ---- rendering --------------------------------------------------------------------------------------------------- */

static bo_status check_message(bo_context *context, const bo_chat_message *message, size_t index)
{
    const char *const texts[2] = {message->role, message->content};
    BO_TRY(bo_check_reserved(context, "bo_chat_message", message->reserved));
    for (size_t i = 0; i < 2; i++) {
        const char *what = i == 0 ? "role" : "content";
        if (!texts[i]) return bo_fail(context, BO_INVALID, "message %zu: the %s is NULL", index, what);
        const size_t length = strlen(texts[i]), valid = bo_utf8_valid(texts[i], length);
        if (valid < length)
            return bo_fail(context, BO_FORMAT, "message %zu: byte %zu of the %s is not UTF-8", index, valid, what);
    }
    return BO_OK;
}

/* False: out of memory. The texts are not copied. */
static bool add_message(bo_json *list, const bo_chat_message *message)
{
    bo_json *item = bo_json_new(BO_JSON_OBJECT);
    bo_json *role = bo_json_new_text(message->role), *content = bo_json_new_text(message->content);
    if (item && role && bo_json_put(item, "role", role)) {
        role = NULL;
        if (content && bo_json_put(item, "content", content)) {
            content = NULL;
            if (bo_json_append(list, item)) return true;
        }
    }
    bo_json_delete(role);
    bo_json_delete(content);
    bo_json_delete(item);
    return false;
}

/* Adds the messages unless `variables` has them. */
static bo_status add_messages(bo_context *context, bo_json *variables, const bo_chat_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) BO_TRY(check_message(context, &messages[i], i));
    if (has_member(variables, "messages")) {
        if (count == 0) return BO_OK;
        return bo_fail(context, BO_INVALID, "chat template: messages are given twice, also in the variables");
    }
    bo_json *list = bo_json_put_new(variables, "messages", bo_json_new(BO_JSON_ARRAY));
    for (size_t i = 0; i < count && list; i++)
        if (!add_message(list, &messages[i])) list = NULL;
    return list ? BO_OK : bo_fail(context, BO_MEMORY, "chat template: out of memory");
}

/* The variables that transformers passes: an earlier one has precedence. */
static bo_status add_defaults(bo_context *context, bo_json *variables, const bo_chat_options *options)
{
    static const char *const none[] = {"tools", "documents"};
    bool added = has_member(variables, "add_generation_prompt") ||
                 bo_json_put_new(variables, "add_generation_prompt",
                                 bo_json_new(options->add_generation_prompt ? BO_JSON_TRUE : BO_JSON_FALSE));
    for (size_t i = 0; i < 2 && added; i++)
        added = has_member(variables, none[i]) || bo_json_put_new(variables, none[i], bo_json_new(BO_JSON_NULL));
    return added ? BO_OK : bo_fail(context, BO_MEMORY, "chat template: out of memory");
}

/* Moves the special tokens of the variables into `tokens`, and adds those of the template. */
static bo_status collect_tokens(bo_context *context, bo_json *variables, const bo_chat_template *chat, bo_json *tokens)
{
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; i++) {
        const char *name = token_names[i];
        const bo_json *default_token = bo_json_member(chat->tokens, name);
        const bool given = has_member(variables, name);
        if (!given && !default_token) continue;
        bo_json *token =
            given ? bo_json_detach(variables, bo_json_member(variables, name)) : bo_json_copy(default_token);
        if (token && bo_json_put(tokens, name, token)) continue;
        bo_json_delete(token);
        return bo_fail(context, BO_MEMORY, "chat template: out of memory");
    }
    return BO_OK;
}

static bo_status parse_variables(bo_context *context, const char *text, bo_json **out)
{
    static const char where[] = "variables of the chat template";
    *out = NULL;
    if (!text) {
        *out = bo_json_new(BO_JSON_OBJECT);
        return *out ? BO_OK : bo_fail(context, BO_MEMORY, "chat template: out of memory");
    }
    const size_t length = strlen(text), valid = bo_utf8_valid(text, length);
    if (valid < length) return bo_fail(context, BO_FORMAT, "%s: byte %zu is not UTF-8", where, valid);
    if (bo_json_has_nul(text, length)) return bo_fail(context, BO_FORMAT, "%s: a string contains a NUL", where);
    BO_TRY(bo_json_parse(context, where, text, length, MAX_DEPTH, out));
    if (bo_json_is(*out, BO_JSON_OBJECT)) return BO_OK;
    bo_json_delete(*out);
    *out = NULL;
    return bo_fail(context, BO_FORMAT, "%s: expected a JSON object", where);
}

/* `marks`: marks of the bytes that come from messages and variables; NULL: not requested. */
static bo_status render(bo_context *context, const bo_chat_template *chat, const bo_chat_message *messages,
                        size_t count, const bo_chat_options *options, char **text, size_t *bytes, unsigned char **marks)
{
    const bo_chat_options defaults = {0}, *o = options ? options : &defaults;
    bo_json *variables;
    BO_TRY(bo_check_reserved(context, "bo_chat_options", o->reserved));
    BO_TRY(parse_variables(context, o->variables, &variables));
    bo_json *tokens = bo_json_new(BO_JSON_OBJECT);
    const bo_jinja_render_desc desc = {
        .variables = variables, .trusted = tokens, .time = o->time ? o->time : (int64_t)time(NULL)};
    bo_status status = tokens ? BO_OK : bo_fail(context, BO_MEMORY, "chat template: out of memory");
    if (status == BO_OK) status = add_messages(context, variables, messages, count);
    if (status == BO_OK) status = add_defaults(context, variables, o);
    if (status == BO_OK) status = collect_tokens(context, variables, chat, tokens);
    if (status == BO_OK) status = bo_jinja_render(context, chat->where, chat->tree, &desc, text, bytes, marks);
    bo_json_delete(tokens);
    bo_json_delete(variables);
    return status;
}

bo_status bo_chat_render(bo_context *context, const bo_chat_template *chat, const bo_chat_message *messages,
                         size_t count, const bo_chat_options *options, char **text, size_t *bytes)
{
    if (text) *text = NULL;
    BO_REQUIRE(context, chat, text, bytes);
    BO_REQUIRE_IF(context, count > 0, messages);
    *bytes = 0;
    return render(context, chat, messages, count, options, text, bytes, NULL);
}

bo_status bo_chat_encode(bo_context *context, const bo_chat_template *chat, const bo_tokenizer *tokenizer,
                         const bo_chat_message *messages, size_t count, const bo_chat_options *options, bo_ids *out)
{
    BO_REQUIRE(context, chat, tokenizer, out);
    BO_REQUIRE_IF(context, count > 0, messages);
    const bool parses = options && options->parse_special;
    char *text;
    size_t bytes;
    unsigned char *marks = NULL;
    BO_TRY(render(context, chat, messages, count, options, &text, &bytes, parses ? NULL : &marks));
    const bo_status status = bo_tokenizer_encode_marked(context, tokenizer, text, bytes, marks, out);
    bo_free(marks);
    bo_free(text);
    return status;
}
