/* The roles of columns, refused files and their messages, and round trips through JSON. */
#include "io/enums.h"
#include "files.h"

static bo_data *load(test_directory *f, const bo_data_desc *desc, const bo_schema *schema)
{
    bo_data *data;
    assert_ok(f->context, bo_data_load(f->context, desc, schema, &data));
    return data;
}

static void refuse(test_directory *f, const bo_data_desc *desc, const bo_schema *schema, bo_status status,
                   const char *message)
{
    bo_data *data;
    assert_fails(f->context, status, message, bo_data_load(f->context, desc, schema, &data));
    assert_null(data);
}

/* Digits with leading zeros, or more than a double holds, are labels by their spelling and numbers by their value. */
static void codes(void **state)
{
    test_directory *f = *state;
    const char *text = "zip,id,y\n007,9007199254740993,a\n7,9007199254740992,b\n007,9007199254740993,a\n\"7\",5,a\n";
    bo_data_desc desc = {.path = test_text(f, "codes.csv", text), .categorical = "zip,id"};
    bo_data *data = load(f, &desc, NULL), *other;
    assert_int_equal(data->dim, 2 + 3);
    assert_string_equal(bo_schema_describe(data->schema)->input_names[0], "zip=007");
    assert_string_equal(bo_schema_describe(data->schema)->input_names[1], "zip=7");
    const float first[] = {1, 0}, second[] = {0, 1};
    assert_memory_equal(data->x, first, sizeof first);
    assert_memory_equal(data->x + data->dim, second, sizeof second);
    assert_memory_equal(data->x + 3 * data->dim, second, sizeof second);
    bo_data_desc again = {.path = test_text(f, "codes2.csv", "zip,id,y\n07,5,a\n007,5,b\n"), .categorical = "zip,id"};
    other = load(f, &again, data->schema); /* an unknown code may be a number of the training data */
    assert_memory_equal(other->x, second, sizeof second);
    assert_memory_equal(other->x + other->dim, first, sizeof first);
    bo_data_destroy(other);
    bo_data_destroy(data);
    desc.categorical = NULL;
    desc.target = "zip";
    desc.task = BO_TASK_REGRESSION;
    desc.path = test_text(f, "codes3.csv", "x,zip\n0012,007\n00,8\n");
    data = load(f, &desc, NULL); /* as numbers */
    assert_true(data->x[0] == 12 && data->x[1] == 0 && data->y[0] == 7 && data->y[1] == 8);
    bo_data_destroy(data);
    desc.task = BO_TASK_AUTO;
    data = load(f, &desc, NULL); /* few whole numbers: classes */
    assert_int_equal(data->classes, 2);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[0], "007");
    bo_data_destroy(data);
}

static void numbers_and_targets(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {.path = test_text(f, "a.csv", "x,y,z\n1,2.5,3\n4,5,6\n")};
    bo_data *data = load(f, &desc, NULL);
    assert_int_equal(data->rows, 2);
    assert_int_equal(data->dim, 2);
    assert_int_equal(data->classes, 2); /* 3 and 6 are few integers */
    assert_true(data->y[0] == 0 && data->y[1] == 1);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[1], "6");
    bo_data_destroy(data);
    desc.target = "y";
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 0);
    assert_true(data->y[0] == 2.5 && data->x[0] == 1 && data->x[1] == 3);
    assert_string_equal(bo_schema_describe(data->schema)->target_names[0], "y");
    assert_string_equal(bo_schema_describe(data->schema)->input_names[1], "z");
    assert_false(bo_schema_describe(data->schema)->common_unit);
    bo_data_destroy(data);
    desc.target = "z, 0"; /* several targets: regression, in the given order */
    data = load(f, &desc, NULL);
    assert_int_equal(data->targets, 2);
    assert_int_equal(data->classes, 0);
    assert_true(data->y[0] == 3 && data->y[1] == 1 && data->y[2] == 6 && data->y[3] == 4 && data->x[1] == 5);
    bo_data_destroy(data);
    desc.target = "-2";
    data = load(f, &desc, NULL);
    assert_string_equal(bo_schema_describe(data->schema)->target_names[0], "y");
    bo_data_destroy(data);
    desc.no_target = true;
    data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 3);
    assert_null(data->y);
    bo_data_destroy(data);
    desc.no_target = false;
    desc.target = "price";
    refuse(f, &desc, NULL, BO_INVALID, "no column 'price' for the target; the file has 3 columns: x, y, z");
    desc.target = "3";
    refuse(f, &desc, NULL, BO_INVALID, "no column '3'");
    desc.target = "y,y";
    refuse(f, &desc, NULL, BO_INVALID, "twice");
    desc = (bo_data_desc){.path = test_text(f, "one.csv", "5\n")};
    refuse(f, &desc, NULL, BO_FORMAT, "expected input columns");
    desc = (bo_data_desc){.path = test_text(f, "head.csv", "a,b\n")};
    refuse(f, &desc, NULL, BO_FORMAT, "expected rows, found none below its header");
    /* the schema accepts a single row; the kernel machine checks it */
    desc = (bo_data_desc){.path = test_text(f, "row.csv", "1.5,2.5\n")};
    data = load(f, &desc, NULL);
    assert_int_equal(data->rows, 1);
    bo_data_destroy(data);
}

