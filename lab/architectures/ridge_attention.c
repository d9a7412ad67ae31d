/* ridge-attention: queries that share one pool of keys and values (ridge_pool.c), and a memory that is refitted at
 * every token. o_t = G_tᵀ (H_t + Λ)⁻¹ q_t, H_t = g H_{t-1} + k_t k_tᵀ, G_t = g G_{t-1} + k_t v_tᵀ. */
#include "ridge_pool.h"
#include "ridge_time.h"
#include <bochner/attention.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "sherman-morrison",
     .statement = "Without decay, a rank-1 update of (H + Λ)⁻¹ at every token gives the same outputs as a refit from "
                  "scratch.",
     .number = "largest |difference| / |refit| of the outputs, float64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-9,
     .passage = LAB_NOTES "lines 657-661: \"a nice trick: Sherman-Morrison Formula\""},
    {.name = "engine",
     .statement =
         "The ridge attention of the library gives the same outputs as a refit, without decay (rotations of a factor "
         "of H + Λ) and with decay and constant Λ (conjugate gradients).",
     .number = "largest |difference| / |refit| of the outputs, float32, with and without decay",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .source = "recursive least squares by QR; MesaNet, arXiv 2506.05233"},
    {.name = "square",
     .statement = "The cost per token is at most O(d²), for keys and values of dimension d.",
     .number = "exponent of the time per token as a power of d, d = 32 to 256",
     .rule = BO_LAB_AT_MOST,
     .bound = 2.4,
     .passage = LAB_NOTES "lines 657-661: \"if U, V are two d-dimension vector and M ∈ R^(d×d), O(d²)\""},
    {.name = "length",
     .statement = "The cost per token does not grow with the sequence length.",
     .number = "time per token after 20,000 tokens divided by time per token after one, d = 64",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.25},
    {.name = "decay",
     .statement = "With decay and constant Λ, a rank-1 update is not the refit, because Λ decays too.",
     .number = "|difference| / |refit| at the last token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.05,
     .source = "H_t + Λ = g (H_{t-1} + Λ) + k kᵀ + (1 - g) Λ: the last term has full rank"},
    {.name = "decayed-lambda",
     .statement = "Control: the rank-1 update is the refit with gᵗ Λ instead of Λ.",
     .number = "largest |difference| / |refit with gᵗ Λ|, float64, until gᵗ = 10⁻³",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-9},
    {.name = "drift",
     .statement = "In float32, rank-1 updates drift away from the refit, approximately as √t.",
     .number = "exponent of |difference| / |refit| as a power of t, from token 512 on",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.25,
     .source =
         "rounding errors of (H + Λ)⁻¹ at token s have the factor (s/t)² at token t, where the inverse is of size "
         "1/t: in total ε √(t/3), relative"},
    {.name = "no-drift",
     .statement = "Rotations of a factor in float64 do not drift.",
     .number = "exponent of |difference| / |refit| as a power of t, from token 512 on, for the library",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.25},
    {.name = "pool",
     .statement = "n queries on one pool of n pairs (rows of A and B): the ridge attention of the library without a "
                  "causal mask gives W*ᵀq with W* = (λI + AᵀA)⁻¹AᵀB.",
     .number = "largest |difference| / |refit in float64| of the outputs, float32, n = 8 to 4,096, d = 64",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-6,
     .source = "course notes, ridge attention; outputs are rounded to float32, 6e-8 of each number",
     .passage =
         LAB_NOTES "lines 645-651: \"n queries is applied to the same pool of (k, v) pairs\", \"W* = (I + AᵀA)⁻¹AᵀB\" "
                   "and \"inference: W*q\", read as W*ᵀq"},
    {.name = "pool-length",
     .statement = "For n > d the cost of one pool is linear in n.",
     .number = "exponent of the time as a power of n, n up to 16,384, d = 64",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .passage = LAB_NOTES "line 655: \"Complexity: O(nd²) + O(d³); if n > d, then O(nd²)\"; we chose the lower limit"},
    {.name = "pool-square",
     .statement = "For n > d the cost of one pool is at most quadratic in d.",
     .number = "exponent of the time as a power of d, d = 32 to 256, n = 1,024",
     .rule = BO_LAB_AT_MOST,
     .bound = 2.4,
     .source = "2.4 as for the cost per token",
     .passage = LAB_NOTES "line 655: \"Complexity: O(nd²) + O(d³); if n > d, then O(nd²)\""},
    {.name = "pool-cube",
     .statement = "For one pair, the cost is at most cubic in d.",
     .number = "exponent of the time as a power of d, d = 32 to 256, n = 1",
     .rule = BO_LAB_AT_MOST,
     .bound = 3.2,
     .passage = LAB_NOTES "line 653: \"inverse O(d³)\""},
};

