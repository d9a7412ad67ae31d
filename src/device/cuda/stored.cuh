/* Weights that are stored as integers with scales: the layout of src/device/cpu/kernels.h. */
#ifndef BO_CUDA_STORED_CUH
#define BO_CUDA_STORED_CUH

#include "device.cuh"

namespace bo {

enum { S8_GROUP = 64, S4_GROUP = 32, S4_BYTES = 16, S4_WIDE = 16 };

__device__ inline float s8_number(const unsigned char *line, size_t columns, size_t i)
{
    const float *scales = reinterpret_cast<const float *>(line + (columns + 3) / 4 * 4);
    return (float)(signed char)line[i] * scales[i / S8_GROUP];
}

/* The value of a code: see BO_S4_VALUES in src/device/cpu/kernels.h. */
__device__ inline float s4_value(int code)
{
    const uint64_t low = 0xF7EBDED0C2B19C81u, high = 0x6C53413225190D02u; /* bytes of codes 0 to 7, 8 to 15 */
    return (float)(signed char)((code < 8 ? low : high) >> 8 * (code & 7) & 0xFF);
}

__device__ inline float s4_number(const unsigned char *line, size_t columns, size_t i)
{
    const size_t groups = (columns + S4_GROUP - 1) / S4_GROUP, group = i / S4_GROUP, inside = i % S4_GROUP;
    const size_t block = group / S4_WIDE, left = groups - block * S4_WIDE,
                 wide = left < S4_WIDE ? left : (size_t)S4_WIDE;
    const size_t quad = inside % 16 / 4, byte = (quad * wide + group % S4_WIDE) * 4 + inside % 4;
    const unsigned char both = line[block * S4_WIDE * S4_BYTES + byte];
    const bf16 *scales = reinterpret_cast<const bf16 *>(line + groups * S4_BYTES);
    return to_float(scales[group]) * s4_value(inside < 16 ? both & 15 : both >> 4);
}

__device__ inline size_t stored_line(bo_element stored, size_t columns)
{
    if (stored == BO_ELEMENT_INT8) return (columns + 3) / 4 * 4 + (columns + S8_GROUP - 1) / S8_GROUP * sizeof(float);
    return (columns + S4_GROUP - 1) / S4_GROUP * (S4_BYTES + sizeof(uint16_t));
}

} // namespace bo

#endif
