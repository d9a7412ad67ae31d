/* A set of labels, each a number or a text, in an order: the categories of a column, the classes of a target. A number
 * is found by its value, so that 1, 1.0 and "1" are one label. */
#ifndef BO_IO_CATEGORIES_H
#define BO_IO_CATEGORIES_H

#include "../base/base.h"

enum { BO_MAX_CATEGORIES = 1 << 16 };

typedef struct bo_category {
    char *text;
    double number;
    bool numeric;
} bo_category;

/* `table` is open addressed: index + 1 of an item, or 0. */
typedef struct bo_categories {
    bo_category *items;
    size_t count, capacity;
    uint32_t *table;
    size_t table_size;
} bo_categories;

void bo_categories_free(bo_categories *set);
/* text NULL: the number. SIZE_MAX: not there. */
size_t bo_categories_find(const bo_categories *set, double number, const char *text);
/* Adds what is not there yet; BO_INVALID without a message when there would be more than BO_MAX_CATEGORIES. */
bo_status bo_categories_add(bo_context *context, bo_categories *set, double number, const char *text);
/* A label as it stands in a saved schema: a number when it reads as one. */
bo_status bo_categories_add_label(bo_context *context, bo_categories *set, const char *label);
/* By value when all are numbers, else by bytes of the text. */
void bo_categories_sort(bo_categories *set);

#endif
