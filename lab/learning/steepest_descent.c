/* steepest-descent: the steepest step depends on the norm. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "steps",
     .statement = "The minimum of g·Δ + |Δ|²/α is -(α/2) |g|* times the normalized gradient: g for ℓ2, |g|₁ sign g "
                  "for ℓ∞, the nuclear norm times UVᵀ for the spectral norm. SGD, ℓ∞ descent and Muon of the library "
                  "take these steps.",
     .number = "largest |decrease by the step of the library / (α/4) |g|*² - 1| over the norms; Muon with 30 cubic "
               "iterations",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-3,
     .passage =
         LAB_NOTES "lines 166 and 180: \"Δθ* = -(α/2) g\", \"u = -(α/2)‖g‖_1 · sign(g)\"; we add the spectral norm"},
    {.name = "search",
     .statement = "No step found by search gives a larger decrease.",
     .number = "largest decrease found divided by that of the library, over the norms",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1.001},
    {.name = "quintic",
     .statement = "The five quintic iterations of Muon, which do not converge to UVᵀ, keep 90% of the decrease.",
     .number = "decrease by its step at the best scale divided by (α/4) |g|*²",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.9},
    {.name = "linf-axes",
     .statement = "If the steep direction is a coordinate axis, ℓ∞ descent needs fewer steps than ℓ2 descent.",
     .number = "steps of ℓ2 descent divided by steps of ℓ∞ descent, each at its best rate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5},
    {.name = "linf-rotated",
     .statement =
         "Control: if the steep direction is not an axis, ℓ∞ descent does not need fewer steps than ℓ2 descent.",
     .number = "steps of ℓ2 descent divided by steps of ℓ∞ descent, inputs rotated",
     .rule = BO_LAB_AT_MOST,
     .bound = 1},
    {.name = "spectral-rotated",
     .statement = "If errors have full rank, spectral descent needs fewer steps than ℓ2 descent, for rotated inputs "
                  "too.",
     .number = "steps of ℓ2 descent divided by steps of spectral descent, inputs rotated",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5},
    {.name = "spectral-rank-one",
     .statement = "Control: for an error of rank one, where the nuclear and ℓ2 norms of the gradient are equal, "
                  "spectral descent does not need fewer steps.",
     .number = "steps of ℓ2 descent divided by steps of spectral descent, error of rank one",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1},
};

static const bo_lab_table tables[] = {
    {.name = "decrease",
     .title = "Decrease by each step in the model of each norm, each at its best scale",
     .rows = "norm",
     .values = "fraction of the largest decrease",
     .plot = BO_LAB_BARS},
    {.name = "steps",
     .title = "Steps until the loss is 1e-3 of the first, each at its best rate",
     .rows = "problem",
     .values = "steps",
     .plot = BO_LAB_BARS,
     .log_y = true},
};

enum { OUT = 8, IN = 12, SIZE = OUT * IN, EXAMPLES = 24, NORMS = 3 };
typedef enum norm { L2, LINF, SPECTRAL } norm;
static const char *const norm_names[NORMS] = {"ℓ2", "ℓ∞", "spectral"};
static const char *const step_names[NORMS] = {"g", "sign g", "UVᵀ"};

static const bo_optimizer_desc optimizers[NORMS] = {
    {.kind = BO_OPTIMIZER_SGD, .rate = 0.5, .momentum = -1}, /* α = 1 */
    {.kind = BO_OPTIMIZER_LINF, .rate = 1},                  /* the kind already includes the ½ */
    {.kind = BO_OPTIMIZER_MUON,
     .rate = 0.5,
     .momentum = -1,
     .factor = BO_MUON_FACTOR_NONE,
     .iteration = BO_MUON_ITERATION_CUBIC,
     .iterations = 30},
};

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* Largest singular value, and sum of the singular values. */
static bo_status singular_values(bo_context *context, const double *a, double *max, double *sum)
{
    double copy[SIZE], u[OUT * OUT], values[OUT], vt[SIZE];
    memcpy(copy, a, sizeof copy);
    BO_TRY(lab_svd(context, OUT, IN, copy, u, values, vt));
    *max = values[0];
    *sum = 0;
    for (size_t i = 0; i < OUT; i++) *sum += values[i];
    return BO_OK;
}

