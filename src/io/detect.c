/* Detects the format of a file from its first bytes. Binary formats have signatures; a text format is accepted if all
 * of the first lines match it. */
#include "foreign.h"
#include "reader.h"

#include <string.h>
#include <strings.h>

/* The first complete records of the file. */
typedef struct bo_detect_sample {
    const char *text, *end;
    bool whole; /* the sample is the whole file */
} bo_detect_sample;

/* The next record of the sample that is not empty or a comment; false at the end or before an incomplete record. */
static bool sample_next(const bo_detect_sample *sample, char delimiter, const char **at, const char **text,
                        const char **end)
{
    while (*at < sample->end) {
        const char *start = *at, *stop = sample->end;
        bo_record_end found = bo_record_find(start, sample->end, delimiter, &stop);
        if (found == BO_RECORD_OPEN_QUOTE || (found == BO_RECORD_MORE && !sample->whole)) return false;
        *at = stop + (found == BO_RECORD_FOUND);
        if (stop > start && stop[-1] == '\r') --stop;
        const char *p = start;
        while (p < stop && (*p == ' ' || *p == '\t')) ++p;
        if (p == stop || ((delimiter == ' ' || delimiter == 0) && *start == '#')) continue;
        *text = start;
        *end = stop;
        return true;
    }
    return false;
}

/* ---- libsvm ------------------------------------------------------------------------------------------------------ */

static bool is_index(const char *text, const char *end)
{
    if (end - text == 3 && memcmp(text, "qid", 3) == 0) return true;
    for (const char *p = text; p < end; ++p)
        if (*p < '0' || *p > '9') return false;
    return text < end;
}

/* label index:value index:value …; *pairs is increased by the number of pairs. */
static bool is_libsvm_line(const char *text, const char *end, size_t *pairs)
{
    const char *comment = memchr(text, '#', (size_t)(end - text)), *at = text;
    bool last = false;
    if (comment) end = comment;
    for (size_t i = 0; !last && at < end; ++i) {
        bo_reader_field field;
        double value;
        bo_field_next(' ', &at, end, &field, &last);
        if (field.text == field.end) break;
        const char *colon = memchr(field.text, ':', (size_t)(field.end - field.text));
        if (i == 0) {
            const char *stop = memchr(field.text, ',', (size_t)(field.end - field.text)); /* multiple labels: 1,3 */
            if (colon || bo_cell_read(field.text, stop ? stop : field.end, &value) != BO_CELL_NUMBER) return false;
        } else {
            if (!colon || !is_index(field.text, colon)) return false;
            if (bo_cell_read(colon + 1, field.end, &value) == BO_CELL_TEXT) return false;
            ++*pairs;
        }
    }
    return true;
}

static bool is_libsvm(const bo_detect_sample *sample)
{
    const char *at = sample->text, *text, *end;
    size_t pairs = 0, records = 0;
    while (records < BO_SAMPLE_RECORDS && sample_next(sample, 0, &at, &text, &end)) {
        if (!is_libsvm_line(text, end, &pairs)) return false;
        ++records;
    }
    return pairs > 0;
}

/* A libsvm file name and a matching first line are enough: the reader then reports the line that does not match. */
static bool is_called_libsvm(const bo_detect_sample *sample, const char *path)
{
    const char *at = sample->text, *text, *end, *name = strrchr(path, '/');
    size_t pairs = 0;
    name = name ? name : path;
    if (!strstr(name, ".libsvm") && !strstr(name, ".svm")) return false;
    return sample_next(sample, 0, &at, &text, &end) && is_libsvm_line(text, end, &pairs) && pairs > 0;
}

/* ---- delimited --------------------------------------------------------------------------------------------------- */

/* Numbers with decimal commas are numbers where commas do not separate fields. */
static bo_cell_kind sample_cell(const bo_reader_field *field, char delimiter)
{
    static const bo_number_form commas = {',', '.'};
    double value;
    const bo_cell_kind kind = bo_cell_read(field->text, field->end, &value);
    return kind == BO_CELL_TEXT && delimiter != ',' ? bo_cell_read_form(&commas, field->text, field->end, &value)
                                                    : kind;
}

/* The number of fields per record, or 0 if it differs or a record is malformed. *texts: the share of text cells after
 * the first record. */
