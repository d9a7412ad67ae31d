/* ssm: recurrence and convolution, powers by doubling, and overflow. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "powers.h"
#include "systems.h"

static const bo_lab_claim claims[] = {
    {.name = "forms",
     .statement =
         "A linear state-space model is a convolution: computed token by token, or by FFT with its kernel (D + CB, "
         "CAB, CA²B, …), outputs and gradients are the same, for every kind of A.",
     .number = "largest relative difference: between the two forms in outputs and gradients, and of outputs from "
               "float64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5},
    {.name = "delayed",
     .statement =
         "If the state receives the input one step later, x_(t+1) = A x_t + B u_t and y_t = C x_t + D u_t, the "
         "kernel is (D, CB, CAB, CA²B, …).",
     .number = "largest |recurrence - convolution| / largest |output|, float64, 8 states, 64 tokens",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-12,
     .passage =
         LAB_NOTES "lines 552-556 and 582-583: \"x_1 = Bu_0, x_2 = ABu_0 + Bu_1\", \"K = (0, CB, CAB, CA²B, …)\" and "
                   "\"K = (D, CB, CAB, CA²B, …)\"; the former is the case D = 0"},
    {.name = "by-length",
     .statement =
         "The FFT needs O(log L) sequential steps and the recurrence L. On one thread, which executes all of them in "
         "sequence, the length favors neither.",
     .number = "exponent of time(recurrence) / time(FFT) as a power of the length, 16 states",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.2,
     .upper = 0.2},
    {.name = "by-states",
     .statement =
         "More states favor the FFT: the recurrence computes each state at every token, the convolution computes the "
         "kernel once for all sequences.",
     .number = "time(recurrence) / time(FFT) with 64 states divided by that with 4; 16 sequences of 256 tokens",
     .rule = BO_LAB_AT_LEAST,
     .bound = 2,
     .source = "Bochner"},
    {.name = "doubling",
     .statement = "B, AB, …, A^(L-1)B can be computed by doubling, (X, A^L X) from X with log₂ L squarings of A, and "
                  "for A = I + PPᵀ with scalars only, A^L = I + PPᵀ ((1 + |P|²)^L - 1) / |P|². Both equal L single "
                  "steps.",
     .number = "largest relative difference from single steps, float64, L up to 1024",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-9,
     .passage = LAB_NOTES "lines 597-609: \"X^L = (X^(L/2), A^(L/2) X^(L/2))\", \"A^L = I + PPᵀ Σ [C(L, l) L^(l-1)]\", "
                          "\"where L = ‖P‖²\" in the power"},
    {.name = "overflow",
     .statement = "A = I + PPᵀ overflows float32 in 1000 steps if |P|² exceeds 2^(128/1000) - 1 = 0.0928.",
     .number = "smallest |P|² that overflows",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.092,
     .upper = 0.094,
     .source = "Bochner"},
    {.name = "bounded",
     .statement =
         "Control: σI + P̂P̂ᵀ with P̂ = √(1 - σ) P / √(1 + |P|²), which the library uses, never grows, for any P.",
     .number = "largest |K_t| / (|B| |C| (1 - σ)), 4096 tokens, with the initial P and with 1000 times the initial P",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1.0001,
     .source = "Bochner"},
    {.name = "closes",
     .statement =
         "Powers keep the form diagonal plus rank one only if the diagonal is a multiple of I: the power L of Λ + PQᵀ "
         "differs from Λ^L by a matrix of rank L.",
     .number = "rank of (Λ + PQᵀ)^8 - Λ^8",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 8,
     .source = "Bochner"},
};

static const bo_lab_table tables[] = {
    {.name = "length",
     .title = "Forward and backward pass of 16 channels with 16 states, one thread",
     .rows = "tokens",
     .values = "µs per token",
     .log_x = true,
     .log_y = true},
    {.name = "states",
     .title = "Forward and backward pass of 16 sequences of 256 tokens, 16 channels, one thread",
     .rows = "states",
     .values = "µs per token",
     .log_x = true,
     .log_y = true},
    {.name = "powers",
     .title = "B, AB, …, A^(L-1)B for a dense A with 32 states",
     .rows = "L",
     .values = "sequential products; µs on one thread",
     .log_x = true,
     .log_y = true},
    {.name = "rank", .title = "Rank of A^L - Λ^L, 16 states", .rows = "L", .values = "rank", .theory = "L"},
};

enum { CHANNELS = 16, TOKENS = 512 };

/* ---- the two forms ----------------------------------------------------------------------------------------------- */

