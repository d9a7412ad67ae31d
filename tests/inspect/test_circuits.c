/* Circuits: W_QK and W_OV compared with full matrices in double, and handcrafted heads: one that attends to the
 * previous token, one that copies, and an induction head of two layers. */
#include "collect.h"
#include "math/linalg.h"
#include <dirent.h>

enum { MAX_DIM = 80 };

/* ---- full matrices ----------------------------------------------------------------------------------------------- */

/* W_Q, W_K or W_V of a head (dim x width), with the gain of the input norm and of the norm of the head. */
static double *read_side(bo_context *context, const bo_model *model, size_t layer, const char *side, size_t heads,
                         size_t head, const char *gain_name)
{
    const bo_model_desc *d = bo_model_describe(model);
    const size_t dim = d->block.head_dim, width = d->width;
    char name[96];
    snprintf(name, sizeof name, "model.layers.%%zu.self_attn.%s.weight", side);
    double *all = read_weight(context, model, name, layer, heads * dim * width),
           *out = malloc(dim * width * sizeof *out);
    memcpy(out, all + head * dim * width, dim * width * sizeof *out);
    if (d->block.residual != BO_RESIDUAL_AFTER) {
        double *gain = read_weight(context, model, "model.layers.%zu.input_layernorm.weight", layer, width);
        for (size_t r = 0; r < dim; r++) {
            double mean = 0;
            for (size_t j = 0; j < width; j++) mean += (out[r * width + j] *= gain[j]) / (double)width;
            for (size_t j = 0; d->block.norm == BO_NORM_LAYER && j < width; j++) out[r * width + j] -= mean;
        }
        free(gain);
    }
    if (gain_name && d->block.query_norm == BO_CHOICE_YES) {
        const size_t count = d->block.joint_norm ? heads * dim : dim;
        double *gain = read_weight(context, model, gain_name, layer, count);
        for (size_t i = 0; i < dim * width; i++)
            out[i] *= gain[(i / width + (d->block.joint_norm ? head * dim : 0)) % count];
        free(gain);
    }
    free(all);
    return out;
}

/* W_O of a head (width x dim), with the norm of the summand. */
static double *read_output(bo_context *context, const bo_model *model, size_t layer, size_t head)
{
    const bo_model_desc *d = bo_model_describe(model);
    const size_t dim = d->block.head_dim, width = d->width;
    double *all =
        read_weight(context, model, "model.layers.%zu.self_attn.o_proj.weight", layer, width * d->block.heads * dim);
    double *out = malloc(width * dim * sizeof *out);
    for (size_t i = 0; i < width * dim; i++)
        out[i] = (d->block.residual_scale ? d->block.residual_scale : 1) *
                 all[(i / dim * d->block.heads + head) * dim + i % dim];
    if (d->block.residual == BO_RESIDUAL_SANDWICH || d->block.residual == BO_RESIDUAL_AFTER) {
        double *gain = read_weight(context, model, "model.layers.%zu.post_attention_layernorm.weight", layer, width);
        assert_int_equal(d->block.norm, BO_NORM_RMS); /* in all families with such a norm */
        for (size_t i = 0; i < width * dim; i++) out[i] *= gain[i / dim];
        free(gain);
    }
    free(all);
    return out;
}

