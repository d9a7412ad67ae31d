/* Comparison with transformers (version 5): tiny models with random weights, written by transformers with their float32
 * logits, and made again by scripts/reference-models. Covers every family of src/model/families.c: RoPE and its
 * scaling, norms, activation functions, grouped queries, windows shorter than the text, parallel blocks, biases, tied
 * and untied output, and the names, layouts and storage of the weights. */
#include "io/tensors.h"
#include "io/files.h"
#include "models.h"

typedef struct reference {
    bo_model *model;
    bo_tensors *file;
    const int32_t *ids, *greedy, *rows;
    const float *logits;
    size_t count, greedy_count, row_count, vocab;
} reference;

static reference open_reference(bo_context *context, const char *name)
{
    reference r;
    const bo_file_tensor *tensor;
    char path[1024];
    const char *source = getenv("BOCHNER_SOURCE");
    snprintf(path, sizeof path, "%s/tests/data/%s", source ? source : ".", name);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &r.model));
    snprintf(path, sizeof path, "%s/tests/data/%s/reference.safetensors", source ? source : ".", name);
    assert_ok(context, bo_tensors_open(context, path, &r.file));
    tensor = bo_tensors_find(r.file, "input_ids");
    r.ids = tensor->data;
    r.count = tensor->shape[0];
    tensor = bo_tensors_find(r.file, "greedy");
    r.greedy = tensor->data;
    r.greedy_count = tensor->shape[0];
    tensor = bo_tensors_find(r.file, "rows");
    r.rows = tensor->data;
    r.row_count = tensor->shape[0];
    tensor = bo_tensors_find(r.file, "logits");
    r.logits = tensor->data;
    r.vocab = tensor->shape[1];
    return r;
}

static void close_reference(reference *r)
{
    bo_tensors_close(r->file);
    bo_model_destroy(r->model);
}

/* Both sides are float32: each logit is a sum of 64 products after three layers, so errors of about 1e-6 of the largest
 * logit are expected; any difference of formula would exceed 2e-5. */
static void check_logits(bo_context *context, const reference *r, size_t chunk, bool at_once)
{
    bo_session *session;
    float *logits = malloc(r->vocab * sizeof *logits);
    size_t at = 0;
    double worst = 0, largest = 0;
    assert_ok(context, bo_session_create(context, r->model, &(bo_session_desc){.chunk = chunk}, &session));
    for (size_t i = at_once ? r->row_count - 1 : 0; i < r->row_count; i++) {
        size_t next = (size_t)r->rows[i] + 1;
        assert_ok(context, bo_session_feed(context, session, r->ids + at, next - at, logits));
        at = next;
        for (size_t v = 0; v < r->vocab; v++) {
            double expected = (double)r->logits[i * r->vocab + v], error = fabs((double)logits[v] - expected);
            if (error > worst) worst = error;
            if (fabs(expected) > largest) largest = fabs(expected);
        }
    }
    if (!(worst <= 2e-5 * largest)) fail_msg("largest error %g of logits up to %g", worst, largest);
    bo_session_destroy(session);
    free(logits);
}

/* The first tokens are the prompt. */
static void check_greedy(bo_context *context, const reference *r)
{
    enum { PROMPT = 16 };
    bo_session *session;
    bo_sampler *sampler;
    float *logits = malloc(r->vocab * sizeof *logits);
    assert_ok(context, bo_sampler_create(context, &(bo_sampler_desc){.greedy = true}, &sampler));
    assert_ok(context, bo_session_create(context, r->model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, r->greedy, PROMPT, logits));
    for (size_t i = PROMPT; i < r->greedy_count; i++) {
        int32_t next = bo_sampler_next(sampler, logits, r->vocab);
        if (next != r->greedy[i]) fail_msg("token %zu is %d, expected %d", i, next, r->greedy[i]);
        assert_ok(context, bo_session_feed(context, session, &next, 1, logits));
    }
    bo_session_destroy(session);
    bo_sampler_destroy(sampler);
    free(logits);
}

/* In pieces, token by token, in small chunks, and all tokens at once. */
static void check_all(bo_context *context, const reference *r)
{
    check_logits(context, r, 0, false);
    check_logits(context, r, 1, false);
    check_logits(context, r, 3, false);
    check_logits(context, r, 0, true);
    check_greedy(context, r);
}

static void check(const char *name)
{
    bo_context *context = test_context(2);
    reference r = open_reference(context, name);
    check_all(context, &r);
    close_reference(&r);
    bo_context_destroy(context);
}

static void test_llama(void **unused)
{
    (void)unused;
    check("llama-tiny");
}

static void test_gpt2(void **unused)
{
    (void)unused;
    check("gpt2-tiny");
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

/* tests/data/families: names, and the "model_type" of each. */
static const char *const families[][2] = {{"llama", "llama"},
                                          {"llama3", "llama"},
                                          {"llama-linear", "llama"},
                                          {"mistral", "mistral"},
                                          {"mistral-full", "mistral"},
                                          {"qwen2", "qwen2"},
                                          {"qwen2-window", "qwen2"},
                                          {"qwen3", "qwen3"},
                                          {"qwen3-window", "qwen3"},
                                          {"gemma", "gemma"},
                                          {"gemma3", "gemma3_text"},
                                          {"gemma3-plain", "gemma3_text"},
                                          {"gpt2", "gpt2"},
                                          {"gpt2-relu", "gpt2"},
                                          {"gpt_neox", "gpt_neox"},
                                          {"gpt_neox-sequential", "gpt_neox"},
                                          {"phi", "phi"},
                                          {"phi3", "phi3"},
                                          {"phi3-partial", "phi3"},
                                          {"starcoder2", "starcoder2"},
                                          {"starcoder2-plain", "starcoder2"},
                                          {"stablelm", "stablelm"},
                                          {"stablelm-parallel", "stablelm"},
                                          {"granite", "granite"},
                                          {"olmo2", "olmo2"},
                                          {"gptj", "gptj"},
                                          {"smollm3", "smollm3"},
                                          {"smollm3-window", "smollm3"}};
enum { FAMILIES = sizeof families / sizeof *families };

static reference open_family(bo_context *context, size_t index)
{
    char name[64];
    snprintf(name, sizeof name, "families/%s", families[index][0]);
    print_message("%s\n", name);
    return open_reference(context, name);
}

static void test_families(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < FAMILIES; i++) {
        reference r = open_family(context, i);
        check_all(context, &r);
        close_reference(&r);
    }
    bo_context_destroy(context);
}

static void check_type(test_directory *directory, const char *type)
{
    char text[4096] = "", expected[64];
    const char *path = test_path(directory, "config.json");
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    snprintf(expected, sizeof expected, "\"model_type\": \"%s\"", type);
    if (!strstr(text, expected)) fail_msg("no %s in %s", expected, text);
}

/* Saved, a model keeps its family, and it is the same model when it is loaded again. */
static void test_saved(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t i = 0; i < FAMILIES; i++) {
        reference r = open_family(context, i);
        bo_model *again;
        assert_ok(context, bo_model_save(context, r.model, &(bo_sink){.path = directory->path}));
        check_type(directory, families[i][1]);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &again));
        assert_int_equal(bo_model_fingerprint(again), bo_model_fingerprint(r.model));
        bo_model_destroy(r.model);
        r.model = again;
        check_logits(context, &r, 0, false);
        close_reference(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_families),
        cmocka_unit_test_setup_teardown(test_saved, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
