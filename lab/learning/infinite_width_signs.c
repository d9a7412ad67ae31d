/* infinite-width: sign steps on frozen features, and the selection of features by training. */
#include "infinite_width.h"
#include "stopping.h"
#include <math.h>

/* ---- directions -------------------------------------------------------------------------------------------------- */

/* A sign step changes weight p by -sign Σ_i c_i φ_p(x_i), and therefore the function at x by the mean over p of φ_p(x)
 * sign Σ_i c_i φ_p(x_i), times a rate. */
enum { DIM = 20, TRAINING = 16, QUERIES = 32, ALL = TRAINING + QUERIES, SIZES = 5 };

typedef struct field {
    double x[ALL][DIM], c[TRAINING];
    double moved[QUERIES]; /* sums over the features so far */
    size_t features;
} field;

static void draw_field(field *f, bo_rng *rng)
{
    for (size_t r = 0; r < ALL; r++)
        for (size_t i = 0; i < DIM; i++) f->x[r][i] = bo_rng_normal(rng);
    for (size_t r = 0; r < TRAINING; r++) f->c[r] = bo_rng_normal(rng);
}

static void add_feature(field *f, const double phi[ALL])
{
    double pull = 0;
    for (size_t r = 0; r < TRAINING; r++) pull += f->c[r] * phi[r];
    const double sign = pull > 0 ? 1 : pull < 0 ? -1 : 0;
    for (size_t r = 0; r < QUERIES; r++) f->moved[r] += sign * phi[TRAINING + r];
    f->features++;
}

static void add_gaussian(field *f, bo_rng *rng)
{
    double w[DIM], phi[ALL];
    for (size_t i = 0; i < DIM; i++) w[i] = bo_rng_normal(rng);
    for (size_t r = 0; r < ALL; r++) {
        phi[r] = 0;
        for (size_t i = 0; i < DIM; i++) phi[r] += w[i] * f->x[r][i];
    }
    add_feature(f, phi);
}

/* Adds all features of one hidden unit: its activation and the gradients of its weights. */
static void add_unit(field *f, bo_rng *rng)
{
    double w[DIM], dots[ALL], phi[ALL];
    const double a = bo_rng_normal(rng);
    for (size_t i = 0; i < DIM; i++) w[i] = bo_rng_normal(rng);
    for (size_t r = 0; r < ALL; r++) {
        dots[r] = 0;
        for (size_t i = 0; i < DIM; i++) dots[r] += w[i] * f->x[r][i];
        phi[r] = fmax(0, dots[r]);
    }
    add_feature(f, phi);
    for (size_t i = 0; i < DIM; i++) {
        for (size_t r = 0; r < ALL; r++) phi[r] = dots[r] > 0 ? a * f->x[r][i] : 0;
        add_feature(f, phi);
    }
}

/* Computes K(x, X) c for inner products or for the tangent kernel; returns cᵀKc. */
static double kernel_direction(const field *f, bool tangent, double out[QUERIES])
{
    const double pi = acos(-1);
    double quadratic = 0;
    for (size_t r = 0; r < ALL; r++) {
        double sum = 0;
        for (size_t k = 0; k < TRAINING; k++) {
            double dot = 0, rr = 0, kk = 0;
            for (size_t i = 0; i < DIM; i++) {
                dot += f->x[r][i] * f->x[k][i];
                rr += f->x[r][i] * f->x[r][i];
                kk += f->x[k][i] * f->x[k][i];
            }
            const double size = sqrt(rr * kk), cosine = fmax(-1, fmin(1, dot / size)), angle = acos(cosine);
            const double value = tangent ? size * (sin(angle) + 2 * (pi - angle) * cosine) / (2 * pi) : dot;
            sum += value * f->c[k];
        }
        if (r < TRAINING)
            quadratic += f->c[r] * sum;
        else
            out[r - TRAINING] = sum;
    }
    return quadratic;
}

/* |moved - scale direction| / |scale direction|; for scale 0, the sine of the angle between them. */
static double difference(const field *f, const double direction[QUERIES], double scale)
{
    double mm = 0, dd = 0, md = 0;
    for (size_t r = 0; r < QUERIES; r++) {
        const double moved = f->moved[r] / (double)f->features;
        mm += moved * moved;
        dd += direction[r] * direction[r];
        md += moved * direction[r];
    }
    if (scale == 0) return sqrt(fmax(0, 1 - md * md / (mm * dd)));
    return sqrt(fmax(0, mm - 2 * scale * md + scale * scale * dd) / (scale * scale * dd));
}

