/* Kernels on blocks in cache, in the vector operations of the including file, which also defines the width of a tile of
 * C in vectors: 6 rows of 2 vectors use 12 of 16 registers, 6 rows of 4 vectors use 24 of 32. The other registers hold
 * a line of B and an element of A. */

enum {
    TILE_ROWS = 6,
    PANEL = TILE_VECTORS * LANES, /* columns of C per panel */
    /* vectors of a tile of one row; half as many in a tile of two rows. Eight sums hide the latency of an addition on a
     * CPU that starts two per cycle. */
    LONG_VECTORS = 8,
};

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define EACH_ROW    UNROLLED for (size_t i = 0; i < rows; i++)
#define EACH_VECTOR UNROLLED for (size_t j = 0; j < vectors; j++)

/* The operands that all tiles of a product share; see multiply in kernels.h. */
typedef struct product {
    size_t k, row, column, ldb, ldc;
    bool add;
    float keep;   /* factor of C if it is added to */
    bo_runs runs; /* runs along the depth; k is the length of one run */
} product;

/* An update of the lines of B during a product: line p = keep[p * each] line p + factor[p] value, stored. */
typedef struct renewal {
    const float *keep;
    size_t each; /* stride of keep; 0: one value for all lines */
    const float *factor, *value;
    float *lines; /* the lines of B */
} renewal;

/* Loads vector j of a line. The last of the `vectors` has only `rest` lanes. rest = LANES: all vectors are full; a
 * compile-time constant LANES avoids masks. */
static inline __attribute__((always_inline)) v load_vector(const float *line, size_t j, size_t vectors, size_t rest)
{
    return j + 1 < vectors || rest == LANES ? v_load(line + j * LANES) : v_load_part(line + j * LANES, rest);
}

static inline __attribute__((always_inline)) void store_vector(float *line, size_t j, size_t vectors, size_t rest, v x)
{
    if (j + 1 < vectors || rest == LANES) {
        v_store(line + j * LANES, x);
    } else {
        v_store_part(line + j * LANES, rest, x);
    }
}

/* Keeps x in a register: compilers tend to reload a line of B for each use, and loads are the bottleneck. */
static inline __attribute__((always_inline)) v keep_in_register(v x)
{
    __asm__("" : "+" V_REGISTER(x));
    return x;
}

/* Loads x through an integer register: such loads do not compete with vector loads. */
static inline __attribute__((always_inline)) float detoured(float x)
{
    union {
        float number;
        uint32_t bits;
    } same = {x};
    __asm__("" : "+r"(same.bits));
    return same.number;
}

/* Adds the products of one run to the sums. */
static inline __attribute__((always_inline)) void add_run(size_t rows, size_t vectors, size_t rest,
                                                          const product *shape, const renewal *renewed, const float *a,
                                                          const float *b, v sum[TILE_ROWS][LONG_VECTORS])
{
    const size_t row = shape->row, column = shape->column, ldb = shape->ldb;
    v line[LONG_VECTORS];
    for (size_t p = 0; p < shape->k; p++, a += column, b += ldb) {
        EACH_VECTOR line[j] = load_vector(b, j, vectors, rest);
        if (renewed) {
            v factor = v_set(renewed->factor[p]), keep = v_set(renewed->keep[p * renewed->each]);
            EACH_VECTOR line[j] = v_fma(factor, v_load(renewed->value + j * LANES), v_mul(keep, line[j]));
            EACH_VECTOR v_store(renewed->lines + p * ldb + j * LANES, line[j]);
        }
        if (rows > 1) EACH_VECTOR line[j] = keep_in_register(line[j]);
        EACH_ROW
        {
            v factor = v_set(rows == 1 ? detoured(a[i * row]) : a[i * row]);
            EACH_VECTOR sum[i][j] = v_fma(factor, line[j], sum[i][j]);
        }
    }
}

/* Computes a tile of C, rows x vectors, in registers over the whole depth. rows, vectors, whether renewed is NULL and
 * whether there is one run are compile-time constants. */
static inline __attribute__((always_inline)) void tile(size_t rows, size_t vectors, size_t rest, const product *shape,
                                                       const renewal *renewed, bool one, const float *a, const float *b,
                                                       float *c)
{
    const size_t ldc = shape->ldc;
    v sum[TILE_ROWS][LONG_VECTORS];
    EACH_ROW EACH_VECTOR sum[i][j] = shape->add ? load_vector(c + i * ldc, j, vectors, rest) : v_set(0.0f);
    if (shape->keep != 1.0f) EACH_ROW EACH_VECTOR sum[i][j] = v_mul(v_set(shape->keep), sum[i][j]);
    if (one) {
        add_run(rows, vectors, rest, shape, renewed, a, b, sum);
    } else {
        for (size_t r = 0; r < shape->runs.count; r++, a += shape->runs.a, b += shape->runs.b)
            add_run(rows, vectors, rest, shape, NULL, a, b, sum);
    }
    __asm__("" : "+r"(c)); /* else compilers keep the addresses of all rows on the stack through the loop */
    EACH_ROW EACH_VECTOR store_vector(c + i * ldc, j, vectors, rest, sum[i][j]);
}

