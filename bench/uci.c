/* Regression tables: RMSE compared with exact kernel ridge regression tuned by cross-validation, and coverage of the
 * 95% interval. */
#include "bench.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SPLITS = 5, SETS = 64, PROTEIN_ROWS = 8000 };

/* All numbers of a file, row by row. */
typedef struct numbers {
    double *values;
    size_t rows, columns;
} numbers;

static bool read_numbers(bench_run *bench, const char *folder, const char *set, const char *name, numbers *out)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s/%s", folder, set, name);
    bo_context *context = bench->session->context;
    bo_reader *reader = NULL;
    *out = (numbers){0};
    bo_status status = bo_reader_open(context, path, BO_FORMAT_SPACED, 0, &reader);
    bo_data_block block = {.rows = 1};
    while (status == BO_OK && block.rows > 0) {
        status = bo_reader_next(context, reader, 4096, &block);
        if (status != BO_OK || block.rows == 0) break;
        double *grown = realloc(out->values, (out->rows + block.rows) * block.columns * sizeof(double));
        if (!grown) {
            status = BO_MEMORY;
            break;
        }
        out->values = grown;
        memcpy(grown + out->rows * block.columns, block.cells, block.rows * block.columns * sizeof(double));
        out->rows += block.rows;
        out->columns = block.columns;
    }
    bo_reader_close(reader);
    if (status != BO_OK) cli_fail_status(bench->session, status);
    return status == BO_OK;
}

typedef struct rows {
    size_t count;
    float *x;
    double *y;
} rows;

static rows pick(const numbers *data, const numbers *columns, size_t target, const numbers *indices, size_t limit)
{
    size_t dim = columns->rows * columns->columns, count = indices->rows * indices->columns;
    if (limit && count > limit) count = limit;
    rows out = {.count = count,
                .x = cli_allocate(count * dim, sizeof(float), "rows"),
                .y = cli_allocate(count, sizeof(double), "rows")};
    for (size_t i = 0; i < count; i++) {
        const double *row = data->values + (size_t)indices->values[i] * data->columns;
        for (size_t j = 0; j < dim; j++) out.x[i * dim + j] = (float)row[(size_t)columns->values[j]];
        out.y[i] = row[target];
    }
    return out;
}

static bool fit_rows(bench_run *bench, const rows *train, const rows *test, size_t dim, double *rmse, double *coverage)
{
    bo_context *context = bench->session->context;
    bo_machine_desc desc = {.task = BO_TASK_REGRESSION,
                            .features = {.features = bench->options->uci_features},
                            .seed = bench->session->common.seed};
    bo_samples samples = {.rows = train->count, .dim = dim, .targets = 1, .x = train->x, .y = train->y};
    bo_machine *machine = NULL;
    bo_status status = bo_machine_fit(context, &desc, &samples, &machine);
    bo_metrics *metrics = NULL;
    if (status == BO_OK) status = bo_machine_create_metrics(context, machine, 0, &metrics);
    if (status == BO_OK) status = bo_machine_evaluate(context, machine, test->count, test->x, dim, test->y, metrics);
    if (status == BO_OK) {
        *rmse = bo_metrics_rmse(metrics);
        *coverage = bo_metrics_coverage(metrics);
    } else {
        cli_fail_status(bench->session, status);
    }
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    return status == BO_OK;
}

static bool run_split(bench_run *bench, const char *set, const numbers *data, const numbers *columns, size_t target,
                      int split, double *rmse, double *coverage)
{
    char name[64];
    numbers train_rows = {0}, test_rows = {0};
    snprintf(name, sizeof name, "index_train_%d.txt", split);
    bool ok = read_numbers(bench, bench->options->uci, set, name, &train_rows);
    snprintf(name, sizeof name, "index_test_%d.txt", split);
    ok = ok && read_numbers(bench, bench->options->uci, set, name, &test_rows);
    if (ok) {
        size_t limit = strcmp(set, "protein-tertiary-structure") == 0 ? PROTEIN_ROWS : 0;
        rows train = pick(data, columns, target, &train_rows, limit), test = pick(data, columns, target, &test_rows, 0);
        ok = fit_rows(bench, &train, &test, columns->rows * columns->columns, rmse, coverage);
        free(train.x);
        free(train.y);
        free(test.x);
        free(test.y);
    }
    free(train_rows.values);
    free(test_rows.values);
    return ok;
}

