/* Weights stored as bfloat16, int8 and int4: products and lookups compared with loops in double over the dequantized
 * weights, for every instruction set, few rows and many; bitwise equal results for any number of threads; no
 * allocation; no gradients. */
#include "direct.h"
#include "backend/cpu/cpu.h"
#include "isas.h"

static const bo_element elements[] = {BO_ELEMENT_BFLOAT16, BO_ELEMENT_INT8, BO_ELEMENT_INT4};
enum { ELEMENTS = sizeof elements / sizeof *elements };

typedef struct shape {
    size_t rows, in, out;
} shape;

static const shape shapes[] = {{1, 1, 1},    {1, 64, 70},    {2, 63, 5},   {8, 129, 33},  {1, 2100, 9},
                               {9, 100, 40}, {130, 450, 67}, {300, 96, 6}, {3, 768, 100}, {40, 65, 300}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A stored matrix; *stands_for receives its dequantized values. */
static bo_tensor stored(bo_context *context, bo_element element, size_t rows, size_t columns, float **stands_for)
{
    bo_tensor kept = {.element = element, .rows = rows, .columns = columns};
    float *w = *stands_for = direct_floats(rows * columns, 3);
    kept.data = aligned_alloc(64, (bo_element_bytes(element, rows, columns) + 63) / 64 * 64);
    assert_ok(context, bo_backend_cpu()->narrow(context, element, rows, columns, w, kept.data));
    assert_ok(context, bo_backend_cpu()->widen(context, element, rows, columns, kept.data, w));
    return kept;
}

/* The largest error of an element: half a step of its group. int8: the largest element is 127 steps. int4: the scale is
 * at most the scale of the largest share (1.1, and 2^-8 for its rounding) of the shorter side; the values of the table
 * are at most 27 apart, so an error is at most 13.5, plus 0.5 because the nearest byte is looked up, or, for an element
 * outside the table, the distance that the smallest share allows. The least squares may move the scale by some
 * percent. */
static double half_step(bo_element element, double x, double largest)
{
    if (element == BO_ELEMENT_BFLOAT16) return fabs(x) * 0x1p-8;
    return element == BO_ELEMENT_INT8 ? largest / 254 : largest * 0.22;
}

static void numbers_are_the_nearest(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 150 };
    bo_context *context = test_context(2);
    float *w = direct_floats(ROWS * COLUMNS, 3);
    memset(w + COLUMNS, 0, 70 * sizeof *w); /* a group of zeros */
    for (size_t e = 0; e < ELEMENTS; e++) {
        union {
            float aligned;
            char bytes[2 * ROWS * COLUMNS];
        } kept;
        float back[ROWS * COLUMNS];
        size_t group = elements[e] == BO_ELEMENT_INT4 ? BO_S4_GROUP : BO_S8_GROUP;
        assert_true(bo_element_bytes(elements[e], ROWS, COLUMNS) <= sizeof kept);
        assert_ok(context, bo_backend_cpu()->narrow(context, elements[e], ROWS, COLUMNS, w, kept.bytes));
        assert_ok(context, bo_backend_cpu()->widen(context, elements[e], ROWS, COLUMNS, kept.bytes, back));
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            size_t first = i - i % COLUMNS % group, end = first + group;
            if (end > i - i % COLUMNS + COLUMNS) end = i - i % COLUMNS + COLUMNS;
            double largest = 0;
            for (size_t j = first; j < end; j++) largest = fmax(largest, fabs((double)w[j]));
            assert_close(back[i], w[i], half_step(elements[e], (double)w[i], largest) * (1 + 1e-5));
        }
    }
    free(w);
    bo_context_destroy(context);
}

/* The squared error of 4-bit codes for normal samples is the error of the table (0.0053 of the variance, computed for
 * groups with the best scale), less than the 0.0065 of sixteen equal steps; values of the table are exact. */
