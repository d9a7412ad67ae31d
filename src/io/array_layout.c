/* How an array lies in a binary file: whether the file holds it, and its numbers as double or float. */
#include "reader.h"

#include <string.h>

bo_status bo_array_fits(bo_context *context, const bo_bytes *bytes, const bo_array_layout *array, uint64_t count,
                        const char *promise)
{
    const char *path = bo_bytes_path(bytes);
    if (count > ((UINT64_MAX >> 1) - array->offset) / array->item)
        return bo_fail(context, BO_FORMAT, "%s: %s are more than a file can hold", path, promise);
    const uint64_t expected = array->offset + count * array->item, bound = bo_bytes_bound(bytes);
    const bool exact = bo_bytes_seekable(bytes);
    if (expected > bound)
        return bo_fail(context, BO_FORMAT, "%s: is truncated: its header promises %s, %llu bytes in all, but %s %llu",
                       path, promise, (unsigned long long)expected, exact ? "it has" : "it can have at most",
                       (unsigned long long)bound);
    if (exact && expected < bound)
        return bo_fail(context, BO_FORMAT, "%s: has %llu bytes more than its header promises (%s)", path,
                       (unsigned long long)(bound - expected), promise);
    return BO_OK;
}

bo_status bo_array_skip_header(bo_context *context, bo_bytes *bytes, const bo_array_layout *array)
{
    unsigned char scratch[1024];
    for (uint64_t left = array->offset; left > 0;) {
        size_t piece = left < sizeof scratch ? (size_t)left : sizeof scratch, got;
        BO_TRY(bo_bytes_read(context, bytes, scratch, piece, &got));
        if (got < piece) return bo_fail(context, BO_FORMAT, "%s: changed while it was read", bo_bytes_path(bytes));
        left -= piece;
    }
    return BO_OK;
}

bo_status bo_array_ends(bo_context *context, bo_bytes *bytes, const char *promise)
{
    unsigned char byte;
    size_t got;
    BO_TRY(bo_bytes_read(context, bytes, &byte, 1, &got));
    if (got)
        return bo_fail(context, BO_FORMAT, "%s: has more bytes than its header promises (%s)", bo_bytes_path(bytes),
                       promise);
    return BO_OK;
}

/* ---- conversion ---------------------------------------------------------------------------------------- */

static inline uint16_t load_16(const unsigned char *p, bool swap)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap16(v) : v;
}

static inline uint32_t load_32(const unsigned char *p, bool swap)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t load_64(const unsigned char *p, bool swap)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap64(v) : v;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One loop a type, with the byte order outside the loop so that each vectorizes. */
#define BO_CONVERT(item, expression)                                                                                   \
    do {                                                                                                               \
        if (array->swap) {                                                                                             \
            const bool swap = true;                                                                                    \
            (void)swap;                                                                                                \
            for (size_t i = 0; i < count; ++i, raw += (item)) out[i] = (expression);                                   \
        } else {                                                                                                       \
            const bool swap = false;                                                                                   \
            (void)swap;                                                                                                \
            for (size_t i = 0; i < count; ++i, raw += (item)) out[i] = (expression);                                   \
        }                                                                                                              \
    } while (0)

#define BO_CONVERT_TYPES(real)                                                                                         \
    switch (array->type) {                                                                                             \
    case BO_TYPE_F16:                                                                                                  \
        BO_CONVERT(2, (real)bo_half_to_float(load_16(raw, swap)));                                                     \
        break;                                                                                                         \
    case BO_TYPE_F32:                                                                                                  \
        BO_CONVERT(4, (real)float_of_bits(load_32(raw, swap)));                                                        \
        break;                                                                                                         \
    case BO_TYPE_F64:                                                                                                  \
        BO_CONVERT(8, (real)double_of_bits(load_64(raw, swap)));                                                       \
        break;                                                                                                         \
    case BO_TYPE_I8:                                                                                                   \
        BO_CONVERT(1, (real)(int8_t)*raw);                                                                             \
        break;                                                                                                         \
    case BO_TYPE_I16:                                                                                                  \
        BO_CONVERT(2, (real)(int16_t)load_16(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_I32:                                                                                                  \
        BO_CONVERT(4, (real)(int32_t)load_32(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_I64:                                                                                                  \
        BO_CONVERT(8, (real)(int64_t)load_64(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_U8:                                                                                                   \
        BO_CONVERT(1, (real)*raw);                                                                                     \
        break;                                                                                                         \
    case BO_TYPE_U16:                                                                                                  \
        BO_CONVERT(2, (real)load_16(raw, swap));                                                                       \
        break;                                                                                                         \
    case BO_TYPE_U32:                                                                                                  \
        BO_CONVERT(4, (real)load_32(raw, swap));                                                                       \
        break;                                                                                                         \
    case BO_TYPE_U64:                                                                                                  \
        BO_CONVERT(8, (real)load_64(raw, swap));                                                                       \
        break;                                                                                                         \
    }

void bo_convert_f64(const bo_array_layout *array, const unsigned char *raw, size_t count, double *out)
{
    BO_CONVERT_TYPES(double)
}

void bo_convert_f32(const bo_array_layout *array, const unsigned char *raw, size_t count, float *out)
{
    if (array->type == BO_TYPE_F32 && !array->swap) {
        if (count) memcpy(out, raw, count * sizeof *out); /* at the end raw may be NULL */
        return;
    }
    BO_CONVERT_TYPES(float)
}