/* c (n x n) = a (n x dim) b (dim x n) or aᵀ b with a stored dim x n. */
static void multiply(size_t n, size_t dim, const double *a, bool ta, const double *b, double *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < dim; k++) sum += (ta ? a[k * n + i] : a[i * dim + k]) * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* Singular values of the full matrix by Jacobi rotations of AᵀA, and eigenvalues of the full matrix. */
static void check_circuit(bo_context *context, const char *what, size_t n, double *full, const bo_circuit *found)
{
    static double square[MAX_DIM * MAX_DIM], values[MAX_DIM], real[MAX_DIM], imaginary[MAX_DIM];
    double sum = 0, squares = 0, trace = 0, size = 0;
    multiply(n, n, full, true, full, square);
    plain_eigenvalues(n, square, values);
    for (size_t i = 0; i < found->rank; i++) {
        const double sigma = sqrt(fmax(0, values[i]));
        if (!(fabs(found->singular[i] - sigma) <= 1e-6 * sqrt(values[0])))
            fail_msg("%s: singular value %zu is %g, expected %g", what, i, found->singular[i], sigma);
        sum += sigma, squares += sigma * sigma;
    }
    assert_close(found->effective, sum * sum / squares, 1e-3);
    assert_ok(context, bo_eigenvalues(context, n, full, real, imaginary));
    for (size_t i = 0; i < n; i++) trace += real[i], size += hypot(real[i], imaginary[i]);
    /* the zeros of the full matrix are about 1e-16 of its norm, or the n-th root of that for defective eigenvalues */
    assert_close(found->positive, trace / size, 1e-4);
}

static void check_head(bo_context *context, const bo_model *model, const bo_inspection *report, size_t layer,
                       size_t head)
{
    static double full[MAX_DIM * MAX_DIM];
    const bo_model_desc *d = bo_model_describe(model);
    const bo_attention_desc *a = bo_attention_describe(bo_model_attention(model, layer));
    const bo_head_report *found = &report->layers[layer].heads[head];
    const size_t key_head = head / (d->block.heads / d->block.key_heads);
    double *q =
        read_side(context, model, layer, "q_proj", d->block.heads, head, "model.layers.%zu.self_attn.q_norm.weight");
    double *k = read_side(context, model, layer, "k_proj", d->block.key_heads, key_head,
                          "model.layers.%zu.self_attn.k_norm.weight");
    double *v = read_side(context, model, layer, "v_proj", d->block.key_heads, key_head, NULL);
    double *o = read_output(context, model, layer, head);
    assert_true(d->width <= MAX_DIM);
    multiply(d->width, d->block.head_dim, q, true, k, full);
    for (size_t i = 0; i < d->width * d->width; i++) full[i] *= a->scale;
    check_circuit(context, "W_QK", d->width, full, &found->qk);
    multiply(d->width, d->block.head_dim, o, false, v, full);
    check_circuit(context, "W_OV", d->width, full, &found->ov);
    free(q);
    free(k);
    free(v);
    free(o);
}

static void circuits_of_families(void **state)
{
    (void)state;
    char families[512], path[1024];
    const char *source = getenv("BOCHNER_SOURCE");
    bo_context *context = test_context(2);
    snprintf(families, sizeof families, "%s/tests/data/families", source ? source : ".");
    DIR *listing = opendir(families);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bo_model *model;
        bo_inspection *report;
        if (entry->d_name[0] == '.') continue;
        print_message("%s\n", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", families, entry->d_name);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model));
        const bo_inspect_desc desc = {.parts = BO_INSPECT_PART_CIRCUITS};
        assert_ok(context, bo_inspect(context, model, NULL, 0, &desc, &report));
        for (size_t h = 0; h < bo_model_describe(model)->block.heads; h++) check_head(context, model, report, 0, h);
        check_head(context, model, report, bo_model_describe(model)->layers - 1, 0);
        bo_inspection_destroy(report);
        bo_model_destroy(model);
    }
    closedir(listing);
    bo_context_destroy(context);
}

/* ---- handcrafted heads ------------------------------------------------------------------------------------------- */

/* The residual stream has three parts: one number per position, per token, and per previous token. */
enum { POSITIONS = 32, TOKENS = 64, WIDTH = POSITIONS + 2 * TOKENS, TOKEN = POSITIONS, BEFORE = POSITIONS + TOKENS };

typedef struct matrix {
    float *values;
    size_t columns;
} matrix;

static matrix zeros(size_t rows, size_t columns)
{
    return (matrix){calloc(rows * columns, sizeof(float)), columns};
}

