/* Capture of the values inside a model: compared with a float64 interpreter of the graph and with softmax attention
 * computed from the captured queries, keys and values, for every family and kind of attention. */
#include "base/counting.h"
#include "interpreter.h"
#include "model/capture.h"
#include "models.h"
#include <dirent.h>

enum { TOKENS = 24, SEQUENCES = 2, ROWS = TOKENS * SEQUENCES };

static void make_ids(const bo_model *model, int32_t *ids)
{
    bo_rng rng = bo_rng_make(5, 0);
    for (size_t i = 0; i < ROWS; i++) ids[i] = (int32_t)bo_rng_below(&rng, bo_model_describe(model)->vocab);
}

static float *read_array(bo_context *context, bo_capture *capture, size_t layer, bo_capture_array array)
{
    float *x = malloc(bo_capture_rows(capture) * bo_capture_columns(capture, layer, array) * sizeof *x);
    assert_ok(context, bo_capture_read(context, capture, layer, array, x));
    return x;
}

/* Float32 through a few layers of width 64: relative errors of 1e-5 are expected; another formula differs by 1e-2. */
static void check(const char *what, size_t layer, size_t count, const float *found, const double *expected)
{
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = fmax(worst, fabs((double)found[i] - expected[i]));
    }
    assert_true(largest > 0);
    if (!(worst <= 2e-4 * largest)) fail_msg("layer %zu %s: error %g of numbers up to %g", layer, what, worst, largest);
}

/* ---- the graph in double ----------------------------------------------------------------------------------------- */

static void against_interpreter(bo_context *context, bo_model *model, bo_capture *capture, const int32_t *ids)
{
    const bo_model_desc *d = bo_model_describe(model);
    bo_attention_values values[8];
    bo_value stream[17];
    bo_model_graph g;
    int32_t positions[ROWS];
    assert_true(d->layers <= 8);
    for (size_t i = 0; i < ROWS; i++) positions[i] = (int32_t)(i % TOKENS);
    const bo_model_graph_desc desc = {.rows = ROWS, .tokens = TOKENS, .values = values, .stream = stream};
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    const bo_graph_pass pass = {0};
    interpreter in = interpreter_create(context, g.graph, &pass);
    interpreter_index(&in, g.tokens, ids);
    interpreter_index(&in, g.positions, positions);
    for (size_t i = 0; i < g.graph->nodes.count; i++) interpreter_node(&in, i);
    for (size_t l = 0; l < d->layers; l++) {
        static const char *const names[] = {"q", "k", "v", "out"};
        const bo_value expected[] = {values[l].q, values[l].k, values[l].v, values[l].out};
        for (size_t a = 0; a < BO_CAPTURE_ARRAYS; a++) {
            float *x = read_array(context, capture, l, (bo_capture_array)a);
            check(names[a], l, ROWS * bo_capture_columns(capture, l, (bo_capture_array)a), x,
                  in.tensors[expected[a]].x);
            free(x);
        }
    }
    float *x = malloc(ROWS * d->width * sizeof *x);
    for (size_t p = 0; p < bo_capture_places(capture); p++) {
        assert_ok(context, bo_capture_read_stream(context, capture, p, x));
        check("stream", p, ROWS * d->width, x, in.tensors[stream[p]].x);
    }
    free(x);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
}

/* ---- softmax from q, k and v ------------------------------------------------------------------------------------- */

