/* bochner bench recall: writes pairs into the state of every kind of attention and queries them again, by distance and
 * by size of the state. Nothing is trained: keys are random, and only the capacity of the state is measured. */
#include "../lab/tools/recall.h"
#include "bench.h"
#include "../cli/common/curves.h"
#include "../cli/common/json.h"
#include "../cli/common/streams.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct recall_options {
    cli_given was_given;
    bench_run run;
    const char *sizes_text, *plot, *plot_distance;
    cli_counts sizes;
    bo_recall_options measure;
} recall_options;

typedef struct recall_row {
    const bo_recall_kind *kind;
    size_t size; /* 0: the kind has no size */
    bo_recall_result result;
} recall_row;

typedef struct recall_bench {
    bench_run *run;
    const recall_options *options;
    recall_row *rows;
    size_t count;
} recall_bench;

static size_t kind_count(void)
{
    size_t count = 0;
    while (bo_recall_at(count)) count++;
    return count;
}

static const char *kind_name(const void *unused, size_t index)
{
    (void)unused;
    return bo_recall_at(index)->name;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Every second point: 1, 4, 16, … tokens ago. */
static void print_header(const recall_bench *bench, size_t points)
{
    printf("%zu pairs per sequence, one per token; %zu sequences; chance is %.1f%%\n\n", bench->options->measure.tokens,
           bench->options->measure.lanes, 100 / (double)bench->options->measure.codes);
    printf("| kind | size | state | parameter | 90%% recalled up to |");
    for (size_t i = 0; i < points; i += 2) printf(" %zu ago |", (size_t)1 << i);
    printf("\n|---|--:|--:|--:|--:|");
    for (size_t i = 0; i < points; i += 2) printf("--:|");
    printf("\n");
}

static void print_row(const recall_row *row)
{
    static const char *const knobs[] = {"", "s = ", "p = ", "beta = ", "lambda = "};
    const bo_recall_result *r = &row->result;
    printf("| %s | ", row->kind->name);
    if (row->size) printf("%zu", row->size);
    printf(" | %s | ", cli_bytes((double)r->bytes).s);
    if (!isnan(r->knob)) printf("%s%g", knobs[row->kind->knob], r->knob);
    printf(" | %.0f |", r->capacity);
    for (size_t i = 0; i < r->points; i += 2) printf(" %.0f%% |", 100 * r->by_distance[i]);
    printf("\n");
    cli_streams_flush();
}

static void json_numbers(cli_json *json, const char *key, size_t count, const double *values)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < count; i++) cli_json_add_number(json, NULL, values[i]);
    cli_json_end(json);
}

static void print_json(const recall_bench *bench)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "version", bo_version());
    cli_json_add_count(&json, "tokens", bench->options->measure.tokens);
    cli_json_array(&json, "memories");
    for (size_t i = 0; i < bench->count; i++) {
        const recall_row *row = &bench->rows[i];
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "kind", row->kind->name);
        cli_json_add_count(&json, "size", row->size);
        cli_json_add_count(&json, "state_bytes", row->result.bytes);
        cli_json_add_number(&json, "knob", row->result.knob);
        cli_json_add_number(&json, "capacity", row->result.capacity);
        json_numbers(&json, "by_length", row->result.points, row->result.by_length);
        json_numbers(&json, "by_distance", row->result.points, row->result.by_distance);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_end(&json);
}

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* Capacity by bytes of the state, for kinds with a state. */
static int plot_capacity(const recall_bench *bench, cli_curves *curves)
{
    cli_drawing d = {curves, "", "bytes of the state", "pairs recalled, nine of ten", "outside right", 1, false};
    for (size_t i = 0; i < bench->count; i++)
        if (bench->rows[i].size && bench->rows[i].result.capacity >= 1)
            cli_curves_add(curves, bench->rows[i].kind->name, (double)bench->rows[i].result.bytes,
                           bench->rows[i].result.capacity);
    snprintf(d.title, sizeof d.title, "Pairs recalled from a state, values of dimension %zu",
             bench->options->measure.width);
    return cli_curves_plot(bench->run->session, bench->options->plot, &d);
}

/* Recall by distance for each kind with its largest state. */
static int plot_distances(const recall_bench *bench, cli_curves *curves)
{
    cli_drawing d = {curves, "", "tokens ago", "percent recalled", "outside right", 100, true};
    for (size_t i = 0; i < bench->count; i++) {
        const recall_row *row = &bench->rows[i];
        if (i + 1 < bench->count && bench->rows[i + 1].kind == row->kind) continue;
        for (size_t j = 0; j < row->result.points; j++)
            cli_curves_add(curves, row->kind->name, (double)((size_t)1 << j), row->result.by_distance[j]);
    }
    snprintf(d.title, sizeof d.title, "Recall by distance after %zu tokens", bench->options->measure.tokens);
    return cli_curves_plot(bench->run->session, bench->options->plot_distance, &d);
}

