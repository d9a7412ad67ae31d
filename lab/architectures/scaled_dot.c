/* scaled-dot: why attention divides by √d. */
#include "../experiment.h"
#include <bochner/attention.h>
#include <math.h>
#include <stdio.h>

static const bo_lab_claim claims[] = {
    {.name = "variance",
     .statement = "The inner product of two vectors with d independent entries of variance 1 has variance d.",
     .number = "exponent of the variance as a power of d",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES "lines 673-682: \"Var(qᵀk) = […] = dσ⁴ = d\""},
    {.name = "scaled",
     .statement = "Divided by √d, the inner product has variance 1 for every d.",
     .number = "variance of q·k/√d, mean over d",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .passage = LAB_NOTES "line 684: \"Var[qᵀk/s] = d/s² = 1 ⇒ s = √d\""},
    {.name = "entropy",
     .statement =
         "Without the scale, softmax saturates: at d = 1024, attention over 128 keys selects almost a single key.",
     .number = "entropy of the weights divided by log 128, without scale, d = 1024",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.25},
    {.name = "scaled-entropy",
     .statement = "With the scale, the entropy of the weights does not depend on d.",
     .number = "entropy at d = 1024 divided by entropy at d = 16, scaled",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.97,
     .upper = 1.03},
    {.name = "gradient",
     .statement = "A saturated softmax has very small gradients for most queries.",
     .number = "median over queries of |∂weights/∂logits| without scale divided by that with scale, d = 1024",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5},
    {.name = "mean-gradient",
     .statement = "Without the scale, the mean squared gradient over all queries is small too.",
     .number = "root mean square over queries of |∂weights/∂logits| without scale divided by that with scale, d = 1024",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.5},
    {.name = "correlated",
     .statement = "Control: the law requires independent entries. With correlation 1/2 the variance is d(1 + (d - "
                  "1)/4), and dividing by √d is not enough.",
     .number = "exponent of the variance as a power of d, entries of correlation 1/2",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5},
    {.name = "deviation",
     .statement = "Control: the law requires variance 1. With entries of standard deviation 2, the scaled product has "
                  "variance 16.",
     .number = "variance of q·k/√d, entries of standard deviation 2, mean over d",
     .rule = BO_LAB_BETWEEN,
     .bound = 15,
     .upper = 17},
};

static const bo_lab_table tables[] = {
    {.name = "variance",
     .title = "Variance of q·k",
     .rows = "d",
     .values = "variance",
     .log_x = true,
     .log_y = true,
     .theory = "d"},
    {.name = "entropy",
     .title = "Entropy of the weights over 128 keys",
     .rows = "d",
     .values = "entropy / log 128",
     .log_x = true},
    {.name = "gradient",
     .title = "Norm of the derivative of the weights with respect to the logits",
     .rows = "d",
     .values = "Frobenius norm of diag(a) - aaᵀ",
     .log_x = true,
     .log_y = true},
};

enum { SIZES = 9, FIRST = 4, MAX_DIM = 1024, KEYS = 128 };

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* Rows of d numbers with this standard deviation, where any two numbers of a row have this correlation. */
typedef struct law {
    const char *name;
    double deviation, correlation;
} law;
static const law laws[] = {{"independent", 1, 0}, {"correlation 1/2", 1, 0.5}, {"deviation 2", 2, 0}};
enum { LAWS = 3 };

static void fill(bo_rng *rng, const law *l, size_t rows, size_t dim, float *out)
{
    const double individual = l->deviation * sqrt(1 - l->correlation), common = l->deviation * sqrt(l->correlation);
    lab_fill_normal(rng, individual, rows * dim, out);
    for (size_t r = 0; r < rows && common > 0; r++) {
        const float shared = (float)(common * bo_rng_normal(rng));
        for (size_t i = 0; i < dim; i++) out[r * dim + i] += shared;
    }
}

/* Buffers for queries, keys and their results. */
typedef struct workspace {
    lab_run *run;
    size_t rows; /* number of queries, and of keys */
    float *q, *k, *out;
} workspace;

