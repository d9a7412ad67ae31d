/* Splits and tables: the part of a row depends on its number only, so memory and blocks, one file and several agree. */
#include "io/stream.h"
#include "io/splits.h"
#include "io/output.h"
#include "io/enums.h"
#include "files.h"
#include <math.h>

enum { ROWS = 3000, DIM = 3, FILES = 3 };

static const bo_split_desc FIFTHS = {.valid = 0.1, .test = 0.2, .seed = 7};

/* ---- splits ------------------------------------------------------------------------------------------------------ */

static void test_names(void **state)
{
    (void)state;
    bo_split split = BO_SPLIT_NONE;
    for (int p = 0; p < BO_SPLIT_COUNT; p++)
        assert_true(bo_split_parse(bo_split_name((bo_split)p), &split) && (int)split == p);
    assert_null(bo_split_name(BO_SPLIT_ALL));
    assert_null(bo_split_name(BO_SPLIT_NONE));
    assert_false(bo_split_parse("none", &split));
}

/* The number of rows in a part is binomial: within five standard deviations √(n p (1 - p)). */
static void test_hashed(void **state)
{
    (void)state;
    const double n = 200000, shares[BO_SPLIT_COUNT] = {0.7, 0.1, 0.2};
    double counts[BO_SPLIT_COUNT] = {0}, differing = 0;
    const bo_split_desc other = {.valid = 0.1, .test = 0.2, .seed = 8}, none = {.seed = 7};
    for (uint64_t row = 0; row < (uint64_t)n; row++) {
        const bo_split split = bo_split_row(&FIFTHS, row);
        assert_true(split < BO_SPLIT_COUNT);
        counts[split]++;
        differing += split != bo_split_row(&other, row);
        assert_int_equal(bo_split_row(&none, row), BO_SPLIT_TRAIN);
    }
    for (int p = 0; p < BO_SPLIT_COUNT; p++)
        assert_close(counts[p], n * shares[p], 5 * sqrt(n * shares[p] * (1 - shares[p])));
    assert_true(differing > 0.4 * n); /* 1 - Σ p² = 0.46 of the rows for independent seeds */
    /* a fixed value: the hash of row 0 of seed 0 is 0xE220A8397B1DCDAF, 0.883 of 2⁶⁴ */
    assert_int_equal(bo_split_row(&(bo_split_desc){.test = 0.8834}, 0), BO_SPLIT_TEST);
    assert_int_equal(bo_split_row(&(bo_split_desc){.test = 0.8833}, 0), BO_SPLIT_TRAIN);
}

static void test_counted(void **state)
{
    test_directory *f = *state;
    bo_split splits[101];
    size_t counts[BO_SPLIT_COUNT] = {0};
    assert_ok(f->context, bo_split_rows(f->context, &FIFTHS, 101, splits));
    for (size_t i = 0; i < 101; i++) counts[splits[i]]++;
    assert_int_equal(counts[BO_SPLIT_VALID], 11); /* ⌈10.1⌉ and ⌈20.2⌉ */
    assert_int_equal(counts[BO_SPLIT_TEST], 21);
    assert_int_equal(counts[BO_SPLIT_TRAIN], 69);
    const bo_split_desc all = {.valid = 0.5, .test = 0.5}, negative = {.test = -0.1}, wrong = {.valid = NAN};
    assert_fails(f->context, BO_INVALID, "sum to less than 1", bo_split_rows(f->context, &all, 101, splits));
    assert_fails(f->context, BO_INVALID, "sum to less than 1", bo_split_rows(f->context, &negative, 101, splits));
    assert_fails(f->context, BO_INVALID, "sum to less than 1", bo_split_rows(f->context, &wrong, 101, splits));
}

