/* Columns far from 0: origins are chosen and subtracted in float64, so that the machine equals a machine fitted to the
 * same rows near 0. */
#include "io/stream.h"
#include "../io/files.h"
#include "oracle.h"
#include <bochner/embedding.h>

enum { ROWS = 400, NEW = 60 };

static const double offsets[] = {0, 1e7, 1e8, 1.7e9, 1.7e12, -1.7e12};

/* Steps of 1/1024, which float64 represents exactly at all offsets. The second column is near 0. */
static void make_rows(size_t rows, uint64_t seed, double offset, double *x, double *y)
{
    bo_rng rng = bo_rng_make(seed, 1);
    for (size_t i = 0; i < rows; i++) {
        const double t = floor(40 * 1024 * bo_rng_uniform(&rng)) / 1024;
        x[2 * i] = offset + t;
        x[2 * i + 1] = floor(2 * bo_rng_uniform(&rng));
        y[i] = sin(t) + x[2 * i + 1];
    }
}

static bo_machine_desc describe(void)
{
    return (bo_machine_desc){
        .features = {.kernel = BO_KERNEL_RBF, .features = 128, .gamma = 40}, .lambda = 1e-4, .seed = 1};
}

static void check_predictions(size_t count, const double *found, const double *expected)
{
    for (size_t i = 0; i < count; i++) assert_true(fabs(found[i] - expected[i]) < 2e-4);
}

/* float64 rows of a caller; in memory and as a stream. */
static void rows_of_a_caller(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    double x[ROWS * 2], y[ROWS], x_new[NEW * 2], y_new[NEW], first[NEW], first_streamed[NEW];
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
        float narrow[ROWS * 2], narrow_new[NEW * 2];
        double origins[2], found[NEW];
        make_rows(ROWS, 1, offsets[o], x, y);
        make_rows(NEW, 2, offsets[o], x_new, y_new);
        bo_origins_choose(ROWS, 2, x, 2, origins);
        assert_true((origins[0] != 0) == (offsets[o] != 0) && fabs(origins[0] - offsets[o]) <= 40 && origins[1] == 0);
        bo_origins_subtract(ROWS, 2, x, 2, origins, narrow);
        bo_origins_subtract(NEW, 2, x_new, 2, origins, narrow_new);
        const bo_samples samples = {.rows = ROWS, .dim = 2, .targets = 1, .x = narrow, .y = y};
        const bo_machine_desc desc = describe();
        bo_machine *machine = oracle_fit(context, &desc, &samples), *streamed;
        assert_true(bo_machine_report(machine)->validation_rmse < 0.05);
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = NEW, .x = narrow_new},
                                              &(bo_prediction){.mean = found}));
        if (o == 0) memcpy(first, found, sizeof found);
        check_predictions(NEW, found, first);
        bo_fitting *fitting;
        assert_ok(context, bo_fitting_create(context, &desc, &samples, &fitting));
        assert_ok(context, bo_fitting_add(context, fitting, &samples));
        assert_ok(context, bo_fitting_finish(context, fitting, &streamed));
        assert_ok(context, bo_machine_predict(context, streamed, &(bo_inputs){.rows = NEW, .x = narrow_new},
                                              &(bo_prediction){.mean = found}));
        if (o == 0) memcpy(first_streamed, found, sizeof found);
        check_predictions(NEW, found, first_streamed);
        bo_fitting_destroy(fitting);
        bo_machine_destroy(machine);
        bo_machine_destroy(streamed);
    }
}

/* Writes rows as .npy: x0, x1, y. Integers are multiplied by 1024. */
static void write_rows(const char *path, bool integers, size_t rows, const double *x, const double *y)
{
    static const char *const types[] = {"<f8", "<i8"};
    FILE *file = fopen(path, "wb");
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int length = snprintf(header + 10, 100, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu, 3), }",
                                types[integers], rows);
    header[10 + length] = ' ';
    header[127] = '\n';
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    for (size_t i = 0; i < rows; i++) {
        const double numbers[3] = {x[2 * i], x[2 * i + 1], y[i]};
        int64_t whole[3];
        for (size_t k = 0; k < 3; k++) whole[k] = (int64_t)floor(numbers[k] * (k == 1 ? 1 : 1024));
        assert_int_equal(fwrite(integers ? (void *)whole : (void *)numbers, 8, 3, file), 3);
    }
    assert_int_equal(fclose(file), 0);
}

