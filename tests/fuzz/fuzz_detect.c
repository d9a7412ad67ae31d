/* Any bytes, with the format detected from the contents. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_table(data, size, BO_FORMAT_AUTO);
}
