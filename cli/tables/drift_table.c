/* Reads the two tables of bochner drift: matches columns by name, and determines kinds and categories from both files
 * together. */
#include "drift.h"
#include "../common/random.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_ROWS = 5000, SAMPLE_NUMBERS = 1 << 23, MAX_LABELS = 1 << 17, BLOCK = 2048 };

static bool failed(cli_drift_table *table, bo_status status)
{
    if (status != BO_OK) cli_fail_status(table->session, status);
    return status != BO_OK;
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static size_t *find_slot(const cli_labels *labels, const char *text)
{
    size_t at = hash_text(text) & (labels->slot_count - 1);
    while (labels->slots[at] && strcmp(labels->items[labels->slots[at] - 1].text, text) != 0)
        at = (at + 1) & (labels->slot_count - 1);
    return &labels->slots[at];
}

static void grow(cli_labels *labels)
{
    const size_t capacity = labels->capacity ? 2 * labels->capacity : 16;
    struct cli_label *items = cli_allocate(capacity, sizeof *items, "categories");
    if (labels->count) memcpy(items, labels->items, labels->count * sizeof *items);
    free(labels->items);
    free(labels->slots);
    labels->items = items;
    labels->capacity = capacity;
    labels->slot_count = 4 * capacity;
    labels->slots = cli_allocate(labels->slot_count, sizeof *labels->slots, "categories");
    for (size_t i = 0; i < labels->count; i++) *find_slot(labels, items[i].text) = i + 1;
}

/* The label of a text; NULL: it is new and `add` is false. */
static struct cli_label *label_of(cli_labels *labels, const char *text, bool add)
{
    if (add && labels->count == labels->capacity) grow(labels);
    if (labels->slot_count == 0) return NULL;
    size_t *slot = find_slot(labels, text);
    if (*slot == 0 && add) {
        char *copy = cli_allocate(strlen(text) + 1, 1, "a category");
        strcpy(copy, text);
        labels->items[labels->count++] = (struct cli_label){.text = copy};
        *slot = labels->count;
    }
    return *slot ? &labels->items[*slot - 1] : NULL;
}

static void labels_free(cli_labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) free(labels->items[i].text);
    free(labels->items);
    free(labels->slots);
    *labels = (cli_labels){0};
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static bool open_readers(cli_drift_table *table, const char *const *paths)
{
    bo_context *context = table->session->context;
    const bo_format format = table->options->format;
    if (failed(table, bo_reader_open(context, &(bo_source){.path = paths[0]}, format, 0, &table->readers[0])))
        return false;
    size_t columns = bo_reader_describe(table->readers[0])->columns;
    if (failed(table, bo_reader_open(context, &(bo_source){.path = paths[1]}, format, columns, &table->readers[1])))
        return false;
    /* the width of sparse text is that of its widest row */
    if (bo_reader_describe(table->readers[0])->format != BO_FORMAT_LIBSVM ||
        bo_reader_describe(table->readers[1])->columns == columns)
        return true;
    columns = bo_reader_describe(table->readers[1])->columns;
    bo_reader_close(table->readers[0]);
    table->readers[0] = NULL;
    return !failed(table, bo_reader_open(context, &(bo_source){.path = paths[0]}, format, columns, &table->readers[0]));
}

/* True if all columns of both files have names; in sparse text only the label has a name. */
static bool is_named(const cli_drift_table *table)
{
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < bo_reader_describe(table->readers[side])->columns; i++)
            if (!bo_reader_column(table->readers[side], i)) return false;
    return true;
}

static size_t find_column(const bo_reader *reader, const char *name)
{
    for (size_t i = 0; i < bo_reader_describe(reader)->columns; i++)
        if (strcmp(bo_reader_column(reader, i), name) == 0) return i;
    return SIZE_MAX;
}

/* Selected columns of A and B, for example by --drop. */
typedef struct column_marks {
    bool *of[2];
} column_marks;

static column_marks marks_create(const cli_drift_table *table)
{
    column_marks marks;
    for (int side = 0; side < 2; side++)
        marks.of[side] = cli_allocate(bo_reader_describe(table->readers[side])->columns, sizeof(bool), "columns");
    return marks;
}

static void marks_free(column_marks *marks)
{
    for (int side = 0; side < 2; side++) free(marks->of[side]);
}

