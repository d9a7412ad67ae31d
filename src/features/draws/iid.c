/* Independent frequencies. Each row has a separate random stream: the first rows of a longer draw equal a shorter draw.
 */
#include <math.h>
#include "../internal.h"

/* Rows between two progress callbacks: a fraction of a second. */
enum { SLICE = BO_SIZE(1 << 16, 128) };

typedef struct normal_job {
    uint64_t stream_seed, first;
    const char *purpose;
    size_t columns;
    double *out;
} normal_job;

static void normal_task(void *arg, size_t row, int worker)
{
    const normal_job *job = arg;
    (void)worker;
    bo_rng rng = bo_rng_make(job->stream_seed, bo_rng_stream(job->purpose, job->first + row));
    for (size_t j = 0; j < job->columns; j++) job->out[row * job->columns + j] = bo_rng_normal(&rng);
}

void bo_fill_normal(bo_context *context, const char *purpose, uint64_t seed, uint64_t first, size_t rows,
                    size_t columns, double *out)
{
    normal_job job = {.stream_seed = seed, .first = first, .purpose = purpose, .columns = columns, .out = out};
    bo_parallel(context, rows, normal_task, &job);
}

bo_status bo_draw_progress(bo_context *context, const bo_draw_request *request, size_t first, size_t *last_report)
{
    if (first - *last_report < SLICE) return BO_OK;
    *last_report = first;
    return bo_progress(context, "drawing frequencies", (double)first, (double)request->count);
}

/* χ_d = √(2 Gamma(d/2)) */
double bo_radial_norm(const bo_draw_request *request, size_t dim, bo_rng *rng)
{
    const bo_spectrum *spectrum = request->spectrum;
    double chi = sqrt(2 * bo_rng_gamma(rng, 0.5 * (double)dim));
    double mixing = spectrum->mixing ? spectrum->mixing(request->desc, rng) : 1;
    return spectrum->scale(request->desc) * sqrt(mixing) * chi;
}

typedef struct iid_job {
    const bo_draw_request *request;
    float *w;
    size_t first;
} iid_job;

static void iid_task(void *arg, size_t index, int worker)
{
    const iid_job *job = arg;
    size_t row = job->first + index;
    const bo_draw_request *request = job->request;
    const bo_spectrum *spectrum = request->spectrum;
    float *w = job->w + row * request->dim;
    (void)worker;
    bo_rng rng = bo_rng_make(request->seed, bo_rng_stream("features.iid", row));
    if (!spectrum->radial) {
        for (size_t j = 0; j < request->dim; j++) w[j] = (float)spectrum->quantile(request->desc, bo_rng_uniform(&rng));
        return;
    }
    double mixing = spectrum->mixing ? spectrum->mixing(request->desc, &rng) : 1;
    double scale = spectrum->scale(request->desc) * sqrt(mixing);
    for (size_t j = 0; j < request->dim; j++) w[j] = (float)(scale * bo_rng_normal(&rng));
}

static bo_status draw_iid(bo_context *context, const bo_draw_request *request, float *w)
{
    size_t last_report = 0;
    for (size_t first = 0; first < request->count; first += SLICE) {
        iid_job job = {.request = request, .w = w, .first = first};
        size_t rows = request->count - first < SLICE ? request->count - first : SLICE;
        BO_TRY(bo_draw_progress(context, request, first, &last_report));
        bo_parallel(context, rows, iid_task, &job);
    }
    return BO_OK;
}

const bo_draw_definition bo_draw_iid = {.name = "iid", .draw = draw_iid};
