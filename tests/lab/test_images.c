/* Images and autoencoders of experiments: synthetic images, images from files, readouts, and every allocation failing
 * once. */
#include "sample.h"
#include "base/counting.h"
#include "lab/architectures/autoencoder.h"
#include "lab/architectures/images.h"
#include <sys/stat.h>
#include <unistd.h>

static bo_status run_with(bo_context *context, bo_status (*measure)(lab_run *run), const char *directory)
{
    const lab_experiment experiment = sample_experiment(measure);
    const bo_lab_options options = {.seeds = 1, .images = directory};
    bo_lab_result *result;
    BO_TRY(lab_run_seeds(context, &experiment, &options, &result));
    bo_lab_result_destroy(result);
    return BO_OK;
}

static bo_status record_claim(lab_run *run)
{
    lab_claim(run, "mean", 0);
    lab_claim(run, "each", 0);
    return BO_OK;
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

enum { COUNT = 400, FILES = 6 };

static bo_status measure_made_up(lab_run *run)
{
    lab_images images;
    size_t counts[LAB_IMAGE_CLASSES] = {0};
    BO_TRY(lab_images_open(run, COUNT, &images));
    CHECK(images.pixels == LAB_IMAGE_SIDE * LAB_IMAGE_SIDE);
    CHECK(images.classes == LAB_IMAGE_CLASSES);
    for (size_t i = 0; i < COUNT * images.pixels; i++) CHECK(images.x[i] >= 0 && images.x[i] <= 1);
    for (size_t i = 0; i < COUNT; i++) counts[images.labels[i]]++;
    for (size_t i = 0; i < LAB_IMAGE_CLASSES; i++)
        CHECK(counts[i] >= 25 && counts[i] <= 80); /* 50 ± 4 deviations of 6.6 */
    lab_images_close(&images);
    return record_claim(run);
}

/* Strokes along the rows vary along the columns, and strokes along the columns do not. */
static void test_shapes(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(1, 1);
    double along[2] = {0}, across[2] = {0};
    for (int32_t label = 0; label < 3; label += 2)
        for (int n = 0; n < 200; n++) {
            float x[LAB_IMAGE_SIDE * LAB_IMAGE_SIDE];
            lab_synthetic_image(&rng, label, x);
            for (size_t i = 0; i + 1 < LAB_IMAGE_SIDE; i++)
                for (size_t k = 0; k + 1 < LAB_IMAGE_SIDE; k++) {
                    const double value = (double)x[i * LAB_IMAGE_SIDE + k];
                    along[label / 2] += fabs((double)x[i * LAB_IMAGE_SIDE + k + 1] - value);
                    across[label / 2] += fabs((double)x[(i + 1) * LAB_IMAGE_SIDE + k] - value);
                }
        }
    assert_true(across[0] > 1.3 * along[0]);
    assert_true(along[1] > 1.3 * across[1]);
}

static void write_bytes(const char *directory, const char *name, size_t count, const unsigned char *bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* Image i has 2 x 2 pixels of 51 i, label i mod 3. */
static void write_files(const char *directory)
{
    unsigned char images[16 + 4 * FILES] = {0, 0, 8, 3, 0, 0, 0, FILES, 0, 0, 0, 2, 0, 0, 0, 2};
    unsigned char labels[8 + FILES] = {0, 0, 8, 1, 0, 0, 0, FILES};
    for (size_t i = 0; i < 4 * FILES; i++) images[16 + i] = (unsigned char)(51 * (i / 4));
    for (size_t i = 0; i < FILES; i++) labels[8 + i] = (unsigned char)(i % 3);
    write_bytes(directory, "train-images-idx3-ubyte", sizeof images, images);
    write_bytes(directory, "train-labels-idx1-ubyte", sizeof labels, labels);
}

static bo_status measure_files(lab_run *run)
{
    lab_images images;
    bool counts[FILES] = {false};
    BO_TRY(lab_images_open(run, FILES, &images));
    CHECK(images.pixels == 4);
    CHECK(images.classes == 3);
    for (size_t i = 0; i < FILES; i++) {
        const long which = lround(5 * (double)images.x[4 * i + 3]);
        CHECK(which >= 0 && which < FILES && fabs(5 * (double)images.x[4 * i] - (double)which) < 1e-6);
        CHECK(images.labels[i] == which % 3);
        counts[which] = true;
    }
    for (size_t i = 0; i < FILES; i++) CHECK(counts[i]);
    lab_images_close(&images);
    return record_claim(run);
}

static bo_status measure_too_many(lab_run *run)
{
    lab_images images;
    return lab_images_open(run, FILES + 1, &images);
}

static void test_images(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    char directory[] = "/tmp/bochner-images-XXXXXX", path[512];
    assert_non_null(mkdtemp(directory));
    assert_ok(context, run_with(context, measure_made_up, NULL));
    assert_fails(context, BO_IO, "has no train-images-idx3-ubyte", run_with(context, measure_files, directory));
    write_files(directory);
    assert_ok(context, run_with(context, measure_files, directory));
    assert_fails(context, BO_INVALID, "6 images", run_with(context, measure_too_many, directory));
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", directory);
    unlink(path);
    rmdir(directory);
    bo_context_destroy(context);
}

/* ---- autoencoders ------------------------------------------------------------------------------------------------ */

enum { ROWS = 200, PIXELS = 6 };

/* Multiples of one vector: a code of one number represents them. */
static void draw_line(float *x)
{
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t i = 0; i < ROWS; i++) {
        const double t = bo_rng_normal(&rng);
        for (size_t k = 0; k < PIXELS; k++) x[i * PIXELS + k] = (float)(t * ((double)k - 2));
    }
}

static bo_status train_line(lab_run *run, uint64_t steps, double noise, const float *x, lab_autoencoder *out)
{
    const lab_autoencoder_desc desc = {
        .pixels = PIXELS, .code = 1, .amount = noise, .steps = steps, .rate = 1e-2, .seed = 1};
    return lab_autoencoder_train(run, &desc, x, ROWS, out);
}

static bo_status measure_line(lab_run *run)
{
    float x[ROWS * PIXELS], codes[ROWS], again[ROWS], disturbed[ROWS];
    double before, after;
    lab_autoencoder a;
    draw_line(x);
    BO_TRY(train_line(run, 1, 0.1, x, &a));
    BO_TRY(lab_autoencoder_apply(&a, x, ROWS, false, NULL, &before));
    lab_autoencoder_close(&a);
    BO_TRY(train_line(run, 400, 0.1, x, &a));
    BO_TRY(lab_autoencoder_apply(&a, x, ROWS, false, codes, &after));
    BO_TRY(lab_autoencoder_apply(&a, x, ROWS, false, again, NULL));
    BO_TRY(lab_autoencoder_apply(&a, x, ROWS, true, disturbed, NULL));
    CHECK(before > 1); /* the mean square is 19 / 6 */
    CHECK(after < 0.05 * before);
    CHECK(memcmp(codes, again, sizeof codes) == 0); /* 200 rows in batches of 64: the last batch is not full */
    CHECK(memcmp(codes, disturbed, sizeof codes) != 0);
    CHECK(codes[0] != codes[1] && codes[ROWS - 2] != codes[ROWS - 1]);
    lab_autoencoder_close(&a);
    return record_claim(run);
}

static void test_autoencoder(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_ok(context, run_with(context, measure_line, NULL));
    bo_context_destroy(context);
}

static bo_status measure_little(lab_run *run)
{
    float x[ROWS * PIXELS], codes[ROWS];
    lab_images images;
    lab_autoencoder a = {0};
    draw_line(x);
    BO_TRY(lab_images_open(run, 3, &images));
    lab_images_close(&images);
    bo_status status = train_line(run, 1, 0, x, &a);
    if (status == BO_OK) status = lab_autoencoder_apply(&a, x, ROWS, false, codes, NULL);
    lab_autoencoder_close(&a);
    return status == BO_OK ? record_claim(run) : status;
}

static bo_status little_once(void *context)
{
    return run_with(context, measure_little, NULL);
}

static void test_memory(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    counting_inject(
        &(injection){.counted = &c, .context = context, .work = little_once, .what = context, .all = 40, .stride = 7});
    bo_context_destroy(context);
}

/* ---- readouts ---------------------------------------------------------------------------------------------------- */

/* Class 1 if the second of three numbers is positive; the third is not informative. */
static void draw_rows(float *x, int32_t *labels)
{
    bo_rng rng = bo_rng_make(4, 1);
    for (size_t i = 0; i < ROWS; i++) {
        labels[i] = (int32_t)bo_rng_below(&rng, 2);
        x[3 * i] = (float)bo_rng_normal(&rng);
        x[3 * i + 1] = (float)((labels[i] ? 100.0 : -100.0) * (1 + bo_rng_uniform(&rng)));
        x[3 * i + 2] = 7;
    }
}

static void test_probe(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[3 * ROWS];
    int32_t labels[ROWS], chance[ROWS];
    double right;
    draw_rows(x, labels);
    bo_rng rng = bo_rng_make(5, 1);
    for (size_t i = 0; i < ROWS; i++) chance[i] = (int32_t)bo_rng_below(&rng, 2);
    lab_probe probe = {.columns = 3,
                       .classes = 2,
                       .train = x,
                       .valid = x,
                       .test = x,
                       .train_labels = labels,
                       .valid_labels = labels,
                       .test_labels = labels,
                       .train_count = ROWS,
                       .valid_count = ROWS,
                       .test_count = ROWS};
    assert_ok(context, lab_probe_accuracy(context, &probe, 10, &right));
    assert_true(right == 1);
    probe.test_labels = chance; /* the fitted readout is not informative about these labels */
    assert_ok(context, lab_probe_accuracy(context, &probe, ROWS, &right));
    assert_close(right, 0.5, 4 * sqrt(0.25 / ROWS));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_images), cmocka_unit_test(test_autoencoder),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
