/* Packing of panels, from one source for each pair of types. */
#include "panel.h"
#include "../device/cpu/kernels.h"

/* Packs lines that are rows in memory, in float32; the compute kernels transpose. */
static void along_f32(const bo_kernels *kernels, size_t width, size_t lines, size_t k, float scale, const float *source,
                      size_t ld, float *target)
{
    for (size_t first = 0; first < lines; first += width, target += width * k) {
        size_t count = bo_min(width, lines - first);
        kernels->transpose(count, k, source + first * ld, ld, target, width);
        for (size_t p = 0; count < width && p < k; p++) {
            for (size_t i = count; i < width; i++) target[p * width + i] = 0;
        }
        if (scale != 1) kernels->scale(width * k, scale, target, target);
    }
}

#define NAME    bo_pack_f32
#define ACROSS  across_f32
#define ALONG   along_f32
#define SLIVERS slivers_f32
#define SOURCE  float
#define TARGET  float
#define WITH    const bo_kernels *kernels,
#define GIVEN   kernels,
#define HAS_ALONG
#include "pack_body.h"

#define NAME    bo_pack_f64
#define ACROSS  across_f64
#define ALONG   along_f64
#define SLIVERS slivers_f64
#define SOURCE  double
#define TARGET  double
#define WITH
#define GIVEN
#include "pack_body.h"

#define NAME    bo_pack_f32_f64
#define ACROSS  across_f32_f64
#define ALONG   along_f32_f64
#define SLIVERS slivers_f32_f64
#define SOURCE  float
#define TARGET  double
#define WITH
#define GIVEN
#include "pack_body.h"
