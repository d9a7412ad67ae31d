/* One micro-kernel, for the types and the width that the including file defines: NAME, PRODUCT (type of a, b and the
 * sums), RESULT (type of C), NR (three vectors). Partial tiles are added element by element. */
void NAME(size_t k, const PRODUCT *a, const PRODUCT *b, RESULT *c, size_t ldc, size_t m, size_t n, bool add)
{
    enum { MR = BO_NEON_MR, VECTORS = 3, LANES = 16 / sizeof(PRODUCT) };
    typedef PRODUCT lanes __attribute__((vector_size(16), may_alias));
    _Static_assert(VECTORS * LANES == NR && MR % LANES == 0, "whole vectors");
    lanes sum[MR][VECTORS] = {{{0}}};
    for (size_t p = 0; p < k; p++, a += MR, b += NR) {
        const lanes *line = (const lanes *)b;
        _Pragma("GCC unroll 4") for (size_t i = 0; i < MR; i += LANES)
        {
            lanes column = *(const lanes *)(a + i);
            /* else compilers load each element into a separate register and spill sums */
            __asm__("" : "+w"(column));
            _Pragma("GCC unroll 4") for (size_t l = 0; l < LANES; l++)
            {
                _Pragma("GCC unroll 3") for (size_t j = 0; j < VECTORS; j++) sum[i + l][j] += column[l] * line[j];
            }
        }
    }
    PRODUCT tile[MR][NR];
    memcpy(tile, sum, sizeof tile);
    if (m == MR && n == NR) {
        for (size_t i = 0; i < MR; i++, c += ldc) {
            for (size_t j = 0; j < NR; j++) c[j] = (add ? c[j] : 0) + (RESULT)tile[i][j];
        }
    } else {
        for (size_t i = 0; i < m; i++, c += ldc) {
            for (size_t j = 0; j < n; j++) c[j] = (add ? c[j] : 0) + (RESULT)tile[i][j];
        }
    }
}
#undef NAME
#undef PRODUCT
#undef RESULT
#undef NR