/* RMSE of the peer on one split of a data set, read from its JSON lines; NAN if there is none. */
static double peer_rmse(const char *lines, const char *set, int split)
{
    char wanted[160];
    snprintf(wanted, sizeof wanted, "\"data\": \"%s\", \"split\": %d,", set, split);
    return bench_json_number(lines ? strstr(lines, wanted) : NULL, "rmse");
}

static bool run_set(bench_run *bench, const char *set, const char *peer, double *interval_sum, int *interval_count)
{
    numbers data = {0}, columns = {0}, target = {0};
    bool ok = read_numbers(bench, bench->options->uci, set, "data.txt", &data) &&
              read_numbers(bench, bench->options->uci, set, "index_features.txt", &columns) &&
              read_numbers(bench, bench->options->uci, set, "index_target.txt", &target);
    double rmse = 0, exact = 0, covered = 0, start = cli_now();
    for (int split = 0; ok && split < SPLITS; split++) {
        double split_rmse = NAN, split_covered = NAN;
        ok = run_split(bench, set, &data, &columns, (size_t)target.values[0], split, &split_rmse, &split_covered);
        rmse += split_rmse / SPLITS;
        exact += peer_rmse(peer, set, split) / SPLITS;
        covered += split_covered / SPLITS;
    }
    if (ok) {
        char title[96];
        snprintf(title, sizeof title, "%.40s, RMSE / exact kernel ridge", set);
        bench_add(bench, title, rmse / exact, "", 1.05, true, "RMSE %.4g, exact %.4g, %.1f s per split", rmse, exact,
                  (cli_now() - start) / SPLITS);
        snprintf(title, sizeof title, "%.40s, inside the 95%% interval", set);
        bool high = covered > 0.94; /* the nearer bound of the range from 90 to 98% */
        bench_add(bench, title, 100 * covered, "%", high ? 98 : 90, high, "mean over splits 0 to %d; 90 to 98%%",
                  SPLITS - 1);
        *interval_sum += 100 * covered;
        ++*interval_count;
    }
    free(data.values);
    free(columns.values);
    free(target.values);
    return ok;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static size_t list_sets(const char *folder, char (*names)[64])
{
    DIR *entries = opendir(folder);
    size_t count = 0;
    for (struct dirent *entry; entries && count < SETS && (entry = readdir(entries));) {
        char path[2048];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s/data.txt", folder, entry->d_name);
        if (strlen(entry->d_name) < 64 && stat(path, &info) == 0) snprintf(names[count++], 64, "%.63s", entry->d_name);
    }
    if (entries) closedir(entries);
    qsort(names, count, 64, by_name);
    return count;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    char *text = cli_allocate(1 << 20, 1, "results of the peer");
    text[fread(text, 1, (1 << 20) - 1, file)] = 0;
    fclose(file);
    return text;
}

bool bench_uci(bench_run *bench)
{
    const char *folder = bench->options->uci;
    if (!folder) return true;
    char(*names)[64] = cli_allocate(SETS, 64, "names of data sets");
    size_t count = list_sets(folder, names);
    if (count == 0) cli_warn(bench->session, "%s has no folder with a data.txt", folder);
    const char *const arguments[] = {folder, "0", "4", NULL};
    char *peer = bench->options->uci_peer ? read_text(bench->options->uci_peer)
                 : count                  ? bench_peer(bench, &bench_sklearn, "kernel_ridge_uci.py", arguments)
                                          : NULL;
    bool ok = true;
    double sum = 0;
    int sets = 0;
    for (size_t i = 0; ok && i < count; i++) ok = run_set(bench, names[i], peer, &sum, &sets);
    if (ok && sets)
        bench_add(bench, "UCI, inside the 95% interval", sum / sets, "%", NAN, false, "mean over %d sets", sets);
    free(peer);
    free(names);
    return ok;
}
