/* Predictions of machines with random features on the GPU of the context: predict.c of this directory. */
#ifndef BO_MACHINES_GPU_PREDICT_H
#define BO_MACHINES_GPU_PREDICT_H

#include "../../device/device.h"
#include "../samples.h"

/* Memory for blocks of rows. Addresses of the GPU, except `scaled`. */
typedef struct bo_gpu_prediction {
    const bo_machine *machine;
    bo_device *device;
    size_t rows; /* of a block */
    bool deviations;
    void *memory; /* of all that follow */
    float *x, *z;
    void *scratch;
    double *wide;   /* rows x features: centered features */
    double *mean;   /* rows x outputs */
    double *picks;  /* rows x columns of the deviations */
    double *q;      /* rows */
    double *factor; /* size x size */
    double *right;  /* DUAL: rows x size */
    double *solved; /* rows x size */
    float *scaled;  /* host: rows x columns of scaled rows */
} bo_gpu_prediction;

/* True if the context computes on a GPU, which has kernels for the map, and rows are dense. */
bool bo_gpu_predicts(const bo_context *context, const bo_machine *machine, const bo_input_view *inputs);
/* Uploads what the machine does not have on the GPU yet, and allocates memory for blocks. BO_MEMORY: nothing is
 * allocated except complete copies, which the machine owns. */
bo_status bo_gpu_prediction_open(bo_context *context, const bo_machine *machine, size_t rows, bool deviations,
                                 bo_gpu_prediction *out);
void bo_gpu_prediction_close(bo_gpu_prediction *prediction);
/* For at most `rows` rows: mean (rows x outputs); with deviations, the columns that they use (rows x columns) and the
 * quadratic form q of predict.c (rows; 0 without uncertainty). */
bo_status bo_gpu_predict(bo_context *context, const bo_gpu_prediction *prediction, const bo_input_view *inputs,
                         double *mean, double *columns, double *q);

#endif