/* Sets (first_row + i, first_column + (i + shift)) for i < count. */
static void diagonal(matrix m, size_t first_row, size_t first_column, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) m.values[(first_row + i) * m.columns + first_column + i] = value;
}

static void set(bo_context *context, bo_model *model, const char *name, matrix m)
{
    set_weight(context, model, name, m.values);
    free(m.values);
}

/* Embeddings are unit vectors, as are the rows of the output matrix. */
static bo_model *empty_model(bo_context *context, size_t layers)
{
    bo_model *model;
    const bo_model_desc desc = {.layers = layers,
                                .width = WIDTH,
                                .block.heads = 1,
                                .block.head_dim = TOKENS,
                                .context = POSITIONS,
                                .vocab = TOKENS,
                                .block.mlp = BO_MLP_NONE,
                                .block.query_norm = BO_CHOICE_NO,
                                .block.positions = BO_POSITIONS_LEARNED,
                                .seed = 4};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    matrix embedding = zeros(TOKENS, WIDTH), positions = zeros(POSITIONS, WIDTH);
    diagonal(embedding, 0, TOKEN, TOKENS, 1);
    diagonal(positions, 0, 0, POSITIONS, 1);
    set(context, model, "model.embed_tokens.weight", embedding);
    set(context, model, "model.embed_positions.weight", positions);
    return model;
}

/* Position i attends to position i - 1. `sign` times the token is written to the columns from `to`. */
static void make_previous(bo_context *context, bo_model *model, size_t to, float sign)
{
    matrix q = zeros(TOKENS, WIDTH), k = zeros(TOKENS, WIDTH), v = zeros(TOKENS, WIDTH), o = zeros(WIDTH, TOKENS);
    diagonal(q, 0, 0, POSITIONS, 4);
    diagonal(k, 1, 0, POSITIONS, 4);
    diagonal(v, 0, TOKEN, TOKENS, 1);
    diagonal(o, to, 0, TOKENS, sign);
    set(context, model, "model.layers.0.self_attn.q_proj.weight", q);
    set(context, model, "model.layers.0.self_attn.k_proj.weight", k);
    set(context, model, "model.layers.0.self_attn.v_proj.weight", v);
    set(context, model, "model.layers.0.self_attn.o_proj.weight", o);
}

/* A token attends to positions whose previous token is the same token, and copies the token there. */
static void make_successor(bo_context *context, bo_model *model)
{
    matrix q = zeros(TOKENS, WIDTH), k = zeros(TOKENS, WIDTH), v = zeros(TOKENS, WIDTH), o = zeros(WIDTH, TOKENS);
    diagonal(q, 0, TOKEN, TOKENS, 4);
    diagonal(k, 0, BEFORE, TOKENS, 4);
    diagonal(v, 0, TOKEN, TOKENS, 1);
    diagonal(o, TOKEN, 0, TOKENS, 1);
    set(context, model, "model.layers.1.self_attn.q_proj.weight", q);
    set(context, model, "model.layers.1.self_attn.k_proj.weight", k);
    set(context, model, "model.layers.1.self_attn.v_proj.weight", v);
    set(context, model, "model.layers.1.self_attn.o_proj.weight", o);
}

/* On repeated tokens the induction head raises the logit of the next token; the other head writes to dimensions that no
 * logit reads. */
static void logits_by_hand(bo_context *context, const bo_model *model)
{
    int32_t ids[POSITIONS];
    bo_inspection *report;
    const bo_inspect_desc desc = {.parts = BO_INSPECT_PART_ATTRIBUTION, .tokens = POSITIONS};
    for (size_t i = 0; i < POSITIONS; i++) ids[i] = (int32_t)(5 * (i % (POSITIONS / 2)) % TOKENS);
    assert_ok(context, bo_inspect(context, model, ids, POSITIONS, &desc, &report));
    const bo_head_report *previous = &report->layers[0].heads[0], *induction = &report->layers[1].heads[0];
    assert_true(induction->logit > 0.5 && induction->logit_size >= induction->logit);
    assert_close(previous->logit, 0, 1e-5);
    bo_inspection_destroy(report);
}

