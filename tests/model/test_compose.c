/* Texts written by a model: known distributions, the same bytes for any number of threads and lanes, files that a
 * corpus reads back, special tokens, and errors. */
#include "text/facts.h"
#include "base/counting.h"
#include "io/files.h"
#include "models.h"

enum { LONGEST = 24 };

/* A tokenizer with the 256 bytes and these special tokens, after which ids have no text. */
static bo_tokenizer *special_tokenizer(bo_context *context, size_t specials)
{
    static const char *const message[] = {"<|endoftext|>", "<s>"};
    const bo_texts_desc lines = {.kind = BO_TEXTS_ALONE, .memory = "a b", .memory_bytes = 3};
    const bo_tokenizer_desc desc = {
        .vocab = 256 + specials, .special = message, .special_count = specials, .min_count = 99};
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_train_texts(context, &desc, &lines, &tokenizer));
    return tokenizer;
}

static bo_tokenizer *byte_tokenizer(bo_context *context)
{
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    return tokenizer;
}

static int32_t character(const bo_tokenizer *tokenizer, char c)
{
    return bo_tokenizer_is_raw(tokenizer) ? c : bo_tokenizer_find(tokenizer, (char[]){c, 0});
}

/* A token with a weight relative to others. */
typedef struct choice {
    int32_t id;
    double weight;
} choice;

/* A model that chooses among tokens with fixed probabilities, whatever it has read: all weights of the output are 0,
 * and a bias of -1e4 excludes other tokens. */
static bo_model *fixed_model(bo_context *context, const bo_tokenizer *tokenizer, const choice *choices, size_t count)
{
    bo_model_desc desc = test_desc("rfa-gate");
    desc.vocab = bo_tokenizer_vocab(tokenizer) + 3;
    desc.untied = desc.head_bias = true;
    bo_model *model;
    assert_ok(context, bo_model_create(context, &desc, tokenizer, &model));
    float *bias = malloc(desc.vocab * sizeof *bias), *zeros = calloc(desc.vocab * desc.width, sizeof *zeros);
    for (size_t i = 0; i < desc.vocab; i++) bias[i] = i >= bo_tokenizer_vocab(tokenizer) ? 1e4f : -1e4f;
    for (size_t i = 0; i < count; i++) bias[choices[i].id] = (float)log(choices[i].weight);
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "lm_head.weight", zeros));
    assert_ok(context, bo_weights_set(context, bo_model_weights(model), "lm_head.bias", bias));
    free(bias);
    free(zeros);
    return model;
}

static void read_back(bo_context *context, const bo_tokenizer *tokenizer, const char *path, const char *separator,
                      bo_corpus **out)
{
    const bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = tokenizer, .separator = separator};
    assert_ok(context, bo_corpus_open(context, &desc, out));
}

/* ---- known distributions ----------------------------------------------------------------------------------------- */

