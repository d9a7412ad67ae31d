/* Estimates memory and time of a fit and resolves its defaults: loss, solver, number of features. */
#include "../base/base.h"
#include "../device/device.h"
#include "../features/facts.h"
#include "../features/resolve.h"
#include "../features/sections.h"
#include "estimate.h"
#include "fitting.h"
#include "left_out.h"
#include "machine.h"
#include "samples.h"
#include "search.h"
#include "solvers.h"
#include "tune.h"

#include <math.h>
#include <stdio.h>

bo_memory_bound bo_fit_memory(const bo_machine_desc *desc)
{
    if (desc->memory) return (bo_memory_bound){desc->memory, "set by --memory, in C by .memory"};
    return bo_default_memory();
}

/* Measured on an AVX-512 processor: 12 ns per pair of rows and core pair, and 15% of it for each further output. */
double bo_exact_seconds(double rows, double outputs, int threads)
{
    if (rows <= BO_COMMITTEE_ROWS) return BO_COMMITTEE * rows * rows * rows / (50e9 * threads);
    return 24e-9 * rows * rows * (1 + 0.15 * (outputs - 1)) / threads;
}

bool bo_fit_is_exact(const bo_machine_desc *desc, size_t rows, bool sparse, int threads)
{
    const bo_features_desc *map = &desc->features;
    if (map->function == BO_FUNCTION_SECTIONS) return true;
    bool network = map->kernel == BO_KERNEL_NNGP || map->kernel == BO_KERNEL_NTK;
    bool dual = desc->solver == BO_SOLVER_AUTO || desc->solver == BO_SOLVER_DUAL;
    bool plain = desc->loss != BO_LOSS_LOGISTIC && desc->noise == 0 && desc->dropout == 0 && !desc->stream_rows;
    if (map->function != BO_FUNCTION_DEFAULT || !dual || !plain || rows == 0 || sparse) return false;
    if (!desc->choose_kernel) return network && rows <= (map->features ? map->features : BO_FIT_FEATURES);
    /* the matrix in float32, and the same size for all other arrays */
    const double bytes = 8 * (double)rows * (double)rows;
    if (desc->budget > 0 && bo_exact_seconds((double)rows, 1, threads) > 0.4 * desc->budget) return false;
    return map->features == 0 && map->draw == BO_DRAW_DEFAULT && map->sampling == BO_SAMPLING_DRAWN &&
           desc->precision == BO_GRAM_PRECISION_AUTO && rows <= BO_EXACT_MAX_ROWS &&
           bytes <= (double)bo_fit_memory(desc).bytes;
}

void bo_fit_limit_landmarks(bo_machine_desc *desc, size_t rows)
{
    if (desc->features.function != BO_FUNCTION_LANDMARKS || rows == 0) return;
    desc->features.features = bo_min(desc->features.features ? desc->features.features : BO_FIT_FEATURES, rows);
}

/* In double, so that huge sizes do not overflow. */
typedef struct fit_size {
    double rows, dim, features, outputs; /* dim: columns of the map */
    double columns;                      /* of the rows */
    double row;                          /* bytes of the inputs of one row */
    double map, drawing;                 /* bytes of the feature map, and temporary bytes of its creation */
    bool search;                         /* γ or λ are searched */
    bool classes;
    bool exact;            /* the kernel of the rows instead of features */
    bool landmarks;        /* the features are landmark features */
    bool device;           /* sums and factors are in the memory of a device */
    bo_memory_bound limit; /* queried once, so that all choices are consistent */
} fit_size;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The bytes of the arrays that are allocated at the same time. Each function names the code that it describes. */

/* Copies of rows: bo_samples_gather. */
static double rows_copied(const fit_size *s, double rows)
{
    return rows * (s->row + 8 * s->outputs + 4);
}

/* Features of a block of rows with its scaled inputs and targets: ridge.c, passes.c. */
static double block_of(const fit_size *s, double max_rows)
{
    return fmin(s->rows, max_rows) * (5 * s->features + 4 * s->outputs + s->row + 64);
}

/* Leave-one-out of `rows` training rows: bo_ridge_left_out. */
static double left_out(const fit_size *s, double rows)
{
    return fmin(s->rows, rows) * (12 * s->features + 16 * s->outputs + s->row);
}

