/* tokenizer.json and tokenizer_config.json of a vocabulary, as Hugging Face's conversions write them. */
#include "import.h"
#include <string.h>
#include "../text/vocabulary.h"

#define GPT2_REGEX "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+"
#define NEWER_REGEX(digits)                                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits                                     \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define CASED_REGEX(tail, digits)                                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{"  \
    "M}]+" tail "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}"    \
    "\\\\p{Lo}\\\\p{M}]*" tail "|" digits                                                                              \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
/* Character classes of DeepSeek: Chinese, Japanese and Korean, and scripts with upper and lower case. */
#define HAN "[一-龥ࠀ-一가-퟿]+"
#define CASED_RUN                                                                                                      \
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-" \
    "ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
#define SPLIT(regex)                                                                                                   \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, \"behavior\": \"Isolated\", \"invert\": false}"
#define BYTES(regex)                                                                                                   \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": " regex "}"
#define SEQUENCE(parts) "{\"type\": \"Sequence\", \"pretokenizers\": [" parts "]}"
#define DIGITS          "{\"type\": \"Digits\", \"individual_digits\": true}"

/* Pre-tokenizers by their names in "tokenizer.ggml.pre", which identify the tokenizer.json of the original model. */
static const struct {
    const char *names; /* separated by spaces */
    const char *json;
    bool ignore_merges, nfc;
} pre_tokenizers[] = {
    {"gpt-2 phi-2 olmo mpt jais gigachat modern-bert jina-es jina-de trillion granite-docling", BYTES("true"), false,
     false},
    {"llama-bpe llama3 llama-v3 falcon3 pixtral lfm2",
     SEQUENCE(SPLIT(NEWER_REGEX("\\\\p{N}{1,3}")) ", " BYTES("false")), true, false},
    {"chatglm-bpe glm4 smaug-bpe dbrx", SEQUENCE(SPLIT(NEWER_REGEX("\\\\p{N}{1,3}")) ", " BYTES("false")), false,
     false},
    {"qwen2 deepseek-r1-qwen", SEQUENCE(SPLIT(NEWER_REGEX("\\\\p{N}")) ", " BYTES("false")), false, true},
    {"stablelm2 stablelm hunyuan grok-2", SEQUENCE(SPLIT(NEWER_REGEX("\\\\p{N}")) ", " BYTES("false")), false, false},
    {"smollm starcoder refact codeshell exaone minerva-7b", SEQUENCE(DIGITS ", " BYTES("true")), false, false},
    {"command-r", SEQUENCE(DIGITS ", " BYTES("true")), false, true},
    {"tekken", SEQUENCE(SPLIT(CASED_REGEX("", "\\\\p{N}")) ", " BYTES("false")), true, false},
    {"gpt-4o llama4",
     SEQUENCE(SPLIT(CASED_REGEX("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\\\p{N}{1,3}")) ", " BYTES("false")), false, false},
    {"deepseek-coder",
     SEQUENCE(SPLIT("[\\\\r\\\\n]") ", " SPLIT("\\\\s?\\\\p{L}+") ", " SPLIT("\\\\s?\\\\p{P}+") ", " SPLIT(
         HAN) ", " DIGITS ", " BYTES("false")),
     false, false},
    {"deepseek-llm",
     SEQUENCE(SPLIT("[\\\\r\\\\n]") ", " SPLIT("\\\\s?" CASED_RUN) ", " SPLIT(
         "\\\\s?[!-/:-~！-／：-～‘-‟　-。]+") ", " SPLIT("\\\\s+$") ", " SPLIT(HAN) ", " DIGITS ", " BYTES("false")),
     false, false},
    {"default",
     SEQUENCE(SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") ", " SPLIT(GPT2_REGEX) ", " SPLIT("\\\\p{N}+") ", " SPLIT(
         "[0-9][0-9][0-9]") ", " BYTES("false")),
     false, false},
};

enum { PRE_TOKENIZERS = sizeof pre_tokenizers / sizeof *pre_tokenizers };

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at++)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return true;
    return false;
}

