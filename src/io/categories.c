/* Sets of labels: add, find by number or text, sort. */
#include "categories.h"
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bo_categories_free(bo_categories *set)
{
    for (size_t i = 0; i < set->count; ++i) bo_free(set->items[i].text);
    bo_free(set->items);
    bo_free(set->table);
    memset(set, 0, sizeof *set);
}

uint64_t bo_label_hash(double number, const char *text)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    if (text) {
        for (const char *p = text; *p; ++p) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    } else {
        number += 0.0; /* -0 becomes 0 */
        memcpy(&hash, &number, sizeof hash);
    }
    hash ^= hash >> 33;
    hash *= 0xff51afd7ed558ccdu;
    return hash ^ hash >> 33;
}

static bool same_label(const bo_category *item, double number, const char *text)
{
    if (item->numeric != !text) return false;
    return text ? strcmp(item->text, text) == 0 : item->number == number;
}

/* The slot of the label, or the free slot for it. */
static size_t locate(const bo_categories *set, double number, const char *text)
{
    size_t at = (size_t)bo_label_hash(number, text) & (set->table_size - 1);
    while (set->table[at] && !same_label(&set->items[set->table[at] - 1], number, text))
        at = (at + 1) & (set->table_size - 1);
    return at;
}

size_t bo_categories_find(const bo_categories *set, double number, const char *text)
{
    if (set->table_size == 0) return SIZE_MAX;
    uint32_t found = set->table[locate(set, number, text)];
    return found ? found - 1 : SIZE_MAX;
}

static void rebuild(bo_categories *set)
{
    memset(set->table, 0, set->table_size * sizeof *set->table);
    for (size_t i = 0; i < set->count; ++i) {
        const bo_category *item = &set->items[i];
        set->table[locate(set, item->number, item->numeric ? NULL : item->text)] = (uint32_t)i + 1;
    }
}

static bo_status grow(bo_context *context, bo_categories *set)
{
    size_t capacity = set->capacity ? 2 * set->capacity : 16;
    bo_category *items = bo_realloc(context, set->items, capacity, sizeof *items, "categories");
    if (!items) return BO_MEMORY;
    set->items = items;
    uint32_t *table = bo_alloc(context, 4 * capacity, sizeof *table, "categories");
    if (!table) return BO_MEMORY;
    bo_free(set->table);
    set->capacity = capacity;
    set->table = table;
    set->table_size = 4 * capacity;
    rebuild(set);
    return BO_OK;
}

bo_status bo_categories_add(bo_context *context, bo_categories *set, double number, const char *text)
{
    if (bo_categories_find(set, number, text) != SIZE_MAX) return BO_OK;
    if (set->count == BO_MAX_CATEGORIES) return BO_INVALID;
    if (set->count == set->capacity) BO_TRY(grow(context, set));
    char formatted[BO_NUMBER_TEXT];
    if (!text) bo_number_format(number + 0.0, formatted, sizeof formatted);
    char *copy = bo_strdup(context, text ? text : formatted);
    if (!copy) return BO_MEMORY;
    size_t at = locate(set, number, text);
    set->items[set->count] = (bo_category){copy, text ? 0 : number + 0.0, !text};
    set->table[at] = (uint32_t)++set->count;
    return BO_OK;
}

bo_status bo_categories_add_label(bo_context *context, bo_categories *set, const char *label)
{
    double number;
    const char *end = label + strlen(label);
    const bool numeric =
        bo_cell_read(label, end, &number) == BO_CELL_NUMBER && isfinite(number) && !bo_is_code(label, end);
    return bo_categories_add(context, set, numeric ? number : 0, numeric ? NULL : label);
}

static int by_number(const void *a, const void *b)
{
    double x = ((const bo_category *)a)->number, y = ((const bo_category *)b)->number;
    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const bo_category *)a)->text, ((const bo_category *)b)->text);
}

void bo_categories_sort(bo_categories *set)
{
    bool numeric = true;
    for (size_t i = 0; i < set->count; ++i) numeric &= set->items[i].numeric;
    if (set->count == 0) return;
    qsort(set->items, set->count, sizeof *set->items, numeric ? by_number : by_text);
    rebuild(set);
}
