/* sgd-interpolation: stochastic gradient descent with a constant step, with and without a solution that fits all
 * examples. */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "geometric",
     .statement =
         "If some w fits every example, stochastic gradient descent with the constant step η* = C₁/2C₂ reduces the "
         "loss to 1e-8 of its initial value within the number of steps that the bound gives.",
     .number = "mean loss / first loss after ln 1e-8 / ln(1 - C₁²/4C₂) steps",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-8},
    {.name = "bound",
     .statement = "The mean loss stays below (1 - C₁η + C₂η²)^t times the first loss at all times, for every step η "
                  "below C₁/C₂.",
     .number = "largest mean loss / bound over times and the steps η*/2, η*, 1.5 η*, 1.9 η*",
     .rule = BO_LAB_AT_MOST,
     .bound = 1,
     .passage = LAB_NOTES "lines 86-90: \"E(L(w_(t+1)) | w_t) […] ≤ (1 - C_1 η + C_2 η²) L(w_t)\", \"if η < C_1/C_2\""},
    {.name = "exact",
     .statement = "The mean loss follows the recursion of the second moments of the error.",
     .number = "mean loss divided by its exact expectation after 100 steps with η*",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05},
    {.name = "fastest",
     .statement = "η* = C₁/2C₂ is the step of fastest convergence. (It minimizes the bound on the mean loss, which is "
                  "loose.)",
     .number = "rate of convergence with the best of 0.5, 1, 1.5, 1.9, 3, 5, 8 times η* divided by the rate with η*",
     .rule = BO_LAB_AT_MOST,
     .bound = 1.1,
     .passage =
         LAB_NOTES "line 92: \"To achieve fastest convergence, η* = C_1/2C_2\", read as the fastest convergence of "
                   "the loss and not of its bound"},
    {.name = "factor-update",
     .statement =
         "For the update w - η x xᵀw with one random example, E[A | w] = -(4/n) η |XᵀXw|², where A = 2 wᵀXᵀX Δw "
         "is the part of the change of |Xw|² that is linear in the update Δw.",
     .number = "-E[A | w] n / (η |XᵀXw|²)",
     .rule = BO_LAB_BETWEEN,
     .bound = 3.9,
     .upper = 4.1,
     .passage =
         LAB_NOTES "lines 71 and 79: \"w_(t+1) = w_t - η x_it x_itᵀ w_t\", \"E(A|w_t) = 2 w_tᵀXᵀX E[-η x_it x_itᵀ "
                   "w_t | w_t] = -(4/n) η w_tᵀXᵀXXᵀX w_t\""},
    {.name = "factor-gradient",
     .statement = "With a step along the gradient of (xᵀw)², w - 2η x xᵀw, E[A | w] = -(4/n) η |XᵀXw|².",
     .number = "-E[A | w] n / (η |XᵀXw|²)",
     .rule = BO_LAB_BETWEEN,
     .bound = 3.9,
     .upper = 4.1},
    {.name = "stalls",
     .statement = "Control: if no w fits every example, the loss stops falling.",
     .number = "excess loss in the last quarter divided by that in the previous quarter, step 0.1/mean |x|²",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.25},
    {.name = "floor",
     .statement = "If no w fits every example, the loss stops at an excess proportional to the step.",
     .number = "exponent of the excess loss as a power of the step size",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.9,
     .upper = 1.1},
};

static const bo_lab_table tables[] = {
    {.name = "loss",
     .title = "Mean loss with a constant step if every example can be fitted",
     .rows = "step",
     .values = "loss / first loss",
     .log_y = true,
     .theory = "bound at η*"},
    {.name = "rates",
     .title = "Convergence rate by step size",
     .rows = "step size / η*",
     .values = "-ln of the contraction factor per step",
     .log_x = true,
     .log_y = true,
     .theory = "bound"},
    {.name = "floor",
     .title = "Floor of the loss if no solution fits every example",
     .rows = "step size · mean |x|²",
     .values = "excess loss / minimum loss",
     .log_x = true,
     .log_y = true,
     .theory = "exact"},
};

enum { RUNS = 256, DIM = 32, MAX_ROWS = 64 };

/* ---- constants --------------------------------------------------------------------------------------------------- */

