/* Special tokens and the files next to the weights: precedence of files, refused contents, and loaded files are saved
 * unchanged. */
#include "text/facts.h"
#include <bochner/text.h>
#include "model/files.h"
#include "io/files.h"
#include "models.h"

enum { END = 0, IDS = 1024 }; /* <|endoftext|> of the tokenizer, and the size of its vocabulary */

static const char CHAT[] = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}";

/* ---- a directory ----------------------------------------------------------------------------------------------------
 */

static bo_tokenizer *load_tokenizer(bo_context *context)
{
    char path[1024];
    bo_tokenizer *tokenizer;
    snprintf(path, sizeof path, "%s/tests/data/gpt2-tiny/tokenizer.json", getenv("BOCHNER_SOURCE"));
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.path = path}, &tokenizer));
    assert_int_equal(bo_tokenizer_vocab(tokenizer), IDS);
    assert_int_equal(bo_tokenizer_end(tokenizer), END);
    return tokenizer;
}

static bo_model *make_model(bo_context *context, const bo_tokenizer *tokenizer)
{
    bo_model *model;
    bo_model_desc desc = test_desc("linear");
    desc.layers = 1, desc.width = 8, desc.vocab = tokenizer ? 0 : VOCAB;
    assert_ok(context, bo_model_create(context, &desc, tokenizer, &model));
    return model;
}