static void test_loaded(void **state)
{
    test_directory *f = *state;
    bo_split splits[4];
    const char text[] = "part\ntest\ntrain\nnone\nvalid\n", numbers[] = "2\n0\n-1\n1\n";
    const bo_split expected[] = {BO_SPLIT_TEST, BO_SPLIT_TRAIN, BO_SPLIT_NONE, BO_SPLIT_VALID};
    assert_ok(f->context, bo_split_load(f->context, test_write(f, "a.csv", text, sizeof text - 1), 4, splits));
    assert_memory_equal(splits, expected, sizeof expected);
    assert_ok(f->context, bo_split_load(f->context, test_write(f, "b.csv", numbers, sizeof numbers - 1), 4, splits));
    assert_memory_equal(splits, expected, sizeof expected);
    assert_fails(f->context, BO_FORMAT, "expected 5 rows, as in the data, found fewer",
                 bo_split_load(f->context, test_path(f, "b.csv"), 5, splits));
    assert_fails(f->context, BO_FORMAT, "expected 3 rows, as in the data, found more",
                 bo_split_load(f->context, test_path(f, "b.csv"), 3, splits));
    assert_fails(f->context, BO_FORMAT, "line 2",
                 bo_split_load(f->context, test_write(f, "c.csv", "0\n3\n0\n0\n", 8), 4, splits));
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Rows 0 … ROWS - 1 in FILES files; the first input and the target are the number of the row. */
static bo_table_desc make_table(test_directory *f, const char *paths[FILES], bo_split_desc split)
{
    static const char *const names[FILES] = {"a.npy", "b.npy", "c.npy"};
    static const size_t ends[FILES + 1] = {0, 1700, 1701, ROWS};
    double *rows = malloc(ROWS * (DIM + 1) * sizeof *rows);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j <= DIM; j++)
            rows[i * (DIM + 1) + j] = j == 0 || j == DIM ? (double)i + 0.5 : (double)(i % (j + 5));
    for (size_t k = 0; k < FILES; k++) {
        paths[k] = test_path(f, names[k]);
        assert_ok(f->context,
                  bo_npy_save_f64(f->context, paths[k], ends[k + 1] - ends[k], DIM + 1, rows + ends[k] * (DIM + 1)));
    }
    free(rows);
    return (bo_table_desc){.data = {.task = BO_TASK_REGRESSION}, .paths = paths, .files = FILES, .split = split};
}

