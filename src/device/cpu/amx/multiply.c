/* GEMM of bfloat16 matrices with AMX tiles: two by two tiles of C (16 x 16 sums each) stay in registers over the whole
 * depth, next to two tiles of A and two of B. */
#if defined(__x86_64__)
#include "amx.h"
#include <immintrin.h>
#include <string.h>
#include "../avx512bf16/avx512bf16.h"

enum { LINES = BO_BF16_LINES, TILE = BO_BF16_TILE, ROW = 64 /* bytes of a row of a tile */, TILES = 8 };

/* Compilers do not know the memory ranges that tile instructions read and write. */
#define COMPLETE __asm__ volatile("" ::: "memory")

/* The shape of the eight tile registers, as LDTILECFG reads it. */
typedef struct tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* The shape is part of the state of a thread. Other libraries in the process may change it, so each task compares it
 * (5 ns) and loads it only if it differs (60 ns). */
void bo_amx_prepare(void)
{
    tile_shapes expected = {.palette = 1}, found;
    for (size_t i = 0; i < TILES; i++) expected.row_bytes[i] = ROW, expected.rows[i] = LINES;
    memset(&found, 0, sizeof found);
    COMPLETE;
    _tile_storeconfig(&found);
    COMPLETE;
    if (memcmp(&found, &expected, sizeof expected) != 0) _tile_loadconfig(&expected);
}

/* Requests the lines of C while the sums are computed. */
static void request(const float *c, size_t ldc)
{
    for (size_t i = 0; i < TILE; i++) {
        __builtin_prefetch(c + i * ldc, 1, 3);
        __builtin_prefetch(c + i * ldc + LINES, 1, 3);
    }
}

/* Tile registers are named by constants: C 0 to 3, A 4 and 5, B 6 and 7. Two by two tiles with whole rows. */
static void whole(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, bool add)
{
    const size_t sliver = LINES * bo_bf16_depth(k), stride = ldc * sizeof *c;
    if (add) {
        _tile_loadd(0, c, stride);
        _tile_loadd(1, c + LINES, stride);
        _tile_loadd(2, c + LINES * ldc, stride);
        _tile_loadd(3, c + LINES * ldc + LINES, stride);
    } else {
        request(c, ldc);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t at = 0; at < sliver; at += BO_BF16_BLOCK) {
        _tile_loadd(4, a + at, ROW);
        _tile_stream_loadd(6, b + at, ROW);
        _tile_dpbf16ps(0, 4, 6);
        _tile_stream_loadd(7, b + sliver + at, ROW);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + sliver + at, ROW);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, stride);
    _tile_stored(1, c + LINES, stride);
    _tile_stored(2, c + LINES * ldc, stride);
    _tile_stored(3, c + LINES * ldc + LINES, stride);
}

/* Like the function above, for one sliver of A. */
static void upper(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, bool add, bool wide)
{
    const size_t sliver = LINES * bo_bf16_depth(k), stride = ldc * sizeof *c;
    _tile_zero(0);
    _tile_zero(1);
    if (add) {
        _tile_loadd(0, c, stride);
        if (wide) _tile_loadd(1, c + LINES, stride);
    }
    for (size_t at = 0; at < sliver; at += BO_BF16_BLOCK) {
        _tile_loadd(4, a + at, ROW);
        _tile_loadd(6, b + at, ROW);
        _tile_dpbf16ps(0, 4, 6);
        if (!wide) continue;
        _tile_loadd(7, b + sliver + at, ROW);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, c, stride);
    if (wide) _tile_stored(1, c + LINES, stride);
}

static void slivers(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    const size_t sliver = LINES * bo_bf16_depth(k);
    if (m > LINES && n > LINES) {
        whole(k, a, b, c, ldc, add);
        return;
    }
    upper(k, a, b, c, ldc, add, n > LINES);
    if (m > LINES) upper(k, a + sliver, b, c + LINES * ldc, ldc, add, n > LINES);
}

/* Copies m x n floats. */
static void copy(size_t m, size_t n, const float *from, size_t ldf, float *to, size_t ldt)
{
    for (size_t i = 0; i < m; i++) memcpy(to + i * ldt, from + i * ldf, n * sizeof *to);
}

/* Edges of C are computed as whole tiles in a separate buffer. */
static void multiply(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    _Alignas(64) float tile[TILE * TILE];
    COMPLETE;
    if (m % LINES == 0 && n % LINES == 0) {
        slivers(k, a, b, c, ldc, m, n, add);
        COMPLETE;
        return;
    }
    if (add) {
        memset(tile, 0, sizeof tile);
        copy(m, n, c, ldc, tile, TILE);
    }
    COMPLETE;
    slivers(k, a, b, tile, TILE, m, n, add);
    COMPLETE;
    copy(m, n, tile, TILE, c, ldc);
}

const bo_micro_bf16 bo_amx_bf16 = {.prepare = bo_amx_prepare,
                                   .pack_a = bo_avx512bf16_pack_a,
                                   .pack_b = bo_avx512bf16_pack_b,
                                   .exp_line = bo_avx512bf16_exp_line,
                                   .multiply = multiply};
#endif
