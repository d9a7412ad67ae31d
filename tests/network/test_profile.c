/* Profiles of networks: every layer; weights do not change, including those that training changes without a
 * gradient. */
#include "networks.h"

static void profile(bo_context *context, const char *name, const char *text, const bo_examples *examples)
{
    bo_model *network = network_new(context, text, examples);
    const size_t bytes = bo_weights_floats(network->weights) * sizeof(float);
    char *before = malloc(bytes ? bytes : 1);
    memcpy(before, bo_weights_data(network->weights), bytes);
    for (int forward = 0; forward < 2; forward++) {
        bo_profile *p = NULL;
        const bo_profile_desc desc = {.batch = 6, .repeats = 2, .forward = forward};
        if (bo_model_profile(context, network, &desc, &p) != BO_OK) fail_msg("%s: %s", name, bo_context_error(context));
        if (memcmp(before, bo_weights_data(network->weights), bytes) != 0) fail_msg("%s: weights moved", name);
        const bo_profile_totals *t = &p->totals;
        assert_true(p->operation_count > 0 && t->forward + t->backward > 0);
        assert_true((t->backward > 0) == !forward);
        assert_non_null(strstr(t->subject, " of 6 "));
        bo_profile_destroy(p);
    }
    free(before);
    bo_model_destroy(network);
}

static void every_layer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < LAYER_CASES; i++) {
        made *m = made_new(context, layer_cases[i].dim, 2, layer_cases[i].graph);
        char *text = layer_case_text(&layer_cases[i]);
        profile(context, layer_cases[i].name, text, m->examples);
        free(text);
        made_free(m);
    }
    bo_context_destroy(context);
}

static void other_losses(void **state)
{
    (void)state;
    static const char *const losses[] = {"mse", "l1"};
    bo_context *context = test_context(1);
    made *m = made_new(context, 8, 0, false);
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": \"targets\"}], "
                 "\"loss\": \"%s\"}",
                 losses[i]);
        profile(context, losses[i], text, m->examples);
    }
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": "
                                    "\"targets\"}], \"loss\": \"mse\"}",
                                    m->examples);
    bo_profile *p;
    assert_fails(context, BO_INVALID, "tokens",
                 bo_model_profile(context, network, &(bo_profile_desc){.tokens = 3}, &p));
    assert_null(p);
    bo_model_destroy(network);
    made_free(m);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layer), cmocka_unit_test(other_losses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
