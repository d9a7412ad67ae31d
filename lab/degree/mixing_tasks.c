#include "mixing_tasks.h"
#include <math.h>
#include <string.h>

/* ---- permutations of three elements ------------------------------------------------------------------------------ */

static const int images[LAB_PERMUTATIONS][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}};

int lab_permutation_of(int p, int i)
{
    return images[p][i];
}

int lab_permutations_compose(int a, int b)
{
    for (int c = 0; c < LAB_PERMUTATIONS; c++)
        if (images[c][0] == images[a][images[b][0]] && images[c][1] == images[a][images[b][1]]) return c;
    return 0; /* not reached, because permutations are closed under composition */
}

/* ---- rows of inputs ---------------------------------------------------------------------------------------------- */

enum { HALF = 6, RANK = 40, POWER = 3 };

static bo_status polynomial_rows(lab_run *run, bo_rng *rng, size_t rows, float *x, double *y)
{
    lab_known_rank known;
    double row[2 * HALF];
    BO_TRY(lab_known_rank_open(lab_context(run), HALF, RANK, POWER, rng, &known));
    const lab_function f = lab_known_rank_function(&known);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < 2 * HALF; i++) {
            x[r * 2 * HALF + i] = (float)(2 * bo_rng_uniform(rng) - 1);
            row[i] = (double)x[r * 2 * HALF + i];
        }
        y[r] = f.real(f.user, row);
    }
    lab_known_rank_close(&known);
    return BO_OK;
}

static void parity_rows(bo_rng *rng, size_t places, size_t rows, float *x, double *y)
{
    for (size_t r = 0; r < rows; r++) {
        uint64_t odd = 0;
        for (size_t i = 0; i < places; i++) {
            const uint64_t bit = bo_rng_below(rng, 2);
            x[r * places + i] = bit ? -1.0F : 1.0F;
            odd ^= bit;
        }
        y[r] = (double)odd;
    }
}

enum { TERMS = 24, MAX_PLACES = 64 };

/* Draws `order` different places. */
static void draw_set(bo_rng *rng, size_t places, size_t order, size_t *set)
{
    size_t all[MAX_PLACES];
    for (size_t i = 0; i < places; i++) all[i] = i;
    for (size_t i = 0; i < order; i++) {
        const size_t j = i + (size_t)bo_rng_below(rng, places - i), kept = all[j];
        all[j] = all[i];
        set[i] = all[i] = kept;
    }
}

static void parities_rows(bo_rng *rng, const lab_mixing_desc *desc, float *x, double *y)
{
    const size_t places = desc->places < MAX_PLACES ? desc->places : MAX_PLACES;
    size_t sets[TERMS][MAX_PLACES];
    double signs[TERMS];
    for (size_t t = 0; t < TERMS; t++) {
        draw_set(rng, places, desc->order, sets[t]);
        signs[t] = bo_rng_below(rng, 2) ? 1 : -1;
    }
    for (size_t r = 0; r < desc->rows; r++) {
        for (size_t i = 0; i < places; i++) x[r * places + i] = bo_rng_below(rng, 2) ? -1.0F : 1.0F;
        y[r] = 0;
        for (size_t t = 0; t < TERMS; t++) {
            double product = signs[t];
            for (size_t i = 0; i < desc->order; i++) product *= (double)x[r * places + sets[t][i]];
            y[r] += product;
        }
    }
}

static void permutation_rows(bo_rng *rng, size_t places, size_t rows, float *x, double *y)
{
    memset(x, 0, rows * places * LAB_PERMUTATIONS * sizeof *x);
    for (size_t r = 0; r < rows; r++) {
        int product = 0;
        for (size_t i = 0; i < places; i++) {
            const int p = (int)bo_rng_below(rng, LAB_PERMUTATIONS);
            x[(r * places + i) * LAB_PERMUTATIONS + (size_t)p] = 1;
            product = lab_permutations_compose(product, p);
        }
        y[r] = product;
    }
}

static bo_status fill_rows(lab_run *run, const lab_mixing_desc *desc, bo_examples_arrays *arrays, lab_mixing_rows *out)
{
    bo_rng rng = lab_rng(run, "lab.mixing.rows");
    const lab_mixing kind = desc->kind;
    out->x = bo_alloc_raw(lab_context(run), arrays->rows * arrays->dim, sizeof *out->x, "examples");
    out->y = bo_alloc_raw(lab_context(run), arrays->rows, sizeof *out->y, "targets");
    if (!out->x || !out->y) return BO_MEMORY;
    if (kind == LAB_MIXING_POLYNOMIAL) BO_TRY(polynomial_rows(run, &rng, arrays->rows, out->x, out->y));
    if (kind == LAB_MIXING_PARITY) parity_rows(&rng, desc->places, arrays->rows, out->x, out->y);
    if (kind == LAB_MIXING_PERMUTATIONS) permutation_rows(&rng, desc->places, arrays->rows, out->x, out->y);
    if (kind == LAB_MIXING_PARITIES) parities_rows(&rng, desc, out->x, out->y);
    arrays->x = out->x;
    arrays->y = out->y;
    arrays->valid = arrays->test = 0.2;
    arrays->seed = lab_seed(run);
    return bo_examples_create(lab_context(run), arrays, &out->examples);
}

bo_status lab_mixing_rows_open(lab_run *run, const lab_mixing_desc *desc, lab_mixing_rows *out)
{
    static const size_t classes[LAB_MIXING_COUNT] = {[LAB_MIXING_PARITY] = 2,
                                                     [LAB_MIXING_PERMUTATIONS] = LAB_PERMUTATIONS};
    bo_examples_arrays arrays = {.rows = desc->rows, .targets = 1, .classes = classes[desc->kind], .dim = desc->places};
    if (desc->kind == LAB_MIXING_POLYNOMIAL) arrays.dim = 2 * HALF;
    if (desc->kind == LAB_MIXING_PERMUTATIONS) arrays.dim *= LAB_PERMUTATIONS;
    *out = (lab_mixing_rows){0};
    const bo_status status = fill_rows(run, desc, &arrays, out);
    if (status != BO_OK) lab_mixing_rows_close(out);
    return status;
}

void lab_mixing_rows_close(lab_mixing_rows *rows)
{
    bo_examples_destroy(rows->examples);
    bo_free(rows->x);
    bo_free(rows->y);
    *rows = (lab_mixing_rows){0};
}