static const bo_lab_table tables[] = {
    {.name = "error",
     .title = "Distance from a refit from scratch, without decay",
     .rows = "tokens",
     .values = "|difference| / |refit| of the output",
     .log_x = true,
     .log_y = true,
     .theory = "ε √(t/3)"},
    {.name = "decay",
     .title = "Distance from a refit from scratch, with decay g = 0.98",
     .rows = "tokens",
     .values = "|difference| / |refit| of the output",
     .log_x = true,
     .log_y = true},
    {.name = "time",
     .title = "Time per token",
     .rows = "d, dimension of keys and values",
     .values = "microseconds",
     .log_x = true,
     .log_y = true},
    {.name = "pool",
     .title = "One pool: distance from a refit",
     .rows = "n, number of queries and of pairs",
     .values = "|difference| / |refit| of the outputs",
     .log_x = true,
     .log_y = true},
    {.name = "pool-time",
     .title = "One pool: time per query",
     .rows = "n, number of queries and of pairs",
     .values = "microseconds",
     .log_x = true,
     .log_y = true},
};

enum { DIM = 24, VALUES = 16, FIRST_DRIFT = 9 }; /* 2^9 tokens: H is much larger than Λ in every direction */
static const double lambda = 0.25;

/* ---- rank-1 updates ---------------------------------------------------------------------------------------------- */

/* P = (H + Λ)⁻¹ becomes (g (H + Λ) + k kᵀ)⁻¹ = (P - P k kᵀ P / (g + kᵀ P k)) / g. */
#define SHERMAN_MORRISON(name, real)                                                                                   \
    static void name(real g, const float *k, real *p)                                                                  \
    {                                                                                                                  \
        real u[DIM], below = g;                                                                                        \
        for (size_t i = 0; i < DIM; i++) {                                                                             \
            u[i] = 0;                                                                                                  \
            for (size_t j = 0; j < DIM; j++) u[i] += p[i * DIM + j] * (real)k[j];                                      \
            below += (real)k[i] * u[i];                                                                                \
        }                                                                                                              \
        for (size_t i = 0; i < DIM; i++)                                                                               \
            for (size_t j = 0; j < DIM; j++) p[i * DIM + j] = (p[i * DIM + j] - u[i] * u[j] / below) / g;              \
    }
SHERMAN_MORRISON(update_double, double)
SHERMAN_MORRISON(update_single, float)

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The state of all methods after the tokens so far. P is kept in double and in single precision. */
typedef struct sequence {
    lab_run *run;
    bo_rng rng;
    double g; /* 1: no decay */
    double truth[DIM * VALUES];
    double h[DIM * DIM], sums[DIM * VALUES], decayed; /* H, G, gᵗ */
    double p[DIM * DIM];
    float p_single[DIM * DIM], sums_single[DIM * VALUES];
    bo_attention *attention;
    void *state;
    float q[DIM], k[DIM], v[VALUES], out[VALUES];
} sequence;

static bo_status open_sequence(lab_run *run, double g, sequence *s)
{
    bo_context *context = lab_context(run);
    const bo_attention_desc desc = {.kind = BO_ATTENTION_RIDGE,
                                    .heads = 1,
                                    .dim = DIM,
                                    .value_dim = VALUES,
                                    .causal = true,
                                    .gate = g < 1 ? BO_GATE_DECAY : BO_GATE_NONE};
    *s = (sequence){.run = run, .rng = lab_rng(run, "lab.ridge-attention"), .g = g, .decayed = 1};
    for (size_t i = 0; i < DIM * VALUES; i++) s->truth[i] = bo_rng_normal(&s->rng);
    for (size_t i = 0; i < DIM; i++) {
        s->p[i * DIM + i] = 1 / lambda;
        s->p_single[i * DIM + i] = (float)(1 / lambda);
    }
    BO_TRY(bo_attention_create(context, &desc, &s->attention));
    s->state = bo_alloc(context, bo_attention_state_bytes(s->attention), 1, "a state");
    return s->state ? bo_attention_state_init(context, s->attention, s->state) : BO_MEMORY;
}

static void close_sequence(sequence *s)
{
    bo_attention_destroy(s->attention);
    bo_free(s->state);
}

/* Draws a direction from an anisotropic normal distribution. */
static void draw_direction(bo_rng *rng, float *out)
{
    double norm = 0;
    for (size_t i = 0; i < DIM; i++) {
        out[i] = (float)(pow(0.9, (double)i) * bo_rng_normal(rng));
        norm += (double)out[i] * (double)out[i];
    }
    for (size_t i = 0; i < DIM; i++) out[i] /= (float)sqrt(norm);
}

