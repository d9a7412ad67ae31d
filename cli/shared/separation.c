#include "separation.h"
#include "ranks.h"
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/model/capture.h"
#include <math.h>
#include <string.h>

enum { TOKENS = 16, SETTINGS = 24, DIRECTIONS = 4 };

typedef struct measuring {
    bo_context *context;
    const bo_model *model;
    bo_separation_desc d; /* without zeros */
    size_t places, width;
    int32_t *halves;    /* settings first halves, then settings second halves */
    int32_t *ids;       /* one first half with every second half */
    float *stream;      /* settings x tokens x width */
    double *directions; /* directions x width */
    double *values;     /* places x directions x settings x settings */
    double *singular;
} measuring;

static void close_all(const measuring *m)
{
    void *const blocks[] = {m->halves, m->ids, m->stream, m->directions, m->values, m->singular};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status open_all(measuring *m)
{
    static const char what[] = "the separation rank of a model";
    const size_t n = m->d.settings;
    m->halves = bo_alloc_raw(m->context, n * m->d.tokens, sizeof *m->halves, what);
    m->ids = bo_alloc_raw(m->context, n * m->d.tokens, sizeof *m->ids, what);
    m->stream = bo_alloc_raw(m->context, n * m->d.tokens * m->width, sizeof *m->stream, what);
    m->directions = bo_alloc_raw(m->context, m->d.directions * m->width, sizeof *m->directions, what);
    m->values = bo_alloc_raw(m->context, m->places * m->d.directions * n * n, sizeof *m->values, what);
    m->singular = bo_alloc_raw(m->context, n, sizeof *m->singular, what);
    return m->halves && m->ids && m->stream && m->directions && m->values && m->singular ? BO_OK : BO_MEMORY;
}

/* Draws halves from random positions of the text, or of random tokens, and random unit directions. */
static void draw(const measuring *m, const int32_t *ids, size_t count)
{
    const size_t half = m->d.tokens / 2;
    bo_rng rng = bo_rng_make(m->d.seed, bo_rng_stream("lab.separation", 0));
    for (size_t i = 0; i < 2 * m->d.settings; i++) {
        const size_t start = ids ? (size_t)bo_rng_below(&rng, count - half + 1) : 0;
        for (size_t t = 0; t < half; t++)
            m->halves[i * half + t] =
                ids ? ids[start + t] : (int32_t)bo_rng_below(&rng, bo_model_describe(m->model)->vocab);
    }
    for (size_t d = 0; d < m->d.directions; d++) {
        double *u = m->directions + d * m->width, squares = 0;
        for (size_t j = 0; j < m->width; j++) u[j] = bo_rng_normal(&rng), squares += u[j] * u[j];
        for (size_t j = 0; j < m->width; j++) u[j] /= sqrt(squares);
    }
}

/* ---- the matrices ------------------------------------------------------------------------------------------------ */

/* Row `a` of all matrices: the first half a with every second half. */
static bo_status fill_row(const measuring *m, bo_capture *capture, size_t a)
{
    const size_t n = m->d.settings, half = m->d.tokens / 2;
    for (size_t b = 0; b < n; b++) {
        memcpy(m->ids + b * m->d.tokens, m->halves + a * half, half * sizeof *m->ids);
        memcpy(m->ids + b * m->d.tokens + half, m->halves + (n + b) * half, half * sizeof *m->ids);
    }
    BO_TRY(bo_capture_run(m->context, capture, m->ids));
    for (size_t p = 0; p < m->places; p++) {
        BO_TRY(bo_capture_read_stream(m->context, capture, p, m->stream));
        for (size_t i = 0; i < m->d.directions * n; i++) {
            const size_t d = i / n, b = i % n;
            const float *last = m->stream + ((b + 1) * m->d.tokens - 1) * m->width;
            double dot = 0;
            for (size_t j = 0; j < m->width; j++) dot += m->directions[d * m->width + j] * (double)last[j];
            m->values[((p * m->d.directions + d) * n + a) * n + b] = dot;
        }
    }
    return bo_progress(m->context, "separation rank", (double)(a + 1), (double)n);
}

static bo_status fill(const measuring *m)
{
    bo_capture *capture;
    const bo_capture_desc desc = {.tokens = m->d.tokens, .sequences = m->d.settings, .parts = BO_CAPTURE_PART_STREAM};
    BO_TRY(bo_capture_create(m->context, m->model, &desc, &capture));
    bo_status status = BO_OK;
    for (size_t a = 0; status == BO_OK && a < m->d.settings; a++) status = fill_row(m, capture, a);
    bo_capture_destroy(capture);
    return status;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static double variance(size_t count, const double *x)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) mean += x[i] / (double)count;
    for (size_t i = 0; i < count; i++) squares += (x[i] - mean) * (x[i] - mean);
    return squares;
}