static size_t consistent_fields(const bo_detect_sample *sample, char delimiter, double *texts)
{
    const char *at = sample->text, *text, *end;
    size_t fields = 0, records = 0, cells = 0, text_cells = 0;
    *texts = 0;
    while (records < BO_SAMPLE_RECORDS && sample_next(sample, delimiter, &at, &text, &end)) {
        size_t count = 0;
        for (bool last = false; !last; ++count) {
            bo_reader_field field;
            if (!bo_field_next(delimiter, &text, end, &field, &last)) return 0;
            if (records > 0) text_cells += sample_cell(&field, delimiter) == BO_CELL_TEXT;
        }
        if (records > 0) cells += count;
        if (records++ == 0)
            fields = count;
        else if (fields != count)
            return 0;
    }
    *texts = cells ? (double)text_cells / (double)cells : 0;
    return fields;
}

/* Whitespace separates numbers in every record; the first may be a header. *fields is 0 if the counts differ. */
static bool is_spaced(const bo_detect_sample *sample, size_t *fields)
{
    const char *at = sample->text, *text, *end;
    size_t records = 0, texts = 0;
    while (records < BO_SAMPLE_RECORDS && sample_next(sample, ' ', &at, &text, &end)) {
        size_t count = 0;
        for (bool last = false; !last; ++count) {
            bo_reader_field field;
            double value;
            bo_field_next(' ', &text, end, &field, &last);
            bool is_text = bo_cell_read(field.text, field.end, &value) == BO_CELL_TEXT;
            if (is_text && records > 0) return false;
            texts += is_text;
        }
        if (records++ == 0)
            *fields = count;
        else if (*fields != count)
            *fields = 0;
    }
    return records > 0 && (texts == 0 || (records > 1 && *fields > 1));
}

/* A field between two tabs is empty: tabs are delimiters, not whitespace. */
static bool tabs_have_gaps(const bo_detect_sample *sample)
{
    const char *at = sample->text, *text, *end;
    for (size_t records = 0; records < BO_SAMPLE_RECORDS && sample_next(sample, '\t', &at, &text, &end); ++records) {
        bool last = false;
        for (size_t i = 0; !last; ++i) {
            bo_reader_field field;
            double value;
            if (!bo_field_next('\t', &text, end, &field, &last)) return false;
            if (i > 0 && !last && !field.quoted && bo_cell_read(field.text, field.end, &value) == BO_CELL_MISSING &&
                (field.text == field.end || *field.text == ' '))
                return true;
        }
    }
    return false;
}

/* Whitespace separates values that are not all numbers: every record has the same number of fields, at least two, and
 * some column has only numbers below the first record. */
static bool is_spaced_table(const bo_detect_sample *sample)
{
    enum { MAX_FIELDS = 256 };
    const char *at = sample->text, *text, *end;
    size_t fields = 0, records = 0;
    bool texts[MAX_FIELDS] = {false};
    while (records < BO_SAMPLE_RECORDS && sample_next(sample, ' ', &at, &text, &end)) {
        size_t count = 0;
        for (bool last = false; !last; ++count) {
            bo_reader_field field;
            bo_field_next(' ', &text, end, &field, &last);
            if (records > 0 && count < MAX_FIELDS) texts[count] |= sample_cell(&field, ' ') == BO_CELL_TEXT;
        }
        if (records++ == 0)
            fields = count;
        else if (fields != count)
            return false;
    }
    for (size_t i = 0; i < fields && i < MAX_FIELDS; ++i)
        if (!texts[i]) return records > 1 && fields > 1;
    return false;
}

static const char delimiters[] = {',', ';', '\t', '|'};

/* The delimiter that divides all records into the same number of fields, at least two. If there are several, the one
 * with the smallest share of text, then the one with the most fields. 0: none. */
static char consistent_delimiter(const bo_detect_sample *sample)
{
    char best = 0;
    size_t best_fields = 1;
    double best_texts = 0;
    for (size_t i = 0; i < sizeof delimiters; ++i) {
        double texts;
        const size_t fields = consistent_fields(sample, delimiters[i], &texts);
        if (fields < 2 || (best && (texts > best_texts || (texts == best_texts && fields <= best_fields)))) continue;
        best = delimiters[i];
        best_fields = fields;
        best_texts = texts;
    }
    return best;
}

