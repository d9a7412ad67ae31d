/* Parts of images with what lies around them. */
#ifndef BO_BACKEND_CPU_PATCHES_H
#define BO_BACKEND_CPU_PATCHES_H

#include "../backend.h"

/* Images one after the other, place by place in rows, of whose `pitch` channels the first `channels` at x are taken.
 * Around them is zero, except that the places before an image of height 1 may be remembered: `memory` ends just
 * before x. */
typedef struct bo_images {
    const float *x;
    size_t images, size[2], channels, pitch;
    const float *memory;
    size_t remembered; /* places of it */
} bo_images;

/* rows x columns places whose first is (y, x) of image `image`: where they lie, or copied to `room`. Places are
 * `channels` floats, rows *row floats apart. */
const float *bo_patch(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2], float *room,
                      size_t *row);

/* Copied in any case; rows lie one after the other. */
void bo_patch_copy(const bo_images *images, size_t image, const ptrdiff_t at[2], const size_t extent[2], float *room);

/* Floats of the room such a patch may need. */
static inline size_t bo_patch_floats(const bo_images *images, const size_t extent[2])
{
    return bo_padded(extent[0] * extent[1] * images->channels);
}

#endif