static bo_status find_pre(bo_context *context, const bo_import_vocab *vocab, size_t *out)
{
    bo_json_text names = {.context = context};
    for (size_t i = 0; i < PRE_TOKENIZERS; i++)
        if (*vocab->pre && has_word(pre_tokenizers[i].names, vocab->pre)) {
            *out = i;
            return BO_OK;
        }
    for (size_t i = 0; i < PRE_TOKENIZERS; i++) {
        bo_json_raw(&names, i ? " " : "");
        bo_json_raw(&names, pre_tokenizers[i].names);
    }
    const bo_status status =
        names.failed
            ? BO_MEMORY
            : bo_fail(context, BO_UNSUPPORTED,
                      "%s: tokenizer.ggml.pre: the pre-tokenizer '%.60s' is not supported; expected one of: %s",
                      vocab->where, vocab->pre, names.bytes);
    bo_free(names.bytes);
    return status;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static bool is_added(const bo_import_vocab *vocab, size_t index)
{
    const unsigned char kind = vocab->kinds[index];
    return kind == BO_TOKEN_CONTROL || kind == BO_TOKEN_USER || kind == BO_TOKEN_UNKNOWN;
}

/* A user token with a space is found after the normalizer replaced spaces. */
static bool is_normalized(const bo_import_vocab *vocab, size_t index)
{
    return vocab->kinds[index] == BO_TOKEN_USER && vocab->scores && !vocab->space_prefix &&
           strstr(vocab->tokens[index], "\xE2\x96\x81");
}

static void write_added(bo_json_text *text, const bo_import_vocab *vocab)
{
    const char *separator = "";
    bo_json_raw(text, "  \"added_tokens\": [");
    for (size_t i = 0; i < vocab->count; i++) {
        if (!is_added(vocab, i)) continue;
        bo_json_raw(text, separator);
        bo_json_raw(text, "\n    {\"id\": ");
        bo_json_whole(text, i);
        bo_json_raw(text, ", \"content\": ");
        bo_json_string(text, vocab->tokens[i]);
        bo_json_raw(text, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": ");
        bo_json_raw(text, is_normalized(vocab, i) ? "true" : "false");
        bo_json_raw(text, ", \"special\": ");
        bo_json_raw(text, vocab->kinds[i] == BO_TOKEN_USER ? "false}" : "true}");
        separator = ",";
    }
    bo_json_raw(text, "\n  ],\n");
}

static void write_special(bo_json_text *text, const bo_import_vocab *vocab, int64_t id)
{
    bo_json_raw(text, "{\"SpecialToken\": {\"id\": ");
    bo_json_string(text, vocab->tokens[id]);
    bo_json_raw(text, ", \"type_id\": 0}}");
}

static void write_template(bo_json_text *text, const bo_import_vocab *vocab, bool pair)
{
    static const char *const sequences[] = {"{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}",
                                            "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}"};
    bo_json_raw(text, "[");
    for (int i = 0; i <= (int)pair; i++) {
        if (i) bo_json_raw(text, ", ");
        if (vocab->add_bos) {
            write_special(text, vocab, vocab->bos);
            bo_json_raw(text, ", ");
        }
        bo_json_raw(text, sequences[i]);
        if (!vocab->add_eos) continue;
        bo_json_raw(text, ", ");
        write_special(text, vocab, vocab->eos);
    }
    bo_json_raw(text, "]");
}

static void write_template_token(bo_json_text *text, const bo_import_vocab *vocab, int64_t id)
{
    bo_json_string(text, vocab->tokens[id]);
    bo_json_raw(text, ": {\"id\": ");
    bo_json_string(text, vocab->tokens[id]);
    bo_json_raw(text, ", \"ids\": [");
    bo_json_whole(text, (uint64_t)id);
    bo_json_raw(text, "], \"tokens\": [");
    bo_json_string(text, vocab->tokens[id]);
    bo_json_raw(text, "]}");
}

static void write_processor(bo_json_text *text, const bo_import_vocab *vocab)
{
    bo_json_raw(text, "  \"post_processor\": ");
    if (!vocab->add_bos && !vocab->add_eos) {
        bo_json_raw(text, vocab->scores ? "null" : BYTES("true"));
        bo_json_raw(text, ",\n");
        return;
    }
    bo_json_raw(text, "{\n    \"type\": \"TemplateProcessing\",\n    \"single\": ");
    write_template(text, vocab, false);
    bo_json_raw(text, ",\n    \"pair\": ");
    write_template(text, vocab, true);
    bo_json_raw(text, ",\n    \"special_tokens\": {");
    if (vocab->add_bos) write_template_token(text, vocab, vocab->bos);
    if (vocab->add_bos && vocab->add_eos && vocab->bos != vocab->eos) bo_json_raw(text, ", ");
    if (vocab->add_eos && !(vocab->add_bos && vocab->bos == vocab->eos)) write_template_token(text, vocab, vocab->eos);
    bo_json_raw(text, "}\n  },\n");
}

static void write_vocab(bo_json_text *text, const bo_import_vocab *vocab)
{
    bo_json_raw(text, "    \"vocab\": {");
    for (size_t i = 0; i < vocab->count; i++) {
        bo_json_raw(text, i ? ",\n      " : "\n      ");
        bo_json_string(text, vocab->tokens[i]);
        bo_json_raw(text, ": ");
        bo_json_whole(text, i);
    }
    bo_json_raw(text, "\n    },\n");
}

/* Two tokens with the same text would be one member of the JSON object. */
static bo_status check_distinct(bo_context *context, const bo_import_vocab *vocab)
{
    bo_spellings strings = {0};
    bo_lookup lookup = {0};
    size_t bytes = 0;
    int32_t same = -1;
    size_t i = 0;
    for (size_t k = 0; k < vocab->count; k++) bytes += strlen(vocab->tokens[k]);
    bo_status status = bo_spellings_create(context, vocab->count, bytes, &strings);
    if (status == BO_OK) status = bo_lookup_create(context, vocab->count, &lookup);
    for (; status == BO_OK && same < 0 && i < vocab->count; i++) {
        bo_spellings_add(&strings, vocab->tokens[i], strlen(vocab->tokens[i]));
        same = bo_lookup_add(&lookup, &strings, (int32_t)i);
    }
    bo_spellings_free(&strings);
    bo_free(lookup.slots);
    if (same < 0) return status;
    return bo_fail(context, BO_FORMAT, "%s: tokens %d and %zu have the same text '%.60s'", vocab->where, (int)same,
                   i - 1, vocab->tokens[same]);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static bool falls_back(const bo_import_vocab *vocab)
{
    size_t bytes = 0;
    for (size_t i = 0; i < vocab->count; i++) bytes += vocab->kinds[i] == BO_TOKEN_BYTE;
    return bytes == 256;
}

static bo_status write_pieces(bo_context *context, bo_json_text *text, const bo_import_vocab *vocab)
{
    bo_piece_merge *merges;
    size_t count;
    BO_TRY(bo_import_merges(context, vocab, &merges, &count));
    bo_json_raw(text, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    if (vocab->space_prefix) bo_json_raw(text, "{\"type\": \"Prepend\", \"prepend\": \"▁\"}, ");
    bo_json_raw(text, "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}]},\n"
                      "  \"pre_tokenizer\": null,\n");
    write_processor(text, vocab);
    bo_json_raw(
        text,
        "  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "
        "\"▁\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}");
    if (vocab->space_prefix)
        bo_json_raw(text, ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
    bo_json_raw(text, "]},\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": ");
    if (vocab->unk == BO_TOKEN_NONE)
        bo_json_raw(text, "null");
    else
        bo_json_string(text, vocab->tokens[vocab->unk]);
    bo_json_raw(text, ",\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                      "    \"fuse_unk\": true,\n    \"byte_fallback\": ");
    bo_json_raw(text, falls_back(vocab) ? "true" : "false");
    bo_json_raw(text, ",\n    \"ignore_merges\": false,\n");
    write_vocab(text, vocab);
    bo_json_raw(text, "    \"merges\": [");
    for (size_t i = 0; i < count; i++) {
        bo_json_raw(text, i ? ",\n      [" : "\n      [");
        bo_json_string(text, vocab->tokens[merges[i].left]);
        bo_json_raw(text, ", ");
        bo_json_string(text, vocab->tokens[merges[i].right]);
        bo_json_raw(text, "]");
    }
    bo_json_raw(text, "\n    ]\n  }\n}\n");
    bo_free(merges);
    return BO_OK;
}

/* A merge is "left right". The parts cannot contain a space, which byte-level vocabularies replace by another
 * character. */
static bo_status write_merge(bo_context *context, bo_json_text *text, const bo_import_vocab *vocab, size_t number,
                             const char *merge, size_t length)
{
    char parts[2 * BO_TOKEN_BYTES + 2];
    char *space = NULL;
    if (length < sizeof parts) {
        memcpy(parts, merge, length);
        parts[length] = 0;
        space = strchr(parts, ' ');
    }
    if (!space || space == parts || !space[1] || strchr(space + 1, ' ') || strlen(parts) != length)
        return bo_fail(context, BO_FORMAT, "%s: merge %zu: expected two tokens with a space between them, found '%.*s'",
                       vocab->where, number, (int)bo_min(length, 60), merge);
    *space = 0;
    bo_json_raw(text, number ? ",\n      [" : "\n      [");
    bo_json_string(text, parts);
    bo_json_raw(text, ", ");
    bo_json_string(text, space + 1);
    bo_json_raw(text, "]");
    return BO_OK;
}

static bo_status write_bytes(bo_context *context, bo_json_text *text, const bo_import_vocab *vocab)
{
    size_t pre = 0, at = 0, length;
    const char *merge;
    BO_TRY(find_pre(context, vocab, &pre));
    bo_json_raw(text, "  \"normalizer\": ");
    bo_json_raw(text, pre_tokenizers[pre].nfc ? "{\"type\": \"NFC\"}" : "null");
    bo_json_raw(text, ",\n  \"pre_tokenizer\": ");
    bo_json_raw(text, pre_tokenizers[pre].json);
    bo_json_raw(text, ",\n");
    write_processor(text, vocab);
    bo_json_raw(
        text, "  \"decoder\": " BYTES(
                  "true") ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                          "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                          "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n"
                          "    \"ignore_merges\": ");
    bo_json_raw(text, pre_tokenizers[pre].ignore_merges ? "true,\n" : "false,\n");
    write_vocab(text, vocab);
    bo_json_raw(text, "    \"merges\": [");
    for (size_t i = 0; bo_gguf_next_text(vocab->merges, &at, &merge, &length); i++)
        BO_TRY(write_merge(context, text, vocab, i, merge, length));
    bo_json_raw(text, "\n    ]\n  }\n}\n");
    return BO_OK;
}

/* ---- tokenizer_config.json --------------------------------------------------------------------------------------- */

static void write_token(bo_json_text *text, const bo_import_vocab *vocab, const char *name, int64_t id)
{
    if (id == BO_TOKEN_NONE) return;
    bo_json_raw(text, ",\n  \"");
    bo_json_raw(text, name);
    bo_json_raw(text, "\": ");
    bo_json_string(text, vocab->tokens[id]);
}

static void write_config(bo_json_text *text, const bo_import_vocab *vocab, size_t max_tokens)
{
    bo_json_raw(text, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"add_bos_token\": ");
    bo_json_raw(text, vocab->add_bos ? "true" : "false");
    bo_json_raw(text, ",\n  \"add_eos_token\": ");
    bo_json_raw(text, vocab->add_eos ? "true" : "false");
    bo_json_raw(text, ",\n  \"clean_up_tokenization_spaces\": false,\n  \"model_max_length\": ");
    bo_json_whole(text, max_tokens);
    write_token(text, vocab, "bos_token", vocab->bos);
    write_token(text, vocab, "eos_token", vocab->eos);
    write_token(text, vocab, "unk_token", vocab->unk);
    write_token(text, vocab, "pad_token", vocab->pad);
    if (vocab->chat_template) {
        bo_json_raw(text, ",\n  \"chat_template\": ");
        bo_json_string(text, vocab->chat_template);
    }
    bo_json_raw(text, "\n}\n");
}

bo_status bo_import_tokenizer(bo_context *context, const bo_import_vocab *vocab, size_t max_tokens,
                              bo_json_text *tokenizer, bo_json_text *config)
{
    BO_TRY(check_distinct(context, vocab));
    tokenizer->context = config->context = context;
    bo_json_raw(tokenizer, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    write_added(tokenizer, vocab);
    BO_TRY((vocab->scores ? write_pieces : write_bytes)(context, tokenizer, vocab));
    write_config(config, vocab, max_tokens);
    return tokenizer->failed || config->failed ? BO_MEMORY : BO_OK;
}
