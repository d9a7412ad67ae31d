/* Writes tokenizer.json with the order, fields and format of Hugging Face's `tokenizers`. */
#include "write.h"
#include "buffer.h"
#include "unicode.h"

#include <string.h>

unsigned char bo_learned_byte(const bo_learned *learned, size_t place)
{
    return learned->byte_order ? (unsigned char)place : bo_byte_level_byte(place);
}

/* The spelling of every token, each followed by a NUL. */
typedef struct bo_spelling {
    bo_buffer bytes;
    size_t *starts; /* by id */
} bo_spelling;

static const char *spelled(const bo_spelling *spelling, int32_t id)
{
    return spelling->bytes.bytes + spelling->starts[id];
}

static bo_status spell(bo_context *context, const bo_learned *learned, bo_spelling *spelling)
{
    size_t id = 0;
    bo_buffer *bytes = &spelling->bytes;
    for (size_t i = 0; i < learned->special_count; ++i) {
        spelling->starts[id++] = bytes->length;
        BO_TRY(bo_buffer_append(context, bytes, learned->special[i], strlen(learned->special[i]) + 1));
    }
    for (size_t place = 0; place < 256; ++place) {
        char symbol[BO_BYTE_LEVEL_SIZE + 1] = "";
        bo_byte_level_write(bo_learned_byte(learned, place), symbol);
        spelling->starts[id++] = bytes->length;
        BO_TRY(bo_buffer_append(context, bytes, symbol, strlen(symbol) + 1));
    }
    for (size_t m = 0; m < learned->merge_count; ++m) {
        spelling->starts[id++] = bytes->length;
        for (int side = 0; side < 2; ++side) {
            size_t from = spelling->starts[learned->merges[m][side]], length = strlen(bytes->bytes + from);
            /* reserved first, so that the copied text does not move */
            BO_TRY(bo_buffer_reserve(context, bytes, length + 1));
            BO_TRY(bo_buffer_append(context, bytes, bytes->bytes + from, length + (size_t)side));
        }
    }
    return BO_OK;
}

static void write_added(const bo_learned *learned, bo_json_text *text)
{
    bo_json_raw(text, "  \"added_tokens\": [");
    for (size_t i = 0; i < learned->special_count; ++i) {
        bo_json_raw(text, i ? ",\n    {\n      \"id\": " : "\n    {\n      \"id\": ");
        bo_json_whole(text, i);
        bo_json_raw(text, ",\n      \"content\": ");
        bo_json_string(text, learned->special[i]);
        bo_json_raw(text, ",\n      \"single_word\": false,\n      \"lstrip\": false,\n      \"rstrip\": false,\n"
                          "      \"normalized\": false,\n      \"special\": true\n    }");
    }
    bo_json_raw(text, learned->special_count ? "\n  ],\n" : "],\n");
}

static void write_byte_level(bo_json_text *text, const char *indent, bool expression)
{
    static const char *const lines[] = {"{", "  \"type\": \"ByteLevel\",", "  \"add_prefix_space\": false,",
                                        "  \"trim_offsets\": true,"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
        bo_json_raw(text, lines[i]);
        bo_json_raw(text, "\n");
        bo_json_raw(text, indent);
    }
    bo_json_raw(text, expression ? "  \"use_regex\": true\n" : "  \"use_regex\": false\n");
    bo_json_raw(text, indent);
    bo_json_raw(text, "}");
}

static void write_splitter(const bo_learned *learned, bo_json_text *text)
{
    const bool custom = learned->pattern && *learned->pattern;
    bo_json_raw(text, "  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    if (custom) {
        bo_json_raw(text,
                    "{\n    \"type\": \"Sequence\",\n    \"pretokenizers\": [\n      {\n        \"type\": \"Split\",\n"
                    "        \"pattern\": {\n          \"Regex\": ");
        bo_json_string(text, learned->pattern);
        bo_json_raw(text,
                    "\n        },\n        \"behavior\": \"Isolated\",\n        \"invert\": false\n      },\n      ");
        write_byte_level(text, "      ", false);
        bo_json_raw(text, "\n    ]\n  }");
    } else {
        write_byte_level(text, "  ", !learned->pattern);
    }
    bo_json_raw(text, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    write_byte_level(text, "  ", true);
    bo_json_raw(text, ",\n");
}

static void write_model(const bo_learned *learned, const bo_spelling *spelling, bo_json_text *text)
{
    const size_t count = learned->special_count + 256 + learned->merge_count;
    bo_json_raw(text, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
                      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                      "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                      "    \"vocab\": {");
    for (size_t id = 0; id < count; ++id) {
        bo_json_raw(text, id ? ",\n      " : "\n      ");
        bo_json_string(text, spelled(spelling, (int32_t)id));
        bo_json_raw(text, ": ");
        bo_json_whole(text, id);
    }
    bo_json_raw(text, "\n    },\n    \"merges\": [");
    for (size_t m = 0; m < learned->merge_count; ++m) {
        bo_json_raw(text, m ? ",\n      [\n        " : "\n      [\n        ");
        bo_json_string(text, spelled(spelling, learned->merges[m][0]));
        bo_json_raw(text, ",\n        ");
        bo_json_string(text, spelled(spelling, learned->merges[m][1]));
        bo_json_raw(text, "\n      ]");
    }
    bo_json_raw(text, learned->merge_count ? "\n    ]\n  }\n}" : "]\n  }\n}");
}

bo_status bo_tokenizer_write(bo_context *context, const bo_learned *learned, bo_json_text *text)
{
    *text = (bo_json_text){.context = context};
    bo_spelling spelling = {.starts = bo_alloc(context, learned->special_count + 256 + learned->merge_count,
                                               sizeof *spelling.starts, "the texts of tokens")};
    bo_status status = spelling.starts ? spell(context, learned, &spelling) : BO_MEMORY;
    if (status == BO_OK) {
        bo_json_raw(text, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
        write_added(learned, text);
        write_splitter(learned, text);
        write_model(learned, &spelling, text);
        if (text->failed) status = BO_MEMORY;
    }
    bo_buffer_free(&spelling.bytes);
    bo_free(spelling.starts);
    return status;
}
