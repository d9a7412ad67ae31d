/* autoencoder-downstream: reconstruction error as a guide to the usefulness of a representation. */
#include <math.h>
#include "autoencoder.h"
#include "images.h"

#define NOT_NEEDED                                                                                                     \
    LAB_NOTES                                                                                                          \
    "line 566: \"when inferencing for the downstream task, no augmentation for input is needed\"; that it is "         \
    "harmful is our extension"

static const bo_lab_claim claims[] = {
    {.name = "not-the-lowest",
     .statement =
         "The autoencoder with the lowest validation error is not the most useful one: another autoencoder of the "
         "same data gives a more accurate classifier from 100 labels.",
     .number = "accuracy with the autoencoder selected on other labels minus accuracy with the autoencoder of lowest "
               "error",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "reversals",
     .statement =
         "Of two autoencoders, the one with the lower validation error often gives the less accurate classifier.",
     .number = "fraction of all pairs in which error and accuracy disagree, by at least 0.02 in accuracy",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1,
     .passage = LAB_NOTES "line 560: \"the one which produces lower validation loss not necessarily perform better on "
                          "downstream task!\"; one pair would suffice, we chose the fraction"},
    {.name = "noise",
     .statement = "For the largest code, noise in training worsens the reconstruction of clean images but improves the "
                  "classifier.",
     .number = "accuracy from 100 labels when trained with noise minus accuracy when trained without; -1 if the error "
               "is not higher",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01,
     .source = LAB_NOTES "line 562: \"Add noise or bottleneck smaller, loss ↑, but can produce more useful "
                         "representation\", which says that it can and not that it does"},
    {.name = "few-labels",
     .statement =
         "With few labels, a code of 32 numbers helps: the best of the three codes gives a more accurate classifier "
         "than the pixels.",
     .number = "accuracy from 50 labels with the code selected on other labels minus accuracy with the pixels",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "many-labels",
     .statement = "A code helps most if labels are few: with 1000 labels the gain is smaller.",
     .number = "accuracy gain at 50 labels minus accuracy gain at 1000 labels",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02,
     .passage = LAB_NOTES "line 564: \"most useful when only having a few data samples for downstream task\""},
    {.name = "noise-in-use",
     .statement = "Noise is useful only in training: adding noise to the inputs at test time lowers the accuracy.",
     .number = "accuracy from 1000 labels with clean inputs minus accuracy with the noise of training",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02,
     .source = NOT_NEEDED},
    {.name = "masks-in-use",
     .statement = "Masking is useful only in training: hiding pixels at test time lowers the accuracy.",
     .number = "accuracy from 1000 labels with clean inputs minus accuracy with half of the pixels hidden as in "
               "training",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02,
     .source = NOT_NEEDED},
};

static const bo_lab_table tables[] = {
    {.name = "error",
     .title = "Reconstruction error on held-out images, by code size and corruption in training",
     .rows = "code size",
     .values = "mean squared error per pixel, clean inputs",
     .log_x = true,
     .log_y = true},
    {.name = "accuracy",
     .title = "Accuracy of a linear readout from 100 labeled codes",
     .rows = "code size",
     .values = "accuracy",
     .log_x = true},
    {.name = "labels",
     .title = "Accuracy from pixels and from codes of 32 numbers, by number of labels",
     .rows = "labels",
     .values = "accuracy",
     .log_x = true},
    {.name = "use",
     .title = "Accuracy from 1000 labels with corrupted inputs in training, and also at test time",
     .rows = "input corruption",
     .values = "accuracy",
     .plot = BO_LAB_BARS},
};

enum {
    POOL = 1000,
    HOLDOUT = 500,
    TEST = 1500,
    FEW = 50,
    SOME = 100,
    CODE = 32,
    MAX_CODE = 128,
    SIZES = 4,
    CORRUPTIONS = 3
};

static const struct corruption {
    const char *name;
    bo_noise_kind noise;
    double amount;
} corruptions[CORRUPTIONS] = {
    {"clean", BO_NOISE_NORMAL, 0}, {"noise", BO_NOISE_NORMAL, 0.4}, {"masks", BO_NOISE_MASK, 0.5}};

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* Rows of one set of images: labeled rows for the readout, for choosing λ and for testing, then unlabeled rows. */
typedef struct stage {
    lab_images images;
    size_t sizes[SIZES], size_count, unlabeled;
    float *codes;                                                     /* of POOL + HOLDOUT + TEST images */
    double error[SIZES * CORRUPTIONS], accuracy[SIZES * CORRUPTIONS]; /* by code size and corruption; 100 labels */
    double chosen[SIZES * CORRUPTIONS];     /* accuracy on the HOLDOUT rows, used for selection */
    double pixels[2], code[CORRUPTIONS][2]; /* accuracy from 50 and 1000 labels; code: of size CODE */
    double code_chosen[CORRUPTIONS][2];     /* the same on the HOLDOUT rows */
    /* accuracy of CODE from 1000 labels, with clean and with corrupted inputs */
    double clean[CORRUPTIONS], corrupted[CORRUPTIONS];
} stage;