static void tasks(void **state)
{
    test_directory *f = *state;
    char text[4096] = "";
    for (int i = 0; i < 42; ++i) sprintf(text + strlen(text), "%d,%d\n", i, i % 21);
    bo_data_desc desc = {.path = test_text(f, "t.csv", text)};
    bo_data *data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 0); /* 21 different values are too many */
    bo_data_destroy(data);
    desc.task = BO_TASK_CLASSIFICATION;
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 21);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[10],
                        "10"); /* ordered by value, not alphabetically */
    assert_true(data->y[20] == 20);
    bo_data_destroy(data);
    desc = (bo_data_desc){.path = test_text(f, "t.csv", "1,b\n2,10\n3,a\n4,b\n")};
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 3);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[0], "10"); /* mixed: alphabetically */
    assert_string_equal(bo_schema_describe(data->schema)->class_names[2], "b");
    assert_true(data->y[0] == 2 && data->y[1] == 0 && data->y[2] == 1);
    bo_data_destroy(data);
    desc.task = BO_TASK_REGRESSION;
    refuse(f, &desc, NULL, BO_FORMAT, "t.csv: line 1, column 1: expected a number, found 'b'");
    desc = (bo_data_desc){.path = test_text(f, "t.csv", "x,y\n1,0.5\n2,oops\n")};
    refuse(f, &desc, NULL, BO_FORMAT, "line 3, column 'y': expected a number, found 'oops'");
    desc = (bo_data_desc){.path = test_text(f, "t.csv", "x,y\n1,0.5\n2,\n")};
    desc.impute = BO_IMPUTE_NONE;
    refuse(f, &desc, NULL, BO_FORMAT, "line 3, column 'y': expected a target");
    desc.impute = BO_IMPUTE_MEAN; /* the row is omitted */
    data = load(f, &desc, NULL);
    assert_int_equal(data->rows, 1);
    bo_data_destroy(data);
}

