/* muon: the cost of orthogonalization, the limits of its iterations, the effect of gradient size, and training
 * speed. */
#include "../experiment.h"
#include <math.h>
#include <string.h>
#include <time.h>

static const bo_lab_claim claims[] = {
    {.name = "longer-side",
     .statement = "The time of a Muon update is proportional to the longer side of a matrix.",
     .number = "exponent of the time as a power of the longer side, 512 to 4096, shorter side 64",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.2},
    {.name = "transposed-first",
     .statement = "Products on the smaller side, ½W(3I - WᵀW) instead of ½(3I - WWᵀ)W for a tall W, save time in "
                  "proportion to the ratio of the sides.",
     .number = "time with products on the larger side divided by time of the update, 1024 x 64, 5 cubic iterations",
     .rule = BO_LAB_AT_LEAST,
     .bound = 8,
     .passage = LAB_NOTES "lines 294-296: \"if dout >> din, can we be faster? re-write: p(W) = ½(3I - WWᵀ)W = ½W(3I - "
                          "WᵀW)\"; we chose the speedup, because the costs on lines 284-298 have lost their exponents"},
    {.name = "cubic",
     .statement = "The cubic iteration brings all singular values to 1.",
     .number = "largest |s - 1| after 25 iterations, for s of at least 0.005 |G|",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5},
    {.name = "quintic",
     .statement =
         "The quintic iteration of Muon brings singular values of at least 0.005 |G| into [0.68, 1.16] in five steps.",
     .number = "largest distance of a singular value from this interval",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "quintic-ends",
     .statement = "The quintic iteration of Muon does not converge to UVᵀ: its coefficients are chosen for speed, and "
                  "with more iterations singular values stay away from 1.",
     .number = "largest |s - 1| after 25 iterations",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.01},
    {.name = "cubic-limit",
     .statement = "Iterating p(W) = ½(3I - WWᵀ)W ends at UVᵀ, where W = UΣVᵀ. (The singular values of W are between 0 "
                  "and √3; the source does not restrict them.)",
     .number = "|pⁿ(W) - UVᵀ| / |UVᵀ| after 40 iterations, float64, singular values from 0.01 to 1.7",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-9,
     .passage = LAB_NOTES "lines 272 and 280: \"Pⁿ(G_t) = U Pⁿ(Σ) Vᵀ = UVᵀ\", \"p(W) = ½(3I - WWᵀ)W\""},
    {.name = "cubic-outside",
     .statement = "Control: with a singular value between √3 and √5, where p changes its sign, the limit is not UVᵀ.",
     .number = "|pⁿ(W) - UVᵀ| / |UVᵀ| after 40 iterations, float64, singular values from 0.01 to 1.8",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 0.1},
    {.name = "scale",
     .statement = "Muon is invariant to the size of the gradients: gradients multiplied by 0.01, 100 or 10000 give "
                  "the same steps.",
     .number = "largest change of the weights after 5 steps, relative to their size",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .passage =
         LAB_NOTES "line 334: \"SignGD, Adam and Muon: global scale of raw gradients doesn't effect final update "
                   "direction\"; tested for Muon"},
    {.name = "faster",
     .statement = "After the same number of steps, a small language model has a lower held-out loss with Muon than "
                  "with AdamW, each at its best learning rate.",
     .number = "held-out loss with AdamW minus held-out loss with Muon, in nats per byte",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02,
     .source = "Jordan et al. 2024, Muon"},
};

static const bo_lab_table tables[] = {
    {.name = "time",
     .title = "Time of an update by longer side, shorter side 64",
     .rows = "longer side",
     .values = "milliseconds",
     .log_x = true,
     .log_y = true},
    {.name = "shorter",
     .title = "Time of an update by shorter side, longer side 1024",
     .rows = "shorter side",
     .values = "milliseconds",
     .log_x = true,
     .log_y = true,
     .theory = "5 (3r²c + r³) operations at the speed of the largest"},
    {.name = "values",
     .title = "Largest |s - 1| of the singular values by number of iterations",
     .rows = "iterations",
     .values = "largest |s - 1|",
     .log_y = true},
    {.name = "training",
     .title = "Loss of a small language model after the same number of steps",
     .rows = "learning rate relative to the default",
     .values = "held-out loss, nats per byte",
     .log_x = true},
};

