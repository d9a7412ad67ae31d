/* An ordered set of labels, each a number or a text: the categories of a column or the classes of a target. Numbers are
 * compared by value, so that 1, 1.0 and "1" are the same label. */
#ifndef BO_IO_CATEGORIES_H
#define BO_IO_CATEGORIES_H

#include "../base/base.h"

enum { BO_MAX_CATEGORIES = 1 << 16 };

typedef struct bo_category {
    char *text;
    double number;
    bool numeric;
} bo_category;

/* `table` is an open-addressed hash table: index + 1 of an item, or 0. */
typedef struct bo_categories {
    bo_category *items;
    size_t count, capacity;
    uint32_t *table;
    size_t table_size;
} bo_categories;

void bo_categories_free(bo_categories *set);
/* A hash of `text`, or of `number` if text is NULL. */
uint64_t bo_label_hash(double number, const char *text);
/* Finds `text`, or `number` if text is NULL. SIZE_MAX: not found. */
size_t bo_categories_find(const bo_categories *set, double number, const char *text);
/* Adds a label if it is new. BO_INVALID, without a message, if the set is full (BO_MAX_CATEGORIES). */
bo_status bo_categories_add(bo_context *context, bo_categories *set, double number, const char *text);
/* Adds a label of a saved schema: a number if it can be read as one. */
bo_status bo_categories_add_label(bo_context *context, bo_categories *set, const char *label);
/* By value if all labels are numbers, otherwise by the bytes of the text. */
void bo_categories_sort(bo_categories *set);

#endif
