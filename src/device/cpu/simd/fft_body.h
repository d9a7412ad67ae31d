/* The transforms of ../fft.h for element type REAL, in functions named R(name). Plain C: real and imaginary parts are
 * stored separately, so compilers can vectorize over neighbors without shuffles. The including file selects the
 * instruction set. */

typedef struct R(number) {
    REAL re, im;
} R(number);

INLINE R(number) R(plus)(R(number) a, R(number) b)
{
    return (R(number)){a.re + b.re, a.im + b.im};
}

INLINE R(number) R(minus)(R(number) a, R(number) b)
{
    return (R(number)){a.re - b.re, a.im - b.im};
}

INLINE R(number) R(times)(R(number) a, R(number) b)
{
    return (R(number)){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

INLINE R(number) R(scaled)(REAL c, R(number) a)
{
    return (R(number)){c * a.re, c * a.im};
}

/* -i a */
INLINE R(number) R(turned)(R(number) a)
{
    return (R(number)){a.im, -a.re};
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

/* Replaces a_k by Σ_j a_j exp(-2πi jk / radix). */
INLINE void R(butterfly)(size_t radix, R(number) a[5])
{
    if (radix == 2) {
        R(number) sum = R(plus)(a[0], a[1]);
        a[1] = R(minus)(a[0], a[1]), a[0] = sum;
    } else if (radix == 3) {
        const REAL sine = (REAL)0.86602540378443864676; /* sine of 2π/3; the cosine is -1/2 */
        R(number) sum = R(plus)(a[1], a[2]), middle = R(minus)(a[0], R(scaled)((REAL)0.5, sum));
        R(number) side = R(turned)(R(scaled)(sine, R(minus)(a[1], a[2])));
        a[0] = R(plus)(a[0], sum), a[1] = R(plus)(middle, side), a[2] = R(minus)(middle, side);
    } else if (radix == 4) {
        R(number) even = R(plus)(a[0], a[2]), odd = R(plus)(a[1], a[3]);
        R(number) left = R(minus)(a[0], a[2]), side = R(turned)(R(minus)(a[1], a[3]));
        a[0] = R(plus)(even, odd), a[1] = R(plus)(left, side);
        a[2] = R(minus)(even, odd), a[3] = R(minus)(left, side);
    } else { /* cosines and sines of 2π/5 and 4π/5 */
        const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410;
        const REAL s1 = (REAL)0.95105651629515357212, s2 = (REAL)0.58778525229247312917;
        R(number) sum1 = R(plus)(a[1], a[4]), sum2 = R(plus)(a[2], a[3]);
        R(number) gap1 = R(turned)(R(minus)(a[1], a[4])), gap2 = R(turned)(R(minus)(a[2], a[3]));
        R(number) middle1 = R(plus)(a[0], R(plus)(R(scaled)(c1, sum1), R(scaled)(c2, sum2)));
        R(number) middle2 = R(plus)(a[0], R(plus)(R(scaled)(c2, sum1), R(scaled)(c1, sum2)));
        R(number) side1 = R(plus)(R(scaled)(s1, gap1), R(scaled)(s2, gap2));
        R(number) side2 = R(minus)(R(scaled)(s2, gap1), R(scaled)(s1, gap2));
        a[0] = R(plus)(a[0], R(plus)(sum1, sum2));
        a[1] = R(plus)(middle1, side1), a[4] = R(minus)(middle1, side1);
        a[2] = R(plus)(middle2, side2), a[3] = R(minus)(middle2, side2);
    }
}

/* Computes one butterfly: reads elements `leg` apart and writes elements `stride` apart, multiplied by w_1, w_2, …
 * (NULL: by 1). */
INLINE void R(element)(size_t radix, const R(number) * w, const REAL *restrict xr, const REAL *restrict xi, size_t leg,
                       REAL *restrict yr, REAL *restrict yi, size_t stride)
{
    R(number) a[5];
    UNROLL for (size_t j = 0; j < radix; j++) a[j] = (R(number)){xr[j * leg], xi[j * leg]};
    R(butterfly)(radix, a);
    UNROLL for (size_t k = 0; k < radix; k++)
    {
        R(number) b = w && k ? R(times)(a[k], w[k]) : a[k];
        yr[k * stride] = b.re, yi[k * stride] = b.im;
    }
}

INLINE void R(roots_of)(size_t radix, size_t parts, const REAL *roots, R(number) w[5])
{
    UNROLL for (size_t k = 1; k < radix; k++) w[k] =
        (R(number)){roots[(2 * k - 2) * parts], roots[(2 * k - 1) * parts]};
}

/* radix is a constant in every inlined copy. x has the stride `step`: 1, or 2 in the first stage of pairs. The first
 * stage is vectorized over p, the others over q. */
INLINE void R(stage)(size_t radix, size_t parts, size_t stride, const REAL *restrict roots, const REAL *restrict xr,
                     const REAL *restrict xi, size_t step, REAL *restrict yr, REAL *restrict yi)
{
    size_t leg = parts * stride;
    R(number) w[5];
    if (stride == 1) {
        INDEPENDENT for (size_t p = 0; p < parts; p++)
        {
            R(roots_of)(radix, parts, roots + p, w);
            R(element)(radix, w, xr + p * step, xi + p * step, leg * step, yr + p * radix, yi + p * radix, 1);
        }
        return;
    }
    INDEPENDENT for (size_t q = 0; q < stride; q++)
        R(element)(radix, NULL, xr + q, xi + q, leg, yr + q, yi + q, stride);
    for (size_t p = 1; p < parts; p++) {
        R(roots_of)(radix, parts, roots + p, w);
        const REAL *ar = xr + stride * p, *ai = xi + stride * p;
        REAL *br = yr + stride * radix * p, *bi = yi + stride * radix * p;
        INDEPENDENT for (size_t q = 0; q < stride; q++)
            R(element)(radix, w, ar + q, ai + q, leg, br + q, bi + q, stride);
    }
}

INLINE void R(stage_of)(size_t radix, const bo_fft_stage *t, const REAL *roots, const REAL *xr, const REAL *xi,
                        size_t step, REAL *yr, REAL *yi)
{
    if (t->stride > 1)
        R(stage)(radix, t->parts, t->stride, roots, xr, xi, 1, yr, yi);
    else if (step == 1)
        R(stage)(radix, t->parts, 1, roots, xr, xi, 1, yr, yi);
    else
        R(stage)(radix, t->parts, 1, roots, xr, xi, 2, yr, yi);
}

typedef REAL R(lanes) __attribute__((vector_size(LANE_BYTES)));
enum { R(LANES) = LANE_BYTES / sizeof(REAL) };

/* A single column has a separate path: a prime length has one column. */
INLINE R(lanes) R(load)(const REAL *x, size_t step, size_t count)
{
    REAL part[R(LANES)] = {0};
    R(lanes) a = {x[0]};
    if (count == 1) return a;
    if (count == R(LANES) && step == 1) {
        memcpy(&a, x, sizeof a);
        return a;
    }
    for (size_t l = 0; l < count; l++) part[l] = x[l * step];
    memcpy(&a, part, sizeof a);
    return a;
}

INLINE void R(store)(REAL *y, R(lanes) a, size_t count)
{
    if (count == 1)
        y[0] = a[0];
    else if (count == R(LANES))
        memcpy(y, &a, sizeof a);
    else {
        REAL part[R(LANES)];
        memcpy(part, &a, sizeof part);
        for (size_t l = 0; l < count; l++) y[l] = part[l];
    }
}

/* Computes `count` columns of a stage of odd radix r = 2h + 1 from the sums and differences of a_j and a_{r-j}: b_k and
 * b_{r-k} are a_0 + Σ_{j<=h} (a_j + a_{r-j}) cos(2πjk/r) ∓ i Σ_{j<=h} (a_j - a_{r-j}) sin(2πjk/r). */
static void R(odd_columns)(const bo_fft_stage *t, size_t count, const REAL *turns, const REAL *w, const REAL *xr,
                           const REAL *xi, size_t step, REAL *yr, REAL *yi)
{
    enum { HALF = BO_FFT_RADIX / 2 };
    size_t radix = t->radix, half = radix / 2, stride = t->stride, leg = t->parts * stride * step;
    R(lanes) sum_re[HALF], sum_im[HALF], gap_re[HALF], gap_im[HALF]; /* gap: -i (a_j - a_{r-j}) */
    R(lanes) first_re = R(load)(xr, step, count), first_im = R(load)(xi, step, count);
    R(lanes) total_re = first_re, total_im = first_im;
    for (size_t j = 0; j < half; j++) {
        R(lanes)
        a_re = R(load)(xr + (j + 1) * leg, step, count), b_re = R(load)(xr + (radix - 1 - j) * leg, step, count);
        R(lanes)
        a_im = R(load)(xi + (j + 1) * leg, step, count), b_im = R(load)(xi + (radix - 1 - j) * leg, step, count);
        sum_re[j] = a_re + b_re, sum_im[j] = a_im + b_im, gap_re[j] = a_im - b_im, gap_im[j] = b_re - a_re;
        total_re += sum_re[j], total_im += sum_im[j];
    }
    R(store)(yr, total_re, count);
    R(store)(yi, total_im, count);
    for (size_t k = 1; k <= half; k++) {
        R(lanes) middle_re = first_re, middle_im = first_im, side_re = {0}, side_im = {0};
        for (size_t j = 0, turn = k; j < half; j++, turn = turn + k < radix ? turn + k : turn + k - radix) {
            REAL cosine = turns[turn], sine = turns[radix + turn];
            middle_re += cosine * sum_re[j], middle_im += cosine * sum_im[j];
            side_re += sine * gap_re[j], side_im += sine * gap_im[j];
        }
        const REAL *low = w + (2 * k - 2) * t->parts, *high = w + (2 * (radix - k) - 2) * t->parts;
        R(lanes) re = middle_re + side_re, im = middle_im + side_im;
        R(store)(yr + k * stride, re * low[0] - im * low[t->parts], count);
        R(store)(yi + k * stride, re * low[t->parts] + im * low[0], count);
        re = middle_re - side_re, im = middle_im - side_im;
        R(store)(yr + (radix - k) * stride, re * high[0] - im * high[t->parts], count);
        R(store)(yi + (radix - k) * stride, re * high[t->parts] + im * high[0], count);
    }
}

static void R(odd_stage)(const bo_fft_stage *t, const REAL *roots, const REAL *xr, const REAL *xi, size_t step,
                         REAL *yr, REAL *yi)
{
    const REAL *turns = roots + 2 * (t->radix - 1) * t->parts;
    for (size_t p = 0; p < t->parts; p++)
        for (size_t q = 0; q < t->stride; q += R(LANES)) {
            size_t count = t->stride - q < R(LANES) ? t->stride - q : R(LANES);
            size_t from = (t->stride * p + q) * step, to = t->stride * t->radix * p + q;
            R(odd_columns)(t, count, turns, roots + p, xr + from, xi + from, step, yr + to, yi + to);
        }
}

static void R(run_stage)(const bo_fft_stage *t, const REAL *roots, const REAL *xr, const REAL *xi, size_t step,
                         REAL *yr, REAL *yi)
{
    roots += t->roots;
    switch (t->radix) {
    case 2:
        R(stage_of)(2, t, roots, xr, xi, step, yr, yi);
        break;
    case 3:
        R(stage_of)(3, t, roots, xr, xi, step, yr, yi);
        break;
    case 4: /* the first of these stages occurs in almost all transforms; a constant stride removes the loop over q */
        if (t->stride == 4)
            R(stage)(4, t->parts, 4, roots, xr, xi, 1, yr, yi);
        else
            R(stage_of)(4, t, roots, xr, xi, step, yr, yi);
        break;
    case 5:
        R(stage_of)(5, t, roots, xr, xi, step, yr, yi);
        break;
    default:
        R(odd_stage)(t, roots, xr, xi, step, yr, yi);
    }
}

/* ---- complex transforms ------------------------------------------------------------------------------------------ */

/* Returns the half of the workspace that does not contain z. */
INLINE REAL *R(other_half)(const bo_fft_shape *shape, REAL *workspace, const REAL *z)
{
    return z == workspace ? workspace + 2 * shape->span : workspace;
}

/* Runs all stages on the pairs (x[0], x[1]), … or, without x, on the complex vector z in the workspace. Returns the
 * result. */
static REAL *R(run_stages)(const bo_fft_shape *shape, const REAL *roots, const REAL *x, REAL *z, REAL *workspace)
{
    size_t span = shape->span;
    for (size_t i = 0; i < shape->count; i++) {
        REAL *y = R(other_half)(shape, workspace, z);
        if (i == 0 && x)
            R(run_stage)(shape->stages, roots, x, x + 1, 2, y, y + span);
        else
            R(run_stage)(&shape->stages[i], roots, z, z + span, 1, y, y + span);
        z = y;
    }
    return z;
}

/* Computes Bluestein's convolution of z. Real and imaginary parts are swapped before and after the second transform,
 * which makes it the inverse. */
static REAL *R(convolve)(const bo_fft_shape *shape, const REAL *roots, REAL *z, REAL *workspace)
{
    size_t n = shape->length, span = shape->span;
    const REAL *c = roots + shape->chirps, *response = roots + shape->response;
    for (size_t j = 0; j < n; j++) {
        R(number) a = R(times)((R(number)){z[j], z[span + j]}, (R(number)){c[j], c[n + j]});
        z[j] = a.re, z[span + j] = a.im;
    }
    for (size_t j = n; j < shape->chirp; j++) z[j] = z[span + j] = 0;
    z = R(run_stages)(shape, roots, NULL, z, workspace);
    for (size_t j = 0; j < shape->chirp; j++) {
        R(number) w = {response[j], response[shape->chirp + j]};
        R(number) a = R(times)((R(number)){z[j], z[span + j]}, w);
        z[j] = a.im, z[span + j] = a.re;
    }
    z = R(run_stages)(shape, roots, NULL, z, workspace);
    for (size_t j = 0; j < n; j++) {
        R(number) a = R(times)((R(number)){z[span + j], z[j]}, (R(number)){c[j], c[n + j]});
        z[j] = a.re, z[span + j] = a.im;
    }
    return z;
}

static REAL *R(transform)(const bo_fft_shape *shape, const REAL *roots, REAL *z, REAL *workspace)
{
    return shape->chirp ? R(convolve)(shape, roots, z, workspace) : R(run_stages)(shape, roots, NULL, z, workspace);
}

/* ---- short transforms -------------------------------------------------------------------------------------------- */

/* Computes y = Σ x[t] row t of the matrix. The last vector overlaps the previous one. */
static void R(multiply)(size_t rows, size_t columns, const REAL *restrict matrix, const REAL *restrict x,
                        REAL *restrict y)
{
    if (columns < R(LANES)) {
        for (size_t c = 0; c < columns; c++) {
            REAL sum = 0;
            for (size_t t = 0; t < rows; t++) sum += x[t] * matrix[t * columns + c];
            y[c] = sum;
        }
        return;
    }
    for (size_t v = 0; v < columns; v += R(LANES)) {
        size_t at = v + R(LANES) > columns ? columns - R(LANES) : v;
        R(lanes) even = {0}, odd = {0}, row;
        for (size_t t = 0; t < rows; t++) {
            memcpy(&row, matrix + t * columns + at, sizeof row);
            even += x[t] * row;
            if (++t == rows) break;
            memcpy(&row, matrix + t * columns + at, sizeof row);
            odd += x[t] * row;
        }
        even += odd;
        memcpy(y + at, &even, sizeof even);
    }
}

/* ---- real transforms --------------------------------------------------------------------------------------------- */

/* Z is the transform of (x[0] + i x[1], x[2] + i x[3], …), of length N, and Z[N] = Z[0]. The transforms of the elements
 * at even and odd indices are E[k] = (Z[k] + conj Z[N-k]) / 2 and O[k] = -i (Z[k] - conj Z[N-k]) / 2, and X[k] = E[k] +
 * exp(-2πi k / n) O[k]. */
static void R(untangle)(size_t length, const REAL *restrict w, const REAL *restrict zr, const REAL *restrict zi,
                        REAL *restrict spectrum)
{
    const REAL half = (REAL)0.5;
    for (size_t k = 0; k < length; k++) {
        R(number) even = {half * (zr[k] + zr[length - k]), half * (zi[k] - zi[length - k])};
        R(number) odd = {half * (zi[k] + zi[length - k]), half * (zr[length - k] - zr[k])};
        R(number) result = R(plus)(even, R(times)(odd, (R(number)){w[k], w[length + k]}));
        spectrum[2 * k] = result.re, spectrum[2 * k + 1] = result.im;
    }
    spectrum[1] = 0;
    spectrum[2 * length] = zr[0] - zi[0], spectrum[2 * length + 1] = 0;
}

/* The inverse of untangle: Z[k] = E[k] + i O[k], with real and imaginary parts swapped in z. `factor` is twice the
 * factor of E and O. Real and imaginary parts of the spectrum are separated first, because compilers do not vectorize
 * the reversal of pairs. */
static void R(tangle)(size_t length, REAL factor, const REAL *restrict w, const REAL *restrict spectrum,
                      REAL *restrict re, REAL *restrict im, REAL *restrict zr, REAL *restrict zi)
{
    for (size_t k = 0; k <= length; k++) re[k] = factor * spectrum[2 * k], im[k] = factor * spectrum[2 * k + 1];
    im[0] = im[length] = 0;
    for (size_t k = 0; k < length; k++) {
        R(number) low = {re[k], im[k]}, high = {re[length - k], -im[length - k]};
        R(number) even = R(plus)(low, high), odd = R(times)(R(minus)(low, high), (R(number)){w[k], -w[length + k]});
        zr[k] = even.im + odd.re, zi[k] = even.re - odd.im;
    }
}

static void R(forward)(const bo_fft_shape *shape, const REAL *roots, const REAL *x, REAL *spectrum, REAL *workspace)
{
    size_t length = shape->length, span = shape->span;
    REAL *z = workspace;
    if (!shape->count) {
        R(multiply)(shape->n, 2 * (shape->n / 2 + 1), roots + shape->forward, x, spectrum);
        return;
    }
    if (shape->n % 2 == 0 && !shape->chirp) {
        z = R(run_stages)(shape, roots, x, z, workspace);
    } else {
        size_t step = shape->n % 2 ? 1 : 2;
        for (size_t j = 0; j < length; j++) z[j] = x[j * step];
        for (size_t j = 0; j < length; j++) z[span + j] = step == 2 ? x[2 * j + 1] : 0;
        z = R(transform)(shape, roots, z, workspace);
    }
    if (shape->n % 2 == 0) {
        z[length] = z[0], z[span + length] = z[span];
        R(untangle)(length, roots + shape->tangle, z, z + span, spectrum);
        return;
    }
    for (size_t k = 0; k <= length / 2; k++) spectrum[2 * k] = z[k], spectrum[2 * k + 1] = z[span + k];
    spectrum[1] = 0;
}

static void R(inverse)(const bo_fft_shape *shape, const REAL *roots, const REAL *spectrum, REAL *x, REAL *workspace)
{
    size_t length = shape->length, span = shape->span;
    REAL *z = workspace, factor = (REAL)(1.0 / (double)shape->n);
    if (!shape->count) {
        R(multiply)(2 * (shape->n / 2 + 1), shape->n, roots + shape->inverse, spectrum, x);
        return;
    }
    if (shape->n % 2 == 0) {
        REAL *parts = R(other_half)(shape, workspace, z);
        R(tangle)(length, factor, roots + shape->tangle, spectrum, parts, parts + span, z, z + span);
    } else { /* conjugates for the upper half; real and imaginary parts are swapped */
        z[0] = 0, z[span] = factor * spectrum[0];
        for (size_t k = 1; k <= length / 2; k++) {
            REAL re = factor * spectrum[2 * k], im = factor * spectrum[2 * k + 1];
            z[k] = im, z[length - k] = -im, z[span + k] = z[span + length - k] = re;
        }
    }
    z = R(transform)(shape, roots, z, workspace);
    if (shape->n % 2) {
        memcpy(x, z + span, length * sizeof *x);
        return;
    }
    for (size_t j = 0; j < length; j++) x[2 * j] = z[span + j], x[2 * j + 1] = z[j];
}
