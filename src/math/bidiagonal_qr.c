/* Singular vectors of a bidiagonal matrix by implicit QR (Golub and Kahan 1965; Demmel and Kahan 1990).
 *
 * A sweep chases a bulge down a range of rows by rotations of neighboring columns and rows. The numbers of a sweep do
 * not depend on the vectors, so the rotations of many sweeps are collected, and then each task applies all of them to
 * some columns of the vectors, which stay in its cache. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "../device/cpu/kernels.h"
#include "bidiagonal.h"

enum {
    SWEEPS = BO_SIZE(64, 3),  /* collected at most */
    COLUMNS = BO_SIZE(32, 4), /* columns of the vectors per task */
    MAX_SWEEPS = 60,          /* for n values: 60 n in total; two per value are typical */
};

/* Numbers up to this multiple of the largest one are set to zero. A sweep changes all numbers by rounding errors of a
 * few units of 2^-53, so the couplings of equal singular values need not become smaller than that. */
static const double negligible = 8 * DBL_EPSILON;

typedef struct sweep {
    size_t low, high; /* rotations of rows low … high */
} sweep;

/* Rotation i of sweep k is at [k * n + i]. */
typedef struct iteration {
    bo_context *context;
    const bo_kernels *kernels;
    size_t n;
    double *d, *e, *ut, *vt;
    double tolerance; /* numbers up to this are negligible */
    size_t count;
    sweep sweeps[SWEEPS];
    bo_rotation *left, *right;
    double *strips; /* n x COLUMNS per worker */
} iteration;

/* ---- rotations of the vectors ------------------------------------------------------------------------------------ */

/* Copies `width` columns of n rows. */
static void copy(size_t n, size_t width, const double *from, size_t from_stride, double *to, size_t to_stride)
{
    for (size_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, width * sizeof *to);
}

/* Works on a copy: rows that are a power of two apart share a cache set and would evict each other. */
static void rotate_task(void *arg, size_t index, int worker)
{
    const iteration *t = arg;
    size_t n = t->n, strips = bo_ceil_div(n, COLUMNS), first = index % strips * COLUMNS;
    size_t width = bo_min(COLUMNS, n - first);
    bool left = index < strips;
    double *vectors = (left ? t->ut : t->vt) + first, *strip = t->strips + (size_t)worker * n * COLUMNS;
    copy(n, width, vectors, n, strip, COLUMNS);
    for (size_t k = 0; k < t->count; k++) {
        sweep range = t->sweeps[k];
        const bo_rotation *rotations = (left ? t->left : t->right) + k * n + range.low;
        t->kernels->rotate_rows64(range.high - range.low, width, rotations, strip + range.low * COLUMNS, COLUMNS);
    }
    copy(n, width, strip, COLUMNS, vectors, n);
}

static void rotate_vectors(iteration *t)
{
    if (t->count > 0) bo_parallel(t->context, 2 * bo_ceil_div(t->n, COLUMNS), rotate_task, t);
    t->count = 0;
}

/* ---- sweeps ------------------------------------------------------------------------------------------------------ */

/* Returns the rotation that turns (f, g) into (*r, 0). */
static bo_rotation annihilate(double f, double g, double *r)
{
    if (g == 0) {
        *r = f;
        return (bo_rotation){1, 0};
    }
    double square = f * f + g * g;
    *r = square > 0x1p-900 ? sqrt(square) : hypot(f, g);
    return (bo_rotation){f / *r, g / *r};
}

/* The QR step without a shift, which keeps small singular values accurate and moves a zero to the end. */
static void sweep_plain(iteration *t, sweep range, bo_rotation *left, bo_rotation *right)
{
    double *d = t->d, *e = t->e, r;
    bo_rotation now = {1, 0}, before = {1, 0};
    for (size_t i = range.low; i < range.high; i++) {
        now = right[i] = annihilate(d[i] * now.c, e[i], &r);
        if (i > range.low) e[i - 1] = before.s * r;
        before = left[i] = annihilate(before.c * r, d[i + 1] * now.s, &d[i]);
    }
    double last = d[range.high] * now.c;
    d[range.high] = last * before.c;
    e[range.high - 1] = last * before.s;
}