/* The column of A with this index, from the end if it is negative; SIZE_MAX: none. */
static size_t column_by_index(const bo_reader *a, const char *word)
{
    const long long columns = (long long)bo_reader_describe(a)->columns;
    char *end;
    const long long index = strtoll(word, &end, 10);
    if (end == word || *end || index < -columns || index >= columns) return SIZE_MAX;
    return (size_t)(index < 0 ? index + columns : index);
}

/* Marks the columns with this name, or otherwise the column with this index in A and its partner in B. */
static bool mark_word(const cli_drift_table *table, bool named, const char *word, column_marks *marks)
{
    bool found = false;
    for (int side = 0; side < 2 && named; side++) {
        const size_t at = find_column(table->readers[side], word);
        if (at != SIZE_MAX) found = marks->of[side][at] = true;
    }
    if (found) return true;
    const bo_reader *a = table->readers[0];
    const size_t index = column_by_index(a, word);
    if (index == SIZE_MAX) return false;
    const size_t other = named ? find_column(table->readers[1], bo_reader_column(a, index)) : index;
    marks->of[0][index] = true;
    if (other != SIZE_MAX) marks->of[1][other] = true;
    return true;
}

static void fail_unknown(const cli_drift_table *table, bool named, const char *option, const char *word)
{
    enum { SHOWN = 12 };
    const bo_reader *a = table->readers[0];
    const size_t columns = bo_reader_describe(a)->columns;
    char names[400] = "";
    size_t length = 0;
    for (size_t i = 0; named && i < columns && i < SHOWN; i++)
        length +=
            (size_t)snprintf(names + length, sizeof names - length, "%s%.30s", i ? ", " : ": ", bo_reader_column(a, i));
    cli_fail(table->session, "--%s: no column '%s' in %s or %s; %s has %zu column%s%s%s", option, word, table->paths[0],
             table->paths[1], table->paths[0], columns, columns == 1 ? "" : "s",
             named ? names : " without names: use an index from 0", named && columns > SHOWN ? ", ..." : "");
}

/* Marks the columns of a comma-separated list; NULL: none. */
static bool mark_list(const cli_drift_table *table, bool named, const char *option, const char *list,
                      column_marks *marks)
{
    bool ok = true;
    for (const char *at = list; at && ok;) {
        const char *comma = strchr(at, ','), *end = comma ? comma : at + strlen(at);
        while (at < end && *at == ' ') at++;
        while (end > at && end[-1] == ' ') end--;
        char *word = cli_allocate((size_t)(end - at) + 1, 1, "the name of a column");
        memcpy(word, at, (size_t)(end - at));
        ok = mark_word(table, named, word, marks);
        if (!ok) fail_unknown(table, named, option, word);
        free(word);
        at = comma ? comma + 1 : NULL;
    }
    return ok;
}

/* Reports the first column that the other file lacks, ignoring columns of --drop. */
static bool complete(cli_drift_table *table, int side, const column_marks *dropped)
{
    const bo_reader *reader = table->readers[side], *other = table->readers[1 - side];
    for (size_t i = 0; i < bo_reader_describe(reader)->columns; i++) {
        const char *name = bo_reader_column(reader, i);
        if (dropped->of[side][i] || find_column(other, name) != SIZE_MAX) continue;
        cli_fail(table->session,
                 "%s: expected column '%s', as in %s, found none (use --common to compare the columns that both files "
                 "have, or --drop to ignore columns)",
                 table->paths[1 - side], name, table->paths[side]);
        return false;
    }
    return true;
}

static bool add_columns(cli_drift_table *table, bool named, const column_marks *dropped,
                        const column_marks *categorical)
{
    const bo_reader *a = table->readers[0], *b = table->readers[1];
    const size_t columns = bo_reader_describe(a)->columns;
    table->parts = cli_allocate(columns, sizeof *table->parts, "columns");
    table->names = cli_allocate(columns, 32, "columns");
    for (size_t i = 0; i < columns; i++) {
        const char *name = bo_reader_column(a, i);
        const size_t other = named ? find_column(b, name) : i;
        if (dropped->of[0][i] || other == SIZE_MAX) continue;
        char *number = table->names + 32 * i;
        snprintf(number, 32, "column %zu", i);
        table->parts[table->columns++] =
            (cli_drift_part){.name = name ? name : number, .at = {i, other}, .category = categorical->of[0][i]};
    }
    if (table->columns > 0) return true;
    cli_fail(table->session, "%s and %s: expected columns to compare, found none", table->paths[0], table->paths[1]);
    return false;
}

