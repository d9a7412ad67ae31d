/* Models under a parametrization: saved in files, equal in sessions and losses, of unit scale if promised, and in eight
 * bits. */
#include <bochner/model.h>
#include <unistd.h>
#include "nn/enums.h"
#include "models.h"

static bo_model_desc make_desc(bo_parametrization kind, size_t width)
{
    bo_model_desc desc = test_desc("softmax");
    desc.width = width, desc.block.heads = width / 8, desc.block.hidden = 0;
    desc.parametrization = kind;
    desc.base_width = kind ? 16 : 0;
    return desc;
}

/* The same with a list of layers in the place of the MLP. */
static bo_model_desc make_listed(bo_parametrization kind, size_t width)
{
    bo_model_desc desc = make_desc(kind, width);
    desc.block.layers =
        "[{\"type\": \"mlp\", \"hidden\": 48}, {\"type\": \"linear\", \"width\": 40}, {\"type\": \"gelu\"}, "
        "{\"type\": \"linear\", \"width\": \"input\"}]";
    return desc;
}

static bo_model *create_model(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    return model;
}

/* ---- files and sessions ------------------------------------------------------------------------------------------ */

static void stays_in_files(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    int32_t ids[CONTEXT + 1];
    float before[CONTEXT], after[CONTEXT];
    char directory[] = "/tmp/bochner-parametrize-XXXXXX";
    test_tokens(CONTEXT + 1, ids);
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2 * BO_PARAMETRIZATION_COUNT; i++) {
        const bo_parametrization kind = (bo_parametrization)(i / 2);
        bo_model_desc desc = (i % 2 ? make_listed : make_desc)(kind, 32);
        if (kind == BO_PARAMETRIZATION_UNIT) desc.storage = BO_STORAGE_FLOAT8;
        bo_model *model = create_model(context, &desc), *loaded;
        shake(context, model);
        assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = directory}, NULL, &loaded));
        const bo_model_desc *found = bo_model_describe(loaded);
        assert_int_equal(found->parametrization, kind);
        assert_int_equal(found->base_width, desc.base_width);
        assert_int_equal(found->storage, desc.storage);
        assert_true(bo_model_fingerprint(model) == bo_model_fingerprint(loaded));
        assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, before));
        assert_ok(context, window_pass(context, loaded, ids, CONTEXT, NULL, after));
        assert_memory_equal(before, after, sizeof before);
        bo_model_destroy(model);
        bo_model_destroy(loaded);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    bo_context_destroy(context);
}

/* The logits of a session and the loss of a window have the same factor. */
static void sessions_agree(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    int32_t ids[CONTEXT + 1];
    float losses[CONTEXT], logits[VOCAB];
    test_tokens(CONTEXT + 1, ids);
    for (int untied = 0; untied < 2; untied++)
        for (bo_parametrization kind = 0; kind < BO_PARAMETRIZATION_COUNT; kind++) {
            bo_model_desc desc = make_desc(kind, 32);
            desc.untied = untied;
            bo_model *model = create_model(context, &desc);
            bo_session *session;
            shake(context, model);
            assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, losses));
            assert_ok(context, bo_session_create(context, model, NULL, &session));
            assert_ok(context, bo_session_feed(context, session, ids, CONTEXT, logits));
            double sum = 0, top = -INFINITY;
            for (size_t i = 0; i < VOCAB; i++) top = fmax(top, (double)logits[i]);
            for (size_t i = 0; i < VOCAB; i++) sum += exp((double)logits[i] - top);
            assert_close(top + log(sum) - (double)logits[ids[CONTEXT]], (double)losses[CONTEXT - 1], 1e-4);
            bo_session_destroy(session);
            bo_model_destroy(model);
        }
    bo_context_destroy(context);
}

/* ---- unit scale -------------------------------------------------------------------------------------------------- */

/* Weights and activations have size 1: the mean of |N(0, 1)| is 0.8. A branch adds τ/√(1 + τ²) of that and reduces the
 * residual stream, so the size is between 0.1 and 1. */
