/* Examples: edges and parts of files, batches. */
#include "networks.h"
#include "io/files.h"
#include "io/tensors.h"
#include <bochner/data.h>

static const char *written(test_directory *directory, const char *name, const char *text)
{
    const char *path = test_path(directory, name);
    assert_ok(directory->context, bo_file_save(directory->context, path, text, strlen(text)));
    return path;
}

/* Five nodes with two numbers and a class. */
static bo_examples_desc nodes(test_directory *directory)
{
    return (bo_examples_desc){
        .data = {.path = written(directory, "nodes.csv", "a,b,kind\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,10,x\n")}};
}

static void expect_edges(const bo_examples *e, const int32_t *first, const int32_t *neighbors)
{
    assert_memory_equal(e->first, first, (e->rows + 1) * sizeof *first);
    assert_int_equal(e->edges, first[e->rows]);
    assert_memory_equal(e->neighbors, neighbors, e->edges * sizeof *neighbors);
}

static void test_edges(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_examples_desc desc = nodes(directory);
    bo_examples *e;
    desc.edges = written(directory, "edges.csv", "from,to\n0,1\n2,1\n1,0\n4,4\n0,1\n");
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    assert_int_equal(e->rows, 5);
    assert_int_equal(e->dim, 2);
    assert_int_equal(e->classes, 2);
    expect_edges(e, (int32_t[]){0, 1, 4, 4, 4, 5}, (int32_t[]){1, 0, 0, 2, 4}); /* duplicate edges are kept */
    bo_examples_destroy(e);
    desc.undirected = true;
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    expect_edges(e, (int32_t[]){0, 1, 3, 4, 4, 5}, (int32_t[]){1, 0, 2, 1, 4});
    bo_examples_destroy(e);
    desc.self_loops = true;
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    expect_edges(e, (int32_t[]){0, 2, 5, 7, 8, 9}, (int32_t[]){0, 1, 0, 1, 2, 1, 2, 3, 4});
    bo_examples_destroy(e);
}

static void test_bad_edges(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {{"0,1\n2,5\n", "line 2, column 1: an edge's end should be the number of a node, from 0 to 4, found 5"},
               {"0,1\n-1,2\n", "line 2, column 0: an edge's end should be the number of a node, from 0 to 4, found -1"},
               {"0,1.5\n", "found 1.5"},
               {"0,1\n1,x\n", "found x"},
               {"0,1\n1,\n", "found nothing"},
               {"0,1,2\n", "two columns, from and to, found 3"}};
    test_directory *directory = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bo_examples_desc desc = nodes(directory);
        bo_examples *e;
        desc.edges = written(directory, "edges.csv", bad[i].text);
        assert_fails(directory->context, BO_FORMAT, bad[i].message,
                     bo_examples_load(directory->context, &desc, NULL, &e));
        assert_null(e);
    }
    const float x[4] = {1, 2, 3, 4};
    const int32_t first[3] = {0, 1, 2}, behind[3] = {0, 2, 1}, neighbors[2] = {1, 2};
    bo_examples_arrays arrays = {.rows = 2, .dim = 2, .x = x, .first = first, .neighbors = neighbors, .edges = 2};
    bo_examples *e;
    assert_fails(directory->context, BO_INVALID, "edge 1 comes from node 2, expected 0 to 1",
                 bo_examples_create(directory->context, &arrays, &e));
    arrays.edges = 3;
    assert_fails(directory->context, BO_INVALID, "should go from 0 to 3",
                 bo_examples_create(directory->context, &arrays, &e));
    arrays.edges = 1, arrays.first = behind;
    assert_fails(directory->context, BO_INVALID, "ends before it starts",
                 bo_examples_create(directory->context, &arrays, &e));
}

