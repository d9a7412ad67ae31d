/* GEMM for the type its includer defines: TYPE, GEMM (its name), PACK, DEPTH, MICRO(kernels) (mr, nr and the
 * function), KERNEL (the name of that function's member), JOB and the names of the static functions. */

/* One run along k of one super-block of C: panels packed first, then tiles of C. */
typedef struct JOB {
    size_t mr, nr;
    void (*micro)(size_t k, const TYPE *a, const TYPE *b, TYPE *c, size_t ldc, size_t m, size_t n);
    bool ta, tb;
    size_t m, n, k; /* of the super-block */
    TYPE alpha, beta;
    bool first; /* the first run along k, which applies beta */
    const TYPE *a, *b;
    size_t lda, ldb;
    TYPE *c;
    size_t ldc;
    TYPE *panel_a, *panel_b;
    size_t tile_rows, tile_columns;
} JOB;

static void PACK_TASK(void *arg, size_t index, int worker)
{
    (void)worker;
    const JOB *job = arg;
    size_t blocks_a = bo_ceil_div(job->m, job->tile_rows);
    if (index < blocks_a) {
        size_t first = index * job->tile_rows, lines = bo_smaller(job->tile_rows, job->m - first);
        const TYPE *source = job->a + (job->ta ? first : first * job->lda);
        PACK(job->mr, lines, job->k, job->alpha, source, job->lda, !job->ta, job->panel_a + first * job->k);
    } else {
        size_t first = (index - blocks_a) * job->tile_columns;
        size_t lines = bo_smaller(job->tile_columns, job->n - first);
        const TYPE *source = job->b + (job->tb ? first * job->ldb : first);
        PACK(job->nr, lines, job->k, 1, source, job->ldb, job->tb, job->panel_b + first * job->k);
    }
}

static void SCALE(size_t m, size_t n, TYPE beta, TYPE *c, size_t ldc)
{
    if (beta == 1) return;
    for (size_t i = 0; i < m; i++) {
        if (beta == 0) {
            memset(c + i * ldc, 0, n * sizeof *c);
        } else {
            for (size_t j = 0; j < n; j++) c[i * ldc + j] *= beta;
        }
    }
}

/* Rows run fastest, so that neighbouring tasks share the part of B in the second-level cache. */
static void TILE_TASK(void *arg, size_t index, int worker)
{
    (void)worker;
    const JOB *job = arg;
    size_t tiles_down = bo_ceil_div(job->m, job->tile_rows);
    size_t i0 = index % tiles_down * job->tile_rows, j0 = index / tiles_down * job->tile_columns;
    size_t i1 = bo_smaller(i0 + job->tile_rows, job->m), j1 = bo_smaller(j0 + job->tile_columns, job->n);
    if (job->first) SCALE(i1 - i0, j1 - j0, job->beta, job->c + i0 * job->ldc + j0, job->ldc);
    for (size_t i = i0; i < i1; i += job->mr) {
        for (size_t j = j0; j < j1; j += job->nr) {
            job->micro(job->k, job->panel_a + i * job->k, job->panel_b + j * job->k, job->c + i * job->ldc + j,
                       job->ldc, bo_smaller(job->mr, i1 - i), bo_smaller(job->nr, j1 - j));
        }
    }
}

/* All runs along k of one super-block: job has everything but k, first and the operands' place along k. */
static void SUPER_BLOCK(bo_context *context, JOB *job, size_t k, size_t run)
{
    const TYPE *a = job->a, *b = job->b;
    size_t down = bo_ceil_div(job->m, job->tile_rows), across = bo_ceil_div(job->n, job->tile_columns);
    for (size_t p = 0; p < k; p += run) {
        job->k = bo_smaller(run, k - p);
        job->first = p == 0;
        job->a = a + (job->ta ? p * job->lda : p);
        job->b = b + (job->tb ? p : p * job->ldb);
        bo_parallel(context, down + across, PACK_TASK, job);
        bo_parallel(context, down * across, TILE_TASK, job);
    }
}