static void test_one_token(void **state)
{
    static const char expected[] = "xxxxxxxx\n<|endoftext|>\nxxxxxxxx\n<|endoftext|>\nxxxxxxxx\n<|endoftext|>\n";
    test_directory *directory = *state;
    bo_tokenizer *tokenizer = byte_tokenizer(directory->context);
    bo_model *model = fixed_model(directory->context, tokenizer, &(choice){'x', 1}, 1);
    const char *path = test_path(directory, "text");
    bo_composition report;
    assert_ok(directory->context, bo_model_compose(directory->context, model,
                                                   &(bo_compose_desc){.tokens = 17, .longest = 9}, path, &report));
    assert_file_equal(path, expected, sizeof expected - 1);
    assert_int_equal(report.documents, 3);
    assert_int_equal(report.tokens, 24);
    assert_int_equal(report.bytes, sizeof expected - 1);
    assert_int_equal(report.cut, 3);
    assert_int_equal(report.empty, 0);
    assert_int_equal(report.next, 3);
    assert_true(report.seconds > 0 && report.tokens_per_second > 0);
    assert_ok(directory->context,
              bo_model_compose(directory->context, model, &(bo_compose_desc){.tokens = 1, .lanes = 1}, path, NULL));
    char whole[CONTEXT + sizeof "\n<|endoftext|>\n"];
    memset(whole, 'x', CONTEXT - 1);
    strcpy(whole + CONTEXT - 1, "\n<|endoftext|>\n"); /* the first token of the context is the line end before it */
    assert_file_equal(path, whole, strlen(whole));
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* "x" with probability 3/4, the end with 1/4: the number of x in a document is geometric, P(n) = (3/4)^n / 4, mean 3,
 * variance 12, as long as documents are not cut: that happens after 199 tokens, with probability (3/4)^199. */
static void test_geometric(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 1);
    const int32_t x = character(tokenizer, 'x');
    const choice choices[] = {{x, 3}, {bo_tokenizer_end(tokenizer), 1}};
    bo_model *model = fixed_model(context, tokenizer, choices, 2);
    const char *path = test_path(directory, "text");
    bo_composition report;
    bo_corpus *corpus;
    assert_ok(context, bo_model_compose(context, model,
                                        &(bo_compose_desc){.tokens = 8000, .longest = 200, .sampler = {.seed = 5}},
                                        path, &report));
    const double all = (double)(report.documents + report.empty);
    assert_close((double)report.tokens / all, 4, 5 * sqrt(12 / all));
    assert_close((double)report.empty / all, 0.25, 5 * sqrt(0.25 * 0.75 / all));
    assert_int_equal(report.cut, 0);
    assert_int_equal(report.next, report.documents + report.empty);
    assert_in_range(report.tokens, 8000, 8199);
    read_back(context, tokenizer, path, BO_COMPOSE_SEPARATOR, &corpus);
    assert_int_equal(bo_corpus_documents(corpus), report.documents);
    assert_int_equal(bo_corpus_tokens(corpus), report.tokens - report.empty); /* every document with its end token */
    int32_t *ids = malloc(bo_corpus_tokens(corpus) * sizeof *ids);
    assert_ok(context, bo_corpus_read(context, corpus, 0, bo_corpus_tokens(corpus), ids));
    for (size_t i = 0; i < bo_corpus_tokens(corpus); i++) assert_true(ids[i] == x || ids[i] == choices[1].id);
    free(ids);
    bo_corpus_close(corpus);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- special tokens and separators ------------------------------------------------------------------------------- */

/* A document ends with any special token, and the separator is read only where documents end, even if a document could
 * contain its text or the start of it. */
static void test_ends(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 2);
    const choice choices[] = {
        {character(tokenizer, 'b'), 2}, {character(tokenizer, 'c'), 2}, {bo_tokenizer_find(tokenizer, "<s>"), 1}};
    bo_model *model = fixed_model(context, tokenizer, choices, 3);
    const char *path = test_path(directory, "text");
    bo_composition report;
    bo_corpus *corpus;
    for (size_t i = 0; i < 2; i++) {
        const char *separator = i ? "bcb" : "\n--\n";
        const bo_compose_desc desc = {.tokens = 1000, .separator = separator};
        assert_ok(context, bo_model_compose(context, model, &desc, path, &report));
        read_back(context, tokenizer, path, separator, &corpus);
        assert_int_equal(bo_corpus_documents(corpus), report.documents);
        assert_true(report.documents > 50);
        assert_int_equal(bo_corpus_bytes(corpus), report.bytes - report.documents * strlen(separator));
        bo_corpus_close(corpus);
    }
    bo_model_destroy(model);
    model = fixed_model(context, tokenizer, &choices[2], 1);
    assert_fails(context, BO_INVALID, "all 7 documents that the model wrote are empty",
                 bo_model_compose(context, model, &(bo_compose_desc){.tokens = 7}, path, &report));
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* The consecutive characters of "<s>" would be read as the special token. */
static void test_spelled(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 2);
    const choice choices[] = {
        {character(tokenizer, '<'), 1}, {character(tokenizer, 's'), 1}, {character(tokenizer, '>'), 1}};
    bo_model *model = fixed_model(context, tokenizer, choices, 3);
    const char *path = test_path(directory, "text");
    bo_composition report;
    bo_corpus *corpus;
    assert_ok(context, bo_model_compose(context, model, &(bo_compose_desc){.tokens = 4000}, path, &report));
    assert_true(report.bytes < 4000); /* "<s>" did occur: a document of 47 characters has it with probability 0.8 */
    read_back(context, tokenizer, path, BO_COMPOSE_SEPARATOR, &corpus);
    int32_t id;
    for (uint64_t i = 0; i < bo_corpus_tokens(corpus); i++) {
        assert_ok(context, bo_corpus_read(context, corpus, i, 1, &id));
        assert_int_not_equal(id, bo_tokenizer_find(tokenizer, "<s>"));
    }
    bo_corpus_close(corpus);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* A document that is cut within a character ends before it. */
static void test_characters(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 1);
    bo_ids snowman = {0};
    assert_ok(context, bo_tokenizer_encode(context, tokenizer, "\xe2", 1, false, &snowman));
    const choice choices[] = {{character(tokenizer, 'x'), 1}, {snowman.items[0], 1}}; /* the first of three bytes */
    bo_model *model = fixed_model(context, tokenizer, choices, 2);
    const char *path = test_path(directory, "text");
    bo_composition report;
    void *bytes;
    size_t size;
    size_t texts = 0;
    for (uint64_t first = 0; first < 12; first++) {
        const bo_compose_desc desc = {.tokens = 1, .longest = 3, .first = first};
        if (bo_model_compose(context, model, &desc, path, &report) != BO_OK) continue; /* no whole character */
        assert_ok(context, bo_file_load(context, path, 1 << 20, &bytes, &size));
        assert_true(memchr(bytes, 'x', size) == bytes && !memchr(bytes, 0xe2, size));
        bo_free(bytes);
        texts++;
    }
    assert_in_range(texts, 1, 11);
    bo_ids_free(&snowman);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- the same bytes ---------------------------------------------------------------------------------------------- */

static void compose(bo_context *context, const bo_model *model, const char *path, size_t lanes, uint64_t seed,
                    bo_composition *report)
{
    const bo_compose_desc desc = {
        .tokens = 300, .longest = LONGEST, .lanes = lanes, .sampler = {.seed = seed, .top_p = 0.9, .temperature = 0.8}};
    assert_ok(context, bo_model_compose(context, model, &desc, path, report));
}

static void *load(bo_context *context, const char *path, size_t *size)
{
    void *bytes;
    assert_ok(context, bo_file_load(context, path, 1 << 20, &bytes, size));
    return bytes;
}

static void check_same(test_directory *directory, const char *kind)
{
    static const struct {
        int threads;
        size_t lanes;
    } cases[] = {{2, 0}, {4, 32}, {1, 1}, {3, 7}, {2, 64}};
    bo_tokenizer *tokenizer = special_tokenizer(directory->context, 1);
    bo_model_desc desc = test_desc(kind);
    desc.vocab = 0;
    bo_model *model = test_model(directory->context, &desc, tokenizer);
    const char *path = test_path(directory, "text"), *other = test_path(directory, "other");
    bo_composition report, again;
    size_t size;
    compose(directory->context, model, path, 0, 1, &report);
    void *bytes = load(directory->context, path, &size);
    assert_int_equal(size, report.bytes);
    /* Logits of different numbers of lanes may differ in the last bits. That changes a token with probability 1e-6, and
     * none of these. */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_context *context = test_context(cases[i].threads);
        assert_ok(context, bo_context_use_device(context, bo_context_describe(directory->context)->device));
        compose(context, model, other, cases[i].lanes, 1, &again);
        assert_file_equal(other, bytes, size);
        assert_int_equal(again.tokens, report.tokens);
        assert_int_equal(again.next, report.next);
        assert_int_equal(again.cut, report.cut);
        bo_context_destroy(context);
    }
    compose(directory->context, model, other, 0, 2, &again);
    size_t other_size;
    void *other_bytes = load(directory->context, other, &other_size);
    assert_true(other_size != size || memcmp(bytes, other_bytes, size) != 0);
    bo_free(other_bytes);
    bo_free(bytes);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

static void test_same(void **state)
{
    static const char *const kinds[] = {"softmax", "rfa-gate", "hybrid", "gru"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) check_same(*state, kinds[i]);
}

/* The documents in the file do not depend on the number of lanes, although more documents are started than needed. The
 * logits of this model are the same for any number of lanes, so the bytes are. */
static void test_budgets(void **state)
{
    static const uint64_t budgets[] = {1, 6, 30, 80};
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 1);
    const choice choices[] = {
        {character(tokenizer, 'x'), 5}, {character(tokenizer, 'y'), 3}, {bo_tokenizer_end(tokenizer), 1}};
    bo_model *model = fixed_model(context, tokenizer, choices, 3);
    const char *path = test_path(directory, "text");
    for (uint64_t seed = 0; seed < 160; seed++) {
        bo_compose_desc desc = {.tokens = budgets[seed % 4], .lanes = 1, .sampler = {.seed = seed}};
        bo_composition one, many;
        size_t size;
        const bo_status status = bo_model_compose(context, model, &desc, path, &one);
        desc.lanes = 2 + seed % 13;
        if (status != BO_OK) { /* only empty documents */
            assert_int_equal(bo_model_compose(context, model, &desc, path, &many), status);
            continue;
        }
        void *bytes = load(context, path, &size);
        assert_ok(context, bo_model_compose(context, model, &desc, path, &many));
        assert_file_equal(path, bytes, size);
        assert_in_range(one.tokens, desc.tokens, desc.tokens + CONTEXT);
        assert_int_equal(one.tokens, many.tokens);
        assert_int_equal(one.next, many.next);
        assert_int_equal(one.empty, many.empty);
        bo_free(bytes);
    }
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* Two parts, one after the other, are the whole. */
static void test_parts(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = special_tokenizer(context, 1);
    bo_model_desc desc = test_desc("rfa-gate");
    desc.vocab = 0;
    bo_model *model = test_model(context, &desc, tokenizer);
    const char *path = test_path(directory, "text");
    bo_compose_desc part = {.tokens = 100, .longest = LONGEST};
    bo_composition first, second, whole;
    size_t sizes[3];
    assert_ok(context, bo_model_compose(context, model, &part, path, &first));
    void *a = load(context, path, &sizes[0]);
    part.first = first.next;
    assert_ok(context, bo_model_compose(context, model, &part, path, &second));
    void *b = load(context, path, &sizes[1]);
    part = (bo_compose_desc){.tokens = first.tokens + second.tokens, .longest = LONGEST};
    assert_ok(context, bo_model_compose(context, model, &part, path, &whole));
    char *c = load(context, path, &sizes[2]);
    assert_int_equal(sizes[2], sizes[0] + sizes[1]);
    assert_memory_equal(c, a, sizes[0]);
    assert_memory_equal(c + sizes[0], b, sizes[1]);
    assert_int_equal(whole.next, second.next);
    bo_free(a);
    bo_free(b);
    bo_free(c);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static bool stop(void *user, const char *what, double done, double total)
{
    size_t *left = user;
    (void)what;
    assert_true(done <= total);
    return (*left)-- > 1;
}

static void test_canceled(void **state)
{
    test_directory *directory = *state;
    size_t left = 5;
    bo_context *context;
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 2, .progress = stop, .user = &left}, &context),
                     BO_OK);
    bo_tokenizer *tokenizer = byte_tokenizer(directory->context);
    bo_model *model = fixed_model(directory->context, tokenizer, &(choice){'x', 1}, 1);
    const char *path = test_text(directory, "text", "old");
    assert_fails(context, BO_CANCELED, "",
                 bo_model_compose(context, model, &(bo_compose_desc){.tokens = 1000}, path, NULL));
    assert_file_equal(path, "old", 3);
    assert_int_equal(test_files_left(directory), 1);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *tokenizer = byte_tokenizer(context);
    bo_model_desc desc = test_desc("softmax");
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_model *model = test_model(context, &desc, tokenizer), *mute = test_model(context, &desc, NULL), *other;
    const char *path = test_path(directory, "text");