/* Each part has the rows that bo_split_row assigns, in order. */
static void test_load(void **state)
{
    test_directory *f = *state;
    const char *paths[FILES];
    const bo_table_desc desc = make_table(f, paths, FIFTHS);
    bo_data *parts[BO_SPLIT_COUNT];
    size_t at[BO_SPLIT_COUNT] = {0};
    assert_ok(f->context, bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    for (size_t row = 0; row < ROWS; row++) {
        const bo_split split = bo_split_row(&FIFTHS, row);
        const bo_data *part = parts[split];
        assert_true(at[split] < part->rows);
        assert_true(part->x[at[split] * DIM] == (float)row + 0.5f && part->y[at[split]] == (double)row + 0.5);
        at[split]++;
    }
    for (int p = 0; p < BO_SPLIT_COUNT; p++) {
        assert_int_equal(at[p], parts[p]->rows);
        assert_int_equal(bo_schema_describe(parts[p]->schema)->inputs, DIM);
        bo_data_destroy(parts[p]);
    }
}

static void test_load_whole(void **state)
{
    test_directory *f = *state;
    const char *paths[FILES];
    bo_table_desc desc = make_table(f, paths, (bo_split_desc){0});
    bo_data *parts[BO_SPLIT_COUNT];
    assert_ok(f->context, bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    assert_int_equal(parts[BO_SPLIT_TRAIN]->rows, ROWS);
    assert_true(!parts[BO_SPLIT_VALID] && !parts[BO_SPLIT_TEST]);
    bo_data_destroy(parts[BO_SPLIT_TRAIN]);
    desc = (bo_table_desc){.data = {.path = paths[1], .task = BO_TASK_REGRESSION}}; /* one row, one file */
    assert_ok(f->context, bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    assert_int_equal(parts[BO_SPLIT_TRAIN]->rows, 1);
    bo_data_destroy(parts[BO_SPLIT_TRAIN]);
    desc.split.test = 0.5;
    assert_fails(f->context, BO_INVALID, "of 1 row leaves no rows for",
                 bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    assert_null(parts[BO_SPLIT_TRAIN]);
    desc.split.test = 1;
    assert_fails(f->context, BO_INVALID, "sum to less than 1",
                 bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    desc.data.path = "missing.npy", desc.split.test = 0;
    assert_fails(f->context, BO_IO, "missing.npy", bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    desc.paths = paths, desc.files = 0;
    assert_fails(f->context, BO_INVALID, "at least one file",
                 bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
}

static size_t check_blocks(test_directory *f, const bo_table_desc *desc, const bo_data *part, bo_split split,
                           size_t max_rows)
{
    bo_table *table;
    float x[64 * DIM];
    double y[64];
    bo_table_rows rows = {.x = x, .y = y, .rows = 1};
    size_t done = 0;
    assert_ok(f->context, bo_table_open(f->context, desc, part->schema, split, &table));
    assert_true(bo_table_describe(table)->has_target && !bo_table_describe(table)->sparse);
    while (rows.rows > 0) {
        assert_ok(f->context, bo_table_next(f->context, table, max_rows, &rows));
        assert_true(done + rows.rows <= part->rows && !rows.weights);
        assert_memory_equal(x, part->x + done * DIM, rows.rows * DIM * sizeof *x);
        assert_memory_equal(y, part->y + done, rows.rows * sizeof *y);
        done += rows.rows;
    }
    rows.x = NULL;
    bo_table_close(table);
    assert_ok(f->context, bo_table_open(f->context, desc, part->schema, split, &table));
    assert_fails(f->context, BO_UNSUPPORTED, "libsvm", bo_table_next(f->context, table, max_rows, &rows));
    bo_table_close(table);
    return done;
}

static void test_blocks(void **state)
{
    test_directory *f = *state;
    const char *paths[FILES];
    const bo_table_desc desc = make_table(f, paths, FIFTHS);
    bo_data *parts[BO_SPLIT_COUNT];
    assert_ok(f->context, bo_table_load(f->context, &desc, &parts[0], &parts[1], &parts[2]));
    for (int p = 0; p < BO_SPLIT_COUNT; p++)
        for (size_t max_rows = 1; max_rows <= 64; max_rows *= 4)
            assert_int_equal(check_blocks(f, &desc, parts[p], (bo_split)p, max_rows), parts[p]->rows);
    for (int p = 0; p < BO_SPLIT_COUNT; p++) bo_data_destroy(parts[p]);
}

/* Ranks together have every row once, with more files than ranks and with fewer. */
static void test_ranks(void **state)
{
    test_directory *f = *state;
    const char *paths[FILES];
    bo_table_desc desc = make_table(f, paths, (bo_split_desc){0});
    bo_schema *schema;
    bo_table *table;
    float x[64 * DIM];
    double y[64];
    desc.data.path = paths[0];
    assert_ok(f->context, bo_schema_fit(f->context, &desc, &schema));
    for (size_t ranks = 1; ranks <= 5; ranks++) {
        unsigned char *seen = calloc(ROWS, 1);
        for (size_t rank = 0; rank < ranks; rank++) {
            bo_table_rows rows = {.x = x, .y = y, .rows = 1};
            desc.rank = rank, desc.ranks = ranks;
            assert_ok(f->context, bo_table_open(f->context, &desc, schema, BO_SPLIT_TRAIN, &table));
            while (rows.rows > 0) {
                assert_ok(f->context, bo_table_next(f->context, table, 64, &rows));
                for (size_t i = 0; i < rows.rows; i++) seen[(size_t)y[i]]++;
            }
            bo_table_close(table);
        }
        for (size_t i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1);
        free(seen);
    }
    desc.rank = desc.ranks = 2;
    assert_fails(f->context, BO_INVALID, "rank 2 of 2",
                 bo_table_open(f->context, &desc, schema, BO_SPLIT_TRAIN, &table));
    desc.rank = 0, desc.split.test = 0.5;
    assert_fails(f->context, BO_UNSUPPORTED, "ranks", bo_table_open(f->context, &desc, schema, BO_SPLIT_TRAIN, &table));
    bo_schema_destroy(schema);
}

/* A sample has training rows only, each at most once; from files in proportion if no rows are held out. */
static void test_sample(void **state)
{
    test_directory *f = *state;
    const char *paths[FILES];
    enum { SAMPLE = 600 };
    float x[SAMPLE * DIM];
    double y[SAMPLE];
    size_t counts[FILES], sampled;
    for (int held_out = 0; held_out < 2; held_out++) {
        bo_table_desc desc = make_table(f, paths, held_out ? FIFTHS : (bo_split_desc){.seed = 7});
        bo_schema *schema;
        desc.data.path = paths[0];
        assert_ok(f->context, bo_schema_fit(f->context, &desc, &schema));
        assert_ok(f->context, bo_table_count(f->context, &desc, schema, counts));
        assert_true(counts[0] == 1700 && counts[1] == 1 && counts[2] == ROWS - 1701);
        assert_ok(f->context, bo_table_sample(f->context, &desc, schema, counts, SAMPLE, x, y, NULL, &sampled));
        assert_int_equal(sampled, SAMPLE);
        unsigned char *seen = calloc(ROWS, 1);
        size_t early = 0;
        for (size_t i = 0; i < SAMPLE; i++) {
            const size_t row = (size_t)y[i];
            assert_true(x[i * DIM] == (float)row + 0.5f);
            assert_int_equal(seen[row]++, 0);
            assert_int_equal(bo_split_row(&desc.split, row), BO_SPLIT_TRAIN);
            early += row < 1700;
        }
        if (!held_out) assert_int_equal(early, 340);                          /* 600 · 1700/3000 */
        if (held_out) assert_close((double)early, 340, 5 * sqrt(340 * 0.43)); /* binomial */
        free(seen);
        bo_schema_destroy(schema);
    }
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */

static void expect_same_data(const bo_data *a, const bo_data *b)
{
    assert_true(a->rows == b->rows && a->dim == b->dim && a->targets == b->targets && a->classes == b->classes);
    assert_memory_equal(a->x, b->x, a->rows * a->dim * sizeof *a->x);
    assert_memory_equal(a->y, b->y, a->rows * a->targets * sizeof *a->y);
}

/* The contents of a file, in a block of its size. */
static void *contents(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* A table in memory is read like a file with the same bytes, in any format. */
static void test_memory_is_a_file(void **state)
{
    test_directory *f = *state;
    static const char csv[] = "rooms,town,price\n3,Rye,10\n4,Ely,12\n2,Rye,9\n5,Rye,20\n",
                      svm[] = "1 1:0.5 3:2\n-1 2:1\n1 1:4 2:3 3:1\n", spaced[] = "1 2 3\n4 5 6\n7 8 9\n";
    const double numbers[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const char *npy = test_path(f, "a.npy");
    assert_ok(f->context, bo_npy_save_f64(f->context, npy, 4, 3, numbers));
    const char *const paths[] = {test_text(f, "a.csv", csv), test_gzip(f, "a.csv.gz", csv, sizeof csv - 1),
                                 test_text(f, "a.svm", svm), test_text(f, "a.txt", spaced), npy};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        bo_data_desc desc = {.path = paths[i], .categorical = "auto", .task = BO_TASK_REGRESSION};
        bo_data *file, *memory;
        size_t size;
        void *bytes = contents(paths[i], &size);
        assert_ok(f->context, bo_data_load(f->context, &desc, NULL, &file));
        desc.path = NULL;
        desc.bytes = bytes;
        desc.size = size;
        assert_ok(f->context, bo_data_load(f->context, &desc, NULL, &memory));
        expect_same_data(file, memory);
        bo_data_destroy(memory);
        /* again as a table with a held-out part, and as a stream with the schema of the file */
        bo_data *train;
        const bo_table_desc table = {.data = desc};
        assert_ok(f->context, bo_table_load(f->context, &table, &train, NULL, NULL));
        expect_same_data(file, train);
        bo_data_destroy(train);
        bo_stream *stream;
        float x[64];
        size_t rows;
        assert_ok(f->context, bo_stream_open(f->context, &desc, file->schema, &stream));
        assert_ok(f->context, bo_stream_next(f->context, stream, 4, x, NULL, &rows));
        assert_memory_equal(x, file->x, rows * file->dim * sizeof *x);
        bo_stream_close(stream);
        bo_reader *reader;
        assert_ok(f->context,
                  bo_reader_open(f->context, &(bo_source){.bytes = bytes, .size = size}, BO_FORMAT_AUTO, 0, &reader));
        assert_string_equal(bo_reader_describe(reader)->path, "memory");
        bo_reader_close(reader);
        bo_data_destroy(file);
        free(bytes);
    }
}

static void test_labels_in_memory(void **state)
{
    test_directory *f = *state;
    static const char x[] = "1 2\n3 4\n5 6\n", y[] = "kind\nb\na\nb\n";
    const bo_data_desc desc = {.bytes = x, .size = sizeof x - 1, .label_bytes = y, .label_size = sizeof y - 1};
    bo_data *data;
    assert_ok(f->context, bo_data_load(f->context, &desc, NULL, &data));
    assert_int_equal(data->classes, 2);
    assert_true(data->y[0] == 1 && data->y[1] == 0 && data->y[2] == 1);
    bo_data_destroy(data);
}

static void test_memory_refused(void **state)
{
    test_directory *f = *state;
    static const char csv[] = "a,b\n1,2\n3,x\n";
    bo_data *data;
    bo_data_desc desc = {.bytes = csv, .size = sizeof csv - 1, .no_target = true, .categorical = "none"};
    assert_fails(f->context, BO_FORMAT, "memory: ", bo_data_load(f->context, &desc, NULL, &data));
    assert_null(data);
    desc.path = "houses"; /* the name in messages */
    assert_fails(f->context, BO_FORMAT, "houses: ", bo_data_load(f->context, &desc, NULL, &data));
    desc.size = 0;
    assert_int_not_equal(bo_data_load(f->context, &desc, NULL, &data), BO_OK);
    assert_null(data);
    const char *const paths[] = {"a.csv"};
    const bo_table_desc both = {.data = {.bytes = csv, .size = sizeof csv - 1}, .paths = paths, .files = 1};
    assert_fails(f->context, BO_INVALID, "both paths and bytes", bo_table_load(f->context, &both, &data, NULL, NULL));
    assert_fails(f->context, BO_INVALID, "expected the name of a data file",
                 bo_data_load(f->context, &(bo_data_desc){.target = "a"}, NULL, &data));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_hashed),
                                       cmocka_unit_test(test_counted),
                                       cmocka_unit_test(test_loaded),
                                       cmocka_unit_test(test_load),
                                       cmocka_unit_test(test_load_whole),
                                       cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_memory_is_a_file),
                                       cmocka_unit_test(test_labels_in_memory),
                                       cmocka_unit_test(test_memory_refused)};
    return cmocka_run_group_tests_name("io.tables", tests, test_setup, test_teardown);
}