static void test_parts(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_examples_desc desc = nodes(directory);
    bo_examples *e;
    desc.split = written(directory, "split.csv", "part\ntest\ntrain\nnone\ntrain\nvalid\n");
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    assert_int_equal(bo_examples_rows(e, BO_SPLIT_TRAIN), 2);
    assert_int_equal(bo_examples_row(e, BO_SPLIT_TRAIN, 1), 3);
    assert_int_equal(bo_examples_row(e, BO_SPLIT_VALID, 0), 4);
    assert_int_equal(bo_examples_row(e, BO_SPLIT_TEST, 0), 0);
    assert_true(bo_examples_row(e, BO_SPLIT_TEST, bo_examples_rows(e, BO_SPLIT_TEST)) == SIZE_MAX);
    assert_true(bo_examples_row(e, BO_SPLIT_ALL, e->rows) == SIZE_MAX);
    assert_int_equal(bo_examples_rows(e, BO_SPLIT_ALL), 5);
    const bo_examples_part *parts = e->parts;
    assert_int_equal(parts[BO_SPLIT_TRAIN].count, 2);
    assert_int_equal(parts[BO_SPLIT_TRAIN].rows[0], 1);
    assert_int_equal(parts[BO_SPLIT_TRAIN].rows[1], 3);
    assert_int_equal(parts[BO_SPLIT_VALID].count, 1);
    assert_int_equal(parts[BO_SPLIT_VALID].rows[0], 4);
    assert_int_equal(parts[BO_SPLIT_TEST].count, 1);
    assert_int_equal(parts[BO_SPLIT_ALL].count, 5);
    assert_null(parts[BO_SPLIT_ALL].rows);
    bo_examples_destroy(e);
    desc.split = written(directory, "split.csv", "0\n0\n1\n2\n-1\n");
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    assert_int_equal(bo_examples_rows(e, BO_SPLIT_TRAIN), 2);
    bo_examples_destroy(e);
    static const struct {
        const char *text, *message;
    } bad[] = {{"train\ntrain\n", "expected 5 rows, as in the data, found fewer"},
               {"train\ntrain\ntrain\ntrain\ntrain\ntrain\n", "expected 5 rows, as in the data, found more"},
               {"train\nlearn\ntest\ntest\ntest\n", "line 2"},
               {"test\ntest\ntest\ntest\ntest\n", "no rows are left for training"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        desc.split = written(directory, "split.csv", bad[i].text);
        if (bo_examples_load(context, &desc, NULL, &e) == BO_OK || !strstr(bo_context_error(context), bad[i].message))
            fail_msg("expected '%s', found '%s'", bad[i].message, bo_context_error(context));
    }
    desc.split = NULL, desc.valid = 0.7, desc.test = 0.3;
    assert_fails(context, BO_INVALID, "sum to less than 1", bo_examples_load(context, &desc, NULL, &e));
}

/* Examples of arrays are split as they are made, or every row is in every part. */
static void test_parts_of_arrays(void **state)
{
    test_directory *directory = *state;
    enum { ROWS = 40, VALID = 10, TEST = 6 };
    static float x[ROWS];
    double y[ROWS];
    size_t counts[ROWS] = {0};
    for (size_t i = 0; i < ROWS; i++) y[i] = (double)(i % 2);
    bo_examples_arrays arrays = {.rows = ROWS, .dim = 1, .targets = 1, .classes = 2, .x = x, .y = y, .seed = 5};
    bo_examples *e;
    assert_ok(directory->context, bo_examples_create(directory->context, &arrays, &e));
    for (size_t p = 0; p < 4; p++) assert_true(e->parts[p].count == ROWS && !e->parts[p].rows);
    bo_examples_destroy(e);
    arrays.valid = 0.25, arrays.test = 0.15;
    assert_ok(directory->context, bo_examples_create(directory->context, &arrays, &e));
    assert_int_equal(e->parts[BO_SPLIT_TRAIN].count, ROWS - VALID - TEST);
    assert_int_equal(e->parts[BO_SPLIT_VALID].count, VALID);
    assert_int_equal(e->parts[BO_SPLIT_TEST].count, TEST);
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < e->parts[p].count; i++) counts[e->parts[p].rows[i]]++;
    for (size_t i = 0; i < ROWS; i++) assert_int_equal(counts[i], 1);
    bo_examples_destroy(e);
    arrays.valid = 0.9;
    assert_fails(directory->context, BO_INVALID, "sum to less than 1",
                 bo_examples_create(directory->context, &arrays, &e));
    assert_null(e);
}

/* An epoch has every row of the training part once, each epoch in another order; a step always gives the same batch. */
static void test_batches(void **state)
{
    test_directory *directory = *state;
    made *m = made_new(directory->context, 4, 2, false);
    enum { BATCH = 5, VALID = MADE_ROWS / 4, TRAIN = MADE_ROWS - VALID };
    assert_ok(directory->context, bo_examples_split(directory->context, m->examples, 0.25, 0, 9));
    assert_int_equal(bo_examples_rows(m->examples, BO_SPLIT_TRAIN), TRAIN);
    size_t counts[MADE_ROWS] = {0}, rows[BATCH], again[2];
    for (size_t i = 0; i < VALID; i++) counts[bo_examples_row(m->examples, BO_SPLIT_VALID, i)] = 10;
    for (uint64_t step = 0; step < TRAIN; step++) { /* BATCH epochs */
        bo_examples_batch(m->examples, 3, step, BATCH, 0, BATCH, rows);
        for (size_t i = 0; i < BATCH; i++) counts[rows[i]]++;
        bo_examples_batch(m->examples, 3, step, BATCH, 2, 2, again);
        assert_memory_equal(rows + 2, again, sizeof again);
    }
    for (size_t i = 0; i < MADE_ROWS; i++) assert_true(counts[i] == BATCH || counts[i] == 10);
    made_free(m);
}

