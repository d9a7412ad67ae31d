/* Files of labeled lines: reading, checks, selection. */
#include "lines.h"
#include "unicode.h"
#include "../base/rng.h"
#include "../base/tiny.h"
#include "../io/numbers.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The meaning of the fields of a line. */
typedef struct bo_columns {
    bool labeled;
    size_t sides;
    const char *expected, *names[BO_MAX_SIDES];
} bo_columns;

static const bo_columns columns_of[BO_TEXTS_KIND_COUNT] = {
    [BO_TEXTS_LABELED] = {true, 1, "label, tab, text", {"text"}},
    [BO_TEXTS_LABELED_PAIR] = {true, 2, "label, tab, text, tab, text", {"first text", "second text"}},
    [BO_TEXTS_PAIR] = {false, 2, "source, tab, target", {"source", "target"}},
    [BO_TEXTS_ALONE] = {false, 1, "a text alone", {"text"}},
    [BO_TEXTS_ALONE_PAIR] = {false, 2, "text, tab, text", {"first text", "second text"}},
};

typedef struct bo_line_field {
    const char *text;
    size_t bytes;
} bo_line_field;

const char *bo_side_name(bo_texts_kind kind, size_t side)
{
    return columns_of[kind].names[side];
}

/* Writes one character for a message and returns the number of bytes. */
static size_t show_character(const char *text, size_t bytes, size_t rest, char out[8])
{
    const int control = bo_utf8_control(text, rest);
    if (control < 0) memcpy(out, text, bytes);
    return control < 0 ? bytes : (size_t)snprintf(out, 8, control == '\t' ? "\\t" : "\\x%02x", (unsigned)control);
}

enum { EXCERPT = 64 };
/* Writes the start of a text for a message, in quotes, cut between characters; control characters appear as \t or
 * \x1b. */
static const char *excerpt(const char *text, size_t bytes, char out[EXCERPT])
{
    static const char more[] = "…\"";
    size_t length = 1, at = 0, next;
    out[0] = '"';
    while (at < bytes && (next = bo_utf8_length(text + at, bytes - at)) > 0) {
        char shown[8];
        const size_t wide = show_character(text + at, next, bytes - at, shown);
        if (length + wide + sizeof more > EXCERPT) break;
        memcpy(out + length, shown, wide);
        length += wide;
        at += next;
    }
    strcpy(out + length, at < bytes ? more : "\"");
    return out;
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/* Lists classes as "neg, pos"; only the first few of many. */
static void list_classes(const bo_categories *classes, char *out, size_t size)
{
    enum { SHOWN = 8 };
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; i < classes->count && i < SHOWN && used < size; ++i)
        used += (size_t)snprintf(out + used, size - used, "%s%.*s", i ? ", " : "", EXCERPT / 2, classes->items[i].text);
    if (classes->count > SHOWN && used < size) snprintf(out + used, size - used, ", …");
}

static bo_status unknown_class(bo_context *context, const bo_categories *classes, const char *where,
                               const bo_line_field *field)
{
    char shown[EXCERPT], known[512];
    list_classes(classes, known, sizeof known);
    return bo_fail(context, BO_FORMAT, "%s: unknown class %s; expected one of the %zu known classes: %s", where,
                   excerpt(field->text, field->bytes, shown), classes->count, known);
}

static bo_status find_class(bo_context *context, bo_categories *classes, bool closed, const char *where,
                            const bo_line_field *field, int32_t *out)
{
    enum { MAX_LABEL = 255 }; /* maximum that a model accepts */
    char label[MAX_LABEL + 1], shown[EXCERPT];
    if (field->bytes > MAX_LABEL)
        return bo_fail(context, BO_FORMAT, "%s: expected a label of at most %d bytes, found %zu: %s", where, MAX_LABEL,
                       field->bytes, excerpt(field->text, field->bytes, shown));
    if (bo_utf8_has_control(field->text, field->bytes))
        return bo_fail(context, BO_FORMAT, "%s: expected a label without control characters, found %s", where,
                       excerpt(field->text, field->bytes, shown));
    memcpy(label, field->text, field->bytes);
    label[field->bytes] = 0;
    double number = 0;
    const char *end = label + field->bytes;
    const bool numeric =
        bo_cell_read(label, end, &number) == BO_CELL_NUMBER && isfinite(number) && !bo_is_code(label, end);
    const char *text = numeric ? NULL : label;
    size_t found = bo_categories_find(classes, number, text);
    if (found == SIZE_MAX) {
        if (closed) return unknown_class(context, classes, where, field);
        found = classes->count;
        bo_status status = bo_categories_add(context, classes, number, text);
        if (status == BO_INVALID)
            return bo_fail(context, BO_FORMAT, "%s: there are more than %d classes", where, BO_MAX_CATEGORIES);
        BO_TRY(status);
    }
    *out = (int32_t)found;
    return BO_OK;
}

