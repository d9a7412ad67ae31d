/* Gradients of sums of sections of a kernel. Kernels of differences are differentiated in float32 by kernel_block.c,
 * other kernels in float64 by their derivatives (derivatives.c). */
#include <math.h>
#include "internal.h"
#include "kernel_block.h"
#include "sections.h"

static double largest(const double *factor, const float *x, size_t dim)
{
    double top = 0;
    for (size_t j = 0; j < dim; j++) top = fmax(top, fabs((double)x[j] * factor[j]));
    return top;
}

/* ∇k(x, w) by x. */
static void section_gradient(const bo_features *f, const float *x, const float *w, double *out)
{
    const bo_features_desc *desc = &f->desc;
    const bo_form form = bo_kernel_find(desc->kernel)->form;
    const bo_pair pair = bo_pair_make(desc, f->factor, x, w);
    const bo_pair_derivatives derivatives = bo_kernel_derivatives(desc, &pair);
    const double top = largest(f->factor, x, desc->dim), top_w = largest(f->factor, w, desc->dim);
    for (size_t j = 0; j < desc->dim; j++) {
        const double factor = f->factor[j], a = (double)x[j] * factor, b = (double)w[j] * factor;
        out[j] = factor * bo_derivative_along(&derivatives, form, desc->gamma, a, b, top, top_w);
    }
}

typedef struct gradient_job {
    const bo_features *features;
    const float *x;
    size_t ldx, outputs;
    const float *alpha;
    float *gradient;
    double *scratch; /* dim + outputs x dim numbers per thread */
} gradient_job;

static void gradient_task(void *arg, size_t row, int worker)
{
    const gradient_job *job = arg;
    const bo_features *f = job->features;
    const size_t dim = f->desc.dim, outputs = job->outputs;
    double *slope = job->scratch + (size_t)worker * (1 + outputs) * dim, *sum = slope + dim;
    for (size_t k = 0; k < outputs * dim; k++) sum[k] = 0;
    for (size_t i = 0; i < f->frequencies; i++) {
        section_gradient(f, job->x + row * job->ldx, f->w + i * dim, slope);
        for (size_t t = 0; t < outputs; t++) {
            const double alpha = (double)job->alpha[i * outputs + t];
            for (size_t j = 0; j < dim; j++) sum[t * dim + j] += alpha * slope[j];
        }
    }
    for (size_t k = 0; k < outputs * dim; k++) job->gradient[row * outputs * dim + k] = (float)sum[k];
}

bo_status bo_sections_gradient(bo_context *context, const bo_features *features, size_t rows, const float *x,
                               size_t ldx, size_t outputs, const float *alpha, float *gradient)
{
    const bo_features_desc *desc = &features->desc;
    if (bo_kernel_find(desc->kernel)->shift_invariant)
        return bo_kernel_gradient(context, desc, rows, x, ldx, features->frequencies, features->w, desc->dim, outputs,
                                  alpha, gradient);
    double *scratch = bo_alloc_raw(context, (size_t)bo_context_threads(context) * (1 + outputs) * desc->dim,
                                   sizeof *scratch, "gradients of a kernel");
    if (!scratch) return BO_MEMORY;
    gradient_job job = {features, x, ldx, outputs, alpha, gradient, scratch};
    bo_parallel(context, rows, gradient_task, &job);
    bo_free(scratch);
    return BO_OK;
}
