/* Streams: the rows of a whole load for every format and block size, parts that cover the file once, uniform seeded
 * samples, standard input. */
#include "io/stream.h"
#include "io/output.h"
#include "files.h"

enum { ROWS = 5000, DIM = 5 };

/* The same table in several formats: x_ij in [0, 1) with few digits, y = i. */
typedef struct tables {
    const char *npy, *npy_gzip, *csv, *svm, *fortran;
    float *x;
} tables;

static float cell(size_t row, size_t column)
{
    return (float)((row * 7919 + column * 104729 + 1) % 1000) / 1000;
}

static tables make_tables(test_directory *f)
{
    tables t = {0};
    t.x = malloc(ROWS * DIM * sizeof *t.x);
    double *wide = malloc(ROWS * (DIM + 1) * sizeof *wide);
    char *csv = malloc(ROWS * 100), *svm = malloc(ROWS * 120), *c = csv, *s = svm;
    for (size_t r = 0; r < ROWS; ++r) {
        s += sprintf(s, "%zu.5", r);
        for (size_t i = 0; i < DIM; ++i) {
            t.x[r * DIM + i] = cell(r, i);
            wide[r * (DIM + 1) + i] = cell(r, i);
            c += sprintf(c, "%.3f,", cell(r, i));
            s += sprintf(s, " %zu:%.3f", i + 1, cell(r, i));
        }
        wide[r * (DIM + 1) + DIM] = (double)r + 0.5;
        c += sprintf(c, "%zu.5\n", r);
        s += sprintf(s, "\n");
    }
    t.csv = strdup(test_write(f, "t.csv", csv, (size_t)(c - csv)));
    t.svm = strdup(test_gzip(f, "t.svm.gz", svm, (size_t)(s - svm)));
    t.npy = strdup(test_path(f, "t.npy"));
    assert_ok(f->context, bo_npy_save_f64(f->context, t.npy, ROWS, DIM + 1, wide));
    FILE *file = fopen(t.npy, "rb");
    size_t size = ROWS * (DIM + 1) * sizeof *wide + 1000;
    char *bytes = malloc(size);
    size = fread(bytes, 1, size, file);
    fclose(file);
    t.npy_gzip = strdup(test_gzip(f, "t.npy.gz", bytes, size));
    char *order = strstr(bytes + 10, "False");
    memcpy(order, "True ", 5);
    double *data = (double *)(void *)(bytes + size - ROWS * (DIM + 1) * sizeof *wide);
    for (size_t r = 0; r < ROWS; ++r)
        for (size_t i = 0; i <= DIM; ++i) memcpy(&data[i * ROWS + r], &wide[r * (DIM + 1) + i], sizeof *data);
    t.fortran = strdup(test_write(f, "f.npy", bytes, size));
    free(bytes);
    free(wide);
    free(csv);
    free(svm);
    return t;
}

static void free_tables(tables *t)
{
    free(t->x);
    free((void *)(uintptr_t)t->npy);
    free((void *)(uintptr_t)t->npy_gzip);
    free((void *)(uintptr_t)t->csv);
    free((void *)(uintptr_t)t->svm);
    free((void *)(uintptr_t)t->fortran);
}

static bo_stream *open_stream(test_directory *f, const char *path)
{
    bo_data_desc desc = {.path = path};
    bo_schema *schema;
    bo_stream *stream;
    assert_ok(f->context, bo_schema_fit(f->context, &(bo_table_desc){.data = desc}, &schema));
    assert_int_equal(bo_schema_describe(schema)->rows, ROWS);
    assert_ok(f->context, bo_stream_open(f->context, &desc, schema, &stream));
    bo_schema_destroy(schema); /* the stream has its own copy */
    return stream;
}

static void check_rows(const tables *t, const float *x, const double *y, size_t rows)
{
    for (size_t r = 0; r < rows; ++r) {
        size_t row = (size_t)y[r];
        assert_true(row < ROWS && y[r] == (double)row + 0.5);
        assert_memory_equal(x + r * DIM, t->x + row * DIM, DIM * sizeof *x);
    }
}

