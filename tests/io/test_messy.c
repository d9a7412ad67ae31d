/* Tables as people have them: text, dates, ids, missing values, decimal commas, weights and groups, without options. */
#include "io/splits.h"
#include "files.h"
#include "io/stream.h"
#include <time.h>

static bo_data *load_text(test_directory *f, const char *text, bo_data_desc desc, const bo_schema *schema)
{
    bo_data *data;
    desc.bytes = text;
    desc.size = strlen(text);
    assert_ok(f->context, bo_data_load(f->context, &desc, schema, &data));
    return data;
}

static void refuse_text(test_directory *f, const char *text, bo_data_desc desc, const bo_schema *schema,
                        const char *numbers_in_a_text_column)
{
    bo_data *data;
    desc.bytes = text;
    desc.size = strlen(text);
    const bo_status status = bo_data_load(f->context, &desc, schema, &data);
    assert_fails(f->context, status, numbers_in_a_text_column, status);
    assert_int_not_equal(status, BO_OK);
}

/* ---- target encoding --------------------------------------------------------------------------------------------- */

enum { ROWS = 400, TOWNS = 40 };

/* A table with a text column, whose categories and targets the test knows. */
typedef struct towns {
    char *text;
    int town[ROWS]; /* -1: missing */
    double y[ROWS];
} towns;

static void write_towns(towns *t, int classes)
{
    size_t size;
    free(t->text);
    FILE *out = open_memstream(&t->text, &size);
    fputs("town,size,y\n", out);
    for (int i = 0; i < ROWS; i++) {
        if (t->town[i] >= 0) fprintf(out, "town %02d", t->town[i]);
        fprintf(out, ",%d.5,", i % 7);
        if (classes)
            fprintf(out, "class %g\n", t->y[i]);
        else
            fprintf(out, "%.17g\n", t->y[i]);
    }
    fclose(out);
}

static void make_towns(towns *t, int classes)
{
    bo_rng rng = bo_rng_make(5, 0);
    for (int i = 0; i < ROWS; i++) {
        t->town[i] = i < TOWNS ? i : (int)bo_rng_below(&rng, TOWNS + 1) - 1;
        t->y[i] = classes ? (double)bo_rng_below(&rng, (uint64_t)classes)
                          : 0.1 * t->town[i] + 3 * (i % 7) + (double)bo_rng_below(&rng, 1000) / 1000;
    }
    write_towns(t, classes);
}

static double target_of(const towns *t, int i, int class_index)
{
    return class_index < 0 ? t->y[i] : t->y[i] == class_index;
}

/* The code of a town by its definition, from the rows that `use` marks; town TOWNS: unknown. The other input is i % 7 +
 * 0.5. */
static double code_of(const towns *t, const bool *use, int class_index, int town)
{
    double n[TOWNS + 1] = {0}, s[TOWNS + 1] = {0}, all = 0, sum = 0, square = 0, between = 0, pairs = 0, k = 0;
    double mean = 0, mean_x = 0, products = 0, squares = 0;
    for (int i = 0; i < ROWS; i++)
        if (use[i]) all += 1, mean += target_of(t, i, class_index), mean_x += i % 7;
    mean /= all, mean_x /= all;
    for (int i = 0; i < ROWS; i++)
        if (use[i]) {
            const double x = i % 7 - mean_x;
            products += x * (target_of(t, i, class_index) - mean), squares += x * x;
        }
    const double slope = products / (1.001 * squares);
    for (int i = 0; i < ROWS; i++) {
        if (!use[i]) continue;
        const int at = t->town[i] < 0 ? TOWNS : t->town[i];
        const double r = target_of(t, i, class_index) - mean - slope * (i % 7 - mean_x);
        n[at] += 1, s[at] += r, sum += r, square += r * r;
    }
    for (int c = 0; c <= TOWNS; c++)
        if (n[c] > 0) k += 1, between += s[c] * s[c] / n[c], pairs += n[c] * n[c];
    const double within = (square - between) / (all - k);
    const double across = (between - sum * sum / all - (k - 1) * within) / ((all - pairs / all) / (k - 1));
    const double m = across > within / 1e6 ? within / across : 1e6;
    return town == TOWNS ? mean : mean + s[town] / (n[town] + m);
}

/* The rows outside a fold; fold -1: all rows. */
static void use_rows(const bo_schema *schema, int fold, bool *use)
{
    for (int i = 0; i < ROWS; i++) use[i] = fold < 0 || bo_schema_fold(schema, (size_t)i) != (size_t)fold;
}

