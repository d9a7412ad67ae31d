/* The conversation of a state. A template may add a system message, the end of an answer, or leave out earlier
 * thoughts, so that the text of new messages does not follow from them alone. Therefore a state keeps its messages and
 * a hash of its tokens: a continuation renders the whole conversation, and reads what follows the state if the state
 * has the first tokens of it. */
#ifndef BO_SERVE_CONVERSATION_H
#define BO_SERVE_CONVERSATION_H

#include "../io/checksum.h"
#include "../io/json.h"

/* The messages in the variables of a template, as the text of a JSON list; freed with bo_free. */
bo_status bo_conversation_find(bo_context *context, const char *variables, char **out);
/* BO_FORMAT unless a state's messages are a list that a request may have: UTF-8 without NUL, each an object of few
 * members with a role and one content of text. */
bo_status bo_conversation_check(bo_context *context, const char *messages);
/* Puts messages before those in the variables: *variables is replaced. BO_FORMAT as bo_conversation_check. */
bo_status bo_conversation_prepend(bo_context *context, const char *messages, char **variables);
/* The messages and an answer; freed with bo_free. */
bo_status bo_conversation_add(bo_context *context, const char *messages, const char *reply, size_t bytes, char **out);

/* A hash of tokens that does not depend on the machine. */
void bo_conversation_hash(bo_xxh64 *hash, const int32_t *ids, size_t count);

#endif
