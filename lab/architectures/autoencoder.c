#include "autoencoder.h"
#include <math.h>
#include <string.h>

/* ---- autoencoders ------------------------------------------------------------------------------------------------ */

static bo_value linear(bo_graph *graph, const char *name, bo_value x, size_t out)
{
    return bo_nn_linear(graph, name, x, &(bo_linear_layer){.out = out, .bias = true});
}

static bo_status open(lab_run *run, const lab_autoencoder_desc *desc, lab_autoencoder *out)
{
    const bo_optimizer_desc adam = {.kind = BO_OPTIMIZER_ADAMW, .rate = desc->rate > 0 ? desc->rate : 2e-3, .clip = 1};
    *out = (lab_autoencoder){.pixels = desc->pixels, .columns = desc->code};
    BO_TRY(lab_descent_open(lab_context(run), &out->descent));
    bo_graph *graph = out->descent.tape.graph;
    out->x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, LAB_AUTOENCODER_BATCH, desc->pixels);
    out->target = bo_graph_input(graph, "target", BO_ELEMENT_FLOAT32, LAB_AUTOENCODER_BATCH, desc->pixels);
    bo_value h = lab_noise(graph, out->x, desc->noise, desc->amount, 1);
    h = lab_graph_unary(graph, BO_UNARY_RELU, linear(graph, "encoder", h, LAB_AUTOENCODER_HIDDEN));
    out->code = linear(graph, "code", h, desc->code);
    bo_graph_keep(graph, out->code);
    h = lab_graph_unary(graph, BO_UNARY_RELU, linear(graph, "decoder", out->code, LAB_AUTOENCODER_HIDDEN));
    h = linear(graph, "pixels", h, desc->pixels);
    return lab_descent_ready(&out->descent, lab_graph_squares(out->descent.tape.graph, h, out->target), 1, &adam,
                             desc->seed);
}

static bo_status step_through(lab_run *run, const lab_autoencoder_desc *desc, const float *x, size_t count,
                              float *batch, lab_autoencoder *a)
{
    bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("lab.autoencoder", 0));
    for (uint64_t step = 0; step < desc->steps; step++) {
        const double part = (double)step / (double)desc->steps;
        for (size_t i = 0; i < LAB_AUTOENCODER_BATCH; i++)
            memcpy(batch + i * desc->pixels, x + bo_rng_below(&rng, count) * desc->pixels, desc->pixels * sizeof *x);
        BO_TRY(bo_graph_write(lab_context(run), a->descent.tape.graph, a->x, batch));
        BO_TRY(bo_graph_write(lab_context(run), a->descent.tape.graph, a->target, batch));
        BO_TRY(lab_descent_step(&a->descent, 0.5 + 0.5 * cos(3.14159265358979323846 * part), NULL));
        if (step % 64 == 0) BO_TRY(lab_progress(run, desc->from + (desc->to - desc->from) * part));
    }
    return BO_OK;
}

bo_status lab_autoencoder_train(lab_run *run, const lab_autoencoder_desc *desc, const float *x, size_t count,
                                lab_autoencoder *out)
{
    BO_TRY(open(run, desc, out));
    float *batch = bo_alloc_raw(lab_context(run), LAB_AUTOENCODER_BATCH * desc->pixels, sizeof *batch, "a batch");
    const bo_status status = batch ? step_through(run, desc, x, count, batch, out) : BO_MEMORY;
    bo_free(batch);
    return status;
}

void lab_autoencoder_close(lab_autoencoder *autoencoder)
{
    lab_descent_close(&autoencoder->descent);
}

/* Pads the last batch with copies of its last row. Only its real rows are counted, so the error excludes the padding.
 */
static bo_status apply_batch(lab_autoencoder *a, const float *x, size_t rows, bool corrupted, float *buffer,
                             float *codes, double *error)
{
    bo_context *context = a->descent.tape.context;
    float loss;
    for (size_t i = 0; i < LAB_AUTOENCODER_BATCH; i++)
        memcpy(buffer + i * a->pixels, x + (i < rows ? i : rows - 1) * a->pixels, a->pixels * sizeof *x);
    const bo_graph_pass pass = {.training = corrupted, .seed = ++a->descent.pass.seed};
    BO_TRY(bo_graph_write(context, a->descent.tape.graph, a->x, buffer));
    BO_TRY(bo_graph_write(context, a->descent.tape.graph, a->target, buffer));
    BO_TRY(bo_graph_run(context, a->descent.tape.graph, &pass));
    BO_TRY(bo_graph_read(context, a->descent.tape.graph, a->descent.loss, &loss));
    BO_TRY(bo_graph_read(context, a->descent.tape.graph, a->code, buffer));
    if (codes) memcpy(codes, buffer, rows * a->columns * sizeof *codes);
    *error += (double)loss * (double)rows;
    return BO_OK;
}