/* |a| in the norm and in its dual. */
static bo_status sizes(bo_context *context, norm kind, const double *a, double *size, double *dual)
{
    double max = 0, sum = 0;
    if (kind == SPECTRAL) return singular_values(context, a, size, dual);
    for (size_t i = 0; i < SIZE; i++) {
        max = fmax(max, fabs(a[i]));
        sum += fabs(a[i]);
    }
    *size = kind == LINF ? max : lab_norm(a, SIZE);
    *dual = kind == LINF ? sum : *size;
    return BO_OK;
}

/* Decrease of the model g·Δ + |Δ|² by the best multiple of -d: (g·d)²/4|d|². */
static bo_status decrease(bo_context *context, norm kind, const double *g, const double *d, double *out)
{
    double size, dual;
    const double dot = lab_dot(g, d, SIZE);
    BO_TRY(sizes(context, kind, d, &size, &dual));
    *out = dot > 0 ? dot * dot / (4 * size * size) : 0;
    return BO_OK;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Applies the optimizer to a zero weight with the gradient g; the step of Muon is multiplied by the nuclear norm. */
static bo_status engine_step(bo_context *context, const bo_optimizer_desc *desc, const double *g, double *step)
{
    lab_descent d;
    float numbers[SIZE];
    double max, factor = 1;
    for (size_t i = 0; i < SIZE; i++) numbers[i] = (float)g[i];
    if (desc->kind == BO_OPTIMIZER_MUON) BO_TRY(singular_values(context, g, &max, &factor));
    BO_TRY(lab_descent_weight(context, OUT, IN, desc, &d));
    bo_status status = lab_descent_apply(&d, numbers, factor);
    if (status == BO_OK) status = lab_tape_read(&d.tape, "w", numbers);
    for (size_t i = 0; i < SIZE; i++) step[i] = (double)numbers[i];
    lab_descent_close(&d);
    return status;
}

/* Decrease of the model by an unscaled step: -(g·Δ + |Δ|²). */
static bo_status decrease_as_is(bo_context *context, norm kind, const double *g, const double *step, double *out)
{
    double size, dual;
    BO_TRY(sizes(context, kind, step, &size, &dual));
    *out = -lab_dot(g, step, SIZE) - size * size;
    return BO_OK;
}

/* Hill climbing from a random direction and from the step of the library; returns the better of the two. */
static bo_status search(bo_context *context, norm kind, const double *g, const double *step, size_t tries, bo_rng *rng,
                        double *best)
{
    *best = 0;
    for (int start = 0; start < 2; start++) {
        double at[SIZE], next[SIZE], value, width = 1;
        for (size_t i = 0; i < SIZE; i++) at[i] = start ? -step[i] : bo_rng_normal(rng);
        double current, scale = lab_norm(at, SIZE) / sqrt(SIZE);
        BO_TRY(decrease(context, kind, g, at, &current));
        for (size_t t = 0; t < tries; t++) {
            for (size_t i = 0; i < SIZE; i++) next[i] = at[i] + width * scale * bo_rng_normal(rng);
            BO_TRY(decrease(context, kind, g, next, &value));
            width *= value > current ? 1.5 : 0.97;
            width = fmax(width, 1e-5);
            if (value <= current) continue;
            current = value;
            memcpy(at, next, sizeof at);
        }
        *best = fmax(*best, current);
    }
    return BO_OK;
}

static bo_status measure_steps(lab_run *run)
{
    bo_context *context = lab_context(run);
    bo_rng rng = lab_rng(run, "lab.steepest-descent");
    double g[SIZE], steps[NORMS][SIZE], quintic[SIZE], off = 0, better = 0, value, size, dual;
    for (size_t i = 0; i < SIZE; i++) g[i] = bo_rng_normal(&rng);
    for (int i = 0; i < NORMS; i++) BO_TRY(engine_step(context, &optimizers[i], g, steps[i]));
    for (int i = 0; i < NORMS; i++) {
        BO_TRY(sizes(context, (norm)i, g, &size, &dual));
        const double min_value = dual * dual / 4;
        BO_TRY(decrease_as_is(context, (norm)i, g, steps[i], &value));
        off = fmax(off, fabs(value / min_value - 1));
        double found;
        BO_TRY(search(context, (norm)i, g, steps[i], lab_size(run, 20000, 3000), &rng, &found));
        better = fmax(better, found / value);
        for (int j = 0; j < NORMS; j++) {
            double descent[SIZE];
            for (size_t k = 0; k < SIZE; k++) descent[k] = -steps[j][k];
            BO_TRY(decrease(context, (norm)i, g, descent, &value));
            lab_cell(run, "decrease", norm_names[i], step_names[j], value / min_value);
        }
    }
    bo_optimizer_desc muon = optimizers[SPECTRAL];
    muon.iteration = BO_MUON_ITERATION_QUINTIC, muon.iterations = 0;
    BO_TRY(engine_step(context, &muon, g, quintic));
    for (size_t k = 0; k < SIZE; k++) quintic[k] = -quintic[k];
    BO_TRY(decrease(context, SPECTRAL, g, quintic, &value));
    lab_claim(run, "steps", off);
    lab_claim(run, "search", better);
    lab_claim(run, "quintic", value / (dual * dual / 4)); /* dual: of the last norm, the spectral norm */
    return lab_progress(run, 0.2);
}

/* ---- complete descents ------------------------------------------------------------------------------------------- */

typedef enum problem { AXES, ROTATED, RANK_ONE, ROUND, PROBLEMS } problem;
static const char *const problem_names[PROBLEMS] = {"steep axis", "steep direction", "steep direction, rank one",
                                                    "round"};

typedef struct setting {
    lab_descent descent;
    float start[SIZE];
    norm kind;
} setting;

/* Inputs with one singular value of 1 and all others 0.1 (ROUND: all 1), along the axes or rotated. */
static bo_status draw_inputs(lab_run *run, problem kind, bo_rng *rng, float *x)
{
    lab_least_squares p;
    double scales[IN];
    for (size_t i = 0; i < IN; i++) scales[i] = i == 0 || kind == ROUND ? 1 : 0.1;
    memset(x, 0, EXAMPLES * IN * sizeof *x);
    if (kind == AXES) {
        for (size_t i = 0; i < IN; i++) x[i * IN + i] = (float)scales[i];
        return BO_OK;
    }
    BO_TRY(lab_least_squares_open(lab_context(run),
                                  &(lab_least_squares_desc){.rows = EXAMPLES, .dim = IN, .scales = scales}, rng, &p));
    memcpy(x, p.x_single, EXAMPLES * IN * sizeof *x);
    lab_least_squares_close(&p);
    return BO_OK;
}

/* Half of |X(W - W*)ᵀ|² with W* = 0, so that the weights are the errors. */
static bo_status open_setting(lab_run *run, problem what, norm kind, setting *s)
{
    bo_rng rng = lab_rng(run, "lab.steepest-descent.problem");
    static const float zeros[EXAMPLES * OUT];
    float x[EXAMPLES * IN];
    double left[OUT], right[IN];
    *s = (setting){.kind = kind};
    BO_TRY(draw_inputs(run, what, &rng, x));
    for (size_t i = 0; i < OUT; i++) left[i] = bo_rng_normal(&rng);
    for (size_t j = 0; j < IN; j++) right[j] = bo_rng_normal(&rng);
    for (size_t i = 0; i < SIZE; i++)
        s->start[i] = (float)(what == RANK_ONE ? left[i / IN] * right[i % IN] : bo_rng_normal(&rng));
    BO_TRY(lab_descent_open(lab_context(run), &s->descent));
    bo_graph *graph = s->descent.tape.graph;
    const bo_value in = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, EXAMPLES, IN);
    const bo_value zero = bo_graph_input(graph, "zero", BO_ELEMENT_FLOAT32, EXAMPLES, OUT);
    const bo_value product =
        lab_graph_linear(s->descent.tape.graph, "w", in, OUT, (bo_weight_init){BO_WEIGHT_INIT_KIND_ZERO, 0, 0});
    const bo_value loss = lab_graph_squares(s->descent.tape.graph, product, zero);
    BO_TRY(lab_descent_ready(&s->descent, loss, 0.5 * EXAMPLES * OUT, &optimizers[kind], 1));
    BO_TRY(bo_graph_write(s->descent.tape.context, graph, in, x));
    return bo_graph_write(s->descent.tape.context, graph, zero, zeros);
}

