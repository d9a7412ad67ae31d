/* A malicious file of bochner chat --state: read or refused with a reason. The state of the session is fuzzed by
 * fuzz_session.c; here an invalid one is refused, after the messages and tokens before it were read. */
#include "fuzz.h"
#include "cli/chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[256] = "";
    cli_chat_file file;
    if (!cli_chat_file_parse(fuzz_context(), data, size, &file, why)) {
        if (!*why) abort();
    } else if (!file.state || file.state_bytes > size) {
        abort();
    }
    for (size_t i = 0; i < file.messages.count; i++)
        if (!file.messages.items[i].role || !file.messages.items[i].content) abort();
    cli_chat_file_free(&file);
    return 0;
}
