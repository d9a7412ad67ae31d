/* Statistics, behavior and errors on a text, compared with plain recomputation in double from the arrays of the
 * model. */
#include "attention/attention.h"
#include "collect.h"

enum { TOKENS = 24, WINDOWS = 4, MAX_DIM = 64 };

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* Adds x xᵀ of the rows of a head over all windows, times `factor`; m: a matrix that is applied first (rank x dim). */
static double add_second(const collected *c, bo_inspect_array_kind kind, size_t layer, size_t head, double factor,
                         size_t rank, const double *m, double *second)
{
    const size_t *s = c->shapes[kind][layer], dim = s[3], rows = s[0] * s[2];
    double norm = 0, y[MAX_DIM];
    for (size_t n = 0; n < s[0]; n++)
        for (size_t t = 0; t < s[2]; t++) {
            const float *x = collected_row(c, kind, layer, n, head, t);
            for (size_t r = 0; r < rank; r++) {
                y[r] = m ? 0 : (double)x[r];
                for (size_t j = 0; m && j < dim; j++) y[r] += m[r * dim + j] * (double)x[j];
                norm += factor * y[r] * y[r] / (double)rows;
            }
            for (size_t i = 0; i < rank * rank; i++)
                second[i] += 0.5 * factor * y[i / rank] * y[i % rank] / (double)rows;
        }
    return norm;
}

/* Sums of float numbers in float64: relative errors far below 1e-9. */
static void check_moments(const collected *c, size_t layer, size_t head, const bo_head_moments *found, const double *m)
{
    const bo_attention_desc *a = c->report->layers[layer].attention;
    const size_t rank = found->dim, group = a->heads / a->key_heads;
    double second[MAX_DIM * MAX_DIM] = {0}, values[MAX_DIM], sum = 0, squares = 0;
    const double q = add_second(c, BO_INSPECT_ARRAY_Q, layer, head, a->scale, rank, m, second);
    const double k = add_second(c, BO_INSPECT_ARRAY_K, layer, head / group, a->scale, rank, m, second);
    assert_close(found->query_norm, sqrt(q), 1e-9 * sqrt(q));
    assert_close(found->key_norm, sqrt(k), 1e-9 * sqrt(k));
    if (!m && found->query_second) {
        double trace = 0;
        for (size_t i = 0; i < rank; i++) trace += found->query_second[i * rank + i];
        assert_close(trace, q, 1e-9 * q);
    }
    plain_eigenvalues(rank, second, values);
    for (size_t i = 0; i < rank; i++) {
        assert_close(found->eigenvalues[i], fmax(0, values[i]), 1e-9 * values[0]);
        sum += values[i], squares += values[i] * values[i];
    }
    assert_close(found->largest, values[0], 1e-9 * values[0]);
    assert_close(found->effective, sum * sum / squares, 1e-6);
    if (values[rank - 1] > 1e-3 * values[0])
        assert_close(found->condition, values[0] / values[rank - 1], 1e-4 * found->condition);
}

/* ---- behavior ---------------------------------------------------------------------------------------------------- */

typedef struct scores {
    double entropy, share, previous, self, first, induction, uniform;
} scores;