/* Computes a tile of m <= TILE_ROWS rows. */
static inline __attribute__((always_inline)) void tile_of(size_t m, size_t vectors, size_t rest, const product *shape,
                                                          const renewal *renewed, bool one, const float *a,
                                                          const float *b, float *c)
{
    switch (m) {
    case 1:
        tile(1, vectors, rest, shape, renewed, one, a, b, c);
        break;
    case 2:
        tile(2, vectors, rest, shape, renewed, one, a, b, c);
        break;
    case 3:
        tile(3, vectors, rest, shape, renewed, one, a, b, c);
        break;
    case 4:
        tile(4, vectors, rest, shape, renewed, one, a, b, c);
        break;
    case 5:
        tile(5, vectors, rest, shape, renewed, one, a, b, c);
        break;
    case 6:
        tile(6, vectors, rest, shape, renewed, one, a, b, c);
        break;
    default:
        break;
    }
}

/* Computes all rows of a panel of C with the minimum number of tiles of nearly equal height, since a tile of one row
 * would be limited by latency. */
static inline __attribute__((always_inline)) void panel(size_t m, size_t vectors, size_t rest, const product *shape,
                                                        bool one, const float *a, const float *b, float *c)
{
    for (size_t tiles = (m + TILE_ROWS - 1) / TILE_ROWS; tiles > 0; tiles--) {
        size_t rows = (m + tiles - 1) / tiles;
        tile_of(rows, vectors, rest, shape, NULL, one, a, b, c);
        a += rows * shape->row, c += rows * shape->ldc, m -= rows;
    }
}

static inline __attribute__((always_inline)) void panel_part(size_t m, size_t vectors, size_t rest,
                                                             const product *shape, bool one, const float *a,
                                                             const float *b, float *c)
{
    switch (vectors) {
    case 1:
        panel(m, 1, rest, shape, one, a, b, c);
        break;
    case 2:
        panel(m, 2, rest, shape, one, a, b, c);
        break;
#if TILE_VECTORS > 2
    case 3:
        panel(m, 3, rest, shape, one, a, b, c);
        break;
    case 4:
        panel(m, 4, rest, shape, one, a, b, c);
        break;
#endif
    default:
        break;
    }
}

static __attribute__((noinline)) void panel_full(size_t m, const product *shape, const float *a, const float *b,
                                                 float *c)
{
    panel(m, TILE_VECTORS, LANES, shape, true, a, b, c);
}

static __attribute__((noinline)) void panel_narrow(size_t m, size_t vectors, size_t rest, const product *shape,
                                                   const float *a, const float *b, float *c)
{
    panel_part(m, vectors, rest, shape, true, a, b, c);
}

static __attribute__((noinline)) void panel_full_runs(size_t m, const product *shape, const float *a, const float *b,
                                                      float *c)
{
    panel(m, TILE_VECTORS, LANES, shape, false, a, b, c);
}

static __attribute__((noinline)) void panel_narrow_runs(size_t m, size_t vectors, size_t rest, const product *shape,
                                                        const float *a, const float *b, float *c)
{
    panel_part(m, vectors, rest, shape, false, a, b, c);
}

static __attribute__((noinline)) void panel_long(size_t m, const product *shape, const float *a, const float *b,
                                                 float *c)
{
    if (m == 1)
        tile(1, LONG_VECTORS, LANES, shape, NULL, true, a, b, c);
    else
        tile(2, LONG_VECTORS / 2, LANES, shape, NULL, true, a, b, c);
}

static void multiply_by(size_t m, size_t n, const product *shape, const float *a, const float *b, float *c)
{
    const bool one = shape->runs.count == 1;
    size_t j = 0;
    if (one && (m == 1 || (m == 2 && LONG_VECTORS / 2 > TILE_VECTORS))) {
        const size_t columns = LONG_VECTORS / m * LANES;
        for (; j + columns <= n; j += columns) panel_long(m, shape, a, b + j, c + j);
    }
    for (; j + PANEL <= n; j += PANEL) (one ? panel_full : panel_full_runs)(m, shape, a, b + j, c + j);
    if (j < n) {
        size_t vectors = (n - j + LANES - 1) / LANES;
        (one ? panel_narrow : panel_narrow_runs)(m, vectors, n - j - (vectors - 1) * LANES, shape, a, b + j, c + j);
    }
}

void ISA(multiply)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                   bool add, float *c, size_t ldc)
{
    multiply_by(m, n, &(product){k, row, column, ldb, ldc, add, 1.0f, {1, 0, 0}}, a, b, c);
}

void ISA(multiply_runs)(size_t m, size_t n, bo_runs runs, size_t k, const float *a, size_t row, size_t column,
                        const float *b, size_t ldb, bool add, float *c, size_t ldc)
{
    multiply_by(m, n, &(product){k, row, column, ldb, ldc, add, 1.0f, runs}, a, b, c);
}