/* Accuracy on the test images, or on those that choose λ, which may also be used to choose between codes. */
static bo_status accuracy_on(lab_run *run, const stage *s, bool holdout, const float *rows, size_t columns,
                             size_t labels, double *out)
{
    const size_t first = holdout ? POOL : POOL + HOLDOUT;
    const int32_t *l = s->images.labels;
    const lab_probe probe = {.columns = columns,
                             .classes = s->images.classes,
                             .train = rows,
                             .valid = rows + POOL * columns,
                             .test = rows + first * columns,
                             .train_labels = l,
                             .valid_labels = l + POOL,
                             .test_labels = l + first,
                             .train_count = POOL,
                             .valid_count = HOLDOUT,
                             .test_count = holdout ? HOLDOUT : TEST};
    return lab_probe_accuracy(lab_context(run), &probe, labels, out);
}

static bo_status accuracy(lab_run *run, const stage *s, const float *rows, size_t columns, size_t labels, double *out)
{
    return accuracy_on(run, s, false, rows, columns, labels, out);
}

/* Accuracy by number of labels. `ends` receives the first and the last value. */
static bo_status by_labels(lab_run *run, const stage *s, const float *rows, size_t columns, const char *name,
                           double *ends)
{
    static const size_t labels[] = {FEW, 100, 200, 500, POOL};
    for (size_t i = 0; i < LAB_COUNT_OF(labels); i++) {
        double found;
        BO_TRY(accuracy(run, s, rows, columns, labels[i], &found));
        lab_point(run, "labels", name, (double)labels[i], found);
        if (labels[i] == FEW) ends[0] = found;
        if (labels[i] == POOL) ends[1] = found;
    }
    return BO_OK;
}

/* ---- one autoencoder --------------------------------------------------------------------------------------------- */

/* Additional measurements for the code of size CODE. */
static bo_status measure_details(lab_run *run, stage *s, size_t corruption, lab_autoencoder *a)
{
    const size_t count = POOL + HOLDOUT + TEST;
    char name[64];
    snprintf(name, sizeof name, "code, %s", corruptions[corruption].name);
    BO_TRY(by_labels(run, s, s->codes, CODE, name, s->code[corruption]));
    BO_TRY(accuracy_on(run, s, true, s->codes, CODE, FEW, &s->code_chosen[corruption][0]));
    BO_TRY(accuracy_on(run, s, true, s->codes, CODE, POOL, &s->code_chosen[corruption][1]));
    BO_TRY(accuracy(run, s, s->codes, CODE, POOL, &s->clean[corruption]));
    BO_TRY(lab_autoencoder_apply(a, s->images.x, count, true, s->codes, NULL));
    BO_TRY(accuracy(run, s, s->codes, CODE, POOL, &s->corrupted[corruption]));
    lab_cell(run, "use", corruptions[corruption].name, "clean at test time", s->clean[corruption]);
    lab_cell(run, "use", corruptions[corruption].name, "corrupted at test time", s->corrupted[corruption]);
    return BO_OK;
}

static bo_status measure_code(lab_run *run, stage *s, size_t size, size_t corruption, lab_autoencoder *a)
{
    const size_t count = POOL + HOLDOUT + TEST, pixels = s->images.pixels, code = s->sizes[size];
    const size_t at = size * CORRUPTIONS + corruption;
    const double all = (double)(s->size_count * CORRUPTIONS), done = (double)at;
    const lab_autoencoder_desc desc = {.pixels = pixels,
                                       .code = code,
                                       .noise = corruptions[corruption].noise,
                                       .amount = corruptions[corruption].amount,
                                       .steps = lab_size(run, 8000, 1500),
                                       .seed = lab_seed(run),
                                       .from = done / all,
                                       .to = (done + 1) / all};
    BO_TRY(lab_autoencoder_train(run, &desc, s->images.x + count * pixels, s->unlabeled, a));
    BO_TRY(lab_autoencoder_apply(a, s->images.x, count, false, s->codes, &s->error[at]));
    BO_TRY(accuracy(run, s, s->codes, code, SOME, &s->accuracy[at]));
    BO_TRY(accuracy_on(run, s, true, s->codes, code, SOME, &s->chosen[at]));
    lab_point(run, "error", corruptions[corruption].name, (double)code, s->error[at]);
    lab_point(run, "accuracy", corruptions[corruption].name, (double)code, s->accuracy[at]);
    return code == CODE ? measure_details(run, s, corruption, a) : BO_OK;
}

