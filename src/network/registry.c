/* The types of layers. A new one is a line in the table of its file, with its fields and a function that records it. */
#include <string.h>
#include "internal.h"

static const bo_layer_type *const tables[] = {bo_layers_plain,    bo_layers_join,     bo_layers_noise, bo_layers_grid,
                                              bo_layers_features, bo_layers_sequence, bo_layers_graph};

const bo_layer_type *bo_layer_type_at(size_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const bo_layer_type *type = tables[t]; type->name; type++)
            if (index-- == 0) return type;
    return NULL;
}

const bo_layer_type *bo_layer_type_find(const char *name)
{
    const bo_layer_type *type;
    for (size_t i = 0; (type = bo_layer_type_at(i)); i++)
        if (bo_same_name(name, type->name)) return type;
    return NULL;
}

/* Levenshtein's distance, of short words; beyond 40 letters: many. */
size_t bo_word_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    size_t row[MOST + 1];
    const size_t rows = strlen(a), columns = strlen(b);
    if (strcmp(a, b) == 0) return 0;
    if (rows > MOST || columns > MOST) return MOST;
    for (size_t j = 0; j <= columns; j++) row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[columns];
}

const char *bo_layer_type_nearest(const char *name)
{
    const bo_layer_type *type;
    const char *nearest = NULL;
    size_t best = strlen(name) / 2 + 1;
    for (size_t i = 0; (type = bo_layer_type_at(i)); i++) {
        size_t distance = bo_word_distance(name, type->name);
        if (strncmp(type->name, name, strlen(type->name)) == 0) distance = 1; /* conv2d, linear_layer */
        if (distance < best) best = distance, nearest = type->name;
    }
    return nearest;
}
