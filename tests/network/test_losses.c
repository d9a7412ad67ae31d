/* Losses: the loss of an evaluation equals the formula for its predictions, and invalid targets of a loss are refused.
 * Also descriptions without data, and timing. */
#include "networks.h"
#include "io/files.h"
#include <bochner/data.h>

enum { ROWS = 12, INPUTS = 3, TARGETS = 4 };

#define WITH(width, loss)                                                                                              \
    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": 5}, {\"type\": \"tanh\"}, "     \
    "{\"type\": \"linear\", \"width\": " width "}], \"loss\": " loss "}"

typedef struct numbers {
    float x[ROWS * INPUTS];
    double y[ROWS * TARGETS];
    bo_examples *examples;
} numbers;

/* Targets from 0 to 1. */
static void numbers_fill(bo_context *context, size_t targets, numbers *n)
{
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.losses", targets));
    for (size_t i = 0; i < ROWS * INPUTS; i++) n->x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < ROWS * targets; i++) n->y[i] = bo_rng_uniform(&rng);
    const bo_examples_arrays arrays = {.rows = ROWS, .dim = INPUTS, .targets = targets, .x = n->x, .y = n->y};
    assert_ok(context, bo_examples_create(context, &arrays, &n->examples));
}

/* Mean of t log(1/p) + (1 - t) log(1/(1 - p)). */
static double cross_entropy_of_bits(const double *t, const float *p)
{
    double sum = 0;
    for (size_t i = 0; i < TARGETS; i++) sum -= t[i] * log((double)p[i]) + (1 - t[i]) * log1p(-(double)p[i]);
    return sum / TARGETS;
}

/* From the probabilities p to those with logits t. */
static double divergence(const double *t, const float *p)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < TARGETS; i++) total += exp(t[i]);
    for (size_t i = 0; i < TARGETS; i++) sum += exp(t[i]) / total * log(exp(t[i]) / total / (double)p[i]);
    return sum;
}

/* A prediction has one more rounding than the input of the loss: a relative error of 2^-24, which becomes 2^-24 / (1 -
 * p) in the logarithms of p and 1 - p. None is above 1 - 2^-4 here; the logits have size 1 and errors of 2^-24. */
static void test_formulas(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        double (*formula)(const double *t, const float *p);
    } cases[] = {{WITH("\"targets\"", "\"bce\""), cross_entropy_of_bits}, {WITH("\"targets\"", "\"kl\""), divergence}};
    bo_context *context = test_context(1);
    numbers n;
    numbers_fill(context, TARGETS, &n);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bo_model *network = network_new(context, cases[c].model, n.examples);
        float p[ROWS * TARGETS];
        double expected = 0, largest = 0;
        bo_examples_evaluation found;
        assert_ok(context, bo_model_predict(context, network, n.examples, BO_SPLIT_ALL, p));
        assert_ok(context, bo_model_evaluate_examples(context, network, n.examples, BO_SPLIT_ALL, &found));
        for (size_t i = 0; i < ROWS * TARGETS; i++) largest = fmax(largest, (double)p[i]);
        for (size_t r = 0; r < ROWS; r++) expected += cases[c].formula(n.y + r * TARGETS, p + r * TARGETS) / ROWS;
        assert_true(largest < 1 - 0x1p-4 && expected > 0.01);
        assert_close(found.loss, expected, 0x1p-24 * (1 + 0x1p4));
        assert_true(isnan(found.accuracy) && found.examples == ROWS);
        bo_model_destroy(network);
    }
    bo_examples_destroy(n.examples);
    bo_context_destroy(context);
}

static void test_targets(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    numbers n;
    bo_examples_evaluation found;
    numbers_fill(context, TARGETS, &n);
    bo_model *network = network_new(context, WITH("\"targets\"", "\"bce\""), n.examples);
    n.y[2 * TARGETS + 1] = 1.5;
    assert_fails(context, BO_INVALID, "from 0 to 1; row 2 (from 0), target 1 (unnamed) has 1.5",
                 bo_model_evaluate_examples(context, network, n.examples, BO_SPLIT_ALL, &found));
    n.y[2 * TARGETS + 1] = NAN;
    assert_fails(context, BO_INVALID, "row 2 (from 0), target 1 (unnamed) has nan",
                 bo_model_evaluate_examples(context, network, n.examples, BO_SPLIT_ALL, &found));
    bo_model_destroy(network);
    bo_examples_destroy(n.examples);
    numbers_fill(context, 1, &n);
    const bo_description desc = {.text = WITH("\"targets\"", "\"kl\""), .examples = n.examples};
    assert_fails(context, BO_INVALID, "two or more columns, but the data has 1",
                 bo_model_create_described(context, &desc, &network));
    assert_null(network);
    bo_examples_destroy(n.examples);
    bo_context_destroy(context);
}