/* ---- time -------------------------------------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Orthogonalizes a tall matrix with products on its longer side: ½(3I - XXᵀ)X. a: buffer of rows x rows. */
static bo_status orthogonalize_long(bo_context *context, size_t steps, size_t rows, size_t columns, float *x, float *a,
                                    float *scratch)
{
    for (size_t step = 0; step < steps; step++) {
        BO_TRY(
            lab_multiply_single(context, false, true, rows, rows, columns, -0.5f, x, columns, x, columns, 0, a, rows));
        for (size_t i = 0; i < rows; i++) a[i * rows + i] += 1.5f;
        BO_TRY(lab_multiply_single(context, false, false, rows, columns, rows, 1, a, rows, x, columns, 0, scratch,
                                   columns));
        memcpy(x, scratch, rows * columns * sizeof *x);
    }
    return BO_OK;
}

enum { SHORT = 64, LONGEST = 4096, TALL = 1024, REPEATS = 7 };

typedef struct buffers {
    float g[SHORT * LONGEST], x[SHORT * LONGEST], scratch[SHORT * LONGEST], square[TALL * TALL];
} buffers;

/* Median CPU time of this thread. */
static bo_status time_update(bo_context *context, lab_newton_schulz iteration, size_t rows, size_t columns, buffers *b,
                             double *out)
{
    double times[REPEATS];
    for (size_t i = 0; i < REPEATS; i++) {
        const double start = cpu_seconds();
        BO_TRY(lab_orthogonalize(context, iteration, 5, rows, columns, b->g, b->x));
        times[i] = cpu_seconds() - start;
    }
    *out = lab_median(times, REPEATS);
    return BO_OK;
}

static bo_status time_long(bo_context *context, buffers *b, double *out)
{
    double times[3];
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < SHORT * TALL; k++) b->x[k] = b->g[k] / sqrtf(SHORT * TALL);
        const double start = cpu_seconds();
        BO_TRY(orthogonalize_long(context, 5, TALL, SHORT, b->x, b->square, b->scratch));
        times[i] = cpu_seconds() - start;
    }
    *out = lab_median(times, 3);
    return BO_OK;
}

/* For an r x c matrix, the Gram matrix takes r²c operations, its square r³ (both symmetric: half of the products), and
 * the last product 2r²c. */
static bo_status measure_shorter(lab_run *run, buffers *b)
{
    static const double sides[] = {32, 64, 128, 256};
    enum { SIDES = LAB_COUNT_OF(sides) };
    const char *predicted = "5 (3r²c + r³) operations at the speed of the largest";
    double seconds[SIDES];
    for (size_t i = 0; i < SIDES; i++) {
        BO_TRY(time_update(lab_context(run), LAB_NEWTON_SCHULZ_QUINTIC, (size_t)sides[i], TALL, b, &seconds[i]));
        lab_point(run, "shorter", "measured", sides[i], 1e3 * seconds[i]);
    }
    const double last = sides[SIDES - 1], speed = (3 * last * last * TALL + last * last * last) / seconds[SIDES - 1];
    for (size_t i = 0; i < SIDES; i++) {
        const double r = sides[i];
        lab_point(run, "shorter", predicted, r, 1e3 * (3 * r * r * TALL + r * r * r) / speed);
    }
    return BO_OK;
}

static bo_status measure_time(lab_run *run, buffers *b)
{
    static const size_t sides[] = {64, 128, 256, 512, 1024, 2048, 4096};
    enum { FIRST = 3, SIDES = LAB_COUNT_OF(sides) };
    bo_rng rng = lab_rng(run, "lab.muon.time");
    double x[SIDES], wide[SIDES], tall, update, naive;
    lab_fill_normal(&rng, 1, SHORT * LONGEST, b->g);
    for (size_t i = 0; i < SIDES; i++) {
        x[i] = (double)sides[i];
        BO_TRY(time_update(lab_context(run), LAB_NEWTON_SCHULZ_QUINTIC, SHORT, sides[i], b, &wide[i]));
        BO_TRY(time_update(lab_context(run), LAB_NEWTON_SCHULZ_QUINTIC, sides[i], SHORT, b, &tall));
        lab_point(run, "time", "wide", x[i], 1e3 * wide[i]);
        lab_point(run, "time", "tall", x[i], 1e3 * tall);
        BO_TRY(lab_progress(run, 0.03 * (double)(i + 1)));
    }
    lab_claim(run, "longer-side", lab_exponent(x + FIRST, wide + FIRST, SIDES - FIRST));
    BO_TRY(time_update(lab_context(run), LAB_NEWTON_SCHULZ_CUBIC, TALL, SHORT, b, &update));
    BO_TRY(time_long(lab_context(run), b, &naive));
    lab_claim(run, "transposed-first", naive / update);
    return measure_shorter(run, b);
}

