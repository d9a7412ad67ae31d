/* Comparison with transformers (version 5.17): tiny models with random weights, written by transformers with their
 * float32 logits. Covers RoPE in halves, RMSNorm, SwiGLU, grouped queries, the attention scale and untied output
 * (Llama); learned positions, LayerNorm, tanh GELU, biases and tied embeddings (GPT-2); and the names and layouts of
 * the weights of both. */
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
    assert_ok(context, bo_model_load(context, path, &r.model));
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
static void check_logits(bo_context *context, const reference *r, bool pieces)
{
    bo_session *session;
    float *logits = malloc(r->vocab * sizeof *logits);
    size_t at = 0;
    double worst = 0, largest = 0;
    assert_ok(context, bo_session_create(context, r->model, &(bo_session_desc){.chunk = pieces ? 0 : 1}, &session));
    for (size_t i = 0; i < r->row_count; i++) {
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

static void check(const char *name)
{
    bo_context *context = test_context(2);
    reference r = open_reference(context, name);
    check_logits(context, &r, true);
    check_logits(context, &r, false);
    check_greedy(context, &r);
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

/* Saved in our format it is the same model. */
static void test_as_our_own(void **state)
{
    test_folder *folder = *state;
    bo_context *context = folder->context;
    static const char *const names[] = {"llama-tiny", "gpt2-tiny"};
    for (size_t i = 0; i < 2; i++) {
        reference r = open_reference(context, names[i]);
        bo_model *own;
        assert_ok(context, bo_model_save(context, r.model, folder->path));
        assert_ok(context, bo_model_load(context, folder->path, &own));
        bo_model_destroy(r.model);
        r.model = own;
        check_logits(context, &r, true);
        close_reference(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test_setup_teardown(test_as_our_own, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