static void check_codes(test_directory *f, int classes)
{
    towns t = {0};
    make_towns(&t, classes);
    const bo_data_desc desc = {.target = "y", .seed = 3};
    bo_data *data = load_text(f, t.text, desc, NULL);
    const size_t width = classes > 2 ? (size_t)classes : 1;
    assert_int_equal(data->dim, width + 1 + 1); /* an indicator of missing towns, and the size */
    for (int i = 0; i < ROWS; i++) {
        bool use[ROWS];
        use_rows(data->schema, (int)bo_schema_fold(data->schema, (size_t)i), use);
        for (size_t k = 0; k < width; k++) {
            const int class_index = classes == 2 ? 1 : classes ? (int)k : -1;
            const double expected = code_of(&t, use, class_index, t.town[i] < 0 ? TOWNS : t.town[i]);
            assert_close(data->x[(size_t)i * data->dim + k], expected, 1e-6 * (1 + fabs(expected)));
        }
        assert_true(data->x[(size_t)i * data->dim + width] == (t.town[i] < 0));
    }
    /* New rows: all training rows count; the codes survive JSON. */
    bool use[ROWS];
    void *json;
    size_t size;
    bo_schema *copy;
    use_rows(data->schema, -1, use);
    assert_ok(f->context, bo_schema_save(f->context, data->schema, &(bo_sink){.bytes = &json, .size = &size}));
    assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = json, .size = size}, &copy));
    bo_free(json);
    f->warnings = 0;
    bo_data *fresh = load_text(f, "size,town\n1,town 03\n2,nowhere\n3,\n", (bo_data_desc){0}, copy);
    assert_int_equal(f->warnings, 1);
    const int expected_rows[] = {3, TOWNS, TOWNS};
    for (size_t r = 0; r < 3; r++)
        assert_close(fresh->x[r * fresh->dim],
                     code_of(&t, use,
                             classes == 2 ? 1
                             : classes    ? 0
                                          : -1,
                             expected_rows[r]),
                     1e-5);
    assert_true(fresh->x[width] == 0 && fresh->x[2 * fresh->dim + width] == 1);
    bo_data_destroy(fresh);
    bo_schema_destroy(copy);
    bo_data_destroy(data);
    free(t.text);
}

static void target_encoding(void **state)
{
    check_codes(*state, 0);
    check_codes(*state, 2);
    check_codes(*state, 3);
}

/* The inputs of a row do not depend on its own target, or on targets of held-out rows. */
static void no_leaks(void **state)
{
    test_directory *f = *state;
    towns t = {0};
    make_towns(&t, 0);
    bo_table_desc desc = {.data = {.target = "y"}, .split = {.test = 0.25, .seed = 9}};
    bo_data *train, *test, *again, *other;
    desc.data.path = test_text(f, "towns.csv", t.text);
    assert_ok(f->context, bo_table_load(f->context, &desc, &train, NULL, &test));
    const size_t fold = bo_schema_fold(train->schema, 0);
    int first = -1; /* of the training rows in the fold of row 0 */
    for (int i = 0; i < ROWS; i++) {
        if (bo_split_row(&desc.split, (uint64_t)i) == BO_SPLIT_TEST) t.y[i] += 1000;
        if (bo_split_row(&desc.split, (uint64_t)i) == BO_SPLIT_TRAIN &&
            bo_schema_fold(train->schema, (size_t)i) == fold) {
            if (first < 0) first = i;
            t.y[i] -= 100;
        }
    }
    write_towns(&t, 0);
    desc.data.path = test_text(f, "towns.csv", t.text);
    assert_ok(f->context, bo_table_load(f->context, &desc, &again, NULL, &other));
    size_t changed = 0;
    for (size_t i = 0, row = 0; i < ROWS; i++) {
        if (bo_split_row(&desc.split, i) != BO_SPLIT_TRAIN) continue;
        const bool same = memcmp(train->x + row * train->dim, again->x + row * train->dim, train->dim * 4) == 0;
        if (bo_schema_fold(train->schema, i) == fold) assert_true(same);
        changed += !same;
        row++;
    }
    assert_true(first >= 0 && changed > train->rows / 2);
    for (size_t i = 0; i < test->rows * test->dim; i++) assert_true(fabsf(test->x[i] - other->x[i]) < 150);
    bo_data_destroy(train);
    bo_data_destroy(test);
    bo_data_destroy(again);
    bo_data_destroy(other);
    free(t.text);
}