typedef struct layer {
    lab_tape tape;
    float *u, *y, *gradient; /* at most TOKENS x CHANNELS */
} layer;

static bo_status open_layer(lab_run *run, const lab_systems_desc *desc, size_t tokens, layer *l)
{
    bo_rng rng = lab_rng(run, "lab.ssm.inputs");
    BO_TRY(lab_tape_open(lab_context(run), &l->tape));
    bo_value u = lab_tape_leaf(&l->tape, "u", tokens, CHANNELS);
    BO_TRY(lab_tape_plan(&l->tape, lab_systems(l->tape.graph, "ssm", u, desc), lab_seed(run)));
    l->u = bo_alloc(lab_context(run), 3 * tokens * CHANNELS, sizeof(float), "a sequence");
    if (!l->u) return BO_MEMORY;
    l->y = l->u + tokens * CHANNELS, l->gradient = l->y + tokens * CHANNELS;
    lab_fill_normal(&rng, 1, tokens * CHANNELS, l->u);
    lab_fill_normal(&rng, 1, tokens * CHANNELS, l->y);
    BO_TRY(lab_tape_write(&l->tape, "u", l->u));
    return lab_tape_write(&l->tape, LAB_ARRIVING, l->y);
}

static void close_layer(layer *l)
{
    lab_tape_close(&l->tape);
    bo_free(l->u);
    *l = (layer){.u = NULL};
}

static double relative(const float *a, const float *b, size_t count)
{
    double squares = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double difference = (double)a[i] - (double)b[i];
        squares += difference * difference, size += (double)a[i] * (double)a[i];
    }
    return sqrt(squares / size);
}

/* Compares the outputs of the layer with the same systems in float64. */
static bo_status error_of(layer *l, bo_ssm kind, double *worst)
{
    double u[TOKENS], y[TOKENS], squares = 0, size = 0;
    lab_system system;
    for (size_t c = 0; c < CHANNELS; c++) {
        BO_TRY(lab_system_of(&l->tape, "ssm", kind, CHANNELS, c, &system));
        for (size_t t = 0; t < TOKENS; t++) u[t] = (double)l->u[t * CHANNELS + c];
        lab_system_run(&system, TOKENS, u, y);
        for (size_t t = 0; t < TOKENS; t++) {
            const double difference = y[t] - (double)l->y[t * CHANNELS + c];
            squares += difference * difference, size += y[t] * y[t];
        }
    }
    *worst = fmax(*worst, sqrt(squares / size));
    return BO_OK;
}

static bo_status run_form(lab_run *run, bo_ssm kind, bo_ssm_form form, layer *l, double *worst)
{
    const lab_systems_desc desc = {
        .kind = kind, .form = form, .channels = CHANNELS, .size = LAB_SYSTEM_STATES, .tokens = TOKENS};
    BO_TRY(open_layer(run, &desc, TOKENS, l));
    BO_TRY(lab_tape_run(&l->tape, NULL));
    BO_TRY(lab_tape_output(&l->tape, l->y));
    BO_TRY(lab_tape_gradient(&l->tape, "u", l->gradient));
    return error_of(l, kind, worst);
}

/* Compares the gradients of the parameters that both forms have, one row per channel. */
static bo_status compare_parameters(layer *a, layer *b, double *worst)
{
    float one[CHANNELS * 2 * LAB_SYSTEM_STATES], two[CHANNELS * 2 * LAB_SYSTEM_STATES];
    static const char *const names[] = {"ssm.log_step", "ssm.c", "ssm.a", "ssm.w", "ssm.p", "ssm.q", "ssm.b", "ssm.d"};
    for (size_t i = 0; i < LAB_COUNT_OF(names); i++) {
        const bo_weight *weight = bo_weights_find(a->tape.weights, names[i]);
        if (!weight) continue;
        BO_TRY(lab_tape_gradient(&a->tape, names[i], one));
        BO_TRY(lab_tape_gradient(&b->tape, names[i], two));
        *worst = fmax(*worst, relative(one, two, weight->rows * weight->columns));
    }
    return BO_OK;
}

