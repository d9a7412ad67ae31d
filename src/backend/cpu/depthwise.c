/* Depthwise convolution: y(i) = Σ_t x(i + t) ∘ w(t), elementwise products of the pixels within the image, each a row of
 * channels. */
#include <string.h>
#include "blocks.h"
#include "convolution.h"

typedef struct depthwise_job {
    const bo_convolving *c;
    const bo_kernels *kernels;
    const float *turned;
    float *sums;
    bool begun;
    size_t channels, places; /* places: number of pixels per block */
} depthwise_job;

static depthwise_job job_of(bo_context *context, const bo_convolving *c, const float *turned)
{
    depthwise_job job = {.c = c, .kernels = bo_context_kernels(context), .turned = turned, .channels = c->groups};
    job.places = bo_block_rows(job.channels);
    return job;
}

/* Pixel number `index` of images of height x width. */
typedef struct place {
    size_t image, y, x;
} place;

static place place_of(size_t index, const size_t size[2])
{
    return (place){index / size[1] / size[0], index / size[1] % size[0], index % size[1]};
}

/* Returns the row of x under tap (u, v) of the window of a pixel of y; NULL: zeros. */
static const float *under(const bo_convolving *c, const place *p, size_t u, size_t v)
{
    const bo_grid *w = &c->windows;
    size_t y = p->y * w->stride[0] + u, x = p->x * w->stride[1] + v;
    if (c->memory && x < w->before[1]) return c->memory + x * c->groups;
    if (y < w->before[0] || x < w->before[1]) return NULL;
    y -= w->before[0], x -= w->before[1];
    if (y >= w->size[0] || x >= w->size[1]) return NULL;
    return c->x + ((p->image * w->size[0] + y) * w->size[1] + x) * c->groups;
}

static void forward_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const depthwise_job *job = arg;
    const bo_convolving *c = job->c;
    size_t n = job->channels, all = c->images * c->places[0] * c->places[1], end = (index + 1) * job->places;
    for (size_t i = index * job->places; i < end && i < all; i++) {
        place p = place_of(i, c->places);
        float *y = c->y + i * n;
        bool begun = c->bias != NULL;
        if (c->bias) memcpy(y, c->bias, n * sizeof *y);
        for (size_t t = 0; t < c->taps; t++) {
            const float *x = under(c, &p, t / c->windows.kernel[1], t % c->windows.kernel[1]);
            if (!x) continue;
            job->kernels->product(n, x, job->turned + t * n, begun, y);
            begun = true;
        }
        if (!begun) memset(y, 0, n * sizeof *y);
    }
}

void bo_depthwise_forward(bo_context *context, const bo_convolving *c, const float *turned)
{
    depthwise_job job = job_of(context, c, turned);
    bo_parallel(context, bo_block_count(c->images * c->places[0] * c->places[1], job.places), forward_task, &job);
}

/* Returns the window along an axis whose tap `tap` is at this pixel, or the number of windows if no window has it. */
static size_t window_at(const bo_convolving *c, size_t axis, size_t at, size_t tap)
{
    size_t from = at + c->windows.before[axis];
    if (from < tap || (from - tap) % c->windows.stride[axis]) return c->places[axis];
    return (from - tap) / c->windows.stride[axis];
}

static void input_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const depthwise_job *job = arg;
    const bo_convolving *c = job->c;
    const size_t *size = c->windows.size, *kernel = c->windows.kernel, *places = c->places;
    size_t n = job->channels, all = c->images * size[0] * size[1], end = (index + 1) * job->places;
    for (size_t i = index * job->places; i < end && i < all; i++) {
        place p = place_of(i, size);
        float *dx = c->dx + i * n;
        bool begun = c->add;
        for (size_t t = 0; t < c->taps; t++) {
            size_t y = window_at(c, 0, p.y, t / kernel[1]), x = window_at(c, 1, p.x, t % kernel[1]);
            if (y >= places[0] || x >= places[1]) continue;
            const float *dy = c->dy + ((p.image * places[0] + y) * places[1] + x) * n;
            job->kernels->product(n, dy, job->turned + t * n, begun, dx);
            begun = true;
        }
        if (!begun) memset(dx, 0, n * sizeof *dx);
    }
}

void bo_depthwise_input_gradient(bo_context *context, const bo_convolving *c, const float *turned)
{
    depthwise_job job = job_of(context, c, turned);
    size_t places = c->images * c->windows.size[0] * c->windows.size[1];
    bo_parallel(context, bo_block_count(places, job.places), input_task, &job);
}

/* Task: sums a block of pixels separately. */
static void weight_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const depthwise_job *job = arg;
    const bo_convolving *c = job->c;
    size_t n = job->channels, all = c->images * c->places[0] * c->places[1];
    float *sums = job->sums + index * c->taps * n;
    if (!job->begun) memset(sums, 0, c->taps * n * sizeof *sums);
    for (size_t i = index * all / c->blocks; i < (index + 1) * all / c->blocks; i++) {
        place p = place_of(i, c->places);
        for (size_t t = 0; t < c->taps; t++) {
            const float *x = under(c, &p, t / c->windows.kernel[1], t % c->windows.kernel[1]);
            if (x) job->kernels->product(n, x, c->dy + i * n, true, sums + t * n);
        }
    }
}

void bo_depthwise_weight_gradient(bo_context *context, const bo_convolving *c, bool begun, float *sums)
{
    depthwise_job job = job_of(context, c, NULL);
    job.sums = sums, job.begun = begun;
    bo_parallel(context, c->blocks, weight_task, &job);
}
