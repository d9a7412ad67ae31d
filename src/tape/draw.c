/* A profile as a graph in the DOT language of Graphviz. Labels are Graphviz HTML tables, in which any name can be
 * written as text. */
#include <string.h>
#include "internal.h"

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* U+FFFE and U+FFFF, which XML does not allow. */
static bool is_noncharacter(const char *character, size_t bytes)
{
    return bytes == 3 && (memcmp(character, "\xef\xbf\xbe", 3) == 0 || memcmp(character, "\xef\xbf\xbf", 3) == 0);
}

/* Writes any bytes as HTML text. Invalid and control characters become U+FFFD. */
static void write_text(FILE *out, const char *text)
{
    for (size_t length = strlen(text), i = 0; i < length;) {
        const size_t bytes = bo_utf8_length(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        if (bytes == 0 || c < 0x20 || c == 0x7f || is_noncharacter(text + i, bytes))
            fputs("&#65533;", out);
        else if (strchr("&<>\"'[]\\", c))
            fprintf(out, "&#%u;", c);
        else
            fwrite(text + i, 1, bytes, out);
        i += bytes ? bytes : 1;
    }
}

static void write_bytes(FILE *out, size_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1000 && unit + 1 < sizeof units / sizeof *units) size /= 1000, unit++;
    fprintf(out, "%.*f %s", unit > 0 && size < 10 ? 1 : 0, size, units[unit]);
}

static void write_seconds(FILE *out, double seconds)
{
    const double scaled = seconds >= 1 ? seconds : seconds >= 1e-3 ? 1e3 * seconds : 1e6 * seconds;
    fprintf(out, "%.*f %s",
            scaled < 10    ? 2
            : scaled < 100 ? 1
                           : 0,
            scaled,
            seconds >= 1      ? "s"
            : seconds >= 1e-3 ? "ms"
                              : "µs");
}

