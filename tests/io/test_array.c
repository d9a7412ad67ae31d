/* Arrays of any rank: types, orders, round trips, and errors in broken files. */
#include "files.h"

static bo_array *load(test_directory *f, const char *path)
{
    bo_array *array;
    assert_ok(f->context, bo_array_load(f->context, &(bo_source){.path = path}, &array));
    size_t count = 1;
    for (size_t i = 0; i < array->rank; ++i) count *= array->shape[i];
    assert_int_equal(array->count, count);
    return array;
}

/* The array in `path` has this shape in the form of bo_array_format, and the values 0, 1, 2, … in C order. */
static void expect_counting(test_directory *f, const char *path, const char *shape)
{
    char text[200];
    bo_array *array = load(f, path);
    assert_int_equal(bo_array_format(array, text, sizeof text), strlen(shape));
    assert_string_equal(text, shape);
    for (size_t i = 0; i < array->count; ++i) assert_true(array->values[i] == (float)i);
    bo_array_destroy(array);
}

static void refuse(test_directory *f, const char *path, bo_status expected, const char *message)
{
    bo_array *array;
    assert_fails(f->context, expected, message, bo_array_load(f->context, &(bo_source){.path = path}, &array));
    assert_null(array);
    assert_non_null(strstr(bo_context_error(f->context), path));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

enum { COUNT = 2 * 3 * 4 };

#define EXPECT_TYPE(f, type, descr)                                                                                    \
    do {                                                                                                               \
        type values[COUNT];                                                                                            \
        for (int i = 0; i < COUNT; ++i) values[i] = (type)i;                                                           \
        const char *header = "{'descr': '" descr "', 'fortran_order': False, 'shape': (2, 3, 4), }\n";                 \
        expect_counting(f, test_npy(f, "a.npy", header, values, sizeof values), "(2, 3, 4)");                          \
    } while (0)

static void every_type(void **state)
{
    test_directory *f = *state;
    EXPECT_TYPE(f, float, "<f4");
    EXPECT_TYPE(f, double, "<f8");
    EXPECT_TYPE(f, int8_t, "|i1");
    EXPECT_TYPE(f, int16_t, "<i2");
    EXPECT_TYPE(f, int32_t, "<i4");
    EXPECT_TYPE(f, int64_t, "<i8");
    EXPECT_TYPE(f, uint8_t, "|u1");
    EXPECT_TYPE(f, uint16_t, "<u2");
    EXPECT_TYPE(f, uint32_t, "=u4");
    EXPECT_TYPE(f, uint64_t, "<u8");
}

static void the_other_byte_order(void **state)
{
    test_directory *f = *state;
    unsigned char swapped[COUNT * 4];
    for (int i = 0; i < COUNT; ++i) {
        float value = (float)i;
        unsigned char bytes[4];
        memcpy(bytes, &value, 4);
        for (int j = 0; j < 4; ++j) swapped[4 * i + j] = bytes[3 - j];
    }
    const char *header = "{'descr': '>f4', 'fortran_order': False, 'shape': (4, 6)}";
    expect_counting(f, test_npy(f, "a.npy", header, swapped, sizeof swapped), "(4, 6)");
}

static void values_beyond_float32(void **state)
{
    test_directory *f = *state;
    const double values[] = {1e300, -1e300, NAN, 0.1};
    const char *header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}";
    bo_array *array = load(f, test_npy(f, "a.npy", header, values, sizeof values));
    assert_true(isinf(array->values[0]) && array->values[0] > 0 && isinf(array->values[1]) && array->values[1] < 0);
    assert_true(isnan(array->values[2]) && array->values[3] == 0.1f);
    bo_array_destroy(array);
}

/* Index (a, b, c) of a 2 x 3 x 4 array has the value 12a + 4b + c; in Fortran order a varies fastest. */
static void fortran_order(void **state)
{
    test_directory *f = *state;
    int16_t values[COUNT];
    for (int c = 0, i = 0; c < 4; ++c)
        for (int b = 0; b < 3; ++b)
            for (int a = 0; a < 2; ++a) values[i++] = (int16_t)(12 * a + 4 * b + c);
    const char *header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}";
    const char *path = test_npy(f, "a.npy", header, values, sizeof values);
    expect_counting(f, path, "(2, 3, 4)");
}

