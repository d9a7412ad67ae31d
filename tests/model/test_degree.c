/* Models with random features and with polynomials: gradients compared with a float64 interpreter, adopted frequencies,
 * counts of trained parameters, and invalid descriptors. */
#include "nn/enums.h"
#include "gradients.h"

static const bo_mlp kinds[] = {BO_MLP_RANDOM_FEATURES, BO_MLP_DEGREE_2, BO_MLP_DEGREE_3,
                               BO_MLP_DEGREE_4,        BO_MLP_DEGREE_E, BO_MLP_QUADRATIC};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bo_model_desc small_desc(bo_mlp mlp)
{
    bo_model_desc desc = test_desc("softmax");
    desc.width = 8, desc.block.mlp = mlp, desc.block.hidden = mlp == BO_MLP_QUADRATIC ? 4 : 12;
    if (mlp == BO_MLP_DEGREE_3) desc.block.degree_heads = 3;
    return desc;
}

static void check_gradients(bo_context *context, const char *name, const bo_model_desc *desc)
{
    bo_model *model = test_model(context, desc, NULL);
    reading r = reading_create(2 * GRADIENT_WINDOW, &(bo_graph_pass){0});
    float *gradients = gradients_of(context, model, &r, false), *again = gradients_of(context, model, &r, true);
    compare_gradients(context, name, model, &r, gradients);
    assert_memory_equal(gradients, again, bo_weights_floats(model->weights) * sizeof *again);
    free(gradients);
    free(again);
    bo_model_destroy(model);
}

static void gradients_of_every_mlp(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        bo_model_desc desc = small_desc(kinds[i]);
        desc.block.bias = i % 2;
        check_gradients(context, bo_mlp_name(kinds[i]), &desc);
    }
    bo_model_desc relu = small_desc(BO_MLP_RANDOM_FEATURES), whole = small_desc(BO_MLP_QUADRATIC);
    relu.block.mlp_features.kernel = BO_KERNEL_ARCCOS, relu.block.mlp_features.draw = BO_DRAW_IID;
    check_gradients(context, "random features, relu", &relu);
    whole.block.hidden = whole.width;
    check_gradients(context, "quadratic forms of all of x", &whole);
    bo_context_destroy(context);
}

static void gradients_of_every_mixer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (bo_mixer mixer = BO_MIXER_DEGREE_2; mixer <= BO_MIXER_DEGREE_E; mixer++) {
        bo_model_desc desc = small_desc(BO_MLP_DEGREE_2);
        desc.block.attention = (bo_attention_desc){0}, desc.block.mixer = mixer;
        check_gradients(context, bo_mixer_name(mixer), &desc);
    }
    bo_context_destroy(context);
}

/* ---- frequencies ------------------------------------------------------------------------------------------------- */

static void losses_of(bo_context *context, const bo_model *model, float losses[CONTEXT])
{
    int32_t ids[CONTEXT + 1];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, losses));
}

/* A readout is useless with other frequencies. */
static void adoption_brings_frequencies(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = small_desc(BO_MLP_RANDOM_FEATURES);
    bo_model *from = test_model(context, &desc, NULL);
    desc.seed = 8;
    bo_model *to = test_model(context, &desc, NULL);
    float expected[CONTEXT], found[CONTEXT];
    losses_of(context, from, expected);
    losses_of(context, to, found);
    assert_memory_not_equal(expected, found, sizeof found);
    assert_ok(context, bo_model_adopt(context, to, from, NULL));
    losses_of(context, to, found);
    assert_memory_equal(expected, found, sizeof found);
    bo_model_destroy(to);
    bo_model_destroy(from);
    bo_context_destroy(context);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Frequencies are not weights; every layer has different ones. */
static void frequencies_are_not_trained(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = small_desc(BO_MLP_RANDOM_FEATURES), none = small_desc(BO_MLP_NONE);
    bo_model *model, *bare;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    none.block.hidden = 0;
    assert_ok(context, bo_model_create(context, &none, NULL, &bare));
    assert_int_equal(bo_model_report(bare)->frozen_parameters, 0);
    assert_int_equal(bo_model_report(model)->frozen_parameters, LAYERS * 6 * 8); /* sin and cos of 6 frequencies */
    /* one norm, one scale and one readout per layer */
    assert_int_equal(bo_model_report(model)->parameters - bo_model_report(bare)->parameters, LAYERS * (8 + 1 + 12 * 8));
    float first[6 * 8], second[6 * 8];
    assert_ok(context, bo_features_get_frequencies(context, model->mlp_maps[0], first));
    assert_ok(context, bo_features_get_frequencies(context, model->mlp_maps[1], second));
    assert_memory_not_equal(first, second, sizeof first);
    bo_model_destroy(model);
    bo_model_destroy(bare);
    bo_context_destroy(context);
}

#define REFUSED(message, change)                                                                                       \
    do {                                                                                                               \
        bo_model_desc d = small_desc(BO_MLP_DEGREE_2);                                                                 \
        bo_model *model = NULL;                                                                                        \
        change;                                                                                                        \
        assert_int_not_equal(bo_model_create(context, &d, NULL, &model), BO_OK);                                       \
        assert_null(model);                                                                                            \
        if (!strstr(bo_context_error(context), message))                                                               \
            fail_msg("'%s' lacks '%s'", bo_context_error(context), message);                                           \
    } while (0)

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    REFUSED("degree_heads must divide hidden = 12, found 5", d.block.degree_heads = 5);
    REFUSED("degree_heads requires an MLP of a degree", (d.block.mlp = BO_MLP_GELU, d.block.degree_heads = 2));
    REFUSED("at most width = 8, found 12", (d.block.mlp = BO_MLP_QUADRATIC));
    REFUSED("features must be hidden = 12", (d.block.mlp = BO_MLP_RANDOM_FEATURES, d.block.mlp_features.features = 10));
    REFUSED("are fixed after sampling",
            (d.block.mlp = BO_MLP_RANDOM_FEATURES, d.block.mlp_features.sampling = BO_SAMPLING_LEVERAGE));
    REFUSED("kernel custom", (d.block.mlp = BO_MLP_RANDOM_FEATURES, d.block.mlp_features.kernel = BO_KERNEL_CUSTOM));
    REFUSED("multiple of 2, found 13", (d.block.mlp = BO_MLP_RANDOM_FEATURES, d.block.hidden = 13)); /* sin and cos */
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_every_mlp),      cmocka_unit_test(gradients_of_every_mixer),
        cmocka_unit_test(adoption_brings_frequencies), cmocka_unit_test(frequencies_are_not_trained),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
