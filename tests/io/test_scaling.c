/* The time of loading grows in proportion to the file: a file with four times as many entries takes about four times as
 * long, and not sixteen times, as it would if every entry were compared with all others. */
#include "files.h"
#include "io/tensors.h"
#include "model/config.h"
#include <bochner/network.h>
#include <bochner/text.h>
#include <time.h>

/* A file with n entries of one kind, and the function that loads it. */
typedef struct loader {
    const char *name;
    size_t n;
    void (*write)(FILE *out, size_t n);
    bo_status (*load)(bo_context *context, const char *bytes, size_t size);
} loader;

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

/* `header` is the header of a file without data. */
static bo_status load_tensors(bo_context *context, const char *header, size_t size)
{
    bo_tensors *file;
    char *bytes = malloc(8 + size);
    for (int i = 0; i < 8; i++) bytes[i] = (char)((uint64_t)size >> 8 * i);
    memcpy(bytes + 8, header, size);
    const bo_status status = bo_tensors_open_memory(context, "test", bytes, 8 + size, &file);
    bo_tensors_close(file);
    free(bytes);
    return status;
}

static void make_tensors(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s\"t%zu\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "{", i);
    fputs("}", out);
}

static void make_metadata(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"k%zu\":\"v\"", i ? "," : "{\"__metadata__\":{", i);
    fputs("}}", out);
}

/* ---- tokenizer.json ---------------------------------------------------------------------------------------------- */

