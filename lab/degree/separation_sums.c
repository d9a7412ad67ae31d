/* Sums of d monomials, p = Σ_{l ≤ d} a_l Π_i x_i^(α_il): which of them have separation rank d, and how many. The
 * coefficients form a matrix with one row per exponent of A that occurs and one column per exponent of B. For generic
 * coefficients its rank is the size of the largest matching of rows and columns (the term rank), which is d if no two
 * terms agree in either. */
#include "separation.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HALF = 2, INPUTS = 2 * HALF, EXPONENTS = 3, KINDS = 9, TERMS = 6 }; /* KINDS = EXPONENTS^HALF */

typedef struct sum {
    size_t terms;
    unsigned char exponents[TERMS][INPUTS]; /* 1 to EXPONENTS */
    uint32_t exact[TERMS];
    double real[TERMS];
} sum;

static sum draw(bo_rng *rng, size_t terms)
{
    sum s = {.terms = terms};
    for (size_t l = 0; l < terms; l++) {
        for (size_t i = 0; i < INPUTS; i++) s.exponents[l][i] = (unsigned char)(1 + bo_rng_below(rng, EXPONENTS));
        s.exact[l] = 1 + (uint32_t)bo_rng_below(rng, LAB_PRIME - 1);
        s.real[l] = bo_rng_normal(rng);
    }
    return s;
}

static uint32_t exact_value(const void *user, const uint32_t *x)
{
    const sum *s = user;
    uint32_t total = 0;
    for (size_t l = 0; l < s->terms; l++) {
        uint32_t term = s->exact[l];
        for (size_t i = 0; i < INPUTS; i++)
            for (size_t e = 0; e < s->exponents[l][i]; e++) term = lab_mod_multiply(term, x[i]);
        total = lab_mod_add(total, term);
    }
    return total;
}

static double real_value(const void *user, const double *x)
{
    const sum *s = user;
    double total = 0;
    for (size_t l = 0; l < s->terms; l++) {
        double term = s->real[l];
        for (size_t i = 0; i < INPUTS; i++)
            for (size_t e = 0; e < s->exponents[l][i]; e++) term *= x[i];
        total += term;
    }
    return total;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static size_t kind_of(const unsigned char *exponents)
{
    size_t kind = 0;
    for (size_t i = 0; i < HALF; i++) kind = kind * EXPONENTS + exponents[i] - 1;
    return kind;
}

/* Finds a column for a row, reassigning others if necessary (Kuhn 1955). */
static bool match(bool edges[KINDS][KINDS], size_t row, bool *visited, int *owner)
{
    for (size_t c = 0; c < KINDS; c++) {
        if (!edges[row][c] || visited[c]) continue;
        visited[c] = true;
        if (owner[c] < 0 || match(edges, (size_t)owner[c], visited, owner)) {
            owner[c] = (int)row;
            return true;
        }
    }
    return false;
}

static size_t term_rank(const sum *s)
{
    bool edges[KINDS][KINDS] = {{false}};
    int owner[KINDS];
    size_t rank = 0;
    for (size_t c = 0; c < KINDS; c++) owner[c] = -1;
    for (size_t l = 0; l < s->terms; l++) edges[kind_of(s->exponents[l])][kind_of(s->exponents[l] + HALF)] = true;
    for (size_t row = 0; row < KINDS; row++) {
        bool visited[KINDS] = {false};
        rank += match(edges, row, visited, owner);
    }
    return rank;
}

/* ---- fractions --------------------------------------------------------------------------------------------------- */

enum { EPSILONS = 3 };
static const double epsilons[EPSILONS] = {0.001, 0.01, 0.1};
static const char *const epsilon_names[EPSILONS] = {"ε = 0.001", "ε = 0.01", "ε = 0.1"};

typedef struct counts {
    size_t drawn, full, unexpected; /* number with rank d; number whose rank is not the term rank */
    /* among those of rank d: number examined, and number without a polynomial of lower rank that near */
    size_t within, near[EPSILONS];
} counts;

/* Counts polynomials for which, in d₂ over a grid of [-1, 1] and relative to the size of the polynomial, an error of ε
 * requires rank d. */
static bo_status count_near(lab_run *run, const lab_function *f, size_t terms, counts *c)
{
    enum { POINTS = 6, SETTINGS = POINTS * POINTS };
    double templates[POINTS], matrix[SETTINGS * SETTINGS], values[SETTINGS], all = 0;
    for (size_t i = 0; i < POINTS; i++) templates[i] = (2 * (double)i + 1) / POINTS - 1;
    BO_TRY(lab_matricize_grid(lab_context(run), f, POINTS, templates, matrix));
    BO_TRY(bo_singular_values(lab_context(run), SETTINGS, SETTINGS, matrix, values));
    for (size_t i = 0; i < SETTINGS; i++) all += values[i] * values[i];
    for (size_t e = 0; e < EPSILONS; e++) c->near[e] += values[terms - 1] > epsilons[e] * sqrt(all);
    c->within++;
    return BO_OK;
}

static bo_status count(lab_run *run, bo_rng *rng, size_t terms, counts *c)
{
    const size_t draws = lab_size(run, 4000, 1000), near = lab_size(run, 400, 60);
    *c = (counts){.drawn = draws};
    for (size_t i = 0; i < draws; i++) {
        const sum s = draw(rng, terms);
        const lab_function f = {HALF, HALF, exact_value, real_value, &s};
        size_t rank;
        BO_TRY(lab_exact_rank(lab_context(run), &f, TERMS + 2, rng, &rank));
        c->unexpected += rank != term_rank(&s);
        c->full += rank == terms;
        if (rank == terms && c->within < near) BO_TRY(count_near(run, &f, terms, c));
    }
    return BO_OK;
}

/* Probability that the exponents of all terms differ in A, and in B. */
static double share_in_theory(size_t terms)
{
    double distinct = 1;
    for (size_t l = 0; l < terms; l++) distinct *= 1 - (double)l / KINDS;
    return distinct * distinct;
}

bo_status lab_separation_sums(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.separation.sums");
    double unexpected = 0;
    for (size_t terms = 1; terms <= TERMS; terms++) {
        counts c;
        BO_TRY(count(run, &rng, terms, &c));
        const double share = (double)c.full / (double)c.drawn, theory = share_in_theory(terms);
        lab_point(run, "measure", "rank d", (double)terms, share);
        lab_point(run, "measure", "different exponents", (double)terms, theory);
        for (size_t e = 0; e < EPSILONS; e++)
            lab_point(run, "measure", epsilon_names[e], (double)terms,
                      c.within ? share * (double)c.near[e] / (double)c.within : NAN);
        unexpected += (double)c.unexpected;
        if (terms == 4) {
            lab_claim(run, "measure", share / theory);
            lab_claim(run, "epsilon-measure", (double)c.near[1] / (double)c.within);
        }
        BO_TRY(lab_progress(run, 0.4 + 0.02 * (double)terms));
    }
    lab_claim(run, "term-rank", unexpected);
    return BO_OK;
}