static char *read_text(test_directory *directory, const char *name)
{
    FILE *file = fopen(test_path(directory, name), "rb");
    if (!file) return NULL;
    char *text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Replaces the ids of config.json, or leaves them out. */
static void set_config(test_directory *directory, const char *config, const char *ids)
{
    const char *from = strstr(config, ",\n  \"bos_token_id\"");
    char text[1 << 14];
    assert_non_null(from);
    snprintf(text, sizeof text, "%.*s%s%s\n}\n", (int)(from - config), config, ids ? "," : "", ids ? ids : "");
    test_text(directory, "config.json", text);
}

static void set_file(test_directory *directory, const char *name, const char *text)
{
    if (text)
        test_text(directory, name, text);
    else
        unlink(test_path(directory, name));
}

/* ---- which file counts ------------------------------------------------------------------------------------------- */

static void precedence(void **state)
{
    static const struct {
        const char *config, *generation, *tokenizer;
        int32_t begin, ends[3];
        size_t count;
    } cases[] = {
        {NULL, NULL, NULL, -1, {END}, 1},
        {"\"eos_token_id\": 7", NULL, NULL, -1, {7}, 1},
        {"\"eos_token_id\": [7, 9], \"bos_token_id\": 3", NULL, NULL, 3, {7, 9}, 2},
        {"\"eos_token_id\": 7, \"bos_token_id\": 3", "{\"eos_token_id\": [5, 6, 8]}", NULL, 3, {5, 6, 8}, 3},
        {"\"eos_token_id\": 7", "{\"eos_token_id\": null, \"bos_token_id\": 4}", NULL, 4, {7}, 1},
        {"\"eos_token_id\": 7", "{\"eos_token_id\": []}", NULL, -1, {7}, 1},
        {"\"eos_token_id\": -1, \"pad_token_id\": -1",
         NULL,
         "{\"bos_token\": \"a\", \"eos_token\": \"!\"}",
         65,
         {1},
         1},
        {"\"eos_token_id\": null", NULL, "{\"eos_token\": {\"content\": \"!\", \"special\": true}}", -1, {1}, 1},
        {NULL, "{}", "{\"eos_token\": null, \"bos_token\": \"<|endoftext|>\"}", END, {END}, 1},
        {NULL, NULL, "{\"eos_token\": \"no such token\"}", -1, {END}, 1},
        /* outside of the vocabulary: left out, and no other token takes its place */
        {"\"eos_token_id\": 50256, \"bos_token_id\": 50256", NULL, NULL, -1, {0}, 0},
        {"\"eos_token_id\": 50256", "{\"eos_token_id\": [1024, 1023]}", NULL, -1, {1023}, 1},
    };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = load_tokenizer(context);
    bo_model *model = make_model(context, tokenizer);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *config = read_text(directory, "config.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model *read;
        set_config(directory, config, cases[i].config);
        set_file(directory, "generation_config.json", cases[i].generation);
        set_file(directory, "tokenizer_config.json", cases[i].tokenizer);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
        const bo_model_info *info = bo_model_report(read);
        const int32_t *ends = info->end_tokens;
        const size_t count = info->end_count;
        if (info->begin_token != cases[i].begin || count != cases[i].count ||
            (count && memcmp(ends, cases[i].ends, count * sizeof *ends) != 0) || (!count && ends))
            fail_msg("case %zu: begin %d, %zu ends, the first is %d", i, info->begin_token, count,
                     count ? ends[0] : -1);
        bo_model_destroy(read);
    }
    free(config);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* A template of the tokenizer determines the first token of a text. */
static void templates(void **state)
{
    static const char text[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"<s>\": 2}, \"merges\": []}, "
        "\"added_tokens\": [{\"id\": 2, \"content\": \"<s>\", \"special\": true}], "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
        "{\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], "
        "\"pair\": [], \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [2], "
        "\"tokens\": [\"<s>\"]}}}}";
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.bytes = text, .size = strlen(text)}, &tokenizer));
    bo_model *model = make_model(context, tokenizer);
    assert_int_equal(bo_model_report(model)->begin_token, 2);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *written = read_text(directory, "tokenizer_config.json");
    assert_non_null(strstr(written, "\"bos_token\": \"<s>\""));
    free(written);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    static const struct {
        const char *file, *text, *message;
    } cases[] = {
        {"generation_config.json", "{\"eos_token_id\": \"2\"}", "generation_config.json: \"eos_token_id\" should be"},
        {"generation_config.json", "{\"eos_token_id\": [2, 2.5]}",
         "generation_config.json: \"eos_token_id\" should be"},
        {"generation_config.json", "{\"eos_token_id\": -2}", "generation_config.json: \"eos_token_id\" should be"},
        {"generation_config.json", "{\"eos_token_id\": 4294967296}", "\"eos_token_id\" should be"},
        {"generation_config.json", "{\"eos_token_id\": [[1]]}", "\"eos_token_id\" should be"},
        {"generation_config.json", "{\"bos_token_id\": [1]}", "\"bos_token_id\" should be a token id or null"},
        {"generation_config.json", "{\"pad_token_id\": {}}", "\"pad_token_id\" should be a token id or null"},
        {"generation_config.json", "[]", "generation_config.json: expected a JSON object"},
        {"generation_config.json", "{\"eos_token_id\": 2", "generation_config.json"},
        {"generation_config.json", "", "generation_config.json"},
        {"tokenizer_config.json", "3", "tokenizer_config.json: expected a JSON object"},
        {"tokenizer_config.json", "{\"bos_token\": 1}", "tokenizer_config.json: \"bos_token\" should be"},
        {"tokenizer_config.json", "{\"eos_token\": {\"text\": \"a\"}}",
         "tokenizer_config.json: \"eos_token\" should be"},
        {"special_tokens_map.json", "nothing", "special_tokens_map.json"},
        {"special_tokens_map.json", "{\"eos_token\": []}", "special_tokens_map.json: \"eos_token\" should be"},
    };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model *model = make_model(context, NULL), *read;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *config = read_text(directory, "config.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_text(directory, cases[i].file, cases[i].text);
        assert_fails(context, BO_FORMAT, cases[i].message,
                     bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
        assert_null(read);
        unlink(test_path(directory, cases[i].file));
    }
    test_write(directory, "chat_template.jinja", "a\0b", 3);
    assert_fails(context, BO_FORMAT, "chat_template.jinja: contains a NUL",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    unlink(test_path(directory, "chat_template.jinja"));
    set_config(directory, config, "\"eos_token_id\": true");
    assert_fails(context, BO_FORMAT, "config.json: \"eos_token_id\" should be",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    char many[1024] = "\"eos_token_id\": [0";
    for (int i = 0; i < BO_MAX_ENDS; i++) strcat(many, ", 1");
    strcat(many, "]");
    set_config(directory, config, many);
    assert_fails(context, BO_FORMAT, "has more than 64 ids",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    free(config);
    bo_model_destroy(model);
}

/* ---- files that are kept ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
} kept[] = {{"generation_config.json", "{\"eos_token_id\": [1, 2],\n   \"top_p\": 0.5}"},
            {"tokenizer_config.json", "{\"eos_token\": \"a\", \"unknown\": [1, {}], \"chat_template\": \"x\"}"},
            {"special_tokens_map.json", "{}"},
            {"chat_template.jinja", CHAT}};

static void check_kept(bo_context *context, const bo_model *model)
{
    for (size_t i = 0; i < 4; i++) assert_string_equal(bo_model_companion(model, kept[i].name), kept[i].text);
    assert_null(bo_model_companion(model, "config.json"));
    assert_int_equal(bo_model_report(model)->end_count, 2);
    assert_int_equal(bo_model_report(model)->end_tokens[1], 2);
    (void)context;
}

static void kept_as_loaded(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = load_tokenizer(context);
    bo_model *model = make_model(context, tokenizer), *read, *again;
    void *bytes;
    size_t size;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    for (size_t i = 0; i < 4; i++) test_text(directory, kept[i].name, kept[i].text);
    directory->warnings = 0;
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_int_equal(directory->warnings, 2); /* two of them were written with other checksums */
    assert_non_null(strstr(directory->last_log, "_config.json: its checksum is not the one recorded in "));
    check_kept(context, read);
    /* in a directory */
    for (size_t i = 0; i < 4; i++) unlink(test_path(directory, kept[i].name));
    assert_ok(context, bo_model_save(context, read, &(bo_sink){.path = directory->path}));
    for (size_t i = 0; i < 4; i++) {
        char *text = read_text(directory, kept[i].name);
        assert_string_equal(text, kept[i].text);
        free(text);
    }
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &again));
    assert_int_equal(directory->warnings, 2);
    check_kept(context, again);
    bo_model_destroy(again);
    /* as one file */
    assert_ok(context, bo_model_save(context, read, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &again));
    check_kept(context, again);
    bo_model_destroy(again);
    bo_free(bytes);
    /* in a model that is made from it, and in one that is read as a checkpoint */
    assert_ok(context, bo_model_adopt(context, model, read, NULL));
    check_kept(context, model);
    bo_model_destroy(model);
    model = make_model(context, tokenizer);
    assert_ok(context, bo_model_read(context, model, directory->path));
    check_kept(context, model);
    bo_model_destroy(model);
    model = make_model(context, NULL); /* its ids mean other tokens */
    assert_ok(context, bo_model_adopt(context, model, read, NULL));
    assert_null(bo_model_companion(model, "chat_template.jinja"));
    bo_model_destroy(model);
    bo_model_destroy(read);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- files that follow from the model ---------------------------------------------------------------------------- */

static void rewritten(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = load_tokenizer(context);
    bo_model *model = make_model(context, tokenizer), *read;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *config = read_text(directory, "config.json"), *generation = read_text(directory, "generation_config.json"),
         *tokenizer_config = read_text(directory, "tokenizer_config.json");
    static const char ids[] = "\"bos_token_id\": null,\n  \"eos_token_id\": 0,\n  \"pad_token_id\": null\n}\n";
    assert_non_null(strstr(config, ids));
    assert_non_null(strstr(generation, ids));
    assert_string_equal(tokenizer_config,
                        "{\n  \"eos_token\": \"<|endoftext|>\",\n  \"clean_up_tokenization_spaces\": false,\n"
                        "  \"model_max_length\": 48,\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
    assert_null(read_text(directory, "special_tokens_map.json"));
    assert_null(read_text(directory, "chat_template.jinja"));
    /* ids of config.json remain there, even if generation_config.json has others and one is outside of the
     * vocabulary */
    set_config(directory, config, "\"bos_token_id\": 50256, \"eos_token_id\": [50256, 7], \"pad_token_id\": 5");
    set_file(directory, "generation_config.json", "{\"eos_token_id\": 9}");
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_ok(context, bo_model_save(context, read, &(bo_sink){.path = directory->path}));
    free(config);
    config = read_text(directory, "config.json");
    assert_non_null(
        strstr(config, "\"bos_token_id\": 50256,\n  \"eos_token_id\": [50256, 7],\n  \"pad_token_id\": 5\n}\n"));
    free(config);
    free(generation);
    free(tokenizer_config);
    bo_model_destroy(read);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* Configurations of other programs that lack the members have the defaults of their type. */
static void default_ids(void **state)
{
    static const struct {
        const char *text;
        int32_t begin, end;
    } cases[] = {{"{\"model_type\": \"llama\"}", 1, 2},
                 {"{\"model_type\": \"gpt2\"}", 50256, 50256},
                 {"{\"model_type\": \"llama\", \"eos_token_id\": 5}", 1, 5},
                 {"{\"model_type\": \"llama\", \"bos_token_id\": null}", -1, 2},
                 {"{\"model_type\": \"qwen2\"}", -1, -1}};
    bo_context *context = ((test_directory *)*state)->context;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_specials specials = bo_specials_none();
        assert_ok(context, bo_specials_read_config(context, "x", cases[i].text, strlen(cases[i].text), &specials));
        assert_int_equal(specials.config.begin, cases[i].begin);
        assert_int_equal(specials.config.end_count ? specials.config.ends[0] : -1, cases[i].end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(precedence, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(templates, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(refusals, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(kept_as_loaded, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(rewritten, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(default_ids, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
