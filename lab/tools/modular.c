#include "modular.h"

uint32_t lab_mod_of(int64_t x)
{
    const int64_t rest = x % LAB_PRIME;
    return (uint32_t)(rest < 0 ? rest + LAB_PRIME : rest);
}

uint32_t lab_mod_power(uint32_t base, uint64_t exponent)
{
    uint32_t power = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) power = lab_mod_multiply(power, base);
        base = lab_mod_multiply(base, base);
    }
    return power;
}

/* Fermat: a^(p − 1) = 1. */
uint32_t lab_mod_inverse(uint32_t a)
{
    return lab_mod_power(a, LAB_PRIME - 2);
}

uint32_t lab_mod_random(bo_rng *rng)
{
    return (uint32_t)bo_rng_below(rng, LAB_PRIME);
}

/* ---- rank -------------------------------------------------------------------------------------------------------- */

static void swap_rows(uint32_t *a, uint32_t *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* row += factor · pivot */
static void add_multiple(uint32_t *restrict row, uint32_t factor, const uint32_t *restrict pivot, size_t count)
{
    for (size_t i = 0; i < count; i++) row[i] = lab_mod_reduce((uint64_t)factor * pivot[i] + row[i]);
}

/* Clears column `column` below row `top`, whose entry there is nonzero. */
static void eliminate(uint32_t *a, size_t rows, size_t columns, size_t top, size_t column)
{
    uint32_t *pivot = a + top * columns;
    const uint32_t inverse = lab_mod_inverse(pivot[column]);
    for (size_t i = top + 1; i < rows; i++) {
        uint32_t *row = a + i * columns;
        if (row[column] == 0) continue;
        const uint32_t factor = LAB_PRIME - lab_mod_multiply(row[column], inverse);
        add_multiple(row + column, factor, pivot + column, columns - column);
    }
}

size_t lab_mod_rank(uint32_t *a, size_t rows, size_t columns)
{
    size_t rank = 0;
    for (size_t column = 0; column < columns && rank < rows; column++) {
        size_t found = rank;
        while (found < rows && a[found * columns + column] == 0) found++;
        if (found == rows) continue;
        if (found != rank) swap_rows(a + found * columns, a + rank * columns, columns);
        eliminate(a, rows, columns, rank, column);
        rank++;
    }
    return rank;
}
