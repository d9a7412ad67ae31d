/* Verification of the text files next to a safetensors file. */
#include "companions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bytes.h"
#include "checksum.h"
#include "tensors.h"

/* The length of NAME if the key is NAME.checksum, as for companions; otherwise 0. */
static size_t name_length(const char *key)
{
    static const char ending[] = BO_TENSORS_COMPANION("");
    const size_t length = strlen(key), tail = sizeof ending - 1;
    if (length <= tail || strchr(key, '/') || strcmp(key + length - tail, ending) != 0) return 0;
    return length - tail;
}

static bo_status check(bo_context *context, const char *path, const char *expected, const char *weights)
{
    char *text, found[BO_CHECKSUM_TEXT];
    size_t length;
    bo_limits limits = bo_limits_tokenizer; /* the largest of these files */
    limits.raw = true;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return bo_fail(context, BO_FORMAT, "%s: the file is missing, but its checksum is recorded in %s", path,
                       weights);
    BO_TRY(bo_bytes_text(context, path, &limits, &text, &length));
    bo_checksum_text(text, length, found);
    bo_free(text);
    if (strcmp(found, expected) == 0) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the file is damaged or was edited: its checksum is not the one recorded in %s (expected %.20s, "
                   "found %s)",
                   path, weights, expected, found);
}

static bo_status check_all(bo_context *context, const bo_tensors *file, const char *weights)
{
    enum { PATH = 4096 };
    const char *slash = strrchr(weights, '/');
    const int directory = slash ? (int)(slash + 1 - weights) : 0;
    for (size_t i = 0; i < bo_tensors_meta_count(file); i++) {
        char path[PATH];
        const bo_meta meta = bo_tensors_meta_at(file, i);
        const size_t length = name_length(meta.key);
        if (!length) continue;
        const int size = snprintf(path, sizeof path, "%.*s%.*s", directory, weights, (int)length, meta.key);
        if (size < 0 || size >= PATH) return bo_fail(context, BO_INVALID, "the path %.80s… is too long", weights);
        BO_TRY(check(context, path, meta.value, weights));
    }
    return BO_OK;
}

bo_status bo_companions_check(bo_context *context, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    const bo_status status = check_all(context, file, path);
    bo_tensors_close(file);
    return status;
}