/* ---- streams, weights and groups --------------------------------------------------------------------------------- */

static void write_groups(FILE *out)
{
    bo_rng rng = bo_rng_make(7, 0);
    fputs("key,town,who,w,day,y\n", out);
    for (int i = 0; i < 300; i++) {
        fprintf(out, "%d,town %d,p%d,%d,", i, (int)bo_rng_below(&rng, 50), i / 3, i % 4);
        fprintf(out, "2024-%02d-%02d,", 1 + i % 12, 1 + i % 28);
        if (i % 10 == 3)
            fputs("NA\n", out);
        else
            fprintf(out, "%d.5\n", i % 13);
    }
}

/* Both parts, in blocks of any size, are those in memory, row by row. */
static void stream_equals_memory(void **state)
{
    test_directory *f = *state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    write_groups(out);
    fclose(out);
    bo_table_desc desc = {.data = {.path = test_text(f, "g.csv", text), .weights = "w", .group = "who"},
                          .split = {.test = 0.3, .seed = 4}};
    bo_data *parts[2];
    bo_schema *schema;
    assert_ok(f->context, bo_table_load(f->context, &desc, &parts[0], NULL, &parts[1]));
    assert_ok(f->context, bo_schema_fit(f->context, &desc, &schema));
    assert_int_equal(parts[0]->rows + parts[1]->rows, 270);
    assert_int_equal(bo_schema_describe(schema)->rows, 270);
    assert_int_equal(bo_schema_describe(schema)->unlabeled, 30);
    assert_int_equal(parts[0]->dim, 1 + 3); /* the town and the date; the key numbers the rows */
    for (size_t i = 0; i < parts[0]->rows; i++)
        for (size_t j = 0; j < parts[1]->rows; j++) assert_true(parts[0]->groups[i] != parts[1]->groups[j]);
    for (int p = 0; p < 2; p++) {
        const bo_data *data = parts[p];
        bo_table *table;
        float x[7 * 4];
        double y[7];
        bo_table_rows rows = {.x = x, .y = y};
        size_t row = 0;
        assert_ok(f->context, bo_table_open(f->context, &desc, schema, p ? BO_SPLIT_TEST : BO_SPLIT_TRAIN, &table));
        assert_true(bo_table_describe(table)->has_target && !bo_table_describe(table)->sparse);
        for (;; row += rows.rows) {
            assert_ok(f->context, bo_table_next(f->context, table, 7, &rows));
            if (rows.rows == 0) break;
            assert_memory_equal(x, data->x + row * data->dim, rows.rows * data->dim * sizeof *x);
            assert_memory_equal(y, data->y + row, rows.rows * sizeof *y);
            assert_memory_equal(rows.weights, data->weights + row, rows.rows * sizeof(float));
        }
        assert_int_equal(row, data->rows);
        bo_table_close(table);
        bo_data_destroy(parts[p]);
    }
    /* Another rank has the same codes for the training rows. */
    void *json;
    bo_schema *copy;
    assert_ok(f->context, bo_schema_share(f->context, schema, &(bo_sink){.bytes = &json, .size = &size}));
    assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = json, .size = size}, &copy));
    bo_free(json);
    float x[2][300 * 4], w[2][300];
    double y[2][300];
    size_t counts[1], sampled[2];
    desc.split = (bo_split_desc){0};
    assert_ok(f->context, bo_table_count(f->context, &desc, schema, counts));
    assert_int_equal(counts[0], 270);
    for (int i = 0; i < 2; i++)
        assert_ok(f->context,
                  bo_table_sample(f->context, &desc, i ? copy : schema, counts, 100, x[i], y[i], w[i], &sampled[i]));
    assert_true(sampled[0] == 100 && sampled[1] == 100);
    assert_memory_equal(x[0], x[1], 100 * 4 * sizeof(float));
    assert_memory_equal(w[0], w[1], 100 * sizeof(float));
    bo_schema_destroy(copy);
    bo_schema_destroy(schema);
    free(text);
    const bo_data_desc weighted = {.weights = "w", .target = "y"}, grouped = {.group = "w", .target = "y"};
    refuse_text(f, "x,w,y\n1,2,.5\n3,-1,2\n", weighted, NULL, "line 3, column 'w': expected a weight");
    refuse_text(f, "x,w,y\n1,2,.5\n3,,2\n", grouped, NULL,
                "line 3, column 'w': expected the name or number of a group");
    refuse_text(f, "x,w,y\n1,2,.5\n", (bo_data_desc){.weights = "y"}, NULL,
                "column 'y' is the target and cannot be in");
}