/* Which numbers and words count as classes: integers and few values do, other numbers do not. */
static void test_classes(void **state)
{
    test_directory *directory = *state;
    static const struct {
        const char *name, *text;
        bool refused;
    } cases[] = {{"fractions.csv", "a,y\n1,0.5\n2,1.5\n3,2.25\n4,0.5\n", true},
                 {"whole.csv", "a,y\n1,5\n2,15\n3,225\n4,5\n", false},
                 {"few.csv", "a,y\n1,0.5\n2,1.5\n3,0.5\n4,1.5\n", false},
                 {"words.csv", "a,y\n1,p\n2,q\n3,r\n4,p\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = test_path(directory, cases[i].name);
        assert_ok(directory->context, bo_file_save(directory->context, path, cases[i].text, strlen(cases[i].text)));
        const bo_examples_desc desc = {.data = {.path = path, .target = "y", .task = BO_TASK_CLASSIFICATION}};
        bo_description network_desc = {.text = WITH("\"classes\"", "\"cross-entropy\""), .seed = 1};
        bo_model *network;
        bo_examples *e;
        assert_ok(directory->context, bo_examples_load(directory->context, &desc, NULL, &e));
        network_desc.examples = e;
        const bo_status status = bo_model_create_described(directory->context, &network_desc, &network);
        if (cases[i].refused) {
            assert_int_equal(status, BO_INVALID);
            assert_non_null(
                strstr(bo_context_error(directory->context), "the target 'y' has 3 different values in 4 rows"));
            assert_null(network);
        } else {
            assert_int_equal(status, BO_OK);
        }
        bo_model_destroy(network);
        bo_examples_destroy(e);
    }
}

static void test_inspect(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_description_needs needs;
    assert_ok(context, bo_description_inspect(context, WITH("\"classes\"", "\"cross-entropy\""), NULL, &needs));
    assert_true(needs.input == BO_NETWORK_INPUT_ARRAY && needs.targets && needs.task == BO_TASK_CLASSIFICATION);
    assert_ok(context, bo_description_inspect(context, WITH("\"targets\"", "\"l1\""), NULL, &needs));
    assert_true(needs.targets && needs.task == BO_TASK_REGRESSION);
    assert_ok(context, bo_description_inspect(context, WITH("\"input\"", "{\"type\": \"mse\", \"target\": \"input\"}"),
                                              NULL, &needs));
    assert_false(needs.targets);
    assert_ok(context,
              bo_description_inspect(context,
                                     "{\"input\": {\"kind\": \"image\", \"height\": 3, \"width\": 3}, \"layers\": "
                                     "[{\"type\": \"flatten\"}], \"loss\": \"mse\"}",
                                     NULL, &needs));
    assert_int_equal(needs.input, BO_NETWORK_INPUT_IMAGE);
    static const char *const bad[][2] = {{"[", "net.json: "},
                                         {"{\"layers\": []}", "net.json: \"input\""},
                                         {"{\"input\": {\"kind\": \"sound\"}, \"layers\": []}", "found \"sound\""},
                                         {WITH("\"targets\"", "\"hinge\""), "should be mse, l1, bce, kl"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        needs.targets = true;
        assert_fails(context, BO_FORMAT, bad[i][1], bo_description_inspect(context, bad[i][0], "net.json", &needs));
        assert_false(needs.targets);
    }
    assert_fails(context, BO_INVALID, "argument 'text' is NULL", bo_description_inspect(context, NULL, NULL, &needs));
    bo_context_destroy(context);
}

/* The time is positive, and the operations are those of two products: forward, and backward to weights and to
 * inputs. */
static void test_time(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    numbers n;
    double seconds = 0, operations = 0;
    numbers_fill(context, TARGETS, &n);
    bo_description desc = {.text = WITH("\"targets\"", "\"mse\""), .examples = n.examples, .seed = 1};
    assert_ok(context, bo_description_time(context, &desc, 3, &seconds, &operations));
    assert_true(seconds > 0 && isfinite(seconds));
    assert_true(operations >= 3.0 * 2 * ROWS * (INPUTS * 5 + 5 * TARGETS));
    assert_ok(context, bo_description_time(context, &desc, 1, &seconds, NULL));
    assert_fails(context, BO_INVALID, "expected 1 to 99, found 0",
                 bo_description_time(context, &desc, 0, &seconds, NULL));
    assert_fails(context, BO_INVALID, "found 100", bo_description_time(context, &desc, 100, &seconds, NULL));
    assert_fails(context, BO_INVALID, "argument 'seconds' is NULL", bo_description_time(context, &desc, 1, NULL, NULL));
    desc.text = WITH("3", "\"mse\"");
    assert_fails(context, BO_FORMAT, "found 3", bo_description_time(context, &desc, 1, &seconds, NULL));
    desc.examples = NULL;
    assert_fails(context, BO_INVALID, "argument 'desc->examples' is NULL",
                 bo_description_time(context, &desc, 1, &seconds, NULL));
    bo_examples_destroy(n.examples);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas), cmocka_unit_test(test_targets),
                                       cmocka_unit_test_setup_teardown(test_classes, test_setup, test_teardown),
                                       cmocka_unit_test(test_inspect), cmocka_unit_test(test_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
