/* JSON lines: documents, or an error that names the line. */
#include "fuzz.h"
#include "text/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    char path[] = "fuzz.jsonl", *paths[] = {path}, *unescaped[] = {NULL};
    bo_mapping mapping = {.data = size ? (const char *)data : "", .size = size};
    bo_documents documents = {.paths = paths, .mappings = &mapping, .unescaped = unescaped, .file_count = 1};
    size_t bytes = 0;
    if (fuzz_ok(context, bo_json_lines_read(context, &documents, 0, "text"))) {
        for (size_t i = 0; i < documents.count; ++i) {
            if (memchr(documents.items[i].text, 0, documents.items[i].length)) abort();
            bytes += documents.items[i].length;
        }
        if (bytes != documents.bytes || bytes > size) abort();
    } else if (!strstr(bo_context_error(context), "fuzz.jsonl, line ")) {
        abort();
    }
    bo_free(unescaped[0]);
    bo_free(documents.items);
    return 0;
}