/* Returns the last two parts of a name: "q_proj.weight" of "model.layers.0.self_attn.q_proj.weight". */
static const char *short_name(const char *name)
{
    const char *at = name + strlen(name);
    for (int dots = 0; at > name; at--)
        if (at[-1] == '.' && ++dots == 2) break;
    return at;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Counts the operations that read each value. An input with many readers is drawn as a line in each of them, like
 * weights: edges would cross the whole graph. */
static bo_status count_readers(bo_context *context, const bo_profile *profile, size_t **out)
{
    *out = bo_alloc(context, profile->value_count, sizeof **out, "readers of values");
    if (!*out) return BO_MEMORY;
    for (size_t i = 0; i < profile->operation_count; i++) {
        const bo_operation_info *operation = &profile->operations[i];
        for (size_t k = 0; k < operation->inputs; k++) (*out)[operation->input[k]]++;
    }
    return BO_OK;
}

static bool is_box(const bo_value_info *value, size_t readers)
{
    return value->origin == BO_VALUE_ORIGIN_INPUT && readers == 1;
}

static void write_input(FILE *out, size_t number, const bo_value_info *value)
{
    fprintf(out,
            "  value%zu [shape=box, style=\"rounded,filled\", fillcolor=\"#dbe9f6\", color=\"#4a7fb0\", label=<<B>",
            number);
    write_text(out, value->name);
    fprintf(out, "</B><BR/><FONT POINT-SIZE=\"10\">%zu × %zu %s, ", value->rows, value->columns, value->type);
    write_bytes(out, value->bytes);
    fputs("</FONT>>];\n", out);
}

/* Writes a weight (green; frozen: gray) or an input (blue) as a line of an operation. */
static void write_line(FILE *out, const bo_value_info *value)
{
    const bool weight = value->origin == BO_VALUE_ORIGIN_WEIGHT;
    fprintf(out, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\"><FONT POINT-SIZE=\"9\" COLOR=\"%s\">%s ",
            !weight          ? "#2a5f95"
            : value->trained ? "#2d6a2d"
                             : "#666666",
            weight ? "■" : "▷");
    write_text(out, weight ? short_name(value->name) : value->name);
    fprintf(out, "  %zu × %zu%s%s, ", value->rows, value->columns, strcmp(value->type, "float32") == 0 ? "" : " ",
            strcmp(value->type, "float32") == 0 ? "" : value->type);
    write_bytes(out, value->bytes);
    fputs("</FONT></TD></TR>", out);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static double seconds_of(const bo_operation_info *operation)
{
    return operation->forward + operation->backward + operation->again;
}

/* Returns a color from white to orange for a share from 0 to `max_share`. */
static unsigned shade(double share, double max_share)
{
    static const unsigned full = 0xf5a04c;
    unsigned color = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        const double channel = 255 + (max_share > 0 ? share / max_share : 0) * ((double)(full >> shift & 255) - 255);
        color |= (unsigned)(channel + 0.5) << shift;
    }
    return color;
}

static void write_times(FILE *out, const bo_operation_info *operation)
{
    const double times[] = {operation->forward, operation->again, operation->backward};
    static const char *const names[] = {"forward", "again", "backward"};
    const char *between = "";
    fputs("<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\"><FONT POINT-SIZE=\"10\">", out);
    for (size_t i = 0; i < 3; i++) {
        if (times[i] <= 0) continue;
        fprintf(out, "%s%s ", between, names[i]);
        write_seconds(out, times[i]);
        between = ", ";
    }
    fputs("</FONT></TD></TR>", out);
}

static void write_operation(FILE *out, const bo_profile *profile, size_t number, const size_t *readers, double all,
                            double max_share)
{
    const bo_operation_info *operation = &profile->operations[number];
    const double share = all > 0 ? seconds_of(operation) / all : 0;
    fprintf(out,
            "    operation%zu [fillcolor=\"#%06x\", label=<<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"1\"><TR>"
            "<TD ALIGN=\"LEFT\"><B>",
            number, shade(share, max_share));
    write_text(out, operation->name);
    fputs("</B></TD><TD ALIGN=\"RIGHT\">", out);
    if (all > 0) fprintf(out, "%.1f%%", 100 * share);
    fputs("</TD></TR><TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\"><FONT POINT-SIZE=\"10\">", out);
    for (size_t i = 0; i < operation->outputs; i++) {
        const bo_value_info *value = &profile->values[operation->output[i]];
        fprintf(out, "%s%zu × %zu", i ? ", " : "", value->rows, value->columns);
    }
    fputs("; ", out);
    write_bytes(out, operation->bytes);
    fputs("</FONT></TD></TR>", out);
    if (seconds_of(operation) > 0) write_times(out, operation);
    for (size_t i = 0; i < operation->inputs; i++) {
        const bo_value_info *value = &profile->values[operation->input[i]];
        if (value->origin != BO_VALUE_ORIGIN_OPERATION && !is_box(value, readers[operation->input[i]]))
            write_line(out, value);
    }
    fputs("</TABLE>>];\n", out);
}

static void write_edges(FILE *out, const bo_profile *profile, size_t number, const size_t *readers)
{
    const bo_operation_info *operation = &profile->operations[number];
    for (size_t i = 0; i < operation->inputs; i++) {
        const size_t from = operation->input[i];
        const bo_value_info *value = &profile->values[from];
        if (is_box(value, readers[from]))
            fprintf(out, "  value%zu -> operation%zu [color=\"#4a7fb0\"];\n", from, number);
        else if (value->origin == BO_VALUE_ORIGIN_OPERATION)
            fprintf(out, "  operation%zu -> operation%zu [tooltip=\"%zu × %zu %s\"];\n", value->operation, number,
                    value->rows, value->columns, value->type);
    }
}

/* ---- graph ------------------------------------------------------------------------------------------------------- */

static void write_title(FILE *out, const bo_profile_totals *totals)
{
    fputs("  label=<<B>", out);
    write_text(out, totals->subject);
    fputs("</B><BR/>", out);
    if (totals->repeats) {
        write_seconds(out, totals->forward + totals->again + totals->backward + totals->rounding);
        fputs(" in operations: forward ", out);
        write_seconds(out, totals->forward);
        if (totals->again > 0) fputs(", recomputation ", out), write_seconds(out, totals->again);
        if (totals->backward > 0) fputs(", backward ", out), write_seconds(out, totals->backward);
        if (totals->rounding > 0) fputs(", rounding ", out), write_seconds(out, totals->rounding);
        fprintf(out, "; %d thread%s, medians of %zu run%s<BR/>", totals->threads, totals->threads == 1 ? "" : "s",
                totals->repeats, totals->repeats == 1 ? "" : "s");
    }
    write_bytes(out, totals->bytes);
    fputs(" of activations and their gradients, ", out);
    write_bytes(out, totals->weight_bytes);
    fputs(" of weights<BR/><FONT POINT-SIZE=\"10\">Color: share of the time. Bytes of an operation: its outputs and "
          "the data that it saves for backward. ■ weight, ▷ input</FONT><BR/> >;\n",
          out);
}

/* Writes the operations, with a frame around adjacent operations of the same scope. */
static void write_operations(FILE *out, const bo_profile *profile, const size_t *readers, double all, double max_share)
{
    const char *scope = NULL;
    for (size_t i = 0; i < profile->operation_count; i++) {
        const bo_operation_info *operation = &profile->operations[i];
        if (!scope || strcmp(scope, operation->scope) != 0) {
            if (scope) fputs("  }\n", out);
            scope = operation->scope;
            fprintf(out, "  subgraph cluster%zu {\n    label=<<B>", i);
            write_text(out, scope);
            fputs("</B>>;\n", out);
        }
        write_operation(out, profile, i, readers, all, max_share);
    }
    if (scope) fputs("  }\n", out);
}

bo_status bo_profile_draw(bo_context *context, const bo_profile *profile, FILE *out)
{
    BO_REQUIRE(context, profile, out);
    BO_REQUIRE(context, profile->totals.subject);
    BO_REQUIRE_IF(context, profile->operation_count > 0, profile->operations);
    BO_REQUIRE_IF(context, profile->value_count > 0, profile->values);
    size_t *readers;
    double all = 0, max_share = 0;
    BO_TRY(count_readers(context, profile, &readers));
    for (size_t i = 0; i < profile->operation_count; i++) {
        const double seconds = seconds_of(&profile->operations[i]);
        all += seconds;
        if (seconds > max_share) max_share = seconds;
    }
    fputs("digraph profile {\n"
          "  graph [charset=\"UTF-8\", fontname=\"Helvetica\", fontsize=12, label"
          "loc=t, nodesep=0.25, ranksep=0.3];\n"
          "  node [shape=box, style=filled, fillcolor=white, color=\"#888888\", fontname=\"Helvetica\", fontsize=12, "
          "margin=\"0.06,0.03\"];\n"
          "  edge [color=\"#888888\", arrowsize=0.6];\n",
          out);
    write_title(out, &profile->totals);
    fputs("  subgraph { graph [labeljust=l, style=\"rounded,filled\", fillcolor=\"#f4f4f4\", color=\"#cccccc\"];\n",
          out);
    write_operations(out, profile, readers, all, all > 0 ? max_share / all : 0);
    fputs("  }\n", out);
    for (size_t i = 0; i < profile->value_count; i++)
        if (is_box(&profile->values[i], readers[i])) write_input(out, i, &profile->values[i]);
    for (size_t i = 0; i < profile->operation_count; i++) write_edges(out, profile, i, readers);
    fputs("}\n", out);
    bo_free(readers);
    return ferror(out) ? bo_fail(context, BO_IO, "the graph could not be written") : BO_OK;
}
