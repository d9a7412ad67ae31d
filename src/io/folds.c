/* Assigns rows to the folds of a cross-validation, by class and by group. */
#include <math.h>
#include <stdlib.h>
#include "../base/rng.h"
#include "schema.h"

enum { MAX_CLASSES = 1 << 24 };

typedef struct member {
    uint64_t group, place; /* place: position in a random order */
    size_t class_index, row;
} member;

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_class(const void *a, const void *b)
{
    const member *left = a, *right = b;
    const int order = compare(left->class_index, right->class_index);
    return order ? order : compare(left->place, right->place);
}

static int by_group(const void *a, const void *b)
{
    const member *left = a, *right = b;
    const int order = compare(left->group, right->group);
    return order ? order : compare(left->place, right->place);
}

/* Rows are sorted by class, shuffled within each class, and assigned to the folds round-robin. */
static void deal_rows(const bo_folds_desc *desc, size_t rows, member *members, size_t *folds)
{
    qsort(members, rows, sizeof *members, by_class);
    for (size_t i = 0; i < rows; i++) folds[members[i].row] = i % desc->folds;
}

/* Consecutive members. `place` orders groups of equal size at random. */
typedef struct run {
    size_t first, count;
    uint64_t place;
} run;

static int by_size(const void *a, const void *b)
{
    const run *left = a, *right = b;
    const int order = compare(right->count, left->count);
    return order ? order : compare(left->place, right->place);
}

static size_t find_runs(const member *members, size_t rows, run *runs)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++) {
        if (!i || members[i].group != members[i - 1].group) runs[count++] = (run){i, 0, members[i].place};
        runs[count - 1].count++;
    }
    return count;
}

typedef struct tally {
    size_t classes;
    double *share; /* folds x classes: rows of a class in a fold, over all rows of the class */
    double *all;   /* rows of each class */
    size_t *rows;  /* of each fold */
} tally;

/* The sum over the folds of the squared shares of all classes is minimal if every class is spread evenly. A group with
 * g_c rows of class c increases it, in the fold f with shares s_fc, by 2 Σ_c g_c s_fc / n_c and a constant. */
static size_t best_fold(const bo_folds_desc *desc, const tally *t, const member *members, const run *group)
{
    size_t best = 0;
    double min_cost = INFINITY;
    for (size_t f = 0; f < desc->folds; f++) {
        double cost = 0;
        for (size_t i = group->first; i < group->first + group->count; i++) {
            const size_t c = members[i].class_index;
            cost += t->share[f * t->classes + c] / t->all[c];
        }
        if (cost > min_cost || (cost == min_cost && t->rows[f] >= t->rows[best])) continue;
        min_cost = cost;
        best = f;
    }
    return best;
}

static void deal_groups(const bo_folds_desc *desc, const tally *t, const member *members, const run *runs, size_t count,
                        size_t *folds)
{
    for (size_t g = 0; g < count; g++) {
        const size_t fold = best_fold(desc, t, members, &runs[g]);
        for (size_t i = runs[g].first; i < runs[g].first + runs[g].count; i++) {
            const size_t c = members[i].class_index;
            folds[members[i].row] = fold;
            t->share[fold * t->classes + c] += 1 / t->all[c];
            t->rows[fold]++;
        }
    }
}

static bo_status split_groups(bo_context *context, const bo_folds_desc *desc, size_t rows, member *members,
                              size_t *folds)
{
    tally t = {.classes = 1};
    for (size_t i = 0; i < rows; i++)
        if (members[i].class_index >= t.classes) t.classes = members[i].class_index + 1;
    t.share = bo_alloc(context, desc->folds * t.classes, sizeof *t.share, "the folds");
    t.all = bo_alloc(context, t.classes, sizeof *t.all, "the folds");
    t.rows = bo_alloc(context, desc->folds, sizeof *t.rows, "the folds");
    run *runs = bo_alloc(context, rows, sizeof *runs, "the folds");
    bo_status status = t.share && t.all && t.rows && runs ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        qsort(members, rows, sizeof *members, by_group);
        for (size_t i = 0; i < rows; i++) t.all[members[i].class_index]++;
        const size_t groups = find_runs(members, rows, runs);
        qsort(runs, groups, sizeof *runs, by_size);
        if (groups < desc->folds)
            status = bo_fail(context, BO_INVALID, "folds: expected at least as many groups as folds, found %zu and %zu",
                             groups, desc->folds);
        else
            deal_groups(desc, &t, members, runs, groups, folds);
    }
    bo_free(t.share);
    bo_free(t.all);
    bo_free(t.rows);
    bo_free(runs);
    return status;
}

bo_status bo_split_folds(bo_context *context, const bo_folds_desc *desc, size_t rows, size_t *folds)
{
    BO_REQUIRE(context, desc);
    BO_REQUIRE_IF(context, rows > 0, folds);
    BO_TRY(bo_check_reserved(context, "bo_folds_desc", desc->reserved));
    if (desc->folds < 2 || desc->folds > rows)
        return bo_fail(context, BO_INVALID, "folds: expected 2 to %zu folds, the number of rows, found %zu", rows,
                       desc->folds);
    for (size_t i = 0; desc->classes && i < rows; i++)
        if (!(desc->classes[i] >= 0 && desc->classes[i] < MAX_CLASSES && desc->classes[i] == floor(desc->classes[i])))
            return bo_fail(context, BO_INVALID, "folds: row %zu: expected a class index, found %g", i,
                           desc->classes[i]);
    member *members = bo_alloc(context, rows, sizeof *members, "the folds");
    if (!members) return BO_MEMORY;
    for (size_t i = 0; i < rows; i++)
        members[i] = (member){.group = desc->groups ? desc->groups[i] : 0,
                              .place = bo_permute(desc->seed, bo_rng_stream("data.folds", 0), rows, i),
                              .class_index = desc->classes ? (size_t)desc->classes[i] : 0,
                              .row = i};
    bo_status status = BO_OK;
    if (desc->groups)
        status = split_groups(context, desc, rows, members, folds);
    else
        deal_rows(desc, rows, members, folds);
    bo_free(members);
    return status;
}
