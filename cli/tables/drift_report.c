/* The report of bochner drift. */
#include "drift.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- facts about a column ---------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { QUANTILES = 3 };
static const double quantile_at[QUANTILES] = {0.05, 0.5, 0.95};

/* Quantiles of the numbers of one side, from its sample, by linear interpolation; NAN if there are none. */
static void quantiles(const cli_drift_table *table, size_t column, int side, double out[QUANTILES])
{
    double *values = cli_allocate(table->sample_rows[side], sizeof *values, "quantiles");
    size_t count = 0;
    for (size_t i = 0; i < table->sample_rows[side]; i++) {
        const double value = table->sample[side][i * table->columns + column];
        if (!isnan(value)) values[count++] = value;
    }
    qsort(values, count, sizeof *values, by_value);
    for (size_t q = 0; q < QUANTILES; q++) {
        const double place = count ? quantile_at[q] * (double)(count - 1) : 0;
        const size_t low = (size_t)place, high = low + 1 < count ? low + 1 : low;
        out[q] = count ? values[low] + (place - (double)low) * (values[high] - values[low]) : NAN;
    }
    free(values);
}

/* Mean and standard deviation; NAN without numbers. */
static double mean(const cli_drift_sums *sums)
{
    return sums->present > 0 ? sums->mean : NAN;
}

static double deviation(const cli_drift_sums *sums)
{
    return sums->present > 1 ? sqrt(sums->squares / (double)(sums->present - 1)) : NAN;
}

static double missing_share(const cli_drift_result *result, size_t column, int side)
{
    const bo_drift_column *c = &result->columns[column];
    return (double)(side ? c->missing_b : c->missing_a) / (double)result->table->rows[side];
}

/* The category whose share differs most between A and B, and the categories that only one table has, most frequent
 * first. */
static double share(const cli_drift_table *table, const struct cli_label *label, int side)
{
    return (double)label->count[side] / (double)table->rows[side];
}

static const struct cli_label *largest_change(const cli_drift_table *table, const cli_labels *labels)
{
    const struct cli_label *best = NULL;
    for (size_t i = 0; i < labels->count; i++) {
        const struct cli_label *label = &labels->items[i];
        if (!best ||
            fabs(share(table, label, 1) - share(table, label, 0)) > fabs(share(table, best, 1) - share(table, best, 0)))
            best = label;
    }
    return best;
}

/* Counts labels that only one side has; `names` receives the most frequent ones. */
static size_t only_in(const cli_labels *labels, int side, const struct cli_label **names, size_t capacity)
{
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < labels->count; i++) {
        const struct cli_label *label = &labels->items[i];
        if (label->count[1 - side] || !label->count[side]) continue;
        count++;
        size_t place = kept < capacity ? kept++ : capacity;
        if (place == capacity) {
            if (names[capacity - 1]->count[side] >= label->count[side]) continue;
            place = capacity - 1;
        }
        for (; place > 0 && names[place - 1]->count[side] < label->count[side]; place--)
            names[place] = names[place - 1];
        names[place] = label;
    }
    return count;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

enum { NAMES = 3, NAME_WIDTH = 20 };

static void print_new(const cli_labels *labels, int side)
{
    const struct cli_label *names[NAMES];
    const size_t count = only_in(labels, side, names, NAMES);
    if (count == 0) return;
    printf("; only in %c: ", side ? 'B' : 'A');
    for (size_t i = 0; i < count && i < NAMES; i++) {
        char clean[48];
        cli_clean(names[i]->text, clean, sizeof clean);
        printf("%s%s", i ? ", " : "", clean);
    }
    if (count > NAMES) printf(" and %s more", cli_count(count - NAMES).s);
}

static void print_category(const cli_drift_table *table, const cli_labels *labels)
{
    const struct cli_label *label = largest_change(table, labels);
    char clean[48] = "";
    if (label) cli_clean(label->text, clean, sizeof clean);
    if (label) printf("%s: %.1f%% -> %.1f%%", clean, 100 * share(table, label, 0), 100 * share(table, label, 1));
    for (int side = 0; side < 2; side++) print_new(labels, side);
}