/* Adds the differences for one set of examples, by number of features, to the sums. */
static void measure_field(bo_rng *rng, const double counts[SIZES], double differences[SIZES], double sines[SIZES])
{
    field gaussian = {0}, tangent;
    double toward[QUERIES], toward_tangent[QUERIES];
    draw_field(&gaussian, rng);
    tangent = gaussian;
    const double quadratic = kernel_direction(&gaussian, false, toward);
    kernel_direction(&tangent, true, toward_tangent);
    for (size_t i = 0; i < SIZES; i++) {
        while ((double)gaussian.features < counts[i]) add_gaussian(&gaussian, rng);
        while ((double)tangent.features < counts[i]) add_unit(&tangent, rng);
        differences[i] += difference(&gaussian, toward, sqrt(2 / acos(-1) / quadratic));
        sines[i] += difference(&tangent, toward_tangent, 0);
    }
}

bo_status lab_infinite_width_signs(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.infinite-width.signs");
    const size_t fields = lab_size(run, 16, 2);
    double counts[SIZES], differences[SIZES] = {0}, sines[SIZES] = {0};
    for (size_t i = 0; i < SIZES; i++) counts[i] = (double)((size_t)256 << (2 * i));
    for (size_t f = 0; f < fields; f++) {
        measure_field(&rng, counts, differences, sines);
        BO_TRY(lab_progress(run, 0.05 * (double)(f + 1) / (double)fields));
    }
    for (size_t i = 0; i < SIZES; i++) {
        differences[i] /= (double)fields;
        sines[i] /= (double)fields;
        lab_point(run, "signs", "Gaussian features", counts[i], differences[i]);
        lab_point(run, "signs", "tangent features (sine of the angle)", counts[i], sines[i]);
    }
    lab_claim(run, "gaussian", lab_exponent(counts, differences, SIZES));
    lab_claim(run, "tangent-signs", sines[SIZES - 1]);
    return BO_OK;
}

/* ---- selection --------------------------------------------------------------------------------------------------- */

enum { FEATURES = 1024, RELEVANT = 8, EXAMPLES = 200, ROWS = 4 * EXAMPLES };

static void draw_examples(lab_run *run, lab_examples *e)
{
    bo_rng rng = lab_rng(run, "lab.infinite-width.selection");
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (size_t i = 0; i < FEATURES; i++) {
            e->x[r * FEATURES + i] = (float)bo_rng_normal(&rng);
            if (i < RELEVANT) sum += (double)e->x[r * FEATURES + i];
        }
        e->y[r] = (float)(sum / sqrt(RELEVANT));
    }
}

static bo_status select(lab_run *run, const lab_examples *e, double shares[3])
{
    static const struct {
        const char *name;
        bo_optimizer_kind kind;
        double rate;
    } methods[3] = {{"gradient descent", BO_OPTIMIZER_SGD, 1e-3},
                    {"Adam", BO_OPTIMIZER_ADAMW, 1e-4},
                    {"signs", BO_OPTIMIZER_SIGN, 1e-4}};
    for (size_t i = 0; i < 3; i++) {
        const lab_stopping desc = {.examples = e,
                                   .inputs = e->x,
                                   .width = FEATURES,
                                   .record = lab_record_linear,
                                   .kind = methods[i].kind,
                                   .rate = methods[i].rate,
                                   .rates = 4,
                                   .steps = lab_size(run, 400, 100),
                                   .relevant = RELEVANT};
        lab_stopped out;
        BO_TRY(lab_stop(run, &desc, &out));
        lab_cell(run, "selection", methods[i].name, "test error", out.test);
        lab_cell(run, "selection", methods[i].name, "fraction of squared weights on relevant features", out.share);
        shares[i] = out.share;
    }
    return BO_OK;
}

bo_status lab_infinite_width_selection(lab_run *run)
{
    lab_examples e = {.dim = FEATURES, .train = EXAMPLES, .valid = EXAMPLES, .test = ROWS - 2 * EXAMPLES};
    double shares[3];
    e.x = bo_alloc(lab_context(run), ROWS * FEATURES, sizeof *e.x, "features");
    e.y = bo_alloc(lab_context(run), ROWS, sizeof *e.y, "targets");
    bo_status status = e.x && e.y ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        draw_examples(run, &e);
        status = select(run, &e, shares);
    }
    bo_free(e.x);
    bo_free(e.y);
    if (status == BO_OK) lab_claim(run, "selection", shares[1] / shares[0]);
    return status;
}