/* v = Wᵀ k + noise */
static void draw_token(sequence *s)
{
    draw_direction(&s->rng, s->q);
    draw_direction(&s->rng, s->k);
    for (size_t j = 0; j < VALUES; j++) {
        double sum = 0.3 * bo_rng_normal(&s->rng);
        for (size_t i = 0; i < DIM; i++) sum += s->truth[i * VALUES + j] * (double)s->k[i];
        s->v[j] = (float)sum;
    }
}

static void add_token(sequence *s)
{
    for (size_t i = 0; i < DIM; i++) {
        const double k = (double)s->k[i];
        for (size_t j = 0; j < DIM; j++) s->h[i * DIM + j] = s->g * s->h[i * DIM + j] + k * (double)s->k[j];
        for (size_t j = 0; j < VALUES; j++) {
            s->sums[i * VALUES + j] = s->g * s->sums[i * VALUES + j] + k * (double)s->v[j];
            s->sums_single[i * VALUES + j] = (float)s->g * s->sums_single[i * VALUES + j] + s->k[i] * s->v[j];
        }
    }
    s->decayed *= s->g;
    update_double(s->g, s->k, s->p);
    update_single((float)s->g, s->k, s->p_single);
}

static bo_status step(sequence *s)
{
    const float log_gate = (float)log(s->g);
    float diagonal[DIM];
    for (size_t i = 0; i < DIM; i++) diagonal[i] = (float)lambda;
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = 1,
                                    .q = {s->q},
                                    .k = {s->k},
                                    .v = {s->v},
                                    .out = {s->out},
                                    .initial = &s->state,
                                    .final = &s->state,
                                    .log_gate = {s->g < 1 ? &log_gate : NULL},
                                    .lambda = diagonal};
    draw_token(s);
    add_token(s);
    return bo_attention_forward(lab_context(s->run), s->attention, &call);
}

/* ---- methods compared -------------------------------------------------------------------------------------------- */

/* Gᵀ x for P q */
static void by_inverse(const sequence *s, double out[VALUES])
{
    memset(out, 0, VALUES * sizeof *out);
    for (size_t i = 0; i < DIM; i++) {
        double x = 0;
        for (size_t j = 0; j < DIM; j++) x += s->p[i * DIM + j] * (double)s->q[j];
        for (size_t j = 0; j < VALUES; j++) out[j] += x * s->sums[i * VALUES + j];
    }
}

static void by_single_inverse(const sequence *s, double out[VALUES])
{
    float sum[VALUES] = {0};
    for (size_t i = 0; i < DIM; i++) {
        float x = 0;
        for (size_t j = 0; j < DIM; j++) x += s->p_single[i * DIM + j] * s->q[j];
        for (size_t j = 0; j < VALUES; j++) sum[j] += x * s->sums_single[i * VALUES + j];
    }
    for (size_t j = 0; j < VALUES; j++) out[j] = (double)sum[j];
}

/* Solves (H + ridge I) x = q with a new factorization. */
static bo_status by_refit(const sequence *s, double ridge, double out[VALUES])
{
    bo_context *context = lab_context(s->run);
    double a[DIM * DIM], x[DIM];
    memcpy(a, s->h, sizeof a);
    for (size_t i = 0; i < DIM; i++) {
        a[i * DIM + i] += ridge;
        x[i] = (double)s->q[i];
    }
    BO_TRY(lab_solve_positive(context, DIM, 1, a, x));
    return lab_multiply(context, true, false, VALUES, 1, DIM, 1, s->sums, VALUES, x, 1, 0, out, 1);
}

static double distance(const double *a, const double *b)
{
    double apart = 0, norm = 0;
    for (size_t j = 0; j < VALUES; j++) {
        apart += (a[j] - b[j]) * (a[j] - b[j]);
        norm += b[j] * b[j];
    }
    return sqrt(apart / norm);
}

/* Root mean square differences from the refit, over the last tokens before a power of 2, per method. */
enum { DOUBLE, SINGLE, ENGINE, REDUCED, SOLVERS };

static bo_status compare(const sequence *s, double square[SOLVERS])
{
    double refit[VALUES], reduced[VALUES], out[VALUES];
    BO_TRY(by_refit(s, lambda, refit));
    BO_TRY(by_refit(s, lambda * s->decayed, reduced));
    by_inverse(s, out);
    square[DOUBLE] += pow(distance(out, refit), 2);
    square[REDUCED] += pow(distance(out, reduced), 2);
    by_single_inverse(s, out);
    square[SINGLE] += pow(distance(out, refit), 2);
    for (size_t j = 0; j < VALUES; j++) out[j] = (double)s->out[j];
    square[ENGINE] += pow(distance(out, refit), 2);
    return BO_OK;
}