/* Arrays of float64 and int64; the origins are stored with the schema. */
static void arrays(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    double x[ROWS * 2], y[ROWS], x_new[NEW * 2], y_new[NEW], first[NEW];
    for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
        for (int integers = 0; integers < 2; integers++) {
            const bo_data_desc train = {.path = test_path(directory, "train.npy"), .task = BO_TASK_REGRESSION};
            const bo_data_desc test = {.path = test_path(directory, "test.npy")};
            bo_data *data, *other;
            bo_machine *machine, *loaded;
            bo_schema *schema;
            bo_samples samples;
            void *bytes;
            size_t size;
            double found[NEW];
            make_rows(ROWS, 1, offsets[o], x, y);
            make_rows(NEW, 2, offsets[o], x_new, y_new);
            write_rows(train.path, integers, ROWS, x, y);
            write_rows(test.path, integers, NEW, x_new, y_new);
            assert_ok(context, bo_data_load(context, &train, NULL, &data));
            assert_true((bo_schema_origin(data->schema, 0) != 0) == (offsets[o] != 0));
            assert_true(bo_schema_origin(data->schema, 1) == 0 && isnan(bo_schema_origin(data->schema, 2)));
            for (size_t i = 0; i < ROWS; i++)
                assert_true(fabs(bo_schema_origin(data->schema, 0) + (double)data->x[2 * i] -
                                 x[2 * i] * (integers ? 1024 : 1)) <= 1e-3);
            bo_data_get_samples(data, &samples);
            const bo_machine_desc desc = describe();
            machine = oracle_fit(context, &desc, &samples);
            assert_ok(context,
                      bo_machine_save(context, machine, data->schema, &(bo_sink){.bytes = &bytes, .size = &size}));
            assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, &schema));
            assert_ok(context, bo_data_load(context, &test, schema, &other));
            assert_ok(context, bo_machine_predict(context, loaded, &(bo_inputs){.rows = NEW, .x = other->x},
                                                  &(bo_prediction){.mean = found}));
            for (size_t i = 0; integers && i < NEW; i++) found[i] /= 1024;
            if (o == 0 && !integers) memcpy(first, found, sizeof found);
            for (size_t i = 0; i < NEW; i++) assert_true(fabs(found[i] - first[i]) < (integers ? 2e-3 : 2e-4));
            bo_free(bytes);
            bo_data_destroy(data);
            bo_data_destroy(other);
            bo_machine_destroy(machine);
            bo_machine_destroy(loaded);
            bo_schema_destroy(schema);
        }
}

/* Columns that need no origin, or whose differences are rounding errors. */
static void without_origin(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        bool far;
    } cases[] = {
        {0, 100, false},        {100, 200, false},           {1950, 2025, true},         {-1e9, 1e9, false},
        {7, 7, false},          {1.7e9, 1.7e9, true},        {-1.7e9, -1.7e9 + 1, true}, {0.3, 0.3 + 6e-17, false},
        {1e300, 2e300, false},  {NAN, NAN, false},           {-INFINITY, 3, false},      {1e15, 1e15 + 108, true},
        {9e15, 9e15 + 1, true}, {1e15, 1e15 + 0.125, false}, {1e16, 1e16 + 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double column[2] = {cases[i].low, cases[i].high};
        double origin = NAN;
        bo_origins_choose(2, 1, column, 1, &origin);
        assert_true(cases[i].far ? origin >= cases[i].low && origin <= cases[i].high : origin == 0);
    }
}

