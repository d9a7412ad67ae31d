/* Contributions of the columns to one prediction: Shapley values by sampling, as explain.h describes.
 *
 * A walk starts at a row of the data and replaces its columns by the columns of the explained row, in a random order.
 * With f_0 … f_C the predictions along the walk, the column that was replaced in step s contributes f_s - f_(s-1); the
 * sum is f_C
 * - f_0. The mean over all orders and rows is the Shapley value. Columns that are equal in both rows contribute 0 and
 * are left out, which makes walks through sparse rows short. A pair of walks has opposite orders, whose errors partly
 * cancel (Mitchell et al. 2022, arXiv 2104.12199). */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/trace.h"
#include "explain.h"
#include "samples.h"

#include <math.h>
#include <string.h>

/* A place in the sequence of all rows of all walks. */
typedef struct walk {
    size_t pair, step; /* step 0 is the row of the data, step `count` the explained row */
    bool reverse;
    size_t count;  /* columns that differ */
    size_t *order; /* these columns; capacity: all columns */
} walk;

typedef struct explaining {
    const bo_explained *e;
    const float *row;
    size_t pairs;
    uint64_t seed;
    walk fill, read;            /* where rows are generated, and where their predictions are read */
    float *current;             /* dim: the row of the walk */
    double *before;             /* outputs: the prediction of the previous step */
    double *pair_contributions; /* columns x outputs: contributions of the pair */
    bo_repeats *running;        /* columns x outputs */
    double *base, *prediction;
} explaining;

/* The row of the data from which a pair of walks starts. */
static const float *origin(const explaining *w, size_t pair)
{
    return w->e->x + (pair % w->e->rows) * w->e->ldx;
}

static bool differs(const explaining *w, const float *row, size_t column)
{
    const size_t first = bo_explained_first(w->e, column), end = first + bo_explained_inputs(w->e, column);
    for (size_t j = first; j < end; j++)
        if (row[j] != w->row[j]) return true;
    return false;
}

static void begin_pair(const explaining *w, walk *place)
{
    const float *row = origin(w, place->pair);
    bo_rng rng = bo_rng_make(w->seed, bo_rng_stream("explain.orders", place->pair));
    bo_rng_permutation(&rng, w->e->columns, place->order);
    place->count = 0;
    for (size_t c = 0; c < w->e->columns; c++)
        if (differs(w, row, place->order[c])) place->order[place->count++] = place->order[c];
}

/* Moves to the next row; true at the end of a pair. */
static bool advance(const explaining *w, walk *place)
{
    if (place->step++ < place->count) return false;
    place->step = 0;
    place->reverse = !place->reverse;
    if (place->reverse) return false;
    place->pair++;
    if (place->pair < w->pairs) begin_pair(w, place);
    return true;
}

/* The column that is replaced in this step, from 1 on. */
static size_t replaced(const walk *place)
{
    return place->order[place->reverse ? place->count - place->step : place->step - 1];
}

static size_t fill_rows(explaining *w, bo_explain_batch *batch)
{
    const bo_explained *e = w->e;
    size_t count = 0;
    for (; count < batch->capacity && w->fill.pair < w->pairs; count++) {
        if (w->fill.step == 0)
            memcpy(w->current, origin(w, w->fill.pair), e->dim * sizeof *w->current);
        else
            bo_explained_copy(e, replaced(&w->fill), w->row, w->current);
        memcpy(batch->x + count * e->dim, w->current, e->dim * sizeof *w->current);
        advance(w, &w->fill);
    }
    return count;
}

static void read_rows(explaining *w, const bo_explain_batch *batch, size_t count)
{
    const size_t columns = w->e->columns, outputs = w->e->outputs;
    for (size_t i = 0; i < count; i++) {
        const double *out = batch->out + i * outputs;
        for (size_t t = 0; t < outputs; t++) {
            if (w->read.step == 0)
                w->base[t] += out[t] / (2 * (double)w->pairs);
            else
                w->pair_contributions[replaced(&w->read) * outputs + t] += (out[t] - w->before[t]) / 2;
            if (w->read.step == w->read.count) w->prediction[t] = out[t];
            w->before[t] = out[t];
        }
        if (!advance(w, &w->read)) continue;
        for (size_t k = 0; k < columns * outputs; k++) {
            bo_repeats_add(&w->running[k], w->pair_contributions[k]);
            w->pair_contributions[k] = 0;
        }
    }
}

static bo_status walk_all(bo_context *context, explaining *w, bo_explain_batch *batch)
{
    begin_pair(w, &w->fill);
    begin_pair(w, &w->read);
    for (size_t count; (count = fill_rows(w, batch)) > 0;) {
        BO_TRY(bo_explain_batch_run(context, w->e, batch, count));
        read_rows(w, batch, count);
        BO_TRY(bo_progress(context, "explaining", (double)w->read.pair, (double)w->pairs));
    }
    return BO_OK;
}

static void explaining_free(explaining *w)
{
    bo_free(w->fill.order);
    bo_free(w->read.order);
    bo_free(w->current);
    bo_free(w->before);
    bo_free(w->pair_contributions);
    bo_free(w->running);
}

static bo_status explaining_create(bo_context *context, explaining *w)
{
    const bo_explained *e = w->e;
    w->fill.order = bo_alloc_raw(context, e->columns, sizeof(size_t), "orders of the columns");
    w->read.order = bo_alloc_raw(context, e->columns, sizeof(size_t), "orders of the columns");
    w->current = bo_alloc_raw(context, e->dim, sizeof(float), "a row");
    w->before = bo_alloc_raw(context, e->outputs, sizeof(double), "predictions");
    w->pair_contributions = bo_alloc(context, e->columns * e->outputs, sizeof(double), "contributions");
    w->running = bo_alloc(context, e->columns * e->outputs, sizeof *w->running, "contributions");
    return w->fill.order && w->read.order && w->current && w->before && w->pair_contributions && w->running ? BO_OK
                                                                                                            : BO_MEMORY;
}

bo_status bo_explain_row(bo_context *context, const bo_machine *machine, const bo_explain_desc *desc,
                         const bo_inputs *inputs, const float *row, double *base, double *prediction,
                         double *contributions, double *errors)
{
    BO_REQUIRE(context, machine, desc, inputs, row, base, prediction, contributions);
    BO_SPAN(context, "machine", "contributions");
    bo_explained e;
    BO_TRY(bo_explained_make(context, machine, desc, inputs, &e));
    const bo_input_view one = {.rows = 1, .x = row, .ldx = e.dim};
    BO_TRY(bo_input_view_check_finite(context, &one, 0, 1, e.dim));
    explaining w = {.e = &e,
                    .row = row,
                    .pairs = desc->samples ? desc->samples : e.rows,
                    .seed = desc->seed,
                    .base = base,
                    .prediction = prediction};
    memset(base, 0, e.outputs * sizeof *base);
    bo_explain_batch batch;
    bo_status status = bo_explain_batch_create(context, &e, &batch);
    if (status == BO_OK) status = explaining_create(context, &w);
    if (status == BO_OK) status = walk_all(context, &w, &batch);
    for (size_t k = 0; status == BO_OK && k < e.columns * e.outputs; k++) {
        contributions[k] = w.running[k].mean;
        if (errors) errors[k] = bo_repeats_error(&w.running[k]);
    }
    bo_explain_batch_free(&batch);
    explaining_free(&w);
    return status;
}
