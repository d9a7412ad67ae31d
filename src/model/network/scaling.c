/* Scalings: columns or channels of the input, and targets, are scaled to mean 0 and standard deviation 1; bytes of
 * images to [0, 1]. They are fitted to the training part and stored in the model. */
#include <math.h>
#include "internal.h"

bo_status bo_scaling_create(bo_context *context, size_t count, bo_network_scaling *out)
{
    out->count = count;
    out->shift = bo_alloc(context, count, sizeof *out->shift, "a scaling");
    out->scale = bo_alloc(context, count, sizeof *out->scale, "a scaling");
    if (!out->shift || !out->scale) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) out->scale[i] = 1;
    return BO_OK;
}

void bo_scaling_free(bo_network_scaling *scaling)
{
    bo_free(scaling->shift);
    bo_free(scaling->scale);
    *scaling = (bo_network_scaling){0};
}

void bo_scaling_apply(const bo_network_scaling *scaling, size_t count, const float *from, float *to)
{
    const size_t turn = scaling->count;
    if (!turn)
        for (size_t i = 0; i < count; i++) to[i] = from[i];
    for (size_t i = 0; turn && i < count; i += turn)
        for (size_t j = 0; j < turn; j++) to[i + j] = (from[i + j] - scaling->shift[j]) * scaling->scale[j];
}

void bo_scaling_undo(const bo_network_scaling *scaling, size_t count, float *values)
{
    const size_t turn = scaling->count;
    for (size_t i = 0; turn && i < count; i += turn)
        for (size_t j = 0; j < turn; j++) values[i + j] = values[i + j] / scaling->scale[j] + scaling->shift[j];
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

/* A matrix of floats or doubles of which some rows are used. */
typedef struct table {
    const bo_examples *examples;
    const float *floats;
    const double *doubles;
    size_t columns;
} table;

static double cell(const table *t, size_t index, size_t column)
{
    const size_t at = bo_examples_row(t->examples, BO_SPLIT_TRAIN, index) * t->columns + column;
    return t->floats ? (double)t->floats[at] : t->doubles[at];
}

/* Returns 1 / deviation, or 1 if the values are constant or the result is outside the range of float. */
static float scale_for(double mean, double deviation)
{
    const float scale = (float)(1 / deviation);
    return deviation > 1e-6 * fabs(mean) && isnormal(scale) ? scale : 1;
}

/* Computes mean and standard deviation of the columns with period `count`. If the values are constant, only the mean is
 * subtracted. */
static void standardize(const table *t, bo_network_scaling *scaling)
{
    const size_t rows = bo_examples_rows(t->examples, BO_SPLIT_TRAIN), turn = scaling->count;
    const double count = (double)rows * (double)(t->columns / turn);
    for (size_t j = 0; j < turn && rows; j++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < rows; i++)
            for (size_t c = j; c < t->columns; c += turn) mean += cell(t, i, c);
        mean /= count;
        for (size_t i = 0; i < rows; i++)
            for (size_t c = j; c < t->columns; c += turn) square += pow(cell(t, i, c) - mean, 2);
        scaling->shift[j] = (float)mean;
        scaling->scale[j] = scale_for(mean, sqrt(square / count));
    }
}

/* True if all values are in the range of bytes. */
static bool are_bytes(const table *t)
{
    double largest = 0, smallest = 0;
    const size_t rows = bo_examples_rows(t->examples, BO_SPLIT_TRAIN);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < t->columns; c++) {
            largest = fmax(largest, cell(t, i, c));
            smallest = fmin(smallest, cell(t, i, c));
        }
    return smallest >= 0 && largest > 1 && largest <= 255;
}

static bo_status fit_inputs(bo_context *context, bo_network *network, const table *x)
{
    const bool image = network->input == BO_NETWORK_INPUT_IMAGE;
    if (network->standardize) {
        BO_TRY(bo_scaling_create(context, network->input_shape.channels, &network->inputs));
        standardize(x, &network->inputs);
    } else if (image && are_bytes(x)) {
        BO_TRY(bo_scaling_create(context, 1, &network->inputs));
        network->inputs.scale[0] = 1.0f / 255;
    }
    return BO_OK;
}

bo_status bo_scaling_fit(bo_context *context, bo_network *network, const bo_examples *examples)
{
    const table x = {.examples = examples, .floats = examples->x, .columns = examples->dim};
    const table y = {.examples = examples, .doubles = examples->y, .columns = examples->targets};
    BO_TRY(fit_inputs(context, network, &x));
    const bool numbers = network->loss == BO_NETWORK_MSE || network->loss == BO_NETWORK_L1;
    if (network->target != BO_NO_LAYER || !numbers || !examples->y || examples->classes) return BO_OK;
    BO_TRY(bo_scaling_create(context, examples->targets, &network->outputs));
    standardize(&y, &network->outputs);
    return BO_OK;
}