/* Each row is in the test of one fold; the codes of a fold do not depend on its targets; groups stay together. */
static void folds(void **state)
{
    enum { FOLDS = 4 };
    test_directory *f = *state;
    char *text;
    size_t size, tested = 0;
    uint64_t seen[300], groups = 0;
    FILE *out = open_memstream(&text, &size);
    write_groups(out);
    fclose(out);
    bo_table_desc desc = {.data = {.path = test_text(f, "g.csv", text), .group = "who"}, .split = {.folds = FOLDS}};
    for (desc.split.fold = 0; desc.split.fold < FOLDS; desc.split.fold++) {
        bo_data *train, *test;
        assert_ok(f->context, bo_table_load(f->context, &desc, &train, NULL, &test));
        assert_int_equal(train->rows + test->rows, 270);
        for (size_t i = 0; i < test->rows; i++) {
            for (size_t j = 0; j < train->rows; j++) assert_true(train->groups[j] != test->groups[i]);
            for (uint64_t g = 0; g < groups; g++) assert_true(seen[g] != test->groups[i]);
        }
        for (size_t i = 0; i < test->rows; i++) seen[groups + i] = test->groups[i];
        groups += test->rows;
        tested += test->rows;
        bo_data_destroy(train);
        bo_data_destroy(test);
    }
    assert_int_equal(tested, 270);
    bo_split splits[10];
    int tested_rows = 0;
    desc.split.fold = 1;
    assert_ok(f->context, bo_split_rows(f->context, &desc.split, 10, splits));
    for (int i = 0; i < 10; i++) tested_rows += splits[i] == BO_SPLIT_TEST;
    assert_true(tested_rows == 2 || tested_rows == 3);
    desc.split.fold = FOLDS;
    assert_fails(f->context, BO_INVALID, "a fold below their number",
                 bo_split_rows(f->context, &desc.split, 10, splits));
    free(text);
}

/* ---- kinds of columns -------------------------------------------------------------------------------------------- */

static bo_schema_column_info column_of(const bo_data *data, size_t index)
{
    bo_schema_column_info info;
    assert_true(bo_schema_column(data->schema, index, &info));
    return info;
}

