/* Every mixer as a layer of a description: it can be created and predicts. */
#include "nn/enums.h"
#include "testing.h"
#include <bochner/network.h>

enum { TOKENS = 6, CHANNELS = 8, ROWS = 4, DIM = TOKENS * CHANNELS };

static void predict(bo_context *context, const char *kind, const float *x, float *out)
{
    char model[512];
    double y[ROWS] = {0, 1, 2, 3};
    bo_examples *examples;
    bo_model *network;
    snprintf(
        model, sizeof model,
        "{\"input\": {\"kind\": \"sequence\", \"length\": %d, \"channels\": %d, \"standardize\": false}, \"layers\": "
        "[{\"type\": \"mixer\", \"kind\": \"%s\", \"heads\": 2}, {\"type\": \"mixer\", \"kind\": \"%s\"}, "
        "{\"type\": \"flatten\"}, {\"type\": \"linear\", \"width\": \"targets\"}], \"loss\": \"mse\"}",
        TOKENS, CHANNELS, kind, kind);
    const bo_examples_arrays arrays = {.rows = ROWS, .dim = DIM, .targets = 1, .x = x, .y = y};
    assert_ok(context, bo_examples_create(context, &arrays, &examples));
    assert_ok(context, bo_model_create_described(
                           context, &(bo_description){.text = model, .examples = examples, .seed = 3}, &network));
    assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, out));
    bo_model_destroy(network);
    bo_examples_destroy(examples);
}

static void test_every_mixer_predicts(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.mixers", 0));
    float x[ROWS * DIM], out[ROWS];
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] = (float)bo_rng_normal(&rng);
    for (bo_mixer kind = BO_MIXER_MLP; kind < BO_MIXER_COUNT; kind++) {
        predict(context, bo_mixer_name(kind), x, out);
        for (size_t i = 0; i < ROWS; i++) assert_true(isfinite(out[i]));
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_mixer_predicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
