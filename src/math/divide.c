/* Eigenvectors of a symmetric tridiagonal matrix by divide and conquer (Cuppen 1981; Gu and Eisenstat 1995).
 *
 * Without the couplings β between its parts, T is a block diagonal matrix plus rank-one matrices |β| (u uᵀ) with two
 * nonzero entries each. The parts are solved by QL. Two neighbors with eigenvectors Q and values D are merged: T = Qᵀ
 * (D + ρ z zᵀ) Q in rows, so that the eigenvectors of D + ρ z zᵀ times Q are those of T. Most of the work is this
 * product. Rows with a negligible z, or with equal d after a rotation, are eigenvectors already (deflation).
 *
 * How the work is divided depends only on n, so the bits do not depend on the number of threads. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "../device/cpu/kernels.h"
#include "linalg.h"
#include "scaling.h"
#include "secular.h"
#include "tridiagonal.h"

enum {
    LEAF = BO_SIZE(32, 3),     /* largest part that is solved by QL */
    ALONE = BO_SIZE(256, 8),   /* largest merge that is one task; in larger ones the steps are divided into tasks */
    STRIP = BO_SIZE(512, 8),   /* columns per multiplication */
    ROOTS = BO_SIZE(16, 2),    /* roots per task */
    COLUMNS = BO_SIZE(128, 4), /* columns per task */
    MAX_SWEEPS = 60,           /* QL steps per eigenvalue; two or three are typical */
};

/* The columns in which a row of Q may have nonzero numbers. */
typedef enum side { FIRST, BOTH, SECOND, SIDES } side;

/* All arrays have n elements. strips, workspaces: for a merge in steps, or one per worker for merges that are one task;
 * lines: n numbers per worker. */
typedef struct problem {
    bo_context *context;
    size_t n;
    int level; /* 2^level parts; part i begins at row i n / 2^level */
    double *d, *e, *q, *u;
    double *z, *poles, *weights, *updated;
    size_t *order, *sorted, *kept, *gone, *column;
    unsigned char *side;
    double *lines, *strips;
    char *workspaces;
    size_t strip_size, workspace_size;
    atomic_bool diverged;
} problem;

/* One merge: the arrays of the problem at its first row. kept: rows in the secular equation, by ascending pole; gone:
 * deflated rows; column: where the vectors of u have their entry for a kept row (rows that are zero on the same side
 * are adjacent). */
typedef struct merge {
    bo_context *context;
    size_t n, half, ld, line_size; /* line_size: length of a line */
    double rho, total;             /* total: Σ z² of the kept rows */
    double *d, *q, *u, *z, *poles, *weights, *updated;
    size_t *order, *sorted, *kept, *gone, *column;
    unsigned char *side;
    size_t keeps, goes, sides[SIDES]; /* numbers of rows */
    double *lines, *strip;
    void *workspace;
} merge;

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static double largest(size_t n, const double *x)
{
    double max_abs = 0;
    bo_largest(n, x, &max_abs);
    return max_abs;
}

static void sort_order(size_t n, const double *d, size_t *order) /* by insertion: few rows, or nearly sorted */
{
    for (size_t i = 1; i < n; i++) {
        size_t at = i, row = order[i];
        for (; at > 0 && d[order[at - 1]] > d[row]; at--) order[at] = order[at - 1];
        order[at] = row;
    }
}

static void rotate_rows(size_t n, double c, double s, double *restrict x, double *restrict y)
{
    for (size_t j = 0; j < n; j++) {
        double a = x[j], b = y[j];
        x[j] = c * a + s * b;
        y[j] = c * b - s * a;
    }
}

/* One QL step with Wilkinson's shift on rows [low, high] (Golub and Van Loan, 8.3.3). Returns early if a rotation is
 * undefined, which splits the range. */
static void ql_step(size_t n, size_t low, size_t high, double *d, double *e, double *q, size_t ld)
{
    double g = (d[low + 1] - d[low]) / (2 * e[low]), r = hypot(g, 1);
    g = d[high] - d[low] + e[low] / (g + copysign(r, g));
    double s = 1, c = 1, p = 0;
    for (size_t i = high; i-- > low;) {
        double f = s * e[i], b = c * e[i];
        r = hypot(f, g);
        e[i + 1] = r;
        if (r == 0) {
            d[i + 1] -= p;
            e[high] = 0;
            return;
        }
        s = f / r, c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotate_rows(n, c, -s, q + i * ld, q + (i + 1) * ld);
    }
    d[low] -= p;
    e[low] = g;
    e[high] = 0;
}

