/* What the targets that load our own files share: mutated bytes become a file again. */
#ifndef BO_FUZZ_CONTAINER_H
#define BO_FUZZ_CONTAINER_H

#include "fuzz.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { FUZZ_FILE_BYTES = 1 << 17, FUZZ_MOST_DIM = 256, FUZZ_MOST_OUTPUTS = 1 << 12, FUZZ_APPLIED_ROWS = 3 };

/* Where the JSON that begins at bytes[8] ends: its braces are matched, but not those inside strings. 0: nowhere. */
static inline size_t fuzz_header_end(const uint8_t *bytes, size_t size)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 8; i < size; ++i) {
        if (quoted && bytes[i] == '\\')
            ++i;
        else if (bytes[i] == '"')
            quoted = !quoted;
        else if (!quoted && bytes[i] == '{')
            ++depth;
        else if (!quoted && bytes[i] == '}' && --depth == 0)
            return i + 1;
        else if (depth == 0)
            return 0;
    }
    return 0;
}

static inline void fuzz_remove_file(void)
{
    char path[64];
    snprintf(path, sizeof path, "fuzz-%ld.safetensors", (long)getpid());
    unlink(path);
}

/* The bytes in a file, the length of the header put right: else nearly every change of the JSON would be refused by the
 * container, which has a target of its own. After a crash the file is left to look at. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static char path[64];
    static uint8_t bytes[FUZZ_FILE_BYTES];
    static int file = -1;
    if (file < 0) {
        snprintf(path, sizeof path, "fuzz-%ld.safetensors", (long)getpid());
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        atexit(fuzz_remove_file);
    }
    if (size > sizeof bytes) size = sizeof bytes;
    memcpy(bytes, data, size);
    size_t end = fuzz_header_end(bytes, size);
    while (end && end < size && bytes[end] == ' ') ++end;
    for (size_t i = 0; end && i < 8; ++i) bytes[i] = (uint8_t)((end - 8) >> 8 * i);
    /* Not emptied and written anew: file systems that guard against a crash would wait for the disk each time. */
    if (file < 0 || ftruncate(file, (off_t)size) != 0 || pwrite(file, bytes, size, 0) != (ssize_t)size) abort();
    return path;
}

/* Inputs of moderate size, the same every time. */
static inline void fuzz_inputs(size_t count, float *x)
{
    for (size_t i = 0; i < count; ++i) x[i] = (float)(i % 7) / 7 - 0.4f;
}

#endif