/* The nuclear norm of the gradient for Muon; otherwise 1. */
static bo_status dual_factor(setting *s, double *out)
{
    float gradient[SIZE];
    double g[SIZE], max;
    *out = 1;
    if (s->kind != SPECTRAL) return BO_OK;
    BO_TRY(lab_tape_gradient(&s->descent.tape, "w", gradient));
    for (size_t i = 0; i < SIZE; i++) g[i] = (double)gradient[i];
    return singular_values(s->descent.tape.context, g, &max, out);
}

/* Counts steps until the loss is 1e-3 of the first; `max` if it is never reached. */
static bo_status count_steps(setting *s, double alpha, size_t max, size_t *out)
{
    double first = 0, loss, factor, size;
    BO_TRY(lab_tape_write(&s->descent.tape, "w", s->start));
    *out = max;
    for (size_t t = 0; t < max; t++) {
        BO_TRY(lab_descent_gradients(&s->descent, &loss));
        if (t == 0) first = loss;
        if (loss < 1e-3 * first) *out = t;
        if (loss < 1e-3 * first || !(loss < 10 * first)) return BO_OK;
        BO_TRY(dual_factor(s, &factor));
        BO_TRY(bo_optimizer_step(s->descent.tape.context, s->descent.optimizer, alpha * factor, &size));
    }
    return BO_OK;
}