static bool match_columns(cli_drift_table *table)
{
    const cli_drift_options *o = table->options;
    const size_t columns = bo_reader_describe(table->readers[0])->columns,
                 other_columns = bo_reader_describe(table->readers[1])->columns;
    const bool named = is_named(table), automatic = o->categorical && strcmp(o->categorical, "auto") == 0;
    if (!named && columns != other_columns) {
        cli_fail(table->session,
                 "%s: expected %zu columns, as in %s, found %zu; columns are matched by position, "
                 "because not both files have names",
                 table->paths[1], columns, table->paths[0], other_columns);
        return false;
    }
    column_marks dropped = marks_create(table), categorical = marks_create(table);
    const bool ok = mark_list(table, named, "drop", o->drop, &dropped) &&
                    mark_list(table, named, "categorical", automatic ? NULL : o->categorical, &categorical) &&
                    (!named || o->common || (complete(table, 0, &dropped) && complete(table, 1, &dropped))) &&
                    add_columns(table, named, &dropped, &categorical);
    marks_free(&dropped);
    marks_free(&categorical);
    return ok;
}

bool cli_drift_open(cli_drift_table *table, const char *const *open_paths)
{
    table->random = table->session->common.seed;
    return open_readers(table, open_paths) && match_columns(table);
}