static bo_status measure_costs(lab_run *run)
{
    buffers *b = bo_alloc(lab_context(run), 1, sizeof *b, "matrices to time");
    if (!b) return BO_MEMORY;
    const bo_status status = measure_time(run, b);
    bo_free(b);
    return status;
}

/* ---- singular values --------------------------------------------------------------------------------------------- */

enum { ROWS = 16, COLUMNS = 32, MAX_ITERATIONS = 25 };

/* Computes the singular values of the result of the iterations on g, smallest first, into `low`. */
static bo_status values_after(bo_context *context, lab_newton_schulz iteration, size_t steps, const float *g,
                              double *low, double *high)
{
    float x[ROWS * COLUMNS];
    double a[ROWS * COLUMNS], u[ROWS * ROWS], values[ROWS], vt[ROWS * COLUMNS];
    BO_TRY(lab_orthogonalize(context, iteration, steps, ROWS, COLUMNS, g, x));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) a[i] = (double)x[i];
    BO_TRY(lab_svd(context, ROWS, COLUMNS, a, u, values, vt));
    *high = values[0];
    *low = values[ROWS - 1];
    return BO_OK;
}

static double farthest(double low, double high)
{
    return fmax(fabs(low - 1), fabs(high - 1));
}

static bo_status measure_values(lab_run *run)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, MAX_ITERATIONS};
    bo_rng rng = lab_rng(run, "lab.muon.values");
    double scales[ROWS], low, high;
    lab_least_squares p;
    lab_geometric(1, 0.0073, ROWS, scales); /* |G| = 1.44: the smallest is 0.005 of it */
    BO_TRY(lab_least_squares_open(lab_context(run),
                                  &(lab_least_squares_desc){.rows = ROWS, .dim = COLUMNS, .scales = scales}, &rng, &p));
    bo_status status = BO_OK;
    for (size_t i = 0; i < LAB_COUNT_OF(counts) && status == BO_OK; i++) {
        const double x = (double)counts[i];
        status = values_after(lab_context(run), LAB_NEWTON_SCHULZ_QUINTIC, counts[i], p.x_single, &low, &high);
        lab_point(run, "values", "quintic", x, farthest(low, high));
        if (counts[i] == 5) lab_claim(run, "quintic", fmax(0, fmax(0.68 - low, high - 1.16)));
        if (counts[i] == MAX_ITERATIONS) lab_claim(run, "quintic-ends", farthest(low, high));
        if (status == BO_OK)
            status = values_after(lab_context(run), LAB_NEWTON_SCHULZ_CUBIC, counts[i], p.x_single, &low, &high);
        lab_point(run, "values", "cubic", x, farthest(low, high));
        if (counts[i] == MAX_ITERATIONS) lab_claim(run, "cubic", farthest(low, high));
    }
    lab_note(run, "|G| = %.4f; the smallest singular value is %.4f of it.", lab_norm(p.scales, ROWS),
             p.scales[ROWS - 1] / lab_norm(p.scales, ROWS));
    lab_least_squares_close(&p);
    return status;
}

/* w (ROWS x COLUMNS) becomes p(w) = ½(3I - wwᵀ)w. */
static void cubic_step(double *w)
{
    double square[ROWS * ROWS], next[ROWS * COLUMNS] = {0};
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++)
            square[i * ROWS + j] = (i == j ? 3 : 0) - lab_dot(w + i * COLUMNS, w + j * COLUMNS, COLUMNS);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++)
            for (size_t c = 0; c < COLUMNS; c++)
                next[i * COLUMNS + c] += 0.5 * square[i * ROWS + j] * w[j * COLUMNS + c];
    memcpy(w, next, sizeof next);
}