static void gaps(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {.path = test_text(f, "g.csv", "a,b,y\n1,10,.5\n,20,1\n3,NA,2\n8,60,3\n"),
                         .impute = BO_IMPUTE_NONE};
    refuse(f, &desc, NULL, BO_FORMAT, "g.csv: line 3, column 'a': expected a value, found a missing value");
    desc.impute = BO_IMPUTE_MEAN;
    bo_data *data = load(f, &desc, NULL);
    assert_true(data->x[2] == 4 && data->x[5] == 30);
    bo_data_destroy(data);
    desc.impute = BO_IMPUTE_MEDIAN;
    data = load(f, &desc, NULL);
    assert_true(data->x[2] == 3 && data->x[5] == 20);
    /* The schema applies the fill values to other files. */
    desc = (bo_data_desc){.path = test_text(f, "h.csv", "b,a\n?,?\n")};
    bo_data *test = load(f, &desc, data->schema);
    assert_true(test->x[0] == 3 && test->x[1] == 20);
    assert_null(test->y);
    bo_data_destroy(test);
    bo_data_destroy(data);
    desc = (bo_data_desc){.path = test_text(f, "i.csv", "a,y\n1,1\ninf,2\n")};
    refuse(f, &desc, NULL, BO_FORMAT, "line 3, column 'a': expected a finite number, found an infinite value");
    desc = (bo_data_desc){.path = test_text(f, "i.csv", "a,y\n1,1\n1e39,2\n")};
    refuse(f, &desc, NULL, BO_FORMAT, "line 3, column 'a': expected a number in the range of float32, found 1e+39");
    desc = (bo_data_desc){.path = test_text(f, "i.csv", "a,b,y\n,1,1\n,2,2\n"), .impute = BO_IMPUTE_MEAN};
    refuse(f, &desc, NULL, BO_FORMAT, "column 'a': expected at least one value");
    const float values[] = {1, 2, 3, NAN, 5, 6};
    desc =
        (bo_data_desc){.path = test_npy(f, "g.npy", "{'descr':'<f4','fortran_order':False,'shape':(3,2)}", values, 24),
                       .impute = BO_IMPUTE_NONE};
    refuse(f, &desc, NULL, BO_FORMAT, "g.npy: row 1, column 1: expected a target");
    desc.target = "0";
    refuse(f, &desc, NULL, BO_FORMAT, "g.npy: row 1, column 1: expected a value, found a missing value");
    desc.impute = BO_IMPUTE_MEAN;
    data = load(f, &desc, NULL);
    assert_true(data->x[1] == 4);
    bo_data_destroy(data);
    desc.impute = BO_IMPUTE_AUTO; /* with an indicator */
    data = load(f, &desc, NULL);
    const float indicated[] = {2, 0, 4, 1, 6, 0};
    assert_int_equal(data->dim, 2);
    assert_memory_equal(data->x, indicated, sizeof indicated);
    bo_data_destroy(data);
    const float infinite[] = {1, 2, -INFINITY, 4};
    desc = (bo_data_desc){
        .path = test_npy(f, "g.npy", "{'descr':'<f4','fortran_order':False,'shape':(2,2)}", infinite, 16)};
    refuse(f, &desc, NULL, BO_FORMAT, "row 1, column 0: expected a finite number");
}

/* Medians from a reservoir: exact if it holds all rows, otherwise determined by the seed. */
static void sampled_median(void **state)
{
    test_directory *f = *state;
    char text[32768] = "";
    size_t at = 0;
    for (int i = 0; i < 999; ++i) at += (size_t)sprintf(text + at, "%d,%d.5\n", (i * 571) % 999, i);
    sprintf(text + at, ",0.5\n");
    bo_data_desc desc = {.path = test_text(f, "m.csv", text), .impute = BO_IMPUTE_MEDIAN, .sample_rows = 5000};
    bo_data *data = load(f, &desc, NULL);
    assert_true(data->x[999] == 499);
    bo_data_destroy(data);
    /* The median of a sample of n uniform numbers on [0, 999) has standard deviation 999 / (2 sqrt(n + 2)); the bound
     * is five of them. */
    desc.sample_rows = 101;
    desc.seed = 7;
    data = load(f, &desc, NULL);
    assert_close(data->x[999], 499, 5 * 999 / (2 * sqrt(103)));
    bo_data *again = load(f, &desc, NULL);
    assert_true(data->x[999] == again->x[999]);
    bo_data_destroy(again);
    bo_data_destroy(data);
}

