/* Decoding of the number formats of GGUF files. The formulas of the file format are x = d q, x = d q + m or x = d s q -
 * e m, where d, e and m are float16 scales of a block and s and m are small integers of a part of it. */
#include "blocks.h"
#include <string.h>
#include "numbers.h"

enum { SMALL = 32, LARGE = 256 }; /* numbers of a block */

static float half_at(const unsigned char *bytes)
{
    return bo_half_to_float((uint16_t)(bytes[0] | bytes[1] << 8));
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t word_at(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* ---- single numbers ---------------------------------------------------------------------------------------------- */

static void decode_f32(const unsigned char *block, float *x)
{
    *x = from_bits(word_at(block));
}

static void decode_f16(const unsigned char *block, float *x)
{
    *x = half_at(block);
}

static void decode_bf16(const unsigned char *block, float *x)
{
    *x = from_bits((uint32_t)block[0] << 16 | (uint32_t)block[1] << 24);
}

/* ---- blocks of 32 ------------------------------------------------------------------------------------------------ */

/* The low halves of 16 bytes are the first 16 numbers, the high halves the last 16. `high` holds the fifth bits. */
static void decode_nibbles(const unsigned char *quants, uint32_t high, float scale, int offset, float minimum, float *x)
{
    for (int i = 0; i < SMALL / 2; ++i) {
        const int first = (quants[i] & 15) | (int)(high >> i & 1) << 4;
        const int second = quants[i] >> 4 | (int)(high >> (i + SMALL / 2) & 1) << 4;
        x[i] = scale * (float)(first - offset) + minimum;
        x[i + SMALL / 2] = scale * (float)(second - offset) + minimum;
    }
}

static void decode_q4_0(const unsigned char *block, float *x)
{
    decode_nibbles(block + 2, 0, half_at(block), 8, 0, x);
}

static void decode_q4_1(const unsigned char *block, float *x)
{
    decode_nibbles(block + 4, 0, half_at(block), 0, half_at(block + 2), x);
}

static void decode_q5_0(const unsigned char *block, float *x)
{
    decode_nibbles(block + 6, word_at(block + 2), half_at(block), 16, 0, x);
}

static void decode_q5_1(const unsigned char *block, float *x)
{
    decode_nibbles(block + 8, word_at(block + 4), half_at(block), 0, half_at(block + 2), x);
}

static void decode_q8_0(const unsigned char *block, float *x)
{
    const float scale = half_at(block);
    for (int i = 0; i < SMALL; ++i) x[i] = scale * (float)(int8_t)block[2 + i];
}

/* ---- blocks of 256 ----------------------------------------------------------------------------------------------- */

/* Two bits per number: bytes of 4 numbers that are 32 apart. A scale and a minimum of 4 bits per 16 numbers. */
static void decode_q2_k(const unsigned char *block, float *x)
{
    const unsigned char *scales = block, *quants = block + 16;
    const float d = half_at(block + 80), e = half_at(block + 82);
    for (int i = 0; i < LARGE; ++i) {
        const int scale = scales[i / 16], q = quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        x[i] = d * (float)(scale & 15) * (float)q - e * (float)(scale >> 4);
    }
}

/* A scale of 6 bits per 16 numbers: 4 low bits in bytes 0 to 7, 2 high bits in bytes 8 to 11. */
static int q3_scale(const unsigned char *scales, int i)
{
    const int low = scales[i % 8] >> (i / 8 * 4) & 15, high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

/* As Q2_K, with a third bit in a mask; a clear bit subtracts 4. */
static void decode_q3_k(const unsigned char *block, float *x)
{
    const unsigned char *mask = block, *quants = block + 32, *scales = block + 96;
    const float d = half_at(block + 108);
    for (int i = 0; i < LARGE; ++i) {
        const int q = quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        const int high = mask[i % 32] >> (i / 32) & 1;
        x[i] = d * (float)q3_scale(scales, i / 16) * (float)(q - (high ? 0 : 4));
    }
}

/* Scale and minimum number i of 8, of 6 bits each, packed into 12 bytes. */
static void unpack_scale(const unsigned char *packed, int i, int *scale, int *minimum)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *minimum = packed[4 + i] & 63;
    } else {
        *scale = (packed[4 + i] & 15) | (packed[i - 4] >> 6) << 4;
        *minimum = packed[4 + i] >> 4 | (packed[i] >> 6) << 4;
    }
}

/* Four bits per number and, in `high`, a fifth. A scale and a minimum per 32 numbers. */
static void decode_k(const unsigned char *block, const unsigned char *high, const unsigned char *quants, float *x)
{
    const float d = half_at(block), e = half_at(block + 2);
    for (int part = 0; part < 8; ++part) {
        int scale, minimum;
        unpack_scale(block + 4, part, &scale, &minimum);
        const float a = d * (float)scale, b = e * (float)minimum;
        for (int i = 0; i < 32; ++i) {
            int q = quants[part / 2 * 32 + i] >> (part % 2 * 4) & 15;
            if (high) q |= (high[i] >> part & 1) << 4;
            x[part * 32 + i] = a * (float)q - b;
        }
    }
}

static void decode_q4_k(const unsigned char *block, float *x)
{
    decode_k(block, NULL, block + 16, x);
}

static void decode_q5_k(const unsigned char *block, float *x)
{
    decode_k(block, block + 16, block + 48, x);
}

/* Six bits per number: 4 low bits, 2 high bits. A scale of 8 bits per 16 numbers. */
static void decode_q6_k(const unsigned char *block, float *x)
{
    const unsigned char *low = block, *high = block + 128, *scales = block + 192;
    const float d = half_at(block + 208);
    for (int i = 0; i < LARGE; ++i) {
        const int half = i / 128, rest = i % 128;
        const int four = low[half * 64 + rest % 64] >> (rest / 64 * 4) & 15;
        const int two = high[half * 32 + rest % 32] >> (rest / 32 * 2) & 3;
        x[i] = d * (float)(int8_t)scales[i / 16] * (float)((four | two << 4) - 32);
    }
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

static const bo_block_format formats[] = {
    {BO_BLOCK_F32, "F32", 1, 4, decode_f32},
    {BO_BLOCK_F16, "F16", 1, 2, decode_f16},
    {2, "Q4_0", SMALL, 18, decode_q4_0},
    {3, "Q4_1", SMALL, 20, decode_q4_1},
    {6, "Q5_0", SMALL, 22, decode_q5_0},
    {7, "Q5_1", SMALL, 24, decode_q5_1},
    {8, "Q8_0", SMALL, 34, decode_q8_0},
    {9, "Q8_1", SMALL, 36, NULL},
    {10, "Q2_K", LARGE, 84, decode_q2_k},
    {11, "Q3_K", LARGE, 110, decode_q3_k},
    {12, "Q4_K", LARGE, 144, decode_q4_k},
    {13, "Q5_K", LARGE, 176, decode_q5_k},
    {14, "Q6_K", LARGE, 210, decode_q6_k},
    {15, "Q8_K", LARGE, 292, NULL},
    {16, "IQ2_XXS", LARGE, 66, NULL},
    {17, "IQ2_XS", LARGE, 74, NULL},
    {18, "IQ3_XXS", LARGE, 98, NULL},
    {19, "IQ1_S", LARGE, 50, NULL},
    {20, "IQ4_NL", SMALL, 18, NULL},
    {21, "IQ3_S", LARGE, 110, NULL},
    {22, "IQ2_S", LARGE, 82, NULL},
    {23, "IQ4_XS", LARGE, 136, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", LARGE, 56, NULL},
    {BO_BLOCK_BF16, "BF16", 1, 2, decode_bf16},
    {34, "TQ1_0", LARGE, 54, NULL},
    {35, "TQ2_0", LARGE, 66, NULL},
    {39, "MXFP4", SMALL, 17, NULL},
};

const bo_block_format *bo_block_format_find(uint32_t number)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
        if (formats[i].number == number) return &formats[i];
    return NULL;
}

const char *bo_block_formats(void)
{
    return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";
}

void bo_blocks_decode(const bo_block_format *format, const unsigned char *data, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += format->numbers, data += format->bytes) format->decode(data, out + i);
}
