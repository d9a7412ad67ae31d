/* Plots of HTML pages as SVG elements. */
#include "svg.h"
#include "format.h"
#include "html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scales ------------------------------------------------------------------------------------------------------ */

/* A linear scale from numbers to positions in the plot, with ticks at round numbers. */
typedef struct scale {
    double low, high; /* numbers */
    double from, to;  /* places */
    double step;      /* between ticks */
} scale;

static double place(const scale *s, double value)
{
    return s->from + (value - s->low) / (s->high - s->low) * (s->to - s->from);
}

/* The step among 1, 2, 5 times a power of ten that gives about `ticks` ticks. */
static double round_step(double range, double ticks)
{
    const double raw = range / ticks, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static void include(scale *s, double value)
{
    if (!isfinite(value)) return;
    s->low = fmin(s->low, value);
    s->high = fmax(s->high, value);
}

static scale empty_scale(void)
{
    return (scale){.low = INFINITY, .high = -INFINITY};
}

/* Adds a margin and chooses ticks. */
static void finish(scale *s, double margin, double from, double to, double ticks)
{
    if (!(s->low <= s->high)) s->low = s->high = 0;
    if (!(s->high > s->low)) {
        const double around = s->low != 0 ? fabs(s->low) / 2 : 1;
        s->low -= around;
        s->high += around;
    }
    const double extra = margin * (s->high - s->low);
    s->low -= extra;
    s->high += extra;
    s->from = from;
    s->to = to;
    s->step = round_step(s->high - s->low, ticks);
}

static double first_tick(const scale *s)
{
    return ceil(s->low / s->step - 1e-9) * s->step;
}

/* A tick as a short number: 0 without rounding errors, and years without a comma. */
static cli_short_text tick_text(const scale *s, double value)
{
    if (fabs(value) < 1e-9 * s->step) value = 0;
    return fabs(value) < 1e4 ? cli_significant(value, 5) : cli_quantity(value, 4);
}

static void open_svg(FILE *out, int width, int height, const char *title)
{
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">", width, height, width, height);
    cli_html_element(out, "<title>", title, "</title>\n");
}

/* Vertical lines with numbers below, for plots with one line per name. */
static void write_ticks(FILE *out, const scale *s, double top, double bottom)
{
    for (double v = first_tick(s); v <= s->high; v += s->step) {
        const double x = place(s, v);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, top, bottom);
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, bottom + 15,
                tick_text(s, v).s);
    }
}

/* Truncates a name to `max_chars` characters. */
static void write_name(FILE *out, double x, double y, const char *name, size_t max_chars)
{
    char clean[160], cut[160];
    cli_clean(name, clean, sizeof clean);
    size_t length = 0, at = 0;
    for (; clean[at] && at + 4 < sizeof cut; at++) {
        if (((unsigned char)clean[at] & 0xC0) != 0x80 && length++ == max_chars) break;
        cut[at] = clean[at];
    }
    cut[at] = '\0';
    fprintf(out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", x, y);
    cli_html_text(out, cut);
    fputs(clean[at] ? "…</text>" : "</text>", out);
}

/* ---- bars -------------------------------------------------------------------------------------------------------- */

enum { BARS_WIDTH = 720, NAMES = 232, LINE = 24, NAME_CHARS = 30 };

void cli_bars_svg(FILE *out, const cli_bar *bars, size_t count, int zero, const char *title)
{
    const int height = (int)count * LINE + 34;
    scale s = empty_scale();
    if (zero) include(&s, 0);
    for (size_t i = 0; i < count; i++) {
        include(&s, bars[i].from);
        include(&s, bars[i].to);
        if (isfinite(bars[i].error)) {
            include(&s, bars[i].to - bars[i].error);
            include(&s, bars[i].to + bars[i].error);
        }
    }
    finish(&s, 0.02, NAMES, BARS_WIDTH - 100, 5);
    open_svg(out, BARS_WIDTH, height, title);
    write_ticks(out, &s, 4, (double)count * LINE + 8);
    for (size_t i = 0; i < count; i++) {
        const cli_bar *bar = &bars[i];
        const double y = (double)i * LINE + 8, a = place(&s, bar->from), b = place(&s, bar->to);
        write_name(out, NAMES - 10, y + 13, bar->name, NAME_CHARS);
        if (!isfinite(bar->to)) continue;
        fprintf(out, "<rect class=\"bar %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>", bar->style,
                fmin(a, b), y, fmax(fabs(b - a), 1), LINE - 8);
        if (isfinite(bar->error))
            fprintf(out, "<path class=\"whisker\" d=\"M%.1f %.1fH%.1f\"/>", place(&s, bar->to - bar->error),
                    y + (LINE - 8) / 2.0, place(&s, bar->to + bar->error));
        const double edge = fmax(fmax(a, b), place(&s, bar->to + (isfinite(bar->error) ? bar->error : 0)));
        fprintf(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">", edge + 6, y + 13);
        cli_html_element(out, "", bar->label, "</text>\n");
    }
    fputs("</svg>\n", out);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

enum { CURVE_WIDTH = 360, CURVE_HEIGHT = 240, LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 30 };

static void write_axes(FILE *out, const scale *x, const scale *y)
{
    for (double v = first_tick(y); v <= y->high; v += y->step) {
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, place(y, v), CURVE_WIDTH - RIGHT);
        fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                place(y, v) + 4, tick_text(y, v).s);
    }
    for (double v = first_tick(x); v <= x->high; v += x->step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", place(x, v),
                CURVE_HEIGHT - BOTTOM + 17, tick_text(x, v).s);
}

