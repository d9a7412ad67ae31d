#include "numbers.h"
#include <math.h>
#include "../../src/math/linalg.h"

double lab_dot(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

double lab_norm(const double *a, size_t count)
{
    return sqrt(lab_dot(a, a, count));
}

double lab_distance(const double *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

double lab_distance_single(const float *a, const double *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum);
}

double lab_largest(const double *values, size_t count)
{
    double max = 0;
    for (size_t i = 0; i < count; i++) max = fmax(max, values[i]);
    return max;
}

void lab_geometric(double first, double last, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = count > 1 ? first * pow(last / first, (double)i / (double)(count - 1)) : first;
}

double lab_choose(size_t n, size_t k)
{
    double product = 1;
    for (size_t i = 1; i <= k; i++) product = product * (double)(n - k + i) / (double)i;
    return round(product);
}

void lab_fill_normal(bo_rng *rng, double deviation, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) out[i] = (float)(deviation * bo_rng_normal(rng));
}

bo_status lab_orthonormal(bo_context *context, bo_rng *rng, size_t rows, size_t n, double *out)
{
    for (size_t i = 0; i < rows * n; i++) out[i] = bo_rng_normal(rng);
    return bo_haar(context, rows, n, out, n);
}
