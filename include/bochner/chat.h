/** @file
 * Chat templates: the text that a chat model reads for a conversation.
 *
 *     bo_chat_template *chat;
 *     bo_chat_template_create(context, &(bo_chat_template_desc){.directory = "model"}, &chat);
 *     bo_chat_message messages[] = {{.role = "system", .content = "Be brief."}, {.role = "user", .content = "Hello"}};
 *     bo_ids ids = {0};
 *     bo_chat_encode(context, chat, tokenizer, messages, 2, &(bo_chat_options){.add_generation_prompt = true}, &ids);
 *     bo_chat_template_destroy(chat);
 *
 * A template is written in a subset of Jinja2 and renders the same text as `apply_chat_template` of Hugging Face's
 * `transformers`. docs/reference/chat-templates.md lists the subset. A construct outside the subset is refused with
 * BO_UNSUPPORTED; the message names the construct and its line.
 *
 * **Limits.** A template has at most 1 MiB. Rendering fails if it takes more than 2^25 steps or more than 256 MiB, so
 * that a hostile template cannot exhaust the host.
 */
#ifndef BOCHNER_CHAT_H
#define BOCHNER_CHAT_H

#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** A chat template with the special tokens of a tokenizer. Immutable; may be shared by threads. */
typedef struct bo_chat_template bo_chat_template;

/** Describes a template. One of `directory`, `path` and `text` is required. */
typedef struct bo_chat_template_desc {
    /** A model directory or file: the special tokens, and the template unless one is given below; or NULL. */
    const char *directory;
    const char *path;     /**< a file that contains a template; or NULL */
    const char *text;     /**< the text of a template; or NULL */
    const char *name;     /**< the name of the template, if the directory has several (default: "default"); or NULL */
    uint64_t reserved[4]; /**< must be zero */
} bo_chat_template_desc;

/** Creates a template.
 *
 * The template of a directory is the file chat_template.jinja, or the member `chat_template` of tokenizer_config.json:
 * a string, or a list of {"name", "template"}. The special tokens (bos_token, eos_token, …) come from
 * tokenizer_config.json and special_tokens_map.json. The directory of an adapter takes missing files from its base. A
 * model in one .safetensors file (bo_model_save()) has these files in its metadata.
 *
 * @param context    the context
 * @param desc       the template
 * @param[out] out   the template; release it with bo_chat_template_destroy()
 * @return BO_OK; BO_IO if there is no template or a file cannot be read; BO_FORMAT if a file or the template is
 *     malformed; BO_UNSUPPORTED if the template uses a construct outside the subset; BO_INVALID if `path` and `text`
 *     are both given
 */
BO_API bo_status bo_chat_template_create(bo_context *context, const bo_chat_template_desc *desc,
                                         bo_chat_template **out);

/** Destroys a template.
 *
 * @param chat   the object, or NULL
 */
BO_API void bo_chat_template_destroy(bo_chat_template *chat);

/** One message of a conversation. */
typedef struct bo_chat_message {
    const char *role;     /**< "system", "user", "assistant" or another role of the template; UTF-8 */
    const char *content;  /**< the text; UTF-8 */
    uint64_t reserved[2]; /**< must be zero */
} bo_chat_message;

/** How to render a conversation. Zero means the default. */
typedef struct bo_chat_options {
    bool add_generation_prompt; /**< the text ends with the start of a reply, which the model continues */
    /** Further variables of the template: the text of a JSON object such as {"enable_thinking": false, "tools": […]};
     * or NULL. `messages` is allowed if no messages are passed: use it for messages with more fields than a role and a
     * content. */
    const char *variables;
    int64_t time; /**< the time of strftime_now(), in seconds since 1970 (default: now) */
    /** bo_chat_encode(): texts of special tokens in messages and variables become these tokens (default: plain
     * text). */
    bool parse_special;
    uint64_t reserved[3]; /**< must be zero */
} bo_chat_options;

/** Renders a conversation.
 *
 * @param context      the context
 * @param chat         the template
 * @param messages     the messages in order
 * @param count        the number of messages
 * @param options      how to render; NULL: all defaults
 * @param[out] text    the text, followed by a NUL; release it with bo_free()
 * @param[out] bytes   the number of bytes without the NUL
 * @return BO_OK; BO_INVALID if the template refuses the conversation (raise_exception(), a missing variable, a wrong
 *     type) or exceeds a limit; BO_FORMAT if a message is not UTF-8 or `variables` is not a JSON object; BO_UNSUPPORTED
 *     if it uses a construct outside the subset. Error messages contain the line of the template
 */
BO_API bo_status bo_chat_render(bo_context *context, const bo_chat_template *chat, const bo_chat_message *messages,
                                size_t count, const bo_chat_options *options, char **text, size_t *bytes);

/** Renders a conversation and encodes it.
 *
 * The tokens encode the text of bo_chat_render(), with one exception: a special token is recognized only in the text of
 * the template. If its text comes from a message or another variable, such as a user who types "<|im_end|>", it is
 * encoded as plain text. Roles that consist of letters, digits, "_" and "-" count as text of the template, as do the
 * variables with the names of special tokens ("bos_token", "eos_token", …).
 *
 * @param context       the context
 * @param chat          the template
 * @param tokenizer     the tokenizer
 * @param messages      the messages in order
 * @param count         the number of messages
 * @param options       how to render; NULL: all defaults
 * @param[in,out] out   the list that the ids are appended to
 * @return as bo_chat_render() and bo_tokenizer_encode()
 */
BO_API bo_status bo_chat_encode(bo_context *context, const bo_chat_template *chat, const bo_tokenizer *tokenizer,
                                const bo_chat_message *messages, size_t count, const bo_chat_options *options,
                                bo_ids *out);

/* ==== Advanced ==================================================================================================== */

/** Returns the text of a special token.
 *
 * @param chat   the template
 * @param name   the name, such as "eos_token"
 * @return the text, owned by the template; NULL if the directory does not define it
 */
BO_API const char *bo_chat_template_token(const bo_chat_template *chat, const char *name);

#ifdef __cplusplus
}
#endif
#endif