/* Every name is parsed, in upper and lower case; an unknown name does not change the value. */
static void names(void **state)
{
    (void)state;
    bo_format format;
    bo_task task;
    bo_impute impute;
    for (int i = 0; i <= BO_FORMAT_SPACED; ++i)
        assert_true(bo_format_parse(bo_format_name((bo_format)i), &format) && format == (bo_format)i);
    for (int i = 0; i <= BO_TASK_CLASSIFICATION; ++i)
        assert_true(bo_task_parse(bo_task_name((bo_task)i), &task) && task == (bo_task)i);
    for (int i = 0; i <= BO_IMPUTE_MEDIAN; ++i)
        assert_true(bo_impute_parse(bo_impute_name((bo_impute)i), &impute) && impute == (bo_impute)i);
    bo_column_use use;
    bo_omission why;
    for (int i = 0; i <= BO_USE_NOTHING; ++i)
        assert_true(bo_column_use_parse(bo_column_use_name((bo_column_use)i), &use) && use == (bo_column_use)i);
    for (int i = 0; i <= BO_OMIT_UNTARGETED; ++i)
        assert_true(bo_omission_parse(bo_omission_name((bo_omission)i), &why) && why == (bo_omission)i);
    assert_true(!bo_column_use_name((bo_column_use)9) && !bo_omission_name((bo_omission)5));
    assert_true(bo_format_parse("LibSVM", &format) && format == BO_FORMAT_LIBSVM);
    assert_null(bo_format_name((bo_format)6));
    assert_null(bo_task_name((bo_task)-1));
    assert_null(bo_impute_name((bo_impute)4));
    assert_false(bo_format_parse(NULL, &format) || bo_task_parse(NULL, &task) || bo_impute_parse(NULL, &impute));
    assert_false(bo_format_parse("", &format) || bo_task_parse("regressio", &task) ||
                 bo_impute_parse("means", &impute));
    assert_true(format == BO_FORMAT_LIBSVM && task == BO_TASK_CLASSIFICATION && impute == BO_IMPUTE_MEDIAN);
}

static void categories(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "c.csv", "n,town,y\n1,Rye,0.5\n2,Ayr,1\n3,Rye,2\n");
    bo_data_desc desc = {.path = path};
    desc.categorical = "none";
    refuse(f, &desc, NULL, BO_FORMAT, "c.csv: line 2, column 'town': expected a number, found 'Rye'");
    refuse(f, &desc, NULL, BO_FORMAT, "--drop to ignore the column");
    desc.categorical = "auto";
    desc.impute = BO_IMPUTE_NONE;
    bo_data *data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 3);
    assert_string_equal(bo_schema_describe(data->schema)->input_names[0], "n");
    assert_string_equal(bo_schema_describe(data->schema)->input_names[1], "town=Ayr");
    assert_string_equal(bo_schema_describe(data->schema)->input_names[2], "town=Rye");
    const float expected[] = {1, 0, 1, 2, 1, 0, 3, 0, 1};
    assert_memory_equal(data->x, expected, sizeof expected);
    /* Unknown categories become zeros, with a warning and their number. */
    bo_data_desc other = {.path = test_text(f, "d.csv", "town,n\nYork,1\nRye,2\nBath,3\n")};
    f->warnings = 0;
    bo_data *test = load(f, &other, data->schema);
    const float zeros[] = {1, 0, 0, 2, 0, 1, 3, 0, 0};
    assert_memory_equal(test->x, zeros, sizeof zeros);
    assert_int_equal(f->warnings, 1);
    assert_non_null(strstr(f->last_log, "2 values"));
    bo_data_destroy(test);
    other.path = test_text(f, "d.csv", "town,n\n,1\n");
    refuse(f, &other, data->schema, BO_FORMAT, "line 2, column 'town': expected a value, found a missing value");
    bo_data_destroy(data);
    desc.categorical = "n"; /* other text columns are encoded too */
    data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 5);
    bo_data_destroy(data);
    desc.categorical = "town,n";
    data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 5);
    assert_string_equal(bo_schema_describe(data->schema)->input_names[0], "n=1");
    bo_data_destroy(data);
    /* Numbers first and text later: a second pass treats the numbers as categories. */
    desc = (bo_data_desc){.path = test_text(f, "l.csv", "k,y\n7,0.5\n10,1.5\nx,2\n"), .categorical = "auto"};
    data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 3);
    assert_string_equal(bo_schema_describe(data->schema)->input_names[0], "k=10");
    assert_string_equal(bo_schema_describe(data->schema)->input_names[2], "k=x");
    const float late[] = {0, 1, 0, 1, 0, 0, 0, 0, 1};
    assert_memory_equal(data->x, late, sizeof late);
    bo_data_destroy(data);
}

