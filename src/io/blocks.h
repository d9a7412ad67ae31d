/* The number formats of tensors in GGUF files: float32, float16, bfloat16, and blocks of quantized numbers with common
 * scales. All are little-endian. */
#ifndef BO_IO_BLOCKS_H
#define BO_IO_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct bo_block_format {
    uint32_t number; /* in the file */
    const char *name;
    size_t numbers, bytes;                                      /* of a block */
    void (*decode)(const unsigned char *block, float *numbers); /* NULL: the format is not supported */
} bo_block_format;

enum { BO_BLOCK_F32 = 0, BO_BLOCK_F16 = 1, BO_BLOCK_BF16 = 30 };

/* NULL: an unknown number. */
const bo_block_format *bo_block_format_find(uint32_t number);
/* "F32, F16, …": the formats that can be decoded. */
const char *bo_block_formats(void);
/* Decodes `count` numbers, a multiple of the block size. */
void bo_blocks_decode(const bo_block_format *format, const unsigned char *data, size_t count, float *out);

#endif
