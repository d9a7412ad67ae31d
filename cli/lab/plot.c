/* Plots of the tables of an experiment: lines, points or bars, with standard deviations over the seeds. Theoretical
 * predictions are dashed. */
#include "lab.h"
#include "../common/plot.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 720, HEIGHT = 450, PLOT_WIDTH = 600 };

typedef struct plot_data {
    const bo_lab_result *result;
    bo_lab_grid grid;
    bool bars, names; /* names: rows have positions 0, 1, … */
    bool log_x, log_y;
    double low, high; /* range of y, with deviations */
} plot_data;

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static const bo_lab_cell *cell_at(const plot_data *p, size_t row, size_t column)
{
    return &p->grid.cells[row * p->grid.columns + column];
}

static bool is_shown(const plot_data *p, size_t row, size_t column)
{
    const bo_lab_cell *cell = cell_at(p, row, column);
    return cell->count && isfinite(cell->mean) && !(p->log_y && cell->mean <= 0);
}

static bool is_theory(const plot_data *p, size_t column)
{
    return p->grid.table->theory && strcmp(p->grid.table->theory, p->grid.column_names[column]) == 0;
}

/* The lower end of an error bar, which stays visible on a logarithmic axis. */
static double low_end(const plot_data *p, const bo_lab_cell *cell)
{
    const double low = cell->mean - cell->deviation;
    return p->log_y && low <= 0 ? 0.5 * cell->mean : low;
}

static void measure_y(plot_data *p)
{
    p->low = INFINITY, p->high = -INFINITY;
    for (size_t r = 0; r < p->grid.rows; r++)
        for (size_t c = 0; c < p->grid.columns; c++) {
            if (!is_shown(p, r, c)) continue;
            p->low = fmin(p->low, low_end(p, cell_at(p, r, c)));
            p->high = fmin(fmax(p->high, cell_at(p, r, c)->mean + cell_at(p, r, c)->deviation), DBL_MAX);
        }
}

/* An axis is logarithmic only if the values are positive and span a wide range. */
static plot_data plot_of(const bo_lab_result *result, size_t table)
{
    plot_data p = {.result = result, .grid = bo_lab_result_table(result, table)};
    const bo_lab_table *t = p.grid.table;
    p.bars = t->plot == BO_LAB_BARS;
    p.names = p.bars || !p.grid.numbers;
    p.log_x = t->log_x && !p.names && p.grid.rows > 0 && p.grid.x[0] > 0;
    p.log_y = t->log_y;
    measure_y(&p);
    if (p.log_y && !(p.high > 2.5 * p.low)) {
        p.log_y = false;
        measure_y(&p);
    }
    return p;
}

bool cli_lab_has_plot(const bo_lab_grid *grid)
{
    bool some = false;
    for (size_t i = 0; i < grid->rows * grid->columns; i++)
        some |= grid->cells[i].count && isfinite(grid->cells[i].mean);
    return grid->table->plot != BO_LAB_NO_PLOT && some;
}

