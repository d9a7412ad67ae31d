/* Passes over rows of doubles, for every instruction set, compared with the definition: every width, any number of
 * rows, and no writes out of bounds. */
#include "testing.h"
#include <float.h>
#include "isas.h"

enum { MAX_ROWS = 9, WIDEST = 37, STRIDE = WIDEST + 2 };

typedef struct operands {
    double a[MAX_ROWS * STRIDE], x[STRIDE], y[MAX_ROWS + 1], w[MAX_ROWS], z[STRIDE];
} operands;

static operands make_operands(void)
{
    operands o;
    bo_rng rng = bo_rng_make(3, 2);
    double *all = (double *)&o;
    for (size_t i = 0; i < sizeof o / sizeof *all; i++) all[i] = bo_rng_normal(&rng);
    return o;
}

/* The definition in kernels.h. */
static void define(operands *o, size_t rows, size_t n, bool dots, bool combine)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < n; j++) {
            if (dots) o->y[r] += o->a[r * STRIDE + j] * o->x[j];
            if (combine) o->z[j] += o->w[r] * o->a[r * STRIDE + j];
        }
}

/* Sums of at most 37 products of order one. */
static void compare(const operands *found, const operands *expected)
{
    const double *x = (const double *)found, *y = (const double *)expected;
    for (size_t i = 0; i < sizeof *found / sizeof *x; i++) assert_close(x[i], y[i], 200 * DBL_EPSILON);
}

static void passes_are_as_defined(void **state)
{
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= WIDEST; n++)
            for (size_t rows = 0; rows <= MAX_ROWS; rows++)
                for (int kind = 1; kind <= 3; kind++) {
                    operands o = make_operands(), expected = make_operands();
                    define(&expected, rows, n, kind & 1, kind & 2);
                    if (kind == 1) table->dots64(rows, n, o.a, STRIDE, o.x, o.y);
                    if (kind == 2) table->combine64(rows, n, o.a, STRIDE, o.w, o.z);
                    if (kind == 3) table->dots_combine64(rows, n, o.a, STRIDE, o.x, o.y, o.w, o.z);
                    compare(&o, &expected);
                }
    }
    (void)state;
}

static void rotations_are_as_defined(void **state)
{
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= WIDEST; n++)
            for (size_t count = 0; count < MAX_ROWS; count++) {
                operands o = make_operands(), expected = make_operands();
                bo_rotation rotations[MAX_ROWS];
                for (size_t i = 0; i < MAX_ROWS; i++)
                    rotations[i] = (bo_rotation){cos((double)i + 1), sin((double)i + 1)};
                for (size_t i = 0; i < count; i++)
                    for (size_t j = 0; j < n; j++) {
                        double *p = &expected.a[i * STRIDE + j], *q = p + STRIDE, before = *p;
                        *p = rotations[i].c * before + rotations[i].s * *q;
                        *q = rotations[i].c * *q - rotations[i].s * before;
                    }
                table->rotate_rows64(count, n, rotations, o.a, STRIDE);
                compare(&o, &expected);
            }
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_are_as_defined),
                                       cmocka_unit_test(rotations_are_as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
