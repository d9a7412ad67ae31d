/* GEMM for the types that the including file defines by these macros: TYPE of the matrices, PACKED of the panels,
 * PRODUCT (bo_gemm_product for that type), PACK_A and PACK_B (pack some lines), STORED (true if the B of a product has
 * a compact storage type), PACK_STORED (packs some lines of it), DEPTH and DEPTH_STEP (the longest run, and the
 * multiple to which panels are padded along k), TILE_ROWS, TILE_COLUMNS, MR, NR and KERNEL (the tile and the function
 * of the kernels), PREPARE (called at the start of a task that calls KERNEL), JOB and the names of the functions. */

/* One run along k of one block of rows, times one chunk of column tiles. Tiles are numbered over all products. The
 * panel of tile t of the chunk has tile_columns lines and is stored at index t - first_tile. */
typedef struct JOB {
    const bo_kernels *kernels;
    size_t mr, nr, tile_rows, tile_columns;
    void (*micro)(size_t k, const PACKED *a, const PACKED *b, TYPE *c, size_t ldc, size_t m, size_t n, bool add);
    size_t count;
    const PRODUCT *products;
    bool ta;
    TYPE alpha;
    const TYPE *a; /* starts at the block's first row and the run's first column */
    size_t lda;
    size_t row, m, depth, k; /* first row, number of rows, start of the run along k, its length */
    size_t length;           /* total length of all runs */
    size_t first_tile, tiles;
    bool upper;  /* compute only tiles that touch the upper triangle */
    size_t slot; /* numbers in a tile's panel */
    PACKED *panel_a, *panel_b;
} JOB;

/* Returns the product that column tile `tile` belongs to, and the tile's first column there. */
static const PRODUCT *FIND_TILE(const JOB *job, size_t tile, size_t *column)
{
    const PRODUCT *product = job->products;
    for (;; product++) {
        size_t tiles = bo_ceil_div(product->n, job->tile_columns);
        if (tile < tiles) break;
        tile -= tiles;
    }
    *column = tile * job->tile_columns;
    return product;
}

/* Returns the numbers per line of a panel. */
static size_t LINE(size_t k)
{
    return bo_round_up(k, DEPTH_STEP);
}

static void PACK_TASK(void *arg, size_t index, int worker)
{
    (void)worker;
    const JOB *job = arg;
    if (index >= job->tiles) {
        size_t first = (index - job->tiles) * job->tile_rows, lines = bo_min(job->tile_rows, job->m - first);
        const TYPE *source = job->a + (job->ta ? first : first * job->lda);
        PACK_A(lines, job->k, job->alpha, source, job->lda, !job->ta, job->panel_a + first * LINE(job->k));
        return;
    }
    size_t j;
    const PRODUCT *product = FIND_TILE(job, job->first_tile + index, &j);
    size_t lines = bo_min(job->tile_columns, product->n - j);
    PACKED *panel = job->panel_b + index * job->slot;
    if (STORED(product)) {
        PACK_STORED(product, j, lines, panel);
        return;
    }
    const TYPE *b = product->b;
    const TYPE *source = b + (product->tb ? j * product->ldb + job->depth : job->depth * product->ldb + j);
    PACK_B(lines, job->k, 1, source, product->ldb, product->tb, panel);
}

/* Writes the initial value of C, beta base + row, to m x n elements at (i, j). base is C itself if the product has
 * none. */
static void BEGIN(const PRODUCT *product, size_t i, size_t j, size_t m, size_t n)
{
    const TYPE *row = product->row ? product->row + j : NULL;
    TYPE beta = product->beta;
    if (beta == 1 && !product->base && !row) return;
    for (size_t end = i + m; i < end; i++) {
        TYPE *c = product->c + i * product->ldc + j;
        const TYPE *base = product->base ? product->base + i * product->ldbase + j : c;
        if (beta == 0 && row) {
            memcpy(c, row, n * sizeof *c);
        } else if (beta == 0) {
            memset(c, 0, n * sizeof *c);
        } else if (row) {
            for (size_t p = 0; p < n; p++) c[p] = beta * base[p] + row[p];
        } else {
            for (size_t p = 0; p < n; p++) c[p] = beta * base[p];
        }
    }
}