typedef struct value_text {
    char s[64];
} value_text;

/* A number with four digits, or a date from its days since 1970-01-01. */
static value_text value_of(const cli_drift_part *part, double value)
{
    value_text out;
    const time_t seconds = (time_t)(floor(value) * 86400);
    struct tm date;
    if (part->date && gmtime_r(&seconds, &date))
        strftime(out.s, sizeof out.s, "%Y-%m-%d", &date);
    else
        snprintf(out.s, sizeof out.s, "%s", cli_significant(value, 4).s);
    return out;
}

static void print_numbers(const cli_drift_table *table, size_t column)
{
    const cli_drift_part *part = &table->parts[column];
    const cli_drift_sums *sums = table->parts[column].sums;
    double a[QUANTILES], b[QUANTILES];
    if (!sums[0].present || !sums[1].present) {
        printf("no %s in %s", part->date ? "dates" : "numbers",
               sums[0].present   ? "B"
               : sums[1].present ? "A"
                                 : "A and B");
        return;
    }
    quantiles(table, column, 0, a);
    quantiles(table, column, 1, b);
    printf("mean %s -> %s, median %s -> %s, 5%% to 95%%: %s to %s -> %s to %s", value_of(part, mean(&sums[0])).s,
           value_of(part, mean(&sums[1])).s, value_of(part, a[1]).s, value_of(part, b[1]).s, value_of(part, a[0]).s,
           value_of(part, a[2]).s, value_of(part, b[0]).s, value_of(part, b[2]).s);
}

static void print_info(const cli_drift_result *result, size_t column)
{
    const cli_drift_part *part = &result->table->parts[column];
    if (part->category)
        print_category(result->table, &part->labels);
    else
        print_numbers(result->table, column);
    const double before = missing_share(result, column, 0), after = missing_share(result, column, 1);
    if (before > 0 || after > 0) printf("; missing %.1f%% -> %.1f%%", 100 * before, 100 * after);
    putchar('\n');
}

