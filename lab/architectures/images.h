/* Images for experiments: read from --images, or synthetic. */
#ifndef BO_LAB_ARCHITECTURES_IMAGES_H
#define BO_LAB_ARCHITECTURES_IMAGES_H

#include "../experiment.h"

/* Rows of pixels from 0 to 1, in random order. */
typedef struct lab_images {
    size_t count, pixels, classes;
    float *x;        /* count x pixels */
    int32_t *labels; /* count */
} lab_images;

/* Opens `count` images: a random sample, by the seed of the run, of the training files in the directory of --images
 * (train-images-idx3-ubyte and train-labels-idx1-ubyte, gzipped or not), or synthetic images. */
bo_status lab_images_open(lab_run *run, size_t count, lab_images *out);
void lab_images_close(lab_images *images);

enum { LAB_IMAGE_SIDE = 16, LAB_IMAGE_CLASSES = 8 };
/* Draws a bright outline of one of eight shapes at a random position, size, thickness and slight rotation, on a
 * background with a gradient of light, so that most of the variance is unrelated to the shape. LAB_IMAGE_SIDE²
 * pixels. */
void lab_synthetic_image(bo_rng *rng, int32_t label, float *out);

#endif