static void codes_have_a_small_error(void **state)
{
    (void)state;
    enum { ROWS = 64, COLUMNS = 320 };
    static const int8_t values[] = {BO_S4_VALUES};
    bo_context *context = test_context(2);
    float *w = calloc((size_t)ROWS * COLUMNS, sizeof *w), *back = calloc((size_t)ROWS * COLUMNS, sizeof *back);
    void *kept = malloc(bo_element_bytes(BO_ELEMENT_INT4, ROWS, COLUMNS));
    bo_rng rng = bo_rng_make(5, bo_rng_stream("test.codes", 0));
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) w[i] = (float)bo_rng_normal(&rng);
    assert_int_equal(bo_element_bytes(BO_ELEMENT_INT4, ROWS, COLUMNS), ROWS * COLUMNS * 9 / 16);
    assert_ok(context, bo_backend_cpu()->narrow(context, BO_ELEMENT_INT4, ROWS, COLUMNS, w, kept));
    assert_ok(context, bo_backend_cpu()->widen(context, BO_ELEMENT_INT4, ROWS, COLUMNS, kept, back));
    double error = 0, size = 0;
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        error += pow((double)back[i] - (double)w[i], 2);
        size += pow((double)w[i], 2);
    }
    if (!(error < 0.0058 * size)) fail_msg("the error is %g of the variance", error / size);
    for (size_t sign = 0; sign < 2; sign++) {
        for (size_t i = 0; i < COLUMNS; i++) w[i] = (sign ? -0.25f : 0.25f) * values[i * 7 % 16];
        assert_ok(context, bo_backend_cpu()->narrow(context, BO_ELEMENT_INT4, 1, COLUMNS, w, kept));
        assert_ok(context, bo_backend_cpu()->widen(context, BO_ELEMENT_INT4, 1, COLUMNS, kept, back));
        assert_memory_equal(w, back, COLUMNS * sizeof *w);
    }
    free(w), free(back), free(kept);
    bo_context_destroy(context);
}

/* A NaN or an infinity remains in the result, for any maximum of its group. */
static void nonfinite_values_stay_nonfinite(void **state)
{
    (void)state;
    enum { COLUMNS = 150 };
    static const float bad[] = {NAN, INFINITY};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2 * ELEMENTS; i++)
        for (size_t place = 0; place < COLUMNS; place += 29) {
            float *w = direct_floats(COLUMNS, 3), back[COLUMNS];
            _Alignas(float) char kept[4 * COLUMNS];
            w[place] = bad[i / ELEMENTS];
            assert_ok(context, bo_backend_cpu()->narrow(context, elements[i % ELEMENTS], 1, COLUMNS, w, kept));
            assert_ok(context, bo_backend_cpu()->widen(context, elements[i % ELEMENTS], 1, COLUMNS, kept, back));
            assert_false(isfinite(back[place]));
            free(w);
        }
    bo_context_destroy(context);
}

/* Sums as in test_linear.c. With few rows, weights are multiplied by integers: for int8 they differ by at most 2^-16 of
 * the largest element of the row, for int4 by at most 1/254 of the largest element of the group. */
static double bound(const shape *s, bo_element element, const float *x, const float *w, double total)
{
    double rounded = 0;
    size_t group = element == BO_ELEMENT_INT4 ? BO_S4_GROUP : s->in;
    for (size_t first = 0; first < s->in && s->rows <= 8 && element != BO_ELEMENT_BFLOAT16; first += group) {
        double largest = 0, weights = 0;
        for (size_t p = first; p < s->in && p < first + group; p++) {
            largest = fmax(largest, fabs((double)x[p]));
            weights += fabs((double)w[p]);
        }
        rounded += (element == BO_ELEMENT_INT4 ? 1.001 / 254 : 0x1.01p-16) * largest * weights;
    }
    return (double)(s->in + 6) * 0x1p-24 * total + rounded;
}

static void check_products(const shape *s, bo_element element, const float *x, const float *w, const float *y)
{
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < s->out; j++) {
            double sum = 0, total = 0;
            for (size_t p = 0; p < s->in; p++) {
                double weight = (double)w[j * s->in + p], product = (double)x[i * s->in + p] * weight;
                sum += product, total += fabs(product);
            }
            assert_close(y[i * s->out + j], sum, bound(s, element, x + i * s->in, w + j * s->in, total));
        }
}

