/* Lines of labels and texts: the first byte selects the kind. The result is valid examples, or an error that names the
 * line. */
#include "fuzz.h"
#include "text/lines.h"
#include "text/unicode.h"

static void check_line(const bo_lines *lines, const bo_line *line, bool labeled)
{
    if (labeled ? line->label < 0 || (size_t)line->label >= lines->classes.count : line->label != -1) abort();
    for (size_t side = 0; side < lines->sides; ++side) {
        const char *text = line->text[side];
        const size_t bytes = line->bytes[side];
        if (bytes == 0 || bo_utf8_valid(text, bytes) < bytes || memchr(text, 0, bytes) || memchr(text, '\n', bytes))
            abort();
        if (memchr(text, '\t', bytes)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    bo_context *context = fuzz_context();
    const bo_texts_kind kind = (bo_texts_kind)(data[0] % BO_TEXTS_KIND_COUNT);
    char path[] = "fuzz.tsv", *paths[] = {path};
    bo_mapping mapping = {.data = size > 1 ? (const char *)data + 1 : "", .size = size - 1};
    bo_lines lines = {.paths = paths, .mappings = &mapping, .file_count = 1};
    const bool closed = data[0] & 0x80;
    if (closed && !fuzz_ok(context, bo_categories_add_label(context, &lines.classes, "a"))) abort();
    if (fuzz_ok(context, bo_lines_read(context, &lines, 0, kind, closed))) {
        const bool labeled = kind == BO_TEXTS_LABELED || kind == BO_TEXTS_LABELED_PAIR;
        for (size_t i = 0; i < lines.count; ++i) {
            if (lines.items[i].number != i + 1) abort();
            check_line(&lines, &lines.items[i], labeled);
        }
    } else if (!strstr(bo_context_error(context), "fuzz.tsv, line ")) {
        abort();
    }
    bo_free(lines.items);
    bo_categories_free(&lines.classes);
    return 0;
}