/* Ignored columns may hold anything, need not be in later files, and are remembered in JSON. */
static void dropped(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {
        .path = test_text(f, "d.csv", "id,x,note,y\n7a,1,,2.5\n8b,3,hello,4.5\n"), .target = "y", .drop = "id, note"};
    bo_data *data = load(f, &desc, NULL), *other;
    assert_int_equal(data->dim, 1);
    assert_true(data->x[0] == 1 && data->x[1] == 3 && data->y[1] == 4.5);
    void *json;
    size_t size;
    bo_schema *copy;
    assert_ok(f->context, bo_schema_save(f->context, data->schema, &(bo_sink){.bytes = &json, .size = &size}));
    assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = json, .size = size}, &copy));
    bo_free(json);
    bo_data_desc later = {.path = test_text(f, "e.csv", "note,x\nany,9\n")};
    other = load(f, &later, copy);
    assert_true(other->x[0] == 9 && other->y == NULL);
    bo_data_destroy(other);
    bo_schema_destroy(copy);
    bo_data_destroy(data);
    desc.drop = "id,nothing";
    refuse(f, &desc, NULL, BO_INVALID, "nothing");
    desc.drop = "id,y";
    refuse(f, &desc, NULL, BO_INVALID, "target");
    desc.drop = "id,x,note";
    refuse(f, &desc, NULL, BO_FORMAT, "expected input columns");
    bo_data_desc by_place = {.path = test_text(f, "p.csv", "1,2,3\n4,5,6\n"), .no_target = true, .drop = "0,-1"};
    data = load(f, &by_place, NULL);
    assert_true(data->dim == 1 && data->x[0] == 2 && data->x[1] == 5);
    bo_data_destroy(data);
}

static void other_columns(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {.path = test_text(f, "a.csv", "a,b,c,y\n1,2,3,u\n4,5,6,v\n"), .impute = BO_IMPUTE_NONE},
                 other = {0};
    bo_data *data = load(f, &desc, NULL);
    other.path = test_text(f, "b.csv", "y,c,extra,b,a\nv,30,0,20,10\n"); /* another order and an extra column */
    f->infos = 0;
    bo_data *test = load(f, &other, data->schema);
    assert_true(test->x[0] == 10 && test->x[1] == 20 && test->x[2] == 30 && test->y[0] == 1);
    assert_int_equal(f->infos, 1);
    assert_non_null(strstr(f->last_log, "extra"));
    bo_data_destroy(test);
    other.path = test_text(f, "b.csv", "a,c,y\n1,2,u\n");
    refuse(f, &other, data->schema, BO_FORMAT, "b.csv: expected column 'b'");
    other.path = test_text(f, "b.csv", "a,b,c,y\n1,2,3,w\n");
    refuse(f, &other, data->schema, BO_FORMAT, "line 2, column 'y': expected a class of the training data, found 'w'");
    other.path = test_text(f, "b.csv", "a,b,c,y\n1,2,3,7\n");
    refuse(f, &other, data->schema, BO_FORMAT, "expected a class of the training data, found 7");
    other.path = test_text(f, "b.csv", "a,b,c,y\n1,2,3,w\n");
    other.no_target = true; /* the target is ignored */
    test = load(f, &other, data->schema);
    assert_null(test->y);
    bo_data_destroy(test);
    other = (bo_data_desc){.path = test_text(f, "b.csv", "1,2,3\n")}; /* no names: by position, without the target */
    test = load(f, &other, data->schema);
    assert_true(test->x[2] == 3);
    assert_null(test->y);
    bo_data_destroy(test);
    other.path = test_text(f, "b.csv", "1,2,3,v\n");
    test = load(f, &other, data->schema);
    assert_true(test->y[0] == 1);
    bo_data_destroy(test);
    other.path = test_text(f, "b.csv", "1,2\n");
    refuse(f, &other, data->schema, BO_FORMAT,
           "expected 4 columns, as the model was fitted with (3 without the target), found 2");
    other.path = test_text(f, "b.csv", "a,b,c\n1,oops,2\n");
    refuse(f, &other, data->schema, BO_FORMAT, "line 2, column 'b': expected a number, found 'oops'");
    other.path = test_text(f, "b.csv", "a,b,c\n1,,2\n");
    refuse(f, &other, data->schema, BO_FORMAT, "line 2, column 'b': expected a value, found a missing value");
    bo_data_destroy(data);
    /* Sparse text: narrower files are widened, unknown features are ignored. */
    desc = (bo_data_desc){.path = test_text(f, "a.svm", "1 1:1 3:3\n-1 2:2\n")};
    data = load(f, &desc, NULL);
    assert_true(bo_schema_describe(data->schema)->common_unit);
    other = (bo_data_desc){.path = test_text(f, "b.svm", "-1 1:5\n")};
    test = load(f, &other, data->schema);
    assert_int_equal(test->dim, 3);
    assert_true(test->x[0] == 5 && test->x[2] == 0 && test->y[0] == 0);
    bo_data_destroy(test);
    other.path = test_text(f, "b.svm", "1 1:5 9:1\n");
    test = load(f, &other, data->schema);
    assert_int_equal(test->dim, 3);
    bo_data_destroy(test);
    bo_data_destroy(data);
}

