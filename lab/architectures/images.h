/* Images in experiments: those of --images, or made-up ones. */
#ifndef BO_LAB_ARCHITECTURES_IMAGES_H
#define BO_LAB_ARCHITECTURES_IMAGES_H

#include "../experiment.h"

/* Rows of pixels from 0 to 1, in an order of chance. */
typedef struct lab_images {
    size_t count, pixels, classes;
    float *x;        /* count x pixels */
    int32_t *labels; /* count */
} lab_images;

/* `count` of them: drawn by the run's seed from the training files of the folder of --images (train-images-idx3-ubyte and
 * train-labels-idx1-ubyte, gzipped or not), or made up. */
bo_status lab_images_open(lab_run *run, size_t count, lab_images *out);
void lab_images_close(lab_images *images);

enum { LAB_IMAGE_SIDE = 16, LAB_IMAGE_CLASSES = 8 };
/* A bright stroke drawing of one of eight shapes, at any place, size and thickness, somewhat turned, before light that falls from
 * somewhere: most of the variance is not the shape's. LAB_IMAGE_SIDE² pixels. */
void lab_made_up_image(bo_rng *rng, int32_t label, float *out);

#endif