/* A map with this number of features while it is created. */
static double map_creation(const fit_size *s, double features)
{
    return features / s->features * (s->map + s->drawing);
}

/* bo_search: leave-one-out on a sample; beyond EXACT_ROWS a machine with half of the features. */
static double search_memory(const fit_size *s)
{
    double coarse = fmin(s->rows, BO_COARSE_ROWS), square = coarse * coarse;
    double few = rows_copied(s, coarse), tiles = 16 * fmin(coarse * s->dim, 0x1p19 + s->dim);
    double total = 64 * square + 2 * few + tiles + 16 * s->dim;
    if (!s->search) return total;
    if (s->rows <= BO_EXACT_ROWS)
        return fmax(total, few + rows_copied(s, s->rows) + 32 * s->rows * s->rows + 8 * s->rows * s->features +
                               map_creation(s, s->features));
    double half = fmin(s->features / 2, BO_SEARCH_FEATURES), wide = half + s->outputs + 1;
    fit_size smaller = *s;
    smaller.features = half;
    return fmax(total, few + rows_copied(s, s->rows) + map_creation(s, half) + 16 * wide * wide +
                           fmax(block_of(&smaller, BO_MACHINE_BLOCK), left_out(&smaller, 512)));
}

/* What the solver needs beside the map. */
static double solver_memory(bo_solver solver, const fit_size *s)
{
    double rows = s->rows, features = s->features, outputs = s->outputs, size = features + outputs + 1;
    double few = fmin(rows, 1024);
    switch (solver) {
    case BO_SOLVER_DUAL:
        return 16 * rows * features + 24 * rows * rows + rows * (4 * s->dim + 24 * outputs) + 48 * features * outputs +
               block_of(s, BO_MACHINE_BLOCK);
    case BO_SOLVER_CG:
        if (s->landmarks) /* the preconditioner, its rows, and the kernel values of all rows if they fit */
            return 12 * features * features + 88 * features * outputs + 2 * rows_copied(s, rows) + 8 * rows + s->map +
                   block_of(s, BO_MACHINE_BLOCK) + fmin(4 * rows * features, 0.25 * (double)s->limit.bytes);
        if (s->exact)
            return bo_exact_cg_bytes(rows, outputs) +
                   bo_exact_cg_matrix(rows, s->columns, outputs, (double)s->limit.bytes);
        return 72 * features * outputs + few * (8 * features + 8 * few) + rows_copied(s, rows) + 8 * rows +
               block_of(s, BO_MACHINE_BLOCK);
    case BO_SOLVER_ADAM: /* its features, if they fit, are part of the memory that is allowed */
        return 60 * features * outputs + 2 * rows_copied(s, rows) + 48 * rows + block_of(s, BO_MACHINE_BLOCK) +
               fmin(4 * rows * features, 0.25 * (double)s->limit.bytes);
    case BO_SOLVER_SGD:
        return 40 * features * outputs + rows_copied(s, rows) + 16 * rows + 2 * block_of(s, BO_MACHINE_BLOCK);
    default: /* the sums, their factor, and its copy in the machine */
        return (s->device ? 2 : 18) * size * size + 32 * features * outputs +
               fmax(block_of(s, BO_MACHINE_BLOCK), left_out(s, BO_LEFT_OUT_BLOCK));
    }
}

/* Peak bytes of a fit, including the rows. */
static double memory_of(bo_solver solver, const fit_size *s)
{
    static const double buffers = 1e7; /* packed panels of matrix products and other small blocks */
    double fixed = rows_copied(s, s->rows) + 40 * s->columns + rows_copied(s, fmin(s->rows, BO_KEPT_ROWS));
    double machine = (16 + 8 * s->outputs) * s->features;
    double drawing = fmax(map_creation(s, s->features), s->map + 1024 * (s->dim + s->features)) +
                     rows_copied(s, fmin(s->rows, BO_KEPT_ROWS));
    return buffers + fixed + machine + fmax(fmax(search_memory(s), drawing), s->map + solver_memory(solver, s));
}