/* More numbers than one read block (BO_RAW_BLOCK bytes), in both orders, plain and gzipped. */
static void several_pieces(void **state)
{
    test_directory *f = *state;
    const size_t rows = 517, columns = 1031, count = rows * columns;
    for (int by_column = 0; by_column < 2; ++by_column) {
        char header[128];
        int length = snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': %s, 'shape': (%zu, 1, %zu)}",
                              by_column ? "True" : "False", rows, columns);
        const size_t start = 10 + (size_t)length, size = start + count * sizeof(double);
        unsigned char *bytes = malloc(size);
        memcpy(bytes, "\x93NUMPY\x01\x00", 8);
        bytes[8] = (unsigned char)length;
        bytes[9] = 0;
        memcpy(bytes + 10, header, (size_t)length);
        for (size_t i = 0; i < count; ++i) {
            double value = (double)(by_column ? i % rows * columns + i / rows : i);
            memcpy(bytes + start + i * sizeof value, &value, sizeof value);
        }
        expect_counting(f, test_write(f, "a.npy", bytes, size), "(517, 1, 1031)");
        expect_counting(f, test_gzip(f, "a.npy.gz", bytes, size), "(517, 1, 1031)");
        free(bytes);
    }
}

static void shapes(void **state)
{
    test_directory *f = *state;
    const float zero = 0;
#define HEADER(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape "}"
    expect_counting(f, test_npy(f, "a.npy", HEADER("()"), &zero, 4), "()");
    expect_counting(f, test_npy(f, "a.npy", HEADER("(1,)"), &zero, 4), "(1,)");
    expect_counting(f, test_npy(f, "a.npy", HEADER("(1,1,1,1,1,1,1,1)"), &zero, 4), "(1, 1, 1, 1, 1, 1, 1, 1)");
    expect_counting(f, test_npy(f, "a.npy", HEADER("(7, 0, 3)"), &zero, 0), "(7, 0, 3)");
}