void cli_curve_svg(FILE *out, const double *x, size_t points, const cli_line *lines, size_t count, cli_bounds bounds,
                   const char *title)
{
    scale across = empty_scale(), up = {.low = bounds.low, .high = bounds.high};
    for (size_t k = 0; k < points; k++) {
        if (isnan(x[k])) continue;
        include(&across, x[k]);
        for (size_t l = 0; l < count; l++) include(&up, lines[l].y[k * lines[l].stride]);
        if (lines[0].low) include(&up, lines[0].low[k * lines[0].stride]);
        if (lines[0].high) include(&up, lines[0].high[k * lines[0].stride]);
    }
    finish(&across, 0, LEFT, CURVE_WIDTH - RIGHT, 4);
    finish(&up, 0.05, CURVE_HEIGHT - BOTTOM, TOP, 4);
    open_svg(out, CURVE_WIDTH, CURVE_HEIGHT, title);
    write_axes(out, &across, &up);
    if (lines[0].low && lines[0].high) {
        fputs("<path class=\"band\" d=\"", out);
        char step = 'M';
        for (size_t k = 0; k < points; k++)
            if (!isnan(x[k])) {
                fprintf(out, "%c%.1f %.1f", step, place(&across, x[k]), place(&up, lines[0].low[k * lines[0].stride]));
                step = 'L';
            }
        for (size_t k = points; k-- > 0;)
            if (!isnan(x[k]))
                fprintf(out, "L%.1f %.1f", place(&across, x[k]), place(&up, lines[0].high[k * lines[0].stride]));
        fputs("Z\"/>\n", out);
    }
    for (size_t l = count; l-- > 0;) {
        char step = 'M';
        fprintf(out, "<path class=\"%s\" d=\"", l == 0 ? "curve" : "other");
        for (size_t k = 0; k < points; k++)
            if (!isnan(x[k])) {
                fprintf(out, "%c%.1f %.1f", step, place(&across, x[k]), place(&up, lines[l].y[k * lines[l].stride]));
                step = 'L';
            }
        fputs("\"/>\n", out);
    }
    for (size_t k = 0; k < points; k++) /* marks at the values */
        if (!isnan(x[k]))
            fprintf(out, "<path class=\"rug\" d=\"M%.1f %dv4\"/>", place(&across, x[k]), CURVE_HEIGHT - BOTTOM);
    fputs("</svg>\n", out);
}

enum { RANGE_NAMES = 110, RANGE_NAME_CHARS = 15 };