/* |pⁿ(W) - UVᵀ| / |UVᵀ| for singular values from 0.01 to `largest`. */
static bo_status distance_from_limit(lab_run *run, double largest, double *out)
{
    enum { STEPS = 40, NUMBERS = ROWS * COLUMNS };
    bo_rng rng = lab_rng(run, "lab.muon.limit");
    double u[ROWS * ROWS], vt[NUMBERS], values[ROWS], w[NUMBERS] = {0}, limit[NUMBERS] = {0};
    lab_geometric(largest, 0.01, ROWS, values);
    BO_TRY(lab_orthonormal(lab_context(run), &rng, ROWS, ROWS, u));
    BO_TRY(lab_orthonormal(lab_context(run), &rng, ROWS, COLUMNS, vt));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < ROWS; k++)
            for (size_t c = 0; c < COLUMNS; c++) {
                limit[i * COLUMNS + c] += u[i * ROWS + k] * vt[k * COLUMNS + c];
                w[i * COLUMNS + c] += u[i * ROWS + k] * values[k] * vt[k * COLUMNS + c];
            }
    for (size_t t = 0; t < STEPS; t++) cubic_step(w);
    *out = lab_distance(w, limit, NUMBERS) / lab_norm(limit, NUMBERS);
    return BO_OK;
}

static bo_status measure_limit(lab_run *run)
{
    double inside, outside;
    BO_TRY(distance_from_limit(run, 1.7, &inside));
    BO_TRY(distance_from_limit(run, 1.8, &outside));
    lab_claim(run, "cubic-limit", inside);
    lab_claim(run, "cubic-outside", outside);
    return BO_OK;
}

/* ---- size of gradients ------------------------------------------------------------------------------------------- */

/* Computes the weights after 5 steps with Gaussian gradients of this size. */
static bo_status walk(lab_run *run, bo_optimizer_kind kind, double size, float *out)
{
    bo_rng rng = lab_rng(run, "lab.muon.gradients");
    lab_descent d;
    BO_TRY(lab_descent_weight(lab_context(run), ROWS, COLUMNS, &(bo_optimizer_desc){.kind = kind}, &d));
    bo_status status = BO_OK;
    for (size_t t = 0; t < 5 && status == BO_OK; t++) {
        lab_fill_normal(&rng, size, ROWS * COLUMNS, out);
        status = lab_descent_apply(&d, out, 1);
    }
    if (status == BO_OK) status = lab_tape_read(&d.tape, "w", out);
    lab_descent_close(&d);
    return status;
}

/* Returns the largest relative change of the weights over gradient sizes. */
static bo_status change_with_size(lab_run *run, bo_optimizer_kind kind, double *out)
{
    static const double sizes[] = {0.01, 100, 10000};
    float updates[ROWS * COLUMNS], other[ROWS * COLUMNS];
    double reference[ROWS * COLUMNS];
    *out = 0;
    BO_TRY(walk(run, kind, 1, updates));
    for (size_t i = 0; i < ROWS * COLUMNS; i++) reference[i] = (double)updates[i];
    for (size_t i = 0; i < LAB_COUNT_OF(sizes); i++) {
        BO_TRY(walk(run, kind, sizes[i], other));
        *out = fmax(*out, lab_distance_single(other, reference, ROWS * COLUMNS) / lab_norm(reference, ROWS * COLUMNS));
    }
    return BO_OK;
}

