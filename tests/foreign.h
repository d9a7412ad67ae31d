/* Writes GGUF and llama2.c files into memory, for tests: any content, also wrong. */
#ifndef BO_TEST_FOREIGN_H
#define BO_TEST_FOREIGN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Growing bytes. */
typedef struct foreign_bytes {
    unsigned char *data;
    size_t size, capacity;
} foreign_bytes;

static inline void foreign_put(foreign_bytes *out, const void *data, size_t size)
{
    if (out->size + size > out->capacity) {
        out->capacity = 2 * (out->size + size);
        out->data = realloc(out->data, out->capacity);
        if (!out->data) abort();
    }
    if (size) memcpy(out->data + out->size, data, size);
    out->size += size;
}

static inline void foreign_word(foreign_bytes *out, uint32_t value)
{
    foreign_put(out, &value, sizeof value);
}

static inline void foreign_long(foreign_bytes *out, uint64_t value)
{
    foreign_put(out, &value, sizeof value);
}

static inline void foreign_string(foreign_bytes *out, const char *text)
{
    foreign_long(out, strlen(text));
    foreign_put(out, text, strlen(text));
}

/* A GGUF file: metadata, descriptions of tensors and data, which foreign_join puts together. */
typedef struct foreign_gguf {
    foreign_bytes entries, tensors, data;
    uint64_t entry_count, tensor_count;
    uint32_t version;   /* 0: 3 */
    uint32_t alignment; /* of the data; 0: 32 */
} foreign_gguf;

static inline void foreign_key(foreign_gguf *file, const char *key, uint32_t type)
{
    foreign_string(&file->entries, key);
    foreign_word(&file->entries, type);
    file->entry_count++;
}

static inline void foreign_text(foreign_gguf *file, const char *key, const char *text)
{
    foreign_key(file, key, 8);
    foreign_string(&file->entries, text);
}

static inline void foreign_size(foreign_gguf *file, const char *key, uint32_t value)
{
    foreign_key(file, key, 4);
    foreign_word(&file->entries, value);
}

static inline void foreign_real(foreign_gguf *file, const char *key, float value)
{
    foreign_key(file, key, 6);
    foreign_put(&file->entries, &value, sizeof value);
}

static inline void foreign_flag(foreign_gguf *file, const char *key, unsigned char value)
{
    foreign_key(file, key, 7);
    foreign_put(&file->entries, &value, 1);
}

static inline void foreign_array(foreign_gguf *file, const char *key, uint32_t type, uint64_t count)
{
    foreign_key(file, key, 9);
    foreign_word(&file->entries, type);
    foreign_long(&file->entries, count);
}

static inline void foreign_texts(foreign_gguf *file, const char *key, const char *const *texts, size_t count)
{
    foreign_array(file, key, 8, count);
    for (size_t i = 0; i < count; i++) foreign_string(&file->entries, texts[i]);
}

/* A tensor of `rows` x `columns` (columns 0: a vector). */
static inline void foreign_tensor(foreign_gguf *file, const char *name, uint64_t rows, uint64_t columns, uint32_t type,
                                  const void *data, size_t size)
{
    static const unsigned char zeros[64];
    const size_t alignment = file->alignment ? file->alignment : 32;
    foreign_string(&file->tensors, name);
    foreign_word(&file->tensors, columns ? 2 : 1);
    if (columns) foreign_long(&file->tensors, columns);
    foreign_long(&file->tensors, rows);
    foreign_word(&file->tensors, type);
    foreign_long(&file->tensors, file->data.size);
    foreign_put(&file->data, data, size);
    foreign_put(&file->data, zeros, (alignment - file->data.size % alignment) % alignment);
    file->tensor_count++;
}

/* The bytes of the file, released with free(); releases the parts. */
static inline foreign_bytes foreign_join(foreign_gguf *file)
{
    static const unsigned char zeros[64];
    const size_t alignment = file->alignment ? file->alignment : 32;
    foreign_bytes out = {0};
    foreign_put(&out, "GGUF", 4);
    foreign_word(&out, file->version ? file->version : 3);
    foreign_long(&out, file->tensor_count);
    foreign_long(&out, file->entry_count);
    foreign_put(&out, file->entries.data, file->entries.size);
    foreign_put(&out, file->tensors.data, file->tensors.size);
    foreign_put(&out, zeros, (alignment - out.size % alignment) % alignment);
    foreign_put(&out, file->data.data, file->data.size);
    free(file->entries.data);
    free(file->tensors.data);
    free(file->data.data);
    *file = (foreign_gguf){0};
    return out;
}

