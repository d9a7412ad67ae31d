/* Rounding compared with the reference, for every value of the eight-bit formats, for values between them, and for
 * gradients. */
#include "subjects.h"
#include "cases_round.h"
#include <float.h>

SUBJECT(round)

/* The value of an eight-bit code; NAN: not a number. */
static double decode(bo_small_float kind, unsigned code)
{
    plain_format f = plain_format_of(kind);
    unsigned below = 1U << f.mantissa, exponent = (code & 0x7F) >> f.mantissa, rest = code & (below - 1);
    double size = exponent ? ldexp((double)(below + rest), f.min_exponent + (int)exponent - 1 - f.mantissa)
                           : ldexp((double)rest, f.min_exponent - f.mantissa);
    return size > f.max ? NAN : code & 0x80 ? -size : size;
}

/* Applies the operation to one value: returns the result or its gradient. */
static float through(bo_small_float kind, float x, bool gradient)
{
    bo_context *context = test_context(1);
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_ROUND];
    bo_round_attributes attributes = {.value = gradient ? BO_SMALL_FLOAT_NONE : kind,
                                      .gradient = gradient ? kind : BO_SMALL_FLOAT_NONE};
    float y = 0;
    bo_graph_pass pass = {0};
    bo_op_call call = {.attributes = &attributes, .inputs = 1, .outputs = 1, .in = {{&x, .rows = 1, .columns = 1}}};
    call.pass = &pass;
    call.out[0] = (bo_tensor){&y, .rows = 1, .columns = 1};
    if (gradient) call.dout[0] = &x, call.din[0] = &y;
    assert_ok(context, (gradient ? op->backward : op->forward)(context, &call));
    bo_context_destroy(context);
    return y;
}

static void expect(bo_small_float kind, double x, double expected)
{
    for (int gradient = 0; gradient < 2; gradient++) {
        double found = (double)through(kind, (float)x, gradient);
        if (found != expected) fail_msg("format %d: %.9g became %.9g, expected %.9g", (int)kind, x, found, expected);
    }
}

/* Each representable value is unchanged; the midpoint of two neighbors rounds to the neighbor whose last bit is 0; a
 * value near the midpoint rounds to the nearer neighbor. */
static void every_code_point(void **state)
{
    (void)state;
    for (bo_small_float kind = BO_SMALL_FLOAT_E4M3; kind <= BO_SMALL_FLOAT_E5M2; kind++) {
        size_t numbers = 0;
        for (unsigned code = 0; code < 0x80; code++) {
            double x = decode(kind, code), next = decode(kind, code + 1);
            if (isnan(x)) continue;
            numbers++;
            expect(kind, x, x);
            expect(kind, -x, -x);
            if (code == 0x7F || isnan(next)) continue;
            double middle = (x + next) / 2, even = code % 2 ? next : x;
            expect(kind, middle, even);
            expect(kind, -middle, -even);
            expect(kind, middle * (1 + 0x1p-20), next);
            expect(kind, middle * (1 - 0x1p-20), x);
        }
        assert_int_equal(numbers, kind == BO_SMALL_FLOAT_E4M3 ? 127 : 124); /* one NaN; infinity and three NaN */
    }
}

static void ends_of_the_formats(void **state)
{
    (void)state;
    expect(BO_SMALL_FLOAT_E4M3, 1e9, 448);
    expect(BO_SMALL_FLOAT_E4M3, -465, -448);
    expect(BO_SMALL_FLOAT_E4M3, (double)INFINITY, 448);
    expect(BO_SMALL_FLOAT_E5M2, 61441, 57344);
    expect(BO_SMALL_FLOAT_E5M2, -(double)INFINITY, -57344);
    expect(BO_SMALL_FLOAT_BF16, (double)FLT_MAX, 0x1.FEp127);
    expect(BO_SMALL_FLOAT_BF16, 0x1p-133, 0x1p-133); /* its smallest number; half of it is a tie */
    expect(BO_SMALL_FLOAT_BF16, 0x1p-134, 0);
    expect(BO_SMALL_FLOAT_BF16, 0x1.8p-134, 0x1p-133);
    expect(BO_SMALL_FLOAT_E4M3, 0x1p-10, 0);
    expect(BO_SMALL_FLOAT_E5M2, 0x1.8p-17, 0x1p-16);
    for (bo_small_float kind = BO_SMALL_FLOAT_NONE; kind <= BO_SMALL_FLOAT_BF16; kind++) {
        assert_true(isnan(through(kind, NAN, false)));
        assert_true(isnan(through(kind, -NAN, true)));
        assert_true(signbit(through(kind, -0.0f, false)));
    }
}

static void refuses_other_formats(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_round_attributes attributes = {.gradient = (bo_small_float)BO_SMALL_FLOAT_COUNT};
    bo_op_call call = {.attributes = &attributes, .inputs = 1, .in = {{.rows = 2, .columns = 3}}};
    const bo_op *op = bo_backend_cpu()->ops[BO_OPERATION_ROUND];
    assert_int_equal(op->shape(context, &call), BO_INVALID);
    assert_non_null(strstr(bo_context_error(context), "round: formats 0 and 4, expected 0 to 3"));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_round),
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(ends_of_the_formats),
        cmocka_unit_test(refuses_other_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
