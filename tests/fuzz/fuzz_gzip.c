/* The first byte selects: the rest unchanged, or compressed by zlib after mutation, so that the inside of the stream is
 * reached with a valid checksum. */
#include "fuzz.h"
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || !(data[0] & 1)) return size ? fuzz_table(data + 1, size - 1, BO_FORMAT_AUTO) : 0;
    z_stream z = {0};
    uLong bound = compressBound((uLong)size) + 64;
    uint8_t *packed = malloc(2 * bound);
    size_t length = 0;
    /* One or two members. */
    for (int member = 0; member <= (data[0] >> 1 & 1); ++member) {
        if (deflateInit2(&z, 1, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
        z.next_in = (Bytef *)(uintptr_t)(data + 1);
        z.avail_in = (uInt)(size - 1);
        z.next_out = packed + length;
        z.avail_out = (uInt)bound;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
        length += z.total_out;
        deflateEnd(&z);
        memset(&z, 0, sizeof z);
    }
    fuzz_table(packed, length, BO_FORMAT_AUTO);
    free(packed);
    return 0;
}