/* C += Tᵀ after beta, T being n x m: the way back from a swapped product. */
static void ADD_TRANSPOSED(size_t m, size_t n, const TYPE *t, TYPE beta, TYPE *c, size_t ldc)
{
    SCALE(m, n, beta, c, ldc);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] += t[j * m + i];
    }
}

/* A tile is wider than it is tall. When C is tall and thinner than a tile, much of it would be padding, and
 * Cᵀ = op(B)ᵀ op(A)ᵀ is the better product (scores of a few classes are such). */
static bool BETTER_SWAPPED(size_t mr, size_t nr, size_t m, size_t n)
{
    size_t direct = bo_round_up(m, mr) * bo_round_up(n, nr), swapped = bo_round_up(n, mr) * bo_round_up(m, nr);
    return n < nr && m >= 4 * nr && swapped + swapped / 4 < direct;
}

bo_status GEMM(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, TYPE alpha, const TYPE *a,
               size_t lda, const TYPE *b, size_t ldb, TYPE beta, TYPE *c, size_t ldc)
{
    if (m == 0 || n == 0) return BO_OK;
    if (k == 0 || alpha == 0) {
        SCALE(m, n, beta, c, ldc);
        return BO_OK;
    }
    const bo_kernels *kernels = bo_context_kernels(context);
    if (BETTER_SWAPPED(kernels->MICRO.mr, kernels->MICRO.nr, m, n)) {
        TYPE *transposed = bo_alloc_raw(context, m * n, sizeof(TYPE), "a thin product");
        if (!transposed) return BO_MEMORY;
        bo_status status = GEMM(context, !tb, !ta, n, m, k, alpha, b, ldb, a, lda, 0, transposed, m);
        if (status == BO_OK) ADD_TRANSPOSED(m, n, transposed, beta, c, ldc);
        bo_free(transposed);
        return status;
    }
    JOB job = {.mr = kernels->MICRO.mr, .nr = kernels->MICRO.nr, .micro = kernels->MICRO.KERNEL};
    job.ta = ta, job.tb = tb, job.alpha = alpha, job.beta = beta;
    job.lda = lda, job.ldb = ldb, job.ldc = ldc;
    job.tile_rows = bo_whole_slivers(BO_TILE_ROWS, job.mr);
    job.tile_columns = bo_whole_slivers(BO_TILE_COLUMNS, job.nr);
    size_t run = bo_run_length(k, DEPTH);
    size_t super_m = bo_smaller(m, BO_SUPER / job.tile_rows * job.tile_rows);
    size_t super_n = bo_smaller(n, BO_SUPER / job.tile_columns * job.tile_columns);
    job.panel_a = bo_alloc_raw(context, bo_round_up(super_m, job.mr) * run, sizeof(TYPE), "a packed factor");
    job.panel_b = bo_alloc_raw(context, bo_round_up(super_n, job.nr) * run, sizeof(TYPE), "a packed factor");
    if (!job.panel_a || !job.panel_b) {
        bo_free(job.panel_a);
        bo_free(job.panel_b);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < m; i += super_m) {
        for (size_t j = 0; j < n; j += super_n) {
            job.m = bo_smaller(super_m, m - i);
            job.n = bo_smaller(super_n, n - j);
            job.a = a + (ta ? i : i * lda);
            job.b = b + (tb ? j * ldb : j);
            job.c = c + i * ldc + j;
            SUPER_BLOCK(context, &job, k, run);
        }
    }
    bo_free(job.panel_a);
    bo_free(job.panel_b);
    return BO_OK;
}
#undef TYPE
#undef GEMM
#undef PACK
#undef DEPTH
#undef MICRO
#undef KERNEL
#undef JOB
#undef PACK_TASK
#undef SCALE
#undef TILE_TASK
#undef SUPER_BLOCK
#undef ADD_TRANSPOSED
#undef BETTER_SWAPPED