/* A number such as 0 or -1 among far numbers, which stands for a missing one, does not cost them their digits: in
 * memory, as text and as an array. Neither do two of them, or one so near that the range of all numbers has an origin
 * too. */
static void check_stand_ins(test_directory *directory, double first, double second)
{
    bo_context *context = directory->context;
    double x[ROWS * 2], y[ROWS], origins[2];
    float rows[3][ROWS * 2];
    make_rows(ROWS, 1, 1.7e12, x, y);
    for (size_t i = 3; i < ROWS; i += 25) x[2 * i] = i % 2 ? first : second;
    bo_origins_choose(ROWS, 2, x, 2, origins);
    bo_origins_subtract(ROWS, 2, x, 2, origins, rows[0]);
    write_rows(test_path(directory, "zeros.npy"), false, ROWS, x, y);
    FILE *file = fopen(test_path(directory, "zeros.csv"), "w");
    for (size_t i = 0; i < ROWS; i++) fprintf(file, "%.17g,%g,%.17g\n", x[2 * i], x[2 * i + 1], y[i]);
    assert_int_equal(fclose(file), 0);
    for (size_t k = 1; k < 3; k++) {
        const bo_data_desc desc = {.path = test_path(directory, k == 1 ? "zeros.csv" : "zeros.npy"),
                                   .task = BO_TASK_REGRESSION};
        bo_data *data;
        assert_ok(context, bo_data_load(context, &desc, NULL, &data));
        memcpy(rows[k], data->x, sizeof rows[k]);
        bo_data_destroy(data);
    }
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < ROWS; i++) {
            const double difference = (double)rows[k][2 * i] - (double)rows[k][0];
            if (x[2 * i] == first || x[2 * i] == second)
                assert_close(difference / (x[2 * i] - x[0]), 1, 1e-6); /* of float32 */
            else
                assert_true(difference == x[2 * i] - x[0]);
        }
}

static void few_numbers_far_from_the_rest(void **state)
{
    static const double stand_ins[][2] = {{0, 0}, {-1, -1}, {9e15, 9e15}, {-9999, -1}, {-1, 1e18}, {1.5e12, 1.5e12}};
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++)
        check_stand_ins(*state, stand_ins[i][0], stand_ins[i][1]);
}

/* The sample of a column depends neither on the order of its rows nor on repetitions. A tenth of different values far
 * from the rest is recognized; half of the values are not few. */
static void samples_of_values(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    double x[3 * COUNT], origin[3];
    for (size_t i = 0; i < COUNT; i++) x[i] = i % 10 == 3 ? (double)i : 1.7e9 + (double)i / 64;
    bo_origins_choose(COUNT, 1, x, 1, &origin[0]);
    assert_true(origin[0] >= 1.7e9 && origin[0] < 1.7e9 + 16);
    for (size_t i = 0; i < COUNT; i++) x[COUNT + 2 * i] = x[COUNT + 2 * i + 1] = x[COUNT - 1 - i];
    bo_origins_choose(2 * COUNT, 1, x + COUNT, 1, &origin[1]);
    assert_true(origin[1] == origin[0]);
    for (size_t i = 0; i < COUNT; i++) x[i] = i % 2 ? 1.7e9 + (double)i / 64 : (double)i / 64;
    bo_origins_choose(COUNT, 1, x, 1, &origin[2]);
    assert_true(origin[2] == 0);
}