/* The row index varies fastest, so that neighboring tasks share the part of B in the second-level cache. */
static void TILE_TASK(void *arg, size_t index, int worker)
{
    (void)worker;
    const JOB *job = arg;
    size_t down = bo_ceil_div(job->m, job->tile_rows), tile = index / down, j0;
    const PRODUCT *product = FIND_TILE(job, job->first_tile + tile, &j0);
    size_t i0 = index % down * job->tile_rows, i1 = bo_min(i0 + job->tile_rows, job->m);
    size_t j1 = bo_min(j0 + job->tile_columns, product->n);
    if (job->upper && job->row + i0 >= j1) return;
    bool add = job->depth > 0 || product->beta != 0 || product->row;
    if (job->depth == 0 && add) BEGIN(product, job->row + i0, j0, i1 - i0, j1 - j0);
    PREPARE(job->kernels);
    const PACKED *panel_b = job->panel_b + tile * job->slot;
    const size_t line = LINE(job->k);
    for (size_t i = i0; i < i1; i += job->mr) {
        TYPE *c = product->c + (job->row + i) * product->ldc;
        for (size_t j = j0; j < j1; j += job->nr) {
            size_t n = bo_min(job->nr, j1 - j);
            if (job->upper && job->row + i >= j + n) continue;
            job->micro(job->k, job->panel_a + i * line, panel_b + (j - j0) * line, c + j, product->ldc,
                       bo_min(job->mr, i1 - i), n, add);
        }
    }
}

static JOB JOB_FOR(bo_context *context, size_t count, const PRODUCT *products)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    JOB job = {.kernels = kernels, .mr = MR, .nr = NR, .micro = KERNEL};
    job.count = count, job.products = products;
    job.tile_rows = bo_whole_slivers(TILE_ROWS, job.mr);
    job.tile_columns = bo_whole_slivers(TILE_COLUMNS, job.nr);
    return job;
}

/* Numbers in the panels of a product. A tile of B has as many columns as the widest product needs. */
static size_t SLOT(const JOB *job, size_t run)
{
    size_t widest = 0;
    for (size_t i = 0; i < job->count; i++) {
        size_t n = bo_min(bo_round_up(job->products[i].n, job->nr), job->tile_columns);
        if (n > widest) widest = n;
    }
    return widest * LINE(run);
}

static size_t TILES(const JOB *job)
{
    size_t tiles = 0;
    for (size_t i = 0; i < job->count; i++) tiles += bo_ceil_div(job->products[i].n, job->tile_columns);
    return tiles;
}

static size_t BLOCK_ROWS(const JOB *job, size_t m)
{
    return bo_min(m, BO_SUPER / job->tile_rows * job->tile_rows);
}

static size_t PANEL_A(const JOB *job, size_t m, size_t run)
{
    return bo_round_up(bo_round_up(BLOCK_ROWS(job, m), job->mr) * LINE(run), 64 / sizeof(PACKED));
}

/* A tile is wider than it is tall. If C is tall and narrower than a tile, much of the tile would be padding, and Cᵀ =
 * op(B)ᵀ op(A)ᵀ may be faster (for example scores of a few classes). */
static bool MAY_SWAP(const JOB *job, size_t m)
{
    return job->count == 1 && job->products[0].n < job->nr && m >= 4 * job->nr && !STORED(&job->products[0]);
}

static bool BETTER_SWAPPED(const JOB *job, size_t m)
{
    size_t n = job->products[0].n, mr = job->mr, nr = job->nr;
    size_t direct = bo_round_up(m, mr) * bo_round_up(n, nr), swapped = bo_round_up(n, mr) * bo_round_up(m, nr);
    return MAY_SWAP(job, m) && swapped + swapped / 4 < direct;
}

/* Returns the workspace bytes for the longest run of any length up to k (a longer k may be cut into shorter runs), for
 * the direct and for the swapped product. The workspace therefore also serves smaller m and k. */
static size_t WORKSPACE(bo_context *context, size_t m, size_t k, size_t count, const PRODUCT *products)
{
    JOB job = JOB_FOR(context, count, products);
    size_t run = bo_min(bo_round_up(k, 8), DEPTH), max_tiles = BO_SUPER / job.tile_columns;
    size_t direct = (PANEL_A(&job, m, run) + bo_min(TILES(&job), max_tiles) * SLOT(&job, run)) * sizeof(PACKED);
    if (!MAY_SWAP(&job, m)) return direct;
    PRODUCT across = {.n = m};
    size_t swapped =
        bo_round_up(m * products[0].n * sizeof(TYPE), 64) + WORKSPACE(context, products[0].n, k, 1, &across);
    return direct > swapped ? direct : swapped;
}