static void kinds(void **state)
{
    test_directory *f = *state;
    bo_data *data = load_text(f,
                              "when,flag,size,note,y\n2024-02-29,yes,1,a,.5\n2023-12-31,No,None,b,1\n,yes,-,a,2\n"
                              "2024-01-01,,4,N/A,3\n",
                              (bo_data_desc){0}, NULL);
    static const char *const names[] = {
        "when: year", "when: day of the year", "when: weekday", "when: missing", "flag",         "flag: missing",
        "size",       "size: missing",         "note=a",        "note=b",        "note: missing"};
    assert_int_equal(data->dim, sizeof names / sizeof *names);
    for (size_t i = 0; i < data->dim; i++)
        assert_string_equal(bo_schema_describe(data->schema)->input_names[i], names[i]);
    const float first[] = {2024, 60, 4, 0, 1, 0, 1, 0, 1, 0, 0}, second[] = {2023, 365, 7, 0, 0, 0, 2.5f, 1, 0, 1, 0};
    assert_memory_equal(data->x, first, sizeof first);
    assert_memory_equal(data->x + data->dim, second, sizeof second);
    assert_true(data->x[2 * data->dim + 3] == 1 && data->x[2 * data->dim] == 2024); /* the mean date */
    assert_close(data->x[3 * data->dim + 4], 2.0 / 3, 1e-6);
    assert_int_equal(column_of(data, 2).missing, 2);
    assert_int_equal(column_of(data, 0).use, BO_USE_DATE);
    assert_int_equal(column_of(data, 1).use, BO_USE_BOOLEAN);
    assert_int_equal(column_of(data, 4).use, BO_USE_TARGET);
    /* The same from JSON; values of another kind are refused with their place. */
    void *json;
    size_t size;
    bo_schema *copy;
    assert_ok(f->context, bo_schema_save(f->context, data->schema, &(bo_sink){.bytes = &json, .size = &size}));
    assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = json, .size = size}, &copy));
    bo_free(json);
    bo_data *other = load_text(f, "when,flag,size,note\n2024-02-29,yes,1,a\n", (bo_data_desc){0}, copy);
    assert_memory_equal(other->x, first, sizeof first);
    bo_data_destroy(other);
    refuse_text(f, "when,flag,size,note\nMay 1,yes,1,a\n", (bo_data_desc){0}, copy,
                "line 2, column 'when': expected a date such as 2024-01-31");
    refuse_text(f, "when,flag,size,note\n2024-02-30,yes,1,a\n", (bo_data_desc){0}, copy, "expected a date");
    refuse_text(f, "when,flag,size,note\n2024-02-29,maybe,1,a\n", (bo_data_desc){0}, copy,
                "line 2, column 'flag': expected true or false");
    bo_schema_destroy(copy);
    bo_data_destroy(data);
    /* 1/2/2024 is ambiguous; 13/2/2024 below determines the whole column; hours are inputs if there are times. */
    data = load_text(f, "d,y\n1/2/2024,.5\n13/2/2024,1\n", (bo_data_desc){0}, NULL);
    assert_true(data->x[1] == 32 && data->x[4] == 44);
    bo_data_destroy(data);
    f->warnings = 0;
    data = load_text(f, "d,y\n1/2/2024,.5\n2/3/2024,1\n", (bo_data_desc){0}, NULL);
    assert_int_equal(column_of(data, 0).use, BO_USE_ONE_HOT);
    assert_int_equal(f->warnings, 1);
    bo_data_destroy(data);
    /* If targets are not used, there are no codes, and no row is omitted. */
    char many[4096] = "t,x,y\n";
    for (int i = 0; i < 100; i++) sprintf(many + strlen(many), "v%d,1,%s\n", i % 40, i % 2 ? "2.5" : "");
    data = load_text(f, many, (bo_data_desc){.keep_unlabeled = true}, NULL);
    assert_true(data->rows == 100 && data->dim == 1 && column_of(data, 0).why == BO_OMIT_UNTARGETED);
    bo_data_destroy(data);
    data = load_text(f, "d,y\n2024-01-31T06:30:00Z,.5\n2024-02-01 12:00,1\n", (bo_data_desc){0}, NULL);
    assert_true(data->dim == 4 && data->x[3] == 6.5f && data->x[7] == 12);
    bo_data_destroy(data);
}

/* Days, weekdays and days of the year agree with the C library over four centuries. */
static void calendar(void **state)
{
    (void)state;
    for (long day = -80000; day < 80000; day += 17) {
        const time_t seconds = (time_t)day * 86400;
        struct tm tm;
        char text[32];
        double days;
        float parts[BO_DATE_PARTS];
        gmtime_r(&seconds, &tm);
        strftime(text, sizeof text, "%d.%m.%Y", &tm);
        assert_true(bo_date_read(text, BO_DATE_DMY, &days) && days == (double)day);
        bo_date_parts(days, parts);
        assert_true(parts[0] == tm.tm_year + 1900 && parts[1] == tm.tm_yday + 1 && parts[3] == 0);
        assert_true(parts[2] == (tm.tm_wday ? tm.tm_wday : 7));
    }
}

/* A class may be called None; a number may not. */
static void missing_targets(void **state)
{
    test_directory *f = *state;
    bo_data *data = load_text(f, "x,y\n1,None\n2,mild\n3,mild\n", (bo_data_desc){0}, NULL);
    assert_true(data->rows == 3 && data->classes == 2);
    bo_data_destroy(data);
    f->warnings = 0;
    data = load_text(f, "x,y\n1,None\n2,1.5\n3,2.5\n4,-\n5,\n", (bo_data_desc){0}, NULL);
    assert_true(data->rows == 2 && data->classes == 0 && data->x[0] == 2 && f->warnings == 1);
    assert_non_null(strstr(f->last_log, "3 rows are left out because the target is missing"));
    bo_data *other = load_text(f, "x,y\n7,\n8,2\n", (bo_data_desc){.keep_unlabeled = true}, data->schema);
    assert_true(other->rows == 2 && isnan(other->y[0]) && other->y[1] == 2);
    bo_data_destroy(other);
    bo_data_destroy(data);
    data = load_text(f, "x,y,z\n1,,1\n2,1.5,2\n3,2.5,\n", (bo_data_desc){.target = "y,z"}, NULL);
    assert_true(data->rows == 1 && data->x[0] == 2);
    bo_data_destroy(data);
    refuse_text(f, "x,y\n1,\n2,NA\n", (bo_data_desc){0}, NULL, "found only missing values");
}

