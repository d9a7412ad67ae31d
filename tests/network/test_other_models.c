/* Functions for text models refuse models of the task predict, and the other way round. */
#include "linearize/linearize.h"
#include "model/lanes.h"
#include "networks.h"
#include <bochner/inspect.h>
#include <bochner/linearize.h>
#include <bochner/lora.h>
#include <bochner/tasks.h>
#include <bochner/train.h>

typedef struct other_models {
    bo_context *context;
    made *made;
    bo_model *network, *text;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_texts *texts;
} other_models;

static other_models open_all(void)
{
    static int32_t ids[64];
    static const char *const labels[] = {"a", "b"};
    other_models o = {.context = test_context(1)};
    bo_block block = {.heads = 2};
    const bo_model_desc desc = {.layers = 1, .width = 8, .context = 8, .block = block};
    o.made = made_new(o.context, 8, 2, false);
    char *text = layer_case_text(layer_case_named("linear"));
    o.network = network_new(o.context, text, o.made->examples);
    free(text);
    assert_ok(o.context, bo_tokenizer_create(o.context, &o.tokenizer));
    assert_ok(o.context, bo_model_create(o.context, &desc, o.tokenizer, &o.text));
    assert_ok(
        o.context,
        bo_corpus_open(o.context, &(bo_corpus_desc){.tokenizer = o.tokenizer, .ids = ids, .id_count = 64}, &o.corpus));
    const bo_texts_desc texts = {.kind = BO_TEXTS_LABELED,
                                 .tokenizer = o.tokenizer,
                                 .labels = labels,
                                 .classes = 2,
                                 .memory = "a\tone\nb\ttwo\n",
                                 .memory_bytes = 12};
    assert_ok(o.context, bo_texts_open(o.context, &texts, &o.texts));
    return o;
}

static void close_all(other_models *o)
{
    bo_texts_close(o->texts);
    bo_corpus_close(o->corpus);
    bo_model_destroy(o->text), bo_model_destroy(o->network);
    bo_tokenizer_destroy(o->tokenizer);
    made_free(o->made);
    bo_context_destroy(o->context);
}

