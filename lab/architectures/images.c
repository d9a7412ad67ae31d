#include "images.h"
#include <bochner/data.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* ---- synthetic images -------------------------------------------------------------------------------------------- */

static double between(bo_rng *rng, double low, double high)
{
    return low + (high - low) * bo_rng_uniform(rng);
}

/* Distance of (u, v) from the segment of half length 1 through the center at an angle of `eighths` π/4. */
static double from_line(double u, double v, int eighths)
{
    const double angle = eighths * 0.78539816339744831, c = cos(angle), s = sin(angle);
    const double along = u * c + v * s, across = v * c - u * s, beyond = fabs(along) - 1;
    return beyond > 0 ? hypot(beyond, across) : fabs(across);
}

/* Distance from the shape, relative to its size. */
static double from_shape(int32_t label, double u, double v)
{
    switch (label) {
    case 0:
    case 1:
    case 2:
    case 3:
        return from_line(u, v, label); /* strokes of four directions */
    case 4:
        return fmin(from_line(u, v, 0), from_line(u, v, 2));
    case 5:
        return fmin(from_line(u, v, 1), from_line(u, v, 3));
    case 6:
        return fabs(fmax(fabs(u), fabs(v)) - 0.8); /* a square */
    default:
        return fabs(hypot(u, v) - 0.9); /* a ring */
    }
}

void lab_synthetic_image(bo_rng *rng, int32_t label, float *out)
{
    const double middle = (LAB_IMAGE_SIDE - 1) / 2.0, size = between(rng, 3, 5.5), reach = 6.5 - size;
    const double x = middle + between(rng, -reach, reach), y = middle + between(rng, -reach, reach);
    const double turn = between(rng, -0.2, 0.2), thickness = between(rng, 0.5, 1), brightness = between(rng, 0.5, 0.9);
    const double base = between(rng, 0.1, 0.4), right = between(rng, -0.3, 0.3), down = between(rng, -0.3, 0.3);
    for (int i = 0; i < LAB_IMAGE_SIDE; i++)
        for (int k = 0; k < LAB_IMAGE_SIDE; k++) {
            const double u = (k - x) * cos(turn) + (i - y) * sin(turn), v = (i - y) * cos(turn) - (k - x) * sin(turn);
            const double distance = size * from_shape(label, u / size, v / size);
            const double coverage = fmin(fmax(thickness + 0.5 - distance, 0), 1);
            const double background = base + right * (k - middle) / middle + down * (i - middle) / middle;
            const double value = background * (1 - coverage) + brightness * coverage + 0.05 * bo_rng_normal(rng);
            out[i * LAB_IMAGE_SIDE + k] = (float)fmin(fmax(value, 0), 1);
        }
}

static bo_status allocate_images(lab_run *run, lab_images *images)
{
    images->x = bo_alloc_raw(lab_context(run), images->count * images->pixels, sizeof(float), "images");
    images->labels = bo_alloc_raw(lab_context(run), images->count, sizeof(int32_t), "labels");
    return images->x && images->labels ? BO_OK : BO_MEMORY;
}

static bo_status synthesize(lab_run *run, size_t count, lab_images *out)
{
    bo_rng rng = lab_rng(run, "lab.images");
    *out = (lab_images){.count = count, .pixels = LAB_IMAGE_SIDE * LAB_IMAGE_SIDE, .classes = LAB_IMAGE_CLASSES};
    BO_TRY(allocate_images(run, out));
    for (size_t i = 0; i < count; i++) {
        out->labels[i] = (int32_t)bo_rng_below(&rng, LAB_IMAGE_CLASSES);
        lab_synthetic_image(&rng, out->labels[i], out->x + i * out->pixels);
    }
    return BO_OK;
}

/* ---- images from files ------------------------------------------------------------------------------------------- */

typedef struct path {
    char text[1024];
} path;

static bool find_file(const char *directory, const char *name, path *out)
{
    static const char *const ends[] = {"", ".gz"};
    for (size_t i = 0; i < LAB_COUNT_OF(ends); i++) {
        const int length = snprintf(out->text, sizeof out->text, "%s/%s%s", directory, name, ends[i]);
        if (length > 0 && (size_t)length < sizeof out->text && access(out->text, R_OK) == 0) return true;
    }
    return false;
}

static bo_status sample(lab_run *run, const bo_table_desc *desc, const bo_schema *schema, size_t count, lab_images *out)
{
    size_t found;
    out->count = count;
    BO_TRY(allocate_images(run, out));
    double *labels = bo_alloc_raw(lab_context(run), count, sizeof *labels, "labels");
    if (!labels) return BO_MEMORY;
    bo_status status = bo_table_sample(lab_context(run), desc, schema, NULL, count, out->x, labels, NULL, &found);
    if (status == BO_OK && found < count)
        status = bo_fail(lab_context(run), BO_INVALID, "%s has %zu images; this experiment needs %zu",
                         lab_options(run)->images, found, count);
    for (size_t i = 0; status == BO_OK && i < count; i++) out->labels[i] = (int32_t)labels[i];
    for (size_t i = 0; status == BO_OK && i < count * out->pixels; i++) out->x[i] /= 255;
    bo_free(labels);
    return status;
}

static bo_status read_files(lab_run *run, const path *images, const path *labels, size_t count, lab_images *out)
{
    bo_context *context = lab_context(run);
    const bo_table_desc desc = {
        .data = {.path = images->text, .labels = labels->text, .format = BO_FORMAT_IDX, .task = BO_TASK_CLASSIFICATION},
        .split = {.seed = lab_seed(run)}};
    bo_schema *schema;
    BO_TRY(bo_schema_fit(context, &desc, &schema));
    *out = (lab_images){.pixels = bo_schema_describe(schema)->inputs, .classes = bo_schema_describe(schema)->classes};
    const bo_status status = sample(run, &desc, schema, count, out);
    bo_schema_destroy(schema);
    return status;
}

/* Shuffles the sample, because the file may be sorted by class. */
static void shuffle(lab_run *run, lab_images *images)
{
    bo_rng rng = lab_rng(run, "lab.images.order");
    for (size_t i = images->count; i > 1; i--) {
        const size_t other = bo_rng_below(&rng, i);
        const int32_t label = images->labels[i - 1];
        images->labels[i - 1] = images->labels[other];
        images->labels[other] = label;
        for (size_t k = 0; k < images->pixels; k++) {
            float *a = &images->x[(i - 1) * images->pixels + k], *b = &images->x[other * images->pixels + k];
            const float pixel = *a;
            *a = *b;
            *b = pixel;
        }
    }
}

bo_status lab_images_open(lab_run *run, size_t count, lab_images *out)
{
    const char *directory = lab_options(run)->images;
    path images, labels;
    *out = (lab_images){0};
    if (!directory) {
        const bo_status status = synthesize(run, count, out);
        if (status != BO_OK) lab_images_close(out);
        return status;
    }
    if (!find_file(directory, "train-images-idx3-ubyte", &images) ||
        !find_file(directory, "train-labels-idx1-ubyte", &labels))
        return bo_fail(lab_context(run), BO_IO,
                       "%s has no train-images-idx3-ubyte and train-labels-idx1-ubyte, gzipped or not", directory);
    const bo_status status = read_files(run, &images, &labels, count, out);
    if (status == BO_OK)
        shuffle(run, out);
    else
        lab_images_close(out);
    return status;
}

void lab_images_close(lab_images *images)
{
    bo_free(images->x);
    bo_free(images->labels);
    *images = (lab_images){0};
}