static int plot(const recall_bench *bench)
{
    cli_curves *curves = cli_allocate(2, sizeof *curves, "curves");
    int status = bench->options->plot ? plot_capacity(bench, curves) : CLI_DONE;
    if (status == CLI_DONE && bench->options->plot_distance) status = plot_distances(bench, curves + 1);
    free(curves);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool measure_row(recall_bench *bench, recall_row *row)
{
    cli_session *session = bench->run->session;
    bo_recall_options options = bench->options->measure;
    options.seed = session->common.seed;
    const bo_status status = bo_recall_measure(session->context, row->kind, row->size, &options, &row->result);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK && !cli_interrupted();
}

static bool measure_kind(recall_bench *bench, const bo_recall_kind *kind)
{
    const cli_counts *sizes = &bench->options->sizes;
    const bool sized = kind->size != BO_RECALL_ALL;
    for (size_t i = 0; i < (sized ? sizes->count : 1); i++) {
        recall_row *row = &bench->rows[bench->count];
        *row = (recall_row){.kind = kind, .size = sized ? sizes->items[i] : 0};
        if (kind->max_size && row->size > kind->max_size) break;
        if (!measure_row(bench, row)) return false;
        if (!bench->run->session->common.json) print_row(row);
        bench->count++;
    }
    return true;
}

static bool measure_kinds(recall_bench *bench)
{
    size_t points = 1;
    while ((size_t)1 << points <= bench->options->measure.tokens) points++;
    if (!bench->run->session->common.json) print_header(bench, points);
    for (size_t i = 0; i < kind_count(); i++)
        if (bench_selected(bench->run, kind_name(NULL, i)) && !measure_kind(bench, bo_recall_at(i))) return false;
    return true;
}

static int measure(bench_run *run, void *user)
{
    recall_options *o = user;
    if (!bench_parts_known("bench recall", run->only, kind_count(), kind_name) ||
        !cli_read_counts("bench recall", "sizes", o->sizes_text, 4, 4096, &o->sizes))
        return CLI_USAGE_ERROR;
    int status = bench_can_draw(run, "bench recall", "plot", o->plot);
    if (status == CLI_DONE) status = bench_can_draw(run, "bench recall", "plot-distance", o->plot_distance);
    if (status != CLI_DONE) return status;
    recall_bench bench = {.run = run, .options = o};
    bench.rows = cli_allocate(kind_count() * o->sizes.count, sizeof *bench.rows, "rows");
    const bool ok = measure_kinds(&bench);
    if (ok && run->session->common.json) print_json(&bench);
    status = ok ? plot(&bench) : CLI_FAILED;
    free(bench.rows);
    return status;
}

static const cli_option rows[] = {
    SECTION("Kinds"),
    TEXT("only", "KINDS", recall_options, run.only,
         "kinds to measure: softmax, softmax-norms, power, window, identity, elu, poly, favor, favor-norms, "
         "favor++, trig, trig-norms, rfa, rfa-norms, rfa-gate, hybrid, hybrid-trig, retention, gla, delta, "
         "gated-delta, ridge",
         .default_text = "all"),
    TEXT("sizes", "LIST", recall_options, sizes_text,
         "sizes of the state: features, dimensions of keys, or pairs of a window", .initial = "16,64,256,1024"),
    COUNT("window", "N", recall_options, measure.window, "number of most recent pairs that hybrid keeps", .low = 1,
          .high = 1 << 16, .initial = "64"),
    COUNT("horizon", "N", recall_options, measure.horizon,
          "number of tokens after which gates have multiplied a pair by 1/e", .low = 1, .high = 1 << 30,
          .initial = "256"),
    SECTION("Pairs"),
    COUNT("tokens", "N", recall_options, measure.tokens, "pairs per sequence, one per token", .low = 1, .high = 1 << 20,
          .initial = "16384"),
    COUNT("lanes", "N", recall_options, measure.lanes, "number of sequences", .low = 1, .high = 1024, .initial = "16"),
    COUNT("width", "N", recall_options, measure.width, "dimension of values, and of keys unless --sizes sets it",
          .low = 2, .high = 1024, .initial = "64"),
    COUNT("values", "N", recall_options, measure.codes, "number of different values", .low = 2, .high = 1 << 16,
          .initial = "256"),
    REAL("noise", "X", recall_options, measure.noise, "norm of the noise in a query, relative to the norm of the key",
         .high = 10, .initial = "0.1"),
    SECTION("Plots"),
    TEXT("plot", "FILE", recall_options, plot,
         "draw the number of recalled pairs by bytes of the state: .svg, .png or .pdf"),
    TEXT("plot-distance", "FILE", recall_options, plot_distance,
         "draw recall by distance for the largest states: .svg, .png or .pdf"),
    END_OF_OPTIONS,
};

const cli_usage bench_recall_usage = {
    .command = "bench recall",
    .synopsis = "[options]",
    .about = "Measures how many pairs of key and value the state of each kind of attention can recall. Each "
             "token writes one random pair; queries then request earlier values. The table shows the number "
             "of tokens up to which nine of ten pairs are recalled, by size of the state, and the recall of "
             "pairs written 1, 4, 16, … tokens before the end. Nothing is trained. Parameters that a kind "
             "needs (sharpness, learning rate, ridge) are the best of a few values, chosen on other pairs.",
    .examples = "  bochner bench recall --only softmax,favor,delta --tokens 256 --sizes 32 --lanes 4\n",
    .groups = {{rows, 0}},
    .short_help = {"only", "sizes", "tokens", "lanes", "plot", "plot-distance", "seed", "json"},
};

int bench_recall(int argc, char **argv)
{
    recall_options o = {.run.prints_json = true};
    return bench_command(&bench_recall_usage, argc, argv, &o.run, measure, &o);
}
