/* A conversation with a model: messages, the tokens that the model has read, and the file format. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "../common/cli.h"
#include "../generate/sampling.h"

/* Messages. The struct owns the texts. */
typedef struct cli_messages {
    bo_chat_message *items;
    size_t count, capacity;
} cli_messages;

/* Copies the texts. Bytes of the content that are not UTF-8, and NUL, become the replacement character. */
void cli_messages_add(cli_messages *messages, const char *role, const char *content, size_t bytes);
void cli_messages_drop(cli_messages *messages, size_t first, size_t count);
void cli_messages_free(cli_messages *messages);

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* A saved conversation. */
typedef struct cli_chat_file {
    cli_messages messages;
    bo_ids ids;     /* the tokens that the session has read */
    uint64_t drawn; /* random numbers that the sampler has drawn */
    void *state;    /* the bytes of bo_session_save(); freed with bo_free */
    size_t state_bytes;
} cli_chat_file;

bo_status cli_chat_file_save(bo_context *context, const char *path, const cli_chat_file *file);
/* False: the bytes are not a saved conversation; `why` contains the reason. */
bool cli_chat_file_parse(bo_context *context, const void *bytes, size_t size, cli_chat_file *out, char why[256]);
void cli_chat_file_free(cli_chat_file *file);

/* ---- the conversation -------------------------------------------------------------------------------------------- */

typedef struct cli_chat_options {
    cli_given was_given;
    const char *system, *state, *template, *variables;
    cli_list stops;
    size_t tokens, context;
    bool drop_oldest, render, parse_special;
    cli_sampling_options sampling;
    bo_storage weights;
    const char *device;
    bo_precision precision;
} cli_chat_options;

/* Invariant: `read` contains the tokens of the session, unless the session is broken (a call failed) and must be
 * reset. */
typedef struct cli_chat_job {
    cli_session *session;
    const cli_chat_options *options;
    const char *directory;
    bo_model *model;
    const bo_tokenizer *tokenizer;
    bo_chat_template *chat;
    bo_session *reader;
    bo_ids read;
    int32_t eos; /* the tokenizer's end-of-turn token; -1: none. The end tokens of the model end a turn as well */
    cli_messages messages;
    uint64_t drawn;
    bool broken, extrapolates, reread_reported;
} cli_chat_job;

/* A reply of the model. */
typedef struct cli_chat_reply {
    char *text; /* freed with free */
    size_t length, capacity;
    size_t prompt_tokens, tokens; /* prompt_tokens: of the whole conversation; tokens: of the reply */
    double prompt_seconds, seconds;
    const char *reason; /* "end", "stop", "length", "context" or "interrupt" */
} cli_chat_reply;

typedef enum cli_chat_outcome {
    CLI_CHAT_REPLIED,
    CLI_CHAT_REFUSED, /* after a message; the conversation is unchanged */
    CLI_CHAT_STOPPED  /* on request, before a reply started; the conversation is unchanged */
} cli_chat_outcome;

/* Adds a message of the user and the reply, which is printed to `out` (NULL: not printed) while it is generated. */
cli_chat_outcome cli_chat_send(cli_chat_job *job, const char *content, FILE *out, cli_chat_reply *reply);
/* Drops the conversation except the system message. */
bool cli_chat_reset(cli_chat_job *job);
/* False after an error message. */
bool cli_chat_save(cli_chat_job *job);
bool cli_chat_open(cli_chat_job *job);
void cli_chat_close(cli_chat_job *job);

/* Prints the texts of the conversations on standard input, one per line. */
int cli_chat_render(cli_chat_job *job);

#endif
