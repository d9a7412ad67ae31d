/* bochner chat --render: prints conversations as rendered by a chat template. */
#include "chat.h"
#include "../common/json.h"
#include "../../src/io/json_tree.h"
#include <stdlib.h>
#include <string.h>

/* Parses a list of messages, or an object of variables with the messages, and adds the variables of the command line.
 * NULL: the line is invalid. */
static char *variables_of(const cli_chat_job *job, const char *line)
{
    bo_json *json = bo_json_read_all(line), *all = bo_json_is(json, BO_JSON_ARRAY) ? bo_json_new(BO_JSON_OBJECT) : json,
            *rest, *item;
    if (bo_json_is(json, BO_JSON_ARRAY)) bo_json_put(all, "messages", json);
    rest = bo_json_is(all, BO_JSON_OBJECT) && job->options->variables
               ? bo_json_read(job->options->variables, strlen(job->options->variables), NULL)
               : NULL;
    while (bo_json_is(rest, BO_JSON_OBJECT) && (item = rest->child) != NULL) {
        bo_json_detach(rest, item);
        if (bo_json_member(all, item->key))
            bo_json_delete(item);
        else
            bo_json_put(all, item->key, item);
    }
    char *text = bo_json_is(all, BO_JSON_OBJECT) ? bo_json_print(all) : NULL;
    bo_json_delete(rest);
    bo_json_delete(all);
    return text;
}

/* One conversation. False: it was refused. */
static bool render(cli_chat_job *job, const char *line, size_t length, size_t number)
{
    bo_context *context = job->session->context;
    const bool nul = cli_json_has_nul(line, length); /* bo_json would truncate the text there */
    char *variables = nul ? NULL : variables_of(job, line), *text = NULL;
    size_t bytes = 0;
    bool done = variables != NULL;
    const char *why = nul ? "a text contains NUL, which is not supported in messages"
                          : "expected a JSON list of messages, or an object with messages";
    if (done) {
        const bo_chat_options options = {.add_generation_prompt = true, .variables = variables};
        done = bo_chat_render(context, job->chat, NULL, 0, &options, &text, &bytes) == BO_OK;
        if (!done) why = bo_context_error(context);
    }
    if (job->session->common.json) {
        cli_json json = {.out = stdout, .line = true};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, done ? "text" : "error", done ? text : why);
        cli_json_end(&json);
    } else if (done) {
        fwrite(text, 1, bytes, stdout);
        putchar('\n');
    }
    if (!done) cli_fail(job->session, "line %zu of standard input: %s", number, why);
    free(variables);
    bo_free(text);
    return done;
}

int cli_chat_render(cli_chat_job *job)
{
    enum { MAX_BYTES = 1 << 28 };
    void *input;
    size_t size, number = 1;
    const bo_status status = bo_file_load(job->session->context, "-", MAX_BYTES, &input, &size);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    bool done = true;
    for (char *line = input, *end; line < (char *)input + size && !cli_interrupted(); line = end + 1, number++) {
        end = memchr(line, '\n', size - (size_t)(line - (char *)input));
        if (!end) end = (char *)input + size;
        *end = 0;
        if (line + strspn(line, " \t\r") < end) done = render(job, line, (size_t)(end - line), number) && done;
    }
    bo_free(input);
    return done ? CLI_DONE : CLI_FAILED;
}
