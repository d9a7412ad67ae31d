/* Sizes whose products overflow size_t, and attributes that are valid in double but not in float32, return an error,
 * since other sizes and values would be used silently. */
#include "testing.h"
#include "backend/shapes.h"

typedef bo_status (*shape_of)(bo_context *context, bo_op_call *call);

static void refused(const char *message, shape_of shape, const void *attributes, size_t count, const size_t sizes[][2])
{
    bo_context *context = test_context(1);
    bo_op_call call = {.attributes = attributes, .inputs = count};
    for (size_t i = 0; i < count; i++) call.in[i] = (bo_tensor){.rows = sizes[i][0], .columns = sizes[i][1]};
    assert_fails(context, BO_INVALID, message, shape(context, &call));
    bo_context_destroy(context);
}

static void sizes_that_overflow(void **state)
{
    (void)state;
    const size_t half = (size_t)1 << 32, quarter = (size_t)1 << 62;
    refused("the weight", bo_shape_quadratic, NULL, 2, (const size_t[][2]){{1, half}, {3, 5}});
    const bo_mix_attributes mix = {.heads = half};
    refused("the matrix", bo_shape_mix, &mix, 2, (const size_t[][2]){{1, half}, {7, half}});
    const bo_recurrent_attributes lstm = {.cell = BO_RECURRENCE_LSTM};
    refused("U is", bo_shape_recurrent, &lstm, 3, (const size_t[][2]){{1, 0}, {7, quarter}, {1, 0}});
}

static void numbers_beyond_float(void **state)
{
    (void)state;
    static const size_t two[][2] = {{2, 3}, {2, 3}};
    static const double bad[] = {1e39, -1e39, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bo_linear_attributes scale = {.weights = 1, .scale = bad[i]}, keep = {.weights = 1, .keep = bad[i]};
        refused("factors", bo_shape_linear, &scale, 2, two);
        refused("factors", bo_shape_linear, &keep, 2, two);
        const bo_noise_attributes noise = {.kind = BO_NOISE_NORMAL, .amount = bad[i]};
        refused("deviation", bo_shape_noise, &noise, 1, two);
        const bo_unary_attributes unary = {.offset = bad[i]};
        refused("expected", bo_shape_unary, &unary, 1, two);
        const bo_product_attributes product = {.first = 1, .second = bad[i]};
        refused("the power of factor 2", bo_shape_product, &product, 2, two);
    }
    const bo_product_attributes tiny = {.first = 1e-46}; /* rounds to 0 in float32, which means 1 */
    refused("the power of factor 1", bo_shape_product, &tiny, 1, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_that_overflow), cmocka_unit_test(numbers_beyond_float)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