/* The constants of the course notes for the update w - η (x·w - y) x: E[A] <= -C₁ η L, E[B] <= C₂ η² L. */
typedef struct constants {
    double c1, c2, best;
} constants;

static constants constants_of(const lab_least_squares *p)
{
    const double n = (double)p->rows, smallest = p->scales[p->rank - 1];
    double largest = 0; /* |X x_i|² */
    for (size_t i = 0; i < p->rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < p->rows; k++) {
            const double dot = lab_dot(p->x + i * p->dim, p->x + k * p->dim, p->dim);
            sum += dot * dot;
        }
        largest = fmax(largest, sum);
    }
    constants c = {.c1 = 2 * smallest * smallest / n, .c2 = largest / n};
    c.best = c.c1 / (2 * c.c2);
    return c;
}

static double bound_of(const constants *c, double rate)
{
    return 1 - c->c1 * rate + c->c2 * rate * rate;
}

/* -E[A | w] n / (η |XᵀXw|²) for the update w - `factor` η x xᵀw, with the mean over all examples, for a random w. */
static double linear_factor(const lab_least_squares *p, bo_rng *rng, double factor)
{
    double w[DIM], mapped[DIM] = {0}, mean = 0; /* mapped: XᵀXw */
    for (size_t j = 0; j < p->dim; j++) w[j] = bo_rng_normal(rng);
    for (size_t i = 0; i < p->rows; i++) {
        const double *x = p->x + i * p->dim, dot = lab_dot(x, w, p->dim);
        for (size_t j = 0; j < p->dim; j++) mapped[j] += dot * x[j];
    }
    for (size_t i = 0; i < p->rows; i++) {
        const double *x = p->x + i * p->dim;
        mean += 2 * factor * lab_dot(mapped, x, p->dim) * lab_dot(x, w, p->dim) / (double)p->rows;
    }
    return mean * (double)p->rows / lab_dot(mapped, mapped, p->dim);
}

/* ---- a solution fits every example ------------------------------------------------------------------------------- */

static const double factors[] = {0.5, 1, 1.5, 1.9, 3, 5, 8};
enum { FACTORS = 7, BELOW = 4, POINTS = 15, PIECE = 100 };

/* w = 0 at the start, so e eᵀ = truth' truth'ᵀ, where truth' is the part of the truth in the span of the rows. */
static void first_moments(const lab_least_squares *p, double *s)
{
    double e[DIM] = {0};
    for (size_t k = 0; k < p->rank; k++) {
        const double *v = p->directions + k * p->dim, part = lab_dot(v, p->truth, p->dim);
        for (size_t j = 0; j < p->dim; j++) e[j] += part * v[j];
    }
    for (size_t a = 0; a < p->dim; a++)
        for (size_t b = 0; b < p->dim; b++) s[a * p->dim + b] = e[a] * e[b];
}

/* E L after `steps` steps / L at the start, and the asymptotic rate at which E L falls. */
static double exact_loss(const lab_least_squares *p, double rate, size_t steps, double *speed)
{
    double s[DIM * DIM], before = 0;
    first_moments(p, s);
    const double first = lab_moments_loss(p, s);
    for (size_t t = 0; t < steps; t++) {
        before = lab_moments_loss(p, s);
        lab_moments_next(p, NULL, 1, rate, s);
    }
    if (speed) *speed = log(before / lab_moments_loss(p, s));
    return lab_moments_loss(p, s) / first;
}

typedef struct trajectory {
    double worst; /* mean loss / bound */
    double last;  /* mean loss / first */
    double speed; /* -ln of the factor per step, from 1 to 1e-6; NAN: the loss grows */
    double early; /* mean loss / first after 100 steps */
} trajectory;