static bo_status load_tokenizer(bo_context *context, const char *bytes, size_t size)
{
    bo_tokenizer *tokenizer;
    const bo_status status = bo_tokenizer_load(context, &(bo_source){.bytes = bytes, .size = size}, &tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static void make_vocabulary(FILE *out, size_t n)
{
    fputs("{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"t%zu\":%zu", i ? "," : "", i, i);
    fputs("}}}", out);
}

/* n tokens of digits, and each with a z. */
static void make_merges(FILE *out, size_t n)
{
    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"z\":0", out);
    for (size_t i = 0; i < n; i++) fprintf(out, ",\"%zu\":%zu,\"%zuz\":%zu", i, 2 * i + 1, i, 2 * i + 2);
    fputs("},\"merges\":[", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s[\"%zu\",\"z\"]", i ? "," : "", i);
    fputs("]}}", out);
}

static void make_added_tokens(FILE *out, size_t n)
{
    fputs("{\"added_tokens\":[", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s{\"id\":%zu,\"content\":\"<%zu>\",\"special\":true}", i ? "," : "", i + 1, i);
    fputs("],\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0}}}", out);
}

/* A template may use 64 special tokens of any number. */
static void make_special_tokens(FILE *out, size_t n)
{
    fputs("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"special_tokens\":{", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"s%zu\":{\"ids\":[0]}", i ? "," : "", i);
    fputs("},\"single\":[", out);
    for (size_t i = 0; i < 64; i++) fprintf(out, "%s{\"SpecialToken\":{\"id\":\"s%zu\"}}", i ? "," : "", n - 1 - i);
    fputs("]},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0}}}", out);
}

/* ---- config.json and network.json -------------------------------------------------------------------------------- */

static bo_status load_config(bo_context *context, const char *bytes, size_t size)
{
    bo_config config;
    bo_model_desc resolved;
    BO_TRY(bo_config_read(context, "test", bytes, size, &config));
    const bo_status status = bo_model_resolve(context, &config.desc, NULL, &resolved);
    if (status == BO_OK) bo_model_desc_release(&resolved);
    bo_config_free(&config);
    return status;
}

/* The configuration of a small classifier with n classes. */
static void make_labels(FILE *out, size_t n)
{
    bo_context *context = test_context(1);
    char **labels = malloc(n * sizeof *labels), *json;
    for (size_t i = 0; i < n; i++) {
        labels[i] = malloc(32);
        snprintf(labels[i], 32, "label %zu", i);
    }
    bo_model_desc desc = {.layers = 1, .width = 4, .block.heads = 1, .context = 4, .vocab = 8, .block.hidden = 4};
    bo_model *model;
    desc.task = BO_MODEL_TASK_CLASSIFY, desc.classes = n, desc.labels = (const char *const *)labels;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_config_write(context, model, &json));
    fputs(json, out);
    bo_free(json);
    bo_model_destroy(model);
    for (size_t i = 0; i < n; i++) free(labels[i]);
    free(labels);
    bo_context_destroy(context);
}

/* Only the description: 4096 layers are the maximum, and placing a graph of that size in memory takes a second. */
static bo_status load_network(bo_context *context, const char *bytes, size_t size)
{
    bo_description_needs needs = {0};
    (void)size;
    return bo_description_inspect(context, bytes, "test", &needs);
}

static void make_layers(FILE *out, size_t n)
{
    fputs("{\"input\":{\"kind\":\"array\"},\"loss\":\"mse\",\"layers\":[", out);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s{\"name\":\"l%zu\",\"type\":\"linear\",\"width\":1}", i ? "," : "", i);
    fputs("]}", out);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bo_status load_table(bo_context *context, const char *bytes, size_t size)
{
    const bo_data_desc desc = {.bytes = bytes, .size = size, .categorical = "auto", .task = BO_TASK_REGRESSION};
    bo_data *data;
    const bo_status status = bo_data_load(context, &desc, NULL, &data);
    bo_data_destroy(data);
    return status;
}

static bo_status load_sparse(bo_context *context, const char *bytes, size_t size)
{
    const bo_data_desc desc = {
        .bytes = bytes, .size = size, .format = BO_FORMAT_LIBSVM, .sparse = true, .task = BO_TASK_REGRESSION};
    bo_data *data;
    const bo_status status = bo_data_load(context, &desc, NULL, &data);
    bo_data_destroy(data);
    return status;
}

static void make_columns(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++) fprintf(out, "%sc%zu", i ? "," : "", i);
    for (size_t row = 0; row < 2; row++)
        for (size_t i = 0; i < n; i++) fprintf(out, "%s%zu.5", i ? "," : "\n", i);
    fputs("\n", out);
}

/* Two files, separated by a form feed: the second one has the columns of the first in reverse order. */
static void make_reversed(FILE *out, size_t n)
{
    make_columns(out, n);
    fputs("\f", out);
    for (size_t i = n; i-- > 0;) fprintf(out, "c%zu%s", i, i ? "," : "\n");
    for (size_t i = n; i-- > 0;) fprintf(out, "%zu.5%s", i, i ? "," : "\n");
}

static bo_status load_reversed(bo_context *context, const char *bytes, size_t size)
{
    const char *second = (const char *)memchr(bytes, '\f', size) + 1;
    const bo_data_desc first = {.bytes = bytes, .size = (size_t)(second - 1 - bytes), .task = BO_TASK_REGRESSION},
                       again = {.bytes = second, .size = size - (size_t)(second - bytes), .task = BO_TASK_REGRESSION};
    bo_schema *schema;
    bo_data *data;
    BO_TRY(bo_schema_fit(context, &(bo_table_desc){.data = first}, &schema));
    const bo_status status = bo_data_load(context, &again, schema, &data);
    bo_data_destroy(data);
    bo_schema_destroy(schema);
    return status;
}

/* 200 categories for every n: their one-hot columns have n x 200 numbers. */
static void make_rows(FILE *out, size_t n)
{
    fputs("a,b,y\n", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%zu,word %zu,%zu.5\n", i, i % 200, i);
}

static bo_status load_categories(bo_context *context, const char *bytes, size_t size)
{
    const bo_data_desc desc = {.bytes = bytes, .size = size, .keep = "a", .task = BO_TASK_REGRESSION};
    bo_schema *schema;
    const bo_status status = bo_schema_fit(context, &(bo_table_desc){.data = desc}, &schema);
    bo_schema_destroy(schema);
    return status;
}

static void make_categories(FILE *out, size_t n)
{
    fputs("a,y\n", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "word %zu,%zu.5\n", i, i);
}

static void make_pairs(FILE *out, size_t n)
{
    for (size_t row = 0; row < 2; row++) {
        fprintf(out, "%zu.5", row);
        for (size_t i = 0; i < n; i++) fprintf(out, " %zu:1.25", i + 1);
        fputs("\n", out);
    }
}

static void make_sparse_rows(FILE *out, size_t n)
{
    for (size_t i = 0; i < n; i++) fprintf(out, "%zu.5 %zu:1 1000:2\n", i, 1 + i % 900);
}

/* A header of 8n bytes, mostly spaces, for an array of 8 rows. */
static void make_npy(FILE *out, size_t n)
{
    static const char dict[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (8, 2), }";
    const size_t length = 8 * n;
    fwrite("\x93NUMPY\2", 1, 7, out);
    fputc(0, out);
    for (int i = 0; i < 4; i++) fputc((int)(length >> 8 * i & 255), out);
    fprintf(out, "%-*s", (int)length, dict);
    for (int i = 0; i < 16; i++) fwrite(&(double){i + 0.5}, sizeof(double), 1, out);
}

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

static bo_status load_schema(bo_context *context, const char *bytes, size_t size)
{
    bo_schema *schema;
    const bo_status status = bo_schema_load(context, &(bo_source){.bytes = bytes, .size = size}, &schema);
    bo_schema_destroy(schema);
    return status;
}

static void start_schema(FILE *out, const char *task, bool named)
{
    fprintf(out,
            "{\"version\":1,\"format\":\"csv\",\"impute\":\"none\",\"rows\":1,\"separate_labels\":false,\"classes\":[],"
            "\"task\":\"%s\",\"named\":%s,",
            task, named ? "true" : "false");
}

static void make_schema_columns(FILE *out, size_t n)
{
    start_schema(out, "none", true);
    fputs("\"targets\":[],\"columns\":[", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s{\"kind\":\"number\",\"name\":\"c%zu\"}", i ? "," : "", i);
    fputs("]}", out);
}

static void make_schema_categories(FILE *out, size_t n)
{
    start_schema(out, "none", false);
    fputs("\"targets\":[],\"columns\":[{\"kind\":\"category\",\"categories\":[", out);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"word %zu\"", i ? "," : "", i);
    fputs("]}]}", out);
}

static void make_schema_targets(FILE *out, size_t n)
{
    start_schema(out, "regression", false);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s\"y%zu\"", i ? "," : "\"targets\":[", i);
    fputs("],\"columns\":[{\"kind\":\"number\"}", out);
    for (size_t i = 0; i < n; i++) fprintf(out, ",{\"kind\":\"target\",\"target\":%zu}", i);
    fputs("]}", out);
}

/* ---- measurement ------------------------------------------------------------------------------------------------- */

/* Other processes do not count in the time of the thread; the cache and the clock of the core do, hence the minimum. */
static double measure(bo_context *context, const loader *from, size_t n)
{
    enum { TIMES = 3 };
    char *bytes;
    size_t size;
    FILE *out = open_memstream(&bytes, &size);
    from->write(out, n);
    fclose(out);
    double min_seconds = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        struct timespec start, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        assert_ok(context, from->load(context, bytes, size));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        min_seconds =
            fmin(min_seconds, (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
        if (min_seconds > 1) break;
    }
    free(bytes);
    return min_seconds;
}

/* n log n, and a cache that is too small for the larger file, take less than eight times as long. The sizes are such
 * that comparing all pairs of 4n entries takes seconds. */
static void linear_time(void **state)
{
    enum { MAX_RATIO = 8 };
    const double floor = 0.05; /* seconds */
    test_directory *f = *state;
    static const loader loaders[] = {
        {"tensors of a safetensors file", 5000, make_tensors, load_tensors},
        {"metadata of a safetensors file", 10000, make_metadata, load_tensors},
        {"vocabulary of a tokenizer.json", 10000, make_vocabulary, load_tokenizer},
        {"merges of a tokenizer.json", 5000, make_merges, load_tokenizer},
        {"added tokens of a tokenizer.json", 5000, make_added_tokens, load_tokenizer},
        {"special tokens of a tokenizer.json", 5000, make_special_tokens, load_tokenizer},
        {"labels of a config.json", 4000, make_labels, load_config},
        {"layers of a network", 1000, make_layers, load_network},
        {"columns of a CSV file", 10000, make_columns, load_table},
        {"columns of a CSV file in another order", 10000, make_reversed, load_reversed},
        {"rows of a CSV file", 5000, make_rows, load_table},
        {"categories of a CSV file", 10000, make_categories, load_categories},
        {"pairs of a row of libsvm text", 10000, make_pairs, load_sparse},
        {"rows of libsvm text", 10000, make_sparse_rows, load_sparse},
        {"header of an .npy file", 10000, make_npy, load_table},
        {"columns of a schema", 10000, make_schema_columns, load_schema},
        {"categories of a schema", 10000, make_schema_categories, load_schema},
        {"targets of a schema", 10000, make_schema_targets, load_schema},
    };
    int slow = 0;
    for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
        const size_t n = loaders[i].n;
        const double small = measure(f->context, &loaders[i], n), large = measure(f->context, &loaders[i], 4 * n);
        const bool fine = large < MAX_RATIO * small + floor;
        printf("%-40s %8zu: %6.1f ms %8zu: %7.1f ms%s\n", loaders[i].name, n, 1e3 * small, 4 * n, 1e3 * large,
               fine ? "" : "  too slow");
        slow += !fine;
    }
    assert_int_equal(slow, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linear_time)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
