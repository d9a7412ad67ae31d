/* The input of a solver, and the solvers: dual.c, cg.c, exact_cg.c, sgd.c, adam.c, logistic.c. */
#ifndef BO_MACHINES_SOLVERS_H
#define BO_MACHINES_SOLVERS_H

#include "ridge.h"

/* The input of every solver. */
typedef struct bo_fit_problem {
    const bo_machine_desc *desc;
    const bo_samples *samples;
    bo_row_map row_map;
    const bo_targets *targets;
    bo_penalty penalty;
    bool intercept;
    double optimism; /* left-out errors are multiplied by its root: settings were fitted to the same rows; at least 1 */
    /* DUAL: receives the left-out predictions of all rows, which the caller frees; NULL: not needed */
    bo_left_out *left_out;
} bo_fit_problem;

/* Features of rows [first, first + rows) of the samples. */
bo_status bo_problem_features(bo_context *context, const bo_fit_problem *problem, size_t first, size_t rows, float *z,
                              size_t ldz);
bo_status bo_solve_dual(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
/* CG with an exact kernel: exact_cg.c. Its bytes without the kernel matrix, and the bytes of the part of the kernel
 * matrix that is kept in memory if a fit may use `limit` bytes; the other part is computed again in each iteration. */
bo_status bo_solve_exact_cg(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
double bo_exact_cg_bytes(double rows, double outputs);
double bo_exact_cg_matrix(double rows, double dim, double outputs, double limit);
bo_status bo_solve_sgd(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_adam(bo_context *context, const bo_fit_problem *problem, bo_machine *machine);
bo_status bo_solve_logistic(bo_context *context, const bo_fit_problem *problem, bo_moments *moments,
                            bo_machine *machine);
/* True if λ is too small for kernel values in float32, whose rounding errors move eigenvalues by about 1e-7 √n. */
static inline bool bo_exact_needs_precision(double lambda, double rows)
{
    return lambda > 0 && lambda * lambda < 9e-12 * rows;
}

/* Rows up to which the matrix of an exact kernel is factorized by default. */
enum { BO_FACTORIZED_ROWS = 4096 };

/* Rows up to which it is factorized if λ is too small for float32; beyond, λ is raised. */
enum { BO_FACTORIZED_MAX_ROWS = 8192 };

#endif