void cli_drift_close(cli_drift_table *table)
{
    for (int side = 0; side < 2; side++) {
        bo_reader_close(table->readers[side]);
        free(table->sample[side]);
    }
    for (size_t j = 0; j < table->columns; j++) labels_free(&table->parts[j].labels);
    free(table->parts);
    free(table->names);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* The label of a cell in a category column; NULL: a missing value. */
static const char *cell_text(double value, const char *text, char buffer[32])
{
    if (text) return text;
    if (isnan(value)) return NULL;
    snprintf(buffer, 32, "%.15g", value);
    return buffer;
}

/* The index of a label. */
static bool observe_label(cli_drift_table *table, cli_drift_part *part, int side, const char *label, double *out)
{
    struct cli_label *item = label_of(&part->labels, label, true);
    item->count[side]++;
    *out = (double)(item - part->labels.items);
    if (part->labels.count <= MAX_LABELS) return true;
    cli_fail(table->session, "column '%s': expected at most %d different texts, found more; use --drop '%s'",
             part->name, MAX_LABELS, part->name);
    return false;
}

/* A number beyond the range of float32, for which variances overflow. In a text column it may be a code. */
static void observe_wide(cli_drift_part *part, int side, double value)
{
    part->wide = value;
    part->wide_side = side;
}

static void observe_number(cli_drift_part *part, int side, double value)
{
    cli_drift_sums *sums = &part->sums[side];
    if (fabs(value) > FLT_MAX) {
        observe_wide(part, side, value);
        return;
    }
    const double difference = value - sums->mean;
    sums->mean += difference / (double)++sums->present;
    sums->squares += difference * (value - sums->mean);
}

/* Text in a column with only numbers and dates so far. The dates are read again as labels if the column turns out to be
 * text. */
static bool observe_text(cli_drift_table *table, cli_drift_part *part, int side, const char *text, double value,
                         double *out)
{
    bo_text_meaning meaning;
    bo_text_interpret(text, &meaning);
    if (isinf(value)) {
        part->infinite++;
        observe_wide(part, side, value);
    } else if (meaning.missing) {
        part->missing_texts++;
        part->sums[side].missing++;
    } else {
        part->texts++;
        for (int form = 0; form < 3; form++) part->dates[form] += meaning.date[form];
        if (!meaning.date[0] && !meaning.date[1] && !meaning.date[2])
            return observe_label(table, part, side, text, out);
    }
    return true;
}

static double date_of(const cli_drift_part *part, const char *text)
{
    bo_text_meaning meaning;
    bo_text_interpret(text, &meaning);
    return meaning.date[part->form] ? meaning.days[part->form] : NAN;
}

/* A number, or the index of a label, which is replaced by its code later. */
static bool observe(cli_drift_table *table, cli_drift_part *part, int side, double value, const char *text, double *out)
{
    char buffer[32];
    const char *label = part->category ? cell_text(value, text, buffer) : NULL;
    *out = NAN;
    if (label) return observe_label(table, part, side, label, out);
    if (!part->category && !part->date && text && !isfinite(value))
        return observe_text(table, part, side, text, value, out);
    if (part->date) value = text ? date_of(part, text) : NAN;
    if (part->category || isnan(value)) {
        part->sums[side].missing++;
        return true;
    }
    part->numbers++;
    *out = value;
    observe_number(part, side, value);
    return true;
}

/* Reservoir sampling (Vitter 1985, algorithm R): the position of this row in the sample, or SIZE_MAX. */
static size_t sample_place(cli_drift_table *table, int side, size_t capacity)
{
    const size_t row = table->rows[side];
    if (row < capacity) return table->sample_rows[side]++;
    const size_t place = cli_random_below(&table->random, row + 1);
    return place < capacity ? place : SIZE_MAX;
}

static bool scan_side(cli_drift_table *table, int side, size_t capacity)
{
    bo_context *context = table->session->context;
    double *row = cli_allocate(table->columns, sizeof *row, "a row");
    bool ok = true;
    for (;;) {
        bo_data_block block;
        ok = !failed(table, bo_reader_next(context, table->readers[side], BLOCK, &block)) && !cli_interrupted();
        if (!ok || block.rows == 0) break;
        for (size_t r = 0; r < block.rows && ok; r++) {
            for (size_t j = 0; j < table->columns && ok; j++) {
                cli_drift_part *part = &table->parts[j];
                const size_t cell = r * block.columns + part->at[side];
                ok = observe(table, part, side, block.cells[cell], block.text ? block.text[cell] : NULL, &row[j]);
            }
            const size_t place = sample_place(table, side, capacity);
            if (place != SIZE_MAX)
                memcpy(table->sample[side] + place * table->columns, row, table->columns * sizeof *row);
            table->rows[side]++;
        }
        if (!ok) break;
        cli_progress_report(&table->session->progress, "reading", (double)(table->rows[0] + table->rows[1]), 0);
    }
    free(row);
    return ok;
}

static bool scan_once(cli_drift_table *table, size_t capacity)
{
    for (size_t j = 0; j < table->columns; j++) {
        labels_free(&table->parts[j].labels);
        table->parts[j].sums[0] = table->parts[j].sums[1] = (cli_drift_sums){0};
    }
    for (int side = 0; side < 2; side++) {
        table->rows[side] = table->sample_rows[side] = 0;
        if (!scan_side(table, side, capacity)) return false;
        if (failed(table, bo_reader_rewind(table->session->context, table->readers[side]))) return false;
        if (table->rows[side] >= 2) continue;
        cli_fail(table->session, "%s: expected at least 2 rows, found %zu", table->paths[side], table->rows[side]);
        return false;
    }
    return true;
}

static int by_count(const void *a, const void *b)
{
    const struct cli_label *x = *(struct cli_label *const *)a, *y = *(struct cli_label *const *)b;
    const size_t left = x->count[0] + x->count[1], right = y->count[0] + y->count[1];
    return left != right ? (left < right ? 1 : -1) : strcmp(x->text, y->text);
}

/* Assigns codes by frequency; rare labels share the last code. */
static void assign_codes(cli_drift_table *table, cli_drift_part *part, size_t column)
{
    cli_labels *labels = &part->labels;
    struct cli_label **order = cli_allocate(labels->count, sizeof *order, "categories");
    for (size_t i = 0; i < labels->count; i++) order[i] = &labels->items[i];
    qsort(order, labels->count, sizeof *order, by_count);
    for (size_t i = 0; i < labels->count; i++)
        order[i]->code = i < CLI_DRIFT_CATEGORIES - 1 ? i : CLI_DRIFT_CATEGORIES - 1;
    free(order);
    part->categories = labels->count < CLI_DRIFT_CATEGORIES ? labels->count : CLI_DRIFT_CATEGORIES;
    if (part->categories == 0) part->categories = 1; /* only missing values */
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < table->sample_rows[side]; i++) {
            double *value = &table->sample[side][i * table->columns + column];
            if (!isnan(*value)) *value = (double)labels->items[(size_t)*value].code;
        }
}

