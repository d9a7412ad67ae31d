/* Gradients of sums of sections of a kernel. Kernels of differences are differentiated in float32 by kernel_block.c. The others
 * are functions of a few quantities of the pair (bo_pair): their slopes are the partial derivatives by these quantities, and the
 * chain rule gives the derivative by a coordinate of the first row, in float64. Where a kernel has a kink (networks of ReLU at x
 * = y), the slope in question is 0, the mean of both sides. */
#include <math.h>
#include "internal.h"
#include "kernel_block.h"
#include "sections.h"

/* Partial derivatives of k by members of bo_pair. */
typedef struct slopes {
    double dot, norm_x, sum_x;
} slopes;

static const double pi = 3.14159265358979323846;

/* ---- kernels of networks --------------------------------------------------------------------------------------------- */

/* A covariance of a layer, or a quantity computed from it, and its derivatives by |t|² and by t·t'. */
typedef struct dual {
    double value, by_norm, by_dot;
} dual;

static dual along(double value, double by_a, dual a, double by_c, dual c)
{
    return (dual){value, by_a * a.by_norm + by_c * c.by_norm, by_a * a.by_dot + by_c * c.by_dot};
}

/* The state of the recursion of networks.c: variances a and b of both rows (b does not depend on x), covariance c. */
typedef struct layer {
    dual a, c;
    double b;
} layer;

/* F = √(ab) (sin θ + (π - θ) cos θ)/2π with cos θ = c/√(ab): dF = (π - θ)/2π dc + √(b/a) sin θ/4π da. The slope of the
 * activations is S = (π - θ)/2π, and dθ = (cos θ da/2a - dc/√(ab))/sin θ. */
static layer relu_layer(layer l, dual *slope)
{
    const double norms = sqrt(l.a.value * l.b);
    layer f = {.a = along(l.a.value / 2, 0.5, l.a, 0, l.c), .b = l.b / 2};
    if (!(norms > 0)) {
        *slope = (dual){.value = 0.25};
        return f;
    }
    const double u = fmax(-1, fmin(1, l.c.value / norms)), theta = acos(u), sine = sqrt((1 - u) * (1 + u));
    const double per = sine > 0 ? 1 / (2 * pi * sine) : 0;
    f.c = along(norms * (sine + (pi - theta) * u) / (2 * pi), norms / l.a.value * sine / (4 * pi), l.a,
                (pi - theta) / (2 * pi), l.c);
    *slope = along((pi - theta) / (2 * pi), -per * u / (2 * l.a.value), l.a, per / norms, l.c);
    return f;
}

/* F = (2/π) asin u with u = 2c/√(AB), A = 1 + 2a, B = 1 + 2b; S = (4/π)/√(AB - 4c²). */
static layer erf_layer(layer l, dual *slope)
{
    const double p = 1 + 2 * l.a.value, q = 1 + 2 * l.b, root = sqrt(p * q);
    const double u = 2 * l.c.value / root, per = 2 / pi / sqrt((1 - u) * (1 + u));
    const double own = 2 * l.a.value / p, gap = p * q - 4 * l.c.value * l.c.value;
    layer f = {.b = 2 / pi * asin(2 * l.b / q)};
    f.a = along(2 / pi * asin(own), 2 / pi / sqrt((1 - own) * (1 + own)) * 2 / (p * p), l.a, 0, l.c);
    f.c = along(2 / pi * asin(u), -per * u / p, l.a, per * 2 / root, l.c);
    const double value = 4 / pi / sqrt(gap);
    *slope = along(value, -value * q / gap, l.a, 4 * value * l.c.value / gap, l.c);
    return f;
}

static dual affine(double shift, double factor, dual x)
{
    return (dual){shift + factor * x.value, factor * x.by_norm, factor * x.by_dot};
}

