/* The types of layers. To add a type, add an entry to the table of its file, with its fields and a function that
 * records it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

static const bo_layer_type *const tables[] = {bo_layers_plain,    bo_layers_join,     bo_layers_noise, bo_layers_grid,
                                              bo_layers_features, bo_layers_sequence, bo_layers_graph, bo_layers_block};

/* NULL after the last */
static const bo_layer_type *type_at(size_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const bo_layer_type *type = tables[t]; type->name; type++)
            if (index-- == 0) return type;
    return NULL;
}

const bo_layer_type *bo_layer_type_find(const char *name)
{
    const bo_layer_type *type;
    for (size_t i = 0; (type = type_at(i)); i++)
        if (bo_same_name(name, type->name)) return type;
    return NULL;
}

/* Levenshtein distance of short words; words longer than 40 letters are treated as different. */
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
    for (size_t i = 0; (type = type_at(i)); i++) {
        size_t distance = bo_word_distance(name, type->name);
        if (strncmp(type->name, name, strlen(type->name)) == 0) distance = 1; /* finds conv2d, linear_layer */
        if (distance < best) best = distance, nearest = type->name;
    }
    return nearest;
}

/* ====================================================================================================================
 * Options of a layer: members of its object, according to the fields of its type. */

/* ---- one value: returns NULL if it is valid, otherwise what was expected ----------------------------------------- */

static const char *read_count(const cJSON *item, size_t *out)
{
    size_t value;
    if (!bo_json_size(item, &value) || value == 0 || value > BO_NETWORK_SIZE)
        return "a whole number from 1 to 16777216";
    *out = value;
    return NULL;
}

static bool read_both(const cJSON *item, size_t least, size_t out[2])
{
    const cJSON *first = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 0) : item;
    const cJSON *second = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 1) : item;
    if (cJSON_IsArray(item) && cJSON_GetArraySize(item) != 2) return false;
    if (!bo_json_size(first, &out[0]) || !bo_json_size(second, &out[1])) return false;
    return out[0] >= least && out[1] >= least && out[0] <= BO_NETWORK_SIZE && out[1] <= BO_NETWORK_SIZE;
}

static const char *read_padding(const cJSON *item, bo_layer_options *options)
{
    const char *text = cJSON_GetStringValue(item);
    if (text && strcmp(text, "same") == 0) {
        options->same = true;
        return NULL;
    }
    if (text && strcmp(text, "causal") == 0) {
        options->causal = true;
        return NULL;
    }
    if (read_both(item, 0, options->padding)) return NULL;
    return "\"same\", \"causal\", a whole number up to 16777216, or [height, width] of them";
}

static const char *read_width(const cJSON *item, bo_width *out)
{
    static const char *const symbols[] = {"classes", "targets", "input"};
    const char *text = cJSON_GetStringValue(item);
    for (size_t i = 0; text && i < 3; i++)
        if (strcmp(text, symbols[i]) == 0) {
            out->symbol = (bo_symbol)(i + 1);
            return NULL;
        }
    return text || read_count(item, &out->value) ? "a whole number from 1 to 16777216, \"classes\", \"targets\" or "
                                                   "\"input\""
                                                 : NULL;
}

/* Lists the names of a field. */
static const char *list_names(const bo_layer_field *field, char out[512])
{
    size_t used = (size_t)snprintf(out, 512, "one of");
    for (unsigned i = 0, listed = 0; field->names(i) && used < 480; i++)
        if (*field->names(i)) /* "" has a number, but cannot be written */
            used += (size_t)snprintf(out + used, 512 - used, "%s %s", listed++ ? "," : "", field->names(i));
    return out;
}

static const char *read_name(const bo_layer_field *field, const cJSON *item, unsigned *out, char words[512])
{
    const char *text = cJSON_GetStringValue(item);
    char number[24];
    if (cJSON_IsNumber(item)) { /* "degree": 2 */
        snprintf(number, sizeof number, "%.15g", item->valuedouble);
        text = number;
    }
    if (text && field->find && field->find(text)) text = field->find(text);
    for (unsigned i = 0; text && field->names(i); i++)
        if (*text && bo_same_name(text, field->names(i))) {
            *out = i;
            return NULL;
        }
    return list_names(field, words);
}

