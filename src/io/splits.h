/* Parts of a known number of rows. */
#ifndef BO_IO_SPLITS_H
#define BO_IO_SPLITS_H

#include "../base/base.h"
#include <bochner/data.h>

/* The part of each row; exactly ⌈valid · rows⌉ and ⌈test · rows⌉ are held out. */
bo_status bo_split_rows(bo_context *context, const bo_split_desc *desc, size_t rows, bo_split *splits);
/* Reads the part of each row from a file with one line per row: "train", "valid", "test" or "none" (or 0, 1, 2, -1).
 * BO_FORMAT if it has another number of rows. */
bo_status bo_split_load(bo_context *context, const char *path, size_t rows, bo_split *splits);

#endif