/* Computes all products for one block of rows. */
static void ROW_BLOCK(bo_context *context, JOB *job, size_t k)
{
    const TYPE *a = job->a;
    size_t down = bo_ceil_div(job->m, job->tile_rows), max_tiles = BO_SUPER / job->tile_columns;
    size_t tiles = TILES(job), run = bo_run_length(k, DEPTH);
    job->length = k;
    for (job->depth = 0; job->depth < k; job->depth += run) {
        job->k = bo_min(run, k - job->depth);
        job->a = a + (job->ta ? job->depth * job->lda : job->depth);
        for (job->first_tile = 0; job->first_tile < tiles; job->first_tile += max_tiles) {
            job->tiles = bo_min(max_tiles, tiles - job->first_tile);
            bo_parallel(context, job->tiles + (job->first_tile == 0 ? down : 0), PACK_TASK, job);
            bo_parallel(context, job->tiles * down, TILE_TASK, job);
        }
    }
}

static void MULTIPLY(bo_context *context, bool ta, size_t m, size_t k, TYPE alpha, const TYPE *a, size_t lda,
                     size_t count, const PRODUCT *products, bool upper, void *workspace);

/* Computes C = beta base + row + Tᵀ with T = op(B)ᵀ op(A)ᵀ. */
static void SWAPPED(bo_context *context, bool ta, size_t m, size_t k, TYPE alpha, const TYPE *a, size_t lda,
                    const PRODUCT *product, TYPE *workspace)
{
    size_t n = product->n;
    PRODUCT across = {.n = m, .tb = !ta, .b = a, .ldb = lda, .c = workspace, .ldc = m};
    TYPE *rest = workspace + bo_round_up(m * n, 64 / sizeof(TYPE));
    MULTIPLY(context, !product->tb, n, k, alpha, product->b, product->ldb, 1, &across, false, rest);
    BEGIN(product, 0, 0, m, n);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) product->c[i * product->ldc + j] += workspace[j * m + i];
    }
}

static void MULTIPLY(bo_context *context, bool ta, size_t m, size_t k, TYPE alpha, const TYPE *a, size_t lda,
                     size_t count, const PRODUCT *products, bool upper, void *workspace)
{
    JOB job = JOB_FOR(context, count, products);
    if (m == 0 || TILES(&job) == 0) return;
    if (k == 0 || alpha == 0) {
        for (size_t i = 0; i < count; i++) BEGIN(&products[i], 0, 0, m, products[i].n);
        return;
    }
    if (!upper && BETTER_SWAPPED(&job, m)) {
        SWAPPED(context, ta, m, k, alpha, a, lda, products, workspace);
        return;
    }
    job.ta = ta, job.alpha = alpha, job.lda = lda, job.upper = upper;
    job.slot = SLOT(&job, bo_run_length(k, DEPTH));
    job.panel_a = workspace;
    job.panel_b = job.panel_a + PANEL_A(&job, m, bo_run_length(k, DEPTH));
    size_t block = BLOCK_ROWS(&job, m);
    for (job.row = 0; job.row < m; job.row += block) {
        job.m = bo_min(block, m - job.row);
        job.a = a + (ta ? job.row : job.row * lda);
        ROW_BLOCK(context, &job, k);
    }
}

#undef TYPE
#undef PRODUCT
#undef PACKED
#undef PACK_A
#undef PACK_B
#undef PACK_STORED
#undef STORED
#undef DEPTH
#undef DEPTH_STEP
#undef TILE_ROWS
#undef TILE_COLUMNS
#undef MR
#undef NR
#undef PREPARE
#undef KERNEL
#undef JOB
#undef JOB_FOR
#undef LINE
#undef FIND_TILE
#undef PACK_TASK
#undef BEGIN
#undef TILE_TASK
#undef SLOT
#undef TILES
#undef BLOCK_ROWS
#undef PANEL_A
#undef MAY_SWAP
#undef BETTER_SWAPPED
#undef WORKSPACE
#undef ROW_BLOCK
#undef SWAPPED
#undef MULTIPLY
#undef NAMED
