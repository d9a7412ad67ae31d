/* The rows of a split: files with row numbers (UCI), rows held out by a hash of the row number, or a separate test
 * file. bench/peers/tables.py reads the same rows. */
#include "tables.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const bench_table bench_tables[BENCH_TABLES] = {
    {.name = "bostonHousing"},
    {.name = "concrete"},
    {.name = "energy"},
    {.name = "kin8nm"},
    {.name = "naval-propulsion-plant"},
    {.name = "power-plant"},
    {.name = "protein-tertiary-structure"},
    {.name = "wine-quality-red"},
    {.name = "yacht"},
    {.name = "california", .file = "california-housing.csv", .target = "median_house_value"},
    {.name = "letter", .file = "letter.csv", .target = "lettr"},
    {.name = "a9a", .file = "a9a.libsvm", .test_file = "a9a-test.libsvm"},
};

const char *bench_table_name(const void *unused, size_t index)
{
    (void)unused;
    return bench_tables[index].name;
}

enum { PATH_BYTES = 2048 };

static void table_path(char *path, const char *directory, const bench_table *table, const char *file)
{
    snprintf(path, PATH_BYTES, "%s/%s%s/%s", directory, table->file ? "tables" : "uci/", table->file ? "" : table->name,
             file);
}

bool bench_table_present(const char *directory, const bench_table *table)
{
    char path[PATH_BYTES];
    struct stat info;
    table_path(path, directory, table, table->file ? table->file : "data.txt");
    return stat(path, &info) == 0;
}

/* ---- UCI --------------------------------------------------------------------------------------------------------- */

/* All numbers of a file, row by row. */
typedef struct numbers {
    double *values;
    size_t rows, columns;
} numbers;

static bo_status append(bo_context *context, bo_reader *reader, numbers *out)
{
    for (bo_data_block block;;) {
        bo_status status = bo_reader_next(context, reader, 4096, &block);
        if (status != BO_OK || block.rows == 0) return status;
        double *grown = realloc(out->values, (out->rows + block.rows) * block.columns * sizeof(double));
        if (!grown) return BO_MEMORY;
        out->values = grown;
        memcpy(grown + out->rows * block.columns, block.cells, block.rows * block.columns * sizeof(double));
        out->rows += block.rows;
        out->columns = block.columns;
    }
}

static bool read_numbers(bench_run *bench, const bench_table *table, const char *file, numbers *out)
{
    char path[PATH_BYTES];
    bo_context *context = bench->session->context;
    bo_reader *reader = NULL;
    table_path(path, bench->options->tables, table, file);
    bo_status status = bo_reader_open(context, &(bo_source){.path = path}, BO_FORMAT_SPACED, 0, &reader);
    if (status == BO_OK) status = append(context, reader, out);
    bo_reader_close(reader);
    if (status != BO_OK) cli_fail_status(bench->session, status);
    return status == BO_OK;
}

/* Reads numbers of rows or columns, which must be below `end`. */
static bool read_indices(bench_run *bench, const bench_table *table, const char *file, size_t end, numbers *out)
{
    if (!read_numbers(bench, table, file, out)) return false;
    out->rows *= out->columns;
    for (size_t i = 0; i < out->rows; i++) {
        if (out->values[i] >= 0 && out->values[i] < (double)end) continue;
        cli_fail(bench->session, "%s/%s: expected numbers below %zu, found %g", table->name, file, end, out->values[i]);
        return false;
    }
    return true;
}

static void pick(const numbers *data, const numbers *columns, size_t target, const numbers *rows, float **x, double **y,
                 bo_samples *out)
{
    size_t dim = columns->rows, count = rows->rows;
    *x = cli_allocate(count * dim, sizeof(float), "rows");
    *y = cli_allocate(count, sizeof(double), "rows");
    for (size_t i = 0; i < count; i++) {
        const double *row = data->values + (size_t)rows->values[i] * data->columns;
        for (size_t j = 0; j < dim; j++) (*x)[i * dim + j] = (float)row[(size_t)columns->values[j]];
        (*y)[i] = row[target];
    }
    *out = (bo_samples){.rows = count, .dim = dim, .targets = 1, .x = *x, .y = *y};
}

static bool load_indexed(bench_run *bench, const bench_table *table, size_t split, bench_parts *out)
{
    numbers data = {0}, columns = {0}, target = {0}, train = {0}, test = {0};
    char train_file[40], test_file[40];
    snprintf(train_file, sizeof train_file, "index_train_%zu.txt", split);
    snprintf(test_file, sizeof test_file, "index_test_%zu.txt", split);
    bool ok = read_numbers(bench, table, "data.txt", &data) &&
              read_indices(bench, table, "index_features.txt", data.columns, &columns) &&
              read_indices(bench, table, "index_target.txt", data.columns, &target) &&
              read_indices(bench, table, train_file, data.rows, &train) &&
              read_indices(bench, table, test_file, data.rows, &test);
    if (ok) {
        pick(&data, &columns, (size_t)target.values[0], &train, &out->x[0], &out->y[0], &out->train);
        pick(&data, &columns, (size_t)target.values[0], &test, &out->x[1], &out->y[1], &out->test);
    }
    free(data.values);
    free(columns.values);
    free(target.values);
    free(train.values);
    free(test.values);
    return ok;
}

/* ---- other tables ------------------------------------------------------------------------------------------------ */

static bool load_file(bench_run *bench, const bench_table *table, size_t split, bench_parts *out)
{
    char path[PATH_BYTES], test_path[PATH_BYTES];
    bo_context *context = bench->session->context;
    table_path(path, bench->options->tables, table, table->file);
    bo_data_desc desc = {.path = path, .target = table->target, .sparse = true, .seed = split};
    bo_status status;
    if (table->test_file) {
        status = bo_data_load(context, &desc, NULL, &out->data[0]);
        table_path(test_path, bench->options->tables, table, table->test_file);
        desc.path = test_path;
        if (status == BO_OK) status = bo_data_load(context, &desc, out->data[0]->schema, &out->data[1]);
    } else {
        bo_table_desc part = {.data = desc, .split = {.test = 0.2, .seed = split}};
        status = bo_table_load(context, &part, &out->data[0], NULL, &out->data[1]);
    }
    if (status != BO_OK) {
        cli_fail_status(bench->session, status);
        return false;
    }
    bo_data_get_samples(out->data[0], &out->train);
    bo_data_get_samples(out->data[1], &out->test);
    return true;
}

bool bench_parts_load(bench_run *bench, const bench_table *table, size_t split, bench_parts *out)
{
    return table->file ? load_file(bench, table, split, out) : load_indexed(bench, table, split, out);
}

void bench_parts_close(bench_parts *parts)
{
    for (size_t i = 0; i < 2; i++) {
        bo_data_destroy(parts->data[i]);
        free(parts->x[i]);
        free(parts->y[i]);
    }
}