void ISA(renew)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                float keep, float *c, size_t ldc)
{
    multiply_by(m, n, &(product){k, row, column, ldb, ldc, true, keep, {1, 0, 0}}, a, b, c);
}
/* Transposes a block of LANES x LANES floats, of which rows x columns exist. */
static inline __attribute__((always_inline)) void transpose_block(size_t rows, size_t columns, const float *a,
                                                                  size_t lda, float *b, size_t ldb)
{
    v block[LANES];
    UNROLLED for (size_t i = 0; i < LANES; i++)
    {
        block[i] = i < rows ? load_vector(a + i * lda, 0, 1, columns) : v_set(0.0f);
    }
    v_transpose(block);
    UNROLLED for (size_t j = 0; j < LANES; j++)
    {
        if (j < columns) store_vector(b + j * ldb, 0, 1, rows, block[j]);
    }
}

/* Both are not inlined: in the loop over blocks, compilers would keep the addresses of all lines in memory. */
static __attribute__((noinline)) void transpose_whole(const float *a, size_t lda, float *b, size_t ldb)
{
    transpose_block(LANES, LANES, a, lda, b, ldb);
}

static __attribute__((noinline)) void transpose_edge(size_t rows, size_t columns, const float *a, size_t lda, float *b,
                                                     size_t ldb)
{
    transpose_block(rows, columns, a, lda, b, ldb);
}

void ISA(transpose)(size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb)
{
    for (size_t i = 0; i < rows; i += LANES) {
        for (size_t j = 0; j < columns; j += LANES) {
            size_t high = rows - i < LANES ? rows - i : LANES, wide = columns - j < LANES ? columns - j : LANES;
            if (high == LANES && wide == LANES) {
                transpose_whole(a + i * lda + j, lda, b + j * ldb + i, ldb);
            } else {
                transpose_edge(high, wide, a + i * lda + j, lda, b + j * ldb + i, ldb);
            }
        }
    }
}

/* Rows of S processed at a time: few, so that they are in the first-level cache for further queries. */
enum { STATE_ROWS = BO_SIZE(32, 4) };

/* Updates a panel of S and multiplies it with m <= TILE_ROWS queries in one pass. */
static __attribute__((noinline)) void panel_renewed(size_t m, const product *shape, const renewal *renewed,
                                                    const float *q, float *out)
{
    tile_of(m, TILE_VECTORS, LANES, shape, renewed, true, q, renewed->lines, out);
}

/* line = keep line + factor value */
static inline void renew(size_t n, v keep, v factor, const float *value, float *line)
{
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        v_store(line + j, v_fma(factor, v_load(value + j), v_mul(keep, v_load(line + j))));
    }
    if (j < n) {
        v old = v_mul(keep, v_load_part(line + j, n - j));
        v_store_part(line + j, n - j, v_fma(factor, v_load_part(value + j, n - j), old));
    }
}

/* The first TILE_ROWS queries are computed while S is updated, except in the columns after the last full panel; the
 * other queries follow. S is read from memory. It is not prefetched here because hardware prefetching is sufficient:
 * software prefetches 512 bytes to 8 KB ahead were slower. */
static void state_pass(size_t rows, size_t n, bool update, const float *keep, size_t each, const float *f,
                       const float *value, float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo)
{
    const size_t first = queries < TILE_ROWS ? queries : TILE_ROWS;
    const size_t wide = update && first > 0 ? n / PANEL * PANEL : 0;
    for (size_t i = 0; i == 0 || i < rows; i += STATE_ROWS) {
        const size_t count = rows - i < STATE_ROWS ? rows - i : STATE_ROWS;
        const product shape = {count, ldq, 1, n, ldo, i > 0, 1.0f, {1, 0, 0}};
        float *lines = s + i * n;
        for (size_t j = 0; j < wide; j += PANEL) {
            panel_renewed(first, &shape, &(renewal){keep + i * each, each, f + i, value + j, lines + j}, q + i,
                          out + j);
        }
        for (size_t r = 0; update && r < count; r++) {
            renew(n - wide, v_set(keep[(i + r) * each]), v_set(f[i + r]), value + wide, lines + r * n + wide);
        }
        if (wide < n) ISA(multiply)(first, n - wide, count, q + i, ldq, 1, lines + wide, n, i > 0, out + wide, ldo);
        if (first == queries) continue;
        ISA(multiply)(queries - first, n, count, q + first * ldq + i, ldq, 1, lines, n, i > 0, out + first * ldo, ldo);
    }
}

void ISA(state_step)(size_t rows, size_t n, bool update, float decay, const float *f, const float *value, float *s,
                     size_t queries, const float *q, size_t ldq, float *out, size_t ldo)
{
    state_pass(rows, n, update, &decay, 0, f, value, s, queries, q, ldq, out, ldo);
}

void ISA(state_step_gated)(size_t rows, size_t n, bool update, const float *decay, const float *f, const float *value,
                           float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo)
{
    state_pass(rows, n, update, decay, 1, f, value, s, queries, q, ldq, out, ldo);
}