/* The features of all rows, if they fit, and 22 vectors of L-BFGS. */
static double logistic_memory(const fit_size *s)
{
    double all = 4 * s->rows * s->features, limit = 0.5 * (double)s->limit.bytes;
    return (all <= limit ? all : 0) + 176 * (s->features + 1) * s->outputs +
           rows_copied(s, fmin(s->rows, fmax(4000, s->rows / 4)));
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

/* With landmarks, CG is chosen from this number of rows per landmark and of operations (rows times landmarks squared)
 * on: a Gram matrix takes seconds there, and left-out rows, for which the primal solver needs no refit, are few among
 * all rows. */
static const double cg_rows_per_landmark = 4, cg_work = 2e11;

static const char *choose_exact_solver(const bo_machine_desc *desc, const fit_size *s, bo_solver *out)
{
    const bool few = s->rows <= BO_FACTORIZED_ROWS, fits = memory_of(BO_SOLVER_DUAL, s) <= (double)s->limit.bytes;
    const bool tiny = s->rows <= BO_FACTORIZED_MAX_ROWS && bo_exact_needs_precision(desc->lambda, s->rows);
    *out = (few || tiny) && fits ? BO_SOLVER_DUAL : BO_SOLVER_CG;
    if (*out == BO_SOLVER_CG) return "the kernel is exact, and its matrix for the rows is large";
    return few ? "the kernel is exact: its matrix for the rows is factorized"
               : "the kernel is exact, and lambda is too small for float32: its matrix for the rows is factorized";
}

static const char *choose_solver(const bo_machine_desc *desc, bo_loss loss, const fit_size *s, bo_solver *out)
{
    double limit = (double)s->limit.bytes;
    if (desc->solver != BO_SOLVER_AUTO) {
        *out = desc->solver;
        if (s->device && desc->solver == BO_SOLVER_PRIMAL) /* also the default there: bo_fit_for_device */
            return "the device has the Gram matrix of the features in its memory";
        return "requested by the user";
    }
    if (s->exact) return choose_exact_solver(desc, s, out);
    if (loss == BO_LOSS_LOGISTIC) {
        *out = BO_SOLVER_PRIMAL;
        return "the logistic loss is preconditioned with the Gram matrix of the features";
    }
    if (s->landmarks && s->rows >= cg_rows_per_landmark * s->features &&
        s->rows * s->features * s->features > cg_work && desc->dropout == 0 && memory_of(BO_SOLVER_CG, s) <= limit) {
        *out = BO_SOLVER_CG;
        return "there are many rows per landmark, so passes over kernel values are faster than a Gram matrix";
    }
    if (s->features > s->rows && memory_of(BO_SOLVER_DUAL, s) <= limit) {
        *out = BO_SOLVER_DUAL;
        return "there are fewer rows than features, so the kernel matrix of the rows is smaller";
    }
    if (memory_of(BO_SOLVER_PRIMAL, s) <= limit) {
        *out = BO_SOLVER_PRIMAL;
        return "the Gram matrix of the features fits into memory";
    }
    *out = BO_SOLVER_CG;
    return "the Gram matrix of the features does not fit into memory";
}

static bo_loss choose_loss(const bo_machine_desc *desc, const fit_size *s)
{
    bo_solver solver;
    if (desc->loss != BO_LOSS_AUTO) return desc->loss;
    choose_solver(desc, BO_LOSS_RIDGE, s, &solver);
    bool logistic = desc->task == BO_TASK_CLASSIFICATION && solver == BO_SOLVER_PRIMAL && desc->noise == 0 &&
                    desc->dropout == 0 && memory_of(solver, s) + logistic_memory(s) <= (double)s->limit.bytes;
    return logistic ? BO_LOSS_LOGISTIC : BO_LOSS_RIDGE;
}

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

/* Rough float32 rate of a recent core, which `bochner bench` measures, and of a device. */
static const double operations_per_second = 40e9, operations_of_device = 20e12;
/* Typical passes over the rows of CG and SGD, and the factor of time for the search of γ or λ. */
static const double passes = 50, with_search = 3;

/* The projection, the Gram matrix (DUAL: the kernel matrix; CG and SGD: passes instead) and its factorization. */
static double operations_of(const bo_machine_desc *desc, bo_solver solver, const fit_size *s)
{
    double rows = desc->stream_rows ? (double)desc->stream_rows : s->rows;
    double side = solver == BO_SOLVER_DUAL ? rows : s->features;
    double solving = rows * s->features * side + side * side * side / 3;
    if (s->landmarks && solver == BO_SOLVER_PRIMAL) solving += rows * s->features * side;
    if (s->landmarks) solving += 2 * s->features * s->features * s->features;
    if (solver == BO_SOLVER_CG || solver == BO_SOLVER_SGD || solver == BO_SOLVER_ADAM)
        solving = passes * 2 * rows * s->features * (s->exact ? s->outputs : 1) +
                  (s->landmarks ? 4 * s->features * s->features * s->features : 0);
    double searched = desc->lambda > 0 && desc->features.gamma > 0 ? 1 : with_search;
    if (desc->features.depth == -1) searched *= BO_DEPTHS_SEARCHED;
    return searched * (rows * s->dim * s->features + solving);
}

/* Columns of the map: sparse rows have frequencies only for columns that vary. */
static size_t map_columns(const bo_fit_shape *shape)
{
    size_t dim = shape->dim ? shape->dim : 1;
    return shape->nonzeros && shape->nonzeros < dim ? shape->nonzeros : dim;
}

/* Temporary bytes while a map is created, per number in its matrix: matrices in double of draws that
 * match moments or are orthogonal and for offsets of exponential features, and one to pack it. */
static double drawing_bytes(const bo_features_desc *resolved)
{
    if (resolved->draw == BO_DRAW_HADAMARD) return 0;
    if (resolved->draw == BO_DRAW_MOMENT || resolved->kernel == BO_KERNEL_SOFTMAX) return 12;
    return !resolved->sparse ? 4 : resolved->draw == BO_DRAW_IID ? 0 : 8;
}

/* Bytes for choosing the frequencies of a data-dependent map: bo_features_select with the rows that a fit keeps. */
static double choosing_bytes(const bo_machine_desc *desc, const bo_features_desc *resolved, double rows)
{
    const double frequencies = (double)bo_frequencies_of(resolved), dim = (double)resolved->dim;
    const double candidates = desc->features.candidates ? (double)desc->features.candidates : 8 * frequencies;
    const double columns = candidates * (double)resolved->features / frequencies;
    const double kept = fmin(rows, BO_SAMPLED_ROWS), side = fmin(kept, columns);
    if (desc->features.sampling == BO_SAMPLING_OPTIMAL) return candidates * (12 * dim + 8 * kept) + 8 * kept * dim;
    return 4 * candidates * dim + 8 * (kept * (columns + dim) + columns) + 16 * side * side;
}

/* Bytes for choosing and factorizing landmarks: the kernel matrix and its inverse factor, and for leverage scores a
 * pilot sample: features/landmarks.c. */
static double landmarks_bytes(const bo_machine_desc *desc, const bo_features_desc *resolved, double rows)
{
    const double m = (double)resolved->features, dim = (double)resolved->dim, square = 16 * m * m;
    if (desc->features.sampling != BO_SAMPLING_LEVERAGE) return square + 8 * m * dim;
    const double requested = desc->features.candidates ? (double)desc->features.candidates : 8 * m;
    const double candidates = fmin(rows, fmax(requested, m)), pilot = fmin(candidates, 1024);
    return candidates * (8 * dim + 40) + fmax(square, pilot * (8 * pilot + 8 * 2048 + 4 * dim));
}

/* Bytes for drawing the map of a fit. Fewer of the columns of sparse rows may vary than have numbers, and then the draw
 * may be one that needs more memory. */
static bo_status size_of_drawing(bo_context *context, const bo_features_desc *map, const bo_machine_desc *desc,
                                 const bo_features_desc *resolved, double rows, double *bytes)
{
    if (resolved->function == BO_FUNCTION_LANDMARKS) {
        *bytes = landmarks_bytes(desc, resolved, rows);
        return BO_OK;
    }
    *bytes = drawing_bytes(resolved) * (double)bo_frequencies_of(resolved) * (double)map->dim;
    if (desc->features.sampling != BO_SAMPLING_DRAWN) *bytes += choosing_bytes(desc, resolved, rows);
    if (!map->sparse || map->dim < BO_WIDE_COLUMNS) return BO_OK;
    bo_features_desc narrow = *map, other;
    narrow.dim = BO_WIDE_COLUMNS - 1;
    narrow.draw = bo_fitting_map(desc, narrow.dim).draw;
    BO_TRY(bo_features_resolve(context, &narrow, &other));
    *bytes = fmax(*bytes, drawing_bytes(&other) * (double)bo_frequencies_of(&other) * (double)narrow.dim);
    return BO_OK;
}

/* The sizes of a fit with these rows. The map is the map of the fit without the parts that depend on the data. */
static bo_status size_of(bo_context *context, const bo_machine_desc *desc, const bo_fit_shape *shape, fit_size *out)
{
    const size_t dim = map_columns(shape);
    bo_features_desc map = bo_fitting_map(desc, dim), resolved;
    map.sampling = BO_SAMPLING_DRAWN; /* data-dependent maps have the same size but need the data */
    map.pair_norm = 1;
    map.sparse = shape->nonzeros > 0;
    if (map.depth == -1) map.depth = BO_DEPTHS_SEARCHED;
    const bool exact = map.function == BO_FUNCTION_SECTIONS;
    size_t bytes = 0;
    double drawing = 0, rows = shape->rows ? (double)shape->rows : 2;
    if (exact) {
        map.features = (size_t)rows;
        BO_TRY(bo_sections_resolve(context, &map, &resolved));
        bytes = 2 * map.features * dim * sizeof(float);
    } else {
        BO_TRY(bo_features_resolve(context, &map, &resolved));
        BO_TRY(bo_features_estimate(context, &map, &bytes));
        BO_TRY(size_of_drawing(context, &map, desc, &resolved, rows, &drawing));
    }
    *out = (fit_size){.rows = rows,
                      .dim = (double)dim,
                      .columns = shape->dim ? (double)shape->dim : 1,
                      .features = (double)resolved.features,
                      .outputs = shape->outputs ? (double)shape->outputs : 1,
                      .row = shape->nonzeros ? 8 * (double)shape->nonzeros / rows + 8 : 4 * (double)dim,
                      .map = (double)bytes,
                      .drawing = drawing,
                      .search = !(desc->features.gamma > 0) || !(desc->lambda > 0),
                      .classes = desc->task == BO_TASK_CLASSIFICATION,
                      .exact = exact,
                      .landmarks = map.function == BO_FUNCTION_LANDMARKS,
                      .device = bo_context_is_on_gpu(context),
                      .limit = bo_fit_memory(desc)};
    return BO_OK;
}

/* Refuses a fit that does not fit into memory, before any work. */
static bo_status check_memory(bo_context *context, const bo_machine_desc *desc, const bo_fit_shape *shape,
                              const fit_size *size, double bytes)
{
    char label[128];
    int length = snprintf(label, sizeof label, "fitting %.0f features", size->features);
    if (shape->rows)
        snprintf(label + length, sizeof label - (size_t)length, " to %zu rows of %zu columns", shape->rows, shape->dim);
    bool by_rows = !desc->stream_rows && 4 * rows_copied(size, size->rows) > bytes;
    return bo_check_memory(context, label, bytes, size->limit,
                           size->exact ? "use random features (--function)"
                           : by_rows   ? "use a stream (--stream)"
                                       : "use fewer features");
}

/* Seconds of bo_tune: factorizations of the screened, compared and refined settings. */
static double tuning_seconds(const bo_machine_desc *desc, const fit_size *s, int threads)
{
    const double few = fmin(s->rows, BO_SCREEN_ROWS), many = fmin(s->rows, BO_TUNE_ROWS), rate = 45e9 * threads;
    const double candidates = desc->choose_kernel ? 5 : 2, refined = s->rows <= BO_COMMITTEE_ROWS ? BO_COMMITTEE : 2;
    const double screening = 0.45 * few * few * few / rate, comparing = 0.45 * many * many * many / rate;
    const double steps = candidates * (s->rows > BO_SCREEN_ROWS ? 6 : 0) + refined * 20;
    const double seconds = candidates * (7 * screening + 0.03) + steps * comparing;
    return desc->budget > 0 ? fmin(seconds, 0.6 * desc->budget) : seconds;
}

/* Seconds of a fit, approximately. */
static double seconds_of(bo_context *context, const bo_machine_desc *desc, const bo_fit_cost *found, const fit_size *s)
{
    const int threads = bo_context_threads(context);
    const bool tuned = desc->choose_kernel || desc->metric == BO_METRIC_DIAGONAL || desc->metric == BO_METRIC_LEARN;
    if (tuned && found->exact) return tuning_seconds(desc, s, threads) + bo_exact_seconds(s->rows, s->outputs, threads);
    const double rate = s->device ? operations_of_device : operations_per_second * threads;
    return found->operations / rate + (tuned ? tuning_seconds(desc, s, threads) : 0);
}

/* The estimate for a descriptor whose function is resolved. */
static bo_status estimate(bo_context *context, const bo_machine_desc *desc, const bo_fit_shape *shape, bo_fit_cost *out)
{
    fit_size size;
    BO_TRY(size_of(context, desc, shape, &size));
    bo_fit_cost found = {.features = (size_t)size.features,
                         .loss = BO_LOSS_RIDGE,
                         .solver = BO_SOLVER_PRIMAL,
                         .why_solver = BO_WHY_STREAM,
                         .exact = size.exact,
                         .searches_gamma = !(desc->features.gamma > 0),
                         .searches_lambda = !(desc->lambda > 0)};
    if (!desc->stream_rows) {
        found.loss = choose_loss(desc, &size);
        found.why_solver = choose_solver(desc, found.loss, &size, &found.solver);
    }
    found.operations = operations_of(desc, found.solver, &size);
    found.seconds = seconds_of(context, desc, &found, &size);
    double total = memory_of(found.solver, &size);
    if (found.loss == BO_LOSS_LOGISTIC) total += logistic_memory(&size);
    BO_TRY(check_memory(context, desc, shape, &size, total));
    found.bytes = (size_t)total;
    *out = found;
    return BO_OK;
}

/* The number of features that fits into the budget. */
static void limit_features(bo_context *context, const bo_fit_shape *shape, bo_machine_desc *desc)
{
    enum { MIN_FEATURES = 128 };
    bo_fit_cost cost;
    if (desc->features.function == BO_FUNCTION_SECTIONS || !bo_features_needs_length(&desc->features)) return;
    if (desc->features.features == 0) desc->features.features = BO_FIT_FEATURES;
    while (desc->features.features >= 2 * MIN_FEATURES && estimate(context, desc, shape, &cost) == BO_OK &&
           cost.seconds > desc->budget)
        desc->features.features /= 2;
}

void bo_fit_resolve_map(bo_context *context, const bo_fit_shape *shape, bo_machine_desc *desc)
{
    const bool sparse = shape->nonzeros > 0;
    bo_features_desc *map = &desc->features;
    if (bo_fit_is_exact(desc, shape->rows, sparse, bo_context_threads(context)))
        map->function = BO_FUNCTION_SECTIONS;
    else if (desc->choose_kernel && !sparse && !desc->stream_rows && map->function == BO_FUNCTION_DEFAULT &&
             map->features == 0 && shape->rows > 0 && !bo_context_is_on_gpu(context))
        map->function = BO_FUNCTION_LANDMARKS; /* of rough kernels they are more accurate than random features */
    if (desc->budget > 0) limit_features(context, shape, desc);
    bo_fit_limit_landmarks(desc, shape->rows);
}

bo_status bo_machine_estimate(bo_context *context, const bo_machine_desc *desc, const bo_fit_shape *shape,
                              bo_fit_cost *out)
{
    BO_REQUIRE(context, desc, shape, out);
    *out = (bo_fit_cost){0};
    BO_TRY(bo_check_reserved(context, "bo_machine_desc", desc->reserved));
    BO_TRY(bo_check_reserved(context, "bo_fit_shape", shape->reserved));
    bo_machine_desc resolved = *desc;
    bo_fit_for_device(context, &resolved);
    bo_fit_resolve_map(context, shape, &resolved);
    return estimate(context, &resolved, shape, out);
}