void cli_drift_print(const cli_drift_result *result)
{
    const cli_drift_table *table = result->table;
    const bo_drift_report *report = &result->report;
    const double alpha = table->options->alpha;
    for (int side = 0; side < 2; side++)
        printf("%-12c%s rows of %s\n", 'A' + side, cli_count(table->rows[side]).s, table->paths[side]);
    printf("%-12s%s column%s, %s %s features, gamma %s\n", "Test", cli_count(table->columns).s,
           table->columns == 1 ? "" : "s", cli_count(report->features).s, bo_enum_name(BO_ENUM_KERNEL, report->kernel),
           cli_significant(report->gamma, 4).s);
    printf("%-12s%s (biased estimate: %s)\n", "MMD^2", cli_significant(report->mmd2, 4).s,
           cli_significant(report->mmd2_biased, 4).s);
    if (report->permutations)
        printf("%-12s%s (%s permutations)\n", "p-value", cli_significant(report->p_value, 4).s,
               cli_count(report->permutations).s);
    else
        printf("%-12s%s (asymptotic)\n", "p-value", cli_significant(report->p_value, 4).s);
    printf("%-12s%s at level %s\n", "Result", result->differs ? "the tables differ" : "no difference found",
           cli_significant(alpha, 4).s);
    const size_t shown = table->options->shown < table->columns ? table->options->shown : table->columns;
    if (shown == 0) return;
    printf("\n%-*s  %-12s%s\n", NAME_WIDTH, "column", "p (Holm)", "A -> B");
    for (size_t i = 0; i < shown; i++) {
        const size_t column = result->order[i];
        const double p = result->columns[column].p_adjusted;
        char name[NAME_WIDTH * 4];
        cli_clean(table->parts[column].name, name, sizeof name);
        printf("%s%*s  %-10s%s ", name,
               (int)(cli_display_width(name) < NAME_WIDTH ? NAME_WIDTH - cli_display_width(name) : 0), "",
               p < 1e-300 ? "<1e-300" : cli_significant(p, 3).s, p <= alpha ? "*" : " ");
        print_info(result, column);
    }
    if (shown < table->columns) printf("... and %s more columns\n", cli_count(table->columns - shown).s);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void numbers_json(const cli_drift_result *result, size_t column, cli_json *json)
{
    static const char *const keys[2][QUANTILES] = {{"q05_a", "median_a", "q95_a"}, {"q05_b", "median_b", "q95_b"}};
    const cli_drift_sums *sums = result->table->parts[column].sums;
    cli_json_add_number(json, "mean_a", mean(&sums[0]));
    cli_json_add_number(json, "mean_b", mean(&sums[1]));
    cli_json_add_number(json, "std_a", deviation(&sums[0]));
    cli_json_add_number(json, "std_b", deviation(&sums[1]));
    for (int side = 0; side < 2; side++) {
        double q[QUANTILES];
        quantiles(result->table, column, side, q);
        for (size_t i = 0; i < QUANTILES; i++) cli_json_add_number(json, keys[side][i], q[i]);
    }
}

static void labels_json(const cli_drift_result *result, size_t column, cli_json *json)
{
    enum { MAX_NAMES = 20 };
    const cli_labels *labels = &result->table->parts[column].labels;
    const struct cli_label *names[MAX_NAMES];
    cli_json_add_count(json, "categories", labels->count);
    for (int side = 0; side < 2; side++) {
        const size_t count = only_in(labels, side, names, MAX_NAMES);
        cli_json_array(json, side ? "only_in_b" : "only_in_a");
        for (size_t i = 0; i < count && i < MAX_NAMES; i++) cli_json_add_text(json, NULL, names[i]->text);
        cli_json_end(json);
    }
}

static void column_json(const cli_drift_result *result, size_t column, cli_json *json)
{
    const bo_drift_column *c = &result->columns[column];
    const cli_drift_part *part = &result->table->parts[column];
    cli_json_object(json, NULL);
    cli_json_add_text(json, "name", part->name);
    cli_json_add_text(json, "kind", part->category ? "category" : part->date ? "date" : "number");
    cli_json_add_number(json, "p_adjusted", c->p_adjusted);
    cli_json_add_number(json, "p_value", c->p_value);
    cli_json_add_number(json, "mmd2", c->mmd2);
    cli_json_add_flag(json, "differs", c->p_adjusted <= result->table->options->alpha);
    cli_json_add_number(json, "missing_a", missing_share(result, column, 0));
    cli_json_add_number(json, "missing_b", missing_share(result, column, 1));
    (part->category ? labels_json : numbers_json)(result, column, json);
    cli_json_end(json);
}

void cli_drift_json(const cli_drift_result *result)
{
    const cli_drift_table *table = result->table;
    const bo_drift_report *report = &result->report;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "a", table->paths[0]);
    cli_json_add_text(&json, "b", table->paths[1]);
    cli_json_add_count(&json, "rows_a", table->rows[0]);
    cli_json_add_count(&json, "rows_b", table->rows[1]);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_count(&json, "features", report->features);
    cli_json_add_number(&json, "gamma", report->gamma);
    cli_json_add_number(&json, "mmd2", report->mmd2);
    cli_json_add_number(&json, "mmd2_biased", report->mmd2_biased);
    cli_json_add_text(&json, "p_kind", bo_enum_name(BO_ENUM_P_VALUE, report->p_kind));
    cli_json_add_count(&json, "permutations", report->permutations);
    cli_json_add_number(&json, "p_value", report->p_value);
    cli_json_add_number(&json, "alpha", table->options->alpha);
    cli_json_add_flag(&json, "differs", result->differs);
    cli_json_array(&json, "columns");
    for (size_t i = 0; i < table->columns; i++) column_json(result, result->order[i], &json);
    cli_json_end(&json);
    cli_json_add_number(&json, "seconds", result->seconds);
    cli_json_end(&json);
}
