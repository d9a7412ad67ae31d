/* Copies of parts of images. */
#include "patches.h"
#include <string.h>

static bool is_inside(const bo_images *images, const ptrdiff_t at[2], const size_t extent[2])
{
    for (size_t i = 0; i < 2; i++)
        if (at[i] < 0 || (size_t)at[i] + extent[i] > images->size[i]) return false;
    return true;
}

/* Copies `count` pixels of an image or of the state. */
static void copy_places(const bo_images *images, const float *from, size_t count, float *to)
{
    size_t channels = images->channels, pitch = images->pitch;
    if (channels == pitch) {
        memcpy(to, from, count * channels * sizeof *to);
        return;
    }
    for (size_t p = 0; p < count; p++) memcpy(to + p * channels, from + p * pitch, channels * sizeof *to);
}

static size_t clamp(ptrdiff_t x, size_t upper)
{
    return x < 0 ? 0 : (size_t)x < upper ? (size_t)x : upper;
}

/* Copies `columns` pixels of a row of pixels, starting at column x. Pixels outside are zero or come from the state. */
static void copy_row(const bo_images *images, const float *row, ptrdiff_t x, size_t columns, float *to)
{
    size_t width = images->size[1], channels = images->channels;
    size_t before = clamp(-x, columns), inside = clamp((ptrdiff_t)width - x, columns);
    if (images->memory && before)
        copy_places(images, images->memory + ((ptrdiff_t)images->remembered + x) * (ptrdiff_t)images->pitch, before,
                    to);
    else
        memset(to, 0, before * channels * sizeof *to);
    if (inside > before)
        copy_places(images, row + (size_t)(x + (ptrdiff_t)before) * images->pitch, inside - before,
                    to + before * channels);
    memset(to + inside * channels, 0, (columns - inside) * channels * sizeof *to);
}

static const float *first_of(const bo_images *images, size_t image)
{
    return images->x + image * images->size[0] * images->size[1] * images->pitch;
}

void bo_patch_copy(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2], float *buffer)
{
    size_t length = extent[1] * images->channels, width = images->size[1], pitch = images->pitch;
    const float *first = first_of(images, image);
    for (size_t r = 0; r < extent[0]; r++) {
        ptrdiff_t y = at[0] + (ptrdiff_t)r;
        if (y < 0 || (size_t)y >= images->size[0])
            memset(buffer + r * length, 0, length * sizeof *buffer);
        else
            copy_row(images, first + (size_t)y * width * pitch, at[1], extent[1], buffer + r * length);
    }
}

const float *bo_patch(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2],
                      float *buffer, size_t *row)
{
    size_t width = images->size[1], pitch = images->pitch;
    if (images->channels == pitch && is_inside(images, at, extent)) {
        *row = width * pitch;
        return first_of(images, image) + ((size_t)at[0] * width + (size_t)at[1]) * pitch;
    }
    bo_patch_copy(images, image, at, extent, buffer);
    *row = extent[1] * images->channels;
    return buffer;
}