/* ---- all autoencoders -------------------------------------------------------------------------------------------- */

static void claim_errors(lab_run *run, const stage *s)
{
    const size_t count = s->size_count * CORRUPTIONS;
    const double *error = s->error, *right = s->accuracy;
    size_t lowest = 0, best = 0;
    double disagree = 0, pairs = 0;
    for (size_t i = 0; i < count; i++) {
        if (error[i] < error[lowest]) lowest = i;
        if (s->chosen[i] > s->chosen[best]) best = i;
        for (size_t k = 0; k < i; k++, pairs++)
            disagree += (error[i] > error[k] ? right[i] - right[k] : right[k] - right[i]) >= 0.02;
    }
    lab_claim(run, "not-the-lowest", right[best] - right[lowest]);
    lab_claim(run, "reversals", disagree / pairs);
    const size_t plain = count - CORRUPTIONS, noisy = plain + 1; /* of the largest code */
    lab_claim(run, "noise", error[noisy] > error[plain] ? right[noisy] - right[plain] : -1);
}

/* Accuracy of the best code minus accuracy of the pixels. which: 50 or 1000 labels. */
static double gain(const stage *s, size_t which)
{
    size_t best = 0;
    for (size_t corruption = 1; corruption < CORRUPTIONS; corruption++)
        if (s->code_chosen[corruption][which] > s->code_chosen[best][which]) best = corruption;
    return s->code[best][which] - s->pixels[which];
}

static void claim_use(lab_run *run, const stage *s)
{
    lab_claim(run, "few-labels", gain(s, 0));
    lab_claim(run, "many-labels", gain(s, 0) - gain(s, 1));
    lab_claim(run, "noise-in-use", s->clean[1] - s->corrupted[1]);
    lab_claim(run, "masks-in-use", s->clean[2] - s->corrupted[2]);
}

static bo_status measure_all(lab_run *run, stage *s)
{
    BO_TRY(by_labels(run, s, s->images.x, s->images.pixels, "pixels", s->pixels));
    for (size_t size = 0; size < s->size_count; size++)
        for (size_t corruption = 0; corruption < CORRUPTIONS; corruption++) {
            lab_autoencoder a = {0};
            const bo_status status = measure_code(run, s, size, corruption, &a);
            lab_autoencoder_close(&a);
            BO_TRY(status);
        }
    claim_errors(run, s);
    claim_use(run, s);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    static const size_t full[SIZES] = {4, 8, CODE, MAX_CODE}, quick[2] = {8, CODE};
    stage s = {.size_count = lab_size(run, SIZES, 2), .unlabeled = lab_size(run, 10000, 2000)};
    for (size_t i = 0; i < s.size_count; i++) s.sizes[i] = lab_quick(run) ? quick[i] : full[i];
    BO_TRY(lab_images_open(run, POOL + HOLDOUT + TEST + s.unlabeled, &s.images));
    s.codes = bo_alloc_raw(lab_context(run), (POOL + HOLDOUT + TEST) * MAX_CODE, sizeof *s.codes, "codes");
    const bo_status status = s.codes ? measure_all(run, &s) : BO_MEMORY;
    bo_free(s.codes);
    lab_images_close(&s.images);
    return status;
}

const lab_experiment lab_autoencoder_downstream = {
    {.name = "autoencoder-downstream",
     .group = LAB_ARCHITECTURES,
     .title = "Reconstruction error and usefulness of autoencoder codes",
     .claim = "A lower validation error does not make an autoencoder more useful to a classifier. Codes help most if "
              "labels are few. Noise and masking help only in training.",
     .source = "course notes, autoencoder",
     .method =
         "Autoencoders with 128 hidden units before and after a code of 4 to 128 numbers learn from 10,000 unlabeled "
         "images (8000 steps of 64 images, AdamW). Inputs are clean, have noise of standard deviation 0.4, or have "
         "half of their pixels hidden; the target is the clean image. Images come from --images or are synthetic: "
         "drawings of eight shapes, 16 x 16 pixels, at random positions and sizes, under uneven light. Codes, and the "
         "pixels themselves, are read out by ridge regression on 50 to 1000 labels. λ is chosen on 500 other images, "
         "which also select the best code; accuracy is measured on 1500 test images. Test inputs are clean unless "
         "stated otherwise.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .images = true},
    measure};