static void linear_multiplies_stored_weights(void **state)
{
    (void)state;
    for (size_t isa = 0; isa < TEST_ISAS; isa++) {
        if (!bo_kernels_find(test_isas[isa])) continue;
        direct_arena arena, other_arena;
        bo_context *context = direct_context(1, test_isas[isa], &arena),
                   *other = direct_context(3, test_isas[isa], &other_arena);
        for (size_t i = 0; i < ELEMENTS * SHAPES; i++) {
            const shape *s = &shapes[i / ELEMENTS];
            float *w;
            bo_linear_attributes attributes = {.weights = 1};
            bo_op_call call = {.attributes = &attributes, .inputs = 2, .outputs = 1};
            call.in[0] = direct_operand(s->rows, s->in, 1);
            call.in[1] = stored(context, elements[i % ELEMENTS], s->out, s->in, &w);
            assert_ok(context, bo_cpu_linear.shape(context, &call));
            call.out[0] = direct_operand(s->rows, s->out, 2);
            assert_ok(context, direct_run(context, &arena, &bo_cpu_linear, &call, false));
            check_products(s, elements[i % ELEMENTS], call.in[0].data, w, call.out[0].data);
            float *y = call.out[0].data;
            call.out[0].data = direct_floats(s->rows * s->out, 4);
            assert_ok(other, direct_run(other, &other_arena, &bo_cpu_linear, &call, false));
            assert_memory_equal(y, call.out[0].data, s->rows * s->out * sizeof *y);
            free(call.in[0].data), free(call.in[1].data), free(call.out[0].data), free(y), free(w);
        }
        bo_context_destroy(context);
        bo_context_destroy(other);
    }
}

static void nonfinite_rows_stay_nonfinite(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(1, NULL, &arena);
    for (size_t i = 0; i < 2 * ELEMENTS; i++) {
        float *w, *x;
        bo_linear_attributes attributes = {.weights = 1};
        bo_op_call call = {.attributes = &attributes, .inputs = 2, .outputs = 1};
        call.in[0] = direct_operand(2, 70, 1);
        call.in[1] = stored(context, elements[i % ELEMENTS], 3, 70, &w);
        call.out[0] = direct_operand(2, 3, 2);
        x = call.in[0].data;
        x[69] = i / ELEMENTS ? INFINITY : NAN;
        assert_ok(context, direct_run(context, &arena, &bo_cpu_linear, &call, false));
        for (size_t j = 0; j < 6; j++)
            assert_true(j < 3 ? !isfinite(((float *)call.out[0].data)[j]) : isfinite(((float *)call.out[0].data)[j]));
        free(call.in[0].data), free(call.in[1].data), free(call.out[0].data), free(w);
    }
    bo_context_destroy(context);
}

static void embed_reads_stored_tables(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    int32_t indices[] = {4, 0, 4, 9, 1};
    for (size_t e = 0; e < ELEMENTS; e++) {
        float *w;
        bo_op_call call = {.inputs = 2, .outputs = 1};
        call.in[0] = (bo_tensor){indices, BO_ELEMENT_INT32, 5, 1};
        call.in[1] = stored(context, elements[e], 10, 83, &w);
        assert_ok(context, bo_cpu_embed.shape(context, &call));
        call.out[0] = direct_operand(5, 83, 2);
        assert_ok(context, direct_run(context, &arena, &bo_cpu_embed, &call, false));
        for (size_t i = 0; i < 5; i++)
            assert_memory_equal((float *)call.out[0].data + i * 83, w + (size_t)indices[i] * 83, 83 * sizeof *w);
        free(call.in[1].data), free(call.out[0].data), free(w);
    }
    bo_context_destroy(context);
}

/* The error of a loss is at most twice the error of a logit, plus the rounding of its exponentials. */
static void check_losses(const shape *s, bo_element element, const float *x, const float *w, const int32_t *targets,
                         const float *losses)
{
    for (size_t i = 0; i < s->rows; i++) {
        double sum = 0, chosen = 0, tolerance = 1e-5;
        for (size_t j = 0; j < s->out; j++) {
            double logit = 0, total = 0;
            for (size_t p = 0; p < s->in; p++) {
                double weight = (double)w[j * s->in + p], product = (double)x[i * s->in + p] * weight;
                logit += product, total += fabs(product);
            }
            tolerance = fmax(tolerance, 1e-5 + 2 * bound(s, element, x + i * s->in, w + j * s->in, total));
            sum += exp(logit);
            if (j == (size_t)targets[i]) chosen = logit;
        }
        assert_close(losses[i], log(sum) - chosen, tolerance);
    }
}