static bo_status take_labels(bo_context *context, const bo_texts_desc *desc, bo_lines *lines)
{
    for (size_t i = 0; i < desc->classes; ++i) {
        bo_status status = bo_categories_add_label(context, &lines->classes, desc->labels[i]);
        if (status == BO_OK && lines->classes.count == i + 1) continue;
        if (status == BO_OK || status == BO_INVALID)
            return bo_fail(context, BO_INVALID,
                           "labels: the class \"%s\" is listed twice or exceeds the maximum number of classes",
                           desc->labels[i]);
        return status;
    }
    return BO_OK;
}

/* Sorts the classes of the file and renumbers the labels. */
static bo_status sort_classes(bo_context *context, bo_lines *lines)
{
    const size_t count = lines->classes.count;
    bo_category *before = bo_alloc_raw(context, count, sizeof *before, "classes");
    int32_t *moved = bo_alloc_raw(context, count, sizeof *moved, "classes");
    if (before && moved) {
        memcpy(before, lines->classes.items, count * sizeof *before);
        bo_categories_sort(&lines->classes);
        for (size_t i = 0; i < count; ++i)
            moved[i] = (int32_t)bo_categories_find(&lines->classes, before[i].number,
                                                   before[i].numeric ? NULL : before[i].text);
        for (size_t i = 0; i < lines->count; ++i) lines->items[i].label = moved[lines->items[i].label];
    }
    const bool made = before && moved;
    bo_free(before);
    bo_free(moved);
    return made ? BO_OK : BO_MEMORY;
}

/* ---- one line ---------------------------------------------------------------------------------------------------- */

static bo_status check_bytes(bo_context *context, const char *where, const bo_line_field *line)
{
    const size_t valid = bo_utf8_valid(line->text, line->bytes);
    if (valid < line->bytes)
        return bo_fail(context, BO_FORMAT, "%s: byte %zu of the line (0x%02x) is not UTF-8", where, valid + 1,
                       (unsigned char)line->text[valid]);
    const char *nul = memchr(line->text, 0, line->bytes);
    if (nul)
        return bo_fail(context, BO_FORMAT, "%s: byte %zu of the line is NUL, which is not allowed in text", where,
                       (size_t)(nul - line->text) + 1);
    return BO_OK;
}

/* Splits a line into `field_count` fields. */
static bo_status split_fields(bo_context *context, const char *where, const bo_columns *columns,
                              const bo_line_field *line, size_t field_count, bo_line_field *fields)
{
    const char *at = line->text, *end = at + line->bytes;
    size_t tabs = 0;
    char shown[EXCERPT];
    for (const char *tab; (tab = memchr(at, '\t', (size_t)(end - at))); at = tab + 1, ++tabs)
        if (tabs < field_count) fields[tabs] = (bo_line_field){at, (size_t)(tab - at)};
    if (tabs + 1 == field_count) {
        fields[tabs] = (bo_line_field){at, (size_t)(end - at)};
        return BO_OK;
    }
    if (line->bytes == 0)
        return bo_fail(context, BO_FORMAT, "%s: the line is empty; expected %s", where, columns->expected);
    return bo_fail(context, BO_FORMAT, "%s: expected %s; found %zu tab%s: %s", where, columns->expected, tabs,
                   tabs == 1 ? "" : "s", excerpt(line->text, line->bytes, shown));
}