static bo_status open_workspace(lab_run *run, size_t rows, size_t columns, workspace *r)
{
    bo_context *context = lab_context(run);
    *r = (workspace){.run = run, .rows = rows};
    r->q = bo_alloc_raw(context, rows * MAX_DIM, sizeof *r->q, "queries");
    r->k = bo_alloc_raw(context, rows * MAX_DIM, sizeof *r->k, "keys");
    r->out = bo_alloc_raw(context, rows * columns, sizeof *r->out, "products");
    return r->q && r->k && r->out ? BO_OK : BO_MEMORY;
}

static void close_workspace(workspace *r)
{
    bo_free(r->q);
    bo_free(r->k);
    bo_free(r->out);
}

/* Returns E (q·k)² over all pairs of rows. */
static bo_status variance_of_dot(workspace *r, const law *l, size_t dim, bo_rng *rng, double *variance)
{
    const size_t n = r->rows;
    fill(rng, l, n, dim, r->q);
    fill(rng, l, n, dim, r->k);
    BO_TRY(lab_multiply_single(lab_context(r->run), false, true, n, n, dim, 1, r->q, dim, r->k, dim, 0, r->out, n));
    *variance = 0;
    for (size_t i = 0; i < n * n; i++) *variance += (double)r->out[i] * (double)r->out[i] / (double)(n * n);
    return lab_progress(r->run, 0.3);
}

static bo_status measure_variances(lab_run *run, workspace *r)
{
    double dims[SIZES], variance[LAWS][SIZES], scaled[LAWS] = {0};
    bo_rng rng = lab_rng(run, "lab.scaled-dot");
    for (size_t i = 0; i < SIZES; i++) {
        const size_t dim = (size_t)FIRST << i;
        dims[i] = (double)dim;
        lab_point(run, "variance", "d", dims[i], dims[i]);
        for (int l = 0; l < LAWS; l++) {
            BO_TRY(variance_of_dot(r, &laws[l], dim, &rng, &variance[l][i]));
            scaled[l] += variance[l][i] / dims[i] / SIZES;
            lab_point(run, "variance", laws[l].name, dims[i], variance[l][i]);
        }
    }
    lab_claim(run, "variance", lab_exponent(dims, variance[0], SIZES));
    lab_claim(run, "scaled", scaled[0]);
    lab_claim(run, "correlated", lab_exponent(dims, variance[1], SIZES));
    lab_claim(run, "deviation", scaled[2]);
    return BO_OK;
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* Over queries: mean entropy relative to log n, and median and root mean square of the Frobenius norm of the
 * derivative. */
typedef struct saturation {
    double entropy, median, root_mean_square;
} saturation;

/* |diag(a) - aaᵀ|² = Σ a² - 2 Σ a³ + (Σ a²)² */
static double derivative_square(const float *a)
{
    double two = 0, three = 0;
    for (size_t j = 0; j < KEYS; j++) {
        const double w = (double)a[j];
        two += w * w;
        three += w * w * w;
    }
    return fmax(0, two - 2 * three + two * two);
}

static saturation mean_saturation(size_t rows, const float *weights, double *norms)
{
    saturation s = {0, 0, 0};
    for (size_t i = 0; i < rows; i++) {
        const float *a = weights + i * KEYS;
        const double square = derivative_square(a);
        for (size_t j = 0; j < KEYS; j++)
            if (a[j] > 0) s.entropy -= (double)a[j] * log((double)a[j]) / log(KEYS) / (double)rows;
        s.root_mean_square += square / (double)rows;
        norms[i] = sqrt(square);
    }
    s.root_mean_square = sqrt(s.root_mean_square);
    s.median = lab_median(norms, rows);
    return s;
}

/* Values that are the rows of the identity make the attention of the library output its weights. */
static bo_status attend(workspace *r, const float *identity, double scale, size_t dim, double *norms, saturation *out)
{
    bo_context *context = lab_context(r->run);
    const bo_attention_desc desc = {
        .kind = BO_ATTENTION_SOFTMAX, .heads = 1, .dim = dim, .value_dim = KEYS, .scale = scale};
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = r->rows,
                                    .q = {r->q},
                                    .k = {r->k},
                                    .v = {identity},
                                    .out = {r->out},
                                    .key_tokens = KEYS};
    bo_attention *attention;
    BO_TRY(bo_attention_create(context, &desc, &attention));
    bo_status status = bo_attention_forward(context, attention, &call);
    bo_attention_destroy(attention);
    if (status == BO_OK) *out = mean_saturation(r->rows, r->out, norms);
    return status == BO_OK ? lab_progress(r->run, 0.7) : status;
}