/* The date format that most cells have, if it is unique and at most 1% of the cells are not dates; -1: none. */
static int find_form(const cli_drift_part *part)
{
    int best = 0;
    bool tie = false;
    for (int form = 1; form < 3; form++)
        if (part->dates[form] > part->dates[best]) best = form;
    for (int form = 0; form < 3; form++) tie |= form != best && part->dates[form] == part->dates[best];
    const size_t cells = part->texts + part->numbers, invalid = cells + part->infinite - part->dates[best];
    return tie || part->dates[best] == 0 || invalid * 100 > cells ? -1 : best;
}

/* Decides the kind of a column. *again: its cells must be read again. */
static bool decide(cli_drift_table *table, cli_drift_part *part, bool *again)
{
    if (part->category || part->date) return true;
    if (part->texts == 0 && part->wide != 0) {
        cli_fail(table->session, "%s: column '%s': expected a number in the range of float32, found %g",
                 table->paths[part->wide_side], part->name, part->wide);
        return false;
    }
    if (part->texts == 0) return true;
    part->form = find_form(part);
    part->date = part->form >= 0;
    part->category = !part->date;
    *again |= part->date || part->numbers || part->missing_texts || part->infinite || part->dates[0] ||
              part->dates[1] || part->dates[2];
    return true;
}

bool cli_drift_scan(cli_drift_table *table)
{
    const size_t fitting_rows = SAMPLE_NUMBERS / table->columns + 2,
                 capacity = fitting_rows < SAMPLE_ROWS ? fitting_rows : SAMPLE_ROWS;
    for (int side = 0; side < 2; side++)
        table->sample[side] = cli_allocate(capacity * table->columns, sizeof(double), "a sample of the rows");
    for (bool again = true; again;) {
        if (!scan_once(table, capacity)) return false;
        again = false;
        for (size_t j = 0; j < table->columns; j++)
            if (!decide(table, &table->parts[j], &again)) return false;
    }
    for (size_t j = 0; j < table->columns; j++)
        if (table->parts[j].category) assign_codes(table, &table->parts[j], j);
    return true;
}

double *cli_drift_pool(cli_drift_table *table, size_t *rows)
{
    const double all = (double)table->rows[0] + (double)table->rows[1];
    const size_t columns = table->columns;
    double *pool = cli_allocate((table->sample_rows[0] + table->sample_rows[1]) * columns, sizeof *pool, "a sample");
    /* sample each side in proportion to its share of all rows */
    double scale = INFINITY;
    for (int side = 0; side < 2; side++)
        scale = fmin(scale, (double)table->sample_rows[side] * all / (double)table->rows[side]);
    *rows = 0;
    for (int side = 0; side < 2; side++) {
        size_t left = table->sample_rows[side], remaining = (size_t)(scale * (double)table->rows[side] / all + 0.5);
        if (remaining < 1) remaining = 1;
        for (size_t i = 0; i < table->sample_rows[side] && remaining > 0; i++, left--) {
            if (cli_random_below(&table->random, left) >= remaining) continue; /* selection sampling */
            memcpy(pool + (*rows)++ * columns, table->sample[side] + i * columns, columns * sizeof *pool);
            remaining--;
        }
    }
    return pool;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static double encode(cli_drift_part *part, double value, const char *text)
{
    char buffer[32];
    if (part->date && text) return date_of(part, text);
    if (!part->category) return value;
    const char *label = cell_text(value, text, buffer);
    const struct cli_label *item = label ? label_of(&part->labels, label, false) : NULL;
    return item ? (double)item->code : NAN;
}

bool cli_drift_read(cli_drift_table *table, int side, cli_drift_fn use, void *user)
{
    bo_context *context = table->session->context;
    double *x = cli_allocate(BLOCK * table->columns, sizeof *x, "a block of rows");
    bo_status status;
    bo_data_block block;
    while ((status = bo_reader_next(context, table->readers[side], BLOCK, &block)) == BO_OK && block.rows > 0) {
        for (size_t r = 0; r < block.rows; r++)
            for (size_t j = 0; j < table->columns; j++) {
                const size_t cell = r * block.columns + table->parts[j].at[side];
                x[r * table->columns + j] =
                    encode(&table->parts[j], block.cells[cell], block.text ? block.text[cell] : NULL);
            }
        status = cli_interrupted() ? BO_CANCELED : use(user, block.rows, x);
        if (status != BO_OK) break;
    }
    free(x);
    return !failed(table, status);
}