/* error[solver][i]: over tokens (2^i)·3/4 + 1 … 2^i, at most 64 of them. */
enum { POINTS = 18 };
static bo_status follow(sequence *s, size_t points, double error[SOLVERS][POINTS])
{
    size_t t = 0;
    for (size_t i = 0; i < points; i++) {
        const size_t end = (size_t)1 << i, queries = end / 4 < 1 ? 1 : end / 4 > 64 ? 64 : end / 4;
        double square[SOLVERS] = {0};
        while (t < end) {
            BO_TRY(step(s));
            if (++t > end - queries) BO_TRY(compare(s, square));
            if (t % 1024 == 0) BO_TRY(lab_progress(s->run, 0.4));
        }
        for (int w = 0; w < SOLVERS; w++) error[w][i] = sqrt(square[w] / (double)queries);
    }
    return BO_OK;
}

static bo_status measure_plain(lab_run *run, double *engine)
{
    const size_t points = lab_size(run, 18, 14);
    double error[SOLVERS][POINTS], tokens[POINTS];
    sequence s;
    bo_status status = open_sequence(run, 1, &s);
    if (status == BO_OK) status = follow(&s, points, error);
    close_sequence(&s);
    BO_TRY(status);
    for (size_t i = 0; i < points; i++) {
        tokens[i] = ldexp(1, (int)i);
        if (i < 2) continue; /* the table has 16 rows */
        lab_point(run, "error", "rank 1, float64", tokens[i], error[DOUBLE][i]);
        lab_point(run, "error", "rank 1, float32", tokens[i], error[SINGLE][i]);
        lab_point(run, "error", "the library", tokens[i], error[ENGINE][i]);
        lab_point(run, "error", "ε √(t/3)", tokens[i], FLT_EPSILON / 2 * sqrt(tokens[i] / 3));
    }
    const size_t from = FIRST_DRIFT, count = points - FIRST_DRIFT;
    lab_claim(run, "sherman-morrison", lab_largest(error[DOUBLE], points));
    *engine = lab_largest(error[ENGINE], points);
    lab_claim(run, "drift", lab_exponent(tokens + from, error[SINGLE] + from, count));
    lab_claim(run, "no-drift", lab_exponent(tokens + from, error[ENGINE] + from, count));
    return BO_OK;
}

/* 2^8 tokens at g = 0.98: 0.98^256 = 0.006. At 2^9 tokens it is below 10⁻³, where the control ends. */
static bo_status measure_decay(lab_run *run, double *engine)
{
    enum { LAST = 11, CONTROL = 9 };
    double error[SOLVERS][POINTS];
    sequence s;
    bo_status status = open_sequence(run, 0.98, &s);
    if (status == BO_OK) status = follow(&s, LAST, error);
    close_sequence(&s);
    BO_TRY(status);
    for (size_t i = 0; i < LAST; i++) {
        const double t = ldexp(1, (int)i);
        lab_point(run, "decay", "rank 1, relative to Λ", t, error[DOUBLE][i]);
        lab_point(run, "decay", "rank 1, relative to gᵗ Λ", t, error[REDUCED][i]);
        lab_point(run, "decay", "the library, relative to Λ", t, error[ENGINE][i]);
    }
    lab_claim(run, "decay", error[DOUBLE][LAST - 1]);
    lab_claim(run, "decayed-lambda", lab_largest(error[REDUCED], CONTROL));
    *engine = fmax(*engine, lab_largest(error[ENGINE], LAST));
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    double engine; /* its largest error */
    BO_TRY(measure_plain(run, &engine));
    BO_TRY(measure_decay(run, &engine));
    lab_claim(run, "engine", engine);
    BO_TRY(lab_ridge_time(run));
    return lab_ridge_pool(run);
}

const lab_experiment lab_ridge_attention = {
    {.name = "ridge-attention",
     .group = LAB_ARCHITECTURES,
     .title = "Attention as ridge regression, of one pool and refitted at every token",
     .claim = "Ridge regression of the values on the keys of one pool answers n queries in O(nd²) + O(d³). On the keys "
              "so far it can be updated in O(d²) per token, and the update is exact if nothing decays. With decay and "
              "a constant Λ, a rank-1 update solves a different problem.",
     .source = "course notes, ridge attention; Sherman and Morrison 1950; MesaNet, arXiv 2506.05233",
     .method =
         "Keys and queries are directions of an anisotropic normal distribution in 24 dimensions. Values (dimension "
         "16) are a linear function of the key plus noise; λ = 1/4. After each token, outputs are compared with a "
         "refit in float64, which factors H + Λ again. 131,072 tokens are processed without decay and 1,024 with g = "
         "0.98; errors are root mean squares over up to 64 tokens before each power of 2. Compared are rank-1 updates "
         "of (H + Λ)⁻¹ in float64 and in float32, and the ridge attention of the library. Times are those of one "
         "thread, the minimum of nine batches. Pools have keys and queries from N(0, I/d), values from N(0, I) and as "
         "many queries as pairs.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
