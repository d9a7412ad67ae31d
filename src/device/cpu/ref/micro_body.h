/* One micro-kernel, for the types and the tile that the including file defines: NAME, PRODUCT (type of a, b and the
 * sums), RESULT (type of C), MR, NR. Each sum runs over p in order in one register. */
void NAME(size_t k, const PRODUCT *a, const PRODUCT *b, RESULT *c, size_t ldc, size_t m, size_t n, bool add)
{
    PRODUCT sum[MR][NR] = {{0}};
    for (size_t p = 0; p < k; p++) {
        for (size_t i = 0; i < MR; i++) {
            for (size_t j = 0; j < NR; j++) sum[i][j] += a[p * MR + i] * b[p * NR + j];
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + (RESULT)sum[i][j];
    }
}
#undef NAME
#undef PRODUCT
#undef RESULT
#undef MR
#undef NR