/* ---- a tiny Llama in both formats -------------------------------------------------------------------------------- */

enum {
    TINY_WIDTH = 8,
    TINY_HIDDEN = 12,
    TINY_LAYERS = 2,
    TINY_HEADS = 2,
    TINY_KEYS = 1,
    TINY_VOCAB = 20,
    TINY_CONTEXT = 16
};

static const char *const tiny_tokens[TINY_VOCAB] = {"<unk>",
                                                    "<s>",
                                                    "</s>",
                                                    "\xE2\x96\x81",
                                                    "a",
                                                    "b",
                                                    "c",
                                                    "ab",
                                                    "bc",
                                                    "abc",
                                                    "\xE2\x96\x81"
                                                    "a",
                                                    "d",
                                                    "e",
                                                    "aa",
                                                    "\xE2\x96\x81"
                                                    "ab",
                                                    "aaa",
                                                    "f",
                                                    "g",
                                                    "h",
                                                    "!"};
static const float tiny_scores[TINY_VOCAB] = {0,  0,   0,   -20, -21, -22, -23, -1,  -2,  -3,
                                              -4, -24, -25, -5,  -6,  -7,  -26, -27, -28, -29};

/* Number i of tensor t, exact in float16. */
static inline float tiny_number(size_t t, size_t i)
{
    return (float)((int)((t * 7919 + i * 104729) % 61) - 30) / 64;
}

/* The tensors of the model in the order of llama2.c, version 0. Rows of queries and keys are in the order of rotary
 * pairs, as in GGUF files. */
typedef struct tiny_tensor {
    const char *gguf;
    size_t rows, columns; /* columns 0: a vector */
    int per_layer;
} tiny_tensor;

enum { TINY_TENSORS = 11 };
static const tiny_tensor tiny_tensors[TINY_TENSORS] = {
    {"token_embd", TINY_VOCAB, TINY_WIDTH, 0},
    {"attn_norm", TINY_WIDTH, 0, 1},
    {"attn_q", TINY_WIDTH, TINY_WIDTH, 1},
    {"attn_k", TINY_WIDTH / 2, TINY_WIDTH, 1},
    {"attn_v", TINY_WIDTH / 2, TINY_WIDTH, 1},
    {"attn_output", TINY_WIDTH, TINY_WIDTH, 1},
    {"ffn_norm", TINY_WIDTH, 0, 1},
    {"ffn_gate", TINY_HIDDEN, TINY_WIDTH, 1},
    {"ffn_down", TINY_WIDTH, TINY_HIDDEN, 1},
    {"ffn_up", TINY_HIDDEN, TINY_WIDTH, 1},
    {"output_norm", TINY_WIDTH, 0, 0},
};

static inline size_t tiny_count(const tiny_tensor *tensor)
{
    return tensor->rows * (tensor->columns ? tensor->columns : 1);
}

static inline void tiny_fill(size_t tensor, size_t layer, float *out)
{
    for (size_t i = 0; i < tiny_count(&tiny_tensors[tensor]); i++) out[i] = tiny_number(tensor + 100 * layer, i);
}

static inline void tiny_put(foreign_bytes *out, size_t tensor, size_t layer, size_t group)
{
    float numbers[TINY_VOCAB * TINY_WIDTH];
    const size_t count = tiny_count(&tiny_tensors[tensor]);
    tiny_fill(tensor, layer, numbers);
    if (!group || !tiny_tensors[tensor].columns) {
        foreign_put(out, numbers, count * sizeof *numbers);
        return;
    }
    for (size_t i = 0; i < count; i++) foreign_put(out, &(int8_t){(int8_t)(numbers[i] * 64)}, 1);
    for (size_t i = 0; i < count / group; i++) foreign_put(out, &(float){1.0f / 64}, sizeof(float));
}

static inline void tiny_put_all(foreign_bytes *out, size_t tensor, size_t group)
{
    for (size_t layer = 0; layer < (tiny_tensors[tensor].per_layer ? TINY_LAYERS : 1); layer++)
        tiny_put(out, tensor, layer, group);
}

