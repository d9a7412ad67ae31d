/* Parts of images including their borders. */
#ifndef BO_BACKEND_CPU_PATCHES_H
#define BO_BACKEND_CPU_PATCHES_H

#include "../backend.h"

/* Images one after the other, with pixels in rows. Of the `pitch` channels of a pixel, the first `channels` at x are
 * read. Images are surrounded by zeros, except that the pixels before an image of height 1 may come from a state:
 * `memory` ends just before x. */
typedef struct bo_images {
    const float *x;
    size_t images, size[2], channels, pitch;
    const float *memory;
    size_t remembered; /* number of pixels */
} bo_images;

/* Returns rows x columns pixels, starting at (y, x) of image `image`: in place, or copied to `buffer`. A pixel has
 * `channels` floats; rows are *row floats apart. */
const float *bo_patch(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2],
                      float *buffer, size_t *row);

/* Always copies; rows are contiguous. */
void bo_patch_copy(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2], float *buffer);

/* Returns the floats of workspace that such a patch may need. */
static inline size_t bo_patch_floats(const bo_images *images, const size_t extent[2])
{
    return bo_padded(extent[0] * extent[1] * images->channels);
}

#endif