static void heads_by_hand(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model = empty_model(context, 2);
    make_previous(context, model, BEFORE, 1);
    make_successor(context, model);
    collected c = collect(context, model, (bo_inspect_desc){.tokens = POSITIONS, .windows = 4}, 4 * POSITIONS, 12);
    const bo_head_report *previous = &c.report->layers[0].heads[0], *induction = &c.report->layers[1].heads[0];
    assert_true(previous->previous > 0.99 && previous->previous_repeated > 0.99);
    assert_true(previous->induction < 0.3 && previous->induction_repeated < 0.1);
    /* the first token has no previous token and reads itself, which attracts its later occurrences, 1/12 of the text */
    assert_true(induction->induction > 0.9 && induction->previous < 0.3);
    /* among 16 random tokens of 64, another occurrence gets some of the attention */
    assert_true(induction->induction_repeated > 0.8);
    assert_close(induction->ov.positive, 1, 1e-6); /* copies what it reads */
    assert_close(induction->copying, 1, 1e-5);
    assert_close(previous->ov.positive, 0, 1e-6); /* moves it elsewhere */
    assert_close(previous->ov.effective, TOKENS, 1e-6);
    assert_int_equal(previous->writes_dim, TOKENS);
    /* W_QK of the first layer is a shift of POSITIONS - 1 places: its singular values are equal */
    assert_close(previous->qk.effective, POSITIONS - 1, 1e-6);
    collected_free(&c);
    logits_by_hand(context, model);
    make_previous(context, model, TOKEN, -1);
    const bo_inspect_desc circuits = {.parts = BO_INSPECT_PART_CIRCUITS};
    bo_inspection *report;
    assert_ok(context, bo_inspect(context, model, NULL, 0, &circuits, &report));
    assert_close(report->layers[0].heads[0].ov.positive, -1, 1e-6); /* removes what it reads */
    assert_close(report->layers[0].heads[0].copying, -1, 1e-5);
    bo_inspection_destroy(report);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Random heads: Σ Re λ has mean 0. For 64 eigenvalues that are uniform on a disk, Σ Re λ / Σ |λ| has a deviation of
 * about 1/64 (Σ Re λ is the trace, of variance dim · dim⁻¹, and Σ|λ| is 2/3 dim): 0.15 is six deviations at dim 16. */
static void random_heads(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model;
    bo_inspection *report;
    const bo_model_desc desc = {.layers = 2,
                                .width = 64,
                                .block.heads = 4,
                                .context = 32,
                                .vocab = 128,
                                .untied = true,
                                .block.mlp = BO_MLP_NONE,
                                .block.positions = BO_POSITIONS_NONE,
                                .block.query_norm = BO_CHOICE_NO,
                                .seed = 5};
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    shake(context, model);
    assert_ok(context, bo_inspect(context, model, NULL, 0, NULL, &report));
    assert_int_equal(report->parts, BO_INSPECT_PART_CIRCUITS | BO_INSPECT_PART_BEHAVIOR);
    assert_int_equal(report->windows, 0);
    for (size_t i = 0; i < 8; i++) {
        const bo_head_report *head = &report->layers[i / 4].heads[i % 4];
        assert_true(fabs(head->copying) < 0.5 && fabs(head->ov.positive) < 0.5);
        assert_true(head->induction_repeated < 0.15 && head->previous_repeated < 0.25);
        assert_true(isnan(head->entropy) && isnan(head->written) && !head->errors && !head->moments.dim);
    }
    bo_inspection_destroy(report);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(circuits_of_families), cmocka_unit_test(heads_by_hand),
                                       cmocka_unit_test(random_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
