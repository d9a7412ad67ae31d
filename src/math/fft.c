/* Plans around FFTW. Its planner is not thread-safe, so a lock stands before it; execution with new arrays is. Plans are
 * estimated and not measured, so that the same input gives the same bits in every run. */
#include <complex.h> /* before fftw3.h: its complex numbers are then C's */
#include <limits.h>
#include <pthread.h>
#include <fftw3.h>
#include "fft.h"

struct bo_fft_plan {
    size_t n;
    fftwf_plan forward, inverse;
    fftw_plan forward64, inverse64;
};

/* Guards FFTW's own planner state, which is global by FFTW's design. */
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

/* Plans look at no data (FFTW_ESTIMATE), but FFTW wants arrays that differ. */
static void make_plans(bo_fft_plan *plan, void *real, void *spectrum)
{
    unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED | FFTW_PRESERVE_INPUT;
    int n = (int)plan->n;
    pthread_mutex_lock(&planner);
    plan->forward = fftwf_plan_dft_r2c_1d(n, real, spectrum, flags);
    plan->inverse = fftwf_plan_dft_c2r_1d(n, spectrum, real, flags);
    plan->forward64 = fftw_plan_dft_r2c_1d(n, real, spectrum, flags);
    plan->inverse64 = fftw_plan_dft_c2r_1d(n, spectrum, real, flags);
    pthread_mutex_unlock(&planner);
}

bo_status bo_fft_plan_create(bo_context *context, size_t n, bo_fft_plan **out)
{
    *out = NULL;
    if (n == 0 || n > INT_MAX) {
        return bo_fail(context, BO_INVALID, "Fourier transform: length %zu, expected 1 to %d", n, INT_MAX);
    }
    bo_fft_plan *plan = bo_alloc(context, 1, sizeof *plan, "a Fourier transform");
    if (!plan) return BO_MEMORY;
    plan->n = n;
    double *real = bo_alloc(context, n, sizeof *real, "a Fourier transform");
    double *spectrum = bo_alloc(context, n + 2, sizeof *spectrum, "a Fourier transform");
    bool room = real && spectrum;
    if (room) make_plans(plan, real, spectrum);
    bo_free(real);
    bo_free(spectrum);
    if (room && plan->forward && plan->inverse && plan->forward64 && plan->inverse64) {
        *out = plan;
        return BO_OK;
    }
    bo_fft_plan_destroy(plan);
    return room ? bo_fail(context, BO_MEMORY, "FFTW makes no plan for length %zu", n) : BO_MEMORY;
}

void bo_fft_plan_destroy(bo_fft_plan *plan)
{
    if (!plan) return;
    pthread_mutex_lock(&planner);
    if (plan->forward) fftwf_destroy_plan(plan->forward);
    if (plan->inverse) fftwf_destroy_plan(plan->inverse);
    if (plan->forward64) fftw_destroy_plan(plan->forward64);
    if (plan->inverse64) fftw_destroy_plan(plan->inverse64);
    pthread_mutex_unlock(&planner);
    bo_free(plan);
}

size_t bo_fft_bins(const bo_fft_plan *plan)
{
    return plan->n / 2 + 1;
}

/* FFTW's signatures lack const; FFTW_PRESERVE_INPUT keeps the promise. */
void bo_fft_forward(const bo_fft_plan *plan, const float *x, float *spectrum)
{
    fftwf_execute_dft_r2c(plan->forward, (float *)(uintptr_t)x, (fftwf_complex *)(void *)spectrum);
}

void bo_fft_forward64(const bo_fft_plan *plan, const double *x, double *spectrum)
{
    fftw_execute_dft_r2c(plan->forward64, (double *)(uintptr_t)x, (fftw_complex *)(void *)spectrum);
}

void bo_fft_inverse(const bo_fft_plan *plan, const float *spectrum, float *x)
{
    fftwf_execute_dft_c2r(plan->inverse, (fftwf_complex *)(uintptr_t)spectrum, x);
    float factor = (float)(1.0 / (double)plan->n);
    for (size_t i = 0; i < plan->n; i++) x[i] *= factor;
}

void bo_fft_inverse64(const bo_fft_plan *plan, const double *spectrum, double *x)
{
    fftw_execute_dft_c2r(plan->inverse64, (fftw_complex *)(uintptr_t)spectrum, x);
    double factor = 1.0 / (double)plan->n;
    for (size_t i = 0; i < plan->n; i++) x[i] *= factor;
}