static bo_text_form delimited_form(const bo_detect_sample *sample, const char *path)
{
    bo_text_form form = {.format = BO_FORMAT_CSV, .delimiter = ','};
    const bo_text_form spaced_form = {.format = BO_FORMAT_SPACED, .delimiter = ' '};
    const char best = consistent_delimiter(sample);
    if (best && best != '\t') {
        form.delimiter = best;
        return form;
    }
    size_t fields = 0;
    const bool spaced = is_spaced(sample, &fields), tabs = best == '\t';
    if (spaced && (!tabs || (fields && !tabs_have_gaps(sample)))) return spaced_form;
    if (tabs) {
        form.delimiter = '\t';
        return form;
    }
    /* No delimiter is consistent: use the delimiter of the first record, so that the reader can report the first bad
     * line. */
    const char *at = sample->text, *text, *end;
    size_t length = strlen(path);
    if (!sample_next(sample, ',', &at, &text, &end)) return form;
    for (size_t i = 0; i < sizeof delimiters; ++i)
        if (memchr(text, delimiters[i], (size_t)(end - text))) {
            form.delimiter = delimiters[i];
            return form;
        }
    if (is_spaced_table(sample)) return spaced_form;
    if (length > 4 && strcasecmp(path + length - 4, ".tsv") == 0) form.delimiter = '\t';
    return form;
}