/* The message names the task or its requirements. */
#define REFUSES(...)                                                                                                   \
    do {                                                                                                               \
        const bo_status status = (__VA_ARGS__);                                                                        \
        if (status != BO_INVALID && status != BO_UNSUPPORTED) fail_msg(#__VA_ARGS__ ": %s", bo_status_string(status)); \
        if (!strstr(bo_context_error(c), "predict") && !strstr(bo_context_error(c), "requires a") &&                   \
            !strstr(bo_context_error(c), "language model") && !strstr(bo_context_error(c), "the task language"))       \
            fail_msg(#__VA_ARGS__ ": %s", bo_context_error(c));                                                        \
    } while (0)

static void functions_of_text_models(void **state)
{
    (void)state;
    other_models o = open_all();
    bo_context *c = o.context;
    bo_model *n = o.network, *other = NULL;
    int32_t ids[8] = {0};
    float numbers[512];
    size_t size;
    bo_session *session;
    bo_lanes *lanes;
    bo_inspection *inspection;
    bo_model_sizes sizes;
    bo_trainer *trainer;
    char *text;
    double loss, reals[8];
    REFUSES(bo_session_create(c, n, NULL, &session));
    REFUSES(bo_session_estimate(c, n, NULL, &size, NULL));
    REFUSES(bo_session_measure(c, n, (size_t[]){4}, 1, &(bo_session_cost){0}));
    REFUSES(bo_lanes_create(c, n, &(bo_lanes_desc){.count = 1}, &lanes));
    REFUSES(bo_inspect(c, n, ids, 8, &(bo_inspect_desc){.tokens = 8}, &inspection));
    REFUSES(bo_model_measure(c, n, 8, &sizes));
    REFUSES(bo_model_calibrate(c, n, n, o.corpus, 8, NULL, NULL));
    REFUSES(bo_model_whiten(c, n, o.corpus, 8, 8));
    REFUSES(bo_model_adapt(c, n, &(bo_lora_desc){.rank = 1}));
    REFUSES(bo_model_evaluate(c, n, o.corpus, 0, 0, &(bo_evaluation){0}));
    REFUSES(bo_model_adopt(c, n, o.text, &size));
    REFUSES(bo_model_adopt(c, o.text, n, &size));
    REFUSES(bo_model_set_storage(c, n, BO_STORAGE_BFLOAT16));
    REFUSES(bo_model_replace_attention(c, n, &(bo_replacement_desc){.attention.kind = BO_ATTENTION_LINEAR}, &other));
    REFUSES(bo_model_imitation(c, n, o.corpus, 8, 0, &loss));
    REFUSES(bo_model_agreement(c, n, n, o.corpus, 0, 0, &(bo_agreement){0}));
    REFUSES(bo_model_agreement(c, o.text, n, o.corpus, 0, 0, &(bo_agreement){0}));
    REFUSES(bo_model_compose(c, n, &(bo_compose_desc){.tokens = 8}, "/nowhere/texts", NULL));
    REFUSES(bo_model_classify(c, n, o.texts, 0, 1, numbers));
    REFUSES(bo_model_evaluate_labels(c, n, o.texts, 0, &(bo_classification){0}, NULL));
    REFUSES(bo_linearize(
        c,
        &(bo_linearize_desc){
            .teacher = n, .train = o.corpus, .directory = "/nowhere", .attention.kind = BO_ATTENTION_LINEAR},
        &other));
    REFUSES(bo_trainer_create(c, &(bo_trainer_desc){.model = n, .train.corpus = o.corpus, .steps = 1}, &trainer));
    REFUSES(bo_trainer_create(c, &(bo_trainer_desc){.model = n, .train.texts = o.texts, .steps = 1}, &trainer));
    REFUSES(bo_model_probe(c, n, ids, 4, reals));
    assert_true(bo_model_new_parameters(c, n, &text) != BO_OK);
    assert_true(bo_model_merge(c, n) != BO_OK && bo_model_unmerge(c, n) != BO_OK);
    assert_true(bo_model_set_base(c, n, "/") != BO_OK);
    /* properties that it does not have */
    assert_null(bo_model_attention(n, 0));
    assert_null(bo_model_tokenizer(n));
    assert_int_equal(bo_model_report(n)->end_count, 0);
    assert_int_equal(bo_model_report(n)->begin_token, -1);
    (void)bo_model_companion(n, "tokenizer.json");
    assert_int_equal(bo_model_report(n)->state_bytes, 0);
    assert_int_equal(bo_model_activations(n), 0);
    assert_null(bo_model_activation(n, 0));
    assert_int_equal(bo_model_report(n)->frozen_parameters, 0);
    bo_texts_desc texts = {0};
    bo_model_preset_texts(n, true, &texts);
    close_all(&o);
}

static void functions_of_networks(void **state)
{
    (void)state;
    other_models o = open_all();
    bo_context *c = o.context;
    float out[2 * MADE_ROWS];
    bo_trainer *trainer;
    bo_examples_evaluation found;
    assert_null(bo_model_report(o.text)->network);
    REFUSES(bo_model_predict(c, o.text, o.made->examples, BO_SPLIT_ALL, out));
    REFUSES(bo_model_evaluate_examples(c, o.text, o.made->examples, BO_SPLIT_ALL, &found));
    REFUSES(bo_model_solve(c, o.text, o.made->examples, 1));
    REFUSES(bo_trainer_create(c, &(bo_trainer_desc){.model = o.text, .train.examples = o.made->examples, .steps = 1},
                              &trainer));
    bo_examples *examples;
    const bo_examples_desc desc = {.data.path = "/nowhere.csv"};
    assert_true(bo_examples_load(c, &desc, o.text, &examples) != BO_OK);
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_of_text_models),
                                       cmocka_unit_test(functions_of_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