/* Other edges or parts are other examples, even if the concatenated lists are equal. */
static void test_fingerprints(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char *const edges[] = {"0,1\n2,1\n3,3\n", "0,1\n2,2\n3,3\n"};
    static const char *const splits[] = {"train\ntrain\ntrain\nvalid\nvalid\n", "train\ntrain\nvalid\nvalid\nvalid\n"};
    uint64_t fingerprints[4];
    for (size_t i = 0; i < 4; i++) {
        bo_examples_desc desc = nodes(directory);
        bo_examples *e;
        desc.edges = written(directory, "edges.csv", edges[i % 2]);
        desc.split = written(directory, "split.csv", splits[i / 2]);
        assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
        fingerprints[i] = bo_examples_fingerprint(e);
        bo_examples_destroy(e);
        for (size_t j = 0; j < i; j++) assert_true(fingerprints[i] != fingerprints[j]);
    }
}

static void test_bad_arrays(void **state)
{
    bo_context *context = ((test_directory *)*state)->context;
    const float x[4] = {1, 2, 3, 4}, wild[4] = {1, 2, 3, INFINITY};
    const double y[2] = {0, 2};
    const bo_examples_arrays good = {.rows = 2, .dim = 2, .targets = 1, .classes = 3, .x = x, .y = y};
    bo_examples_arrays bad = good;
    bo_examples *e;
    assert_ok(context, bo_examples_create(context, &good, &e));
    bo_examples_destroy(e);
    bad.rows = 0;
    assert_fails(context, BO_INVALID, "at least 1 x 1, found 0 x 2", bo_examples_create(context, &bad, &e));
    bad = good, bad.x = NULL;
    assert_fails(context, BO_INVALID, "an x of at least 1 x 1", bo_examples_create(context, &bad, &e));
    bad = good, bad.x = wild;
    assert_fails(context, BO_INVALID, "row 1, column 1 is not finite", bo_examples_create(context, &bad, &e));
    bad = good, bad.targets = 0;
    assert_fails(context, BO_INVALID, "their number is 0", bo_examples_create(context, &bad, &e));
    bad = good, bad.classes = 2;
    assert_fails(context, BO_INVALID, "row 1 has class 2, expected a class below 2",
                 bo_examples_create(context, &bad, &e));
    assert_null(e);
}

/* A network for a table without the scaling of its columns would give wrong predictions. */
static void test_lost_scalings(void **state)
{
    enum { MAX_TENSORS = 16 };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const bo_examples_desc desc = nodes(directory);
    bo_examples *e;
    bo_tensors *file;
    bo_file_tensor kept[MAX_TENSORS];
    bo_model *loaded;
    assert_ok(context, bo_examples_load(context, &desc, NULL, &e));
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", "
                                    "\"width\": \"classes\"}], \"loss\": \"cross-entropy\"}",
                                    e);
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    bo_model_destroy(loaded);
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    size_t count = 0;
    for (size_t i = 0; i < bo_tensors_count(file) && count < MAX_TENSORS; i++)
        if (!strstr(bo_tensors_at(file, i)->name, "scaling")) kept[count++] = *bo_tensors_at(file, i);
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), kept, count, NULL, 0));
    bo_tensors_close(file);
    assert_fails(context, BO_FORMAT, "scaling.input.shift",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    bo_model_destroy(network);
    bo_examples_destroy(e);
}

int main(void)
{
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {IN_DIRECTORY(test_edges),         IN_DIRECTORY(test_bad_edges),
                                       IN_DIRECTORY(test_parts),         IN_DIRECTORY(test_parts_of_arrays),
                                       IN_DIRECTORY(test_batches),       IN_DIRECTORY(test_fingerprints),
                                       IN_DIRECTORY(test_lost_scalings), IN_DIRECTORY(test_bad_arrays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