static bo_status parse_line(bo_context *context, bo_lines *lines, const bo_columns *columns, bool closed,
                            const char *where, const bo_line_field *line, bo_line *out)
{
    bo_line_field fields[1 + BO_MAX_SIDES] = {{0}};
    const size_t labels = columns->labeled ? 1 : 0, field_count = labels + columns->sides;
    BO_TRY(check_bytes(context, where, line));
    BO_TRY(split_fields(context, where, columns, line, field_count, fields));
    for (size_t i = 0; i < field_count; ++i) {
        if (!bo_utf8_is_space_only(fields[i].text, fields[i].bytes)) continue;
        if (!lines->empty || field_count > 1)
            return bo_fail(context, BO_FORMAT, "%s: the %s is empty", where,
                           i < labels ? "label" : columns->names[i - labels]);
        fields[i].bytes = 0;
    }
    if (labels) BO_TRY(find_class(context, &lines->classes, closed, where, &fields[0], &out->label));
    for (size_t s = 0; s < columns->sides; ++s) {
        out->text[s] = fields[labels + s].text;
        out->bytes[s] = fields[labels + s].bytes;
    }
    return BO_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool line_holds(const bo_lines *lines, const bo_line *line)
{
    for (size_t side = 0; side < lines->sides; ++side) {
        const char *text = line->text[side];
        const size_t bytes = line->bytes[side];
        if (bytes == 0 ? !lines->empty : bo_utf8_valid(text, bytes) < bytes || memchr(text, 0, bytes)) return false;
        if (!lines->empty && bo_utf8_is_space_only(text, bytes)) return false;
    }
    return line->label >= -1 && (line->label < 0 || (size_t)line->label < lines->classes.count);
}

static bo_status add(bo_context *context, bo_lines *lines, bo_line line)
{
    assert(!BO_SIZE(false, true) || line_holds(lines, &line)); /* reads every byte: only in test builds */
    if (lines->count == lines->capacity) {
        size_t capacity = lines->capacity ? 2 * lines->capacity : 256;
        bo_line *larger = bo_realloc(context, lines->items, capacity, sizeof *larger, "the lines of a file");
        if (!larger) return BO_MEMORY;
        lines->items = larger;
        lines->capacity = capacity;
    }
    lines->items[lines->count++] = line;
    return BO_OK;
}

/* Removes a byte order mark, and line ends and empty lines after the last text (unless empty lines are texts). */
static bo_line_field body_of(const bo_lines *lines, const bo_mapping *mapping)
{
    bo_line_field body = {mapping->data, mapping->size};
    if (lines->before == 0 && body.bytes >= 3 && memcmp(body.text, "\xef\xbb\xbf", 3) == 0) {
        body.text += 3;
        body.bytes -= 3;
    }
    while (!lines->empty && body.bytes > 0 && body.text[body.bytes - 1] == '\n') {
        size_t shorter = body.bytes - 1;
        if (shorter > 0 && body.text[shorter - 1] == '\r') --shorter;
        body.bytes = shorter;
    }
    return body;
}

bo_status bo_lines_read(bo_context *context, bo_lines *lines, size_t file, bo_texts_kind kind, bool closed)
{
    enum { LINES_PER_REPORT = 4096 };
    const bo_columns *columns = &columns_of[kind];
    const bo_line_field body = body_of(lines, &lines->mappings[file]);
    const char *begin = body.text, *end = begin + body.bytes;
    char where[4200];
    size_t number = lines->before + 1;
    lines->sides = columns->sides;
    for (const char *at = begin, *stop; at < end; at = stop + 1, ++number) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        bo_line_field line = {at, (size_t)(stop - at)};
        if (line.bytes > 0 && stop[-1] == '\r') --line.bytes;
        snprintf(where, sizeof where, "%s, line %zu", lines->paths[file], number);
        bo_line found = {.label = -1, .file = file, .number = number};
        BO_TRY(parse_line(context, lines, columns, closed, where, &line, &found));
        BO_TRY(add(context, lines, found));
        if (number % LINES_PER_REPORT == 0)
            BO_TRY(bo_progress(context, "reading lines", (double)(stop - begin), (double)(end - begin)));
    }
    return BO_OK;
}

static bo_status open_files(bo_context *context, const bo_texts_desc *desc, bo_lines *lines)
{
    const size_t count = desc->memory ? 1 : desc->path_count;
    lines->paths = bo_alloc(context, count, sizeof *lines->paths, "the list of files");
    lines->mappings = bo_alloc(context, count, sizeof *lines->mappings, "the list of files");
    if (!lines->paths || !lines->mappings) return BO_MEMORY;
    lines->file_count = count;
    lines->before = desc->memory ? desc->before : 0;
    lines->empty = desc->empty;
    for (size_t i = 0; i < count; ++i) {
        const char *path = desc->memory ? "-" : desc->paths[i];
        if (!path) return bo_fail(context, BO_INVALID, "texts: the path of file %zu is NULL", i);
        lines->paths[i] = bo_strdup(context, strcmp(path, "-") == 0 ? "standard input" : path);
        if (!lines->paths[i]) return BO_MEMORY;
        BO_TRY(desc->memory ? bo_mapping_copy(context, desc->memory, desc->memory_bytes, &lines->mappings[i])
                            : bo_mapping_read(context, path, &lines->mappings[i]));
        BO_TRY(bo_lines_read(context, lines, i, desc->kind, desc->labels != NULL));
    }
    return BO_OK;
}

