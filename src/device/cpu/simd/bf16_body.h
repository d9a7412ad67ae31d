/* GEMM of bfloat16 matrices for instruction sets without bfloat16 products, in the vector operations of the including
 * file. Elements are widened to float32 while they are loaded. A vector of B holds pairs of depths of LANES / 2
 * columns, so even and odd depths have separate sums, which are added at the end. */

enum { BF16_ROWS = 4, BF16_VECTORS = 2 * BO_BF16_LINES / LANES /* vectors of one sliver of B per pair of depths */ };

/* Copies one block of up to 16 lines and 32 depths to rows of rounded values, one row per line. */
static void round_block(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along,
                        uint16_t block[BO_BF16_LINES][BO_BF16_DEPTH])
{
    memset(block, 0, BO_BF16_BLOCK * sizeof **block);
    for (size_t i = 0; i < lines; i++) {
        float line[BO_BF16_DEPTH];
        for (size_t p = 0; p < k; p++) line[p] = scale * (along ? x[i * ld + p] : x[p * ld + i]);
        ISA(round_bf16)(k, line, block[i]);
    }
}

static void pack(bool by_line, size_t lines, size_t k, float scale, const float *x, size_t ld, bool along,
                 uint16_t *out)
{
    uint16_t block[BO_BF16_LINES][BO_BF16_DEPTH];
    for (size_t i = 0; i < lines; i += BO_BF16_LINES)
        for (size_t p = 0; p < k; p += BO_BF16_DEPTH, out += BO_BF16_BLOCK) {
            size_t count = lines - i < BO_BF16_LINES ? lines - i : BO_BF16_LINES;
            size_t depth = k - p < BO_BF16_DEPTH ? k - p : BO_BF16_DEPTH;
            round_block(count, depth, scale, along ? x + i * ld + p : x + p * ld + i, ld, along, block);
            if (by_line) {
                memcpy(out, block, sizeof block);
                continue;
            }
            for (size_t q = 0; q < BO_BF16_DEPTH; q += 2)
                for (size_t j = 0; j < BO_BF16_LINES; j++) {
                    out[q * BO_BF16_LINES + 2 * j] = block[j][q];
                    out[q * BO_BF16_LINES + 2 * j + 1] = block[j][q + 1];
                }
        }
}

static void pack_a(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(true, lines, k, scale, x, ld, along, out);
}

static void pack_b(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(false, lines, k, scale, x, ld, along, out);
}

static float exp_line(size_t n, const float *x, float shift, size_t depth, uint16_t *line)
{
    float numbers[BO_BF16_DEPTH], sum = 0;
    for (size_t p = 0; p < depth; p += BO_BF16_DEPTH, line += BO_BF16_BLOCK) {
        size_t count = p < n ? (n - p < BO_BF16_DEPTH ? n - p : BO_BF16_DEPTH) : 0;
        sum += ISA(exp_sum)(count, x + p, shift, numbers);
        for (size_t i = count; i < BO_BF16_DEPTH; i++) numbers[i] = 0;
        ISA(round_bf16)(BO_BF16_DEPTH, numbers, line);
    }
    return sum;
}

/* Computes rows x 16 sums of one sliver of B; a: the first of these rows, in one sliver of A. rows is a compile-time
 * constant. */
static inline __attribute__((always_inline)) void add_rows(size_t rows, size_t k, const uint16_t *a, const uint16_t *b,
                                                           float *c, size_t ldc, size_t n, bool add)
{
    v sum[BF16_ROWS][BF16_VECTORS];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < BF16_VECTORS; j++) sum[i][j] = v_set(0);
    for (size_t block = 0; block < k; block += BO_BF16_DEPTH, a += BO_BF16_BLOCK, b += BO_BF16_BLOCK)
        for (size_t q = 0; q < BO_BF16_DEPTH; q += 2) {
            v line[BF16_VECTORS];
            for (size_t j = 0; j < BF16_VECTORS; j++) line[j] = v_load_bf16(b + q * BO_BF16_LINES + j * LANES);
            for (size_t i = 0; i < rows; i++) {
                v factor = v_load_bf16_pair(a + i * BO_BF16_DEPTH + q);
                for (size_t j = 0; j < BF16_VECTORS; j++) sum[i][j] = v_fma(factor, line[j], sum[i][j]);
            }
        }
    for (size_t i = 0; i < rows; i++) {
        float both[2 * BO_BF16_LINES];
        for (size_t j = 0; j < BF16_VECTORS; j++) v_store(both + j * LANES, sum[i][j]);
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + (both[2 * j] + both[2 * j + 1]);
    }
}

static void multiply(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    const size_t sliver = BO_BF16_LINES * bo_bf16_depth(k);
    for (size_t j = 0; j < n; j += BO_BF16_LINES, b += sliver) {
        size_t columns = n - j < BO_BF16_LINES ? n - j : BO_BF16_LINES, i = 0;
        while (i < m) { /* groups of rows never cross a sliver, because BF16_ROWS divides its lines */
            const uint16_t *from = a + i / BO_BF16_LINES * sliver + i % BO_BF16_LINES * BO_BF16_DEPTH;
            if (i + BF16_ROWS <= m) {
                add_rows(BF16_ROWS, k, from, b, c + i * ldc + j, ldc, columns, add);
                i += BF16_ROWS;
            } else {
                add_rows(1, k, from, b, c + i * ldc + j, ldc, columns, add);
                i++;
            }
        }
    }
}
