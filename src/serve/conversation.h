/* The conversation of a state. A template may add a system message or the end of a reply, or omit earlier thoughts, so
 * the rendered text of new messages depends on the whole conversation. Therefore a state stores its messages and a hash
 * of its tokens. A continuation renders the whole conversation. If the tokens of the state are a prefix of it, only the
 * remaining tokens are read. */
#ifndef BO_SERVE_CONVERSATION_H
#define BO_SERVE_CONVERSATION_H

#include "../io/checksum.h"
#include "../io/json.h"

/* Returns the messages in the variables of a template as a JSON list; free with bo_free. */
bo_status bo_conversation_find(bo_context *context, const char *variables, char **out);
/* Returns BO_FORMAT unless the messages of a state are valid in a request: UTF-8 without NUL, each an object with few
 * members, a role and one text content. */
bo_status bo_conversation_check(bo_context *context, const char *messages);
/* Inserts messages before those in the variables and replaces *variables. BO_FORMAT as in bo_conversation_check. */
bo_status bo_conversation_prepend(bo_context *context, const char *messages, char **variables);
/* Appends a reply to the messages; free with bo_free. */
bo_status bo_conversation_add(bo_context *context, const char *messages, const char *reply, size_t bytes, char **out);

/* Adds tokens to a hash that is the same on all hosts. */
void bo_conversation_hash(bo_xxh64 *hash, const int32_t *ids, size_t count);

#endif
