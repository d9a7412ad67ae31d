/* Rotations of rows of double, for every instruction set, compared with the definition: every width, any number of rows
 * and right-hand sides, and no writes out of bounds. */
#include "testing.h"
#include <float.h>
#include "isas.h"

enum { MAX_COUNT = 5, MAX_OUTPUTS = 3, WIDEST = 88, STRIDE = WIDEST + 3, ROWS = MAX_COUNT * MAX_OUTPUTS };

typedef struct operands {
    double c[MAX_COUNT], s[MAX_COUNT], z[ROWS];
    double row[STRIDE], y[MAX_COUNT * STRIDE], w[ROWS * STRIDE];
} operands;

static void fill(bo_rng *rng, size_t count, double *x)
{
    for (size_t i = 0; i < count; i++) x[i] = bo_rng_normal(rng);
}

static operands make_operands(void)
{
    operands o;
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t t = 0; t < MAX_COUNT; t++) {
        double angle = bo_rng_normal(&rng);
        o.c[t] = cos(angle), o.s[t] = sin(angle);
    }
    fill(&rng, ROWS, o.z);
    fill(&rng, STRIDE, o.row);
    fill(&rng, MAX_COUNT * STRIDE, o.y);
    fill(&rng, ROWS * STRIDE, o.w);
    return o;
}

/* The definition in kernels.h. */
static void define(operands *o, size_t n, size_t count, size_t outputs)
{
    for (size_t t = 0; t < count; t++)
        for (size_t j = 0; j < n; j++) {
            double row = o->row[j], *y = &o->y[t * STRIDE + j];
            o->row[j] = o->c[t] * row + o->s[t] * *y;
            *y = o->c[t] * *y - o->s[t] * row;
            for (size_t a = t * outputs; a < (t + 1) * outputs; a++) o->w[a * STRIDE + j] -= o->z[a] * o->row[j];
        }
}

/* Values of order one after at most 5 rotations and 15 products: fewer than 100 rounding errors. */
static void compare(const double *found, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) assert_close(found[i], expected[i], 100 * DBL_EPSILON * (1 + fabs(expected[i])));
}

static void rotations_are_as_defined(void **state)
{
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= WIDEST; n += 8)
            for (size_t count = 0; count <= MAX_COUNT; count++)
                for (size_t outputs = 0; outputs <= MAX_OUTPUTS; outputs++) {
                    operands found = make_operands(), expected = make_operands();
                    define(&expected, n, count, outputs);
                    table->rotate(n, count, found.c, found.s, found.row, found.y, STRIDE, outputs, found.z, found.w,
                                  STRIDE);
                    compare(found.row, expected.row, STRIDE);
                    compare(found.y, expected.y, MAX_COUNT * STRIDE);
                    compare(found.w, expected.w, ROWS * STRIDE);
                }
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rotations_are_as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