static scores plain_scores(const collected *c, size_t layer, size_t head)
{
    const bo_attention_desc *a = c->report->layers[layer].attention;
    const size_t *s = c->shapes[BO_INSPECT_ARRAY_Q][layer], windows = s[0], tokens = s[2];
    scores sum = {0};
    double several = 0, later = 0, occurred = 0, weights[MAX_DIM];
    for (size_t n = 0; n < windows; n++) {
        const int32_t *ids = c->ids + n * tokens; /* as many windows as fit */
        for (size_t i = 0; i < tokens; i++) {
            const size_t first = a->window && i + 1 > a->window ? i + 1 - a->window : 0;
            double entropy = 0, mass = 0, count = 0;
            plain_weights(c, layer, n, head, i, first, a->scale, weights);
            for (size_t j = first; j <= i; j++) {
                if (weights[j] > 0) entropy -= weights[j] * log(weights[j]);
                if (j > 0 && ids[j - 1] == ids[i]) mass += weights[j], count++;
                if (n == 0)
                    assert_close((double)c->arrays[BO_INSPECT_ARRAY_PATTERN][layer][(head * tokens + i) * tokens + j],
                                 weights[j], 1e-5);
            }
            if (i + 1 - first > 1)
                sum.entropy += entropy, sum.share += entropy / log((double)(i + 1 - first)), several++;
            if (count > 0) sum.induction += mass, sum.uniform += count / (double)(i + 1 - first), occurred++;
            sum.self += weights[i];
            if (i > 0) sum.previous += weights[i - 1], sum.first += weights[0], later++;
        }
    }
    return (scores){
        sum.entropy / several, sum.share / several,      sum.previous / later,  sum.self / (double)(windows * tokens),
        sum.first / later,     sum.induction / occurred, sum.uniform / occurred};
}

/* Scores are products of float32: weights have errors of some 1e-6. */
static void check_behavior(const collected *c, size_t layer, size_t head)
{
    const bo_head_report *found = &c->report->layers[layer].heads[head];
    const scores plain = plain_scores(c, layer, head);
    assert_close(found->entropy, plain.entropy, 2e-5);
    assert_close(found->entropy_share, plain.share, 2e-5);
    assert_close(found->previous, plain.previous, 1e-5);
    assert_close(found->self, plain.self, 1e-5);
    assert_close(found->first, plain.first, 1e-5);
    assert_close(found->induction, plain.induction, 1e-5);
    assert_close(found->induction_uniform, plain.uniform, 1e-12);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* The error of softmax attention with a window, on the second half of the windows. */
static double plain_window_error(const collected *c, size_t layer, size_t head, size_t window)
{
    const bo_attention_desc *a = c->report->layers[layer].attention;
    const size_t *s = c->shapes[BO_INSPECT_ARRAY_Q][layer], group = a->heads / a->key_heads;
    double error = 0, norm = 0, all[MAX_DIM], near[MAX_DIM];
    for (size_t n = s[0] / 2; n < s[0]; n++)
        for (size_t i = 0; i < s[2]; i++) {
            plain_weights(c, layer, n, head, i, 0, a->scale, all);
            plain_weights(c, layer, n, head, i, i + 1 > window ? i + 1 - window : 0, a->scale, near);
            for (size_t d = 0; d < a->value_dim; d++) {
                double exact = 0, changed = 0;
                for (size_t j = 0; j <= i; j++) {
                    const double v = (double)collected_row(c, BO_INSPECT_ARRAY_V, layer, n, head / group, j)[d];
                    exact += all[j] * v, changed += near[j] * v;
                }
                error += (exact - changed) * (exact - changed), norm += exact * exact;
            }
        }
    return sqrt(error / norm);
}

/* The error of a candidate with features, measured by attention on the arrays. */
static double measured_again(bo_context *context, const collected *c, size_t layer, size_t head,
                             const bo_inspect_candidate *candidate)
{
    const bo_attention_desc *a = c->report->layers[layer].attention;
    const size_t *s = c->shapes[BO_INSPECT_ARRAY_Q][layer], first = s[0] / 2, windows = s[0] - first;
    bo_attention_desc desc = candidate->attention;
    bo_attention *attention;
    double error = 0, norm = 0;
    desc.heads = a->heads, desc.key_heads = a->key_heads, desc.dim = a->dim, desc.value_dim = a->value_dim;
    desc.scale = a->scale, desc.causal = true, desc.features.seed = 3;
    const bo_attention_shape shape = {.sequences = windows, .tokens = s[2]};
    const bo_attention_inputs in = {.q = collected_row(c, BO_INSPECT_ARRAY_Q, layer, first, 0, 0),
                                    .k = collected_row(c, BO_INSPECT_ARRAY_K, layer, first, 0, 0),
                                    .v = collected_row(c, BO_INSPECT_ARRAY_V, layer, first, 0, 0)};
    float *out = malloc(windows * a->heads * s[2] * a->value_dim * sizeof *out);
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
    for (size_t n = 0; n < windows; n++)
        for (size_t i = 0; i < s[2] * a->value_dim; i++) {
            const double exact = (double)collected_row(c, BO_INSPECT_ARRAY_OUT, layer, first + n, head, 0)[i];
            const double found = (double)out[(n * a->heads + head) * s[2] * a->value_dim + i];
            error += (found - exact) * (found - exact), norm += exact * exact;
        }
    bo_attention_destroy(attention);
    free(out);
    return sqrt(error / norm);
}

static void check_errors(bo_context *context, const collected *c, size_t layer, size_t head)
{
    const bo_head_report *found = &c->report->layers[layer].heads[head];
    size_t windows = 0, maps = 0, predicted = 0;
    for (size_t i = 0; i < c->report->candidate_count; i++) {
        const bo_inspect_candidate *candidate = &c->report->candidates[i];
        if (candidate->window >= TOKENS) assert_true(isnan(found->errors[i]));
        if (candidate->window >= TOKENS) continue;
        assert_true(found->errors[i] >= 0);
        if (candidate->window && !candidate->features) {
            assert_close(found->errors[i], plain_window_error(c, layer, head, candidate->window), 1e-4);
            windows++;
        } else if (candidate->attention.kind == BO_ATTENTION_FAVOR && !candidate->attention.proposal) {
            const double again = measured_again(context, c, layer, head, candidate);
            assert_close(found->errors[i], again, 1e-4 * again);
            maps++;
        }
        if (isfinite(found->predicted[i])) predicted++;
    }
    assert_int_equal(windows, 1); /* 16; the others are as long as the text */
    assert_int_equal(maps, 4);
    assert_true(predicted >= 20);
    /* the choice reaches the target with the smallest state, or has the smallest error */
    const double best = found->errors[found->choice];
    const size_t state = c->report->candidates[found->choice].state;
    for (size_t i = 0; i < c->report->candidate_count; i++) {
        if (isnan(found->errors[i])) continue;
        if (best > c->report->target) assert_true(found->errors[i] >= best);
        if (best <= c->report->target && found->errors[i] <= c->report->target)
            assert_true(c->report->candidates[i].state >= state);
    }
}

/* The variance formula is an upper bound: errors that all keys of a query share cancel in the denominator, for small
 * norms half of the variance, and orthogonal frequencies leave less than independent ones, at most by a factor of 3.5
 * here: combined, a factor of at most √7 in the error. */
static void predictions_agree(const collected *c)
{
    double measured = 0, predicted = 0;
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t h = 0; h < 2; h++)
            for (size_t i = 0; i < 4; i++) { /* favor */
                const bo_head_report *head = &c->report->layers[l].heads[h];
                measured += log(head->errors[i]) / (LAYERS * 8);
                predicted += log(head->predicted[i]) / (LAYERS * 8);
            }
    print_message("favor: measured %.3g, predicted %.3g\n", exp(measured), exp(predicted));
    assert_true(measured < predicted && predicted < measured + log(sqrt(7)));
}