static void separate_labels(void **state)
{
    test_directory *f = *state;
    const char *x = test_text(f, "x.csv", "1,2\n3,4\n5,6\n");
    bo_data_desc desc = {.path = x, .labels = test_text(f, "y.txt", "cat\ndog\ncat\n")};
    bo_data *data = load(f, &desc, NULL);
    assert_int_equal(data->dim, 2);
    assert_int_equal(data->classes, 2);
    assert_true(data->y[0] == 0 && data->y[1] == 1 && data->y[2] == 0);
    bo_data_desc test = {.path = x, .labels = test_text(f, "z.txt", "cow\ncat\ncow\n")};
    refuse(f, &test, data->schema, BO_FORMAT,
           "z.txt: line 1, column 0: expected a class of the training data, found 'cow'");
    test.labels = test_text(f, "z.txt", "dog\ncat\ncat\ncat\n");
    refuse(f, &test, data->schema, BO_FORMAT, "x.csv: expected as many rows");
    test.labels = test_text(f, "z.txt", "dog\ndog\n");
    refuse(f, &test, data->schema, BO_FORMAT, "z.txt: expected as many rows");
    bo_data_destroy(data);
    /* A line of text may be a header or a class, depending on the number of rows and the known classes. */
    desc.labels = test_text(f, "y.txt", "kind\ncat\ndog\ncat\n");
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 2);
    bo_data_destroy(data);
    desc.labels = test_text(f, "y.txt", "cow\ncat\ndog\n");
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 3);
    assert_true(data->y[0] == 1);
    bo_data_destroy(data);
    desc.labels = test_text(f, "y.txt", "1.5\n2\n");
    refuse(f, &desc, NULL, BO_FORMAT, "expected 3 labels, one per row of the data");
    desc.labels = test_text(f, "y.txt", "1.5 2\n2 3\n4 5\n");
    data = load(f, &desc, NULL);
    assert_int_equal(data->targets, 2);
    assert_true(data->y[5] == 5);
    bo_data_destroy(data);
    const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6};
    const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 200, 30};
    desc = (bo_data_desc){.path = test_gzip(f, "i.gz", images, sizeof images),
                          .labels = test_gzip(f, "l.gz", labels, sizeof labels)};
    data = load(f, &desc, NULL);
    assert_int_equal(data->classes, 2);
    assert_string_equal(bo_schema_describe(data->schema)->class_names[0], "30");
    assert_true(data->x[0] == 9 && data->x[3] == 6 && data->y[0] == 1 && bo_schema_describe(data->schema)->common_unit);
    bo_data_destroy(data);
    desc.labels = test_write(f, "l", labels, sizeof labels - 1);
    refuse(f, &desc, NULL, BO_FORMAT, "truncated");
}