static void all_formats(void **state)
{
    test_directory *f = *state;
    tables t = make_tables(f);
    const char *paths[] = {t.npy, t.npy_gzip, t.csv, t.svm, t.fortran};
    static const size_t blocks[] = {1, 7, 1024, 100000};
    float *x = malloc(100000 * DIM * sizeof *x);
    double *y = malloc(100000 * sizeof *y);
    for (size_t p = 0; p < sizeof paths / sizeof *paths; ++p) {
        bo_stream *stream = open_stream(f, paths[p]);
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; ++b) {
            size_t rows, total = 0;
            for (;;) {
                assert_ok(f->context, bo_stream_next(f->context, stream, blocks[b], x, y, &rows));
                if (rows == 0) break;
                if (rows < blocks[b]) assert_int_equal(total + rows, ROWS); /* short only at the end */
                assert_true(y[0] == (double)total + 0.5);
                check_rows(&t, x, y, rows);
                total += rows;
            }
            assert_int_equal(total, ROWS);
            assert_ok(f->context, bo_stream_rewind(f->context, stream));
        }
        bo_stream_close(stream);
    }
    free(x);
    free(y);
    free_tables(&t);
}

/* Only numbers that are too small for float32 are reported as lost, not missing values that are replaced by 0. */
static void lost_numbers(void **state)
{
    test_directory *f = *state;
    enum { LINES = 5 };
    double table[LINES][2] = {{0, 1}, {NAN, 2}, {0, 3}, {1e-60, 4}, {0, 5}};
    float x[LINES][2];
    size_t rows;
    const char *path = test_path(f, "lost.npy");
    assert_ok(f->context, bo_npy_save_f64(f->context, path, LINES, 2, &table[0][0]));
    const bo_data_desc desc = {.path = path, .no_target = true, .impute = BO_IMPUTE_MEDIAN};
    bo_schema *schema;
    bo_stream *stream;
    assert_ok(f->context, bo_schema_fit(f->context, &(bo_table_desc){.data = desc}, &schema));
    assert_ok(f->context, bo_stream_open(f->context, &desc, schema, &stream));
    f->warnings = 0;
    do assert_ok(f->context, bo_stream_next(f->context, stream, LINES, &x[0][0], NULL, &rows));
    while (rows > 0);
    assert_true(x[1][0] == 0);
    assert_int_equal(f->warnings, 1);
    assert_non_null(strstr(f->last_log, ": 1 number is too small for float32"));
    bo_stream_close(stream);
    bo_schema_destroy(schema);
}

static void parts_cover(void **state)
{
    test_directory *f = *state;
    tables t = make_tables(f);
    const char *paths[] = {t.npy, t.npy_gzip, t.csv, t.svm};
    float *x = malloc(ROWS * DIM * sizeof *x);
    double *y = malloc(ROWS * sizeof *y);
    for (size_t p = 0; p < sizeof paths / sizeof *paths; ++p)
        for (size_t parts = 1; parts <= 4; ++parts) {
            unsigned char seen[ROWS] = {0};
            for (size_t index = 0; index < parts; ++index) {
                bo_stream *stream = open_stream(f, paths[p]);
                assert_ok(f->context, bo_stream_restrict(f->context, stream, index, parts));
                size_t sampled, rows, total[2] = {0, 0};
                assert_ok(f->context, bo_stream_sample(f->context, stream, 10, 1, x, y, NULL, &sampled));
                for (int pass = 0; pass < 2; ++pass) {
                    do {
                        assert_ok(f->context, bo_stream_next(f->context, stream, 777, x, y, &rows));
                        check_rows(&t, x, y, rows);
                        for (size_t r = 0; r < rows && pass == 0; ++r) ++seen[(size_t)y[r]];
                        total[pass] += rows;
                    } while (rows > 0);
                    assert_ok(f->context, bo_stream_rewind(f->context, stream));
                }
                assert_int_equal(total[0], total[1]);
                assert_true(total[0] > 0);
                bo_stream_close(stream);
            }
            for (size_t r = 0; r < ROWS; ++r) assert_int_equal(seen[r], 1);
        }
    bo_stream *stream = open_stream(f, t.csv);
    assert_fails(f->context, BO_INVALID, "part 3 of 3", bo_stream_restrict(f->context, stream, 3, 3));
    bo_stream_close(stream);
    free(x);
    free(y);
    free_tables(&t);
}

/* The row numbers of a sample of k of N without replacement are distinct, with mean (N - 1)/2 and variance (N^2 - 1)/12
 * / k * (N - k)/(N - 1). Over 40 seeds the mean of means must be within 4.5 standard deviations, and their spread must
 * fit chi-square with 40 degrees of freedom (2.4e-5 and 1 - 2.4e-5 quantiles about 12.8 and 89). */