/* Records POINTS points as a column of the table, unless its name is NULL. */
static bo_status follow(lab_run *run, lab_stochastic *r, const constants *c, double factor, size_t steps,
                        const char *column, trajectory *out)
{
    const double rate = factor * c->best;
    double first, loss = 0;
    BO_TRY(lab_stochastic_begin(r, NULL));
    BO_TRY(lab_stochastic_loss(r, &first));
    *out = (trajectory){0};
    for (size_t t = 1; t <= steps; t++) {
        BO_TRY(lab_stochastic_step(r, rate));
        if (t % PIECE != 0 && t % 8 != 0 && t != steps) continue;
        BO_TRY(lab_stochastic_loss(r, &loss));
        loss /= first;
        if (!(loss < 1e3)) break;
        if (t == 100) out->early = loss;
        if (loss > 1e-6) out->speed = -log(loss) / (double)t;
        if (loss > 1e-10) out->worst = fmax(out->worst, loss / pow(bound_of(c, rate), (double)t));
        if (column && t % PIECE == 0 && t <= POINTS * PIECE)
            lab_point(run, "loss", column, (double)t, fmax(loss, 1e-14));
        if (t % 256 == 0) BO_TRY(lab_progress(run, 0));
    }
    out->last = loss;
    if (!(loss < 1)) out->speed = NAN; /* diverges */
    return BO_OK;
}

static bo_status measure_fit(lab_run *run, lab_stochastic *r)
{
    const lab_least_squares *p = r->problem;
    const constants c = constants_of(p);
    bo_rng rng = lab_rng(run, "lab.sgd-interpolation.factor");
    lab_claim(run, "factor-update", linear_factor(p, &rng, 1));
    lab_claim(run, "factor-gradient", linear_factor(p, &rng, 2));
    const size_t steps = (size_t)ceil(log(1e-8) / log(bound_of(&c, c.best)));
    double worst = 0, fastest = 0, default_speed = NAN;
    for (size_t i = 0; i < FACTORS; i++) {
        const char *column = factors[i] == 1 ? "η*" : factors[i] == 3 ? "3 η*" : factors[i] == 0.5 ? "η*/2" : NULL;
        trajectory found;
        double exact;
        BO_TRY(follow(run, r, &c, factors[i], steps, column, &found));
        exact_loss(p, factors[i] * c.best, 600, &exact);
        if (found.speed > 0) lab_point(run, "rates", "measured", factors[i], found.speed);
        if (exact > 0) lab_point(run, "rates", "exact, asymptotic", factors[i], exact);
        if (i < BELOW) {
            lab_point(run, "rates", "bound", factors[i], -log(bound_of(&c, factors[i] * c.best)));
            worst = fmax(worst, found.worst);
        }
        if (factors[i] == 1) {
            default_speed = found.speed;
            lab_claim(run, "geometric", found.last);
            lab_claim(run, "exact", found.early / exact_loss(p, c.best, 100, NULL));
        }
        fastest = fmax(fastest, found.speed);
        BO_TRY(lab_progress(run, 0.7 * (double)(i + 1) / FACTORS));
    }
    for (size_t i = 1; i <= POINTS; i++) {
        const double t = (double)(i * PIECE);
        lab_point(run, "loss", "bound at η*", t, pow(bound_of(&c, c.best), t));
    }
    lab_claim(run, "bound", worst);
    lab_claim(run, "fastest", fastest / default_speed);
    lab_note(run, "First seed: η* = %.3g, C₁ = %.3g, C₂ = %.3g; the bound gives %zu steps to 1e-8.", c.best, c.c1, c.c2,
             steps);
    return BO_OK;
}

/* ---- no solution fits every example ------------------------------------------------------------------------------ */

/* Excess of the mean loss over the minimum, relative to the minimum, over two halves of the time after an equal
 * warmup. */
static bo_status excess(lab_stochastic *r, double rate, size_t steps, const double *solution, double out[2])
{
    const double min_loss = lab_squares(r->problem, solution);
    size_t count[2] = {0};
    double loss;
    out[0] = out[1] = 0;
    BO_TRY(lab_stochastic_begin(r, solution));
    for (size_t t = 0; t < 4 * steps; t++) {
        BO_TRY(lab_stochastic_step(r, rate));
        if (t < 2 * steps || t % 16) continue;
        BO_TRY(lab_stochastic_loss(r, &loss));
        out[t >= 3 * steps] += loss / min_loss - 1;
        count[t >= 3 * steps]++;
    }
    for (size_t i = 0; i < 2; i++) out[i] /= (double)count[i];
    return BO_OK;
}