/* A number that libsvm text leaves out is 0, also in a column that has an origin. */
static void absent_numbers(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const bo_data_desc train = {.path = test_text(directory, "train.svm",
                                                  "1 1:1700000001 2:5 3:1700000100\n2 1:1700000002 3:1700000101\n"
                                                  "3 1:1700000003 2:60 3:1700000102\n"),
                                .sparse = true,
                                .task = BO_TASK_REGRESSION};
    const bo_data_desc test = {.path = test_text(directory, "test.svm", "1 2:5\n1 3:1700000101\n1 1:1700000002 7:1\n")};
    bo_data *data, *dense;
    bo_stream *stream;
    bo_sparse rows;
    assert_ok(context, bo_data_load(context, &train, NULL, &data));
    const double a = bo_schema_origin(data->schema, 0), b = bo_schema_origin(data->schema, 2);
    assert_true(fabs(a - 1700000002) <= 1 && fabs(b - 1700000101) <= 1 && bo_schema_origin(data->schema, 1) == 0);
    const double expected[3][3] = {{-a, 5, -b}, {-a, 0, 1700000101 - b}, {1700000002 - a, 0, -b}};
    assert_ok(context, bo_data_load(context, &test, data->schema, &dense));
    assert_ok(context, bo_stream_open(context, &test, data->schema, &stream));
    assert_ok(context, bo_stream_next_sparse(context, stream, 9, &rows, NULL));
    assert_int_equal(rows.rows, 3);
    for (size_t i = 0; i < 3; i++) {
        float row[3];
        bo_sparse_expand(&rows, i, row);
        for (size_t j = 0; j < 3; j++) {
            assert_true(row[j] == (float)expected[i][j]);
            assert_true(dense->x[3 * i + j] == (float)expected[i][j]);
        }
    }
    bo_stream_close(stream);
    bo_data_destroy(dense);
    bo_data_destroy(data);
}

/* A column of libsvm text has an origin if at most half of its numbers are left out, because with it they have to be
 * stored. */
static void mostly_absent_numbers(void **state)
{
    test_directory *directory = *state;
    const bo_data_desc desc = {.path = test_text(directory, "half.svm",
                                                 "1 1:1700000001 2:1700000001 3:5\n2 1:1700000002 3:6\n"
                                                 "3 1:1700000003 3:7\n4 2:1700000003 3:8\n5 3:9\n"),
                               .sparse = true,
                               .task = BO_TASK_REGRESSION};
    bo_data *data;
    assert_ok(directory->context, bo_data_load(directory->context, &desc, NULL, &data));
    const double origin = bo_schema_origin(data->schema, 0);
    assert_true(fabs(origin - 1700000002) <= 1 && bo_schema_origin(data->schema, 1) == 0);
    bo_stream *stream;
    bo_sparse rows;
    float row[3];
    assert_ok(directory->context, bo_stream_open(directory->context, &desc, data->schema, &stream));
    assert_ok(directory->context, bo_stream_next_sparse(directory->context, stream, 9, &rows, NULL));
    assert_int_equal(rows.rows, 5);
    bo_sparse_expand(&rows, 4, row);
    assert_true(row[0] == (float)-origin && row[1] == 0 && row[2] == 9);
    bo_stream_close(stream);
    bo_data_destroy(data);
}

/* ---- machines that are loaded or saved without the schema -------------------------------------------------------- */

/* Rows whose numbers float32 represents exactly at the offset too, so that numbers and differences describe the same
 * rows. */
static void make_exact_rows(size_t rows, uint64_t seed, double offset, double step, double *x, double *y)
{
    bo_rng rng = bo_rng_make(seed, 1);
    for (size_t i = 0; i < rows; i++) {
        const double t = floor(30 * bo_rng_uniform(&rng));
        x[2 * i] = offset + step * t;
        x[2 * i + 1] = floor(2 * bo_rng_uniform(&rng));
        y[i] = sin(t / 5) + x[2 * i + 1];
    }
}

typedef struct tables {
    double x[ROWS * 2], y[ROWS], x_new[NEW * 2], y_new[NEW];
    float raw[NEW * 2]; /* x_new */
    bo_data *train, *test;
} tables;