/* QL for n <= LEAF rows. e has n elements. False: not converged. */
static bool solve_part(size_t n, double *d, double *e, double *q, size_t ld)
{
    for (size_t i = 0; i < n; i++) q[i * ld + i] = 1;
    e[n - 1] = 0;
    /* the entries are of order one, so numbers that lose digits by underflow are negligible */
    const double negligible = fmax(DBL_EPSILON / 2 * fmax(largest(n, d), largest(n, e)), 0x1p-900);
    for (size_t low = 0; low < n; low++) {
        for (int sweep = 0;; sweep++) {
            size_t high = low;
            while (fabs(e[high]) > negligible) high++;
            if (high == low) break;
            if (sweep == MAX_SWEEPS) return false;
            ql_step(n, low, high, d, e, q, ld);
        }
    }
    return true;
}

static size_t begin_of(const problem *p, int level, size_t part)
{
    return p->n * part >> level;
}

static void part_task(void *arg, size_t index, int worker)
{
    (void)worker;
    problem *p = arg;
    size_t first = begin_of(p, p->level, index), n = begin_of(p, p->level, index + 1) - first;
    double e[LEAF + 1];
    memcpy(e, p->e + first, (n - 1) * sizeof *e);
    if (!solve_part(n, p->d + first, e, p->q + first * p->n + first, p->n)) atomic_store(&p->diverged, true);
    for (size_t i = 0; i < n; i++) p->order[first + i] = i;
    sort_order(n, p->d + first, p->order + first);
}

/* ---- deflation --------------------------------------------------------------------------------------------------- */

/* z: the last column of the first half and the first column of the second, with norm 1. */
static void set_up(merge *m, double coupling)
{
    for (size_t i = 0; i < m->n; i++) {
        bool first = i < m->half;
        double entry = m->q[i * m->ld + (first ? m->half - 1 : m->half)];
        m->z[i] = (first || coupling > 0 ? entry : -entry) * M_SQRT1_2;
        m->side[i] = first ? FIRST : SECOND;
    }
    m->rho = 2 * fabs(coupling);
}

/* Merges the two sorted lists in `order`; the second starts at `half`. */
static void merge_orders(const merge *m)
{
    size_t a = 0, b = m->half;
    for (size_t i = 0; i < m->n; i++) {
        bool first = b == m->n || (a < m->half && m->d[m->order[a]] <= m->d[m->half + m->order[b]]);
        m->sorted[i] = first ? m->order[a++] : m->half + m->order[b++];
    }
}

static void keep(merge *m, size_t row)
{
    m->poles[m->keeps] = m->d[row];
    m->weights[m->keeps] = m->z[row];
    m->kept[m->keeps++] = row;
    m->sides[m->side[row]]++;
}

/* Rotates rows i and j so that z_i becomes zero, if the resulting off-diagonal number is negligible. */
static bool rotate_away(merge *m, size_t i, size_t j, double tolerance)
{
    double r = hypot(m->z[i], m->z[j]), c = m->z[j] / r, s = -m->z[i] / r;
    if (fabs((m->d[j] - m->d[i]) * c * s) > tolerance) return false;
    m->z[j] = r;
    m->z[i] = 0;
    if (m->side[i] != m->side[j]) m->side[i] = m->side[j] = BOTH;
    rotate_rows(m->n, c, s, m->q + i * m->ld, m->q + j * m->ld);
    double di = m->d[i], dj = m->d[j];
    m->d[i] = di * c * c + dj * s * s;
    m->d[j] = di * s * s + dj * c * c;
    return true;
}

static void deflate(merge *m)
{
    double tolerance = 8 * DBL_EPSILON * fmax(largest(m->n, m->d), largest(m->n, m->z));
    const size_t none = m->n;
    size_t waiting = none;
    for (size_t i = 0; i < m->n; i++) {
        size_t row = m->sorted[i];
        if (m->rho * fabs(m->z[row]) <= tolerance) {
            m->gone[m->goes++] = row;
            continue;
        }
        if (waiting != none && rotate_away(m, waiting, row, tolerance)) {
            m->gone[m->goes++] = waiting;
        } else if (waiting != none) {
            keep(m, waiting);
        }
        waiting = row;
    }
    if (waiting != none) keep(m, waiting);
    size_t next[SIDES] = {0, m->sides[FIRST], m->sides[FIRST] + m->sides[BOTH]};
    for (size_t i = 0; i < m->keeps; i++) m->column[i] = next[m->side[m->kept[i]]]++;
}

/* ---- the eigenvectors of D + ρ z zᵀ ------------------------------------------------------------------------------ */

static void root_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const merge *m = arg;
    bo_secular secular = {m->keeps, m->poles, m->updated, 1 / m->rho, m->total};
    size_t end = bo_min((index + 1) * ROOTS, m->keeps);
    for (size_t i = index * ROOTS; i < end; i++) {
        m->d[i] = bo_secular_root(&secular, i, m->u + i * m->keeps);
    }
}