static void samples(void **state)
{
    test_directory *f = *state;
    tables t = make_tables(f);
    const char *paths[] = {t.npy, t.csv};
    enum { K = 200, SEEDS = 40 };
    float x[K * DIM], x2[K * DIM];
    double y[K], y2[K];
    const double n = ROWS, variance = (n * n - 1) / 12 / K * (n - K) / (n - 1);
    for (size_t p = 0; p < 2; ++p) {
        bo_stream *stream = open_stream(f, paths[p]);
        double sum = 0, square = 0;
        for (uint64_t seed = 0; seed < SEEDS; ++seed) {
            size_t got;
            assert_ok(f->context, bo_stream_sample(f->context, stream, K, seed, x, y, NULL, &got));
            assert_int_equal(got, K);
            check_rows(&t, x, y, K);
            unsigned char seen[ROWS] = {0};
            double mean = 0;
            for (size_t i = 0; i < K; ++i) {
                assert_int_equal(seen[(size_t)y[i]]++, 0);
                mean += floor(y[i]) / K;
            }
            double z = (mean - (n - 1) / 2) / sqrt(variance);
            sum += z;
            square += z * z;
            assert_ok(f->context, bo_stream_sample(f->context, stream, K, seed, x2, y2, NULL, &got));
            assert_memory_equal(x, x2, sizeof x);
            assert_memory_equal(y, y2, sizeof y);
            assert_ok(f->context, bo_stream_next(f->context, stream, 1, x2, y2, &got));
            assert_true(y2[0] == 0.5); /* at its start again */
        }
        assert_close(sum / sqrt(SEEDS), 0, 4.5);
        assert_true(square > 12.8 && square < 89);
        float *all = malloc(ROWS * 2 * DIM * sizeof *all);
        double *targets = malloc(ROWS * 2 * sizeof *targets);
        size_t got;
        assert_ok(f->context, bo_stream_sample(f->context, stream, 2 * ROWS, 1, all, targets, NULL, &got));
        assert_int_equal(got, ROWS);
        check_rows(&t, all, targets, ROWS);
        free(all);
        free(targets);
        bo_stream_close(stream);
    }
    free_tables(&t);
}

/* Two passes over standard input, which is kept in a temporary file. */
static void standard_input(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "in.svm", "1 1:1 3:3\n-1 2:2\n1 1:4\n");
    int saved = dup(STDIN_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(write(ends[1], "1 1:1 3:3\n-1 2:2\n1 1:4\n", 23) == 23);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    bo_data_desc desc = {.path = "-"}, plain = {.path = path};
    bo_data *data, *same;
    bo_status status = bo_data_load(f->context, &desc, NULL, &data);
    assert_ok(f->context, status);
    assert_ok(f->context, bo_data_load(f->context, &plain, NULL, &same));
    assert_int_equal(data->rows, 3);
    assert_memory_equal(data->x, same->x, 9 * sizeof *same->x);
    bo_data_destroy(same);
    /* A reader on a pipe makes one pass; the number of columns must be known. */
    assert_int_equal(pipe(ends), 0);
    assert_true(write(ends[1], "1 1:1\n1 4:1\n", 12) == 12);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    bo_reader *reader;
    bo_data_block block;
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = "-"}, BO_FORMAT_AUTO, 4, &reader));
    assert_ok(f->context, bo_reader_next(f->context, reader, 1, &block));
    assert_true(block.cells[1] == 1);
    assert_fails(f->context, BO_FORMAT, "standard input: line 2: expected feature indices up to 3, found 4",
                 bo_reader_next(f->context, reader, 1, &block));
    assert_fails(f->context, BO_UNSUPPORTED, "only once", bo_reader_rewind(f->context, reader));
    bo_reader_close(reader);
    bo_schema *schema;
    assert_fails(f->context, BO_UNSUPPORTED, "only once",
                 bo_schema_fit(f->context, &(bo_table_desc){.data = desc}, &schema));
    bo_data_destroy(data);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_formats), cmocka_unit_test(parts_cover),
                                       cmocka_unit_test(samples), cmocka_unit_test(lost_numbers),
                                       cmocka_unit_test(standard_input)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