static bo_status measure_forms(lab_run *run)
{
    double worst = 0;
    for (int kind = 0; kind < BO_SSM_COUNT; kind++) {
        layer steps = {.u = NULL}, kernel = {.u = NULL};
        bo_status status = run_form(run, (bo_ssm)kind, BO_SSM_FORM_RECURRENT, &steps, &worst);
        if (status == BO_OK) status = run_form(run, (bo_ssm)kind, BO_SSM_FORM_CONVOLUTION, &kernel, &worst);
        if (status == BO_OK) {
            worst = fmax(worst, relative(steps.y, kernel.y, TOKENS * CHANNELS));
            worst = fmax(worst, relative(steps.gradient, kernel.gradient, TOKENS * CHANNELS));
            status = compare_parameters(&steps, &kernel, &worst);
        }
        close_layer(&steps);
        close_layer(&kernel);
        BO_TRY(status);
    }
    lab_claim(run, "forms", worst);
    return lab_progress(run, 0.1);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

enum { REPEATS = 9 };

typedef struct timing {
    size_t states, tokens, sequences;
} timing;

static bo_status time_once(layer *l, double *seconds)
{
    const double start = lab_thread_seconds();
    BO_TRY(lab_tape_run(&l->tape, NULL));
    *seconds = lab_thread_seconds() - start;
    return BO_OK;
}

/* Measures the two forms alternately, so that other load on the host affects both. The first measurement warms up. */
static bo_status time_forms(lab_run *run, const timing *t, layer *forms, double *medians)
{
    double seconds[2][REPEATS + 1];
    for (size_t f = 0; f < 2; f++) {
        const lab_systems_desc desc = {.form = f ? BO_SSM_FORM_CONVOLUTION : BO_SSM_FORM_RECURRENT,
                                       .channels = CHANNELS,
                                       .size = t->states,
                                       .tokens = t->tokens};
        BO_TRY(open_layer(run, &desc, t->tokens * t->sequences, &forms[f]));
    }
    for (size_t i = 0; i <= REPEATS; i++)
        for (size_t f = 0; f < 2; f++) BO_TRY(time_once(&forms[f], &seconds[f][i]));
    for (size_t f = 0; f < 2; f++) medians[f] = lab_median(seconds[f] + 1, REPEATS);
    return BO_OK;
}

/* time(recurrence) / time(FFT). */
static bo_status time_ratio(lab_run *run, const timing *t, const char *table, size_t x, double *ratio)
{
    layer forms[2] = {{.u = NULL}, {.u = NULL}};
    double medians[2];
    const bo_status status = time_forms(run, t, forms, medians);
    close_layer(&forms[0]);
    close_layer(&forms[1]);
    BO_TRY(status);
    lab_point(run, table, "token by token", (double)x, 1e6 * medians[0] / (double)(t->tokens * t->sequences));
    lab_point(run, table, "FFT", (double)x, 1e6 * medians[1] / (double)(t->tokens * t->sequences));
    *ratio = medians[0] / medians[1];
    return BO_OK;
}

static bo_status measure_time(lab_run *run)
{
    enum { MAX_LENGTHS = 8 };
    double lengths[MAX_LENGTHS], ratios[MAX_LENGTHS], few = 0, many = 0;
    size_t count = 0;
    for (size_t tokens = 256; tokens <= lab_size(run, 16384, 4096); tokens *= 2, count++) {
        lengths[count] = (double)tokens;
        BO_TRY(time_ratio(run, &(timing){16, tokens, 1}, "length", tokens, &ratios[count]));
        BO_TRY(lab_progress(run, 0.2 + 0.05 * (double)count));
    }
    lab_claim(run, "by-length", lab_exponent(lengths, ratios, count));
    for (size_t states = 4; states <= lab_size(run, 256, 64); states *= 2) {
        double ratio;
        BO_TRY(time_ratio(run, &(timing){states, 256, 16}, "states", states, &ratio));
        if (states == 4) few = ratio;
        if (states == 64) many = ratio;
    }
    lab_claim(run, "by-states", many / few);
    return lab_progress(run, 0.7);
}

/* ---- powers ------------------------------------------------------------------------------------------------------ */

enum { STATES = 32, MAX_POWER = 1024, SQUARE = STATES * STATES };

typedef struct powers {
    double a[SQUARE], b[STATES], scratch[2 * SQUARE];
    double steps[MAX_POWER * STATES], doubled[MAX_POWER * STATES];
} powers;

/* Q diag(λ) Qᵀ with λ from 0.9 to 0.999. */
static bo_status draw_powers(lab_run *run, bo_rng *rng, powers *p)
{
    double q[SQUARE];
    BO_TRY(lab_orthonormal(lab_context(run), rng, STATES, STATES, q));
    for (size_t k = 0; k < STATES; k++) {
        const double value = 0.9 + 0.099 * (double)k / (STATES - 1);
        for (size_t i = 0; i < SQUARE; i++) p->a[i] += value * q[k * STATES + i / STATES] * q[k * STATES + i % STATES];
    }
    for (size_t i = 0; i < STATES; i++) p->b[i] = bo_rng_normal(rng);
    return BO_OK;
}

static double difference(const double *a, const double *b, size_t count)
{
    return lab_distance(a, b, count) / lab_norm(a, count);
}

/* Compares powers of I + PPᵀ with steps of the same matrix. |P|² is small enough to prevent overflow. */
static bo_status closed_error(lab_run *run, bo_rng *rng, powers *p, double *worst)
{
    enum { LENGTH = 200 };
    double direction[STATES], closed[STATES];
    for (size_t i = 0; i < STATES; i++) direction[i] = 0.1 * bo_rng_normal(rng);
    for (size_t i = 0; i < SQUARE; i++)
        p->scratch[i] = direction[i / STATES] * direction[i % STATES] + (i / STATES == i % STATES ? 1 : 0);
    BO_TRY(lab_powers_steps(lab_context(run), STATES, p->scratch, p->b, LENGTH + 1, p->steps));
    lab_powers_closed(STATES, direction, p->b, LENGTH, closed);
    *worst = fmax(*worst, difference(p->steps + LENGTH * STATES, closed, STATES));
    return BO_OK;
}

static bo_status show_powers(lab_run *run, powers *p, size_t length, double *worst)
{
    bo_context *context = lab_context(run);
    double seconds[2][REPEATS];
    for (size_t i = 0; i < REPEATS; i++) {
        const double start = lab_thread_seconds();
        BO_TRY(lab_powers_steps(context, STATES, p->a, p->b, length, p->steps));
        const double middle = lab_thread_seconds();
        BO_TRY(lab_powers_doubling(context, STATES, p->a, p->b, length, p->scratch, p->doubled));
        seconds[0][i] = middle - start, seconds[1][i] = lab_thread_seconds() - middle;
    }
    *worst = fmax(*worst, difference(p->steps, p->doubled, length * STATES));
    const double x = (double)length;
    lab_point(run, "powers", "sequential, steps", x, x - 1);
    lab_point(run, "powers", "sequential, doubling", x, log2(x));
    lab_point(run, "powers", "µs, steps", x, 1e6 * lab_median(seconds[0], REPEATS));
    lab_point(run, "powers", "µs, doubling", x, 1e6 * lab_median(seconds[1], REPEATS));
    return BO_OK;
}

static bo_status measure_powers(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.ssm.powers");
    double worst = 0;
    powers *p = bo_alloc(lab_context(run), 1, sizeof *p, "powers of a matrix");
    bo_status status = p ? draw_powers(run, &rng, p) : BO_MEMORY;
    for (size_t length = 16; status == BO_OK && length <= MAX_POWER; length *= 2)
        status = show_powers(run, p, length, &worst);
    if (status == BO_OK) status = closed_error(run, &rng, p, &worst);
    bo_free(p);
    BO_TRY(status);
    lab_claim(run, "doubling", worst);
    return lab_progress(run, 0.9);
}

/* ---- overflow ---------------------------------------------------------------------------------------------------- */

/* Returns whether a state that starts along P with norm 1 stays within float32 after 1000 steps of I + PPᵀ in
 * float32. */
static bool survives(const double *direction, double square)
{
    enum { STEPS = 1000 };
    float p[STATES], s[STATES], along = 0;
    for (size_t i = 0; i < STATES; i++) p[i] = (float)(sqrt(square) * direction[i]), s[i] = (float)direction[i];
    for (size_t k = 0; k <= STEPS; k++) {
        along = 0;
        for (size_t i = 0; i < STATES; i++) along += p[i] * s[i];
        for (size_t i = 0; k < STEPS && i < STATES; i++) s[i] += p[i] * along;
    }
    return (double)along / sqrt(square) <= (double)FLT_MAX; /* false for NaN */
}

static void measure_overflow(lab_run *run)
{
    double direction[STATES], low = 0, high = 1;
    bo_rng rng = lab_rng(run, "lab.ssm.overflow");
    for (size_t i = 0; i < STATES; i++) direction[i] = bo_rng_normal(&rng);
    const double norm = lab_norm(direction, STATES);
    for (size_t i = 0; i < STATES; i++) direction[i] /= norm;
    for (int i = 0; i < 20; i++) {
        const double middle = (low + high) / 2;
        *(survives(direction, middle) ? &low : &high) = middle;
    }
    lab_claim(run, "overflow", high);
}

/* Computes the impulse response of every channel, without the contribution of D to the first number, relative to its
 * bound. */
static bo_status response(lab_run *run, double factor, layer *l, double *worst)
{
    enum { LONG = 4096 };
    const lab_systems_desc desc = {
        .kind = BO_SSM_CLOSED, .channels = CHANNELS, .size = LAB_SYSTEM_STATES, .tokens = LONG};
    float p[CHANNELS * LAB_SYSTEM_STATES];
    BO_TRY(open_layer(run, &desc, LONG, l));
    BO_TRY(lab_tape_read(&l->tape, "ssm.p", p));
    for (size_t i = 0; i < CHANNELS * LAB_SYSTEM_STATES; i++) p[i] *= (float)factor;
    BO_TRY(lab_tape_write(&l->tape, "ssm.p", p));
    for (size_t i = 0; i < LONG * CHANNELS; i++) l->u[i] = i < CHANNELS ? 1 : 0;
    BO_TRY(lab_tape_write(&l->tape, "u", l->u));
    BO_TRY(lab_tape_run(&l->tape, NULL));
    BO_TRY(lab_tape_output(&l->tape, l->y));
    for (size_t c = 0; c < CHANNELS; c++) {
        lab_system system;
        double b = 0, out = 0;
        BO_TRY(lab_system_of(&l->tape, "ssm", BO_SSM_CLOSED, CHANNELS, c, &system));
        for (size_t i = 0; i < LAB_SYSTEM_STATES; i++)
            b += (double)(system.b[i] * system.b[i]), out += (double)(system.c[i] * system.c[i]);
        for (size_t t = 1; t < LONG; t++) *worst = fmax(*worst, fabs((double)l->y[t * CHANNELS + c]) / sqrt(b * out));
    }
    return BO_OK;
}

static bo_status measure_bounded(lab_run *run)
{
    double worst = 0;
    for (double factor = 1; factor <= 1000; factor *= 1000) {
        layer l = {.u = NULL};
        const bo_status status = response(run, factor, &l, &worst);
        close_layer(&l);
        BO_TRY(status);
    }
    lab_claim(run, "bounded", worst);
    return BO_OK;
}

/* ---- a state that receives the input one step later -------------------------------------------------------------- */

/* out = A v */
static void apply(size_t n, const double *a, const double *v, double *out)
{
    for (size_t i = 0; i < n; i++) out[i] = lab_dot(a + i * n, v, n);
}

static void measure_delayed(lab_run *run)
{
    enum { SIZE = 8, LENGTH = 64 };
    double a[SIZE * SIZE], b[SIZE], c[SIZE], d, u[LENGTH], kernel[LENGTH], x[SIZE] = {0}, next[SIZE];
    double worst = 0, size = 0;
    bo_rng rng = lab_rng(run, "lab.ssm.delayed");
    for (size_t i = 0; i < SIZE * SIZE; i++) a[i] = 0.3 * bo_rng_normal(&rng); /* spectral radius about 0.85 */
    for (size_t i = 0; i < SIZE; i++) b[i] = bo_rng_normal(&rng), c[i] = bo_rng_normal(&rng);
    for (size_t t = 0; t < LENGTH; t++) u[t] = bo_rng_normal(&rng);
    kernel[0] = d = bo_rng_normal(&rng);
    double power[SIZE]; /* A^(t - 1) B */
    memcpy(power, b, sizeof b);
    for (size_t t = 1; t < LENGTH; t++) {
        kernel[t] = lab_dot(c, power, SIZE);
        apply(SIZE, a, power, next);
        memcpy(power, next, sizeof next);
    }
    for (size_t t = 0; t < LENGTH; t++) {
        const double y = lab_dot(c, x, SIZE) + d * u[t];
        double sum = 0;
        for (size_t l = 0; l <= t; l++) sum += kernel[l] * u[t - l];
        worst = fmax(worst, fabs(y - sum));
        size = fmax(size, fabs(y));
        apply(SIZE, a, x, next);
        for (size_t i = 0; i < SIZE; i++) x[i] = next[i] + b[i] * u[t];
    }
    lab_claim(run, "delayed", worst / size);
}

/* ---- form of the powers ------------------------------------------------------------------------------------------ */

static bo_status measure_ranks(lab_run *run)
{
    enum { FEW = 16, LENGTHS = 8 };
    double spread[FEW], same[FEW], p[FEW], q[FEW], kept[LENGTHS], lost[LENGTHS];
    bo_rng rng = lab_rng(run, "lab.ssm.ranks");
    for (size_t i = 0; i < FEW; i++) {
        spread[i] = -0.95 + 1.9 * (double)i / (FEW - 1), same[i] = 0.9;
        p[i] = 0.25 * bo_rng_normal(&rng), q[i] = 0.25 * bo_rng_normal(&rng);
    }
    BO_TRY(lab_powers_ranks(lab_context(run), FEW, same, p, p, LENGTHS, kept));
    BO_TRY(lab_powers_ranks(lab_context(run), FEW, spread, p, q, LENGTHS, lost));
    for (size_t i = 0; i < LENGTHS; i++) {
        const double length = (double)(i + 1);
        lab_point(run, "rank", "0.9 I + PPᵀ", length, kept[i]);
        lab_point(run, "rank", "Λ + PQᵀ", length, lost[i]);
        lab_point(run, "rank", "L", length, length);
    }
    lab_claim(run, "closes", lost[LENGTHS - 1]);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_forms(run));
    measure_delayed(run);
    BO_TRY(measure_time(run));
    BO_TRY(measure_powers(run));
    measure_overflow(run);
    BO_TRY(measure_bounded(run));
    return measure_ranks(run);
}

const lab_experiment lab_ssm = {
    {.name = "ssm",
     .group = LAB_ARCHITECTURES,
     .title = "State-space models: recurrence, convolution, powers",
     .claim = "A linear state-space model can run token by token or as one convolution. Powers of A can be computed by "
              "doubling. A diagonal plus low-rank A must be kept from growing.",
     .source = "course notes, SSM as kernel; SSM as convolution kernel",
     .method = "The state-space layers of the library with 16 channels are used as initialized, in both forms. "
               "Agreement: 8 states, 512 normal inputs and all three kinds of A, compared with a recurrence in float64 "
               "with the same parameters, and in float64 for a state that receives the input one step later. Time: CPU "
               "time of one thread for a forward and backward pass, the two forms measured alternately, median of 9, "
               "for 256 to 16384 tokens of one sequence and for 4 to 256 states. Powers: a dense symmetric A with "
               "eigenvalues from 0.9 to 0.999, in float64. The overflow of I + PPᵀ is found by bisection on |P|². "
               "Ranks count singular values above 10⁻¹⁰ of the largest.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