/* The z for which the computed roots are exact: z_j² = Π_i (λ_i - d_j) / Π_{i != j} (d_i - d_j). With it the vectors
 * are orthogonal to working precision (Gu and Eisenstat, 3.3). Row i of u holds d_j - λ_i. */
static void update_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const merge *m = arg;
    size_t first = index * COLUMNS, end = bo_min(first + COLUMNS, m->keeps), k = m->keeps;
    double *restrict z = m->updated;
    const double *restrict poles = m->poles;
    for (size_t j = first; j < end; j++) z[j] = -m->u[j * k + j];
    for (size_t i = 0; i < k; i++) {
        const double *restrict u = m->u + i * k;
        double pole = poles[i];
        size_t before = bo_max(first, bo_min(i, end)), after = bo_max(first, bo_min(i + 1, end));
        for (size_t j = first; j < before; j++) z[j] *= u[j] / (poles[j] - pole);
        for (size_t j = after; j < end; j++) z[j] *= u[j] / (poles[j] - pole);
    }
    for (size_t j = first; j < end; j++) z[j] = copysign(sqrt(fabs(z[j])), m->weights[j]);
}

static void vector_task(void *arg, size_t index, int worker)
{
    const merge *m = arg;
    size_t k = m->keeps, end = bo_min((index + 1) * ROOTS, k);
    double *restrict line = m->lines + (size_t)worker * m->line_size;
    for (size_t i = index * ROOTS; i < end; i++) {
        double *u = m->u + i * k, sum = 0;
        for (size_t j = 0; j < k; j++) line[j] = m->updated[j] / u[j];
        bo_context_kernels(m->context)->dots64(1, k, line, k, line, &sum);
        double factor = 1 / sqrt(sum);
        for (size_t j = 0; j < k; j++) u[m->column[j]] = line[j] * factor;
    }
}

