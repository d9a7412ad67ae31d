/* Ridge attention in which n queries share one pool of n keys and values: its outputs compared with a refit in double,
 * and its time by length and by dimension. */
#include "ridge_pool.h"
#include <bochner/attention.h>
#include <math.h>

enum { LARGEST = 256, BATCHES = 9 };
static const double lambda = 0.25;

/* Queries, keys and values of `tokens` tokens, all of dimension dim. */
typedef struct pool {
    lab_run *run;
    bo_rng rng;
    size_t dim, tokens;
    float *q, *k, *v, *out;
    double *h, *w, *expected; /* H + λI, W, the refit's outputs of one query */
} pool;

static size_t max_tokens(const lab_run *run)
{
    return lab_size(run, 16384, 4096);
}

static void close_pool(pool *p)
{
    bo_free(p->q);
    bo_free(p->h);
}

static bo_status open_pool(lab_run *run, pool *p)
{
    bo_context *context = lab_context(run);
    const size_t numbers = max_tokens(run) * 64; /* the longest pools have 64 dimensions */
    *p = (pool){.run = run, .rng = lab_rng(run, "lab.ridge-attention.pool")};
    p->q = bo_alloc(context, 4 * numbers, sizeof *p->q, "a pool");
    p->h = bo_alloc(context, LARGEST * (2 * LARGEST + 1), sizeof *p->h, "a refit");
    if (!p->q || !p->h) return BO_MEMORY;
    p->k = p->q + numbers;
    p->v = p->k + numbers;
    p->out = p->v + numbers;
    p->w = p->h + LARGEST * LARGEST;
    p->expected = p->w + LARGEST * LARGEST;
    return BO_OK;
}

static void draw(pool *p, size_t dim, size_t tokens)
{
    const double deviation = 1 / sqrt((double)dim);
    p->dim = dim;
    p->tokens = tokens;
    lab_fill_normal(&p->rng, deviation, tokens * dim, p->q);
    lab_fill_normal(&p->rng, deviation, tokens * dim, p->k);
    lab_fill_normal(&p->rng, 1, tokens * dim, p->v);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* Computes W = (λI + AᵀA)⁻¹ AᵀB in double. */
static bo_status refit(pool *p)
{
    bo_context *context = lab_context(p->run);
    const size_t d = p->dim;
    for (size_t i = 0; i < d * d; i++) {
        p->h[i] = i / d == i % d ? lambda : 0;
        p->w[i] = 0;
    }
    for (size_t t = 0; t < p->tokens; t++)
        for (size_t i = 0; i < d; i++) {
            const double k = (double)p->k[t * d + i];
            for (size_t j = 0; j < d; j++) {
                p->h[i * d + j] += k * (double)p->k[t * d + j];
                p->w[i * d + j] += k * (double)p->v[t * d + j];
            }
        }
    return lab_solve_positive(context, d, d, p->h, p->w);
}

static bo_status forward(pool *p)
{
    bo_context *context = lab_context(p->run);
    const bo_attention_desc desc = {.kind = BO_ATTENTION_RIDGE, .heads = 1, .dim = p->dim};
    float diagonal[LARGEST];
    for (size_t i = 0; i < p->dim; i++) diagonal[i] = (float)lambda;
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = p->tokens,
                                    .q = {p->q},
                                    .k = {p->k},
                                    .v = {p->v},
                                    .out = {p->out},
                                    .lambda = diagonal};
    bo_attention *attention;
    BO_TRY(bo_attention_create(context, &desc, &attention));
    const bo_status status = bo_attention_forward(context, attention, &call);
    bo_attention_destroy(attention);
    return status;
}

/* Computes |difference| / |refit| over all queries. */
static double distance(pool *p)
{
    double off = 0, norm = 0;
    for (size_t t = 0; t < p->tokens; t++) {
        for (size_t j = 0; j < p->dim; j++) {
            p->expected[j] = 0;
            for (size_t i = 0; i < p->dim; i++) p->expected[j] += p->w[i * p->dim + j] * (double)p->q[t * p->dim + i];
        }
        const double gap = lab_distance_single(p->out + t * p->dim, p->expected, p->dim);
        off += gap * gap;
        norm += lab_dot(p->expected, p->expected, p->dim);
    }
    return sqrt(off / norm);
}

/* From fewer pairs than dimensions to many more. */
static bo_status compare_outputs(pool *p)
{
    static const size_t sizes[] = {8, 64, 512, 4096};
    double error[LAB_COUNT_OF(sizes)];
    for (size_t i = 0; i < LAB_COUNT_OF(sizes); i++) {
        draw(p, 64, sizes[i]);
        BO_TRY(refit(p));
        BO_TRY(forward(p));
        error[i] = distance(p);
        lab_point(p->run, "pool", "the library", (double)sizes[i], error[i]);
    }
    lab_claim(p->run, "pool", lab_largest(error, LAB_COUNT_OF(sizes)));
    return lab_progress(p->run, 0.85);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Measures seconds of a pass: the minimum over batches. */
static bo_status time_pass(pool *p, size_t dim, size_t tokens, double *seconds)
{
    draw(p, dim, tokens);
    *seconds = INFINITY;
    for (size_t b = 0; b < BATCHES; b++) {
        const double start = lab_thread_seconds();
        BO_TRY(forward(p));
        *seconds = fmin(*seconds, lab_thread_seconds() - start);
    }
    return lab_progress(p->run, 0.95);
}

static bo_status time_lengths(pool *p)
{
    enum { STEPS = 4 };
    double tokens[STEPS], seconds[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        const size_t length = max_tokens(p->run) >> (STEPS - 1 - i);
        tokens[i] = (double)length;
        BO_TRY(time_pass(p, 64, length, &seconds[i]));
        lab_point(p->run, "pool-time", "d = 64", tokens[i], 1e6 * seconds[i] / tokens[i]);
    }
    lab_claim(p->run, "pool-length", lab_exponent(tokens, seconds, STEPS));
    return BO_OK;
}

/* Many pairs, for which the products dominate, and one pair, for which the factorization does. */
static bo_status time_dimensions(pool *p)
{
    enum { STEPS = 4, MANY = 1024 };
    double dims[STEPS], many[STEPS], one[STEPS];
    for (size_t i = 0; i < STEPS; i++) {
        const size_t dim = (size_t)32 << i;
        dims[i] = (double)dim;
        BO_TRY(time_pass(p, dim, MANY, &many[i]));
        BO_TRY(time_pass(p, dim, 1, &one[i]));
    }
    lab_claim(p->run, "pool-square", lab_exponent(dims, many, STEPS));
    lab_claim(p->run, "pool-cube", lab_exponent(dims, one, STEPS));
    return BO_OK;
}

bo_status lab_ridge_pool(lab_run *run)
{
    pool p;
    bo_status status = open_pool(run, &p);
    if (status == BO_OK) status = compare_outputs(&p);
    if (status == BO_OK) status = time_lengths(&p);
    if (status == BO_OK) status = time_dimensions(&p);
    close_pool(&p);
    return status;
}