/* The model as a file of llama2.c of this version. Version 2 holds the same numbers exactly. */
static inline foreign_bytes tiny_llama2c(unsigned version)
{
    static const size_t newer[TINY_TENSORS] = {1, 6, 10, 0, 2, 3, 4, 5, 7, 8, 9};
    const int32_t header[] = {TINY_WIDTH, TINY_HIDDEN, TINY_LAYERS, TINY_HEADS, TINY_KEYS, TINY_VOCAB, TINY_CONTEXT};
    const float zeros[TINY_CONTEXT * TINY_WIDTH / TINY_HEADS] = {0};
    const size_t group = version == 2 ? 4 : 0;
    foreign_bytes out = {0};
    if (version) {
        foreign_word(&out, 0x616b3432);
        foreign_word(&out, version);
    }
    foreign_put(&out, header, sizeof header);
    if (version) {
        foreign_put(&out, "\1", 1);
        foreign_word(&out, (uint32_t)group);
        while (out.size < 256) foreign_put(&out, "", 1);
    }
    for (size_t i = 0; i < TINY_TENSORS; i++) tiny_put_all(&out, version ? newer[i] : i, group);
    if (!version) foreign_put(&out, zeros, sizeof zeros);
    return out;
}

/* tokenizer.bin of the model: spaces instead of U+2581, newlines around <s> and </s>. */
static inline foreign_bytes tiny_tokenizer(void)
{
    foreign_bytes out = {0};
    foreign_word(&out, 8);
    for (size_t i = 0; i < TINY_VOCAB; i++) {
        char text[32];
        const char *token = tiny_tokens[i];
        if (i == 1 || i == 2)
            snprintf(text, sizeof text, "\n%s\n", token);
        else if (strncmp(token, "\xE2\x96\x81", 3) == 0)
            snprintf(text, sizeof text, " %s", token + 3);
        else
            snprintf(text, sizeof text, "%s", token);
        foreign_put(&out, &tiny_scores[i], sizeof(float));
        foreign_word(&out, (uint32_t)strlen(text));
        foreign_put(&out, text, strlen(text));
    }
    return out;
}

/* The metadata of the model. */
static inline void tiny_metadata(foreign_gguf *file, const char *architecture)
{
    const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"embedding_length", TINY_WIDTH},       {"block_count", TINY_LAYERS},
                 {"feed_forward_length", TINY_HIDDEN},   {"attention.head_count", TINY_HEADS},
                 {"attention.head_count_kv", TINY_KEYS}, {"context_length", TINY_CONTEXT}};
    char key[96];
    foreign_text(file, "general.architecture", architecture);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, sizes[i].key);
        foreign_size(file, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    foreign_real(file, key, 1e-5f);
}

static inline void tiny_pieces(foreign_gguf *file)
{
    foreign_text(file, "tokenizer.ggml.model", "llama");
    foreign_texts(file, "tokenizer.ggml.tokens", tiny_tokens, TINY_VOCAB);
    foreign_array(file, "tokenizer.ggml.scores", 6, TINY_VOCAB);
    foreign_put(&file->entries, tiny_scores, sizeof tiny_scores);
    foreign_array(file, "tokenizer.ggml.token_type", 5, TINY_VOCAB);
    for (size_t i = 0; i < TINY_VOCAB; i++) foreign_word(&file->entries, i == 0 ? 2 : i < 3 ? 3 : 1);
}

/* All tensors except number `without` (TINY_TENSORS: none) as F32. */
static inline void tiny_add_tensors(foreign_gguf *file, size_t without)
{
    float numbers[TINY_VOCAB * TINY_WIDTH];
    char name[64];
    for (size_t t = 0; t < TINY_TENSORS; t++)
        for (size_t layer = 0; t != without && layer < (tiny_tensors[t].per_layer ? TINY_LAYERS : 1); layer++) {
            tiny_fill(t, layer, numbers);
            if (tiny_tensors[t].per_layer)
                snprintf(name, sizeof name, "blk.%zu.%s.weight", layer, tiny_tensors[t].gguf);
            else
                snprintf(name, sizeof name, "%s.weight", tiny_tensors[t].gguf);
            foreign_tensor(file, name, tiny_tensors[t].rows, tiny_tensors[t].columns, 0, numbers,
                           tiny_count(&tiny_tensors[t]) * sizeof *numbers);
        }
}

static inline foreign_bytes tiny_gguf(void)
{
    foreign_gguf file = {0};
    tiny_metadata(&file, "llama");
    tiny_pieces(&file);
    tiny_add_tensors(&file, TINY_TENSORS);
    return foreign_join(&file);
}

#endif