static void unit_scale(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double sizes[2 + 2 * LAYERS];
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    for (size_t width = 16; width <= 64; width *= 2) {
        bo_model_desc desc = make_desc(BO_PARAMETRIZATION_UNIT, width);
        bo_model *model = create_model(context, &desc);
        assert_true(bo_model_describe(model)->untied);
        for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
            const bo_weight *w = bo_weights_at(model->weights, i);
            if (w->rank != 2) continue;
            assert_int_equal(w->init.kind, BO_WEIGHT_INIT_KIND_NORMAL);
            assert_close(w->init.b, 1, 1e-9);
            double in = (double)w->columns;
            double scale = w->role == BO_WEIGHT_ROLE_EMBEDDING ? 1
                           : w->role == BO_WEIGHT_ROLE_HEAD    ? 1 / in
                                                               : 1 / sqrt(in);
            assert_close(w->scale, scale, 1e-12);
        }
        assert_int_equal(bo_model_activations(model), 2 + 2 * LAYERS);
        assert_string_equal(bo_model_activation(model, 0), "embedding");
        assert_string_equal(bo_model_activation(model, 1), "layer 0 attention");
        assert_string_equal(bo_model_activation(model, 4), "layer 1 mlp");
        assert_string_equal(bo_model_activation(model, 2 * LAYERS + 1), "logits");
        assert_null(bo_model_activation(model, 2 * LAYERS + 2));
        assert_ok(context, bo_model_probe(context, model, ids, CONTEXT, sizes));
        assert_close(sizes[0], 0.8, 0.1);
        for (size_t i = 1; i <= 2 * LAYERS; i++) assert_true(sizes[i] > 0.1 && sizes[i] < 1);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

typedef struct trial {
    bo_model *model;
    bo_model_graph graph;
} trial;

static trial trial_create(bo_context *context, const bo_model_desc *desc)
{
    trial t = {.model = create_model(context, desc)};
    int32_t ids[CONTEXT + 1], places[CONTEXT];
    test_tokens(CONTEXT + 1, ids);
    for (int32_t i = 0; i < CONTEXT; i++) places[i] = i;
    shake(context, t.model);
    bo_model_graph_desc graph = {.rows = CONTEXT, .loss = true, .gradients = true};
    assert_ok(context, bo_model_graph_create(context, t.model, &graph, &t.graph));
    assert_ok(context, bo_weights_allocate(context, t.model->weights, true));
    assert_ok(context, bo_graph_allocate(context, t.graph.graph));
    assert_ok(context, bo_graph_write(context, t.graph.graph, t.graph.tokens, ids));
    assert_ok(context, bo_graph_write(context, t.graph.graph, t.graph.targets, ids + 1));
    assert_ok(context, bo_graph_write(context, t.graph.graph, t.graph.positions, places));
    return t;
}

static void trial_drop(trial *t)
{
    bo_model_graph_destroy(&t->graph);
    bo_model_destroy(t->model);
}

static double trial_loss(bo_context *context, trial *t)
{
    float loss;
    assert_ok(context, bo_graph_run(context, t->graph.graph, NULL));
    assert_ok(context, bo_graph_read(context, t->graph.graph, t->graph.loss, &loss));
    return (double)loss;
}

/* For every weight, a small step along its gradient changes the loss by |g|², after the gradient scale is removed: the
 * factors of products and residuals apply in both directions of the graph. */
static void gradients_are_exact(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int k = 0; k < 2 * BO_PARAMETRIZATION_COUNT; k++) {
        const bo_parametrization kind = (bo_parametrization)(k / 2);
        bo_model_desc desc = (k % 2 ? make_listed : make_desc)(kind, 32);
        trial t = trial_create(context, &desc);
        bo_weights *weights = t.model->weights;
        size_t floats = bo_weights_floats(weights);
        double scale = bo_weights_rules(weights)->gradient_scale;
        float *w = bo_weights_data(weights), *g = malloc(floats * sizeof *g), *w0 = malloc(floats * sizeof *w0);
        memset(bo_weights_gradients(weights)->data, 0, floats * sizeof *g);
        trial_loss(context, &t);
        memcpy(g, bo_weights_gradients(weights)->data, floats * sizeof *g);
        memcpy(w0, w, floats * sizeof *w0);
        for (size_t i = 0; i < bo_weights_count(weights); i++) {
            const bo_weight *weight = bo_weights_at(weights, i);
            size_t count = weight->rows * weight->columns;
            double square = 0, loss[2];
            for (size_t j = 0; j < count; j++) square += pow((double)g[weight->offset + j] / scale, 2);
            double step = 4e-3 / sqrt(square); /* a change of 8e-3 |g|, well above the float32 rounding of the loss */
            for (int side = 0; side < 2; side++) {
                for (size_t j = weight->offset; j < weight->offset + count; j++)
                    w[j] = w0[j] + (float)((side ? step : -step) * (double)g[j] / scale);
                loss[side] = trial_loss(context, &t);
            }
            memcpy(w + weight->offset, w0 + weight->offset, count * sizeof *w);
            double found = (loss[1] - loss[0]) / (2 * step);
            if (fabs(found - square) > 0.03 * square + 4e-7 / step)
                fail_msg("%s, %s: a slope of %g along its gradient, expected %g", bo_parametrization_name(kind),
                         weight->name, found, square);
        }
        free(g), free(w0);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Fraction of the gradients of matrices that are not 0. */
static double alive(bo_context *context, const bo_model_desc *desc)
{
    trial t = trial_create(context, desc);
    size_t some = 0, all = 0;
    trial_loss(context, &t);
    for (size_t i = 0; i < bo_weights_count(t.model->weights); i++) {
        const bo_weight *w = bo_weights_at(t.model->weights, i);
        if (w->role != BO_WEIGHT_ROLE_MATRIX) continue;
        for (size_t j = 0; j < w->rows * w->columns; j++) some += ((const float *)w->gradient)[j] != 0;
        all += w->rows * w->columns;
    }
    trial_drop(&t);
    return (double)some / (double)all;
}

/* Losses are close to those of float32, and gradients of size 1 survive: almost none is rounded to 0. */
static void eight_bits(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (bo_parametrization kind = 0; kind < BO_PARAMETRIZATION_COUNT; kind++) {
        bo_model_desc desc = make_desc(kind, 32);
        trial exact = trial_create(context, &desc);
        desc.storage = BO_STORAGE_FLOAT8;
        trial rounded = trial_create(context, &desc);
        double a = trial_loss(context, &exact), b = trial_loss(context, &rounded);
        assert_true(a != b);
        assert_close(a, b, 0.1); /* three bits of mantissa in each of about ten products */
        trial_drop(&exact);
        trial_drop(&rounded);
    }
    bo_model_desc unit = make_desc(BO_PARAMETRIZATION_UNIT, 32);
    unit.storage = BO_STORAGE_FLOAT8;
    assert_true(alive(context, &unit) > 0.99);
    bo_context_destroy(context);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model;
    bo_model_desc desc = make_desc(BO_PARAMETRIZATION_MUP, 32);
    desc.base_width = 20;
    assert_fails(context, BO_INVALID, "4 heads at width 32 would be 2.5 heads at width 20",
                 bo_model_create(context, &desc, NULL, &model));
    desc = make_desc(BO_PARAMETRIZATION_COUNT, 32);
    assert_fails(context, BO_INVALID, "unknown parametrization", bo_model_create(context, &desc, NULL, &model));
    desc = make_desc(BO_PARAMETRIZATION_STANDARD, 32);
    desc.storage = BO_STORAGE_INT8;
    assert_fails(context, BO_INVALID, "storage must be", bo_model_create(context, &desc, NULL, &model));
    desc = make_desc(BO_PARAMETRIZATION_STANDARD, 32);
    model = create_model(context, &desc);
    double sizes[2 + 2 * LAYERS];
    int32_t ids[1] = {0};
    double norm;
    assert_fails(context, BO_INVALID, "0 tokens", bo_model_probe(context, model, ids, 0, sizes));
    assert_fails(context, BO_INVALID, "no weight 'nobody'",
                 bo_model_spectral_norm(context, model, "nobody", NULL, &norm));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_in_files),      cmocka_unit_test(sessions_agree), cmocka_unit_test(unit_scale),
        cmocka_unit_test(gradients_are_exact), cmocka_unit_test(eight_bits),     cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