/* Tries α = 4, 4/1.4, … down to 1/200 and returns the best result. */
static bo_status best_steps(lab_run *run, problem what, norm kind, double *out)
{
    setting s;
    size_t best = lab_size(run, 2000, 1000);
    bo_status status = open_setting(run, what, kind, &s);
    for (double alpha = 4; alpha > 0.005 && status == BO_OK; alpha /= 1.4) {
        size_t steps = best;
        status = count_steps(&s, alpha, best, &steps);
        if (steps < best) best = steps;
    }
    lab_descent_close(&s.descent);
    *out = (double)best;
    lab_cell(run, "steps", problem_names[what], norm_names[kind], *out);
    return status;
}

/* ---- rank one, in float64 ---------------------------------------------------------------------------------------- */

/* G = W XᵀX; returns the loss |X Wᵀ|². */
static double exact_gradient(const float *x, const double *w, double *g)
{
    double loss = 0;
    memset(g, 0, SIZE * sizeof *g);
    for (size_t o = 0; o < OUT; o++)
        for (size_t r = 0; r < EXAMPLES; r++) {
            double dot = 0;
            for (size_t i = 0; i < IN; i++) dot += (double)x[r * IN + i] * w[o * IN + i];
            for (size_t i = 0; i < IN; i++) g[o * IN + i] += dot * (double)x[r * IN + i];
            loss += dot * dot;
        }
    return loss;
}

/* Counts steps of spectral descent from rank one, using only singular directions above `min_value` times the largest
 * singular value. */
