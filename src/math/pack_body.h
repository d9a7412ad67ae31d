/* Packing for the types that the including file defines by these macros: NAME, ACROSS, ALONG, SLIVERS (function names),
 * SOURCE, TARGET, WITH and GIVEN (first parameter and argument of all functions except ACROSS: empty, or kernels),
 * HAS_ALONG if the function ALONG is already defined. */

/* Packs lines that are adjacent in memory: a row of the source holds one depth of every sliver. */
static inline __attribute__((always_inline)) void ACROSS(size_t width, size_t lines, size_t k, TARGET scale,
                                                         const SOURCE *source, size_t ld, TARGET *target)
{
    size_t whole = lines / width, rest = lines % width;
    for (size_t p = 0; p < k; p++) {
        const SOURCE *from = source + p * ld;
        TARGET *to = target + p * width;
        for (size_t s = 0; s < whole; s++, from += width, to += width * k) {
            for (size_t i = 0; i < width; i++) to[i] = (TARGET)from[i] * scale;
        }
        if (rest) {
            for (size_t i = 0; i < rest; i++) to[i] = (TARGET)from[i] * scale;
            for (size_t i = rest; i < width; i++) to[i] = 0;
        }
    }
}

#ifndef HAS_ALONG
/* Packs lines that are rows in memory: every sliver is a transposition. It proceeds in steps of one cache line of the
 * source, because rows that are a power of two apart share a cache set and would evict each other. */
static inline __attribute__((always_inline)) void ALONG(size_t width, size_t lines, size_t k, TARGET scale,
                                                        const SOURCE *source, size_t ld, TARGET *target)
{
    enum { STEP = 64 / sizeof(SOURCE) };
    for (size_t first = 0; first < lines; first += width, target += width * k) {
        size_t count = bo_min(width, lines - first);
        for (size_t p0 = 0; p0 < k; p0 += STEP) {
            size_t steps = bo_min(STEP, k - p0);
            TARGET *to = target + p0 * width;
            for (size_t i = 0; i < width; i++) {
                const SOURCE *from = source + (first + i) * ld + p0;
                if (i >= count) {
                    for (size_t p = 0; p < steps; p++) to[p * width + i] = 0;
                } else if (steps == STEP) {
                    for (size_t p = 0; p < STEP; p++) to[p * width + i] = (TARGET)from[p] * scale;
                } else {
                    for (size_t p = 0; p < steps; p++) to[p * width + i] = (TARGET)from[p] * scale;
                }
            }
        }
    }
}
#endif

static inline __attribute__((always_inline)) void SLIVERS(WITH size_t width, size_t lines, size_t k, TARGET scale,
                                                          const SOURCE *source, size_t ld, bool along, TARGET *target)
{
    if (along) {
        ALONG(GIVEN width, lines, k, scale, source, ld, target);
    } else {
        ACROSS(width, lines, k, scale, source, ld, target);
    }
}

/* The widths that the compute kernels use have separate loops in which the compiler knows the width. */
void NAME(WITH size_t width, size_t lines, size_t k, TARGET scale, const SOURCE *source, size_t ld, bool along,
          TARGET *target)
{
    switch (width) {
    case 4:
        SLIVERS(GIVEN 4, lines, k, scale, source, ld, along, target);
        break;
    case 6:
        SLIVERS(GIVEN 6, lines, k, scale, source, ld, along, target);
        break;
    case 8:
        SLIVERS(GIVEN 8, lines, k, scale, source, ld, along, target);
        break;
    case 14:
        SLIVERS(GIVEN 14, lines, k, scale, source, ld, along, target);
        break;
    case 16:
        SLIVERS(GIVEN 16, lines, k, scale, source, ld, along, target);
        break;
    case 32:
        SLIVERS(GIVEN 32, lines, k, scale, source, ld, along, target);
        break;
    default:
        SLIVERS(GIVEN width, lines, k, scale, source, ld, along, target);
        break;
    }
}
#undef NAME
#undef ACROSS
#undef ALONG
#undef SLIVERS
#undef SOURCE
#undef TARGET
#undef WITH
#undef GIVEN
#undef HAS_ALONG