/* The number format, from the cells below the first record. */
static bo_number_form find_number_form(const bo_detect_sample *sample, char delimiter)
{
    const char *at = sample->text, *text, *end;
    bo_number_signs signs = {0};
    for (size_t records = 0; records < BO_SAMPLE_RECORDS && sample_next(sample, delimiter, &at, &text, &end); ++records)
        for (bool last = false; !last;) {
            bo_reader_field field;
            if (!bo_field_next(delimiter, &text, end, &field, &last)) break;
            bo_number_signs_add(&signs, field.text, field.end);
        }
    return bo_number_form_find(&signs, delimiter);
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

typedef struct bo_first_cell {
    bo_cell_kind kind;
    const char *text, *end;
} bo_first_cell;

/* One column: *names is set if the first cell is text and the others are numbers (a header); *reappears is set if the
 * first cell occurs again below (a value, not a name). */
static void examine_column(const bo_detect_sample *sample, const bo_text_form *form, size_t column,
                           const bo_first_cell *first, bool *names, bool *reappears)
{
    const char delimiter = form->delimiter;
    const char *at = sample->text, *text, *end;
    size_t records = 0, numbers = 0, texts = 0;
    while (records < BO_SAMPLE_RECORDS && sample_next(sample, delimiter, &at, &text, &end)) {
        bo_reader_field field = {0};
        bool last = false;
        size_t i = 0;
        if (records++ == 0) continue;
        for (; !last && i <= column; ++i)
            if (!bo_field_next(delimiter, &text, end, &field, &last)) return;
        if (i <= column) return;
        double value;
        bo_cell_kind kind = bo_cell_read_form(&form->number, field.text, field.end, &value);
        numbers += kind == BO_CELL_NUMBER;
        texts += kind == BO_CELL_TEXT;
        if (field.end - field.text == first->end - first->text &&
            memcmp(field.text, first->text, (size_t)(field.end - field.text)) == 0)
            *reappears = true;
    }
    if (first->kind == BO_CELL_TEXT && numbers > 0 && texts == 0) *names = true;
}

/* Examines only the first columns, so that wide files are fast. */
static bool has_header(const bo_detect_sample *sample, const bo_text_form *form)
{
    const char delimiter = form->delimiter;
    const char *at = sample->text, *text, *end;
    bool names = false, reappears = false, all_text = true, last = false;
    bo_first_cell first[256];
    size_t count = 0;
    if (!sample_next(sample, delimiter, &at, &text, &end)) return false;
    while (!last && count < sizeof first / sizeof *first) {
        bo_reader_field field;
        double value;
        if (!bo_field_next(delimiter, &text, end, &field, &last)) return false;
        bo_first_cell cell = {bo_cell_read_form(&form->number, field.text, field.end, &value), field.text, field.end};
        all_text &=
            cell.kind == BO_CELL_TEXT || (count == 0 && cell.text == cell.end); /* the index of a pandas DataFrame */
        for (size_t i = 0; i < count; ++i)
            if (cell.end - cell.text == first[i].end - first[i].text &&
                memcmp(cell.text, first[i].text, (size_t)(cell.end - cell.text)) == 0)
                all_text = false; /* repeated texts are values, unless the columns indicate a header */
        first[count++] = cell;
    }
    for (size_t i = 0; i < count && !names; ++i) examine_column(sample, form, i, &first[i], &names, &reappears);
    return names || (all_text && !reappears);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Reads a sample with at least two complete records, if the file has them. */
static bo_status take_sample(bo_context *context, bo_bytes *bytes, bo_detect_sample *sample)
{
    const unsigned char *data;
    size_t have;
    for (size_t size = BO_SAMPLE_BYTES;; size *= 16) {
        BO_TRY(bo_bytes_peek(context, bytes, size, &data, &have));
        sample->text = (const char *)data;
        sample->end = sample->text + have;
        sample->whole = have < size;
        if (have >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) sample->text += 3;
        const char *newline = memchr(sample->text, '\n', (size_t)(sample->end - sample->text));
        if (sample->whole || size >= BO_MAX_SAMPLE_BYTES) return BO_OK;
        if (newline && memchr(newline + 1, '\n', (size_t)(sample->end - newline - 1))) return BO_OK;
    }
}

static bo_status refuse_foreign(bo_context *context, const char *path, bo_format requested,
                                const bo_detect_sample *sample)
{
    const char *data = sample->text;
    const size_t have = (size_t)(sample->end - sample->text);
    BO_TRY(bo_foreign_refuse(context, path, data, have, BO_READABLE_TABLES));
    if (have > 0 && memchr(data, 0, have)) return bo_foreign_unknown(context, path, BO_READABLE_TABLES);
    if (have > 0 && !memchr(data, '\n', have) && memchr(data, '\r', have - (data[have - 1] == '\r')))
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: expected lines that end in a line feed, found only carriage returns; convert them, for "
                       "example: tr '\\r' '\\n' < %s > data.csv",
                       path, path);
    return requested == BO_FORMAT_AUTO ? bo_foreign_refuse_text(context, path, data, have, BO_READABLE_TABLES) : BO_OK;
}

bo_status bo_detect(bo_context *context, bo_bytes *bytes, bo_format requested, bo_text_form *form)
{
    const char *path = bo_bytes_path(bytes);
    const unsigned char *data;
    size_t have;
    *form = (bo_text_form){.format = requested};
    BO_TRY(bo_bytes_peek(context, bytes, 8, &data, &have));
    if (have == 0) return bo_fail(context, BO_FORMAT, "%s: the file is empty", path);
    if (requested == BO_FORMAT_NPY || requested == BO_FORMAT_IDX) return BO_OK;
    if (requested == BO_FORMAT_AUTO && have >= 6 && memcmp(data, "\x93NUMPY", 6) == 0) form->format = BO_FORMAT_NPY;
    if (requested == BO_FORMAT_AUTO && have >= 4 && data[0] == 0 && data[1] == 0 && data[2] >= 8 && data[2] <= 14)
        form->format = BO_FORMAT_IDX;
    if (form->format == BO_FORMAT_NPY || form->format == BO_FORMAT_IDX) return BO_OK;
    bo_detect_sample sample;
    BO_TRY(take_sample(context, bytes, &sample));
    BO_TRY(refuse_foreign(context, path, requested, &sample));
    const char *p = sample.text;
    while (p < sample.end && strchr(" \t\r\n", *p)) ++p;
    if (p == sample.end && sample.whole) return bo_fail(context, BO_FORMAT, "%s: the file is empty", path);
    if (requested == BO_FORMAT_LIBSVM ||
        (requested == BO_FORMAT_AUTO && (is_libsvm(&sample) || is_called_libsvm(&sample, path)))) {
        form->format = BO_FORMAT_LIBSVM;
        return BO_OK;
    }
    *form = requested == BO_FORMAT_SPACED ? (bo_text_form){.format = requested, .delimiter = ' '}
                                          : delimited_form(&sample, path);
    if (requested == BO_FORMAT_CSV && form->format == BO_FORMAT_SPACED) {
        double texts;
        bool tabs = consistent_fields(&sample, '\t', &texts) > 1;
        *form = (bo_text_form){.format = BO_FORMAT_CSV, .delimiter = tabs ? '\t' : ','};
    }
    form->number = find_number_form(&sample, form->delimiter);
    form->header = has_header(&sample, form);
    return BO_OK;
}