/* A header before too few rows is still a header: before numbers, and before texts that occur twice. */
static void short_labels(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {.path = test_text(f, "x.csv", "1,2\n3,4\n5,6\n"), .task = BO_TASK_CLASSIFICATION};
    desc.labels = test_text(f, "y.txt", "kind\ncat\ncat\n");
    refuse(f, &desc, NULL, BO_FORMAT, "found 2 below the header 'kind'");
    desc.labels = test_text(f, "y.txt", "kind\n0\n1\n");
    refuse(f, &desc, NULL, BO_FORMAT, "found 2 below the header 'kind'");
}

static void json(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {
        .path = test_text(f, "j.csv", "\"a \"\"b\"\"\",\"t\\\n\",y\n1,Zo\xc3\xab,1\n,\"\x01\",2\n2.5,7,1\n"),
        .categorical = "auto",
        .impute = BO_IMPUTE_MEAN};
    bo_data *data = load(f, &desc, NULL);
    void *first, *second;
    size_t whole, size;
    bo_schema *copy;
    assert_ok(f->context, bo_schema_save(f->context, data->schema, &(bo_sink){.bytes = &first, .size = &whole}));
    assert_int_equal(((char *)first)[whole], 0);
    assert_ok(f->context, bo_schema_load(f->context, &(bo_source){.bytes = first, .size = whole}, &copy));
    assert_ok(f->context, bo_schema_save(f->context, copy, &(bo_sink){.bytes = &second, .size = &size}));
    assert_int_equal(size, whole);
    assert_string_equal(first, second);
    bo_data *again = load(f, &desc, copy);
    assert_int_equal(again->dim, data->dim);
    assert_memory_equal(again->x, data->x, data->rows * data->dim * sizeof *data->x);
    assert_memory_equal(again->y, data->y, data->rows * sizeof *data->y);
    const bo_schema_info *info = bo_schema_describe(copy);
    assert_true(info->rows == 3 && info->inputs == data->dim && info->targets == data->targets);
    assert_true(info->classes == data->classes && !info->input_names[info->inputs]);
    assert_true(!info->target_names[info->targets] && !info->class_names[info->classes]);
    bo_schema_column_info column;
    size_t inputs = 0, at = 0;
    for (; bo_schema_column(copy, at, &column); at++) {
        if (column.inputs) assert_int_equal(column.first, inputs);
        inputs += column.inputs;
    }
    assert_true(at == info->columns && inputs == info->inputs);
    for (size_t i = 0; i < data->dim; ++i)
        assert_string_equal(bo_schema_describe(copy)->input_names[i], bo_schema_describe(data->schema)->input_names[i]);
    bo_data_destroy(again);
    bo_data_destroy(data);
    bo_schema_destroy(copy);
    /* Every prefix is refused without a crash. */
    for (size_t length = 0; length < whole; ++length) {
        assert_int_not_equal(bo_schema_load(f->context, &(bo_source){.bytes = first, .size = length}, &copy), BO_OK);
        assert_null(copy);
    }
    bo_free(first);
    bo_free(second);
    static const char *const bad[] = {
        "{\"version\": 1}",
        "[]",
        "3",
        "{\"version\": 1, \"targets\": [], \"columns\": [{\"kind\": \"number\", \"count\": 1e15}]}",
        "{\"version\":1,\"format\":\"csv\",\"task\":\"none\",\"impute\":\"none\",\"rows\":1,\"named\":false,"
        "\"separate_labels\":false,\"targets\":[],\"classes\":[],\"columns\":[{\"kind\":\"target\",\"target\":0}]}",
        "{\"version\":1,\"format\":\"csv\",\"task\":\"classification\",\"impute\":\"none\",\"rows\":1,\"named\":false,"
        "\"separate_labels\":true,\"targets\":[\"y\"],\"classes\":[\"1\",\"1.0\"],\"columns\":[{\"kind\":\"number\"}]"
        "}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i)
        assert_fails(f->context, BO_FORMAT, "malformed",
                     bo_schema_load(f->context, &(bo_source){.bytes = bad[i], .size = strlen(bad[i])}, &copy));
    assert_fails(f->context, BO_VERSION, "version 4",
                 bo_schema_load(f->context, &(bo_source){.bytes = "{\"version\": 4}", .size = 14}, &copy));
    assert_fails(f->context, BO_FORMAT, "nested deeper",
                 bo_schema_load(f->context, &(bo_source){.bytes = "[[[[[[[[[[[[]]]]]]]]]]]]", .size = 24}, &copy));
}

/* A name is repeated for each category of its column: a name of a megabyte and 1000 categories would take a
 * gigabyte. */
static void long_names(void **state)
{
    test_directory *f = *state;
    static const size_t lengths[] = {4096, 4097};
    static const char schema[] =
        "{\"version\":1,\"format\":\"csv\",\"task\":\"none\",\"impute\":\"none\",\"rows\":1,\"named\":true,"
        "\"separate_labels\":false,\"targets\":[],\"classes\":[],\"columns\":[{\"kind\":\"number\",\"name\":\"a\"},"
        "{\"kind\":\"category\",\"categories\":[\"u\",\"v\"],\"name\":\"%s\"}]}";
    for (size_t i = 0; i < 2; ++i) {
        char name[4098], text[8192];
        memset(name, 'n', lengths[i]);
        name[lengths[i]] = 0;
        snprintf(text, sizeof text, "a,%s,y\n1,u,2.5\n2,v,3.5\n", name);
        const bo_data_desc desc = {.bytes = text, .size = strlen(text), .categorical = "auto"};
        bo_data *data;
        const bo_status loaded = bo_data_load(f->context, &desc, NULL, &data);
        if (lengths[i] > 4096)
            assert_fails(f->context, BO_FORMAT,
                         "line 1, column 1: the name of the column has 4097 bytes, expected at most 4096", loaded);
        else
            assert_ok(f->context, loaded);
        bo_data_destroy(data);
        bo_schema *copy;
        snprintf(text, sizeof text, schema, name);
        const bo_status copied = bo_schema_load(f->context, &(bo_source){.bytes = text, .size = strlen(text)}, &copy);
        if (lengths[i] > 4096)
            assert_fails(f->context, BO_FORMAT, "the name of column 1 has 4097 bytes, expected at most 4096", copied);
        else
            assert_ok(f->context, copied);
        bo_schema_destroy(copy);
    }
}

static bo_status load_and_copy(bo_context *context, const void *path)
{
    bo_data_desc desc = {.path = path, .categorical = "auto", .impute = BO_IMPUTE_MEDIAN};
    bo_data *data;
    void *json = NULL;
    size_t size;
    bo_schema *copy = NULL;
    bo_status status = bo_data_load(context, &desc, NULL, &data);
    if (status == BO_OK) status = bo_schema_save(context, data->schema, &(bo_sink){.bytes = &json, .size = &size});
    if (status == BO_OK) status = bo_schema_load(context, &(bo_source){.bytes = json, .size = size}, &copy);
    bo_schema_destroy(copy);
    bo_free(json);
    bo_data_destroy(data);
    return status;
}

static void out_of_memory(void **state)
{
    test_directory *f = *state;
    static const char text[] = "n,town,y\n1,Rye,a\n,Ayr,b\n3,Rye,a\n";
    test_starve(load_and_copy, test_gzip(f, "o.csv.gz", text, sizeof text - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes),          cmocka_unit_test(numbers_and_targets),
                                       cmocka_unit_test(tasks),          cmocka_unit_test(gaps),
                                       cmocka_unit_test(sampled_median), cmocka_unit_test(names),
                                       cmocka_unit_test(categories),     cmocka_unit_test(dropped),
                                       cmocka_unit_test(other_columns),  cmocka_unit_test(separate_labels),
                                       cmocka_unit_test(short_labels),   cmocka_unit_test(json),
                                       cmocka_unit_test(long_names),     cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