static void make_table(test_directory *directory, double offset, double step, tables *out)
{
    bo_context *context = directory->context;
    const bo_data_desc train = {.path = test_path(directory, "train.npy"), .task = BO_TASK_REGRESSION};
    const bo_data_desc test = {.path = test_path(directory, "test.npy")};
    make_exact_rows(ROWS, 1, offset, step, out->x, out->y);
    make_exact_rows(NEW, 2, offset, step, out->x_new, out->y_new);
    for (size_t i = 0; i < 2 * NEW; i++) {
        out->raw[i] = (float)out->x_new[i];
        assert_true((double)out->raw[i] == out->x_new[i]);
    }
    write_rows(train.path, false, ROWS, out->x, out->y);
    write_rows(test.path, false, NEW, out->x_new, out->y_new);
    assert_ok(context, bo_data_load(context, &train, NULL, &out->train));
    assert_ok(context, bo_data_load(context, &test, out->train->schema, &out->test));
    assert_true(bo_schema_origin(out->train->schema, 0) != 0);
}

static void free_table(tables *table)
{
    bo_data_destroy(table->train);
    bo_data_destroy(table->test);
}

typedef struct results {
    double mean[NEW], std[NEW], low[NEW], high[NEW], sparse[NEW];
    float gradients[NEW * 2];
} results;

static void compute_results(bo_context *context, const bo_machine *machine, const float *x, results *out)
{
    *out = (results){{0}, {0}, {0}, {0}, {0}, {0}};
    size_t start[NEW + 1];
    uint32_t column[NEW * 2];
    for (size_t i = 0; i <= NEW; i++) start[i] = 2 * i;
    for (size_t i = 0; i < 2 * NEW; i++) column[i] = i % 2;
    const bo_sparse sparse = {NEW, 2, start, column, x};
    assert_ok(context, bo_machine_predict(
                           context, machine, &(bo_inputs){.rows = NEW, .x = x},
                           &(bo_prediction){
                               .mean = out->mean, .low = out->low, .high = out->high, .level = 0.9, .std = out->std}));
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.sparse = &sparse},
                                          &(bo_prediction){.mean = out->sparse}));
    assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){.rows = NEW, .x = x}, out->gradients));
}

/* Saves and loads with or without the schema. */
static bo_machine *pass_on(bo_context *context, const bo_machine *machine, const bo_schema *schema, bool aware)
{
    void *bytes;
    size_t size;
    bo_machine *loaded;
    bo_schema *stored = NULL;
    assert_ok(context, bo_machine_save(context, machine, schema, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context,
              bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, aware ? &stored : NULL));
    assert_true((stored != NULL) == (aware && schema));
    bo_free(bytes);
    bo_schema_destroy(stored);
    return loaded;
}

static void check_same(bo_context *context, const bo_machine *machine, const float *x, const results *expected)
{
    results found;
    compute_results(context, machine, x, &found);
    assert_memory_equal(&found, expected, sizeof found);
}

static void check_machine(bo_context *context, const tables *table, const bo_machine_desc *desc)
{
    const bo_schema *schema = table->train->schema;
    bo_samples samples;
    results expected;
    double worst = 0;
    bo_data_get_samples(table->train, &samples);
    bo_machine *fitted = oracle_fit(context, desc, &samples);
    compute_results(context, fitted, table->test->x, &expected);
    for (size_t i = 0; i < NEW; i++) worst = fmax(worst, fabs(expected.mean[i] - table->y_new[i]));
    assert_true(worst < 0.3);
    bo_machine *aware = pass_on(context, fitted, schema, true), *raw = pass_on(context, fitted, schema, false);
    check_same(context, aware, table->test->x, &expected);
    check_same(context, raw, table->raw, &expected);
    bo_machine *machines[] = {/* what was fitted to or loaded with differences, and is saved without the schema */
                              pass_on(context, fitted, NULL, false), pass_on(context, aware, NULL, true),
                              /* what takes numbers */
                              pass_on(context, raw, NULL, true), pass_on(context, raw, schema, false)};
    for (size_t i = 0; i < 4; i++) {
        check_same(context, machines[i], table->raw, &expected);
        bo_machine_destroy(machines[i]);
    }
    bo_machine *again = pass_on(context, raw, schema, true);
    check_same(context, again, table->test->x, &expected);
    bo_machine_destroy(again);
    bo_machine_destroy(fitted);
    bo_machine_destroy(aware);
    bo_machine_destroy(raw);
}