static void check_kind(bo_context *context, const bo_model_desc *desc, bool errors)
{
    bo_model *model = test_model(context, desc, NULL);
    const unsigned parts =
        BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_BEHAVIOR | (errors ? BO_INSPECT_PART_ERRORS : 0);
    collected c =
        collect(context, model,
                (bo_inspect_desc){.parts = parts, .tokens = TOKENS, .windows = WINDOWS, .seed = 3, .moments = true},
                TOKENS * WINDOWS + 5, 20);
    assert_int_equal(c.report->windows, WINDOWS);
    for (size_t l = 0; l < desc->layers; l++)
        for (size_t h = 0; h < desc->block.heads; h++) {
            const bo_head_report *head = &c.report->layers[l].heads[h];
            check_moments(&c, l, h, &head->moments, NULL);
            if (!head->mapped.dim) check_behavior(&c, l, h);
            if (errors) check_errors(context, &c, l, h);
            if (!head->mapped.dim) continue;
            double *m = read_weight(context, model, "model.layers.%zu.self_attn.m", l,
                                    desc->block.heads * head->mapped.dim * head->moments.dim);
            check_moments(&c, l, h, &head->mapped, m + h * head->mapped.dim * head->moments.dim);
            free(m);
        }
    if (errors && desc->block.attention.scale > 0) predictions_agree(&c);
    collected_free(&c);
    bo_model_destroy(model);
}