void cli_ranges_svg(FILE *out, const cli_range *ranges, size_t count, cli_bounds bounds, const char *title)
{
    const int height = (int)count * 22 + 34;
    scale s = {.low = bounds.low, .high = bounds.high};
    for (size_t i = 0; i < count; i++) {
        include(&s, ranges[i].low);
        include(&s, ranges[i].mark);
        include(&s, ranges[i].high);
    }
    finish(&s, 0.04, RANGE_NAMES, CURVE_WIDTH - RIGHT, 3);
    open_svg(out, CURVE_WIDTH, height, title);
    write_ticks(out, &s, 4, (double)count * 22 + 8);
    for (size_t i = 0; i < count; i++) {
        const double y = (double)i * 22 + 18;
        write_name(out, RANGE_NAMES - 8, y + 4, ranges[i].name, RANGE_NAME_CHARS);
        fprintf(out, "<path class=\"range\" d=\"M%.1f %.1fH%.1f\"/>", place(&s, ranges[i].low), y,
                place(&s, ranges[i].high));
        fprintf(out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", place(&s, ranges[i].mark), y);
    }
    fputs("</svg>\n", out);
}

/* ---- heat maps --------------------------------------------------------------------------------------------------- */

enum { HEAT_LEFT = 26, HEAT_RIGHT = 4, HEAT_TOP = 4, HEAT_BOTTOM = 22, CELL_HEIGHT = 26, MIN_LABELED_WIDTH = 34 };

/* A number in a cell: short, without a leading zero if it is below one. */
static cli_short_text cell_text(double value, int digits)
{
    cli_short_text word;
    if (fabs(value) >= 1 || value == 0) return cli_significant(value, digits);
    snprintf(word.s, sizeof word.s, "%.*f", digits, value);
    char *zero = word.s + (word.s[0] == '-');
    if (strtod(word.s, NULL) == 0) return cli_significant(0, 1); /* not -.00 */
    if (*zero == '0') memmove(zero, zero + 1, strlen(zero));
    return word;
}

static void write_cell(FILE *out, const cli_heat *heat, size_t r, size_t c, double width)
{
    const double value = heat->values[r * heat->columns + c], x = HEAT_LEFT + (double)c * width;
    const double y = HEAT_TOP + (double)r * CELL_HEIGHT, range = heat->high - heat->low;
    double depth = heat->signs ? fabs(value) / fmax(fabs(heat->low), fabs(heat->high)) : (value - heat->low) / range;
    depth = depth > 0 ? fmin(depth, 1) : 0; /* also for NaN */
    fprintf(out, "<g><rect class=\"cell%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill-opacity=\"%.2f\"/>",
            heat->signs && value < 0 ? " down" : "", x + 0.5, y + 0.5, width - 1, CELL_HEIGHT - 1, 0.05 + 0.9 * depth);
    fprintf(out, "<title>%s %zu, %s %zu: %s</title>", heat->row, r, heat->column, c,
            isnan(value) ? "none" : cli_significant(value, 4).s);
    if (width >= MIN_LABELED_WIDTH && isfinite(value))
        fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                depth > 0.55 ? "deep" : "shallow", x + width / 2, y + CELL_HEIGHT / 2.0 + 4,
                cell_text(value, heat->digits).s);
    fputs("</g>\n", out);
}

void cli_heat_svg(FILE *out, const cli_heat *heat)
{
    const double width = (double)(CURVE_WIDTH - HEAT_LEFT - HEAT_RIGHT) / (double)heat->columns;
    const size_t step = (size_t)ceil(18 / width); /* columns per number below */
    open_svg(out, CURVE_WIDTH, (int)heat->rows * CELL_HEIGHT + HEAT_TOP + HEAT_BOTTOM, heat->title);
    for (size_t r = 0; r < heat->rows; r++) {
        fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%zu</text>", HEAT_LEFT - 6,
                HEAT_TOP + ((double)r + 0.5) * CELL_HEIGHT + 4, r);
        for (size_t c = 0; c < heat->columns; c++) write_cell(out, heat, r, c, width);
    }
    for (size_t c = 0; c < heat->columns; c += step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%zu</text>",
                HEAT_LEFT + ((double)c + 0.5) * width, (int)heat->rows * CELL_HEIGHT + HEAT_TOP + 15, c);
    fputs("</svg>\n", out);
}