static const double places[][2] = {{2000, 1}, {1.7e9, 1024}, {-1.7e9, 1024}}; /* offset, step */

static void without_schema(void **state)
{
    test_directory *directory = *state;
    const bo_features_desc rbf = {.kernel = BO_KERNEL_RBF, .features = 128, .gamma = 3};
    const bo_machine_desc kinds[] = {
        {.features = rbf, .lambda = 1e-3},
        {.features = rbf, .lambda = 1e-3, .scaling = BO_SCALING_QUANTILE},
        {.features = rbf, .lambda = 1e-3, .solver = BO_SOLVER_DUAL},
        {.features = {.kernel = BO_KERNEL_RBF, .features = 128}, .lambda = 1e-3, .scaling = BO_SCALING_COMMON},
        {.choose_kernel = true},
    };
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        tables table;
        make_table(directory, places[p][0], places[p][1], &table);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            if (kinds[k].scaling == BO_SCALING_COMMON && p > 0) continue; /* the column of 0 and 1 would vanish */
            check_machine(directory->context, &table, &kinds[k]);
        }
        free_table(&table);
    }
    tables table;
    make_table(directory, 2000, 1, &table);
    const bo_machine_desc plain = {.features = {.kernel = BO_KERNEL_RBF, .features = 512, .gamma = 0.05},
                                   .lambda = 1e-3,
                                   .scaling = BO_SCALING_NONE};
    check_machine(directory->context, &table, &plain);
    free_table(&table);
}

/* A fit to sparse rows: a number that is absent from a row to predict is 0, far from the origin. */
static void sparse_without_schema(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    char text[16384] = "";
    size_t used = 0;
    bo_rng rng = bo_rng_make(3, 1);
    for (int i = 0; i < 200; i++) {
        const int t = (int)(30 * bo_rng_uniform(&rng)), second = (int)(3 * bo_rng_uniform(&rng));
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%g 1:%d", sin(t / 5.0) + second, 1700003840 + 128 * t);
        if (second) used += (size_t)snprintf(text + used, sizeof text - used, " 2:%d", second);
        used += (size_t)snprintf(text + used, sizeof text - used, " 4:%d\n", 2000 + t);
    }
    const bo_data_desc train = {
        .path = test_text(directory, "train.svm", text), .sparse = true, .task = BO_TASK_REGRESSION};
    const bo_data_desc test = {
        .path = test_text(directory, "test.svm", "1 1:1700005120 2:2 4:2010\n1 2:1 3:1\n1 4:2009\n"), .sparse = true};
    static const size_t start[] = {0, 3, 5, 6};
    static const uint32_t column[] = {0, 1, 3, 1, 2, 3};
    static const float value[] = {1700005120, 2, 2010, 1, 1, 2009};
    bo_schema *schema;
    bo_stream *stream, *new_stream;
    bo_sparse rows, reduced;
    double y[200];
    assert_ok(context, bo_schema_fit(context, &(bo_table_desc){.data = train}, &schema));
    assert_true(bo_schema_origin(schema, 0) != 0 && bo_schema_origin(schema, 3) != 0);
    assert_ok(context, bo_stream_open(context, &train, schema, &stream));
    assert_ok(context, bo_stream_next_sparse(context, stream, 200, &rows, y));
    assert_ok(context, bo_stream_open(context, &test, schema, &new_stream));
    assert_ok(context, bo_stream_next_sparse(context, new_stream, 3, &reduced, NULL));
    assert_true(rows.rows == 200 && reduced.rows == 3 && reduced.dim == 4);
    const bo_samples samples = {.rows = 200, .dim = 4, .targets = 1, .y = y, .sparse = &rows, .schema = schema};
    const bo_sparse sparse = {3, 4, start, column, value};
    float dense[3 * 4];
    for (size_t i = 0; i < 3; i++) bo_sparse_expand(&sparse, i, dense + i * 4);
    static const bo_scaling scalings[] = {BO_SCALING_COLUMNS, BO_SCALING_COMMON, BO_SCALING_NONE};
    for (size_t s = 0; s < 3; s++) {
        bo_machine_desc desc = describe();
        desc.scaling = scalings[s];
        if (s) desc.features.gamma = 1e-3;
        bo_machine *machine = oracle_fit(context, &desc, &samples), *raw = pass_on(context, machine, schema, false);
        assert_non_null(machine->scaler.place);
        double expected[3], expected_std[3], found[3], found_std[3];
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.sparse = &reduced},
                                              &(bo_prediction){.mean = expected, .std = expected_std}));
        assert_ok(context, bo_machine_predict(context, raw, &(bo_inputs){.sparse = &sparse},
                                              &(bo_prediction){.mean = found, .std = found_std}));
        for (size_t i = 0; i < 3; i++) assert_true(found[i] == expected[i] && found_std[i] == expected_std[i]);
        assert_ok(context, bo_machine_predict(context, raw, &(bo_inputs){.rows = 3, .x = dense, .stride = 4},
                                              &(bo_prediction){.mean = found, .std = found_std}));
        for (size_t i = 0; i < (s ? 1 : 3); i++) /* features of distant rows consist of rounding errors */
            assert_true(fabs(found[i] - expected[i]) < 1e-5);
        bo_machine_destroy(machine);
        bo_machine_destroy(raw);
    }
    bo_stream_close(stream);
    bo_stream_close(new_stream);
    bo_schema_destroy(schema);
}

