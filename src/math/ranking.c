/* Areas under ROC curves: exact up to a number of rows, then from bins. */
#include "ranking.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../base/base.h"

enum { BINS = 4096 };

/* Invariant: `counts` is NULL while all rows are kept in `scores` and `truth`, which are NULL afterwards. */
struct bo_ranking {
    size_t classes, columns;         /* two classes have one column, the probability of the second */
    size_t max_rows, capacity, rows; /* rows: maximum, allocated, kept */
    double *scores;                  /* rows x columns */
    uint32_t *truth;
    size_t bins;
    double *edges;    /* columns x (bins - 1), ascending */
    uint64_t *counts; /* columns x bins x 2: rows outside and inside the class */
};

bo_status bo_ranking_create(bo_context *context, size_t classes, size_t max_rows, bo_ranking **out)
{
    bo_ranking *ranking = *out = bo_alloc(context, 1, sizeof *ranking, "scores");
    if (!ranking) return BO_MEMORY;
    *ranking = (bo_ranking){.classes = classes, .columns = classes > 2 ? classes : 1, .max_rows = max_rows};
    return BO_OK;
}

void bo_ranking_destroy(bo_ranking *ranking)
{
    if (!ranking) return;
    bo_free(ranking->scores);
    bo_free(ranking->truth);
    bo_free(ranking->edges);
    bo_free(ranking->counts);
    bo_free(ranking);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* The class whose probability is a column. */
static size_t class_of(const bo_ranking *ranking, size_t column)
{
    return ranking->columns == 1 ? ranking->classes - 1 : column;
}

static double score_of(const bo_ranking *ranking, const double *p, size_t column)
{
    const double score = p[class_of(ranking, column)];
    return isnan(score) ? -INFINITY : score; /* NaN would not be ordered */
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The number of edges up to the score. */
static size_t bin_of(const bo_ranking *ranking, size_t column, double score)
{
    const double *edges = ranking->edges + column * (ranking->bins - 1);
    size_t low = 0, high = ranking->bins - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (edges[middle] <= score)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void count(bo_ranking *ranking, size_t column, double score, size_t truth)
{
    const size_t bin = bin_of(ranking, column, score);
    ranking->counts[(column * ranking->bins + bin) * 2 + (truth == class_of(ranking, column))]++;
}

/* Replaces the kept rows by counts. */
static bo_status begin_bins(bo_context *context, bo_ranking *ranking)
{
    const size_t n = ranking->rows, columns = ranking->columns, bins = n < BINS ? n : BINS;
    double *sorted = bo_alloc(context, n, sizeof *sorted, "scores");
    double *edges = bo_alloc(context, columns * (bins - 1), sizeof *edges, "bins of scores");
    uint64_t *counts = bo_alloc(context, columns * bins * 2, sizeof *counts, "bins of scores");
    if (!sorted || !edges || !counts) {
        bo_free(sorted);
        bo_free(edges);
        bo_free(counts);
        return BO_MEMORY;
    }
    ranking->bins = bins;
    ranking->edges = edges;
    ranking->counts = counts;
    for (size_t c = 0; c < columns; c++) {
        for (size_t i = 0; i < n; i++) sorted[i] = ranking->scores[i * columns + c];
        qsort(sorted, n, sizeof *sorted, ascending);
        for (size_t b = 1; b < bins; b++) edges[c * (bins - 1) + b - 1] = sorted[b * n / bins];
        for (size_t i = 0; i < n; i++) count(ranking, c, ranking->scores[i * columns + c], ranking->truth[i]);
    }
    bo_free(sorted);
    bo_free(ranking->scores);
    bo_free(ranking->truth);
    ranking->scores = NULL;
    ranking->truth = NULL;
    return BO_OK;
}

static bo_status reserve(bo_context *context, bo_ranking *ranking, size_t rows)
{
    enum { FIRST = 256 };
    if (rows <= ranking->capacity) return BO_OK;
    size_t capacity = ranking->capacity ? 2 * ranking->capacity : FIRST;
    if (capacity < rows) capacity = rows;
    if (capacity > ranking->max_rows) capacity = ranking->max_rows;
    double *scores = bo_realloc(context, ranking->scores, capacity * ranking->columns, sizeof *scores, "scores");
    if (!scores) return BO_MEMORY;
    ranking->scores = scores;
    uint32_t *truth = bo_realloc(context, ranking->truth, capacity, sizeof *truth, "scores");
    if (!truth) return BO_MEMORY;
    ranking->truth = truth;
    ranking->capacity = capacity;
    return BO_OK;
}

bo_status bo_ranking_add(bo_context *context, bo_ranking *ranking, size_t rows, const double *y, const double *p)
{
    const size_t columns = ranking->columns;
    size_t kept = 0;
    if (!ranking->counts) {
        kept = rows < ranking->max_rows - ranking->rows ? rows : ranking->max_rows - ranking->rows;
        BO_TRY(reserve(context, ranking, ranking->rows + kept));
        for (size_t i = 0; i < kept; i++) {
            for (size_t c = 0; c < columns; c++)
                ranking->scores[(ranking->rows + i) * columns + c] = score_of(ranking, p + i * ranking->classes, c);
            ranking->truth[ranking->rows + i] = (uint32_t)y[i];
        }
        ranking->rows += kept;
        if (kept == rows) return BO_OK;
        const bo_status status = begin_bins(context, ranking);
        if (status != BO_OK) {
            ranking->rows -= kept;
            return status;
        }
    }
    for (size_t i = kept; i < rows; i++)
        for (size_t c = 0; c < columns; c++)
            count(ranking, c, score_of(ranking, p + i * ranking->classes, c), (size_t)y[i]);
    return BO_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    return ascending(&((const bo_rank *)a)->score, &((const bo_rank *)b)->score);
}

/* One rank per distinct score. */
static size_t exact_ranks(const bo_ranking *ranking, size_t column, bo_rank *ranks)
{
    size_t count = 0;
    for (size_t i = 0; i < ranking->rows; i++) {
        const bool inside = ranking->truth[i] == class_of(ranking, column);
        ranks[i] = (bo_rank){ranking->scores[i * ranking->columns + column], inside, !inside};
    }
    qsort(ranks, ranking->rows, sizeof *ranks, by_score);
    for (size_t i = 0; i < ranking->rows; i++) {
        if (count && ranks[count - 1].score == ranks[i].score) {
            ranks[count - 1].inside += ranks[i].inside;
            ranks[count - 1].outside += ranks[i].outside;
        } else {
            ranks[count++] = ranks[i];
        }
    }
    return count;
}

static size_t bin_ranks(const bo_ranking *ranking, size_t column, bo_rank *ranks)
{
    const double *edges = ranking->edges + column * (ranking->bins - 1);
    for (size_t b = 0; b < ranking->bins; b++) {
        const uint64_t *counts = ranking->counts + (column * ranking->bins + b) * 2;
        ranks[b] = (bo_rank){b ? edges[b - 1] : -INFINITY, counts[1], counts[0]};
    }
    return ranking->bins;
}

/* The first of two classes has the ranks of the second in reverse. */
static void mirror(bo_rank *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t inside = ranks[i].inside;
        ranks[i] = (bo_rank){-ranks[i].score, ranks[i].outside, inside};
    }
    for (size_t i = 0; i < count / 2; i++) {
        const bo_rank first = ranks[i];
        ranks[i] = ranks[count - 1 - i];
        ranks[count - 1 - i] = first;
    }
}

bo_status bo_ranking_ranks(bo_context *context, const bo_ranking *ranking, size_t class_index, bo_rank **ranks,
                           size_t *count)
{
    const size_t column = ranking->columns == 1 ? 0 : class_index;
    *count = 0;
    *ranks = bo_alloc(context, ranking->counts ? ranking->bins : ranking->rows, sizeof **ranks, "an ROC curve");
    if (!*ranks) return BO_MEMORY;
    *count = ranking->counts ? bin_ranks(ranking, column, *ranks) : exact_ranks(ranking, column, *ranks);
    if (class_index != class_of(ranking, column)) mirror(*ranks, *count);
    return BO_OK;
}

/* U / (m n), where U counts the pairs of a row inside and a row outside with the higher score inside, and half of the
 * ties (Mann and Whitney 1947). Its variance is S₁₀/m + S₀₁/n, where S₁₀ is the sample variance over the rows inside of
 * the fraction of the rows outside below them, and S₀₁ that over the rows outside (DeLong, DeLong and Clarke-Pearson
 * 1988). Within a bin the order is unknown: each of its pairs may contribute an error of one half. */
static bo_measure area(const bo_rank *ranks, size_t count, bool exact)
{
    double m = 0, n = 0, u = 0, ties = 0, below = 0, above, inside = 0, outside = 0;
    for (size_t i = 0; i < count; i++) {
        m += (double)ranks[i].inside;
        n += (double)ranks[i].outside;
    }
    if (!(m > 0 && n > 0)) return (bo_measure){NAN, NAN, 0};
    for (size_t i = 0; i < count; i++) {
        u += (double)ranks[i].inside * (below + (double)ranks[i].outside / 2);
        ties += (double)ranks[i].inside * (double)ranks[i].outside;
        below += (double)ranks[i].outside;
    }
    const double auc = u / m / n;
    below = 0;
    above = m;
    for (size_t i = 0; i < count; i++) {
        const double a = (double)ranks[i].inside, b = (double)ranks[i].outside;
        above -= a;
        inside += a * pow((below + b / 2) / n - auc, 2);
        outside += b * pow((above + a / 2) / m - auc, 2);
        below += b;
    }
    const double error = m > 1 && n > 1 ? sqrt(inside / (m - 1) / m + outside / (n - 1) / n) : (double)NAN;
    return (bo_measure){auc, error, exact ? 0 : ties / 2 / m / n};
}

bo_status bo_ranking_auc(bo_context *context, const bo_ranking *ranking, size_t class_index, bo_measure *out)
{
    bo_rank *ranks;
    size_t count;
    BO_TRY(bo_ranking_ranks(context, ranking, class_index, &ranks, &count));
    *out = area(ranks, count, !ranking->counts);
    bo_free(ranks);
    return BO_OK;
}