/* Columns of the same name have the same color in all plots of an experiment. */
static const char *color_of(const plot_data *p, size_t column)
{
    const bo_lab_experiment *e = bo_lab_result_about(p->result).experiment;
    const char *name = p->grid.column_names[column], *seen[64];
    size_t count = 0;
    for (size_t t = 0; t < e->table_count; t++) {
        const bo_lab_grid grid = bo_lab_result_table(p->result, t);
        for (size_t c = 0; c < grid.columns && count < CLI_COUNT_OF(seen); c++) {
            size_t i = 0;
            if (grid.table->theory && strcmp(grid.table->theory, grid.column_names[c]) == 0) continue;
            while (i < count && strcmp(seen[i], grid.column_names[c]) != 0) i++;
            if (i == count) seen[count++] = grid.column_names[c];
            if (strcmp(grid.column_names[c], name) == 0) return cli_plot_color(i);
        }
    }
    return cli_plot_color(column);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static double place_of(const plot_data *p, size_t row)
{
    return p->names ? (double)row : p->grid.x[row];
}

/* Row names as tick labels, rotated if they are long. */
static void name_rows(FILE *pipe, const plot_data *p)
{
    size_t longest = 0;
    for (size_t r = 0; r < p->grid.rows; r++) {
        const size_t length = cli_display_width(p->grid.row_names[r]);
        if (length > longest) longest = length;
    }
    const bool rotated = (double)(longest + 2) * 6.6 > PLOT_WIDTH / (double)p->grid.rows;
    fprintf(pipe, "set xtics %sscale 0 noenhanced (", rotated ? "rotate by 24 right " : "");
    for (size_t r = 0; r < p->grid.rows; r++) {
        if (r) fputs(", ", pipe);
        cli_plot_tic(pipe, p->grid.row_names[r], SIZE_MAX, (double)r);
    }
    fputs(")\n", pipe);
    const size_t label_width =
        p->grid.rows ? cli_display_width(p->grid.row_names[0]) : 0; /* the first label extends beyond the axis */
    if (rotated) fprintf(pipe, "set lmargin %zu\n", label_width < 12 ? 10 : label_width * 3 / 4 + 1);
    fprintf(pipe, "set xrange [-0.6:%g]\n", (double)p->grid.rows - 0.4);
}

/* Ticks are at the rows; overlapping labels are omitted. */
static void mark_log_x(FILE *pipe, const plot_data *p)
{
    const double first = log(p->grid.x[0]), span = log(p->grid.x[p->grid.rows - 1]) - first;
    double end = -INFINITY;
    bool some = false;
    fputs("set logscale x\nunset mxtics\nset xtics noenhanced (", pipe);
    for (size_t r = 0; r < p->grid.rows; r++) {
        const double middle = span > 0 ? (log(p->grid.x[r]) - first) / span * PLOT_WIDTH : 0;
        const double half = 3.6 * (double)cli_display_width(p->grid.row_names[r]) + 3;
        if (middle - half < end) continue;
        if (some) fputs(", ", pipe);
        cli_plot_tic(pipe, p->grid.row_names[r], SIZE_MAX, p->grid.x[r]);
        end = middle + half;
        some = true;
    }
    const double margin = exp(span > 0 ? 0.04 * span : 0.1);
    fprintf(pipe, ")\nset xrange [%.9g:%.9g]\n", p->grid.x[0] / margin, p->grid.x[p->grid.rows - 1] * margin);
}

static void set_linear_x(FILE *pipe, const plot_data *p)
{
    const double low = p->grid.x[0], high = p->grid.x[p->grid.rows - 1];
    const double margin = high > low ? 0.03 * (high - low) : 0.1 * fabs(low) + 0.1;
    fprintf(pipe, "set xrange [%.9g:%.9g]\nset format x '%%g'\n", low - margin, high + margin);
}

/* Tick marks at 1, 2 and 5 of every decade for few decades, otherwise at selected powers of ten. */
static void mark_log_y(FILE *pipe, double low, double high)
{
    static const double fine[] = {1, 2, 5}, coarse[] = {1};
    const double decades = log10(high) - log10(low); /* the quotient of the numbers may overflow */
    const double *marks = decades < 2.5 ? fine : coarse;
    const size_t count = decades < 2.5 ? 3 : 1;
    const int step = (int)ceil(decades / 8);
    bool some = false;
    fputs("set logscale y\nunset mytics\nset ytics noenhanced (", pipe);
    for (int power = (int)floor(log10(low)); power <= (int)ceil(log10(high)); power++) {
        if (step > 1 && power % step != 0) continue;
        for (size_t i = 0; i < count; i++) {
            const double at = marks[i] * pow(10, power);
            if (isinf(at)) continue;
            fprintf(pipe, "%s'%g' %.9g", some ? ", " : "", at, at);
            some = true;
        }
    }
    fputs(")\n", pipe);
}

static void set_y(FILE *pipe, const plot_data *p)
{
    double low = p->low, high = p->high;
    if (p->log_y) {
        const double margin = exp(0.05 * (log(high) - log(low)));
        low = fmax(low / margin / (p->bars ? margin : 1), DBL_MIN), high = fmin(high * margin, DBL_MAX);
        mark_log_y(pipe, low, high);
    } else {
        if (p->bars) low = fmin(low, 0), high = fmax(high, 0);
        const double margin = high > low ? 0.06 * (high - low) : 0.1 * fabs(high) + 0.1;
        if (!(p->bars && low == 0)) low -= margin;
        if (!(p->bars && high == 0)) high += margin;
        fputs("set format y '%g'\n", pipe);
    }
    fprintf(pipe, "set yrange [%.9g:%.9g]\n", low, high);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static double bar_width(const plot_data *p)
{
    return 0.8 / (double)p->grid.columns;
}

static void draw_data(FILE *pipe, const plot_data *p)
{
    for (size_t c = 0; c < p->grid.columns; c++) {
        const double aside = p->bars ? ((double)c - 0.5 * (double)(p->grid.columns - 1)) * bar_width(p) : 0;
        fprintf(pipe, "$c%zu << EOD\n", c);
        for (size_t r = 0; r < p->grid.rows; r++) {
            const bo_lab_cell *cell = cell_at(p, r, c);
            if (!is_shown(p, r, c)) continue;
            fprintf(pipe, "%.9g %.9g %.9g %.9g\n", place_of(p, r) + aside, cell->mean, low_end(p, cell),
                    cell->mean + cell->deviation);
        }
        fputs("EOD\n", pipe);
    }
}

static bool has_data(const plot_data *p, size_t column)
{
    bool some = false;
    for (size_t r = 0; r < p->grid.rows; r++) some |= is_shown(p, r, column);
    return some;
}

static bool has_deviations(const plot_data *p, size_t column)
{
    bool some = false;
    for (size_t r = 0; r < p->grid.rows; r++) some |= is_shown(p, r, column) && cell_at(p, r, column)->deviation > 0;
    return some;
}

static void draw_style(FILE *pipe, const plot_data *p, size_t c)
{
    static const int shapes[] = {7, 5, 9, 11, 13, 15};
    const bool theory = is_theory(p, c);
    const char *color = theory ? "#555555" : color_of(p, c);
    const int shape = shapes[c % CLI_COUNT_OF(shapes)];
    if (p->bars)
        fprintf(pipe, "using 1:2:(%.9g) with boxes fill %s lc rgb '%s'%s", 0.92 * bar_width(p),
                theory ? "empty" : "solid 0.85 noborder", color, theory ? " dt 2 lw 1.5" : "");
    else if (theory)
        fprintf(pipe, "using 1:2 with lines dt (9,6) lw 1.8 lc rgb '%s'", color);
    else if (p->grid.table->plot == BO_LAB_POINTS)
        fprintf(pipe, "using 1:2 with points pt %d ps 0.8 lc rgb '%s'", shape, color);
    else
        fprintf(pipe, "using 1:2 with linespoints pt %d ps 0.6 lw 2 lc rgb '%s'", shape, color);
}

static const char *draw_deviations(FILE *pipe, const plot_data *p, size_t c, const char *before)
{
    fprintf(pipe, "%s $c%zu using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1 lc rgb '%s' notitle",
            before, c,
            p->bars           ? "#333333"
            : is_theory(p, c) ? "#555555"
                              : color_of(p, c));
    return ",";
}

/* Error bars are drawn under points, but over bars. */
static void draw_columns(FILE *pipe, const plot_data *p)
{
    const char *before = "plot";
    for (size_t c = 0; c < p->grid.columns && !p->bars; c++)
        if (has_deviations(p, c)) before = draw_deviations(pipe, p, c, before);
    for (size_t c = 0; c < p->grid.columns; c++) {
        const char *name = p->grid.column_names[c];
        char title[160];
        if (!has_data(p, c)) continue;
        snprintf(title, sizeof title, "%.140s%s", name, is_theory(p, c) && !strstr(name, "heory") ? " (theory)" : "");
        fprintf(pipe, "%s $c%zu ", before, c);
        draw_style(pipe, p, c);
        fputs(" title ", pipe);
        cli_plot_quoted(pipe, title);
        fputs(" noenhanced", pipe);
        before = ",";
    }
    for (size_t c = 0; c < p->grid.columns && p->bars; c++)
        if (has_deviations(p, c)) before = draw_deviations(pipe, p, c, before);
    fputs("\n", pipe);
}

/* Number of names that fit in one row above the plot. */
static size_t key_columns(const plot_data *p)
{
    size_t longest = 1;
    for (size_t c = 0; c < p->grid.columns; c++) {
        const size_t length = cli_display_width(p->grid.column_names[c]) + (is_theory(p, c) ? 9 : 0);
        if (length > longest) longest = length;
    }
    const size_t fit = (size_t)(PLOT_WIDTH / (7.4 * (double)longest + 50));
    return fit < 1 ? 1 : fit > p->grid.columns ? p->grid.columns : fit;
}

/* Number of rows of the legend. */
static int key_rows(const plot_data *p)
{
    return (int)((p->grid.columns + key_columns(p) - 1) / key_columns(p));
}

/* A single column needs no legend. Otherwise the legend is between the title and the plot. */
static void set_title(FILE *pipe, const plot_data *p)
{
    const char *title = p->grid.table->title;
    if (p->grid.columns == 1) {
        fputs("unset key\n", pipe);
        cli_plot_title(pipe, title, PLOT_WIDTH);
        return;
    }
    fprintf(pipe, "set key tmargin center horizontal Left reverse samplen 2.5 width 1 maxcols %zu title ",
            key_columns(p));
    cli_plot_quoted(pipe, title);
    fprintf(pipe, " noenhanced center font ',%d'\n", cli_plot_title_font(title, PLOT_WIDTH));
}

static void draw(FILE *pipe, const char *path, const void *what)
{
    const plot_data *p = what;
    const bo_lab_table *t = p->grid.table;
    cli_plot_begin(pipe, path, WIDTH, HEIGHT + 18 * (key_rows(p) - 1), 12);
    fputs("set xlabel ", pipe);
    cli_plot_quoted(pipe, t->rows);
    fputs("\nset ylabel ", pipe);
    cli_plot_quoted(pipe, t->values);
    fputs("\nset grid ytics lc rgb '#e6e6e6' lt 1 lw 0.6\n", pipe);
    set_title(pipe, p);
    if (p->names)
        name_rows(pipe, p);
    else if (p->log_x)
        mark_log_x(pipe, p);
    else
        set_linear_x(pipe, p);
    set_y(pipe, p);
    draw_data(pipe, p);
    draw_columns(pipe, p);
}

/* ---- all plots --------------------------------------------------------------------------------------------------- */

bool cli_lab_draw(cli_lab_job *lab, const bo_lab_result *result, size_t *failed)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    for (size_t i = 0; i < e->table_count; i++) {
        const plot_data p = plot_of(result, i);
        if (!cli_lab_has_plot(&p.grid) || !(p.high >= p.low)) continue;
        char *path = cli_lab_file(lab, e, p.grid.table);
        const cli_drawn drawn = cli_plot_try(path, draw, &p);
        if (drawn == CLI_NOT_DRAWN || drawn == CLI_NOT_WRITTEN) {
            ++*failed;
            cli_fail(&lab->session, "cannot draw the plot %s: %s", path,
                     drawn == CLI_NOT_DRAWN ? "gnuplot failed" : "the file could not be written");
        }
        free(path);
        if (drawn == CLI_NO_TOOL) return false;
    }
    return true;
}
