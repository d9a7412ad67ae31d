/* NaNs and infinities propagate: no operation hides one that must stop training. */
#include "calls.h"

enum { ROWS = 3, COLUMNS = 40, VOCABULARY = 70 };

typedef struct nan_case {
    bo_operation op;
    const void *attributes;
    size_t inputs; /* equal shapes, except for matrices and integers that an operation needs */
} nan_case;

static bool all_finite(const test_call *t)
{
    for (size_t i = 0; i < test_out_bytes(t) / sizeof(float); i++)
        if (!isfinite(test_out(t)[i])) return false;
    return true;
}

/* Forward with `bad` among the elements of the first input, or of the fourth, a teacher. */
static void check(bo_context *context, const nan_case *c, float bad, size_t place)
{
    const size_t where = c->inputs == 4 && place % 2 ? 3 : 0;
    int32_t integers[ROWS] = {1, 2, 0};
    float *data[4];
    test_call t = test_begin(c->op, c->attributes);
    for (size_t i = 0; i < c->inputs; i++) {
        bool matrix = i == 1 && (c->op == BO_OPERATION_LINEAR || c->op == BO_OPERATION_CROSS_ENTROPY);
        bool integer = (i == 1 && c->op == BO_OPERATION_ROPE) || (i == 2 && c->op == BO_OPERATION_CROSS_ENTROPY);
        data[i] = test_normals((size_t)VOCABULARY * COLUMNS, i);
        if (i == where) data[i][place] = bad;
        if (integer)
            test_input(&t, integers, BO_ELEMENT_INT32, ROWS, 1);
        else
            test_input(&t, data[i], BO_ELEMENT_FLOAT32, matrix ? VOCABULARY : ROWS, COLUMNS);
    }
    test_forward(context, &t, false);
    if (all_finite(&t)) fail_msg("%s hides %g at %zu", t.op->name, (double)bad, place);
    test_end(&t);
    for (size_t i = 0; i < c->inputs; i++) free(data[i]);
}

static void nothing_is_hidden(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const bo_linear_attributes linear = {.weights = 1};
    static const bo_norm_attributes rms = {.width = COLUMNS, .epsilon = 1e-6},
                                    layer = {.kind = BO_NORM_LAYER, .width = COLUMNS, .epsilon = 1e-6};
    static const bo_rope_attributes rope = {.dim = COLUMNS};
    static const bo_dropout_attributes dropout = {.rate = 0.5};
    static const bo_unary_attributes silu = {.function = BO_UNARY_SILU}, relu2 = {.function = BO_UNARY_RELU2};
    static const bo_cross_entropy_attributes entropy = {0}, taught = {.teacher = 0.4}, copied = {.teacher = 1};
    static const bo_loss_attributes losses[] = {
        {BO_LOSS_KIND_MSE}, {BO_LOSS_KIND_L1}, {BO_LOSS_KIND_BCE}, {BO_LOSS_KIND_KL}, {BO_LOSS_KIND_RELATIVE}};
    static const bo_product_attributes powers = {.first = 0.7, .second = 1};
    bo_features *maps[2];
    for (size_t i = 0; i < 2; i++) {
        bo_features_desc desc = {.kernel = i ? BO_KERNEL_ARCCOS : BO_KERNEL_RBF, .dim = COLUMNS, .features = 64};
        assert_ok(context, bo_features_create(context, &desc, &maps[i]));
    }
    const bo_features_attributes waves = {maps[0]}, corners = {maps[1]};
    const nan_case cases[] = {{BO_OPERATION_LINEAR, &linear, 2},
                              {BO_OPERATION_NORM, &rms, 1},
                              {BO_OPERATION_NORM, &layer, 1},
                              {BO_OPERATION_ROPE, &rope, 2},
                              {BO_OPERATION_DROPOUT, &dropout, 1},
                              {BO_OPERATION_UNARY, &relu2, 1},
                              {BO_OPERATION_GLU, &silu, 2},
                              {BO_OPERATION_ADD, NULL, 2},
                              {BO_OPERATION_CROSS_ENTROPY, &entropy, 3},
                              {BO_OPERATION_CROSS_ENTROPY, &taught, 4},
                              {BO_OPERATION_CROSS_ENTROPY, &copied, 4},
                              {BO_OPERATION_LOSS, &losses[0], 2},
                              {BO_OPERATION_LOSS, &losses[1], 2},
                              {BO_OPERATION_LOSS, &losses[2], 2},
                              {BO_OPERATION_LOSS, &losses[3], 2},
                              {BO_OPERATION_LOSS, &losses[4], 2},
                              {BO_OPERATION_PRODUCT, &powers, 2},
                              {BO_OPERATION_FEATURES, &waves, 1},
                              {BO_OPERATION_FEATURES, &corners, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t place = 0; place < ROWS * COLUMNS; place += 13) {
            check(context, &cases[c], NAN, place);
            check(context, &cases[c], INFINITY, place);
        }
    for (size_t i = 0; i < 2; i++) bo_features_destroy(maps[i]);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_hidden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