static const char *many_rows(test_directory *f, bool shuffled)
{
    static char text[1 << 16];
    size_t at = (size_t)sprintf(text, "n,user_id,name,x,y\n");
    (void)f;
    for (int i = 0; i < 101; i++) {
        const int row = shuffled ? i * 37 % 101 : i;
        at += (size_t)sprintf(text + at, "%d,%d,name %d,%d,%d.5\n", 500 + row, i * i, i, i % 9, i % 4);
    }
    return text;
}

static void ids(void **state)
{
    test_directory *f = *state;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        const char *text = many_rows(f, shuffled);
        f->warnings = 0;
        bo_data *data = load_text(f, text, (bo_data_desc){0}, NULL);
        assert_int_equal(data->dim, 1);
        assert_int_equal(f->warnings, 3);
        assert_int_equal(column_of(data, 0).why, BO_OMIT_NUMBERED);
        assert_int_equal(column_of(data, 1).why, BO_OMIT_NUMBERED);
        assert_int_equal(column_of(data, 2).why, BO_OMIT_UNIQUE);
        /* They need not be in later files. */
        bo_data *other = load_text(f, "x\n5\n", (bo_data_desc){0}, data->schema);
        assert_true(other->x[0] == 5);
        bo_data_destroy(other);
        bo_data_destroy(data);
        data = load_text(f, text, (bo_data_desc){.keep = "n, user_id"}, NULL);
        assert_true(data->dim == 2 && data->x[1] == 0 && data->x[3] == 1);
        bo_data_destroy(data);
        data = load_text(f, text, (bo_data_desc){.keep = "name"}, NULL);
        assert_int_equal(column_of(data, 2).use, BO_USE_ENCODED);
        bo_data_destroy(data);
        data = load_text(f, text, (bo_data_desc){.drop = "user_id,name,x"}, NULL); /* the only input */
        assert_int_equal(data->dim, 1);
        bo_data_destroy(data);
        data = load_text(f, text, (bo_data_desc){.categorical = "name"}, NULL);
        assert_int_equal(data->dim, 1 + 101);
        bo_data_destroy(data);
    }
}

/* ---- delimiters and numbers -------------------------------------------------------------------------------------- */

static void forms(void **state)
{
    test_directory *f = *state;
    static const struct {
        const char *text;
        float x[2];
    } cases[] = {
        {"a;b;y\n0,5;1.234,25;1\n-2,25;7;2\n", {0.5f, 1234.25f}},
        {"0,5;3,5;1\n0,25;2;2\n", {0.5f, 3.5f}}, /* commas separate the same number of fields in every line */
        {"a;b;y\n1,234;2;1\n5,678;3;2\n", {1.234f, 2}},
        {"a,b,y\n\"1,234\",2,1\n\"5,678\",3,2\n", {1234, 2}},
        {"a\tb\ty\n1,234.5\t2\t1\n5,678,901\t3\t2\n", {1234.5f, 2}},
        {"a|b|y\n1.5|2|x, z\n3|4|w\n", {1.5f, 2}},
        {"a b y\n1.5 2 red\n3 4 blue\n", {1.5f, 2}},
        {"\"a a\" b y\n1.5 2 \"dark \"\"red\"\"\"\n3 4 blue\n", {1.5f, 2}},
        {"\xef\xbb\xbf"
         "a,b,y\r\n1.5,\" 2 \",1\r\n3,4,2\r\n",
         {1.5f, 2}},
        {"a;b;y\n1e-3;1,5;1\n2;2,5;2\n", {0.001f, 1.5f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_data *data = load_text(f, cases[i].text, (bo_data_desc){0}, NULL);
        if (data->dim != 2 || data->x[0] != cases[i].x[0] || data->x[1] != cases[i].x[1])
            fail_msg("case %zu: %zu columns, %g %g", i, data->dim, (double)data->x[0], (double)data->x[1]);
        assert_int_equal(data->rows, 2);
        bo_data_destroy(data);
    }
    /* Few texts among many numbers are mistakes; among few numbers they are categories. */
    char text[2048] = "a,b,y\n";
    for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "%d,%s%d,%d.5\n", i % 5, i == 12 ? "oops" : "3", i, i);
    refuse_text(f, text, (bo_data_desc){0}, NULL,
                "line 14, column 'b': expected a number, as in most rows, found 'oops12'");
    strcpy(text, "a,b,y\n");
    for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "%d,%s%d,%d.5\n", i % 5, i == 0 ? "n.a." : "3", i, i);
    refuse_text(f, text, (bo_data_desc){0}, NULL,
                "line 2, column 'b': expected a number, as in most rows, found 'n.a.0'");
    strcpy(text, "a,b,y\n");
    for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "%d,%s,%d.5\n", i % 5, i == 12 ? "3+" : "2", i);
    bo_data *data = load_text(f, text, (bo_data_desc){0}, NULL);
    assert_int_equal(data->dim, 3);
    bo_data_destroy(data);
}