/* Embeddings, with pre-images. */
static void embedding_without_schema(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        tables table;
        make_table(directory, places[p][0], places[p][1], &table);
        const bo_schema *schema = table.train->schema;
        const bo_embedding_desc desc = {.features = {.kernel = BO_KERNEL_LINEAR}};
        const bo_samples rows = {.rows = ROWS, .dim = 2, .x = table.train->x, .schema = schema};
        bo_embedding *fitted;
        double expected[NEW * 2], found[NEW * 2], x[NEW * 2], moved[NEW * 2];
        assert_ok(context, bo_embedding_fit(context, &desc, &rows, &fitted));
        assert_ok(context,
                  bo_embedding_apply(context, fitted, &(bo_inputs){.rows = NEW, .x = table.test->x}, expected, NULL));
        assert_ok(context, bo_embedding_invert(context, fitted, NEW, expected, x));
        for (int without = 0; without < 2; without++) {
            bo_embedding *loaded;
            void *bytes;
            size_t size;
            assert_ok(context, bo_embedding_save(context, fitted, without ? NULL : schema,
                                                 &(bo_sink){.bytes = &bytes, .size = &size}));
            assert_ok(context, bo_embedding_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
            assert_ok(context,
                      bo_embedding_apply(context, loaded, &(bo_inputs){.rows = NEW, .x = table.raw}, found, NULL));
            assert_memory_equal(found, expected, sizeof found);
            assert_ok(context, bo_embedding_invert(context, loaded, NEW, found, moved));
            for (size_t i = 0; i < 2 * NEW; i++)
                assert_true(fabs(moved[i] - x[i] - bo_schema_origin(schema, i % 2)) < 1e-6 * fabs(places[p][0]));
            bo_free(bytes);
            bo_embedding_destroy(loaded);
        }
        bo_embedding_destroy(fitted);
        free_table(&table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_a_caller),
                                       cmocka_unit_test(arrays),
                                       cmocka_unit_test(without_origin),
                                       cmocka_unit_test(absent_numbers),
                                       cmocka_unit_test(few_numbers_far_from_the_rest),
                                       cmocka_unit_test(samples_of_values),
                                       cmocka_unit_test(mostly_absent_numbers),
                                       cmocka_unit_test(without_schema),
                                       cmocka_unit_test(sparse_without_schema),
                                       cmocka_unit_test(embedding_without_schema)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
