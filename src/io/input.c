/* Opening of inputs, and the limits of each kind of input. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

const bo_limits bo_limits_table = {.bytes = UINT64_MAX, .streams = true};
const bo_limits bo_limits_text = {.bytes = 256 * GIB, .streams = true, .whole = true};
const bo_limits bo_limits_config = {.bytes = 16 * MIB, .whole = true};
const bo_limits bo_limits_index = {.bytes = 64 * MIB, .whole = true};
const bo_limits bo_limits_tokenizer = {.bytes = 256 * MIB, .whole = true};
const bo_limits bo_limits_network = {.bytes = 256 * MIB, .whole = true};
const bo_limits bo_limits_record = {.bytes = MIB, .whole = true};
const bo_limits bo_limits_metrics = {.bytes = 4 * GIB, .whole = true};
const bo_limits bo_limits_calibration = {.bytes = MIB, .whole = true};
const bo_limits bo_limits_result = {.bytes = 64 * MIB, .whole = true};
const bo_limits bo_limits_weights = {.bytes = UINT64_MAX, .whole = true};

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISCHR(mode)  ? "a device"
           : S_ISBLK(mode)  ? "a block device"
                            : "a socket";
}

/* Writes a number with a comma after every three digits. */
static const char *grouped(uint64_t number, char out[32])
{
    char digits[24];
    const int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *to = out;
    for (int i = 0; i < count; ++i) {
        if (i > 0 && (count - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return out;
}

bo_status bo_input_too_large(bo_context *context, const char *path, uint64_t found, bool at_least, uint64_t max_bytes)
{
    char a[32], b[32];
    return bo_fail(context, BO_FORMAT, "%s: %s%s bytes, expected at most %s bytes", path, at_least ? "at least " : "",
                   grouped(found, a), grouped(max_bytes, b));
}

/* The user ends the input of a terminal; other devices may be endless. */
static bool is_stream(int descriptor, mode_t mode)
{
    return S_ISFIFO(mode) || S_ISSOCK(mode) || (S_ISCHR(mode) && isatty(descriptor));
}

static bo_status check(bo_context *context, const char *path, const bo_limits *limits, int descriptor,
                       const struct stat *about)
{
    if (!S_ISREG(about->st_mode) && !(limits->streams && is_stream(descriptor, about->st_mode)))
        return bo_fail(context, BO_IO, "%s: not a regular file%s (it is %s)", path, limits->streams ? " or a pipe" : "",
                       kind_of(about->st_mode));
    if (S_ISREG(about->st_mode) && (uint64_t)about->st_size > limits->bytes)
        return bo_input_too_large(context, path, (uint64_t)about->st_size, false, limits->bytes);
    return BO_OK;
}

bo_status bo_input_check(bo_context *context, const char *path, const bo_limits *limits, int descriptor,
                         struct stat *about)
{
    return fstat(descriptor, about) == 0
               ? check(context, path, limits, descriptor, about)
               : bo_fail(context, BO_IO, "%s: cannot get its status: %s", path, strerror(errno));
}

bo_status bo_input_open(bo_context *context, const char *path, const bo_limits *limits, int *descriptor,
                        struct stat *about)
{
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*descriptor < 0) return bo_fail(context, BO_IO, "%s: cannot be opened: %s", path, strerror(errno));
    const bo_status status = bo_input_check(context, path, limits, *descriptor, about);
    if (status == BO_OK) return BO_OK;
    close(*descriptor);
    *descriptor = -1;
    return status;
}

/* A full address space is not an error of the file: a resumed run must not fall back to an older checkpoint. */
bo_status bo_input_map(bo_context *context, const char *path, int descriptor, size_t size, void **out)
{
    *out = NULL;
    if (size == 0) return BO_OK;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return bo_fail(context, errno == ENOMEM ? BO_MEMORY : BO_IO, "%s: cannot be mapped into memory: %s", path,
                       strerror(errno));
    *out = bytes;
    return BO_OK;
}