/* Rows of x and y after a header; row `at` has `odd` in column x. */
static char *column_text(const char *const *values, size_t count, size_t rows, size_t at, const char *odd)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("x,y\n", out);
    for (size_t i = 0; i < rows; i++) fprintf(out, "%s,%zu.5\n", i == at ? odd : values[i % count], i % 7);
    fclose(out);
    return text;
}

/* In a column of text, inf, nan, null, 1e5 and 12e4567 are text, wherever they stand; in other columns they are not. */
static void numbers_in_a_text_column(void **state)
{
    test_directory *f = *state;
    static const char *const titles[] = {"1.5e400", "nan", "Null", "inf", "12e4567", "1e5", "Alien"};
    for (size_t first = 0; first < 7; first++)
        for (int named = 0; named < 2; named++) {
            const char *order[7];
            for (size_t i = 0; i < 7; i++) order[i] = titles[(first + i) % 7];
            char *text = column_text(order, 7, 70, SIZE_MAX, "");
            bo_data *data = load_text(f, text, (bo_data_desc){.categorical = named ? "x" : NULL}, NULL), *other;
            assert_true(data->dim == 7 && column_of(data, 0).use == BO_USE_ONE_HOT && column_of(data, 0).missing == 0);
            for (size_t i = 0; i < 7; i++) {
                char name[32];
                snprintf(name, sizeof name, "x=%s", order[i]);
                size_t column = 0;
                while (column < 7 && strcmp(bo_schema_describe(data->schema)->input_names[column], name) != 0) column++;
                assert_true(column < 7 && data->x[i * 7 + column] == 1);
            }
            void *json;
            size_t size;
            bo_schema *copy;
            assert_ok(f->context, bo_schema_save(f->context, data->schema, &(bo_sink){.bytes = &json, .size = &size}));
            assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = json, .size = size}, &copy));
            other = load_text(f, text, (bo_data_desc){0}, copy);
            assert_memory_equal(other->x, data->x, 70 * 7 * sizeof(float));
            bo_data_destroy(other);
            bo_data_destroy(data);
            bo_schema_destroy(copy);
            bo_free(json);
            free(text);
        }
    bo_data *data = load_text(f, "y,x\nInfinity,1\nnan,2\nUp,3\nnull,4\n", (bo_data_desc){.target = "y"}, NULL);
    assert_true(data->rows == 4 && data->classes == 4);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[(size_t)data->y[0]], "Infinity");
    bo_data_destroy(data);
    refuse_text(f, "x,y\n1,2\nInfinity,3\n2,4\n", (bo_data_desc){0}, NULL, "line 3, column 'x': expected a finite");
    refuse_text(f, "x,y\n1,2\n3,Infinity\n2,4\n", (bo_data_desc){0}, NULL, "line 3, column 'y': expected a finite");
    refuse_text(f, "x,y\n1,2\n1e400,3\n2,4\n", (bo_data_desc){0}, NULL, "line 3, column 'x': expected a finite");
    refuse_text(f, "x,y\n1,2\n3,-1.5e400\n2,4\n", (bo_data_desc){0}, NULL, "line 3, column 'y': expected a finite");
    data =
        load_text(f, "x,b,d,y\nnan,null,Null,1.5\n2,yes,2024-01-31,2.5\n3,no,2024-01-30,3\n", (bo_data_desc){0}, NULL);
    assert_true(column_of(data, 0).use == BO_USE_NUMBER && column_of(data, 0).missing == 1);
    assert_true(column_of(data, 1).use == BO_USE_BOOLEAN && column_of(data, 1).missing == 1);
    assert_true(column_of(data, 2).use == BO_USE_DATE && column_of(data, 2).missing == 1);
    bo_data_destroy(data);
    refuse_text(f, "x,y\n1,2\nnan,3\n2,4\n", (bo_data_desc){.impute = BO_IMPUTE_NONE}, NULL, "line 3, column 'x'");
}