static void plain_softmax(const bo_attention_desc *d, const float *q, const float *k, const float *v, double *out)
{
    const size_t group = d->heads / d->key_heads;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t h = 0; h < d->heads; h++) {
            const size_t start = row / TOKENS * TOKENS, at = row - start;
            const size_t first = d->window && at + 1 > d->window ? at + 1 - d->window : 0;
            double sum = 0, *o = out + (row * d->heads + h) * d->value_dim;
            memset(o, 0, d->value_dim * sizeof *o);
            for (size_t j = first; j <= at; j++) {
                const size_t key = (start + j) * d->key_heads + h / group;
                double score = 0;
                for (size_t c = 0; c < d->dim; c++)
                    score += (double)q[(row * d->heads + h) * d->dim + c] * (double)k[key * d->dim + c];
                const double weight = exp(d->scale * score);
                sum += weight;
                for (size_t c = 0; c < d->value_dim; c++) o[c] += weight * (double)v[key * d->value_dim + c];
            }
            for (size_t c = 0; c < d->value_dim; c++) o[c] /= sum;
        }
}

static void against_softmax(bo_context *context, const bo_model *model, bo_capture *capture)
{
    for (size_t l = 0; l < bo_model_describe(model)->layers; l++) {
        const bo_attention_desc *d = bo_attention_describe(bo_model_attention(model, l));
        float *x[BO_CAPTURE_ARRAYS];
        for (size_t a = 0; a < BO_CAPTURE_ARRAYS; a++) x[a] = read_array(context, capture, l, (bo_capture_array)a);
        double *expected = malloc(ROWS * d->heads * d->value_dim * sizeof *expected);
        plain_softmax(d, x[0], x[1], x[2], expected);
        check("softmax", l, ROWS * d->heads * d->value_dim, x[BO_CAPTURE_ARRAY_OUT], expected);
        for (size_t a = 0; a < BO_CAPTURE_ARRAYS; a++) free(x[a]);
        free(expected);
    }
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The second sequence alone gives the same numbers, so sequences are independent. A second run replaces the first. */
static void against_single(bo_context *context, const bo_model *model, bo_capture *capture, const int32_t *ids)
{
    bo_capture *single;
    const bo_capture_desc desc = {.tokens = TOKENS, .parts = BO_CAPTURE_PART_ATTENTION};
    assert_ok(context, bo_capture_create(context, model, &desc, &single));
    assert_int_equal(bo_capture_rows(single), TOKENS);
    assert_ok(context, bo_capture_run(context, single, ids));
    assert_ok(context, bo_capture_run(context, single, ids + TOKENS));
    for (size_t a = 0; a < BO_CAPTURE_ARRAYS; a++) {
        const size_t count = TOKENS * bo_capture_columns(capture, 0, (bo_capture_array)a);
        float *both = read_array(context, capture, 0, (bo_capture_array)a);
        float *one = read_array(context, single, 0, (bo_capture_array)a);
        double *expected = malloc(count * sizeof *expected);
        for (size_t i = 0; i < count; i++) expected[i] = (double)both[count + i];
        check("alone", 0, count, one, expected);
        free(both);
        free(one);
        free(expected);
    }
    float stream[1];
    assert_fails(context, BO_INVALID, "not captured", bo_capture_read_stream(context, single, 0, stream));
    assert_fails(context, BO_INVALID, "not captured",
                 bo_capture_read(context, single, bo_model_describe(model)->layers, BO_CAPTURE_ARRAY_Q, stream));
    bo_capture_destroy(single);
}

static void check_model(bo_context *context, bo_model *model)
{
    bo_capture *capture;
    int32_t ids[ROWS];
    const bo_capture_desc desc = {
        .tokens = TOKENS, .sequences = SEQUENCES, .parts = BO_CAPTURE_PART_ATTENTION | BO_CAPTURE_PART_STREAM};
    make_ids(model, ids);
    assert_ok(context, bo_capture_create(context, model, &desc, &capture));
    assert_ok(context, bo_capture_run(context, capture, ids));
    against_interpreter(context, model, capture, ids);
    if (bo_attention_describe(bo_model_attention(model, 0))->kind == BO_ATTENTION_SOFTMAX)
        against_softmax(context, model, capture);
    against_single(context, model, capture, ids);
    bo_capture_destroy(capture);
}

static void every_family(void **state)
{
    (void)state;
    char families[512], path[1024];
    const char *source = getenv("BOCHNER_SOURCE");
    bo_context *context = test_context(2);
    size_t checked = 0;
    snprintf(families, sizeof families, "%s/tests/data/families", source ? source : ".");
    DIR *listing = opendir(families);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bo_model *model;
        if (entry->d_name[0] == '.') continue;
        print_message("%s\n", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", families, entry->d_name);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model));
        check_model(context, model);
        bo_model_destroy(model);
        checked++;
    }
    closedir(listing);
    assert_true(checked >= 26);
    bo_context_destroy(context);
}

static void other_kinds(void **state)
{
    (void)state;
    static const char *const kinds[] = {"rfa-gate", "favor", "dark", "hybrid", "hedgehog", "gla", "ridge"};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model_desc desc = test_desc(kinds[i]);
        print_message("%s\n", kinds[i]);
        if (i % 2) desc.block.key_heads = 1;
        bo_model *model = test_model(context, &desc, NULL);
        check_model(context, model);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- bad input and memory ---------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_capture *capture;
    float x[1];
    int32_t ids[4] = {1, 2, 3, VOCAB};
    bo_model_desc desc = test_desc("softmax");
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_model *model = test_model(context, &desc, NULL);
#define CREATE(...) bo_capture_create(context, model, &(bo_capture_desc){__VA_ARGS__}, &capture)
    assert_fails(context, BO_INVALID, "0 tokens per sequence, expected 1 to 48",
                 CREATE(.parts = BO_CAPTURE_PART_STREAM));
    assert_fails(context, BO_INVALID, "49 tokens per sequence", CREATE(.tokens = 49, .parts = BO_CAPTURE_PART_STREAM));
    assert_fails(context, BO_INVALID, "found neither", CREATE(.tokens = 4));
    assert_null(capture);
    assert_ok(context, CREATE(.tokens = 4, .parts = BO_CAPTURE_PART_STREAM));
    assert_fails(context, BO_INVALID, "no batch has been run", bo_capture_read_stream(context, capture, 0, x));
    assert_fails(context, BO_INVALID, "256", bo_capture_run(context, capture, ids));
    assert_fails(context, BO_INVALID, "no batch has been run", bo_capture_read_stream(context, capture, 0, x));
    assert_int_equal(bo_capture_columns(capture, 0, BO_CAPTURE_ARRAY_Q), 0);
    bo_capture_destroy(capture);
    bo_capture_destroy(NULL);
    bo_model_destroy(model);

    desc = test_desc("lstm");
    model = test_model(context, &desc, NULL);
    assert_fails(context, BO_INVALID, "layer 0 has no attention, its mixer is lstm",
                 CREATE(.tokens = 4, .parts = BO_CAPTURE_PART_ATTENTION));
    assert_ok(context, CREATE(.tokens = 4, .parts = BO_CAPTURE_PART_STREAM));
    bo_capture_destroy(capture);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

typedef struct starving {
    bo_context *context;
    const bo_model *model;
} starving;

static bo_status capture_once(void *what)
{
    const starving *s = what;
    bo_capture *capture;
    int32_t ids[ROWS];
    make_ids(s->model, ids);
    const bo_capture_desc desc = {
        .tokens = TOKENS, .sequences = SEQUENCES, .parts = BO_CAPTURE_PART_ATTENTION | BO_CAPTURE_PART_STREAM};
    BO_TRY(bo_capture_create(s->context, s->model, &desc, &capture));
    bo_status status = bo_capture_run(s->context, capture, ids);
    bo_capture_destroy(capture);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    bo_model_desc desc = test_desc("softmax");
    starving s = {context, test_model(context, &desc, NULL)};
    counting_inject(&(injection){&memory, context, capture_once, &s, 40, 7, "the sequences of a call"});
    bo_model_destroy((bo_model *)s.model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_family), cmocka_unit_test(other_kinds),
                                       cmocka_unit_test(refusals), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