static void sweep_shifted(iteration *t, sweep range, double shift, bo_rotation *left, bo_rotation *right)
{
    double *d = t->d, *e = t->e, r;
    double f = (fabs(d[range.low]) - shift) * (copysign(1, d[range.low]) + shift / d[range.low]), g = e[range.low];
    for (size_t i = range.low; i < range.high; i++) {
        bo_rotation now = right[i] = annihilate(f, g, &r);
        if (i > range.low) e[i - 1] = r;
        f = now.c * d[i] + now.s * e[i];
        e[i] = now.c * e[i] - now.s * d[i];
        g = now.s * d[i + 1];
        d[i + 1] *= now.c;
        now = left[i] = annihilate(f, g, &d[i]);
        f = now.c * e[i] + now.s * d[i + 1];
        d[i + 1] = now.c * d[i + 1] - now.s * e[i];
        if (i + 1 < range.high) {
            g = now.s * e[i + 1];
            e[i + 1] *= now.c;
        }
    }
    e[range.high - 1] = f;
}

/* The smaller singular value of (f g; 0 h). */
static double smaller_value(double f, double g, double h)
{
    double small = fmin(fabs(f), fabs(h)), large = fmax(fabs(f), fabs(h)), size = fabs(g);
    if (small == 0) return 0;
    if (size < large) {
        double as = 1 + small / large, at = (large - small) / large, au = (size / large) * (size / large);
        return small * (2 / (sqrt(as * as + au) + sqrt(at * at + au)));
    }
    double au = large / size;
    if (au == 0) return small * large / size;
    double as = (1 + small / large) * au, at = (large - small) / large * au;
    return 2 * (small / (sqrt(1 + as * as) + sqrt(1 + at * at))) * au;
}

/* Sets negligible numbers on the diagonal to zero. True: there was at least one. A shifted sweep would stop at a zero,
 * because its bulge vanishes; the plain one moves the zero to the end of the range. */
static bool has_zero(iteration *t, sweep range)
{
    bool found = false;
    for (size_t i = range.low; i <= range.high; i++) {
        if (fabs(t->d[i]) > t->tolerance) continue;
        t->d[i] = 0;
        found = true;
    }
    return found;
}

static void run_sweep(iteration *t, sweep range)
{
    if (t->count == SWEEPS) rotate_vectors(t);
    bo_rotation *left = t->left + t->count * t->n, *right = t->right + t->count * t->n;
    size_t high = range.high;
    t->sweeps[t->count++] = range;
    if (has_zero(t, range)) {
        sweep_plain(t, range, left, right);
        return;
    }
    double shift = smaller_value(t->d[high - 1], t->e[high - 1], t->d[high]), first = fabs(t->d[range.low]);
    if ((shift / first) * (shift / first) >= DBL_EPSILON) {
        sweep_shifted(t, range, shift, left, right);
    } else {
        sweep_plain(t, range, left, right);
    }
}

/* Finds the last range of rows with couplings that are not negligible. False: there is none. */
static bool find_range(const iteration *t, size_t *end, sweep *range)
{
    while (*end > 0 && fabs(t->e[*end - 1]) <= t->tolerance) t->e[--*end] = 0;
    range->high = range->low = *end;
    while (range->low > 0 && fabs(t->e[range->low - 1]) > t->tolerance) range->low--;
    return *end > 0;
}

static bool iterate(iteration *t)
{
    double largest = 0;
    for (size_t i = 0; i < t->n; i++) largest = fmax(largest, fmax(fabs(t->d[i]), i + 1 < t->n ? fabs(t->e[i]) : 0));
    t->tolerance = negligible * largest;
    sweep range;
    size_t end = t->n - 1, remaining = MAX_SWEEPS * t->n;
    while (find_range(t, &end, &range)) {
        if (remaining-- == 0) return false;
        run_sweep(t, range);
    }
    rotate_vectors(t);
    return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void set_unit(size_t n, double *x)
{
    memset(x, 0, n * n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i * n + i] = 1;
}

bo_status bo_bidiagonal_svd(bo_context *context, size_t n, double *d, double *e, double *ut, double *vt)
{
    iteration t = {
        .context = context, .kernels = bo_context_kernels(context), .n = n, .d = d, .e = e, .ut = ut, .vt = vt};
    t.left = bo_alloc_raw(context, 2 * SWEEPS, n * sizeof *t.left, "singular vectors");
    t.strips =
        bo_alloc_raw(context, (size_t)bo_context_threads(context) * COLUMNS, n * sizeof(double), "singular vectors");
    bo_status status = t.left && t.strips ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        t.right = t.left + SWEEPS * n;
        set_unit(n, ut);
        set_unit(n, vt);
    }
    if (status == BO_OK && !iterate(&t))
        status = bo_fail(context, BO_NUMERIC, "singular values of a %zu x %zu matrix did not converge", n, n);
    for (size_t i = 0; i < n && status == BO_OK; i++) {
        if (d[i] >= 0) continue;
        d[i] = -d[i];
        for (size_t j = 0; j < n; j++) vt[i * n + j] = -vt[i * n + j];
    }
    bo_free(t.left);
    bo_free(t.strips);
    return status;
}
