/* Sparse rows of libsvm text: the numbers of the dense rows, in memory, in blocks, in parts and in samples. */
#include "io/stream.h"
#include "testing.h"
#include "io/sparse.h"
#include <bochner/data.h>

enum { ROWS = 3000, DIM = 50 };

/* Libsvm text; column j of row i is present if (7 i + 3 j) % 11 == 0. */
static char *make_text(size_t *size)
{
    char *text = malloc((size_t)ROWS * 200), *at = text;
    for (int i = 0; i < ROWS; i++) {
        at += sprintf(at, "%d.5", i);
        for (int j = 1; j <= DIM; j++)
            if ((7 * i + 3 * j) % 11 == 0) at += sprintf(at, " %d:%g", j, (double)(i % 13) - 6 + 0.25 * j);
        at += sprintf(at, i % 5 ? "\n" : " # comment\n");
    }
    *size = (size_t)(at - text);
    return text;
}

static void assert_same_rows(const bo_sparse *sparse, size_t first, const bo_data *dense, size_t from, size_t count)
{
    float row[DIM];
    assert_int_equal(sparse->dim, dense->dim);
    for (size_t i = 0; i < count; i++) {
        bo_sparse_expand(sparse, first + i, row);
        assert_memory_equal(row, dense->x + (from + i) * DIM, sizeof row);
        for (size_t k = sparse->start[first + i]; k < sparse->start[first + i + 1]; k++)
            assert_true(sparse->value[k] != 0);
    }
}

static void test_same_as_dense(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    size_t size;
    char *text = make_text(&size);
    bo_data_desc desc = {.bytes = text, .size = size, .task = BO_TASK_REGRESSION};
    bo_data *dense, *sparse;
    assert_ok(context, bo_data_load(context, &desc, NULL, &dense));
    desc.sparse = true;
    assert_ok(context, bo_data_load(context, &desc, NULL, &sparse));
    assert_true(!sparse->x && sparse->sparse && !dense->sparse && sparse->rows == ROWS && sparse->sparse->rows == ROWS);
    assert_same_rows(sparse->sparse, 0, dense, 0, ROWS);
    assert_memory_equal(sparse->y, dense->y, ROWS * sizeof(double));
    /* in blocks */
    assert_true(bo_schema_describe(dense->schema)->sparse);
    bo_stream *stream;
    bo_sparse x;
    double y[700];
    assert_ok(context, bo_stream_open(context, &desc, dense->schema, &stream));
    assert_true(bo_stream_is_sparse(stream));
    for (size_t at = 0;; at += x.rows) {
        assert_ok(context, bo_stream_next_sparse(context, stream, 700, &x, y));
        if (x.rows == 0) {
            assert_int_equal(at, ROWS);
            break;
        }
        assert_same_rows(&x, 0, dense, at, x.rows);
        assert_memory_equal(y, dense->y + at, x.rows * sizeof *y);
    }
    bo_stream_close(stream);
    bo_data_destroy(dense);
    bo_data_destroy(sparse);
    free(text);
    bo_context_destroy(context);
}

/* The parts of a split have the same rows, in memory and in blocks. */
static void test_parts(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    size_t size;
    char *text = make_text(&size);
    bo_table_desc desc = {.data = {.bytes = text, .size = size, .task = BO_TASK_REGRESSION},
                          .split = {.test = 0.3, .seed = 5}};
    bo_data *train[2], *test[2];
    for (int s = 0; s < 2; s++) {
        desc.data.sparse = s;
        assert_ok(context, bo_table_load(context, &desc, &train[s], NULL, &test[s]));
    }
    assert_same_rows(train[1]->sparse, 0, train[0], 0, train[0]->rows);
    assert_same_rows(test[1]->sparse, 0, test[0], 0, test[0]->rows);
    assert_memory_equal(test[1]->y, test[0]->y, test[0]->rows * sizeof(double));
    bo_table *table;
    double y[256];
    bo_table_rows rows = {.y = y};
    size_t at = 0;
    assert_ok(context, bo_table_open(context, &desc, train[0]->schema, BO_SPLIT_TEST, &table));
    assert_true(bo_table_describe(table)->sparse);
    for (;; at += rows.rows) {
        assert_ok(context, bo_table_next(context, table, 256, &rows));
        assert_int_equal(rows.sparse.rows, rows.rows);
        if (rows.rows == 0) break;
        assert_same_rows(&rows.sparse, 0, test[0], at, rows.rows);
        assert_memory_equal(y, test[0]->y + at, rows.rows * sizeof *y);
    }
    assert_int_equal(at, test[0]->rows);
    bo_table_close(table);
    /* a sample has rows of the training part, each once */
    bo_data *sample;
    assert_ok(context, bo_table_sample_sparse(context, &desc, train[0]->schema, 200, &sample));
    assert_int_equal(sample->rows, 200);
    for (size_t i = 0; i < 200; i++) {
        size_t found = 0, where = 0;
        for (size_t r = 0; r < train[0]->rows; r++)
            if (train[0]->y[r] == sample->y[i]) found++, where = r;
        assert_int_equal(found, 1);
        assert_same_rows(sample->sparse, i, train[0], where, 1);
        for (size_t k = 0; k < i; k++) assert_true(sample->y[k] != sample->y[i]);
    }
    bo_data_destroy(sample);
    /* a sample of more rows than the table has contains all rows, in order, and takes no extra memory */
    assert_ok(context, bo_table_sample_sparse(context, &desc, train[0]->schema, (size_t)1000000000000, &sample));
    assert_int_equal(sample->rows, train[0]->rows);
    assert_same_rows(sample->sparse, 0, train[0], 0, train[0]->rows);
    assert_memory_equal(sample->y, train[0]->y, train[0]->rows * sizeof(double));
    bo_data_destroy(sample);
    for (int s = 0; s < 2; s++) {
        bo_data_destroy(train[s]);
        bo_data_destroy(test[s]);
    }
    free(text);
    bo_context_destroy(context);
}

static void refuse(bo_context *context, const char *text, const char *message)
{
    const bo_data_desc desc = {.bytes = text, .size = strlen(text), .format = BO_FORMAT_LIBSVM, .sparse = true};
    bo_data *data = NULL;
    assert_fails(context, BO_FORMAT, message, bo_data_load(context, &desc, NULL, &data));
    assert_null(data);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    refuse(context, "1.5 3:1 9:2\n2.5 3:nan 80:1\n", "line 2");
    refuse(context, "1.5 3:1\n2.5 3:1e39 80:1\n", "line 2, column 3: expected a number in the range of float32");
    refuse(context, "1.5 3:1\n2.5 80:1 4:2\n", "ascending");
    const char *dense = "a,b\n1,2\n3,4\n";
    const bo_data_desc desc = {.bytes = dense, .size = strlen(dense), .sparse = true};
    bo_data *data;
    bo_stream *stream;
    bo_sparse x;
    assert_ok(context, bo_data_load(context, &desc, NULL, &data)); /* not libsvm text: dense */
    assert_true(data->x && !data->sparse);
    assert_ok(context, bo_stream_open(context, &desc, data->schema, &stream));
    assert_fails(context, BO_UNSUPPORTED, "libsvm", bo_stream_next_sparse(context, stream, 5, &x, NULL));
    bo_stream_close(stream);
    bo_data_destroy(data);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_dense),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("io.sparse", tests, NULL, NULL);
}