static double exact_floor(const lab_least_squares *p, double rate, size_t steps, const double *solution)
{
    double s[DIM * DIM] = {0}, left[MAX_ROWS];
    for (size_t i = 0; i < p->rows; i++) left[i] = p->y[i] - lab_dot(p->x + i * p->dim, solution, p->dim);
    for (size_t t = 0; t < steps; t++) lab_moments_next(p, left, 1, rate, s);
    return lab_moments_loss(p, s) / lab_squares(p, solution);
}

static bo_status measure_floor(lab_run *run, lab_stochastic *r)
{
    static const double parts[] = {0.025, 0.05, 0.1, 0.2};
    const lab_least_squares *p = r->problem;
    double solution[DIM], floors[LAB_COUNT_OF(parts)];
    BO_TRY(lab_ridge(lab_context(run), p, 0, NULL, solution));
    const double size = lab_dot(p->x, p->x, p->rows * p->dim) / (double)p->rows;
    const double slowest = p->scales[p->rank - 1] * p->scales[p->rank - 1] / (double)p->rows;
    for (size_t i = 0; i < LAB_COUNT_OF(parts); i++) {
        const double rate = parts[i] / size;
        const size_t steps = (size_t)ceil(1 / (rate * slowest));
        double found[2];
        BO_TRY(excess(r, rate, steps, solution, found));
        floors[i] = 0.5 * (found[0] + found[1]);
        lab_point(run, "floor", "measured", parts[i], floors[i]);
        lab_point(run, "floor", "exact", parts[i], exact_floor(p, rate, 4 * steps, solution));
        if (parts[i] == 0.1) lab_claim(run, "stalls", found[1] / found[0]);
        BO_TRY(lab_progress(run, 0.7 + 0.07 * (double)(i + 1)));
    }
    lab_claim(run, "floor", lab_exponent(parts, floors, LAB_COUNT_OF(parts)));
    return BO_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static bo_status with_problem(lab_run *run, const lab_least_squares_desc *desc,
                              bo_status (*measure_it)(lab_run *, lab_stochastic *))
{
    bo_rng rng = lab_rng(run, "lab.sgd-interpolation");
    lab_least_squares p;
    lab_stochastic r = {0};
    BO_TRY(lab_least_squares_open(lab_context(run), desc, &rng, &p));
    bo_status status =
        lab_stochastic_open(lab_context(run), &p, RUNS, 1, lab_rng(run, "lab.sgd-interpolation.examples"), &r);
    if (status == BO_OK) status = measure_it(run, &r);
    lab_stochastic_close(&r);
    lab_least_squares_close(&p);
    return status;
}

static bo_status measure(lab_run *run)
{
    double wide[16], tall[8];
    lab_geometric(1, 0.5, 16, wide);
    lab_geometric(sqrt(16), sqrt(4), 8, tall);
    BO_TRY(with_problem(run, &(lab_least_squares_desc){.rows = 16, .dim = DIM, .scales = wide}, measure_fit));
    return with_problem(run, &(lab_least_squares_desc){.rows = MAX_ROWS, .dim = 8, .scales = tall, .noise = 0.5},
                        measure_floor);
}

const lab_experiment lab_sgd_interpolation = {
    {.name = "sgd-interpolation",
     .group = LAB_LEARNING,
     .title = "Stochastic gradient descent with a constant step on problems that can be fitted exactly",
     .claim =
         "If some w fits all examples, one example at a time and a constant step suffice for geometric convergence: E "
         "L_t <= (1 - C₁η + C₂η²)^t L₀, best at η* = C₁/2C₂. Otherwise the loss stops at a floor proportional to η.",
     .source = "course notes, why stochastic gradient descent can work",
     .method =
         "First, 16 examples in 32 dimensions (singular values from 1 to 0.5) have exact targets; then 64 examples in "
         "8 dimensions have noise of standard deviation 0.5. The update w - η (x·w - y) x uses one random example per "
         "step. 256 runs start at w = 0 (with noise: at the least squares solution). C₁ = 2σ_min²/n and C₂ = max |X "
         "x_i|²/n follow from E[A] and E[B] of the course notes for this update. Expectations are computed exactly by "
         "the recursion of E[e eᵀ], e = w - w*.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