static const char *read_real(const bo_layer_field *field, const cJSON *item, double *out, char words[512])
{
    const double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (isfinite(value) && value >= field->least && (field->most <= field->least || value < field->most)) {
        *out = value;
        return NULL;
    }
    if (field->most > field->least)
        snprintf(words, 512, "a number from %g to less than %g", field->least, field->most);
    else
        snprintf(words, 512, "a number of %g or more", field->least);
    return words;
}

static const char *read_value(const bo_layer_field *field, const cJSON *item, bo_layer_options *options,
                              char words[512])
{
    void *at = (char *)options + field->offset;
    switch (field->kind) {
    case BO_FIELD_COUNT:
        return read_count(item, at);
    case BO_FIELD_PAIR:
        return read_both(item, 1, at) ? NULL : "a whole number from 1 to 16777216, or [height, width] of them";
    case BO_FIELD_PADDING:
        return read_padding(item, options);
    case BO_FIELD_WIDTH:
        return read_width(item, at);
    case BO_FIELD_REAL:
        return read_real(field, item, at, words);
    case BO_FIELD_NAME:
        return read_name(field, item, at, words);
    case BO_FIELD_BOOL:
        break;
    }
    *(bool *)at = cJSON_IsTrue(item);
    return cJSON_IsBool(item) ? NULL : "true or false";
}

/* ---- all options ------------------------------------------------------------------------------------------------- */

static void set_default(const bo_layer_field *field, bo_layer_options *options)
{
    void *at = (char *)options + field->offset;
    switch (field->kind) {
    case BO_FIELD_COUNT:
        *(size_t *)at = (size_t)field->otherwise;
        break;
    case BO_FIELD_PAIR:
        ((size_t *)at)[0] = ((size_t *)at)[1] = (size_t)field->otherwise;
        break;
    case BO_FIELD_WIDTH:
        ((bo_width *)at)->value = (size_t)field->otherwise;
        break;
    case BO_FIELD_REAL:
        *(double *)at = field->otherwise;
        break;
    case BO_FIELD_NAME:
        *(unsigned *)at = (unsigned)field->otherwise;
        break;
    case BO_FIELD_BOOL:
        *(bool *)at = field->otherwise != 0;
        break;
    case BO_FIELD_PADDING:
        break;
    }
}

bo_status bo_json_refuse(bo_context *context, const char *where, const char *name, const char *expected,
                         const cJSON *item)
{
    char *found = cJSON_PrintUnformatted(item);
    const bo_status status = bo_fail(context, BO_FORMAT, "%s: \"%.60s\" should be %s, found %.80s", where, name,
                                     expected, found ? found : "something else");
    cJSON_free(found);
    return status;
}

bo_status bo_json_known(bo_context *context, const char *where, const cJSON *json, size_t count,
                        const char *const *names)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        const char *nearest = NULL;
        size_t best = 3;
        bool known = false;
        for (size_t i = 0; !known && i < count; i++) {
            const size_t distance = bo_word_distance(item->string, names[i]);
            known = distance == 0;
            if (distance < best) best = distance, nearest = names[i];
        }
        if (known && item == cJSON_GetObjectItemCaseSensitive(json, item->string)) continue;
        if (known) return bo_fail(context, BO_FORMAT, "%s: has the field \"%.60s\" twice", where, item->string);
        return bo_fail(context, BO_FORMAT, "%s: has no field \"%.60s\"%s%s%s", where, item->string,
                       nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return BO_OK;
}

bo_status bo_fields_read(bo_context *context, const char *where, const bo_layer *layer, const cJSON *json,
                         bo_layer_options *out)
{
    enum { MOST = 32 };
    static const char *const common[] = {"name", "type", "from"};
    const char *names[MOST];
    size_t count = 0;
    char place[400], words[512];
    snprintf(place, sizeof place, "%.200s: %s", where, bo_layer_name(layer).text);
    snprintf(words, sizeof words, "%.300s: %s", place, layer->type->name);
    for (; count < 3; count++) names[count] = common[count];
    for (size_t i = 0; i < layer->type->field_count; i++) names[count++] = layer->type->fields[i].name;
    BO_TRY(bo_json_known(context, words, json, count, names)); /* first, since a missing option may be misspelled */
    for (size_t i = 0; i < layer->type->field_count; i++) {
        const bo_layer_field *field = &layer->type->fields[i];
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, field->name);
        set_default(field, out);
        if (!item && field->required) return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing", place, field->name);
        const char *expected = item ? read_value(field, item, out, words) : NULL;
        if (expected) return bo_json_refuse(context, place, field->name, expected, item);
    }
    return BO_OK;
}