static void solve_secular(merge *m)
{
    for (size_t j = 0; j < m->keeps; j++) {
        m->updated[j] = m->weights[j] * m->weights[j];
        m->total += m->updated[j];
    }
    bo_parallel(m->context, bo_ceil_div(m->keeps, ROOTS), root_task, m);
    bo_parallel(m->context, bo_ceil_div(m->keeps, COLUMNS), update_task, m);
    bo_parallel(m->context, bo_ceil_div(m->keeps, ROOTS), vector_task, m);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* Replaces columns [first, last) of Q, all on one side. Kept rows that are zero in these columns are skipped: the
 * remaining rows are the columns [from, to) of u. */
static void multiply_strip(const merge *m, size_t first, size_t last, size_t from, size_t to)
{
    size_t width = last - first, bytes = width * sizeof(double);
    double *gone = m->strip + (to - from) * width;
    for (size_t i = 0; i < m->keeps; i++) {
        if (m->column[i] < from || m->column[i] >= to) continue;
        memcpy(m->strip + (m->column[i] - from) * width, m->q + m->kept[i] * m->ld + first, bytes);
    }
    for (size_t i = 0; i < m->goes; i++) memcpy(gone + i * width, m->q + m->gone[i] * m->ld + first, bytes);
    bo_gemm64_in(m->context, false, false, m->keeps, width, to - from, 1, m->u + from, m->keeps, m->strip, width, 0,
                 m->q + first, m->ld, m->workspace);
    for (size_t i = 0; i < m->goes; i++) memcpy(m->q + (m->keeps + i) * m->ld + first, gone + i * width, bytes);
}

static void multiply(const merge *m)
{
    size_t both = m->sides[FIRST] + m->sides[BOTH];
    for (size_t j = 0; j < m->half; j += STRIP) multiply_strip(m, j, bo_min(j + STRIP, m->half), 0, both);
    for (size_t j = m->half; j < m->n; j += STRIP)
        multiply_strip(m, j, bo_min(j + STRIP, m->n), m->sides[FIRST], m->keeps);
}

/* The roots are in ascending order in rows 0, 1, …; the deflated rows follow. */
static void order_rows(merge *m)
{
    size_t *gone = m->sorted, a = 0, b = 0;
    for (size_t i = 0; i < m->goes; i++) gone[i] = m->keeps + i;
    sort_order(m->goes, m->d, gone);
    for (size_t i = 0; i < m->n; i++) {
        bool first = b == m->goes || (a < m->keeps && m->d[a] <= m->d[gone[b]]);
        m->order[i] = first ? a++ : gone[b++];
    }
}

static void run(merge *m, double coupling)
{
    set_up(m, coupling);
    merge_orders(m);
    deflate(m);
    double *values = m->z; /* of the deflated rows; the roots overwrite d */
    for (size_t i = 0; i < m->goes; i++) values[i] = m->d[m->gone[i]];
    solve_secular(m);
    memcpy(m->d + m->keeps, values, m->goes * sizeof *values);
    multiply(m);
    order_rows(m);
}

static void merge_task(void *arg, size_t index, int worker)
{
    const problem *p = arg;
    size_t first = begin_of(p, p->level, index), end = begin_of(p, p->level, index + 1);
    size_t half = begin_of(p, p->level + 1, 2 * index + 1) - first;
    merge m = {.context = p->context, .n = end - first, .half = half, .ld = p->n, .line_size = p->n};
    m.d = p->d + first, m.q = p->q + first * p->n + first, m.u = p->u + first * p->n;
    m.z = p->z + first, m.poles = p->poles + first, m.weights = p->weights + first, m.updated = p->updated + first;
    m.order = p->order + first, m.sorted = p->sorted + first, m.kept = p->kept + first, m.gone = p->gone + first;
    m.column = p->column + first, m.side = p->side + first;
    m.lines = p->lines;
    m.strip = p->strips + (size_t)worker * p->strip_size;
    m.workspace = p->workspaces + (size_t)worker * p->workspace_size;
    run(&m, p->e[first + half - 1]);
}

/* ---- all merges -------------------------------------------------------------------------------------------------- */

/* Subtracts the couplings from the diagonal. */
static void uncouple(const problem *p, int levels)
{
    for (size_t part = 1; part < (size_t)1 << levels; part++) {
        size_t begin = begin_of(p, levels, part);
        double size = fabs(p->e[begin - 1]);
        p->d[begin - 1] -= size;
        p->d[begin] -= size;
    }
}

static void conquer(problem *p)
{
    int levels = 0;
    while ((p->n - 1) >> levels >= LEAF) levels++; /* until the largest part is a leaf */
    uncouple(p, levels);
    p->level = levels;
    bo_parallel(p->context, (size_t)1 << levels, part_task, p);
    while (p->level-- > 0 && !atomic_load(&p->diverged)) {
        size_t merges = (size_t)1 << p->level;
        if (bo_ceil_div(p->n, merges) <= ALONE) {
            bo_parallel(p->context, merges, merge_task, p);
        } else {
            for (size_t i = 0; i < merges; i++) merge_task(p, i, 0);
        }
    }
}

static bo_status allocate(problem *p, void **numbers, void **indices)
{
    bo_context *context = p->context;
    size_t n = p->n, workers = (size_t)bo_context_threads(context), alone = bo_min(n, ALONE);
    p->strip_size = alone * bo_min(alone, STRIP);
    p->workspace_size = bo_padded_bytes(bo_gemm64_bytes(context, alone, bo_min(alone, STRIP), alone));
    size_t strips = bo_max(workers * p->strip_size, n * bo_min(n, STRIP));
    size_t workspaces = bo_max(workers * p->workspace_size, bo_gemm64_bytes(context, n, bo_min(n, STRIP), n));
    double *x = *numbers = bo_alloc_raw(context, 4 + workers, n * sizeof *x, "eigenvectors");
    size_t *i = *indices = bo_alloc_raw(context, n, 4 * sizeof *i + 1, "eigenvectors");
    p->u = bo_alloc_raw(context, n, n * sizeof *p->u, "eigenvectors");
    p->strips = bo_alloc_raw(context, strips, sizeof *p->strips, "eigenvectors");
    p->workspaces = bo_alloc_raw(context, workspaces, 1, "eigenvectors");
    if (!x || !i || !p->u || !p->strips || !p->workspaces) return BO_MEMORY;
    p->z = x, p->poles = x + n, p->weights = x + 2 * n, p->updated = x + 3 * n, p->lines = x + 4 * n;
    p->sorted = i, p->kept = i + n, p->gone = i + 2 * n, p->column = i + 3 * n;
    p->side = (unsigned char *)(i + 4 * n);
    return BO_OK;
}

bo_status bo_tridiagonal_eigen(bo_context *context, size_t n, double *d, double *e, double *q, size_t *order)
{
    problem p = {.context = context, .n = n, .d = d, .e = e, .q = q, .order = order};
    void *numbers, *indices;
    bo_status status = allocate(&p, &numbers, &indices);
    if (status == BO_OK) conquer(&p);
    if (status == BO_OK && atomic_load(&p.diverged))
        status = bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix did not converge", n, n);
    bo_free(numbers);
    bo_free(indices);
    bo_free(p.u);
    bo_free(p.strips);
    bo_free(p.workspaces);
    return status;
}