static void text_of_models(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_model_desc desc = test_desc("softmax");
    check_kind(context, &desc, true);
    desc.block.attention.scale = 0.03; /* small norms */
    check_kind(context, &desc, true);
    desc.block.attention.scale = 0;
    desc.block.heads = 4, desc.block.key_heads = 2, desc.block.head_dim = 6, desc.block.positions = BO_POSITIONS_ROPE;
    check_kind(context, &desc, true);
    desc.block.attention.window = 7;
    check_kind(context, &desc, false);
    desc = test_desc("dark");
    desc.block.attention.rank = 5;
    check_kind(context, &desc, false);
    bo_context_destroy(context);
}

/* Long texts are read in batches, the last of which is shorter: means over all windows are weighted means over the
 * batches. */
static void batches(void **state)
{
    (void)state;
    enum { ALL = 100, FIRST = 85 };
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    static int32_t ids[ALL * TOKENS];
    bo_inspection *reports[3];
    const size_t starts[] = {0, 0, FIRST}, counts[] = {ALL, FIRST, ALL - FIRST};
    test_tokens(ALL * TOKENS, ids);
    for (size_t i = 0; i < 3; i++) {
        const bo_inspect_desc how = {.parts = BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_BEHAVIOR |
                                              BO_INSPECT_PART_ATTRIBUTION,
                                     .tokens = TOKENS,
                                     .windows = counts[i]};
        assert_ok(context, bo_inspect(context, model, ids + starts[i] * TOKENS, counts[i] * TOKENS, &how, &reports[i]));
        assert_int_equal(reports[i]->windows, counts[i]);
    }
    for (size_t h = 0; h < desc.block.heads; h++) {
        const bo_head_report *r[3];
        for (size_t i = 0; i < 3; i++) r[i] = &reports[i]->layers[1].heads[h];
        const double a = (double)FIRST / ALL, b = 1 - a;
        assert_close(pow(r[0]->moments.key_norm, 2),
                     a * pow(r[1]->moments.key_norm, 2) + b * pow(r[2]->moments.key_norm, 2), 1e-6);
        assert_close(r[0]->entropy, a * r[1]->entropy + b * r[2]->entropy, 1e-6);
        assert_close(r[0]->previous, a * r[1]->previous + b * r[2]->previous, 1e-6);
        assert_close(r[0]->logit, a * r[1]->logit + b * r[2]->logit, 1e-5);
        assert_true(fabs(r[1]->logit - r[2]->logit) > 1e-4);
    }
    for (size_t i = 0; i < 3; i++) bo_inspection_destroy(reports[i]);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Any number of threads gives the same bits. */
static void threads(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *many = test_context(3);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(one, &desc, NULL);
    const bo_inspect_desc how = {.tokens = TOKENS, .windows = WINDOWS};
    collected a = collect(one, model, how, TOKENS * WINDOWS, VOCAB),
              b = collect(many, model, how, TOKENS * WINDOWS, VOCAB);
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t h = 0; h < desc.block.heads; h++) {
            const bo_head_report *x = &a.report->layers[l].heads[h], *y = &b.report->layers[l].heads[h];
            assert_true(x->moments.largest == y->moments.largest && x->entropy == y->entropy && x->logit == y->logit);
            assert_true(x->copying == y->copying && x->written == y->written && x->choice == y->choice);
            assert_memory_equal(x->errors, y->errors, a.report->candidate_count * sizeof(double));
        }
    collected_free(&a);
    collected_free(&b);
    bo_model_destroy(model);
    bo_context_destroy(one);
    bo_context_destroy(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_of_models), cmocka_unit_test(batches),
                                       cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
