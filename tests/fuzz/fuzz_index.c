/* An index and two shards: the input is a byte with the number of the shards that exist, the lengths of the index and
 * of the first shard as two bytes each, and then their bytes. */
#include "fuzz.h"
#include "io/shards.h"

typedef struct parts {
    const uint8_t *data[2];
    size_t sizes[2];
    unsigned present;
} parts;

static int number_of(const char *name)
{
    return strcmp(name, "1.safetensors") == 0 ? 0 : strcmp(name, "2.safetensors") == 0 ? 1 : -1;
}

static bool exists(void *user, const char *name)
{
    const int number = number_of(name);
    return number >= 0 && (((const parts *)user)->present >> number & 1) == 0;
}

static bo_status open_part(bo_context *context, void *user, const char *name, bo_tensors **out)
{
    const parts *p = user;
    const int number = number_of(name);
    if (number < 0) abort(); /* only files that exist are opened */
    return bo_tensors_open_memory(context, name, p->data[number], p->sizes[number], out);
}

/* A length of two bytes, at most the number of remaining bytes. */
static size_t read_length(const uint8_t **data, size_t *size)
{
    const size_t length = (*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2;
    *size -= 2;
    return length < *size ? length : *size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    if (size < 5) return 0;
    parts p = {.present = data[0] & 3};
    data++, size--;
    const size_t index = read_length(&data, &size), requested = read_length(&data, &size);
    const size_t length = index < size ? index : size, first = requested < size - length ? requested : size - length;
    p.data[0] = data + length;
    p.sizes[0] = first;
    p.data[1] = data + length + first;
    p.sizes[1] = size - length - first;
    const bo_shard_source source = {exists, open_part, &p};
    bo_tensors *file;
    char *text = malloc(length + 1); /* a copy, so that reading beyond it is noticed */
    memcpy(text, data, length);
    text[length] = 0;
    const bool fine = fuzz_ok(context, bo_shards_open_memory(context, "fuzz.index.json", text, length, &source, &file));
    free(text);
    if (!fine) return 0;
    unsigned sum = 0;
    for (size_t i = 0; i < bo_tensors_count(file); ++i) {
        const bo_file_tensor *tensor = bo_tensors_at(file, i);
        if (bo_tensors_find(file, tensor->name) != tensor) abort();
        for (size_t b = 0; b < tensor->bytes; ++b) sum += ((const unsigned char *)tensor->data)[b];
    }
    volatile unsigned sink = sum;
    (void)sink;
    bo_tensors_close(file);
    return 0;
}