bo_status lab_autoencoder_apply(lab_autoencoder *autoencoder, const float *x, size_t count, bool corrupted,
                                float *codes, double *error)
{
    const size_t widest = autoencoder->pixels > autoencoder->columns ? autoencoder->pixels : autoencoder->columns;
    float *buffer =
        bo_alloc_raw(autoencoder->descent.tape.context, LAB_AUTOENCODER_BATCH * widest, sizeof *buffer, "a batch");
    bo_status status = buffer ? BO_OK : BO_MEMORY;
    double sum = 0;
    for (size_t at = 0; status == BO_OK && at < count; at += LAB_AUTOENCODER_BATCH) {
        const size_t left = count - at, rows = left < LAB_AUTOENCODER_BATCH ? left : LAB_AUTOENCODER_BATCH;
        status = apply_batch(autoencoder, x + at * autoencoder->pixels, rows, corrupted, buffer,
                             codes ? codes + at * autoencoder->columns : NULL, &sum);
    }
    bo_free(buffer);
    if (error) *error = sum / (double)count;
    return status;
}

/* ---- readouts ---------------------------------------------------------------------------------------------------- */

/* Rows of standardized numbers, each followed by a 1. */
typedef struct reader {
    size_t columns;       /* including the 1 */
    double *mean, *scale; /* of the other columns */
    float *train, *valid, *test, *targets, *weights;
} reader;

static void fit_scale(const lab_probe *p, reader *r)
{
    for (size_t k = 0; k < p->columns; k++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < p->train_count; i++) sum += (double)p->train[i * p->columns + k];
        r->mean[k] = sum / (double)p->train_count;
        for (size_t i = 0; i < p->train_count; i++) {
            const double d = (double)p->train[i * p->columns + k] - r->mean[k];
            squares += d * d;
        }
        /* a constant column carries no information */
        r->scale[k] = squares > 0 ? sqrt((double)p->train_count / squares) : 0;
    }
}

static void standardize(const reader *r, const float *x, size_t rows, float *out)
{
    const size_t columns = r->columns - 1;
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < columns; k++)
            out[i * r->columns + k] = (float)(((double)x[i * columns + k] - r->mean[k]) * r->scale[k]);
        out[i * r->columns + columns] = 1;
    }
}

static bo_status open_reader(bo_context *context, const lab_probe *p, reader *r)
{
    r->columns = p->columns + 1;
    r->mean = bo_alloc(context, 2 * p->columns, sizeof *r->mean, "scales of features");
    r->train = bo_alloc(context, p->train_count * r->columns, sizeof(float), "features");
    r->valid = bo_alloc(context, p->valid_count * r->columns, sizeof(float), "features");
    r->test = bo_alloc(context, p->test_count * r->columns, sizeof(float), "features");
    r->targets = bo_alloc(context, p->train_count * p->classes, sizeof(float), "targets");
    r->weights = bo_alloc(context, r->columns * p->classes, sizeof(float), "a readout");
    if (!r->mean || !r->train || !r->valid || !r->test || !r->targets || !r->weights) return BO_MEMORY;
    r->scale = r->mean + p->columns;
    fit_scale(p, r);
    standardize(r, p->train, p->train_count, r->train);
    standardize(r, p->valid, p->valid_count, r->valid);
    standardize(r, p->test, p->test_count, r->test);
    for (size_t i = 0; i < p->train_count; i++) r->targets[i * p->classes + (size_t)p->train_labels[i]] = 1;
    return BO_OK;
}

static void close_reader(reader *r)
{
    bo_free(r->mean);
    bo_free(r->train);
    bo_free(r->valid);
    bo_free(r->test);
    bo_free(r->targets);
    bo_free(r->weights);
}

static double right_ones(const reader *r, size_t classes, const float *x, const int32_t *labels, size_t count)
{
    size_t right = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t best = 0;
        double best_score = -INFINITY;
        for (size_t c = 0; c < classes; c++) {
            double score = 0;
            for (size_t k = 0; k < r->columns; k++)
                score += (double)x[i * r->columns + k] * (double)r->weights[c * r->columns + k];
            if (score > best_score) best_score = score, best = (int32_t)c;
        }
        right += best == labels[i];
    }
    return (double)right / (double)count;
}

static bo_status search(bo_context *context, const lab_probe *p, size_t labels, reader *r, double *out)
{
    static const double grid[] = {1e-3, 1e-2, 1e-1, 1, 10}; /* times the number of labels */
    double best = -1;
    for (size_t i = 0; i < LAB_COUNT_OF(grid); i++) {
        const lab_readout readout = {.rows = labels,
                                     .features = r->columns,
                                     .outputs = p->classes,
                                     .z = r->train,
                                     .y = r->targets,
                                     .lambda = grid[i] * (double)labels};
        BO_TRY(lab_ridge_readout(context, &readout, r->weights));
        const double valid = right_ones(r, p->classes, r->valid, p->valid_labels, p->valid_count);
        if (valid <= best) continue;
        best = valid;
        *out = right_ones(r, p->classes, r->test, p->test_labels, p->test_count);
    }
    return BO_OK;
}

bo_status lab_probe_accuracy(bo_context *context, const lab_probe *probe, size_t labels, double *out)
{
    reader r = {0};
    bo_status status = open_reader(context, probe, &r);
    if (status == BO_OK) status = search(context, probe, labels, &r, out);
    close_reader(&r);
    return status;
}