/* Subtracts the means of rows and of columns; returns the share of the variance that remains. */
static double center(size_t n, double *x)
{
    const double before = variance(n * n, x);
    for (size_t i = 0; i < n; i++) {
        double row = 0;
        for (size_t j = 0; j < n; j++) row += x[i * n + j] / (double)n;
        for (size_t j = 0; j < n; j++) x[i * n + j] -= row;
    }
    for (size_t j = 0; j < n; j++) {
        double column = 0;
        for (size_t i = 0; i < n; i++) column += x[i * n + j] / (double)n;
        for (size_t i = 0; i < n; i++) x[i * n + j] -= column;
    }
    return before > 0 ? variance(n * n, x) / before : 0;
}

/* Variance below this share is rounding error of float32. */
static const double NOISE = 1e-9;

static bo_status rank_place(const measuring *m, size_t place, bo_separation *out)
{
    const size_t n = m->d.settings;
    for (size_t d = 0; d < m->d.directions; d++) {
        double *matrix = m->values + (place * m->d.directions + d) * n * n;
        const double share = center(n, matrix), part = 1 / (double)m->d.directions;
        if (share < NOISE) continue;
        BO_TRY(bo_singular_values(m->context, n, n, matrix, m->singular));
        out->share += part * share;
        out->effective += part * bo_effective_rank(m->singular, n);
        out->within += part * (double)bo_rank_within(m->singular, n, 0.1);
    }
    return BO_OK;
}

static bo_status check(const measuring *m, const int32_t *ids, size_t count)
{
    if (m->d.tokens % 2 || m->d.tokens < 2 || m->d.settings < 2 || !m->d.directions)
        return bo_fail(m->context, BO_INVALID,
                       "separation rank: expected an even number of tokens and two settings, found %zu and %zu",
                       m->d.tokens, m->d.settings);
    if (ids && count < m->d.tokens / 2)
        return bo_fail(m->context, BO_INVALID, "separation rank: the text has %zu tokens, expected at least %zu", count,
                       m->d.tokens / 2);
    return BO_OK;
}

bo_status bo_separation_measure(bo_context *context, const bo_model *model, const int32_t *ids, size_t count,
                                const bo_separation_desc *desc, bo_separation **out)
{
    const bo_model_desc *d = bo_model_describe(model);
    measuring m = {.context = context, .model = model, .places = 1 + 2 * d->layers, .width = d->width};
    *out = NULL;
    if (desc) m.d = *desc;
    if (!m.d.tokens) m.d.tokens = d->context < TOKENS ? d->context / 2 * 2 : TOKENS;
    if (!m.d.settings) m.d.settings = SETTINGS;
    if (!m.d.directions) m.d.directions = DIRECTIONS;
    BO_TRY(check(&m, ids, count));
    bo_separation *places = bo_alloc(context, m.places, sizeof *places, "the separation rank of a model");
    bo_status status = places ? open_all(&m) : BO_MEMORY;
    if (status == BO_OK) {
        draw(&m, ids, count);
        status = fill(&m);
    }
    for (size_t p = 0; status == BO_OK && p < m.places; p++) status = rank_place(&m, p, &places[p]);
    close_all(&m);
    if (status == BO_OK)
        *out = places;
    else
        bo_free(places);
    return status;
}
