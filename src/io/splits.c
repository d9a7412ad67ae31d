/* Assigns rows to training, validation and test: by a hash of the row number, by a permutation, or from a file. */
#include <math.h>
#include <string.h>
#include "splits.h"
#include "enums.h"
#include "../base/rng.h"
#include "schema.h"

enum { BLOCK_ROWS = 4096 };

static const char *const split_names[BO_SPLIT_COUNT] = {"train", "valid", "test"};
BO_NAMED(split, bo_split, split_names)

/* ---- at random --------------------------------------------------------------------------------------------------- */

bo_split bo_split_row(const bo_split_desc *desc, uint64_t row)
{
    if (!desc) return BO_SPLIT_TRAIN;
    if (desc->folds) return bo_hash(desc->seed, row) % desc->folds == desc->fold ? BO_SPLIT_TEST : BO_SPLIT_TRAIN;
    if (!(desc->valid > 0) && !(desc->test > 0)) return BO_SPLIT_TRAIN;
    const double place = (double)(bo_hash(desc->seed, row) >> 11) * 0x1p-53; /* in [0, 1) */
    return place < desc->test ? BO_SPLIT_TEST : place < desc->test + desc->valid ? BO_SPLIT_VALID : BO_SPLIT_TRAIN;
}

bo_status bo_split_check(bo_context *context, const bo_split_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_split_desc", desc->reserved));
    if (desc->folds && (desc->folds < 2 || desc->fold >= desc->folds || desc->valid != 0 || desc->test != 0))
        return bo_fail(
            context, BO_INVALID,
            "split: expected at least 2 folds, a fold below their number and no fractions, found fold %zu of "
            "%zu and fractions %g and %g",
            desc->fold, desc->folds, desc->valid, desc->test);
    if (desc->valid >= 0 && desc->test >= 0 && desc->valid + desc->test < 1) return BO_OK;
    return bo_fail(
        context, BO_INVALID,
        "split: expected fractions for validation and test that are at least 0 and sum to less than 1, found %g and %g",
        desc->valid, desc->test);
}

bo_status bo_split_rows(bo_context *context, const bo_split_desc *desc, size_t rows, bo_split *splits)
{
    BO_REQUIRE(context, desc);
    BO_REQUIRE_IF(context, rows > 0, splits);
    BO_TRY(bo_split_check(context, desc));
    const size_t valid_rows = (size_t)ceil(desc->valid * (double)rows),
                 test_rows = (size_t)ceil(desc->test * (double)rows);
    for (size_t i = 0; i < rows; i++) {
        const uint64_t at = bo_permute(desc->seed, 0, rows, i);
        if (desc->folds) {
            splits[i] = at % desc->folds == desc->fold ? BO_SPLIT_TEST : BO_SPLIT_TRAIN;
            continue;
        }
        splits[i] = at < valid_rows ? BO_SPLIT_VALID : at < valid_rows + test_rows ? BO_SPLIT_TEST : BO_SPLIT_TRAIN;
    }
    return BO_OK;
}

/* ---- from a file ------------------------------------------------------------------------------------------------- */

static bo_status read_split(bo_context *context, const bo_reader *reader, const bo_data_block *block, size_t row,
                            bo_split *out)
{
    const char *text = block->text ? block->text[row * block->columns] : NULL;
    const double value = block->cells[row * block->columns];
    char place[BO_PLACE_TEXT];
    *out = BO_SPLIT_NONE;
    if (text && strcmp(text, "none") == 0) return BO_OK;
    if (text && bo_split_parse(text, out)) return BO_OK;
    if (value == -1) return BO_OK;
    if (value >= 0 && value < BO_SPLIT_COUNT && value == floor(value)) {
        *out = (bo_split)value;
        return BO_OK;
    }
    bo_place(reader, block->first_row + row, block->lines ? block->lines[row] : 0, 0, place);
    return bo_fail(context, BO_FORMAT, "%s: expected train, valid, test or none (0, 1, 2 or -1)%s%.40s", place,
                   text ? ", found " : "", text ? text : "");
}

static bo_status read_splits(bo_context *context, bo_reader *reader, size_t rows, bo_split *splits)
{
    bo_data_block block;
    size_t done = 0;
    for (;;) {
        BO_TRY(bo_reader_next(context, reader, BLOCK_ROWS, &block));
        for (size_t i = 0; i < block.rows && done < rows; i++)
            BO_TRY(read_split(context, reader, &block, i, &splits[done++]));
        if (!block.rows) break;
        if (done == rows && block.first_row + block.rows > rows) done = rows + 1;
        if (done > rows) break;
    }
    if (done == rows) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: expected %zu rows, as in the data, found %s", bo_reader_path(reader), rows,
                   done > rows ? "more" : "fewer");
}

bo_status bo_split_load(bo_context *context, const char *path, size_t rows, bo_split *splits)
{
    BO_REQUIRE(context, path);
    BO_REQUIRE_IF(context, rows > 0, splits);
    bo_reader *reader;
    BO_TRY(bo_reader_open(context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 0, &reader));
    const bo_status status = read_splits(context, reader, rows, splits);
    bo_reader_close(reader);
    return status;
}
