/* Autoencoders with two hidden layers, and the accuracy of linear readouts of their codes. */
#ifndef BO_LAB_ARCHITECTURES_AUTOENCODER_H
#define BO_LAB_ARCHITECTURES_AUTOENCODER_H

#include "../experiment.h"

enum { LAB_AUTOENCODER_BATCH = 64, LAB_AUTOENCODER_HIDDEN = 128 };

typedef struct lab_autoencoder_desc {
    size_t pixels, code;
    bo_noise_kind noise; /* noise on the input in training; the target is the clean input */
    double amount;       /* 0: none */
    uint64_t steps;
    double rate;     /* AdamW learning rate with a cosine schedule; 0: 2e-3 */
    uint64_t seed;   /* for weights and batches */
    double from, to; /* fractions of the measurement done before and after */
} lab_autoencoder_desc;

typedef struct lab_autoencoder {
    lab_descent descent;
    bo_value x, target, code;
    size_t pixels, columns; /* columns: length of the code */
} lab_autoencoder;

/* Trains on `count` rows of x. Close with lab_autoencoder_close, also after a failure. */
bo_status lab_autoencoder_train(lab_run *run, const lab_autoencoder_desc *desc, const float *x, size_t count,
                                lab_autoencoder *out);
void lab_autoencoder_close(lab_autoencoder *autoencoder);
/* Computes the codes (count x columns; may be NULL) and the mean squared error per pixel (may be NULL). corrupted: adds
 * the training noise to the input. */
bo_status lab_autoencoder_apply(lab_autoencoder *autoencoder, const float *x, size_t count, bool corrupted,
                                float *codes, double *error);

/* ---- readouts ---------------------------------------------------------------------------------------------------- */

/* Rows with labels. Features are standardized by the mean and standard deviation of `train`. */
typedef struct lab_probe {
    size_t columns, classes;
    const float *train, *valid, *test; /* rows x columns */
    const int32_t *train_labels, *valid_labels, *test_labels;
    size_t train_count, valid_count, test_count;
} lab_probe;
/* Ridge regression toward 1 for the class and 0 for all other classes, on the first `labels` rows of train. λ is chosen
 * from a grid by the accuracy on `valid`. *out: the accuracy on `test`. */
bo_status lab_probe_accuracy(bo_context *context, const lab_probe *probe, size_t labels, double *out);

#endif
