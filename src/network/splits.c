/* Which rows are for training, validation and test. */
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "../io/schema.h"
#include "examples.h"

enum { BLOCK_ROWS = 4096, NONE = -1 };

/* Rows in order of their parts; `parts` says -1 of those in none. */
static bo_status arrange(bo_context *context, bo_examples *examples, const signed char *parts)
{
    size_t *order = bo_alloc(context, examples->rows, sizeof *order, "parts of the rows"), used = 0;
    if (!order) return BO_MEMORY;
    for (int p = 0; p < BO_SPLIT_COUNT; p++) {
        examples->begin[p] = used;
        for (size_t i = 0; i < examples->rows; i++)
            if (parts[i] == p) order[used++] = i;
    }
    examples->begin[BO_SPLIT_COUNT] = used;
    bo_free(examples->order);
    examples->order = order;
    if (examples->begin[1] == 0) return bo_fail(context, BO_INVALID, "no rows are left for training");
    return BO_OK;
}

/* ---- by chance ------------------------------------------------------------------------------------------------------------- */

static bool has_target(const bo_examples *examples, size_t row)
{
    return !examples->y || !examples->classes || examples->y[row * examples->targets] >= 0;
}

bo_status bo_examples_split(bo_context *context, bo_examples *examples, double valid, double test, uint64_t seed)
{
    if (!(valid >= 0 && test >= 0 && valid + test < 1))
        return bo_fail(context, BO_INVALID,
                       "parts of the rows for validation and test should leave some for training, "
                       "found %g and %g",
                       valid, test);
    signed char *parts = bo_alloc(context, examples->rows, 1, "parts of the rows");
    if (!parts) return BO_MEMORY;
    size_t count = 0, index = 0;
    for (size_t i = 0; i < examples->rows; i++) count += has_target(examples, i);
    const size_t held = (size_t)ceil(valid * (double)count), tested = (size_t)ceil(test * (double)count);
    for (size_t i = 0; i < examples->rows; i++) {
        parts[i] = NONE;
        if (!has_target(examples, i)) continue;
        const uint64_t at = bo_permute(seed, 0, count, index++);
        parts[i] = at < held ? BO_SPLIT_VALID : at < held + tested ? BO_SPLIT_TEST : BO_SPLIT_TRAIN;
    }
    const bo_status status = arrange(context, examples, parts);
    bo_free(parts);
    return status;
}

/* ---- from a file ----------------------------------------------------------------------------------------------------------- */

static bo_status read_part(bo_context *context, const bo_reader *reader, const bo_data_block *block, size_t row,
                           signed char *out)
{
    const char *text = block->text ? block->text[row * block->columns] : NULL;
    const double value = block->cells[row * block->columns];
    char place[BO_PLACE_TEXT];
    bo_split part;
    *out = NONE;
    if (text && strcmp(text, "none") == 0) return BO_OK;
    if (text && bo_split_parse(text, &part)) {
        *out = (signed char)part;
        return BO_OK;
    }
    if (!text && value >= -1 && value < BO_SPLIT_COUNT && value == floor(value)) {
        *out = (signed char)value;
        return BO_OK;
    }
    bo_place(reader, block->first_row + row, block->lines ? block->lines[row] : 0, 0, place);
    return bo_fail(context, BO_FORMAT, "%s: a part should be train, valid, test or none (0, 1, 2 or -1)%s%.40s", place,
                   text ? ", found " : "", text ? text : "");
}

static bo_status read_parts(bo_context *context, bo_reader *reader, size_t rows, signed char *parts)
{
    bo_data_block block;
    size_t done = 0;
    for (;;) {
        BO_TRY(bo_reader_next(context, reader, BLOCK_ROWS, &block));
        for (size_t i = 0; i < block.rows && done < rows; i++)
            BO_TRY(read_part(context, reader, &block, i, &parts[done++]));
        if (!block.rows) break;
        if (done == rows && block.first_row + block.rows > rows) done = rows + 1;
        if (done > rows) break;
    }
    if (done == rows) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: has %s rows than the %zu of the data", bo_reader_path(reader),
                   done > rows ? "more" : "fewer", rows);
}

bo_status bo_splits_load(bo_context *context, const char *path, bo_examples *examples)
{
    bo_reader *reader;
    BO_TRY(bo_reader_open(context, path, BO_FORMAT_AUTO, 0, &reader));
    signed char *parts = bo_alloc(context, examples->rows, 1, "parts of the rows");
    bo_status status = parts ? read_parts(context, reader, examples->rows, parts) : BO_MEMORY;
    bo_reader_close(reader);
    if (status == BO_OK) status = arrange(context, examples, parts);
    bo_free(parts);
    return status;
}