/* At most one invalid date in a hundred is a missing value, during the fit and in other files. */
static void invalid_dates(void **state)
{
    test_directory *f = *state;
    static const char *const days[] = {"2024-01-31", "2023-12-01", "2024-02-29"}, *const bad[] = {"2023-02-29", "soon",
                                                                                                  "Infinity", "0"};
    for (size_t k = 0; k < 4; k++)
        for (size_t at = 0; at < 150; at += 140) {
            char *text = column_text(days, 3, 150, at, bad[k]), place[64];
            f->warnings = 0;
            bo_data *data = load_text(f, text, (bo_data_desc){0}, NULL), *other;
            snprintf(place, sizeof place, "line %zu, column 'x': expected a date, found '%s'; 1 of 150", at + 2,
                     bad[k]);
            assert_true(column_of(data, 0).use == BO_USE_DATE && column_of(data, 0).missing == 1 && f->warnings == 1);
            assert_non_null(strstr(f->last_log, place));
            assert_true(data->x[at * data->dim + 3] == 1 && data->x[(at + 1) * data->dim + 3] == 0);
            other = load_text(f, text, (bo_data_desc){0}, data->schema);
            assert_true(f->warnings == 2 && strstr(f->last_log, "1 invalid date is read as missing"));
            assert_memory_equal(other->x, data->x, 150 * data->dim * sizeof(float));
            bo_data_destroy(other);
            free(text);
            text = column_text(days, 3, 20, 7, bad[k]); /* one of a few */
            f->warnings = 0;
            bo_data_destroy(load_text(f, text, (bo_data_desc){0}, data->schema));
            assert_true(f->warnings == 1 && strstr(f->last_log, "line 9, column 'x': expected a date such as"));
            free(text);
            text = column_text(&bad[k], 1, 20, 7, days[0]); /* all but one */
            refuse_text(f, text, (bo_data_desc){0}, data->schema, "line 2, column 'x': expected a date such as");
            refuse_text(f, text, (bo_data_desc){0}, data->schema, "; 19 of 20 dates are invalid, and at most 1 of 100");
            free(text);
            bo_data_destroy(data);
        }
    for (size_t k = 0; k < 2; k++) { /* more than one of a hundred */
        char *text = column_text(days, 3, 90, 5, k ? "20240131" : "soon");
        f->warnings = 0;
        bo_data *data = load_text(f, text, (bo_data_desc){0}, NULL);
        assert_int_equal(column_of(data, 0).use, BO_USE_ONE_HOT);
        assert_true(f->warnings == 1 &&
                    strstr(f->last_log, "line 7, column 'x': expected a date, as in 89 of 90 rows"));
        bo_data_destroy(data);
        free(text);
    }
    bool has_time;
    assert_true(bo_date_forms("2024-01-31T10:00:00+14:00", &has_time) &&
                bo_date_forms("2024-01-31 10:00-0930", &has_time));
    assert_false(bo_date_forms("2024-01-31T10:00:00+99:99", &has_time) ||
                 bo_date_forms("2024-01-31T10:00:00+01:60", &has_time) ||
                 bo_date_forms("2024-01-31T10:00+1", &has_time));
}

static bo_status load_messy(bo_context *context, const void *path)
{
    const bo_table_desc desc = {.data = {.path = path, .weights = "w", .group = "who"},
                                .split = {.test = 0.3, .seed = 4}};
    bo_data *train, *test;
    const bo_status status = bo_table_load(context, &desc, &train, NULL, &test);
    bo_data_destroy(train);
    bo_data_destroy(test);
    return status;
}

static void out_of_memory(void **state)
{
    test_directory *f = *state;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    write_groups(out);
    fclose(out);
    test_starve(load_messy, test_text(f, "m.csv", text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(target_encoding),
                                       cmocka_unit_test(no_leaks),
                                       cmocka_unit_test(stream_equals_memory),
                                       cmocka_unit_test(folds),
                                       cmocka_unit_test(kinds),
                                       cmocka_unit_test(calendar),
                                       cmocka_unit_test(missing_targets),
                                       cmocka_unit_test(ids),
                                       cmocka_unit_test(forms),
                                       cmocka_unit_test(numbers_in_a_text_column),
                                       cmocka_unit_test(invalid_dates),
                                       cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