static bo_status count_exact(lab_run *run, double alpha, double min_value, size_t max, size_t *out)
{
    setting s;
    float x[EXAMPLES * IN];
    double w[SIZE], g[SIZE], u[OUT * OUT], values[OUT], vt[SIZE], first = 0;
    bo_rng rng = lab_rng(run, "lab.steepest-descent.problem");
    const bo_status status = open_setting(run, RANK_ONE, SPECTRAL, &s);
    lab_descent_close(&s.descent);
    BO_TRY(status);
    BO_TRY(draw_inputs(run, RANK_ONE, &rng, x));
    for (size_t i = 0; i < SIZE; i++) w[i] = (double)s.start[i];
    for (*out = 0; *out < max; ++*out) {
        const double loss = exact_gradient(x, w, g);
        if (*out == 0) first = loss;
        if (loss < 1e-3 * first) break;
        BO_TRY(lab_svd(lab_context(run), OUT, IN, g, u, values, vt));
        double sum = 0;
        for (size_t k = 0; k < OUT; k++) sum += values[k] > min_value * values[0] ? values[k] : 0;
        for (size_t k = 0; k < OUT && values[k] > min_value * values[0]; k++)
            for (size_t i = 0; i < SIZE; i++) w[i] -= 0.5 * alpha * sum * u[i / IN * OUT + k] * vt[k * IN + i % IN];
    }
    return BO_OK;
}

/* Explains why spectral descent does not stay in rank one. */
static bo_status explain_rank_one(lab_run *run)
{
    const double alpha = 4 / 1.4; /* the largest of the list that is stable */
    size_t all, above;
    BO_TRY(count_exact(run, alpha, 0, 1000, &all));
    BO_TRY(count_exact(run, alpha, 1e-3, 1000, &above));
    lab_note(run,
             "Rank one: UVᵀ makes singular directions that come only from rounding as large as the first, and their "
             "values increase the nuclear norm. In float64, spectral descent takes %zu steps with all directions, and "
             "%zu with those above 1e-3 of the largest value.",
             all, above);
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    double steps[PROBLEMS][NORMS];
    BO_TRY(measure_steps(run));
    for (int what = 0; what < PROBLEMS; what++)
        for (int kind = 0; kind < NORMS; kind++) {
            BO_TRY(best_steps(run, (problem)what, (norm)kind, &steps[what][kind]));
            BO_TRY(lab_progress(run, 0.2 + 0.2 * what));
        }
    lab_claim(run, "linf-axes", steps[AXES][L2] / steps[AXES][LINF]);
    lab_claim(run, "linf-rotated", steps[ROTATED][L2] / steps[ROTATED][LINF]);
    lab_claim(run, "spectral-rotated", steps[ROTATED][L2] / steps[ROTATED][SPECTRAL]);
    lab_claim(run, "spectral-rank-one", steps[RANK_ONE][L2] / steps[RANK_ONE][SPECTRAL]);
    return explain_rank_one(run);
}

const lab_experiment lab_steepest_descent = {
    {.name = "steepest-descent",
     .group = LAB_LEARNING,
     .title = "Steepest descent in ℓ2, ℓ∞ and the spectral norm",
     .claim = "The Δ that minimizes g·Δ + |Δ|²/α is -(α/2) g in ℓ2, -(α/2) |g|₁ sign g in ℓ∞ and -(α/2) |G|_nuclear "
              "UVᵀ in the spectral norm. The fastest norm depends on the problem.",
     .source = "course notes, optimizers as steepest descent; Bernstein and Newhouse 2024, arXiv 2409.20325",
     .method = "The gradient is Gaussian, 8 x 12. SGD, ℓ∞ descent and Muon (cubic iterations to convergence, times "
               "the nuclear norm) step from zero. The decrease of the quadratic model is compared with the largest "
               "possible one, with that of the other steps, and with 20000 attempts of hill climbing from a random "
               "direction and from the step itself. Then complete descents minimize half the squares of X(W - W*)ᵀ, W "
               "8 x 12, where X has one singular value of 1 and eleven of 0.1, along the axes or rotated, and the "
               "first error is Gaussian or of rank one; and X with all singular values 1. For each norm, α is the "
               "best of 4, 4/1.4, … , 1/200. The loss must reach 1e-3 of the first within 2000 steps.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