static void cross_entropy_supports_stored_weights(void **state)
{
    (void)state;
    static const shape sizes[] = {{1, 64, 40}, {5, 70, 300}, {50, 90, 77}};
    direct_arena arena;
    bo_context *context = direct_context(2, NULL, &arena);
    for (size_t i = 0; i < 3 * ELEMENTS; i++) {
        const shape *s = &sizes[i / ELEMENTS];
        float *w;
        int32_t targets[50];
        for (size_t t = 0; t < s->rows; t++) targets[t] = (int32_t)(7 * t % s->out);
        bo_cross_entropy_attributes attributes = {0};
        bo_op_call call = {.attributes = &attributes, .inputs = 3, .outputs = 2};
        call.in[0] = direct_operand(s->rows, s->in, 1);
        call.in[1] = stored(context, elements[i % ELEMENTS], s->out, s->in, &w);
        call.in[2] = (bo_tensor){targets, BO_ELEMENT_INT32, s->rows, 1};
        assert_ok(context, bo_cpu_cross_entropy.shape(context, &call));
        call.out[0] = direct_operand(1, 1, 2), call.out[1] = direct_operand(s->rows, 1, 2);
        assert_ok(context, direct_run(context, &arena, &bo_cpu_cross_entropy, &call, false));
        check_losses(s, elements[i % ELEMENTS], call.in[0].data, w, targets, call.out[1].data);
        /* a teacher that is the student leaves half of each loss */
        attributes.teacher = 0.5, call.in[call.inputs++] = call.in[0];
        assert_ok(context, direct_run(context, &arena, &bo_cpu_cross_entropy, &call, false));
        for (size_t t = 0; t < s->rows; t++) ((float *)call.out[1].data)[t] *= 2;
        check_losses(s, elements[i % ELEMENTS], call.in[0].data, w, targets, call.out[1].data);
        free(call.in[0].data), free(call.in[1].data), free(call.out[0].data), free(call.out[1].data), free(w);
    }
    bo_context_destroy(context);
}

static void other_operations_refuse_stored_weights(void **state)
{
    (void)state;
    direct_arena arena;
    bo_context *context = direct_context(1, NULL, &arena);
    float *w;
    bo_linear_attributes attributes = {.weights = 1, .bias = true};
    bo_op_call call = {.attributes = &attributes, .inputs = 3, .outputs = 1};
    call.in[0] = direct_operand(2, 8, 1);
    call.in[1] = stored(context, BO_ELEMENT_INT8, 3, 8, &w);
    call.in[2] = (bo_tensor){call.in[1].data, BO_ELEMENT_INT8, 1, 3};
    assert_fails(context, BO_INVALID, "the bias is 1 x 3 int8, expected 1 x 3 floats",
                 bo_cpu_linear.shape(context, &call));
    bo_op_call swapped = {.attributes = &(bo_unary_attributes){0}, .inputs = 1, .outputs = 1};
    swapped.in[0] = call.in[1];
    assert_fails(context, BO_INVALID, "3 x 8 int8, expected 3 x 8 floats", bo_cpu_unary.shape(context, &swapped));
    assert_fails(context, BO_UNSUPPORTED, "linear: input 1 is stored in fewer bits and has no gradient",
                 bo_cpu_linear.backward(context, &call));
    assert_int_equal(bo_cpu_cross_entropy.backward(context, &call), BO_UNSUPPORTED);
    assert_int_equal(bo_cpu_embed.backward(context, &call), BO_UNSUPPORTED);
    free(call.in[0].data), free(call.in[1].data), free(w);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_a_small_error),
        cmocka_unit_test(numbers_are_the_nearest),
        cmocka_unit_test(nonfinite_values_stay_nonfinite),
        cmocka_unit_test(linear_multiplies_stored_weights),
        cmocka_unit_test(nonfinite_rows_stay_nonfinite),
        cmocka_unit_test(embed_reads_stored_tables),
        cmocka_unit_test(cross_entropy_supports_stored_weights),
        cmocka_unit_test(other_operations_refuse_stored_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