#define REFUSED(message, ...)                                                                                          \
    assert_fails(context, BO_INVALID, message,                                                                         \
                 bo_model_compose(context, model, &(bo_compose_desc){__VA_ARGS__}, path, NULL))
    REFUSED("tokens must be at least 1", .longest = 8);
    REFUSED("longest must be 2 to 48, found 1", .tokens = 9, .longest = 1);
    REFUSED("longest must be 2 to 48, found 49", .tokens = 9, .longest = 49);
    REFUSED("lanes must be at most 65536", .tokens = 9, .lanes = 1 << 20);
    REFUSED("the separator is empty", .tokens = 9, .separator = "");
    REFUSED("temperature", .tokens = 9, .sampler = {.temperature = -1});
    REFUSED("reserved", .tokens = 9, .reserved = {0, 1});
    path = test_path(directory, "text.jsonl");
    REFUSED("JSON lines", .tokens = 9);
#undef REFUSED
    const bo_compose_desc good = {.tokens = 9};
    path = test_path(directory, "none/text");
    assert_int_equal(bo_model_compose(context, model, &good, path, NULL), BO_IO);
    path = test_path(directory, "text");
    assert_fails(context, BO_INVALID, "no tokenizer", bo_model_compose(context, mute, &good, path, NULL));
    desc.task = BO_MODEL_TASK_TRANSLATE;
    desc.vocab = 0;
    assert_ok(context, bo_model_create(context, &desc, tokenizer, &other));
    assert_fails(context, BO_INVALID, "translate", bo_model_compose(context, other, &good, path, NULL));
    assert_int_equal(test_files_left(directory), 0);
    assert_ok(context, bo_model_compose(context, model, &good, path, NULL));
    bo_model_destroy(other);
    bo_model_destroy(mute);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
}

