/* Rotations of rows of double, for every instruction set, compared with the definition: every width, any number of rows
 * and right-hand sides, and no writes out of bounds. */
#include "testing.h"
#include <float.h>
#include "isas.h"

enum { MOST_COUNT = 5, MOST_ASKED = 3, WIDEST = 88, STRIDE = WIDEST + 3, ROWS = MOST_COUNT * MOST_ASKED };

typedef struct operands {
    double c[MOST_COUNT], s[MOST_COUNT], z[ROWS];
    double row[STRIDE], y[MOST_COUNT * STRIDE], w[ROWS * STRIDE];
} operands;

static void fill(bo_rng *rng, size_t count, double *x)
{
    for (size_t i = 0; i < count; i++) x[i] = bo_rng_normal(rng);
}

static operands make(void)
{
    operands o;
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t t = 0; t < MOST_COUNT; t++) {
        double angle = bo_rng_normal(&rng);
        o.c[t] = cos(angle), o.s[t] = sin(angle);
    }
    fill(&rng, ROWS, o.z);
    fill(&rng, STRIDE, o.row);
    fill(&rng, MOST_COUNT * STRIDE, o.y);
    fill(&rng, ROWS * STRIDE, o.w);
    return o;
}

/* The definition in kernels.h. */
static void define(operands *o, size_t n, size_t count, size_t asked)
{
    for (size_t t = 0; t < count; t++)
        for (size_t j = 0; j < n; j++) {
            double row = o->row[j], *y = &o->y[t * STRIDE + j];
            o->row[j] = o->c[t] * row + o->s[t] * *y;
            *y = o->c[t] * *y - o->s[t] * row;
            for (size_t a = t * asked; a < (t + 1) * asked; a++) o->w[a * STRIDE + j] -= o->z[a] * o->row[j];
        }
}

/* Numbers of order one after at most 5 rotations and 15 products: fewer than 100 rounding errors. */
static void compare(const double *found, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) assert_close(found[i], expected[i], 100 * DBL_EPSILON * (1 + fabs(expected[i])));
}

static void rotations_are_as_defined(void **state)
{
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= WIDEST; n += 8)
            for (size_t count = 0; count <= MOST_COUNT; count++)
                for (size_t asked = 0; asked <= MOST_ASKED; asked++) {
                    operands found = make(), expected = make();
                    define(&expected, n, count, asked);
                    table->rotate(n, count, found.c, found.s, found.row, found.y, STRIDE, asked, found.z, found.w,
                                  STRIDE);
                    compare(found.row, expected.row, STRIDE);
                    compare(found.y, expected.y, MOST_COUNT * STRIDE);
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
