/* Parts of a tokenizer.json: normalizers, pre-tokenizers, decoders, templates, fallback; and inconsistent files. */
#include "text/facts.h"
#include "texts.h"

/* A tokenizer with these words (separated by |): each word is one token, and other text becomes "?". */
static bo_tokenizer *word_tokenizer(bo_context *context, const char *normalizer, const char *splitter,
                                    const char *words)
{
    char json[4096], vocab[2048] = "\"?\": 0", copy[1024], *rest;
    snprintf(copy, sizeof copy, "%s", words);
    size_t id = 1;
    for (char *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
        char entry[128], quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", word);
        if (strstr(vocab, quoted)) continue;
        snprintf(entry, sizeof entry, ", %s: %zu", quoted, id++);
        strcat(vocab, entry);
    }
    snprintf(
        json, sizeof json,
        "{\"normalizer\": %s, \"pre_tokenizer\": %s, \"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"BPE\", "
        "\"unk_token\": \"?\", \"fuse_unk\": true, \"ignore_merges\": true, \"vocab\": {%s}, \"merges\": []}}",
        normalizer, splitter, vocab);
    return test_parse(context, json);
}

static void expect_words(test_directory *f, const char *normalizer, const char *splitter, const char *text,
                         const char *expected)
{
    bo_tokenizer *tokenizer = word_tokenizer(f->context, normalizer, splitter, expected);
    expect_pieces(f->context, tokenizer, text, expected);
    bo_tokenizer_destroy(tokenizer);
}