/* ---- invalid files ----------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    test_directory *f = *state;
    const float values[COUNT] = {0};
    const struct {
        const char *header, *message;
        size_t size;
        bo_status status;
    } cases[] = {
        {HEADER("(2, 3, 4)"), "truncated: the header declares an array of shape (2, 3, 4)", 92, BO_FORMAT},
        {HEADER("(2, 3, 3)"), "24 bytes more than its header declares (an array of shape (2, 3, 3))", 96, BO_FORMAT},
        {HEADER("(1,1,1,1,1,1,1,1,1)"), "rank 9; the maximum is 8", 4, BO_FORMAT},
        {HEADER("(72057594037927935, 72057594037927935)"), "too large", 96, BO_FORMAT},
        {HEADER("(0, 72057594037927935, 72057594037927935)"), "too large", 0, BO_FORMAT},
        {HEADER("(72057594037927935, 200)"), "too large", 96, BO_FORMAT},
        {HEADER("(1000, 1000, 1000000)"), "(4000000000082 bytes in total), but the file has 178", 96, BO_FORMAT},
        {HEADER("(-1, 4)"), "expected integers in shape", 96, BO_FORMAT},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "'|O'", 16, BO_UNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", "'<c8'", 16, BO_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        refuse(f, test_npy(f, "a.npy", cases[i].header, values, cases[i].size), cases[i].status, cases[i].message);
    refuse(f, test_text(f, "a.csv", "1,2\n3,4\n"), BO_FORMAT, "expected a NumPy .npy file");
    refuse(f, test_text(f, "a.npy", ""), BO_FORMAT, "expected a NumPy .npy file");
    refuse(f, test_path(f, "nowhere.npy"), BO_IO, "No such file");
}

static void damaged_gzip(void **state)
{
    test_directory *f = *state;
    unsigned char bytes[4096];
    const char *header = HEADER("(2, 3, 4)");
    size_t length = strlen(header);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (unsigned char)length;
    bytes[9] = 0;
    memcpy(bytes + 10, header, length);
    memset(bytes + 10 + length, 0, COUNT * 4 + 1);
    refuse(f, test_gzip(f, "a.gz", bytes, 10 + length + COUNT * 4 - 1), BO_FORMAT, "truncated");
    refuse(f, test_gzip(f, "a.gz", bytes, 10 + length + COUNT * 4 + 1), BO_FORMAT, "more bytes than its header");
    const char *path = test_gzip(f, "a.gz", bytes, 10 + length + COUNT * 4);
    bo_array_destroy(load(f, path));
    FILE *file = fopen(path, "r+b"); /* the checksum: eight bytes before the end */
    fseek(file, -8, SEEK_END);
    fputc(fgetc(file) ^ 1, (fseek(file, -8, SEEK_END), file));
    fclose(file);
    refuse(f, path, BO_FORMAT, "damaged");
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void saved_arrays_are_loaded_unchanged(void **state)
{
    test_directory *f = *state;
    float values[COUNT];
    for (int i = 0; i < COUNT; ++i) values[i] = (float)i;
    static const struct {
        size_t rank, shape[8];
        const char *text;
    } cases[] = {{1, {24}, "(24,)"},
                 {2, {4, 6}, "(4, 6)"},
                 {4, {1, 2, 3, 4}, "(1, 2, 3, 4)"},
                 {8, {2, 1, 3, 1, 2, 1, 2, 1}, "(2, 1, 3, 1, 2, 1, 2, 1)"},
                 {0, {0}, "()"},
                 {3, {5, 0, 9}, "(5, 0, 9)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const bo_array array = {.rank = cases[i].rank, .shape = cases[i].shape, .values = values};
        const char *path = test_path(f, "saved.npy");
        assert_ok(f->context, bo_array_save(f->context, &array, &(bo_sink){.path = path}));
        expect_counting(f, path, cases[i].text);
        assert_int_equal(test_files_left(f), 1);
        void *bytes;
        size_t size;
        bo_array *back;
        assert_ok(f->context, bo_array_save(f->context, &array, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_file_equal(path, bytes, size);
        assert_ok(f->context, bo_array_load(f->context, &(bo_source){.bytes = bytes, .size = size}, &back));
        assert_int_equal(back->rank, array.rank);
        assert_memory_equal(back->shape, array.shape, array.rank * sizeof *array.shape);
        assert_memory_equal(back->values, values, back->count * sizeof *values);
        bo_array_destroy(back);
        for (size_t cut = 0; cut < size; ++cut) {
            assert_int_not_equal(bo_array_load(f->context, &(bo_source){.bytes = bytes, .size = cut}, &back), BO_OK);
            assert_null(back);
        }
        bo_free(bytes);
    }
    const size_t huge = SIZE_MAX / 4;
    bo_array wrong = {.rank = 3, .shape = (size_t[]){huge, 2, 1}, .values = values};
    assert_fails(f->context, BO_INVALID, "too large",
                 bo_array_save(f->context, &wrong, &(bo_sink){.path = test_path(f, "saved.npy")}));
    wrong.rank = 9;
    assert_fails(f->context, BO_INVALID, "expected an array of rank at most 8, found 9",
                 bo_array_save(f->context, &wrong, &(bo_sink){.path = test_path(f, "saved.npy")}));
    wrong = (bo_array){.rank = 1, .shape = (size_t[]){1}, .values = values};
    assert_fails(f->context, BO_IO, "nodirectory",
                 bo_array_save(f->context, &wrong, &(bo_sink){.path = test_path(f, "nodirectory/a.npy")}));
}

/* Like snprintf: the text is truncated, and the length is the full length. */
static void shape_as_text(void **state)
{
    (void)state;
    const bo_array array = {.rank = 3, .shape = (size_t[]){8, 1024, 64}};
    static const char whole[] = "(8, 1024, 64)";
    char text[sizeof whole];
    assert_int_equal(bo_array_format(&array, NULL, 0), sizeof whole - 1);
    for (size_t size = 1; size <= sizeof text; ++size) {
        memset(text, 'x', sizeof text);
        assert_int_equal(bo_array_format(&array, text, size), sizeof whole - 1);
        assert_int_equal(strlen(text), size - 1);
        assert_memory_equal(text, whole, size - 1);
    }
}

static bo_status load_once(bo_context *context, const void *path)
{
    bo_array *array, *copy = NULL;
    void *bytes = NULL;
    size_t size;
    bo_status status = bo_array_load(context, &(bo_source){.path = path}, &array);
    if (status == BO_OK) status = bo_array_save(context, array, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status == BO_OK) status = bo_array_load(context, &(bo_source){.bytes = bytes, .size = size}, &copy);
    bo_array_destroy(copy);
    bo_array_destroy(array);
    bo_free(bytes);
    return status;
}

static void out_of_memory(void **state)
{
    test_directory *f = *state;
    const int16_t values[COUNT] = {0};
    const char *header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4)}";
    test_starve(load_once, test_npy(f, "a.npy", header, values, sizeof values));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {TEST(every_type),    TEST(the_other_byte_order),
                                       TEST(fortran_order), TEST(values_beyond_float32),
                                       TEST(shapes),        TEST(several_pieces),
                                       TEST(refusals),      TEST(damaged_gzip),
                                       TEST(out_of_memory), TEST(saved_arrays_are_loaded_unchanged),
                                       TEST(shape_as_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