static bo_status measure_scale(lab_run *run)
{
    double muon, adamw, sign, sgd;
    BO_TRY(change_with_size(run, BO_OPTIMIZER_MUON, &muon));
    BO_TRY(change_with_size(run, BO_OPTIMIZER_ADAMW, &adamw));
    BO_TRY(change_with_size(run, BO_OPTIMIZER_SIGN, &sign));
    BO_TRY(change_with_size(run, BO_OPTIMIZER_SGD, &sgd));
    lab_claim(run, "scale", muon);
    lab_note(
        run,
        "Multiplying gradients by 0.01, 100 or 10000 changes the weights after 5 steps by at most %.2g (Muon), %.2g "
        "(AdamW), %.2g (sign) and %.2g (SGD) of their size.",
        muon, adamw, sign, sgd);
    return BO_OK;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

enum { RATES = 4 };
static const double multiples[RATES] = {0.3, 1, 3, 10};

static const struct contestant {
    const char *name;
    bo_optimizer_desc optimizer; /* with its default learning rate */
} contestants[] = {
    {"Muon", {.kind = BO_OPTIMIZER_MUON, .rate = 0.02}},
    {"AdamW", {.kind = BO_OPTIMIZER_ADAMW, .rate = 3e-3}},
    {"SGD", {.kind = BO_OPTIMIZER_SGD, .rate = 0.1}},
};
enum { CONTESTANTS = LAB_COUNT_OF(contestants) };

static bo_status train(lab_run *run, const lab_text *text, const struct contestant *entrant, double multiple,
                       double *loss)
{
    const bo_model_desc desc = {.layers = 2, .width = 32, .block.heads = 2, .context = 64};
    lab_training training = {
        .optimizer = entrant->optimizer, .batch = 8, .steps = lab_size(run, 300, 40), .eval_tokens = 8192};
    lab_trained trained;
    bo_model *model;
    training.optimizer.rate *= multiple;
    if (entrant->optimizer.kind == BO_OPTIMIZER_MUON) training.optimizer.other_rate = 3e-3 * multiple;
    BO_TRY(lab_train_new(run, &desc, text, &training, &model, &trained));
    bo_model_destroy(model);
    *loss = trained.loss;
    if (isfinite(*loss)) lab_point(run, "training", entrant->name, multiple, *loss);
    return BO_OK;
}

static bo_status measure_training(lab_run *run)
{
    lab_text text;
    double best[CONTESTANTS], loss = INFINITY;
    BO_TRY(lab_text_open(run, (size_t)1 << 18, &text));
    bo_status status = BO_OK;
    for (size_t i = 0; i < CONTESTANTS; i++) {
        best[i] = INFINITY;
        for (size_t k = 0; k < RATES && status == BO_OK; k++) {
            status = train(run, &text, &contestants[i], multiples[k], &loss);
            best[i] = fmin(best[i], loss);
            if (status == BO_OK)
                status = lab_progress(run, 0.3 + 0.7 * (double)(i * RATES + k + 1) / (CONTESTANTS * RATES));
        }
    }
    lab_text_close(&text);
    lab_claim(run, "faster", best[1] - best[0]);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_costs(run));
    BO_TRY(measure_values(run));
    BO_TRY(measure_limit(run));
    BO_TRY(measure_scale(run));
    return measure_training(run);
}

const lab_experiment lab_muon = {
    {.name = "muon",
     .group = LAB_LEARNING,
     .title = "Muon: cost, cubic and quintic iterations, invariance to gradient size",
     .claim = "Newton-Schulz iterations on the smaller side of a matrix replace an SVD. The cubic iteration converges "
              "to UVᵀ; the quintic iteration of Muon gets near it in fewer steps. The size of the gradient has no "
              "effect.",
     .source = "course notes, Newton-Schulz runtime and muP at unit scale",
     .method =
         "Times are CPU times of one thread, medians of 7, for an update with 5 iterations. For comparison, 5 cubic "
         "iterations with the 1024 x 1024 product of a 1024 x 64 matrix are timed with the GEMM of the library. "
         "Singular values: a 16 x 32 matrix with a geometric spectrum down to 0.005 of the Frobenius norm. The limit "
         "of the cubic iteration: 16 x 32 matrices with known U, V and singular values, without normalization. "
         "Gradient sizes: 5 steps with the same Gaussian gradients times 1, 0.01, 100 and 10000, without clipping. "
         "Training: a byte-level transformer with 2 layers of width 32, context 64, 8 sequences per step, 300 steps, "
         "each optimizer at 0.3, 1, 3 and 10 times its default learning rate (Muon 0.02, and 3e-3 for parameters that "
         "are not hidden matrices; AdamW 3e-3; SGD 0.1 with momentum 0.9).",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
