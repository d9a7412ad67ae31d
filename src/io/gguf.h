/* GGUF files, versions 2 and 3: typed metadata by key, and named tensors. Layout: "GGUF", u32 version, u64 number of
 * tensors, u64 number of metadata entries, the entries, the descriptions of the tensors, padding, data. Little-endian.
 *
 * Every count, length and offset is checked against the size of the file before memory is allocated for it. */
#ifndef BO_IO_GGUF_H
#define BO_IO_GGUF_H

#include "../base/base.h"
#include "blocks.h"

/* The types of metadata, by their numbers in the file. */
typedef enum bo_gguf_type {
    BO_GGUF_UINT8,
    BO_GGUF_INT8,
    BO_GGUF_UINT16,
    BO_GGUF_INT16,
    BO_GGUF_UINT32,
    BO_GGUF_INT32,
    BO_GGUF_FLOAT32,
    BO_GGUF_BOOL,
    BO_GGUF_STRING,
    BO_GGUF_ARRAY,
    BO_GGUF_UINT64,
    BO_GGUF_INT64,
    BO_GGUF_FLOAT64
} bo_gguf_type;

/* A value, or an array of values of the same type. Arrays of arrays are refused. */
typedef struct bo_gguf_entry {
    char *key;
    bo_gguf_type type; /* of the elements */
    bool array;
    size_t count;              /* 1 unless it is an array */
    const unsigned char *data; /* inside the file */
    size_t bytes;              /* of all elements */
} bo_gguf_entry;

typedef struct bo_gguf_tensor {
    char *name;
    const bo_block_format *format; /* may be a type that cannot be decoded */
    size_t rank, shape[4];         /* slowest dimension first; the file has the reverse order */
    const unsigned char *data;
    size_t bytes;
} bo_gguf_tensor;

typedef struct bo_gguf bo_gguf; /* an open file; immutable */

/* Bytes in memory, which must outlive the object; `path` is used in messages. */
bo_status bo_gguf_open(bo_context *context, const char *path, const void *data, size_t size, bo_gguf **out);
void bo_gguf_close(bo_gguf *file);
/* True if the bytes start like a GGUF file of any version. */
bool bo_gguf_announced(const void *data, size_t size);

const char *bo_gguf_path(const bo_gguf *file);
unsigned bo_gguf_version(const bo_gguf *file);
size_t bo_gguf_tensors(const bo_gguf *file);
const bo_gguf_tensor *bo_gguf_tensor_at(const bo_gguf *file, size_t index);
const bo_gguf_tensor *bo_gguf_tensor_find(const bo_gguf *file, const char *name); /* NULL: none */
const bo_gguf_entry *bo_gguf_find(const bo_gguf *file, const char *key);          /* NULL: none */

/* Element `index` of an entry as a number; false if it is text, or not in the range of the result. */
bool bo_gguf_number(const bo_gguf_entry *entry, size_t index, double *out);
bool bo_gguf_whole(const bo_gguf_entry *entry, size_t index, uint64_t *out);
/* Iterates over the strings of an entry: *at is 0 for the first. False: there are no more, or the entry does not
 * contain strings. The text is not NUL-terminated. */
bool bo_gguf_next_text(const bo_gguf_entry *entry, size_t *at, const char **text, size_t *length);

#endif