/* The example of Hugging Face's documentation. */
static void test_behaviors(void **state)
{
    test_directory *f = *state;
    static const char *const cases[][2] = {
        {"Removed", "the|final|countdown"},
        {"Isolated", "the|-|final|-|-|countdown"},
        {"MergedWithPrevious", "the-|final-|-|countdown"},
        {"MergedWithNext", "the|-final|-|-countdown"},
        {"Contiguous", "the|-|final|--|countdown"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int regex = 0; regex < 2; regex++) {
            char splitter[256];
            snprintf(splitter, sizeof splitter,
                     "{\"type\": \"Split\", \"pattern\": {\"%s\": \"-\"}, \"behavior\": \"%s\", \"invert\": false}",
                     regex ? "Regex" : "String", cases[i][0]);
            expect_words(f, "null", splitter, "the-final--countdown", cases[i][1]);
        }
    expect_words(
        f, "null",
        "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a-z]+\"}, \"behavior\": \"Removed\", \"invert\": true}",
        "the-final--countdown", "the|final|countdown");
}

static void test_splitters(void **state)
{
    test_directory *f = *state;
    expect_words(f, "null", "{\"type\": \"Digits\", \"individual_digits\": true}", "ab123c", "ab|1|2|3|c");
    expect_words(f, "null", "{\"type\": \"Digits\", \"individual_digits\": false}", "ab123c", "ab|123|c");
    expect_words(f, "null", "{\"type\": \"Whitespace\"}", "Hey friend!  How", "Hey|friend|!|How");
    expect_words(f, "null", "{\"type\": \"WhitespaceSplit\"}", "Hey friend!  How", "Hey|friend!|How");
    expect_words(f, "null",
                 "{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"always\", \"split\": true}",
                 "Hey my", "▁Hey|▁my");
    expect_words(f, "null",
                 "{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"never\", \"split\": true}",
                 "Hey  my", "Hey|▁|▁my");
    expect_words(f, "null",
                 "{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"add_prefix_space\": true, \"split\": false}",
                 "Hey my", "▁Hey▁my");
    expect_words(f, "null",
                 "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, {\"type\": \"Digits\", "
                 "\"individual_digits\": true}]}",
                 "a1 22b", "a|1|2|2|b");
}

static void test_normalizers(void **state)
{
    test_directory *f = *state;
    static const char space[] = "{\"type\": \"WhitespaceSplit\"}";
    expect_words(f, "{\"type\": \"Lowercase\"}", space, "HeLLo \xc3\x84", "hello|\xc3\xa4");
    expect_words(f, "{\"type\": \"NFC\"}", space, "e\xcc\x81", "\xc3\xa9");
    expect_words(f, "{\"type\": \"NFD\"}", space, "\xc3\xa9", "e\xcc\x81");
    expect_words(f, "{\"type\": \"NFKC\"}", space, "\xef\xac\x81n", "fin");
    expect_words(f, "{\"type\": \"NFKD\"}", space, "\xef\xac\x81\xc3\xa9", "fie\xcc\x81");
    expect_words(f, "{\"type\": \"Prepend\", \"prepend\": \"_\"}", space, "a b", "_a|b");
    expect_words(f, "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[0-9]+\"}, \"content\": \"N\"}", space,
                 "a12 3b", "aN|Nb");
    expect_words(f, "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "null", "  a b \n", "a b");
    expect_words(f, "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": false}", "null", "  a ", "a ");
    expect_words(f, "{\"type\": \"Strip\", \"strip_left\": false, \"strip_right\": true}", "null", " a  ", " a");
    expect_words(
        f,
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}, {\"type\": \"Replace\", \"pattern\": "
        "{\"String\": \"x\"}, \"content\": \"yy\"}]}",
        space, "aXb xx", "ayyb|yyyy");
}

/* ---- a small Llama tokenizer ------------------------------------------------------------------------------------- */

static const char llama[] =
    "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, {\"id\": 2, \"content\": \"</s>\", "
    "\"special\": "
    "true}], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"▁\"}, "
    "{\"type\": "
    "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}]}, \"pre_tokenizer\": null, "
    "\"post_processor\": "
    "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
    "{\"Sequence\": "
    "{\"id\": \"A\", \"type_id\": 0}}], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1], \"tokens\": "
    "[\"<s>\"]}}}, "
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"▁\"}, "
    "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" "
    "\", "
    "\"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", \"fuse_unk\": true, "
    "\"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"</s>\": 2, \"<0xC3>\": 3, \"<0xA9>\": 4, "
    "\"<0x0A>\": 5, "
    "\"▁\": 6, \"a\": 7, \"b\": 8, \"▁a\": 9, \"ab\": 10, \"▁ab\": 11, \"▁▁\": 12}, \"merges\": [\"▁ a\", [\"a\", "
    "\"b\"], "
    "\"▁a b\", [\"▁\", \"▁\"]]}}";

static void expect_ids(test_directory *f, const bo_tokenizer *tokenizer, const char *text, size_t count,
                       const int32_t *ids)
{
    bo_ids got = test_encode(f->context, tokenizer, text, strlen(text));
    assert_int_equal(got.count, count);
    assert_memory_equal(got.items, ids, count * sizeof *ids);
    bo_ids_free(&got);
}

static void test_llama(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(f->context, llama);
    assert_int_equal(bo_tokenizer_end(tokenizer), 2);
    expect_ids(f, tokenizer, "ab b", 3, (int32_t[]){11, 6, 8}); /* ▁ab ▁ b: (▁, a) has the lowest rank, then (▁a, b) */
    expect_ids(f, tokenizer, "b  ab", 4, (int32_t[]){6, 8, 6, 11});
    expect_ids(f, tokenizer, "b  b", 4, (int32_t[]){6, 8, 12, 8});
    expect_ids(f, tokenizer, "\xc3\xa9", 3, (int32_t[]){6, 3, 4}); /* byte by byte */
    expect_ids(f, tokenizer, "a\xc3", 2, (int32_t[]){9, 3});       /* invalid characters too */
    /* z has no byte token: unknown tokens are fused, and follow the bytes after them, as in `tokenizers` */
    expect_ids(f, tokenizer, "azz\n", 3, (int32_t[]){9, 5, 0});
    expect_ids(f, tokenizer, "<s>a</s>b", 5, (int32_t[]){1, 9, 2, 6, 8}); /* the prefix is added to every section */
    bo_ids ids = {0};
    assert_ok(f->context,
              bo_tokenizer_encode(f->context, tokenizer, "a", 1, BO_ENCODE_SPECIALS | BO_ENCODE_TEMPLATE, &ids));
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.items[0], 1);
    bo_ids_free(&ids);
    size_t length;
    assert_memory_equal(bo_tokenizer_piece(tokenizer, 11, &length), " ab", 3); /* inside a text, the space stays */
    assert_int_equal(length, 3);
    expect_round_trip(f->context, tokenizer, "ab b", 4); /* the added space is removed */
    expect_round_trip(f->context, tokenizer, " a\xc3\xa9", 4);
    expect_round_trip(f->context, tokenizer, "", 0);
    bo_tokenizer_destroy(tokenizer);
}

static void expect_documents(test_directory *f, const bo_tokenizer *tokenizer, size_t count, const int32_t *ids)
{
    static const char text[] = "ab#a";
    const bo_corpus_desc desc = {
        .tokenizer = tokenizer, .memory = text, .memory_bytes = sizeof text - 1, .separator = "#"};
    int32_t got[16];
    bo_corpus *corpus;
    assert_ok(f->context, bo_corpus_open(f->context, &desc, &corpus));
    assert_int_equal(bo_corpus_tokens(corpus), count);
    assert_ok(f->context, bo_corpus_read(f->context, corpus, 0, count, got));
    assert_memory_equal(got, ids, count * sizeof *ids);
    assert_int_equal(bo_corpus_bytes(corpus), 3);
    bo_corpus_close(corpus);
}

/* Documents have the tokens of the template around them, and an end token that a template does not already supply. */
static void test_documents(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(f->context, llama);
    expect_documents(f, tokenizer, 6, (int32_t[]){1, 11, 2, 1, 9, 2});
    tokenizer->info.end = 1; /* <s> begins the next document and so ends the one before it */
    expect_documents(f, tokenizer, 4, (int32_t[]){1, 11, 1, 9});
    bo_tokenizer_destroy(tokenizer);
}

/* Metaspace is reversible: the space that it added to the text is removed. Strip without Fuse applies to every
 * token. */
static void test_decoders(void **state)
{
    test_directory *f = *state;
#define VOCAB                                                                                                          \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"▁\": 2, \"▁a\": 3}, \"merges\": [\"▁ a\"]}"
    static const struct {
        const char *decoder, *expected; /* decoded from ▁a ▁ b */
    } cases[] = {
        {"{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"always\"}", "a b"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"never\"}", " a b"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"add_prefix_space\": true}", "a b"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"add_prefix_space\": false}", " a b"},
        {"{\"type\": \"Strip\", \"content\": \"▁\", \"start\": 1, \"stop\": 0}", "ab"},
        {"{\"type\": \"Strip\", \"content\": \"a\", \"start\": 0, \"stop\": 1}", "▁▁b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024], *text;
        size_t length;
        snprintf(json, sizeof json, "{\"decoder\": %s, " VOCAB "}", cases[i].decoder);
        bo_tokenizer *tokenizer = test_parse(f->context, json);
        assert_ok(f->context, bo_tokenizer_decode(f->context, tokenizer, (int32_t[]){3, 2, 1}, 3, &text, &length));
        assert_int_equal(length, strlen(cases[i].expected));
        assert_memory_equal(text, cases[i].expected, length);
        bo_free(text);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* Llama 3: a word of the vocabulary is one token even if no merge produces it; it is spelled in the letters that
 * represent bytes. */
static void test_whole_words(void **state)
{
    test_directory *f = *state;
    for (int whole = 0; whole < 2; whole++) {
        char json[1024];
        snprintf(
            json, sizeof json,
            "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, "
            "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"ignore_merges\": %s, \"vocab\": "
            "{\"a\": 0, \"b\": 1, \"Ġ\": 2, \"Ġab\": 3, \"Ã\": 4, \"©\": 5, \"ĠÃ©\": 6}, \"merges\": []}}",
            whole ? "true" : "false");
        bo_tokenizer *tokenizer = test_parse(f->context, json);
        if (whole)
            expect_ids(f, tokenizer, "a ab \xc3\xa9 ba", 6, (int32_t[]){0, 3, 6, 2, 1, 0});
        else
            expect_ids(f, tokenizer, "a ab \xc3\xa9", 7, (int32_t[]){0, 2, 0, 1, 2, 4, 5});
        expect_round_trip(f->context, tokenizer, "ab \xc3\xa9 ab", 8);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* Text is cut for speed where no merge joins two characters: the ids equal the ids of the uncut text. */
static void test_seams(void **state)
{
    test_directory *f = *state;
    static const char *const pieces[] = {"a", "b", "c", "▁", "\xc3\xa9", "\xe6\x9d\xb1",
                                         "x", "\n"}; /* the last two are bytes */
    static char json[16384];
    char *to = json;
    to += sprintf(to, "{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {");
    for (int b = 0; b < 256; b++) to += sprintf(to, "\"<0x%02X>\": %d, ", b, b);
    sprintf(to, "\"a\": 256, \"b\": 257, \"c\": 258, \"▁\": 259, \"\xc3\xa9\": 260, \"\xe6\x9d\xb1\": 261, \"▁a\": "
                "262, \"ab\": "
                "263, \"▁ab\": 264, \"▁▁\": 265, \"a\xc3\xa9\": 266, \"aba\xc3\xa9\": 267}, \"merges\": [\"a b\", \"▁ "
                "ab\", \"▁ a\", "
                "\"▁ ▁\", \"a \xc3\xa9\", \"ab a\xc3\xa9\"]}}");
    bo_tokenizer *cut = test_parse(f->context, json), *whole = test_parse(f->context, json);
    assert_non_null(cut->joints.slots);
    bo_free(whole->joints.slots);
    whole->joints.slots = NULL;
    bo_rng rng = bo_rng_make(8, 8);
    for (int round = 0; round < 500; round++) {
        char text[1000];
        size_t length = 0;
        for (uint64_t i = bo_rng_below(&rng, 200); i > 0; i--)
            length += (size_t)sprintf(text + length, "%s", pieces[bo_rng_below(&rng, 8)]);
        bo_ids one = test_encode(f->context, cut, text, length), other = test_encode(f->context, whole, text, length);
        assert_int_equal(one.count, other.count);
        if (one.count) assert_memory_equal(one.items, other.items, one.count * sizeof *one.items);
        bo_ids_free(&one);
        bo_ids_free(&other);
    }
    bo_tokenizer_destroy(cut);
    bo_tokenizer_destroy(whole);
}

static void test_added(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(
        f->context, "{\"added_tokens\": [{\"id\": 3, \"content\": \"<m>\", \"lstrip\": true}, {\"id\": 4, \"content\": "
                    "\"<m><n>\"}, {\"id\": 5, \"content\": \"<r>\", \"rstrip\": true}], \"model\": {\"type\": \"BPE\", "
                    "\"vocab\": {\"a\": 0, \" \": 1, \"b\": 2}, \"merges\": []}}");
    assert_int_equal(bo_tokenizer_vocab(tokenizer), 6);
    expect_ids(f, tokenizer, "a  <m> b", 4, (int32_t[]){0, 3, 1, 2});  /* includes the spaces before it */
    expect_ids(f, tokenizer, "a <m><n>b", 4, (int32_t[]){0, 1, 4, 2}); /* the longest match */
    expect_ids(f, tokenizer, "a <r>  b", 4, (int32_t[]){0, 1, 5, 2});
    bo_ids ids = {0};
    assert_fails(f->context, BO_FORMAT, "byte 1 of the text: the tokenizer has no token for '<'",
                 bo_tokenizer_encode(f->context, tokenizer, "a<m", 3, true, &ids));
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
}

/* The expressions of GPT-2 and Llama 3 give the known words. */
static void test_expressions(void **state)
{
    test_directory *f = *state;
    expect_words(
        f, "null",
        "{\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
        "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, "
        "\"behavior\": \"Isolated\", \"invert\": false}",
        "We'LL pay $12345, na\xc3\xafve:   x", "We|'LL| pay| $|123|45|,| na\xc3\xafve|:|  | x");
}

/* ---- invalid input ----------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    test_directory *f = *state;
#define MODEL(vocab, merges) "\"model\": {\"type\": \"BPE\", \"vocab\": " vocab ", \"merges\": " merges "}"
#define PLAIN                MODEL("{\"a\": 0}", "[]")
    static const struct {
        bo_status status;
        const char *message, *json;
    } cases[] = {
        {BO_FORMAT, "malformed", ""},
        {BO_FORMAT, "member \"model\", found none", "{}"},
        {BO_FORMAT, "member \"model\", found none", "[1]"},
        {BO_FORMAT, "nested", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["},
        {BO_UNSUPPORTED, "\"Other\"", "{\"model\": {\"type\": \"Other\", \"vocab\": {\"a\": 0}}}"},
        {BO_FORMAT, "not a token and its score", "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}}"},
        {BO_FORMAT, "not a token and its score", "{\"model\": {\"type\": \"Unigram\", \"vocab\": [7]}}"},
        {BO_FORMAT, "no vocabulary", "{\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}}"},
        {BO_FORMAT, "not finite", "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 1e999]]}}"},
        {BO_FORMAT, "\"unk_id\"", "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 1, \"vocab\": [[\"a\", 0]]}}"},
        {BO_FORMAT, "no vocabulary", "{" MODEL("{}", "[]") "}"},
        {BO_FORMAT, "no vocabulary", "{" MODEL("[]", "[]") "}"},
        {BO_FORMAT, "not a whole number", "{" MODEL("{\"a\": -1}", "[]") "}"},
        {BO_FORMAT, "not a whole number", "{" MODEL("{\"a\": 0.5}", "[]") "}"},
        {BO_FORMAT, "not a whole number", "{" MODEL("{\"a\": \"0\"}", "[]") "}"},
        {BO_FORMAT, "far beyond the number of tokens, 1", "{" MODEL("{\"a\": 2000000000}", "[]") "}"},
        {BO_FORMAT, "that of another token", "{" MODEL("{\"a\": 0, \"b\": 0}", "[]") "}"},
        {BO_FORMAT, "defined twice", "{" MODEL("{\"a\": 0, \"a\": 1}", "[]") "}"},
        {BO_FORMAT, "merge 0", "{" MODEL("{\"a\": 0, \"b\": 1}", "[\"a b\"]") "}"},
        {BO_FORMAT, "merge 1", "{" MODEL("{\"a\": 0, \"b\": 1, \"ab\": 2}", "[\"a b\", \"ab c\"]") "}"},
        {BO_FORMAT, "not a pair", "{" MODEL("{\"a\": 0, \"b\": 1, \"ab\": 2}", "[\"a b c\"]") "}"},
        {BO_FORMAT, "not a pair", "{" MODEL("{\"a\": 0, \"b\": 1, \"ab\": 2}", "[[\"a\", \"b\", \"c\"]]") "}"},
        {BO_FORMAT, "not a pair", "{" MODEL("{\"a\": 0}", "[7]") "}"},
        {BO_FORMAT, "no list of merges", "{" MODEL("{\"a\": 0}", "7") "}"},
        {BO_FORMAT, "added_tokens", "{\"added_tokens\": 7, " PLAIN "}"},
        {BO_FORMAT, "no \"content\"", "{\"added_tokens\": [{\"id\": 0}], " PLAIN "}"},
        {BO_FORMAT, "same id, 0", "{\"added_tokens\": [{\"id\": 0, \"content\": \"b\"}], " PLAIN "}"},
        {BO_FORMAT, "defined twice", "{\"added_tokens\": [{\"id\": 1, \"content\": \"a\"}], " PLAIN "}"},
        {BO_UNSUPPORTED, "\"Append\"", "{\"normalizer\": {\"type\": \"Append\"}, " PLAIN "}"},
        {BO_FORMAT, "character map is malformed",
         "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////w==\"}, " PLAIN "}"},
        {BO_UNSUPPORTED, "\"UnicodeScripts\"", "{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " PLAIN "}"},
        {BO_FORMAT, "expected first, never or always",
         "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"x\"}, " PLAIN
         "}"},
        {BO_FORMAT, "a Strip has no \"content\"", "{\"decoder\": {\"type\": \"Strip\", \"start\": 1}, " PLAIN "}"},
        {BO_FORMAT, "a Metaspace has no \"replacement\"",
         "{\"decoder\": {\"type\": \"Metaspace\", \"replacement\": \"\"}, " PLAIN "}"},
        {BO_UNSUPPORTED, "\"CTC\"", "{\"decoder\": {\"type\": \"CTC\"}, " PLAIN "}"},
        {BO_FORMAT, "no token and id for \"cls\"", "{\"post_processor\": {\"type\": \"BertProcessing\"}, " PLAIN "}"},
        {BO_UNSUPPORTED, "contains the text twice",
         "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}}, "
         "{\"Sequence\": {\"id\": \"A\"}}]}, " PLAIN "}"},
        {BO_INVALID, "is invalid",
         "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, "
         "\"behavior\": \"Isolated\"}, " PLAIN "}"},
        {BO_UNSUPPORTED, "behavior \"Eaten\"",
         "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, "
         "\"behavior\": \"Eaten\"}, " PLAIN "}"},
        {BO_FORMAT, "unknown token",
         "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"a\": 0}, \"merges\": []}}"},
        {BO_UNSUPPORTED, "dropout",
         "{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {\"a\": 0}, \"merges\": []}}"},
        {BO_FORMAT, "template contains the id 9",
         "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
         "{\"id\": \"x\"}}], \"special_tokens\": {\"x\": {\"ids\": [9]}}}, " PLAIN "}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_tokenizer *tokenizer = (bo_tokenizer *)f;
        assert_fails(f->context, cases[i].status, cases[i].message,
                     bo_tokenizer_parse(f->context, "test", cases[i].json, strlen(cases[i].json), &tokenizer));
        assert_null(tokenizer);
    }
    /* A truncated file is refused at any length. */
    for (size_t length = 0; length + 1 < sizeof llama; length++) {
        bo_tokenizer *tokenizer;
        assert_int_equal(bo_tokenizer_parse(f->context, "test", llama, length, &tokenizer), BO_FORMAT);
    }
}

/* A template of `items` special tokens, each of which has `ids` ids, before a text. */
static char *make_template(size_t items, size_t ids)
{
    char *json;
    size_t size;
    FILE *out = open_memstream(&json, &size);
    fprintf(out, "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [");
    for (size_t i = 0; i < items; i++) fprintf(out, "{\"SpecialToken\": {\"id\": \"x\"}}, ");
    fprintf(out, "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"x\": {\"ids\": [");
    for (size_t i = 0; i < ids; i++) fprintf(out, i ? ", 0" : "0");
    fprintf(out, "]}}}, " PLAIN "}");
    fclose(out);
    return json;
}

/* Small files must not add millions of tokens to each text: 3,000 items of 9,000 ids would be 27 million. */
static void test_long_template(void **state)
{
    test_directory *f = *state;
    static const struct {
        size_t items, ids;
        const char *message;
    } cases[] = {
        {1, 64, NULL},
        {64, 1, NULL},
        {64, 0, NULL},
        {1, 65, "test: the template adds at least 65 tokens to a text, expected at most 64"},
        {13, 5, "test: the template adds at least 65 tokens to a text, expected at most 64"},
        {65, 0, "test: the template has 66 items, expected at most 65"},
        {3000, 9000, "test: the template has 3001 items, expected at most 65"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_tokenizer *tokenizer;
        char *json = make_template(cases[i].items, cases[i].ids);
        const bo_status status = bo_tokenizer_parse(f->context, "test", json, strlen(json), &tokenizer);
        free(json);
        if (cases[i].message) {
            assert_fails(f->context, BO_UNSUPPORTED, cases[i].message, status);
            continue;
        }
        assert_ok(f->context, status);
        bo_ids ids = {0};
        assert_ok(f->context, bo_tokenizer_encode(f->context, tokenizer, NULL, 0, BO_ENCODE_TEMPLATE, &ids));
        assert_int_equal(ids.count, cases[i].items * cases[i].ids);
        bo_ids_free(&ids);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* Each of 16 decoders replaces one character by ten: a file of 1 KB would produce 10^16 bytes. */
static void test_growing_texts(void **state)
{
    test_directory *f = *state;
    for (size_t decoders = 5; decoders <= 16; decoders += 11) {
        char *json;
        size_t size;
        bo_tokenizer *tokenizer;
        FILE *out = open_memstream(&json, &size);
        fprintf(out, "{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [");
        for (size_t i = 0; i < decoders; i++)
            fprintf(out, "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaa\"}",
                    i ? ", " : "");
        fprintf(out, "]}, " PLAIN "}");
        fclose(out);
        const bo_status status = bo_tokenizer_parse(f->context, "test", json, size, &tokenizer);
        free(json);
        if (decoders > 5)
            assert_fails(f->context, BO_UNSUPPORTED, "test: replacing \"a\" produces a text of more than ", status);
        else
            assert_ok(f->context, status);
        bo_tokenizer_destroy(tokenizer);
    }
}

/* (a+)+ on many a's without a match takes exponential time; it is stopped with an error. */
static void test_explosion(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer =
        test_parse(f->context, "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a+)+[^ab]b\"}, "
                               "\"behavior\": \"Isolated\"}, " PLAIN "}");
    char text[64];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'b';
    bo_ids ids = {0};
    assert_fails(f->context, BO_INVALID, "backtracking limit",
                 bo_tokenizer_encode(f->context, tokenizer, text, sizeof text, true, &ids));
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- characters without a token ---------------------------------------------------------------------------------- */

/* No token, no unknown token and no byte tokens: nothing is dropped silently. */
static void test_missing(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer =
        test_parse(f->context, "{\"added_tokens\": [{\"id\": 1, \"content\": \"<e>\"}], " PLAIN "}");
    bo_ids ids = {0};
    static const char *const cases[][2] = {
        {"aaz", "byte 2 of the text: the tokenizer has no token for 'z'"},
        {"a<e>a\xc3\xa9", "byte 5 of the text: the tokenizer has no token for '\xc3\xa9'"},
        {"a\n", "byte 1 of the text: the tokenizer has no token for the byte 0x0A"},
        {"a\xff", "byte 1 of the text: the tokenizer has no token for the byte 0xFF"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(f->context, BO_FORMAT, cases[i][1],
                     bo_tokenizer_encode(f->context, tokenizer, cases[i][0], strlen(cases[i][0]), true, &ids));
    assert_int_equal(ids.count, 0);
    assert_ok(f->context, bo_tokenizer_encode(f->context, tokenizer, "aa<e>", 5, true, &ids));
    assert_int_equal(ids.count, 3);
    bo_ids_free(&ids);
    bo_corpus *corpus;
    const char *paths[] = {test_text(f, "a.txt", "aaaa"), test_text(f, "z.txt", "aaa aaz")};
    bo_corpus_desc desc = {.paths = paths, .path_count = 2, .tokenizer = tokenizer, .separator = " "};
    assert_fails(f->context, BO_FORMAT, "z.txt: byte 6 of the file: the tokenizer has no token for 'z'",
                 bo_corpus_open(f->context, &desc, &corpus));
    bo_tokenizer_destroy(tokenizer);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_behaviors),   WITH_DIRECTORY(test_splitters),     WITH_DIRECTORY(test_normalizers),
        WITH_DIRECTORY(test_decoders),    WITH_DIRECTORY(test_whole_words),   WITH_DIRECTORY(test_llama),
        WITH_DIRECTORY(test_documents),   WITH_DIRECTORY(test_seams),         WITH_DIRECTORY(test_added),
        WITH_DIRECTORY(test_expressions), WITH_DIRECTORY(test_refusals),      WITH_DIRECTORY(test_explosion),
        WITH_DIRECTORY(test_missing),     WITH_DIRECTORY(test_long_template), WITH_DIRECTORY(test_growing_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
