/* A malicious chat template: parsed and rendered, or refused with a message, within its limits. */
#include "fuzz.h"
#include "text/jinja.h"
#include "io/json.h"

static const char VARIABLES[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" Be \\n brief \"}, {\"role\": \"user\", \"content\": "
    "\"na\xc3\xafve, \xe6\x9d\xb1\"}, {\"role\": \"assistant\", \"content\": \"<think>a</think>b\"}], "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"tools\": null, \"n\": 3, "
    "\"f\": 2.5, \"xs\": [1, \"a\", null, true], \"d\": {\"a\": 1, \"b\": {\"c\": [2.5]}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX_WORK = 1 << 14 };
    bo_context *context = fuzz_context();
    static bo_json *variables;
    bo_jinja_arena arena = {.context = context, .limit = 1 << 24};
    bo_jinja_node *tree;
    char *text;
    size_t bytes;
    unsigned char *marks;
    if (!variables && bo_json_parse(context, "fuzz", VARIABLES, sizeof VARIABLES - 1, 16, &variables) != BO_OK) abort();
    for (size_t at = 0, character; at < size; at += character) { /* bo_chat_template_create refuses such texts before */
        character = bo_utf8_length((const char *)data + at, size - at);
        if (character == 0 || data[at] == 0) return 0;
    }
    const bo_jinja_render_desc desc = {.variables = variables, .max_work = MAX_WORK, .time = 1700000000};
    if (fuzz_ok(context, bo_jinja_parse(&arena, "fuzz", (const char *)data, size, &tree)) &&
        fuzz_ok(context, bo_jinja_render(context, "fuzz", tree, &desc, &text, &bytes, &marks))) {
        for (size_t at = 0, character; at < bytes; at += character) { /* templates do not split characters */
            character = bo_utf8_length(text + at, bytes - at);
            if (character == 0 || text[at] == 0) abort();
        }
        if (text[bytes] != 0) abort();
        for (size_t at = 0; at <= bytes; at++)
            if (marks[at] > (at < bytes)) abort();
        bo_free(marks);
        bo_free(text);
    }
    bo_jinja_release(&arena);
    return 0;
}