static void record(lab_run *run, const char *column, double dim, const saturation *s)
{
    char name[64];
    lab_point(run, "entropy", column, dim, s->entropy);
    snprintf(name, sizeof name, "%s, median", column);
    lab_point(run, "gradient", name, dim, s->median);
    snprintf(name, sizeof name, "%s, root mean square", column);
    lab_point(run, "gradient", name, dim, s->root_mean_square);
}

static bo_status measure_saturation(lab_run *run, workspace *r, float *identity, double *norms)
{
    bo_rng rng = lab_rng(run, "lab.scaled-dot.softmax");
    saturation plain = {0}, scaled = {0};
    double entropy_16 = NAN;
    for (size_t j = 0; j < KEYS; j++) identity[j * KEYS + j] = 1;
    for (size_t dim = FIRST; dim <= MAX_DIM; dim *= 2) {
        fill(&rng, &laws[0], r->rows, dim, r->q);
        fill(&rng, &laws[0], KEYS, dim, r->k);
        BO_TRY(attend(r, identity, 1, dim, norms, &plain));
        BO_TRY(attend(r, identity, 1 / sqrt((double)dim), dim, norms, &scaled));
        record(run, "without scale", (double)dim, &plain);
        record(run, "scaled", (double)dim, &scaled);
        if (dim == 16) entropy_16 = scaled.entropy;
    }
    lab_claim(run, "entropy", plain.entropy);
    lab_claim(run, "scaled-entropy", scaled.entropy / entropy_16);
    lab_claim(run, "gradient", plain.median / scaled.median);
    lab_claim(run, "mean-gradient", plain.root_mean_square / scaled.root_mean_square);
    lab_note(run, "Uniform weights also have small derivatives, because |diag(a) - aaᵀ| is about √(Σ a²). Most "
                  "queries saturate; the few that are undecided between two keys have large derivatives.");
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    const size_t rows = lab_size(run, 1024, 256);
    float *identity = bo_alloc(lab_context(run), KEYS * KEYS, sizeof *identity, "values");
    double *norms = bo_alloc_raw(lab_context(run), rows, sizeof *norms, "norms");
    workspace r;
    bo_status status = open_workspace(run, rows, rows, &r);
    if (status == BO_OK && !(identity && norms)) status = BO_MEMORY;
    if (status == BO_OK) status = measure_variances(run, &r);
    if (status == BO_OK) status = measure_saturation(run, &r, identity, norms);
    close_workspace(&r);
    bo_free(identity);
    bo_free(norms);
    return status;
}

const lab_experiment lab_scaled_dot = {
    {.name = "scaled-dot",
     .group = LAB_ARCHITECTURES,
     .title = "Inner products of queries and keys grow as √d",
     .claim = "The inner product q·k of vectors with independent entries of variance 1 has variance d, so softmax "
              "saturates as d grows. Dividing by √d prevents this.",
     .source = "Vaswani et al., Attention Is All You Need, arXiv 1706.03762; course notes, justifying scaled "
               "dot-product attention",
     .method = "Queries and keys are normal, with d = 4 to 1024. Variances: all pairs of 1,024 queries and 1,024 "
               "keys. Softmax: the softmax attention of the library for 1,024 queries over 128 keys, with scale 1 and "
               "with scale 1/√d. Its weights are obtained by using unit vectors as values; measured are their entropy "
               "and the Frobenius norm of their derivative with respect to the logits. Controls: entries with "
               "correlation 1/2, and entries of standard deviation 2.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
