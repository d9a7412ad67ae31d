/* The spectra: by Bochner's theorem, the distribution of w whose characteristic function is the kernel.
 *
 *   RBF                exp(-γ|D|²)          w = √(2γ) g
 *   Matérn ν           γ = 1/length         w = γ √V g, V = 2ν / χ²_{2ν}: the multivariate Student-t distribution
 *   rational quadratic (1 + γ|D|²/α)^-α     w = √(2γ) √V g, V ~ Gamma(α) / α, since the kernel is E exp(-γ|D|² V)
 *   Laplacian          exp(-γ|D|₁)          coordinates Cauchy(γ)
 *   Cauchy             Π 1/(1 + γ² D_j²)    coordinates Laplace(γ) */
#include <math.h>
#include "internal.h"

/* ---- quantiles of the Gamma distribution ------------------------------------------------------------------------- */

/* Returns the regularized lower incomplete gamma function P(a, x): the series for x < a + 1, otherwise Lentz's
 * continued fraction. */
static double gamma_probability(double a, double x)
{
    int sign; /* lgamma would write the sign to a global variable, which threads share */
    if (x <= 0) return 0;
    double front = exp(a * log(x) - x - lgamma_r(a, &sign));
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int n = 1; n < 10000 && fabs(term) > fabs(sum) * 1e-17; n++) sum += term *= x / (a + n);
        return front * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int n = 1; n < 10000; n++) {
        double an = -n * (n - a);
        b += 2;
        d = an * d + b;
        if (fabs(d) < 1e-300) d = 1e-300;
        c = b + an / c;
        if (fabs(c) < 1e-300) c = 1e-300;
        d = 1 / d;
        double step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-16) break;
    }
    return 1 - front * h;
}

/* Returns x with P(a, x) = p by bisection in log x. This is reliable for every shape, and it is used only while
 * drawing. */
static double gamma_quantile(double a, double p)
{
    double low = -745, high = log(a + 1) + 8;
    for (int i = 0; i < 100 && high - low > 1e-14 * (1 + fabs(low)); i++) {
        double middle = 0.5 * (low + high);
        if (gamma_probability(a, exp(middle)) < p)
            low = middle;
        else
            high = middle;
    }
    return exp(0.5 * (low + high));
}

/* ---- radial ------------------------------------------------------------------------------------------------------ */

static double scale_gaussian(const bo_features_desc *desc)
{
    return sqrt(2 * desc->gamma);
}

static double scale_unit(const bo_features_desc *desc)
{
    (void)desc;
    return 1;
}

static double scale_student(const bo_features_desc *desc)
{
    return desc->gamma;
}

static double degrees(const bo_features_desc *desc)
{
    return desc->kernel == BO_KERNEL_MATERN12 ? 1 : desc->kernel == BO_KERNEL_MATERN32 ? 3 : 5;
}

/* χ²_k = 2 Gamma(k/2) */
static double mixing_student(const bo_features_desc *desc, bo_rng *rng)
{
    double k = degrees(desc);
    return k / (2 * bo_rng_gamma(rng, k / 2));
}

static double mixing_quantile_student(const bo_features_desc *desc, double p)
{
    double k = degrees(desc);
    return k / (2 * gamma_quantile(k / 2, p));
}

static double mixing_gamma(const bo_features_desc *desc, bo_rng *rng)
{
    return bo_rng_gamma(rng, desc->alpha) / desc->alpha;
}

static double mixing_quantile_gamma(const bo_features_desc *desc, double p)
{
    return gamma_quantile(desc->alpha, p) / desc->alpha;
}

const bo_spectrum bo_spectrum_gaussian = {.radial = true, .finite_variance = true, .scale = scale_gaussian};
const bo_spectrum bo_spectrum_unit = {.radial = true, .finite_variance = true, .scale = scale_unit};
/* A Student-t distribution with k degrees of freedom has a variance only for k > 2. */
const bo_spectrum bo_spectrum_student1 = {.radial = true,
                                          .finite_variance = false,
                                          .scale = scale_student,
                                          .mixing = mixing_student,
                                          .mixing_quantile = mixing_quantile_student};
const bo_spectrum bo_spectrum_student3 = {.radial = true,
                                          .finite_variance = true,
                                          .scale = scale_student,
                                          .mixing = mixing_student,
                                          .mixing_quantile = mixing_quantile_student};
const bo_spectrum bo_spectrum_student5 = {.radial = true,
                                          .finite_variance = true,
                                          .scale = scale_student,
                                          .mixing = mixing_student,
                                          .mixing_quantile = mixing_quantile_student};
const bo_spectrum bo_spectrum_gamma_mixture = {.radial = true,
                                               .finite_variance = true,
                                               .scale = scale_gaussian,
                                               .mixing = mixing_gamma,
                                               .mixing_quantile = mixing_quantile_gamma};

/* ---- product ----------------------------------------------------------------------------------------------------- */

static double quantile_cauchy(const bo_features_desc *desc, double p)
{
    /* tan(π(p - 1/2)), from the nearer end so that the tails keep their accuracy */
    const double pi = 3.14159265358979323846;
    double value = p < 0.25 ? -1 / tan(pi * p) : p > 0.75 ? 1 / tan(pi * (1 - p)) : tan(pi * (p - 0.5));
    return desc->gamma * value;
}

static double quantile_laplace(const bo_features_desc *desc, double p)
{
    return desc->gamma * (p < 0.5 ? log(2 * p) : -log(2 * (1 - p)));
}

const bo_spectrum bo_spectrum_cauchy = {.radial = false, .finite_variance = false, .quantile = quantile_cauchy};
const bo_spectrum bo_spectrum_laplace = {.radial = false, .finite_variance = true, .quantile = quantile_laplace};