static slopes network_slopes(const bo_features_desc *desc, const bo_pair *pair)
{
    const double w = desc->weight_variance, b = desc->bias_variance;
    layer l = {.a = {b + w * pair->norm_x, w, 0}, .c = {b + w * pair->dot, 0, w}, .b = b + w * pair->norm_y};
    dual theta = l.c, slope;
    for (int i = 0; i < desc->depth; i++) {
        const layer f = desc->activation == BO_HIDDEN_ERF ? erf_layer(l, &slope) : relu_layer(l, &slope);
        if (pair->distance2 == 0) slope.by_norm = slope.by_dot = 0; /* the kink */
        l = (layer){affine(b, w, f.a), affine(b, w, f.c), b + w * f.b};
        const dual product = along(slope.value * theta.value, slope.value, theta, theta.value, slope);
        theta =
            (dual){l.c.value + w * product.value, l.c.by_norm + w * product.by_norm, l.c.by_dot + w * product.by_dot};
    }
    const dual *k = desc->kernel == BO_KERNEL_NTK ? &theta : &l.c;
    return (slopes){.norm_x = k->by_norm, .dot = k->by_dot};
}

/* ---- all kernels ----------------------------------------------------------------------------------------------------- */

static slopes arccos_slopes(const bo_pair *pair)
{
    const double norms = sqrt(pair->norm_x * pair->norm_y);
    if (!(norms > 0)) return (slopes){0};
    const double c = fmax(-1, fmin(1, pair->dot / norms));
    return (slopes){.dot = (pi - acos(c)) / (2 * pi),
                    .norm_x = norms / pair->norm_x * sqrt((1 - c) * (1 + c)) / (4 * pi)};
}

static slopes kernel_slopes(const bo_features_desc *desc, const bo_pair *pair)
{
    switch (desc->kernel) {
    case BO_KERNEL_SOFTMAX:
        return (slopes){.dot = bo_value_softmax(desc, pair)};
    case BO_KERNEL_ARCCOS:
        return arccos_slopes(pair);
    case BO_KERNEL_POLYNOMIAL: {
        double value = desc->degree;
        for (int i = 1; i < desc->degree; i++) value *= 1 + pair->dot;
        return (slopes){.dot = value};
    }
    case BO_KERNEL_TAYLOR:
        return (slopes){.dot = 1 + pair->dot};
    case BO_KERNEL_HEDGEHOG:
        return (slopes){.dot = 1 / (pair->sum_x * pair->sum_y), .sum_x = -bo_value_hedgehog(desc, pair) / pair->sum_x};
    case BO_KERNEL_NNGP:
    case BO_KERNEL_NTK:
        return network_slopes(desc, pair);
    default:
        return (slopes){.dot = 1}; /* linear, elu, rectifier, cosh: the kernel is the product of (lifted) rows */
    }
}

/* The derivatives of bo_lift by t. */
static double lift_slope(bo_form form, double t, double lifted, double other, double *other_slope)
{
    *other_slope = form == BO_FORM_SIGNS ? -other : 0;
    if (form == BO_FORM_SIGNS) return lifted;
    if (form == BO_FORM_ELU) return t > 0 ? 1 : lifted;
    if (form == BO_FORM_RECTIFIER) return t > 0 ? 1 : 0;
    return 1;
}

/* The derivative of a kernel of (lifted) products by a coordinate of the first scaled row. */
static double chain(const slopes *by, bo_form form, double t, double y, double top_t, double top_y)
{
    double a2, a = bo_lift(form, t, top_t, &a2), b2, b = bo_lift(form, y, top_y, &b2);
    double da2, da = lift_slope(form, t, a, a2, &da2);
    double dot = form == BO_FORM_COSH ? 2 * sinh(a + b) : da * b + da2 * b2;
    return by->dot * dot + by->norm_x * 2 * a * da + by->sum_x * (da + da2);
}

static double largest(const double *factor, const float *x, size_t dim)
{
    double top = 0;
    for (size_t j = 0; j < dim; j++) top = fmax(top, fabs((double)x[j] * factor[j]));
    return top;
}

static void products_gradient(const bo_features *f, const float *x, const float *w, double *out)
{
    const bo_pair pair = bo_pair_make(&f->desc, f->factor, x, w);
    const slopes by = kernel_slopes(&f->desc, &pair);
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const double top = largest(f->factor, x, f->desc.dim), top_w = largest(f->factor, w, f->desc.dim);
    for (size_t j = 0; j < f->desc.dim; j++)
        out[j] = f->factor[j] * chain(&by, form, (double)x[j] * f->factor[j], (double)w[j] * f->factor[j], top, top_w);
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
        products_gradient(f, job->x + row * job->ldx, f->w + i * dim, slope);
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