/* Selects the part from skip to skip + take of an order drawn from the seed. Both limits are rounded in the same way,
 * so that [0, 0.9) and [0.9, 1) share no line. */
static bo_status select_part(bo_context *context, const bo_texts_desc *desc, bo_lines *lines)
{
    const double skip = desc->skip, take = desc->take > 0 ? desc->take : 1 - skip, all = (double)lines->count;
    if (!(skip >= 0 && skip < 1) || !(desc->take >= 0 && skip + take <= 1 + 1e-9))
        return bo_fail(context, BO_INVALID,
                       "texts: skip %g and take %g: expected fractions from 0 to 1 whose sum is at most 1", skip,
                       desc->take);
    if (skip == 0 && desc->take == 0) return BO_OK;
    size_t first = (size_t)floor(skip * all), last = (size_t)floor((skip + take) * all);
    if (desc->take <= 0 || last > lines->count) last = lines->count;
    if (first >= last)
        return bo_fail(context, BO_INVALID,
                       "%s%s: there are %zu lines; none is left after skipping the fraction %g and taking %g",
                       lines->paths[0], lines->file_count > 1 ? ", …" : "", lines->count, skip, take);
    size_t *order = bo_alloc_raw(context, lines->count, sizeof *order, "the order of lines");
    bo_line *part = bo_alloc_raw(context, last - first, sizeof *part, "a part of the lines");
    if (order && part) {
        bo_rng rng = bo_rng_make(desc->seed, bo_rng_stream("text.lines", 0));
        bo_rng_permutation(&rng, lines->count, order);
        for (size_t i = first; i < last; ++i) part[i - first] = lines->items[order[i]];
        bo_free(lines->items);
        lines->items = part;
        lines->count = lines->capacity = last - first;
    } else {
        bo_free(part);
    }
    bo_free(order);
    return order && part ? BO_OK : BO_MEMORY;
}

static bo_status open_lines(bo_context *context, const bo_texts_desc *desc, bo_lines *lines)
{
    if (desc->labels) BO_TRY(take_labels(context, desc, lines));
    BO_TRY(open_files(context, desc, lines));
    const char *more = lines->file_count > 1 ? ", …" : "";
    if (lines->count == 0) return bo_fail(context, BO_INVALID, "%s%s: contains no text", lines->paths[0], more);
    if (columns_of[desc->kind].labeled && !desc->labels) {
        if (lines->classes.count < 2)
            return bo_fail(context, BO_INVALID, "%s%s: all %zu lines have the class \"%s\"; expected two or more",
                           lines->paths[0], more, lines->count, lines->classes.items[0].text);
        BO_TRY(sort_classes(context, lines));
    }
    return select_part(context, desc, lines);
}

bo_status bo_lines_open(bo_context *context, const bo_texts_desc *desc, bo_lines *out)
{
    *out = (bo_lines){0};
    BO_TRY(bo_check_reserved(context, "bo_texts_desc", desc->reserved));
    if ((unsigned)desc->kind >= BO_TEXTS_KIND_COUNT)
        return bo_fail(context, BO_INVALID, "texts: unknown kind %d; expected 0 to %d", (int)desc->kind,
                       BO_TEXTS_KIND_COUNT - 1);
    if (!desc->memory && (!desc->paths || desc->path_count == 0))
        return bo_fail(context, BO_INVALID, "texts: expected at least one path, found none");
    bo_status status = open_lines(context, desc, out);
    if (status != BO_OK) bo_lines_close(out);
    return status;
}

void bo_lines_close(bo_lines *lines)
{
    for (size_t i = 0; i < lines->file_count; ++i) {
        bo_mapping_close(&lines->mappings[i]);
        bo_free(lines->paths[i]);
    }
    bo_free(lines->paths);
    bo_free(lines->mappings);
    bo_free(lines->items);
    bo_categories_free(&lines->classes);
    *lines = (bo_lines){0};
}