typedef struct work {
    bo_context *context;
    const bo_model *model;
    const char *path;
} work;

static bo_status write_some(void *what)
{
    const work *w = what;
    return bo_model_compose(w->context, w->model, &(bo_compose_desc){.tokens = 90, .longest = LONGEST, .lanes = 3},
                            w->path, NULL);
}

static void test_starved(void **state)
{
    test_directory *directory = *state;
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    bo_tokenizer *tokenizer = special_tokenizer(directory->context, 1);
    bo_model_desc desc = test_desc("softmax");
    desc.vocab = 0, desc.layers = 1;
    bo_model *model = test_model(directory->context, &desc, tokenizer);
    work w = {context, model, test_path(directory, "text")};
    counting_inject(&(injection){.counted = &memory,
                                 .context = context,
                                 .work = write_some,
                                 .what = &w,
                                 .all = 120,
                                 .stride = 7,
                                 .spared = "the sequences of a call"});
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(test_one_token), IN_DIRECTORY(test_geometric),  IN_DIRECTORY(test_ends),
        IN_DIRECTORY(test_spelled),   IN_DIRECTORY(test_characters), IN_DIRECTORY(test_same),
        IN_DIRECTORY(test_budgets),   IN_DIRECTORY(test_parts),      IN_DIRECTORY(test_canceled),
        IN_DIRECTORY(test_refused),   IN_DIRECTORY(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
